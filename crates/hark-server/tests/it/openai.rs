//! OpenAI's paths over real sockets; the official clients themselves run in `tests/clients`.

use std::time::Duration;

use hark_server::{Config, InstantEngine, Seconds};
use hark_store::Plan;
use reqwest::{Method, Response};
use serde_json::{Value, json as value};

use crate::server::{Server, config, eventually, hum, json};

const TRANSCRIPTIONS: &str = "/v1/audio/transcriptions";

/// Checks that an answer has OpenAI's error body and that status, and gives the error.
async fn refusal(response: Response, status: u16, retry: bool) -> Value {
    assert_eq!(response.headers()["content-type"], "application/json");
    assert_eq!(response.headers()["x-should-retry"], if retry { "true" } else { "false" });
    assert!(response.headers().contains_key("x-request-id"));
    let body = json(response, status).await;
    let error = &body["error"];
    assert!(!error["message"].as_str().unwrap().is_empty() && error["type"].is_string(), "{body}");
    for name in ["param", "code"] {
        assert!(error[name].is_null() || error[name].is_string(), "{body}");
    }
    error.clone()
}

#[tokio::test]
async fn a_transcription_goes_the_way_of_our_own_and_is_kept_and_charged_like_it() {
    let server = Server::start().await;
    let client = server.account(Plan::Free).await;
    let response = client.transcribe(TRANSCRIPTIONS, hum(61.0), &[("model", "whisper-1")]).send().await.unwrap();
    assert_eq!(response.headers()["x-model"], "instant-whisper-1");
    let id = response.headers()["x-transcript-id"].to_str().unwrap().to_owned();
    let body = json(response, 200).await;
    assert_eq!(body, value!({"text": "nothing was heard", "usage": {"type": "duration", "seconds": 61}}));
    assert_eq!(client.credits(&server).await, 598);
    let kept = json(client.get(&format!("/v1/transcripts/{id}")).await, 200).await;
    assert_eq!((&kept["text"], &kept["title"]), (&value!("nothing was heard"), &value!("talk.wav")));

    let fields = [("response_format", "verbose_json"), ("timestamp_granularities[]", "segment"), ("language", "de")];
    let verbose = json(client.transcribe(TRANSCRIPTIONS, hum(1.0), &fields).send().await.unwrap(), 200).await;
    assert_eq!((&verbose["language"], &verbose["task"]), (&value!("german"), &value!("transcribe")));
    assert_eq!(verbose["segments"][0]["text"], "nothing was heard");
    assert!(verbose.get("words").is_none());
    let translated = client.transcribe("/v1/audio/translations", hum(1.0), &[("response_format", "verbose_json")]);
    assert_eq!(json(translated.send().await.unwrap(), 200).await["language"], "english");
    for (format, media, start) in [
        ("text", "text/plain; charset=utf-8", "nothing was heard\n"),
        ("srt", "application/x-subrip; charset=utf-8", "1\n00:00:00,000 --> "),
        ("vtt", "text/vtt; charset=utf-8", "WEBVTT"),
    ] {
        let sent = client.transcribe(TRANSCRIPTIONS, hum(1.0), &[("response_format", format)]).send().await.unwrap();
        assert_eq!(sent.headers()["content-type"], media);
        let text = sent.text().await.unwrap();
        assert!(text.starts_with(start), "{text}");
    }
}

#[tokio::test]
async fn a_repeat_with_the_same_idempotency_key_is_answered_and_charged_once() {
    let server = Server::start().await;
    let client = server.account(Plan::Free).await;
    let send = |format: &'static str| {
        let request = client.transcribe(TRANSCRIPTIONS, hum(1.0), &[("response_format", format)]);
        request.header("Idempotency-Key", "once").send()
    };
    let first = send("json").await.unwrap();
    let second = send("json").await.unwrap();
    assert_eq!(first.headers()["x-transcript-id"], second.headers()["x-transcript-id"]);
    assert_eq!(client.credits(&server).await, 599);
    assert_eq!(refusal(send("text").await.unwrap(), 422, false).await["code"], "idempotency_key_reused");
}

#[tokio::test]
async fn every_refusal_has_openais_body_and_says_whether_to_try_again() {
    let server = Server::start().await;
    let client = server.account(Plan::Free).await;
    let send = |fields: Vec<(&'static str, &'static str)>| client.transcribe(TRANSCRIPTIONS, hum(1.0), &fields).send();
    let unknown = refusal(send(vec![("model", "none")]).await.unwrap(), 400, false).await;
    assert_eq!((&unknown["code"], &unknown["param"]), (&value!("model_not_found"), &value!("model")));
    let wrong = refusal(send(vec![("temperature", "7")]).await.unwrap(), 400, false).await;
    assert_eq!((&wrong["type"], &wrong["param"]), (&value!("invalid_request_error"), &value!("temperature")));
    let twice = send(vec![("language", "en"), ("language", "en")]).await.unwrap();
    refusal(twice, 400, false).await;
    let empty = client.transcribe(TRANSCRIPTIONS, Vec::new(), &[]).send().await.unwrap();
    assert_eq!(refusal(empty, 400, false).await["param"], "file");
    let noise = client.transcribe(TRANSCRIPTIONS, b"no sound".to_vec(), &[]).send().await.unwrap();
    refusal(noise, 400, false).await;
    let stranger = client.with_key("sk-not-one-of-ours").transcribe(TRANSCRIPTIONS, hum(1.0), &[]);
    assert_eq!(refusal(stranger.send().await.unwrap(), 401, false).await["code"], "invalid_api_key");
    refusal(client.get(TRANSCRIPTIONS).await, 405, false).await;
    refusal(client.post(TRANSCRIPTIONS, value!({})).await, 415, false).await;
    refusal(client.get("/v1/audio/speech").await, 405, false).await;
    refusal(client.get("/v1/models/nothing-of-that-name").await, 404, false).await;
    refusal(client.get("/v1/models/%FF").await, 404, false).await;
    let missing =
        refusal(client.post("/v1/embeddings", value!({"input": ["a"], "model": "x"})).await, 503, false).await;
    assert_eq!(missing["code"], "model_not_installed");
    refusal(client.post("/v1/embeddings", value!({"input": [], "model": "x"})).await, 400, false).await;
    refusal(client.post("/v1/embeddings", value!({"model": "x"})).await, 400, false).await;
    let accepts = client.request(Method::GET, TRANSCRIPTIONS).header("Accept-Encoding", "gzip").send().await.unwrap();
    assert!(!accepts.headers().contains_key("content-encoding"));
    assert_eq!(client.credits(&server).await, 600);
}

#[tokio::test]
async fn a_wait_that_ends_is_not_repeated_since_the_work_goes_on() {
    let config = Config { transcribe_timeout: Seconds(0.2), ..config() };
    let server = Server::with(config, InstantEngine { takes: Duration::from_secs(1) }).await;
    let client = server.account(Plan::Free).await;
    let late = client.transcribe(TRANSCRIPTIONS, hum(1.0), &[]).send().await.unwrap();
    let id = late.headers()["x-transcript-id"].to_str().unwrap().to_owned();
    assert_eq!(refusal(late, 504, false).await["code"], "timeout");
    let path = format!("/v1/transcripts/{id}/status");
    eventually("the transcript", async || {
        (json(client.get(&path).await, 200).await["status"] == "completed").then_some(())
    })
    .await;
}

#[tokio::test]
async fn events_begin_at_once_and_end_with_the_whole_text_or_an_error() {
    let server = Server::with(config(), InstantEngine { takes: Duration::from_secs(1) }).await;
    let client = server.account(Plan::Free).await;
    let begun = std::time::Instant::now();
    let request = client.transcribe(TRANSCRIPTIONS, hum(2.0), &[("stream", "true")]);
    let response = request.header("Accept-Encoding", "gzip").send().await.unwrap();
    assert!(begun.elapsed() < Duration::from_millis(900), "the head waited for the work");
    assert_eq!(response.headers()["content-type"], "text/event-stream; charset=utf-8");
    assert!(!response.headers().contains_key("content-encoding"));
    let text = response.text().await.unwrap();
    let events: Vec<Value> = text
        .split("\n\n")
        .filter_map(|event| event.strip_prefix("data: "))
        .map(|data| serde_json::from_str(data).unwrap())
        .collect();
    assert_eq!(events[0], value!({"type": "transcript.text.delta", "delta": "nothing was heard"}), "{text}");
    assert_eq!(
        (&events[1]["type"], &events[1]["text"]),
        (&value!("transcript.text.done"), &value!("nothing was heard"))
    );
    assert_eq!(events.len(), 2);
    assert!(text.starts_with(": working\n\n"), "{text}");

    let config = Config { transcribe_timeout: Seconds(0.2), ..config() };
    let server = Server::with(config, InstantEngine { takes: Duration::from_secs(2) }).await;
    let client = server.account(Plan::Free).await;
    let late = client.transcribe(TRANSCRIPTIONS, hum(1.0), &[("stream", "true")]).send().await.unwrap();
    assert!(late.text().await.unwrap().contains("data: {\"error\":{\"message\":\"the transcription takes longer"));
}

#[tokio::test]
async fn a_client_that_leaves_its_events_calls_the_work_off_and_pays_nothing() {
    let server = Server::with(config(), InstantEngine { takes: Duration::from_secs(20) }).await;
    let client = server.account(Plan::Free).await;
    let response = client.transcribe(TRANSCRIPTIONS, hum(2.0), &[("stream", "true")]).send().await.unwrap();
    let id = response.headers()["x-transcript-id"].to_str().unwrap().to_owned();
    assert_eq!(client.credits(&server).await, 599, "held");
    drop(response);
    let path = format!("/v1/transcripts/{id}/status");
    eventually("the cancellation", async || {
        (json(client.get(&path).await, 200).await["status"] == "failed").then_some(())
    })
    .await;
    assert_eq!(client.credits(&server).await, 600);
}

#[tokio::test]
async fn the_list_of_models_is_ours_and_openais_at_once() {
    let server = Server::start().await;
    let client = server.anonymous();
    let list = json(client.get("/v1/models").await, 200).await;
    assert_eq!(list["object"], "list");
    assert!(list["models"].is_array());
    let ids: Vec<&str> = list["data"].as_array().unwrap().iter().map(|model| model["id"].as_str().unwrap()).collect();
    assert!(ids.contains(&"whisper-1") && ids.contains(&"gpt-4o-transcribe"), "{ids:?}");
    let one = json(client.get("/v1/models/whisper-1").await, 200).await;
    assert_eq!(one, value!({"id": "whisper-1", "object": "model", "created": 0, "owned_by": "hark"}));
}

#[tokio::test]
async fn secrets_are_never_compressed_and_pages_may_send_headers_of_their_own() {
    let server = Server::start().await;
    let client = server.account(Plan::Free).await;
    let name = "a".repeat(100);
    let made = client.request(Method::POST, "/v1/keys").header("Accept-Encoding", "gzip").json(&value!({"name": name}));
    let made = made.send().await.unwrap();
    assert_eq!((made.status().as_u16(), &made.headers()["cache-control"]), (201, &"no-store".parse().unwrap()));
    for _ in 0..10 {
        client.post("/v1/keys", value!({"name": name})).await;
    }
    let listed = client.request(Method::GET, "/v1/keys").header("Accept-Encoding", "gzip").send().await.unwrap();
    assert!(!listed.headers().contains_key("content-encoding"));
    let asked = client
        .request(Method::OPTIONS, TRANSCRIPTIONS)
        .header("Origin", "https://app.example.com")
        .header("Access-Control-Request-Method", "POST")
        .header("Access-Control-Request-Headers", "authorization,x-stainless-lang")
        .send()
        .await
        .unwrap();
    let allowed = asked.headers()["access-control-allow-headers"].to_str().unwrap().to_owned();
    assert!(allowed.contains("x-stainless-lang"), "{allowed}");
    assert!(!asked.headers().contains_key("access-control-allow-credentials"));
    let chosen = Config { cors_origins: vec!["https://app.example.com".to_owned()], ..config() };
    let server = Server::with(chosen, InstantEngine::default()).await;
    for (origin, is_allowed) in [("https://app.example.com", true), ("https://other.example.com", false)] {
        let request = server.anonymous().request(Method::GET, "/v1/models").header("Origin", origin);
        let answer = request.send().await.unwrap();
        assert_eq!(answer.headers().contains_key("access-control-allow-origin"), is_allowed, "{origin}");
    }
}
