//! What is to be spoken, and how it will be.

use std::sync::Arc;

use hark_clone::ClonedVoice;
use hark_tts::{Sentence, Voice, VoiceKind};

use crate::reference::Reference;

/// Which voice speaks.
#[derive(Debug, Clone, Copy)]
pub enum VoiceChoice<'a> {
    /// The default voice of the language.
    Default,
    /// A voice of the model by name, or by a name of OpenAI's.
    Named(&'a str),
    /// The voice of a clip where the model can clone, else the nearest that it can come to it.
    Like(&'a Reference),
}

/// What is to be spoken.
#[derive(Debug, Clone, Copy)]
pub struct SpeechRequest<'a> {
    /// The text.
    pub text: &'a str,
    /// Most characters of it.
    pub max_characters: usize,
    /// A code of [`crate::LANGUAGES`], or one with a region; none takes the voice's own language.
    pub language: Option<&'a str>,
    /// The voice.
    pub voice: VoiceChoice<'a>,
    /// How fast, within [`crate::SPEEDS`]; a matched voice also takes the pace of its reference, a cloned one speaks at that pace only.
    pub speed: f32,
    /// Whether sound is wanted as soon as possible: a long first sentence is cut at a clause.
    pub is_streamed: bool,
}

/// A request that can be spoken: its words, and the voice.
#[derive(Debug)]
pub struct Script {
    pub(crate) words: Words,
    pub(crate) speed: f32,
    /// The code of the language as the contract writes it.
    pub(crate) language: &'static str,
    pub(crate) kind: VoiceKind,
    /// What follows the kind where the voice is described.
    pub(crate) label: String,
}

/// The words of a script as the model takes them, and the voice that it made.
#[derive(Debug)]
pub(crate) enum Words {
    /// For models that speak phonemes.
    Phonemes {
        /// The sentences.
        sentences: Vec<Sentence>,
        /// A preset, or a voice that was matched.
        voice: Voice,
    },
    /// For models that read letters.
    Text {
        /// The sentences.
        lines: Vec<Line>,
        /// The voice of the reference.
        voice: Arc<ClonedVoice>,
    },
}

/// A sentence in letters.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) text: String,
    /// Seconds of silence behind it.
    pub(crate) pause: f32,
    /// Decides over what is left to chance.
    pub(crate) seed: u64,
}

impl Script {
    /// The code of its language as the contract writes it: `en` for American and British English.
    pub fn language(&self) -> &'static str {
        self.language
    }

    /// How fast it is spoken.
    pub fn speed(&self) -> f32 {
        self.speed
    }

    /// What the voice is, for people and for the header `X-Voice`: `preset; name=af_heart`, `matched; base=af_heart; similarity=0.46` or
    /// `cloned; model=chatterbox-multilingual`.
    pub fn voice(&self) -> String {
        format!("{}{}", self.kind.name(), self.label)
    }

    /// Whether the voice was matched to a reference clip.
    pub fn is_matched(&self) -> bool {
        self.kind == VoiceKind::Matched
    }

    /// Whether the voice is that of a reference clip.
    pub fn is_cloned(&self) -> bool {
        self.kind == VoiceKind::Cloned
    }
}

/// Symbols of a first sentence that are spoken soon enough.
const SHORT: usize = 60;
/// Least symbols before and after a cut.
const LEAST: usize = 15;
/// A sentence without a clause to cut at is cut between words from here on.
const LONG: usize = 120;
/// The pauses after a clause and inside of one, in seconds.
const AFTER_CLAUSE: f32 = 0.12;
const INSIDE_CLAUSE: f32 = 0.04;

/// Cuts a long first sentence in two, so that its begin is heard while the rest is made.
pub(crate) fn cut_first(sentences: &mut Vec<Sentence>) {
    let Some(first) = sentences.first_mut() else { return };
    let symbols: Vec<char> = first.phonemes.chars().collect();
    if symbols.len() <= SHORT {
        return;
    }
    let places = LEAST..symbols.len().saturating_sub(LEAST);
    // The space after a sign of a clause, else any.
    let is_clause = |at: &usize| symbols[*at] == ' ' && matches!(symbols[*at - 1], ',' | ';' | ':' | '—');
    let clause = places.clone().find(is_clause).filter(|at| *at <= LONG);
    let word = || {
        let is_space = |at: &usize| symbols[*at] == ' ';
        (symbols.len() > LONG).then(|| places.clone().take_while(|at| *at <= SHORT).filter(is_space).last()).flatten()
    };
    let Some((at, pause)) = clause.map(|at| (at, AFTER_CLAUSE)).or_else(|| word().map(|at| (at, INSIDE_CLAUSE))) else {
        return;
    };
    let head = Sentence { phonemes: symbols[..at].iter().collect(), pause };
    first.phonemes = symbols[at + 1..].iter().collect();
    sentences.insert(0, head);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(phonemes: &str) -> Vec<(String, f32)> {
        let mut sentences = vec![Sentence { phonemes: phonemes.to_owned(), pause: 0.3 }];
        cut_first(&mut sentences);
        sentences.into_iter().map(|one| (one.phonemes, one.pause)).collect()
    }

    #[test]
    fn a_long_first_sentence_is_cut_at_its_first_clause_and_a_short_one_is_not() {
        let short = "ðə kwˈɪk bɹˈWn fˈɑks, ʤˈʌmps ˌOvəɹ.";
        assert_eq!(cut(short), [(short.to_owned(), 0.3)]);
        let (head, tail) = (format!("{}ə,", "abcd ".repeat(5)), format!("{}z.", "ef gh ".repeat(10)));
        assert_eq!(cut(&format!("{head} {tail}")), [(head, 0.12), (tail, 0.3)]);
    }

    #[test]
    fn a_sentence_without_clauses_is_cut_between_words_only_where_it_is_very_long() {
        let words = |count: usize| "abcd ".repeat(count).trim_end().to_owned();
        assert_eq!(cut(&words(20)).len(), 1);
        let parts = cut(&words(40));
        assert_eq!(parts.len(), 2);
        assert!(parts[0].0.chars().count() <= SHORT && parts[0].1 < 0.1, "{parts:?}");
        assert_eq!(format!("{} {}", parts[0].0, parts[1].0), words(40));
        // Nothing to cut at.
        assert_eq!(cut(&"a".repeat(300)).len(), 1);
        let mut none = Vec::new();
        cut_first(&mut none);
        assert!(none.is_empty());
    }
}
