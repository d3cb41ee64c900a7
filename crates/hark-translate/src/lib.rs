//! Language identification and machine translation.
//!
//! In: the file of a fastText language identification model, folders with Marian models of one pair of languages (Firefox's, OPUS-MT's) or T5 models of many languages
//! (MADLAD-400), and texts. Out: the language of a text
//! with a confidence, texts translated with their line breaks, numbers and markup, and cues whose sentences are translated whole ([`translate_cues`]). Out of scope:
//! where models come from, which model serves which request, formats of subtitles.
//!
//! Model files may be hostile: every size is checked against the file before it is used, and a bad file is a [`TranslateError`], never a panic.

mod cues;
mod decoding;
mod error;
pub mod languages;
pub mod lid;
pub mod marian;
pub mod marian_mt;
mod model;
mod multilingual;
mod protect;
mod segment;
pub mod sentencepiece;
pub mod t5;
mod translator;

pub use cues::{Cue, translate_cues};
pub use error::TranslateError;
pub use lid::{DetectedLanguage, LanguageDetector};
pub use marian_mt::MarianMtModel;
pub use model::{FirefoxModel, SentenceModel, TranslationModel};
pub use multilingual::{IntoLanguage, MultilingualModel};
pub use sentencepiece::SentencePiece;
pub use translator::Translator;
