//! The real engine: installed Whisper checkpoints, each loaded once and shared by all recordings and live
//! sessions.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hark_api::{ModelTier, TranscriptionResult};
use hark_media::Source;
use hark_models::{Aliases, Catalogue, Kind, ModelStore, SPEAKER_MODELS, VAD_MODEL};
use hark_speech::live::{LiveOptions, LiveSession};
use hark_speech::vad::SileroVad;
use hark_speech::{
    BackendLoader, CancelToken, Compute, EngineState, Isa, LoadOptions, Progress, Request, Speakers, Task, Transcriber,
    Voiceprint, Voices,
};
use hark_store::{Capabilities, Need};

use super::budget::Bytes;
use super::installed::InstalledModels;
use super::loaded::{GetError, InUse, Loaded, Resident, Wanted};
use super::{Dependency, Engine, EngineError, EngineReport, IDENTIFY, Live, Transcribed, Wake, Work};

/// The names of the contract, the default first; the flag says whether it needs a paid plan (decisions: paid models).
const PUBLIC: [(&str, &str, bool); 5] = [
    ("large-v3-turbo", "whisper-large-v3-turbo", false),
    ("large-v3", "whisper-large-v3", true),
    ("medium", "whisper-medium", false),
    ("small", "whisper-small", false),
    ("svc-ai-enhanced", "whisper-large-v3", true),
];

/// What the engine is made of.
#[derive(Clone)]
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
    /// Speech models kept in memory; more only while more are in use.
    pub loaded: usize,
    /// Memory that all models may take together.
    pub memory_budget: Bytes,
    /// What loads a checkpoint on a device; the processor when not given.
    pub backend: Option<BackendLoader>,
}

/// A model in memory.
#[derive(Clone)]
enum Model {
    /// A Whisper checkpoint, with the others that it works with and that stay as long as it does.
    Speech { transcriber: Transcriber, _needs: Arc<Vec<InUse<Model>>> },
    /// What tells voices apart.
    Voices(Voices, u64),
    /// What finds speech.
    VoiceActivity(Arc<SileroVad>, u64),
}

impl Resident for Model {
    fn bytes(&self) -> u64 {
        match self {
            Model::Speech { transcriber, .. } => transcriber.memory().most,
            Model::Voices(_, bytes) | Model::VoiceActivity(_, bytes) => *bytes,
        }
    }

    fn is_usable(&self) -> bool {
        match self {
            Model::Speech { transcriber, .. } => transcriber.engine_state() != EngineState::Failed,
            Model::Voices(..) | Model::VoiceActivity(..) => true,
        }
    }
}

/// A speech model that is in use.
struct Speech {
    transcriber: Transcriber,
    _stay: InUse<Model>,
}

impl std::ops::Deref for Speech {
    type Target = Transcriber;

    fn deref(&self) -> &Transcriber {
        &self.transcriber
    }
}

/// How long a model that does not fit waits for others to be done.
const MEMORY_PATIENCE: Duration = Duration::from_secs(30);
/// Most of the memory for the windows of a model that is of use.
const MOST_WORKSPACE: u64 = 3600 << 20;
/// The name of what tells voices apart, in the registry.
const VOICES: &str = "speakers";

/// Whisper checkpoints behind [`Engine`].
pub struct SpeechEngine {
    options: SpeechOptions,
    /// The threads and kernels of all models.
    compute: Compute,
    installed: InstalledModels,
    loaded: Arc<Loaded<Model>>,
    /// How often the engine of each model was loaded again.
    restarts: Mutex<BTreeMap<String, Arc<AtomicU64>>>,
}

impl SpeechEngine {
    /// An engine over the installed models; they are loaded when first asked for.
    pub fn new(options: SpeechOptions) -> Self {
        SpeechEngine {
            installed: InstalledModels::watch(options.models.clone()),
            loaded: Loaded::new(options.loaded, options.memory_budget.0, MEMORY_PATIENCE),
            restarts: Mutex::default(),
            compute: Compute::from_options(options.threads, options.isa),
            options,
        }
    }

    /// Loads a model before the first request asks for it.
    pub fn warm_up(&self, model: &str) -> Result<(), EngineError> {
        let checkpoint = self.resolve(model)?;
        self.transcriber(&checkpoint).map(drop)
    }

    /// Installed checkpoints; what the catalogue does not know is taken for one that somebody copied there.
    fn installed(&self) -> Vec<String> {
        let is_speech =
            |name: &&String| self.options.catalogue.get(name).is_none_or(|entry| entry.kind == Kind::Speech);
        self.installed.names().iter().filter(is_speech).cloned().collect()
    }

    /// The folder of a model whose files are those that were installed, and their bytes.
    fn folder(&self, name: &str) -> Result<(PathBuf, u64), EngineError> {
        let installed = self.options.models.installed(name);
        let dir = installed.map(|model| model.dir).ok_or_else(|| EngineError::ModelMissing(name.to_owned()))?;
        let checked = self.options.models.check_integrity(name, &self.options.catalogue);
        checked.map_err(|error| EngineError::unavailable(Dependency::Engine, error))?;
        let files = std::fs::read_dir(&dir).into_iter().flatten().flatten();
        let bytes = files.filter_map(|file| std::fs::metadata(file.path()).ok()).map(|data| data.len()).sum();
        Ok((dir, bytes))
    }

    fn get(
        &self,
        wanted: Wanted<'_>,
        load: impl FnOnce() -> Result<Model, EngineError>,
    ) -> Result<InUse<Model>, EngineError> {
        self.loaded.get(wanted, load).map_err(|error| match error {
            GetError::Load(error) => error,
            GetError::NoMemory { needed, budget } => EngineError::unavailable(
                Dependency::Engine,
                format!(
                    "the model {} needs {} MB of memory and models may take {} MB; raise `memory_budget` or use fewer \
                     models at once",
                    wanted.name,
                    needed / 1_000_000,
                    budget / 1_000_000
                ),
            ),
        })
    }

    /// What tells voices apart; none where its models are not installed.
    fn voices(&self) -> Result<Option<(Voices, InUse<Model>)>, EngineError> {
        if !SPEAKER_MODELS.iter().all(|name| self.options.models.installed(name).is_some()) {
            return Ok(None);
        }
        let [segmentation, embedding] = SPEAKER_MODELS.map(|name| self.folder(name));
        let ((segmentation, one), (embedding, other)) = (segmentation?, embedding?);
        // Workspaces of all threads are about as large as the weights.
        let bytes = 2 * (one + other);
        let stay = self.get(Wanted { name: VOICES, bytes, is_counted: false }, || {
            let voices = Voices::load(&segmentation, &embedding, &self.compute)?;
            Ok(Model::Voices(voices, bytes))
        })?;
        let voices = match &*stay {
            Model::Voices(voices, _) => voices.clone(),
            _ => return Ok(None),
        };
        Ok(Some((voices, stay)))
    }

    fn voice_activity(&self) -> Result<(Arc<SileroVad>, InUse<Model>), EngineError> {
        let (folder, bytes) = self.folder(VAD_MODEL)?;
        let stay = self.get(Wanted { name: VAD_MODEL, bytes, is_counted: false }, || {
            let vad = SileroVad::load(&folder).map_err(hark_speech::SpeechError::from)?;
            Ok(Model::VoiceActivity(Arc::new(vad), bytes))
        })?;
        match &*stay {
            Model::VoiceActivity(vad, _) => Ok((Arc::clone(vad), stay)),
            _ => Err(EngineError::ModelMissing(VAD_MODEL.to_owned())),
        }
    }

    fn load(&self, checkpoint: &str, folder: PathBuf, workspace: u64) -> Result<Model, EngineError> {
        let (vad, vad_stay) = self.voice_activity()?;
        let mut needs = vec![vad_stay];
        let mut options = LoadOptions::new(folder, PathBuf::new());
        if let Some((voices, stay)) = self.voices()? {
            options.voices = Some(voices);
            needs.push(stay);
        }
        options.compute = Some(self.compute.clone());
        options.backend = self.options.backend.clone();
        options.workspace = workspace;
        options.restarts = self.restarts_of(checkpoint);
        let begun = std::time::Instant::now();
        let transcriber = Transcriber::load_with(&options, vad)?;
        tracing::info!(
            checkpoint,
            seconds = begun.elapsed().as_secs_f64(),
            backend = transcriber.backend_name(),
            most_bytes = transcriber.memory().most,
            "model.loaded"
        );
        Ok(Model::Speech { transcriber, _needs: Arc::new(needs) })
    }

    fn restarts_of(&self, checkpoint: &str) -> Arc<AtomicU64> {
        let mut restarts = self.restarts.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        Arc::clone(restarts.entry(checkpoint.to_owned()).or_default())
    }

    /// The loaded checkpoint, for files and live sessions alike.
    fn transcriber(&self, checkpoint: &str) -> Result<Speech, EngineError> {
        let (folder, bytes) = self.folder(checkpoint)?;
        // Half of what the weights leave, so that a second model finds room.
        let workspace = (self.options.memory_budget.0.saturating_sub(bytes) / 2).min(MOST_WORKSPACE);
        let wanted = Wanted { name: checkpoint, bytes: bytes + workspace, is_counted: true };
        let stay = self.get(wanted, || self.load(checkpoint, folder, workspace))?;
        match &*stay {
            Model::Speech { transcriber, .. } => Ok(Speech { transcriber: transcriber.clone(), _stay: stay }),
            _ => Err(EngineError::UnknownModel(checkpoint.to_owned())),
        }
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
        if !self.installed.has(VAD_MODEL) {
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
            media: hark_media::Options { budget: work.budget.clone(), ..hark_media::Options::default() },
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
        let (voices, _stay) = self.voices()?.ok_or(EngineError::NoVoices)?;
        Ok(voices.print(source, &hark_media::Options::default())?)
    }

    fn knows_voices(&self) -> Result<(), EngineError> {
        let missing = SPEAKER_MODELS.iter().find(|name| !self.installed.has(name));
        missing.map_or(Ok(()), |name| Err(EngineError::ModelMissing((*name).to_owned())))
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
        let session = LiveSession::new(&transcriber.transcriber, &options, wake)?;
        Ok(Live::new(session, transcriber))
    }

    fn device(&self) -> Option<String> {
        if self.installed().is_empty() || !self.installed.has(VAD_MODEL) {
            return None;
        }
        Some(format!("cpu ({}, {} threads)", self.compute.isa().name(), self.compute.threads()))
    }
    fn reports(&self) -> Vec<EngineReport> {
        let there = self.loaded.all();
        let restarts = self.restarts.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let report = |(model, restarts): (&String, &Arc<AtomicU64>)| {
            let loaded = there.iter().find(|(name, _)| name == model).map(|(_, loaded)| loaded);
            let state = match loaded {
                Some(Model::Speech { transcriber, .. }) => Some(transcriber.engine_state()),
                _ => None,
            };
            EngineReport {
                model: model.clone(),
                state,
                restarts: restarts.load(Ordering::Relaxed),
                bytes: loaded.map_or(0, Resident::bytes),
            }
        };
        restarts.iter().map(report).collect()
    }
}
