//! The Whisper engine.
//!
//! In: a checkpoint, windows of up to 30 s of 16 kHz samples, and how to decode them. Out: tokens, text,
//! probabilities, and word times inside the window. None of its business: files, voice activity, where a window
//! stands in a recording, and who asked.

pub mod backend;
pub mod cpu;
pub mod decode;
pub mod languages;
mod logits;
pub mod mel;
pub mod reference;
#[cfg(feature = "test-support")]
pub mod testing;
pub mod tokenizer;
pub mod weights;
pub mod words;
