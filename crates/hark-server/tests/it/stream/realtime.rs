//! OpenAI's Realtime transcription events over the same sessions.

use futures_util::{SinkExt as _, StreamExt as _};
use hark_store::Plan;
use serde_json::{Value, json as value};
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

use super::talker::{Talker, is_sentence, live_server, voice};
use crate::server::{Client, config, eventually};

async fn connect(client: &Client, headers: &[(&'static str, String)]) -> Talker {
    let url = client.url("/v1/realtime?intent=transcription").replace("http://", "ws://");
    let mut request = url.into_client_request().unwrap();
    for (name, value) in headers {
        request.headers_mut().insert(*name, value.parse().unwrap());
    }
    Talker { socket: connect_async(request).await.unwrap().0 }
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let value = group.iter().fold(0u32, |value, &byte| value << 8 | u32::from(byte)) << (8 * (3 - group.len()));
        for digit in 0..4 {
            let letter = LETTERS[(value >> (18 - 6 * digit)) as usize & 63];
            text.push(if digit > group.len() { '=' } else { char::from(letter) });
        }
    }
    text
}

/// The voice at 24 kHz: a straight line between neighbours is good enough for speech.
fn at_24_khz() -> Vec<u8> {
    let samples: Vec<f32> =
        voice().chunks_exact(2).map(|pair| f32::from(i16::from_le_bytes([pair[0], pair[1]]))).collect();
    let between = |at: f32| {
        let (before, share) = (at as usize, at.fract());
        samples[before] * (1.0 - share) + samples[(before + 1).min(samples.len() - 1)] * share
    };
    (0..samples.len() * 3 / 2).flat_map(|n| (between(n as f32 * 2.0 / 3.0) as i16).to_le_bytes()).collect()
}

fn kind(event: &Value) -> &str {
    event["type"].as_str().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs models"]
async fn a_realtime_client_gets_deltas_and_completed_items_and_its_session_is_stored() {
    let server = live_server(config()).await;
    let client = server.account(Plan::Free).await;
    let key = client.key.clone().unwrap();
    let mut talker = connect(&client, &[("authorization", format!("Bearer {key}"))]).await;
    assert_eq!(kind(&talker.message().await), "session.created");
    let transcription = value!({"model": "base", "language": "en"});
    talker
        .say(value!({"type": "session.update", "session": {"type": "transcription", "audio": {"input": {
        "format": {"type": "audio/pcm", "rate": 24_000}, "transcription": transcription}}}}))
        .await;
    let updated = talker.message().await;
    assert_eq!(kind(&updated), "session.updated");
    assert_eq!(updated["session"]["audio"]["input"]["transcription"], transcription);
    talker.say(value!({"type": "response.create", "event_id": "mine"})).await;
    let error = talker.message().await;
    assert_eq!((kind(&error), &error["error"]["event_id"]), ("error", &value!("mine")));

    // Pieces that cut samples in two.
    for piece in at_24_khz().chunks(4801) {
        talker.say(value!({"type": "input_audio_buffer.append", "audio": base64(piece)})).await;
    }
    talker.say(value!({"type": "input_audio_buffer.commit"})).await;
    let (mut deltas, mut transcripts, mut kinds, mut items) = (String::new(), String::new(), Vec::new(), Vec::new());
    while !is_sentence(&transcripts) {
        let event = talker.message().await;
        kinds.push(kind(&event).to_owned());
        match kind(&event) {
            "conversation.item.input_audio_transcription.delta" => deltas.push_str(event["delta"].as_str().unwrap()),
            "conversation.item.input_audio_transcription.completed" => {
                transcripts.push_str(event["transcript"].as_str().unwrap());
                assert!(event["item_id"].as_str().unwrap().starts_with("item_"));
                assert_eq!(event["usage"]["type"], "duration");
                assert!(event["usage"]["seconds"].as_f64().unwrap() > 0.5, "{event}");
            }
            "conversation.item.added" => {
                assert_eq!((&event["item"]["role"], &event["item"]["type"]), (&value!("user"), &value!("message")));
                items.push(event["item"]["id"].clone());
            }
            "conversation.item.done" => assert_eq!(items.last(), Some(&event["item"]["id"]), "it was added before"),
            "error" => panic!("{event}"),
            _ => {}
        }
    }
    assert_eq!(deltas, transcripts);
    for needed in ["speech_started", "speech_stopped", "committed"] {
        assert!(kinds.contains(&format!("input_audio_buffer.{needed}")), "{kinds:?}");
    }
    assert!(kinds.contains(&"conversation.item.done".to_owned()), "{kinds:?}");
    talker.socket.send(Message::Close(None)).await.unwrap();
    while talker.socket.next().await.is_some_and(|message| message.is_ok()) {}
    eventually("the session to be stored", async || {
        let page = server.store.transcripts().list(client.account.unwrap(), &Default::default()).await.unwrap();
        (page.total == 1 && page.transcripts[0].source_type == "stream").then_some(())
    })
    .await;
    assert_eq!(client.credits(&server).await, 599);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs models"]
async fn a_browsers_key_comes_as_a_subprotocol_and_a_wrong_one_opens_nothing() {
    let server = live_server(config()).await;
    let client = server.account(Plan::Free).await;
    let protocols = |key: &str| format!("realtime, openai-insecure-api-key.{key}, openai-beta.realtime-v1");
    let name = "sec-websocket-protocol";
    let mut talker = connect(&client, &[(name, protocols(client.key.as_ref().unwrap()))]).await;
    assert_eq!(kind(&talker.message().await), "transcription_session.created");
    talker
        .say(value!({"type": "transcription_session.update", "session": {
        "input_audio_format": "g711_ulaw", "input_audio_transcription": {"model": "base"}}}))
        .await;
    assert_eq!(kind(&talker.message().await), "transcription_session.updated");
    // A second of silence in G.711 costs the account a minute: the key held.
    talker.say(value!({"type": "input_audio_buffer.append", "audio": base64(&[0xff; 8000])})).await;
    talker.socket.send(Message::Close(None)).await.unwrap();
    eventually("the minute to be charged", async || {
        let entries = server.store.ledger().entries(client.account.unwrap(), 10).await.unwrap();
        entries.iter().any(|entry| entry.kind == hark_store::EntryKind::Charge && entry.amount == -1).then_some(())
    })
    .await;

    let url = client.url("/v1/realtime").replace("http://", "ws://");
    let mut request = url.into_client_request().unwrap();
    request.headers_mut().insert(name, protocols("svc_wrong").parse().unwrap());
    let refused = connect_async(request).await.unwrap_err();
    assert!(refused.to_string().contains("401"), "{refused}");
    server.stop().await;
}
