//! Wire types of the Hark service: what crosses a socket or leaves the command line as JSON.
//!
//! In: nothing. Out: plain types with `serde`. None of its business: how a value is made, stored or sent.

mod transcription;

pub use transcription::{Segment, TranscriptionResult, Word};
