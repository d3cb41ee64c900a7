//! Broken connections, resumed sessions, and servers that shut down.

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use hark_server::{Config, Seconds, StreamLimits};
use hark_store::{Plan, Status, TranscriptFilter, TranscriptId, TranscriptPage};
use serde_json::{Value, json as value};
use sqlx::{Connection as _, Executor as _, SqliteConnection};
use tokio_tungstenite::tungstenite::Message;

use super::base;
use super::talker::{Talker, is_sentence, live_server, silence, texts, voice};
use crate::server::{Client, Server, config, eventually};

fn resumable(seconds: f64) -> Config {
    let stream = StreamLimits { resume: Seconds(seconds), ..StreamLimits::default() };
    Config { stream, metrics_listen: Some("127.0.0.1:0".parse().unwrap()), ..config() }
}

/// A server on which a broken session can be resumed for so long, with a client and its session.
async fn session(resumable_for: f64) -> (Server, Client, Talker) {
    let server = live_server(resumable(resumable_for)).await;
    let client = server.account(Plan::Free).await;
    let (talker, _) = Talker::ready(&client, base()).await;
    (server, client, talker)
}

/// Collects messages until their final text has the word so many times.
async fn hear(talker: &mut Talker, messages: &mut Vec<Value>, word: &str, times: usize) {
    while texts(messages).to_lowercase().matches(word).count() < times {
        messages.push(talker.message().await);
    }
}

/// All transcripts of the client, of sessions that run and of those that have ended.
async fn stored(server: &Server, client: &Client) -> TranscriptPage {
    server.store.transcripts().list(client.account.unwrap(), &Default::default()).await.unwrap()
}

/// The id of the client's first transcript, once it is stored.
async fn first_transcript(server: &Server, client: &Client) -> TranscriptId {
    eventually("a transcript to be stored", async || Some(stored(server, client).await.transcripts.first()?.id)).await
}

/// The transcripts of the client's sessions that have ended.
async fn completed(server: &Server, client: &Client) -> TranscriptPage {
    let filter = TranscriptFilter { status: Some(Status::Completed), ..TranscriptFilter::default() };
    server.store.transcripts().list(client.account.unwrap(), &filter).await.unwrap()
}

async fn gauge(server: &Server, name: &str) -> i64 {
    let text =
        reqwest::get(format!("http://{}/metrics", server.metrics_address())).await.unwrap().text().await.unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("no {name}: {text}"));
    line.trim().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs models"]
async fn what_a_vanished_client_said_is_stored_and_charged_once_it_can_not_come_back() {
    let (server, client, mut talker) = session(1.0).await;
    talker.sound(&voice(), 2730).await;
    hear(&mut talker, &mut Vec::new(), "market", 1).await;
    drop(talker);
    let page = eventually("the session to be stored", async || {
        let page = completed(&server, &client).await;
        (page.total > 0).then_some(page)
    })
    .await;
    let (found, text) = server.store.transcripts().text(client.account.unwrap(), page.transcripts[0].id).await.unwrap();
    assert_eq!(found.source_type, "stream");
    assert!(is_sentence(&text.text), "{}", text.text);
    assert_eq!(client.credits(&server).await, 599);
    eventually("the session to end", async || (gauge(&server, "hark_streams ").await == 0).then_some(())).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs models"]
async fn what_a_client_is_told_is_stored_while_it_speaks_on() {
    let (server, client, mut talker) = session(30.0).await;
    talker.sound(&voice(), 2730).await;
    let mut heard = Vec::new();
    hear(&mut talker, &mut heard, "bread", 1).await;
    let id = first_transcript(&server, &client).await;
    let found = eventually("its text to be stored", async || {
        let (found, text) = server.store.transcripts().text(client.account.unwrap(), id).await.unwrap();
        (text.text == texts(&heard)).then_some((found, text))
    });
    let (found, text) = found.await;
    assert_eq!((found.status, found.source_type.as_str()), (Status::Processing, "stream"));
    assert!(!text.segments[0].words.is_empty() && found.duration_seconds > 1.0, "{text:?}");
    assert_eq!(client.credits(&server).await, 599, "the minute that was begun is charged");
    talker.say(value!({"action": "stop"})).await;
    let (messages, _) = talker.rest().await;
    let last = messages.last().unwrap();
    assert_eq!(last["transcript_id"].as_i64(), Some(id.0));
    assert_eq!((completed(&server, &client).await.total, stored(&server, &client).await.total), (1, 1));
    assert_eq!(client.credits(&server).await, 599);
    assert!(server.store.ledger().check().await.unwrap().is_empty());
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs models"]
async fn a_session_goes_on_while_nothing_can_be_written_and_catches_up() {
    let (server, client, mut talker) = session(120.0).await;
    talker.sound(&voice(), 2730).await;
    let mut heard = Vec::new();
    hear(&mut talker, &mut heard, "bread", 1).await;
    // Somebody else writes and does not end.
    let database = format!("sqlite://{}", server.folder.path().join("hark.db").display());
    let mut other = SqliteConnection::connect(&database).await.unwrap();
    other.execute("BEGIN IMMEDIATE").await.unwrap();
    talker.sound(&silence(60.0), 64_000).await;
    talker.sound(&voice(), 2730).await;
    hear(&mut talker, &mut heard, "bread", 2).await;
    assert_eq!(client.credits(&server).await, 599, "the second minute can't be charged yet");
    other.execute("ROLLBACK").await.unwrap();
    let id = stored(&server, &client).await.transcripts[0].id;
    eventually("the text and the charge to be written", async || {
        let (_, text) = server.store.transcripts().text(client.account.unwrap(), id).await.unwrap();
        (text.text == texts(&heard) && client.credits(&server).await == 598).then_some(())
    })
    .await;
    talker.say(value!({"action": "stop"})).await;
    let (messages, code) = talker.rest().await;
    assert_eq!((code, messages.last().unwrap()["transcript_id"].as_i64()), (1000, Some(id.0)), "{messages:?}");
    assert_eq!(client.credits(&server).await, 598);
    assert!(server.store.ledger().check().await.unwrap().is_empty());
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs models"]
async fn a_session_whose_transcript_is_deleted_ends_and_says_so() {
    let (server, client, mut talker) = session(30.0).await;
    talker.sound(&silence(1.0), 2730).await;
    let id = first_transcript(&server, &client).await;
    server.store.transcripts().delete(client.account.unwrap(), id).await.unwrap();
    let (messages, code) = talker.rest().await;
    assert_eq!(code, 1008, "{messages:?}");
    let error = messages.iter().find_map(|message| message["error"].as_str());
    assert!(error.is_some_and(|error| error.contains("deleted")), "{messages:?}");
    assert_eq!(stored(&server, &client).await.total, 0);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs models"]
async fn a_client_that_comes_back_goes_on_with_its_session_and_nobody_else_does() {
    let server = live_server(resumable(30.0)).await;
    let (client, other) = (server.account(Plan::Free).await, server.account(Plan::Free).await);
    let (mut talker, ready) = Talker::ready(&client, base()).await;
    let id = ready["session_id"].clone();
    let sound = voice();
    talker.sound(&sound, 2730).await;
    // An answer to the ping says that everything before it has been taken.
    talker.say(value!({"action": "flush"})).await;
    hear(&mut talker, &mut Vec::new(), "bread", 1).await;
    drop(talker);

    let mut hello = base();
    hello["session_id"] = id.clone();
    let (stranger, ready) = Talker::ready(&other, hello.clone()).await;
    assert_ne!(ready["session_id"], id, "a session is its owner's alone");
    assert!(ready["resumed"].is_null(), "{ready}");
    drop(stranger);

    let (mut talker, ready) = Talker::ready(&client, hello.clone()).await;
    assert_eq!((&ready["session_id"], &ready["resumed"]), (&id, &value!(true)), "{ready}");
    let received = ready["received"].as_f64().unwrap();
    assert!((received - sound.len() as f64 / 32_000.0).abs() < 0.01, "{received}");
    talker.sound(&sound, 2730).await;
    talker.say(value!({"action": "flush"})).await;
    hear(&mut talker, &mut Vec::new(), "bread", 1).await;

    // The server has not noticed that this connection is dead: the next one takes over.
    let (mut again, ready) = Talker::ready(&client, hello).await;
    assert_eq!(ready["resumed"], true);
    assert_eq!(talker.rest().await.1, 1006);
    again.say(value!({"action": "stop"})).await;
    let (messages, code) = again.rest().await;
    let last = messages.last().unwrap();
    assert_eq!(code, 1000);
    assert_eq!(last["text"].as_str().unwrap().to_lowercase().matches("market").count(), 2, "{last}");
    let page = stored(&server, &client).await;
    assert_eq!((page.total, page.transcripts[0].id.0), (1, last["transcript_id"].as_i64().unwrap()));
    assert_eq!(client.credits(&server).await, 599, "one session, one begun minute");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs models"]
async fn a_client_that_closes_ends_its_session_at_once() {
    let (server, client, mut talker) = session(600.0).await;
    talker.sound(&voice(), 2730).await;
    talker.socket.send(Message::Close(None)).await.unwrap();
    eventually("the session to be stored", async || (completed(&server, &client).await.total > 0).then_some(())).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs models"]
async fn a_server_that_goes_down_tells_and_stores_what_was_heard() {
    let (server, client, mut talker) = session(600.0).await;
    talker.sound(&voice(), 2730).await;
    let (mut broken, _) = Talker::ready(&client, base()).await;
    broken.sound(&silence(2.0), 2730).await;
    eventually("the sound to arrive", async || (gauge(&server, "hark_streams ").await == 2).then_some(())).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    drop(broken);
    tokio::time::sleep(Duration::from_millis(500)).await;
    let store = server.store.clone();
    let reading = tokio::spawn(async move { talker.rest().await });
    let account = client.account.unwrap();
    let _folder = {
        let stopping = server.service_stop();
        stopping.await
    };
    let (messages, code) = reading.await.unwrap();
    assert_eq!(code, 1013, "{messages:?}");
    assert!(messages.iter().any(|message| message["error"].is_string()), "{messages:?}");
    let last = messages.last().unwrap();
    assert!(is_sentence(last["text"].as_str().unwrap()) && last["transcript_id"].is_i64(), "{last}");
    let page = store.transcripts().list(account, &Default::default()).await.unwrap();
    assert_eq!(page.total, 2, "also the one whose client was disconnected");
    assert_eq!(store.accounts().get(account).await.unwrap().credits, 598);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs models"]
async fn a_thousand_connections_opened_and_dropped_leave_nothing_behind() {
    let server = live_server(resumable(0.2)).await;
    let client = server.account(Plan::Pro).await;
    let nobody = server.anonymous();
    for round in 0..334 {
        // One that says nothing, one that only configures, one that sends a little.
        let _silent = Talker::connect(&nobody, "").await.unwrap();
        let mut configured = Talker::connect(&client, "").await.unwrap();
        configured.say(base()).await;
        let mut heard = Talker::connect(&client, "").await.unwrap();
        heard.say(base()).await;
        if heard.next().await.is_ok_and(|message| message["status"] == "ready") && round % 10 == 0 {
            heard.sound(&silence(0.1), 320).await;
        }
    }
    eventually("all of it to end", async || {
        let (streams, connections) = (gauge(&server, "hark_streams ").await, gauge(&server, "hark_connections ").await);
        // The connection that asks is one.
        (streams == 0 && connections <= 1).then_some(())
    })
    .await;
    let (mut talker, _) = Talker::ready(&client, base()).await;
    talker.say(value!({"action": "stop"})).await;
    assert_eq!(talker.rest().await.1, 1000);
    let sessions = stored(&server, &client).await.total;
    assert!(sessions <= 34, "{sessions}");
    assert_eq!(client.credits(&server).await, 600 - sessions);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs models"]
async fn pings_are_sent_and_answered_and_who_answers_none_is_gone() {
    let stream = StreamLimits { ping: Seconds(0.4), ..StreamLimits::default() };
    let server = live_server(Config { stream, ..resumable(0.2) }).await;
    let client = server.account(Plan::Pro).await;
    // A client's own ping comes back with what it carried.
    let (mut talker, _) = Talker::ready(&client, base()).await;
    talker.socket.send(Message::Ping(vec![1, 2, 3].into())).await.unwrap();
    let (mut asked, mut answered) = (0, false);
    while asked < 5 {
        match talker.socket.next().await.unwrap().unwrap() {
            // Reading it answers it: the library does.
            Message::Ping(_) => asked += 1,
            Message::Pong(carried) => answered |= carried.as_ref() == [1, 2, 3],
            other => panic!("{other:?}"),
        }
    }
    assert!(answered, "the ping was not answered");
    assert_eq!(gauge(&server, "hark_streams ").await, 1, "who answers stays, though it says nothing");
    // One that reads nothing answers no ping.
    eventually("the silent client to be taken for gone", async || {
        (gauge(&server, "hark_streams ").await == 0).then_some(())
    })
    .await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs models"]
async fn the_credits_of_a_long_silence_stay_held_until_they_are_charged() {
    let stream = StreamLimits { ping: Seconds(0.2), hold: Seconds(2.0), ..StreamLimits::default() };
    let server = live_server(Config { stream, ..config() }).await;
    let client = server.account(Plan::Pro).await;
    let (mut talker, _) = Talker::ready(&client, base()).await;
    talker.sound(&silence(0.5), 2730).await;
    let until = tokio::time::Instant::now() + Duration::from_secs(5);
    while tokio::time::timeout_at(until, talker.socket.next()).await.is_ok() {
        server.store.ledger().release_expired().await.unwrap();
    }
    talker.say(value!({"action": "stop"})).await;
    let (messages, code) = talker.rest().await;
    assert_eq!(code, 1000, "{messages:?}");
    assert_eq!(client.credits(&server).await, 599, "a hold that ran out would have been charged to nobody");
    server.stop().await;
}
