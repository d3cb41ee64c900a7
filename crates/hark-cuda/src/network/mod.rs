//! The Whisper network in operations of a [`crate::device::Device`].

pub mod decoder;
pub mod encoder;
pub mod weights;
