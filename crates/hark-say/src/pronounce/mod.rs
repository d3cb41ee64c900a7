//! From spoken words to phonemes of Kokoro's alphabet.

mod dictionary;
mod english;
mod espeak;
mod ipa;
mod japanese;
mod letters;
mod lexicon;

pub(crate) use dictionary::Dictionary;
pub(crate) use english::English;
pub(crate) use espeak::Espeak;
pub use lexicon::Lexicon;

use crate::{SayError, alphabet};

pub(crate) use japanese::pronounce as pronounce_japanese;

/// Longest chunk that espeak-ng reads as one clause without cutting it by itself.
const CHUNK_CHARACTERS: usize = 300;

/// Sentences of a language that espeak-ng reads. Punctuation is kept, since the network makes pauses and intonation of it.
pub(crate) fn pronounce_by_espeak(
    espeak: &Espeak,
    voice: &str,
    lexicon: &Lexicon,
    sentences: &[&str],
    is_cancelled: &dyn Fn() -> bool,
) -> Result<Vec<String>, SayError> {
    by_espeak(espeak, voice, lexicon, sentences, &ipa::general, is_cancelled)
}

/// English sentences where its dictionary is not installed.
pub(crate) fn pronounce_english_by_espeak(
    espeak: &Espeak,
    voice: &str,
    british: bool,
    lexicon: &Lexicon,
    sentences: &[&str],
    is_cancelled: &dyn Fn() -> bool,
) -> Result<Vec<String>, SayError> {
    by_espeak(espeak, voice, lexicon, sentences, &|answer| ipa::english(answer, british), is_cancelled)
}

fn by_espeak(
    espeak: &Espeak,
    voice: &str,
    lexicon: &Lexicon,
    sentences: &[&str],
    to_alphabet: &dyn Fn(&str) -> String,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<Vec<String>, SayError> {
    // Each sentence as a template of signs, and of numbers that point into the chunks.
    let mut chunks: Vec<String> = Vec::new();
    let mut templates: Vec<Vec<Part>> = Vec::new();
    for sentence in sentences {
        let mut template = Vec::new();
        let mut chunk = String::new();
        for word in sentence.split_inclusive(|c: char| c.is_whitespace() || is_sign(c)) {
            let bare = word.trim_end_matches(|c: char| c.is_whitespace() || is_sign(c));
            let sign = word[bare.len()..].chars().next();
            if let Some(phonemes) = lexicon.get(bare) {
                flush(&mut chunk, &mut chunks, &mut template);
                template.push(Part::Phonemes(format!(" {phonemes} ")));
            } else {
                chunk.push_str(bare);
            }
            match sign {
                Some(sign) if is_sign(sign) => {
                    flush(&mut chunk, &mut chunks, &mut template);
                    template.push(Part::Phonemes(sign_of(sign).to_owned()));
                }
                _ => chunk.push(' '),
            }
            if chunk.chars().count() > CHUNK_CHARACTERS {
                flush(&mut chunk, &mut chunks, &mut template);
            }
        }
        flush(&mut chunk, &mut chunks, &mut template);
        templates.push(template);
    }
    let texts: Vec<&str> = chunks.iter().map(String::as_str).collect();
    let answers = espeak.phonemes(voice, &texts, is_cancelled)?;
    let join = |template: &Vec<Part>| {
        let parts = template.iter().map(|part| match part {
            Part::Chunk(index) => format!(" {}", to_alphabet(&answers[*index])),
            Part::Phonemes(phonemes) => phonemes.clone(),
        });
        alphabet::keep(&parts.collect::<String>())
    };
    Ok(templates.iter().map(join).collect())
}

enum Part {
    Chunk(usize),
    Phonemes(String),
}

fn flush(chunk: &mut String, chunks: &mut Vec<String>, template: &mut Vec<Part>) {
    if chunk.chars().any(char::is_alphanumeric) {
        template.push(Part::Chunk(chunks.len()));
        chunks.push(chunk.trim().to_owned());
    }
    chunk.clear();
}

fn is_sign(c: char) -> bool {
    !sign_of(c).is_empty()
}

/// The sign of the alphabet for a punctuation mark of any script.
pub(crate) fn sign_of(c: char) -> &'static str {
    match c {
        '.' | '。' | '．' | '।' | '॥' | '۔' => ". ",
        ',' | '，' | '、' | '،' => ", ",
        ';' | '；' | '؛' => "; ",
        ':' | '：' => ": ",
        '!' | '！' => "! ",
        '?' | '？' | '؟' => "? ",
        '—' => " — ",
        '…' => "… ",
        '(' => " (",
        ')' => ") ",
        '“' => " “",
        '”' => "” ",
        _ => "",
    }
}
