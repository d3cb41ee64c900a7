//! Questions about transcripts with a real, small language model: what is counted, stored and streamed. What a model can answer is measured elsewhere.

use std::time::Duration;

use hark_store::{NewTranscript, Plan, TranscriptId};
use hark_transcript::{Segment, TranscriptionResult};
use reqwest::Method;
use serde_json::{Value, json as value};

use crate::language::{MODEL, engine, server, with_timeout};
use crate::server::{Client, Server, eventually, json, refusal};

const TALK: [(&str, &str); 5] = [
    ("Ann", "We have to decide about the invoice of the Berlin office today."),
    ("Bob", "The invoice is 4200 euros, and it is due on Friday."),
    ("Ann", " "),
    ("Ann", "Can you send me the contract?"),
    ("Bob", "Yes, I will send the contract to you on Monday."),
];

/// A completed transcript that says the same `times` over.
async fn transcript(server: &Server, client: &Client, times: usize) -> TranscriptId {
    let segments: Vec<Segment> = std::iter::repeat_n(TALK, times)
        .flatten()
        .enumerate()
        .map(|(index, (speaker, text))| Segment {
            start: index as f64 * 10.0,
            end: index as f64 * 10.0 + 8.0,
            text: text.to_owned(),
            speaker: Some(speaker.to_owned()),
            ..Segment::default()
        })
        .collect();
    let result = TranscriptionResult {
        text: segments.iter().map(|segment| segment.text.as_str()).collect::<Vec<_>>().join(" "),
        language: "en".to_owned(),
        duration: segments.len() as f64 * 10.0,
        segments,
        ..TranscriptionResult::default()
    };
    let new = NewTranscript {
        title: "meeting".to_owned(),
        source_type: "api".to_owned(),
        language: "en".to_owned(),
        model: "whisper-base".to_owned(),
    };
    server.store.transcripts().save(client.account.unwrap(), &new, &result, None).await.unwrap().0
}

fn path(id: TranscriptId) -> String {
    format!("/v1/transcripts/{}/chat", id.0)
}

async fn asked_today(server: &Server, client: &Client) -> i64 {
    server.store.chats().questions_today(client.account.unwrap()).await.unwrap()
}

/// Checks that an answer has its shape and that every source is a segment of the talk.
fn check(answer: &Value, id: TranscriptId) {
    assert!(!answer["answer"].as_str().unwrap().trim().is_empty(), "{answer}");
    assert_eq!(answer["model"], MODEL);
    let sources = answer["sources"].as_array().unwrap();
    assert_eq!(answer["found"].as_bool().unwrap(), !sources.is_empty(), "{answer}");
    for source in sources {
        let order = source["segment_order"].as_u64().unwrap() as usize;
        let (speaker, text) = TALK[order % TALK.len()];
        assert_eq!((source["text"].as_str(), source["speaker"].as_str()), (Some(text), Some(speaker)), "{source}");
        assert_eq!(source["start_time"].as_f64().unwrap(), order as f64 * 10.0);
        assert_eq!(source["end_time"].as_f64().unwrap(), order as f64 * 10.0 + 8.0);
        assert!((0.0..=1.0).contains(&source["relevance"].as_f64().unwrap()), "{source}");
        assert_eq!((&source["relevance"], &source["transcript_id"]), (&source["score"], &value!(id.0)));
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs models"]
async fn a_question_is_answered_in_a_conversation_counted_and_free() {
    let server = server().await;
    let client = server.account(Plan::Free).await;
    let credits = client.credits(&server).await;
    let id = transcript(&server, &client, 1).await;
    let ask = async |body: Value, key: &str| {
        let request = client.request(Method::POST, &path(id)).header("Idempotency-Key", key);
        request.json(&body).send().await.unwrap()
    };
    let first = json(ask(value!({"question": "When is the invoice due?"}), "one").await, 200).await;
    check(&first, id);
    assert_eq!(asked_today(&server, &client).await, 1);
    let again = json(ask(value!({"question": "When is the invoice due?"}), "one").await, 200).await;
    assert_eq!(again, first);
    refusal(ask(value!({"question": "Another question?"}), "one").await, 422).await;
    assert_eq!(asked_today(&server, &client).await, 1, "a repeat is not counted again");

    let session = first["session_id"].as_str().unwrap();
    let body = value!({"question": "And how much is it?", "session_id": session});
    let second = json(ask(body.clone(), "two").await, 200).await;
    check(&second, id);
    assert_eq!(second["session_id"], session);
    let turns = server.store.chats().last_turns(client.account.unwrap(), id, session, 100).await.unwrap();
    let texts: Vec<&str> = turns.iter().map(|turn| turn.text.as_str()).collect();
    let answers = [&first, &second].map(|answer| answer["answer"].as_str().unwrap());
    assert_eq!(texts, ["When is the invoice due?", answers[0], "And how much is it?", answers[1]]);

    json(ask(value!({"question": "Who sends the contract?"}), "three").await, 200).await;
    let over = ask(value!({"question": "One too many?"}), "four").await;
    assert!(over.headers().contains_key("retry-after"));
    let message = refusal(over, 429).await;
    assert!(message.contains("3 questions a day"), "{message}");
    assert_eq!(asked_today(&server, &client).await, 3);
    assert_eq!(client.credits(&server).await, credits, "questions cost nothing");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs models"]
async fn an_answer_is_streamed_as_it_would_be_given() {
    let server = server().await;
    let client = server.account(Plan::Pro).await;
    let id = transcript(&server, &client, 1).await;
    let body = value!({"question": "When is the invoice due?", "stream": true});
    let mut seen = Vec::new();
    for _ in 0..2 {
        let request = client.request(Method::POST, &path(id)).header("Idempotency-Key", "one");
        let response = request.json(&body).send().await.unwrap();
        assert_eq!(response.headers()["content-type"], "text/event-stream; charset=utf-8");
        let text = response.text().await.unwrap();
        let events: Vec<(String, Value)> = text
            .split("\n\n")
            .filter_map(|event| event.strip_prefix("event: ")?.split_once("\ndata: "))
            .map(|(name, data)| (name.to_owned(), serde_json::from_str(data).unwrap()))
            .collect();
        let (last, before) = events.split_last().unwrap();
        assert_eq!(last.0, "done", "{text}");
        check(&last.1, id);
        let deltas = before.iter().filter(|(name, _)| name == "delta");
        let joined: String = deltas.map(|(_, data)| data["text"].as_str().unwrap()).collect();
        assert_eq!(joined, last.1["answer"].as_str().unwrap());
        let sources = before.iter().find(|(name, _)| name == "sources").unwrap();
        assert_eq!(sources.1["sources"], last.1["sources"]);
        seen.push(last.1.clone());
    }
    assert_eq!(seen[0], seen[1], "a repeat is the same answer");
    assert_eq!(asked_today(&server, &client).await, 1);
    let request = client.request(Method::POST, &path(id)).header("Accept", "text/event-stream");
    let response = request.json(&value!({"question": "Who sends the contract?"})).send().await.unwrap();
    assert!(response.text().await.unwrap().contains("event: done\n"));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs models"]
async fn a_long_transcript_is_answered_from_its_passages() {
    let server = server().await;
    let client = server.account(Plan::Pro).await;
    let id = transcript(&server, &client, 60).await;
    for question in ["When is the invoice due?", "Who sends the contract?"] {
        check(&json(client.post(&path(id), value!({"question": question})).await, 200).await, id);
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs models"]
async fn a_question_without_an_answer_is_not_counted() {
    let server = Server::with(with_timeout(0.02), engine()).await;
    let client = server.account(Plan::Free).await;
    let id = transcript(&server, &client, 1).await;
    let none = async || (asked_today(&server, &client).await == 0).then_some(());
    refusal(client.post(&path(id), value!({"question": "When is the invoice due?"})).await, 504).await;
    eventually("a question that took too long is not counted", none).await;
    let body = value!({"question": "When is the invoice due?", "stream": true});
    let streamed = client.post(&path(id), body).await.text().await.unwrap();
    assert!(streamed.contains("event: error\ndata: {\"error\":"), "{streamed}");
    eventually("neither is one that was streamed", none).await;

    let server = crate::language::server().await;
    let client = server.account(Plan::Free).await;
    let id = transcript(&server, &client, 60).await;
    let request = client.request(Method::POST, &path(id)).timeout(Duration::from_millis(300));
    assert!(request.json(&value!({"question": "When is the invoice due?"})).send().await.is_err());
    let none = async || (asked_today(&server, &client).await == 0).then_some(());
    eventually("a question whose caller left is not counted", none).await;
}

#[tokio::test]
async fn what_can_not_be_asked_is_refused() {
    let server = Server::start().await;
    let client = server.account(Plan::Pro).await;
    let id = transcript(&server, &client, 1).await;
    for body in
        [value!({}), value!({"question": " \n"}), value!({"question": "x".repeat(2001)}), value!({"question": 1})]
    {
        refusal(client.post(&path(id), body).await, 400).await;
    }
    let question = value!({"question": "When?"});
    refusal(server.anonymous().post(&path(id), question.clone()).await, 401).await;
    refusal(server.account(Plan::Pro).await.post(&path(id), question.clone()).await, 404).await;
    refusal(client.post("/v1/transcripts/999999/chat", question.clone()).await, 404).await;
    // An engine without a language model.
    refusal(client.post(&path(id), question).await, 503).await;
    assert_eq!(asked_today(&server, &client).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs models"]
async fn a_conversation_belongs_to_its_transcript_and_its_account() {
    let server = server().await;
    let client = server.account(Plan::Pro).await;
    let id = transcript(&server, &client, 1).await;
    let other = transcript(&server, &client, 1).await;
    let session = server.store.chats().begin(client.account.unwrap(), id).await.unwrap();
    let body = value!({"question": "And when?", "session_id": session});
    refusal(client.post(&path(other), body).await, 404).await;
    refusal(client.post(&path(id), value!({"question": "And when?", "session_id": "no-such-session"})).await, 404)
        .await;
    assert_eq!(asked_today(&server, &client).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs models"]
async fn all_transcripts_of_an_account_are_asked_and_no_others() {
    let server = server().await;
    let (client, other) = (server.account(Plan::Pro).await, server.account(Plan::Pro).await);
    let id = transcript(&server, &client, 1).await;
    eventually("the transcript is indexed", async || {
        let counts = json(client.get("/v1/search?q=x&mode=text").await, 200).await;
        (counts["pending"] == 0 && counts["indexed"] == 1).then_some(())
    })
    .await;
    let body = value!({"question": "When is the invoice of the Berlin office due?"});
    let first = json(client.post("/v1/chat", body.clone()).await, 200).await;
    check(&first, id);
    let session = first["session_id"].as_str().unwrap();
    let follow_up = value!({"question": "And how much is it?", "session_id": session});
    let second = json(client.post("/v1/chat", follow_up.clone()).await, 200).await;
    check(&second, id);
    assert_eq!(second["session_id"], session);
    assert_eq!(asked_today(&server, &client).await, 2);
    // A conversation about all transcripts is not one about this transcript, and nobody else's.
    refusal(client.post(&path(id), follow_up.clone()).await, 404).await;
    refusal(other.post("/v1/chat", follow_up).await, 404).await;
    refusal(client.post("/v1/chat", value!({"question": " "})).await, 400).await;
    refusal(server.anonymous().post("/v1/chat", body.clone()).await, 401).await;
    let theirs = json(other.post("/v1/chat", body).await, 200).await;
    assert_eq!((&theirs["found"], &theirs["sources"]), (&value!(false), &value!([])), "{theirs}");
}
