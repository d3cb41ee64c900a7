//! What is sent to an endpoint and read from it: the chat completions API of OpenAI.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::model::{CompletionRequest, Finish, Message, OutputFormat, Role, Usage};

/// How JSON is asked for. Servers that do not know the first are asked in the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JsonMode {
    /// `response_format` with the schema: vLLM, SGLang, llama-server, Ollama, OpenAI.
    Schema,
    /// `response_format` for any JSON; the schema stands in the instructions.
    Object,
    /// Only by the instructions.
    Prompt,
}

impl JsonMode {
    pub(super) fn next(self) -> Option<Self> {
        match self {
            JsonMode::Schema => Some(JsonMode::Object),
            JsonMode::Object => Some(JsonMode::Prompt),
            JsonMode::Prompt => None,
        }
    }

    pub(super) fn from_number(number: u8) -> Self {
        match number {
            0 => JsonMode::Schema,
            1 => JsonMode::Object,
            _ => JsonMode::Prompt,
        }
    }
}

/// The body of a request.
pub(super) fn body(model: &str, request: &CompletionRequest, mode: JsonMode) -> Value {
    let mut messages: Vec<Value> = request.messages.iter().map(message).collect();
    let mut body = json!({
        "model": model,
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        // Servers differ in how large a seed may be.
        "seed": request.seed & 0x7fff_ffff,
        "stream": true,
        "stream_options": {"include_usage": true},
    });
    if let OutputFormat::Json(schema) = &request.format {
        match mode {
            JsonMode::Schema => {
                body["response_format"] = json!({
                    "type": "json_schema",
                    "json_schema": {"name": "answer", "strict": true, "schema": schema},
                });
            }
            JsonMode::Object => body["response_format"] = json!({"type": "json_object"}),
            JsonMode::Prompt => {}
        }
        if mode != JsonMode::Schema {
            instruct(&mut messages, schema);
        }
    }
    body["messages"] = Value::Array(messages);
    body
}

fn message(message: &Message) -> Value {
    let role = match message.role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
    };
    json!({"role": role, "content": message.content})
}

/// Adds the schema to the instructions.
fn instruct(messages: &mut Vec<Value>, schema: &Value) {
    let instruction =
        format!("Answer only with JSON, without any other text, that is valid against this JSON schema:\n{schema}");
    match messages.first_mut().filter(|first| first["role"] == "system") {
        Some(system) => {
            let content = format!("{}\n\n{instruction}", system["content"].as_str().unwrap_or_default());
            system["content"] = Value::String(content);
        }
        None => messages.insert(0, json!({"role": "system", "content": instruction})),
    }
}

/// An event of a stream, or a whole answer.
#[derive(Debug, Deserialize)]
pub(super) struct Chunk {
    #[serde(default)]
    pub(super) choices: Vec<Choice>,
    #[serde(default)]
    pub(super) usage: Option<WireUsage>,
    /// Why there is no more.
    #[serde(default)]
    pub(super) error: Option<Value>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Choice {
    #[serde(default, alias = "message")]
    pub(super) delta: Option<Delta>,
    #[serde(default)]
    pub(super) finish_reason: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Delta {
    #[serde(default)]
    pub(super) content: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct WireUsage {
    #[serde(default)]
    prompt_tokens: u64,
    #[serde(default)]
    completion_tokens: u64,
    #[serde(default)]
    prompt_tokens_details: Option<PromptDetails>,
}

#[derive(Debug, Clone, Deserialize)]
struct PromptDetails {
    #[serde(default)]
    cached_tokens: Option<u64>,
}

impl From<WireUsage> for Usage {
    fn from(usage: WireUsage) -> Self {
        Usage {
            prompt_tokens: usage.prompt_tokens,
            cached_tokens: usage.prompt_tokens_details.and_then(|details| details.cached_tokens).unwrap_or(0),
            completion_tokens: usage.completion_tokens,
        }
    }
}

/// The end that a reason stands for; none where the answer can't be used.
pub(super) fn finish(reason: &str) -> Option<Finish> {
    match reason {
        "stop" | "eos" | "end_turn" => Some(Finish::Stop),
        "length" => Some(Finish::Length),
        _ => None,
    }
}

/// The list of models.
#[derive(Debug, Deserialize)]
pub(super) struct Models {
    #[serde(default)]
    pub(super) data: Vec<ModelEntry>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ModelEntry {
    pub(super) id: String,
    /// vLLM, SGLang, Hark.
    #[serde(default)]
    max_model_len: Option<usize>,
    /// llama-server.
    #[serde(default)]
    meta: Option<Meta>,
}

#[derive(Debug, Deserialize)]
struct Meta {
    #[serde(default)]
    n_ctx: Option<usize>,
}

impl ModelEntry {
    /// The most tokens of prompt and answer together, where the list says it.
    pub(super) fn context(&self) -> Option<usize> {
        self.max_model_len.or_else(|| self.meta.as_ref()?.n_ctx).filter(|context| *context > 0)
    }
}

/// The message of an error, short enough for a log.
pub(super) fn error_message(body: &[u8]) -> String {
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    let error = &value["error"];
    let message =
        error["message"].as_str().or(error.as_str()).or(value["message"].as_str()).or(value["detail"].as_str());
    message.unwrap_or("no message").chars().filter(|c| !c.is_control()).take(200).collect()
}

/// Whether an error says that the conversation is too long.
pub(super) fn is_context_error(body: &[u8], message: &str) -> bool {
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    let is_named = ["code", "type"].iter().any(|key| {
        let name = value["error"][*key].as_str().unwrap_or_default();
        name == "context_length_exceeded" || name == "exceed_context_size_error"
    });
    is_named || message.contains("maximum context length") || message.contains("context length")
}

#[cfg(test)]
mod tests {
    use super::*;
    use hark_transcript::Lane;

    fn request(format: OutputFormat) -> CompletionRequest {
        CompletionRequest {
            messages: vec![Message { role: Role::User, content: "Hello".into() }],
            format,
            max_tokens: 7,
            temperature: 0.0,
            top_p: 1.0,
            seed: u64::MAX,
            owner: 1,
            lane: Lane::Interactive,
        }
    }

    #[test]
    fn json_is_asked_for_by_schema_then_by_instructions() {
        let schema = json!({"type": "object"});
        let asked = |mode| body("m", &request(OutputFormat::Json(schema.clone())), mode);
        let by_schema = asked(JsonMode::Schema);
        assert_eq!(by_schema["response_format"]["json_schema"]["schema"], schema);
        assert_eq!(by_schema["messages"].as_array().unwrap().len(), 1);
        assert_eq!((&by_schema["seed"], &by_schema["stream"]), (&json!(0x7fff_ffff), &json!(true)));
        let by_object = asked(JsonMode::Object);
        assert_eq!(by_object["response_format"], json!({"type": "json_object"}));
        assert!(by_object["messages"][0]["content"].as_str().unwrap().contains("{\"type\":\"object\"}"));
        assert!(asked(JsonMode::Prompt).get("response_format").is_none());
        assert!(body("m", &request(OutputFormat::Text), JsonMode::Schema).get("response_format").is_none());
    }

    #[test]
    fn errors_of_all_servers_are_read() {
        for (body, message) in [
            (r#"{"error": {"message": "no\nway", "code": 400}}"#, "noway"),
            (r#"{"error": "model not found"}"#, "model not found"),
            (r#"{"object": "error", "message": "too much"}"#, "too much"),
            ("<html>", "no message"),
        ] {
            assert_eq!(error_message(body.as_bytes()), message);
        }
        assert!(is_context_error(br#"{"error": {"type": "exceed_context_size_error"}}"#, ""));
        assert!(is_context_error(br#"{"error": {"code": "context_length_exceeded"}}"#, ""));
        assert!(is_context_error(b"", "This model's maximum context length is 4096 tokens"));
        assert!(!is_context_error(br#"{"error": {"code": 400}}"#, "no such schema"));
    }
}
