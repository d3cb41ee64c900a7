//! A generated network, what the plain float32 network makes of it, and what a backend is asked about it.

#![allow(dead_code)]

use std::sync::Arc;

use hark_numeric::SplitMix64;
use hark_whisper::backend::{
    Admission, AlignmentRequest, Answer, Backend, Entry, Sampling, TokenMap, TokenQuery, TokenRules,
};
use hark_whisper::mel::WINDOW_FRAMES;
use hark_whisper::reference::ReferenceModel;
use hark_whisper::testing::{SMALL_DIMS, backend_of};
use hark_whisper::tokenizer::Tokenizer;
use hark_whisper::weights::{Checkpoint, Dims, Vocabulary};
use hark_whisper::words::{AlignmentRows, agreement};

/// Tokens that a query asks for.
const LIKELY: usize = 50;

pub struct Truth {
    pub checkpoint: Checkpoint,
    pub tokenizer: Arc<Tokenizer>,
    pub tokens: TokenMap,
    /// Two windows, as a backend takes them.
    pub mels: [Vec<f32>; 2],
    reference: ReferenceModel,
    states: [Vec<f32>; 2],
    /// The start token.
    pub start: u32,
}

pub fn dims(width: usize, n_mels: usize, layers: (usize, usize), frames: usize) -> Dims {
    Dims {
        n_mels,
        n_audio_ctx: frames,
        n_audio_state: width,
        n_audio_head: width / 64,
        n_audio_layer: layers.0,
        n_text_state: width,
        n_text_head: width / 64,
        n_text_layer: layers.1,
        n_vocab: if n_mels == 128 { 51_866 } else { SMALL_DIMS.n_vocab },
        ..SMALL_DIMS
    }
}

/// Weights under which every head looks at a few frames of its own choice.
fn weights(name: &str, shape: &[usize]) -> Vec<f32> {
    let seed = name.bytes().fold(7u64, |hash, byte| hash.wrapping_mul(31).wrapping_add(u64::from(byte)));
    let mut random = SplitMix64::new(seed);
    let inputs = shape.iter().skip(1).product::<usize>() as f32;
    let is_norm = name.contains("_ln") || name.contains(".ln");
    let (scale, shift) = match name {
        _ if is_norm && name.ends_with("weight") => (0.2, 1.0),
        _ if name.ends_with("bias") => (0.1, 0.0),
        "encoder.positional_embedding" => (0.5, 0.0),
        "decoder.token_embedding.weight" | "decoder.positional_embedding" => (2.5 / inputs.sqrt(), 0.0),
        _ if name.contains("query") || name.contains("key") => (1.6 / inputs.sqrt(), 0.0),
        _ => (1.0 / inputs.sqrt(), 0.0),
    };
    // Of variance 1.
    (0..shape.iter().product()).map(|_| (random.unit() * 2.0 - 1.0) * 3f32.sqrt() * scale + shift).collect()
}

impl Truth {
    /// A network that the plain device runs in a second.
    pub fn small() -> Self {
        Self::of(dims(128, 80, (2, 2), 40))
    }

    pub fn of(dims: Dims) -> Self {
        let bytes = (0..=255u8).map(|byte| vec![byte]);
        let words = (256..50_257).map(|number| format!(" w{number}").into_bytes());
        let vocabulary =
            Vocabulary::from_tokens(dims.n_vocab, bytes.chain(words).collect()).expect("as many as Whisper has");
        let tokenizer = Arc::new(Tokenizer::new(&vocabulary));
        let mut checkpoint = Checkpoint::generated(dims, vocabulary, weights);
        let last = dims.n_text_head - 1;
        checkpoint.alignment_heads = vec![(1, last), (0, 0), (1, 0)];
        let tokens = TokenMap {
            end: tokenizer.eot,
            no_speech: Some(tokenizer.no_speech),
            first_timestamp: tokenizer.timestamp_begin,
            languages: tokenizer.languages().iter().filter_map(|code| tokenizer.language_token(code)).collect(),
            suppress_tokens: (0..50_000).step_by(7).collect(),
            begin_suppress_tokens: vec![220, tokenizer.eot],
        };
        let used = 2 * dims.n_audio_ctx * dims.n_mels;
        let mels = [1, 2].map(|seed| {
            let mut random = SplitMix64::new(seed);
            let mut mel: Vec<f32> = (0..used).map(|_| (random.unit() * 2.0 - 1.0).clamp(-1.0, 1.5)).collect();
            mel.resize(WINDOW_FRAMES * dims.n_mels, 0.0);
            mel
        });
        let reference = ReferenceModel::load(&checkpoint).expect("all tensors are generated");
        let states = [0, 1].map(|window: usize| reference.encode(&mels[window][..used]));
        let start = tokenizer.sot;
        Truth { checkpoint, tokenizer, tokens, mels, reference, states, start }
    }

    /// The logits after the last of `tokens`.
    fn logits(&self, window: usize, tokens: &[u32]) -> Vec<f32> {
        let logits = self.reference.decoder_logits(&self.states[window], tokens);
        logits[logits.len() - self.checkpoint.dims.n_vocab..].to_vec()
    }

    /// Log-probabilities of text and end among themselves, without those that are suppressed.
    fn log_probs(&self, window: usize, tokens: &[u32]) -> Vec<f32> {
        let mut logits = self.logits(window, tokens);
        logits.truncate(self.tokenizer.eot as usize + 1);
        for &token in self.tokens.suppress_tokens.iter().filter(|token| **token <= self.tokenizer.eot) {
            logits[token as usize] = f32::NEG_INFINITY;
        }
        let top = logits.iter().copied().fold(f32::MIN, f32::max);
        let total = top + logits.iter().map(|logit| (logit - top).exp()).sum::<f32>().ln();
        logits.iter().map(|logit| logit - total).collect()
    }
}

fn query(top_k: usize) -> TokenQuery {
    let rules = TokenRules { text: true, end: true, at_start: false, timestamps: None };
    TokenQuery { rules, top_k, sampling: None, no_speech: false, languages: false }
}

/// An entry that asks for likely tokens, in a row that goes on by itself.
pub fn entry(slot: usize, row: usize, position: usize, token: u32) -> Entry {
    Entry { slot, row, parent: row, position, token, query: Some(query(LIKELY)) }
}

/// Encodes windows into slots.
pub fn encode(truth: &Truth, backend: &mut dyn Backend, windows: &[(usize, usize)]) {
    let windows: Vec<Admission> =
        windows.iter().map(|&(slot, window)| Admission::once(slot, &truth.mels[window])).collect();
    backend.encode(&windows).expect("it encodes");
}

/// How far the likely tokens of an answer are off: a root mean square of log-probabilities.
fn off(truth: &Truth, answer: &Answer, window: usize, tokens: &[u32]) -> f32 {
    let expected = truth.log_probs(window, tokens);
    assert_eq!(answer.best.len(), LIKELY);
    let best = (0..expected.len()).max_by(|a, b| expected[*a].total_cmp(&expected[*b])).expect("tokens");
    assert!(answer.best.iter().any(|&(token, _)| token as usize == best), "the likeliest token is not among {LIKELY}");
    assert!(answer.best.windows(2).all(|two| two[0].1 >= two[1].1), "likeliest first");
    let squares = answer.best.iter().map(|&(token, found)| (found - expected[token as usize]).powi(2));
    (squares.sum::<f32>() / LIKELY as f32).sqrt()
}

/// Prompts, single tokens, rows that follow others, in several slots at once, each twice: the second time of a batch size may go another way.
pub fn check_steps(truth: &Truth, backend: &mut dyn Backend, limit: f32) {
    let prompt = [truth.start, truth.tokens.languages[2], truth.tokenizer.transcribe, truth.tokenizer.no_timestamps];
    let check = |answers: &[Answer], expected: &[(usize, Vec<u32>)]| {
        assert_eq!(answers.len(), expected.len());
        for (answer, (window, tokens)) in answers.iter().zip(expected) {
            let off = off(truth, answer, *window, tokens);
            assert!(off < limit, "window {window} after {tokens:?}: off by {off}");
        }
    };
    for round in 0..3 {
        encode(truth, backend, &[(1, 0), (0, 1), (3, 0)]);
        let row = |slot: usize| {
            let last = prompt.len() - 1;
            prompt.iter().enumerate().map(move |(position, &token)| Entry {
                query: (position == last).then(|| query(LIKELY)),
                ..entry(slot, 0, position, token)
            })
        };
        let entries: Vec<Entry> = row(1).chain(row(0)).collect();
        let answers = backend.step(&entries).expect("it steps");
        check(&answers, &[(0, prompt.to_vec()), (1, prompt.to_vec())]);
        // Three rows of slot 1 branch off, slot 0 goes on.
        let token = |row: usize| 1000 + 100 * round + row as u32;
        let branch = |row: usize| Entry { parent: 0, ..entry(1, row, 4, token(row)) };
        let answers = backend.step(&[branch(0), branch(1), branch(2), entry(0, 0, 4, 77)]).expect("it steps");
        let with = |more: &[u32]| [&prompt[..], more].concat();
        let expected = [(0, with(&[token(0)])), (0, with(&[token(1)])), (0, with(&[token(2)])), (1, with(&[77]))];
        check(&answers, &expected);
        // Rows 0 and 1 swap their pasts.
        let swap = |row: usize, parent: usize| Entry { parent, ..entry(1, row, 5, 900 + row as u32) };
        let answers = backend.step(&[swap(0, 1), swap(1, 0)]).expect("it steps");
        check(&answers, &[(0, with(&[token(1), 900])), (0, with(&[token(0), 901]))]);
        // Another window in the slot.
        encode(truth, backend, &[(1, 1)]);
        let answers = backend.step(&row(1).collect::<Vec<_>>()).expect("it steps");
        check(&answers, &[(1, prompt.to_vec())]);
    }
}

/// Asks a backend and the CPU's the same, with weights in bf16 there.
pub fn check_answers(truth: &Truth, backend: &mut dyn Backend) {
    let mut cpu = backend_of(&truth.checkpoint, truth.tokens.clone(), backend.rows());
    let prompt = [truth.start, truth.tokens.languages[0], truth.tokenizer.transcribe];
    let begin = truth.tokens.first_timestamp;
    let rules = |text, end, at_start, timestamps| TokenRules { text, end, at_start, timestamps };
    let draw = |uniform: f32| Some(Sampling { temperature: 0.7, uniform });
    let plain = query(6);
    let queries = [
        TokenQuery { rules: rules(true, true, true, None), ..plain },
        TokenQuery { rules: rules(true, true, false, Some((begin, begin + 1501))), ..plain },
        TokenQuery { rules: rules(false, false, true, Some((begin, begin + 51))), ..plain },
        TokenQuery { rules: rules(false, true, false, Some((begin + 100, begin + 102))), ..plain },
        TokenQuery { rules: rules(true, true, false, Some((begin + 100, begin + 100))), top_k: 1, ..plain },
        TokenQuery { rules: TokenRules::default(), top_k: 0, no_speech: true, languages: true, ..plain },
        TokenQuery { no_speech: true, ..plain },
        TokenQuery { sampling: draw(0.0), ..plain },
        TokenQuery { sampling: draw(0.31), ..plain },
        TokenQuery { sampling: draw(0.999_999), ..plain },
    ];
    for query in queries {
        let mut answers = [backend as &mut dyn Backend, &mut cpu as &mut dyn Backend].map(|backend| {
            encode(truth, backend, &[(0, 0)]);
            let entries = prompt.iter().enumerate().map(|(position, &token)| Entry {
                query: (position == 2).then_some(query),
                ..entry(0, 0, position, token)
            });
            let entries: Vec<Entry> = entries.collect();
            backend.step(&entries).expect("it steps").remove(0)
        });
        let [ours, theirs] = &mut answers;
        let close = |one: f32, other: f32| (one - other).abs() < 0.12;
        assert_eq!(ours.best.len(), theirs.best.len(), "{query:?}");
        if query.sampling.is_none() {
            for (one, other) in ours.best.iter().zip(&theirs.best) {
                // Near tokens may change places.
                assert!(close(one.1, other.1), "{query:?}: {ours:?} {theirs:?}");
            }
        } else {
            assert!(ours.best[0].1 < 0.0 && ours.best[0].1.is_finite(), "{query:?}: {ours:?}");
            assert!(
                truth.tokens.suppress_tokens.binary_search(&ours.best[0].0).is_err(),
                "a suppressed token was drawn"
            );
        }
        if let (Some(one), Some(other)) = (ours.best.first(), theirs.best.first()) {
            let is_time = |token: u32| token >= begin;
            assert_eq!(is_time(one.0), is_time(other.0), "{query:?}");
        }
        assert!((ours.no_speech - theirs.no_speech).abs() < 0.01 * theirs.no_speech.max(0.01), "{query:?}");
        assert_eq!(ours.languages.len(), theirs.languages.len());
        assert!(
            ours.languages
                .iter()
                .zip(&theirs.languages)
                .all(|(one, other)| (one - other).abs() < 0.05 * other.max(0.01))
        );
    }
}

/// Scores of the alignment heads of two texts at once.
pub fn check_alignment(truth: &Truth, backend: &mut dyn Backend, limit: f32) {
    encode(truth, backend, &[(0, 0), (2, 1)]);
    let texts = [vec![truth.start, 300, 400, 500, 600, 700], vec![truth.start, 900, 800, 700]];
    let frames = [truth.checkpoint.dims.n_audio_ctx, truth.checkpoint.dims.n_audio_ctx - 7];
    let requests = [
        AlignmentRequest { slot: 0, tokens: &texts[0], first: 2, frames: frames[0] },
        AlignmentRequest { slot: 2, tokens: &texts[1], first: 0, frames: frames[1] },
    ];
    let found = backend.align(&requests).expect("it aligns");
    for (window, (request, found)) in requests.iter().zip(&found).enumerate() {
        let heads = &truth.checkpoint.alignment_heads;
        assert_eq!(
            (found.heads, found.rows, found.frames),
            (heads.len(), request.tokens.len() - request.first, request.frames)
        );
        let scores = truth.reference.cross_attention_scores(&truth.states[window], request.tokens, heads);
        for (index, &(layer, head)) in heads.iter().enumerate() {
            let columns = truth.checkpoint.dims.n_audio_ctx;
            let (mut error, mut energy) = (0.0, 0.0);
            for row in 0..found.rows {
                for frame in 0..found.frames {
                    let ours = found.scores[(index * found.rows + row) * found.frames + frame];
                    let theirs = scores[index][(request.first + row) * columns + frame];
                    error += (ours - theirs).powi(2);
                    energy += theirs.powi(2);
                }
            }
            let relative = (error / energy).sqrt();
            assert!(relative < limit, "head {head} of layer {layer}: off by {relative}");
        }
    }
}

/// What the heads agree on, beside the CPU's computation from their scores.
pub fn check_agreement(truth: &Truth, backend: &mut dyn Backend, limit: f32) {
    encode(truth, backend, &[(0, 0), (2, 1)]);
    let texts = [vec![truth.start, 300, 400, 500, 600, 700], vec![truth.start, 900, 800, 700]];
    let columns = truth.checkpoint.dims.n_audio_ctx;
    for frames in [[columns, columns - 7], [9, 3], [1, columns]] {
        let request =
            |index: usize| AlignmentRequest { slot: index * 2, tokens: &texts[index], first: 0, frames: frames[index] };
        let requests = [request(0), request(1)];
        let leading = [2, 1];
        let scores = backend.align(&requests).expect("it aligns");
        let found = backend.agree(&requests, &leading).expect("it aligns").expect("the device does it");
        for ((scores, found), leading) in scores.iter().zip(&found).zip(leading) {
            let heads = scores.scores.chunks_exact(scores.rows * scores.frames).collect();
            let rows = AlignmentRows { heads, stride: scores.frames, leading };
            let wanted = agreement(&rows, scores.rows, scores.frames);
            assert_eq!((found.rows, found.frames), (scores.rows - leading, scores.frames));
            for (ours, theirs) in found.numbers.iter().zip(&wanted) {
                assert!((ours - theirs).abs() < limit, "{ours} {theirs}, {} frames", scores.frames);
            }
            assert_eq!(found.numbers.len(), wanted.len());
        }
    }
}
