//! How the two ends of a session talk: as the contract says, or as OpenAI's Realtime clients do.

use bytes::Bytes;
use hark_api::{ApiError, TranscriptionResult};
use hark_speech::live::LiveText;
use hark_store::TranscriptId;

use super::message::{self, Action};
use super::realtime::Realtime;
use crate::error::Failure;

/// The language of a session's messages.
pub(crate) enum Dialect {
    /// The contract's.
    Own,
    /// OpenAI's Realtime transcription.
    Realtime(Box<Realtime>),
}

/// What a text message of the client means.
pub(crate) enum ClientMessage {
    /// Sound: 16-bit samples, 16 kHz.
    Sound(Bytes),
    /// Finish what was said.
    Flush,
    /// That was all.
    Stop,
    /// Nothing but an answer.
    Answer(String),
}

impl Dialect {
    /// The session takes sound.
    pub(crate) fn ready(&self, id: &str, received: Option<f64>) -> Option<String> {
        match self {
            Dialect::Own => Some(message::ready(id, received)),
            Dialect::Realtime(_) => None,
        }
    }

    /// Whether a client can come back to a session.
    pub(crate) fn can_resume(&self) -> bool {
        matches!(self, Dialect::Own)
    }

    pub(crate) fn read(&mut self, text: &str) -> Result<ClientMessage, Failure> {
        match self {
            Dialect::Own => message::parse_action(text).map(|action| match action {
                Action::Flush => ClientMessage::Flush,
                Action::Stop => ClientMessage::Stop,
            }),
            Dialect::Realtime(realtime) => Ok(realtime.read(text)),
        }
    }

    /// A partial that replaces the one before, or events that must arrive.
    pub(crate) fn partial(&mut self, text: &str, start: f64) -> Result<String, Vec<String>> {
        match self {
            Dialect::Own => Ok(message::partial(text)),
            Dialect::Realtime(realtime) => Err(realtime.partial(text, start)),
        }
    }

    pub(crate) fn text(&mut self, text: &LiveText) -> Vec<String> {
        match self {
            Dialect::Own => vec![message::text(text)],
            Dialect::Realtime(realtime) => realtime.text(text),
        }
    }

    pub(crate) fn last(&mut self, result: &TranscriptionResult, transcript: Option<TranscriptId>) -> Vec<String> {
        match self {
            Dialect::Own => vec![message::last(result, transcript)],
            Dialect::Realtime(realtime) => realtime.complete(result.duration),
        }
    }

    pub(crate) fn error(&self, error: &ApiError) -> String {
        match self {
            Dialect::Own => message::error(error),
            Dialect::Realtime(_) => Realtime::error(error, None),
        }
    }
}
