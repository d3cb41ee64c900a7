//! What every speech model can do, and what a voice is.

use std::sync::Arc;

use crate::TtsError;

/// What a voice is, in the words that users read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VoiceKind {
    /// One of the voices that come with the model.
    Preset,
    /// Made of the model's own voices to resemble a reference recording.
    Matched,
    /// Made from a reference recording by a model that can speak in the voice of one.
    Cloned,
}

impl VoiceKind {
    /// The word in headers and reports.
    pub fn name(self) -> &'static str {
        match self {
            VoiceKind::Preset => "preset",
            VoiceKind::Matched => "matched",
            VoiceKind::Cloned => "cloned",
        }
    }
}

/// A voice of a speech model. Clones share its numbers.
#[derive(Debug, Clone)]
pub struct Voice {
    pub(crate) name: Arc<str>,
    pub(crate) kind: VoiceKind,
    /// What the network is conditioned on; the model that made them knows what they mean.
    pub(crate) numbers: Arc<[f32]>,
}

impl Voice {
    /// Its name: `af_heart`, or what it was matched with.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the network is conditioned on.
    pub fn numbers(&self) -> &[f32] {
        &self.numbers
    }

    /// What it is.
    pub fn kind(&self) -> VoiceKind {
        self.kind
    }
}

/// A network that speaks a sentence.
///
/// Text is not its concern: sentences are phonemes in the model's own alphabet.
pub trait SpeechModel: Send + Sync {
    /// Samples of a second.
    fn sample_rate(&self) -> u32;

    /// The voices that come with it, in the order of their names.
    fn voices(&self) -> &[Voice];

    /// The samples of one sentence, which is at most [`SpeechModel::max_phonemes`] long; `is_cancelled` is asked several times a second.
    fn speak(
        &self,
        phonemes: &str,
        voice: &Voice,
        speed: f32,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Vec<f32>, TtsError>;

    /// Most phonemes of a sentence.
    fn max_phonemes(&self) -> usize;

    /// The voice of that name.
    fn voice(&self, name: &str) -> Result<&Voice, TtsError> {
        self.voices().iter().find(|voice| voice.name() == name).ok_or_else(|| TtsError::UnknownVoice {
            name: name.to_owned(),
            installed: self.voices().iter().map(Voice::name).collect::<Vec<_>>().join(", "),
        })
    }
}
