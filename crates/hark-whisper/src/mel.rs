//! Whisper's log-mel spectrogram.
//!
//! In come up to 30 s of 16 kHz samples; out go 3000 frames of 80 or 128 values, the encoder's input. It is OpenAI's
//! definition on a window padded with zeros to 30 s: frames of 400 samples every 160, centred with reflected edges,
//! periodic Hann window, power spectrum, Slaney mel bands, decimal logarithm, eight decades below the loudest value,
//! `(x + 4) / 4`.

use std::sync::Arc;

use realfft::num_complex::Complex;
use realfft::{RealFftPlanner, RealToComplex};

/// Samples a second.
pub const SAMPLE_RATE: usize = 16_000;
/// Samples in a full window of 30 s.
pub const WINDOW_SAMPLES: usize = 30 * SAMPLE_RATE;
/// Samples from one frame to the next.
pub const HOP: usize = 160;
/// Frames in a full window.
pub const WINDOW_FRAMES: usize = WINDOW_SAMPLES / HOP;

const FFT: usize = 400;
const BINS: usize = FFT / 2 + 1;
/// Frames worked on together, so that bands and logarithms are vector code over frames.
const LANES: usize = 16;
/// The power below which nothing is told apart from silence.
const FLOOR: f32 = 1e-10;
/// The most power that a band can have: far beyond that of any sound.
const CEILING: f32 = 1e30;
const LOG_FLOOR: f32 = -10.0;

/// The tables for one number of mel channels; one instance serves any number of threads.
pub struct LogMel {
    n_mels: usize,
    fft: Arc<dyn RealToComplex<f32>>,
    hann: Vec<f32>,
    bands: Vec<Band>,
}

/// One mel band: its weights from bin `first` on; the other bins weigh nothing.
struct Band {
    first: usize,
    weights: Vec<f32>,
}

impl LogMel {
    /// Makes the tables for `n_mels` channels.
    pub fn new(n_mels: usize) -> Self {
        let hann = (0..FFT)
            .map(|i| 0.5 - 0.5 * (2.0 * std::f64::consts::PI * i as f64 / FFT as f64).cos())
            .map(|weight| weight as f32)
            .collect();
        Self { n_mels, fft: RealFftPlanner::new().plan_fft_forward(FFT), hann, bands: slaney_bands(n_mels) }
    }

    /// Mel channels of a frame.
    pub fn n_mels(&self) -> usize {
        self.n_mels
    }

    /// Writes the spectrogram of a window, frame after frame: `out[frame * n_mels + mel]`.
    ///
    /// Samples past 30 s are ignored; missing ones are silence and cost nothing.
    ///
    /// # Panics
    /// When `out` is not 3000 × `n_mels` long.
    pub fn window(&self, pcm: &[f32], out: &mut [f32]) {
        assert_eq!(out.len(), WINDOW_FRAMES * self.n_mels, "room for 3000 frames of mel");
        let pcm = &pcm[..pcm.len().min(WINDOW_SAMPLES)];
        // Frame f sees samples from 160 f - 200 on: later frames see only padding. So do all reflections at the end.
        let sounding = (pcm.len() + FFT / 2).div_ceil(HOP).min(WINDOW_FRAMES);
        let sounding = if pcm.is_empty() { 0 } else { sounding };

        let mut samples = self.fft.make_input_vec();
        let mut spectrum = self.fft.make_output_vec();
        let mut scratch = self.fft.make_scratch_vec();
        let mut power = vec![0.0; BINS * LANES];
        let mut logs = vec![0.0; self.n_mels * LANES];
        let mut loudest = LOG_FLOOR;
        for (block, out) in out[..sounding * self.n_mels].chunks_mut(LANES * self.n_mels).enumerate() {
            let frames = out.len() / self.n_mels;
            for lane in 0..frames {
                self.cut_frame(pcm, block * LANES + lane, &mut samples);
                self.fft
                    .process_with_scratch(&mut samples, &mut spectrum, &mut scratch)
                    .expect("buffers made by the plan have its lengths");
                spread_power(&spectrum, lane, &mut power);
            }
            log_bands(&self.bands, &power, &mut logs);
            for (frame, out) in out.chunks_exact_mut(self.n_mels).enumerate() {
                for (mel, value) in out.iter_mut().enumerate() {
                    *value = logs[mel * LANES + frame];
                }
            }
            loudest = out.iter().fold(loudest, |loudest, value| loudest.max(*value));
        }

        let quietest = loudest - 8.0;
        let (sounding, silent) = out.split_at_mut(sounding * self.n_mels);
        for value in sounding {
            *value = (value.max(quietest) + 4.0) / 4.0;
        }
        silent.fill((LOG_FLOOR.max(quietest) + 4.0) / 4.0);
    }

    /// The 400 windowed samples around sample `160 * frame` of the padded, reflected signal.
    fn cut_frame(&self, pcm: &[f32], frame: usize, samples: &mut [f32]) {
        let start = (frame * HOP) as isize - (FFT / 2) as isize;
        if start >= 0 && start as usize + FFT <= pcm.len() {
            let pcm = &pcm[start as usize..][..FFT];
            for ((sample, value), weight) in samples.iter_mut().zip(pcm).zip(&self.hann) {
                *sample = value * weight;
            }
            return;
        }
        let last = WINDOW_SAMPLES as isize - 1;
        for (i, (sample, weight)) in samples.iter_mut().zip(&self.hann).enumerate() {
            let at = (start + i as isize).abs();
            let at = if at > last { 2 * last - at } else { at };
            *sample = pcm.get(at as usize).copied().unwrap_or(0.0) * weight;
        }
    }
}

impl std::fmt::Debug for LogMel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogMel").field("n_mels", &self.n_mels).finish_non_exhaustive()
    }
}

/// Puts one frame's power spectrum into its lane of `power[bin * LANES + lane]`.
fn spread_power(spectrum: &[Complex<f32>], lane: usize, power: &mut [f32]) {
    for (bin, power) in spectrum.iter().zip(power.chunks_exact_mut(LANES)) {
        power[lane] = bin.re * bin.re + bin.im * bin.im;
    }
}

/// Logarithms of the bands of 16 frames: `logs[mel * LANES + lane]` from `power[bin * LANES + lane]`.
fn log_bands(bands: &[Band], power: &[f32], logs: &mut [f32]) {
    let (power, _) = power.as_chunks::<LANES>();
    let (logs, _) = logs.as_chunks_mut::<LANES>();
    for (band, log) in bands.iter().zip(logs) {
        let mut sum = [0.0f32; LANES];
        for (weight, power) in band.weights.iter().zip(&power[band.first..]) {
            for (sum, power) in sum.iter_mut().zip(power) {
                *sum += weight * power;
            }
        }
        // Samples may be anything that fits a float; the network needs finite numbers.
        #[allow(clippy::manual_clamp, reason = "clamp passes NaN on, max and min do not")]
        let log10 = |sum: f32| log10(sum.max(FLOOR).min(CEILING));
        *log = sum.map(log10);
    }
}

/// The decimal logarithm of a positive normal number, within 2e-7 of its magnitude, without branches or calls so
/// that a loop over it becomes vector code.
#[inline]
fn log10(value: f32) -> f32 {
    // value = mantissa × 2^exponent with the mantissa in [√½, √2).
    let bits = value.to_bits();
    let exponent = (bits.wrapping_sub(0x3f35_04f3) as i32) >> 23;
    let mantissa = f32::from_bits(bits.wrapping_sub((exponent << 23) as u32));
    // ln m = 2 artanh t with t = (m - 1) / (m + 1), |t| < 0.172.
    let t = (mantissa - 1.0) / (mantissa + 1.0);
    let t2 = t * t;
    let series = t * (2.0 + t2 * (2.0 / 3.0 + t2 * (2.0 / 5.0 + t2 * (2.0 / 7.0 + t2 * (2.0 / 9.0)))));
    exponent as f32 * std::f32::consts::LOG10_2 + series * std::f32::consts::LOG10_E
}

/// Slaney's mel scale: linear below 1 kHz, logarithmic above.
fn hertz_to_mel(hertz: f64) -> f64 {
    if hertz < 1000.0 { hertz * 3.0 / 200.0 } else { 15.0 + (hertz / 1000.0).ln() * 27.0 / 6.4f64.ln() }
}

fn mel_to_hertz(mel: f64) -> f64 {
    if mel < 15.0 { mel * 200.0 / 3.0 } else { 1000.0 * ((mel - 15.0) * 6.4f64.ln() / 27.0).exp() }
}

/// Triangles of equal area between 0 and 8 kHz, their corners evenly spaced on the mel scale.
fn slaney_bands(n_mels: usize) -> Vec<Band> {
    let top = hertz_to_mel(SAMPLE_RATE as f64 / 2.0);
    let corner = |i: usize| mel_to_hertz(top * i as f64 / (n_mels + 1) as f64);
    let bin_hertz = SAMPLE_RATE as f64 / FFT as f64;
    (0..n_mels)
        .map(|mel| {
            let (left, peak, right) = (corner(mel), corner(mel + 1), corner(mel + 2));
            let weight = |bin: usize| {
                let hertz = bin as f64 * bin_hertz;
                let slope = ((hertz - left) / (peak - left)).min((right - hertz) / (right - peak));
                (slope.max(0.0) * 2.0 / (right - left)) as f32
            };
            let first = (0..BINS).find(|bin| weight(*bin) > 0.0).unwrap_or(0);
            let weights = (first..BINS).map(weight).take_while(|weight| *weight > 0.0).collect();
            Band { first, weights }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fast_logarithm_agrees_with_the_slow_one() {
        let mut value = FLOOR;
        while value < 1e9 {
            let exact = f64::from(value).log10();
            let error = (f64::from(log10(value)) - exact).abs();
            assert!(error <= 2e-7 * exact.abs().max(1.0), "log10({value}) is off by {error}");
            value *= 1.000_73;
        }
        assert_eq!(log10(1.0), 0.0);
    }

    #[test]
    fn bands_of_128_channels_all_hear_something() {
        for n_mels in [80, 128] {
            let bands = slaney_bands(n_mels);
            assert!(bands.iter().all(|band| !band.weights.is_empty()), "{n_mels}");
            assert_eq!(bands.last().map(|band| band.first + band.weights.len()), Some(BINS - 1));
        }
    }
}
