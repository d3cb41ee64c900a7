//! Loading a checkpoint on the device that decodes.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use hark_compute::Compute;
use hark_whisper::backend::{Backend, TokenMap};
use hark_whisper::cpu::{CpuBackend, CpuOptions, Weights};
use hark_whisper::decode::Engine;
use hark_whisper::tokenizer::Tokenizer;
use hark_whisper::weights::Checkpoint;

use crate::SpeechError;
use crate::diarization::Voices;
use crate::scheduler::Reload;

/// The options to load a transcriber.
#[derive(Clone)]
pub struct LoadOptions {
    /// Folder of the Whisper checkpoint.
    pub model_dir: PathBuf,
    /// Folder or file of the Silero voice-activity weights.
    pub vad: PathBuf,
    /// The diarization networks; without them speakers can't be requested.
    pub voices: Option<Voices>,
    /// Threads and kernels, which other models may share; all cores and the machine's best kernels when not given.
    pub compute: Option<Compute>,
    /// How the linear layers are stored; int8 when not given.
    pub weights: Option<Weights>,
    /// Windows decoded at once; as many as fit the workspace when not given.
    pub slots: Option<usize>,
    /// Bytes of the workspace: windows being decoded and their KV caches. Memory is allocated as windows arrive, and freed
    /// when the engine is idle.
    pub workspace: u64,
    /// The maximum beam width of a request.
    pub widest_beam: usize,
    /// The devices that decode.
    pub devices: Devices,
    /// Counts reloads of the engine.
    pub restarts: Arc<AtomicU64>,
}

/// Loads a checkpoint on a device.
pub type BackendLoader =
    Arc<dyn Fn(&Checkpoint, TokenMap, &LoadOptions) -> Result<Box<dyn Backend>, SpeechError> + Send + Sync>;

/// The devices that decode, each with an engine of its own; the CPU where there are none.
#[derive(Clone, Default)]
pub struct Devices {
    /// Load the checkpoint on one device each.
    pub loaders: Vec<BackendLoader>,
    /// Numbers of the GPUs among them.
    pub gpus: Vec<usize>,
    /// Whether devices that can't be used are left out, and the CPU decodes if none is left; otherwise each is an error.
    pub or_cpu: bool,
}

/// Enough for the useful maximum of windows with the smaller models, and for eight with large-v3.
const DEFAULT_WORKSPACE: u64 = 3600 << 20;

impl LoadOptions {
    /// The defaults for a model and a voice-activity file.
    pub fn new(model_dir: impl Into<PathBuf>, vad: impl Into<PathBuf>) -> Self {
        LoadOptions {
            model_dir: model_dir.into(),
            vad: vad.into(),
            voices: None,
            compute: None,
            weights: None,
            slots: None,
            workspace: DEFAULT_WORKSPACE,
            widest_beam: 5,
            devices: Devices::default(),
            restarts: Arc::default(),
        }
    }
}

/// Opens the checkpoint.
pub(crate) fn open(options: &LoadOptions) -> Result<Checkpoint, SpeechError> {
    Checkpoint::open(&options.model_dir).map_err(|source| SpeechError::Model { dir: options.model_dir.clone(), source })
}

type AnyEngine = Engine<Box<dyn Backend>>;
/// With what loads it again.
type SafeEngine = (AnyEngine, Reload<Box<dyn Backend>>);

/// Loads the checkpoint on its devices; an engine whose device fails later loads it again.
pub(crate) fn load_engines(
    options: &LoadOptions,
    checkpoint: &Checkpoint,
    tokenizer: &Arc<Tokenizer>,
) -> Result<Vec<SafeEngine>, SpeechError> {
    let Devices { loaders, or_cpu, .. } = &options.devices;
    let on_cpu: BackendLoader = Arc::new(load_on_cpu);
    let mut engines: Vec<SafeEngine> = Vec::new();
    for load in loaders {
        match load_engine(load, options, checkpoint, tokenizer) {
            Err(error) if *or_cpu => tracing::info!(%error, "engine.no_gpu"),
            loaded => {
                // Beside other devices the CPU would only hold windows up.
                let otherwise = (*or_cpu && loaders.len() == 1).then(|| Arc::clone(&on_cpu));
                engines.push((loaded?, reload(load, otherwise, options, tokenizer)));
            }
        }
    }
    if engines.is_empty() {
        let engine = load_engine(&on_cpu, options, checkpoint, tokenizer)?;
        engines.push((engine, reload(&on_cpu, None, options, tokenizer)));
    }
    Ok(engines)
}

/// What loads an engine again, by the other loader where its own fails.
fn reload(
    load: &BackendLoader,
    otherwise: Option<BackendLoader>,
    options: &LoadOptions,
    tokenizer: &Arc<Tokenizer>,
) -> Reload<Box<dyn Backend>> {
    let (load, options, tokenizer) = (Arc::clone(load), options.clone(), Arc::clone(tokenizer));
    Box::new(move || {
        let checkpoint = open(&options)?;
        match (load_engine(&load, &options, &checkpoint, &tokenizer), &otherwise) {
            (Err(error), Some(otherwise)) => {
                tracing::warn!(%error, "engine.gpu_lost");
                load_engine(otherwise, &options, &checkpoint, &tokenizer)
            }
            (loaded, _) => loaded,
        }
    })
}

fn load_engine(
    load: &BackendLoader,
    options: &LoadOptions,
    checkpoint: &Checkpoint,
    tokenizer: &Arc<Tokenizer>,
) -> Result<AnyEngine, SpeechError> {
    let backend = load(checkpoint, token_map(tokenizer, checkpoint), options)?;
    Ok(Engine::new(backend, Arc::clone(tokenizer)))
}

/// Loads a checkpoint on the CPU.
pub fn load_on_cpu(
    checkpoint: &Checkpoint,
    tokens: TokenMap,
    options: &LoadOptions,
) -> Result<Box<dyn Backend>, SpeechError> {
    let compute = options.compute.clone().unwrap_or_else(|| Compute::from_options(None, None));
    let (weights, rows) = (options.weights.unwrap_or_default(), options.widest_beam.max(1));
    let mut cpu = CpuOptions::within(&checkpoint.dims, weights, rows, options.workspace);
    if let Some(slots) = options.slots {
        cpu.slots = slots.max(FEWEST_SLOTS);
    }
    let loaded = CpuBackend::load(checkpoint, tokens, &compute, cpu);
    let backend = loaded.map_err(|source| SpeechError::Model { dir: options.model_dir.clone(), source })?;
    Ok(Box::new(backend))
}

/// Two slots reserved for clips, and one for everything else.
const FEWEST_SLOTS: usize = 3;

/// The special tokens of a checkpoint.
fn token_map(tokenizer: &Tokenizer, checkpoint: &Checkpoint) -> TokenMap {
    let suppress_tokens = checkpoint.suppress_tokens.clone().unwrap_or_else(|| tokenizer.default_suppress_tokens());
    let begin_suppress_tokens =
        checkpoint.begin_suppress_tokens.clone().unwrap_or_else(|| tokenizer.default_begin_suppress_tokens());
    let vocabulary = checkpoint.dims.n_vocab as u32;
    TokenMap {
        end: tokenizer.eot,
        no_speech: (tokenizer.no_speech < vocabulary).then_some(tokenizer.no_speech),
        first_timestamp: tokenizer.timestamp_begin,
        suppress_tokens: suppress_tokens.into_iter().filter(|&token| token < vocabulary).collect(),
        begin_suppress_tokens: begin_suppress_tokens.into_iter().filter(|&token| token < vocabulary).collect(),
        languages: tokenizer.languages().iter().filter_map(|code| tokenizer.language_token(code)).collect(),
    }
}
