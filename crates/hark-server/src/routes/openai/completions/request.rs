//! What a request for a completion asks for, checked: nothing that it says is ignored if it would change the answer.

use hark_api::{ChatCompletionRequest, ChatCompletionRole, ChatResponseFormat, ChatStop};
use hark_text::model::DEFAULT_TOP_P;
use hark_text::{Message, OutputFormat, Role};
use serde_json::{Map, Value, json};

use crate::error::Failure;

/// The temperature of requests without one.
const DEFAULT_TEMPERATURE: f32 = 0.7;
/// As many texts may end an answer, of so many bytes.
const MAX_STOPS: usize = 4;
const MAX_STOP_BYTES: usize = 500;

/// Fields of requests and messages that do not change the answer.
const NO_EFFECT: [&str; 10] = [
    "user",
    "metadata",
    "store",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "parallel_tool_calls",
    "name",
    "annotations",
];

/// A request that makes sense.
pub(super) struct Checked {
    pub(super) messages: Vec<Message>,
    pub(super) format: OutputFormat,
    /// As asked for.
    pub(super) max_tokens: Option<usize>,
    pub(super) temperature: f32,
    pub(super) top_p: f32,
    pub(super) seed: u64,
    pub(super) stop: Vec<String>,
    pub(super) is_stream: bool,
    pub(super) include_usage: bool,
}

impl Checked {
    pub(super) fn new(request: &ChatCompletionRequest) -> Result<Self, Failure> {
        refuse_others(&request.other)?;
        let messages = messages(request)?;
        let is_stream = request.stream.unwrap_or(false);
        if request.stream_options.is_some() && !is_stream {
            return Err(Failure::invalid("`stream_options` is only for requests with `stream`"));
        }
        if request.n.is_some_and(|n| n != 1) {
            return Err(Failure::invalid("`n` must be 1: a request has one answer"));
        }
        Ok(Checked {
            messages,
            format: format(request.response_format.as_ref())?,
            max_tokens: max_tokens(request)?,
            temperature: number("temperature", request.temperature, DEFAULT_TEMPERATURE, 2.0)?,
            top_p: number("top_p", request.top_p, DEFAULT_TOP_P, 1.0)?,
            seed: match request.seed {
                // Any number is a seed; two's complement keeps negative ones apart.
                Some(seed) => seed as u64,
                None => random_seed(),
            },
            stop: stops(request.stop.as_ref())?,
            is_stream,
            include_usage: request.stream_options.as_ref().is_some_and(|options| options.include_usage),
        })
    }
}

fn messages(request: &ChatCompletionRequest) -> Result<Vec<Message>, Failure> {
    if request.messages.is_empty() {
        return Err(Failure::invalid("`messages` is empty: there is nothing to answer"));
    }
    let mut messages = Vec::with_capacity(request.messages.len());
    for message in &request.messages {
        refuse_others(&message.other)?;
        let role = match message.role {
            ChatCompletionRole::System | ChatCompletionRole::Developer => Role::System,
            ChatCompletionRole::User => Role::User,
            ChatCompletionRole::Assistant => Role::Assistant,
        };
        messages.push(Message { role, content: message.content.text() });
    }
    Ok(messages)
}

/// Refuses fields that are not supported and would change the answer.
fn refuse_others(fields: &Map<String, Value>) -> Result<(), Failure> {
    for (name, value) in fields {
        let is_default = match value {
            Value::Null | Value::Bool(false) => true,
            Value::Number(number) => number.as_f64() == Some(0.0),
            Value::Array(items) => items.is_empty(),
            Value::Object(fields) => fields.is_empty(),
            Value::String(text) => match name.as_str() {
                "tool_choice" | "function_call" | "reasoning_effort" => text == "none",
                _ => false,
            },
            Value::Bool(true) => false,
        };
        let is_text_alone = name == "modalities" && *value == json!(["text"]);
        if !is_default && !is_text_alone && !NO_EFFECT.contains(&name.as_str()) {
            // The name is the caller's text: no more of it than a name has.
            let name: String = name.chars().filter(|c| *c != '`').take(64).collect();
            return Err(Failure::invalid(format!("`{name}` is not supported by this server: leave it out")));
        }
    }
    Ok(())
}

fn max_tokens(request: &ChatCompletionRequest) -> Result<Option<usize>, Failure> {
    let (name, asked) = match (request.max_completion_tokens, request.max_tokens) {
        (Some(one), Some(other)) if one != other => {
            return Err(Failure::invalid("`max_tokens` and `max_completion_tokens` differ: give one"));
        }
        (Some(asked), _) => ("max_completion_tokens", asked),
        (None, Some(asked)) => ("max_tokens", asked),
        (None, None) => return Ok(None),
    };
    match usize::try_from(asked) {
        Ok(asked @ 1..) => Ok(Some(asked)),
        _ => Err(Failure::invalid(format!("`{name}` is {asked}: it must be at least 1"))),
    }
}

fn number(name: &str, given: Option<f32>, default: f32, most: f32) -> Result<f32, Failure> {
    let number = given.unwrap_or(default);
    if (0.0..=most).contains(&number) {
        return Ok(number);
    }
    Err(Failure::invalid(format!("`{name}` is {number}: it must be a number from 0 to {most}")))
}

fn stops(stop: Option<&ChatStop>) -> Result<Vec<String>, Failure> {
    let stops = match stop {
        None => Vec::new(),
        Some(ChatStop::One(one)) => vec![one.clone()],
        Some(ChatStop::Several(several)) => several.clone(),
    };
    if stops.len() > MAX_STOPS || stops.iter().any(|stop| stop.is_empty() || stop.len() > MAX_STOP_BYTES) {
        let message = format!("`stop` must be at most {MAX_STOPS} texts of 1 to {MAX_STOP_BYTES} bytes");
        return Err(Failure::invalid(message));
    }
    Ok(stops)
}

fn format(format: Option<&ChatResponseFormat>) -> Result<OutputFormat, Failure> {
    let schema = match format {
        None | Some(ChatResponseFormat::Text) => return Ok(OutputFormat::Text),
        Some(ChatResponseFormat::JsonObject) => None,
        Some(ChatResponseFormat::JsonSchema { json_schema }) => json_schema.schema.clone(),
    };
    match schema {
        None => Ok(OutputFormat::Json(json!({"type": "object"}))),
        Some(schema @ Value::Object(_)) => Ok(OutputFormat::Json(schema)),
        Some(_) => Err(Failure::invalid("`response_format` needs a JSON schema, which is an object")),
    }
}

fn random_seed() -> u64 {
    let mut bytes = [0u8; 8];
    // Without random numbers the answers are the same each time, which does no harm.
    let _ = getrandom::fill(&mut bytes);
    u64::from_le_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(mut fields: Value) -> Result<Checked, String> {
        let messages = json!([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello."}]);
        fields.as_object_mut().unwrap().entry("messages").or_insert(messages);
        let request: ChatCompletionRequest = serde_json::from_value(fields).unwrap();
        Checked::new(&request).map_err(|failure| failure.error.message.to_string())
    }

    #[test]
    fn what_would_change_the_answer_is_refused_and_what_would_not_is_accepted() {
        for fields in [
            json!({"user": "me", "metadata": {"a": "b"}, "store": true, "logprobs": false, "presence_penalty": 0}),
            json!({"tools": [], "tool_choice": "none", "logit_bias": {}, "frequency_penalty": null, "n": 1}),
            json!({"modalities": ["text"], "reasoning_effort": "none", "temperature": 0, "top_p": 1}),
            json!({"messages": [{"role": "assistant", "content": "a", "refusal": null, "name": "x"}]}),
        ] {
            assert!(check(fields.clone()).is_ok(), "{fields}");
        }
        for (fields, named) in [
            (json!({"tools": [{"type": "function"}]}), "`tools`"),
            (json!({"presence_penalty": 0.5}), "`presence_penalty`"),
            (json!({"logprobs": true}), "`logprobs`"),
            (json!({"n": 2}), "`n`"),
            (json!({"temperature": 2.5}), "`temperature`"),
            (json!({"top_p": -0.1}), "`top_p`"),
            (json!({"max_tokens": 0}), "`max_tokens`"),
            (json!({"max_tokens": 1, "max_completion_tokens": 2}), "`max_tokens`"),
            (json!({"stop": ["a", "b", "c", "d", "e"]}), "`stop`"),
            (json!({"stop": ""}), "`stop`"),
            (json!({"stream_options": {"include_usage": true}}), "`stream_options`"),
            (json!({"messages": []}), "`messages`"),
            (json!({"messages": [{"role": "assistant", "content": "a", "tool_calls": [1]}]}), "`tool_calls`"),
            (json!({"response_format": {"type": "json_schema", "json_schema": {"schema": 1}}}), "`response_format`"),
        ] {
            let message = check(fields.clone()).err().unwrap_or_else(|| panic!("{fields} is accepted"));
            assert!(message.starts_with(named), "{message}");
        }
    }

    #[test]
    fn every_format_has_its_schema() {
        let format = |format: Value| check(json!({"response_format": format})).unwrap().format;
        assert_eq!(format(json!({"type": "text"})), OutputFormat::Text);
        assert_eq!(format(json!({"type": "json_object"})), OutputFormat::Json(json!({"type": "object"})));
        let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}});
        let asked = json!({"type": "json_schema", "json_schema": {"name": "x", "schema": schema, "strict": true}});
        assert_eq!(format(asked), OutputFormat::Json(schema));
    }
}
