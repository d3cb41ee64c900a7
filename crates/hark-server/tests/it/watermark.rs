//! `POST /v1/watermark/detect`: whether a sound carries the mark of the server, whatever is sent.

use std::io::Cursor;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use hark_media::{AudioSpec, SampleWriter as _, Tags, WavFormat, WavWriter};
use hark_server::{Config, InstantEngine};
use hark_store::{KeyKind, NewKey, Plan, Scope};
use hark_watermark::{DISCLOSURE, Key, Payload, embed};
use reqwest::multipart::{Form, Part};
use reqwest::{Method, Response};

use crate::server::{Client, Server, config, eventually, json, refusal};
use crate::speech::walk;

const PATH: &str = "/v1/watermark/detect";
const RATE: u32 = 16_000;

fn payload() -> Payload {
    // 2026-11-18.
    Payload::new(4711, 20_775, 0x00c0_ffee)
}

/// Something like speech, for whoever listens to bands: noise in syllables, the same in every run.
fn sound(seconds: f64) -> Vec<f32> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut low = 0.0;
    let samples = (0..(seconds * f64::from(RATE)) as usize).map(|at| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let white = (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0;
        low += 0.3 * (white - low);
        let syllable = (at as f32 / RATE as f32 * 3.7 * std::f32::consts::TAU).sin();
        0.4 * low * (0.55 + 0.45 * syllable)
    });
    samples.collect()
}

fn wav(samples: &[f32], comment: Option<&str>) -> Vec<u8> {
    let tags = Tags { comment: comment.map(str::to_owned), software: None };
    let mut bytes = Cursor::new(Vec::new());
    let spec = AudioSpec { rate: RATE, channels: 1 };
    let mut writer = WavWriter::with_tags(&mut bytes, spec, WavFormat::S16, &tags).unwrap();
    writer.write(samples).unwrap();
    writer.finish().unwrap();
    drop(writer);
    bytes.into_inner()
}

/// A server with a key of its own in this folder.
async fn server(folder: &Path) -> Server {
    let config = Config { watermark_key_file: Some(folder.join("data/watermark.key")), ..config() };
    Server::with(config, InstantEngine::default()).await
}

async fn send(client: &Client, form: Form) -> Response {
    client.request(Method::POST, PATH).multipart(form).send().await.unwrap()
}

async fn detect(client: &Client, file: Vec<u8>) -> Response {
    send(client, Form::new().part("file", Part::bytes(file).file_name("call.wav"))).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mark_is_found_with_what_it_says_and_where() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path()).await;
    let client = server.account(Plan::Free).await;
    // At first use the server makes its key, for its eyes only.
    let clean = json(detect(&client, wav(&sound(6.0), None)).await, 200).await;
    assert_eq!(
        (&clean["present"], &clean["payload"], &clean["disclosure"]),
        (&false.into(), &serde_json::Value::Null, &serde_json::Value::Null)
    );
    assert_eq!(clean["spans"], serde_json::json!([]));
    // The key is a new one each time: by the bound, one sound in a million scores higher by chance.
    let chance = clean["log10_false_alarm"].as_f64().unwrap();
    assert!((-6.0..=0.0).contains(&chance), "{clean}");
    assert!((clean["confidence"].as_f64().unwrap() - (1.0 - 10f64.powf(chance))).abs() < 1e-6, "{clean}");
    let file = folder.path().join("data/watermark.key");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let key = Key::read_file(&file).unwrap().unwrap();

    // Ten seconds without the mark, then ten with it.
    let whole = sound(20.0);
    let (before, rest) = whole.split_at(10 * RATE as usize);
    let marked = [before, &embed(rest, RATE, 1, &payload(), &key).unwrap()].concat();
    let found = json(detect(&client, wav(&marked, Some(DISCLOSURE))).await, 200).await;
    assert_eq!(found["present"], true, "{found}");
    let says = serde_json::json!({"version": 1, "issuer": 4711, "day": "2026-11-18", "request_hash": "00c0ffee"});
    assert_eq!(found["payload"], says);
    assert_eq!(found["disclosure"], DISCLOSURE);
    assert!(
        found["log10_false_alarm"].as_f64().unwrap() < -9.0 && found["confidence"].as_f64().unwrap() > 0.999,
        "{found}"
    );
    let spans = found["spans"].as_array().unwrap();
    // With some keys a neighbouring speed of the search scores as well.
    let speed = spans[0]["speed"].as_f64().unwrap();
    assert!(spans.len() == 1 && (speed - 1.0).abs() < 0.006, "{found}");
    assert!((5.0..=10.0).contains(&spans[0]["start"].as_f64().unwrap()) && spans[0]["end"] == 20.0, "{found}");

    // The mark of another key is none of ours.
    let theirs = embed(rest, RATE, 1, &payload(), &Key::new([9; 32])).unwrap();
    let other = json(detect(&client, wav(&theirs, None)).await, 200).await;
    assert_eq!((&other["present"], &other["payload"]), (&false.into(), &serde_json::Value::Null), "{other}");
    assert_eq!(client.credits(&server).await, 600, "it costs nothing");
    let blobs = walk(&server.folder.path().join("blobs"));
    assert!(blobs.is_empty(), "a recording was kept: {blobs:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_can_not_be_examined_is_refused_with_the_reason_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path()).await;
    let client = server.account(Plan::Pro).await;
    let damaged = {
        let mut bytes = wav(&sound(6.0), None);
        bytes[12..44].fill(0xff);
        bytes
    };
    let clip = || Part::bytes(wav(&sound(6.0), None)).file_name("a.wav");
    let of = |bytes: Vec<u8>| Form::new().part("file", Part::bytes(bytes).file_name("a.wav"));
    for (form, words) in [
        (of(wav(&vec![0.0; 6 * RATE as usize], None)), "silent"),
        (of(wav(&sound(0.5), None)), "0.50 s long"),
        (of(damaged), ""),
        (of(Vec::new()), "`file` is missing"),
        (Form::new().text("text", "no file"), "`file` is missing"),
        (Form::new().part("file", clip()).part("file", clip()), "twice"),
    ] {
        let message = refusal(send(&client, form).await, 400).await;
        assert!(message.contains(words), "{message} instead of {words:?}");
    }
    let no_form = client.post(PATH, serde_json::json!({"file": "a"})).await;
    assert!(refusal(no_form, 415).await.contains("form"));
    refusal(detect(&server.anonymous(), wav(&sound(2.0), None)).await, 401).await;
    refusal(detect(&client.with_key(&format!("svc_{}", "0".repeat(64))), wav(&sound(2.0), None)).await, 401).await;
    let reader = NewKey { scopes: vec![Scope::Read], ..NewKey::new(KeyKind::Service, "reader") };
    let (_, secret) = server.store.keys().create(client.account.unwrap(), &reader).await.unwrap();
    let message = refusal(detect(&client.with_key(secret.reveal()), wav(&sound(2.0), None)).await, 403).await;
    assert!(message.contains("transcribe"), "{message}");
    let blobs = server.folder.path().join("blobs");
    eventually("the recordings are gone", async || walk(&blobs).is_empty().then_some(())).await;
    assert_eq!(client.credits(&server).await, 600);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_has_one_search_at_a_time_and_leaves_a_slot_to_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path()).await;
    let (client, other) = (server.account(Plan::Enterprise).await, server.account(Plan::Free).await);
    // Minutes to search, and nothing to find.
    let long = wav(&sound(600.0), None);
    let mut searches = tokio::task::JoinSet::new();
    for _ in 0..2 {
        let (client, long) = (client.clone(), long.clone());
        searches.spawn(async move { detect(&client, long).await });
    }
    let message = refusal(searches.join_next().await.unwrap().unwrap(), 429).await;
    assert!(message.contains("one call to end"), "{message}");
    json(detect(&other, wav(&sound(3.0), None)).await, 200).await;
}

#[tokio::test]
async fn a_file_beyond_the_limit_is_refused_before_it_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path()).await;
    let client = server.account(Plan::Pro).await;
    let message = refusal(detect(&client, vec![0; 100_100_000]).await, 413).await;
    assert!(message.contains("100 MB"), "{message}");
}

#[tokio::test]
async fn a_server_without_a_key_or_with_a_broken_one_says_so() {
    let server = Server::start().await;
    let client = server.account(Plan::Free).await;
    let message = refusal(detect(&client, wav(&sound(2.0), None)).await, 503).await;
    assert!(message.contains("watermark_key_file"), "{message}");
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("data")).unwrap();
    std::fs::write(folder.path().join("data/watermark.key"), "no key\n").unwrap();
    let server = self::server(folder.path()).await;
    let client = server.account(Plan::Free).await;
    refusal(detect(&client, wav(&sound(2.0), None)).await, 500).await;
    assert_eq!(std::fs::read_to_string(folder.path().join("data/watermark.key")).unwrap(), "no key\n");
}
