//! A live session on a server: sound goes up as it comes, words come down.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::SplitSink;
use futures_util::{SinkExt as _, StreamExt as _};
use hark_api::{Segment, TranscriptionResult, Word};
use rustls_platform_verifier::BuilderVerifierExt as _;
use serde::Deserialize;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::{interval, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, crypto};
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::handshake::client::Request;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

use super::ear::{Ear, Heard};
use super::screen::{self, Screen};
use crate::CliError;
use crate::cli::{LiveArgs, Task};
use crate::config::Config;
use crate::remote::Client;
use crate::transcribe::noticed;

/// What reaching the server may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(20);
/// A server may have to load its model first.
const READY_WITHIN: Duration = Duration::from_secs(120);
/// What it may take for the rest of what was said.
const LAST_WORDS: Duration = Duration::from_secs(180);
/// How often the source is listened to.
const LOOK: Duration = Duration::from_millis(20);
/// Bytes of a message, as the contract recommends.
const FRAME_BYTES: usize = 2730;
/// Messages that may wait for the connection before the source must wait, too.
const AHEAD: usize = 16;

/// Any byte stream: plain or TLS.
trait Bytes: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Bytes for T {}

type Socket = WebSocketStream<Box<dyn Bytes>>;

/// What a server says.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Told {
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
    segments: Vec<Said>,
    error: Option<String>,
}

/// A stretch of one speaker, as the last message has it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Said {
    start: f64,
    end: f64,
    text: String,
    speaker: Option<String>,
}

/// What was heard so far.
#[derive(Debug, Default)]
struct Transcript {
    segments: Vec<Segment>,
    goes_on: bool,
}

/// Sends the source to the server until it or the user ends it; gives everything, and what was wrong.
pub(super) fn listen(
    client: &Client,
    args: &LiveArgs,
    config: &Config,
    ear: &Ear,
    screen: &mut Screen,
) -> Result<(TranscriptionResult, Option<String>), CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| CliError::Failed(format!("cannot start: {error}")))?;
    runtime.block_on(async {
        let mut socket = connect(client).await?;
        greet(&mut socket, args, config).await?;
        talk(socket, args, ear, screen).await
    })
}

fn failed(error: impl std::fmt::Display) -> CliError {
    CliError::Failed(format!("the server can't be reached: {error}"))
}

async fn connect(client: &Client) -> Result<Socket, CliError> {
    let url = client.url("/v1/stream").replacen("http", "ws", 1);
    let mut request = url.into_client_request().map_err(failed)?;
    if let Some(credential) = client.credential() {
        let credential = credential.parse().map_err(failed)?;
        request.headers_mut().insert("authorization", credential);
    }
    let open = async {
        let stream = stream_to(&request).await?;
        match client_async(request, stream).await {
            Ok((socket, _)) => Ok(socket),
            Err(Error::Http(answer)) => {
                let said = answer.body().as_deref().unwrap_or_default();
                let said: Told = serde_json::from_slice(said).unwrap_or_default();
                let why = said.error.unwrap_or_else(|| format!("the server answered {}", answer.status()));
                let hint = if answer.status() == 401 { " (--key or HARK_KEY)" } else { "" };
                Err(CliError::Failed(format!("{why}{hint}")))
            }
            Err(error) => Err(failed(error)),
        }
    };
    timeout(CONNECT_WITHIN, open).await.map_err(|_| failed("it does not answer"))?
}

async fn stream_to(request: &Request) -> Result<Box<dyn Bytes>, CliError> {
    let uri = request.uri();
    let is_safe = uri.scheme_str() == Some("wss");
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let port = uri.port_u16().unwrap_or(if is_safe { 443 } else { 80 });
    let stream = TcpStream::connect((host, port)).await.map_err(failed)?;
    stream.set_nodelay(true).map_err(failed)?;
    if !is_safe {
        return Ok(Box::new(stream));
    }
    let config = ClientConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_platform_verifier())
        .map_err(failed)?
        .with_no_client_auth();
    let name = ServerName::try_from(host.to_owned()).map_err(failed)?;
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.map_err(failed)?;
    Ok(Box::new(stream))
}

/// Says what is wanted and waits until the server listens.
async fn greet(socket: &mut Socket, args: &LiveArgs, config: &Config) -> Result<(), CliError> {
    let mut hello = json!({
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
    if let Some(fields) = hello.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    socket.send(Message::Text(hello.to_string().into())).await.map_err(failed)?;
    let ready = timeout(READY_WITHIN, async {
        loop {
            match read(socket.next().await)? {
                Some(Told { error: Some(problem), .. }) => return Err(CliError::Failed(problem)),
                Some(told) if told.status.as_deref() == Some("ready") => return Ok(()),
                _ => {}
            }
        }
    });
    ready.await.map_err(|_| failed("it does not get ready"))?
}

/// A message of the server; none for what says nothing.
fn read(incoming: Option<Result<Message, Error>>) -> Result<Option<Told>, CliError> {
    match incoming {
        Some(Ok(Message::Text(text))) => serde_json::from_str(&text).map(Some).map_err(failed),
        Some(Ok(Message::Close(_))) | None => Err(failed("it closed the connection")),
        Some(Ok(_)) => Ok(None),
        Some(Err(error)) => Err(failed(error)),
    }
}

async fn talk(
    socket: Socket,
    args: &LiveArgs,
    ear: &Ear,
    screen: &mut Screen,
) -> Result<(TranscriptionResult, Option<String>), CliError> {
    let (sink, mut stream) = socket.split();
    // Sending waits where the server is behind; what it says must be read all the same.
    let (sound, to_send) = mpsc::channel(AHEAD);
    let sender = tokio::spawn(send(sink, to_send));
    let mut sound = Some(sound);
    let mut transcript = Transcript::default();
    let mut broken = None;
    let mut look = interval(LOOK);
    let mut ended = None;
    loop {
        let incoming = tokio::select! {
            incoming = stream.next() => incoming,
            _ = look.tick() => {
                if ended.is_some_and(|ended: tokio::time::Instant| ended.elapsed() > LAST_WORDS) {
                    broken = Some("the server did not finish in time".to_owned());
                    break;
                }
                let is_over = match &sound {
                    Some(sound) => hear(ear, sound, &mut broken),
                    None => false,
                };
                if is_over {
                    // The sender says goodbye when nothing more can come.
                    sound = None;
                    ended = Some(tokio::time::Instant::now());
                }
                continue;
            }
        };
        let told = match read(incoming) {
            Ok(Some(told)) => told,
            Ok(None) => continue,
            Err(error) => {
                // What was said before is written all the same.
                broken = Some(error.to_string());
                break;
            }
        };
        if let Some(problem) = told.error {
            broken = Some(problem);
        } else if told.is_final {
            screen.end_line()?;
            sender.abort();
            transcript.put_right(told.segments);
            return Ok((transcript.result(told.language, told.duration, args), broken));
        } else if let Some(partial) = told.partial {
            screen.partial(&partial)?;
        } else if let Some(text) = &told.text {
            screen.text(&screen::Said { text, times: (told.start, told.end), speaker: told.speaker.as_deref() })?;
            transcript.add(told);
        }
    }
    sender.abort();
    screen.end_line()?;
    Ok((transcript.result(String::new(), 0.0, args), broken))
}

/// Takes what the source has; true when that was all.
fn hear(ear: &Ear, sound: &mpsc::Sender<Vec<u8>>, broken: &mut Option<String>) -> bool {
    loop {
        if noticed().is_some() {
            return true;
        }
        let Ok(place) = sound.try_reserve() else { return sound.is_closed() };
        match ear.hear() {
            Heard::Sound(samples) => {
                let sample = |sample: &f32| ((sample.clamp(-1.0, 1.0) * 32_767.0) as i16).to_le_bytes();
                place.send(samples.iter().flat_map(sample).collect());
            }
            Heard::NothingYet => return false,
            Heard::End => return true,
            Heard::Broken(problem) => {
                *broken = Some(problem);
                return true;
            }
        }
    }
}

/// Sends sound as it comes, and goodbye when no more can come.
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
    fn add(&mut self, told: Told) {
        let text = told.text.unwrap_or_default();
        let ends = text.trim_end().ends_with(['.', '!', '?', '…', '。', '！', '？']);
        let goes_on = |segment: &&mut Segment| self.goes_on && segment.speaker == told.speaker;
        match self.segments.last_mut().filter(goes_on) {
            Some(segment) => {
                segment.text.push(' ');
                segment.text.push_str(&text);
                segment.end = told.end;
                segment.words.extend(told.words);
            }
            None => self.segments.push(Segment {
                start: told.start,
                end: told.end,
                text,
                words: told.words,
                speaker: told.speaker,
                ..Segment::default()
            }),
        }
        self.goes_on = !ends;
    }

    /// Takes who said what from the last message, which knows better than the texts did; words keep their times.
    fn put_right(&mut self, said: Vec<Said>) {
        if said.is_empty() {
            return;
        }
        let words: Vec<Word> = self.segments.drain(..).flat_map(|segment| segment.words).collect();
        let in_time = |word: &&Word, said: &Said| (said.start..=said.end).contains(&((word.start + word.end) / 2.0));
        self.segments = said
            .into_iter()
            .map(|said| Segment {
                start: said.start,
                end: said.end,
                words: words.iter().filter(|word| in_time(word, &said)).cloned().collect(),
                text: said.text,
                speaker: said.speaker,
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
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_join_until_a_sentence_ends() {
        let told = |text: &str, start: f64, end: f64| Told {
            text: Some(text.to_owned()),
            start,
            end,
            words: vec![Word { word: text.to_owned(), start, end, confidence: 0.5 }],
            ..Told::default()
        };
        let mut transcript = Transcript::default();
        transcript.add(told("Good morning", 0.0, 1.0));
        transcript.add(told("everybody.", 1.0, 1.5));
        transcript.add(told("Let us begin", 3.0, 4.0));
        let segments = &transcript.segments;
        assert_eq!(segments.len(), 2);
        assert_eq!((segments[0].text.as_str(), segments[0].end), ("Good morning everybody.", 1.5));
        assert_eq!((segments[1].start, segments[0].words.len()), (3.0, 2));
    }

    #[test]
    fn the_last_message_says_who_said_what_and_words_keep_their_times() {
        let word = |text: &str, start: f64| Word { word: text.to_owned(), start, end: start + 0.4, confidence: 0.5 };
        let mut transcript = Transcript::default();
        transcript.add(Told {
            text: Some("Yes. No.".to_owned()),
            end: 1.4,
            words: vec![word("Yes.", 0.0), word("No.", 1.0)],
            speaker: Some("SPEAKER_00".to_owned()),
            ..Told::default()
        });
        let said = |text: &str, start: f64, speaker: &str| Said {
            start,
            end: start + 0.4,
            text: text.to_owned(),
            speaker: Some(speaker.to_owned()),
        };
        transcript.put_right(vec![said("Yes.", 0.0, "SPEAKER_00"), said("No.", 1.0, "SPEAKER_01")]);
        assert_eq!(transcript.segments.len(), 2);
        let second = &transcript.segments[1];
        assert_eq!((second.speaker.as_deref(), second.words.len()), (Some("SPEAKER_01"), 1));
        assert_eq!(second.words[0].word, "No.");
    }
}
