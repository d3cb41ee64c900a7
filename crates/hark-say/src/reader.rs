//! The whole way: text to sentences with their phonemes.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::language::{LANGUAGES, Language, Method};
use crate::pronounce::{self, Dictionary, English, Espeak, Lexicon};
use crate::sentences::{self, Piece};
use crate::{SayError, alphabet, clean, english, locale};

/// A sentence, or a part of a long one, ready for the network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sentence {
    /// As it was written.
    pub text: String,
    /// As it is read: numbers and abbreviations in words.
    pub spoken: String,
    /// Symbols of Kokoro's alphabet, at most [`Options::max_phonemes`] of them.
    pub phonemes: String,
    /// The silence after it.
    pub pause: Duration,
}

/// Where pronunciations come from, and limits.
#[derive(Debug, Clone)]
pub struct Options {
    /// The folder of the English dictionary: `us_gold.json`, `us_silver.json`, `gb_gold.json`, `gb_silver.json`. Without it English is read by espeak-ng.
    pub dictionary: Option<PathBuf>,
    /// The program espeak-ng; found on the search path by default.
    pub espeak: Option<PathBuf>,
    /// Pronunciations that stand before all others.
    pub lexicon: Lexicon,
    /// Most characters of a text.
    pub max_characters: usize,
    /// Most phonemes of a sentence; longer ones are cut at clauses.
    pub max_phonemes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            dictionary: None,
            espeak: None,
            lexicon: Lexicon::default(),
            max_characters: 2000,
            max_phonemes: alphabet::MAX_PHONEMES,
        }
    }
}

/// A piece of the text on its way.
enum Step {
    Waiting(Piece),
    Ready(Sentence),
}

/// Reads text: one for the process, shared by all requests.
#[derive(Debug)]
pub struct TextReader {
    options: Options,
    espeak: Option<Espeak>,
    /// American and British words, loaded at first use.
    dictionaries: [Mutex<Option<Arc<Dictionary>>>; 2],
}

impl TextReader {
    /// A reader; nothing is loaded yet.
    pub fn new(options: Options) -> Self {
        let espeak = match &options.espeak {
            Some(program) => Some(Espeak::at(program)).filter(|_| program.is_file()),
            None => Espeak::find(),
        };
        TextReader { options, espeak, dictionaries: [Mutex::new(None), Mutex::new(None)] }
    }

    /// Whether this machine can speak the language: its dictionary or espeak-ng is there.
    pub fn can_speak(&self, language: &Language) -> bool {
        match language.method {
            Method::English { .. } => self.options.dictionary.is_some() || self.espeak.is_some(),
            Method::Espeak => self.espeak.is_some(),
            Method::Japanese => true,
        }
    }

    /// The sentences of a text in a language (a code of [`LANGUAGES`]), in order.
    pub fn plan(&self, text: &str, language: &str, is_cancelled: &dyn Fn() -> bool) -> Result<Vec<Sentence>, SayError> {
        let language = Language::find(language).ok_or_else(|| SayError::UnknownLanguage {
            language: language.chars().take(40).collect(),
            known: LANGUAGES.iter().map(|language| language.code).collect::<Vec<_>>().join(", "),
        })?;
        let characters = text.chars().count();
        if characters > self.options.max_characters {
            return Err(SayError::TooLong { characters, limit: self.options.max_characters });
        }
        let mut steps: Vec<Step> =
            sentences::split(&clean::clean(text), language.code).into_iter().map(Step::Waiting).collect();
        loop {
            if is_cancelled() {
                return Err(SayError::Cancelled);
            }
            let waiting = steps.iter().filter_map(|step| match step {
                Step::Waiting(piece) => Some(normalize(&piece.text, language)),
                Step::Ready(_) => None,
            });
            let spoken: Vec<String> = waiting.collect();
            if spoken.is_empty() {
                break;
            }
            let texts: Vec<&str> = spoken.iter().map(String::as_str).collect();
            let phonemes = self.pronounce(&texts, language, is_cancelled)?;
            let mut answers = spoken.into_iter().zip(phonemes);
            steps = steps
                .into_iter()
                .flat_map(|step| match step {
                    Step::Ready(_) => vec![step],
                    Step::Waiting(piece) => self.fit(piece, answers.next().unwrap_or_default()),
                })
                .collect();
        }
        let planned: Vec<Sentence> = steps
            .into_iter()
            .filter_map(|step| match step {
                Step::Ready(sentence) => Some(sentence),
                Step::Waiting(_) => None,
            })
            .collect();
        if planned.is_empty() { Err(SayError::Empty) } else { Ok(planned) }
    }

    /// A piece with its phonemes; two pieces that wait again when it is too long; none when it is silent.
    fn fit(&self, piece: Piece, (spoken, phonemes): (String, String)) -> Vec<Step> {
        if !phonemes.chars().any(char::is_alphabetic) {
            return Vec::new();
        }
        if phonemes.chars().count() > self.options.max_phonemes
            && let Some((head, tail)) = sentences::cut(&piece)
        {
            return vec![Step::Waiting(head), Step::Waiting(tail)];
        }
        // One character never makes more sounds than fit, unless the limit is absurd.
        let phonemes = phonemes.chars().take(self.options.max_phonemes).collect();
        vec![Step::Ready(Sentence { text: piece.text, spoken, phonemes, pause: piece.pause })]
    }

    fn pronounce(
        &self,
        spoken: &[&str],
        language: &'static Language,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Vec<String>, SayError> {
        match language.method {
            Method::English { british } => {
                let dictionary = match &self.options.dictionary {
                    Some(folder) => Some(self.dictionary(folder, british)?),
                    None => None,
                };
                match (&dictionary, &self.espeak) {
                    (None, None) => Err(SayError::EspeakMissing { language: language.name }),
                    // Whole sentences sound better than words, when there is no dictionary.
                    (None, Some(espeak)) => pronounce::pronounce_english_by_espeak(
                        espeak,
                        language.voice,
                        british,
                        &self.options.lexicon,
                        spoken,
                        is_cancelled,
                    ),
                    _ => {
                        let english = English {
                            dictionary: dictionary.as_deref(),
                            espeak: self.espeak.as_ref(),
                            lexicon: &self.options.lexicon,
                            voice: language.voice,
                            british,
                        };
                        let phonemes = english.pronounce(spoken, is_cancelled)?;
                        Ok(phonemes.iter().map(|phonemes| alphabet::keep(phonemes)).collect())
                    }
                }
            }
            Method::Espeak => {
                let espeak = self.espeak.as_ref().ok_or(SayError::EspeakMissing { language: language.name })?;
                pronounce::pronounce_by_espeak(espeak, language.voice, &self.options.lexicon, spoken, is_cancelled)
            }
            Method::Japanese => pronounce::pronounce_japanese(spoken),
        }
    }

    fn dictionary(&self, folder: &Path, british: bool) -> Result<Arc<Dictionary>, SayError> {
        let mut slot =
            self.dictionaries[usize::from(british)].lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(dictionary) = &*slot {
            return Ok(dictionary.clone());
        }
        let dictionary = Arc::new(Dictionary::load(folder, british)?);
        *slot = Some(dictionary.clone());
        Ok(dictionary)
    }
}

/// A sentence, or a part of a long one, in words: for speech models that read letters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passage {
    /// As it is read: numbers and abbreviations in words where the language has rules for them.
    pub spoken: String,
    /// The silence after it.
    pub pause: Duration,
}

/// The sentences of a text in order, each with at most `max_characters` as it was written. The language is a code of [`LANGUAGES`], or `zh`.
pub fn passages(text: &str, language: &str, max_characters: usize) -> Result<Vec<Passage>, SayError> {
    let known = Language::find(language).or_else(|| Language::find(language.split(['-', '_']).next()?));
    let (code, known) = match known {
        Some(language) => (language.code, Some(language)),
        None if language == "zh" => ("zh", None),
        None => {
            return Err(SayError::UnknownLanguage {
                language: language.chars().take(40).collect(),
                known: LANGUAGES.iter().map(|language| language.code).chain(["zh"]).collect::<Vec<_>>().join(", "),
            });
        }
    };
    let mut waiting: Vec<Piece> = sentences::split(&clean::clean(text), code);
    waiting.reverse();
    let mut passages = Vec::new();
    while let Some(piece) = waiting.pop() {
        if piece.text.chars().count() > max_characters
            && let Some((head, tail)) = sentences::cut(&piece)
        {
            waiting.extend([tail, head]);
            continue;
        }
        let spoken = match known {
            Some(language) => normalize(&piece.text, language),
            None => locale::normalize(&clean::clean(&piece.text), code),
        };
        if spoken.chars().any(char::is_alphanumeric) {
            passages.push(Passage { spoken, pause: piece.pause });
        }
    }
    if passages.is_empty() { Err(SayError::Empty) } else { Ok(passages) }
}

/// A sentence as it is spoken, without its phonemes: numbers, dates and abbreviations in words.
pub fn normalize(text: &str, language: &Language) -> String {
    match language.method {
        Method::English { british } => english::normalize(&clean::clean(text), british),
        _ => locale::normalize(&clean::clean(text), language.code),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spoken(text: &str, language: &str, most: usize) -> Vec<String> {
        passages(text, language, most).unwrap().into_iter().map(|passage| passage.spoken).collect()
    }

    #[test]
    fn passages_are_sentences_in_words() {
        assert_eq!(spoken("Dr. Lee has 3 dogs. Yes!", "en", 300), ["Doctor Lee has three dogs.", "Yes!"]);
        assert_eq!(spoken("Hay 3 perros.", "es", 300), ["Hay tres perros."]);
        assert_eq!(spoken("你好。再见。", "zh", 300).len(), 2);
        assert_eq!(spoken("Olá.", "pt", 300), ["Olá."]);
        let pauses: Vec<Duration> =
            passages("One. Two.", "en-gb", 300).unwrap().into_iter().map(|passage| passage.pause).collect();
        assert!(pauses.iter().all(|pause| *pause > Duration::ZERO), "{pauses:?}");
    }

    #[test]
    fn long_sentences_are_cut_and_nothing_is_lost() {
        let text = "the quick brown fox, which was tired, jumped over the lazy dog and ran away into the woods";
        let parts = spoken(text, "en", 40);
        assert!(parts.len() > 2 && parts.iter().all(|part| part.chars().count() <= 40), "{parts:?}");
        // A comma at the end of a part is its pause.
        assert_eq!(parts.join(" ").replace(',', ""), text.replace(',', ""));
    }

    #[test]
    fn silence_and_unknown_languages_are_refused() {
        assert!(matches!(passages(" ... ", "en", 300), Err(SayError::Empty)));
        assert!(matches!(passages("x", "xx", 300), Err(SayError::UnknownLanguage { .. })));
    }
}
