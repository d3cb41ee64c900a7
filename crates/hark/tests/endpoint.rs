//! A server whose language model is on another one: `hark serve` as the endpoint of `hark serve`, with a real, small model.

mod request;
mod server;
mod support;

use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

use hark_http::BlockingClient;
use serde_json::{Value, json};
use server::Server;
use support::hark;

const MODEL: &str = "smollm2-135m-instruct";
const TEXT: &str = "Ann: The invoice of the Berlin office is 4200 euros and due on Friday. Bob: I will call the supplier tomorrow. \
    Ann: Can you send me the contract? Bob: Yes, on Monday.";

/// The server with the model, at an address that stays the same.
struct Peer {
    folder: tempfile::TempDir,
    listen: String,
    key: String,
    server: Option<Server>,
}

impl Peer {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let settings = format!("[text]\nmodel = \"{MODEL}\"\ncontext = 2048\ncache_mb = 128\n");
        std::fs::write(folder.path().join("hark.toml"), settings).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut peer = Peer { folder, listen: format!("127.0.0.1:{port}"), key: String::new(), server: None };
        peer.restart();
        peer.key = peer.server.as_ref().unwrap().key.clone();
        peer
    }

    fn restart(&mut self) {
        self.server = Some(Server::start(self.folder.path(), &["--listen", &self.listen]));
    }

    /// As `kill -9` does.
    fn kill(&mut self) {
        self.server = None;
    }

    fn url(&self) -> String {
        format!("http://{}/v1", self.listen)
    }
}

/// A server that uses the model of another.
fn front(folder: &Path, peer: &Peer) -> Server {
    std::fs::write(folder.join("key"), format!("{}\n", peer.key)).unwrap();
    let settings = format!("[text]\nendpoint = \"{}\"\nendpoint_key_file = \"key\"\n", peer.url());
    std::fs::write(folder.join("hark.toml"), settings).unwrap();
    Server::start(folder, &[])
}

fn ask(server: &Server, method: &str, path: &str, body: &Value) -> (u16, reqwest::header::HeaderMap, Value) {
    let authorization = format!("Bearer {}", server.key);
    let headers = [("authorization", authorization.as_str()), ("content-type", "application/json")];
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let (status, headers, body) = request::request(method, &format!("{}{path}", server.url), &headers, body);
    (status, headers, serde_json::from_slice(&body).unwrap_or_default())
}

fn credits(server: &Server) -> i64 {
    ask(server, "GET", "/v1/credits", &Value::Null).2["credits"].as_i64().expect("a balance")
}

fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(120), "{what} did not happen");
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
#[ignore = "needs models"]
fn the_same_tasks_run_on_the_model_of_another_server() {
    let peer = Peer::start();
    let folder = tempfile::tempdir().unwrap();
    let server = front(folder.path(), &peer);
    let (status, _, summary) = ask(&server, "POST", "/v1/summarize", &json!({"text": TEXT}));
    assert_eq!((status, &summary["model"]), (200, &json!(MODEL)), "{summary}");
    assert!(!summary["summary"].as_str().unwrap().is_empty());
    let (status, _, topics) = ask(&server, "POST", "/v1/analyze", &json!({"text": TEXT, "type": "topics"}));
    assert_eq!(status, 200, "{topics}");
    assert!(topics["result"]["topics"].is_array(), "{topics}");

    let schema = json!({"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"], "additionalProperties": false});
    let format = json!({"type": "json_schema", "json_schema": {"name": "x", "schema": schema}});
    let question = json!({"model": MODEL, "messages": [{"role": "user", "content": "Is water wet?"}], "max_tokens": 20, "response_format": format});
    let (status, headers, answer) = ask(&server, "POST", "/v1/chat/completions", &question);
    assert_eq!((status, headers["x-model"].to_str().unwrap()), (200, MODEL), "{answer}");
    let content: Value = serde_json::from_str(answer["choices"][0]["message"]["content"].as_str().unwrap()).unwrap();
    assert!(content["ok"].is_boolean(), "{answer}");
    assert!(answer["usage"]["prompt_tokens"].as_u64().unwrap() > 5, "{answer}");
    let (status, _, refused) = ask(
        &server,
        "POST",
        "/v1/chat/completions",
        &json!({"model": "other", "messages": [{"role": "user", "content": "a"}]}),
    );
    assert_eq!((status, &refused["error"]["code"]), (404, &json!("model_not_found")));
    let long = json!({"messages": [{"role": "user", "content": "word ".repeat(3000)}]});
    let (status, _, refused) = ask(&server, "POST", "/v1/chat/completions", &long);
    assert_eq!((status, &refused["error"]["code"]), (400, &json!("context_length_exceeded")), "{refused}");

    eventually("the model is listed", || {
        let listed = ask(&server, "GET", "/v1/models", &Value::Null).2;
        let model = &listed["text"][0];
        model["id"] == MODEL && model["state"] == "remote" && model["context"] == 2048
    });

    let file = folder.path().join("talk.txt");
    std::fs::write(&file, TEXT).unwrap();
    let mut command = hark(folder.path());
    command
        .args(["summarize", "talk.txt", "--json", "--endpoint", &peer.url()])
        .env("HARK_TEXT_ENDPOINT_KEY", &peer.key);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(printed["model"], MODEL, "{printed}");
    let mut command = hark(folder.path());
    command.args(["summarize", "talk.txt", "--endpoint", &peer.url()]).env("HARK_TEXT_ENDPOINT_KEY", "svc_wrong");
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("endpoint_key") && !said.contains("svc_wrong"), "{said}");
}

#[test]
#[ignore = "needs models"]
fn an_endpoint_that_dies_costs_nothing_is_not_waited_for_and_is_used_again_when_it_is_back() {
    let mut peer = Peer::start();
    let folder = tempfile::tempdir().unwrap();
    let server = front(folder.path(), &peer);
    let before = credits(&server);
    let question = json!({"messages": [{"role": "user", "content": "Count from one to a thousand."}], "max_tokens": 1200, "stream": true});

    // It dies in the middle of a stream: the stream ends with an error.
    let client = BlockingClient::new(hark_http::builder().no_proxy()).unwrap();
    let request = client.client().post(format!("{}/v1/chat/completions", server.url)).bearer_auth(&server.key);
    let request = request.header("content-type", "application/json").body(question.to_string());
    let mut stream = client.send(request, None).unwrap();
    assert_eq!(stream.status(), 200);
    let mut text = String::new();
    while !text.contains("\"content\":\"") || text.matches("data: ").count() < 3 {
        text.push_str(&String::from_utf8_lossy(&stream.chunk().unwrap().expect("the stream goes on")));
    }
    peer.kill();
    while let Some(chunk) = stream.chunk().unwrap() {
        text.push_str(&String::from_utf8_lossy(&chunk));
    }
    let last = text.trim_end().rsplit("data: ").next().unwrap();
    let error: Value = serde_json::from_str(last).unwrap_or_else(|_| panic!("no error at the end of {text}"));
    assert_eq!(error["error"]["type"], "server_error", "{text}");

    // While it is away, requests fail, and soon without being tried.
    let summarize = || ask(&server, "POST", "/v1/summarize", &json!({"text": TEXT}));
    let (status, headers, _) = summarize();
    assert_eq!(status, 503);
    assert!(headers.contains_key("retry-after"), "{headers:?}");
    let is_open = || {
        let begun = Instant::now();
        let status = summarize().0;
        assert_eq!(status, 503);
        let listed = ask(&server, "GET", "/v1/models", &Value::Null).2;
        begun.elapsed() < Duration::from_secs(2) && listed["text"][0]["state"] == "unreachable"
    };
    eventually("the circuit breaker opens", is_open);
    assert_eq!(ask(&server, "GET", "/health/ready", &Value::Null).0, 200, "the rest of the service is ready");
    eventually("every credit comes back", || credits(&server) == before);

    peer.restart();
    eventually("it is used again", || summarize().0 == 200);
    assert_eq!(credits(&server), before - 1);
}
