//! The domain type: a transcript with its segments, words, speakers and language, and moments in time.
//!
//! In: nothing. Out: plain types with `serde`, and with the feature `schema` their OpenAPI schemas. None of its business: how a
//! transcript is made, stored, laid out or sent.

mod channels;
mod datetime;
mod lane;
mod script;
mod task;
mod transcript;
mod voice_activity;

pub use channels::Channels;
pub use datetime::DateTime;
pub use lane::Lane;
pub use script::is_unspaced;
pub use task::{AnalysisType, GenerationType, SummaryStyle};
pub use transcript::{Segment, TranscriptionResult, Word};
pub use voice_activity::VoiceActivity;
