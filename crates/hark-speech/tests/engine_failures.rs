//! The scheduler when its engine panics, fails or runs out of memory. Needs nothing installed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use hark_speech::{BackendError, EngineState, Meter, Reload, Scheduler, SpeechError, WindowRequest};
use hark_transcript::Lane;
use hark_whisper::cpu::CpuBackend;
use hark_whisper::decode::{DecodeOptions, Engine, Language, Outcome};
use hark_whisper::testing::{FaultPlan, Faults, FaultyBackend, SMALL_DIMS, small_backend};
use hark_whisper::weights::Dims;

fn engine(faults: &Arc<Faults>) -> Engine<FaultyBackend<CpuBackend>> {
    let (backend, tokenizer) = small_backend(Dims { n_audio_ctx: 96, ..SMALL_DIMS }, 4);
    Engine::new(FaultyBackend::new(backend, faults), tokenizer)
}

struct Running {
    scheduler: Scheduler,
    restarts: Arc<AtomicU64>,
    can_reload: Arc<AtomicBool>,
}

fn start(faults: &Arc<Faults>) -> Running {
    start_on(&[faults])
}

/// With an engine for each of the faults.
fn start_on(devices: &[&Arc<Faults>]) -> Running {
    let (restarts, can_reload) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(true)));
    let device = |faults: &&Arc<Faults>| {
        let (reloaded, may) = (Arc::clone(faults), Arc::clone(&can_reload));
        let reload: Reload<_> = Box::new(move || match may.load(Ordering::SeqCst) {
            true => Ok(engine(&reloaded)),
            false => Err(SpeechError::NoVoices),
        });
        (engine(faults), reload)
    };
    let scheduler = Scheduler::start(devices.iter().map(device).collect(), Arc::clone(&restarts));
    Running { scheduler, restarts, can_reload }
}

type Outcomes = Receiver<(usize, Result<Outcome, BackendError>)>;

/// Submits `windows`, which begin with these values.
fn submit(scheduler: &Scheduler, windows: &[f32]) -> Outcomes {
    let (sender, outcomes) = channel();
    let owner = scheduler.new_owner();
    for (tag, &first) in windows.iter().enumerate() {
        let sender = sender.clone();
        let mut mel: Vec<f32> = (0..3000 * 80).map(|index| ((index + tag) * 7919 % 997) as f32 / 500.0 - 1.0).collect();
        mel[0] = first;
        let options = DecodeOptions {
            language: Language::Known("en".to_owned()),
            beam: 2,
            temperatures: vec![0.0],
            words: true,
            // A distinct prefix for every window: random weights decode to little text.
            prefix: (0..4).map(|token| 64 + tag as u32 + token).collect(),
            max_tokens: 12,
            ..DecodeOptions::default()
        };
        scheduler.submit(WindowRequest {
            owner,
            lane: Lane::Bulk,
            mel: mel.into(),
            frames: 90,
            reencode: None,
            options: Arc::new(options),
            cancelled: Arc::default(),
            tag,
            reply: Arc::new(move |tag, outcome| drop(sender.send((tag, outcome)))),
            meter: Meter::default(),
        });
    }
    outcomes
}

/// The texts of all windows by tag, errors where there are none.
fn texts(outcomes: &Outcomes, count: usize) -> BTreeMap<usize, Result<Vec<u32>, BackendError>> {
    let one = |_| {
        let (tag, outcome) = outcomes.recv_timeout(Duration::from_secs(120)).expect("every window has an outcome");
        let text = outcome.map(|outcome| match outcome {
            Outcome::Decoded(decoded) => {
                assert!(!decoded.words.is_empty(), "words have times");
                decoded.tokens
            }
            other => panic!("not decoded: {other:?}"),
        });
        (tag, text)
    };
    (0..count).map(one).collect()
}

#[test]
fn windows_of_an_engine_that_panics_or_loses_its_device_are_decoded_by_the_next() {
    let no_faults = Arc::new(Faults::default());
    let expected = texts(&submit(&start(&no_faults).scheduler, &[0.1, 0.2, 0.3]), 3);
    assert!(expected.values().all(Result::is_ok));
    for (panics, losses) in [(vec![3], vec![]), (vec![], vec![0]), (vec![2], vec![7])] {
        let plan = FaultPlan { panic_at: panics.clone(), lost_at: losses.clone(), ..FaultPlan::default() };
        let faults = Faults::new(plan);
        let running = start(&faults);
        let failures = (panics.len() + losses.len()) as u64;
        assert_eq!(texts(&submit(&running.scheduler, &[0.1, 0.2, 0.3]), 3), expected, "{panics:?} {losses:?}");
        assert_eq!(running.restarts.load(Ordering::SeqCst), failures);
        // Later windows find a working engine.
        assert_eq!(texts(&submit(&running.scheduler, &[0.1, 0.2, 0.3]), 3), expected);
        assert_eq!(running.restarts.load(Ordering::SeqCst), failures);
        assert_eq!(running.scheduler.state(), EngineState::Running);
    }
}

#[test]
fn a_window_that_always_panics_fails_alone() {
    let faults = Faults::new(FaultPlan { poison: Some(0.6), ..FaultPlan::default() });
    let running = start(&faults);
    let outcomes = texts(&submit(&running.scheduler, &[0.1, 0.6, 0.3]), 3);
    assert!(matches!(&outcomes[&1], Err(BackendError::Fault(what)) if what.contains("poisoned")), "{outcomes:?}");
    assert!(outcomes[&0].is_ok() && outcomes[&2].is_ok(), "{outcomes:?}");
    assert!(texts(&submit(&running.scheduler, &[0.1]), 1)[&0].is_ok());
    assert!(running.restarts.load(Ordering::SeqCst) <= 3);
}

#[test]
fn if_the_engine_cannot_be_reloaded_waiting_and_new_windows_fail() {
    let faults = Faults::new(FaultPlan { panic_at: vec![2], ..FaultPlan::default() });
    let running = start(&faults);
    running.can_reload.store(false, Ordering::SeqCst);
    // More windows than slots: some wait.
    let outcomes = texts(&submit(&running.scheduler, &[0.1; 9]), 9);
    assert!(outcomes.values().all(Result::is_err), "{outcomes:?}");
    assert_eq!(running.scheduler.state(), EngineState::Failed);
    assert!(texts(&submit(&running.scheduler, &[0.1]), 1)[&0].is_err());
}

#[test]
fn windows_wait_while_there_is_no_memory_for_them() {
    let faults = Arc::new(Faults::default());
    let running = start(&faults);
    let expected = texts(&submit(&running.scheduler, &[0.1, 0.2, 0.3]), 3);
    faults.plan().max_windows = Some(1);
    assert_eq!(texts(&submit(&running.scheduler, &[0.1, 0.2, 0.3]), 3), expected, "one after the other");
    assert_eq!(running.restarts.load(Ordering::SeqCst), 0, "out of memory is no reason to load it again");
    faults.plan().max_windows = Some(0);
    let outcomes = texts(&submit(&running.scheduler, &[0.1]), 1);
    assert!(matches!(&outcomes[&0], Err(BackendError::OutOfMemory(_))), "{outcomes:?}");
    faults.plan().max_windows = None;
    assert_eq!(texts(&submit(&running.scheduler, &[0.1, 0.2, 0.3]), 3), expected);
}

#[test]
fn several_devices_share_the_windows_and_a_lost_one_leaves_them_to_the_others() {
    let windows = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9];
    let [one, other] = [Faults::new(FaultPlan::default()), Faults::new(FaultPlan::default())];
    let expected = texts(&submit(&start(&Arc::new(Faults::default())).scheduler, &windows), windows.len());
    let running = start_on(&[&one, &other]);
    assert_eq!(texts(&submit(&running.scheduler, &windows), windows.len()), expected);
    assert!(one.steps() > 0 && other.steps() > 0, "both decode: {} and {} steps", one.steps(), other.steps());
    let encoded = running.scheduler.stats().encoded.0;
    assert!(encoded >= 2, "{encoded} batches of both together");

    // One is lost for good in its next step: all its windows are decoded by the other.
    running.can_reload.store(false, Ordering::SeqCst);
    one.plan().lost_at = (0..10_000).collect();
    while running.scheduler.state() != EngineState::Reduced {
        assert_eq!(texts(&submit(&running.scheduler, &windows), windows.len()), expected);
    }
    let before = other.steps();
    assert_eq!(texts(&submit(&running.scheduler, &windows), windows.len()), expected);
    assert!(other.steps() > before);
    assert_eq!((running.scheduler.state(), running.restarts.load(Ordering::SeqCst)), (EngineState::Reduced, 0));

    // The last one fails too.
    other.plan().lost_at = (0..10_000).collect();
    let outcomes = texts(&submit(&running.scheduler, &windows), windows.len());
    assert!(outcomes.values().all(Result::is_err), "{outcomes:?}");
    assert_eq!(running.scheduler.state(), EngineState::Failed);
}
