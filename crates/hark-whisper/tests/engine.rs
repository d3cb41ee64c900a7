//! The CPU backend, on every instruction set of this machine, against the plain float32 network.

mod weights_installed;

use std::f64::consts::PI;
use std::sync::{Arc, OnceLock};

use hark_compute::kernels::math::from_bf16;
use hark_whisper::backend::{
    Admission, AlignmentRequest, Answer, Backend, BackendError, Entry, Reencode, TokenMap, TokenQuery, TokenRules,
};
use hark_whisper::cpu::{Compute, CpuBackend, CpuOptions, Isa, Weights};
use hark_whisper::decode::{DecodeOptions, Decoded, Engine, Job, Language, Outcome};
use hark_whisper::mel::{LogMel, WINDOW_FRAMES};
use hark_whisper::reference::ReferenceModel;
use hark_whisper::testing::{Faults, FaultyBackend};
use hark_whisper::tokenizer::Tokenizer;
use hark_whisper::weights::Checkpoint;

/// What all tests share: the network in float32 and what it makes of one window.
struct Truth {
    checkpoint: Checkpoint,
    tokenizer: Tokenizer,
    mel: Vec<f32>,
    reference: ReferenceModel,
    states: Vec<f32>,
}

fn truth() -> &'static Truth {
    static TRUTH: OnceLock<Truth> = OnceLock::new();
    TRUTH.get_or_init(|| {
        let checkpoint = Checkpoint::open(&weights_installed::folder("whisper-tiny")).expect("it opens");
        let tokenizer = Tokenizer::new(&checkpoint.vocabulary);
        let sound: Vec<f32> = (0..240_000)
            .map(|index| {
                let t = f64::from(index) / 16_000.0;
                let voice = (2.0 * PI * (140.0 + 60.0 * (2.0 * PI * 0.9 * t).sin()) * t).sin();
                let syllables = (0.5 + 0.5 * (2.0 * PI * 4.0 * t).sin()).powi(2);
                (0.4 * voice * syllables + 0.05 * (2.0 * PI * 2_300.0 * t).sin()) as f32
            })
            .collect();
        let mut mel = vec![0.0; WINDOW_FRAMES * checkpoint.dims.n_mels];
        LogMel::new(checkpoint.dims.n_mels).window(&sound, &mut mel);
        let reference = ReferenceModel::load(&checkpoint).expect("all tensors are there");
        let states = reference.encode(&mel);
        Truth { checkpoint, tokenizer, mel, reference, states }
    })
}

fn backend(isa: Isa, weights: Weights, rows: usize) -> CpuBackend {
    let truth = truth();
    let tokens = TokenMap {
        end: truth.tokenizer.eot,
        no_speech: Some(truth.tokenizer.no_speech),
        first_timestamp: truth.tokenizer.timestamp_begin,
        ..TokenMap::default()
    };
    let compute = Compute::new(2, isa);
    let options = CpuOptions { weights, slots: 2, rows, encoder_caches: 2 };
    CpuBackend::load(&truth.checkpoint, tokens, &compute, options).expect("all tensors are there")
}

/// Every instruction set of this machine with every way to keep weights.
fn setups() -> impl Iterator<Item = (Isa, Weights)> {
    let available = Isa::ALL.into_iter().filter(|isa| isa.is_available());
    available.flat_map(|isa| [(isa, Weights::Bf16), (isa, Weights::Int8)])
}

/// How far numbers may lie from those of the plain network.
///
/// Bytes err about seven times as much as bf16: a number's error is up to 1/254 of its row's largest number, which is
/// 5 to 20 times the usual one. Measured on the worst instruction set, bf16 and bytes: states 0.012 and 0.082,
/// log-probabilities 0.023 and 0.19, alignment 0.13 and 0.76.
struct Limits {
    /// Of all encoder states together, relative.
    states: f64,
    /// Of a log-probability.
    log_prob: f32,
    /// Of an alignment score.
    alignment: f32,
}

fn limits(weights: Weights) -> Limits {
    match weights {
        Weights::Bf16 => Limits { states: 0.03, log_prob: 0.12, alignment: 0.25 },
        Weights::Int8 => Limits { states: 0.13, log_prob: 0.35, alignment: 1.2 },
    }
}

fn query(top_k: usize) -> Option<TokenQuery> {
    let rules = TokenRules { text: true, end: true, at_start: false, timestamps: None };
    Some(TokenQuery { rules, top_k, sampling: None, no_speech: false, languages: false })
}

fn prompt(tokenizer: &Tokenizer) -> Vec<u32> {
    let english = tokenizer.language_token("en").expect("English is known");
    vec![tokenizer.sot, english, tokenizer.transcribe, tokenizer.no_timestamps]
}

/// Log-probabilities of text and end after the last of `tokens`, by the plain network.
fn expected_log_probs(tokens: &[u32]) -> Vec<f32> {
    let truth = truth();
    let logits = truth.reference.decoder_logits(&truth.states, tokens);
    let last = &logits[(tokens.len() - 1) * truth.checkpoint.dims.n_vocab..][..=truth.tokenizer.eot as usize];
    let top = last.iter().copied().fold(f32::MIN, f32::max);
    let total = top + last.iter().map(|logit| (logit - top).exp()).sum::<f32>().ln();
    last.iter().map(|logit| logit - total).collect()
}

#[test]
#[ignore = "needs models"]
fn encoder_states_are_those_of_the_plain_network() {
    let truth = truth();
    for (isa, weights) in setups() {
        let states = backend(isa, weights, 1).encoder_states(&truth.mel);
        let (mut error, mut power) = (0f64, 0f64);
        for (got, expected) in states.iter().zip(&truth.states) {
            error += f64::from(from_bf16(*got) - expected).powi(2);
            power += f64::from(*expected).powi(2);
        }
        let relative = (error / power).sqrt();
        assert!(relative < limits(weights).states, "{}, {weights:?}: relative error {relative}", isa.name());
    }
}

#[test]
#[ignore = "needs models"]
fn scores_are_those_of_the_plain_network() {
    let truth = truth();
    let mut tokens = prompt(&truth.tokenizer);
    tokens.extend(truth.tokenizer.encode(" The quick brown fox jumps over"));
    let expected = expected_log_probs(&tokens);
    for (isa, weights) in setups() {
        let mut backend = backend(isa, weights, 1);
        backend.encode(&[Admission::once(1, &truth.mel)]).expect("it encodes");
        let last = tokens.len() - 1;
        let entries: Vec<Entry> = tokens
            .iter()
            .enumerate()
            .map(|(position, &token)| Entry {
                slot: 1,
                row: 0,
                parent: 0,
                position,
                token,
                query: query(5).filter(|_| position == last),
            })
            .collect();
        let answers = backend.step(&entries).expect("it steps");
        assert_eq!(answers.len(), 1);
        let best = answers[0].best[0].0 as usize;
        let top = expected.iter().copied().fold(f32::MIN, f32::max);
        assert!(
            expected[best] > top - limits(weights).log_prob,
            "{}: its best token is not the plain network's",
            isa.name()
        );
        for &(token, log_prob) in &answers[0].best {
            let plain = expected[token as usize];
            let message = format!("{}, {weights:?}: token {token}: {log_prob}, not {plain}", isa.name());
            assert!((log_prob - plain).abs() < limits(weights).log_prob, "{message}");
        }
    }
}

#[test]
#[ignore = "needs models"]
fn hypotheses_that_follow_one_another_keep_their_own_past() {
    let truth = truth();
    let start = prompt(&truth.tokenizer);
    let words = truth.tokenizer.encode(" one two three four five six");
    let mut backend = backend(Isa::best(), Weights::Bf16, 3);
    backend.encode(&[Admission::once(0, &truth.mel)]).expect("it encodes");
    let entry = |row: usize, parent: usize, position: usize, token: u32| Entry {
        slot: 0,
        row,
        parent,
        position,
        token,
        query: query(3),
    };
    let fed: Vec<Entry> = start.iter().enumerate().map(|(position, &token)| entry(0, 0, position, token)).collect();
    backend.step(&fed).expect("it steps");
    // Row 0 branches into three; then row 0 follows row 2, row 2 follows row 1, and row 1 goes on by itself.
    let at = start.len();
    let branches = [entry(0, 0, at, words[0]), entry(1, 0, at, words[1]), entry(2, 0, at, words[2])];
    backend.step(&branches).expect("it steps");
    let followers = [entry(0, 2, at + 1, words[3]), entry(1, 1, at + 1, words[4]), entry(2, 1, at + 1, words[5])];
    let answers = backend.step(&followers).expect("it steps");
    let pasts = [[words[2], words[3]], [words[1], words[4]], [words[1], words[5]]];
    for (answer, past) in answers.iter().zip(pasts) {
        let expected = expected_log_probs(&[&start[..], &past[..]].concat());
        for &(token, log_prob) in &answer.best {
            let plain = expected[token as usize];
            assert!((log_prob - plain).abs() < 0.12, "after {past:?}: token {token}: {log_prob}, not {plain}");
        }
    }
}

#[test]
#[ignore = "needs models"]
fn alignment_scores_are_those_of_the_plain_network() {
    let truth = truth();
    let mut tokens = prompt(&truth.tokenizer);
    tokens.extend(truth.tokenizer.encode(" a short sentence"));
    let heads = &truth.checkpoint.alignment_heads;
    let expected = truth.reference.cross_attention_scores(&truth.states, &tokens, heads);
    for (isa, weights) in setups() {
        let mut backend = backend(isa, weights, 1);
        backend.encode(&[Admission::once(0, &truth.mel)]).expect("it encodes");
        let (first, frames) = (3, 750);
        let request = AlignmentRequest { slot: 0, tokens: &tokens, first, frames };
        let got = backend.align(&[request]).expect("it aligns").remove(0);
        assert_eq!((got.heads, got.rows, got.frames), (heads.len(), tokens.len() - first, frames));
        let mut worst = 0f32;
        for head in 0..got.heads {
            for row in 0..got.rows {
                for frame in 0..frames {
                    let score = got.scores[(head * got.rows + row) * frames + frame];
                    let plain = expected[head][(row + first) * 1500 + frame];
                    worst = worst.max((score - plain).abs());
                }
            }
        }
        assert!(worst < limits(weights).alignment, "{}, {weights:?}: a score is off by {worst}", isa.name());
    }
}

#[test]
#[ignore = "needs models"]
fn windows_side_by_side_do_not_disturb_each_other() {
    let truth = truth();
    let start = prompt(&truth.tokenizer);
    let mut backend = backend(Isa::best(), Weights::Int8, 1);
    let silence = vec![-1.0; truth.mel.len()];
    let feed = |slot: usize| -> Vec<Entry> {
        let last = start.len() - 1;
        let entry = |(position, &token): (usize, &u32)| Entry {
            slot,
            row: 0,
            parent: 0,
            position,
            token,
            query: query(4).filter(|_| position == last),
        };
        start.iter().enumerate().map(entry).collect()
    };
    let both = [Admission::once(0, &truth.mel), Admission::once(1, &silence)];
    backend.encode(&both).expect("it encodes");
    let alone = backend.step(&feed(0)).expect("it steps");
    let together = backend.step(&[feed(0), feed(1)].concat()).expect("it steps");
    assert_eq!(alone[0].best, together[0].best);
    assert_ne!(together[0].best, together[1].best);
}

/// What a slot's window makes of the prompt: the best five tokens.
fn heard(backend: &mut CpuBackend, slot: usize) -> Vec<(u32, f32)> {
    let tokens = prompt(&truth().tokenizer);
    let last = tokens.len() - 1;
    let entry = |(position, &token): (usize, &u32)| {
        let query = query(5).filter(|_| position == last);
        Entry { slot, row: 0, parent: 0, position, token, query }
    };
    let entries: Vec<Entry> = tokens.iter().enumerate().map(entry).collect();
    backend.step(&entries).expect("it steps").remove(0).best
}

/// Encodes a window that may be looked at again.
fn encode_cached_window(backend: &mut CpuBackend, slot: usize, mel: &[f32], reencode: &Reencode) {
    backend.encode(&[Admission { slot, mel, reencode: Some(reencode) }]).expect("it encodes");
}

fn nearly(one: &[(u32, f32)], other: &[(u32, f32)], within: f32) -> bool {
    one.iter().all(|(token, log_prob)| {
        other.iter().any(|(found, value)| found == token && (value - log_prob).abs() <= within)
    })
}

#[test]
#[ignore = "needs models"]
fn encoding_a_part_again_changes_what_changed_and_nothing_else() {
    let truth = truth();
    let request = |key: u64, changed: Option<std::ops::Range<usize>>| Reencode { key, changed };
    let mut other = truth.mel.clone();
    other[1400 * 80..].fill(truth.mel[2990 * 80]);
    let isa = Isa::best();
    for weights in [Weights::Bf16, Weights::Int8] {
        let mut backend = backend(isa, weights, 1);
        backend.encode(&[Admission::once(0, &truth.mel)]).expect("it encodes");
        let whole = heard(&mut backend, 0);
        backend.encode(&[Admission::once(0, &other)]).expect("it encodes");
        let whole_of_other = heard(&mut backend, 0);
        assert!(!nearly(&whole, &whole_of_other, 0.02), "the two windows differ for the decoder");

        encode_cached_window(&mut backend, 1, &truth.mel, &request(7, None));
        assert_eq!(heard(&mut backend, 1), whole, "{}: a window that is remembered is the same", isa.name());
        backend.release(1).expect("it is released");
        // Rows see the others' keys and values as they were: the same sound gives the same numbers.
        for part in [0..40, 300..431, 1400..1500] {
            encode_cached_window(&mut backend, 1, &truth.mel, &request(7, Some(part.clone())));
            assert_eq!(heard(&mut backend, 1), whole, "{}: rows {part:?} again", isa.name());
            backend.release(1).expect("it is released");
        }
        // Another window has a memory of its own.
        encode_cached_window(&mut backend, 0, &other, &request(8, None));
        assert_eq!(heard(&mut backend, 0), whole_of_other);
        encode_cached_window(&mut backend, 1, &truth.mel, &request(7, Some(64..96)));
        assert_eq!(heard(&mut backend, 1), whole);
        backend.release(1).expect("it is released");
        // All rows again of other sound: only the units of the decoder's bytes are still the first sound's.
        encode_cached_window(&mut backend, 1, &other, &request(7, Some(0..1500)));
        let (got, limit) = (heard(&mut backend, 1), limits(weights).log_prob);
        assert!(nearly(&got[..3], &whole_of_other, limit), "{}: {got:?} for {whole_of_other:?}", isa.name());
    }
}

#[test]
#[ignore = "needs models"]
fn a_window_that_is_being_decoded_is_never_written_over() {
    let truth = truth();
    let silence = vec![truth.mel[2990 * 80]; truth.mel.len()];
    let mut backend = backend(Isa::best(), Weights::Int8, 1);
    let request = |key: u64| Reencode { key, changed: None };
    encode_cached_window(&mut backend, 0, &truth.mel, &request(1));
    let before = heard(&mut backend, 0);
    // The same window in another slot, and more windows than there are memories, many times.
    for key in [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14] {
        encode_cached_window(&mut backend, 1, &silence, &request(key));
        assert_ne!(heard(&mut backend, 1), before);
        backend.release(1).expect("it is released");
        assert_eq!(heard(&mut backend, 0), before, "window {key} disturbs the first");
    }
}

/// An engine whose steps are recorded.
struct Looks {
    engine: Engine<FaultyBackend<CpuBackend>>,
    steps: Arc<Faults>,
}

impl Looks {
    fn new() -> Self {
        let steps = Arc::new(Faults::default());
        let backend = FaultyBackend::new(backend(Isa::best(), Weights::Bf16, 5), &steps);
        Looks { engine: Engine::new(backend, Arc::new(Tokenizer::new(&truth().checkpoint.vocabulary))), steps }
    }

    /// Looks at the window `key`, with a text before it and its own beginning given; returns what was heard, and how many
    /// entries the first step had.
    fn look(&mut self, key: u64, whole: bool, before: &str, beginning: &str) -> (Decoded, usize) {
        let encode = |text: &str| truth().tokenizer.encode(text);
        let options = DecodeOptions {
            language: Language::Known("en".to_owned()),
            prompt: encode(before),
            prefix: encode(beginning),
            temperatures: vec![0.0],
            max_tokens: 24,
            // What a network makes of this sound is nothing to go by: it counts in any case.
            no_speech_threshold: 1.0,
            ..DecodeOptions::default()
        };
        let reencode = Reencode { key, changed: if whole { None } else { Some(0..64) } };
        let mel = truth().mel.as_slice().into();
        let job = Job { id: key, mel, frames: 750, options: Arc::new(options), lane: 0, reencode: Some(reencode) };
        self.steps.take_entries();
        self.engine.admit(vec![job]).expect("it is admitted");
        let outcome = loop {
            if let Some((_, outcome)) = self.engine.step(0).expect("it steps").pop() {
                break outcome;
            }
        };
        let Outcome::Decoded(decoded) = outcome.timed(&truth().tokenizer) else { panic!("the language is given") };
        (*decoded, self.steps.take_entries()[0])
    }
}

#[test]
#[ignore = "needs models"]
fn a_second_look_puts_only_the_new_part_of_its_prompt_through() {
    const BEFORE: &str = " What was said before";
    const BEGINNING: &str = " The people of this town and of all the other towns on the river";
    const MORE: &str = " The people of this town and of all the other towns on the river have always";
    /// Tokens that every look puts through.
    const AGAIN: usize = 12;
    let tokens = |text: &str| truth().tokenizer.encode(text).len();
    let whole = |before: &str, beginning: &str| {
        (if before.is_empty() { 0 } else { 1 + tokens(before) }) + 4 + tokens(beginning)
    };
    // Looks that nothing is remembered for.
    let fresh = |before: &str, beginning: &str| {
        let (decoded, entries) = Looks::new().look(1, true, before, beginning);
        assert_eq!(entries, whole(before, beginning));
        decoded
    };
    let same = |one: &Decoded, other: &Decoded, when: &str| {
        assert_eq!(one.tokens, other.tokens, "{when}");
        assert!((one.no_speech - other.no_speech).abs() < 0.01, "{when}: {} {}", one.no_speech, other.no_speech);
        for (one, other) in one.log_probs.iter().zip(&other.log_probs) {
            assert!((one - other).abs() < 0.05, "{when}: {one} {other}");
        }
    };
    let (beginning, more) = (fresh(BEFORE, BEGINNING), fresh(BEFORE, MORE));

    let mut looks = Looks::new();
    let (heard, _) = looks.look(1, true, BEFORE, BEGINNING);
    same(&heard, &beginning, "the first look");
    let (heard, entries) = looks.look(1, false, BEFORE, BEGINNING);
    same(&heard, &beginning, "the same again");
    assert_eq!(entries, AGAIN, "the last tokens, whose sound may have changed");
    let (heard, entries) = looks.look(1, false, BEFORE, MORE);
    same(&heard, &more, "more is given");
    assert_eq!(entries, AGAIN, "more is given, but not that much");
    let (heard, entries) = looks.look(1, false, BEFORE, BEGINNING);
    same(&heard, &beginning, "less is given");
    assert_eq!(entries, AGAIN);

    // Another window has a slot of its own; a third one takes that of the window that was looked at longest ago.
    same(&looks.look(2, true, "", MORE).0, &fresh("", MORE), "another window");
    assert_eq!(looks.look(1, false, BEFORE, BEGINNING).1, AGAIN, "both are remembered");
    same(&looks.look(3, true, "", BEGINNING).0, &fresh("", BEGINNING), "a third window");
    assert_eq!(looks.look(1, false, BEFORE, BEGINNING).1, AGAIN, "the first is still remembered");
    let (heard, entries) = looks.look(2, false, "", MORE);
    same(&heard, &fresh("", MORE), "a window that was forgotten");
    assert_eq!(entries, whole("", MORE));

    // Other sound, or another text before it, has other keys and values.
    assert_eq!(looks.look(1, true, BEFORE, BEGINNING).1, whole(BEFORE, BEGINNING), "a window that is new as a whole");
    let (heard, entries) = looks.look(1, false, "", BEGINNING);
    same(&heard, &fresh("", BEGINNING), "without the text before");
    assert_eq!(entries, whole("", BEGINNING));
}

#[test]
#[ignore = "needs models"]
fn what_a_device_was_never_told_of_is_a_fault_and_no_panic() {
    let truth = truth();
    let mut backend = backend(Isa::best(), Weights::Int8, 2);
    let entry = Entry { slot: 0, row: 0, parent: 0, position: 0, token: truth.tokenizer.sot, query: query(1) };
    let is_fault = |outcome: Result<Vec<Answer>, BackendError>| matches!(outcome, Err(BackendError::Fault(_)));
    assert!(is_fault(backend.step(&[entry])), "nothing is encoded");
    backend.encode(&[Admission::once(0, &truth.mel)]).expect("it encodes");
    for odd in [
        Entry { slot: 2, ..entry },
        Entry { row: 2, ..entry },
        Entry { parent: 2, ..entry },
        Entry { position: 448, ..entry },
        Entry { token: 60_000, ..entry },
    ] {
        assert!(is_fault(backend.step(&[odd])), "{odd:?}");
    }
    assert!(is_fault(backend.step(&[entry, entry])), "two tokens at one place");
    assert!(backend.encode(&[Admission::once(0, &truth.mel[1..])]).is_err());
    assert!(backend.encode(&[Admission::once(7, &truth.mel)]).is_err());
    let request = AlignmentRequest { slot: 1, tokens: &[1, 2], first: 0, frames: 10 };
    assert!(backend.align(&[request]).is_err(), "nothing is encoded there");
    assert!(backend.step(&[entry]).is_ok(), "and what can be done is done");
}

#[test]
#[ignore = "needs models"]
fn sound_that_is_no_number_is_a_fault_and_no_empty_text() {
    let truth = truth();
    for (isa, weights) in setups() {
        let mut backend = backend(isa, weights, 1);
        for odd in [f32::NAN, f32::INFINITY] {
            let mut mel = truth.mel.clone();
            mel[80_000] = odd;
            let error = backend.encode(&[Admission::once(0, &mel)]).expect_err("the states are not finite");
            assert!(matches!(error, BackendError::Fault(_)), "{}, {weights:?}: {error}", isa.name());
        }
        backend.encode(&[Admission::once(0, &truth.mel)]).expect("the next window is encoded");
    }
}

#[test]
#[ignore = "needs models"]
fn memory_that_was_given_back_changes_nothing() {
    let truth = truth();
    for weights in [Weights::Bf16, Weights::Int8] {
        let mut backend = backend(Isa::best(), weights, 1);
        backend.encode(&[Admission::once(1, &truth.mel)]).expect("it encodes");
        let before = heard(&mut backend, 1);
        backend.release(1).expect("it is released");
        backend.trim().expect("memory is given back");
        assert!(backend.step(&[]).is_ok());
        encode_cached_window(&mut backend, 1, &truth.mel, &Reencode { key: 3, changed: Some(0..64) });
        assert_eq!(heard(&mut backend, 1), before);
    }
}
