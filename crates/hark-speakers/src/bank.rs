//! Products of sound and a bank of filters in float32, for sets whose bf16 products are no quicker than float32's.
//!
//! In: samples, of which every row of a product is a window that begins a step after the one before. The filters stand in
//! panels of 16, tap by tap. Out: sums, 32 of a block of filters beside each other. A row costs 16 multiply-adds a tap and
//! panel. Where a unit multiplies bf16 many times quicker (AMX), three products of bf16 parts are quicker than one of these.

use hark_compute::Isa;
use hark_compute::buffer::Buffer;

/// Filters of a panel.
pub(crate) const PANEL: usize = 16;
/// Sums of a row of a block: two panels.
const BLOCK: usize = 2 * PANEL;
/// Rows done together are a divisor of this, so no product writes beyond a multiple of it.
pub(crate) const ROWS: usize = 12;

/// What multiplies: `(samples, step, rows, panel, taps, sums)`, for rows up to the next multiple of [`ROWS`].
type Multiply = unsafe fn(*const f32, usize, usize, *const f32, usize, *mut f32);

/// A packed bank.
pub(crate) struct Bank {
    /// `[panel][tap][16]`; what is missing to a whole panel is zero.
    panels: Buffer<f32>,
    filters: usize,
    taps: usize,
    multiply: Multiply,
}

impl Bank {
    /// Packs `weight(filter, tap)` for a set, which this machine must have; none where bf16 parts are quicker.
    pub(crate) fn pack(isa: Isa, filters: usize, taps: usize, weight: impl Fn(usize, usize) -> f32) -> Option<Self> {
        assert!(isa.is_available(), "this machine has no {}", isa.name());
        let multiply: Multiply = match isa {
            Isa::Amx => return None,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Bf16 | Isa::Avx512Vnni | Isa::Avx512 => vectors::multiply_avx512,
            #[cfg(target_arch = "x86_64")]
            Isa::AvxVnni | Isa::Avx2 => vectors::multiply_avx2,
            _ => multiply_plain,
        };
        let mut panels = Buffer::zeroed(filters.div_ceil(PANEL) * taps * PANEL);
        for filter in 0..filters {
            for tap in 0..taps {
                panels[(filter / PANEL * taps + tap) * PANEL + filter % PANEL] = weight(filter, tap);
            }
        }
        Some(Bank { panels, filters, taps, multiply })
    }

    /// `sums[row][32]` of one block of 32 filters; those beyond the last panel stay as they are.
    ///
    /// # Safety
    /// Rows up to the next multiple of [`ROWS`] must lie within the samples, and 32 sums for each within `sums`.
    pub(crate) unsafe fn multiply(&self, samples: *const f32, step: usize, rows: usize, block: usize, sums: *mut f32) {
        let panels = self.filters.div_ceil(PANEL);
        for panel in 2 * block..panels.min(2 * block + 2) {
            let weights = self.panels[panel * self.taps * PANEL..].as_ptr();
            // SAFETY: the caller vouches for samples and sums; the panel is whole.
            unsafe { (self.multiply)(samples, step, rows, weights, self.taps, sums.add(panel % 2 * PANEL)) };
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
        // SAFETY: as above.
        unsafe { sums.add(row * BLOCK).cast::<[f32; PANEL]>().write_unaligned(sum) };
    }
}

#[cfg(target_arch = "x86_64")]
mod vectors {
    use std::arch::x86_64::*;

    use super::{BLOCK, PANEL};

    /// Six rows of two vectors: twelve sums, two of weights, one of sound.
    #[target_feature(enable = "avx2,fma")]
    pub(super) unsafe fn multiply_avx2(
        samples: *const f32,
        step: usize,
        rows: usize,
        panel: *const f32,
        taps: usize,
        sums: *mut f32,
    ) {
        const ROWS: usize = 6;
        const { assert!(super::ROWS.is_multiple_of(ROWS)) };
        for first in (0..rows).step_by(ROWS) {
            let mut found = [[_mm256_setzero_ps(); 2]; ROWS];
            // SAFETY: the caller vouches for the rows, the panel and the sums.
            unsafe {
                let samples = samples.add(first * step);
                for tap in 0..taps {
                    let weights = panel.add(tap * PANEL);
                    let (left, right) = (_mm256_loadu_ps(weights), _mm256_loadu_ps(weights.add(8)));
                    for (row, found) in found.iter_mut().enumerate() {
                        let x = _mm256_broadcast_ss(&*samples.add(row * step + tap));
                        found[0] = _mm256_fmadd_ps(x, left, found[0]);
                        found[1] = _mm256_fmadd_ps(x, right, found[1]);
                    }
                }
                for (row, found) in found.iter().enumerate() {
                    let out = sums.add((first + row) * BLOCK);
                    _mm256_storeu_ps(out, found[0]);
                    _mm256_storeu_ps(out.add(8), found[1]);
                }
            }
        }
    }

    /// Twelve rows of one vector, the sound being filled into a vector by the product itself.
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn multiply_avx512(
        samples: *const f32,
        step: usize,
        rows: usize,
        panel: *const f32,
        taps: usize,
        sums: *mut f32,
    ) {
        const ROWS: usize = super::ROWS;
        for first in (0..rows).step_by(ROWS) {
            let mut found = [_mm512_setzero_ps(); ROWS];
            // SAFETY: the caller vouches for the rows, the panel and the sums.
            unsafe {
                let samples = samples.add(first * step);
                for tap in 0..taps {
                    let weights = _mm512_loadu_ps(panel.add(tap * PANEL));
                    for (row, found) in found.iter_mut().enumerate() {
                        *found = _mm512_fmadd_ps(_mm512_set1_ps(*samples.add(row * step + tap)), weights, *found);
                    }
                }
                for (row, found) in found.iter().enumerate() {
                    _mm512_storeu_ps(sums.add((first + row) * BLOCK), *found);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::tests::random;

    #[test]
    fn every_set_multiplies_as_the_definition_does() {
        let (filters, taps, step) = (41, 23, 5);
        let mut state = 7;
        let samples: Vec<f32> = (0..400).map(|_| random(&mut state)).collect();
        let weights: Vec<f32> = (0..filters * taps).map(|_| random(&mut state)).collect();
        for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
            let Some(bank) = Bank::pack(isa, filters, taps, |filter, tap| weights[filter * taps + tap]) else {
                assert_eq!(isa, Isa::Amx, "only tiles are quicker in parts");
                continue;
            };
            for rows in [1_usize, 12, 17, 48] {
                for block in 0..2 {
                    let mut sums = vec![f32::NAN; rows.next_multiple_of(ROWS) * BLOCK];
                    // SAFETY: 48 rows 5 apart of 23 taps are 258 samples; the sums have whole groups of rows.
                    unsafe { bank.multiply(samples.as_ptr(), step, rows, block, sums.as_mut_ptr()) };
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
