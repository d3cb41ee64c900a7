//! A live session on a server: audio goes up as it is captured, words come down.

use std::time::Duration;

use futures_util::stream::SplitSink;
use futures_util::{SinkExt as _, StreamExt as _};
use hark_api::{Segment, TranscriptionResult, Word};
use reqwest::{Response, StatusCode, Upgraded, header};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{interval, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_tungstenite::tungstenite::{Error, Message};

use super::input::{AudioBlock, AudioInput};
use super::screen::{self, Screen};
use crate::CliError;
use crate::cli::{LiveArgs, Task};
use crate::config::Config;
use crate::remote::Client;
use crate::transcribe::noticed;

/// Limit for connecting to the server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
/// Limit for the server to get ready: it may have to load its model first.
const READY_TIMEOUT: Duration = Duration::from_secs(120);
/// How long the server may take to finish after the audio has ended.
const FINISH_TIMEOUT: Duration = Duration::from_secs(180);
/// How often the input is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Bytes of a message, as the contract recommends.
const FRAME_BYTES: usize = 2730;
/// Messages that may wait for the connection before the source must wait, too.
const AHEAD: usize = 16;

/// Bytes of an error response that are read.
const MAX_ERROR_BYTES: usize = 64 << 10;

type Socket = WebSocketStream<Upgraded>;

/// A message of the server.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ServerMessage {
    status: Option<String>,
    partial: Option<String>,
    text: Option<String>,
    start: f64,
    end: f64,
    words: Vec<Word>,
    language: String,
    speaker: Option<String>,
    is_final: bool,
    duration: f64,
    /// Who said what, where that was asked for, in the last message.
    segments: Vec<SpeakerTurn>,
    error: Option<String>,
}

/// A stretch of one speaker, as the last message has it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SpeakerTurn {
    start: f64,
    end: f64,
    text: String,
    speaker: Option<String>,
}

/// The transcript so far.
#[derive(Debug, Default)]
struct Transcript {
    segments: Vec<Segment>,
    goes_on: bool,
}

/// Streams the input to the server until the input or the user ends it; returns the transcript and the error that ended it, if any.
pub(super) fn listen(
    client: &Client,
    args: &LiveArgs,
    config: &Config,
    input: &AudioInput,
    screen: &mut Screen,
) -> Result<(TranscriptionResult, Option<String>), CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| CliError::Failed(format!("cannot start: {error}")))?;
    runtime.block_on(async {
        let mut socket = connect(client).await?;
        configure(&mut socket, args, config).await?;
        stream_audio(socket, args, input, screen).await
    })
}

fn failed(error: impl std::fmt::Display) -> CliError {
    CliError::Failed(format!("the server can't be reached: {error}"))
}

/// Opens the WebSocket by an HTTP upgrade, so that proxies and certificates hold as for every other request.
async fn connect(client: &Client) -> Result<Socket, CliError> {
    let http = hark_http::builder().build().map_err(unreachable)?;
    let key = generate_key();
    let mut request = http
        .get(client.url("/v1/stream"))
        .header(header::CONNECTION, "Upgrade")
        .header(header::UPGRADE, "websocket")
        .header(header::SEC_WEBSOCKET_VERSION, "13")
        .header(header::SEC_WEBSOCKET_KEY, &key);
    if let Some(credential) = client.credential() {
        request = request.header(header::AUTHORIZATION, credential);
    }
    let open = async {
        let response = request.send().await.map_err(unreachable)?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Err(refused(response).await);
        }
        let accept = response.headers().get(header::SEC_WEBSOCKET_ACCEPT);
        if accept.map(|accept| accept.as_bytes()) != Some(derive_accept_key(key.as_bytes()).as_bytes()) {
            return Err(failed("what answers there does not speak WebSocket"));
        }
        let stream = response.upgrade().await.map_err(unreachable)?;
        Ok(WebSocketStream::from_raw_socket(stream, Role::Client, None).await)
    };
    timeout(CONNECT_TIMEOUT, open).await.map_err(|_| failed("it does not answer"))?
}

/// An error of the HTTP client, without the address in it.
fn unreachable(error: reqwest::Error) -> CliError {
    failed(hark_http::Error::from(error))
}

/// Why the server answered with anything but an upgrade.
async fn refused(mut response: Response) -> CliError {
    let status = response.status();
    let mut body = Vec::new();
    while let Ok(Some(piece)) = response.chunk().await {
        body.extend_from_slice(&piece);
        if body.len() > MAX_ERROR_BYTES {
            break;
        }
    }
    let message: ServerMessage = serde_json::from_slice(&body).unwrap_or_default();
    let why = message.error.unwrap_or_else(|| format!("the server answered {status}"));
    let hint = if status == StatusCode::UNAUTHORIZED { " (--key or HARK_KEY)" } else { "" };
    CliError::Failed(format!("{why}{hint}"))
}

/// Sends the session settings and waits until the server is ready.
async fn configure(socket: &mut Socket, args: &LiveArgs, config: &Config) -> Result<(), CliError> {
    let mut settings = json!({
        "language": args.speech.language.as_ref().or(config.language.as_ref()),
        "model": args.speech.model,
        "prompt": args.speech.prompt,
        "hotwords": args.speech.hotwords,
        "task": match args.speech.task {
            Task::Transcribe => "transcribe",
            Task::Translate => "translate",
        },
        "diarize": args.speakers.then_some(true),
    });
    if let Some(fields) = settings.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    socket.send(Message::Text(settings.to_string().into())).await.map_err(failed)?;
    let ready = timeout(READY_TIMEOUT, async {
        loop {
            match read(socket.next().await)? {
                Some(ServerMessage { error: Some(problem), .. }) => return Err(CliError::Failed(problem)),
                Some(message) if message.status.as_deref() == Some("ready") => return Ok(()),
                _ => {}
            }
        }
    });
    ready.await.map_err(|_| failed("it does not get ready"))?
}

/// Parses a message of the server; none for frames without one.
fn read(incoming: Option<Result<Message, Error>>) -> Result<Option<ServerMessage>, CliError> {
    match incoming {
        Some(Ok(Message::Text(text))) => serde_json::from_str(&text).map(Some).map_err(failed),
        Some(Ok(Message::Close(_))) | None => Err(failed("it closed the connection")),
        Some(Ok(_)) => Ok(None),
        Some(Err(error)) => Err(failed(error)),
    }
}

async fn stream_audio(
    socket: Socket,
    args: &LiveArgs,
    input: &AudioInput,
    screen: &mut Screen,
) -> Result<(TranscriptionResult, Option<String>), CliError> {
    let (sink, mut stream) = socket.split();
    // Sending blocks while the server is behind; its messages must be read all the same.
    let (sound, to_send) = mpsc::channel(AHEAD);
    let sender = tokio::spawn(send(sink, to_send));
    let mut sound = Some(sound);
    let mut transcript = Transcript::default();
    let mut broken = None;
    let mut poll = interval(POLL_INTERVAL);
    let mut ended = None;
    loop {
        let incoming = tokio::select! {
            incoming = stream.next() => incoming,
            _ = poll.tick() => {
                if ended.is_some_and(|ended: tokio::time::Instant| ended.elapsed() > FINISH_TIMEOUT) {
                    broken = Some("the server did not finish in time".to_owned());
                    break;
                }
                let is_over = match &sound {
                    Some(sound) => forward_audio(input, sound, &mut broken),
                    None => false,
                };
                if is_over {
                    // The sender sends the stop message once its channel is closed.
                    sound = None;
                    ended = Some(tokio::time::Instant::now());
                }
                continue;
            }
        };
        let message = match read(incoming) {
            Ok(Some(message)) => message,
            Ok(None) => continue,
            Err(error) => {
                // The transcript up to here is written all the same.
                broken = Some(error.to_string());
                break;
            }
        };
        if let Some(problem) = message.error {
            broken = Some(problem);
        } else if message.is_final {
            screen.end_line()?;
            sender.abort();
            transcript.replace_segments(message.segments);
            return Ok((transcript.result(message.language, message.duration, args), broken));
        } else if let Some(partial) = message.partial {
            screen.partial(&partial)?;
        } else if let Some(text) = &message.text {
            screen.text(&screen::FinalText {
                text,
                times: (message.start, message.end),
                speaker: message.speaker.as_deref(),
            })?;
            transcript.add(message);
        }
    }
    sender.abort();
    screen.end_line()?;
    Ok((transcript.result(String::new(), 0.0, args), broken))
}

/// Forwards the samples that the input has; true when it has ended.
fn forward_audio(input: &AudioInput, sound: &mpsc::Sender<Vec<u8>>, broken: &mut Option<String>) -> bool {
    loop {
        if noticed().is_some() {
            return true;
        }
        let Ok(place) = sound.try_reserve() else { return sound.is_closed() };
        match input.try_next() {
            AudioBlock::Samples(samples) => {
                let sample = |sample: &f32| ((sample.clamp(-1.0, 1.0) * 32_767.0) as i16).to_le_bytes();
                place.send(samples.iter().flat_map(sample).collect());
            }
            AudioBlock::Pending => return false,
            AudioBlock::End => return true,
            AudioBlock::Failed(problem) => {
                *broken = Some(problem);
                return true;
            }
        }
    }
}

/// Sends audio as it arrives, and a stop message at its end.
async fn send(mut sink: SplitSink<Socket, Message>, mut sound: mpsc::Receiver<Vec<u8>>) {
    while let Some(bytes) = sound.recv().await {
        for frame in bytes.chunks(FRAME_BYTES) {
            if sink.send(Message::Binary(frame.to_vec().into())).await.is_err() {
                return;
            }
        }
    }
    // A server that is gone is noticed where it is read from.
    let _ = sink.send(Message::Text(json!({"action": "stop"}).to_string().into())).await;
}

impl Transcript {
    /// Texts join to segments that end where a sentence does.
    fn add(&mut self, message: ServerMessage) {
        let text = message.text.unwrap_or_default();
        let ends = text.trim_end().ends_with(['.', '!', '?', '…', '。', '！', '？']);
        let goes_on = |segment: &&mut Segment| self.goes_on && segment.speaker == message.speaker;
        match self.segments.last_mut().filter(goes_on) {
            Some(segment) => {
                segment.text.push(' ');
                segment.text.push_str(&text);
                segment.end = message.end;
                segment.words.extend(message.words);
            }
            None => self.segments.push(Segment {
                start: message.start,
                end: message.end,
                text,
                words: message.words,
                speaker: message.speaker,
                ..Segment::default()
            }),
        }
        self.goes_on = !ends;
    }

    /// Replaces the segments by the speaker turns of the last message, which are more accurate; words keep their times.
    fn replace_segments(&mut self, turns: Vec<SpeakerTurn>) {
        if turns.is_empty() {
            return;
        }
        let words: Vec<Word> = self.segments.drain(..).flat_map(|segment| segment.words).collect();
        let is_within =
            |word: &&Word, turn: &SpeakerTurn| (turn.start..=turn.end).contains(&((word.start + word.end) / 2.0));
        self.segments = turns
            .into_iter()
            .map(|turn| Segment {
                start: turn.start,
                end: turn.end,
                words: words.iter().filter(|word| is_within(word, &turn)).cloned().collect(),
                text: turn.text,
                speaker: turn.speaker,
                ..Segment::default()
            })
            .collect();
    }

    fn result(self, language: String, duration: f64, args: &LiveArgs) -> TranscriptionResult {
        let mut segments = self.segments;
        for segment in &mut segments {
            let sum: f32 = segment.words.iter().map(|word| word.confidence).sum();
            segment.confidence = sum / segment.words.len().max(1) as f32;
        }
        let mut speakers: Vec<String> = Vec::new();
        for speaker in segments.iter().filter_map(|segment| segment.speaker.as_ref()) {
            if !speakers.contains(speaker) {
                speakers.push(speaker.clone());
            }
        }
        TranscriptionResult {
            text: segments.iter().map(|segment| segment.text.as_str()).collect::<Vec<_>>().join(" "),
            language,
            duration: duration.max(segments.last().map_or(0.0, |segment| segment.end)),
            segments,
            speakers,
            model: args.speech.model.clone().unwrap_or_else(|| "the server's model".to_owned()),
            warnings: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_join_until_a_sentence_ends() {
        let message = |text: &str, start: f64, end: f64| ServerMessage {
            text: Some(text.to_owned()),
            start,
            end,
            words: vec![Word { word: text.to_owned(), start, end, confidence: 0.5 }],
            ..ServerMessage::default()
        };
        let mut transcript = Transcript::default();
        transcript.add(message("Good morning", 0.0, 1.0));
        transcript.add(message("everybody.", 1.0, 1.5));
        transcript.add(message("Let us begin", 3.0, 4.0));
        let segments = &transcript.segments;
        assert_eq!(segments.len(), 2);
        assert_eq!((segments[0].text.as_str(), segments[0].end), ("Good morning everybody.", 1.5));
        assert_eq!((segments[1].start, segments[0].words.len()), (3.0, 2));
    }

    #[test]
    fn the_last_message_says_who_said_what_and_words_keep_their_times() {
        let word = |text: &str, start: f64| Word { word: text.to_owned(), start, end: start + 0.4, confidence: 0.5 };
        let mut transcript = Transcript::default();
        transcript.add(ServerMessage {
            text: Some("Yes. No.".to_owned()),
            end: 1.4,
            words: vec![word("Yes.", 0.0), word("No.", 1.0)],
            speaker: Some("SPEAKER_00".to_owned()),
            ..ServerMessage::default()
        });
        let turn = |text: &str, start: f64, speaker: &str| SpeakerTurn {
            start,
            end: start + 0.4,
            text: text.to_owned(),
            speaker: Some(speaker.to_owned()),
        };
        transcript.replace_segments(vec![turn("Yes.", 0.0, "SPEAKER_00"), turn("No.", 1.0, "SPEAKER_01")]);
        assert_eq!(transcript.segments.len(), 2);
        let second = &transcript.segments[1];
        assert_eq!((second.speaker.as_deref(), second.words.len()), (Some("SPEAKER_01"), 1));
        assert_eq!(second.words[0].word, "No.");
    }
}
