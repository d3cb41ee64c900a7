//! The shapes of the large checkpoints, on every instruction set of this machine, against the plain float32 network.
//!
//! Widths, heads, mel channels and vocabularies are the true ones; the weights are generated, there are fewer layers,
//! and most windows are short: the portable kernels would take minutes for 30 s. Queries and keys are large enough
//! that every head looks at a few frames of its own choice, so that a head, a stride or a scale that is wrong moves
//! the scores by more than the limits.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use hark_compute::kernels::math::from_bf16;
use hark_whisper::backend::{
    Admission, AlignmentRequest, Answer, Backend, Entry, Reencode, TokenMap, TokenQuery, TokenRules,
};
use hark_whisper::cpu::{Compute, CpuBackend, CpuOptions, Isa, Weights};
use hark_whisper::decode::{DecodeOptions, Engine, Job, Language, Outcome};
use hark_whisper::mel::WINDOW_FRAMES;
use hark_whisper::reference::ReferenceModel;
use hark_whisper::tokenizer::Tokenizer;
use hark_whisper::weights::{Checkpoint, Dims, Vocabulary};
use hark_whisper::words::{AlignedWord, AlignmentRows, word_times};

/// Frames of a short window: a block of 32 and a rest.
const SHORT: usize = 40;

fn dims(width: usize, n_mels: usize, n_vocab: usize, (encoder, decoder): (usize, usize), frames: usize) -> Dims {
    Dims {
        n_mels,
        n_audio_ctx: frames,
        n_audio_state: width,
        n_audio_head: width / 64,
        n_audio_layer: encoder,
        n_text_ctx: 448,
        n_text_state: width,
        n_text_head: width / 64,
        n_text_layer: decoder,
        n_vocab,
    }
}

fn medium() -> Dims {
    dims(1024, 80, 51_865, (2, 2), SHORT)
}

fn large_v3() -> Dims {
    dims(1280, 128, 51_866, (2, 2), SHORT)
}

fn turbo(frames: usize) -> Dims {
    dims(1280, 128, 51_866, (1, 4), frames)
}

/// Numbers that look random, of mean 0 and variance 1. Their count is prime: rows of a matrix taken from it one after
/// the other, and over again, are all different.
fn noise(seed: u32) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        ((state >> 8) as f32 / (1 << 23) as f32 - 1.0) * 3f32.sqrt()
    };
    (0..1_000_003).map(|_| next()).collect()
}

/// `count` numbers of the noise, from a place that `name` decides.
fn noise_of(name: &str, count: usize) -> Vec<f32> {
    static NOISE: OnceLock<[Vec<f32>; 2]> = OnceLock::new();
    // Embeddings have their own, lest one of so many be a row of another matrix too and stand out.
    let noise =
        &NOISE.get_or_init(|| [noise(0x9e37_79b9), noise(0x85eb_ca6b)])[usize::from(name.contains("embedding"))];
    let start = name.bytes().fold(7usize, |hash, byte| (hash * 31 + usize::from(byte)) % noise.len());
    let mut numbers = Vec::with_capacity(count);
    numbers.extend_from_slice(&noise[start..(start + count).min(noise.len())]);
    while numbers.len() < count {
        numbers.extend_from_slice(&noise[..noise.len().min(count - numbers.len())]);
    }
    numbers
}

/// A vocabulary of the right size whose tokens are the bytes and, beyond them, made-up words.
fn vocabulary(n_vocab: usize) -> Vocabulary {
    let bytes = (0..=255u8).map(|byte| vec![byte]);
    let words = (256..50_257).map(|number| format!(" w{number}").into_bytes());
    Vocabulary::from_tokens(n_vocab, bytes.chain(words).collect()).expect("as many as the multilingual ones have")
}

/// A network of generated weights that hears the last of its languages in everything.
fn network(dims: Dims) -> Checkpoint {
    let vocabulary = vocabulary(dims.n_vocab);
    let tokenizer = Tokenizer::new(&vocabulary);
    let heard = tokenizer.no_speech as usize - 5;
    let mut checkpoint = Checkpoint::generated(dims, vocabulary, move |name, shape| {
        let mut numbers = noise_of(name, shape.iter().product());
        let inputs = shape.iter().skip(1).product::<usize>() as f32;
        let is_norm = name.contains("_ln") || name.contains(".ln");
        let (scale, shift) = match name {
            _ if is_norm && name.ends_with("weight") => (0.2, 1.0),
            "decoder.ln.bias" => (0.5, 0.0),
            _ if name.ends_with("bias") => (0.1, 0.0),
            "encoder.positional_embedding" => (0.5, 0.0),
            "decoder.token_embedding.weight" | "decoder.positional_embedding" => (2.5 / inputs.sqrt(), 0.0),
            _ if name.contains("query") || name.contains("key") => (1.6 / inputs.sqrt(), 0.0),
            _ => (1.0 / inputs.sqrt(), 0.0),
        };
        numbers.iter_mut().for_each(|number| *number = *number * scale + shift);
        if name == "decoder.token_embedding.weight" {
            // What the last norm always adds points to this token.
            let width = shape[1];
            let bias = noise_of("decoder.ln.bias", width);
            let row = &mut numbers[heard * width..(heard + 1) * width];
            row.iter_mut().zip(bias).for_each(|(number, bias)| *number += 0.03 * bias);
        }
        numbers
    });
    if dims.n_text_layer == 2 {
        // In no order: a head's scores must come at its own place.
        let last = dims.n_text_head - 1;
        checkpoint.alignment_heads = vec![(1, last), (0, 3), (1, 0), (0, last), (0, 0), (1, 9)];
    }
    checkpoint
}

type Known = HashMap<(usize, Vec<u32>), Arc<Vec<f32>>>;

/// A network in float32 and what it makes of two windows.
struct Truth {
    checkpoint: Checkpoint,
    tokenizer: Arc<Tokenizer>,
    /// As the backend takes them: 3000 frames, those beyond the network's own are zero.
    mels: [Vec<f32>; 2],
    reference: ReferenceModel,
    states: [OnceLock<Vec<f32>>; 2],
    /// The logits after each token of the sequences that were asked for, by window and tokens.
    known: Mutex<Known>,
}

impl Truth {
    fn of(dims: Dims) -> Self {
        let checkpoint = network(dims);
        let tokenizer = Arc::new(Tokenizer::new(&checkpoint.vocabulary));
        let used = 2 * dims.n_audio_ctx * dims.n_mels;
        let mels = ["one window", "another"].map(|name| {
            let mut mel = noise_of(name, used);
            mel.iter_mut().for_each(|value| *value = (*value * 0.6).clamp(-1.0, 1.5));
            mel.resize(WINDOW_FRAMES * dims.n_mels, 0.0);
            mel
        });
        let reference = ReferenceModel::load(&checkpoint).expect("all tensors are generated");
        Truth { checkpoint, tokenizer, mels, reference, states: Default::default(), known: Mutex::default() }
    }

    /// The encoder's states of a window.
    fn states(&self, window: usize) -> &[f32] {
        let dims = &self.checkpoint.dims;
        let used = 2 * dims.n_audio_ctx * dims.n_mels;
        self.states[window].get_or_init(|| self.reference.encode(&self.mels[window][..used]))
    }

    fn backend(&self, isa: Isa, weights: Weights) -> CpuBackend {
        let tokenizer = &self.tokenizer;
        let tokens = TokenMap {
            end: tokenizer.eot,
            no_speech: Some(tokenizer.no_speech),
            first_timestamp: tokenizer.timestamp_begin,
            languages: tokenizer.languages().iter().filter_map(|code| tokenizer.language_token(code)).collect(),
            ..TokenMap::default()
        };
        let compute = Compute::new(2, isa);
        let options = CpuOptions { weights, slots: 3, rows: 5, encoder_caches: 2 };
        CpuBackend::load(&self.checkpoint, tokens, &compute, options).expect("all tensors are generated")
    }

    /// Start, the last language, the task, no timestamps.
    fn prompt(&self) -> Vec<u32> {
        let tokenizer = &self.tokenizer;
        let language = tokenizer.languages().last().and_then(|code| tokenizer.language_token(code));
        vec![tokenizer.sot, language.expect("languages"), tokenizer.transcribe, tokenizer.no_timestamps]
    }

    /// The logits that follow the last of `tokens`.
    fn logits(&self, window: usize, tokens: &[u32]) -> Arc<Vec<f32>> {
        let mut known = self.known.lock().expect("no panic before");
        if !known.contains_key(&(window, tokens.to_vec())) {
            let logits = self.reference.decoder_logits(self.states(window), tokens);
            for (last, logits) in logits.chunks_exact(self.checkpoint.dims.n_vocab).enumerate() {
                known.entry((window, tokens[..=last].to_vec())).or_insert_with(|| Arc::new(logits.to_vec()));
            }
        }
        Arc::clone(&known[&(window, tokens.to_vec())])
    }

    /// Log-probabilities of text and end among themselves.
    fn log_probs(&self, window: usize, tokens: &[u32]) -> Vec<f32> {
        log_softmax(&self.logits(window, tokens)[..=self.tokenizer.eot as usize])
    }
}

fn log_softmax(logits: &[f32]) -> Vec<f32> {
    let top = logits.iter().copied().fold(f32::MIN, f32::max);
    let total = top + logits.iter().map(|logit| (logit - top).exp()).sum::<f32>().ln();
    logits.iter().map(|logit| logit - total).collect()
}

/// Root mean square.
fn rms(numbers: impl Iterator<Item = f32>) -> f32 {
    let (mut sum, mut count) = (0f64, 0);
    for number in numbers {
        sum += f64::from(number).powi(2);
        count += 1;
    }
    (sum / f64::from(count.max(1))).sqrt() as f32
}

/// How far numbers may lie from those of the plain network: about twice what was measured on the worst instruction set,
/// with bf16 and bytes: states 0.009 and 0.031, likely tokens 0.036 and 0.13, languages 0.051 and 0.17, alignment 0.024
/// and 0.060.
struct Limits {
    /// Of encoder states, relative.
    states: f32,
    /// Of the log-probabilities of a hundred likely tokens, as a root mean square.
    log_prob: f32,
    /// Of the scores of any alignment head, relative.
    alignment: f32,
}

fn limits(weights: Weights) -> Limits {
    match weights {
        Weights::Bf16 => Limits { states: 0.018, log_prob: 0.08, alignment: 0.045 },
        Weights::Int8 => Limits { states: 0.06, log_prob: 0.3, alignment: 0.12 },
    }
}

/// A backend under test.
struct Case<'a> {
    truth: &'a Truth,
    backend: CpuBackend,
    name: String,
    weights: Weights,
}

const LIKELY: usize = 100;

fn query() -> Option<TokenQuery> {
    let rules = TokenRules { text: true, end: true, at_start: false, timestamps: None };
    Some(TokenQuery { rules, top_k: LIKELY, sampling: None, no_speech: false, languages: false })
}

/// A sequence on one row, of which the last token asks.
fn sequence(slot: usize, row: usize, tokens: &[u32]) -> Vec<Entry> {
    let last = tokens.len() - 1;
    let entry = |(position, &token): (usize, &u32)| {
        let query = query().filter(|_| position == last);
        Entry { slot, row, parent: row, position, token, query }
    };
    tokens.iter().enumerate().map(entry).collect()
}

impl<'a> Case<'a> {
    fn new(truth: &'a Truth, weights: Weights) -> Self {
        let backend = truth.backend(Isa::best(), weights);
        let mut case = Case { truth, backend, name: String::new(), weights };
        case.use_kernels(Isa::best());
        case
    }

    fn use_kernels(&mut self, isa: Isa) {
        let dims = &self.truth.checkpoint.dims;
        let (width, frames) = (dims.n_text_state, dims.n_audio_ctx);
        self.name = format!("{width} wide, {frames} frames, {}, {}", isa.name(), self.weights.name());
        self.backend.use_kernels(isa);
    }

    fn compare(&self, answer: &Answer, window: usize, tokens: &[u32], limit: f32) {
        let expected = self.truth.log_probs(window, tokens);
        assert_eq!(answer.best.len(), LIKELY, "{}", self.name);
        let off = rms(answer.best.iter().map(|&(token, log_prob)| log_prob - expected[token as usize]));
        assert!(off < limit, "{}: after {tokens:?} scores are off by {off}", self.name);
        let best = (0..expected.len()).max_by(|a, b| expected[*a].total_cmp(&expected[*b])).expect("tokens");
        let found = answer.best.iter().any(|&(token, _)| token as usize == best);
        assert!(found, "{}: after {tokens:?} the likeliest token {best} is not among {LIKELY}", self.name);
    }

    fn states_are_the_plain_networks(&mut self) {
        let states = self.backend.encoder_states(&self.truth.mels[0]);
        let expected = self.truth.states(0);
        assert_eq!(states.len(), expected.len());
        let error = rms(states.iter().zip(expected).map(|(got, expected)| from_bf16(*got) - expected));
        let relative = error / rms(expected.iter().copied());
        assert!(relative < limits(self.weights).states, "{}: states are off by {relative}", self.name);
    }

    fn a_prompt_and_steps_score_as_the_plain_network(&mut self) {
        self.backend.encode(&[Admission::once(1, &self.truth.mels[0])]).expect("it encodes");
        let mut tokens = self.truth.prompt();
        let answers = self.backend.step(&sequence(1, 0, &tokens)).expect("it steps");
        self.compare(&answers[0], 0, &tokens, limits(self.weights).log_prob);
        for token in [1000, 50_256, 17] {
            tokens.push(token);
            let position = tokens.len() - 1;
            let answers = self
                .backend
                .step(&[Entry { slot: 1, row: 0, parent: 0, position, token, query: query() }])
                .expect("it steps");
            self.compare(&answers[0], 0, &tokens, limits(self.weights).log_prob);
        }
    }

    fn rows_that_join_follow_and_leave_keep_their_own_past(&mut self) {
        let (truth, prompt) = (self.truth, self.truth.prompt());
        let told: Vec<u32> = [&[truth.tokenizer.sot_prev, 300, 40_000], &prompt[..]].concat();
        // The windows to encode before a step, the prompts of slots that join, and (slot, row, parent, token).
        type Moment = (Vec<(usize, usize)>, Vec<(usize, Vec<u32>)>, Vec<(usize, usize, usize, u32)>);
        let moments: [Moment; 5] = [
            (vec![(0, 0)], vec![(0, prompt.clone())], vec![]),
            (vec![(2, 1)], vec![(2, told)], vec![(0, 0, 0, 11), (0, 1, 0, 222), (0, 2, 0, 3333)]),
            // Row 0 follows row 2, row 2 follows row 1, row 1 goes on; another slot branches.
            (vec![], vec![], vec![(0, 0, 2, 44), (0, 1, 1, 555), (0, 2, 1, 6), (2, 0, 0, 7), (2, 1, 0, 8)]),
            // A row leaves each; two swap their pasts.
            (vec![(1, 0)], vec![(1, prompt.clone())], vec![(0, 0, 1, 900), (0, 1, 0, 901), (2, 1, 1, 902)]),
            // A window leaves its slot to another one.
            (vec![(0, 1)], vec![(0, prompt)], vec![(1, 0, 0, 50), (1, 2, 0, 51), (2, 0, 1, 52)]),
        ];
        let mut window_of = [0; 3];
        let mut pasts: HashMap<(usize, usize), Vec<u32>> = HashMap::new();
        for (windows, prompts, grown) in moments {
            for (slot, window) in windows {
                window_of[slot] = window;
                self.backend.encode(&[Admission::once(slot, &truth.mels[window])]).expect("it encodes");
            }
            let before = pasts.clone();
            let mut entries: Vec<Entry> = Vec::new();
            let mut asked: Vec<(usize, Vec<u32>)> = Vec::new();
            for slot in 0..3 {
                for (_, tokens) in prompts.iter().filter(|(joining, _)| *joining == slot) {
                    entries.extend(sequence(slot, 0, tokens));
                    pasts.insert((slot, 0), tokens.clone());
                    asked.push((window_of[slot], tokens.clone()));
                }
                for &(_, row, parent, token) in grown.iter().filter(|(of, ..)| *of == slot) {
                    let mut tokens = before[&(slot, parent)].clone();
                    entries.push(Entry { slot, row, parent, position: tokens.len(), token, query: query() });
                    tokens.push(token);
                    pasts.insert((slot, row), tokens.clone());
                    asked.push((window_of[slot], tokens));
                }
            }
            let answers = self.backend.step(&entries).expect("it steps");
            assert_eq!(answers.len(), asked.len());
            for (answer, (window, tokens)) in answers.iter().zip(asked) {
                self.compare(answer, window, &tokens, limits(self.weights).log_prob);
            }
        }
    }

    fn a_language_is_heard_and_a_text_aligned_as_by_the_plain_network(&mut self, window: usize) {
        self.backend.encode(&[Admission::once(2, &self.truth.mels[window])]).expect("it encodes");
        self.the_last_language_is_heard(2, window);
        self.alignment_is_the_plain_networks(2, window);
    }

    fn the_last_language_is_heard(&mut self, slot: usize, window: usize) {
        let (truth, tokenizer) = (self.truth, &self.truth.tokenizer);
        let question =
            TokenQuery { rules: TokenRules::default(), top_k: 0, sampling: None, no_speech: true, languages: true };
        let entry = Entry { slot, row: 0, parent: 0, position: 0, token: tokenizer.sot, query: Some(question) };
        let answer = self.backend.step(&[entry]).expect("it steps").remove(0);
        let logits = truth.logits(window, &[tokenizer.sot]);
        let first = tokenizer.sot as usize + 1;
        let expected = log_softmax(&logits[first..first + tokenizer.languages().len()]);
        assert_eq!(answer.languages.len(), expected.len());
        let off = rms(answer.languages.iter().zip(&expected).map(|(got, expected)| got.ln() - expected));
        assert!(off < limits(self.weights).log_prob, "{}: probabilities of languages are off by {off}", self.name);
        let likeliest = (0..expected.len()).max_by(|a, b| answer.languages[*a].total_cmp(&answer.languages[*b]));
        assert_eq!(likeliest, Some(expected.len() - 1), "{}", self.name);
        let no_speech = log_softmax(&logits)[tokenizer.no_speech as usize];
        let off = (answer.no_speech.ln() - no_speech).abs();
        assert!(off < 4.0 * limits(self.weights).log_prob, "{}: no speech is off by {off}", self.name);
    }

    fn alignment_is_the_plain_networks(&mut self, slot: usize, window: usize) {
        let truth = self.truth;
        let heads = &truth.checkpoint.alignment_heads;
        let mut tokens = truth.prompt();
        tokens.extend([256, 257, 20_000, 50_256, 5, 31_234]);
        let expected = truth.reference.cross_attention_scores(truth.states(window), &tokens, heads);
        let all = truth.checkpoint.dims.n_audio_ctx;
        let (first, frames) = (3, all - 11);
        let request = AlignmentRequest { slot, tokens: &tokens, first, frames };
        let got = self.backend.align(&[request]).expect("it aligns").remove(0);
        assert_eq!((got.heads, got.rows, got.frames), (heads.len(), tokens.len() - first, frames));
        for (head, (got, expected)) in got.scores.chunks_exact(got.rows * frames).zip(&expected).enumerate() {
            let rows = got.chunks_exact(frames).zip(expected.chunks_exact(all).skip(first));
            let both: Vec<(f32, f32)> =
                rows.flat_map(|(got, expected)| got.iter().copied().zip(expected.iter().copied())).collect();
            let off = rms(both.iter().map(|(got, expected)| got - expected)) / rms(both.iter().map(|(_, x)| *x));
            assert!(
                off < limits(self.weights).alignment,
                "{}: scores of head {:?} are off by {off}",
                self.name,
                heads[head]
            );
        }
    }

    /// What a slot's window makes of the prompt.
    fn heard(&mut self, slot: usize) -> Answer {
        self.backend.step(&sequence(slot, 0, &self.truth.prompt())).expect("it steps").remove(0)
    }

    fn what_is_encoded_again_is_the_same(&mut self) {
        let (truth, frames) = (self.truth, self.truth.checkpoint.dims.n_audio_ctx);
        let request = |key: u64, changed: Option<std::ops::Range<usize>>| Reencode { key, changed };
        self.backend.encode(&[Admission::once(0, &truth.mels[0])]).expect("it encodes");
        let whole = self.heard(0);
        self.backend
            .encode(&[Admission { slot: 1, mel: &truth.mels[0], reencode: Some(&request(7, None)) }])
            .expect("it encodes");
        assert_eq!(self.heard(1), whole, "{}: a window that is remembered is the same", self.name);
        self.backend.release(1).expect("it is released");
        for part in [0..20, 32..frames, frames - 3..frames] {
            self.backend
                .encode(&[Admission { slot: 1, mel: &truth.mels[0], reencode: Some(&request(7, Some(part.clone()))) }])
                .expect("it encodes");
            assert_eq!(self.heard(1), whole, "{}: rows {part:?} again", self.name);
            self.backend.release(1).expect("it is released");
        }
        assert_eq!(self.heard(0), whole, "{}: the slot beside it is not disturbed", self.name);
        self.compare(&whole, 0, &truth.prompt(), limits(self.weights).log_prob);
    }

    fn other_sound_that_is_encoded_again_is_heard(&mut self) {
        let (truth, frames, prompt) = (self.truth, self.truth.checkpoint.dims.n_audio_ctx, self.truth.prompt());
        self.backend
            .encode(&[Admission { slot: 1, mel: &truth.mels[0], reencode: Some(&Reencode { key: 8, changed: None }) }])
            .expect("it encodes");
        self.backend.release(1).expect("it is released");
        self.backend
            .encode(&[Admission {
                slot: 1,
                mel: &truth.mels[1],
                reencode: Some(&Reencode { key: 8, changed: Some(0..frames) }),
            }])
            .expect("it encodes");
        let other = self.heard(1);
        self.backend.release(1).expect("it is released");
        // The decoder keeps the other sound's keys and values in units of the first sound's.
        self.compare(&other, 1, &prompt, 0.4);
    }
}

/// Everything on the best instruction set of this machine, and what kernels can do wrong on all that `sets` names.
fn check(case: &mut Case, sets: &[Isa]) {
    case.a_prompt_and_steps_score_as_the_plain_network();
    case.what_is_encoded_again_is_the_same();
    case.other_sound_that_is_encoded_again_is_heard();
    for &isa in sets.iter().filter(|isa| isa.is_available()) {
        case.use_kernels(isa);
        case.states_are_the_plain_networks();
        case.rows_that_join_follow_and_leave_keep_their_own_past();
        case.a_language_is_heard_and_a_text_aligned_as_by_the_plain_network(1);
    }
    case.use_kernels(Isa::best());
}

/// Decodes both windows at once with a beam of five, their language to be found out, and checks what the beam says of
/// its tokens and words. `specials`: transcribe, start of previous, no speech, no timestamps, first timestamp.
fn check_beam(case: Case, language: &str, specials: [u32; 5]) {
    let (truth, tokenizer) = (case.truth, &case.truth.tokenizer);
    let named = [tokenizer.transcribe, tokenizer.sot_prev, tokenizer.no_speech, tokenizer.no_timestamps];
    assert_eq!([&named[..], &[tokenizer.timestamp_begin]].concat(), specials, "as the checkpoint numbers them");
    let options = Arc::new(DecodeOptions {
        language: Language::Detect { sure_from: 0.1 },
        temperatures: vec![0.0],
        words: true,
        max_tokens: 12,
        ..DecodeOptions::default()
    });
    let mut engine = Engine::new(case.backend, Arc::clone(tokenizer));
    for (window, mel) in truth.mels.iter().enumerate() {
        let options = Arc::clone(&options);
        let mel = mel.as_slice().into();
        let job = Job { id: window as u64, mel, frames: SHORT, options, lane: 0, reencode: None };
        engine.admit(vec![job]).expect("it is admitted");
    }
    let done: Vec<(u64, Outcome)> = (0..20).flat_map(|_| engine.step(0).expect("it steps")).collect();
    assert_eq!(done.len(), 2);
    for (window, outcome) in done {
        let Outcome::Decoded(decoded) = outcome.timed(tokenizer) else { panic!("the language was sure enough") };
        assert_eq!(decoded.language, language);
        assert!(decoded.tokens.len() >= 8, "{:?}", decoded.tokens);
        let (states, prompt) = (truth.states(window as usize), truth.prompt());
        let tokens = [&prompt[..], &decoded.tokens[..]].concat();
        let logits = truth.reference.decoder_logits(states, &tokens);
        let after = logits.chunks_exact(tokenizer.n_vocab()).skip(prompt.len() - 1);
        let expected: Vec<f32> = after
            .zip(&decoded.tokens)
            .map(|(logits, &token)| log_softmax(&logits[..=tokenizer.eot as usize])[token as usize])
            .collect();
        let off = rms(decoded.log_probs.iter().zip(&expected).map(|(got, expected)| got - expected));
        assert!(off < limits(case.weights).log_prob, "the beam's tokens are off by {off}");

        let scores = truth.reference.cross_attention_scores(states, &tokens, &truth.checkpoint.alignment_heads);
        let heads = scores.iter().map(|scores| &scores[..]).collect();
        let rows = AlignmentRows { heads, stride: SHORT, leading: 3 };
        let probabilities: Vec<f32> = expected.iter().map(|log_prob| log_prob.exp()).collect();
        let words = word_times(tokenizer, language, &decoded.tokens, &probabilities, &rows, SHORT);
        // Such attention wanders: the times of words follow from scores that are compared elsewhere.
        let parts =
            |words: &[AlignedWord]| -> Vec<_> { words.iter().map(|w| (w.text.clone(), w.tokens.clone())).collect() };
        assert_eq!(parts(&words), parts(&decoded.words));
        let times: Vec<f64> = decoded.words.iter().flat_map(|word| [word.start, word.end]).collect();
        assert!(times.is_sorted() && times[times.len() - 1] <= SHORT as f64 * 0.02 + 1e-9, "{times:?}");
    }
}

/// All checks, with every way to keep weights.
fn check_shape(dims: Dims, sets: &[Isa], language: &str, specials: [u32; 5]) {
    let truth = Truth::of(dims);
    for weights in Weights::ALL {
        let mut case = Case::new(&truth, weights);
        check(&mut case, sets);
        check_beam(case, language, specials);
    }
}

#[test]
fn the_shape_of_medium_is_computed_as_by_the_plain_network() {
    check_shape(medium(), &Isa::ALL, "su", [50_359, 50_361, 50_362, 50_363, 50_364]);
}

#[test]
fn the_shape_of_large_v3_is_computed_as_by_the_plain_network() {
    check_shape(large_v3(), &Isa::ALL, "yue", [50_360, 50_362, 50_363, 50_364, 50_365]);
}

#[test]
fn the_shape_of_turbo_is_computed_as_by_the_plain_network() {
    // Its layers are as wide as those of large-v3, which every set computes above.
    check_shape(turbo(SHORT), &[Isa::best()], "yue", [50_360, 50_362, 50_363, 50_364, 50_365]);
}

#[test]
fn a_whole_window_of_turbo_is_computed_as_by_the_plain_network() {
    let truth = Truth::of(turbo(1500));
    for weights in Weights::ALL {
        let mut case = Case::new(&truth, weights);
        case.states_are_the_plain_networks();
        case.what_is_encoded_again_is_the_same();
        case.a_language_is_heard_and_a_text_aligned_as_by_the_plain_network(0);
    }
}
