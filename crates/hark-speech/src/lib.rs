//! hark-speech
