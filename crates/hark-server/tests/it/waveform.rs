//! `GET /v1/transcripts/{id}/waveform`: peaks of what was sent, for its owner alone, decoded once.

use bytes::Bytes;
use hark_server::{Config, InstantEngine, Role};
use hark_store::{Accepted, Lane, NewJob, NewTranscript, Owner, Plan, TranscriptId};
use reqwest::Method;

use crate::log;
use crate::probes::{decoders, slow};
use crate::server::{Client, Server, config, eventually, hum, json, refusal};

async fn sent(client: &Client, recording: Vec<u8>) -> i64 {
    let response = client.transcribe("/v1/transcribe", recording, &[]).send().await.unwrap();
    assert_eq!(response.status(), 200);
    response.headers()["x-transcript-id"].to_str().unwrap().parse().unwrap()
}

fn path(id: i64) -> String {
    format!("/v1/transcripts/{id}/waveform")
}

/// A second of silence and a second of a loud tone.
fn silence_then_tone() -> Vec<u8> {
    let tone = |n: usize| if n < 16_000 { 0.0 } else { (n as f32 * 0.3).sin() * 0.8 };
    let mut wav = Vec::new();
    hark_media::write_wav(&mut wav, &(0..32_000).map(tone).collect::<Vec<f32>>(), 16_000).unwrap();
    wav
}

/// How often the waveform of a transcript was computed.
fn computed(id: i64) -> usize {
    log::so_far().lines().filter(|line| line.contains("waveform.computed") && line.contains(&id.to_string())).count()
}

#[tokio::test]
async fn the_peaks_are_those_of_the_recording_and_it_is_decoded_once() {
    let server = Server::start().await;
    let client = server.account(Plan::Free).await;
    let id = sent(&client, silence_then_tone()).await;
    // As a page does that draws it twice while it is built.
    let path_of_it = path(id);
    let (one, other) = tokio::join!(client.get(&path_of_it), client.get(&path_of_it));
    assert!(one.headers()["cache-control"].to_str().unwrap().contains("private"));
    let drawn = json(one, 200).await;
    assert_eq!(json(other, 200).await, drawn);
    assert_eq!((&drawn["duration"], &drawn["points"]), (&2.0.into(), &1000.into()));
    for points in [100, 777, 4000] {
        let drawn = json(client.get(&format!("{}?points={points}", path(id))).await, 200).await;
        assert_eq!(drawn["points"], points);
        let peaks: Vec<u64> = drawn["peaks"].as_array().unwrap().iter().map(|peak| peak.as_u64().unwrap()).collect();
        assert_eq!(peaks.len(), points);
        let middle = points / 2;
        assert!(peaks[..middle - 2].iter().all(|&peak| peak == 0), "{peaks:?}");
        // A part of a 4000th has eight samples, in which a tone may not reach its peak.
        assert!(peaks[middle + 2..].iter().all(|peak| (40..=81).contains(peak)), "{peaks:?}");
        assert!(peaks.contains(&80));
    }
    assert_eq!(computed(id), 1);

    // It goes with the transcript, and stays when the text changes.
    let edit = serde_json::json!({"segments": [{"index": 0, "text": "a tone"}]});
    let transcript = format!("/v1/transcripts/{id}");
    json(client.request(Method::PATCH, &transcript).json(&edit).send().await.unwrap(), 200).await;
    assert_eq!(json(client.get(&path(id)).await, 200).await, drawn);
    assert_eq!(computed(id), 1);
    json(client.request(Method::DELETE, &transcript).send().await.unwrap(), 200).await;
    refusal(client.get(&path(id)).await, 404).await;
}

#[tokio::test]
async fn a_waveform_is_its_owners_and_has_a_bounded_number_of_points() {
    let server = Server::start().await;
    let (client, other) = (server.account(Plan::Free).await, server.account(Plan::Free).await);
    let id = sent(&client, hum(1.0)).await;
    for _ in 0..2 {
        refusal(other.get(&path(id)).await, 404).await;
        refusal(server.anonymous().get(&path(id)).await, 401).await;
        for points in ["99", "4001", "0", "-1000", "many", "", "1e3", "99999999999999999999"] {
            let message = refusal(client.get(&format!("{}?points={points}", path(id))).await, 400).await;
            assert!(message.contains("points"), "{message}");
        }
        // The same once it is stored.
        json(client.get(&path(id)).await, 200).await;
    }
    refusal(client.get("/v1/transcripts/17/waveform").await, 404).await;
    let key =
        json(client.post("/v1/keys", serde_json::json!({"name": "writes", "scopes": ["transcribe"]})).await, 201).await;
    let writer = client.with_key(key["key"].as_str().unwrap());
    assert!(refusal(writer.get(&path(id)).await, 403).await.contains("read"));
}

#[tokio::test]
async fn a_recording_that_was_not_kept_has_no_waveform() {
    let server = Server::with(Config { keep_audio: false, ..config() }, InstantEngine::default()).await;
    let client = server.account(Plan::Free).await;
    let id = sent(&client, hum(1.0)).await;
    assert!(refusal(client.get(&path(id)).await, 404).await.contains("recording"));
}

/// A transcript that waits, with this recording.
async fn queued(server: &Server, client: &Client, recording: Vec<u8>) -> TranscriptId {
    let account = client.account.unwrap();
    let mut upload = server.store.recordings().upload(account).await.unwrap();
    upload.write(Bytes::from(recording)).await.unwrap();
    let job = NewJob {
        owner: Owner::Account(account),
        transcript: NewTranscript::default(),
        payload: "{}".into(),
        needs: Vec::new(),
        blob: upload.finish().await.unwrap(),
        seconds: 1.0,
        minutes: 1,
        hold: 0,
        lane: Lane::Bulk,
        key: None,
        max_live: None,
        max_queued: None,
        anonymous_limit: None,
        max_storage: None,
        idempotency: None,
        webhook: None,
    };
    match server.store.jobs().accept(job).await.unwrap() {
        Accepted::New { transcript, .. } => transcript,
        Accepted::Repeat { .. } => panic!("it was not sent before"),
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs ffmpeg"]
async fn few_recordings_are_decoded_at_once_and_none_for_a_client_that_left() {
    // Nothing here works on the queue.
    let server = Server::with_role(Role::Account).await;
    let (client, other) = (server.account(Plan::Pro).await, server.account(Plan::Pro).await);
    let slow = slow();
    let ask = |client: &Client, id: TranscriptId| tokio::spawn(client.request(Method::GET, &path(id.0)).send());
    let mut asked = Vec::new();
    for _ in 0..2 {
        asked.push(ask(&client, queued(&server, &client, slow.clone()).await));
    }
    eventually("two decoders", async || (decoders(&server) == 2).then_some(())).await;
    let third = queued(&server, &client, slow.clone()).await;
    refusal(client.get(&path(third.0)).await, 429).await;
    // Others find a slot, and two requests for one recording decode it once.
    let id = queued(&server, &other, slow).await;
    asked.extend([ask(&other, id), ask(&other, id)]);
    eventually("a third decoder", async || (decoders(&server) == 3).then_some(())).await;
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert_eq!(decoders(&server), 3);
    for request in asked {
        request.abort();
    }
    eventually("the end of all decoders", async || (decoders(&server) == 0).then_some(())).await;
    assert_eq!(server.store.transcripts().waveform(other.account.unwrap(), id).await.unwrap(), None);
    // Its slots are free again.
    json(client.get(&path(queued(&server, &client, hum(1.0)).await.0)).await, 200).await;
}
