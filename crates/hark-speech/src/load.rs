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
    /// Loads the checkpoint on a device; the CPU when not given.
    pub backend: Option<BackendLoader>,
    /// Counts reloads of the engine.
    pub restarts: Arc<AtomicU64>,
}

/// Loads a checkpoint on a device.
pub type BackendLoader =
    Arc<dyn Fn(&Checkpoint, TokenMap, &LoadOptions) -> Result<Box<dyn Backend>, SpeechError> + Send + Sync>;

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
            backend: None,
            restarts: Arc::default(),
        }
    }
}

/// Opens the checkpoint.
pub(crate) fn open(options: &LoadOptions) -> Result<Checkpoint, SpeechError> {
    Checkpoint::open(&options.model_dir).map_err(|source| SpeechError::Model { dir: options.model_dir.clone(), source })
}

/// Loads the checkpoint on its device.
pub(crate) fn load_engine(
    options: &LoadOptions,
    checkpoint: &Checkpoint,
    tokenizer: &Arc<Tokenizer>,
) -> Result<Engine<Box<dyn Backend>>, SpeechError> {
    let tokens = token_map(tokenizer, checkpoint);
    let backend = match &options.backend {
        Some(load) => load(checkpoint, tokens, options)?,
        None => load_on_cpu(checkpoint, tokens, options)?,
    };
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
