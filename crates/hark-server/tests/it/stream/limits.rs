//! What a live session may not do, and what others notice of it.

use std::time::Duration;

use hark_server::{Anonymous, Config, Seconds, StreamLimits};
use hark_store::{KeyKind, NewKey, Plan};
use serde_json::{Value, json as value};
use tokio_tungstenite::tungstenite::Message;

use super::base;
use super::talker::{Talker, is_sentence, live_server, silence, story, voice};
use crate::server::{config, eventually, hum, refusal};
use futures_util::SinkExt as _;

/// The single error and the code that a connection ends with; texts may stand around it.
fn error_of(messages: &[Value]) -> &Value {
    let errors: Vec<_> = messages.iter().filter(|message| message["error"].is_string()).collect();
    assert_eq!(errors.len(), 1, "{messages:?}");
    errors[0]
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs models"]
async fn messages_that_make_no_sense_end_the_session_with_the_reason() {
    let server = live_server(config()).await;
    let client = server.account(Plan::Pro).await;
    for first in ["hello", "[1]", r#"{"language": 17}"#, r#"{"language": "klingon"}"#, r#"{"action": "stop"}"#] {
        let mut talker = Talker::connect(&client, "").await.unwrap();
        talker.socket.send(Message::Text(first.into())).await.unwrap();
        let (messages, code) = talker.rest().await;
        assert_eq!((messages.len(), code), (1, 1003), "{first}: {messages:?}");
        error_of(&messages);
    }
    for wrong in ["hello", r#"{"action": "dance"}"#, r#"{"language": "en"}"#, &"x".repeat(70_000)] {
        let (mut talker, _) = Talker::ready(&client, base()).await;
        talker.sound(&silence(0.5), 2730).await;
        talker.socket.send(Message::Text(wrong.into())).await.unwrap();
        let (messages, code) = talker.rest().await;
        assert_eq!(code, 1003, "{messages:?}");
        error_of(&messages);
        assert_eq!(messages.last().unwrap()["is_final"], true, "what was heard is told: {messages:?}");
    }
    for bytes in [(1 << 20) + 2, 6 << 20] {
        let (mut talker, _) = Talker::ready(&client, base()).await;
        // The server may close before it has read all of it.
        let _ = talker.socket.send(Message::Binary(vec![0; bytes].into())).await;
        let (messages, code) = talker.rest().await;
        if bytes < 4 << 20 {
            assert_eq!(code, 1003, "{messages:?}");
            assert!(error_of(&messages)["error"].as_str().unwrap().contains("1 MB"));
        } else {
            assert!([1003, 1006].contains(&code), "{code}: {messages:?}");
        }
    }
    let text = server.store.transcripts().list(client.account.unwrap(), &Default::default()).await.unwrap();
    assert_eq!(text.total, 4, "only those that heard something are kept");
    assert_eq!(client.credits(&server).await, 596);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs models"]
async fn a_stream_without_credits_ends_and_keeps_what_was_paid_for() {
    let server = live_server(config()).await;
    let client = server.account(Plan::Free).await;
    server.store.ledger().adjust(client.account.unwrap(), -598, "test").await.unwrap();
    let (mut talker, _) = Talker::ready(&client, base()).await;
    assert_eq!(client.credits(&server).await, 1, "the first minute is held");
    talker.sound(&voice(), 2730).await;
    // Silence up to the third minute, which nobody can pay for.
    talker.sound(&silence(125.0), 64_000).await;
    let (messages, code) = talker.rest().await;
    assert_eq!(code, 1008, "{messages:?}");
    let error = error_of(&messages);
    assert_eq!(error["upgrade"], true, "{error}");
    let last = messages.last().unwrap();
    assert_eq!(last["is_final"], true);
    assert!(is_sentence(last["text"].as_str().unwrap()), "{last}");
    assert!((110.0..=120.1).contains(&last["duration"].as_f64().unwrap()), "{last}");
    assert_eq!(client.credits(&server).await, 0);
    let kept = server.store.transcripts().list(client.account.unwrap(), &Default::default()).await.unwrap();
    assert_eq!((kept.total, kept.transcripts[0].id.0), (1, last["transcript_id"].as_i64().unwrap()));
    assert!(server.store.ledger().check().await.unwrap().is_empty());

    let mut broke = Talker::connect(&client, "").await.unwrap();
    broke.say(base()).await;
    let (messages, code) = broke.rest().await;
    assert_eq!((code, &error_of(&messages)["upgrade"]), (1008, &value!(true)));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs models"]
async fn a_keys_minutes_of_the_month_count_live_sound_too() {
    let server = live_server(config()).await;
    let client = server.account(Plan::Free).await;
    let key = NewKey { monthly_limit_minutes: 1, ..NewKey::new(KeyKind::Service, "one minute") };
    let (id, secret) = server.store.keys().create(client.account.unwrap(), &key).await.unwrap();
    let client = client.with_key(secret.reveal());
    let (mut talker, _) = Talker::ready(&client, base()).await;
    talker.sound(&silence(61.0), 32_000).await;
    let (messages, code) = talker.rest().await;
    assert_eq!(code, 1008);
    assert!(error_of(&messages)["error"].as_str().unwrap().contains("month"), "{messages:?}");
    assert_eq!(server.store.keys().minutes_used(id.id).await.unwrap(), 1);
    assert_eq!(client.credits(&server).await, 599);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs models"]
async fn streams_and_uploads_share_the_plans_limit() {
    let server = live_server(config()).await;
    let client = server.account(Plan::Free).await;
    let first = Talker::ready(&client, base()).await;
    let second = Talker::ready(&client, base()).await;
    let mut third = Talker::connect(&client, "").await.unwrap();
    third.say(base()).await;
    let (messages, code) = third.rest().await;
    assert_eq!((code, &error_of(&messages)["upgrade"]), (1008, &value!(true)));
    let upload = client.transcribe("/v1/transcribe", hum(1.0), &[("model", "base")]).send().await.unwrap();
    refusal(upload, 429).await;
    drop((first, second));
    eventually("the places to be free again", async || {
        let mut talker = Talker::connect(&client, "").await.unwrap();
        talker.say(base()).await;
        talker.message().await["status"].is_string().then_some(())
    })
    .await;
    let free = "sessions without sound to cost nothing";
    eventually(free, async || (client.credits(&server).await == 600).then_some(())).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs models"]
async fn an_address_without_an_account_has_its_streams_of_the_day_one_at_a_time() {
    let anonymous = Anonymous { limit: "2 transcriptions".parse().unwrap(), ..Anonymous::default() };
    let server = live_server(Config { anonymous, ..config() }).await;
    let nobody = server.anonymous();
    let (mut first, _) = Talker::ready(&nobody, base()).await;
    let mut second = Talker::connect(&nobody, "").await.unwrap();
    second.say(base()).await;
    assert_eq!(second.rest().await.1, 1008, "one at a time");
    for round in 0..2 {
        if round > 0 {
            first = Talker::ready(&nobody, base()).await.0;
        }
        first.sound(&silence(1.0), 2730).await;
        first.say(value!({"action": "stop"})).await;
        assert_eq!(first.rest().await.1, 1000);
    }
    let mut third = Talker::connect(&nobody, "").await.unwrap();
    third.say(base()).await;
    let (messages, code) = third.rest().await;
    assert_eq!((code, &error_of(&messages)["upgrade"]), (1008, &value!(true)), "{messages:?}");
    let upload = nobody.transcribe("/v1/transcribe", hum(1.0), &[("model", "base")]).send().await.unwrap();
    refusal(upload, 429).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs models"]
async fn silence_length_and_hesitation_have_an_end() {
    let stream = StreamLimits {
        idle: Seconds(1.0),
        longest: Seconds(5.0),
        first_message: Seconds(0.3),
        ..StreamLimits::default()
    };
    let server = live_server(Config { stream, ..config() }).await;
    let client = server.account(Plan::Pro).await;
    let mut mute = Talker::connect(&client, "").await.unwrap();
    let (messages, code) = mute.rest().await;
    assert_eq!(code, 1008, "{messages:?}");
    error_of(&messages);

    let (mut idle, _) = Talker::ready(&client, base()).await;
    idle.sound(&silence(1.0), 2730).await;
    let (messages, code) = idle.rest().await;
    assert_eq!((code, messages.len(), &messages[0]["is_final"]), (1000, 1, &value!(true)), "{messages:?}");

    let (mut long, _) = Talker::ready(&client, base()).await;
    long.sound(&silence(6.0), 32_000).await;
    let (messages, code) = long.rest().await;
    assert_eq!((code, error_of(&messages)["error"].as_str().unwrap().contains("5 seconds")), (1008, true));
    assert!(messages.last().unwrap()["transcript_id"].is_i64(), "{messages:?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs models"]
async fn a_client_that_sends_a_hundred_times_too_fast_or_reads_nothing_harms_nobody() {
    let server = live_server(config()).await;
    let greedy = server.account(Plan::Pro).await;
    let sound = voice();
    let (mut fast, _) = Talker::ready(&greedy, base()).await;
    let (mut deaf, _) = Talker::ready(&greedy, base()).await;
    let (fast_sound, words) = story();
    let sending = tokio::spawn(async move {
        fast.sound(&fast_sound, 64_000).await;
        fast.say(value!({"action": "stop"})).await;
        fast.rest().await
    });
    let deaf_sound = sound.repeat(2);
    let muting = tokio::spawn(async move {
        deaf.sound(&deaf_sound, 64_000).await;
        tokio::time::sleep(Duration::from_secs(3600)).await;
    });
    let client = server.account(Plan::Free).await;
    let (mut talker, _) = Talker::ready(&client, base()).await;
    talker.sound(&sound, 2730).await;
    talker.say(value!({"action": "stop"})).await;
    let (messages, code) = talker.rest().await;
    assert_eq!(code, 1000);
    assert!(is_sentence(messages.last().unwrap()["text"].as_str().unwrap()), "{messages:?}");
    let (messages, code) = sending.await.unwrap();
    let last = messages.last().unwrap();
    assert_eq!((code, &last["is_final"]), (1000, &value!(true)));
    let text = last["text"].as_str().unwrap().to_lowercase();
    let missing: Vec<_> = words.iter().filter(|word| !text.contains(*word)).collect();
    assert!(missing.len() <= 3, "sound was lost: no {missing:?} in {last}");
    muting.abort();
    server.stop().await;
}
