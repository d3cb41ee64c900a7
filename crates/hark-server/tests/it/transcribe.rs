//! `POST /v1/transcribe`: forms, waiting, repeating, leaving.

use std::time::{Duration, Instant};

use hark_server::{Config, InstantEngine, PaidModels, Seconds};
use hark_store::Plan;
use reqwest::multipart::{Form, Part};
use reqwest::{Method, StatusCode};

use crate::server::{Server, config, eventually, hum, json, refusal};

fn slow(seconds: f64) -> InstantEngine {
    InstantEngine { takes: Duration::from_secs_f64(seconds) }
}

#[tokio::test]
async fn fields_may_stand_before_and_after_the_file_and_unknown_ones_are_ignored() {
    let server = Server::start().await;
    let client = server.account(Plan::Free).await;
    let form = Form::new()
        .text("language", "de")
        .text("colour", "red")
        .part("file", Part::bytes(hum(1.0)).file_name("dir/α.wav"))
        .text("response_format", "txt")
        .text("colour", "blue");
    let response = client.request(Method::POST, "/v1/transcribe/").multipart(form).send().await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["x-model"], "instant-large-v3-turbo");
    let id = response.headers()["x-transcript-id"].to_str().unwrap().to_owned();
    assert_eq!(response.text().await.unwrap().trim(), "nothing was heard");
    let detail = json(client.get(&format!("/v1/transcripts/{id}")).await, 200).await;
    assert_eq!(detail["language"], "de");
    assert_eq!(detail["title"], "α.wav");
    assert_eq!(detail["source_type"], "api");
}

#[tokio::test]
#[ignore = "needs ffmpeg"]
async fn mistakes_in_a_form_are_answered_with_400_and_cost_nothing() {
    let server = Server::start().await;
    let client = server.account(Plan::Free).await;
    for (fields, word) in [
        (vec![("model", "none")], "none"),
        (vec![("model", "small"), ("model", "small")], "twice"),
        (vec![("language", "xx-nowhere")], "language"),
        (vec![("diarize", "perhaps")], "diarize"),
        (vec![("speakers", "many")], "speakers"),
        (vec![("response_format", "docx")], "response_format"),
        (vec![("webhook_url", "https://example.com")], "webhook_url"),
    ] {
        let response = client.transcribe("/v1/transcribe", hum(1.0), &fields).send().await.unwrap();
        let message = refusal(response, 400).await;
        assert!(message.contains(word), "{fields:?}: {message}");
    }
    let none = client.request(Method::POST, "/v1/transcribe").multipart(Form::new().text("model", "small"));
    assert!(refusal(none.send().await.unwrap(), 400).await.contains("`file` is missing"));
    let two = Form::new().part("file", Part::bytes(hum(1.0))).part("file", Part::bytes(hum(1.0)));
    let two = client.request(Method::POST, "/v1/transcribe").multipart(two);
    assert!(refusal(two.send().await.unwrap(), 400).await.contains("twice"));
    for junk in [Vec::new(), b"these are words, not sound".to_vec(), vec![7; 100_000]] {
        refusal(client.transcribe("/v1/transcribe", junk, &[]).send().await.unwrap(), 400).await;
    }
    let json = client.post("/v1/transcribe", serde_json::json!({"file": "x"})).await;
    refusal(json, 415).await;
    assert_eq!(client.credits(&server).await, 600);
    assert!(server.store.ledger().check().await.unwrap().is_empty());
}

#[tokio::test]
async fn an_asynchronous_request_is_answered_at_once_and_its_status_followed() {
    let server = Server::with(config(), slow(1.5)).await;
    let client = server.account(Plan::Free).await;
    let begun = Instant::now();
    let response =
        client.transcribe("/v1/transcribe", hum(2.0), &[]).header("Prefer", "respond-async").send().await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(1));
    assert_eq!(response.headers()["preference-applied"], "respond-async");
    let accepted = json(response, 202).await;
    let status_url = accepted["status_url"].as_str().unwrap().to_owned();
    assert_eq!(client.credits(&server).await, 599, "held");
    let mut seen = Vec::new();
    let state = eventually("completion", async || {
        let state = json(server.anonymous().get(&status_url).await, 200).await;
        seen.push((state["status"].as_str().unwrap().to_owned(), state["progress"].as_i64().unwrap()));
        (state["status"] == "completed").then_some(state)
    })
    .await;
    assert_eq!(state["progress"], 100);
    assert!((state["duration"].as_f64().unwrap() - 2.0).abs() < 0.1);
    assert!(seen.windows(2).all(|pair| pair[0].1 <= pair[1].1), "progress went back: {seen:?}");
    assert!(seen.iter().any(|(status, _)| status == "processing"), "{seen:?}");
    let query = client.transcribe("/v1/transcribe?async=true", hum(1.0), &[]).send().await.unwrap();
    assert_eq!(query.status(), 202);
}

#[tokio::test]
async fn a_repeat_with_the_same_key_gets_the_same_answer_and_costs_nothing() {
    let server = Server::start().await;
    let client = server.account(Plan::Free).await;
    let send = async |recording: Vec<u8>, fields: &[(&str, &str)]| {
        let request = client.transcribe("/v1/transcribe", recording, fields).header("Idempotency-Key", "once");
        request.send().await.unwrap()
    };
    let first = send(hum(1.0), &[]).await;
    let second = send(hum(1.0), &[]).await;
    assert_eq!(first.headers()["x-transcript-id"], second.headers()["x-transcript-id"]);
    assert_eq!(json(first, 200).await, json(second, 200).await);
    assert_eq!(client.credits(&server).await, 599);
    assert!(refusal(send(hum(2.0), &[]).await, 422).await.contains("Idempotency-Key"));
    refusal(send(hum(1.0), &[("language", "de")]).await, 422).await;
    let other = server.account(Plan::Free).await;
    let elsewhere = other.transcribe("/v1/transcribe", hum(2.0), &[]).header("Idempotency-Key", "once");
    assert_eq!(elsewhere.send().await.unwrap().status(), 200, "keys of accounts are their own");
    assert_eq!(client.credits(&server).await, 599);
}

#[tokio::test]
async fn a_repeat_after_its_transcript_was_deleted_is_gone_and_costs_nothing() {
    let server = Server::start().await;
    let client = server.account(Plan::Free).await;
    let send =
        |name: &'static str| client.transcribe("/v1/transcribe", hum(1.0), &[]).header("Idempotency-Key", name).send();
    let first = send("once").await.unwrap();
    let id = first.headers()["x-transcript-id"].to_str().unwrap().to_owned();
    json(first, 200).await;
    let deleted = client.request(Method::DELETE, &format!("/v1/transcripts/{id}")).send().await.unwrap();
    json(deleted, 200).await;
    for _ in 0..2 {
        assert!(refusal(send("once").await.unwrap(), 410).await.contains("deleted"));
    }
    assert_eq!(client.credits(&server).await, 599);
    assert_eq!(json(client.get("/v1/transcripts").await, 200).await["total"], 0);
    assert_eq!(send("another").await.unwrap().status(), 200, "another name is another request");
    // Without an account the transcript is deleted once it was answered, which is no reason to count it twice.
    let anonymous = server.anonymous();
    let send = || anonymous.transcribe("/v1/transcribe", hum(1.0), &[]).header("Idempotency-Key", "once").send();
    assert_eq!(send().await.unwrap().status(), 200);
    refusal(send().await.unwrap(), 410).await;
    assert_eq!(json(anonymous.get("/v1/credits").await, 200).await["used_today"], 1);
}

#[tokio::test]
async fn repeats_that_come_together_make_one_transcript() {
    let server = Server::with(config(), slow(0.5)).await;
    let client = server.account(Plan::Pro).await;
    let send = || async {
        let request = client.transcribe("/v1/transcribe", hum(1.0), &[]).header("Idempotency-Key", "together");
        request.send().await.unwrap()
    };
    let (a, b, c) = tokio::join!(send(), send(), send());
    let id = a.headers()["x-transcript-id"].clone();
    for response in [a, b, c] {
        assert_eq!(response.headers()["x-transcript-id"], id);
        assert_eq!(response.status(), 200);
    }
    let page = json(client.get("/v1/transcripts").await, 200).await;
    assert_eq!(page["total"], 1);
    assert_eq!(client.credits(&server).await, 599);
}

#[tokio::test]
async fn a_client_that_leaves_cancels_its_work_and_pays_nothing() {
    let server = Server::with(config(), slow(60.0)).await;
    let client = server.account(Plan::Free).await;
    let leaves = client.transcribe("/v1/transcribe", hum(1.0), &[]).timeout(Duration::from_millis(800)).send().await;
    assert!(leaves.unwrap_err().is_timeout());
    eventually("the release of its credits", async || (client.credits(&server).await == 600).then_some(())).await;
    let page = json(client.get("/v1/transcripts").await, 200).await;
    assert_eq!(page["transcripts"][0]["status"], "failed");
    // The worker's place is free again.
    eventually("the end of the work", async || {
        let text = client.get("/health").await.text().await.unwrap();
        text.contains("\"queue_length\":0").then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_wait_that_ends_leaves_the_work_going_on() {
    let config = Config { transcribe_timeout: Seconds(0.3), ..config() };
    let server = Server::with(config, slow(1.5)).await;
    let client = server.account(Plan::Free).await;
    let response = client.transcribe("/v1/transcribe", hum(1.0), &[]).send().await.unwrap();
    let id = response.headers()["x-transcript-id"].to_str().unwrap().to_owned();
    assert!(refusal(response, 504).await.contains("goes on"));
    eventually("completion", async || {
        let state = json(client.get(&format!("/v1/transcripts/{id}/status")).await, 200).await;
        (state["status"] == "completed").then_some(())
    })
    .await;
    assert_eq!(client.credits(&server).await, 599);
}

#[tokio::test]
async fn a_full_queue_refuses_with_a_time_to_come_back() {
    let config = Config { workers: 1, max_queue: 1, ..config() };
    let server = Server::with(config, slow(30.0)).await;
    let client = server.account(Plan::Pro).await;
    let send = || client.transcribe("/v1/transcribe?async=true", hum(1.0), &[]).send();
    assert_eq!(send().await.unwrap().status(), 202);
    eventually("the first to be taken", async || {
        (server.store.jobs().queue_length().await.unwrap() == 0).then_some(())
    })
    .await;
    assert_eq!(send().await.unwrap().status(), 202);
    let refused = send().await.unwrap();
    assert!(refused.headers()["retry-after"].to_str().unwrap().parse::<u64>().unwrap() > 0);
    refusal(refused, 503).await;
    assert_eq!(client.credits(&server).await, 598);
}

#[tokio::test]
async fn without_an_account_a_transcript_is_answered_and_then_gone() {
    let server = Server::start().await;
    let response = server.anonymous().transcribe("/v1/transcribe", hum(1.0), &[]).send().await.unwrap();
    let id = response.headers()["x-transcript-id"].to_str().unwrap().to_owned();
    assert_eq!(json(response, 200).await["text"], "nothing was heard");
    assert_eq!(server.anonymous().get(&format!("/v1/transcripts/{id}/status")).await.status(), 404);
    let asynchronous = server.anonymous().transcribe("/v1/transcribe?async=true", hum(1.0), &[]).send().await.unwrap();
    refusal(asynchronous, 401).await;
    let left = json(server.anonymous().get("/v1/credits").await, 200).await;
    assert_eq!(left, serde_json::json!({"daily_limit": 3, "used_today": 1, "remaining_today": 2}));
}

#[tokio::test]
async fn a_paid_model_is_served_by_another_or_refused_as_configured() {
    let server = Server::start().await;
    let (free, pro) = (server.account(Plan::Free).await, server.account(Plan::Pro).await);
    let model = async |client: &crate::server::Client| {
        let sent = client.transcribe("/v1/transcribe", hum(1.0), &[("model", "large-v3")]).send().await.unwrap();
        assert_eq!(sent.status(), StatusCode::OK);
        sent.headers()["x-model"].to_str().unwrap().to_owned()
    };
    assert_eq!(model(&free).await, "instant-large-v3-turbo");
    assert_eq!(model(&pro).await, "instant-large-v3");
    let strict = Config { paid_models: PaidModels::Require, ..config() };
    let server = Server::with(strict, InstantEngine::default()).await;
    let free = server.account(Plan::Free).await;
    let sent = free.transcribe("/v1/transcribe", hum(1.0), &[("model", "svc-ai-enhanced")]).send().await.unwrap();
    assert_eq!(json(sent, 402).await["upgrade"], true);
}

#[tokio::test]
async fn a_recording_that_costs_more_than_there_is_gets_402() {
    let server = Server::start().await;
    let client = server.account(Plan::Free).await;
    server.store.ledger().adjust(client.account.unwrap(), -599, "test").await.unwrap();
    let response = client.transcribe("/v1/transcribe", hum(61.0), &[]).send().await.unwrap();
    let body = json(response, 402).await;
    assert_eq!(body["upgrade"], true);
    assert!(body["error"].as_str().unwrap().contains("costs 2"), "{body}");
    assert_eq!(client.credits(&server).await, 1);
    assert_eq!(client.transcribe("/v1/transcribe", hum(59.0), &[]).send().await.unwrap().status(), 200);
    assert_eq!(client.credits(&server).await, 0);
}
