//! Voice cloning by Chatterbox multilingual.
//!
//! In: a folder with the ONNX export of the model, sentences in one of its 23 languages, and a few seconds of a voice at 24 kHz. Out: 24 kHz samples of the sentences in that voice.
//! Out of scope: numbers and abbreviations, whether a clip is fit and its speaker consents, audio files, watermarks.
//!
//! ```text
//! clip ─▶ speech_encoder ─▶ conditioning, speech tokens, speaker embedding, features
//!                              │                             │
//! text ─▶ tokens ─▶ embed_tokens ─▶ language_model ─▶ speech tokens ─▶ conditional_decoder ─▶ samples
//!                                   (KV cache, guidance, sampling)
//! ```

mod cloner;
mod error;
mod generate;
mod networks;
mod sample;
#[cfg(feature = "test-support")]
pub mod testing;
mod text;
mod tokenizer;

pub use cloner::{ClonedVoice, Cloner, SAMPLE_RATE, SHORTEST_CLIP};
pub use error::CloneError;
pub use generate::Settings;
pub use networks::is_in;
pub use text::LANGUAGES;
