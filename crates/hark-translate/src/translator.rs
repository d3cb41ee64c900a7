//! Translation of whole texts: sentences, what must survive, and pivoting through a third language.

use std::sync::Arc;

use crate::protect::{self, IsForeign, Masked};
use crate::segment::{self, Part};
use crate::{SentenceModel, TranslateError};

/// A way from one language to another: one model, or two with a language between them.
#[derive(Clone)]
pub struct Translator {
    models: Vec<Arc<dyn SentenceModel>>,
}

/// A sentence of a text and where its translation goes.
struct Sentence<'a> {
    source: &'a str,
    target: String,
}

/// A text as parts: copied, or the number of a sentence.
enum Slot<'a> {
    Verbatim(&'a str),
    Sentence(usize),
}

impl Translator {
    /// Translates by one model after the other: the text, then its translation, and so on.
    pub fn chain(models: Vec<Arc<dyn SentenceModel>>) -> Self {
        Translator { models }
    }

    /// Translates by one model.
    pub fn direct(model: Arc<impl SentenceModel + 'static>) -> Self {
        Self::chain(vec![model])
    }

    /// Translates by `first` into a language between, and by `second` from there.
    pub fn pivot(first: Arc<impl SentenceModel + 'static>, second: Arc<impl SentenceModel + 'static>) -> Self {
        Self::chain(vec![first, second])
    }

    /// The translations of texts, in their order.
    ///
    /// Line breaks, the spacing between sentences and empty texts stay as they are. Numbers, URLs, e-mail addresses, tags and placeholders of a sentence occur in its
    /// translation. Long sentences are cut, never shortened. `is_cancelled` is asked between the steps of a batch.
    pub fn translate(&self, texts: &[&str], is_cancelled: &dyn Fn() -> bool) -> Result<Vec<String>, TranslateError> {
        let mut current: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        for model in &self.models {
            let texts: Vec<&str> = current.iter().map(String::as_str).collect();
            current = translate_texts(&**model, &texts, is_cancelled)?;
        }
        Ok(current)
    }
}

fn translate_texts(
    model: &dyn SentenceModel,
    texts: &[&str],
    is_cancelled: &dyn Fn() -> bool,
) -> Result<Vec<String>, TranslateError> {
    let count = |text: &str| model.count_tokens(text);
    let mut sentences = Vec::new();
    let mut slots: Vec<Vec<Slot>> = Vec::with_capacity(texts.len());
    for text in texts {
        let mut parts = Vec::new();
        for part in segment::split(text) {
            match part {
                Part::Sentence(sentence) => segment::cut(sentence, model.max_tokens(), &count, &mut parts),
                verbatim => parts.push(verbatim),
            }
        }
        let parts = parts.into_iter().map(|part| match part {
            Part::Verbatim(text) => Slot::Verbatim(text),
            Part::Sentence(source) => {
                sentences.push(Sentence { source, target: String::new() });
                Slot::Sentence(sentences.len() - 1)
            }
        });
        slots.push(parts.collect());
    }
    translate_sentences(model, &mut sentences, is_cancelled)?;
    let text = |slots: &Vec<Slot>| -> String {
        let parts = slots.iter().map(|slot| match slot {
            Slot::Verbatim(text) => *text,
            Slot::Sentence(index) => &sentences[*index].target,
        });
        parts.collect()
    };
    Ok(slots.iter().map(text).collect())
}

fn translate_sentences(
    model: &dyn SentenceModel,
    sentences: &mut [Sentence],
    is_cancelled: &dyn Fn() -> bool,
) -> Result<(), TranslateError> {
    let is_foreign = |c: char| !model.knows(c);
    let lowered = sentences.iter().map(|sentence| lower_shouted(sentence.source, &is_foreign));
    let lowered: Vec<Option<String>> = lowered.collect();
    let sources =
        sentences.iter().zip(&lowered).map(|(sentence, lowered)| lowered.as_deref().unwrap_or(sentence.source));
    let targets = model.translate_sentences(&sources.collect::<Vec<_>>(), is_cancelled)?;
    for ((sentence, target), lowered) in sentences.iter_mut().zip(targets).zip(&lowered) {
        sentence.target = match lowered {
            // A network that has nothing to say about a sentence leaves it as it is.
            _ if target.trim().is_empty() => sentence.source.to_owned(),
            Some(_) => target.to_uppercase(),
            None => target,
        };
    }
    let is_damaged = |sentence: &&mut Sentence| !protect::survived(sentence.source, &sentence.target, &is_foreign);
    let damaged: Vec<&mut Sentence> = sentences.iter_mut().filter(is_damaged).collect();
    if damaged.is_empty() {
        return Ok(());
    }
    let masked: Vec<Masked> = damaged.iter().map(|sentence| protect::mask(sentence.source, &is_foreign)).collect();
    let texts: Vec<&str> = masked.iter().map(|masked| masked.text.as_str()).collect();
    let targets = model.translate_sentences(&texts, is_cancelled)?;
    let mut lost = Vec::new();
    for ((sentence, masked), target) in damaged.into_iter().zip(&masked).zip(targets) {
        match masked.restore(&target).filter(|restored| protect::survived(sentence.source, restored, &is_foreign)) {
            Some(restored) => sentence.target = restored,
            None => lost.push(sentence),
        }
    }
    translate_between_tokens(model, lost, is_cancelled)
}

/// A sentence of several words in capitals as one in small letters, which networks know better; none for other sentences and those with tokens to copy.
fn lower_shouted(sentence: &str, is_foreign: IsForeign) -> Option<String> {
    let words = sentence.split_whitespace().filter(|word| word.chars().filter(|c| c.is_uppercase()).count() > 1);
    let is_shouted =
        words.count() > 1 && !sentence.chars().any(char::is_lowercase) && !protect::has_verbatim(sentence, is_foreign);
    let mut characters = sentence.chars();
    let first = is_shouted.then(|| characters.next()).flatten()?;
    Some(std::iter::once(first).chain(characters.flat_map(char::to_lowercase)).collect())
}

/// Translates what lies between tokens on its own and copies the tokens.
fn translate_between_tokens(
    model: &dyn SentenceModel,
    sentences: Vec<&mut Sentence>,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<(), TranslateError> {
    let is_foreign = |c: char| !model.knows(c);
    let pieces = sentences.iter().map(|sentence| protect::between(sentence.source, &is_foreign));
    let pieces: Vec<Vec<(&str, bool)>> = pieces.collect();
    let is_translatable = |(text, is_text): &(&str, bool)| *is_text && text.chars().any(char::is_alphabetic);
    let wanted: Vec<&str> =
        pieces.iter().flatten().filter(|piece| is_translatable(piece)).map(|(text, _)| text.trim()).collect();
    let mut translated = model.translate_sentences(&wanted, is_cancelled)?.into_iter();
    for (sentence, pieces) in sentences.into_iter().zip(&pieces) {
        sentence.target.clear();
        for piece in pieces {
            let text = piece.0;
            if !is_translatable(piece) {
                sentence.target.push_str(text);
                continue;
            }
            let (start, end) = (text.len() - text.trim_start().len(), text.trim_end().len());
            sentence.target.push_str(&text[..start]);
            // Each piece has a translation: they were asked for in this order.
            sentence.target.push_str(&translated.next().unwrap_or_default());
            sentence.target.push_str(&text[end..]);
        }
    }
    Ok(())
}
