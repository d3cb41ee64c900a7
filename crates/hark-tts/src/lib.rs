//! Speech synthesis: phonemes and a voice to samples.
//!
//! In: a folder with the graph and the voices of Kokoro-82M, and sentences as phonemes of its alphabet. Out: 24 kHz samples, one
//! sentence after the other with pauses between them. None of its business: text and how it is
//! pronounced, audio files, watermarks.
//!
//! A model that speaks is a [`SpeechModel`]; [`Synthesizer`] is the one that is there. A [`VoiceMatcher`] finds the voice of it that resembles a
//! reference recording.

mod embedding_map;
mod error;
mod matching;
mod model;
mod network;
mod pace;
mod phonemes;
mod search;
mod stream;
mod style_space;
mod synthesizer;

pub use error::TtsError;
pub use matching::{EmbedSpeech, LISTENING_SENTENCE, MatchReport, SearchBudget, VoiceMatcher};
pub use model::{SpeechModel, Voice, VoiceKind};
pub use phonemes::{MAX_PHONEMES, alphabet, phoneme_id};
pub use stream::{Sentence, SpeechStream, trimmed};
pub use synthesizer::Synthesizer;
