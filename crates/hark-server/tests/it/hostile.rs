//! What no client of good will sends, byte by byte over a socket: a clear refusal where HTTP allows one, and a server that goes on.

use std::net::SocketAddr;
use std::time::Duration;

use hark_server::{Config, InstantEngine, Seconds};
use hark_store::Plan;
use reqwest::Method;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::server::{Client, Server, config, hum, json, refusal};

/// Sends bytes, and gives what comes back until the server ends the connection.
async fn exchange(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // A server that refuses early may close before it has everything.
    let _ = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    let _ = tokio::time::timeout(Duration::from_secs(5), stream.read_to_end(&mut answer)).await;
    String::from_utf8_lossy(&answer).into_owned()
}

/// Checks that an answer is one refusal with this status and the Error body.
fn refused(answer: &str, status: u16, what: &str) -> String {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{what}: no answer: {answer:?}"));
    assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{what}: {head}");
    assert!(head.contains("content-type: application/json"), "{what}: {head}");
    let body: Value = serde_json::from_str(body).unwrap_or_else(|error| panic!("{what}: {error}: {body:?}"));
    body["error"].as_str().unwrap().to_owned()
}

async fn is_well(server: &Server) {
    assert_eq!(server.anonymous().get("/v1/models").await.status(), 200);
}

#[tokio::test]
async fn lengths_and_encodings_that_contradict_themselves_are_refused() {
    let server = Server::with(Config { idle_timeout: Seconds(0.5), ..config() }, InstantEngine::default()).await;
    let post = "POST /v1/embed HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n";
    let cases = [
        ("two lengths", 400, "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}"),
        ("a length that is a word", 400, "Content-Length: two\r\n\r\n{}"),
        ("a length below zero", 400, "Content-Length: -1\r\n\r\n{}"),
        ("a length with a sign", 400, "Content-Length: +2\r\n\r\n{}"),
        ("a length beyond numbers", 400, "Content-Length: 99999999999999999999999\r\n\r\n{}"),
        ("an encoding that nobody knows", 400, "Transfer-Encoding: rot13\r\n\r\n{}"),
        ("no length at all", 400, "\r\n"),
        ("a body shorter than its length", 408, "Content-Length: 100\r\n\r\n{}"),
        ("chunks that are none", 400, "Transfer-Encoding: chunked\r\n\r\nZZ\r\n{}\r\n0\r\n\r\n"),
        ("a chunk beyond numbers", 400, "Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n{}\r\n0\r\n\r\n"),
        ("a chunk that does not end", 400, "Transfer-Encoding: chunked\r\n\r\n2\r\n{}{}\r\n0\r\n\r\n"),
        ("chunks without an end", 408, "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n"),
    ];
    for (what, status, rest) in cases {
        let answer = exchange(server.address, format!("{post}{rest}").as_bytes()).await;
        refused(&answer, status, what);
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{what} is one request: {answer}");
    }
    is_well(&server).await;
}

#[tokio::test]
async fn a_request_hidden_behind_two_kinds_of_length_is_not_answered() {
    let server = Server::start().await;
    let request = "POST /v1/embed HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\
        Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n";
    let answer = exchange(server.address, request.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    assert!(!answer.contains("\"models\""), "the hidden request was answered: {answer}");
}

#[tokio::test]
async fn requests_one_behind_the_other_are_answered_in_order() {
    let server = Server::start().await;
    let request = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n");
    let paths = ["/v1/models", "/nothing", "/v1/languages?for=poetry", "/health"];
    let all = paths.map(request).concat().replace("/health HTTP/1.1\r\n", "/health HTTP/1.1\r\nConnection: close\r\n");
    let answer = exchange(server.address, all.as_bytes()).await;
    let statuses: Vec<&str> = answer.split("HTTP/1.1 ").skip(1).map(|one| &one[..3]).collect();
    assert_eq!(statuses, ["200", "404", "400", "200"], "{answer}");
}

#[tokio::test]
async fn an_old_client_gets_its_answer_and_the_end_of_the_connection() {
    let server = Server::start().await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(b"GET /v1/models HTTP/1.0\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    let read = tokio::time::timeout(Duration::from_secs(5), stream.read_to_string(&mut answer)).await;
    read.expect("the server ends the connection").unwrap();
    assert!(answer.starts_with("HTTP/1.0 200") && answer.contains("\"models\""), "{answer}");
}

#[tokio::test]
async fn http_2_is_spoken_without_an_upgrade_and_nonsense_in_it_ends_only_itself() {
    let server = Server::start().await;
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(&[&preface[..], &settings].concat()).await.unwrap();
    let mut frame = [0; 9];
    tokio::time::timeout(Duration::from_secs(5), stream.read_exact(&mut frame)).await.unwrap().unwrap();
    assert_eq!(frame[3], 4, "the first frame is SETTINGS");
    // A frame of 16 MB of an unknown kind, a frame for a stream that is not there, and plain noise.
    for nonsense in [&[255, 255, 255, 99, 255, 0, 0, 0, 1][..], &[0, 0, 0, 0, 0, 0, 0, 0, 9], &[0xa5; 4096]] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(&[&preface[..], &settings, nonsense].concat()).await.unwrap();
        let mut answer = Vec::new();
        let ended = tokio::time::timeout(Duration::from_secs(5), stream.read_to_end(&mut answer)).await;
        assert!(ended.is_ok(), "the connection goes on after {nonsense:?}");
    }
    is_well(&server).await;
}

#[tokio::test]
async fn many_clients_that_never_finish_their_head_are_given_up_and_keep_nobody_waiting() {
    let server = Server::with(Config { header_timeout: Seconds(1.0), ..config() }, InstantEngine::default()).await;
    let mut stuck = Vec::new();
    for number in 0..200 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(format!("GET /v1/models HTTP/1.1\r\nX-{number}: ").as_bytes()).await.unwrap();
        stuck.push(stream);
    }
    let begun = std::time::Instant::now();
    is_well(&server).await;
    assert!(begun.elapsed() < Duration::from_secs(5));
    // One byte now and then buys no time.
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(400)).await;
        for stream in &mut stuck {
            let _ = stream.write_all(b"a").await;
        }
    }
    for mut stream in stuck {
        let mut answer = Vec::new();
        let ended = tokio::time::timeout(Duration::from_secs(10), stream.read_to_end(&mut answer)).await;
        assert!(ended.is_ok(), "a connection is still open");
    }
}

async fn send(client: &Client, body: impl Into<reqwest::Body>) -> reqwest::Response {
    let request = client.request(Method::POST, "/v1/transcribe");
    request.header("Content-Type", "multipart/form-data; boundary=XyZ").body(body).send().await.unwrap()
}

fn part(head: &str, data: &[u8]) -> Vec<u8> {
    [format!("--XyZ\r\n{head}\r\n\r\n").as_bytes(), data, b"\r\n"].concat()
}

fn file(name: &str) -> Vec<u8> {
    part(&format!("Content-Disposition: form-data; name=\"file\"; filename=\"{name}\""), &hum(1.0))
}

#[tokio::test]
async fn forms_that_are_none_are_refused_with_a_reason() {
    let server = Server::start().await;
    let client = server.account(Plan::Pro).await;
    let end = b"--XyZ--\r\n";
    let whole = [&file("a.wav")[..], end].concat();
    let text = |name: &str| part(&format!("Content-Disposition: form-data; name=\"{name}\""), b"x");
    let long = "a".repeat(4 << 20);
    let cases: [(&str, Vec<u8>, &str); 11] = [
        ("no end", file("a.wav"), "ended early"),
        ("cut in the file", whole[..whole.len() / 2].to_vec(), "ended early"),
        ("cut in a head", b"--XyZ\r\nContent-Disposition: form-da".to_vec(), "ended early"),
        ("nothing", Vec::new(), "ended early"),
        ("another boundary", whole.iter().map(|byte| if *byte == b'X' { b'Y' } else { *byte }).collect(), "malformed"),
        ("two files", [&file("a.wav")[..], &file("b.wav"), end].concat(), "twice"),
        ("a head of megabytes", [part(&format!("X-Long: {long}"), b""), end.to_vec()].concat(), "too long"),
        ("many lines of head", [part(&"X: y\r\n".repeat(100_000), b""), end.to_vec()].concat(), "too long"),
        (
            "a part without a name",
            [part("Content-Type: text/plain", b"x"), end.to_vec()].concat(),
            "Content-Disposition",
        ),
        ("noise behind the boundary", b"--XyZnoise\r\n\r\n".to_vec(), "behind its boundary"),
        ("a million parts", [text("x").repeat(1_000_000), end.to_vec()].concat(), "too many parts"),
    ];
    for (what, body, why) in cases {
        let message = refusal(send(&client, body).await, 400).await;
        assert!(message.contains(why), "{what}: {message}");
    }
    let unnamed = client.request(Method::POST, "/v1/transcribe").header("Content-Type", "multipart/form-data");
    refusal(unnamed.body("--\r\n").send().await.unwrap(), 400).await;
    // Nothing of all that was kept, and the account can still do what it could.
    assert_eq!(client.credits(&server).await, 600);
    assert_eq!(json(client.get("/v1/transcripts").await, 200).await["total"], 0);
    assert_eq!(send(&client, whole).await.status(), 200);
}

#[tokio::test]
async fn the_name_of_a_file_is_only_a_title() {
    let server = Server::start().await;
    let client = server.account(Plan::Pro).await;
    let long = "n".repeat(5000);
    let cases = [
        ("../../../etc/passwd", "passwd"),
        ("C:\\\\temp\\\\a.wav", "a.wav"),
        ("a\u{0}b.wav", "ab.wav"),
        ("..", ".."),
        ("", "Untitled"),
        ("\u{202e}gpj.wav", "\u{202e}gpj.wav"),
        (&long, &long[..200]),
    ];
    for (name, title) in cases {
        let sent = send(&client, [&file(name)[..], b"--XyZ--\r\n"].concat()).await;
        assert_eq!(sent.status(), 200, "{name:?}");
        let id = sent.headers()["x-transcript-id"].to_str().unwrap().to_owned();
        let shown = json(client.get(&format!("/v1/transcripts/{id}")).await, 200).await;
        assert_eq!(shown["title"], title, "{name:?}");
        let export = client.get(&format!("/v1/transcripts/{id}/export/txt")).await;
        let disposition = export.headers()["content-disposition"].to_str().unwrap().to_owned();
        assert!(!disposition.contains('/') && !disposition.contains('\\'), "{disposition}");
    }
    assert!(!server.folder.path().join("passwd").exists());
}
