//! Callers over loopback WebSockets, each at the pace of speech, in the language of the server that listens.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use super::figures::Shown;
use super::{FRAME_BYTES, Script, delay, failed};
use crate::BenchError;
use crate::audio::RATE;

/// What a caller may wait for its first answer: a model is loaded meanwhile.
const READY_WITHIN: Duration = Duration::from_secs(120);
/// What a server may take for its last words.
const LAST_WORDS: Duration = Duration::from_secs(60);
/// A peer that says nothing for so long after the end has nothing to say.
const PEER_IS_DONE: Duration = Duration::from_secs(8);

/// Who listens, and how to speak to it.
#[derive(Debug, Clone)]
pub(super) enum Listener {
    /// `hark serve`, with a key for each caller.
    Hark { address: SocketAddr, keys: Vec<String>, model: String },
    /// WhisperLive.
    WhisperLive { address: SocketAddr },
}

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// Replays every script over a connection of its own, all at once.
pub(super) async fn replay_all(
    listener: &Listener,
    language: &str,
    scripts: &[Arc<Script>],
) -> Result<Vec<Shown>, BenchError> {
    // Everybody is connected before anybody speaks: loading a model is not what is measured here.
    let mut sockets = Vec::new();
    for caller in 0..scripts.len() {
        sockets.push(connect(listener, language, caller).await?);
    }
    let callers: Vec<_> = sockets
        .into_iter()
        .zip(scripts)
        .enumerate()
        .map(|(caller, (socket, script))| {
            let (listener, samples) = (listener.clone(), script.samples.clone());
            tokio::spawn(async move {
                tokio::time::sleep(delay(caller)).await;
                replay(&listener, socket, &samples).await
            })
        })
        .collect();
    let mut shown = Vec::new();
    for caller in callers {
        shown.push(caller.await.map_err(failed)??);
    }
    Ok(shown)
}

/// Opens a session and ends it, so that the server has its model.
pub(super) async fn warm_up(listener: &Listener, language: &str) -> Result<(), BenchError> {
    let mut socket = connect(listener, language, 0).await?;
    let _ = socket.close(None).await;
    while let Ok(Some(Ok(_))) = tokio::time::timeout(Duration::from_secs(5), socket.next()).await {}
    Ok(())
}

async fn connect(listener: &Listener, language: &str, caller: usize) -> Result<Socket, BenchError> {
    let (address, path) = match listener {
        Listener::Hark { address, .. } => (address, "v1/stream"),
        Listener::WhisperLive { address } => (address, ""),
    };
    let mut request = format!("ws://{address}/{path}").into_client_request().map_err(failed)?;
    let hello = match listener {
        Listener::Hark { keys, model, .. } => {
            let key = format!("Bearer {}", keys[caller % keys.len()]);
            request.headers_mut().insert("authorization", key.parse().map_err(failed)?);
            json!({"language": language, "model": model})
        }
        Listener::WhisperLive { .. } => json!({
            "uid": format!("caller-{caller}"),
            "language": language,
            "task": "transcribe",
            "model": "base",
            "use_vad": true,
            "audio_format": "int16",
            "send_last_n_segments": 10,
        }),
    };
    let (mut socket, _) = connect_async(request).await.map_err(failed)?;
    socket.send(Message::Text(hello.to_string().into())).await.map_err(failed)?;
    let ready = tokio::time::timeout(READY_WITHIN, async {
        while let Some(Ok(message)) = socket.next().await {
            let Message::Text(text) = message else { continue };
            let said: Value = serde_json::from_str(&text).unwrap_or_default();
            return if said["status"] == "ready" || said["message"] == "SERVER_READY" { Ok(()) } else { Err(said) };
        }
        Err(Value::Null)
    });
    match ready.await {
        Ok(Ok(())) => Ok(socket),
        Ok(Err(said)) => Err(failed(format!("the server turned a caller away: {said}"))),
        Err(_) => Err(failed("the server did not get ready")),
    }
}

/// Sends a recording at the pace of speech and keeps what is shown, with its times.
async fn replay(listener: &Listener, socket: Socket, samples: &[f32]) -> Result<Shown, BenchError> {
    let (mut sink, mut stream) = socket.split();
    let begun = Instant::now();
    let bytes: Vec<u8> = samples.iter().flat_map(|&sample| ((sample * 32_768.0) as i16).to_le_bytes()).collect();
    let goodbye = match listener {
        Listener::Hark { .. } => Message::Text(json!({"action": "stop"}).to_string().into()),
        Listener::WhisperLive { .. } => Message::Binary(b"END_OF_AUDIO".to_vec().into()),
    };
    let is_peer = matches!(listener, Listener::WhisperLive { .. });
    let sender = tokio::spawn(async move {
        let mut sent = 0;
        for frame in bytes.chunks(FRAME_BYTES) {
            sent += frame.len();
            // A frame can be sent when its last sample has been spoken.
            let due = Duration::from_secs_f64(sent as f64 / f64::from(2 * RATE));
            tokio::time::sleep_until((begun + due).into()).await;
            if sink.send(Message::Binary(frame.to_vec().into())).await.is_err() {
                return;
            }
        }
        if is_peer {
            // It forgets what it has not told when the sound ends.
            tokio::time::sleep(PEER_IS_DONE).await;
        }
        let _ = sink.send(goodbye).await;
    });
    let length = Duration::from_secs_f64(samples.len() as f64 / f64::from(RATE));
    let until = begun + length + if is_peer { PEER_IS_DONE } else { LAST_WORDS };
    let mut screen = Screen::default();
    while let Ok(Some(Ok(message))) = tokio::time::timeout_at(until.into(), stream.next()).await {
        let Message::Text(text) = message else { continue };
        let said: Value = serde_json::from_str(&text).unwrap_or_default();
        let now = begun.elapsed().as_secs_f64();
        if let Some(problem) = said["error"].as_str() {
            return Err(failed(problem));
        }
        match listener {
            Listener::Hark { .. } if said["is_final"] == true => break,
            Listener::Hark { .. } => screen.hark(now, &said),
            Listener::WhisperLive { .. } => screen.whisper_live(now, &said),
        }
    }
    sender.abort();
    let is_late = !is_peer && begun.elapsed() >= length + LAST_WORDS;
    if is_late { Err(failed("the server did not finish a session in time")) } else { Ok(screen.ended()) }
}

/// What a caller has seen, from messages.
#[derive(Default)]
struct Screen {
    shown: Shown,
    /// Where the last segment that stays ends, and when something came last.
    stays_until: f64,
    now: f64,
}

impl Screen {
    fn hark(&mut self, now: f64, said: &Value) {
        if let Some(text) = said["partial"].as_str() {
            self.shown.partial(now, text);
        } else if let Some(text) = said["text"].as_str() {
            self.shown.text_that_stays(now, text);
        }
    }

    /// The last segments, those that stay and the one that may change, every time.
    fn whisper_live(&mut self, now: f64, said: &Value) {
        let Some(segments) = said["segments"].as_array() else { return };
        self.now = now;
        let seconds = |value: &Value| value.as_str().and_then(|text| text.parse::<f64>().ok()).unwrap_or_default();
        let mut rest = Vec::new();
        for segment in segments {
            let text = segment["text"].as_str().unwrap_or_default();
            let end = seconds(&segment["end"]);
            if segment["completed"] != true {
                rest.push(text);
            } else if end > self.stays_until + 0.001 {
                self.stays_until = end;
                self.shown.text_that_stays(now, text);
            }
        }
        self.shown.partial(now, &rest.join(" "));
    }

    /// What a peer never marked as done counts as told when it was last shown.
    fn ended(mut self) -> Shown {
        self.shown.settle_rest(self.now);
        self.shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peers_segments_are_counted_once_and_its_last_one_at_the_end() {
        let mut screen = Screen::default();
        let segment = |end: &str, text: &str, completed: bool| json!({"start": "0.000", "end": end, "text": text, "completed": completed});
        screen.whisper_live(1.0, &json!({"segments": [segment("0.900", " The quick", false)]}));
        screen.whisper_live(
            2.0,
            &json!({"segments": [segment("1.000", " The quick", true), segment("2.000", " brown", false)]}),
        );
        screen.whisper_live(
            3.0,
            &json!({"segments": [segment("1.000", " The quick", true), segment("2.500", " brown fox", false)]}),
        );
        assert_eq!(screen.ended().text(), "the quick brown fox");
    }
}
