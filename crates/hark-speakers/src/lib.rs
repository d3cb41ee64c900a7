//! Who spoke when.
//!
//! In: 16 kHz mono samples of a recording. Out: how many speak at each moment and whose voice it is. Two networks do the
//! listening: the [`Segmenter`] tells up to three voices apart inside ten seconds, the [`Embedder`] turns a piece of
//! sound into a vector that stands close to others of the same voice. None of its business: containers, words, the
//! names of people, and who asked.

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
    CLASSES, FRAME_FIELD, FRAME_STEP, FRAMES_PER_WINDOW, POWERSET, Segmenter, WINDOW_SAMPLES, frame_middle,
};
pub use turns::Turn;

pub use hark_compute::{Compute, Isa};

/// Samples in a second of the sound that both networks take.
pub const SAMPLE_RATE: usize = 16_000;
