//! The text fields of a transcription form, validated as they arrive, so that an error is reported before the upload ends.

use hark_api::{ResponseFormat, VoiceActivity};
use hark_models::default_name;
use hark_speech::{Channels, MULTI};

use crate::config::Config;
use crate::engine::Work;
use crate::error::Failure;
use crate::options::{MAX_PROMPT, language, words};
use crate::routes::audio::refuse_second;
use crate::routes::upload::FormFields;
use crate::webhooks;

const MAX_SPEAKERS: u32 = 100;

/// The text fields of a form with a recording to transcribe, of this API or OpenAI's.
pub(crate) trait Form: FormFields {
    /// The format of the response.
    type Layout: std::fmt::Debug + Clone + PartialEq + Send + serde::Serialize;

    /// The operation, for the fingerprint of the request.
    const OPERATION: &'static str;

    /// The complete request, with the defaults of the form.
    fn parsed(self) -> Result<ParsedForm<Self::Layout>, Failure>;
}

/// The fields received so far of a form of `POST /v1/transcribe`.
#[derive(Debug, Default)]
pub(crate) struct Fields {
    model: Option<String>,
    /// Outer: whether the field was sent; inner: whether it names a language.
    language: Option<Option<String>>,
    diarize: Option<bool>,
    speakers: Option<u32>,
    identify: Option<bool>,
    channels: Option<Channels>,
    format: Option<ResponseFormat>,
    prompt: Option<String>,
    hotwords: Option<String>,
    translate: Option<bool>,
    word_timestamps: Option<bool>,
    vad: Option<VoiceActivity>,
    webhook_url: Option<String>,
}

/// A complete transcription request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ParsedForm<Layout> {
    /// The work for the engine; its model is the requested name until it is resolved.
    pub(crate) work: Work,
    pub(crate) layout: Layout,
    pub(crate) webhook_url: Option<String>,
}

impl FormFields for Fields {
    const TAKES_UPLOADS: bool = true;

    fn longest(name: &str) -> Option<usize> {
        match name {
            "model" | "language" | "diarize" | "speakers" | "identify" | "channels" | "response_format"
            | "translate" | "word_timestamps" | "vad" => Some(200),
            // A character has at most four bytes.
            "prompt" | "hotwords" => Some(4 * MAX_PROMPT),
            "webhook_url" => Some(2000),
            _ => None,
        }
    }

    fn set(&mut self, name: &str, value: String, config: &Config) -> Result<(), Failure> {
        let text = value.trim();
        match name {
            "model" => put(&mut self.model, name, text.to_owned()),
            "language" => put(&mut self.language, name, recording_language(text)?),
            "diarize" => put(&mut self.diarize, name, boolean(name, text)?),
            "speakers" => put(&mut self.speakers, name, speakers(text)?),
            "identify" => put(&mut self.identify, name, boolean(name, text)?),
            "channels" => put(&mut self.channels, name, channels(text)?),
            "response_format" => put(&mut self.format, name, format(text)?),
            "prompt" => put(&mut self.prompt, name, words(name, text)?),
            "hotwords" => put(&mut self.hotwords, name, words(name, text)?),
            "translate" => put(&mut self.translate, name, boolean(name, text)?),
            "word_timestamps" => put(&mut self.word_timestamps, name, boolean(name, text)?),
            "vad" => put(&mut self.vad, name, vad(text)?),
            "webhook_url" => {
                // A form may send an empty field for one that was not filled in.
                if !text.is_empty() {
                    webhooks::check_url(&config.webhooks, text).map_err(Failure::invalid)?;
                }
                put(&mut self.webhook_url, name, text.to_owned())
            }
            _ => Ok(()),
        }
    }
}

impl Form for Fields {
    type Layout = ResponseFormat;
    const OPERATION: &'static str = "POST /v1/transcribe";

    fn parsed(self) -> Result<ParsedForm<ResponseFormat>, Failure> {
        let non_empty = |text: Option<String>| text.filter(|text| !text.is_empty());
        Ok(ParsedForm {
            work: Work {
                model: non_empty(self.model).unwrap_or_else(|| default_name().to_owned()),
                language: self.language.flatten(),
                usual_language: None,
                diarize: self.diarize.unwrap_or(true),
                speakers: self.speakers.unwrap_or(0),
                channels: self.channels.unwrap_or_default(),
                translate: self.translate.unwrap_or(false),
                word_timestamps: self.word_timestamps.unwrap_or(true),
                vad: self.vad.unwrap_or_default(),
                prompt: non_empty(self.prompt),
                hotwords: non_empty(self.hotwords),
                temperature: None,
                identify: self.identify.unwrap_or(false),
                known: Vec::new(),
                budget: hark_media::Budget::default(),
            },
            layout: self.format.unwrap_or_default(),
            webhook_url: non_empty(self.webhook_url),
        })
    }
}

pub(crate) fn put<T>(place: &mut Option<T>, name: &str, value: T) -> Result<(), Failure> {
    refuse_second(place.is_some(), name)?;
    *place = Some(value);
    Ok(())
}

pub(crate) fn boolean(name: &str, text: &str) -> Result<bool, Failure> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err(Failure::invalid(format!("`{name}` is {text:?}: give true or false"))),
    }
}

fn speakers(text: &str) -> Result<u32, Failure> {
    let count = text.parse().ok().filter(|count| *count <= MAX_SPEAKERS);
    count.ok_or_else(|| Failure::invalid(format!("`speakers` is {text:?}: give a number from 0 to {MAX_SPEAKERS}")))
}

fn vad(text: &str) -> Result<VoiceActivity, Failure> {
    text.parse().map_err(|what| Failure::invalid(format!("`vad` is {text:?}: {what}")))
}

/// As [`language`]; a recording, unlike a live session, may also have several.
fn recording_language(text: &str) -> Result<Option<String>, Failure> {
    if text == MULTI { Ok(Some(MULTI.to_owned())) } else { language(text) }
}

fn channels(text: &str) -> Result<Channels, Failure> {
    text.parse().map_err(|problem| Failure::invalid(format!("`channels`: {problem}")))
}

fn format(text: &str) -> Result<ResponseFormat, Failure> {
    match text {
        "json" => Ok(ResponseFormat::Json),
        "txt" => Ok(ResponseFormat::Txt),
        "srt" => Ok(ResponseFormat::Srt),
        "vtt" => Ok(ResponseFormat::Vtt),
        _ => Err(Failure::invalid(format!("`response_format` is {text:?}: give json, txt, srt or vtt"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(pairs: &[(&str, &str)]) -> Result<ParsedForm<ResponseFormat>, String> {
        let mut fields = Fields::default();
        for (name, value) in pairs {
            let done = fields.set(name, (*value).to_owned(), &Config::default());
            done.map_err(|failure| failure.error.to_string())?;
        }
        fields.parsed().map_err(|failure| failure.error.to_string())
    }

    #[test]
    fn an_empty_form_means_the_defaults_of_the_contract() {
        let form = set(&[]).unwrap();
        assert_eq!(form.work.model, "large-v3-turbo");
        assert_eq!(form.layout, ResponseFormat::Json);
        assert!(form.work.diarize && form.work.word_timestamps && !form.work.translate);
        assert!(!form.work.identify, "nobody is named unless that is asked for");
        assert_eq!((form.work.language, form.work.speakers), (None, 0));
        assert_eq!(form.work.vad, VoiceActivity::Gentle);
        assert_eq!(set(&[("vad", "off")]).unwrap().work.vad, VoiceActivity::Off);
    }

    #[test]
    fn values_that_make_no_sense_are_refused_by_name() {
        for (name, value) in [
            ("diarize", "maybe"),
            ("speakers", "-1"),
            ("speakers", "101"),
            ("identify", "who"),
            ("channels", "stereo"),
            ("language", "klingon"),
            ("vad", "loud"),
            ("response_format", "pdf"),
            ("webhook_url", "http://example.com"),
        ] {
            let error = set(&[(name, value)]).unwrap_err();
            assert!(error.contains(&format!("`{name}`")), "{error}");
        }
    }

    #[test]
    fn a_field_that_comes_twice_is_refused_and_an_unknown_one_is_not() {
        assert!(set(&[("model", "small"), ("model", "small")]).is_err());
        assert!(set(&[("colour", "red"), ("colour", "red")]).is_ok());
    }
}
