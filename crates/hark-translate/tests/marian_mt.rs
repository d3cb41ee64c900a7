//! A small MarianMT network with random weights against its definition, on every instruction set, in every format of weights; its vocabulary; and folders that are no
//! models.

mod marian_mt_network;

use std::path::Path;

use hark_compute::{Compute, Isa};
use hark_translate::marian_mt::{MarianMt, Search, Vocabulary};
use hark_translate::{SentenceModel as _, TranslateError, TranslationModel};
use marian_mt_network::{END, Network, PAD, Reference, WIDTH, WORDS};
use serde_json::json;

const NEVER: [u32; 2] = [1, PAD];
const GREEDY: Search<'static> = Search { beams: 1, end: END, never: &NEVER };

fn sentences() -> Vec<Vec<u32>> {
    let mut state = 7u32;
    let mut next = |below: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) % below
    };
    // From the end alone to several pages of keys.
    [0, 1, 2, 5, 9, 17, 31, 32, 33, 70]
        .map(|length| (0..length).map(|_| 2 + next(PAD - 2)).chain([END]).collect())
        .to_vec()
}

fn limit(source: &[u32]) -> usize {
    3 * source.len() + 16
}

/// The words of a translation and its end, if it has one, each with the logits before it.
fn steps(reference: &Reference<'_>, source: &[u32], written: &[u32]) -> Vec<(Vec<f64>, u32)> {
    let ends = (written.len() < limit(source)).then_some(END);
    reference.logits(source, written).into_iter().zip(written.iter().copied().chain(ends)).collect()
}

fn logprob(logits: &[f64], word: u32) -> f64 {
    let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    logits[word as usize] - largest - logits.iter().map(|logit| (logit - largest).exp()).sum::<f64>().ln()
}

/// Asserts that every word is the likeliest by the definition, or as likely but for rounding.
fn check(network: &Network, model: &MarianMt, what: &str) {
    let reference = Reference(network);
    let sentences = sentences();
    let sources: Vec<&[u32]> = sentences.iter().map(|sentence| &sentence[..]).collect();
    let together = model.translate(&sources, GREEDY, &|| false).unwrap();
    let (mut words, mut exact) = (0, 0);
    for (source, written) in sources.iter().zip(&together) {
        assert!(written.len() <= limit(source) && written.iter().all(|word| *word != END && !NEVER.contains(word)));
        for (logits, word) in steps(&reference, source, written) {
            let best = logits.iter().enumerate().filter(|(word, _)| !NEVER.contains(&(*word as u32)));
            let best = best.max_by(|a, b| a.1.total_cmp(b.1)).unwrap();
            words += 1;
            exact += usize::from(best.0 == word as usize);
            let short = best.1 - logits[word as usize];
            assert!(short < 0.2, "{what}: word {word} is {short} below {}", best.0);
        }
    }
    assert!(words > 300 && exact * 100 >= words * 96, "{what}: {exact} of {words}");
}

fn load(compute: &Compute, write: impl FnOnce(&Path)) -> Result<MarianMt, TranslateError> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    write(folder.path());
    MarianMt::load(compute, folder.path())
}

#[test]
fn every_word_is_the_likeliest_or_as_likely_but_for_rounding() {
    let network = Network::random(3);
    for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
        let model = load(&Compute::new(2, isa), |folder| network.write(folder)).unwrap();
        assert_eq!((model.words(), model.end(), model.never(), model.beams()), (WORDS, END, &[PAD][..], 1));
        check(&network, &model, isa.name());
    }
}

#[test]
fn shards_other_activations_scales_and_tables_of_positions_are_computed_as_defined() {
    let compute = Compute::new(2, Isa::best());
    let network = Network::random(5);
    check(&network, &load(&compute, |folder| network.write_sharded(folder)).unwrap(), "shards");
    let mut network = Network::random(7);
    network.config["activation_function"] = json!("relu");
    network.config["scale_embedding"] = json!(false);
    let (_, table) = network.tensors.get_mut("model.shared.weight").unwrap();
    table.iter_mut().for_each(|value| *value *= 4.0);
    check(&network, &load(&compute, |folder| network.write(folder)).unwrap(), "relu, unscaled");
    let positions: Vec<f32> = (0..512 * WIDTH).map(|i| ((i * 7919 % 1000) as f32 / 500.0) - 1.0).collect();
    network.tensors.insert("model.encoder.embed_positions.weight".into(), (vec![512, WIDTH], positions));
    check(&network, &load(&compute, |folder| network.write(folder)).unwrap(), "positions of the file");
}

#[test]
fn a_sentence_is_translated_alone_as_in_a_batch() {
    let network = Network::random(3);
    let model = load(&Compute::new(1, Isa::best()), |folder| network.write(folder)).unwrap();
    let reference = Reference(&network);
    for sentence in sentences() {
        let alone = model.translate(&[&sentence], GREEDY, &|| false).unwrap().remove(0);
        for (logits, word) in steps(&reference, &sentence, &alone) {
            let likely = (0..).zip(&logits).filter(|(word, _)| !NEVER.contains(word)).map(|(_, logit)| *logit);
            let best = likely.fold(f64::NEG_INFINITY, f64::max);
            assert!(best - logits[word as usize] < 0.2, "word {word} of {sentence:?}");
        }
    }
    assert_eq!(model.translate(&[], GREEDY, &|| false).unwrap(), Vec::<Vec<u32>>::new());
}

#[test]
fn beams_find_likelier_translations_than_greedy_search() {
    let network = Network::random(11);
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
    let mut network = Network::random(3);
    let compute = Compute::new(1, Isa::best());
    let model = load(&compute, |folder| network.write(folder)).unwrap();
    let cancelled = model.translate(&[&[5, END]], GREEDY, &|| true);
    assert!(matches!(cancelled, Err(TranslateError::Cancelled)));
    let fc2 = "model.decoder.layers.1.fc2.weight";
    network.tensors.get_mut(fc2).unwrap().1.fill(1e38);
    let model = load(&compute, |folder| network.write(folder)).unwrap();
    assert!(matches!(model.translate(&[&[5, END]], GREEDY, &|| false), Err(TranslateError::NotFinite)));
    network.tensors.get_mut(fc2).unwrap().1[7] = f32::NAN;
    let refused = load(&compute, |folder| network.write(folder));
    assert!(refused.is_err_and(|error| error.to_string().contains("not finite")));
}

#[test]
fn folders_of_other_shapes_or_architectures_are_refused() {
    let compute = Compute::new(1, Isa::best());
    let problem = |network: &Network| {
        load(&compute, |folder| network.write(folder)).err().map(|error| error.to_string()).unwrap_or_default()
    };
    for (key, value, expected) in [
        ("model_type", json!("bart"), "only marian"),
        ("activation_function", json!("gelu"), "gelu"),
        ("d_model", json!(96), "multiples of 32"),
        ("d_model", json!(128), "shape"),
        ("d_model", json!(0), "impossible"),
        ("encoder_attention_heads", json!(4), "different shapes"),
        ("decoder_ffn_dim", json!(64), "different shapes"),
        ("decoder_vocab_size", json!(149), "different shapes"),
        ("encoder_layers", json!(4), "model.encoder.layers.3"),
        ("decoder_layers", json!(99_999_999_999u64), "impossible"),
        ("vocab_size", json!(151), "shape"),
        ("decoder_start_token_id", json!(150), "impossible"),
        ("max_position_embeddings", json!(0), "impossible"),
        ("normalize_before", json!(true), "normalize_before is false"),
        ("add_final_layer_norm", json!(true), "add_final_layer_norm is false"),
        ("share_encoder_decoder_embeddings", json!(false), "share_encoder_decoder_embeddings is true"),
        ("bad_words_ids", json!([[3, 4]]), "sequences"),
        ("eos_token_id", json!("none"), "config.json"),
    ] {
        let mut network = Network::random(9);
        network.config[key] = value;
        assert!(problem(&network).contains(expected), "{key}: {}", problem(&network));
    }
    for name in Network::random(9).tensors.into_keys() {
        let mut network = Network::random(9);
        network.tensors.remove(&name);
        // Logits have a bias in most networks, not in all.
        let is_optional = name == "final_logits_bias";
        assert!(is_optional == problem(&network).is_empty(), "{name}: {}", problem(&network));
        let mut network = Network::random(9);
        let (shape, values) = network.tensors.get_mut(&name).unwrap();
        *shape.last_mut().unwrap() -= 1;
        let rest: usize = shape.iter().product();
        values.truncate(rest);
        assert!(problem(&network).contains(&name), "{name}: {}", problem(&network));
    }
    assert!(load(&compute, |_| {}).is_err());
    let without_weights = load(&compute, |folder| {
        Network::random(9).write(folder);
        std::fs::remove_file(folder.join("model.safetensors")).unwrap();
    });
    assert!(without_weights.is_err_and(|error| error.to_string().contains("pytorch_model.bin")));
}

fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2, bytes.len() as u8];
    out.extend(bytes);
    out
}

/// The pieces of the source: letters at the beginning of a word and inside, numbered otherwise than the network does.
fn source_pieces() -> Vec<(String, u8)> {
    let mut pieces = vec![("<unk>".to_owned(), 2u8), ("<s>".to_owned(), 3), ("</s>".to_owned(), 3)];
    pieces.extend(('a'..='z').flat_map(|letter| [(format!("▁{letter}"), 1), (letter.to_string(), 1)]));
    pieces.extend(["▁", "'", "é"].map(|piece| (piece.to_owned(), 1)));
    pieces
}

fn tokenizer() -> Vec<u8> {
    let piece = |(text, kind): (String, u8)| {
        let mut message = field(1, text.as_bytes());
        message.push(2 << 3 | 5);
        message.extend((-3.0f32 - text.len() as f32).to_le_bytes());
        message.extend([3 << 3, kind]);
        field(1, &message)
    };
    source_pieces().into_iter().flat_map(piece).collect()
}

/// The numbers of the network: special pieces, those of the source but `é`, and some of the target.
fn vocabulary() -> serde_json::Map<String, serde_json::Value> {
    let mut pieces = vec!["</s>".to_owned(), "<unk>".to_owned()];
    pieces.extend(source_pieces().into_iter().skip(3).map(|(piece, _)| piece).filter(|piece| piece != "é"));
    pieces.extend((pieces.len()..WORDS - 1).map(|number| format!("▁word{number}")));
    pieces.push("<pad>".to_owned());
    pieces.into_iter().enumerate().map(|(number, piece)| (piece, json!(number))).collect()
}

fn write_model(folder: &Path, network: &Network) {
    network.write(folder);
    std::fs::write(folder.join("source.spm"), tokenizer()).unwrap();
    std::fs::write(folder.join("vocab.json"), serde_json::Value::Object(vocabulary()).to_string()).unwrap();
}

#[test]
fn pieces_have_the_numbers_of_the_vocabulary() {
    let folder = tempfile::tempdir().unwrap();
    write_model(folder.path(), &Network::random(3));
    let vocabulary = Vocabulary::load(folder.path()).unwrap();
    assert_eq!((vocabulary.len(), vocabulary.end(), vocabulary.unknown()), (WORDS, END, 1));
    // "▁a" is 2, "a" 3, "▁b" 4, "b" 5 and so on; "▁" stands behind all of them.
    assert_eq!(vocabulary.encode("ab b"), [2, 5, 4]);
    assert_eq!(vocabulary.encode("aéb"), [2, 1, 5], "a piece of the source that the network has no number for");
    assert_eq!(vocabulary.encode("a日本b"), [2, 1, 5]);
    assert_eq!(vocabulary.encode("a’b"), vocabulary.encode("a'b"), "a typographic mark is taken for the plain one");
    assert!(!vocabulary.encode("a’b").contains(&1) && vocabulary.encode("a–b").contains(&1), "if that has a token");
    assert!(vocabulary.knows('’') && !vocabulary.knows('–'));
    assert!(vocabulary.knows('a') && !vocabulary.knows('é') && !vocabulary.knows('日'));
    assert_eq!(vocabulary.decode(&[2, 5, 4, 60, END, 1, PAD, 9999]), "ab b word60");
}

#[test]
fn damaged_and_unsupported_vocabularies_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let problem = |change: &dyn Fn(&mut serde_json::Map<String, serde_json::Value>)| {
        write_model(folder.path(), &Network::random(3));
        let mut pieces = vocabulary();
        change(&mut pieces);
        std::fs::write(folder.path().join("vocab.json"), serde_json::Value::Object(pieces).to_string()).unwrap();
        let loaded = TranslationModel::load(&Compute::new(1, Isa::best()), folder.path());
        loaded.err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert_eq!(problem(&|_| {}), "");
    assert!(problem(&|pieces| drop(pieces.remove("<unk>"))).contains("<unk>"));
    assert!(problem(&|pieces| drop(pieces.insert("▁z".into(), json!(5)))).contains("two pieces"));
    assert!(problem(&|pieces| drop(pieces.insert("▁z".into(), json!(u32::MAX)))).contains("the number"));
    assert!(problem(&|pieces| drop(pieces.insert("more".into(), json!(WORDS)))).contains("more words"));
    assert!(problem(&|pieces| drop(pieces.insert(">>fra<<".into(), json!(WORDS)))).contains(">>fra<<"));
    assert!(problem(&|pieces| drop(pieces.insert("▁z".into(), json!("none")))).contains("vocab.json"));
    let swapped = problem(&|pieces| {
        pieces.insert("</s>".into(), json!(1));
        pieces.insert("<unk>".into(), json!(0));
    });
    assert!(swapped.contains("end sentences"), "{swapped}");
    std::fs::remove_file(folder.path().join("source.spm")).unwrap();
    let missing = TranslationModel::load(&Compute::new(1, Isa::best()), folder.path());
    assert!(missing.is_err_and(|error| error.to_string().contains("source.spm")));
}

#[test]
fn a_folder_translates_texts_in_their_order_by_the_beams_of_its_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let mut network = Network::random(3);
    network.config["num_beams"] = json!(4);
    write_model(folder.path(), &network);
    let compute = Compute::new(1, Isa::best());
    let network = MarianMt::load(&compute, folder.path()).unwrap();
    assert_eq!(network.beams(), 4);
    std::fs::write(folder.path().join("generation_config.json"), r#"{"num_beams": 2}"#).unwrap();
    assert_eq!(MarianMt::load(&compute, folder.path()).unwrap().beams(), 2);
    let model = TranslationModel::load(&compute, folder.path()).unwrap();
    let TranslationModel::MarianMt(_) = &model else { panic!("the folder has a MarianMT model") };
    let sentences = ["how are you", "a b c d e f g", "fine"];
    let translated = model.translate_sentences(&sentences, &|| false).unwrap();
    assert!(translated.iter().all(|text| !text.is_empty()), "{translated:?}");
    let vocabulary = Vocabulary::load(folder.path()).unwrap();
    for (sentence, text) in sentences.iter().zip(&translated) {
        let source: Vec<u32> = vocabulary.encode(sentence).into_iter().chain([END]).collect();
        let search = Search { beams: 2, end: END, never: &NEVER };
        let alone = network.translate(&[&source], search, &|| false).unwrap().remove(0);
        assert_eq!(*text, vocabulary.decode(&alone), "{sentence}");
    }
}
