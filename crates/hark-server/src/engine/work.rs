//! The work on a recording, and its result.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

use hark_api::TranscriptionResult;
use hark_speech::live::{LiveEvent, LiveSegments, LiveSession};
use hark_speech::{SpeechError, Voiceprint};
use serde::{Deserialize, Serialize};

/// A recording as words.
#[derive(Debug, Clone, Default)]
pub struct Transcribed {
    /// What was said, speakers by their labels.
    pub result: TranscriptionResult,
    /// Names of the speakers whose voices are known, by label.
    pub names: BTreeMap<String, String>,
}

/// A live session, with what must stay in memory as long as it does: its models.
pub struct LiveHandle {
    // Dropped before what it needs.
    session: Box<dyn LiveRecognizer>,
    _needs: Box<dyn Send>,
}

impl LiveHandle {
    /// A session that holds on to what it needs until it ends.
    pub fn new(session: impl LiveRecognizer, needs: impl Send + 'static) -> Self {
        LiveHandle { session: Box::new(session), _needs: Box::new(needs) }
    }
}

impl Deref for LiveHandle {
    type Target = dyn LiveRecognizer;

    fn deref(&self) -> &Self::Target {
        &*self.session
    }
}

impl DerefMut for LiveHandle {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut *self.session
    }
}

/// The interface of a live recognizer; see [`LiveSession`] for each method.
pub trait LiveRecognizer: Send + 'static {
    /// Takes the next samples.
    fn push(&mut self, samples: &[f32]);
    /// Ends the utterance.
    fn flush(&mut self);
    /// No more sound will come.
    fn finish(&mut self);
    /// Seconds of sound that wait to be decoded.
    fn backlog(&self) -> f64;
    /// What is new.
    fn poll(&mut self) -> Result<Vec<LiveEvent>, SpeechError>;
    /// Everything that was settled so far.
    fn so_far(&self) -> TranscriptionResult;
    /// The segments of the settled texts from number `from` on.
    fn final_segments_from(&self, from: usize) -> LiveSegments;
    /// The language that is spoken, once it is known.
    fn language(&self) -> Option<&str>;
}

impl LiveRecognizer for LiveSession {
    fn push(&mut self, samples: &[f32]) {
        LiveSession::push(self, samples);
    }

    fn flush(&mut self) {
        LiveSession::flush(self);
    }

    fn finish(&mut self) {
        LiveSession::finish(self);
    }

    fn backlog(&self) -> f64 {
        LiveSession::backlog(self)
    }

    fn poll(&mut self) -> Result<Vec<LiveEvent>, SpeechError> {
        LiveSession::poll(self)
    }

    fn so_far(&self) -> TranscriptionResult {
        LiveSession::so_far(self)
    }

    fn final_segments_from(&self, from: usize) -> LiveSegments {
        LiveSession::final_segments_from(self, from)
    }

    fn language(&self) -> Option<&str> {
        LiveSession::language(self)
    }
}

/// Called when a live session has something to say.
pub type Wake = Box<dyn Fn() + Send + Sync>;

/// The options of a transcription, stored with its job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Work {
    /// The checkpoint that runs.
    pub model: String,
    /// Language code; found out when not given.
    pub language: Option<String>,
    /// Whether to tell speakers apart.
    pub diarize: bool,
    /// How many speakers there are; 0 finds out.
    pub speakers: u32,
    /// Whether to name the speakers whose voices the account knows.
    pub identify: bool,
    /// Those voices, looked up when the work begins: a print is written down in one place only.
    #[serde(skip)]
    pub known: Vec<(String, Voiceprint)>,
    /// How much of the recording may be decoded, as it turns out how long it really is.
    #[serde(skip)]
    pub budget: hark_media::Budget,
    /// Whether to write English whatever is spoken.
    pub translate: bool,
    /// Whether every word gets its time.
    pub word_timestamps: bool,
    /// Text that could stand before the recording.
    pub prompt: Option<String>,
    /// Words to expect.
    pub hotwords: Option<String>,
    /// How freely words are chosen, 0 to 1; the engine's own way when not given.
    pub temperature: Option<f32>,
}

impl Default for Work {
    fn default() -> Self {
        Work {
            model: String::new(),
            language: None,
            diarize: true,
            speakers: 0,
            identify: false,
            known: Vec::new(),
            budget: hark_media::Budget::default(),
            translate: false,
            word_timestamps: true,
            prompt: None,
            hotwords: None,
            temperature: None,
        }
    }
}
