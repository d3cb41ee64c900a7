//! An engine that panics, fails or runs out of memory: what becomes of the windows it had. Needs nothing installed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hark_speech::{BackendError, EngineState, Meter, Scheduler, SpeechError, WindowRequest};
use hark_transcript::Lane;
use hark_whisper::backend::{
    Admission, AlignmentRequest, AlignmentScores, Answer, Backend, Entry, MemoryUse, TokenMap,
};
use hark_whisper::cpu::{Compute, CpuBackend, CpuOptions, Isa, Weights};
use hark_whisper::decode::{DecodeOptions, Engine, Language, Outcome};
use hark_whisper::tokenizer::Tokenizer;
use hark_whisper::weights::{Checkpoint, Dims, Vocabulary};

const DIMS: Dims = Dims {
    n_mels: 80,
    n_audio_ctx: 96,
    n_audio_state: 64,
    n_audio_head: 1,
    n_audio_layer: 1,
    n_text_ctx: 448,
    n_text_state: 64,
    n_text_head: 1,
    n_text_layer: 1,
    n_vocab: 51_865,
};

/// What goes wrong, shared by all engines of a test.
#[derive(Default)]
struct Faults {
    /// Steps so far.
    steps: AtomicUsize,
    /// The steps that panic or fail.
    panics: Mutex<Vec<usize>>,
    losses: Mutex<Vec<usize>>,
    /// A window with this value at its very beginning panics in every step.
    poison: Mutex<Option<f32>>,
    /// Windows that fit at a time; all when not given.
    fit: Mutex<Option<usize>>,
}

struct Faulty {
    backend: CpuBackend,
    faults: Arc<Faults>,
    poisoned: Vec<usize>,
    held: usize,
}

impl Backend for Faulty {
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
        "faulty".to_owned()
    }

    fn memory(&self) -> MemoryUse {
        self.backend.memory()
    }

    fn health(&mut self) -> Result<(), BackendError> {
        self.backend.health()
    }

    fn encode(&mut self, windows: &[Admission]) -> Result<(), BackendError> {
        if self.faults.fit.lock().unwrap().is_some_and(|fit| self.held >= fit) {
            return Err(BackendError::OutOfMemory("no room".to_owned()));
        }
        let poison = *self.faults.poison.lock().unwrap();
        self.poisoned.extend(windows.iter().filter(|window| Some(window.mel[0]) == poison).map(|window| window.slot));
        self.held += windows.len();
        self.backend.encode(windows)
    }

    fn release(&mut self, slot: usize) -> Result<(), BackendError> {
        self.held = self.held.saturating_sub(1);
        self.poisoned.retain(|poisoned| *poisoned != slot);
        self.backend.release(slot)
    }

    fn step(&mut self, entries: &[Entry]) -> Result<Vec<Answer>, BackendError> {
        let step = self.faults.steps.fetch_add(1, Ordering::SeqCst);
        assert!(!self.faults.panics.lock().unwrap().contains(&step), "step {step} panics");
        assert!(!entries.iter().any(|entry| self.poisoned.contains(&entry.slot)), "the poisoned window panics");
        if self.faults.losses.lock().unwrap().contains(&step) {
            return Err(BackendError::DeviceLost(format!("in step {step}")));
        }
        self.backend.step(entries)
    }

    fn align(&mut self, requests: &[AlignmentRequest]) -> Result<Vec<AlignmentScores>, BackendError> {
        self.backend.align(requests)
    }

    fn trim(&mut self) -> Result<(), BackendError> {
        self.backend.trim()
    }
}

fn numbers(name: &str, shape: &[usize]) -> Vec<f32> {
    let mut state = name.bytes().fold(9u32, |state, byte| state.rotate_left(5) ^ u32::from(byte)) | 1;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 24) as f32 - 0.5
    };
    (0..shape.iter().product()).map(|_| next()).collect()
}

fn engine(faults: &Arc<Faults>) -> Engine<Faulty> {
    let checkpoint = Checkpoint::generated(DIMS, Vocabulary::bytes_only(DIMS.n_vocab), numbers);
    let tokenizer = Arc::new(Tokenizer::new(&checkpoint.vocabulary));
    let tokens = TokenMap { end: tokenizer.eot, first_time: tokenizer.timestamp_begin, ..TokenMap::default() };
    let compute = Compute::new(1, Isa::Portable);
    let options = CpuOptions { weights: Weights::Int8, slots: 4, rows: 2, encoder_caches: 1 };
    let backend = CpuBackend::load(&checkpoint, tokens, &compute, options).expect("a small Whisper");
    Engine::new(Faulty { backend, faults: Arc::clone(faults), poisoned: Vec::new(), held: 0 }, tokenizer)
}

struct Running {
    scheduler: Scheduler,
    restarts: Arc<AtomicU64>,
    can_reload: Arc<AtomicBool>,
}

fn start(faults: &Arc<Faults>) -> Running {
    let (restarts, can_reload) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(true)));
    let (again, may) = (Arc::clone(faults), Arc::clone(&can_reload));
    let reload = Box::new(move || match may.load(Ordering::SeqCst) {
        true => Ok(engine(&again)),
        false => Err(SpeechError::NoVoices),
    });
    Running { scheduler: Scheduler::start(engine(faults), reload, Arc::clone(&restarts)), restarts, can_reload }
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
            // A beginning of its own for every window: what a network of such weights goes on with is little.
            prefix: (0..4).map(|token| 64 + tag as u32 + token).collect(),
            max_tokens: 12,
            ..DecodeOptions::default()
        };
        scheduler.submit(WindowRequest {
            owner,
            lane: Lane::Bulk,
            mel: mel.into(),
            frames: 90,
            again: None,
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
fn windows_of_an_engine_that_panics_or_is_lost_are_decoded_by_the_next() {
    let sound = Arc::new(Faults::default());
    let expected = texts(&submit(&start(&sound).scheduler, &[0.1, 0.2, 0.3]), 3);
    assert!(expected.values().all(Result::is_ok));
    for (panics, losses) in [(vec![3], vec![]), (vec![], vec![0]), (vec![2], vec![7])] {
        let faults = Arc::new(Faults::default());
        (*faults.panics.lock().unwrap(), *faults.losses.lock().unwrap()) = (panics.clone(), losses.clone());
        let running = start(&faults);
        let failures = (panics.len() + losses.len()) as u64;
        assert_eq!(texts(&submit(&running.scheduler, &[0.1, 0.2, 0.3]), 3), expected, "{panics:?} {losses:?}");
        assert_eq!(running.restarts.load(Ordering::SeqCst), failures);
        // And the one who comes after finds an engine that works.
        assert_eq!(texts(&submit(&running.scheduler, &[0.1, 0.2, 0.3]), 3), expected);
        assert_eq!(running.restarts.load(Ordering::SeqCst), failures);
        assert_eq!(running.scheduler.state(), EngineState::Running);
    }
}

#[test]
fn a_window_that_always_breaks_the_engine_fails_and_takes_no_other_with_it() {
    let faults = Arc::new(Faults::default());
    *faults.poison.lock().unwrap() = Some(0.6);
    let running = start(&faults);
    let outcomes = texts(&submit(&running.scheduler, &[0.1, 0.6, 0.3]), 3);
    assert!(matches!(&outcomes[&1], Err(BackendError::Fault(what)) if what.contains("poisoned")), "{outcomes:?}");
    assert!(outcomes[&0].is_ok() && outcomes[&2].is_ok(), "{outcomes:?}");
    assert!(texts(&submit(&running.scheduler, &[0.1]), 1)[&0].is_ok());
    assert!(running.restarts.load(Ordering::SeqCst) <= 3);
}

#[test]
fn an_engine_that_can_not_be_loaded_again_says_so_to_everybody_who_waits_or_comes() {
    let faults = Arc::new(Faults::default());
    *faults.panics.lock().unwrap() = vec![2];
    let running = start(&faults);
    running.can_reload.store(false, Ordering::SeqCst);
    // More windows than slots: some wait.
    let outcomes = texts(&submit(&running.scheduler, &[0.1; 9]), 9);
    assert!(outcomes.values().all(Result::is_err), "{outcomes:?}");
    assert_eq!(running.scheduler.state(), EngineState::Failed);
    assert!(texts(&submit(&running.scheduler, &[0.1]), 1)[&0].is_err());
}

#[test]
fn windows_for_which_there_is_no_memory_wait_for_those_that_have_it() {
    let faults = Arc::new(Faults::default());
    let running = start(&faults);
    let expected = texts(&submit(&running.scheduler, &[0.1, 0.2, 0.3]), 3);
    *faults.fit.lock().unwrap() = Some(1);
    assert_eq!(texts(&submit(&running.scheduler, &[0.1, 0.2, 0.3]), 3), expected, "one after the other");
    assert_eq!(running.restarts.load(Ordering::SeqCst), 0, "out of memory is no reason to load it again");
    *faults.fit.lock().unwrap() = Some(0);
    let outcomes = texts(&submit(&running.scheduler, &[0.1]), 1);
    assert!(matches!(&outcomes[&0], Err(BackendError::OutOfMemory(_))), "{outcomes:?}");
    *faults.fit.lock().unwrap() = None;
    assert_eq!(texts(&submit(&running.scheduler, &[0.1, 0.2, 0.3]), 3), expected);
}
