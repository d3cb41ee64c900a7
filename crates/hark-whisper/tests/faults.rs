//! What the engine does with odd networks and with devices that fail. Nothing needs to be installed.

use std::sync::Arc;

use hark_whisper::backend::{
    Admission, AlignmentRequest, AlignmentScores, Answer, Backend, BackendError, Entry, MemoryUse, TokenMap,
};
use hark_whisper::cpu::{Compute, CpuBackend, CpuOptions, Isa, Weights};
use hark_whisper::decode::{DecodeOptions, Engine, Job, Language, Outcome};
use hark_whisper::tokenizer::Tokenizer;
use hark_whisper::weights::{Checkpoint, Dims, Vocabulary};

const DIMS: Dims = Dims {
    n_mels: 80,
    n_audio_ctx: 1500,
    n_audio_state: 64,
    n_audio_head: 1,
    n_audio_layer: 1,
    n_text_ctx: 448,
    n_text_state: 64,
    n_text_head: 1,
    n_text_layer: 1,
    n_vocab: 51_865,
};

/// The same small numbers in every run.
fn numbers(name: &str, shape: &[usize]) -> Vec<f32> {
    let mut state = name.bytes().fold(9u32, |state, byte| state.rotate_left(5) ^ u32::from(byte)) | 1;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 24) as f32 - 0.5
    };
    (0..shape.iter().product()).map(|_| next()).collect()
}

fn backend(dims: Dims) -> (CpuBackend, Arc<Tokenizer>) {
    let checkpoint = Checkpoint::generated(dims, Vocabulary::bytes_only(dims.n_vocab), numbers);
    let tokenizer = Arc::new(Tokenizer::new(&checkpoint.vocabulary));
    let tokens = TokenMap {
        end: tokenizer.eot,
        first_time: tokenizer.timestamp_begin,
        languages: tokenizer.languages().iter().filter_map(|code| tokenizer.language_token(code)).collect(),
        ..TokenMap::default()
    };
    let compute = Compute::new(1, Isa::Portable);
    let options = CpuOptions { weights: Weights::Int8, slots: 2, rows: 2, encoder_caches: 1 };
    (CpuBackend::load(&checkpoint, tokens, &compute, options).expect("a small Whisper"), tokenizer)
}

fn job(id: u64, options: DecodeOptions) -> Job {
    let mel = (0..3000 * 80).map(|index| (index * 7919 % 997) as f32 / 500.0 - 1.0).collect();
    let options = DecodeOptions { beam: 2, temperatures: vec![0.0], words: true, ..options };
    Job { id, mel, frames: 700, options: Arc::new(options), lane: 0, again: None }
}

#[test]
fn a_network_of_a_short_context_decodes_whatever_stands_before_its_text() {
    for n_text_ctx in [16, 17, 40, 447] {
        let (backend, tokenizer) = backend(Dims { n_text_ctx, ..DIMS });
        let mut engine = Engine::new(backend, Arc::clone(&tokenizer));
        let words = |count: usize| (0..count as u32).map(|token| token % 200).collect::<Vec<u32>>();
        for (prompt, prefix) in [(0, 0), (600, 0), (0, 10), (600, 230), (3, 700)] {
            let options = DecodeOptions {
                language: Language::Known("en".to_owned()),
                prompt: words(prompt),
                prefix: words(prefix),
                ..DecodeOptions::default()
            };
            engine.admit(vec![job(1, options)]).expect("it is admitted");
            let outcome = (0..1000).find_map(|_| engine.step(0).expect("it steps").pop());
            let (_, outcome) = outcome.expect("it comes to an end");
            let timed = outcome.timed(&tokenizer);
            assert!(matches!(timed, Outcome::Decoded(_)), "{n_text_ctx} positions, {prompt} before, {prefix} given");
        }
    }
}

/// A device that does as another one, until something happens.
struct Failing {
    backend: CpuBackend,
    /// The number of the call that fails, and how.
    fails: (usize, Fault),
    calls: usize,
    capacity: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    NotANumber,
    Lost,
    OutOfMemory,
}

impl Failing {
    fn is_due(&mut self, fault: Fault) -> bool {
        self.calls += usize::from(self.fails.1 == fault);
        self.fails == (self.calls, fault)
    }
}

impl Backend for Failing {
    fn dims(&self) -> &Dims {
        self.backend.dims()
    }

    fn slots(&self) -> usize {
        self.backend.slots()
    }

    fn capacity(&self) -> usize {
        self.capacity
    }

    fn rows(&self) -> usize {
        self.backend.rows()
    }

    fn encode_batch(&self) -> usize {
        2
    }

    fn name(&self) -> String {
        "failing".to_owned()
    }

    fn memory(&self) -> MemoryUse {
        self.backend.memory()
    }

    fn health(&mut self) -> Result<(), BackendError> {
        self.backend.health()
    }

    fn encode(&mut self, windows: &[Admission]) -> Result<(), BackendError> {
        if self.is_due(Fault::OutOfMemory) {
            self.capacity = 1;
            return Err(BackendError::OutOfMemory("no room".to_owned()));
        }
        self.backend.encode(windows)
    }

    fn release(&mut self, slot: usize) -> Result<(), BackendError> {
        self.backend.release(slot)
    }

    fn step(&mut self, entries: &[Entry]) -> Result<Vec<Answer>, BackendError> {
        if self.is_due(Fault::Lost) {
            return Err(BackendError::DeviceLost("gone".to_owned()));
        }
        let mut answers = self.backend.step(entries)?;
        if self.is_due(Fault::NotANumber) {
            answers.iter_mut().flat_map(|answer| &mut answer.best).for_each(|(_, log_prob)| *log_prob = f32::NAN);
        }
        Ok(answers)
    }

    fn align(&mut self, requests: &[AlignmentRequest]) -> Result<Vec<AlignmentScores>, BackendError> {
        self.backend.align(requests)
    }

    fn trim(&mut self) -> Result<(), BackendError> {
        self.backend.trim()
    }
}

fn failing(call: usize, fault: Fault) -> Engine<Failing> {
    let (backend, tokenizer) = backend(DIMS);
    let capacity = backend.slots();
    Engine::new(Failing { backend, fails: (call, fault), calls: 0, capacity }, tokenizer)
}

fn known() -> DecodeOptions {
    DecodeOptions { language: Language::Known("en".to_owned()), max_tokens: 6, ..DecodeOptions::default() }
}

#[test]
fn scores_that_are_no_numbers_and_a_lost_device_are_errors_and_no_texts() {
    for (fault, is_kind) in [
        (Fault::NotANumber, (|error| matches!(error, BackendError::Fault(_))) as fn(BackendError) -> bool),
        (Fault::Lost, |error| matches!(error, BackendError::DeviceLost(_))),
    ] {
        let mut engine = failing(3, fault);
        engine.admit(vec![job(1, known())]).expect("it is admitted");
        let error = (0..20).find_map(|_| engine.step(0).err()).expect("the fault is seen");
        assert!(!error.keeps_windows());
        assert!(is_kind(error));
    }
}

#[test]
fn a_device_without_memory_keeps_what_it_has_and_is_given_no_more_than_it_can_take() {
    let mut engine = failing(2, Fault::OutOfMemory);
    assert_eq!((engine.free(), engine.batch()), (2, 2));
    engine.admit(vec![job(1, known())]).expect("the first fits");
    let error = engine.admit(vec![job(2, known())]).expect_err("the second does not");
    assert!(error.keeps_windows(), "{error}");
    assert_eq!((engine.live(), engine.free()), (1, 0), "capacity is what the device says");
    let done = (0..50).find_map(|_| engine.step(0).expect("the first goes on").pop());
    assert_eq!(done.expect("it comes to an end").0, 1);
    assert_eq!(engine.free(), 1);
    engine.admit(vec![job(2, known())]).expect("now it fits");
}

#[test]
fn windows_that_are_admitted_together_end_as_those_that_came_alone() {
    let texts = |together: bool| {
        let mut engine = failing(0, Fault::Lost);
        let jobs = vec![job(1, known()), job(2, known())];
        if together {
            engine.admit(jobs).expect("both fit");
        } else {
            jobs.into_iter().for_each(|job| engine.admit(vec![job]).expect("it fits"));
        }
        let mut done = Vec::new();
        while engine.live() > 0 {
            done.extend(engine.step(0).expect("it steps"));
        }
        let tokenizer = Arc::clone(engine.tokenizer());
        done.sort_by_key(|(id, _)| *id);
        let texts = done.into_iter().map(|(_, outcome)| match outcome.timed(&tokenizer) {
            Outcome::Decoded(decoded) => (decoded.tokens, decoded.words.len()),
            other => panic!("{other:?}"),
        });
        texts.collect::<Vec<_>>()
    };
    assert_eq!(texts(true), texts(false));
    assert_eq!(texts(true).len(), 2);
}

#[test]
fn weights_that_are_no_numbers_are_refused() {
    let poisoned = |name: &str, shape: &[usize]| {
        let mut values = numbers(name, shape);
        if name == "decoder.blocks.0.mlp.0.weight" {
            values[17] = f32::NAN;
        }
        values
    };
    let checkpoint = Checkpoint::generated(DIMS, Vocabulary::bytes_only(DIMS.n_vocab), poisoned);
    let compute = Compute::new(1, Isa::Portable);
    let options = CpuOptions { weights: Weights::Int8, slots: 2, rows: 2, encoder_caches: 1 };
    let error =
        CpuBackend::load(&checkpoint, TokenMap::default(), &compute, options).map(drop).expect_err("it is damaged");
    assert!(error.to_string().contains("decoder.blocks.0.mlp.0.weight"), "{error}");
}
