//! Stored transcripts.

pub(crate) mod chat;
pub(crate) mod export;
pub(crate) mod list;
pub(crate) mod one;
pub(crate) mod recording;
pub(crate) mod results;
pub(crate) mod retry;
pub(crate) mod status;
pub(crate) mod text;
pub(crate) mod translate;
pub(crate) mod waveform;
