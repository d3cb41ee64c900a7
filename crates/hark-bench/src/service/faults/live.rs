//! A client of `/v1/stream` that resumes its session when the connection breaks.
//!
//! Each second of audio encodes a number, which the engine of the bench returns as its text: [`super::live_check`] compares the transcripts with what was
//! sent. Audio is sent at ten times real time, so that sessions of minutes fit between faults.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::{SinkExt as _, StreamExt as _};
use hark_store::{AccountId, KeyId};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error as SocketError, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::service::client::connect_from;
use crate::service::kills::{Environment, Login, random};

/// Bytes of a second of audio.
const SECOND: usize = 32_000;
/// A message has a quarter of a second.
const MESSAGE_BYTES: usize = SECOND / 4;
/// Time to send a second of audio.
const SECOND_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum seconds of a session: three started minutes.
const MAX_SECONDS: u64 = 150;
/// Response timeout.
const TIMEOUT: Duration = Duration::from_secs(90);
/// How long a client tries to resume a session.
const RESUME_TIMEOUT: Duration = Duration::from_secs(60);

/// What the responses say of a session.
#[derive(Debug)]
pub(super) struct SessionLog {
    /// The session's id.
    pub(super) session: String,
    /// The number of its first second.
    pub(super) first: u32,
    /// Seconds of audio sent completely.
    pub(super) sent: u32,
    /// The numbers of final texts received, and when.
    pub(super) final_texts: Vec<(u32, Instant)>,
    pub(super) end: End,
}

/// How a session ended.
#[derive(Debug)]
pub(super) enum End {
    /// With a final message: the transcript's id, its text, and whether an error ended it.
    Final { transcript: i64, text: String, is_cut: bool },
    /// Without one, at this time: the client disconnected, or could not resume.
    Cut(Instant),
}

/// The state that the store must have by the responses that a client got.
#[derive(Debug)]
pub(super) struct LiveExpected {
    pub(super) account: AccountId,
    pub(super) key: KeyId,
    pub(super) sessions: Vec<SessionLog>,
    pub(super) resumed: u64,
    pub(super) wrong: Vec<String>,
}

/// A client with an account of its own.
pub(super) struct LiveClient {
    login: Login,
    environment: Arc<Environment>,
    next: u32,
    expected: LiveExpected,
}

type Socket = WebSocketStream<TcpStream>;

/// Why a client stops sending.
enum Stop {
    /// The connection broke.
    Broken,
    /// The server ended the session.
    Closed,
}

/// A running session.
struct Streaming {
    socket: Socket,
    log: SessionLog,
    /// Bytes of audio that the server has.
    at: usize,
    seconds: u32,
    error: Option<String>,
    last: Option<(i64, String)>,
    /// The fault counter at the last message.
    faults: u64,
}

impl LiveClient {
    pub(super) fn new(login: Login, environment: Arc<Environment>) -> Self {
        let (account, key) = (login.account, login.key);
        let expected = LiveExpected { account, key, sessions: Vec::new(), resumed: 0, wrong: Vec::new() };
        LiveClient { login, environment, next: 0, expected }
    }

    /// Runs one session after the other until the run stops.
    pub(super) async fn run(mut self) -> LiveExpected {
        while !self.environment.is_stopping() {
            let faults = self.environment.fault_count();
            match self.connect(None).await {
                Ok((socket, ready)) => self.run_session(socket, &ready, faults).await,
                Err(error) => self.not_connected(&error, faults).await,
            }
        }
        self.expected
    }

    async fn not_connected(&mut self, error: &io::Error, faults: u64) {
        // A killed node breaks connections, which is no error response.
        if error.kind() == io::ErrorKind::Other && !self.environment.fault_since(faults) {
            self.expected.wrong.push(format!("a live session was refused: {error}"));
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }

    /// Connects, sends the config message and waits for `ready`. An error of the kind `Other` is a response of the server.
    async fn connect(&self, session: Option<&str>) -> io::Result<(Socket, Value)> {
        let connected = async {
            let address = self.environment.any_address().await?;
            let stream = connect_from(self.login.from, address).await?;
            let mut request = format!("ws://{address}/v1/stream").into_client_request().map_err(io::Error::other)?;
            let key = format!("Bearer {}", self.login.secret).parse().map_err(io::Error::other)?;
            request.headers_mut().insert("authorization", key);
            let (mut socket, _) = client_async(request, stream).await.map_err(refused)?;
            let mut config = json!({"language": "en"});
            if let Some(session) = session {
                config["session_id"] = session.into();
            }
            socket.send(Message::Text(config.to_string().into())).await.map_err(refused)?;
            let ready = read(&mut socket).await.ok_or(io::ErrorKind::ConnectionReset)?;
            match ready["status"].as_str() {
                Some("ready") => Ok((socket, ready)),
                _ => Err(io::Error::other(ready.to_string())),
            }
        };
        tokio::time::timeout(TIMEOUT, connected).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    async fn run_session(&mut self, socket: Socket, ready: &Value, faults: u64) {
        let seconds = 1 + random(MAX_SECONDS) as u32;
        let session = ready["session_id"].as_str().unwrap_or_default().to_owned();
        let log =
            SessionLog { session, first: self.next, sent: 0, final_texts: Vec::new(), end: End::Cut(Instant::now()) };
        self.next += seconds;
        let mut streaming = Streaming { socket, log, at: 0, seconds, error: None, last: None, faults };
        // One in five disconnects for good; one in five disconnects and resumes.
        let break_at = match random(5) {
            0 | 1 => Some(random(u64::from(seconds)) as u32),
            _ => None,
        };
        let disconnects = random(2) == 0;
        let mut has_broken = false;
        loop {
            let until = break_at.filter(|_| !has_broken);
            let stopped = match streaming.send_audio(until, &self.environment).await {
                Ok(()) if until.is_some() => {
                    has_broken = true;
                    if disconnects {
                        break;
                    }
                    Stop::Broken
                }
                Ok(()) => match streaming.stop().await {
                    Ok(()) => break,
                    Err(stopped) => stopped,
                },
                Err(stopped) => stopped,
            };
            streaming.log.end = End::Cut(Instant::now());
            match stopped {
                Stop::Closed => break,
                Stop::Broken if !self.resume(&mut streaming).await => break,
                Stop::Broken => {}
            }
        }
        self.record(streaming);
    }

    /// Resumes a session on any node; false when it has ended.
    async fn resume(&mut self, streaming: &mut Streaming) -> bool {
        let started = Instant::now();
        while started.elapsed() < RESUME_TIMEOUT {
            let faults = self.environment.fault_count();
            match self.connect(Some(&streaming.log.session)).await {
                Ok((socket, ready)) if ready["resumed"] == true => {
                    streaming.continue_on(socket, &ready);
                    streaming.faults = faults;
                    self.expected.resumed += 1;
                    return true;
                }
                // Another session: this one was completed with what it had.
                Ok(_) => return false,
                Err(error) if error.kind() == io::ErrorKind::Other && !self.environment.fault_since(faults) => {
                    // "This session is ending": that is no fault.
                    if !error.to_string().contains("begin another") {
                        self.expected.wrong.push(format!("a live session can't be resumed: {error}"));
                    }
                    return false;
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
            }
        }
        false
    }

    fn record(&mut self, mut streaming: Streaming) {
        if let Some(error) = &streaming.error
            && !self.environment.fault_since(streaming.faults)
        {
            self.expected.wrong.push(format!("live session {} was ended: {error}", streaming.log.session));
        }
        streaming.log.end = match streaming.last {
            Some((transcript, text)) => {
                // Later audio was sent to a process that died, and not again.
                streaming.log.sent = (streaming.at / SECOND) as u32;
                End::Final { transcript, text, is_cut: streaming.error.is_some() }
            }
            None => End::Cut(Instant::now()),
        };
        self.expected.sessions.push(streaming.log);
    }
}

impl Streaming {
    /// Sends audio up to the end, or to this second, and receives messages meanwhile.
    async fn send_audio(&mut self, until: Option<u32>, environment: &Environment) -> Result<(), Stop> {
        let end = until.unwrap_or(self.seconds) as usize * SECOND;
        while self.at < end {
            // When the run stops, the session ends with the current second.
            if environment.is_stopping() && self.at.is_multiple_of(SECOND) {
                self.seconds = (self.at / SECOND) as u32;
                return Ok(());
            }
            let message_audio = self.message_audio();
            let next = Instant::now() + SECOND_INTERVAL / (SECOND / MESSAGE_BYTES) as u32;
            self.at += message_audio.len();
            let sent = tokio::time::timeout(TIMEOUT, self.socket.send(Message::Binary(message_audio.into()))).await;
            if !matches!(sent, Ok(Ok(()))) {
                return Err(self.rest().await);
            }
            self.log.sent = self.log.sent.max((self.at / SECOND) as u32);
            self.receive_until(next).await?;
        }
        Ok(())
    }

    /// The audio after what the server has, up to the end of a message.
    fn message_audio(&self) -> Vec<u8> {
        let second = self.at / SECOND;
        let mut audio = vec![0; SECOND];
        let samples = hark_server::numbered_samples(self.log.first + second as u32);
        for (place, sample) in audio.chunks_exact_mut(2).zip(samples) {
            place.copy_from_slice(&sample.to_le_bytes());
        }
        let from = self.at % SECOND;
        let to = (from / MESSAGE_BYTES + 1) * MESSAGE_BYTES;
        audio[from..to].to_vec()
    }

    async fn receive_until(&mut self, until: Instant) -> Result<(), Stop> {
        while let Ok(message) = tokio::time::timeout_at(until.into(), self.socket.next()).await {
            self.handle(message)?;
        }
        Ok(())
    }

    /// Reads the remaining messages after the server stopped reading.
    async fn rest(&mut self) -> Stop {
        match self.receive_until(Instant::now() + Duration::from_secs(1)).await {
            Err(stop) => stop,
            Ok(()) => Stop::Broken,
        }
    }

    /// Ends the session and waits for the final message.
    async fn stop(&mut self) -> Result<(), Stop> {
        let stop = Message::Text(json!({"action": "stop"}).to_string().into());
        if self.socket.send(stop).await.is_err() {
            return Err(self.rest().await);
        }
        match self.receive_until(Instant::now() + TIMEOUT).await {
            Err(Stop::Closed) => Ok(()),
            Err(Stop::Broken) if self.last.is_some() => Ok(()),
            Err(stop) => Err(stop),
            Ok(()) => {
                self.error = Some(format!("no end for {} s", TIMEOUT.as_secs()));
                Err(Stop::Closed)
            }
        }
    }

    fn handle(&mut self, message: Option<Result<Message, SocketError>>) -> Result<(), Stop> {
        let text = match message {
            Some(Ok(Message::Text(text))) => text,
            // A close frame ends the session on purpose; without one the connection broke.
            Some(Ok(Message::Close(_))) => return Err(Stop::Closed),
            Some(Ok(_)) => return Ok(()),
            Some(Err(_)) | None if self.error.is_some() || self.last.is_some() => return Err(Stop::Closed),
            Some(Err(_)) | None => return Err(Stop::Broken),
        };
        let message: Value = serde_json::from_str(&text).unwrap_or_default();
        if message["is_final"] == true {
            let text = message["text"].as_str().unwrap_or_default().to_owned();
            self.last = message["transcript_id"].as_i64().map(|id| (id, text));
        } else if let Some(error) = message["error"].as_str() {
            self.error = Some(error.to_owned());
        } else if let Some(number) = message["text"].as_str().and_then(|text| text.trim_end_matches('.').parse().ok()) {
            self.log.final_texts.push((number, Instant::now()));
        }
        Ok(())
    }

    /// Continues the session over this connection, after the audio that the server has.
    fn continue_on(&mut self, socket: Socket, ready: &Value) {
        self.socket = socket;
        let received = ready["received"].as_f64().unwrap_or_default();
        self.at = ((received * (SECOND / 2) as f64).round() as usize * 2).min(self.seconds as usize * SECOND);
        // Later audio is processed again, and its texts are sent again.
        let first = self.log.first;
        self.log.final_texts.retain(|(number, _)| f64::from(number.saturating_sub(first)) < received);
        self.error = None;
    }
}

/// The next JSON message; none when the connection ends.
async fn read(socket: &mut Socket) -> Option<Value> {
    loop {
        match socket.next().await? {
            Ok(Message::Text(text)) => return serde_json::from_str(&text).ok(),
            Ok(Message::Close(_)) | Err(_) => return None,
            Ok(_) => {}
        }
    }
}

/// A broken connection keeps its kind; an HTTP response is `Other`.
fn refused(error: SocketError) -> io::Error {
    match error {
        SocketError::Io(error) => io::Error::from(error.kind()),
        SocketError::Http(answer) => io::Error::other(format!("HTTP {}", answer.status())),
        _ => io::ErrorKind::ConnectionReset.into(),
    }
}
