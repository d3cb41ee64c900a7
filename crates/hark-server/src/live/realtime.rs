//! OpenAI's Realtime transcription events (listed in `docs/users/openai.md`) over a live session.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use hark_api::ApiError;
use hark_media::{Resampler, SAMPLE_RATE};
use hark_speech::live::LiveText;
use serde_json::{Value, json};

use super::protocol::ClientMessage;
use crate::engine::Work;
use crate::error::Failure;
use crate::error::openai;
use crate::options::{language, words};
use crate::random;

/// The default sample rate of `pcm16`.
const DEFAULT_RATE: u32 = 24_000;
/// The default model.
const DEFAULT_MODEL: &str = "whisper-1";

/// The state of one Realtime session.
pub(crate) struct Realtime {
    id: String,
    /// The session object that the client set, as it is echoed.
    session: Value,
    /// Whether the client uses the beta events (`transcription_session`).
    is_beta: bool,
    encoding: Encoding,
    resampler: Option<Resampler>,
    /// The first byte of a sample whose second has not arrived.
    pending_byte: Option<u8>,
    item: Option<Item>,
    /// The id of the previous item.
    previous_item: Option<String>,
    has_audio: bool,
}

/// An utterance.
struct Item {
    id: String,
    /// Seconds from the start of the session.
    start: f64,
    transcript: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Pcm(u32),
    MuLaw,
    ALaw,
}

impl Encoding {
    fn rate(self) -> u32 {
        match self {
            Encoding::Pcm(rate) => rate,
            Encoding::MuLaw | Encoding::ALaw => 8_000,
        }
    }
}

/// The JSON of a conversation item.
fn item_json(item: &Item, status: &str) -> Value {
    let transcript = Some(&item.transcript).filter(|transcript| !transcript.is_empty());
    json!({
        "id": item.id,
        "object": "realtime.item",
        "type": "message",
        "status": status,
        "role": "user",
        "content": [{"type": "input_audio", "transcript": transcript}],
    })
}

impl Realtime {
    pub(crate) fn new(is_beta: bool) -> Self {
        Realtime {
            id: format!("sess_{}", random::id()),
            session: json!({}),
            is_beta,
            encoding: Encoding::Pcm(DEFAULT_RATE),
            resampler: None,
            pending_byte: None,
            item: None,
            previous_item: None,
            has_audio: false,
        }
    }

    /// The first event of a connection.
    pub(crate) fn created(&self) -> String {
        self.session_event("created")
    }

    /// The work for the engine by the session object.
    pub(crate) fn work(&self) -> Result<Work, Failure> {
        let (beta, ga) = (&self.session["input_audio_transcription"], &self.session["audio"]["input"]["transcription"]);
        let text = |name: &str| [beta, ga].into_iter().find_map(|of| of[name].as_str()).unwrap_or_default().trim();
        let model = match text("model") {
            "" => DEFAULT_MODEL,
            model => model,
        };
        Ok(Work {
            model: model.to_owned(),
            language: language(text("language"))?,
            prompt: Some(words("prompt", text("prompt"))?).filter(|prompt| !prompt.is_empty()),
            diarize: false,
            ..Work::default()
        })
    }

    /// Whether an event needs a session: it appends or commits audio.
    pub(crate) fn needs_session(text: &str) -> bool {
        let event: Value = serde_json::from_str(text).unwrap_or_default();
        matches!(event["type"].as_str(), Some("input_audio_buffer.append" | "input_audio_buffer.commit"))
    }

    /// Reads an event; an invalid one is answered with an error and changes nothing.
    pub(crate) fn read(&mut self, text: &str) -> ClientMessage {
        let event: Value = serde_json::from_str(text).unwrap_or_default();
        let event_id = event["event_id"].as_str();
        let invalid =
            |message: String| ClientMessage::Reply(Realtime::error(&Failure::invalid(message).error, event_id));
        match event["type"].as_str() {
            Some("session.update" | "transcription_session.update") => match self.update(&event["session"]) {
                Ok(()) => ClientMessage::Reply(self.session_event("updated")),
                Err(message) => invalid(message),
            },
            Some("input_audio_buffer.append") => match event["audio"].as_str().and_then(decode_base64) {
                Some(bytes) => {
                    self.has_audio = true;
                    ClientMessage::Audio(self.decode_audio(&bytes))
                }
                None => invalid("`audio` must be sound in base64".to_owned()),
            },
            Some("input_audio_buffer.commit") => ClientMessage::Flush,
            Some("input_audio_buffer.clear") => {
                // Audio is transcribed as it arrives: there is nothing to clear.
                ClientMessage::Reply(event_json("input_audio_buffer.cleared", json!({})))
            }
            Some(other) => invalid(format!("a transcription session knows no event {other:?}")),
            None => invalid("an event is a JSON object with a `type`".to_owned()),
        }
    }

    /// An utterance begins with its first words; an empty partial after words ends it.
    pub(crate) fn partial(&mut self, text: &str, start: f64) -> Vec<String> {
        if text.is_empty() { self.complete(start) } else { self.begin(start) }
    }

    pub(crate) fn text(&mut self, text: &LiveText) -> Vec<String> {
        let mut events = self.begin(text.start);
        if let Some(item) = &mut self.item {
            let is_first = item.transcript.is_empty();
            let delta = if is_first { text.text.clone() } else { format!(" {}", text.text) };
            item.transcript.push_str(&delta);
            let fields = json!({"item_id": item.id, "content_index": 0, "delta": delta});
            events.push(event_json("conversation.item.input_audio_transcription.delta", fields));
        }
        if text.ends_utterance {
            events.extend(self.complete(text.end));
        }
        events
    }

    /// Ends the utterance, if there is one with words.
    pub(crate) fn complete(&mut self, end: f64) -> Vec<String> {
        let Some(item) = self.item.take_if(|item| !item.transcript.is_empty()) else { return Vec::new() };
        let previous = self.previous_item.replace(item.id.clone());
        let (id, milliseconds) = (item.id.as_str(), (end * 1000.0) as u64);
        let mut events = vec![
            event_json("input_audio_buffer.speech_stopped", json!({"audio_end_ms": milliseconds, "item_id": id})),
            event_json("input_audio_buffer.committed", json!({"previous_item_id": previous, "item_id": id})),
        ];
        if !self.is_beta {
            let fields = json!({"previous_item_id": previous, "item": item_json(&item, "completed")});
            events.push(event_json("conversation.item.done", fields));
        }
        let usage = json!({"type": "duration", "seconds": (end - item.start).max(0.0)});
        let fields = json!({"item_id": id, "content_index": 0, "transcript": item.transcript, "usage": usage});
        events.push(event_json("conversation.item.input_audio_transcription.completed", fields));
        events
    }

    /// An error event, with the id of the client's event that it answers, if any.
    pub(crate) fn error(error: &ApiError, event_id: Option<&str>) -> String {
        let mut body = serde_json::to_value(openai::body(error)).unwrap_or_default()["error"].take();
        body["event_id"] = event_id.map_or(Value::Null, Value::from);
        event_json("error", json!({ "error": body }))
    }

    fn begin(&mut self, start: f64) -> Vec<String> {
        if self.item.is_some() {
            return Vec::new();
        }
        let id = format!("item_{}", &random::id()[..20]);
        let item = self.item.insert(Item { id: id.clone(), start, transcript: String::new() });
        // The item is announced before its first words.
        let what = if self.is_beta { "conversation.item.created" } else { "conversation.item.added" };
        let fields = json!({"previous_item_id": self.previous_item, "item": item_json(item, "in_progress")});
        let milliseconds = (start * 1000.0) as u64;
        vec![
            event_json("input_audio_buffer.speech_started", json!({"audio_start_ms": milliseconds, "item_id": id})),
            event_json(what, fields),
        ]
    }

    fn session_event(&self, what: &str) -> String {
        let mut session = self.session.clone();
        session["id"] = self.id.as_str().into();
        session["type"] = "transcription".into();
        let subject = if self.is_beta { "transcription_session" } else { "session" };
        event_json(&format!("{subject}.{what}"), json!({ "session": session }))
    }

    fn update(&mut self, session: &Value) -> Result<(), String> {
        if self.has_audio {
            return Err("a session can't be changed once sound has come: begin another".to_owned());
        }
        if !session.is_object() {
            return Err("`session` must be an object".to_owned());
        }
        let format = &session["audio"]["input"]["format"];
        let name = session["input_audio_format"].as_str().or(format["type"].as_str()).unwrap_or("pcm16");
        let encoding = match name {
            "pcm16" | "audio/pcm" => {
                let rate = format["rate"].as_u64().unwrap_or(u64::from(DEFAULT_RATE));
                let rate = u32::try_from(rate).ok().filter(|rate| (8_000..=192_000).contains(rate));
                Encoding::Pcm(rate.ok_or("the rate of the sound must be from 8000 to 192000")?)
            }
            "g711_ulaw" | "audio/pcmu" => Encoding::MuLaw,
            "g711_alaw" | "audio/pcma" => Encoding::ALaw,
            other => return Err(format!("{other:?} is no format of sound: pcm16, g711_ulaw or g711_alaw")),
        };
        let previous = std::mem::replace(&mut self.session, session.clone());
        if let Err(failure) = self.work() {
            self.session = previous;
            return Err(failure.error.message.into_owned());
        }
        self.encoding = encoding;
        Ok(())
    }

    /// Decodes the client's audio to 16-bit samples at 16 kHz.
    fn decode_audio(&mut self, bytes: &[u8]) -> Bytes {
        let samples: Vec<f32> = match self.encoding {
            Encoding::Pcm(_) => super::session::samples(&mut self.pending_byte, bytes),
            Encoding::MuLaw => bytes.iter().map(|&byte| mu_law(byte)).collect(),
            Encoding::ALaw => bytes.iter().map(|&byte| a_law(byte)).collect(),
        };
        let rate = self.encoding.rate();
        let resampled = if rate == SAMPLE_RATE {
            samples
        } else {
            let mut resampled = Vec::with_capacity(samples.len());
            self.resampler.get_or_insert_with(|| Resampler::new(rate)).push(&samples, &mut resampled);
            resampled
        };
        resampled.iter().flat_map(|sample| ((sample * 32_768.0) as i16).to_le_bytes()).collect()
    }
}

fn event_json(kind: &str, mut fields: Value) -> String {
    fields["type"] = kind.into();
    fields["event_id"] = format!("event_{}", &random::id()[..20]).into();
    fields.to_string()
}

/// One sample of G.711 µ-law.
fn mu_law(byte: u8) -> f32 {
    let byte = !byte;
    let magnitude = ((i32::from(byte & 0x0f) << 3) + 0x84) << ((byte >> 4) & 7);
    let sample = magnitude - 0x84;
    (if byte & 0x80 != 0 { -sample } else { sample }) as f32 / 32_768.0
}

/// One sample of G.711 A-law.
fn a_law(byte: u8) -> f32 {
    let byte = byte ^ 0x55;
    let (exponent, mantissa) = ((byte >> 4) & 7, i32::from(byte & 0x0f) << 4);
    let sample = if exponent == 0 { mantissa + 8 } else { (mantissa + 0x108) << (exponent - 1) };
    (if byte & 0x80 != 0 { sample } else { -sample }) as f32 / 32_768.0
}

/// Base64 (RFC 4648), with or without padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

fn decode_base64(text: &str) -> Option<Vec<u8>> {
    BASE64.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_decoded_and_invalid_input_is_refused() {
        for (text, bytes) in [("", ""), ("Zg==", "f"), ("Zm8=", "fo"), ("Zm9v", "foo"), ("Zm9vYg", "foob")] {
            assert_eq!(decode_base64(text).as_deref(), Some(bytes.as_bytes()), "{text}");
        }
        assert_eq!(decode_base64("+/8="), Some(vec![0xfb, 0xff]));
        for invalid in ["Z", "Zm9v Zg", "Zm-v", "Z===="] {
            assert_eq!(decode_base64(invalid), None, "{invalid}");
        }
    }

    #[test]
    fn g711_samples_have_the_right_sign_and_magnitude() {
        // ITU G.711: the largest magnitudes, and the smallest.
        assert_eq!((mu_law(0x80) * 32_768.0, mu_law(0x00) * 32_768.0, mu_law(0xff)), (32_124.0, -32_124.0, 0.0));
        assert_eq!((a_law(0xaa) * 32_768.0, a_law(0x2a) * 32_768.0), (32_256.0, -32_256.0));
        assert_eq!((a_law(0xd5) * 32_768.0, a_law(0x55) * 32_768.0), (8.0, -8.0));
    }

    #[test]
    fn beta_and_final_session_objects_are_equivalent_and_invalid_ones_change_nothing() {
        let mut realtime = Realtime::new(false);
        let ga = json!({"type": "session.update", "session": {"audio": {"input": {
            "format": {"type": "audio/pcm", "rate": 16_000}, "transcription": {"model": "base", "language": "de"}}}}});
        let ClientMessage::Reply(updated) = realtime.read(&ga.to_string()) else { panic!() };
        assert!(updated.contains("\"session.updated\""), "{updated}");
        let work = realtime.work().unwrap();
        assert_eq!((work.model.as_str(), work.language.as_deref()), ("base", Some("de")));
        assert_eq!(realtime.encoding, Encoding::Pcm(16_000));
        let invalid = json!({"type": "session.update", "session": {"input_audio_format": "mp3"}});
        let ClientMessage::Reply(error) = realtime.read(&invalid.to_string()) else { panic!() };
        assert!(error.contains("\"error\"") && realtime.work().unwrap().model == "base", "{error}");
        let beta = json!({"type": "transcription_session.update", "session": {
            "input_audio_format": "g711_ulaw", "input_audio_transcription": {"model": "small"}}});
        realtime.read(&beta.to_string());
        assert_eq!((realtime.work().unwrap().model.as_str(), realtime.encoding), ("small", Encoding::MuLaw));
    }
}
