//! A server that is killed while somebody speaks: what it had settled is stored and charged once, and the client can go on.

mod request;
mod server;
mod support;
mod voice;

use std::path::Path;
use std::time::{Duration, Instant};

use futures_util::{SinkExt as _, StreamExt as _};
use hark_store::{EntryKind, Options, Store};
use serde_json::{Value, json};
use server::Server;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};
use voice::{SENTENCE, speak};

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// What anything here may take on a busy machine.
const LONG: Duration = Duration::from_secs(120);

/// The database of a server on a folder.
fn sqlite(folder: &Path) -> String {
    format!("sqlite://{}", folder.join("data/hark.db").display())
}

fn start(folder: &Path, database: &str) -> Server {
    let settings = format!("[server]\ndatabase = {database:?}\n[server.stream]\nresume = 1\n");
    std::fs::write(folder.join("hark.toml"), settings).unwrap();
    Server::start(folder, &[])
}

/// The sentence as 16-bit samples with a second of silence behind it.
fn sound(folder: &Path) -> Vec<u8> {
    let path = folder.join("talk.wav");
    speak(SENTENCE, &path);
    let mut stream = hark_media::AudioStream::open(hark_media::Source::Path(path), &Default::default()).unwrap();
    let mut samples = Vec::new();
    while stream.read(&mut samples).unwrap() > 0 {}
    samples.extend([0.0; 16_000]);
    samples.iter().flat_map(|sample| ((sample * 32_767.0) as i16).to_le_bytes()).collect()
}

async fn connect(url: &str, key: &str, hello: Value) -> (Socket, Value) {
    let mut request = format!("{}/v1/stream", url.replace("http://", "ws://")).into_client_request().unwrap();
    request.headers_mut().insert("authorization", format!("Bearer {key}").parse().unwrap());
    let mut socket = connect_async(request).await.unwrap().0;
    socket.send(Message::Text(hello.to_string().into())).await.unwrap();
    let ready = message(&mut socket).await.expect("an answer to the config message");
    assert_eq!(ready["status"], "ready", "{ready}");
    (socket, ready)
}

/// The next JSON message; none at the end.
async fn message(socket: &mut Socket) -> Option<Value> {
    loop {
        match tokio::time::timeout(LONG, socket.next()).await.expect("the server says nothing") {
            Some(Ok(Message::Text(text))) => return Some(serde_json::from_str(&text).unwrap()),
            Some(Ok(Message::Close(_))) | Some(Err(_)) | None => return None,
            Some(Ok(_)) => {}
        }
    }
}

/// Sends sound and reads until the last word of the sentence is told for good; gives the texts.
async fn say(socket: &mut Socket, sound: &[u8]) -> String {
    for piece in sound.chunks(2730) {
        socket.send(Message::Binary(piece.to_vec().into())).await.unwrap();
    }
    socket.send(Message::Text(json!({"action": "flush"}).to_string().into())).await.unwrap();
    let mut texts: Vec<String> = Vec::new();
    while !texts.iter().any(|text| text.to_lowercase().contains("bread")) {
        let message = message(socket).await.expect("the session goes on");
        texts.extend(message["text"].as_str().map(str::to_owned));
    }
    texts.join(" ")
}

fn get(server: &str, key: &str, path: &str) -> Value {
    let (url, credential) = (format!("{server}{path}"), format!("Bearer {key}"));
    let ask = || request::request("GET", &url, &[("authorization", &credential)], Vec::new());
    let (status, _, body) = tokio::task::block_in_place(ask);
    assert_eq!(status, 200, "{path}");
    serde_json::from_slice(&body).unwrap()
}

/// Asks until the answer is the one that is waited for.
async fn eventually(what: &str, mut ask: impl FnMut() -> Option<Value>) -> Value {
    let begun = Instant::now();
    loop {
        if let Some(value) = ask() {
            return value;
        }
        assert!(begun.elapsed() < LONG, "waited too long for {what}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// What the account was charged, once the books are known to balance.
async fn charged(folder: &Path, database: &str) -> i64 {
    let blobs = folder.join("data/blobs").display().to_string();
    let store = Store::open(Options::new(database, blobs)).await.unwrap();
    assert!(store.ledger().check().await.unwrap().is_empty(), "the ledger does not balance");
    let mut charged = 0;
    for account in store.accounts().list().await.unwrap() {
        let entries = store.ledger().entries(account.id, 100).await.unwrap();
        charged +=
            entries.iter().filter(|entry| entry.kind == EntryKind::Charge).map(|entry| -entry.amount).sum::<i64>();
    }
    store.close().await;
    charged
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs models and espeak-ng"]
async fn what_was_settled_before_a_kill_is_a_transcript_after_it_and_is_charged_once_over_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    kill_and_wait(folder.path(), &sqlite(folder.path())).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL, models and espeak-ng"]
async fn what_was_settled_before_a_kill_is_a_transcript_after_it_and_is_charged_once_over_postgres() {
    let folder = tempfile::tempdir().unwrap();
    let database = hark_postgres::new_database().await.unwrap_or_else(|error| panic!("{error}"));
    kill_and_wait(folder.path(), &database).await;
}

/// Kills a server while somebody speaks, starts another one and waits for what becomes of the session.
async fn kill_and_wait(folder: &Path, database: &str) {
    let sound = sound(folder);
    let mut server = start(folder, database);
    let (url, key) = (server.url.clone(), server.key.clone());
    let before = get(&url, &key, "/v1/credits")["credits"].as_i64().unwrap();
    let (mut socket, _) = connect(&url, &key, json!({"model": "base", "language": "en"})).await;
    let told = say(&mut socket, &sound).await;
    // Text is written within seconds.
    let path = eventually("the text to be stored", || {
        let listed = get(&url, &key, "/v1/transcripts");
        let path = format!("/v1/transcripts/{}", listed["transcripts"][0]["id"].as_i64()?);
        (get(&url, &key, &path)["text"] == told.as_str()).then_some(path.into())
    })
    .await;
    let path = path.as_str().unwrap();
    assert_eq!(get(&url, &key, path)["status"], "processing");
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    drop(socket);

    let server = start(folder, database);
    let kept = eventually("the session to be completed", || {
        Some(get(&server.url, &key, path)).filter(|kept| kept["status"] == "completed")
    })
    .await;
    assert_eq!((kept["text"].as_str().unwrap(), &kept["source_type"]), (told.as_str(), &json!("stream")));
    let (seconds, sent) = (kept["duration_seconds"].as_f64().unwrap(), sound.len() as f64 / 32_000.0);
    assert!(seconds > 1.0 && seconds <= sent + 0.01, "{seconds} of {sent} s");
    assert_eq!(get(&server.url, &key, "/v1/transcripts")["total"], 1);
    assert_eq!(get(&server.url, &key, "/v1/credits")["credits"].as_i64().unwrap(), before - 1);
    drop(server);
    assert_eq!(charged(folder, database).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs models and espeak-ng"]
async fn a_client_goes_on_after_a_kill_with_the_same_transcript() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let database = sqlite(folder);
    let sound = sound(folder);
    let mut server = start(folder, &database);
    let key = server.key.clone();
    let mut hello = json!({"model": "base", "language": "en"});
    let (mut socket, ready) = connect(&server.url, &key, hello.clone()).await;
    let told = say(&mut socket, &sound).await;
    let stored = eventually("the text to be stored", || {
        let listed = get(&server.url, &key, "/v1/transcripts");
        let id = listed["transcripts"][0]["id"].as_i64()?;
        (get(&server.url, &key, &format!("/v1/transcripts/{id}"))["text"] == told.as_str()).then_some(id.into())
    })
    .await;
    server.child.kill().unwrap();
    server.child.wait().unwrap();

    let server = start(folder, &database);
    hello["session_id"] = ready["session_id"].clone();
    let (mut socket, again) = connect(&server.url, &key, hello).await;
    assert_eq!((&again["session_id"], &again["resumed"]), (&ready["session_id"], &json!(true)), "{again}");
    let received = again["received"].as_f64().unwrap();
    assert!(received > 1.0 && received <= sound.len() as f64 / 32_000.0, "{again}");
    let after = say(&mut socket, &sound).await;
    socket.send(Message::Text(json!({"action": "stop"}).to_string().into())).await.unwrap();
    let mut last = Value::Null;
    while let Some(message) = message(&mut socket).await {
        last = message;
    }
    assert_eq!((&last["is_final"], &last["transcript_id"]), (&json!(true), &stored), "{last}");
    let text = last["text"].as_str().unwrap();
    assert!(text.starts_with(&told) && text.contains(&after), "{text:?} is not {told:?} and {after:?}");
    let duration = last["duration"].as_f64().unwrap();
    assert!((duration - received - sound.len() as f64 / 32_000.0).abs() < 0.1, "{last}");
    let kept = get(&server.url, &key, &format!("/v1/transcripts/{stored}"));
    assert_eq!((&kept["text"], &kept["status"]), (&last["text"], &json!("completed")));
    let segments = kept["segments"].as_array().unwrap();
    let starts: Vec<f64> = segments.iter().map(|segment| segment["start"].as_f64().unwrap()).collect();
    assert!(starts.is_sorted() && *starts.last().unwrap() >= received, "{starts:?}");
    drop(server);
    assert_eq!(charged(folder, &database).await, 1, "one begun minute, whoever heard it");
}
