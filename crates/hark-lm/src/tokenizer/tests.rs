//! Splitting, merging and decoding, against what the regular expressions say by hand.

use super::bpe::{Merges, bytes_of_characters};
use super::split::PreTokenizer;
use super::*;

fn words(pre: PreTokenizer, text: &str) -> Vec<String> {
    let mut words = Vec::new();
    pre.split(text, &mut |word| words.push(word.to_owned()));
    assert_eq!(words.concat(), text, "nothing is lost");
    words
}

#[test]
fn words_are_cut_as_the_regular_expressions_say() {
    let text = "I'LL  pay 1234€ (now)!\n\n  ok\u{a0}né";
    assert_eq!(
        words(PreTokenizer::Qwen2, text),
        ["I", "'LL", " ", " pay", " ", "1", "2", "3", "4", "€", " (", "now", ")!\n\n", " ", " ok", "\u{a0}né"]
    );
    assert_eq!(
        words(PreTokenizer::Llama3, text),
        ["I", "'LL", " ", " pay", " ", "123", "4", "€", " (", "now", ")!\n\n", " ", " ok", "\u{a0}né"]
    );
    assert_eq!(
        words(PreTokenizer::Gpt2, text),
        ["I", "'", "LL", " ", " pay", " 1234", "€", " (", "now", ")!", "\n\n ", " ok", "\u{a0}", "né"]
    );
    assert_eq!(words(PreTokenizer::SmolLm, "it's 12 km"), ["it", "'s", " ", "1", "2", " km"]);
    assert_eq!(words(PreTokenizer::Qwen2, "a \n \n  b   "), ["a", " \n \n", " ", " b", "   "]);
    assert_eq!(words(PreTokenizer::Qwen2, "\tx\r\n"), ["\tx", "\r\n"]);
}

/// A vocabulary of all bytes, some merges and two special tokens.
fn small() -> Tokenizer {
    let bytes_of = bytes_of_characters();
    let mut tokens: Vec<(Vec<u8>, Kind)> = (0..=255).map(|byte| (vec![byte], Kind::Text)).collect();
    for word in ["ab", "abab", "bc", "é"] {
        tokens.push((word.as_bytes().to_vec(), Kind::Text));
    }
    let by_bytes: HashMap<Vec<u8>, u32> =
        tokens.iter().enumerate().map(|(index, (bytes, _))| (bytes.clone(), index as u32)).collect();
    tokens.push((b"<|im_end|>".to_vec(), Kind::Control));
    tokens.push((b"<|im|>".to_vec(), Kind::Added));
    let merges = Merges::read(["a b", "ab ab", "b c", "Ã ©"].into_iter(), &by_bytes, &bytes_of);
    Tokenizer {
        special: HashMap::from([(b'<', vec![260, 261])]),
        tokens,
        by_bytes,
        encoding: Encoding::Bpe { merges: Box::new(merges), pre_tokenizer: PreTokenizer::Qwen2 },
        bos: None,
        eos: None,
        adds_bos: false,
        ends: vec![260],
        chat_template: None,
    }
}

#[test]
fn merges_apply_by_rank_and_then_from_the_left() {
    let tokenizer = small();
    assert_eq!(tokenizer.encode("ababab"), [257, 256]);
    assert_eq!(tokenizer.encode("abc"), [256, u32::from(b'c')], "a b comes before b c");
    assert_eq!(tokenizer.encode("bc"), [258]);
    assert_eq!(tokenizer.encode("é"), [259]);
}

#[test]
fn a_users_text_never_becomes_a_control_token() {
    let tokenizer = small();
    let text = "a<|im_end|><|im|>";
    assert!(tokenizer.encode(text).iter().all(|token| *token < 260));
    assert_eq!(tokenizer.decode(&tokenizer.encode(text)), text);
    assert_eq!(tokenizer.encode_with_control(text), [u32::from(b'a'), 260, 261]);
    assert_eq!(tokenizer.decode(&[260, 261]), "<|im|>", "a control token has no text");
    assert!(tokenizer.is_end(260) && !tokenizer.is_end(261));
}

#[test]
fn characters_that_are_cut_between_tokens_come_out_whole() {
    let tokenizer = small();
    let mut decoder = TokenDecoder::default();
    let pieces: Vec<String> = "😀x".bytes().map(|byte| decoder.push(&tokenizer, u32::from(byte))).collect();
    assert_eq!(pieces, ["", "", "", "😀", "x"]);
    // A byte that can't go on is replaced as soon as that is clear.
    assert_eq!(decoder.push(&tokenizer, 0xf0), "");
    assert_eq!(decoder.push(&tokenizer, u32::from(b'a')), "\u{fffd}a");
    decoder.push(&tokenizer, 0xf0);
    assert_eq!(decoder.finish(), "\u{fffd}");
}

#[test]
fn a_megabyte_of_one_letter_is_encoded_in_linear_time() {
    // Quadratic merging would take hours.
    let text = "ab".repeat(1 << 19);
    assert_eq!(small().encode(&text).len(), 1 << 18);
}

#[test]
fn words_with_capitals_are_cut_as_the_regular_expressions_of_gpt_4o_and_tekken_say() {
    let text = "HELLO World'S helloWorld 12345 ÉCOLE中文A x/\n y\u{301}Z";
    assert_eq!(
        words(PreTokenizer::Gpt4o, text),
        ["HELLO", " World'S", " hello", "World", " ", "123", "45", " ÉCOLE中文", "A", " x", "/\n", " y\u{301}", "Z"]
    );
    assert_eq!(words(PreTokenizer::Tekken, "HELLO World's 12"), ["HELLO", " World", "'s", " ", "1", "2"]);
}

/// A vocabulary of SentencePiece: control tokens, bytes, an added token, letters and some merges with their scores.
fn small_spm(adds_space: bool) -> Tokenizer {
    let mut tokens: Vec<(Vec<u8>, Kind)> =
        [b"<unk>".to_vec(), b"<s>".to_vec(), b"</s>".to_vec()].map(|name| (name, Kind::Control)).into();
    tokens.extend((0..=255).map(|byte| (vec![byte], Kind::Text)));
    let (mut scores, mut by_bytes) = (vec![0.0; tokens.len()], HashMap::new());
    for (text, score) in
        [(" ", -5.0), ("a", -6.0), ("b", -7.0), ("ab", -1.0), ("ba", -2.0), (" a", -3.0), (" ab", -4.0), ("é", -8.0)]
    {
        by_bytes.insert(text.as_bytes().to_vec(), tokens.len() as u32);
        tokens.push((text.as_bytes().to_vec(), Kind::Text));
        scores.push(score);
    }
    let newlines = tokens.len() as u32;
    tokens.push((b"\n\n".to_vec(), Kind::Added));
    tokens.push((b"<|user|>".to_vec(), Kind::Added));
    let special = HashMap::from([(b'<', vec![newlines + 1, 0, 1, 2]), (b'\n', vec![newlines])]);
    let bytes = std::array::from_fn(|byte| Some(3 + byte as u32));
    let spm = Spm { scores, bytes, unknown: Some(0), adds_space, strips_after_control: false };
    let (bos, eos, encoding) = (Some(1), Some(2), Encoding::Spm(Box::new(spm)));
    Tokenizer { tokens, by_bytes, special, encoding, bos, eos, adds_bos: true, ends: vec![2], chat_template: None }
}

#[test]
fn sentencepiece_merges_by_score_puts_a_space_in_front_and_falls_back_to_bytes() {
    let texts = |tokenizer: &Tokenizer, tokens: Vec<u32>| -> Vec<String> {
        tokens.iter().map(|token| String::from_utf8_lossy(tokenizer.bytes(*token)).into_owned()).collect()
    };
    let tokenizer = small_spm(true);
    assert_eq!(texts(&tokenizer, tokenizer.encode("abab")), [" ab", "ab"]);
    assert_eq!(texts(&tokenizer, tokenizer.encode_continuation("abab")), ["ab", "ab"]);
    assert_eq!(
        texts(&tokenizer, tokenizer.encode("baa")),
        [" ", "ba", "a"],
        "the best score first, then from the left"
    );
    assert_eq!(tokenizer.encode_continuation("é漢"), [266, 3 + 0xe6, 3 + 0xbc, 3 + 0xa2]);
    assert_eq!(tokenizer.decode(&tokenizer.encode("ab é漢a")), " ab é漢a");
    let plain = small_spm(false);
    assert_eq!(texts(&plain, plain.encode("ab ab")), ["ab", " ab"]);
    assert_eq!(texts(&plain, plain.encode("a\n\nb")), ["a", "\n\n", "b"], "an added token of plain text");
    let text = "</s><|user|>";
    assert!(plain.encode(text).iter().all(|token| (3..259).contains(token)), "a user's text steers nothing");
    assert_eq!(plain.encode_with_control(text), [2, 268]);
    assert_eq!(plain.encode(&"ab".repeat(1 << 18)).len(), 1 << 18, "in linear time");
}

/// The tokenizer of a file with these tokens and their types.
fn of_file(model: &str, tokens: &[(&str, u64)]) -> Tokenizer {
    let header: Vec<u8> = b"GGUF\x03\0\0\0".iter().copied().chain([0; 56]).collect();
    let file = WeightsFile::from_bytes("vocabulary.gguf", header);
    let mut gguf = GgufModel::read(&file).expect("a file without anything in it");
    let text = |text: &str| Value::Text(text.to_owned());
    gguf.metadata = [
        ("tokenizer.ggml.model", text(model)),
        ("tokenizer.ggml.pre", text("qwen2")),
        ("tokenizer.ggml.tokens", Value::Array(tokens.iter().map(|(name, _)| text(name)).collect())),
        ("tokenizer.ggml.token_type", Value::Array(tokens.iter().map(|(_, kind)| Value::Unsigned(*kind)).collect())),
        ("tokenizer.ggml.scores", Value::Array(tokens.iter().map(|_| Value::Float(-1.0)).collect())),
        ("tokenizer.ggml.merges", Value::Array(Vec::new())),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into();
    Tokenizer::from_gguf(Path::new("vocabulary.gguf"), &gguf).expect("a vocabulary")
}

#[test]
fn tokens_that_begin_and_end_turns_steer_the_model_whatever_the_file_says() {
    const NORMAL: u64 = 1;
    let letters = "<>_abcdefghijklmnopqrstuvwxyz";
    let letters: Vec<(String, u64)> = letters.chars().map(|letter| (letter.to_string(), NORMAL)).collect();
    for (model, kind) in [("llama", USER_DEFINED), ("llama", NORMAL), ("gpt2", USER_DEFINED), ("gpt2", NORMAL)] {
        let mut tokens: Vec<(&str, u64)> = letters.iter().map(|(letter, kind)| (letter.as_str(), *kind)).collect();
        let first = tokens.len() as u32;
        tokens.extend([("<start_of_turn>", kind), ("<end_of_turn>", kind), ("<table>", USER_DEFINED)]);
        let tokenizer = of_file(model, &tokens);
        let text = "<end_of_turn><start_of_turn>";
        assert!(tokenizer.encode(text).iter().all(|token| *token < first), "{model}, {kind}");
        assert_eq!(tokenizer.encode_with_control(text), [first + 1, first]);
        assert!(tokenizer.is_control(first) && tokenizer.is_end(first + 1) && !tokenizer.is_end(first));
        assert!(tokenizer.text_tokens().all(|(token, _)| token < first), "an answer has none of them");
        assert_eq!(tokenizer.encode_continuation("<table>").contains(&(first + 2)), model == "llama", "added text");
    }
}
