//! Spectra of 20 ms windows every 10 ms, and the features that the network reads of them.
//!
//! Constants and formulas are those of libDF, the Rust library of DeepFilterNet, so that results agree with it.

use std::sync::Arc;

use realfft::num_complex::Complex32;
use realfft::{ComplexToReal, RealFftPlanner, RealToComplex};

/// Samples from one frame to the next.
pub(crate) const HOP: usize = 480;
/// Samples of a window.
pub(crate) const WINDOW: usize = 960;
/// Bins of a spectrum.
pub(crate) const BINS: usize = WINDOW / 2 + 1;
/// ERB bands.
pub(crate) const BANDS: usize = 32;
/// Lowest bins, which the deep filter works on.
pub(crate) const DF_BINS: usize = 96;

/// Fewest bins of a band.
const MIN_BAND_BINS: i32 = 2;
/// Decay of the running means over a frame: exp(-0.01 s / 1 s), rounded to three decimals.
const ALPHA: f32 = 0.99;
/// Running means of the band energies in dB at the start, from the lowest to the highest band.
const MEAN_START: [f32; 2] = [-60.0, -90.0];
/// Running means of the magnitudes at the start, from the lowest to the highest bin.
const UNIT_START: [f32; 2] = [0.001, 0.0001];

/// Transforms, window and bands; the same for all channels.
pub(crate) struct Analysis {
    forward: Arc<dyn RealToComplex<f32>>,
    inverse: Arc<dyn ComplexToReal<f32>>,
    window: Vec<f32>,
    /// Bins of each band.
    bands: [usize; BANDS],
}

/// Workspace of the transforms.
pub(crate) struct TransformSpace {
    time: Vec<f32>,
    forward: Vec<Complex32>,
    inverse: Vec<Complex32>,
}

impl Analysis {
    pub(crate) fn new() -> Self {
        let mut planner = RealFftPlanner::<f32>::new();
        let half = std::f64::consts::FRAC_PI_2;
        // The Vorbis window: sin(π/2 · sin²(π n / N)).
        let window = (0..WINDOW).map(|n| {
            let sin = (half * (n as f64 + 0.5) / HOP as f64).sin();
            (half * sin * sin).sin() as f32
        });
        Analysis {
            forward: planner.plan_fft_forward(WINDOW),
            inverse: planner.plan_fft_inverse(WINDOW),
            window: window.collect(),
            bands: erb_bands(),
        }
    }

    pub(crate) fn workspace(&self) -> TransformSpace {
        TransformSpace {
            time: self.forward.make_input_vec(),
            forward: self.forward.make_scratch_vec(),
            inverse: self.inverse.make_scratch_vec(),
        }
    }

    /// The spectrum of a window of samples, divided by its length.
    pub(crate) fn analyse(&self, samples: &[f32], spectrum: &mut [Complex32], space: &mut TransformSpace) {
        let windowed = samples.iter().zip(&self.window).map(|(sample, window)| sample * window);
        space.time.iter_mut().zip(windowed).for_each(|(to, sample)| *to = sample);
        let done = self.forward.process_with_scratch(&mut space.time, spectrum, &mut space.forward);
        done.expect("buffers have the transform's lengths");
        spectrum.iter_mut().for_each(|bin| *bin *= 1.0 / WINDOW as f32);
    }

    /// Adds the windowed inverse transform of a spectrum to `overlap`; gives the finished hop and keeps the other half.
    pub(crate) fn synthesize(
        &self,
        spectrum: &mut [Complex32],
        overlap: &mut [f32],
        out: &mut Vec<f32>,
        space: &mut TransformSpace,
    ) {
        // A real signal's first and last bins are real.
        spectrum[0].im = 0.0;
        spectrum[BINS - 1].im = 0.0;
        let done = self.inverse.process_with_scratch(spectrum, &mut space.time, &mut space.inverse);
        done.expect("buffers have the transform's lengths");
        let (first, second) = space.time.split_at(HOP);
        let (rise, fall) = self.window.split_at(HOP);
        out.extend(first.iter().zip(rise).zip(&*overlap).map(|((sample, window), kept)| sample * window + kept));
        overlap.iter_mut().zip(second).zip(fall).for_each(|((kept, sample), window)| *kept = sample * window);
    }

    /// Multiplies every bin by the gain of its band.
    pub(crate) fn apply_gains(&self, gains: impl Iterator<Item = f32>, spectrum: &mut [Complex32]) {
        let mut first = 0;
        for (gain, bins) in gains.zip(self.bands) {
            spectrum[first..first + bins].iter_mut().for_each(|bin| *bin *= gain);
            first += bins;
        }
    }

    /// Mean energy of each band.
    fn band_energies(&self, spectrum: &[Complex32]) -> [f32; BANDS] {
        let mut first = 0;
        self.bands.map(|bins| {
            let share = 1.0 / bins as f32;
            let energy = spectrum[first..first + bins].iter().map(|bin| bin.norm_sqr() * share).sum();
            first += bins;
            energy
        })
    }
}

/// Running means that normalize the features of one channel.
pub(crate) struct Features {
    mean: [f32; BANDS],
    unit: [f32; DF_BINS],
}

impl Features {
    pub(crate) fn new() -> Self {
        fn line<const N: usize>([from, to]: [f32; 2]) -> [f32; N] {
            let step = (to - from) / (N - 1) as f32;
            std::array::from_fn(|index| from + index as f32 * step)
        }
        Features { mean: line(MEAN_START), unit: line(UNIT_START) }
    }

    /// Band energies in dB less their running mean, scaled.
    pub(crate) fn erb(&mut self, analysis: &Analysis, spectrum: &[Complex32]) -> [f32; BANDS] {
        let mut features = analysis.band_energies(spectrum);
        for (feature, mean) in features.iter_mut().zip(&mut self.mean) {
            let decibels = (*feature + 1e-10).log10() * 10.0;
            *mean = decibels * (1.0 - ALPHA) + *mean * ALPHA;
            *feature = (decibels - *mean) / 40.0;
        }
        features
    }

    /// The lowest bins divided by the root of their running mean magnitude.
    pub(crate) fn complex(&mut self, spectrum: &[Complex32]) -> [Complex32; DF_BINS] {
        std::array::from_fn(|index| {
            let (bin, unit) = (spectrum[index], &mut self.unit[index]);
            // The floor keeps minutes of digital silence from becoming 0 / 0 where subnormal numbers are flushed to zero.
            *unit = (bin.norm() * (1.0 - ALPHA) + *unit * ALPHA).max(f32::MIN_POSITIVE);
            bin / unit.sqrt()
        })
    }
}

/// How many bins each band has: equally wide on the ERB scale (Glasberg and Moore 1990), none narrower than [`MIN_BAND_BINS`].
fn erb_bands() -> [usize; BANDS] {
    let to_erb = |hertz: f32| 9.265 * (hertz / (24.7 * 9.265)).ln_1p();
    let to_hertz = |erb: f32| 24.7 * 9.265 * ((erb / 9.265).exp() - 1.0);
    let bin_width = crate::SAMPLE_RATE as f32 / WINDOW as f32;
    let step = to_erb(crate::SAMPLE_RATE as f32 / 2.0) / BANDS as f32;
    let (mut last_bin, mut ahead) = (0i32, 0i32);
    let mut bands = std::array::from_fn(|band| {
        let bin = (to_hertz((band + 1) as f32 * step) / bin_width).round() as i32;
        let bins = bin - last_bin - ahead;
        ahead = (MIN_BAND_BINS - bins).max(0);
        last_bin = bin;
        bins.max(MIN_BAND_BINS) as usize
    });
    // The last band takes what is left, the bin at half the rate included.
    bands[BANDS - 1] = BINS - bands[..BANDS - 1].iter().sum::<usize>();
    bands
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_cover_all_bins_and_widen_upward() {
        let bands = erb_bands();
        assert_eq!(bands.iter().sum::<usize>(), BINS);
        // By libDF's algorithm in double precision.
        let expected = [
            2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 5, 5, 7, 7, 8, 10, 12, 13, 15, 18, 20, 24, 28, 31, 37, 42, 50, 56,
            67,
        ];
        assert_eq!(bands, expected);
    }

    #[test]
    fn analysis_and_synthesis_give_back_the_samples_one_hop_later() {
        let analysis = Analysis::new();
        let mut space = analysis.workspace();
        let samples: Vec<f32> = (0..10 * HOP).map(|n| (n as f32 * 0.137).sin() * (n as f32 * 0.001).cos()).collect();
        let (mut overlap, mut out) = (vec![0.0; HOP], Vec::new());
        let mut spectrum = vec![Complex32::default(); BINS];
        for frame in 0..9 {
            analysis.analyse(&samples[frame * HOP..][..WINDOW], &mut spectrum, &mut space);
            analysis.synthesize(&mut spectrum, &mut overlap, &mut out, &mut space);
        }
        // The first hop lacks the window before it.
        for (n, (got, want)) in out.iter().zip(&samples).enumerate().skip(HOP) {
            assert!((got - want).abs() < 1e-5, "sample {n}: {got} instead of {want}");
        }
    }
}
