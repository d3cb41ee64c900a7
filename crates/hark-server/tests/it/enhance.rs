//! `POST /v1/enhance-audio` and `/v1/enhancements`: from an upload to a sound, waited for or not.

use std::sync::Arc;
use std::time::Duration;

use hark_media::{CancelToken, Source};
use hark_server::{
    Config, EngineError, Engines, Enhance, EnhanceWork, Enhanced, InstantEngine, NoModelsEngine, Role, Seconds,
    Service, SoundFormat, SoundOutput, StorageQuota,
};
use hark_store::{Clock, EntryKind, Plan};
use reqwest::{Method, RequestBuilder, Response};
use serde_json::Value;

use crate::jobs::engine_without_models;
use crate::server::{Client, Server, config, eventually, hum, json, refusal};
use crate::speech::walk;

const PATH: &str = "/v1/enhance-audio";

fn slow(seconds: f64) -> InstantEngine {
    InstantEngine { takes: Duration::from_secs_f64(seconds) }
}

fn enhance(client: &Client, recording: Vec<u8>) -> RequestBuilder {
    client.transcribe(PATH, recording, &[])
}

/// The same without waiting.
fn queue(client: &Client, recording: Vec<u8>) -> RequestBuilder {
    client.transcribe("/v1/enhance-audio?async=true", recording, &[])
}

fn id_of(response: &Response) -> i64 {
    response.headers()["x-enhancement-id"].to_str().unwrap().parse().unwrap()
}

async fn state(client: &Client, id: i64) -> Value {
    json(client.get(&format!("/v1/enhancements/{id}")).await, 200).await
}

async fn completed(client: &Client, id: i64) -> Value {
    eventually("completion", async || {
        let state = state(client, id).await;
        assert_ne!(state["status"], "failed", "{state}");
        (state["status"] == "completed").then_some(state)
    })
    .await
}

/// Samples of all channels at 48 kHz, and how many channels there are.
pub(crate) fn decoded(sound: &[u8]) -> (Vec<f32>, u16) {
    let source = hark_media::Source::Reader(Box::new(std::io::Cursor::new(sound.to_vec())));
    let channels = hark_media::OutputChannels::All;
    let options = hark_media::Options { rate: 48_000, channels, ..hark_media::Options::default() };
    let mut stream = hark_media::AudioStream::open(source, &options).unwrap();
    let mut samples = Vec::new();
    while stream.read(&mut samples).unwrap() > 0 {}
    (samples, stream.info().channels)
}

/// A WAV file of 16 bits.
pub(crate) fn wav(samples: &[f32], rate: u32, channels: u16) -> Vec<u8> {
    use hark_media::SampleWriter as _;
    let (spec, frames) = (hark_media::AudioSpec { rate, channels }, samples.len() as u64 / u64::from(channels));
    let mut wav = hark_media::WavWriter::with_length(Vec::new(), spec, hark_media::WavFormat::S16, frames).unwrap();
    wav.write(samples).unwrap();
    wav.finish().unwrap();
    wav.into_inner()
}

/// A tone on the left and its half on the right.
fn stereo(frames: usize) -> Vec<u8> {
    let tone = |n: usize| (n as f32 * 0.05).sin() * 0.2;
    wav(&(0..frames).flat_map(|n| [tone(n), 0.5 * tone(n)]).collect::<Vec<_>>(), 48_000, 2)
}

fn recordings(server: &Server) -> usize {
    walk(&server.folder.path().join("blobs")).len()
}

#[tokio::test]
async fn a_call_that_waits_gets_the_sound_with_its_length_and_channels_and_may_fetch_it_again_for_ten_minutes() {
    let clock = Clock::manual(hark_api::DateTime::parse("2030-05-17T12:00:00Z").unwrap().0);
    let server = Server::with_clock(config(), InstantEngine::default(), clock).await;
    let client = server.account(Plan::Free).await;
    let sent = stereo(61_234);
    let response = enhance(&client, sent.clone()).send().await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], "audio/wav");
    assert_eq!(response.headers()["x-model"], "instant");
    let (id, length) = (id_of(&response), response.content_length().unwrap());
    let sound = response.bytes().await.unwrap();
    assert_eq!(sound.len() as u64, length);
    // This engine takes nothing away: the samples are those that were sent, to the last.
    let (samples, channels) = decoded(&sound);
    assert_eq!((samples.len(), channels), (2 * 61_234, 2));
    assert_eq!(samples, decoded(&sent).0);
    assert_eq!(client.credits(&server).await, 599);
    assert!(server.store.ledger().check().await.unwrap().is_empty());
    // What was handed to the connection may not have arrived.
    let state = eventually("its expiry", async || {
        let state = state(&client, id).await;
        (state["expires_at"] == "2030-05-17T12:10:00Z").then_some(state)
    })
    .await;
    assert_eq!(client.get(state["audio_url"].as_str().unwrap()).await.bytes().await.unwrap(), sound);
    let keep = Duration::from_secs(24 * 3600);
    server.clock.advance(Duration::from_secs(599));
    assert_eq!(server.store.enhancements().expire(keep).await.unwrap(), 0);
    server.clock.advance(Duration::from_secs(1));
    assert_eq!(server.store.enhancements().expire(keep).await.unwrap(), 1);
    refusal(client.get(&format!("/v1/enhancements/{id}")).await, 404).await;
    assert_eq!((recordings(&server), client.credits(&server).await), (0, 599));
    // Another rate becomes 48 kHz of the same length.
    let (samples, channels) = decoded(&enhance(&client, hum(1.0)).send().await.unwrap().bytes().await.unwrap());
    assert_eq!((samples.len(), channels), (48_000, 1));
}

#[tokio::test]
async fn one_that_is_not_waited_for_is_found_by_its_owner_read_in_ranges_and_deleted() {
    let server = Server::start().await;
    let (client, other) = (server.account(Plan::Free).await, server.account(Plan::Free).await);
    let response = enhance(&client, stereo(100_000)).header("Prefer", "respond-async").send().await.unwrap();
    assert_eq!(response.headers()["preference-applied"], "respond-async");
    let location = response.headers()["location"].to_str().unwrap().to_owned();
    let id = id_of(&response);
    let accepted = json(response, 202).await;
    assert_eq!((&accepted["id"], accepted["status_url"].as_str().unwrap()), (&Value::from(id), location.as_str()));
    let done = completed(&client, id).await;
    assert_eq!((&done["progress"], &done["channels"], &done["model"]), (&100.into(), &2.into(), &"instant".into()));
    assert!((done["duration"].as_f64().unwrap() - 100_000.0 / 48_000.0).abs() < 1e-9, "{done}");
    assert!(done["expires_at"].is_string() && done["queue_position"].is_null() && done["error"].is_null(), "{done}");
    let path = done["audio_url"].as_str().unwrap().to_owned();

    let whole = client.get(&path).await;
    assert_eq!((whole.status().as_u16(), &whole.headers()["content-type"]), (200, &"audio/wav".parse().unwrap()));
    let whole = whole.bytes().await.unwrap();
    assert_eq!(decoded(&whole).0.len(), 200_000);
    // The header is made when it is sent, so its parts must be those of the whole.
    let size = whole.len();
    for (range, expected) in [
        ("bytes=0-3".to_owned(), 0..4),
        ("bytes=20-79".to_owned(), 20..80),
        ("bytes=40-300000".to_owned(), 40..300_001),
        (format!("bytes={}-", size - 5), size - 5..size),
    ] {
        let part = client.request(Method::GET, &path).header("range", &range).send().await.unwrap();
        assert_eq!(part.status(), 206, "{range}");
        assert_eq!(part.bytes().await.unwrap(), whole[expected], "{range}");
    }
    for path in [&location, &path] {
        refusal(other.get(path).await, 404).await;
        refusal(server.anonymous().get(path).await, 401).await;
    }
    refusal(other.request(Method::DELETE, &location).send().await.unwrap(), 404).await;
    assert_eq!(client.credits(&server).await, 599);
    json(client.request(Method::DELETE, &location).send().await.unwrap(), 200).await;
    assert_eq!((client.get(&location).await.status().as_u16(), recordings(&server)), (404, 0));
}

#[tokio::test]
async fn a_client_that_leaves_calls_the_work_off_and_one_that_deletes_does_too() {
    let server = Server::with(config(), slow(60.0)).await;
    let client = server.account(Plan::Free).await;
    let leaves = enhance(&client, hum(1.0)).timeout(Duration::from_millis(800)).send().await;
    assert!(leaves.unwrap_err().is_timeout());
    eventually("the release of its credits", async || (client.credits(&server).await == 600).then_some(())).await;
    let response = queue(&client, hum(1.0)).send().await.unwrap();
    let id = id_of(&response);
    assert_eq!(client.credits(&server).await, 599);
    eventually("progress", async || (state(&client, id).await["status"] == "processing").then_some(())).await;
    let early = client.get(&format!("/v1/enhancements/{id}/audio")).await;
    assert!(refusal(early, 400).await.contains("not completed"));
    json(client.request(Method::DELETE, &format!("/v1/enhancements/{id}")).send().await.unwrap(), 200).await;
    assert_eq!(client.credits(&server).await, 600);
    eventually("the end of the work", async || {
        let text = client.get("/health").await.text().await.unwrap();
        (text.contains("\"queue_length\":0") && recordings(&server) == 0).then_some(())
    })
    .await;
    assert!(server.store.ledger().check().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_repeat_gets_the_same_sound_and_is_charged_once() {
    let server = Server::start().await;
    let client = server.account(Plan::Free).await;
    let send = |recording: Vec<u8>, accept: &'static str| {
        enhance(&client, recording).header("Idempotency-Key", "once").header("accept", accept).send()
    };
    let first = send(stereo(50_000), "*/*").await.unwrap();
    let (id, sound) = (id_of(&first), first.bytes().await.unwrap());
    let again = send(stereo(50_000), "audio/wav").await.unwrap();
    assert_eq!((id_of(&again), again.bytes().await.unwrap()), (id, sound));
    assert_eq!(client.credits(&server).await, 599);
    refusal(send(stereo(50_001), "*/*").await.unwrap(), 422).await;
    refusal(send(stereo(50_000), "audio/flac").await.unwrap(), 422).await;
    json(client.request(Method::DELETE, &format!("/v1/enhancements/{id}")).send().await.unwrap(), 200).await;
    refusal(send(stereo(50_000), "*/*").await.unwrap(), 410).await;
    assert_eq!((client.credits(&server).await, recordings(&server)), (599, 0));
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_and_costs_nothing() {
    let server = Server::start().await;
    let client = server.account(Plan::Free).await;
    let send = async |recording: Vec<u8>, fields: &[(&str, &str)]| {
        client.transcribe(PATH, recording, fields).send().await.unwrap()
    };
    for (field, value) in [("strength", "loud"), ("strength", "-1"), ("strength", "101"), ("dereverb", "maybe")] {
        let message = refusal(send(hum(1.0), &[(field, value)]).await, 400).await;
        assert!(message.contains(&format!("`{field}`")), "{message}");
    }
    let message = refusal(send(hum(1.0), &[("dereverb", "true")]).await, 400).await;
    assert!(message.contains("`dereverb` is not supported"), "{message}");
    assert!(refusal(send(Vec::new(), &[]).await, 400).await.contains("`file` is missing"));
    refusal(send(b"these are just words".repeat(100), &[]).await, 400).await;
    refusal(enhance(&client, hum(1.0)).header("accept", "audio/aac").send().await.unwrap(), 406).await;
    refusal(enhance(&server.anonymous(), hum(1.0)).send().await.unwrap(), 401).await;
    eventually("deletions", async || (recordings(&server) == 0).then_some(())).await;
    let enhanced = send(hum(1.0), &[("strength", "12.5"), ("dereverb", "false")]).await;
    assert_eq!(enhanced.status(), 200);
    assert_eq!(client.credits(&server).await, 599);
}

#[tokio::test]
async fn limits_of_credits_storage_and_number_are_those_of_transcriptions() {
    let server = Server::with(config(), slow(30.0)).await;
    let poor = server.account_with(Plan::Free, 1).await;
    let body = json(enhance(&poor, hum(61.0)).send().await.unwrap(), 402).await;
    assert!(body["upgrade"] == true && body["error"].as_str().unwrap().contains("costs 2"), "{body}");
    let client = server.account(Plan::Free).await;
    let send = || queue(&client, hum(1.0)).send();
    for _ in 0..2 {
        assert_eq!(send().await.unwrap().status(), 202);
    }
    refusal(client.transcribe("/v1/transcribe", hum(1.0), &[]).send().await.unwrap(), 429).await;
    assert_eq!(json(send().await.unwrap(), 429).await["upgrade"], true);

    let mut small = config();
    small.recordings.quota = StorageQuota { free: 100_000, ..StorageQuota::default() };
    let server = Server::with(small, InstantEngine::default()).await;
    let client = server.account(Plan::Free).await;
    assert_eq!(json(enhance(&client, stereo(30_000)).send().await.unwrap(), 413).await["upgrade"], true);
    // What was sent fits, what would come of it does not: a second at 16 kHz is three times as long at 48 kHz.
    let message = refusal(enhance(&client, hum(1.5)).send().await.unwrap(), 400).await;
    assert!(message.contains("does not fit into the storage"), "{message}");
    assert_eq!(enhance(&client, hum(1.0)).send().await.unwrap().status(), 200);
    assert_eq!(client.credits(&server).await, 599);
}

#[tokio::test]
async fn a_wait_that_ends_leaves_the_work_going_on() {
    let config = Config { transcribe_timeout: Seconds(0.3), ..config() };
    let server = Server::with(config, slow(1.5)).await;
    let client = server.account(Plan::Free).await;
    let response = enhance(&client, hum(1.0)).send().await.unwrap();
    let id = id_of(&response);
    assert!(refusal(response, 504).await.contains("goes on"));
    let path = completed(&client, id).await["audio_url"].as_str().unwrap().to_owned();
    assert_eq!(decoded(&client.get(&path).await.bytes().await.unwrap()).0.len(), 48_000);
    assert_eq!(client.credits(&server).await, 599);
}

#[tokio::test(flavor = "multi_thread")]
async fn work_whose_worker_died_is_done_by_another_process_and_charged_once() {
    let server = Server::with_role(Role::Account).await;
    let client = server.account(Plan::Free).await;
    let waits = {
        let client = client.clone();
        tokio::spawn(async move { enhance(&client, stereo(20_000)).send().await.unwrap() })
    };
    eventually("a job to claim", async || {
        server.store.jobs().claim_any("dead", Duration::from_millis(300)).await.unwrap()
    })
    .await;
    let worker = Service::start(server.store.clone(), slow(0.0), config(), Role::Gpu, Clock::system()).await.unwrap();
    let response = waits.await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(decoded(&response.bytes().await.unwrap()).0.len(), 40_000);
    let ledger = server.store.ledger().entries(client.account.unwrap(), 100).await.unwrap();
    assert_eq!(ledger.iter().filter(|entry| entry.kind == EntryKind::Charge).count(), 1);
    assert_eq!(client.credits(&server).await, 599);
    worker.stop().await;
}

#[tokio::test]
async fn without_a_model_the_answer_names_it_before_anything_is_read() {
    let server = Server::with(config(), NoModelsEngine).await;
    let client = server.account(Plan::Free).await;
    refusal(enhance(&client, hum(1.0)).send().await.unwrap(), 503).await;
    let folder = tempfile::tempdir().unwrap();
    let server = Server::with(config(), engine_without_models(folder.path())).await;
    let client = server.account(Plan::Free).await;
    let message = refusal(enhance(&client, hum(1.0)).send().await.unwrap(), 503).await;
    assert!(message.contains("hark models pull deepfilternet3"), "{message}");
    assert_eq!(client.credits(&server).await, 600);
}

/// Has a model, and no program that encodes.
struct WithoutEncoder(InstantEngine);

impl Enhance for WithoutEncoder {
    fn check_enhance(&self) -> Result<(), EngineError> {
        self.0.check_enhance()
    }

    fn check_format(&self, format: SoundFormat) -> Result<(), EngineError> {
        if format == SoundFormat::Wav { Ok(()) } else { Err(EngineError::NoEncoder(format.media_type())) }
    }

    fn enhance(
        &self,
        source: Source,
        work: &EnhanceWork,
        out: SoundOutput,
        progress: &mut dyn FnMut(f64, Option<f64>),
        cancel: &CancelToken,
    ) -> Result<Enhanced, EngineError> {
        self.0.enhance(source, work, out, progress, cancel)
    }
}

#[tokio::test]
async fn a_format_that_can_not_be_written_is_refused_before_anything_is_queued() {
    let engine = InstantEngine::default();
    let engines = Engines::from(engine.clone()).with_enhance(Arc::new(WithoutEncoder(engine)));
    let server = Server::with(config(), engines).await;
    let client = server.account(Plan::Free).await;
    for format in ["audio/flac", "audio/mpeg", "audio/ogg"] {
        for request in [enhance(&client, hum(1.0)), queue(&client, hum(1.0))] {
            let message = refusal(request.header("accept", format).send().await.unwrap(), 503).await;
            assert!(message.contains("ffmpeg is not installed") && message.contains(format), "{message}");
        }
    }
    assert_eq!((client.credits(&server).await, recordings(&server)), (600, 0));
    let either = enhance(&client, hum(1.0)).header("accept", "audio/flac;q=0.1, audio/wav").send().await.unwrap();
    assert_eq!(either.status(), 200);
}

#[tokio::test]
async fn results_that_are_too_old_are_removed_by_maintenance() {
    let clock = Clock::manual(hark_api::DateTime::parse("2030-05-17T12:00:00Z").unwrap().0);
    let server = Server::with_clock(config(), InstantEngine::default(), clock).await;
    let client = server.account(Plan::Free).await;
    let response = queue(&client, hum(1.0)).send().await.unwrap();
    let id = id_of(&response);
    let done = completed(&client, id).await;
    assert_eq!(done["expires_at"], "2030-05-18T12:00:00Z");
    let keep = Duration::from_secs(24 * 3600);
    server.clock.advance(keep - Duration::from_secs(1));
    assert_eq!(server.store.enhancements().expire(keep).await.unwrap(), 0);
    server.clock.advance(Duration::from_secs(1));
    assert_eq!(server.store.enhancements().expire(keep).await.unwrap(), 1);
    assert_eq!(client.get(&format!("/v1/enhancements/{id}")).await.status(), 404);
    assert_eq!(recordings(&server), 0);
}
