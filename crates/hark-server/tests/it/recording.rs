//! `GET /v1/transcripts/{id}/recording`: what was sent comes back, whole and in ranges, to its owner alone.

use hark_server::{Config, InstantEngine};
use hark_store::Plan;
use reqwest::Method;

use crate::server::{Client, Server, config, hum, json, refusal};

async fn sent(client: &Client, recording: Vec<u8>) -> String {
    let response = client.transcribe("/v1/transcribe", recording, &[]).send().await.unwrap();
    assert_eq!(response.status(), 200);
    format!("/v1/transcripts/{}/recording", response.headers()["x-transcript-id"].to_str().unwrap())
}

#[tokio::test]
async fn a_recording_comes_back_whole_and_in_ranges() {
    let server = Server::start().await;
    let client = server.account(Plan::Free).await;
    // Longer than what is read at a time.
    let recording = hum(20.0);
    let path = sent(&client, recording.clone()).await;

    let whole = client.get(&path).await;
    assert_eq!(whole.status(), 200);
    let header = |name: &str| whole.headers()[name].to_str().unwrap().to_owned();
    assert_eq!((header("content-type"), header("accept-ranges")), ("audio/wav".to_owned(), "bytes".to_owned()));
    assert_eq!(header("content-length"), recording.len().to_string());
    assert!(header("content-disposition").starts_with("attachment; filename=\""), "{}", header("content-disposition"));
    assert!(header("cache-control").contains("private"));
    let etag = header("etag");
    assert_eq!(whole.bytes().await.unwrap(), recording);

    let size = recording.len();
    for (range, expected) in [
        ("bytes=0-0".to_owned(), 0..1),
        (format!("bytes=100000-{}", size * 2), 100_000..size),
        ("bytes=-44".to_owned(), size - 44..size),
        ("bytes=65530-300000".to_owned(), 65_530..300_001),
    ] {
        let part = client.request(Method::GET, &path).header("range", &range).header("if-range", &etag).send();
        let part = part.await.unwrap();
        assert_eq!(part.status(), 206, "{range}");
        let said = format!("bytes {}-{}/{size}", expected.start, expected.end - 1);
        assert_eq!(part.headers()["content-range"], said.as_str());
        assert_eq!(part.bytes().await.unwrap(), recording[expected], "{range}");
    }
    let behind = client.request(Method::GET, &path).header("range", format!("bytes={size}-")).send().await.unwrap();
    assert_eq!(behind.headers()["content-range"], format!("bytes */{size}").as_str());
    refusal(behind, 416).await;
    let other = client.request(Method::GET, &path).header("range", "bytes=5-").header("if-range", "\"other\"");
    let other = other.send().await.unwrap();
    assert_eq!((other.status().as_u16(), other.content_length()), (200, Some(size as u64)));
    let head = client.request(Method::HEAD, &path).send().await.unwrap();
    assert_eq!((head.status().as_u16(), &head.headers()["content-length"]), (200, &size.to_string().parse().unwrap()));
}

#[tokio::test]
async fn a_recording_is_its_owners_and_goes_with_its_transcript() {
    let server = Server::start().await;
    let (client, other) = (server.account(Plan::Free).await, server.account(Plan::Free).await);
    let path = sent(&client, hum(1.0)).await;
    refusal(other.get(&path).await, 404).await;
    refusal(server.anonymous().get(&path).await, 401).await;
    let key =
        json(client.post("/v1/keys", serde_json::json!({"name": "writes", "scopes": ["transcribe"]})).await, 201).await;
    let writer = client.with_key(key["key"].as_str().unwrap());
    assert!(refusal(writer.get(&path).await, 403).await.contains("read"));
    let transcript = path.trim_end_matches("/recording");
    json(client.request(Method::DELETE, transcript).send().await.unwrap(), 200).await;
    refusal(client.get(&path).await, 404).await;
}

#[tokio::test]
async fn a_recording_that_was_not_kept_is_not_found() {
    let server = Server::with(Config { keep_audio: false, ..config() }, InstantEngine::default()).await;
    let client = server.account(Plan::Free).await;
    let path = sent(&client, hum(1.0)).await;
    assert!(refusal(client.get(&path).await, 404).await.contains("recording"));
}
