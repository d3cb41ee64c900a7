//! How text is read out loud: sentences, words and phonemes.
//!
//! In: a text of up to 2000 characters and its language. Out: its sentences in order, each with the words that are spoken for it, the phonemes of Kokoro's
//! alphabet, and the pause after it ([`TextReader::plan`]). Out of scope: which language a text is in, and the sound.
//!
//! ```text
//! text ─▶ clean ─▶ sentences ─▶ english | locale ─▶ pronounce ─▶ phonemes
//!         characters  split      numbers to words    dictionary, espeak-ng, rules
//! ```

pub mod alphabet;
mod clean;
mod english;
mod error;
mod language;
mod locale;
mod pronounce;
mod reader;
mod sentences;

pub use error::SayError;
pub use language::{LANGUAGES, Language};
pub use pronounce::Lexicon;
pub use reader::{Options, Passage, Sentence, TextReader, normalize, passages};
