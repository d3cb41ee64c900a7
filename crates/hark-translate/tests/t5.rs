//! A small T5 network with random weights against its definition, on every instruction set, in every format of weights; a tokenizer with tags of languages; and
//! folders that are no models.

mod t5_network;

use std::sync::Arc;

use hark_compute::{Compute, Isa};
use hark_translate::t5::{Search, T5};
use hark_translate::{MultilingualModel, SentenceModel as _, TranslateError};
use t5_network::{Network, Reference, WORDS};

const END: u32 = 2;
const UNKNOWN: u32 = 0;
const GREEDY: Search<'static> = Search { beams: 1, end: END, never: &[UNKNOWN] };

fn sentences() -> Vec<Vec<u32>> {
    let mut state = 7u32;
    let mut next = |below: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) % below
    };
    [0, 1, 2, 5, 9, 33].map(|length| (0..length).map(|_| 3 + next(WORDS as u32 - 3)).chain([END]).collect()).to_vec()
}

/// The words of a translation and its end, if it has one, each with the logits before it.
fn steps(reference: &Reference<'_>, source: &[u32], written: &[u32]) -> Vec<(Vec<f64>, u32)> {
    let ends = (written.len() < limit(source)).then_some(END);
    reference.logits(source, written).into_iter().zip(written.iter().copied().chain(ends)).collect()
}

fn limit(source: &[u32]) -> usize {
    3 * source.len() + 16
}

fn logprob(logits: &[f64], word: u32) -> f64 {
    let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    logits[word as usize] - largest - logits.iter().map(|logit| (logit - largest).exp()).sum::<f64>().ln()
}

/// Asserts that every word is the likeliest by the definition, or as likely but for rounding.
fn check(network: &Network, model: &T5, what: &str) {
    let reference = Reference(network);
    let sentences = sentences();
    let sources: Vec<&[u32]> = sentences.iter().map(|sentence| &sentence[..]).collect();
    let together = model.translate(&sources, GREEDY, &|| false).unwrap();
    let (mut words, mut exact) = (0, 0);
    for (source, written) in sources.iter().zip(&together) {
        assert!(written.len() <= limit(source) && !written.contains(&END) && !written.contains(&UNKNOWN));
        for (logits, word) in steps(&reference, source, written) {
            let best = logits.iter().enumerate().filter(|(word, _)| *word != UNKNOWN as usize);
            let best = best.max_by(|a, b| a.1.total_cmp(b.1)).unwrap();
            words += 1;
            exact += usize::from(best.0 == word as usize);
            let short = best.1 - logits[word as usize];
            assert!(short < 0.25, "{what}: word {word} is {short} below {}", best.0);
        }
    }
    assert!(words > 60 && exact * 100 >= words * 95, "{what}: {exact} of {words}");
}

fn load(compute: &Compute, write: impl FnOnce(&std::path::Path)) -> Result<T5, TranslateError> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    write(folder.path());
    T5::load(compute, folder.path())
}

#[test]
fn every_word_is_the_likeliest_or_as_likely_but_for_rounding() {
    for is_tied in [false, true] {
        let network = Network::random(3, is_tied);
        for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
            let model = load(&Compute::new(2, isa), |folder| network.write(folder)).unwrap();
            assert_eq!(model.words(), WORDS);
            check(&network, &model, &format!("{}, tied {is_tied}", isa.name()));
        }
    }
}

#[test]
fn shards_and_quantized_gguf_files_are_the_same_network() {
    let compute = Compute::new(2, Isa::best());
    let mut network = Network::random(5, false);
    check(&network, &load(&compute, |folder| network.write_sharded(folder)).unwrap(), "shards");
    let model = load(&compute, |folder| network.write_gguf(folder)).unwrap();
    check(&network, &model, "gguf");
}

#[test]
fn a_sentence_is_translated_alone_as_in_a_batch() {
    let network = Network::random(3, false);
    let model = load(&Compute::new(1, Isa::best()), |folder| network.write(folder)).unwrap();
    let reference = Reference(&network);
    for sentence in sentences() {
        let alone = model.translate(&[&sentence], GREEDY, &|| false).unwrap().remove(0);
        for (logits, word) in steps(&reference, &sentence, &alone) {
            let best = logits.iter().skip(1).copied().fold(f64::NEG_INFINITY, f64::max);
            assert!(best - logits[word as usize] < 0.25, "word {word} of {sentence:?}");
        }
    }
}

#[test]
fn beams_find_likelier_translations_than_greedy_search() {
    let network = Network::random(11, false);
    let reference = Reference(&network);
    let model = load(&Compute::new(2, Isa::best()), |folder| network.write(folder)).unwrap();
    let sentences = sentences();
    let sources: Vec<&[u32]> = sentences.iter().map(|sentence| &sentence[..]).collect();
    let greedy = model.translate(&sources, GREEDY, &|| false).unwrap();
    let beams = model.translate(&sources, Search { beams: 4, ..GREEDY }, &|| false).unwrap();
    let score = |source: &[u32], written: &[u32]| {
        let steps = steps(&reference, source, written);
        steps.iter().map(|(logits, word)| logprob(logits, *word)).sum::<f64>() / steps.len() as f64
    };
    let gain = |at: usize| score(sources[at], &beams[at]) - score(sources[at], &greedy[at]);
    let gains: Vec<f64> = (0..sources.len()).map(gain).collect();
    assert!(gains.iter().sum::<f64>() > 0.0, "{gains:?}");
    assert!(gains.iter().any(|gain| *gain > 0.01), "{gains:?}");
}

#[test]
fn a_cancelled_translation_ends_and_values_that_are_not_finite_are_an_error() {
    let mut network = Network::random(3, false);
    let model = load(&Compute::new(1, Isa::best()), |folder| network.write(folder)).unwrap();
    let cancelled = model.translate(&[&[5, END]], GREEDY, &|| true);
    assert!(matches!(cancelled, Err(TranslateError::Cancelled)));
    network.tensors.get_mut("lm_head.weight").unwrap().1.fill(f32::NAN);
    let model = load(&Compute::new(1, Isa::best()), |folder| network.write(folder)).unwrap();
    assert!(matches!(model.translate(&[&[5, END]], GREEDY, &|| false), Err(TranslateError::NotFinite)));
}

#[test]
fn folders_of_other_shapes_or_architectures_are_refused() {
    let compute = Compute::new(1, Isa::best());
    let problem = |network: &Network| load(&compute, |folder| network.write(folder)).err().expect("it is refused");
    for (key, value) in [
        ("model_type", serde_json::json!("bart")),
        ("feed_forward_proj", serde_json::json!("relu")),
        ("d_model", serde_json::json!(96)),
        ("d_model", serde_json::json!(0)),
        ("d_kv", serde_json::json!(31)),
        ("num_layers", serde_json::json!(3)),
        ("num_heads", serde_json::json!(99_999_999_999u64)),
        ("relative_attention_num_buckets", serde_json::json!(0)),
        ("vocab_size", serde_json::json!(151)),
        ("decoder_start_token_id", serde_json::json!(150)),
        ("layer_norm_epsilon", serde_json::json!("none")),
    ] {
        let mut network = Network::random(9, false);
        network.config[key] = value;
        assert!(!problem(&network).to_string().is_empty(), "{key}");
    }
    for name in Network::random(9, false).tensors.into_keys() {
        let mut network = Network::random(9, false);
        network.tensors.remove(&name);
        assert!(problem(&network).to_string().contains("weight"), "{name}");
        let mut network = Network::random(9, false);
        let (shape, values) = network.tensors.get_mut(&name).unwrap();
        shape[0] -= 1;
        let rest: usize = shape.iter().product();
        values.truncate(rest);
        assert!(problem(&network).to_string().contains(&name), "{name}");
    }
    assert!(load(&compute, |_| {}).is_err());
}

fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2, bytes.len() as u8];
    out.extend(bytes);
    out
}

/// A tokenizer with tags of languages, some letters and other pieces, as many as the network has words.
fn tokenizer() -> Vec<u8> {
    let mut pieces = vec![("<unk>".to_owned(), 2u8), ("<s>".to_owned(), 3), ("</s>".to_owned(), 3)];
    let tags =
        ["<2pt>", "<2sr_Latn>", "<2zxx_xx_noise>", "<2translate>", "<2haw>", "<2Hant>", "<2CA>", "<2fr_CA>", "<2>"];
    pieces.extend(tags.map(|tag| (tag.to_owned(), 4)));
    pieces.extend(('a'..='z').map(|letter| (letter.to_string(), 1)));
    pieces.extend(('a'..='z').map(|letter| (format!("▁{letter}"), 1)));
    pieces.push(("▁".to_owned(), 1));
    pieces.extend((pieces.len()..WORDS).map(|number| (format!("▁word{number}"), 1)));
    let piece = |(text, kind): (String, u8)| {
        let mut message = field(1, text.as_bytes());
        message.push(2 << 3 | 5);
        message.extend((-3.0f32 - text.len() as f32).to_le_bytes());
        message.extend([3 << 3, kind]);
        field(1, &message)
    };
    pieces.into_iter().flat_map(piece).collect()
}

#[test]
fn target_languages_are_the_tags_of_the_tokenizer_and_lead_the_text() {
    let folder = tempfile::tempdir().unwrap();
    Network::random(3, false).write(folder.path());
    let compute = Compute::new(1, Isa::best());
    let missing = MultilingualModel::load(&compute, folder.path()).err().unwrap().to_string();
    assert!(missing.contains("spiece.model"), "{missing}");
    std::fs::write(folder.path().join("spiece.model"), tokenizer()).unwrap();
    assert_eq!(MultilingualModel::languages_in(folder.path()).unwrap(), ["fr_CA", "haw", "pt", "sr_Latn"]);
    let model = Arc::new(MultilingualModel::load(&compute, folder.path()).unwrap());
    assert!(model.into_language("de").is_none());
    let [portuguese, hawaiian] = ["pt", "haw"].map(|language| model.into_language(language).unwrap());
    let sentences = ["how are you", "a b c d e f g", "fine"];
    let translate = |into: &hark_translate::IntoLanguage| into.translate_sentences(&sentences, &|| false).unwrap();
    let translated = translate(&portuguese);
    assert_eq!(translated.len(), 3);
    assert_ne!(translated, translate(&hawaiian), "the target language changes what is written");
    let alone: Vec<String> = sentences
        .iter()
        .map(|sentence| portuguese.translate_sentences(&[sentence], &|| false).unwrap().remove(0))
        .collect();
    assert_eq!(translated, alone, "batches keep their order");
}
