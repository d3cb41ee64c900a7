//! `/v1/uploads`: recordings that are sent in parts.

use std::time::Duration;

use hark_api::DateTime;
use hark_server::{Config, InstantEngine, StorageQuota};
use hark_store::{Clock, Plan};
use reqwest::Method;
use serde_json::{Value, json as value};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::server::{Client, Server, config, eventually, hum, json, refusal};

async fn begin(client: &Client, size: usize) -> i64 {
    let state =
        json(client.post("/v1/uploads", value!({"size": size, "name": "../talks/monday.wav"})).await, 201).await;
    assert_eq!((&state["size"], &state["offset"]), (&value!(size), &value!(0)));
    state["id"].as_i64().unwrap()
}

async fn put(client: &Client, id: i64, offset: usize, bytes: &[u8]) -> reqwest::Response {
    let request = client.request(Method::PUT, &format!("/v1/uploads/{id}?offset={offset}"));
    request.header("content-type", "application/octet-stream").body(bytes.to_vec()).send().await.unwrap()
}

async fn offset(client: &Client, id: i64) -> usize {
    json(client.get(&format!("/v1/uploads/{id}")).await, 200).await["offset"].as_u64().unwrap() as usize
}

/// Sends a form without a file.
async fn send(client: &Client, path: &str, id: i64, key: Option<&str>) -> reqwest::Response {
    let form = reqwest::multipart::Form::new().text("upload", id.to_string());
    let mut request = client.request(Method::POST, path).multipart(form);
    if let Some(key) = key {
        request = request.header("Idempotency-Key", key.to_owned());
    }
    request.send().await.unwrap()
}

/// A complete upload.
async fn uploaded(client: &Client, recording: &[u8]) -> i64 {
    let id = begin(client, recording.len()).await;
    let state = json(put(client, id, 0, recording).await, 200).await;
    assert_eq!(state["offset"], recording.len());
    id
}

#[tokio::test]
async fn a_recording_that_is_sent_in_parts_is_transcribed_once() {
    let server = Server::start().await;
    let client = server.account(Plan::Pro).await;
    let recording = hum(100.0);
    let id = begin(&client, recording.len()).await;
    let state = json(put(&client, id, 0, &recording[..1_500_000]).await, 200).await;
    assert_eq!((&state["offset"], &state["id"]), (&value!(1_500_000), &value!(id)));
    let early = refusal(send(&client, "/v1/transcribe", id, None).await, 400).await;
    assert!(early.contains("not complete"), "{early}");
    json(put(&client, id, 1_500_000, &recording[1_500_000..]).await, 200).await;
    let answer = send(&client, "/v1/transcribe", id, None).await;
    let transcript = answer.headers()["x-transcript-id"].to_str().unwrap().to_owned();
    assert_eq!(json(answer, 200).await["duration"].as_f64().unwrap().round(), 100.0);
    let detail = json(client.get(&format!("/v1/transcripts/{transcript}")).await, 200).await;
    assert_eq!(detail["title"], "monday.wav");
    assert_eq!(client.credits(&server).await, 598);
    let kept = client.get(&format!("/v1/transcripts/{transcript}/recording")).await;
    assert_eq!(kept.bytes().await.unwrap(), recording);
    refusal(client.get(&format!("/v1/uploads/{id}")).await, 404).await;
    refusal(send(&client, "/v1/transcribe", id, None).await, 404).await;
    refusal(put(&client, id, recording.len(), b"x").await, 404).await;
    assert_eq!(client.credits(&server).await, 598);
}

#[tokio::test]
async fn a_part_begins_where_the_upload_goes_on() {
    let server = Server::start().await;
    let client = server.account(Plan::Pro).await;
    let recording = hum(100.0);
    let id = begin(&client, recording.len()).await;
    json(put(&client, id, 0, &recording[..1_000_000]).await, 200).await;
    for wrong in [0, 999_999, 1_000_001] {
        let body = json(put(&client, id, wrong, &recording[1_000_000..]).await, 409).await;
        assert_eq!(
            (&body["offset"], &body["size"], &body["id"]),
            (&value!(1_000_000), &value!(recording.len()), &value!(id))
        );
        assert!(body["error"].as_str().unwrap().contains("1000000"), "{body}");
    }
    let too_much = [&recording[1_000_000..], b"x"].concat();
    refusal(put(&client, id, 1_000_000, &too_much).await, 400).await;
    refusal(put(&client, id, 1_000_000, &recording[1_000_000..1_900_000]).await, 400).await;
    let plain = client.request(Method::PUT, &format!("/v1/uploads/{id}?offset=1000000")).body(recording.clone());
    refusal(plain.send().await.unwrap(), 415).await;
    refusal(client.request(Method::PUT, &format!("/v1/uploads/{id}")).send().await.unwrap(), 400).await;
    assert_eq!(offset(&client, id).await, 1_000_000);
    // Of two that begin at the same place, one goes on.
    let (one, other) = tokio::join!(
        put(&client, id, 1_000_000, &recording[1_000_000..]),
        put(&client, id, 1_000_000, &recording[1_000_000..])
    );
    let mut statuses = [one.status().as_u16(), other.status().as_u16()];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409]);
    assert_eq!(offset(&client, id).await, recording.len());
    let answer = send(&client, "/v1/transcribe", id, None).await;
    let transcript = answer.headers()["x-transcript-id"].to_str().unwrap().to_owned();
    assert_eq!(answer.status(), 200);
    let kept = client.get(&format!("/v1/transcripts/{transcript}/recording")).await;
    assert_eq!(kept.bytes().await.unwrap(), recording);
}

/// Sends the head of a part and some of its bytes, and leaves.
async fn break_off(server: &Server, client: &Client, id: i64, offset: usize, announced: usize, bytes: &[u8]) {
    let mut connection = TcpStream::connect(server.address).await.unwrap();
    let head = format!(
        "PUT /v1/uploads/{id}?offset={offset} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/octet-stream\r\nContent-Length: {announced}\r\n\r\n",
        client.key.as_deref().unwrap()
    );
    connection.write_all(head.as_bytes()).await.unwrap();
    connection.write_all(bytes).await.unwrap();
    connection.flush().await.unwrap();
    connection.shutdown().await.unwrap();
    // The server answers, or has closed the connection.
    let _ = connection.read_to_end(&mut Vec::new()).await;
}

#[tokio::test]
async fn what_arrived_before_the_connection_broke_is_kept() {
    let server = Server::start().await;
    let client = server.account(Plan::Pro).await;
    // 12.8 MB: a piece is stored at 8 MiB.
    let recording = hum(400.0);
    let id = begin(&client, recording.len()).await;
    break_off(&server, &client, id, 0, recording.len(), &recording[..2_500_000]).await;
    eventually("the first part", async || (offset(&client, id).await == 2_500_000).then_some(())).await;
    // Less than a piece is not kept.
    break_off(&server, &client, id, 2_500_000, recording.len() - 2_500_000, &recording[2_500_000..2_600_000]).await;
    break_off(&server, &client, id, 2_500_000, recording.len() - 2_500_000, &recording[2_500_000..12_000_000]).await;
    eventually("the second part", async || (offset(&client, id).await == 12_000_000).then_some(())).await;
    json(put(&client, id, 12_000_000, &recording[12_000_000..]).await, 200).await;
    let answer = send(&client, "/v1/transcribe", id, None).await;
    let transcript = answer.headers()["x-transcript-id"].to_str().unwrap().to_owned();
    assert_eq!(answer.status(), 200);
    let kept = client.get(&format!("/v1/transcripts/{transcript}/recording")).await;
    assert_eq!(kept.bytes().await.unwrap(), recording);
}

#[tokio::test]
async fn an_upload_is_its_accounts_and_within_its_limits() {
    let small = StorageQuota { free: 10_000_000, ..StorageQuota::default() };
    let recordings = hark_server::Recordings { quota: small, ..hark_server::Recordings::default() };
    let clock = Clock::manual(DateTime::parse("2030-05-17T12:00:00Z").unwrap().0);
    let server = Server::with_clock(Config { recordings, ..config() }, InstantEngine::default(), clock).await;
    let (client, stranger) = (server.account(Plan::Free).await, server.account(Plan::Free).await);
    let recording = hum(1.0);
    let id = uploaded(&client, &recording).await;
    refusal(stranger.get(&format!("/v1/uploads/{id}")).await, 404).await;
    refusal(put(&stranger, id, 0, &recording).await, 404).await;
    refusal(send(&stranger, "/v1/transcribe", id, None).await, 404).await;
    refusal(send(&server.anonymous(), "/v1/transcribe", id, None).await, 401).await;
    refusal(stranger.request(Method::DELETE, &format!("/v1/uploads/{id}")).send().await.unwrap(), 404).await;
    refusal(server.anonymous().post("/v1/uploads", value!({"size": 1})).await, 401).await;
    for wrong in [
        value!({"size": 0}),
        value!({"size": -1}),
        value!({"size": 1.5}),
        value!({}),
        value!({"size": 1, "name": "n".repeat(1001)}),
    ] {
        refusal(client.post("/v1/uploads", wrong).await, 400).await;
    }
    assert_eq!(json(client.post("/v1/uploads", value!({"size": 500_000_001})).await, 413).await["upgrade"], true);
    let full = refusal_413(client.post("/v1/uploads", value!({"size": 9_990_000})).await).await;
    assert!(full.contains("10.0 MB"), "{full}");
    let mut open = vec![id];
    for _ in 0..3 {
        open.push(begin(&client, 5).await);
    }
    let message = refusal(client.post("/v1/uploads", value!({"size": 5})).await, 409).await;
    assert!(message.contains("four"), "{message}");
    let last = open.pop().unwrap();
    let gone = client.request(Method::DELETE, &format!("/v1/uploads/{last}")).send().await.unwrap();
    assert_eq!(json(gone, 200).await, value!({"ok": true}));
    refusal(client.get(&format!("/v1/uploads/{last}")).await, 404).await;
    let both = client.transcribe("/v1/transcribe", recording.clone(), &[("upload", &id.to_string())]);
    refusal(both.send().await.unwrap(), 400).await;
    let word = reqwest::multipart::Form::new().text("upload", "talk");
    refusal(client.request(Method::POST, "/v1/transcribe").multipart(word).send().await.unwrap(), 400).await;
    // 24 hours after its last byte it is gone.
    let state: Value = json(client.get(&format!("/v1/uploads/{id}")).await, 200).await;
    let expires_at = DateTime::parse(state["expires_at"].as_str().unwrap());
    assert_eq!(expires_at, DateTime::parse("2030-05-18T12:00:00Z"));
    server.clock.advance(Duration::from_secs(24 * 3600 + 1));
    refusal(client.get(&format!("/v1/uploads/{id}")).await, 404).await;
    refusal(send(&client, "/v1/transcribe", id, None).await, 404).await;
    begin(&client, 5).await;
}

async fn refusal_413(response: reqwest::Response) -> String {
    json(response, 413).await["error"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_repeat_of_a_request_with_an_upload_is_recognized_by_what_was_sent() {
    let server = Server::start().await;
    let client = server.account(Plan::Pro).await;
    let recording = hum(1.0);
    let id = uploaded(&client, &recording).await;
    let first = send(&client, "/v1/transcribe", id, Some("once")).await;
    let transcript = first.headers()["x-transcript-id"].clone();
    assert_eq!(first.status(), 200);
    let again = send(&client, "/v1/transcribe", id, Some("once")).await;
    assert_eq!((again.status().as_u16(), &again.headers()["x-transcript-id"]), (200, &transcript));
    // The same recording as a file is the same request, and so is another upload of it.
    let file = client.transcribe("/v1/transcribe", recording.clone(), &[]).header("Idempotency-Key", "once");
    assert_eq!(file.send().await.unwrap().headers()["x-transcript-id"], transcript);
    let second = uploaded(&client, &recording).await;
    assert_eq!(send(&client, "/v1/transcribe", second, Some("once")).await.headers()["x-transcript-id"], transcript);
    let other = uploaded(&client, &hum(2.0)).await;
    refusal(send(&client, "/v1/transcribe", other, Some("once")).await, 422).await;
    refusal(send(&client, "/v1/transcribe", id, Some("twice")).await, 409).await;
    refusal(send(&client, "/v1/transcribe", id, None).await, 409).await;
    assert_eq!(client.credits(&server).await, 599);
}

#[tokio::test]
async fn noise_is_taken_out_of_an_upload() {
    let server = Server::start().await;
    let client = server.account(Plan::Pro).await;
    let id = uploaded(&client, &hum(1.0)).await;
    let first = send(&client, "/v1/enhance-audio", id, Some("once")).await;
    assert_eq!(first.status(), 200);
    let enhancement = first.headers()["x-enhancement-id"].clone();
    let sound = first.bytes().await.unwrap();
    let again = send(&client, "/v1/enhance-audio", id, Some("once")).await;
    assert_eq!((again.status().as_u16(), &again.headers()["x-enhancement-id"]), (200, &enhancement));
    assert_eq!(again.bytes().await.unwrap(), sound);
    refusal(send(&client, "/v1/transcribe", id, Some("once")).await, 422).await;
    assert_eq!(client.credits(&server).await, 599);
}
