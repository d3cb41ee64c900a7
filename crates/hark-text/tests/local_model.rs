//! A language model in this process, with a small random network.

#[path = "../../hark-lm/tests/support/mod.rs"]
#[allow(dead_code, reason = "the tests of hark-lm use all of it")]
mod support;

use hark_compute::{Compute, Isa};
use hark_lm::Model;
use hark_lm::engine::EngineLimits;
use hark_text::model::Event;
use hark_text::{CompletionRequest, Finish, LanguageModel, LocalModel, Message, ModelError, OutputFormat, Role};
use hark_transcript::Lane;
use serde_json::json;
use support::{CONTEXT, QWEN2, SmallModel};

fn local() -> LocalModel {
    let model = Model::from_file(&Compute::new(2, Isa::best()), &SmallModel::new(QWEN2).file()).expect("it loads");
    LocalModel::start("small".to_owned(), model, EngineLimits::default()).expect("it starts")
}

fn request(content: &str, format: OutputFormat, max_tokens: usize) -> CompletionRequest {
    CompletionRequest {
        messages: vec![Message { role: Role::User, content: content.to_owned() }],
        format,
        max_tokens,
        temperature: 0.0,
        top_p: 1.0,
        seed: 0,
        owner: 1,
        lane: Lane::Interactive,
    }
}

#[tokio::test]
async fn a_conversation_is_completed_and_its_tokens_are_counted() {
    let model = local();
    assert_eq!((model.name(), model.context_length(), model.count_tokens("abc")), ("small", CONTEXT, 2));
    let answer =
        model.complete(request("hello", OutputFormat::Text, 8)).expect("queued").answer().await.expect("answered");
    // `u:hello<|im_end|>a:` has ten tokens.
    assert_eq!(answer.usage.prompt_tokens, 10);
    assert_eq!(model.prompt_tokens(&request("hello", OutputFormat::Text, 8).messages), Ok(10));
    assert!(answer.usage.completion_tokens <= 8, "{answer:?}");
    assert!(answer.finish == Finish::Stop || answer.usage.completion_tokens == 8, "{answer:?}");
    let again =
        model.complete(request("hello", OutputFormat::Text, 8)).expect("queued").answer().await.expect("answered");
    assert_eq!(again.text, answer.text, "greedy decoding repeats itself");
}

#[tokio::test]
async fn json_is_valid_and_what_can_not_be_done_is_an_error() {
    let model = local();
    let schema = json!({"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]});
    let json = model.complete(request("hello", OutputFormat::Json(schema), 30)).expect("queued").answer().await;
    let text = json.expect("answered").text;
    assert!(["{\"ok\": true}", "{\"ok\": false}"].contains(&text.as_str()), "{text}");
    let unsupported = OutputFormat::Json(json!({"type": "string", "pattern": "a"}));
    assert!(matches!(model.complete(request("hello", unsupported, 8)), Err(ModelError::Schema(_))));
    let too_long = model.complete(request(&"long ".repeat(50), OutputFormat::Text, 8)).err();
    assert!(matches!(too_long, Some(ModelError::TooLong { limit: CONTEXT, .. })), "{too_long:?}");
}

#[tokio::test]
async fn a_completion_of_a_model_that_is_dropped_fails() {
    let model = local();
    let mut completion = model.complete(request("hello", OutputFormat::Text, 60)).expect("queued");
    drop(model);
    let mut last = None;
    while let Some(event) = completion.next().await {
        last = Some(event);
    }
    // It may have ended before.
    assert!(matches!(last, Some(Event::Failed(ModelError::Unavailable(_)) | Event::End(..))), "{last:?}");
}
