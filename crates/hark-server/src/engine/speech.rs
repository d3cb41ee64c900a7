//! The real engine: installed Whisper checkpoints, each loaded once and shared by all recordings and live
//! sessions.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use hark_api::{ModelTier, TranscriptionResult};
use hark_media::Source;
use hark_models::{Aliases, Catalogue, Kind, ModelStore, SPEAKER_MODELS, VAD_MODEL};
use hark_speech::live::{LiveOptions, LiveSession};
use hark_speech::{CancelToken, Isa, LoadOptions, Progress, Request, Speakers, Task, Transcriber, Voiceprint, Voices};
use hark_store::{Capabilities, Need};

use super::loaded::{InUse, Loaded};
use super::{Engine, EngineError, IDENTIFY, Live, Transcribed, Wake, Work};

/// The names of the contract, the default first; the flag says whether it needs a paid plan (decisions: paid models).
const PUBLIC: [(&str, &str, bool); 5] = [
    ("large-v3-turbo", "whisper-large-v3-turbo", false),
    ("large-v3", "whisper-large-v3", true),
    ("medium", "whisper-medium", false),
    ("small", "whisper-small", false),
    ("svc-ai-enhanced", "whisper-large-v3", true),
];

/// What the engine is made of.
#[derive(Debug, Clone)]
pub struct SpeechOptions {
    /// Where models are.
    pub models: ModelStore,
    /// What is known about them.
    pub catalogue: Catalogue,
    /// Names that requests use.
    pub aliases: Aliases,
    /// Threads that compute; all cores when not given.
    pub threads: Option<usize>,
    /// Kernels to use; the machine's best when not given.
    pub isa: Option<Isa>,
    /// Models kept in memory; more only while more are in use.
    pub loaded: usize,
}

/// Whisper checkpoints behind [`Engine`].
pub struct SpeechEngine {
    options: SpeechOptions,
    loaded: Arc<Loaded<Transcriber>>,
    /// Loaded when first asked for.
    voices: Mutex<Option<Voices>>,
}

impl SpeechEngine {
    /// An engine over the installed models; they are loaded when first asked for.
    pub fn new(options: SpeechOptions) -> Self {
        SpeechEngine { loaded: Loaded::new(options.loaded), options, voices: Mutex::default() }
    }

    /// Loads a model before the first request asks for it.
    pub fn warm_up(&self, model: &str) -> Result<(), EngineError> {
        let checkpoint = self.resolve(model)?;
        self.transcriber(&checkpoint).map(drop)
    }

    /// Installed checkpoints; what the catalogue does not know is taken for one that somebody copied there.
    fn installed(&self) -> Vec<String> {
        let is_speech = |name: &str| self.options.catalogue.get(name).is_none_or(|entry| entry.kind == Kind::Speech);
        let all = self.options.models.all_installed().into_iter();
        all.map(|(name, _)| name).filter(|name| is_speech(name)).collect()
    }

    fn folder(&self, name: &str) -> Result<PathBuf, EngineError> {
        let installed = self.options.models.installed(name);
        installed.map(|model| model.dir).ok_or_else(|| EngineError::ModelMissing(name.to_owned()))
    }

    /// What tells voices apart; none where its models are not installed.
    fn voices(&self) -> Result<Option<Voices>, EngineError> {
        let mut voices = self.voices.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if voices.is_none() {
            let [Ok(segmentation), Ok(embedding)] = SPEAKER_MODELS.map(|name| self.folder(name)) else {
                return Ok(None);
            };
            *voices = Some(Voices::load(&segmentation, &embedding, self.options.threads, self.options.isa)?);
        }
        Ok(voices.clone())
    }

    fn load(&self, checkpoint: &str) -> Result<Transcriber, EngineError> {
        let mut options = LoadOptions::new(self.folder(checkpoint)?, self.folder(VAD_MODEL)?);
        options.voices = self.voices()?;
        options.threads = self.options.threads;
        options.isa = self.options.isa;
        let begun = std::time::Instant::now();
        let transcriber = Transcriber::load(&options)?;
        tracing::info!(
            checkpoint,
            seconds = begun.elapsed().as_secs_f64(),
            backend = transcriber.backend_name(),
            "loaded"
        );
        Ok(transcriber)
    }

    /// The loaded checkpoint, for files and live sessions alike.
    fn transcriber(&self, checkpoint: &str) -> Result<InUse<Transcriber>, EngineError> {
        self.loaded.get(checkpoint, || self.load(checkpoint))
    }
}

impl Engine for SpeechEngine {
    fn models(&self) -> Vec<hark_api::Model> {
        let installed = self.installed();
        let has = |name: &str| installed.iter().any(|one| one == name);
        let describe = |id: &str, checkpoint: &str, paid_only: bool| {
            let entry = self.options.catalogue.get(checkpoint);
            hark_api::Model {
                id: id.to_owned(),
                name: match entry {
                    _ if id == "svc-ai-enhanced" => "AI enhanced".to_owned(),
                    Some(entry) if !entry.title.is_empty() => entry.title.clone(),
                    _ => id.to_owned(),
                },
                provider: entry.map_or_else(String::new, |entry| entry.provider.clone()),
                languages: entry.map_or(0, |entry| entry.languages),
                license: entry.map_or_else(|| "unknown".to_owned(), |entry| entry.licence.clone()),
                tier: if paid_only { ModelTier::Premium } else { ModelTier::Free },
                speed: entry.map_or_else(|| "standard".to_owned(), |entry| entry.speed.clone()),
                paid_only,
                installed: has(checkpoint),
            }
        };
        let mut models: Vec<_> =
            PUBLIC.iter().map(|&(id, checkpoint, paid_only)| describe(id, checkpoint, paid_only)).collect();
        let is_public = |name: &str| PUBLIC.iter().any(|&(_, checkpoint, _)| checkpoint == name);
        let others = installed.iter().filter(|name| !is_public(name));
        models.extend(others.map(|name| describe(name, name, false)));
        models
    }

    fn resolve(&self, model: &str) -> Result<String, EngineError> {
        match self.options.aliases.resolve(model, &self.installed()) {
            Ok(found) => Ok(found.checkpoint),
            Err(_) => {
                let table = BTreeMap::from(self.options.aliases.clone());
                let own = format!("whisper-{model}");
                let known = table.get(model).and_then(|names| names.first()).map(String::as_str);
                let known = known.or([model, &own].into_iter().find(|name| self.options.catalogue.get(name).is_some()));
                Err(match known {
                    Some(checkpoint) => EngineError::ModelMissing(checkpoint.to_owned()),
                    None => EngineError::UnknownModel(model.to_owned()),
                })
            }
        }
    }

    fn capabilities(&self) -> Capabilities {
        // Without it no checkpoint can be used.
        if self.options.models.installed(VAD_MODEL).is_none() {
            return Capabilities::none();
        }
        let installed = self.installed();
        let aliases = self.options.aliases.names();
        let short = installed.iter().filter_map(|name| name.strip_prefix("whisper-"));
        let names = aliases.chain(installed.iter().map(String::as_str)).chain(short);
        let served = names.filter(|name| self.options.aliases.resolve(name, &installed).is_ok());
        let models = served.map(|name| Need::Model(name.to_owned()));
        let voices = self.knows_voices().is_ok().then_some(Need::Capability(IDENTIFY));
        Capabilities::only(models.chain(voices))
    }

    fn transcribe(
        &self,
        source: Source,
        work: &Work,
        progress: &mut dyn FnMut(f64, Option<f64>),
        cancel: &CancelToken,
    ) -> Result<Transcribed, EngineError> {
        if work.identify {
            self.knows_voices()?;
        }
        let mut request = Request {
            language: work.language.clone(),
            task: if work.translate { Task::Translate } else { Task::Transcribe },
            words: work.word_timestamps,
            prompt: work.prompt.clone(),
            hotwords: work.hotwords.clone(),
            known: work.known.clone(),
            cancel: cancel.clone(),
            ..Request::default()
        };
        if let Some(temperature) = work.temperature {
            // As Whisper does it: what goes in circles is tried again with the warmer ones.
            request.temperatures.retain(|&warmer| warmer > temperature);
            request.temperatures.insert(0, temperature);
        }
        let transcriber = self.transcriber(&work.model)?;
        request.speakers = match work.speakers {
            _ if !(work.diarize || work.identify) || !transcriber.tells_speakers_apart() => Speakers::Off,
            0 => Speakers::Auto,
            count => Speakers::Exactly(count as usize),
        };
        let mut tell = |so_far: Progress| progress(so_far.audio_done, so_far.audio_total);
        let done = transcriber.transcribe(source, &request, &mut tell)?;
        for warning in &done.warnings {
            tracing::info!(warning, "about the recording");
        }
        let result = TranscriptionResult { model: work.model.clone(), ..done.result };
        Ok(Transcribed { result, names: done.names })
    }

    fn print(&self, source: Source) -> Result<Voiceprint, EngineError> {
        self.knows_voices()?;
        let voices = self.voices()?.ok_or(EngineError::NoVoices)?;
        Ok(voices.print(source, &hark_media::Options::default())?)
    }

    fn knows_voices(&self) -> Result<(), EngineError> {
        SPEAKER_MODELS.iter().try_for_each(|name| self.folder(name).map(drop))
    }

    fn live(&self, work: &Work, wake: Wake) -> Result<Live, EngineError> {
        let transcriber = self.transcriber(&work.model)?;
        let options = LiveOptions {
            language: work.language.clone(),
            task: if work.translate { Task::Translate } else { Task::Transcribe },
            prompt: work.prompt.clone(),
            hotwords: work.hotwords.clone(),
            speakers: work.diarize && transcriber.tells_speakers_apart(),
            ..LiveOptions::default()
        };
        let session = LiveSession::new(&transcriber, &options, wake)?;
        Ok(Live::new(session, transcriber))
    }

    fn device(&self) -> Option<String> {
        if self.installed().is_empty() || self.options.models.installed(VAD_MODEL).is_none() {
            return None;
        }
        let threads =
            self.options.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
        Some(format!("cpu ({}, {threads} threads)", self.options.isa.unwrap_or_else(Isa::best).name()))
    }
}
