//! Messages of the streaming protocol (contract, section 6, and the streaming decisions).

use hark_api::{ApiError, TranscriptionResult, Word};
use hark_media::SAMPLE_RATE;
use hark_speech::live::LiveText;
use hark_store::TranscriptId;
use serde::{Deserialize, Serialize};

use crate::engine::Work;
use crate::error::Failure;
use crate::options::{language, words};

/// The largest text message.
pub(crate) const MAX_TEXT_BYTES: usize = 64 << 10;

/// The config message, whose fields may also be query parameters.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct SessionConfig {
    pub(crate) language: Option<String>,
    pub(crate) model: Option<String>,
    /// The credential, where no header can carry it.
    pub(crate) token: Option<String>,
    /// `transcribe` or `translate`.
    task: Option<String>,
    translate: Option<bool>,
    prompt: Option<String>,
    hotwords: Option<String>,
    /// Whether texts have speaker labels.
    diarize: Option<bool>,
    sample_rate: Option<u32>,
    /// The session to resume.
    pub(crate) session_id: Option<String>,
    /// Only to detect an action that was sent before the config message.
    action: Option<serde_json::Value>,
}

impl SessionConfig {
    /// Merges the config message over the query parameters; of two credentials the one in the query takes precedence
    /// (decisions: streaming).
    pub(crate) fn or(self, query: SessionConfig) -> SessionConfig {
        SessionConfig {
            language: self.language.or(query.language),
            model: self.model.or(query.model),
            token: query.token.or(self.token),
            task: self.task.or(query.task),
            translate: self.translate.or(query.translate),
            prompt: self.prompt.or(query.prompt),
            hotwords: self.hotwords.or(query.hotwords),
            diarize: self.diarize.or(query.diarize),
            sample_rate: self.sample_rate.or(query.sample_rate),
            session_id: self.session_id.or(query.session_id),
            action: None,
        }
    }

    /// The work for the engine; its model is the requested name until it is resolved.
    pub(crate) fn work(&self) -> Result<Work, Failure> {
        if let Some(rate) = self.sample_rate.filter(|rate| *rate != SAMPLE_RATE) {
            let message = format!("`sample_rate` is {rate}: send 16-bit samples at {SAMPLE_RATE} Hz, one channel");
            return Err(Failure::invalid(message));
        }
        let translate = match self.task.as_deref() {
            None => self.translate.unwrap_or(false),
            Some("transcribe") => false,
            Some("translate") => true,
            Some(other) => {
                return Err(Failure::invalid(format!("`task` is {other:?}: give transcribe or translate")));
            }
        };
        let checked = |name: &str, text: &Option<String>| match text.as_deref().map(str::trim) {
            None | Some("") => Ok(None),
            Some(text) => words(name, text).map(Some),
        };
        let model = self.model.as_deref().map(str::trim).filter(|model| !model.is_empty());
        Ok(Work {
            model: model.unwrap_or(hark_models::default_name()).to_owned(),
            language: language(self.language.as_deref().unwrap_or("").trim())?,
            diarize: self.diarize.unwrap_or(false),
            translate,
            prompt: checked("prompt", &self.prompt)?,
            hotwords: checked("hotwords", &self.hotwords)?,
            ..Work::default()
        })
    }
}

/// Reads the config message.
pub(crate) fn parse_config(text: &str) -> Result<SessionConfig, Failure> {
    if text.len() > MAX_TEXT_BYTES {
        return Err(too_long());
    }
    // An object: a list of values would be read by the order of the fields.
    let config: SessionConfig = serde_json::from_str::<serde_json::Map<_, _>>(text)
        .and_then(|fields| serde_json::from_value(fields.into()))
        .map_err(|error| Failure::invalid(format!("the config message is not what it should be: {error}")))?;
    if config.action.is_some() {
        return Err(Failure::invalid("an action came before the config message: send language and model first"));
    }
    Ok(config)
}

/// An action of the client during a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// Finalize the text so far; more audio follows.
    Flush,
    /// End the session.
    Stop,
}

/// Reads a text message after the config message.
pub(crate) fn parse_action(text: &str) -> Result<Action, Failure> {
    #[derive(Deserialize)]
    struct ActionMessage {
        action: String,
    }
    const HELP: &str = "send {\"action\": \"flush\"}, {\"action\": \"stop\"} or sound in binary messages";
    if text.len() > MAX_TEXT_BYTES {
        return Err(too_long());
    }
    let message: ActionMessage =
        serde_json::from_str(text).map_err(|_| Failure::invalid(format!("this message means nothing here: {HELP}")))?;
    match message.action.as_str() {
        "flush" => Ok(Action::Flush),
        "stop" => Ok(Action::Stop),
        other => Err(Failure::invalid(format!("there is no action {other:?}: {HELP}"))),
    }
}

fn too_long() -> Failure {
    Failure::invalid("the message is too long: a text message may have 64 KB")
}

#[derive(Serialize)]
#[serde(untagged)]
enum ServerMessage<'a> {
    Ready {
        status: &'static str,
        session_id: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        resumed: Option<bool>,
        #[serde(skip_serializing_if = "Option::is_none")]
        received: Option<f64>,
    },
    Partial {
        partial: &'a str,
    },
    Text {
        text: &'a str,
        start: f64,
        end: f64,
        words: &'a [Word],
        language: &'a str,
        confidence: f32,
        #[serde(skip_serializing_if = "Option::is_none")]
        speaker: Option<&'a str>,
    },
    Final {
        is_final: bool,
        text: &'a str,
        duration: f64,
        language: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        transcript_id: Option<i64>,
        /// The segments with the speakers of the final diarization; only with diarization.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        segments: Vec<SegmentView<'a>>,
    },
}

#[derive(Serialize)]
struct SegmentView<'a> {
    start: f64,
    end: f64,
    text: &'a str,
    speaker: Option<&'a str>,
}

fn to_json(message: &ServerMessage<'_>) -> String {
    // Strings and numbers always serialize.
    serde_json::to_string(message).unwrap_or_default()
}

/// The session accepts audio. For a resumed one, `received` is the seconds of audio that it already has.
pub(crate) fn ready(session_id: &str, received: Option<f64>) -> String {
    to_json(&ServerMessage::Ready { status: "ready", session_id, resumed: received.map(|_| true), received })
}

/// The current hypothesis after the last final text.
pub(crate) fn partial(text: &str) -> String {
    to_json(&ServerMessage::Partial { partial: text })
}

/// A final text.
pub(crate) fn text(text: &LiveText) -> String {
    let LiveText { text, start, end, words, language, confidence, speaker, .. } = text;
    let speaker = speaker.as_deref();
    to_json(&ServerMessage::Text { text, start: *start, end: *end, words, language, confidence: *confidence, speaker })
}

/// The result of the whole session.
pub(crate) fn final_result(result: &TranscriptionResult, transcript: Option<TranscriptId>) -> String {
    let TranscriptionResult { text, duration, language, .. } = result;
    let transcript_id = transcript.map(|id| id.0);
    let segments = result.segments.iter().filter(|_| !result.speakers.is_empty());
    let segments = segments.map(|segment| SegmentView {
        start: segment.start,
        end: segment.end,
        text: &segment.text,
        speaker: segment.speaker.as_deref(),
    });
    let segments = segments.collect();
    to_json(&ServerMessage::Final { is_final: true, text, duration: *duration, language, transcript_id, segments })
}

/// The error that ends the session.
pub(crate) fn error(error: &ApiError) -> String {
    serde_json::to_string(&error.body()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_config_message_overrides_the_query_and_the_rest_is_the_default() {
        let query =
            SessionConfig { language: Some("de".into()), model: Some("small".into()), ..SessionConfig::default() };
        let config = parse_config(r#"{"language": "es", "task": "translate", "later": 1}"#).unwrap().or(query);
        let work = config.work().unwrap();
        assert_eq!((work.language.as_deref(), work.model.as_str(), work.translate), (Some("es"), "small", true));
        let work = parse_config("{}").unwrap().work().unwrap();
        assert_eq!((work.language, work.model.as_str(), work.translate), (None, "large-v3-turbo", false));
    }

    #[test]
    fn an_invalid_config_message_is_refused() {
        for wrong in ["", "[]", "17", r#"{"language": 3}"#, r#"{"action": "stop"}"#] {
            assert!(parse_config(wrong).is_err(), "{wrong}");
        }
        assert!(parse_config(&format!("{{\"prompt\": \"{}\"}}", "a".repeat(MAX_TEXT_BYTES))).is_err());
        for wrong in [r#"{"language": "klingon"}"#, r#"{"task": "sing"}"#, r#"{"sample_rate": 44100}"#] {
            assert!(parse_config(wrong).unwrap().work().is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_two_actions_are_known() {
        assert_eq!(parse_action(r#"{"action": "stop"}"#).unwrap(), Action::Stop);
        assert_eq!(parse_action(r#"{"action": "flush", "more": 1}"#).unwrap(), Action::Flush);
        for wrong in ["stop", r#"{"action": "jump"}"#, r#"{"language": "en"}"#, "\"stop\""] {
            assert!(parse_action(wrong).is_err(), "{wrong}");
        }
    }
}
