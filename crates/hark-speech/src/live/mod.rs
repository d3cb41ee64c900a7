//! Live transcription: text while people speak.
//!
//! In: 16 kHz samples as they arrive. Out: [`LiveEvent`]s: interim texts that replace each other, and final texts. Sockets and
//! storage are the caller's.
//!
//! A session never blocks: [`LiveSession::push`] adds samples, [`LiveSession::poll`] returns new events, and the session calls
//! its waker when there is something to poll for. Its windows go through the scheduler that files use, in the live lane.
//!
//! Voice activity starts and ends an utterance (endpointing). While it lasts, the audio since its start is decoded repeatedly,
//! one pass at a time, with the final words as the prefix of the text, so that a pass only decodes what is new. A word is
//! final when it ends long enough before the end of the audio (look-ahead). When an utterance becomes long, its final beginning is cut
//! off and becomes the prompt of the passes that follow.

mod endpoint;
mod policy;
mod repetition;
mod session;
mod speakers;

pub use policy::LivePolicy;
pub use session::LiveSession;

use hark_transcript::{Segment, TranscriptionResult, Word};

/// The options of a live session.
#[derive(Debug, Clone, Default)]
pub struct LiveOptions {
    /// Language code; detected when not given.
    pub language: Option<String>,
    /// Transcribe, or translate into English.
    pub task: hark_whisper::decode::Task,
    /// Text to condition on: names, spelling, style.
    pub prompt: Option<String>,
    /// Words to expect.
    pub hotwords: Option<String>,
    /// Whether texts have speaker labels.
    pub speakers: bool,
    /// Intervals and limits.
    pub policy: LivePolicy,
}

/// An event of a live session.
#[derive(Debug, Clone, PartialEq)]
pub enum LiveEvent {
    /// The interim text after the last [`LiveEvent::Text`]; replaces the one before it.
    Partial {
        /// The text; empty when there is none.
        text: String,
        /// Seconds from the beginning of the session to its first word.
        start: f64,
    },
    /// A final text.
    Text(LiveText),
    /// The whole transcript, once, as the last event.
    Final(Box<TranscriptionResult>),
}

/// A final text.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveText {
    /// The text.
    pub text: String,
    /// Its start, in seconds from the beginning of the session.
    pub start: f64,
    /// Its end.
    pub end: f64,
    /// Its words.
    pub words: Vec<Word>,
    /// Language code.
    pub language: String,
    /// Mean confidence of its words.
    pub confidence: f32,
    /// The speaker label, if requested and known. The transcript at the end may correct it.
    pub speaker: Option<String>,
    /// Whether it ends an utterance.
    pub ends_utterance: bool,
}

/// Segments of a part of a session's text.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LiveSegments {
    /// The segments.
    pub segments: Vec<Segment>,
    /// How many of them are complete; the one after may still grow.
    pub closed: usize,
    /// The number of the first text after the complete ones.
    pub next: usize,
}
