//! Calls to another server when a transcript is done, with a real receiver.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hark_server::{Config, EngineError, Engines, InstantEngine, Models, Transcribe, Transcribed, Webhooks, Work};
use hark_store::{Clock, DAY, Plan};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::server::{Client, Server, config, eventually, hum, json, refusal};

/// One call as it arrived.
#[derive(Debug, Clone)]
struct Received {
    headers: HashMap<String, String>,
    body: String,
}

/// A server that is called, and answers with the statuses it was told, then with 200.
#[derive(Clone)]
struct Receiver {
    port: u16,
    statuses: Arc<Mutex<VecDeque<u16>>>,
    calls: Arc<Mutex<Vec<Received>>>,
}

impl Receiver {
    async fn open(statuses: &[u16]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let receiver = Receiver {
            port: listener.local_addr().unwrap().port(),
            statuses: Arc::new(Mutex::new(statuses.iter().copied().collect())),
            calls: Arc::default(),
        };
        let one = receiver.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(one.clone().answer(stream));
            }
        });
        receiver
    }

    async fn answer(self, stream: TcpStream) {
        let mut stream = BufReader::new(stream);
        let mut headers = HashMap::new();
        let mut line = String::new();
        stream.read_line(&mut line).await.unwrap();
        assert!(line.starts_with("POST /hook?x=1 "), "{line}");
        loop {
            line.clear();
            stream.read_line(&mut line).await.unwrap();
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            headers.insert(name.to_lowercase(), value.to_owned());
        }
        let mut body = vec![0; headers["content-length"].parse().unwrap()];
        stream.read_exact(&mut body).await.unwrap();
        self.calls.lock().unwrap().push(Received { headers, body: String::from_utf8(body).unwrap() });
        let status = self.statuses.lock().unwrap().pop_front().unwrap_or(200);
        let elsewhere = format!("location: http://127.0.0.1:{}/hook?x=1\r\n", self.port);
        let more = if status == 302 { elsewhere } else { String::new() };
        let answer = format!("HTTP/1.1 {status} x\r\ncontent-length: 0\r\nconnection: close\r\n{more}\r\n");
        stream.write_all(answer.as_bytes()).await.unwrap();
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/hook?x=1", self.port)
    }

    async fn calls(&self, count: usize) -> Vec<Received> {
        eventually("a call", async || Some(self.calls.lock().unwrap().clone()).filter(|calls| calls.len() >= count))
            .await
    }

    /// Checks that no more calls come.
    async fn stays_at(&self, count: usize) {
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(self.calls.lock().unwrap().len(), count);
    }
}

const ALLOWED: Webhooks = Webhooks { enabled: true, allow_http: true, allow_private: true };

fn with(webhooks: Webhooks) -> Config {
    Config { webhooks, ..config() }
}

async fn send(client: &Client, url: &str) -> reqwest::Response {
    client.transcribe("/v1/transcribe?async=true", hum(1.0), &[("webhook_url", url)]).send().await.unwrap()
}

/// What somebody who follows the documentation would check.
fn is_signed(call: &Received, secret: &str) -> bool {
    use hmac::{Hmac, KeyInit, Mac};
    let header = &call.headers["x-hark-signature"];
    let (at, given) = header.strip_prefix("t=").unwrap().split_once(",v1=").unwrap();
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(format!("{at}.{}", call.body).as_bytes());
    let hex: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    given.split(",v1=").any(|given| hex == given)
}

#[tokio::test]
async fn a_completed_transcript_is_told_once_and_signed() {
    let receiver = Receiver::open(&[]).await;
    let server = Server::with(with(ALLOWED), InstantEngine::default()).await;
    let (client, other) = (server.account(Plan::Free).await, server.account(Plan::Free).await);
    let id = json(send(&client, &receiver.url()).await, 202).await["id"].as_i64().unwrap();
    let call = receiver.calls(1).await.remove(0);
    let body: Value = serde_json::from_str(&call.body).unwrap();
    assert_eq!((&body["event"], &body["status"]), (&Value::from("transcript.completed"), &Value::from("completed")));
    assert_eq!(
        (body["id"].as_i64(), body["duration"].as_f64(), body["word_count"].as_i64()),
        (Some(id), Some(1.0), Some(3))
    );
    assert_eq!(body["title"], "talk.wav");
    assert!(body.get("error").is_none());
    assert_eq!(call.headers["content-type"], "application/json");
    assert_eq!(call.headers["x-hark-event"], "transcript.completed");
    assert!(!call.headers.contains_key("authorization"));

    let secret = json(client.get("/v1/webhooks/secret").await, 200).await["secret"].as_str().unwrap().to_owned();
    assert!(secret.starts_with("whsec_"));
    assert!(is_signed(&call, &secret));
    let theirs = json(other.get("/v1/webhooks/secret").await, 200).await["secret"].as_str().unwrap().to_owned();
    assert!(!is_signed(&call, &theirs), "each account has a secret of its own");
    receiver.stays_at(1).await;
}

#[tokio::test]
async fn a_secret_that_was_rotated_signs_for_a_while_beside_the_new_one() {
    let receiver = Receiver::open(&[]).await;
    let server = Server::with_clock(with(ALLOWED), InstantEngine::default(), Clock::manual(DAY * 20_000)).await;
    let client = server.account(Plan::Free).await;
    let secret =
        async || json(client.get("/v1/webhooks/secret").await, 200).await["secret"].as_str().unwrap().to_owned();
    let old = secret().await;
    let rotated =
        json(client.post("/v1/webhooks/secret/rotate", serde_json::json!({"grace_seconds": 60})).await, 200).await;
    let new = secret().await;
    assert_ne!(old, new);
    assert_eq!(rotated["secret"], new.as_str());
    assert!(rotated["previous_valid_until"].is_string(), "{rotated}");
    json(send(&client, &receiver.url()).await, 202).await;
    let call = receiver.calls(1).await.remove(0);
    assert!(is_signed(&call, &old) && is_signed(&call, &new));
    server.clock.advance(Duration::from_secs(60));
    json(send(&client, &receiver.url()).await, 202).await;
    let call = receiver.calls(2).await.remove(1);
    assert!(!is_signed(&call, &old) && is_signed(&call, &new));
    refusal(client.post("/v1/webhooks/secret/rotate", serde_json::json!({"grace_seconds": -1})).await, 400).await;
}

/// Hears nothing in anything.
struct Deaf(InstantEngine);

impl Models for Deaf {
    fn models(&self) -> Vec<hark_api::Model> {
        self.0.models()
    }

    fn resolve(&self, model: &str) -> Result<String, EngineError> {
        self.0.resolve(model)
    }

    fn device(&self) -> Option<String> {
        None
    }
}

impl Transcribe for Deaf {
    fn transcribe(
        &self,
        _: hark_media::Source,
        _: &Work,
        _: &mut dyn FnMut(hark_speech::Progress<'_>),
        _: &hark_speech::CancelToken,
    ) -> Result<Transcribed, EngineError> {
        Err(EngineError::Unusable("the recording is broken".into()))
    }
}

#[tokio::test]
async fn a_failed_transcript_is_told_with_its_reason() {
    let receiver = Receiver::open(&[]).await;
    let server = Server::with(with(ALLOWED), Engines::new(Arc::new(Deaf(InstantEngine::default())))).await;
    let client = server.account(Plan::Free).await;
    json(send(&client, &receiver.url()).await, 202).await;
    let body: Value = serde_json::from_str(&receiver.calls(1).await[0].body).unwrap();
    assert_eq!(
        (&body["event"], &body["error"]),
        (&Value::from("transcript.failed"), &Value::from("the recording is broken"))
    );
    assert!(body.get("duration").is_none() && body.get("word_count").is_none());
}

#[tokio::test]
async fn a_call_that_is_not_answered_comes_again_later_and_redirects_are_no_answer() {
    let receiver = Receiver::open(&[500, 302]).await;
    let server = Server::with_clock(with(ALLOWED), InstantEngine::default(), Clock::manual(DAY * 20_000)).await;
    let client = server.account(Plan::Free).await;
    json(send(&client, &receiver.url()).await, 202).await;
    receiver.calls(1).await;
    receiver.stays_at(1).await;
    server.clock.advance(Duration::from_secs(12));
    let calls = receiver.calls(2).await;
    assert_eq!(calls[0].headers["x-hark-delivery"], calls[1].headers["x-hark-delivery"]);
    assert_eq!(calls[0].body, calls[1].body);
    assert_ne!(
        calls[0].headers["x-hark-signature"], calls[1].headers["x-hark-signature"],
        "it is signed with its own moment"
    );
    receiver.stays_at(2).await;
    server.clock.advance(Duration::from_secs(70));
    receiver.calls(3).await;
    server.clock.advance(Duration::from_secs(7 * 86_400));
    receiver.stays_at(3).await;
}

#[tokio::test]
async fn a_receiver_that_is_gone_is_not_called_again() {
    let receiver = Receiver::open(&[410]).await;
    let server = Server::with_clock(with(ALLOWED), InstantEngine::default(), Clock::manual(DAY * 20_000)).await;
    let client = server.account(Plan::Free).await;
    json(send(&client, &receiver.url()).await, 202).await;
    receiver.calls(1).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    server.clock.advance(Duration::from_secs(7 * 86_400));
    receiver.stays_at(1).await;
}

#[tokio::test]
async fn this_machine_is_out_of_reach_unless_it_is_allowed() {
    let receiver = Receiver::open(&[]).await;
    let public_only = Webhooks { allow_private: false, ..ALLOWED };
    let server = Server::with(with(public_only), InstantEngine::default()).await;
    let client = server.account(Plan::Pro).await;
    for host in ["127.0.0.1", "localhost", "localhost.", "[::1]", "[::ffff:127.0.0.1]", "127.1", "2130706433"] {
        let url = receiver.url().replace("127.0.0.1", host);
        assert!(refusal(send(&client, &url).await, 400).await.contains("internet"), "{url}");
    }
    receiver.stays_at(0).await;
}

/// The environment belongs to the whole process, so the test of a delivery runs once more in a process of its own.
#[tokio::test]
async fn a_call_does_not_go_through_a_proxy_of_the_environment() {
    let proxy = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", proxy.local_addr().unwrap());
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "webhooks::a_completed_transcript_is_told_once_and_signed"]);
    for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
        child.env(name, &address);
    }
    child.env_remove("NO_PROXY").env_remove("no_proxy");
    let ended = tokio::task::spawn_blocking(move || child.output()).await.unwrap().unwrap();
    let printed = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success() && printed.contains("1 passed"), "{printed}");
    let connected = std::future::poll_fn(|context| std::task::Poll::Ready(proxy.poll_accept(context))).await;
    assert!(connected.is_pending(), "the proxy was asked");
}

#[tokio::test]
async fn webhooks_are_off_unless_enabled_and_only_for_accounts() {
    let server = Server::start().await;
    let client = server.account(Plan::Free).await;
    assert!(refusal(send(&client, "https://example.com/").await, 400).await.contains("not enabled"));
    refusal(client.get("/v1/webhooks/secret").await, 404).await;
    let server = Server::with(with(Webhooks { enabled: true, ..Webhooks::default() }), InstantEngine::default()).await;
    let client = server.account(Plan::Free).await;
    assert!(refusal(send(&client, "http://example.com/").await, 400).await.contains("https://"));
    assert!(refusal(send(&client, "nonsense").await, 400).await.contains("webhook_url"));
    let anonymous =
        server.anonymous().transcribe("/v1/transcribe", hum(1.0), &[("webhook_url", "https://example.com")]);
    refusal(anonymous.send().await.unwrap(), 401).await;
    let empty = client.transcribe("/v1/transcribe", hum(1.0), &[("webhook_url", "")]).send().await.unwrap();
    assert_eq!(empty.status(), 200);
}
