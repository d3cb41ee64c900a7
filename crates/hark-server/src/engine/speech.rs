//! The real engine: installed Whisper checkpoints, each loaded once and shared by all recordings and live
//! sessions.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hark_api::{ModelTier, TranscriptionResult};
use hark_media::Source;
use hark_models::{Aliases, Catalogue, ModelStore, PublicName, Role as ModelRole, public_names};
use hark_speech::live::{LiveOptions, LiveSession};
use hark_speech::vad::SileroVad;
use hark_speech::{
    CancelToken, Compute, Devices, EngineState, EngineStats, GpuReading, Isa, LoadOptions, MULTI, Progress, Request,
    Speakers, Task, Transcriber, Voiceprint, Voices as SpeakerNetworks, read_gpu,
};
use hark_store::{Capabilities, Need};
use hark_text::Endpoint;

use super::budget::Bytes;
use super::installed::InstalledModels;
use super::language::{LanguageMemory, LanguageOptions};
use super::pulls::{PullRefusal, Pulls};
use super::registry::{GetError, InUse, ModelRegistry, ModelSpec, Resident};
use super::{
    Dependency, ENHANCE, EngineError, EngineReport, Enhance as _, IDENTIFY, Live, LiveHandle, Models, Transcribe,
    Transcribed, Voices, Wake, Work,
};

/// The options of the engine.
#[derive(Clone)]
pub struct SpeechOptions {
    /// The models folder.
    pub models: ModelStore,
    /// The catalogue of models.
    pub catalogue: Catalogue,
    /// Model names of requests.
    pub aliases: Aliases,
    /// Compute threads; all cores when not given.
    pub threads: Option<usize>,
    /// Kernels to use; the machine's best when not given.
    pub isa: Option<Isa>,
    /// Speech models kept in memory; more only while more are in use.
    pub loaded: usize,
    /// The memory budget of all models.
    pub memory_budget: Bytes,
    /// The devices that decode.
    pub devices: Devices,
    /// The language model and its limits.
    pub language: LanguageOptions,
    /// The speech model, a name of the catalogue; its default when not given.
    pub voice_model: Option<String>,
    /// Models that are being pulled.
    pub pulls: Pulls,
}

/// A loaded Whisper checkpoint, with the models that it uses, which stay loaded as long as it does.
struct SpeechModel {
    transcriber: Transcriber,
    _vad: InUse<VadModel>,
    _diarization: Option<InUse<DiarizationModels>>,
}

/// The loaded voice-activity network.
struct VadModel {
    vad: Arc<SileroVad>,
    bytes: u64,
}

/// The loaded diarization networks.
struct DiarizationModels {
    networks: SpeakerNetworks,
    bytes: u64,
}

impl Resident for SpeechModel {
    fn bytes(&self) -> u64 {
        self.transcriber.memory().most
    }

    fn backend(&self) -> Option<String> {
        Some(self.transcriber.backend_name())
    }

    fn is_usable(&self) -> bool {
        self.transcriber.engine_state() != EngineState::Failed
    }
}

impl Resident for VadModel {
    fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Resident for DiarizationModels {
    fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// The roles of the diarization networks.
const DIARIZATION: [ModelRole; 2] = [ModelRole::Segmentation, ModelRole::Embedding];
/// How long a model that does not fit waits for others to be released.
const MEMORY_TIMEOUT: Duration = Duration::from_secs(30);
/// The useful maximum of a model's workspace.
const MAX_WORKSPACE: u64 = 3600 << 20;
/// Whisper checkpoints behind [`Transcribe`], [`Live`] and [`Voices`].
pub struct SpeechEngine {
    pub(super) options: SpeechOptions,
    /// The threads and kernels of all models.
    pub(super) compute: Compute,
    installed: InstalledModels,
    pub(super) registry: Arc<ModelRegistry>,
    /// The server whose language model is used, if not one here.
    pub(super) endpoint: Option<Endpoint>,
    /// Reloads of each model's engine.
    restarts: Mutex<BTreeMap<String, Arc<AtomicU64>>>,
    /// The languages of multilingual translation models, by model.
    pub(super) translation_codes: Mutex<BTreeMap<String, Vec<String>>>,
    /// The memory of language models, by name and size.
    pub(super) language_memory: Mutex<BTreeMap<(String, u64), LanguageMemory>>,
}

impl SpeechEngine {
    /// An engine over the installed models, which are loaded on first use.
    pub fn new(options: SpeechOptions) -> Self {
        SpeechEngine {
            installed: InstalledModels::watch(options.models.clone()),
            registry: ModelRegistry::new(options.loaded, options.memory_budget.0, MEMORY_TIMEOUT),
            restarts: Mutex::default(),
            translation_codes: Mutex::default(),
            language_memory: Mutex::default(),
            compute: Compute::from_options(options.threads, options.isa),
            endpoint: options.language.endpoint.clone().and_then(|settings| match Endpoint::new(settings) {
                Ok(endpoint) => Some(endpoint),
                Err(problem) => {
                    // The configuration was checked: only the system can fail here.
                    tracing::error!(problem, "endpoint.misconfigured");
                    None
                }
            }),
            options,
        }
    }

    /// Loads a model before the first request.
    pub fn warm_up(&self, model: &str) -> Result<(), EngineError> {
        let checkpoint = self.resolve(model)?;
        self.speech(&checkpoint).map(drop)
    }

    /// Installed checkpoints; a folder that is not in the catalogue counts as a checkpoint that was copied there.
    fn installed(&self) -> Vec<String> {
        let is_speech = |name: &&String| {
            self.options.catalogue.get(name).is_none_or(|entry| entry.role == ModelRole::Transcription)
        };
        self.installed.names().iter().filter(is_speech).cloned().collect()
    }

    /// The folder of an installed model, whose files are checked, and their size in bytes.
    pub(super) fn folder(&self, name: &str) -> Result<(PathBuf, u64), EngineError> {
        let installed = self.options.models.installed(name);
        let dir = installed.map(|model| model.dir).ok_or_else(|| self.missing(name))?;
        let checked = self.options.models.check_integrity(name, &self.options.catalogue);
        checked.map_err(|error| EngineError::unavailable(Dependency::Engine, error))?;
        let files = std::fs::read_dir(&dir).into_iter().flatten().flatten();
        let bytes = files.filter_map(|file| std::fs::metadata(file.path()).ok()).map(|data| data.len()).sum();
        Ok((dir, bytes))
    }

    /// The name of the model that plays a role beside every checkpoint.
    pub(super) fn name_for(&self, role: ModelRole) -> Result<&str, EngineError> {
        let model = self.options.catalogue.default_for(role);
        model.map(|model| model.name.as_str()).map_err(|error| EngineError::unavailable(Dependency::Engine, error))
    }

    /// Whether a model is installed; reads no files.
    pub(super) fn check_model(&self, name: &str) -> Result<(), EngineError> {
        if self.installed.has(name) { Ok(()) } else { Err(self.missing(name)) }
    }

    /// The error for a model that is not installed.
    fn missing(&self, name: &str) -> EngineError {
        match self.options.pulls.get(name) {
            Some(pull) => EngineError::ModelComing { name: name.to_owned(), percent: pull.percent() },
            None => EngineError::ModelMissing(name.to_owned()),
        }
    }

    /// The first role of these whose model is not installed.
    pub(super) fn check_installed(&self, roles: &[ModelRole]) -> Result<(), EngineError> {
        roles.iter().try_for_each(|&role| self.check_model(self.name_for(role)?))
    }

    pub(super) fn get<T: Resident>(
        &self,
        wanted: ModelSpec<'_>,
        load: impl FnOnce() -> Result<T, EngineError>,
    ) -> Result<InUse<T>, EngineError> {
        self.registry.get(wanted, load).map_err(|error| match error {
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

    /// The diarization networks; `None` if they are not installed.
    fn diarization(&self) -> Result<Option<InUse<DiarizationModels>>, EngineError> {
        let names = [self.name_for(DIARIZATION[0])?, self.name_for(DIARIZATION[1])?];
        if !names.iter().all(|name| self.options.models.installed(name).is_some()) {
            return Ok(None);
        }
        let [segmentation, embedding] = names.map(|name| self.folder(name));
        let ((segmentation, one), (embedding, other)) = (segmentation?, embedding?);
        // Workspaces of all threads are about as large as the weights.
        let bytes = 2 * (one + other);
        let load = || {
            let networks = SpeakerNetworks::load(&segmentation, &embedding, &self.compute)?;
            Ok(DiarizationModels { networks, bytes })
        };
        self.get(ModelSpec { name: names[1], bytes, is_counted: false }, load).map(Some)
    }

    fn vad(&self) -> Result<InUse<VadModel>, EngineError> {
        let name = self.name_for(ModelRole::Vad)?;
        let (folder, bytes) = self.folder(name)?;
        self.get(ModelSpec { name, bytes, is_counted: false }, || {
            let vad = SileroVad::load(&folder).map_err(hark_speech::SpeechError::from)?;
            Ok(VadModel { vad: Arc::new(vad), bytes })
        })
    }

    fn load(&self, checkpoint: &str, folder: PathBuf, workspace: u64) -> Result<SpeechModel, EngineError> {
        let (vad, diarization) = (self.vad()?, self.diarization()?);
        let options = LoadOptions {
            voices: diarization.as_ref().map(|models| models.networks.clone()),
            compute: Some(self.compute.clone()),
            devices: self.options.devices.clone(),
            workspace,
            restarts: self.restarts_of(checkpoint),
            ..LoadOptions::new(folder, PathBuf::new())
        };
        let transcriber = Transcriber::load_with(&options, Arc::clone(&vad.vad))?;
        Ok(SpeechModel { transcriber, _vad: vad, _diarization: diarization })
    }

    fn restarts_of(&self, checkpoint: &str) -> Arc<AtomicU64> {
        let mut restarts = self.restarts.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        Arc::clone(restarts.entry(checkpoint.to_owned()).or_default())
    }

    /// The loaded checkpoint, for files and live sessions alike.
    fn speech(&self, checkpoint: &str) -> Result<InUse<SpeechModel>, EngineError> {
        let (folder, bytes) = self.folder(checkpoint)?;
        // Half of what the weights leave, so that a second model fits.
        let workspace = (self.options.memory_budget.0.saturating_sub(bytes) / 2).min(MAX_WORKSPACE);
        let wanted = ModelSpec { name: checkpoint, bytes: bytes + workspace, is_counted: true };
        self.get(wanted, || self.load(checkpoint, folder, workspace))
    }
}

impl Models for SpeechEngine {
    fn models(&self) -> Vec<hark_api::Model> {
        let installed = self.installed();
        let public = public_names();
        let is_public = |name: &str| public.iter().any(|one| one.checkpoint() == name);
        let named = public.iter().map(|name| (name.id.as_str(), name.checkpoint(), Some(name)));
        let others = installed.iter().filter(|name| !is_public(name)).map(|name| (name.as_str(), name.as_str(), None));
        let describe = |(id, checkpoint, name): (&str, &str, Option<&PublicName>)| {
            let entry = self.options.catalogue.get(checkpoint);
            let title = name.and_then(|name| name.title.as_ref()).or(entry.map(|entry| &entry.title));
            let paid_only = name.is_some_and(PublicName::is_paid);
            hark_api::Model {
                id: id.to_owned(),
                name: title.filter(|title| !title.is_empty()).map_or(id, String::as_str).to_owned(),
                provider: entry.map_or_else(String::new, |entry| entry.provider.clone()),
                languages: entry.map_or(0, |entry| entry.languages),
                license: entry.map_or_else(|| "unknown".to_owned(), |entry| entry.licence.clone()),
                tier: if paid_only { ModelTier::Premium } else { ModelTier::Free },
                speed: entry.map_or_else(|| "standard".to_owned(), |entry| entry.speed.clone()),
                paid_only,
                installed: installed.iter().any(|one| one == checkpoint),
            }
        };
        named.chain(others).map(describe).collect()
    }

    fn text_models(&self) -> Vec<hark_api::TextModel> {
        self.list_text_models()
    }

    fn catalogue(&self) -> Vec<hark_api::CatalogueModel> {
        self.list_catalogue()
    }

    fn pull(&self, name: &str) -> Result<(), PullRefusal> {
        self.start_pull(name)
    }

    fn sample(&self) -> Option<PathBuf> {
        self.find_sample()
    }

    fn resolve(&self, model: &str) -> Result<String, EngineError> {
        match self.options.aliases.resolve(model, &self.installed()) {
            Ok(found) => Ok(found.checkpoint),
            Err(_) => Err(match self.options.aliases.meant(model, &self.options.catalogue) {
                Some(checkpoint) => self.missing(&checkpoint),
                None => EngineError::UnknownModel(model.to_owned()),
            }),
        }
    }

    fn capabilities(&self) -> Capabilities {
        let enhance = self.check_enhance().is_ok().then_some(Need::Capability(ENHANCE));
        // Without it no checkpoint can be used.
        if self.check_installed(&[ModelRole::Vad]).is_err() {
            return Capabilities::only(enhance);
        }
        let installed = self.installed();
        let models = self.options.aliases.served(&installed).map(|name| Need::Model(name.to_owned()));
        let voices = self.check_voices().is_ok().then_some(Need::Capability(IDENTIFY));
        Capabilities::only(models.chain(voices).chain(enhance))
    }

    fn device(&self) -> Option<String> {
        if self.installed().is_empty() || self.check_installed(&[ModelRole::Vad]).is_err() {
            return None;
        }
        if let Some((_, model)) = self.registry.loaded::<SpeechModel>().first() {
            return Some(model.transcriber.backend_name());
        }
        // Nothing is loaded yet: what will decode.
        let gpus: Vec<String> = self.gpus().iter().map(GpuReading::device).collect();
        match gpus.is_empty() {
            true => Some(format!("cpu ({}, {} threads)", self.compute.isa().name(), self.compute.threads())),
            false => Some(gpus.join(", ")),
        }
    }

    fn gpus(&self) -> Vec<GpuReading> {
        self.options.devices.gpus.iter().filter_map(|&ordinal| read_gpu(ordinal)).collect()
    }

    fn reports(&self) -> Vec<EngineReport> {
        let loaded = self.registry.loaded::<SpeechModel>();
        let restarts = self.restarts.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let report = |(model, restarts): (&String, &Arc<AtomicU64>)| {
            let loaded = loaded.iter().find(|(name, _)| name == model).map(|(_, loaded)| loaded);
            EngineReport {
                model: model.clone(),
                state: loaded.map(|loaded| loaded.transcriber.engine_state()),
                restarts: restarts.load(Ordering::Relaxed),
                bytes: loaded.map_or(0, |loaded| loaded.bytes()),
                work: loaded.map_or_else(EngineStats::default, |loaded| loaded.transcriber.stats()),
            }
        };
        restarts.iter().map(report).collect()
    }

    fn unload_idle(&self, after: Duration) -> usize {
        self.registry.unload_idle(after)
    }
}

impl Transcribe for SpeechEngine {
    fn transcribe(
        &self,
        source: Source,
        work: &Work,
        progress: &mut dyn FnMut(Progress<'_>),
        cancel: &CancelToken,
    ) -> Result<Transcribed, EngineError> {
        if work.identify {
            self.check_voices()?;
        }
        let mut request = Request {
            language: work.language.clone().filter(|language| language != MULTI),
            multilingual: work.language.as_deref() == Some(MULTI),
            usual_language: work.usual_language.clone(),
            task: if work.translate { Task::Translate } else { Task::Transcribe },
            words: work.word_timestamps,
            vad: work.vad,
            prompt: work.prompt.clone(),
            hotwords: work.hotwords.clone(),
            known: work.known.clone(),
            channels: work.channels,
            cancel: cancel.clone(),
            media: hark_media::Options { budget: work.budget.clone(), ..hark_media::Options::default() },
            ..Request::default()
        };
        if let Some(temperature) = work.temperature {
            // As in Whisper: temperature fallback for repetitive texts.
            request.temperatures.retain(|&warmer| warmer > temperature);
            request.temperatures.insert(0, temperature);
        }
        let model = self.speech(&work.model)?;
        let transcriber = &model.transcriber;
        request.speakers = match work.speakers {
            _ if !(work.diarize || work.identify) || !transcriber.tells_speakers_apart() => Speakers::Off,
            0 => Speakers::Auto,
            count => Speakers::Exactly(count as usize),
        };
        let done = transcriber.transcribe(source, &request, progress)?;
        for warning in &done.result.warnings {
            tracing::info!(warning, "recording.warning");
        }
        let result = TranscriptionResult { model: work.model.clone(), ..done.result };
        Ok(Transcribed { result, names: done.names })
    }
}

impl Voices for SpeechEngine {
    fn check_voices(&self) -> Result<(), EngineError> {
        self.check_installed(&DIARIZATION)
    }

    fn voiceprint(&self, source: Source, cancel: CancelToken) -> Result<Voiceprint, EngineError> {
        let models = self.diarization()?.ok_or(EngineError::NoVoices)?;
        Ok(models.networks.print(source, &hark_media::Options { cancel, ..hark_media::Options::default() })?)
    }
}

impl Live for SpeechEngine {
    fn start_session(&self, work: &Work, wake: Wake) -> Result<LiveHandle, EngineError> {
        let model = self.speech(&work.model)?;
        let options = LiveOptions {
            language: work.language.clone(),
            task: if work.translate { Task::Translate } else { Task::Transcribe },
            prompt: work.prompt.clone(),
            hotwords: work.hotwords.clone(),
            speakers: work.diarize && model.transcriber.tells_speakers_apart(),
            ..LiveOptions::default()
        };
        let session = LiveSession::new(&model.transcriber, &options, wake)?;
        Ok(LiveHandle::new(session, model))
    }
}
