//! hark-models
