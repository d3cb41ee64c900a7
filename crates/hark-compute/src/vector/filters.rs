//! Convolution of sound with a bank of filters in float32, for sets whose bf16 products are no quicker than float32's.
//!
//! Every row of the product is a window of the samples that begins a step after the one before. The filters stand in
//! panels of 16, tap by tap. Out come sums, 32 of a block of filters beside each other. A row costs 16 multiply-adds a
//! tap and panel. Where a unit multiplies bf16 many times quicker (AMX), three products of bf16 parts are quicker than
//! one of these.

use crate::Isa;
use crate::buffer::Buffer;
use crate::simd::Simd;
use crate::view::reach;

/// Filters of a panel.
const PANEL: usize = 16;
/// Sums of a row of a block: two panels.
const BLOCK: usize = 2 * PANEL;
/// Rows done together are a divisor of this, so no product writes beyond a multiple of it.
pub const FILTER_ROWS: usize = 12;

/// What multiplies: `(samples, step, rows, panel, taps, sums)`, for rows up to the next multiple of [`FILTER_ROWS`].
type Multiply = unsafe fn(*const f32, usize, usize, *const f32, usize, *mut f32);

/// A packed bank of filters.
pub struct Filters {
    /// `[panel][tap][16]`; what is missing to a whole panel is zero.
    panels: Buffer<f32>,
    filters: usize,
    taps: usize,
    multiply: Multiply,
}

impl Filters {
    /// Packs `weight(filter, tap)` for a set, which this machine must have; none where bf16 parts are quicker.
    pub fn pack(isa: Isa, filters: usize, taps: usize, weight: impl Fn(usize, usize) -> f32) -> Option<Self> {
        assert!(isa.is_available(), "this machine has no {}", isa.name());
        let multiply: Multiply = match isa {
            Isa::Amx => return None,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Bf16 | Isa::Avx512Vnni | Isa::Avx512 => multiply_avx512,
            #[cfg(target_arch = "x86_64")]
            Isa::AvxVnni | Isa::Avx2 => multiply_avx2,
            _ => multiply_plain,
        };
        let mut panels = Buffer::zeroed(filters.div_ceil(PANEL) * taps * PANEL);
        for filter in 0..filters {
            for tap in 0..taps {
                panels[(filter / PANEL * taps + tap) * PANEL + filter % PANEL] = weight(filter, tap);
            }
        }
        Some(Filters { panels, filters, taps, multiply })
    }

    /// `sums[row][32]` of one block of 32 filters over `rows` windows `step` samples apart; sums beyond the last panel
    /// stay as they are.
    ///
    /// # Panics
    /// When windows up to the next multiple of [`FILTER_ROWS`] reach beyond the samples, or 32 sums for each beyond
    /// `sums`.
    pub fn multiply(&self, samples: &[f32], step: usize, rows: usize, block: usize, sums: &mut [f32]) {
        let whole = rows.checked_next_multiple_of(FILTER_ROWS).expect("a count of rows that can be rounded up");
        let needed = reach(whole, self.taps, step);
        assert!(rows > 0 && needed.is_some_and(|needed| needed <= samples.len()), "windows lie within the samples");
        assert!(whole.checked_mul(BLOCK).is_some_and(|needed| needed <= sums.len()), "room for the sums");
        let panels = self.filters.div_ceil(PANEL);
        for panel in 2 * block..panels.min(2 * block + 2) {
            let weights = self.panels[panel * self.taps * PANEL..].as_ptr();
            // SAFETY: samples and sums were checked above; the panel is whole.
            unsafe {
                let sums = sums.as_mut_ptr().add(panel % 2 * PANEL);
                (self.multiply)(samples.as_ptr(), step, rows, weights, self.taps, sums);
            }
        }
    }
}

/// The same by its definition, one row after the other.
unsafe fn multiply_plain(
    samples: *const f32,
    step: usize,
    rows: usize,
    panel: *const f32,
    taps: usize,
    sums: *mut f32,
) {
    for row in 0..rows {
        let mut sum = [0f32; PANEL];
        for tap in 0..taps {
            // SAFETY: the caller vouches for the rows and the panel.
            let (x, weights) =
                unsafe { (*samples.add(row * step + tap), &*panel.add(tap * PANEL).cast::<[f32; PANEL]>()) };
            sum.iter_mut().zip(weights).for_each(|(sum, weight)| *sum += x * weight);
        }
        // SAFETY: the caller vouches for 16 sums of this row.
        unsafe { sums.add(row * BLOCK).cast::<[f32; PANEL]>().write_unaligned(sum) };
    }
}

/// `ROWS` rows of one panel at a time, in as many vectors as it takes.
///
/// # Safety
/// The machine has the vectors; rows up to the next multiple of `ROWS` lie within the samples and the sums.
#[inline(always)]
unsafe fn multiply<S: Simd, const ROWS: usize, const VECTORS: usize>(
    samples: *const f32,
    step: usize,
    rows: usize,
    panel: *const f32,
    taps: usize,
    sums: *mut f32,
) {
    const { assert!(FILTER_ROWS.is_multiple_of(ROWS) && VECTORS * S::LANES == PANEL) };
    for first in (0..rows).step_by(ROWS) {
        // SAFETY: the caller vouches for the rows, the panel and the sums.
        unsafe {
            let mut found = [[S::splat(0.0); VECTORS]; ROWS];
            let samples = samples.add(first * step);
            for tap in 0..taps {
                let mut weights = [S::splat(0.0); VECTORS];
                for (vector, weights) in weights.iter_mut().enumerate() {
                    *weights = S::load(panel.add(tap * PANEL + vector * S::LANES));
                }
                for (row, found) in found.iter_mut().enumerate() {
                    let x = S::splat(*samples.add(row * step + tap));
                    for vector in 0..VECTORS {
                        found[vector] = S::fma(x, weights[vector], found[vector]);
                    }
                }
            }
            for (row, found) in found.iter().enumerate() {
                for (vector, found) in found.iter().enumerate() {
                    S::store(sums.add((first + row) * BLOCK + vector * S::LANES), *found);
                }
            }
        }
    }
}

/// Six rows of two vectors: twelve sums, two of weights, one of sound.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn multiply_avx2(samples: *const f32, step: usize, rows: usize, panel: *const f32, taps: usize, sums: *mut f32) {
    // SAFETY: same contract.
    unsafe { multiply::<crate::simd::Avx2, 6, 2>(samples, step, rows, panel, taps, sums) }
}

/// Twelve rows of one vector, the sound being filled into a vector by the product itself.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn multiply_avx512(
    samples: *const f32,
    step: usize,
    rows: usize,
    panel: *const f32,
    taps: usize,
    sums: *mut f32,
) {
    // SAFETY: same contract.
    unsafe { multiply::<crate::simd::Avx512, 12, 1>(samples, step, rows, panel, taps, sums) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_multiplies_as_the_definition_does() {
        let (filters, taps, step) = (41, 23, 5);
        let mut state = 7u32;
        let mut random = |count: usize| -> Vec<f32> {
            let mut next = || {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                state as f32 / 2f32.powi(31) - 1.0
            };
            (0..count).map(|_| next()).collect()
        };
        let (samples, weights) = (random(400), random(filters * taps));
        for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
            let Some(bank) = Filters::pack(isa, filters, taps, |filter, tap| weights[filter * taps + tap]) else {
                assert_eq!(isa, Isa::Amx, "only tiles are quicker in parts");
                continue;
            };
            for rows in [1_usize, 12, 17, 48] {
                for block in 0..2 {
                    let mut sums = vec![f32::NAN; rows.next_multiple_of(FILTER_ROWS) * BLOCK];
                    bank.multiply(&samples, step, rows, block, &mut sums);
                    for (row, filter) in (0..rows).flat_map(|row| (0..BLOCK).map(move |filter| (row, filter))) {
                        if block * BLOCK + filter >= filters {
                            continue;
                        }
                        let weights = &weights[(block * BLOCK + filter) * taps..][..taps];
                        let sum: f32 = samples[row * step..].iter().zip(weights).map(|(x, weight)| x * weight).sum();
                        let off = (sums[row * BLOCK + filter] - sum).abs();
                        assert!(off < 1e-5, "{}: row {row}, filter {filter}, {off} off", isa.name());
                    }
                }
            }
        }
    }
}
