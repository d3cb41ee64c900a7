//! The real engine when its device fails, its files are damaged, or memory is short.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use hark_media::Source;
use hark_models::{Aliases, Catalogue, ModelStore};
use hark_server::{
    Bytes, Config, Dependency, EngineError, EngineState, Engines, InstantEngine, Language as _, LanguageOptions,
    Live as _, Models, SpeechEngine, SpeechOptions, Transcribe, Transcribed, Work,
};
use hark_speech::{BackendLoader, CancelToken, Devices, SpeechError, load_on_cpu};
use hark_whisper::testing::{FaultPlan, Faults, FaultyBackend};

use crate::server::{Server, config, eventually, talk};

fn options(models: &Path) -> SpeechOptions {
    SpeechOptions {
        models: ModelStore::new(models),
        catalogue: Catalogue::builtin(),
        aliases: Aliases::starter(),
        threads: Some(1),
        isa: None,
        loaded: 1,
        memory_budget: Bytes(2 << 30),
        devices: Devices::default(),
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
    let done = engine.transcribe(Source::Path(path), &work, &mut |_| {}, &CancelToken::default())?;
    Ok(done.result.text)
}

#[test]
#[ignore = "needs models and espeak-ng"]
fn where_any_device_may_decode_the_cpu_takes_over_from_one_that_is_lost() {
    let faults = Faults::new(FaultPlan { lost_at: vec![6], ..FaultPlan::default() });
    let (injected, opened) = (Arc::clone(&faults), AtomicUsize::new(0));
    let device: BackendLoader =
        Arc::new(move |checkpoint, tokens, options| match opened.fetch_add(1, Ordering::SeqCst) {
            0 => Ok(Box::new(FaultyBackend::new(load_on_cpu(checkpoint, tokens, options)?, &injected))),
            _ => Err(SpeechError::Device("it was lost".to_owned())),
        });
    let models = ModelStore::default_dir();
    let devices = Devices { loaders: vec![device], or_cpu: true, ..Devices::default() };
    let engine = SpeechEngine::new(SpeechOptions { devices, ..options(&models) });
    let text = hear(&engine).expect("the recording is decoded by the CPU");
    assert!(text.to_lowercase().contains("market"), "{text}");
    assert_eq!(faults.steps(), 7, "the device was lost in its seventh step");
    let report = engine.reports().remove(0);
    assert_eq!((report.state, report.restarts), (Some(EngineState::Running), 1));
    assert!(engine.device().is_some_and(|name| name.starts_with("cpu")));
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
    let engine = SpeechEngine::new(SpeechOptions {
        devices: Devices { loaders: vec![backend], ..Devices::default() },
        ..options(&models)
    });
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

#[test]
#[ignore = "needs models"]
fn a_model_that_nobody_uses_is_unloaded_and_one_of_a_live_session_stays() {
    let folder = linked_models();
    let engine = SpeechEngine::new(options(folder.path()));
    let loaded = || engine.reports().iter().filter(|report| report.bytes > 0).count();
    hear(&engine).expect("it is transcribed");
    let work = Work { model: "whisper-tiny".into(), diarize: false, ..Work::default() };
    let session = engine.start_session(&work, Box::new(|| {})).expect("a session begins");
    assert_eq!(
        (engine.unload_idle(Duration::from_secs(3600)), engine.unload_idle(Duration::ZERO), loaded()),
        (0, 0, 1)
    );
    drop(session);
    assert_eq!((engine.unload_idle(Duration::from_secs(3600)), loaded()), (0, 1), "it was used a moment ago");
    assert_eq!((engine.unload_idle(Duration::ZERO), loaded()), (1, 0));
    assert_eq!(engine.unload_idle(Duration::ZERO), 1, "voice activity goes with the model that used it");
    assert!(hear(&engine).expect("it is loaded again").to_lowercase().contains("market"));
}

#[test]
#[ignore = "needs models"]
fn a_language_model_has_the_cache_that_the_budget_leaves_instead_of_none() {
    let language = LanguageOptions { model: Some(crate::language::MODEL.to_owned()), ..LanguageOptions::default() };
    let within = |megabytes: u64| {
        let budget = Bytes(megabytes * 1_000_000);
        let models = ModelStore::default_dir();
        SpeechEngine::new(SpeechOptions { memory_budget: budget, language: language.clone(), ..options(&models) })
    };
    // Weights of 0.1 GB, 0.3 GB around them, and a cache of 1 GB as it is configured, of which a context of 8,192 tokens takes 0.2 GB.
    let roomy = within(900).language().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(roomy.context_length(), 8192);
    let engine = within(600);
    let model = engine.language().unwrap_or_else(|error| panic!("{error}"));
    assert!((2048..8192).contains(&model.context_length()), "{}", model.context_length());
    assert_eq!(engine.unload_idle(Duration::ZERO), 0, "it is in use");
    drop(model);
    assert_eq!(engine.unload_idle(Duration::ZERO), 1);
    match within(400).language() {
        Err(EngineError::Unavailable { reason, .. }) => assert!(reason.contains("memory_budget"), "{reason}"),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("not refused"),
    }
}

/// An engine that is told to unload.
#[derive(Clone, Default)]
struct Idle(InstantEngine, Arc<AtomicU64>);

impl Models for Idle {
    fn models(&self) -> Vec<hark_api::Model> {
        self.0.models()
    }

    fn resolve(&self, model: &str) -> Result<String, EngineError> {
        self.0.resolve(model)
    }

    fn device(&self) -> Option<String> {
        self.0.device()
    }

    fn unload_idle(&self, after: Duration) -> usize {
        self.1.store(after.as_secs(), Ordering::SeqCst);
        0
    }
}

impl Transcribe for Idle {
    fn transcribe(
        &self,
        source: Source,
        work: &Work,
        progress: &mut dyn FnMut(hark_speech::Progress<'_>),
        cancel: &CancelToken,
    ) -> Result<Transcribed, EngineError> {
        self.0.transcribe(source, work, progress, cancel)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_unloads_what_was_idle_for_as_long_as_its_setting_says() {
    let engine = Idle::default();
    let server = Server::with(config(), Engines::new(Arc::new(engine.clone()))).await;
    eventually("half an hour is the default", async || (engine.1.load(Ordering::SeqCst) == 1800).then_some(())).await;
    server.stop().await;
    let engine = Idle::default();
    let never = Config { idle_unload: hark_server::Seconds(0.0), ..config() };
    let server = Server::with(never, Engines::new(Arc::new(engine.clone()))).await;
    // Maintenance begins with the service.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(engine.1.load(Ordering::SeqCst), 0);
    server.stop().await;
}
