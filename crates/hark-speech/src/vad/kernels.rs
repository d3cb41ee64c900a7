//! The four kernels of the voice-activity network, for whichever vectors this CPU has.
//!
//! Layouts: activations are `[channel][chunk]` with the chunks of a batch side by side, so that one vector
//! holds one channel of 4, 8 or 16 chunks and nothing is ever shuffled. Weights are [`Panels`]. Cost of one
//! 512-sample chunk: 287 k multiply-adds in products over the batch, 66 k in the recurrent matrix (256 KiB
//! read from L2, the only part that can't be batched), and four 256-point Fourier transforms.

use super::fourier::{self, Fourier};
#[cfg(target_arch = "x86_64")]
use super::lanes::{Avx2, Avx512};
use super::lanes::{Lanes, Portable};

/// Samples the network takes per probability.
pub(super) const CHUNK: usize = 512;
/// Samples of the previous chunk that are put before each chunk.
pub(super) const CONTEXT: usize = 64;
/// Fourier frames of a chunk, 128 samples apart.
pub(super) const FRAMES: usize = 4;
/// Frequency bins of a frame.
pub(super) const BINS: usize = 129;
/// Units of the recurrent cell; it has four gates of as many.
pub(super) const UNITS: usize = 128;

/// Floats in a cache line: the granule of every buffer, and the widest vector.
pub(super) const LINE: usize = 16;

/// One cache line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Line(pub(super) [f32; LINE]);

/// A buffer of zeros that starts on a cache line, so that no 64-byte load straddles two.
#[derive(Default)]
pub(super) struct Aligned {
    lines: Vec<Line>,
}

impl Aligned {
    /// Room for at least `floats`.
    pub(super) fn zeroed(floats: usize) -> Self {
        Aligned { lines: vec![Line([0.0; LINE]); floats.div_ceil(LINE)] }
    }

    /// Grows to at least `floats`; never shrinks.
    pub(super) fn reserve(&mut self, floats: usize) {
        let lines = floats.div_ceil(LINE);
        if self.lines.len() < lines {
            self.lines.resize(lines, Line([0.0; LINE]));
        }
    }
}

impl std::ops::Deref for Aligned {
    type Target = [f32];
    fn deref(&self) -> &[f32] {
        // SAFETY: `Line` is `repr(C)` over 16 floats and 64 bytes long, so the lines are one run of floats.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), self.lines.len() * LINE) }
    }
}

impl std::ops::DerefMut for Aligned {
    fn deref_mut(&mut self) -> &mut [f32] {
        // SAFETY: as for `deref`; the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.lines.len() * LINE) }
    }
}

/// A `rows × depth` matrix cut into panels of `width` rows, each stored depth by depth.
pub(super) struct Panels {
    pub(super) rows: usize,
    pub(super) depth: usize,
    pub(super) width: usize,
    pub(super) data: Aligned,
}

impl Panels {
    /// Packs a matrix given by its entries `(row, depth)`; `width` is a multiple of 16 and divides `rows`.
    pub(super) fn pack(rows: usize, depth: usize, width: usize, entry: impl Fn(usize, usize) -> f32) -> Self {
        assert!(width.is_multiple_of(LINE) && rows.is_multiple_of(width));
        let mut data = Aligned::zeroed(rows * depth);
        for row in 0..rows {
            for k in 0..depth {
                data[(row / width) * width * depth + k * width + row % width] = entry(row, k);
            }
        }
        Panels { rows, depth, width, data }
    }
}

/// The left side of a product: entry `(row, k)` stands at `(row / 16) * panel + k * step + row % 16`.
#[derive(Clone, Copy)]
pub(super) struct Left<'a> {
    pub(super) data: &'a [f32],
    pub(super) panel: usize,
    pub(super) step: usize,
    pub(super) rows: usize,
    pub(super) depth: usize,
}

/// One set of kernels, compiled for one kind of CPU.
#[derive(Clone, Copy)]
#[allow(clippy::type_complexity)]
pub(super) struct Kernels {
    pub(super) name: &'static str,
    product: unsafe fn(Left, &[f32], usize, usize, Option<&[f32]>, &mut [f32]),
    accumulate: unsafe fn(&Panels, usize, &[f32], &mut [f32]),
    spectrum: unsafe fn(&Fourier, &[f32], &[f32], usize, &mut [f32]),
    spectrum_of_one: unsafe fn(&Fourier, &[f32], f32, &mut [f32]),
    cell: unsafe fn(&[f32], &[f32], &mut [f32], &mut [f32]),
}

impl Kernels {
    /// The fastest set this CPU can run.
    pub(super) fn detect() -> Self {
        *Self::available().last().expect("the portable kernels run everywhere")
    }

    /// Every set this CPU can run, slowest first.
    pub(super) fn available() -> Vec<Self> {
        #[allow(unused_mut)]
        let mut sets = vec![portable::KERNELS];
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                sets.push(avx2::KERNELS);
                if is_x86_feature_detected!("avx512f") {
                    sets.push(avx512::KERNELS);
                }
            }
        }
        sets
    }

    /// `out[row][col] = Σ_k left[row][k] · right[k][col]`, over `columns` columns (a multiple of 16) of rows
    /// that lie `stride` apart; with a bias per row, that is added and what is negative becomes zero.
    pub(super) fn product(
        &self,
        left: Left,
        right: &[f32],
        columns: usize,
        stride: usize,
        bias: Option<&[f32]>,
        out: &mut [f32],
    ) {
        assert!(left.rows.is_multiple_of(LINE) && columns.is_multiple_of(LINE) && columns <= stride);
        assert!(left.rows > 0 && left.depth > 0 && left.step >= LINE && columns > 0);
        assert!(left.data.len() >= (left.rows / LINE - 1) * left.panel + (left.depth - 1) * left.step + LINE);
        assert!(right.len() >= (left.depth - 1) * stride + columns);
        assert!(out.len() >= (left.rows - 1) * stride + columns);
        assert!(bias.is_none_or(|b| b.len() >= left.rows));
        // SAFETY: the set was made only where its CPU features were detected; the bounds are checked above.
        unsafe { (self.product)(left, right, columns, stride, bias, out) }
    }

    /// `out[row] += Σ_k weights[row][first + k] · x[k]` for all rows.
    pub(super) fn accumulate(&self, weights: &Panels, first: usize, x: &[f32], out: &mut [f32]) {
        assert!(weights.rows.is_multiple_of(4 * LINE) && out.len() >= weights.rows);
        assert!(first + x.len() <= weights.depth && weights.data.len() >= weights.rows * weights.depth);
        // SAFETY: as above; `width` divides `rows`, so every panel is whole.
        unsafe { (self.accumulate)(weights, first, x, out) }
    }

    /// Magnitudes `out[frame][bin][chunk]` of as many chunks as there are `gains`, each with its context made louder
    /// by its gain; `audio` holds the context and then the chunks; `stride` (a multiple of 16) is the distance between bins. Columns past the last chunk are filled, too.
    pub(super) fn spectrum(&self, fourier: &Fourier, audio: &[f32], gains: &[f32], stride: usize, out: &mut [f32]) {
        let chunks = gains.len();
        assert!(chunks > 0 && chunks <= stride && stride.is_multiple_of(LINE));
        assert!(audio.len() >= CONTEXT + chunks * CHUNK && out.len() >= FRAMES * BINS * stride);
        // SAFETY: as above.
        unsafe { (self.spectrum)(fourier, audio, gains, stride, out) }
    }

    /// Magnitudes `out[bin][frame]` of one chunk after its context, bins 16 apart.
    pub(super) fn spectrum_of_one(&self, fourier: &Fourier, audio: &[f32], gain: f32, out: &mut [f32]) {
        assert!(audio.len() >= CONTEXT + CHUNK && out.len() >= BINS * LINE);
        // SAFETY: as above.
        unsafe { (self.spectrum_of_one)(fourier, audio, gain, out) }
    }

    /// One step of the recurrent cell: sums of the gates (input, forget, new, output) and their bias in,
    /// `cell` and `hidden` replaced.
    pub(super) fn cell(&self, sums: &[f32], bias: &[f32], cell: &mut [f32], hidden: &mut [f32]) {
        assert!(sums.len() >= 4 * UNITS && bias.len() >= 4 * UNITS && cell.len() >= UNITS && hidden.len() >= UNITS);
        // SAFETY: as above.
        unsafe { (self.cell)(sums, bias, cell, hidden) }
    }
}

/// Compiles the generic kernels for one implementation of `Lanes`, with tiles of `$rows` rows × 3 vectors:
/// as many sums as its registers hold.
macro_rules! kernel_set {
    ($module:ident, $name:literal, $lanes:ty, $rows:literal $(, $feature:literal)?) => {
        mod $module {
            use super::*;
            pub(super) const KERNELS: Kernels =
                Kernels { name: $name, product, accumulate, spectrum, spectrum_of_one, cell };

            // SAFETY (all five): the safe methods of `Kernels` check the bounds, and `Kernels::available` the CPU.
            $(#[target_feature(enable = $feature)])?
            unsafe fn product(
                left: Left, right: &[f32], columns: usize, stride: usize, bias: Option<&[f32]>, out: &mut [f32],
            ) {
                // SAFETY: see above.
                unsafe { super::product::<$lanes, $rows>(left, right, columns, stride, bias, out) }
            }
            $(#[target_feature(enable = $feature)])?
            unsafe fn accumulate(weights: &Panels, first: usize, x: &[f32], out: &mut [f32]) {
                // SAFETY: see above.
                unsafe { super::accumulate::<$lanes>(weights, first, x, out) }
            }
            $(#[target_feature(enable = $feature)])?
            unsafe fn spectrum(fourier: &Fourier, audio: &[f32], gains: &[f32], stride: usize, out: &mut [f32]) {
                // SAFETY: see above.
                unsafe { fourier::spectrum::<$lanes>(fourier, audio, gains, stride, out) }
            }
            $(#[target_feature(enable = $feature)])?
            unsafe fn spectrum_of_one(fourier: &Fourier, audio: &[f32], gain: f32, out: &mut [f32]) {
                // SAFETY: see above.
                unsafe { fourier::spectrum_of_one::<$lanes>(fourier, audio, gain, out) }
            }
            $(#[target_feature(enable = $feature)])?
            unsafe fn cell(sums: &[f32], bias: &[f32], cell: &mut [f32], hidden: &mut [f32]) {
                // SAFETY: see above.
                unsafe { super::cell::<$lanes>(sums, bias, cell, hidden) }
            }
        }
    };
}

kernel_set!(portable, "portable", Portable, 4);
#[cfg(target_arch = "x86_64")]
kernel_set!(avx2, "avx2", Avx2, 4, "avx2,fma");
#[cfg(target_arch = "x86_64")]
kernel_set!(avx512, "avx512", Avx512, 8, "avx512f,avx2,fma");

// From here on: one body per kernel, over any `Lanes`. SAFETY of every block below: the callers are the
// functions above, so the CPU has the features and the slices reach as far as the loops go.

/// Columns outside, rows inside: the columns of `right` stay in L1 while the weights stream from L2.
#[inline(always)]
unsafe fn product<L: Lanes, const ROWS: usize>(
    left: Left,
    right: &[f32],
    columns: usize,
    stride: usize,
    bias: Option<&[f32]>,
    out: &mut [f32],
) {
    let mut column = 0;
    while column < columns {
        let vectors = ((columns - column) / L::LANES).min(3);
        for row in (0..left.rows).step_by(ROWS) {
            // SAFETY: `row + ROWS <= rows` since ROWS divides 16, and the tile's columns end by `columns`.
            unsafe {
                let a = left.data.as_ptr().add((row / LINE) * left.panel + row % LINE);
                let b = right.as_ptr().add(column);
                let to = out.as_mut_ptr().add(row * stride + column);
                let bias = bias.map(|bias| bias.as_ptr().add(row));
                match vectors {
                    3 => tile::<L, ROWS, 3>(a, left.step, left.depth, b, stride, bias, to),
                    2 => tile::<L, ROWS, 2>(a, left.step, left.depth, b, stride, bias, to),
                    _ => tile::<L, ROWS, 1>(a, left.step, left.depth, b, stride, bias, to),
                }
            }
        }
        column += vectors * L::LANES;
    }
}

#[inline(always)]
unsafe fn tile<L: Lanes, const ROWS: usize, const VECTORS: usize>(
    mut a: *const f32,
    a_step: usize,
    depth: usize,
    mut b: *const f32,
    stride: usize,
    bias: Option<*const f32>,
    out: *mut f32,
) {
    // SAFETY: `a` has ROWS floats at each of `depth` steps, `b` and `out` VECTORS vectors on each row.
    unsafe {
        let mut sums = [[L::splat(0.0); VECTORS]; ROWS];
        for _ in 0..depth {
            let mut x = [L::splat(0.0); VECTORS];
            for (v, x) in x.iter_mut().enumerate() {
                *x = L::load(b.add(v * L::LANES));
            }
            for (r, sums) in sums.iter_mut().enumerate() {
                let weight = L::splat(*a.add(r));
                for v in 0..VECTORS {
                    sums[v] = L::fma(weight, x[v], sums[v]);
                }
            }
            // Wrapping, since the step after the last row may leave the allocation (it is not read).
            a = a.wrapping_add(a_step);
            b = b.wrapping_add(stride);
        }
        for (r, sums) in sums.iter().enumerate() {
            for (v, sum) in sums.iter().enumerate() {
                let sum = match bias {
                    Some(bias) => L::max(L::add(*sum, L::splat(*bias.add(r))), L::splat(0.0)),
                    None => *sum,
                };
                L::store(out.add(r * stride + v * L::LANES), sum);
            }
        }
    }
}

/// Eight sums at a time: four cycles of latency times two multiply-add ports.
#[inline(always)]
unsafe fn accumulate<L: Lanes>(weights: &Panels, first: usize, x: &[f32], out: &mut [f32]) {
    let mut row = 0;
    while row < weights.rows {
        // SAFETY: the rows of a call end by `rows`, since 4 · 16 divides it and LANES divides 16.
        unsafe {
            if weights.rows - row >= 8 * L::LANES {
                accumulate_rows::<L, 8>(weights, first, x, row, out);
                row += 8 * L::LANES;
            } else {
                accumulate_rows::<L, 4>(weights, first, x, row, out);
                row += 4 * L::LANES;
            }
        }
    }
}

#[inline(always)]
unsafe fn accumulate_rows<L: Lanes, const VECTORS: usize>(
    weights: &Panels,
    first: usize,
    x: &[f32],
    row: usize,
    out: &mut [f32],
) {
    let width = weights.width;
    // SAFETY: vectors of rows below `rows`, each inside one panel since LANES divides its width.
    unsafe {
        let out = out.as_mut_ptr().add(row);
        let mut from = [std::ptr::null(); VECTORS];
        let mut sums = [L::splat(0.0); VECTORS];
        for v in 0..VECTORS {
            let row = row + v * L::LANES;
            let offset = (row / width) * width * weights.depth + first * width + row % width;
            from[v] = weights.data.as_ptr().add(offset);
            sums[v] = L::load(out.add(v * L::LANES));
        }
        for (k, &x) in x.iter().enumerate() {
            let x = L::splat(x);
            for v in 0..VECTORS {
                sums[v] = L::fma(x, L::load(from[v].add(k * width)), sums[v]);
            }
        }
        for v in 0..VECTORS {
            L::store(out.add(v * L::LANES), sums[v]);
        }
    }
}

#[inline(always)]
unsafe fn cell<L: Lanes>(sums: &[f32], bias: &[f32], cell: &mut [f32], hidden: &mut [f32]) {
    for unit in (0..UNITS).step_by(L::LANES) {
        // SAFETY: `unit + LANES <= 128`, and the four gates have 128 sums and biases each.
        unsafe {
            let gate = |g: usize| {
                let at = g * UNITS + unit;
                L::add(L::load(sums.as_ptr().add(at)), L::load(bias.as_ptr().add(at)))
            };
            let (input, forget, output) = (sigmoid::<L>(gate(0)), sigmoid::<L>(gate(1)), sigmoid::<L>(gate(3)));
            let new = tanh::<L>(gate(2));
            let old = L::load(cell.as_ptr().add(unit));
            let now = L::fma(forget, old, L::mul(input, new));
            L::store(cell.as_mut_ptr().add(unit), now);
            L::store(hidden.as_mut_ptr().add(unit), L::mul(output, tanh::<L>(now)));
        }
    }
}

#[inline(always)]
unsafe fn sigmoid<L: Lanes>(x: L::V) -> L::V {
    // SAFETY: arithmetic only; the CPU has the features.
    unsafe {
        let one = L::splat(1.0);
        L::div(one, L::add(one, exp::<L>(L::sub(L::splat(0.0), x))))
    }
}

#[inline(always)]
unsafe fn tanh<L: Lanes>(x: L::V) -> L::V {
    // SAFETY: arithmetic only; the CPU has the features.
    unsafe {
        let two = L::splat(2.0);
        L::sub(L::mul(two, sigmoid::<L>(L::mul(two, x))), L::splat(1.0))
    }
}

/// `e^x` by `2^n · e^r`, |r| ≤ ln 2 / 2, with the Taylor series to r⁶: relative error below 3e-7. Clamped to
/// ±80, beyond which a sigmoid is 0 or 1 in `f32`.
#[inline(always)]
unsafe fn exp<L: Lanes>(x: L::V) -> L::V {
    // SAFETY: arithmetic only; the CPU has the features.
    unsafe {
        let x = L::min(L::max(x, L::splat(-80.0)), L::splat(80.0));
        let (n, power) = L::nearest_and_power(L::mul(x, L::splat(std::f32::consts::LOG2_E)));
        // ln 2 in two parts, the first short enough for an exact product with n.
        let r = L::fnma(n, L::splat(0.693_359_4), x);
        let r = L::fnma(n, L::splat(-2.121_944_4e-4), r);
        let mut sum = L::splat(1.0 / 720.0);
        for factor in [1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
            sum = L::fma(sum, r, L::splat(factor));
        }
        L::mul(sum, power)
    }
}

#[cfg(test)]
#[path = "kernels_tests.rs"]
mod tests;
