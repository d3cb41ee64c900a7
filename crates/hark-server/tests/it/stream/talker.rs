//! Somebody who speaks to a server over a WebSocket.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use hark_server::{Config, Role, SpeechEngine};
use hark_store::Clock;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use crate::server::{Client, Server, real_engine, spoken, talk};

pub(crate) struct Talker {
    pub(crate) socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
}

/// A server with the real engine, which all tests share: loading takes longer than most of them.
pub(crate) async fn live_server(config: Config) -> Server {
    static ENGINE: LazyLock<Arc<SpeechEngine>> = LazyLock::new(|| Arc::new(real_engine()));
    Server::in_folder(tempfile::tempdir().unwrap(), config, ENGINE.clone(), Clock::system(), Role::All).await
}

/// The sentence of [`talk`] as 16 kHz samples, with a second of silence behind it.
pub(crate) fn voice() -> Vec<u8> {
    static VOICE: LazyLock<Vec<u8>> = LazyLock::new(|| sound(talk()));
    VOICE.clone()
}

/// Half a minute that never says the same twice, and words of it.
pub(crate) fn story() -> (Vec<u8>, [&'static str; 12]) {
    let text = "My brother lives in a small village near the river. Every morning he walks through the forest with his dog. \
                The train to the city leaves at seven o'clock and takes about two hours. Yesterday we bought a new table for \
                the kitchen because the old one was broken. In summer the children swim in the lake and eat ice cream. \
                The doctor said that she should drink more water and sleep longer. Our teacher speaks French and German.";
    let words = [
        "brother", "village", "river", "morning", "forest", "train", "kitchen", "broken", "children", "doctor",
        "water", "german",
    ];
    (sound(spoken(text)), words)
}

/// A recording as 16 kHz samples, with a second of silence behind it.
fn sound(recording: Vec<u8>) -> Vec<u8> {
    let source = hark_media::Source::Reader(Box::new(std::io::Cursor::new(recording)));
    let mut stream = hark_media::AudioStream::open(source, &hark_media::Options::default()).unwrap();
    let mut samples = Vec::new();
    while stream.read(&mut samples).unwrap() > 0 {}
    samples.extend([0.0; 16_000]);
    samples.iter().flat_map(|sample| ((sample * 32_767.0) as i16).to_le_bytes()).collect()
}

/// Seconds of silence.
pub(crate) fn silence(seconds: f64) -> Vec<u8> {
    vec![0; (seconds * 32_000.0) as usize]
}

/// Whether the sentence was heard, but for a word or two: the model is small and the voice synthetic.
pub(crate) fn is_sentence(text: &str) -> bool {
    let heard = text.to_lowercase();
    let words = ["weather", "today", "market", "apples", "bread", "going"];
    words.iter().filter(|word| heard.contains(*word)).count() >= 4
}

impl Talker {
    /// Connects, with the client's key in the header.
    pub(crate) async fn connect(client: &Client, query: &str) -> Result<Self, Box<Error>> {
        let url = client.url(&format!("/v1/stream{query}")).replace("http://", "ws://");
        let mut request = url.into_client_request()?;
        if let Some(key) = &client.key {
            request.headers_mut().insert("authorization", format!("Bearer {key}").parse().unwrap());
        }
        let (socket, _) = connect_async(request).await?;
        Ok(Talker { socket })
    }

    /// Connects, configures and waits for `ready`, which it gives.
    pub(crate) async fn ready(client: &Client, config: Value) -> (Self, Value) {
        let mut talker = Self::connect(client, "").await.unwrap();
        talker.say(config).await;
        let ready = talker.message().await;
        assert_eq!(ready["status"], "ready", "{ready}");
        (talker, ready)
    }

    pub(crate) async fn say(&mut self, message: Value) {
        self.socket.send(Message::Text(message.to_string().into())).await.unwrap();
    }

    /// Sends sound in pieces of so many bytes.
    pub(crate) async fn sound(&mut self, sound: &[u8], piece: usize) {
        for piece in sound.chunks(piece) {
            self.socket.send(Message::Binary(piece.to_vec().into())).await.unwrap();
        }
    }

    /// The next JSON message.
    pub(crate) async fn message(&mut self) -> Value {
        self.next().await.unwrap_or_else(|code| panic!("closed with {code} where a message was expected"))
    }

    /// The next message, or the code of the close; 1006 where there is none.
    pub(crate) async fn next(&mut self) -> Result<Value, u16> {
        loop {
            let incoming = tokio::time::timeout(Duration::from_secs(60), self.socket.next()).await;
            match incoming.expect("the server says nothing") {
                Some(Ok(Message::Text(text))) => return Ok(serde_json::from_str(&text).unwrap()),
                Some(Ok(Message::Close(frame))) => return Err(frame.map_or(1005, |frame| frame.code.into())),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Err(1006),
            }
        }
    }

    /// All messages up to the close, and its code.
    pub(crate) async fn rest(&mut self) -> (Vec<Value>, u16) {
        let mut messages = Vec::new();
        loop {
            match self.next().await {
                Ok(message) => messages.push(message),
                Err(code) => return (messages, code),
            }
        }
    }
}

/// The texts that stay, joined.
pub(crate) fn texts(messages: &[Value]) -> String {
    let texts = messages.iter().filter(|message| message["is_final"].is_null());
    texts.filter_map(|message| message["text"].as_str()).collect::<Vec<_>>().join(" ")
}
