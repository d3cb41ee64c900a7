//! The runtime against a plain forward pass, and what batches, forks and errors leave behind.

mod support;

use hark_compute::{Compute, Isa};
use hark_lm::engine::{Engine, EngineLimits, Generation, Request};
use hark_lm::{BatchRow, KvCache, LmError, Model, Sampling, SequenceId, Workspace};
use hark_transcript::Lane;
use hark_weights::WeightsFile;
use support::{CONTEXT, GEMMA2, GEMMA3, LLAMA, ORIGINAL_CONTEXT, PHI3, QWEN2, QWEN3, SmallModel, VOCABULARY};

fn tokens(count: usize) -> Vec<u32> {
    (0..count).map(|index| (index * 61 + 5) as u32 % 256).collect()
}

fn rows(sequence: SequenceId, tokens: &[u32]) -> Vec<BatchRow> {
    tokens.iter().map(|token| BatchRow { sequence, token: *token, wants_logits: true }).collect()
}

fn load(model: &SmallModel) -> Model {
    Model::from_file(&Compute::new(2, Isa::best()), &model.file()).expect("the small model loads")
}

/// Appends tokens and returns the logits of each.
fn run(model: &Model, cache: &mut KvCache, sequence: SequenceId, tokens: &[u32]) -> Vec<Vec<f32>> {
    let mut workspace = Workspace::default();
    let logits = model.forward(&mut workspace, cache, &rows(sequence, tokens), &|| false).expect("a forward pass");
    logits.chunks_exact(VOCABULARY).map(<[f32]>::to_vec).collect()
}

/// Largest difference, as a part of the logits' standard deviation.
fn difference(found: &[f32], expected: &[f32]) -> f32 {
    let deviation = (expected.iter().map(|x| x * x).sum::<f32>() / expected.len() as f32).sqrt();
    found.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max) / deviation
}

/// Rounding of activations to eight bits, four products deep in two layers.
const ROUNDING: f32 = 0.08;
/// The same where norms behind each part give the rounded products more weight in the residual stream.
const ROUNDING_BEFORE_NORMS: f32 = 0.15;

#[test]
fn logits_are_those_of_the_plain_forward_pass_in_every_architecture() {
    for shape in [QWEN2, QWEN3, LLAMA, GEMMA2, GEMMA3, PHI3] {
        let (name, rounding) = (shape.architecture, if shape.is_gemma { ROUNDING_BEFORE_NORMS } else { ROUNDING });
        let small = SmallModel::new(shape);
        let tokens = tokens(45);
        let expected = small.reference(&tokens, true);
        for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
            let model = Model::from_file(&Compute::new(2, isa), &small.file()).expect("the small model loads");
            let mut cache = KvCache::new(model.config(), CONTEXT).expect("there is memory");
            let sequence = cache.create();
            // A prompt in one batch, then some tokens at once, then one by one: bf16 and int8 products.
            let mut found = run(&model, &mut cache, sequence, &tokens[..37]);
            found.extend(run(&model, &mut cache, sequence, &tokens[37..40]));
            for token in &tokens[40..] {
                found.extend(run(&model, &mut cache, sequence, &[*token]));
            }
            assert_eq!(cache.length(sequence).expect("it is there"), tokens.len());
            for (position, (found, expected)) in found.iter().zip(&expected).enumerate() {
                let difference = difference(found, expected);
                assert!(difference < rounding, "{name} on {} at {position}: {difference}", isa.name());
            }
        }
    }
}

#[test]
fn caps_of_scores_and_logits_change_the_logits_by_more_than_rounding() {
    let (prompt, plain) = (tokens(45), support::Shape { softcaps: None, ..GEMMA2 });
    let capped = SmallModel::new(GEMMA2).reference(&prompt, true).pop().expect("logits");
    let uncapped = SmallModel::new(plain).reference(&prompt, true).pop().expect("logits");
    assert!(difference(&capped, &uncapped) > 2.0 * ROUNDING_BEFORE_NORMS);
}

#[test]
fn a_short_context_takes_the_rotary_factors_for_short_contexts() {
    let small = SmallModel::new(PHI3);
    let prompt = tokens(40);
    let greedy = |is_long: bool| {
        let logits = small.reference(&prompt, is_long).pop().expect("logits");
        let best = (0..VOCABULARY).max_by(|a, b| logits[*a].total_cmp(&logits[*b])).expect("a token");
        best as u32
    };
    assert_ne!(greedy(false), greedy(true), "the two are different here");
    for (context, is_long) in [(ORIGINAL_CONTEXT, false), (CONTEXT, true)] {
        let limits = EngineLimits { context, ..EngineLimits::default() };
        let engine = Engine::start(load(&small), limits).expect("it starts");
        let (sampling, owner, lane) = (Sampling::default(), 1, Lane::Bulk);
        let request = Request { prompt: prompt.clone(), sampling, grammar: None, max_tokens: 1, owner, lane };
        let (text, ..) = engine.submit(request).and_then(Generation::wait).expect("it is answered");
        assert_eq!(text, engine.model().tokenizer().decode(&[greedy(is_long)]), "a context of {context}");
    }
}

#[test]
fn sequences_of_a_batch_do_not_touch_each_other() {
    let model = load(&SmallModel::new(QWEN2));
    let mut cache = KvCache::new(model.config(), 4 * CONTEXT).expect("there is memory");
    let (one, other) = (tokens(20), tokens(33).split_off(13));
    let alone: Vec<_> = [&one, &other]
        .map(|tokens| {
            let sequence = cache.create();
            run(&model, &mut cache, sequence, tokens).pop().expect("logits")
        })
        .into_iter()
        .collect();
    let (a, b) = (cache.create(), cache.create());
    let both = [rows(a, &one), rows(b, &other)].concat();
    let mut workspace = Workspace::default();
    let logits = model.forward(&mut workspace, &mut cache, &both, &|| false).expect("a forward pass");
    let last = |row: usize| &logits[row * VOCABULARY..(row + 1) * VOCABULARY];
    assert!(difference(last(19), &alone[0]) < 1e-3);
    assert!(difference(last(39), &alone[1]) < 1e-3);
    assert!(difference(last(19), &alone[1]) > 0.3, "the two are different");
}

#[test]
fn a_fork_shares_pages_until_it_is_written_and_leaves_its_origin_alone() {
    let model = load(&SmallModel::new(LLAMA));
    let mut cache = KvCache::new(model.config(), 4 * 32).expect("there is memory");
    let tokens = tokens(60);
    let origin = cache.create();
    run(&model, &mut cache, origin, &tokens[..40]);
    let expected = {
        let copy = cache.fork(origin, 40).expect("a fork");
        assert_eq!(cache.free_pages(), 2, "two pages serve both");
        let logits = run(&model, &mut cache, copy, &tokens[40..42]);
        assert_eq!(cache.free_pages(), 1, "the page that was written is a copy");
        cache.remove(copy);
        assert_eq!(cache.free_pages(), 2);
        logits
    };
    // Another fork goes elsewhere, in the middle of the shared page.
    let fork = cache.fork(origin, 35).expect("a fork");
    run(&model, &mut cache, fork, &[1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(run(&model, &mut cache, origin, &tokens[40..42]), expected, "the origin saw nothing of it");
    cache.truncate(origin, 32).expect("it is there");
    cache.remove(fork);
    assert_eq!(cache.free_pages(), 3);
    assert!(cache.fork(origin, 33).is_err(), "more than there is");
}

#[test]
fn what_fails_leaves_sequences_as_they_were() {
    let model = load(&SmallModel::new(QWEN2));
    let mut cache = KvCache::new(model.config(), 64).expect("there is memory");
    let (one, other) = (cache.create(), cache.create());
    run(&model, &mut cache, one, &tokens(30));
    let mut workspace = Workspace::default();
    let mut forward = |cache: &mut KvCache, rows: &[BatchRow], cancelled: bool| {
        model.forward(&mut workspace, cache, rows, &|| cancelled).map(<[f32]>::len)
    };
    assert!(matches!(forward(&mut cache, &rows(other, &tokens(40)), false), Err(LmError::CacheFull { pages: 2 })));
    assert!(matches!(forward(&mut cache, &rows(other, &tokens(97)), false), Err(LmError::ContextFull { .. })));
    assert!(matches!(forward(&mut cache, &rows(one, &[VOCABULARY as u32]), false), Err(LmError::Invalid(_))));
    assert!(matches!(forward(&mut cache, &rows(one, &[1]), true), Err(LmError::Cancelled)));
    let apart = [rows(one, &[1]), rows(other, &[1]), rows(one, &[2])].concat();
    assert!(matches!(forward(&mut cache, &apart, false), Err(LmError::Invalid(_))));
    assert_eq!((cache.length(one).ok(), cache.length(other).ok()), (Some(30), Some(0)));
    cache.remove(other);
    assert!(matches!(forward(&mut cache, &rows(other, &[1]), false), Err(LmError::Invalid(_))));
    assert_eq!(forward(&mut cache, &rows(one, &[1, 2]), false).ok(), Some(2 * VOCABULARY));
}

#[test]
fn damaged_files_are_errors_and_never_panics() {
    let bytes = SmallModel::new(QWEN3).gguf();
    let compute = Compute::new(1, Isa::best());
    let load = |bytes: Vec<u8>| Model::from_file(&compute, &WeightsFile::from_bytes("hostile.gguf", bytes));
    assert!(load(bytes.clone()).is_ok());
    for length in (0..bytes.len()).step_by(997) {
        assert!(load(bytes[..length].to_vec()).is_err(), "{length} bytes of {}", bytes.len());
    }
    // Every byte of the metadata and of the table of tensors, one at a time.
    let mut refused = 0;
    let header = 9_000.min(bytes.len());
    for at in (0..header).step_by(3) {
        let mut changed = bytes.clone();
        changed[at] ^= 1 << (at % 8);
        refused += usize::from(load(changed).is_err());
    }
    assert!(refused > 300, "{refused} of {header} changes were refused");
}

#[test]
fn weights_that_are_not_finite_are_an_error_of_the_forward_pass() {
    let small = SmallModel::new(LLAMA);
    let mut bytes = small.gguf();
    // The scale of the last block of the file, which belongs to the last layer's down projection.
    let scale = bytes.len() - 34;
    bytes[scale..scale + 2].copy_from_slice(&0x7c00u16.to_le_bytes());
    let file = WeightsFile::from_bytes("infinite.gguf", bytes);
    let model = Model::from_file(&Compute::new(1, Isa::best()), &file).expect("it loads");
    let mut cache = KvCache::new(model.config(), 32).expect("there is memory");
    let sequence = cache.create();
    let mut workspace = Workspace::default();
    let outcome = model.forward(&mut workspace, &mut cache, &rows(sequence, &[1]), &|| false);
    assert!(matches!(outcome, Err(LmError::NotFinite)));
    assert_eq!(cache.length(sequence).ok(), Some(0));
}
