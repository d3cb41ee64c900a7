//! hark-whisper
