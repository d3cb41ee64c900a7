//! Every answer that is no success has the Error body, the framework's own included.

use std::time::Duration;

use hark_store::Plan;
use reqwest::Method;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::server::{Server, refusal};

#[tokio::test]
async fn unknown_paths_and_methods_are_refused_with_the_error_body() {
    let server = Server::start().await;
    let client = server.account(Plan::Free).await;
    for path in
        ["/", "/v1", "/v2/transcribe", "/v1/transcripts/abc", "/v1/transcripts/1/export/pdf/x", "/v1/shared/nothing"]
    {
        refusal(client.get(path).await, 404).await;
    }
    for path in ["/v1/transcripts/99999999999999999999", "/v1/transcripts/-1", "/v1/transcripts/%FF", "/v1/shared/%FF"]
    {
        refusal(client.get(path).await, 404).await;
    }
    let odd = Method::from_bytes(b"BREW").unwrap();
    for path in ["/v1/models", "/v1/transcripts/1", "/v1/transcribe", "/health", "/v1/keys"] {
        for method in [&odd, &Method::TRACE] {
            let response = client.request(method.clone(), path).send().await.unwrap();
            assert!(response.headers().contains_key("allow"), "{method} {path} says what it takes");
            refusal(response, 405).await;
        }
    }
    refusal(client.request(Method::DELETE, "/v1/models").send().await.unwrap(), 405).await;
}

#[tokio::test]
async fn bodies_that_make_no_sense_are_refused_with_the_error_body() {
    let server = Server::start().await;
    let client = server.account(Plan::Free).await;
    let send = |body: Vec<u8>, media: &'static str| {
        client.request(Method::POST, "/v1/summarize").header("Content-Type", media).body(body).send()
    };
    let json = "application/json";
    for body in
        ["", "{", "[]", "null", "{\"text\": 1}", "{\"style\": \"brief\"}", "{\"text\": \"a\", \"style\": \"long\"}"]
    {
        refusal(send(body.into(), json).await.unwrap(), 400).await;
    }
    refusal(send(b"{\"text\": \"\xff\xfe\"}".to_vec(), json).await.unwrap(), 400).await;
    refusal(send(b"{\"text\": \"a\"}".to_vec(), "text/plain").await.unwrap(), 415).await;
    let deep = "[".repeat(100_000);
    refusal(send(deep.into(), json).await.unwrap(), 400).await;
    let large = format!("{{\"text\": \"{}\"}}", "a".repeat(2 << 20));
    refusal(send(large.into(), json).await.unwrap(), 413).await;
    let long = format!("{{\"text\": \"{}\"}}", "a".repeat(390_000));
    refusal(send(long.into(), "application/json; charset=utf-8").await.unwrap(), 503).await;
}

#[tokio::test]
async fn queries_that_make_no_sense_are_refused_by_name() {
    let server = Server::start().await;
    let client = server.account(Plan::Free).await;
    for query in
        ["page=0", "page=x", "per_page=101", "per_page=0", "status=done", "created_after=yesterday", "page=1&page=2"]
    {
        let message = refusal(client.get(&format!("/v1/transcripts?{query}")).await, 400).await;
        let name = query.split('=').next().unwrap();
        assert!(
            message.contains(name) || message.contains("variant") || message.contains("date"),
            "{query}: {message}"
        );
    }
    for query in ["days=0", "days=366", "days=-1", "days=%FF"] {
        refusal(client.get(&format!("/v1/usage?{query}")).await, 400).await;
    }
    refusal(client.get("/v1/languages?for=poetry").await, 400).await;
}

#[tokio::test]
async fn credentials_that_do_not_hold_open_nothing() {
    let server = Server::start().await;
    let mut client = server.account(Plan::Free).await;
    let good = client.key.take().unwrap();
    let paths = ["/v1/account", "/v1/usage", "/v1/cloud", "/v1/keys", "/v1/transcripts", "/v1/transcripts/1"];
    for path in paths {
        refusal(client.get(path).await, 401).await;
    }
    let mut changed = good.clone();
    changed.replace_range(10..11, if &good[10..11] == "0" { "1" } else { "0" });
    for key in [changed, good.to_uppercase(), good[..67].to_owned(), "svc_".to_owned(), String::new()] {
        client.key = Some(key);
        refusal(client.get("/v1/account").await, 401).await;
        refusal(client.get("/v1/credits").await, 401).await;
    }
    client.key = None;
    let basic = client.request(Method::GET, "/v1/credits").header("Authorization", "Basic YTpi");
    let response = basic.send().await.unwrap();
    assert_eq!(response.headers()["www-authenticate"], "Bearer");
    refusal(response, 401).await;
    client.key = Some(good);
    assert_eq!(client.get("/v1/account").await.status(), 200);
}

#[tokio::test]
async fn what_is_no_request_at_all_is_refused_with_the_error_body_too() {
    let server = Server::start().await;
    let long = format!("GET /v1/models HTTP/1.1\r\nHost: x\r\nX-Long: {}\r\n\r\n", "a".repeat(100_000));
    let cases = [
        ("FOO\r\n\r\n", "400"),
        ("GET /v1/models HTTP/1.1\r\nHost: x\r\nno colon here\r\n\r\n", "400"),
        ("\u{16}\u{3}\u{1} a client that speaks TLS\r\n\r\n", "400"),
        (&long, "431"),
    ];
    for (request, status) in cases {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let _ = tokio::time::timeout(Duration::from_secs(5), stream.read_to_end(&mut answer)).await;
        let answer = String::from_utf8(answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer}"));
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
        assert!(head.contains("content-type: application/json"), "{head}");
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        assert!(!body["error"].as_str().unwrap().is_empty());
    }
}

#[tokio::test]
async fn a_sender_that_is_refused_before_its_body_is_read_still_reads_why() {
    let server = Server::start().await;
    for path in ["/v1/transcribe", "/v1/audio/transcriptions", "/v1/nothing", "/v1/models"] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let length = 8 << 20;
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer svc_wrong\r\nContent-Length: {length}\r\n\
             Content-Type: multipart/form-data; boundary=b\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        for _ in 0..length / (64 << 10) {
            stream
                .write_all(&[b'a'; 64 << 10])
                .await
                .unwrap_or_else(|error| panic!("{path} cut its sender off: {error}"));
        }
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap_or_else(|error| panic!("{path}: {error}"));
        assert!(answer.starts_with("HTTP/1.1 40") && answer.contains("\"error\""), "{path}: {answer}");
    }
}

#[tokio::test]
async fn a_request_without_its_body_is_told_so_whatever_its_headers_say() {
    let server = Server::start().await;
    let client = server.account(Plan::Free).await;
    let paths = [
        "/v1/transcribe",
        "/v1/summarize",
        "/v1/translate",
        "/v1/analyze",
        "/v1/generate",
        "/v1/enhance-audio",
        "/v1/tts",
        "/v1/embed",
        "/v1/auth/signup",
        "/v1/auth/signin",
        "/v1/auth/password",
    ];
    for path in paths {
        let message = refusal(client.request(Method::POST, path).send().await.unwrap(), 400).await;
        assert!(message.contains("body is missing"), "{path}: {message}");
        let chunked = reqwest::Body::wrap_stream(futures_util::stream::empty::<Result<Vec<u8>, std::io::Error>>());
        let message = refusal(client.request(Method::POST, path).body(chunked).send().await.unwrap(), 400).await;
        assert!(message.contains("body is missing"), "{path}: {message}");
    }
    refusal(client.request(Method::PUT, "/v1/account").send().await.unwrap(), 400).await;
    // A body of another kind is still refused for its kind.
    refusal(client.request(Method::POST, "/v1/summarize").body("text=a").send().await.unwrap(), 415).await;
    refusal(client.request(Method::POST, "/v1/transcribe").body("RIFF").send().await.unwrap(), 415).await;
}
