//! Work on text, as an operator may set it.

use serde::Deserialize;

use super::Seconds;
use crate::engine::LanguageOptions;

/// The `[text]` table.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TextSettings {
    /// The language model, a name of the catalogue; its default when not given.
    pub model: Option<String>,
    /// Seconds a request waits for its answer.
    pub timeout: Seconds,
    /// Seconds that work for a request may take that sees its progress as events.
    pub stream_timeout: Seconds,
    /// Most characters of a text.
    pub max_characters: usize,
    /// Most tokens of a prompt and its answer; the model's own limit where that is lower.
    pub context: usize,
    /// Megabytes of the KV cache, which running requests and the prefix cache share.
    pub cache_mb: u64,
}

impl Default for TextSettings {
    fn default() -> Self {
        let LanguageOptions { model, context, cache_bytes } = LanguageOptions::default();
        TextSettings {
            model,
            timeout: Seconds(300.0),
            stream_timeout: Seconds(3600.0),
            max_characters: 400_000,
            context,
            cache_mb: cache_bytes >> 20,
        }
    }
}

impl TextSettings {
    /// What makes no sense, in words for the operator.
    pub fn check(&self) -> Result<(), String> {
        if !(1024..=1 << 20).contains(&self.context) {
            return Err("`text.context` must be a number from 1024 to 1048576".to_owned());
        }
        if self.max_characters == 0 {
            return Err("`text.max_characters` must be at least 1".to_owned());
        }
        if !(64..=1 << 20).contains(&self.cache_mb) {
            return Err("`text.cache_mb` must be a number from 64 to 1048576".to_owned());
        }
        Ok(())
    }

    /// The most seconds that work for a request may take.
    pub fn longest(&self) -> Seconds {
        Seconds(self.timeout.0.max(self.stream_timeout.0))
    }

    /// The same as the engine takes it.
    pub fn language_options(&self) -> LanguageOptions {
        LanguageOptions { model: self.model.clone(), context: self.context, cache_bytes: self.cache_mb << 20 }
    }
}
