//! An inaudible mark with a payload in synthetic speech, and its detector.
//!
//! In: samples of any rate from 8 kHz on and any number of channels, block by block, a [`Payload`] and a secret [`Key`]. Out: the marked samples
//! ([`Embedder`]), or what a sound carries ([`Detector`]). No model files, no state between sounds. None of its business: files, formats, logs
//! of requests.
//!
//! The band from 300 to 3400 Hz is divided into cells: 20 bands, slots of 16 ms. The key gives each cell a sign and a bit of the coded payload;
//! the cell is made louder or softer by some 3 dB as sign and bit say (patchwork on log-magnitudes). A gain of the whole sound cancels in the
//! comparison of a cell with its neighbours, and codecs keep levels of bands where they keep nothing else. A tenth of the cells carry a known
//! pattern for synchronization, which the detector correlates at every offset, for speeds of ±6 %. The pattern repeats every 2.3 s: five seconds
//! hold it twice. All of it is defined in seconds and hertz, so a mark reads the same at every sample rate.
//!
//! Scores are sums with keyed random signs, divided by their norm. For a sound that was made without the key, Hoeffding's inequality bounds the probability
//! of a score above `z` by `exp(-z²/2)`, whatever the sound is; times the number of alignments and payloads that were tried it is the false-alarm bound.

mod code;
mod detect;
mod embed;
mod error;
mod features;
mod key;
mod key_file;
mod pattern;
mod payload;
mod spectrum;
mod window;

pub use detect::{Detection, Detector, Span, detect};
pub use embed::{Embedder, embed};
pub use error::WatermarkError;
pub use key::Key;
pub use key_file::KEY_FILE;
pub use payload::{Payload, VERSION};

/// What the metadata of marked files says, as a comment: disclosure for people and programs without the key.
pub const DISCLOSURE: &str = "synthetic speech: this sound was made by a computer";

/// Whether a comment in the metadata of a file discloses synthetic speech.
pub fn discloses(comment: &str) -> bool {
    comment.to_ascii_lowercase().contains("synthetic speech")
}

/// The lowest sample rate that carries the mark.
pub const MIN_RATE: u32 = 8_000;
