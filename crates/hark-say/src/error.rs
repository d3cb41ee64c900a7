//! What can go wrong, and whose fault it is.

use std::path::PathBuf;
use std::time::Duration;

/// Why a text could not be planned.
#[derive(Debug, thiserror::Error)]
pub enum SayError {
    /// The text has more characters than allowed.
    #[error("the text has {characters} characters; at most {limit} can be spoken at once")]
    TooLong {
        /// Characters of the text.
        characters: usize,
        /// Most characters allowed.
        limit: usize,
    },
    /// Nothing of the text can be spoken: it is empty, or has only emoji and signs.
    #[error("the text has no words that can be spoken")]
    Empty,
    /// No such language, or none that can be spoken.
    #[error("language '{language}' can't be spoken; give one of: {known}")]
    UnknownLanguage {
        /// What was asked for.
        language: String,
        /// The codes that are known.
        known: String,
    },
    /// Japanese text with kanji, whose readings need a dictionary that is not there.
    #[error(
        "Japanese is read from kana only, and the text has kanji ('{example}'); write their readings in hiragana or katakana"
    )]
    KanjiReading {
        /// The first kanji.
        example: char,
    },
    /// The language needs espeak-ng, which is not installed.
    #[error("speaking {language} needs the program espeak-ng, which was not found; install the package espeak-ng")]
    EspeakMissing {
        /// The language, in English.
        language: &'static str,
    },
    /// espeak-ng failed or answered nonsense.
    #[error("espeak-ng failed: {0}")]
    Espeak(String),
    /// espeak-ng was ended by a signal; what it was reading is left out.
    #[error("espeak-ng crashed")]
    EspeakCrash,
    /// espeak-ng did not answer in time.
    #[error("espeak-ng did not answer within {0:?}")]
    EspeakTimeout(Duration),
    /// The pronunciation dictionary can't be read.
    #[error("can't read the pronunciation dictionary {path}: {reason}; pull its model again")]
    Dictionary {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A line of a user's lexicon is wrong.
    #[error("line {line} of the lexicon: {reason}; a line is 'word = phonemes'")]
    Lexicon {
        /// Its number, from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// The caller cancelled.
    #[error("cancelled")]
    Cancelled,
}

impl SayError {
    /// Whether the request is at fault, not this machine.
    pub fn is_request_fault(&self) -> bool {
        matches!(
            self,
            SayError::TooLong { .. }
                | SayError::Empty
                | SayError::UnknownLanguage { .. }
                | SayError::KanjiReading { .. }
                | SayError::Lexicon { .. }
        )
    }
}
