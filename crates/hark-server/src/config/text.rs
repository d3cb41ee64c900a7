//! Work on text, as an operator may set it.

use std::path::PathBuf;

use hark_text::EndpointSettings;
use serde::Deserialize;

use super::{Hidden, Seconds};
use crate::engine::LanguageOptions;

/// The `[text]` table.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TextSettings {
    /// The language model, a name of the catalogue; its default when not given.
    pub model: Option<String>,
    /// The languages, as ISO 639-1 codes, between which the language model translates what no translation model does; what the
    /// catalogue says of the model when not given.
    pub translation_languages: Option<Vec<String>>,
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
    /// The address of another server's OpenAI-compatible API, whose language model is used instead of one here.
    pub endpoint: Option<String>,
    /// The name of the model there; the first one that it lists when not given.
    pub endpoint_model: Option<String>,
    /// The API key of the endpoint.
    pub endpoint_key: Option<Hidden>,
    /// A file with the API key of the endpoint.
    pub endpoint_key_file: Option<PathBuf>,
    /// Most tokens of a prompt and its answer there; what the endpoint says when not given.
    pub endpoint_context: Option<usize>,
    /// Requests that are sent to the endpoint at once.
    pub endpoint_at_once: usize,
}

impl Default for TextSettings {
    fn default() -> Self {
        let LanguageOptions { model, context, cache_bytes, endpoint: _, translation_languages } =
            LanguageOptions::default();
        TextSettings {
            model,
            translation_languages,
            timeout: Seconds(300.0),
            stream_timeout: Seconds(3600.0),
            max_characters: 400_000,
            context,
            cache_mb: cache_bytes >> 20,
            endpoint: None,
            endpoint_model: None,
            endpoint_key: None,
            endpoint_key_file: None,
            endpoint_context: None,
            endpoint_at_once: EndpointSettings::new("").at_once,
        }
    }
}

impl TextSettings {
    /// What makes no sense, in words for the operator.
    pub fn check(&self) -> Result<(), String> {
        if !(2048..=1 << 20).contains(&self.context) {
            return Err("`text.context` must be a number from 2048 to 1048576".to_owned());
        }
        let languages = self.translation_languages.iter().flatten();
        if let Some(unknown) = languages.into_iter().find(|code| hark_translate::languages::find(code).is_none()) {
            return Err(format!("`text.translation_languages` has {unknown:?}, which is the code of no language"));
        }
        if self.max_characters == 0 {
            return Err("`text.max_characters` must be at least 1".to_owned());
        }
        if !(64..=1 << 20).contains(&self.cache_mb) {
            return Err("`text.cache_mb` must be a number from 64 to 1048576".to_owned());
        }
        if self.endpoint_key.is_some() && self.endpoint_key_file.is_some() {
            return Err("`text.endpoint_key` and `text.endpoint_key_file` are both set: give one".to_owned());
        }
        let is_used = self.endpoint_model.is_some() || self.endpoint_key.is_some() || self.endpoint_key_file.is_some();
        match self.endpoint() {
            Some(endpoint) => endpoint.check().map_err(|problem| format!("[text]: {problem}")),
            None if is_used => Err("`text.endpoint` is missing: the other settings of the endpoint need it".to_owned()),
            None => Ok(()),
        }
    }

    /// Reads the key of the endpoint from its file.
    pub fn read_key(&mut self) -> Result<(), String> {
        let Some(file) = &self.endpoint_key_file else { return Ok(()) };
        let key = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
        if key.trim().is_empty() {
            return Err(format!("{}: holds no key", file.display()));
        }
        self.endpoint_key = Some(Hidden(key.trim().to_owned()));
        self.endpoint_key_file = None;
        self.check()
    }

    fn endpoint(&self) -> Option<EndpointSettings> {
        Some(EndpointSettings {
            url: self.endpoint.clone()?,
            model: self.endpoint_model.clone(),
            key: self.endpoint_key.as_ref().map(|key| key.0.clone()),
            context: self.endpoint_context,
            at_once: self.endpoint_at_once,
        })
    }

    /// The same as the engine takes it.
    pub fn language_options(&self) -> LanguageOptions {
        LanguageOptions {
            model: self.model.clone(),
            context: self.context,
            cache_bytes: self.cache_mb << 20,
            endpoint: self.endpoint(),
            translation_languages: self.translation_languages.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<TextSettings, String> {
        let settings: TextSettings = serde_json::from_str(json).map_err(|error| error.to_string())?;
        settings.check().map(|()| settings)
    }

    #[test]
    fn an_endpoint_needs_an_address_and_its_key_is_shown_nowhere() {
        let settings = read(r#"{"endpoint": "http://10.0.0.7:8000/v1", "endpoint_key": "sk-secret"}"#).unwrap();
        assert!(!format!("{settings:?}").contains("secret"));
        let endpoint = settings.language_options().endpoint.unwrap();
        assert_eq!((endpoint.key.as_deref(), endpoint.at_once), (Some("sk-secret"), 16));
        assert!(!format!("{endpoint:?}").contains("secret"));
        assert!(read("{}").unwrap().language_options().endpoint.is_none());
        for (wrong, named) in [
            (r#"{"endpoint": "10.0.0.7:8000"}"#, "`endpoint`"),
            (r#"{"endpoint_model": "a"}"#, "`text.endpoint`"),
            (r#"{"endpoint": "http://a", "endpoint_at_once": 0}"#, "`endpoint_at_once`"),
            (r#"{"endpoint": "http://a", "endpoint_context": 10}"#, "`endpoint_context`"),
            (r#"{"endpoint": "http://a", "endpoint_key": "a", "endpoint_key_file": "b"}"#, "endpoint_key_file"),
        ] {
            let error = read(wrong).unwrap_err();
            assert!(error.contains(named), "{error}");
        }
    }

    #[test]
    fn a_key_is_read_from_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        let mut settings = TextSettings {
            endpoint: Some("http://a".into()),
            endpoint_key_file: Some(file.clone()),
            ..TextSettings::default()
        };
        assert!(settings.clone().read_key().unwrap_err().contains("key"));
        std::fs::write(&file, " sk-1\n").unwrap();
        settings.read_key().unwrap();
        assert_eq!(settings.endpoint_key, Some(Hidden("sk-1".into())));
    }
}
