//! Live sound over a WebSocket, heard by a real model.

mod ends;
mod limits;
mod realtime;
mod reconnect;
mod talker;

use std::sync::Arc;

use hark_server::{Engines, InstantEngine};
use hark_store::Plan;
use serde_json::{Value, json as value};

use crate::server::{Server, config, json, refusal};
use talker::{Talker, is_sentence, live_server, texts, voice};

/// The config message of most tests.
fn base() -> Value {
    value!({"model": "base", "language": "en"})
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs models"]
async fn words_come_while_somebody_speaks_and_the_whole_is_stored_and_charged() {
    let server = live_server(config()).await;
    let client = server.account(Plan::Free).await;
    let (mut talker, ready) = Talker::ready(&client, base()).await;
    assert_eq!(ready["session_id"].as_str().unwrap().len(), 32);
    talker.sound(&voice(), 2730).await;
    talker.say(value!({"action": "stop"})).await;
    let (messages, code) = talker.rest().await;
    assert_eq!(code, 1000);
    assert!(messages.iter().any(|message| message["partial"].is_string()), "{messages:?}");
    let (last, before) = messages.split_last().unwrap();
    assert_eq!(last["is_final"], true, "{last}");
    assert!(is_sentence(last["text"].as_str().unwrap()), "{last}");
    assert!(before.iter().all(|message| message["is_final"].is_null()), "it comes once");
    assert_eq!(texts(before), last["text"].as_str().unwrap(), "texts are append-only");
    let mut end = 0.0;
    for text in before.iter().filter(|message| message["text"].is_string()) {
        assert!(text["start"].as_f64().unwrap() >= end - 0.01, "{text} begins before {end}");
        end = text["end"].as_f64().unwrap();
        assert_eq!(text["language"], "en");
        assert!(text["confidence"].as_f64().unwrap() > 0.2, "{text}");
        assert!(!text["words"].as_array().unwrap().is_empty(), "{text}");
    }
    let seconds = last["duration"].as_f64().unwrap();
    assert!((seconds - voice().len() as f64 / 32_000.0).abs() < 0.05 && end <= seconds, "{seconds}");

    let id = last["transcript_id"].as_i64().unwrap();
    let kept = json(client.get(&format!("/v1/transcripts/{id}")).await, 200).await;
    assert_eq!((&kept["text"], &kept["source_type"]), (&last["text"], &value!("stream")));
    assert_eq!(kept["status"], "completed");
    let kept = server.store.transcripts().get(client.account.unwrap(), hark_store::TranscriptId(id)).await.unwrap();
    assert_eq!(kept.model, "whisper-base");
    assert_eq!(client.credits(&server).await, 599);
    assert!(server.store.ledger().check().await.unwrap().is_empty());
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs models"]
async fn the_credential_may_come_in_three_places_and_a_wrong_one_opens_nothing() {
    let server = live_server(config()).await;
    let client = server.account(Plan::Free).await;
    let (key, nobody) = (client.key.clone().unwrap(), server.anonymous());
    let by_header = Talker::ready(&client, base()).await;
    drop(by_header);
    for (query, token) in [(format!("?token={key}"), None), (String::new(), Some(&key))] {
        let mut talker = Talker::connect(&nobody, &query).await.unwrap();
        talker.say(value!({"model": "base", "language": "en", "token": token})).await;
        assert_eq!(talker.message().await["status"], "ready");
        talker.sound(&voice()[..64_000], 32_000).await;
        talker.say(value!({"action": "stop"})).await;
        let (messages, code) = talker.rest().await;
        assert_eq!(code, 1000);
        let last = messages.last().unwrap();
        assert!(last["transcript_id"].is_i64(), "only an account has transcripts: {last}");
    }
    let wrong = format!("svc_{}", "0".repeat(64));
    // Of several that differ the header's counts, then the address's.
    let by_header = format!("?token={wrong}");
    for (who, query, token) in [(&client, by_header.as_str(), &wrong), (&nobody, &format!("?token={key}"), &wrong)] {
        let mut talker = Talker::connect(who, query).await.unwrap();
        talker.say(value!({"model": "base", "language": "en", "token": token})).await;
        assert_eq!(talker.message().await["status"], "ready");
    }
    let mut talker = Talker::connect(&nobody, &format!("?token={wrong}")).await.unwrap();
    talker.say(value!({"token": key})).await;
    assert_eq!(talker.rest().await.1, 1008, "the wrong one of the address counts");
    let Err(refused) = Talker::connect(&client.with_key(&wrong), "").await else { panic!("a wrong key opened") };
    assert!(refused.to_string().contains("401"), "{refused}");
    for (query, token) in [(format!("?token={wrong}"), None), (String::new(), Some(&wrong))] {
        let mut talker = Talker::connect(&nobody, &query).await.unwrap();
        talker.say(value!({"token": token})).await;
        let (messages, code) = talker.rest().await;
        assert_eq!(code, 1008);
        assert!(messages.len() == 1 && messages[0]["error"].as_str().unwrap().contains("key"), "{messages:?}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs models"]
async fn without_an_account_words_are_heard_and_nothing_is_kept() {
    let server = live_server(config()).await;
    let mut talker = Talker::connect(&server.anonymous(), "?model=base&language=en").await.unwrap();
    // Sound at once: the address has said everything.
    talker.sound(&voice(), 4096).await;
    assert_eq!(talker.message().await["status"], "ready");
    talker.say(value!({"action": "stop"})).await;
    let (messages, code) = talker.rest().await;
    let last = messages.last().unwrap();
    assert_eq!((code, &last["is_final"], &last["transcript_id"]), (1000, &value!(true), &Value::Null));
    assert!(is_sentence(last["text"].as_str().unwrap()), "{last}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs models"]
async fn a_flush_finishes_what_was_said_and_the_session_goes_on() {
    let server = live_server(config()).await;
    let client = server.account(Plan::Free).await;
    let (mut talker, _) = Talker::ready(&client, base()).await;
    // Pieces that cut samples in two.
    let voice = voice();
    let spoken = &voice[..voice.len() - 40_000];
    talker.sound(spoken, 1237).await;
    talker.say(value!({"action": "flush"})).await;
    let mut heard = Vec::new();
    while !is_sentence(&texts(&heard)) {
        heard.push(talker.message().await);
        assert!(heard.iter().all(|message| message["is_final"].is_null() && message["error"].is_null()), "{heard:?}");
    }
    talker.sound(&voice, 999).await;
    talker.say(value!({"action": "stop"})).await;
    let (messages, _) = talker.rest().await;
    let last = messages.last().unwrap();
    assert_eq!(last["text"].as_str().unwrap().to_lowercase().matches("market").count(), 2, "{last}");
    assert_eq!(client.credits(&server).await, 599);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs models"]
async fn a_sender_that_pauses_gets_its_texts_without_asking() {
    let server = live_server(config()).await;
    let client = server.account(Plan::Free).await;
    let (mut talker, _) = Talker::ready(&client, base()).await;
    // The sound ends within the last word's echo: no silence tells the end of the utterance.
    let voice = voice();
    talker.sound(&voice[..voice.len() - 40_000], 2730).await;
    let mut heard = Vec::new();
    while !is_sentence(&texts(&heard)) {
        heard.push(talker.message().await);
    }
    server.stop().await;
}

#[tokio::test]
async fn who_does_not_speak_websocket_is_told_so_and_an_engine_for_recordings_hears_nothing_live() {
    let recordings_only = Engines::new(Arc::new(InstantEngine::default()));
    let server = Server::with(config(), recordings_only).await;
    let client = server.account(Plan::Free).await;
    assert!(refusal(client.get("/v1/stream").await, 400).await.contains("WebSocket"));
    let mut talker = Talker::connect(&client, "").await.unwrap();
    talker.say(value!({})).await;
    let (messages, code) = talker.rest().await;
    assert_eq!((messages.len(), code), (1, 1013), "{messages:?}");
    assert!(messages[0]["error"].as_str().unwrap().contains("live"), "{messages:?}");
    assert_eq!(client.credits(&server).await, 600);
}
