//! The harmonic source and the Fourier transforms around the generator: 20 samples a window, 5 from one to the next.
//!
//! The published graph has no noise in its source and begins every phase at zero, so equal inputs give equal samples.

use hark_compute::Compute;
use hark_weights::FileError;

use super::graph::Graph;
use super::layers::Steps;

/// Samples of a second.
pub(crate) const SAMPLE_RATE: u32 = 24_000;
/// Samples of half a frame, for which the pitch is given.
pub(crate) const PITCH_STEP: usize = 300;
/// Samples of a window.
const WINDOW: usize = 20;
/// Samples from one window to the next.
const HOP: usize = 5;
/// Frequencies of a window.
pub(crate) const BINS: usize = WINDOW / 2 + 1;
/// The fundamental and its overtones.
const HARMONICS: usize = 9;
const AMPLITUDE: f32 = 0.1;
/// Below this pitch nothing is voiced.
const VOICED: f32 = 10.0;
/// Windows that one thread transforms at a time.
const CHUNK: usize = 512;
/// What the exported inverse transform multiplies samples by: windows that overlap.
const OVERLAP: f32 = (WINDOW / HOP) as f32;

/// The source's mixture of harmonics and the transforms' tables.
pub(crate) struct Source {
    mixture: Vec<f32>,
    bias: f32,
    /// `[bin][real and imaginary][sample]` of the windowed transform.
    forward: Vec<[[f32; WINDOW]; 2]>,
    /// `[real parts of all bins, imaginary parts of all bins][sample]`.
    inverse: Vec<[f32; WINDOW]>,
    /// What the first window's samples are divided by.
    first_window: Vec<f32>,
}

impl Source {
    pub(crate) fn read(graph: &Graph) -> Result<Self, FileError> {
        let linear = "/decoder/decoder/generator/m_source/l_linear";
        let mixture = graph.constant(&format!("{linear}/MatMul"), 1, &[HARMONICS, 1])?;
        let window = graph.constant("/decoder/decoder/generator/STFT", 2, &[WINDOW])?;
        let inverse = graph.named("decoder.decoder.generator.stft.istft.stft.inverse_basis", &[2 * BINS, 1, WINDOW])?;
        let forward = |bin: usize| {
            let angle = |sample: usize| std::f64::consts::TAU * ((bin * sample) % WINDOW) as f64 / WINDOW as f64;
            let real = std::array::from_fn(|sample| (angle(sample).cos() * f64::from(window[sample])) as f32);
            [real, std::array::from_fn(|sample| (-angle(sample).sin() * f64::from(window[sample])) as f32)]
        };
        Ok(Source {
            mixture,
            bias: graph.constant(&format!("{linear}/Add"), 0, &[1])?[0],
            forward: (0..BINS).map(forward).collect(),
            inverse: inverse.as_chunks::<WINDOW>().0.to_vec(),
            first_window: graph.named("decoder.decoder.generator.stft.istft.stft.window_sum", &[WINDOW])?,
        })
    }

    /// The excitation: sines of the pitch and its overtones, mixed; silence is a constant.
    pub(crate) fn excitation(&self, compute: &Compute, pitch: &[f32]) -> Vec<f32> {
        // Turns of each harmonic at the middle of each step, counted from the beginning.
        let mut phases = vec![[0f64; HARMONICS]; pitch.len()];
        let mut turns = [0f64; HARMONICS];
        for (pitch, phases) in pitch.iter().zip(&mut phases) {
            for (harmonic, turns) in turns.iter_mut().enumerate() {
                let step = pitch * (harmonic + 1) as f32 / SAMPLE_RATE as f32;
                *turns += f64::from(step - step.floor());
            }
            *phases = turns;
        }
        let mut out = vec![0f32; pitch.len() * PITCH_STEP];
        compute.parallel_chunks(&mut out, PITCH_STEP, |step, out, _| {
            let is_voiced = pitch[step] > VOICED;
            for (sample, out) in out.iter_mut().enumerate() {
                let mut sum = self.bias;
                if is_voiced {
                    // Linear between the middles of steps.
                    let place = (sample as f64 + 0.5) / PITCH_STEP as f64 - 0.5;
                    let other = if place < 0.0 { step.saturating_sub(1) } else { (step + 1).min(pitch.len() - 1) };
                    for harmonic in 0..HARMONICS {
                        let (here, there) = (phases[step][harmonic], phases[other][harmonic]);
                        let turns = (here + (there - here) * place.abs()) * PITCH_STEP as f64;
                        let angle = (turns - turns.round()) * std::f64::consts::TAU;
                        sum += (angle as f32).sin() * AMPLITUDE * self.mixture[harmonic];
                    }
                }
                *out = sum.tanh();
            }
        });
        out
    }

    /// Magnitudes and phases of the excitation's windows, the first of which is centred on the first sample; the edges are mirrored.
    pub(crate) fn spectrum(&self, compute: &Compute, samples: &[f32]) -> Steps {
        let windows = samples.len() / HOP + 1;
        let mut out = Steps::zeroed(windows, 2 * BINS.next_multiple_of(16));
        let columns = out.columns;
        let at = |place: isize| {
            let last = samples.len() as isize - 1;
            let mirrored = if place < 0 {
                -place
            } else if place > last {
                2 * last - place
            } else {
                place
            };
            samples[mirrored.clamp(0, last) as usize]
        };
        compute.parallel_chunks(&mut out.data, CHUNK * columns, |chunk, rows, _| {
            for (row, out) in rows.chunks_exact_mut(columns).enumerate() {
                let first = ((chunk * CHUNK + row) * HOP) as isize - (WINDOW / 2) as isize;
                let window: [f32; WINDOW] = std::array::from_fn(|sample| at(first + sample as isize));
                for (bin, [real, imaginary]) in self.forward.iter().enumerate() {
                    let dot = |table: &[f32; WINDOW]| window.iter().zip(table).map(|(x, y)| x * y).sum::<f32>();
                    let (real, imaginary) = (dot(real), dot(imaginary));
                    out[bin] = (real * real + imaginary * imaginary).sqrt();
                    out[BINS + bin] = imaginary.atan2(real);
                }
            }
        });
        out
    }

    /// Samples from rows of 11 logarithms of magnitudes and 11 numbers whose sines are phases.
    pub(crate) fn samples(&self, compute: &Compute, spectrum: &Steps) -> Vec<f32> {
        let windows = spectrum.len();
        let mut pieces = vec![[0f32; WINDOW]; windows];
        compute.parallel_chunks(&mut pieces, CHUNK, |chunk, pieces, _| {
            for (row, piece) in pieces.iter_mut().enumerate() {
                let row = spectrum.row(chunk * CHUNK + row);
                for bin in 0..BINS {
                    let (magnitude, phase) = (row[bin].exp(), row[BINS + bin].sin());
                    let (real, imaginary) = (magnitude * phase.cos(), magnitude * phase.sin());
                    let tables = self.inverse[bin].iter().zip(&self.inverse[BINS + bin]);
                    for (sample, (cosine, sine)) in piece.iter_mut().zip(tables) {
                        *sample += real * cosine + imaginary * sine;
                    }
                }
            }
        });
        let mut out = vec![0f32; (windows.max(1) - 1) * HOP + WINDOW];
        for (window, piece) in pieces.iter().enumerate() {
            out[window * HOP..][..WINDOW].iter_mut().zip(piece).for_each(|(out, sample)| *out += sample);
        }
        for (sample, sum) in out.iter_mut().zip(&self.first_window).filter(|(_, sum)| **sum > f32::MIN_POSITIVE) {
            *sample /= sum;
        }
        let ends = WINDOW / 2;
        out[ends..out.len() - ends].iter().map(|sample| sample * OVERLAP).collect()
    }
}
