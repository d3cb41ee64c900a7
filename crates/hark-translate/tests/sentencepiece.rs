//! The tokenizer: a small vocabulary made here, hostile files, and a real vocabulary against SentencePiece's own tokens.

mod installed;

use hark_translate::SentencePiece;
use hark_weights::{FileError, WeightsFile};

const NORMAL: u8 = 1;
const UNKNOWN: u8 = 2;
const CONTROL: u8 = 3;
const USER_DEFINED: u8 = 4;
const UNUSED: u8 = 5;
const BYTE: u8 = 6;

fn bytes_field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    let mut length = bytes.len();
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend(bytes);
    out
}

fn piece(text: &str, score: f32, kind: u8) -> Vec<u8> {
    let mut message = bytes_field(1, text.as_bytes());
    message.push(2 << 3 | 5);
    message.extend(score.to_le_bytes());
    message.extend([3 << 3, kind]);
    bytes_field(1, &message)
}

fn small() -> Vec<u8> {
    let pieces = [
        ("</s>", 0.0, CONTROL),
        ("<unk>", 0.0, UNKNOWN),
        ("▁", -3.0, NORMAL),
        ("▁a", -2.0, NORMAL),
        ("b", -3.0, NORMAL),
        ("▁ab", -4.5, NORMAL),
        ("ab", -4.0, NORMAL),
        ("a", -3.5, NORMAL),
        ("<x>", 0.0, USER_DEFINED),
        ("bb", -1.0, UNUSED),
    ];
    pieces.iter().flat_map(|(text, score, kind)| piece(text, *score, *kind)).collect()
}

fn read(bytes: Vec<u8>) -> Result<SentencePiece, FileError> {
    SentencePiece::from_file(&WeightsFile::from_bytes("vocab.spm", bytes))
}

#[test]
fn text_is_cut_along_the_best_path() {
    let tokenizer = read(small()).unwrap();
    assert_eq!((tokenizer.len(), tokenizer.end(), tokenizer.unknown()), (10, 0, 1));
    for (text, tokens) in [
        ("ab", &[5][..]),
        ("a b", &[3, 2, 4]),
        (" a  b ", &[3, 2, 4]),
        // The piece for two b is not used; characters without a piece are one unknown token for a run of them.
        ("abb", &[5, 4]),
        ("aéèb", &[3, 1, 4]),
        ("a<x>b", &[3, 8, 4]),
        ("", &[]),
        ("  ", &[]),
    ] {
        assert_eq!(tokenizer.encode(text), tokens, "{text}");
    }
}

#[test]
fn tokens_become_text_again() {
    let tokenizer = read(small()).unwrap();
    assert_eq!(tokenizer.decode(&[3, 2, 4, 0]), "a b");
    assert_eq!(tokenizer.decode(&[5, 1, 8, 99_999]), "ab<x>");
    assert_eq!(tokenizer.decode(&[]), "");
}

#[test]
fn characters_without_a_piece_become_bytes_where_the_model_has_them() {
    let mut bytes = small();
    (0..=255u8).for_each(|byte| bytes.extend(piece(&format!("<0x{byte:02X}>"), 0.0, BYTE)));
    // Field 35 of the trainer's spec.
    let trainer = bytes_field(2, &[0x98, 0x02, 1]);
    let tokenizer = read([bytes.clone(), trainer.clone()].concat()).unwrap();
    let tokens = tokenizer.encode("aéb");
    assert_eq!(tokens, [3, 10 + 0xc3, 10 + 0xa9, 4]);
    assert_eq!(tokenizer.decode(&tokens), "aéb");
    assert_eq!(tokenizer.decode(&[10 + 0xc3]), "\u{fffd}", "half a character is no reason to panic");
    assert!(read([small(), trainer].concat()).is_err(), "bytes are announced, but not there");
}

#[test]
fn files_that_are_no_unigram_models_are_refused() {
    let whole = small();
    let bpe = bytes_field(2, &[3 << 3, 2]);
    let broken_charsmap = bytes_field(3, &bytes_field(2, &[9, 0, 0, 0, 1]));
    for (what, bytes) in [
        ("nothing", Vec::new()),
        ("no end", piece("<unk>", 0.0, UNKNOWN)),
        ("no unknown token", piece("</s>", 0.0, CONTROL)),
        ("BPE", [whole.clone(), bpe].concat()),
        ("a broken table", [whole.clone(), broken_charsmap].concat()),
        ("an empty piece", [whole.clone(), piece("", 0.0, NORMAL)].concat()),
        ("a piece of no known type", [whole.clone(), piece("z", 0.0, 9)].concat()),
        ("a score that is no number", [whole.clone(), piece("z", f32::NAN, NORMAL)].concat()),
        ("a byte piece that is none", [whole.clone(), piece("z", 0.0, BYTE)].concat()),
        ("an endless piece", [whole.clone(), piece(&"z".repeat(600), 0.0, NORMAL)].concat()),
    ] {
        assert!(read(bytes).is_err(), "{what}");
    }
    for at in 0..whole.len() {
        for value in [0, 1, 0x7f, 0x80, 0xff] {
            let mut changed = whole.clone();
            changed[at] = value;
            if let Ok(tokenizer) = read(changed) {
                tokenizer.decode(&tokenizer.encode("ab <x> é"));
            }
        }
    }
}

/// What SentencePiece itself (PyPI sentencepiece 0.2.3) makes of sentences with the vocabulary of firefox-en-pt: tokens, then the sentence.
const REFERENCE: &str = include_str!("data/tokens.tsv");

#[test]
#[ignore = "needs models"]
fn tokens_are_those_of_sentencepiece() {
    let tokenizer = SentencePiece::load(&installed::model("firefox-en-pt").join("vocab.enpt.spm")).unwrap();
    let mut count = 0;
    for line in REFERENCE.lines() {
        let (tokens, sentence) = line.split_once('\t').unwrap();
        let tokens: Vec<u32> = tokens.split_whitespace().map(|token| token.parse().unwrap()).collect();
        assert_eq!(tokenizer.encode(sentence), tokens, "{sentence}");
        count += 1;
    }
    assert!(count >= 200, "{count} sentences");
}
