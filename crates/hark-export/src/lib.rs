//! hark-export
