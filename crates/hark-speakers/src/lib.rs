//! Speaker diarization.
//!
//! Input: 16 kHz mono samples of a recording. Output: the turns of each speaker and the cluster centroid of each. The
//! [`Segmenter`] finds up to three local speakers in windows of ten seconds, the [`Embedder`] maps a piece of speech to a
//! speaker embedding, and agglomerative clustering ([`cluster`]) joins local speakers across windows. Containers, words
//! and the names of people are not its concern.

pub mod cluster;
mod diarizer;
pub mod embedding;
mod error;
mod fbank;
mod frames;
mod pieces;
pub mod segmentation;
mod turns;

pub use diarizer::{Diarization, Diarizer, Networks};
pub use embedding::{EMBEDDING_WIDTH, Embedder, SHORTEST_PIECE};
pub use error::SpeakersError;
pub use segmentation::{
    CLASSES, FRAME_STEP, FRAMES_PER_WINDOW, POWERSET, RECEPTIVE_FIELD, Segmenter, WINDOW_SAMPLES, frame_middle,
};
pub use turns::Turn;

pub use hark_compute::{Compute, Isa};

/// Sample rate of both networks' input in Hz.
pub const SAMPLE_RATE: usize = 16_000;
