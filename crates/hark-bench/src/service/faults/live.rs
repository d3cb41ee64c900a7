//! Somebody who speaks over `/v1/stream`, and goes on with the session when its connection breaks.
//!
//! Each second of sound carries a number, which the engine of the bench gives back as its text: [`super::live_check`] compares the transcripts with what was
//! sent. Sound is sent ten times as fast as it is spoken, so that sessions of minutes fit between faults.

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
use crate::service::kills::{Login, World, random};

/// Bytes of a second of sound.
const SECOND: usize = 32_000;
/// A message has a quarter of a second.
const PIECE: usize = SECOND / 4;
/// What a second of sound takes.
const PACE: Duration = Duration::from_millis(100);
/// The longest session, in seconds of sound: three begun minutes.
const LONGEST: u64 = 150;
/// An answer may take this long.
const PATIENCE: Duration = Duration::from_secs(90);
/// A client tries for so long to go on with a session.
const RESUME: Duration = Duration::from_secs(60);

/// What a client knows of a session.
#[derive(Debug)]
pub(super) struct Spoken {
    /// The session's id.
    pub(super) session: String,
    /// The number of its first second.
    pub(super) first: u32,
    /// Seconds of sound that were sent whole.
    pub(super) sent: u32,
    /// The numbers of texts that were received as settled, and when.
    pub(super) settled: Vec<(u32, Instant)>,
    pub(super) end: End,
}

/// How a session ended.
#[derive(Debug)]
pub(super) enum End {
    /// With a final message: the transcript's id, its text, and whether an error ended it.
    Final { transcript: i64, text: String, is_cut: bool },
    /// Without one, at this time: the client left, or could not come back.
    Cut(Instant),
}

/// What a client knows at the end.
#[derive(Debug)]
pub(super) struct LiveNotes {
    pub(super) account: AccountId,
    pub(super) key: KeyId,
    pub(super) sessions: Vec<Spoken>,
    pub(super) resumed: u64,
    pub(super) wrong: Vec<String>,
}

/// A client with an account of its own.
pub(super) struct LiveClient {
    login: Login,
    world: Arc<World>,
    next: u32,
    notes: LiveNotes,
}

type Socket = WebSocketStream<TcpStream>;

/// Why a client does not go on with a session.
enum Stop {
    /// The connection broke.
    Broken,
    /// The server ended the session.
    Closed,
}

/// A session under way.
struct Talk {
    socket: Socket,
    spoken: Spoken,
    /// Bytes of sound that the server has.
    at: usize,
    seconds: u32,
    error: Option<String>,
    last: Option<(i64, String)>,
    /// The count of faults when something was last heard.
    troubles: u64,
}

impl LiveClient {
    pub(super) fn new(login: Login, world: Arc<World>) -> Self {
        let (account, key) = (login.account, login.key);
        let notes = LiveNotes { account, key, sessions: Vec::new(), resumed: 0, wrong: Vec::new() };
        LiveClient { login, world, next: 0, notes }
    }

    /// One session after the other until it is over.
    pub(super) async fn live(mut self) -> LiveNotes {
        while !self.world.is_over() {
            let troubles = self.world.troubles();
            match self.connect(None).await {
                Ok((socket, ready)) => self.talk(socket, &ready, troubles).await,
                Err(error) => self.not_connected(&error, troubles).await,
            }
        }
        self.notes
    }

    async fn not_connected(&mut self, error: &io::Error, troubles: u64) {
        // A node that is killed breaks connections, which is no answer to complain about.
        if error.kind() == io::ErrorKind::Other && !self.world.excuses(troubles) {
            self.notes.wrong.push(format!("a live session was refused: {error}"));
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }

    /// Connects and says hello; the answer says that sound can be sent. An error of the kind `Other` is an answer.
    async fn connect(&self, session: Option<&str>) -> io::Result<(Socket, Value)> {
        let connected = async {
            let address = self.world.any_address().await?;
            let stream = connect_from(self.login.from, address).await?;
            let mut request = format!("ws://{address}/v1/stream").into_client_request().map_err(io::Error::other)?;
            let key = format!("Bearer {}", self.login.secret).parse().map_err(io::Error::other)?;
            request.headers_mut().insert("authorization", key);
            let (mut socket, _) = client_async(request, stream).await.map_err(refused)?;
            let mut hello = json!({"language": "en"});
            if let Some(session) = session {
                hello["session_id"] = session.into();
            }
            socket.send(Message::Text(hello.to_string().into())).await.map_err(refused)?;
            let ready = read(&mut socket).await.ok_or(io::ErrorKind::ConnectionReset)?;
            match ready["status"].as_str() {
                Some("ready") => Ok((socket, ready)),
                _ => Err(io::Error::other(ready.to_string())),
            }
        };
        tokio::time::timeout(PATIENCE, connected).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    async fn talk(&mut self, socket: Socket, ready: &Value, troubles: u64) {
        let seconds = 1 + random(LONGEST) as u32;
        let session = ready["session_id"].as_str().unwrap_or_default().to_owned();
        let spoken = Spoken { session, first: self.next, sent: 0, settled: Vec::new(), end: End::Cut(Instant::now()) };
        self.next += seconds;
        let mut talk = Talk { socket, spoken, at: 0, seconds, error: None, last: None, troubles };
        // One in five leaves in the middle; one in five breaks off and comes back.
        let break_at = match random(5) {
            0 | 1 => Some(random(u64::from(seconds)) as u32),
            _ => None,
        };
        let leaves = random(2) == 0;
        let mut has_broken = false;
        loop {
            let until = break_at.filter(|_| !has_broken);
            let stopped = match talk.speak(until, &self.world).await {
                Ok(()) if until.is_some() => {
                    has_broken = true;
                    if leaves {
                        break;
                    }
                    Stop::Broken
                }
                Ok(()) => match talk.stop().await {
                    Ok(()) => break,
                    Err(stopped) => stopped,
                },
                Err(stopped) => stopped,
            };
            talk.spoken.end = End::Cut(Instant::now());
            match stopped {
                Stop::Closed => break,
                Stop::Broken if !self.resume(&mut talk).await => break,
                Stop::Broken => {}
            }
        }
        self.note(talk);
    }

    /// Goes on with a session on any node; false when it is over.
    async fn resume(&mut self, talk: &mut Talk) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < RESUME {
            let troubles = self.world.troubles();
            match self.connect(Some(&talk.spoken.session)).await {
                Ok((socket, ready)) if ready["resumed"] == true => {
                    talk.go_on(socket, &ready);
                    talk.troubles = troubles;
                    self.notes.resumed += 1;
                    return true;
                }
                // Another session: this one was completed with what it had.
                Ok(_) => return false,
                Err(error) if error.kind() == io::ErrorKind::Other && !self.world.excuses(troubles) => {
                    // "This session is ending": that is no fault.
                    if !error.to_string().contains("begin another") {
                        self.notes.wrong.push(format!("a live session can't be resumed: {error}"));
                    }
                    return false;
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
            }
        }
        false
    }

    fn note(&mut self, mut talk: Talk) {
        if let Some(error) = &talk.error
            && !self.world.excuses(talk.troubles)
        {
            self.notes.wrong.push(format!("live session {} was ended: {error}", talk.spoken.session));
        }
        talk.spoken.end = match talk.last {
            Some((transcript, text)) => {
                // What lies behind was sent to a process that died, and not again.
                talk.spoken.sent = (talk.at / SECOND) as u32;
                End::Final { transcript, text, is_cut: talk.error.is_some() }
            }
            None => End::Cut(Instant::now()),
        };
        self.notes.sessions.push(talk.spoken);
    }
}

impl Talk {
    /// Sends sound up to the end, or to this second, and takes what comes back meanwhile.
    async fn speak(&mut self, until: Option<u32>, world: &World) -> Result<(), Stop> {
        let end = until.unwrap_or(self.seconds) as usize * SECOND;
        while self.at < end {
            // At the end of the bench the session ends with the second that was begun.
            if world.is_over() && self.at.is_multiple_of(SECOND) {
                self.seconds = (self.at / SECOND) as u32;
                return Ok(());
            }
            let piece = self.piece();
            let next = Instant::now() + PACE / (SECOND / PIECE) as u32;
            self.at += piece.len();
            let sent = tokio::time::timeout(PATIENCE, self.socket.send(Message::Binary(piece.into()))).await;
            if !matches!(sent, Ok(Ok(()))) {
                return Err(self.rest().await);
            }
            self.spoken.sent = self.spoken.sent.max((self.at / SECOND) as u32);
            self.receive_until(next).await?;
        }
        Ok(())
    }

    /// The sound behind what the server has, up to the end of a piece.
    fn piece(&self) -> Vec<u8> {
        let second = self.at / SECOND;
        let mut sound = vec![0; SECOND];
        let samples = hark_server::numbered_samples(self.spoken.first + second as u32);
        for (place, sample) in sound.chunks_exact_mut(2).zip(samples) {
            place.copy_from_slice(&sample.to_le_bytes());
        }
        let from = self.at % SECOND;
        let to = (from / PIECE + 1) * PIECE;
        sound[from..to].to_vec()
    }

    async fn receive_until(&mut self, until: Instant) -> Result<(), Stop> {
        while let Ok(message) = tokio::time::timeout_at(until.into(), self.socket.next()).await {
            self.take(message)?;
        }
        Ok(())
    }

    /// What is left to read after the server stopped reading.
    async fn rest(&mut self) -> Stop {
        match self.receive_until(Instant::now() + Duration::from_secs(1)).await {
            Err(stop) => stop,
            Ok(()) => Stop::Broken,
        }
    }

    /// Asks for the end and waits for it.
    async fn stop(&mut self) -> Result<(), Stop> {
        let stop = Message::Text(json!({"action": "stop"}).to_string().into());
        if self.socket.send(stop).await.is_err() {
            return Err(self.rest().await);
        }
        match self.receive_until(Instant::now() + PATIENCE).await {
            Err(Stop::Closed) => Ok(()),
            Err(Stop::Broken) if self.last.is_some() => Ok(()),
            Err(stop) => Err(stop),
            Ok(()) => {
                self.error = Some(format!("no end for {} s", PATIENCE.as_secs()));
                Err(Stop::Closed)
            }
        }
    }

    fn take(&mut self, message: Option<Result<Message, SocketError>>) -> Result<(), Stop> {
        let text = match message {
            Some(Ok(Message::Text(text))) => text,
            // 1006 and the like: the connection is gone. Any other close is the server's word.
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
            self.spoken.settled.push((number, Instant::now()));
        }
        Ok(())
    }

    /// The session goes on over this connection, behind the sound that the server has.
    fn go_on(&mut self, socket: Socket, ready: &Value) {
        self.socket = socket;
        let received = ready["received"].as_f64().unwrap_or_default();
        self.at = ((received * (SECOND / 2) as f64).round() as usize * 2).min(self.seconds as usize * SECOND);
        // What lies behind is heard, and told, again.
        let first = self.spoken.first;
        self.spoken.settled.retain(|(number, _)| f64::from(number.saturating_sub(first)) < received);
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

/// A connection that breaks keeps its kind; an answer of HTTP is `Other`.
fn refused(error: SocketError) -> io::Error {
    match error {
        SocketError::Io(error) => io::Error::from(error.kind()),
        SocketError::Http(answer) => io::Error::other(format!("HTTP {}", answer.status())),
        _ => io::ErrorKind::ConnectionReset.into(),
    }
}
