//! The real engine when its device fails, its files are damaged, or memory is short.

use std::path::Path;
use std::sync::Arc;

use hark_media::Source;
use hark_models::{Aliases, Catalogue, ModelStore};
use hark_server::{Bytes, Dependency, EngineError, EngineState, Models, SpeechEngine, SpeechOptions, Transcribe, Work};
use hark_speech::{BackendLoader, CancelToken, load_on_cpu};
use hark_whisper::testing::{FaultPlan, Faults, FaultyBackend};

use crate::server::talk;

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
        language: hark_server::LanguageOptions::default(),
        voice_model: None,
        pulls: hark_server::Pulls::default(),
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
fn a_recording_whose_engine_panics_is_transcribed_by_a_reloaded_one() {
    let faults = Faults::new(FaultPlan { panic_at: vec![6], ..FaultPlan::default() });
    let injected = Arc::clone(&faults);
    let backend: BackendLoader = Arc::new(move |checkpoint, tokens, options| {
        Ok(Box::new(FaultyBackend::new(load_on_cpu(checkpoint, tokens, options)?, &injected)))
    });
    let models = ModelStore::default_dir();
    let engine = SpeechEngine::new(SpeechOptions { backend: Some(backend), ..options(&models) });
    let first = hear(&engine).expect("the recording is decoded by the engine that was loaded again");
    assert!(faults.steps() > 7, "the seventh step was taken");
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
