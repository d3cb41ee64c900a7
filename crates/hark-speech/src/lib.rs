//! hark-speech
pub mod vad;
pub mod windows;
