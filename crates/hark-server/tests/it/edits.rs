//! Edits of one transcript by several clients.

use reqwest::{Method, Response};
use serde_json::{Value, json as value};

use crate::server::{Client, Server, hum, json, refusal};
use hark_store::Plan;

async fn transcribed(client: &Client) -> i64 {
    let sent = client.transcribe("/v1/transcribe", hum(1.0), &[]).send().await.unwrap();
    assert_eq!(sent.status(), 200);
    sent.headers()["x-transcript-id"].to_str().unwrap().parse().unwrap()
}

fn tag(response: &Response) -> String {
    response.headers()["etag"].to_str().unwrap().to_owned()
}

async fn change(client: &Client, id: i64, if_match: Option<&str>, change: Value) -> Response {
    let request = client.request(Method::PATCH, &format!("/v1/transcripts/{id}")).json(&change);
    match if_match {
        Some(tag) => request.header("if-match", tag),
        None => request,
    }
    .send()
    .await
    .unwrap()
}

#[tokio::test]
async fn a_client_that_names_an_older_version_is_told_so_and_changes_nothing() {
    let server = Server::start().await;
    let client = server.account(Plan::Free).await;
    let id = transcribed(&client).await;
    let read = client.get(&format!("/v1/transcripts/{id}")).await;
    let first = tag(&read);
    assert!(first.starts_with('"') && first.len() == 34, "{first}");
    let text = |text: &str| value!({"segments": [{"index": 0, "text": text}]});
    let changed = change(&client, id, Some(&first), text("from one device")).await;
    let second = tag(&changed);
    assert_ne!(first, second);
    assert_eq!(tag(&client.get(&format!("/v1/transcripts/{id}")).await), second, "the answer has the new version");

    let why = refusal(change(&client, id, Some(&first), text("from another")).await, 412).await;
    assert!(why.contains("If-Match"), "{why}");
    for none in ["\"0\"", "", ", ,", "no tag"] {
        refusal(change(&client, id, Some(none), text("x")).await, 412).await;
    }
    let now = json(client.get(&format!("/v1/transcripts/{id}")).await, 200).await;
    assert_eq!(now["text"], "from one device");
    // Several tags, a proxy's weak one, any, and none at all.
    let mut current = second;
    for form in [|tag: &str| format!("\"a\", {tag}"), |tag: &str| format!("W/{tag}"), |_: &str| "*".to_owned()] {
        let changed = change(&client, id, Some(&form(&current)), text(&current)).await;
        assert_eq!(changed.status(), 200, "{}", form(&current));
        current = tag(&changed);
    }
    assert_eq!(change(&client, id, None, text("the last one")).await.status(), 200);
    refusal(change(&client, 4, Some("*"), text("x")).await, 404).await;
}

#[tokio::test]
async fn a_draft_has_no_version() {
    let engine = hark_server::InstantEngine { takes: std::time::Duration::from_secs(600) };
    let server = Server::with(crate::server::config(), engine).await;
    let client = server.account(Plan::Free).await;
    let sent = client.transcribe("/v1/transcribe", hum(1.0), &[]).header("prefer", "respond-async").send();
    let id = json(sent.await.unwrap(), 202).await["id"].as_i64().unwrap();
    let read = client.get(&format!("/v1/transcripts/{id}")).await;
    assert_eq!((read.status().as_u16(), read.headers().get("etag")), (200, None));
    // Ends the job, which would keep its thread.
    assert_eq!(client.request(Method::DELETE, &format!("/v1/transcripts/{id}")).send().await.unwrap().status(), 200);
    server.stop().await;
}

#[tokio::test]
async fn the_speaker_of_a_segment_is_changed() {
    let server = Server::start().await;
    let client = server.account(Plan::Free).await;
    let id = transcribed(&client).await;
    let give = async |speaker: Value| {
        change(&client, id, None, value!({"segments": [{"index": 0, "speaker": speaker}]})).await
    };
    let changed = json(give(value!("  Ada ")).await, 200).await;
    assert_eq!((&changed["segments"][0]["speaker"], &changed["num_speakers"]), (&value!("Ada"), &value!(1)));
    assert_eq!(changed["text"], "nothing was heard");
    let both = value!({"segments": [{"index": 0, "speaker": "SPEAKER_04", "text": "something"}], "speaker_names": {"Ada": "Grace"}});
    let changed = json(change(&client, id, None, both).await, 200).await;
    assert_eq!((&changed["segments"][0]["speaker"], &changed["text"]), (&value!("SPEAKER_04"), &value!("something")));
    let changed = json(give(value!("")).await, 200).await;
    assert_eq!((&changed["segments"][0]["speaker"], &changed["num_speakers"]), (&Value::Null, &value!(0)));
    for wrong in [value!(" "), value!("a\nb"), value!("x".repeat(201)), value!(7)] {
        refusal(give(wrong).await, 400).await;
    }
    refusal(change(&client, id, None, value!({"segments": [{"index": 0}]})).await, 400).await;
    refusal(change(&client, id, None, value!({"segments": [{"index": 9, "speaker": "Ada"}]})).await, 400).await;
}
