//! The inner loop of the resampler: `N` dot products with one shared row.
//!
//! Shapes: `row` has a multiple of [`LANES`] floats, stretch `n` of `input` starts at `n · stride` and is as long. Cost: `N · row.len()`
//! multiply-adds and `(N + 1) / N` loads for each group of them.

/// Rows are padded to whole groups of this many floats, the widest register.
pub(crate) const LANES: usize = 16;

/// Which instructions the loop uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kernel {
    /// Whatever the compiler makes of the plain loop.
    Plain,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Kernel {
    /// The fastest that this processor has.
    pub(crate) fn best() -> Self {
        Self::all().pop().unwrap_or(Kernel::Plain)
    }

    /// All that this processor has, the fastest last. The other kernels must only come from here.
    fn all() -> Vec<Self> {
        #[allow(unused_mut)]
        let mut all = vec![Kernel::Plain];
        #[cfg(target_arch = "x86_64")]
        {
            if std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("fma") {
                all.push(Kernel::Avx2);
            }
            if std::is_x86_feature_detected!("avx512f") {
                all.push(Kernel::Avx512);
            }
        }
        all
    }

    /// The dot products of `row` with `N` stretches of `input`.
    #[inline]
    pub(crate) fn dots<const N: usize>(self, input: &[f32], stride: usize, row: &[f32]) -> [f32; N] {
        assert_eq!(row.len() % LANES, 0);
        let mut inputs = [&input[..0]; N];
        for (n, stretch) in inputs.iter_mut().enumerate() {
            *stretch = &input[n * stride..][..row.len()];
        }
        match self {
            Kernel::Plain => inputs.map(|input| dot(input, row)),
            // SAFETY: `all` lists these kernels only on processors that have their features; every stretch is as long as the row,
            // and that is a multiple of `LANES`.
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2 => unsafe { dots_avx2(inputs, row) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512 => unsafe { dots_avx512(inputs, row) },
        }
    }
}

/// One dot product, plainly.
fn dot(input: &[f32], row: &[f32]) -> f32 {
    let mut sums = [0.0f32; LANES];
    for (input, row) in input.chunks_exact(LANES).zip(row.chunks_exact(LANES)) {
        for lane in 0..LANES {
            sums[lane] += input[lane] * row[lane];
        }
    }
    sums.iter().sum()
}

/// # Safety
/// The inputs must be as long as the row, and that a multiple of `LANES`.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn dots_avx2<const N: usize>(inputs: [&[f32]; N], row: &[f32]) -> [f32; N] {
    use std::arch::x86_64::*;
    let mut sums = [_mm256_setzero_ps(); N];
    for at in (0..row.len()).step_by(8) {
        // SAFETY: `at + 8` is at most the length of the row and of each input, as the caller promises.
        unsafe {
            let row = _mm256_loadu_ps(row.as_ptr().add(at));
            for n in 0..N {
                let input = _mm256_loadu_ps(inputs[n].as_ptr().add(at));
                sums[n] = _mm256_fmadd_ps(input, row, sums[n]);
            }
        }
    }
    let mut totals = [0.0; N];
    for n in 0..N {
        let mut lanes = [0.0f32; 8];
        // SAFETY: the target has room for the eight lanes.
        unsafe { _mm256_storeu_ps(lanes.as_mut_ptr(), sums[n]) };
        totals[n] = lanes.iter().sum();
    }
    totals
}

/// # Safety
/// The inputs must be as long as the row, and that a multiple of `LANES`.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn dots_avx512<const N: usize>(inputs: [&[f32]; N], row: &[f32]) -> [f32; N] {
    use std::arch::x86_64::*;
    let mut sums = [_mm512_setzero_ps(); N];
    for at in (0..row.len()).step_by(LANES) {
        // SAFETY: `at + LANES` is at most the length of the row and of each input, as the caller promises.
        unsafe {
            let row = _mm512_loadu_ps(row.as_ptr().add(at));
            for n in 0..N {
                let input = _mm512_loadu_ps(inputs[n].as_ptr().add(at));
                sums[n] = _mm512_fmadd_ps(input, row, sums[n]);
            }
        }
    }
    let mut totals = [0.0; N];
    for n in 0..N {
        totals[n] = _mm512_reduce_add_ps(sums[n]);
    }
    totals
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_of_this_processor_equals_the_plain_one() {
        let mut state = 7u32;
        let mut random = |count: usize| -> Vec<f32> {
            (0..count)
                .map(|_| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    state as f32 / u32::MAX as f32 - 0.5
                })
                .collect()
        };
        for (length, stride) in [(16, 0), (16, 3), (432, 441), (480, 1), (3696, 24)] {
            let (row, input) = (random(length), random(length + 7 * stride));
            let plain = Kernel::Plain.dots::<8>(&input, stride, &row);
            assert_eq!(plain[3], dot(&input[3 * stride..][..length], &row));
            for kernel in Kernel::all() {
                let fast = kernel.dots::<8>(&input, stride, &row);
                for (plain, fast) in plain.iter().zip(&fast) {
                    assert!((plain - fast).abs() < 1e-4, "{kernel:?}, {length} by {stride}: {plain} and {fast}");
                }
            }
        }
    }
}
