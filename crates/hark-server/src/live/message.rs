//! What the two ends say to each other (contract, section 6, and the streaming decisions).

use hark_api::{ApiError, TranscriptionResult, Word};
use hark_media::SAMPLE_RATE;
use hark_speech::live::LiveText;
use hark_store::TranscriptId;
use serde::{Deserialize, Serialize};

use crate::engine::Work;
use crate::error::Failure;
use crate::options::{language, words};

/// The largest text message.
pub(crate) const MOST_TEXT: usize = 64 << 10;

/// The config message, whose fields may also stand in the query of the address.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Hello {
    pub(crate) language: Option<String>,
    pub(crate) model: Option<String>,
    /// The credential, where no header can carry it.
    pub(crate) token: Option<String>,
    /// `transcribe` or `translate`.
    task: Option<String>,
    translate: Option<bool>,
    prompt: Option<String>,
    hotwords: Option<String>,
    /// Whether each text says who speaks.
    diarize: Option<bool>,
    sample_rate: Option<u32>,
    /// The session to go on with.
    pub(crate) session_id: Option<String>,
    /// Only to tell a config message from an action that came too early.
    action: Option<serde_json::Value>,
}

impl Hello {
    /// What the address says, overridden by what the config message says; but of two credentials the address's counts, which is
    /// nearer to the header (decisions: streaming).
    pub(crate) fn or(self, query: Hello) -> Hello {
        Hello {
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

    /// What is wanted of the engine; its model is the name that was asked for until it is resolved.
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
        let said = |name: &str, text: &Option<String>| match text.as_deref().map(str::trim) {
            None | Some("") => Ok(None),
            Some(text) => words(name, text).map(Some),
        };
        let model = self.model.as_deref().map(str::trim).filter(|model| !model.is_empty());
        Ok(Work {
            model: model.unwrap_or(hark_models::default_name()).to_owned(),
            language: language(self.language.as_deref().unwrap_or("").trim())?,
            diarize: self.diarize.unwrap_or(false),
            translate,
            prompt: said("prompt", &self.prompt)?,
            hotwords: said("hotwords", &self.hotwords)?,
            ..Work::default()
        })
    }
}

/// Reads the config message.
pub(crate) fn parse_hello(text: &str) -> Result<Hello, Failure> {
    if text.len() > MOST_TEXT {
        return Err(too_long());
    }
    // An object: a list of values would be read by the order of the fields.
    let hello: Hello = serde_json::from_str::<serde_json::Map<_, _>>(text)
        .and_then(|fields| serde_json::from_value(fields.into()))
        .map_err(|error| Failure::invalid(format!("the config message is not what it should be: {error}")))?;
    if hello.action.is_some() {
        return Err(Failure::invalid("an action came before the config message: send language and model first"));
    }
    Ok(hello)
}

/// What a client may ask for while it speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// Finish what was said; more will come.
    Flush,
    /// That was all.
    Stop,
}

/// Reads a text message behind the config message.
pub(crate) fn parse_action(text: &str) -> Result<Action, Failure> {
    #[derive(Deserialize)]
    struct Asked {
        action: String,
    }
    const HELP: &str = "send {\"action\": \"flush\"}, {\"action\": \"stop\"} or sound in binary messages";
    if text.len() > MOST_TEXT {
        return Err(too_long());
    }
    let asked: Asked =
        serde_json::from_str(text).map_err(|_| Failure::invalid(format!("this message means nothing here: {HELP}")))?;
    match asked.action.as_str() {
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
        /// Who said what, now that all of it was heard; only where speakers are told apart.
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
    // Strings and numbers: nothing of it can fail to be written.
    serde_json::to_string(message).unwrap_or_default()
}

/// The session takes sound. For one that is gone on with, `received` is the seconds of sound that it has.
pub(crate) fn ready(session_id: &str, received: Option<f64>) -> String {
    to_json(&ServerMessage::Ready { status: "ready", session_id, resumed: received.map(|_| true), received })
}

/// The text behind the last one that stays, as it stands now.
pub(crate) fn partial(text: &str) -> String {
    to_json(&ServerMessage::Partial { partial: text })
}

/// A text that stays.
pub(crate) fn text(text: &LiveText) -> String {
    let LiveText { text, start, end, words, language, confidence, speaker, .. } = text;
    let speaker = speaker.as_deref();
    to_json(&ServerMessage::Text { text, start: *start, end: *end, words, language, confidence: *confidence, speaker })
}

/// Everything, once, last.
pub(crate) fn last(result: &TranscriptionResult, transcript: Option<TranscriptId>) -> String {
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

/// Why it ends.
pub(crate) fn error(error: &ApiError) -> String {
    serde_json::to_string(&error.body()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_config_message_overrides_the_address_and_the_rest_is_the_default() {
        let query = Hello { language: Some("de".into()), model: Some("small".into()), ..Hello::default() };
        let hello = parse_hello(r#"{"language": "es", "task": "translate", "later": 1}"#).unwrap().or(query);
        let work = hello.work().unwrap();
        assert_eq!((work.language.as_deref(), work.model.as_str(), work.translate), (Some("es"), "small", true));
        let work = parse_hello("{}").unwrap().work().unwrap();
        assert_eq!((work.language, work.model.as_str(), work.translate), (None, "large-v3-turbo", false));
    }

    #[test]
    fn a_config_message_that_makes_no_sense_is_refused() {
        for wrong in ["", "[]", "17", r#"{"language": 3}"#, r#"{"action": "stop"}"#] {
            assert!(parse_hello(wrong).is_err(), "{wrong}");
        }
        assert!(parse_hello(&format!("{{\"prompt\": \"{}\"}}", "a".repeat(MOST_TEXT))).is_err());
        for wrong in [r#"{"language": "klingon"}"#, r#"{"task": "sing"}"#, r#"{"sample_rate": 44100}"#] {
            assert!(parse_hello(wrong).unwrap().work().is_err(), "{wrong}");
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
