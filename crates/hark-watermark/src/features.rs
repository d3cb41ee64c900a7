//! What the detector measures: the level of each cell against those of its neighbours.

use crate::pattern::{BAND_HZ, BANDS, HIGH_HZ, LOW_HZ, SLOT_S, WINDOW_S};
use crate::spectrum::Spectrum;

/// The distance of measurements. A quarter of a slot, so that an alignment is off by an eighth at most.
pub(crate) const STEP_S: f64 = 0.004;
/// How far beyond ±1 frequencies are searched.
const MARGIN: f64 = 0.07;
/// A difference beyond this says nothing more about the mark, which is a few dB.
pub(crate) const LIMIT_DB: f32 = 8.0;
/// Levels this far below the mean of their band count as nothing.
const FLOOR_DB: f64 = 30.0;
/// This quantile of a band's levels is taken for its noise, and twice that is added to the floor: cells that are noise do not carry the mark.
const NOISE_QUANTILE: f64 = 0.15;
const NOISE_FACTOR: f32 = 2.0;

/// The spectrum of a sound at every step.
pub(crate) struct Frames {
    spectrum: Spectrum,
    sums: Vec<f64>,
    count: usize,
}

/// Differences of levels in dB, weighted by how far a cell stands above the noise; `BANDS` for each step.
pub(crate) struct Features {
    values: Vec<f32>,
}

impl Features {
    pub(crate) fn rows(&self) -> &[[f32; BANDS]] {
        self.values.as_chunks().0
    }
}

/// The level of a cell less the mean of its neighbours in time and in frequency.
pub(crate) fn difference(here: &[f32], before: &[f32], after: &[f32], band: usize) -> f32 {
    let (below, above) = (band.max(1) - 1, (band + 1).min(BANDS - 1));
    let neighbours = 0.25 * (before[band] + after[band] + here[below] + here[above]);
    (here[band] - neighbours).clamp(-LIMIT_DB, LIMIT_DB)
}

impl Frames {
    pub(crate) fn measure(samples: &[f32], rate: u32) -> Self {
        let mut spectrum = Spectrum::new(rate, WINDOW_S, LOW_HZ * (1.0 - MARGIN), HIGH_HZ * (1.0 + MARGIN));
        let step = STEP_S * f64::from(rate);
        let length = spectrum.length();
        let count = ((samples.len() as f64 - length as f64) / step).max(0.0) as usize;
        let mut sums = Vec::with_capacity(count * spectrum.sums());
        for at in 0..count {
            let from = (at as f64 * step).round() as usize;
            spectrum.accumulate(samples[from..from + length].iter().copied(), &mut sums);
        }
        Frames { spectrum, sums, count }
    }

    /// Differences in bands whose frequencies are `pitch` times those of the pattern.
    pub(crate) fn features(&self, pitch: f64) -> Features {
        let mut levels = self.powers(pitch);
        let floors = self.floors(&levels);
        let mut weights = vec![0f32; levels.len()];
        for (row, weights) in levels.chunks_exact_mut(BANDS).zip(weights.chunks_exact_mut(BANDS)) {
            for ((value, weight), floor) in row.iter_mut().zip(weights).zip(&floors) {
                *weight = *value / (*value + floor);
                *value = 10.0 * std::f32::consts::LOG10_2 * (*value + floor).log2();
            }
        }
        let distance = (SLOT_S / pitch / STEP_S).round() as usize;
        let rows: &[[f32; BANDS]] = levels.as_chunks().0;
        let mut values = vec![0f32; levels.len()];
        for (at, (values, weights)) in values.chunks_exact_mut(BANDS).zip(weights.chunks_exact(BANDS)).enumerate() {
            let before = &rows[at.saturating_sub(distance)];
            let after = &rows[(at + distance).min(rows.len() - 1)];
            for (band, (value, weight)) in values.iter_mut().zip(weights).enumerate() {
                *value = weight * difference(&rows[at], before, after, band);
            }
        }
        Features { values }
    }

    fn powers(&self, pitch: f64) -> Vec<f32> {
        let places: [_; BANDS + 1] =
            std::array::from_fn(|band| self.spectrum.place((LOW_HZ + BAND_HZ * band as f64) * pitch));
        let mut powers = Vec::with_capacity(self.count * BANDS);
        for sums in self.sums.chunks_exact(self.spectrum.sums()) {
            let below = places.map(|place| Spectrum::below(sums, place));
            powers.extend(below.array_windows().map(|[low, high]| (high - low) as f32));
        }
        powers
    }

    fn floors(&self, powers: &[f32]) -> [f32; BANDS] {
        std::array::from_fn(|band| {
            let mut column: Vec<f32> = powers.iter().skip(band).step_by(BANDS).copied().collect();
            let mean = column.iter().copied().map(f64::from).sum::<f64>() / column.len().max(1) as f64;
            let at = (column.len() as f64 * NOISE_QUANTILE) as usize;
            let noise = if column.is_empty() { 0.0 } else { *column.select_nth_unstable_by(at, f32::total_cmp).1 };
            // The constant keeps digital silence finite.
            (mean * 10f64.powf(-FLOOR_DB / 10.0)) as f32 + NOISE_FACTOR * noise + 1e-12
        })
    }
}
