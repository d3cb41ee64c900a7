//! From encoded windows to text: the rules of decoding, written once, above the [`Backend`](crate::backend::Backend).
//!
//! In: jobs, each one window with its options. Out: the text of each, as soon as it is complete. Rows of all
//! windows advance together, one token a step; a window that is done leaves and its slot is free for the next.

mod engine;
mod search;
mod timing;
mod window;

pub use engine::{Engine, EngineStats, Job, Outcome};
pub use timing::Untimed;

use crate::tokenizer::Tokenizer;
use crate::words::AlignedWord;

/// What to do with speech that is not English.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Task {
    /// Write what is said in its language.
    #[default]
    Transcribe,
    /// Write it in English.
    Translate,
}

/// How the language of a window is determined.
#[derive(Debug, Clone, PartialEq)]
pub enum Language {
    /// Given (a code of [`crate::languages`]).
    Known(String),
    /// Detected; with a lower probability the window is not decoded and only reports the probabilities.
    Detect {
        /// The minimum probability to continue with the detected language.
        sure_from: f32,
    },
}

/// How a window is decoded. The defaults are those of the original Whisper.
#[derive(Debug, Clone, PartialEq)]
pub struct DecodeOptions {
    /// The language, or how to find it.
    pub language: Language,
    /// Transcribe or translate.
    pub task: Task,
    /// Beam width at temperature zero; 1 is greedy.
    pub beam: usize,
    /// Hypotheses sampled at a temperature above zero.
    pub best_of: usize,
    /// Temperatures to try, in order, until a result passes the checks below.
    pub temperatures: Vec<f32>,
    /// Whether the text is interspersed with timestamp tokens.
    pub timestamps: bool,
    /// Whether to find the time of every word.
    pub words: bool,
    /// Text that came before, or names and terms to expect, as tokens.
    pub prompt: Vec<u32>,
    /// Text that the window is known to begin with, as tokens: the search continues after it. Not with timestamps.
    pub prefix: Vec<u32>,
    /// A text that compresses better than this repeats itself: try the next temperature.
    pub compression_ratio_threshold: f32,
    /// A text less likely than this on average (log-probability a token) is doubtful: try the next temperature.
    pub logprob_threshold: f32,
    /// With a no-speech probability above this, and a doubtful text, there is no speech.
    pub no_speech_threshold: f32,
    /// Maximum tokens of a text.
    pub max_tokens: usize,
}

impl Default for DecodeOptions {
    fn default() -> Self {
        DecodeOptions {
            language: Language::Detect { sure_from: 0.0 },
            task: Task::Transcribe,
            beam: 5,
            best_of: 5,
            temperatures: vec![0.0, 0.2, 0.4, 0.6, 0.8, 1.0],
            timestamps: false,
            words: false,
            prompt: Vec::new(),
            prefix: Vec::new(),
            compression_ratio_threshold: 2.4,
            logprob_threshold: -1.0,
            no_speech_threshold: 0.6,
            max_tokens: 224,
        }
    }
}

/// The text of a window.
#[derive(Debug, Clone, Default)]
pub struct Decoded {
    /// Language code.
    pub language: String,
    /// The probability of the language; 1 when it was given.
    pub language_probability: f32,
    /// The language that the window sounds like, whichever was given, with its probability; none of models of one language.
    pub heard: Option<(String, f32)>,
    /// Tokens, those of the prefix and timestamps included, the end excluded.
    pub tokens: Vec<u32>,
    /// Log-probability of each token; 0 for those of the prefix.
    pub log_probs: Vec<f32>,
    /// The text of the tokens.
    pub text: String,
    /// Mean log-probability of the tokens after the prefix, the end included.
    pub mean_logprob: f32,
    /// Probability that there is no speech.
    pub no_speech: f32,
    /// Its compression ratio.
    pub compression: f32,
    /// The temperature that gave this text.
    pub temperature: f32,
    /// Words with their times in the window, if requested.
    pub words: Vec<AlignedWord>,
}

/// Ratio of the text's bytes to its deflated bytes: 1 to 2 for speech, far more for loops.
fn compression_ratio(text: &str) -> f32 {
    use flate2::{Compression, write::ZlibEncoder};
    use std::io::Write;
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    // Writing to a vector cannot fail.
    let deflated = encoder.write_all(text.as_bytes()).and_then(|()| encoder.finish()).map_or(1, |out| out.len());
    text.len() as f32 / deflated as f32
}

/// The tokens before the text: start, language, task, and whether timestamps follow.
fn start_sequence(tokenizer: &Tokenizer, language: &str, task: Task) -> Vec<u32> {
    let mut tokens = vec![tokenizer.sot];
    if tokenizer.is_multilingual() {
        tokens.extend(tokenizer.language_token(language));
        tokens.push(match task {
            Task::Transcribe => tokenizer.transcribe,
            Task::Translate => tokenizer.translate,
        });
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::compression_ratio;

    #[test]
    fn loops_compress_better_than_speech() {
        let speech = "there's iron they say in all our blood and a grain or two perhaps is good";
        assert!(compression_ratio(speech) < 1.5);
        assert!(compression_ratio(&"thank you ".repeat(30)) > 5.0);
        assert!(compression_ratio("") < 1.0);
    }
}
