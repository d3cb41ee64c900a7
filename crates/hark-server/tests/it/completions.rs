//! `POST /v1/chat/completions` with a real, small language model.

use hark_store::Plan;
use reqwest::Response;
use serde_json::{Value, json as value};

use crate::language::{CONTEXT, MODEL, engine, server, with_timeout};
use crate::server::{Client, Server, eventually, json};

const PATH: &str = "/v1/chat/completions";

fn question(fields: Value) -> Value {
    let mut body = value!({
        "model": MODEL,
        "messages": [
            {"role": "developer", "content": "You are a helpful assistant. Answer in one short sentence."},
            {"role": "user", "content": [{"type": "text", "text": "What is the capital of France?"}]},
        ],
        "temperature": 0,
        "max_tokens": 40,
    });
    body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    body
}

async fn answer(client: &Client, fields: Value) -> Value {
    json(client.post(PATH, question(fields)).await, 200).await
}

/// Puts the prompt into the prefix cache: what is computed in other batches differs in its last bits, which may change an answer.
async fn cache_prompt(client: &Client) {
    answer(client, value!({"max_tokens": 1})).await;
}

fn content(answer: &Value) -> &str {
    answer["choices"][0]["message"]["content"].as_str().unwrap()
}

/// The chunks of a stream that ended as it should.
async fn chunks(response: Response) -> Vec<Value> {
    assert_eq!(response.status(), 200);
    assert!(response.headers()["content-type"].to_str().unwrap().starts_with("text/event-stream"));
    let text = response.text().await.unwrap();
    let mut events: Vec<&str> =
        text.split("\n\n").filter(|event| !event.is_empty() && !event.starts_with(':')).collect();
    assert_eq!(events.pop(), Some("data: [DONE]"), "{text}");
    events.iter().map(|event| serde_json::from_str(event.strip_prefix("data: ").unwrap()).unwrap()).collect()
}

fn streamed(chunks: &[Value]) -> String {
    chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect()
}

/// The detail of an error in OpenAI's form.
async fn error(response: Response, status: u16) -> Value {
    let body = json(response, status).await;
    for key in ["message", "type", "param", "code"] {
        assert!(body["error"].get(key).is_some(), "{body}");
    }
    body["error"].clone()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs models"]
async fn a_conversation_is_answered_for_a_credit_whole_or_as_a_stream() {
    let server = server().await;
    let client = server.account(Plan::Pro).await;
    cache_prompt(&client).await;
    let before = client.credits(&server).await;
    let response = client.post(PATH, question(value!({}))).await;
    assert_eq!(response.headers()["x-model"], MODEL);
    let whole = json(response, 200).await;
    assert_eq!((&whole["object"], &whole["model"]), (&value!("chat.completion"), &value!(MODEL)));
    assert!(
        whole["id"].as_str().unwrap().starts_with("chatcmpl-") && whole["created"].as_i64().unwrap() > 1_700_000_000
    );
    assert_eq!(whole["choices"][0]["message"]["role"], "assistant");
    assert!(content(&whole).contains("Paris"), "{whole}");
    let usage = &whole["usage"];
    let tokens = |name: &str| usage[name].as_u64().unwrap();
    assert!(tokens("prompt_tokens") > 20 && (1..=40).contains(&tokens("completion_tokens")), "{usage}");
    assert_eq!(tokens("total_tokens"), tokens("prompt_tokens") + tokens("completion_tokens"));
    assert_eq!(client.credits(&server).await, before - 1);

    let fields = value!({"stream": true, "stream_options": {"include_usage": true}});
    let chunks = chunks(client.post(PATH, question(fields)).await).await;
    assert_eq!(streamed(&chunks), content(&whole), "the same greedy answer in pieces");
    assert!(chunks.len() > 3, "{chunks:?}");
    assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
    let (last, text) = chunks.split_last().unwrap();
    assert!(text.iter().all(|chunk| chunk["usage"].is_null() && chunk["object"] == "chat.completion.chunk"));
    assert_eq!(text.last().unwrap()["choices"][0]["finish_reason"], whole["choices"][0]["finish_reason"]);
    assert_eq!((&last["choices"], &last["usage"]["completion_tokens"]), (&value!([]), &usage["completion_tokens"]));
    assert_eq!(client.credits(&server).await, before - 2);

    // A conversation with a long beginning that was read before.
    let long = value!({"messages": [{"role": "user", "content": format!("{} What is this?", "The cat sat on the mat. ".repeat(60))}], "max_tokens": 4});
    answer(&client, long.clone()).await;
    let again = answer(&client, long).await;
    assert!(again["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap() > 200, "{again}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs models"]
async fn an_answer_ends_at_a_stop_text_or_at_its_most_tokens_and_says_so() {
    let server = server().await;
    let client = server.account(Plan::Pro).await;
    cache_prompt(&client).await;
    let whole = content(&answer(&client, value!({})).await).to_owned();
    let (start, _) = whole.split_once("Paris").expect("the model knows the capital of France");
    let stopped = answer(&client, value!({"stop": ["Paris", "never said"]})).await;
    assert_eq!((content(&stopped), &stopped["choices"][0]["finish_reason"]), (start, &value!("stop")));
    let tokens = stopped["usage"]["completion_tokens"].as_u64().unwrap();
    assert!((1..40).contains(&tokens), "{stopped}");
    let stream = chunks(client.post(PATH, question(value!({"stop": "Paris", "stream": true}))).await).await;
    assert_eq!(streamed(&stream), start);
    assert!(stream.iter().all(|chunk| chunk.get("usage").is_none()), "usage was not asked for");
    let short = answer(&client, value!({"max_tokens": null, "max_completion_tokens": 2})).await;
    assert_eq!(short["choices"][0]["finish_reason"], "length");
    assert_eq!(short["usage"]["completion_tokens"], 2);
    assert!(whole.starts_with(content(&short)), "{short}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs models"]
async fn a_seed_repeats_an_answer_and_a_schema_constrains_it() {
    let server = server().await;
    let client = server.account(Plan::Pro).await;
    let warm = async |seed: i64| {
        let asked = answer(&client, value!({"temperature": 1.5, "top_p": 1, "seed": seed})).await;
        content(&asked).to_owned()
    };
    cache_prompt(&client).await;
    assert_eq!(warm(-7).await, warm(-7).await);
    let others = [warm(1).await, warm(2).await, warm(3).await];
    assert!(others.iter().any(|other| *other != others[0]), "{others:?}");

    let schema = value!({
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 20}, "size": {"enum": ["small", "large"]}},
        "required": ["city", "size"],
        "additionalProperties": false,
    });
    let format = value!({"type": "json_schema", "json_schema": {"name": "city", "strict": true, "schema": schema}});
    let constrained = answer(&client, value!({"response_format": format, "max_tokens": 60})).await;
    let city: Value = serde_json::from_str(content(&constrained)).unwrap();
    assert!(city["city"].is_string() && ["small", "large"].contains(&city["size"].as_str().unwrap()), "{city}");
    assert_eq!(city.as_object().unwrap().len(), 2, "{city}");
    let any = answer(&client, value!({"response_format": {"type": "json_object"}, "max_tokens": 60})).await;
    assert!(content(&any).starts_with('{'), "{any}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs models"]
async fn what_can_not_be_answered_has_openais_errors_and_costs_nothing() {
    let server = server().await;
    let client = server.account(Plan::Pro).await;
    let before = client.credits(&server).await;
    let refused = async |fields: Value, status: u16| error(client.post(PATH, question(fields)).await, status).await;
    let unknown = refused(value!({"model": "gpt-4o"}), 404).await;
    assert_eq!((&unknown["code"], &unknown["param"]), (&value!("model_not_found"), &value!("model")));
    assert!(unknown["message"].as_str().unwrap().contains(MODEL), "{unknown}");
    let long = refused(value!({"messages": [{"role": "user", "content": "word ".repeat(CONTEXT)}]}), 400).await;
    assert_eq!((&long["code"], &long["param"]), (&value!("context_length_exceeded"), &value!("messages")));
    assert_eq!(refused(value!({"max_tokens": CONTEXT}), 400).await["code"], "context_length_exceeded");
    let tools = refused(value!({"tools": [{"type": "function", "function": {"name": "f"}}]}), 400).await;
    assert_eq!((&tools["code"], &tools["param"]), (&value!("invalid_value"), &value!("tools")));
    let schema =
        value!({"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "string", "pattern": "a"}}});
    assert_eq!(refused(value!({"response_format": schema.clone()}), 400).await["param"], "response_format");
    assert_eq!(refused(value!({"response_format": schema, "stream": true}), 400).await["param"], "response_format");
    let named = client.request(reqwest::Method::POST, PATH).header("Idempotency-Key", "one");
    error(named.json(&question(value!({"stream": true}))).send().await.unwrap(), 400).await;
    error(server.anonymous().post(PATH, question(value!({}))).await, 401).await;
    let poor = server.account_with(Plan::Pro, 0).await;
    assert_eq!(error(poor.post(PATH, question(value!({}))).await, 402).await["code"], "insufficient_quota");
    eventually("the credits come back", async || (client.credits(&server).await == before).then_some(())).await;

    let ask = async || {
        let request = client.request(reqwest::Method::POST, PATH).header("Idempotency-Key", "two");
        json(request.json(&question(value!({}))).send().await.unwrap(), 200).await
    };
    assert_eq!(ask().await, ask().await, "a repeat has the same answer");
    assert_eq!(client.credits(&server).await, before - 1, "and is charged once");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs models"]
async fn an_answer_that_takes_too_long_costs_nothing() {
    let server = Server::with(with_timeout(0.05), engine()).await;
    let client = server.account(Plan::Pro).await;
    let before = client.credits(&server).await;
    let long = value!({"messages": [{"role": "user", "content": "Count to a thousand."}], "max_tokens": 1500});
    assert_eq!(error(client.post(PATH, question(long)).await, 504).await["code"], "timeout");
    eventually("the credit comes back", async || (client.credits(&server).await == before).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs models"]
async fn models_for_text_are_listed_with_their_state() {
    let server = server().await;
    let client = server.account(Plan::Pro).await;
    let listed = json(client.get("/v1/models").await, 200).await;
    let find = |listed: &Value, id: &str| {
        let text = listed["text"].as_array().unwrap();
        text.iter().find(|model| model["id"] == id).unwrap_or_else(|| panic!("{id} is not in {text:?}")).clone()
    };
    let language = find(&listed, MODEL);
    assert_eq!((&listed["text"][0], &language["task"]), (&language, &value!("chat")));
    assert_eq!((&language["state"], &language["context"]), (&value!("installed"), &value!(CONTEXT)));
    assert_eq!(find(&listed, "all-minilm-l6-v2")["task"], "embedding");
    let shown = json(client.get(&format!("/v1/models/{MODEL}")).await, 200).await;
    assert_eq!((&shown["id"], &shown["max_model_len"]), (&value!(MODEL), &value!(CONTEXT)));
    answer(&client, value!({"max_tokens": 1})).await;
    // The list is kept for some seconds.
    let loaded = async || {
        let listed = json(client.get("/v1/models").await, 200).await;
        (find(&listed, MODEL)["state"] == "loaded").then_some(())
    };
    eventually("the model is loaded", loaded).await;
}
