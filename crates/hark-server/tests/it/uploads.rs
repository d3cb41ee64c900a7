//! Uploads: large ones, slow ones, broken ones.

use std::time::{Duration, Instant};

use bytes::Bytes;
use hark_server::{Config, InstantEngine, Seconds};
use hark_store::Plan;
use reqwest::{Body, Method, Response};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use crate::server::{Client, Server, config, eventually, json, refusal};

type Blocks = mpsc::Sender<Result<Bytes, std::io::Error>>;

/// A form whose file is still being sent: its blocks go through the sender, whose end breaks it off.
pub(crate) fn open_form(begin: &'static [u8]) -> (Blocks, Body) {
    let (sender, mut receiver) = mpsc::channel(4);
    let head = "--XyZ\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n\r\n";
    let mut first = vec![Ok(Bytes::from(head)), Ok(Bytes::from(begin))].into_iter();
    let stream = futures_util::stream::poll_fn(move |context| match first.next() {
        Some(block) => std::task::Poll::Ready(Some(block)),
        None => receiver.poll_recv(context),
    });
    (sender, Body::wrap_stream(stream))
}

pub(crate) async fn send_form(client: Client, body: Body) -> reqwest::Result<Response> {
    let request = client.request(Method::POST, "/v1/transcribe");
    request.header("Content-Type", "multipart/form-data; boundary=XyZ").body(body).send().await
}

fn orphans(server: &Server) -> usize {
    let count = |folder: &std::path::Path| std::fs::read_dir(folder).map_or(0, |entries| entries.count());
    let blobs = server.folder.path().join("blobs");
    let folders = std::fs::read_dir(&blobs).into_iter().flatten().flatten();
    let folders = folders.filter(|entry| entry.file_name() != "hark-store.json");
    folders.map(|entry| if entry.path().is_dir() { count(&entry.path()) } else { 1 }).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_is_refused_as_soon_as_it_is_larger_than_the_tier_allows() {
    let server = Server::start().await;
    let client = server.anonymous();
    let (sender, body) = open_form(b"RIFF");
    let sending = tokio::spawn(send_form(client, body));
    let block = Bytes::from(vec![0u8; 1 << 20]);
    let mut sent = 0;
    while sent < 400 && sender.send(Ok(block.clone())).await.is_ok() {
        sent += 1;
    }
    drop(sender);
    let response = sending.await.unwrap().expect("the refusal is readable although the upload was cut off");
    assert_eq!(json(response, 413).await["upgrade"], true);
    assert!((95..180).contains(&sent), "{sent} MB were taken");
    eventually("the removal of what was stored", async || (orphans(&server) == 0).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_whose_recordings_take_all_its_space_is_refused_at_the_head_and_while_it_sends() {
    let mut config = config();
    // A second of the test sound has 32,044 bytes.
    config.recordings.quota.free = 100_000;
    let server = Server::with(config, InstantEngine::default()).await;
    let client = server.account(Plan::Free).await;
    let send =
        async |seconds| client.transcribe("/v1/transcribe", crate::server::hum(seconds), &[]).send().await.unwrap();
    let first = send(2.0).await;
    let id = first.headers()["x-transcript-id"].to_str().unwrap().to_owned();
    json(first, 200).await;
    // It does not fit, which is seen while it comes.
    let refused = json(send(2.0).await, 413).await;
    assert_eq!(refused["upgrade"], true);
    assert!(refused["error"].as_str().unwrap().contains("of the 100000 bytes"), "{refused}");
    eventually("the removal of what was stored", async || (orphans(&server) == 1).then_some(())).await;
    assert_eq!(client.credits(&server).await, 599, "nothing was charged for it");
    json(send(1.0).await, 200).await;
    // What is sent without a length is cut off where it no longer fits.
    let (sender, body) = open_form(b"RIFF");
    let sending = tokio::spawn(send_form(client.clone(), body));
    let mut sent = 0;
    while sent < 400 && sender.send(Ok(Bytes::from(vec![0u8; 1 << 20]))).await.is_ok() {
        sent += 1;
    }
    drop(sender);
    json(sending.await.unwrap().expect("the refusal is readable"), 413).await;
    // The server reads on for a while after it has answered, so that the answer arrives.
    assert!(sent < 120, "{sent} MB were taken");
    // Deleting makes room.
    client.request(Method::DELETE, &format!("/v1/transcripts/{id}")).send().await.unwrap();
    json(send(2.0).await, 200).await;
}

#[tokio::test]
async fn an_upload_whose_length_is_announced_too_large_is_refused_before_it_is_sent() {
    let server = Server::start().await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let head = "POST /v1/transcribe HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=XyZ\r\n\
        Content-Length: 3000000000\r\nExpect: 100-continue\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = vec![0; 4096];
    let read = tokio::time::timeout(Duration::from_secs(5), stream.read(&mut answer)).await.unwrap().unwrap();
    let answer = String::from_utf8_lossy(&answer[..read]).into_owned();
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_upload_is_waited_for_but_a_silent_one_is_not() {
    let server = Server::with(Config { idle_timeout: Seconds(0.5), ..config() }, InstantEngine::default()).await;
    let client = server.account(Plan::Free).await;
    let wav = crate::server::hum(1.0);
    let (sender, body) = open_form(b"");
    let sending = tokio::spawn(send_form(client.clone(), body));
    let begun = Instant::now();
    for part in wav.chunks(wav.len().div_ceil(8)) {
        sender.send(Ok(Bytes::copy_from_slice(part))).await.unwrap();
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    sender.send(Ok(Bytes::from_static(b"\r\n--XyZ--\r\n"))).await.unwrap();
    drop(sender);
    assert_eq!(sending.await.unwrap().unwrap().status(), 200);
    assert!(begun.elapsed() > Duration::from_millis(1400), "it took longer than the silence allowed");

    let (sender, body) = open_form(b"RIFF");
    let silent = tokio::spawn(send_form(client.clone(), body));
    // Others are answered meanwhile.
    assert_eq!(client.get("/v1/account").await.status(), 200);
    let response = tokio::time::timeout(Duration::from_secs(5), silent).await.unwrap().unwrap().unwrap();
    refusal(response, 408).await;
    drop(sender);
    eventually("the removal of what was stored", async || (orphans(&server) <= 1).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_breaks_off_leaves_nothing_behind() {
    let server = Server::start().await;
    let client = server.account(Plan::Free).await;
    let (sender, body) = open_form(b"RIFF");
    let sending = tokio::spawn(send_form(client.clone(), body));
    sender.send(Ok(Bytes::from(vec![1; 100_000]))).await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    sending.abort();
    drop(sender);
    eventually("the removal of what was stored", async || (orphans(&server) == 0).then_some(())).await;
    assert_eq!(client.credits(&server).await, 600);
    assert_eq!(json(client.get("/v1/transcripts").await, 200).await["total"], 0);
}

#[tokio::test]
async fn a_head_that_never_ends_closes_the_connection() {
    let server = Server::with(Config { header_timeout: Seconds(0.3), ..config() }, InstantEngine::default()).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(b"GET /v1/models HTTP/1.1\r\nHost: x\r\n").await.unwrap();
    let mut answer = Vec::new();
    tokio::time::timeout(Duration::from_secs(5), stream.read_to_end(&mut answer))
        .await
        .expect("it was closed")
        .unwrap();
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let long = format!("GET /v1/models HTTP/1.1\r\nHost: x\r\nX-Long: {}\r\n\r\n", "a".repeat(200_000));
    let _ = stream.write_all(long.as_bytes()).await;
    let mut answer = Vec::new();
    let _ = tokio::time::timeout(Duration::from_secs(5), stream.read_to_end(&mut answer)).await;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_stops_reading_is_given_up_and_disturbs_nobody() {
    let metrics_listen = Some("127.0.0.1:0".parse().unwrap());
    let config = Config { idle_timeout: Seconds(0.5), metrics_listen, ..config() };
    let server = Server::with(config, InstantEngine::default()).await;
    let mut stuck = TcpStream::connect(server.address).await.unwrap();
    let many = "GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n".repeat(2000);
    // Answers of some hundred megabytes: no buffer of the system takes them.
    let _ = tokio::time::timeout(Duration::from_millis(300), stuck.write_all(many.as_bytes())).await;
    assert_eq!(server.anonymous().get("/v1/models").await.status(), 200);
    let url = format!("http://{}/metrics", server.metrics_address());
    eventually("the end of the stuck connection", async || {
        let text = reqwest::get(&url).await.unwrap().text().await.unwrap();
        let open = text.lines().find_map(|line| line.strip_prefix("hark_connections ")).unwrap().to_owned();
        // Its own connection and that of the client above may be open.
        (open.parse::<u32>().unwrap() <= 2).then_some(())
    })
    .await;
    let mut rest = vec![0; 1 << 16];
    while stuck.read(&mut rest).await.is_ok_and(|count| count > 0) {}
}
