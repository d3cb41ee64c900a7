//! From a request to marked sound: the models together.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hark_media::{AudioSpec, CancelToken, SampleWriter};
use hark_speech::Compute;
use hark_watermark::Payload;

use crate::cloning::ClonedVoices;
use crate::error::VoiceError;
use crate::file::{FileFormat, Output, SpeechFile};
use crate::mark::{MarkedWriter, Marker};
use crate::matching::SharedMatching;
use crate::presets::PresetVoices;
use crate::script::{Script, SpeechRequest};
use crate::voice_model::VoiceModel;
use crate::voices::{PresetVoice, SPEEDS};

/// Seconds that a search for a matching voice takes by default.
const MATCH_TIME: Duration = Duration::from_secs(5);

/// The folders of the models, and limits.
#[derive(Debug, Clone)]
pub struct NarratorOptions {
    /// The speech model: Kokoro, whose voices are preset or matched, or Chatterbox, whose voices are cloned.
    pub model: PathBuf,
    /// The pronunciation dictionary of English; without it English is read by espeak-ng.
    pub dictionary: Option<PathBuf>,
    /// The networks of voice activity and of speaker embeddings, which matching needs.
    pub matching: Option<(PathBuf, PathBuf)>,
    /// The program espeak-ng; found on the search path when not given.
    pub espeak: Option<PathBuf>,
    /// The program ffmpeg, which writes FLAC, MP3 and Opus; found on the search path when not given.
    pub ffmpeg: Option<PathBuf>,
    /// ONNX Runtime, which a cloning model needs.
    pub runtime: Option<PathBuf>,
    /// How long a voice is searched for that matches a reference.
    pub match_time: Duration,
}

impl NarratorOptions {
    /// Of the speech model in a folder, without the others.
    pub fn new(model: impl Into<PathBuf>) -> Self {
        NarratorOptions {
            model: model.into(),
            dictionary: None,
            matching: None,
            espeak: None,
            ffmpeg: None,
            runtime: None,
            match_time: MATCH_TIME,
        }
    }
}

/// Speaks text; one for a process, shared by all requests.
pub struct Narrator {
    model: Box<dyn VoiceModel>,
    ffmpeg: Option<PathBuf>,
}

/// What was spoken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spoken {
    /// Its length in seconds.
    pub seconds: f64,
    /// Seconds from the begin of synthesis until its first sound was made.
    pub first_sound: f64,
    /// Seconds until all of it was made and written.
    pub took: f64,
}

impl Narrator {
    /// Loads the speech model, to run on the threads and kernels of `compute`.
    pub fn load(compute: &Compute, options: NarratorOptions) -> Result<Self, VoiceError> {
        let matching = Arc::new(SharedMatching::new(compute, options.matching.clone(), options.model.clone()));
        let model: Box<dyn VoiceModel> = match Narrator::clones(&options.model) {
            true => Box::new(ClonedVoices::load(compute, &options, matching)?),
            false => Box::new(PresetVoices::load(compute, &options, matching)?),
        };
        Ok(Narrator { model, ffmpeg: options.ffmpeg })
    }

    /// Whether the model in a folder speaks in the voice of a reference, and has no voices of its own.
    pub fn clones(folder: &Path) -> bool {
        hark_clone::is_in(folder)
    }

    /// Bytes of the speech model.
    pub fn memory(&self) -> u64 {
        self.model.memory()
    }

    /// The voices that come with the model, by name.
    pub fn voices(&self) -> Vec<PresetVoice> {
        self.model.presets()
    }

    /// The voices of a model in a folder, by name, without loading it.
    pub fn voices_in(folder: &Path) -> Vec<PresetVoice> {
        let entries = std::fs::read_dir(folder.join("voices")).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut voices: Vec<PresetVoice> =
            names.filter_map(|name| PresetVoice::of_name(name.strip_suffix(".bin")?)).collect();
        voices.sort_by(|one, other| one.name.cmp(&other.name));
        voices
    }

    /// The codes of the languages that can be spoken on this machine.
    pub fn languages(&self) -> Vec<&'static str> {
        self.model.languages()
    }

    /// Finds the voice and the words of a text; blocks meanwhile.
    pub fn prepare(&self, request: &SpeechRequest<'_>, cancel: &CancelToken) -> Result<Script, VoiceError> {
        let characters = request.text.chars().count();
        if characters > request.max_characters {
            return Err(VoiceError::TooLong { characters, limit: request.max_characters });
        }
        if !SPEEDS.contains(&request.speed) {
            return Err(VoiceError::Speed { speed: request.speed });
        }
        self.model.prepare(request, cancel)
    }

    /// Speaks a script into a file that goes to `out`, marked with `payload`; blocks meanwhile. `first_sound` is called once there is something to hear and
    /// its file was begun: before that nothing is written, and the caller may still answer with an error.
    pub fn speak(
        &self,
        script: &Script,
        format: FileFormat,
        is_streamed: bool,
        marker: &Marker,
        payload: &Payload,
        out: Output,
        first_sound: &mut dyn FnMut(),
        cancel: &CancelToken,
    ) -> Result<Spoken, VoiceError> {
        let begun = Instant::now();
        let rate = self.model.sample_rate();
        let is_cancelled = || cancel.is_cancelled();
        let mut sounds = self.model.sounds(script, &is_cancelled).peekable();
        if let Some(Err(_)) = sounds.peek() {
            sounds.next().transpose()?;
        }
        let spoken = begun.elapsed().as_secs_f64();
        let spec = AudioSpec { rate, channels: 1 };
        let mut file = SpeechFile::start(spec, format, is_streamed, self.ffmpeg.clone(), out, cancel)?;
        let mut marked = MarkedWriter::new(rate, payload, marker, &mut file)?;
        first_sound();
        for sound in sounds {
            marked.write(&sound?)?;
        }
        let frames = marked.finish()?;
        let (seconds, took) = (frames as f64 / f64::from(rate), begun.elapsed().as_secs_f64());
        Ok(Spoken { seconds, first_sound: spoken, took })
    }
}
