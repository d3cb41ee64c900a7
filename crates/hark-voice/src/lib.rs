//! Speech in a given voice, marked as synthetic.
//!
//! In: a text, its language, the name of a voice or a reference clip, and the key of the watermark. Out: a sound file, block by block while it is spoken. Out of
//! scope: which language a text is in, consent and limits, where files go.
//!
//! ```text
//! text ─▶ hark-say ─▶ hark-tts (preset or matched voice) ─▶ hark-watermark ─▶ file with metadata
//!            │            ▲                                     ▲
//!            │   voice matching                                 │
//!            │            ▲                                     │
//! reference clip ─▶ checks ─▶ hark-clone (cloned voice) ────────┘
//! ```
//!
//! Samples leave this crate only through [`Narrator::speak`], which marks them: no option switches the watermark or the metadata off.

mod cloning;
mod error;
mod file;
mod listened;
mod mark;
mod matching;
mod narrator;
mod presets;
mod reference;
mod script;
mod voice_model;
mod voices;

pub use error::{Fault, VoiceError};
pub use file::FileFormat;
pub use hark_onnx::CATALOGUE_NAME as RUNTIME_MODEL;
pub use hark_say::Language;
pub use hark_watermark::{KEY_FILE, Key, Payload, WatermarkError};
pub use mark::Marker;
pub use narrator::{Narrator, NarratorOptions, Spoken};
pub use reference::{LONGEST_REFERENCE, Reference, SHORTEST_REFERENCE};
pub use script::{Script, SpeechRequest, VoiceChoice};
pub use voices::{Gender, LANGUAGES, PresetVoice, SPEEDS, aliases_of, preset_of_alias};

/// Most characters of a text that a service speaks at once (contract, `POST /v1/tts`).
pub const MAX_CHARACTERS: usize = 2000;
