//! A server with a real, small language model.

use hark_server::{Config, LanguageOptions, Seconds, SpeechEngine, TextSettings};

use crate::server::{Server, config, real_engine_with};

pub(crate) const MODEL: &str = "smollm2-135m-instruct";

/// The context of the model, in tokens.
pub(crate) const CONTEXT: usize = 2048;

pub(crate) fn options() -> LanguageOptions {
    LanguageOptions {
        model: Some(MODEL.to_owned()),
        context: CONTEXT,
        cache_bytes: 128 << 20,
        ..LanguageOptions::default()
    }
}

pub(crate) fn engine() -> SpeechEngine {
    real_engine_with(options(), &[MODEL])
}

/// Settings with which work on text may take so many seconds.
pub(crate) fn with_timeout(seconds: f64) -> Config {
    let text = TextSettings { timeout: Seconds(seconds), stream_timeout: Seconds(seconds), ..TextSettings::default() };
    Config { text, ..config() }
}

pub(crate) async fn server() -> Server {
    // A tiny model on a busy machine: what is tested is not how fast it is.
    Server::with(with_timeout(600.0), engine()).await
}
