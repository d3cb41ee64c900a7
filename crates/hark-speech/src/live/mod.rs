//! Words while people speak.
//!
//! In: 16 kHz samples as they come. Out: [`LiveEvent`]s: partial texts that replace each other, and texts that stay. None
//! of its business: sockets, and what becomes of the text.
//!
//! A session never waits: [`LiveSession::push`] takes samples, [`LiveSession::poll`] says what is new, and the session calls
//! its waker when there is something to poll for. Its windows go through the scheduler that files use, in the live lane.
//!
//! Voice activity opens an utterance and ends it. While it lasts, the sound since its beginning is decoded again and again,
//! one pass at a time, and each pass is given the words that are settled already, so it only writes what is new. A word is
//! settled when it lies far enough behind the end of the sound. When an utterance grows long its settled beginning is cut
//! off and becomes the prompt of the passes that follow.

mod endpoint;
mod policy;
mod repetition;
mod session;
mod speakers;

pub use policy::LivePolicy;
pub use session::LiveSession;

use hark_transcript::{Segment, TranscriptionResult, Word};

/// What is wanted of a live session.
#[derive(Debug, Clone, Default)]
pub struct LiveOptions {
    /// Language code; found out when not given.
    pub language: Option<String>,
    /// Transcribe, or translate into English.
    pub task: hark_whisper::decode::Task,
    /// Text that could stand before the recording: names, spelling, style.
    pub prompt: Option<String>,
    /// Words to expect.
    pub hotwords: Option<String>,
    /// Whether each text says who speaks.
    pub speakers: bool,
    /// How soon and how often.
    pub policy: LivePolicy,
}

/// What a session has to say.
#[derive(Debug, Clone, PartialEq)]
pub enum LiveEvent {
    /// The text behind the last [`LiveEvent::Text`], as it stands now; replaces the partial before it.
    Partial {
        /// The text; empty when there is nothing left to say.
        text: String,
        /// Seconds from the beginning of the session to its first word.
        start: f64,
    },
    /// A piece of text that stays.
    Text(LiveText),
    /// Everything, once, last.
    Final(Box<TranscriptionResult>),
}

/// A piece of text that stays.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveText {
    /// The text.
    pub text: String,
    /// When it begins, in seconds from the beginning of the session.
    pub start: f64,
    /// When it ends.
    pub end: f64,
    /// Its words.
    pub words: Vec<Word>,
    /// Language code.
    pub language: String,
    /// Mean confidence of its words.
    pub confidence: f32,
    /// Label of who says it, where that was asked for and could be told. The final result may know better.
    pub speaker: Option<String>,
    /// Whether the speaker paused behind it.
    pub ends_utterance: bool,
}

/// Part of a session's text as segments.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LiveSegments {
    /// The segments.
    pub segments: Vec<Segment>,
    /// How many of them, from the first on, will stay as they are; the one behind may still grow.
    pub closed: usize,
    /// The number of the first text behind those.
    pub next: usize,
}
