//! The engine with unusual dimensions and with devices that fail. Nothing needs to be installed.

use std::sync::Arc;

use hark_whisper::backend::{BackendError, TokenMap};
use hark_whisper::cpu::{Compute, CpuBackend, CpuOptions, Isa, Weights};
use hark_whisper::decode::{DecodeOptions, Engine, Job, Language, Outcome};
use hark_whisper::testing::{FaultPlan, Faults, FaultyBackend, SMALL_DIMS, small_backend, small_weights};
use hark_whisper::weights::{Checkpoint, Dims, Vocabulary};

fn job(id: u64, options: DecodeOptions) -> Job {
    let mel = (0..3000 * 80).map(|index| (index * 7919 % 997) as f32 / 500.0 - 1.0).collect();
    let options = DecodeOptions { beam: 2, temperatures: vec![0.0], words: true, ..options };
    Job { id, mel, frames: 700, options: Arc::new(options), lane: 0, reencode: None }
}

#[test]
fn a_model_with_a_short_context_decodes_with_any_prompt_and_prefix() {
    for n_text_ctx in [16, 17, 40, 447] {
        let (backend, tokenizer) = small_backend(Dims { n_text_ctx, ..SMALL_DIMS }, 2);
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

fn faulty_engine(plan: FaultPlan) -> Engine<FaultyBackend<CpuBackend>> {
    let (backend, tokenizer) = small_backend(SMALL_DIMS, 2);
    Engine::new(FaultyBackend::new(backend, &Faults::new(plan)), tokenizer)
}

fn known() -> DecodeOptions {
    DecodeOptions { language: Language::Known("en".to_owned()), max_tokens: 6, ..DecodeOptions::default() }
}

#[test]
fn nan_scores_and_a_lost_device_are_errors() {
    for (plan, is_kind) in [
        (
            FaultPlan { nan_at: vec![2], ..FaultPlan::default() },
            (|error| matches!(error, BackendError::Fault(_))) as fn(BackendError) -> bool,
        ),
        (FaultPlan { lost_at: vec![2], ..FaultPlan::default() }, |error| matches!(error, BackendError::DeviceLost(_))),
    ] {
        let mut engine = faulty_engine(plan);
        engine.admit(vec![job(1, known())]).expect("it is admitted");
        let error = (0..20).find_map(|_| engine.step(0).err()).expect("the fault is seen");
        assert!(!error.keeps_windows());
        assert!(is_kind(error));
    }
}

#[test]
fn out_of_memory_keeps_admitted_windows_and_limits_capacity() {
    let plan =
        FaultPlan { max_windows: Some(1), shrinks_capacity: true, encode_batch: Some(2), ..FaultPlan::default() };
    let mut engine = faulty_engine(plan);
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
fn windows_admitted_together_decode_as_those_admitted_alone() {
    let texts = |together: bool| {
        let mut engine = faulty_engine(FaultPlan { encode_batch: Some(2), ..FaultPlan::default() });
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
fn nan_weights_are_rejected() {
    let poisoned = |name: &str, shape: &[usize]| {
        let mut values = small_weights(name, shape);
        if name == "decoder.blocks.0.mlp.0.weight" {
            values[17] = f32::NAN;
        }
        values
    };
    let checkpoint = Checkpoint::generated(SMALL_DIMS, Vocabulary::bytes_only(SMALL_DIMS.n_vocab), poisoned);
    let compute = Compute::new(1, Isa::Portable);
    let options = CpuOptions { weights: Weights::Int8, slots: 2, rows: 2, encoder_caches: 1 };
    let error =
        CpuBackend::load(&checkpoint, TokenMap::default(), &compute, options).map(drop).expect_err("it is damaged");
    assert!(error.to_string().contains("decoder.blocks.0.mlp.0.weight"), "{error}");
}
