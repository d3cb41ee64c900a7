//! Recordings that lie about their length: what was decoded is held, charged and counted, and where it is not covered decoding stops.

use std::process::Command;

use hark_server::{Anonymous, Config, InstantEngine};
use hark_store::{EntryKind, KeyKind, NewKey, Plan};

use crate::server::{Client, Server, config, json, refusal};

/// A FLAC of so many minutes whose header says that it lasts a second.
fn forged(minutes: u32) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("forged.flac");
    let sound = format!("anullsrc=r=8000:cl=mono:d={}", minutes * 60 - 10);
    let made = Command::new("ffmpeg")
        .args(["-hide_banner", "-loglevel", "error", "-nostdin", "-f", "lavfi", "-i", &sound])
        .arg(&path)
        .status();
    assert!(made.expect("ffmpeg is not there: `./hark test` installs what tests need").success());
    let mut bytes = std::fs::read(path).unwrap();
    // Behind `fLaC`, a header and sizes come 20 bits of rate, 3 of channels, 5 of depth and 36 of samples.
    let at = 4 + 4 + 10;
    let packed = u64::from_be_bytes(bytes[at..at + 8].try_into().unwrap());
    bytes[at..at + 8].copy_from_slice(&(packed & !((1 << 36) - 1) | 8000).to_be_bytes());
    bytes
}

/// Takes credits away until so many are left.
async fn leave(server: &Server, client: &Client, credits: i64) {
    let account = client.account.unwrap();
    let have = server.store.accounts().get(account).await.unwrap().credits;
    server.store.ledger().adjust(account, credits - have, "test").await.unwrap();
}

#[tokio::test]
#[ignore = "needs ffmpeg"]
async fn the_hold_grows_with_what_is_decoded_and_all_of_it_is_charged() {
    let server = Server::start().await;
    let client = server.account(Plan::Free).await;
    let response = client.transcribe("/v1/transcribe", forged(7), &[]).send().await.unwrap();
    let answer = json(response, 200).await;
    assert!((answer["duration"].as_f64().unwrap() - 410.0).abs() < 1.0, "{answer}");
    assert_eq!(client.credits(&server).await, 593, "seven minutes for seven credits");
    let ledger = server.store.ledger().entries(client.account.unwrap(), 100).await.unwrap();
    let sum = |kind| ledger.iter().filter(|entry| entry.kind == kind).map(|entry| entry.amount).sum::<i64>();
    assert_eq!(sum(EntryKind::Hold) + sum(EntryKind::Release), 0, "{ledger:?}");
    assert_eq!(ledger.iter().filter(|entry| entry.kind == EntryKind::Release).count(), 1, "{ledger:?}");
    assert_eq!(sum(EntryKind::Charge), -7, "{ledger:?}");
    assert!(server.store.ledger().check().await.unwrap().is_empty());
    let keys = server.store.keys().list(client.account.unwrap(), KeyKind::Service).await.unwrap();
    assert_eq!(server.store.keys().minutes_used(keys[0].id).await.unwrap(), 7, "the key's month");
}

#[tokio::test]
#[ignore = "needs ffmpeg"]
async fn a_recording_that_the_credits_do_not_cover_stops_and_costs_nothing() {
    let server = Server::start().await;
    let client = server.account(Plan::Free).await;
    leave(&server, &client, 3).await;
    let response = client.transcribe("/v1/transcribe", forged(30), &[]).send().await.unwrap();
    let status = response.status().as_u16();
    let message = refusal(response, status).await;
    assert!((400..500).contains(&status) && message.contains("3 credits don't cover it"), "{status}: {message}");
    assert_eq!(client.credits(&server).await, 3);
    assert!(server.store.ledger().check().await.unwrap().is_empty());
    let keys = server.store.keys().list(client.account.unwrap(), KeyKind::Service).await.unwrap();
    assert_eq!(server.store.keys().minutes_used(keys[0].id).await.unwrap(), 0);
    // What the credits do cover goes through.
    let response = client.transcribe("/v1/transcribe", forged(3), &[]).send().await.unwrap();
    json(response, 200).await;
    assert_eq!(client.credits(&server).await, 0);
}

#[tokio::test]
#[ignore = "needs ffmpeg"]
async fn a_keys_month_and_an_addresss_day_are_counted_by_what_is_decoded() {
    let anonymous = Anonymous { limit: "4 minutes".parse().unwrap(), ..Anonymous::default() };
    let server = Server::with(Config { anonymous, ..config() }, InstantEngine::default()).await;
    let stranger = server.anonymous();
    let response = stranger.transcribe("/v1/transcribe", forged(14), &[]).send().await.unwrap();
    let status = response.status().as_u16();
    let message = refusal(response, status).await;
    assert!((400..500).contains(&status) && message.contains("4 minutes a day"), "{status}: {message}");
    let response = stranger.transcribe("/v1/transcribe", forged(3), &[]).send().await.unwrap();
    json(response, 200).await;
    let credits = json(stranger.get("/v1/credits").await, 200).await;
    assert_eq!(credits["used_today"], 3, "the refused one gave its minutes back, the other counts in full: {credits}");

    let client = server.account(Plan::Free).await;
    let limited = NewKey { monthly_limit_minutes: 2, ..NewKey::new(KeyKind::Service, "small") };
    let (key, secret) = server.store.keys().create(client.account.unwrap(), &limited).await.unwrap();
    let client = client.with_key(secret.reveal());
    let response = client.transcribe("/v1/transcribe", forged(5), &[]).send().await.unwrap();
    let status = response.status().as_u16();
    let message = refusal(response, status).await;
    assert!((400..500).contains(&status) && message.contains("2 minutes"), "{status}: {message}");
    assert_eq!(server.store.keys().minutes_used(key.id).await.unwrap(), 0);
    assert_eq!(client.credits(&server).await, 600);
}
