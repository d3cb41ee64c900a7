//! Language identification.
//!
//! In: the file of a fastText language identification model, and texts. Out: the language of a text with a confidence. Out of scope: where models come from and which requests need a
//! language.
//!
//! Model files may be hostile: every size is checked against the file before it is used, and a bad file is a [`TranslateError`], never a panic.

mod error;
pub mod lid;

pub use error::TranslateError;
pub use lid::{DetectedLanguage, LanguageDetector};
