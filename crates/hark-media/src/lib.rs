//! hark-media
