//! Voice activity detection: the Silero VAD network (version 6, 16 kHz) on the kernels of `hark-compute`.
//!
//! In: 16 kHz mono samples, in blocks of any size. Out: one speech probability per 512 samples (32 ms). Thresholds and
//! segmentation into windows are in [`crate::windows`].
//!
//! The network: STFT magnitudes (256 points, 4 frames per chunk), four convolutions, an LSTM of 128 units and one
//! output. Only the recurrent product depends on the previous chunk, so everything else runs in batches of up to 48
//! chunks; a live stream runs one chunk at a time with the same weights.

mod tensors;
mod weights;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hark_compute::buffer::Buffer;
use hark_compute::vector::stft::{BINS, CHUNK, CONTEXT, FRAMES};
use hark_compute::vector::{LINE, Left, Vectors};

use weights::{Convolution, UNITS, Weights};

/// Samples behind each probability: 32 ms at 16 kHz.
pub const SAMPLES_PER_PROBABILITY: usize = CHUNK;

/// Chunks per batch: three vectors of sixteen, the width of the AVX-512 tile.
const BATCH: usize = 48;

/// Errors of loading the voice-activity weights.
#[derive(Debug, thiserror::Error)]
pub enum VadError {
    /// The file could not be read.
    #[error("cannot read the voice-activity model {}: {source}; install it with `hark models pull silero-vad`", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The file does not contain the expected network.
    #[error("{} is not a Silero VAD 16 kHz model: {what}; install it again with `hark models pull silero-vad`", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
}

/// Files of the network, in order of preference: the second has older weights.
const FILES: [&str; 2] = ["silero_vad_16k_sequence.onnx", "silero_vad_16k.safetensors"];

/// The weights of the voice-activity network, shared by any number of streams.
pub struct SileroVad {
    weights: Weights,
    vectors: Vectors,
}

impl SileroVad {
    /// Loads `silero_vad_16k_sequence.onnx` or `silero_vad_16k.safetensors`, or the first of them in the given folder, and
    /// selects the kernels for this CPU.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, VadError> {
        let path = path.as_ref();
        let in_folder = FILES.map(|name| path.join(name)).into_iter().find(|file| file.is_file());
        Ok(SileroVad { weights: Weights::load(in_folder.as_deref().unwrap_or(path))?, vectors: Vectors::best() })
    }

    /// The name of the kernels in use: `avx512`, `avx2` or `portable`.
    pub fn kernels(&self) -> &'static str {
        self.vectors.name()
    }

    /// The names of all kernel sets that this CPU supports, slowest first.
    pub fn available_kernels() -> Vec<&'static str> {
        Vectors::available().iter().map(Vectors::name).collect()
    }

    /// Switches to the named kernels, for comparisons; false if this CPU does not support them.
    pub fn use_kernels(&mut self, name: &str) -> bool {
        let found = Vectors::available().into_iter().find(|set| set.name() == name);
        if let Some(set) = found {
            self.vectors = set;
        }
        found.is_some()
    }
}

impl std::fmt::Debug for SileroVad {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SileroVad").field("kernels", &self.vectors.name()).finish_non_exhaustive()
    }
}

/// Voice activity detection on one recording, which comes in blocks of any size.
pub struct VadStream {
    model: Arc<SileroVad>,
    /// The last 64 samples of the previous chunk, then samples that do not fill a chunk yet.
    pending: Vec<f32>,
    hidden: [f32; UNITS],
    cell: [f32; UNITS],
    gain_control: Option<GainControl>,
    workspace: Workspace,
}

/// Activations between the layers, `[frame][channel][chunk]`; grows to the largest batch.
struct Workspace {
    spectrum: Buffer<f32>,
    layers: [Buffer<f32>; 4],
    gates: Buffer<f32>,
}

impl Default for Workspace {
    fn default() -> Self {
        let empty = |_: usize| Buffer::zeroed(0);
        Workspace { spectrum: empty(0), layers: std::array::from_fn(empty), gates: empty(0) }
    }
}

/// Grows a buffer to at least `len` and discards its contents then; never shrinks it.
fn reserve(buffer: &mut Buffer<f32>, len: usize) {
    if buffer.len() < len {
        *buffer = Buffer::zeroed(len);
    }
}

impl VadStream {
    /// A stream at the beginning of a recording, without gain control.
    pub fn new(model: &Arc<SileroVad>) -> Self {
        VadStream {
            model: Arc::clone(model),
            pending: vec![0.0; CONTEXT],
            hidden: [0.0; UNITS],
            cell: [0.0; UNITS],
            gain_control: None,
            workspace: Workspace::default(),
        }
    }

    /// A stream that amplifies quiet recordings; others are not changed.
    ///
    /// The network misses most very quiet speech. On 458 s of read speech attenuated by 50 dB, the current
    /// weights detect 38 % of the chunks that they detect at full level, and 99.5 % with gain control (whose constants
    /// were chosen on the same speech). Ten minutes each of silence, noise, hum and synthetic music
    /// stay below 0.2; in quiet noisy speech there are more false positives in pauses (1.8 % of chunks at 5 dB, 0.1 % without).
    pub fn with_gain_control(model: &Arc<SileroVad>) -> Self {
        VadStream { gain_control: Some(GainControl { peak: 0.0 }), ..VadStream::new(model) }
    }

    /// Processes samples and appends one probability per completed chunk of 512.
    pub fn push(&mut self, mut samples: &[f32], probabilities: &mut Vec<f32>) {
        while !samples.is_empty() {
            let capacity = CONTEXT + BATCH * CHUNK - self.pending.len();
            let (now, later) = samples.split_at(capacity.min(samples.len()));
            // NaN becomes silence, and samples far beyond full scale (a decoder's fault) are clamped: neither may
            // stay in the recurrent state.
            self.pending.extend(now.iter().map(|&x| if x.is_nan() { 0.0 } else { x.clamp(-4.0, 4.0) }));
            samples = later;
            let chunks = (self.pending.len() - CONTEXT) / CHUNK;
            if chunks > 0 {
                self.run(chunks, probabilities);
                // The tail of the last chunk becomes the context of the next.
                self.pending.drain(..chunks * CHUNK);
            }
        }
    }

    /// Ends the recording: an incomplete chunk is padded with silence. The stream is then reset.
    pub fn finish(&mut self, probabilities: &mut Vec<f32>) {
        if self.pending.len() > CONTEXT {
            self.pending.resize(CONTEXT + CHUNK, 0.0);
            self.run(1, probabilities);
        }
        self.pending.clear();
        self.pending.resize(CONTEXT, 0.0);
        self.hidden.fill(0.0);
        self.cell.fill(0.0);
        if let Some(control) = &mut self.gain_control {
            control.peak = 0.0;
        }
    }

    fn run(&mut self, chunks: usize, probabilities: &mut Vec<f32>) {
        let mut gains = [1.0; BATCH];
        if let Some(control) = &mut self.gain_control {
            for (gain, chunk) in gains.iter_mut().zip(self.pending[CONTEXT..].chunks_exact(CHUNK)) {
                *gain = control.gain(chunk);
            }
        }
        if chunks == 1 {
            self.gates_of_chunk(gains[0]);
        } else {
            self.gates_of_batch(&gains[..chunks]);
        }
        let SileroVad { weights, vectors } = &*self.model;
        for sums in self.workspace.gates.chunks_exact_mut(4 * UNITS).take(chunks) {
            vectors.gemv(&weights.recurrent, 0, &self.hidden, sums);
            vectors.lstm_step(sums, &weights.gate_bias, &mut self.cell, &mut self.hidden);
            let score: f32 = self.hidden.iter().zip(&weights.output).map(|(h, w)| h.max(0.0) * w).sum();
            probabilities.push(1.0 / (1.0 + (-score - weights.output_bias).exp()));
        }
    }

    /// LSTM gate inputs of a batch: everything that does not depend on the previous chunk, as GEMM.
    fn gates_of_batch(&mut self, gains: &[f32]) {
        let SileroVad { weights, vectors } = &*self.model;
        let Workspace { spectrum, layers, gates } = &mut self.workspace;
        let stride = gains.len().next_multiple_of(LINE);
        reserve(spectrum, FRAMES * BINS * stride);
        vectors.spectrum(&weights.stft, &self.pending, gains, stride, spectrum);
        let mut input: &[f32] = spectrum;
        for ((convolution, taps), layer) in weights.convolutions.iter().zip(TAPS).zip(layers) {
            let Convolution { channels, weights, bias } = convolution;
            reserve(layer, taps.len() * weights.rows() * stride);
            for (&(tap, frame, count), out) in taps.iter().zip(layer.chunks_exact_mut(weights.rows() * stride)) {
                let left = weights.columns(tap * channels, count * channels);
                vectors.gemm(left, &input[frame * channels * stride..], stride, stride, Some(bias), out);
            }
            input = layer;
        }
        // Here the chunks are the rows: gates are stored by chunk, as the recurrent loop reads them.
        reserve(gates, stride * 4 * UNITS);
        let left = Left { data: input, panel: LINE, step: stride, rows: stride, depth: UNITS };
        vectors.gemm(left, weights.input.data(), 4 * UNITS, 4 * UNITS, None, gates);
    }

    /// LSTM gate inputs of one chunk, as GEMV: each weight is read once.
    fn gates_of_chunk(&mut self, gain: f32) {
        let SileroVad { weights, vectors } = &*self.model;
        let Workspace { spectrum, layers, gates } = &mut self.workspace;
        reserve(spectrum, BINS * LINE);
        vectors.spectrum_of_one(&weights.stft, &self.pending, gain, spectrum);
        let column: [f32; FRAMES * BINS] = std::array::from_fn(|row| spectrum[row % BINS * LINE + row / BINS]);
        let mut input: &[f32] = &column;
        for ((convolution, taps), layer) in weights.convolutions.iter().zip(TAPS).zip(layers) {
            let Convolution { channels, weights, bias } = convolution;
            reserve(layer, taps.len() * weights.rows());
            for (&(tap, frame, count), out) in taps.iter().zip(layer.chunks_exact_mut(weights.rows())) {
                out.copy_from_slice(bias);
                let x = &input[frame * channels..(frame + count) * channels];
                vectors.gemv(weights, tap * channels, x, out);
                out.iter_mut().for_each(|y| *y = y.max(0.0));
            }
            input = layer;
        }
        reserve(gates, 4 * UNITS);
        gates[..4 * UNITS].fill(0.0);
        vectors.gemv(&weights.input, 0, &input[..UNITS], gates);
    }
}

/// Automatic gain control by the peak level of the last seconds.
struct GainControl {
    peak: f32,
}

impl GainControl {
    /// RMS that quiet audio is amplified to: ordinary speech has 0.05 to 0.1.
    const TARGET: f32 = 0.05;
    /// At most 30 times (30 dB), so that the noise of an idle microphone stays below ordinary speech.
    const MAX_GAIN: f32 = 30.0;
    /// The peak halves in 10 s: 0.5^(32 ms / 10 s).
    const DECAY: f32 = 0.997_784_4;

    /// The gain of the next chunk.
    fn gain(&mut self, chunk: &[f32]) -> f32 {
        // Eight partial sums, so that the loop vectorizes.
        let mut sums = [0.0f32; 8];
        for eight in chunk.chunks_exact(8) {
            for (sum, x) in sums.iter_mut().zip(eight) {
                *sum += x * x;
            }
        }
        let loudness = (sums.iter().sum::<f32>() / CHUNK as f32).sqrt();
        self.peak = loudness.max(self.peak * Self::DECAY);
        (Self::TARGET / self.peak.max(f32::MIN_POSITIVE)).clamp(1.0, Self::MAX_GAIN)
    }
}

/// Per layer and output frame: first tap, first input frame, number of taps. Taps on the zero padding are left out; strides are 1, 2, 2, 1, so frames go 4 → 4 → 2 → 1 → 1.
const TAPS: [&[(usize, usize, usize)]; 4] =
    [&[(1, 0, 2), (0, 0, 3), (0, 1, 3), (0, 2, 2)], &[(1, 0, 2), (0, 1, 3)], &[(1, 0, 2)], &[(1, 0, 1)]];
