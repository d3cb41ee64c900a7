//! The work on a recording, and its result.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

use hark_api::{TranscriptionResult, VoiceActivity};
use hark_speech::live::{LiveEvent, LiveSegments, LiveSession};
use hark_speech::{Channels, SpeechError, Voiceprint};
use serde::{Deserialize, Serialize};

/// The result of a transcription.
#[derive(Debug, Clone, Default)]
pub struct Transcribed {
    /// The transcript, with speaker labels.
    pub result: TranscriptionResult,
    /// Names of known speakers, by label.
    pub names: BTreeMap<String, String>,
}

/// A live session with the models that must stay loaded as long as it exists.
pub struct LiveHandle {
    // Dropped before its models.
    session: Box<dyn LiveRecognizer>,
    _needs: Box<dyn Send>,
}

impl LiveHandle {
    /// A session that keeps its models loaded until it ends.
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
    /// Adds samples.
    fn push(&mut self, samples: &[f32]);
    /// Ends the utterance.
    fn flush(&mut self);
    /// Ends the audio.
    fn finish(&mut self);
    /// Seconds of audio that were not decoded yet.
    fn backlog(&self) -> f64;
    /// New events.
    fn poll(&mut self) -> Result<Vec<LiveEvent>, SpeechError>;
    /// The transcript so far.
    fn so_far(&self) -> TranscriptionResult;
    /// The segments of the final texts from number `from` on.
    fn final_segments_from(&self, from: usize) -> LiveSegments;
    /// The language, once it is known.
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

/// Called when a live session should be polled.
pub type Wake = Box<dyn Fn() + Send + Sync>;

/// The options of a transcription, stored with its job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Work {
    /// The checkpoint that runs.
    pub model: String,
    /// Language code, or [`MULTI`](hark_speech::MULTI); detected when not given.
    pub language: Option<String>,
    /// The language of most recordings of the account, read when the job starts.
    #[serde(skip)]
    pub usual_language: Option<String>,
    /// Whether to diarize.
    pub diarize: bool,
    /// The number of speakers; 0 estimates it.
    pub speakers: u32,
    /// What becomes of the channels of the recording.
    pub channels: Channels,
    /// Whether to name known speakers of the account.
    pub identify: bool,
    /// Their voiceprints, read when the job starts: they are not stored with the job.
    #[serde(skip)]
    pub known: Vec<(String, Voiceprint)>,
    /// The budget of audio that may be decoded, whatever duration the container claims.
    #[serde(skip)]
    pub budget: hark_media::Budget,
    /// Whether to translate into English.
    pub translate: bool,
    /// Whether words have times.
    pub word_timestamps: bool,
    /// Which sound is transcribed.
    pub vad: VoiceActivity,
    /// Text to condition on.
    pub prompt: Option<String>,
    /// Words to expect.
    pub hotwords: Option<String>,
    /// The sampling temperature, 0 to 1; the engine's default when not given.
    pub temperature: Option<f32>,
}

impl Default for Work {
    fn default() -> Self {
        Work {
            model: String::new(),
            language: None,
            usual_language: None,
            diarize: true,
            speakers: 0,
            channels: Channels::default(),
            identify: false,
            known: Vec::new(),
            budget: hark_media::Budget::default(),
            translate: false,
            word_timestamps: true,
            vad: VoiceActivity::default(),
            prompt: None,
            hotwords: None,
            temperature: None,
        }
    }
}
