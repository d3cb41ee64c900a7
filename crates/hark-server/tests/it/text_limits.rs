//! What work on text costs and how much of it runs at once, with engines that do what a test says.

use std::sync::Arc;
use std::time::Duration;

use hark_server::{Config, Engines, InstantEngine};
use hark_store::{NewTranscript, Plan, TranscriptId};
use hark_transcript::{Segment, TranscriptionResult};
use reqwest::Method;
use serde_json::{Value, json as value};
use sqlx::{Connection as _, Executor as _, SqliteConnection};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::language::with_timeout;
use crate::scripted::{Asked, Embeddings, Gate, Translations, language};
use crate::server::{Client, Server, config, eventually, http, json, refusal};

const COMPLETIONS: &str = "/v1/chat/completions";

fn question(stream: bool) -> Value {
    value!({"messages": [{"role": "user", "content": "Tell me a story."}], "stream": stream})
}

/// A completed transcript of one segment.
async fn transcript(server: &Server, client: &Client, text: &str) -> TranscriptId {
    let segment =
        Segment { end: 5.0, text: text.to_owned(), speaker: Some("SPEAKER_00".to_owned()), ..Segment::default() };
    let result = TranscriptionResult {
        text: text.to_owned(),
        language: "en".to_owned(),
        duration: 5.0,
        segments: vec![segment],
        ..TranscriptionResult::default()
    };
    let new = NewTranscript { title: "talk".to_owned(), source_type: "api".to_owned(), ..NewTranscript::default() };
    server.store.transcripts().save(client.account.unwrap(), &new, &result, None).await.unwrap().0
}

/// Reads a response until this is in it.
async fn read_until(response: &mut reqwest::Response, wanted: &str) {
    let mut seen = String::new();
    while !seen.contains(wanted) {
        let chunk = response.chunk().await.unwrap().unwrap_or_else(|| panic!("it ended: {seen}"));
        seen.push_str(&String::from_utf8_lossy(&chunk));
    }
}

/// The next completion that is asked for.
async fn next(asked: &mut UnboundedReceiver<Arc<Asked>>) -> Arc<Asked> {
    let asked = tokio::time::timeout(Duration::from_secs(60), asked.recv()).await;
    asked.expect("the model is asked").expect("the engine is there")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_whose_reader_leaves_is_charged_once_there_was_text_and_one_whose_model_fails_is_not() {
    let (engines, mut asked) = language();
    let server = Server::with(config(), engines).await;
    let client = server.account(Plan::Pro).await;
    let before = client.credits(&server).await;
    let held = async || (client.credits(&server).await == before - 1).then_some(());

    let mut response = client.post(COMPLETIONS, question(true)).await;
    let silent = next(&mut asked).await;
    read_until(&mut response, "assistant").await;
    drop(response);
    eventually("the credit of a reader who got no text comes back", async || {
        (client.credits(&server).await == before).then_some(())
    })
    .await;
    drop(silent);

    let streaming = tokio::spawn({
        let client = client.clone();
        async move { client.post(COMPLETIONS, question(true)).await }
    });
    let failing = next(&mut asked).await;
    failing.say("Once");
    let mut response = streaming.await.unwrap();
    read_until(&mut response, "Once").await;
    failing.events.send(hark_text::model::Event::Failed(hark_text::ModelError::Failed("broken".to_owned()))).unwrap();
    assert!(response.text().await.unwrap().contains("error"));
    eventually("the credit of a failure comes back", async || (client.credits(&server).await == before).then_some(()))
        .await;

    let streaming = tokio::spawn({
        let client = client.clone();
        async move { client.post(COMPLETIONS, question(true)).await }
    });
    let telling = next(&mut asked).await;
    telling.say("Once upon a time");
    let mut response = streaming.await.unwrap();
    read_until(&mut response, "Once upon a time").await;
    drop(response);
    eventually("the model is stopped", async || telling.events.is_closed().then_some(())).await;
    // The hold has become a charge: it does not come back.
    let charged = async || {
        let entries = server.store.ledger().entries(client.account.unwrap(), 10).await.unwrap();
        entries.iter().any(|entry| entry.note == "chat completion" && entry.amount == -1).then_some(())
    };
    eventually("the text is charged", charged).await;
    eventually("one credit is gone", held).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_counted_with_the_first_words_of_its_answer() {
    let (engines, mut asked) = language();
    let server = Server::with(config(), engines).await;
    let client = server.account(Plan::Free).await;
    let id = transcript(&server, &client, "The invoice is 4200 euros, and it is due on Friday.").await;
    let path = format!("/v1/transcripts/{id}/chat");
    let today = async || server.store.chats().questions_today(client.account.unwrap()).await.unwrap();
    let ask = async || client.post(&path, value!({"question": "When is the invoice due?", "stream": true})).await;

    let response = ask().await;
    let silent = next(&mut asked).await;
    drop(response);
    eventually("a question without an answer is not counted", async || (today().await == 0).then_some(())).await;
    drop(silent);

    let mut response = ask().await;
    let telling = next(&mut asked).await;
    telling.say("{\"evidence\": [1], \"found\": true, \"reply\": \"The invoice is due on Friday. It is 4200");
    let checking = tokio::spawn(async move {
        // The second look at the evidence, if there is one.
        while let Some(check) = asked.recv().await {
            check.say("{\"answered\": true}");
            check.end();
        }
    });
    read_until(&mut response, "due on Friday").await;
    drop(response);
    eventually("the model is stopped", async || telling.events.is_closed().then_some(())).await;
    // What gives a question back runs right after that.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(today().await, 1);
    checking.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn who_leaves_while_the_charge_is_written_pays_nothing_and_may_ask_again() {
    let (engines, mut asked) = language();
    let server = Server::with(config(), engines).await;
    let client = server.account(Plan::Pro).await;
    let before = client.credits(&server).await;
    let request = client.request(Method::POST, COMPLETIONS).header("Idempotency-Key", "one").json(&question(false));
    let sent = tokio::spawn(request.send());
    let first = next(&mut asked).await;
    let file = format!("sqlite://{}", server.folder.path().join("hark.db").display());
    let mut lock = SqliteConnection::connect(&file).await.unwrap();
    lock.execute("BEGIN IMMEDIATE").await.unwrap();
    first.say("Once.");
    first.end();
    // The answer is there, and its charge waits for the database.
    eventually("the answer is taken", async || first.events.is_closed().then_some(())).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    sent.abort();
    tokio::time::sleep(Duration::from_millis(300)).await;
    lock.execute("ROLLBACK").await.unwrap();
    lock.close().await.unwrap();
    eventually("the credit comes back", async || (client.credits(&server).await == before).then_some(())).await;
    let request = client.request(Method::POST, COMPLETIONS).header("Idempotency-Key", "one").json(&question(false));
    let sent = tokio::spawn(request.send());
    let second = next(&mut asked).await;
    second.say("Twice.");
    second.end();
    let answer = json(sent.await.unwrap().unwrap(), 200).await;
    assert_eq!(answer["choices"][0]["message"]["content"], "Twice.");
    assert_eq!(client.credits(&server).await, before - 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_that_is_far_too_long_is_refused_before_its_tokens_are_counted() {
    let (engines, _asked) = language();
    let server = Server::with(config(), engines).await;
    let client = server.account(Plan::Pro).await;
    let before = client.credits(&server).await;
    let body = value!({"messages": [{"role": "user", "content": "x".repeat(8192 * 16 + 1)}]});
    let refused = json(client.post(COMPLETIONS, body).await, 400).await;
    assert_eq!(refused["error"]["code"], "context_length_exceeded", "{refused}");
    assert!(refused["error"]["message"].as_str().unwrap().contains("131073 bytes"), "{refused}");
    eventually("nothing is charged", async || (client.credits(&server).await == before).then_some(())).await;
}

fn translations() -> (Engines, Arc<Gate>) {
    let gate = Arc::new(Gate::default());
    let translate = Arc::new(Translations(Arc::clone(&gate)));
    (Engines::from(InstantEngine::default()).with_translate(translate), gate)
}

#[tokio::test(flavor = "multi_thread")]
async fn translations_of_all_accounts_share_a_few_places() {
    let (engines, gate) = translations();
    let metrics_listen = Some("127.0.0.1:0".parse().unwrap());
    let server = Server::with(Config { metrics_listen, ..config() }, engines).await;
    let (one, other) = (server.account(Plan::Pro).await, server.account(Plan::Pro).await);
    let calls: Vec<_> = [&one, &other]
        .into_iter()
        .flat_map(|client| std::iter::repeat_n(client.clone(), 5))
        .map(|client| {
            tokio::spawn(async move { client.post("/v1/translate", value!({"text": "Hello.", "target": "pt"})).await })
        })
        .collect();
    eventually("four are translated", async || (gate.inside() == 4).then_some(())).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(gate.most(), 4);
    gate.open();
    for call in calls {
        assert_eq!(json(call.await.unwrap(), 200).await["translated_text"], "Hello.");
    }
    assert_eq!(gate.most(), 4);
    let metrics = http().get(format!("http://{}/metrics", server.metrics_address())).send().await.unwrap();
    let metrics = metrics.text().await.unwrap();
    let count = "hark_text_call_seconds_count{task=\"translate\",outcome=\"answered\"} 10";
    assert!(metrics.lines().any(|line| line == count), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_translation_that_nobody_waits_for_any_more_keeps_its_place_until_it_has_ended() {
    let (engines, gate) = translations();
    let server = Server::with(with_timeout(0.3), engines).await;
    let client = server.account(Plan::Free).await;
    let before = client.credits(&server).await;
    let translate = async || client.post("/v1/translate", value!({"text": "Hello.", "target": "pt"})).await;
    for _ in 0..2 {
        refusal(translate().await, 504).await;
    }
    refusal(translate().await, 429).await;
    gate.open();
    eventually("they have ended", async || (gate.inside() == 0).then_some(())).await;
    eventually("another is made", async || (translate().await.status() == 200).then_some(())).await;
    eventually("one is charged", async || (client.credits(&server).await == before - 1).then_some(())).await;
}

fn embeddings() -> (Engines, Arc<Gate>) {
    let gate = Arc::new(Gate::default());
    let embed = Arc::new(Embeddings(Arc::clone(&gate)));
    (Engines::from(InstantEngine::default()).with_embed(embed), gate)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_waits_for_no_batch_of_texts_and_compares_words_where_meanings_can_not_be_compared() {
    let (engines, gate) = embeddings();
    let metrics_listen = Some("127.0.0.1:0".parse().unwrap());
    let server = Server::with(Config { metrics_listen, ..config() }, engines).await;
    let client = server.account(Plan::Pro).await;
    transcript(&server, &client, "We saw the harbour.").await;
    eventually("it is indexed", async || {
        let answer = json(client.get("/v1/search?q=x&mode=text").await, 200).await;
        (answer["pending"] == 0 && answer["indexed"] == 1).then_some(())
    })
    .await;
    let batches: Vec<_> = (0..2)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { client.post("/v1/embed", value!({"texts": ["wait"]})).await })
        })
        .collect();
    eventually("all places are taken", async || (gate.inside() == 2).then_some(())).await;
    let found = json(client.get("/v1/search?q=harbour").await, 200).await;
    assert_eq!((&found["mode"], found["hits"].as_array().unwrap().len()), (&value!("all"), 1));
    assert_eq!(gate.inside(), 2, "they still wait");
    gate.open();
    for batch in batches {
        assert_eq!(batch.await.unwrap().status(), 200);
    }
    let found = json(client.get("/v1/search?q=fail%20harbour").await, 200).await;
    assert_eq!((&found["mode"], found["hits"].as_array().unwrap().len()), (&value!("text"), 1));
    assert_eq!(client.get("/v1/search?q=fail%20harbour&mode=meaning").await.status(), 500);
    let metrics = http().get(format!("http://{}/metrics", server.metrics_address())).send().await.unwrap();
    let metrics = metrics.text().await.unwrap();
    for (task, outcome, calls) in [("search", "answered", 0), ("search", "failed", 1), ("embed", "answered", 3)] {
        let name = format!("hark_text_call_seconds_count{{task=\"{task}\",outcome=\"{outcome}\"}} ");
        let line = metrics.lines().find_map(|line| line.strip_prefix(&name));
        let counted: u64 = line.unwrap_or_else(|| panic!("{name}: {metrics}")).parse().unwrap();
        assert!(if calls == 0 { counted >= 3 } else { counted == calls }, "{name}{counted}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_name_of_a_speaker_is_in_the_next_summary_and_not_in_one_that_was_under_way() {
    let (engines, mut asked) = language();
    let server = Server::with(config(), engines).await;
    let client = server.account(Plan::Pro).await;
    let id = transcript(&server, &client, "I call the supplier tomorrow, and I send the invoice on Friday.").await;
    let path = format!("/v1/transcripts/{id}");
    let summarize = || {
        let (client, path) = (client.clone(), format!("{path}/summarize"));
        tokio::spawn(async move { client.post(&path, value!({})).await })
    };
    let rename = async |from: &str, to: &str| {
        let change = value!({"speaker_names": {from: to}});
        json(client.request(Method::PATCH, &path).json(&change).send().await.unwrap(), 200).await
    };
    let prompt = |asked: &Asked| {
        asked.request.messages.iter().map(|message| message.content.as_str()).collect::<Vec<_>>().join("\n")
    };
    rename("SPEAKER_00", "Ann").await;
    let under_way = summarize();
    let first = next(&mut asked).await;
    assert!(prompt(&first).contains("Ann"));
    let renamed = rename("Ann", "Bea").await;
    assert_eq!(renamed["summary"], Value::Null);
    first.say("{\"summary\": \"I call the supplier tomorrow.\"}");
    first.end();
    drop(first);
    let made = json(under_way.await.unwrap(), 200).await;
    assert_eq!(made["cached"], false);
    let again = summarize();
    // What was under way is not stored.
    let second = next(&mut asked).await;
    assert!(prompt(&second).contains("Bea") && !prompt(&second).contains("Ann"));
    second.say("{\"summary\": \"I call the supplier tomorrow.\"}");
    second.end();
    drop(second);
    assert_eq!(json(again.await.unwrap(), 200).await["cached"], false);
    assert_eq!(json(summarize().await.unwrap(), 200).await["cached"], true, "under the name of now it is kept");
}
