//! Speech synthesis of the engine.

use std::io::Write;

use hark_media::CancelToken;
use hark_models::Role as ModelRole;
use hark_voice::{
    Fault, FileFormat, Marker, Narrator, NarratorOptions, Payload, PresetVoice, RUNTIME_MODEL, Reference, Script,
    SpeechRequest, Spoken, VoiceChoice, VoiceError,
};

use super::registry::{InUse, ModelSpec, Resident};
use super::translate::base_language;
use super::{Dependency, EngineError, Speak, SpeechEngine};

/// Memory of a pass over a long sentence, in bytes.
const WORKSPACE: u64 = 400 << 20;
/// Speeches at once, where memory allows. A pass uses all threads, so a second speech is for when the first one waits for a slow client, and more are only for machines with many
/// threads: the products of one sentence are small (an estimate; passes were measured with two threads).
const AT_ONCE: std::ops::RangeInclusive<usize> = 2..=8;
const THREADS_OF_A_SPEECH: usize = 8;
/// What comparing voices needs beside the speech model.
const MATCHING: [ModelRole; 2] = [ModelRole::Vad, ModelRole::Embedding];
/// The family of models that clone voices and have none of their own.
const CLONING: &str = "chatterbox";

/// Which voice speaks.
#[derive(Debug)]
pub enum SpeechVoice {
    /// One of the model's, by its name or by one of OpenAI's.
    Named(String),
    /// The voice of a clip where the model can clone, else the nearest that it can come to it.
    Like(Reference),
}

/// A text to speak.
#[derive(Debug)]
pub struct SpeechWork {
    /// The text.
    pub text: String,
    /// The code of its language; detected when not given.
    pub language: Option<String>,
    /// The voice.
    pub voice: SpeechVoice,
    /// How fast.
    pub speed: f32,
    /// The format of the file.
    pub format: FileFormat,
    /// Whether the file goes out as it is made.
    pub is_streamed: bool,
    /// What the watermark says.
    pub payload: Payload,
    /// The key of the watermark.
    pub marker: std::sync::Arc<Marker>,
}

/// What is known of a speech on its way.
#[derive(Debug, Clone, PartialEq)]
pub enum SpeechStage {
    /// How it is spoken.
    Prepared {
        /// The code of the language.
        language: &'static str,
        /// What the voice is.
        voice: String,
        /// How fast it is.
        speed: f32,
    },
    /// There is something to hear.
    Sounding,
}

/// The loaded speech model.
struct LoadedNarrator {
    narrator: Narrator,
    bytes: u64,
}

impl Resident for LoadedNarrator {
    fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl From<VoiceError> for EngineError {
    fn from(error: VoiceError) -> Self {
        match error.fault() {
            Fault::Request => EngineError::Unspeakable(error.to_string()),
            Fault::Reference => EngineError::Unusable(error.to_string()),
            Fault::Installation => EngineError::CannotSpeak(error.to_string()),
            Fault::Cancelled => EngineError::Cancelled,
            Fault::Internal => EngineError::Failed(error.to_string()),
        }
    }
}

impl SpeechEngine {
    /// The folder of the model that plays a role; none where it is not installed.
    fn folder_for(&self, role: ModelRole) -> Result<Option<std::path::PathBuf>, EngineError> {
        let name = self.name_for(role)?;
        if self.check_model(name).is_err() {
            return Ok(None);
        }
        self.folder(name).map(|(folder, _)| Some(folder))
    }

    /// The name of the configured speech model, or of the catalogue's default. Beside a model that only clones, the default one speaks in voices by name.
    fn voice_model(&self, with_reference: bool) -> Result<&str, EngineError> {
        match &self.options.voice_model {
            Some(name) if with_reference || !self.is_cloning(name) => Ok(name),
            _ => self.name_for(ModelRole::Voice),
        }
    }

    fn is_cloning(&self, name: &str) -> bool {
        self.options.catalogue.get(name).is_some_and(|model| model.family == CLONING)
    }

    fn narrator(&self, with_reference: bool) -> Result<InUse<LoadedNarrator>, EngineError> {
        let name = self.voice_model(with_reference)?;
        let (folder, bytes) = self.folder(name)?;
        let workspaces = self.at_once() as u64 * WORKSPACE;
        self.get(ModelSpec { name, bytes: bytes + workspaces, is_counted: false }, || {
            let [vad, embedding] = MATCHING.map(|role| self.folder_for(role));
            let options = NarratorOptions {
                dictionary: self.folder_for(ModelRole::Pronunciation)?,
                matching: vad?.zip(embedding?),
                runtime: if self.is_cloning(name) { Some(self.folder(RUNTIME_MODEL)?.0) } else { None },
                ..NarratorOptions::new(folder)
            };
            let narrator = Narrator::load(&self.compute, options)
                .map_err(|error| EngineError::unavailable(Dependency::Engine, error))?;
            let bytes = narrator.memory() + workspaces;
            Ok(LoadedNarrator { narrator, bytes })
        })
    }

    /// The most likely language of a text; none where it is too short to tell. A voice by name speaks its own language where the model of
    /// language identification is not installed.
    fn language_to_speak(&self, work: &SpeechWork) -> Result<Option<String>, EngineError> {
        if let Some(language) = &work.language {
            return Ok(Some(language.clone()));
        }
        match (self.detector(), &work.voice) {
            (Ok(detector), _) => {
                let found = detector.detector.detect(&work.text).filter(|found| found.is_reliable());
                let code = found.map(|found| base_language(&found.language));
                // A voice by name says in which language a text is meant that seems to be in one that is never spoken.
                let is_spoken = |code: &String| hark_voice::Language::find(code).is_some() || code == "zh";
                let is_named = matches!(work.voice, SpeechVoice::Named(_));
                Ok(code.filter(|code| !is_named || is_spoken(code)))
            }
            (Err(EngineError::ModelMissing(_) | EngineError::ModelComing { .. }), SpeechVoice::Named(_)) => Ok(None),
            (Err(error), _) => Err(error),
        }
    }
}

/// How many speeches run at once on so many threads; their workspaces take at most half of the memory budget, since models need the rest.
fn speeches_at_once(threads: usize, budget: u64) -> usize {
    let fitting = usize::try_from(budget / 2 / WORKSPACE).unwrap_or(usize::MAX);
    (threads / THREADS_OF_A_SPEECH).clamp(*AT_ONCE.start(), *AT_ONCE.end()).min(fitting).max(1)
}

impl Speak for SpeechEngine {
    fn at_once(&self) -> usize {
        speeches_at_once(self.compute.threads(), self.options.memory_budget.0)
    }

    fn check_speak(&self, with_reference: bool) -> Result<(), EngineError> {
        let name = self.voice_model(with_reference)?;
        self.check_model(name)?;
        if self.is_cloning(name) {
            self.check_model(RUNTIME_MODEL)?;
        }
        if with_reference { self.check_installed(&MATCHING) } else { Ok(()) }
    }

    fn preset_voices(&self) -> Result<Vec<PresetVoice>, EngineError> {
        let (folder, _) = self.folder(self.voice_model(false)?)?;
        Ok(Narrator::voices_in(&folder))
    }

    fn speak(
        &self,
        work: &SpeechWork,
        out: Box<dyn Write + Send>,
        stage: &mut dyn FnMut(SpeechStage),
        cancel: &CancelToken,
    ) -> Result<Spoken, EngineError> {
        let language = self.language_to_speak(work)?;
        let loaded = self.narrator(matches!(work.voice, SpeechVoice::Like(_)))?;
        let (narrator, begun) = (&loaded.narrator, std::time::Instant::now());
        let voice = match &work.voice {
            SpeechVoice::Named(name) => VoiceChoice::Named(name),
            SpeechVoice::Like(reference) => VoiceChoice::Like(reference),
        };
        let request = SpeechRequest {
            text: &work.text,
            max_characters: hark_voice::MAX_CHARACTERS,
            language: language.as_deref(),
            voice,
            speed: work.speed,
            is_streamed: work.is_streamed,
        };
        let script: Script = narrator.prepare(&request, cancel)?;
        let prepared = begun.elapsed().as_secs_f64();
        let (language, voice, speed) = (script.language(), script.voice(), script.speed());
        stage(SpeechStage::Prepared { language, voice, speed });
        let mut sounding = || stage(SpeechStage::Sounding);
        let (format, payload) = (work.format, &work.payload);
        let (is_streamed, marker) = (work.is_streamed, &work.marker);
        let spoken = narrator.speak(&script, format, is_streamed, marker, payload, out, &mut sounding, cancel)?;
        // The search for a voice is part of what was made for the request.
        Ok(Spoken { first_sound: prepared + spoken.first_sound, took: prepared + spoken.took, ..spoken })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeches_at_once_follow_the_threads_and_their_workspaces_fit_into_half_of_the_memory() {
        const GB: u64 = 1 << 30;
        for (threads, budget, expected) in
            [(1, 4 * GB, 2), (2, 16 * GB, 2), (32, 16 * GB, 4), (128, 64 * GB, 8), (128, 2 * GB, 2), (2, GB / 2, 1)]
        {
            assert_eq!(speeches_at_once(threads, budget), expected, "{threads} threads, {budget} bytes");
        }
    }

    #[test]
    fn a_missing_encoder_is_a_matter_of_the_installation() {
        let error = FileFormat::Mp3.check(Some(std::path::Path::new("/nowhere/ffmpeg"))).unwrap_err();
        let error = hark_api::ApiError::from(EngineError::from(error));
        assert_eq!(error.status(), 503);
        assert!(error.message.contains("ffmpeg"), "{}", error.message);
    }
}
