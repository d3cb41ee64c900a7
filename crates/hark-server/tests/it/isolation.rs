//! What belongs to one account is not there for another, and secrets appear in no log.

use hark_store::{KeyKind, NewKey, Plan};
use reqwest::Method;
use serde_json::json as value;

use crate::document::{Body, Operation, operations};
use crate::log;
use crate::server::{Client, Server, eventually, hum, json, refusal};

#[tokio::test]
async fn ids_of_another_account_look_absent_on_every_path() {
    let server = Server::start().await;
    let (owner, stranger) = (server.account(Plan::Pro).await, server.account(Plan::Pro).await);
    let sent = owner.transcribe("/v1/transcribe", hum(1.0), &[]).send().await.unwrap();
    let id = sent.headers()["x-transcript-id"].to_str().unwrap().to_owned();
    let key = json(owner.post("/v1/keys", value!({})).await, 201).await["id"].clone();
    let voice = reqwest::multipart::Part::bytes(hum(5.0)).file_name("voice.wav");
    let form = reqwest::multipart::Form::new().text("name", "Ann").part("file", voice);
    let sent = owner.request(Method::POST, "/v1/speakers").multipart(form).send().await.unwrap();
    let speaker = json(sent, 201).await["id"].clone();
    let sent = owner.transcribe("/v1/enhance-audio?async=true", hum(1.0), &[]).send().await.unwrap();
    let enhancement = json(sent, 202).await["id"].clone();
    eventually("its enhancement", async || {
        let state = json(owner.get(&format!("/v1/enhancements/{enhancement}")).await, 200).await;
        (state["status"] == "completed").then_some(())
    })
    .await;
    let upload =
        json(owner.post("/v1/uploads", value!({"size": 5, "name": "talk.wav"})).await, 201).await["id"].clone();
    let about = hark_store::TranscriptId(id.parse().unwrap());
    let chat = server.store.chats().begin(owner.account.unwrap(), about).await.unwrap();
    server.store.chats().add(owner.account.unwrap(), about, &chat, "who?", "they").await.unwrap();
    let session = NewKey::new(KeyKind::Session, "browser");
    let session = server.store.keys().create(owner.account.unwrap(), &session).await.unwrap().0.id;
    let document = json(server.anonymous().get("/openapi.json").await, 200).await;
    // Paths of those who manage others are refused whatever the id is (admin.rs).
    let is_own = |operation: &Operation| operation.path.contains('{') && !operation.path.starts_with("/v1/admin/");
    let with_ids = operations(&document).into_iter().filter(is_own);
    let (mut closed, open): (Vec<Operation>, Vec<Operation>) = with_ids.partition(|operation| operation.is_closed);
    // What anybody may ask for with an id is a short list, and no accident.
    let open: Vec<String> =
        open.into_iter().map(|operation| format!("{} {}", operation.method, operation.path)).collect();
    assert_eq!(open, ["GET /v1/models/{id}", "GET /v1/shared/{token}", "GET /v1/transcripts/{id}/status"]);
    assert!(closed.len() >= 10, "{closed:?}");
    // What deletes comes last, or its owner would find nothing.
    closed.sort_by_key(|operation| (operation.method == "DELETE", operation.path.clone()));
    let send = async |client: &Client, operation: &Operation| {
        let path = match operation.path.split_once("{id}") {
            Some(("/v1/transcripts/", rest)) => {
                format!(
                    "/v1/transcripts/{id}{}",
                    rest.replace("{format}", "txt").replace("{result}", &format!("chat:{chat}"))
                )
            }
            Some(("/v1/keys/", rest)) => format!("/v1/keys/{key}{rest}"),
            Some(("/v1/auth/sessions/", "")) => format!("/v1/auth/sessions/{session}"),
            Some(("/v1/enhancements/", rest)) => format!("/v1/enhancements/{enhancement}{rest}"),
            // Its offset is 0, so that its owner is told so.
            Some(("/v1/uploads/", "")) => format!("/v1/uploads/{upload}?offset=1"),
            Some(("/v1/speakers/", "")) => format!("/v1/speakers/{speaker}"),
            _ => panic!("{}: say here what its ids are", operation.path),
        };
        let request = client.request(operation.method.parse::<Method>().unwrap(), &path);
        match &operation.body {
            Body::Nothing => request.send().await.unwrap(),
            Body::Json(body) => request.json(body).send().await.unwrap(),
            Body::Form(fields) => panic!("{}: no form has an id yet: {fields:?}", operation.path),
        }
    };
    for operation in &closed {
        refusal(send(&stranger, operation).await, 404).await;
        refusal(send(&server.anonymous(), operation).await, 401).await;
    }
    assert_eq!(json(stranger.get("/v1/transcripts").await, 200).await["total"], 0);
    assert_eq!(json(stranger.get("/v1/speakers").await, 200).await["speakers"], value!([]));
    // The same requests are possible for their owner, or the test would show nothing.
    for operation in &closed {
        let status = send(&owner, operation).await.status().as_u16();
        // 409: a completed transcript can't be retried.
        assert!([200, 409, 503].contains(&status), "{operation:?}: {status}");
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
