//! The message protocol of a session: Hark's own, or that of OpenAI's Realtime clients.

use bytes::Bytes;
use hark_api::{ApiError, TranscriptionResult};
use hark_speech::live::LiveText;
use hark_store::TranscriptId;

use super::message::{self, Action};
use super::realtime::Realtime;
use crate::error::Failure;

/// The protocol of a session's messages.
pub(crate) enum Protocol {
    /// Hark's own (contract, section 6).
    Native,
    /// OpenAI's Realtime transcription.
    Realtime(Box<Realtime>),
}

/// A decoded message of the client.
pub(crate) enum ClientMessage {
    /// Audio: 16-bit samples, 16 kHz.
    Audio(Bytes),
    /// Finalize the text so far.
    Flush,
    /// End the session.
    Stop,
    /// Only this reply is due.
    Reply(String),
}

impl Protocol {
    /// The message that the session accepts audio.
    pub(crate) fn ready(&self, id: &str, received: Option<f64>) -> Option<String> {
        match self {
            Protocol::Native => Some(message::ready(id, received)),
            Protocol::Realtime(_) => None,
        }
    }

    /// Whether a client can resume a session.
    pub(crate) fn can_resume(&self) -> bool {
        matches!(self, Protocol::Native)
    }

    pub(crate) fn read(&mut self, text: &str) -> Result<ClientMessage, Failure> {
        match self {
            Protocol::Native => message::parse_action(text).map(|action| match action {
                Action::Flush => ClientMessage::Flush,
                Action::Stop => ClientMessage::Stop,
            }),
            Protocol::Realtime(realtime) => Ok(realtime.read(text)),
        }
    }

    /// `Ok` is a partial that replaces the previous one, `Err` are events that must be delivered.
    pub(crate) fn partial(&mut self, text: &str, start: f64) -> Result<String, Vec<String>> {
        match self {
            Protocol::Native => Ok(message::partial(text)),
            Protocol::Realtime(realtime) => Err(realtime.partial(text, start)),
        }
    }

    pub(crate) fn text(&mut self, text: &LiveText) -> Vec<String> {
        match self {
            Protocol::Native => vec![message::text(text)],
            Protocol::Realtime(realtime) => realtime.text(text),
        }
    }

    pub(crate) fn final_result(
        &mut self,
        result: &TranscriptionResult,
        transcript: Option<TranscriptId>,
    ) -> Vec<String> {
        match self {
            Protocol::Native => vec![message::final_result(result, transcript)],
            Protocol::Realtime(realtime) => realtime.complete(result.duration),
        }
    }

    pub(crate) fn error(&self, error: &ApiError) -> String {
        match self {
            Protocol::Native => message::error(error),
            Protocol::Realtime(_) => Realtime::error(error, None),
        }
    }
}
