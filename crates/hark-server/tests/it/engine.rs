//! The real engine when its device fails, its files are damaged, or memory is short.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hark_media::Source;
use hark_models::{Aliases, Catalogue, ModelStore};
use hark_server::{Bytes, Dependency, EngineError, EngineState, Models, SpeechEngine, SpeechOptions, Transcribe, Work};
use hark_speech::{BackendError, BackendLoader, CancelToken, load_on_cpu};
use hark_whisper::backend::{Admission, AlignmentRequest, AlignmentScores, Answer, Backend, Entry, MemoryUse};
use hark_whisper::weights::Dims;

use crate::server::talk;

/// A device that panics in one step of all that its engines ever take.
struct PanicsOnce {
    backend: Box<dyn Backend>,
    steps: Arc<AtomicUsize>,
}

impl Backend for PanicsOnce {
    fn dims(&self) -> &Dims {
        self.backend.dims()
    }

    fn slots(&self) -> usize {
        self.backend.slots()
    }

    fn rows(&self) -> usize {
        self.backend.rows()
    }

    fn name(&self) -> String {
        self.backend.name()
    }

    fn memory(&self) -> MemoryUse {
        self.backend.memory()
    }

    fn health(&mut self) -> Result<(), BackendError> {
        self.backend.health()
    }

    fn encode(&mut self, windows: &[Admission]) -> Result<(), BackendError> {
        self.backend.encode(windows)
    }

    fn release(&mut self, slot: usize) -> Result<(), BackendError> {
        self.backend.release(slot)
    }

    fn step(&mut self, entries: &[Entry]) -> Result<Vec<Answer>, BackendError> {
        assert!(self.steps.fetch_add(1, Ordering::SeqCst) != 6, "the seventh step panics");
        self.backend.step(entries)
    }

    fn align(&mut self, requests: &[AlignmentRequest]) -> Result<Vec<AlignmentScores>, BackendError> {
        self.backend.align(requests)
    }

    fn trim(&mut self) -> Result<(), BackendError> {
        self.backend.trim()
    }
}

fn options(models: &Path) -> SpeechOptions {
    SpeechOptions {
        models: ModelStore::new(models),
        catalogue: Catalogue::builtin(),
        aliases: Aliases::starter(),
        threads: Some(1),
        isa: None,
        loaded: 1,
        memory_budget: Bytes(2 << 30),
        backend: None,
    }
}

/// What is said in a short recording.
fn hear(engine: &SpeechEngine) -> Result<String, EngineError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("talk.wav");
    std::fs::write(&path, talk()).unwrap();
    let work = Work { model: "whisper-tiny".into(), language: Some("en".into()), diarize: false, ..Work::default() };
    let done = engine.transcribe(Source::Path(path), &work, &mut |_, _| {}, &CancelToken::default())?;
    Ok(done.result.text)
}

#[test]
#[ignore = "needs models and espeak-ng"]
fn a_recording_whose_engine_panics_is_transcribed_by_the_next_and_so_is_the_one_after_it() {
    let steps = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&steps);
    let backend: BackendLoader = Arc::new(move |checkpoint, tokens, options| {
        let backend = load_on_cpu(checkpoint, tokens, options)?;
        Ok(Box::new(PanicsOnce { backend, steps: Arc::clone(&counted) }))
    });
    let models = ModelStore::default_dir();
    let engine = SpeechEngine::new(SpeechOptions { backend: Some(backend), ..options(&models) });
    let first = hear(&engine).expect("the recording is decoded by the engine that was loaded again");
    assert!(steps.load(Ordering::SeqCst) > 7, "the seventh step was taken");
    let second = hear(&engine).expect("the engine works");
    assert_eq!(first, second);
    assert!(first.to_lowercase().contains("market"), "{first}");
    let report = engine.reports().remove(0);
    assert_eq!((report.model.as_str(), report.restarts), ("whisper-tiny", 1));
    assert_eq!(report.state, Some(EngineState::Running));
    assert_eq!(hear(&SpeechEngine::new(options(&models))).expect("without a fault"), first);
}

/// A models folder of one's own with links to the installed files.
fn linked_models() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in ["whisper-tiny", "silero-vad"] {
        let (from, to) = (ModelStore::default_dir().join(name), folder.path().join(name));
        std::fs::create_dir(&to).unwrap();
        let files = std::fs::read_dir(&from).unwrap_or_else(|_| panic!("{name} is not installed: see `./hark test`"));
        for file in files.flatten() {
            std::os::unix::fs::symlink(file.path(), to.join(file.file_name())).unwrap();
        }
    }
    folder
}

#[test]
#[ignore = "needs models"]
fn damaged_weights_are_never_loaded_and_the_job_waits_until_they_are_repaired() {
    let folder = linked_models();
    let engine = SpeechEngine::new(options(folder.path()));
    // One byte in the middle of the weights: the file opens, and every text would be empty or nonsense.
    let weights = folder.path().join("whisper-tiny/ggml-tiny.bin");
    let original = std::fs::read_link(&weights).unwrap();
    let mut bytes = std::fs::read(&original).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x40;
    std::fs::remove_file(&weights).unwrap();
    std::fs::write(&weights, bytes).unwrap();
    match hear(&engine) {
        Err(EngineError::Unavailable { dependency: Dependency::Engine, reason }) => {
            assert!(reason.contains("hark models pull --force whisper-tiny"), "{reason}");
        }
        other => panic!("not refused: {other:?}"),
    }
    std::fs::remove_file(&weights).unwrap();
    std::os::unix::fs::symlink(original, &weights).unwrap();
    assert!(hear(&engine).expect("the repaired model is loaded").to_lowercase().contains("market"));
}

#[test]
#[ignore = "needs models"]
fn a_model_that_does_not_fit_the_budget_is_not_loaded_and_one_that_fits_stays_within_it() {
    let folder = linked_models();
    let small = SpeechEngine::new(SpeechOptions { memory_budget: Bytes(50 << 20), ..options(folder.path()) });
    match hear(&small) {
        Err(EngineError::Unavailable { dependency: Dependency::Engine, reason }) => {
            assert!(reason.contains("memory_budget"), "{reason}");
        }
        other => panic!("not refused: {other:?}"),
    }
    let budget = 400 << 20;
    let enough = SpeechEngine::new(SpeechOptions { memory_budget: Bytes(budget), ..options(folder.path()) });
    assert!(hear(&enough).expect("it fits").to_lowercase().contains("market"));
    let taken = enough.reports().remove(0).bytes;
    assert!(taken > 30 << 20 && taken <= budget, "{taken} bytes");
}
