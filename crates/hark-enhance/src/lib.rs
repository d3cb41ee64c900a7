//! Noise reduction of speech recordings with DeepFilterNet3.
//!
//! In: samples at 48 kHz with any number of channels, block by block, or an [`hark_media::AudioStream`] of them. Out: as many
//! samples with the noise taken away, aligned with the input to the sample. Memory does not grow with the recording. Out of scope:
//! containers and codecs (`hark-media`), where the model comes from (`hark-models`), what is said.
//!
//! The network (Schröter et al. 2023, "DeepFilterNet: Perceptually Motivated Real-Time Speech Enhancement") works on an STFT
//! of 20 ms windows. An encoder reads 32 ERB band energies and the 96 lowest bins of each frame; one decoder estimates a gain
//! for each band, the other five complex filter taps for each of the 96 bins. Both look two frames (20 ms) ahead.
//! Frames are computed in blocks of [`BLOCK`]: convolutions and input products run over all frames of a block at once, only the
//! recurrences go frame by frame.
//!
//! | file | its subject |
//! |---|---|
//! | `archive` | the model file: a gzipped tar archive of three ONNX graphs and their configuration |
//! | `spectrum` | STFT and its inverse, ERB bands, normalized features |
//! | `layers` | grouped linear layers, GRUs, separable convolutions |
//! | `network` | encoder and decoders over one block of one channel |
//! | `channel` | samples of one channel in and out |
//! | `limiter` | keeps peaks below full scale |
//! | `enhancer` | the public interface |

mod archive;
mod channel;
mod enhancer;
mod error;
mod layers;
mod limiter;
mod network;
mod spectrum;

pub use enhancer::{EnhanceStream, Enhancer, MAX_CHANNELS, Options, Progress, Summary};
pub use error::{EnhanceError, Fault};
pub use hark_compute::Compute;

/// The rate of all samples, in Hz.
pub const SAMPLE_RATE: u32 = 48_000;

/// Frames of 10 ms that are computed at once: a multiple of the 48 columns of an AVX-512 GEMM tile.
pub const BLOCK: usize = 96;
