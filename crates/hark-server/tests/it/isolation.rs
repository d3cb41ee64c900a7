//! What belongs to one account is not there for another, and secrets appear in no log.

use hark_store::Plan;
use reqwest::Method;
use serde_json::json as value;

use crate::log;
use crate::server::{Client, Server, hum, json, refusal};

#[tokio::test]
async fn ids_of_another_account_look_absent_on_every_path() {
    let server = Server::start().await;
    let (owner, stranger) = (server.account(Plan::Pro).await, server.account(Plan::Pro).await);
    let sent = owner.transcribe("/v1/transcribe", hum(1.0), &[]).send().await.unwrap();
    let id = sent.headers()["x-transcript-id"].to_str().unwrap().to_owned();
    let key = json(owner.post("/v1/keys", value!({})).await, 201).await["id"].clone();
    let cases = [
        (Method::GET, format!("/v1/transcripts/{id}"), None),
        (Method::PATCH, format!("/v1/transcripts/{id}"), Some(value!({"title": "mine"}))),
        (Method::GET, format!("/v1/transcripts/{id}/export/txt"), None),
        (Method::POST, format!("/v1/transcripts/{id}/summarize"), Some(value!({}))),
        (Method::POST, format!("/v1/transcripts/{id}/analyze"), Some(value!({"type": "topics"}))),
        (Method::POST, format!("/v1/transcripts/{id}/generate"), Some(value!({"type": "quiz"}))),
        (Method::POST, format!("/v1/transcripts/{id}/chat"), Some(value!({"question": "who?"}))),
        (Method::DELETE, format!("/v1/transcripts/{id}"), None),
        (Method::DELETE, format!("/v1/keys/{key}"), None),
    ];
    let send = async |client: &Client, (method, path, body): &(Method, String, Option<serde_json::Value>)| {
        let request = client.request(method.clone(), path);
        match body {
            Some(body) => request.json(body).send().await.unwrap(),
            None => request.send().await.unwrap(),
        }
    };
    for case in &cases {
        refusal(send(&stranger, case).await, 404).await;
        refusal(send(&server.anonymous(), case).await, 401).await;
    }
    assert_eq!(json(stranger.get("/v1/transcripts").await, 200).await["total"], 0);
    // The same requests are possible for their owner, or the test would show nothing.
    for case in &cases {
        let status = send(&owner, case).await.status().as_u16();
        assert!([200, 503].contains(&status), "{case:?}: {status}");
    }
}

#[tokio::test]
async fn keys_tokens_and_words_appear_in_no_log() {
    let server = Server::start().await;
    let client = server.account(Plan::Free).await;
    let sent = client.transcribe("/v1/transcribe", hum(1.0), &[("prompt", "sesame")]).send().await.unwrap();
    let request_id = sent.headers()["x-request-id"].to_str().unwrap().to_owned();
    let id = sent.headers()["x-transcript-id"].to_str().unwrap().to_owned();
    let created = json(client.post("/v1/keys", value!({})).await, 201).await;
    let shared = client.request(Method::PATCH, &format!("/v1/transcripts/{id}")).json(&value!({"shared": true}));
    let token = json(shared.send().await.unwrap(), 200).await["share_token"].as_str().unwrap().to_owned();
    server.anonymous().get(&format!("/v1/shared/{token}?key={token}")).await;
    let wrong = client.with_key("svc_wrong-secret");
    wrong.get("/v1/account").await;
    let text = log::so_far();
    assert!(text.contains(&request_id), "the log names requests, or this test would show nothing");
    for secret in [
        client.key.as_deref().unwrap(),
        created["key"].as_str().unwrap(),
        &token,
        "wrong-secret",
        "sesame",
        "nothing was heard",
    ] {
        // The prefix of a key is no secret.
        let secret = if secret.len() > 40 { &secret[12..] } else { secret };
        assert!(!text.contains(secret), "a secret ending in {secret} was logged");
    }
}
