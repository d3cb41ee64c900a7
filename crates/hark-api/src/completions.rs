//! The types of OpenAI's chat completions API, as its official clients send and read them.

use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// The body of `POST /v1/chat/completions`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ChatCompletionRequest {
    /// The conversation so far.
    #[schema(min_items = 1)]
    pub messages: Vec<ChatCompletionMessage>,
    /// The language model by its name in `GET /v1/models`; the one of this server when not given.
    #[serde(default)]
    pub model: Option<String>,
    /// Most tokens of the answer; 2048 when not given, or what the context has room for.
    #[serde(default, deserialize_with = "crate::integer::optional")]
    #[schema(minimum = 1)]
    pub max_completion_tokens: Option<i64>,
    /// The older name of `max_completion_tokens`.
    #[serde(default, deserialize_with = "crate::integer::optional")]
    #[schema(minimum = 1)]
    pub max_tokens: Option<i64>,
    /// 0 takes the most likely token each time; 0.7 when not given.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 2)]
    pub temperature: Option<f32>,
    /// Only the most likely tokens that together have this probability are chosen from; 0.95 when not given.
    #[serde(default)]
    #[schema(minimum = 0, maximum = 1)]
    pub top_p: Option<f32>,
    /// The same seed and request give the same answer as far as the arithmetic is the same: what is cached, and what else the model
    /// computes at the time, may change it.
    #[serde(default, deserialize_with = "crate::integer::optional")]
    pub seed: Option<i64>,
    /// The answer ends before the first of these texts, up to four.
    #[serde(default)]
    pub stop: Option<ChatStop>,
    /// How many answers; only one is made.
    #[serde(default, deserialize_with = "crate::integer::optional")]
    #[schema(minimum = 1, maximum = 1)]
    pub n: Option<i64>,
    /// Whether the answer is sent as server-sent events.
    #[serde(default)]
    pub stream: Option<bool>,
    /// What a stream has besides the text.
    #[serde(default)]
    pub stream_options: Option<ChatStreamOptions>,
    /// What the answer must look like.
    #[serde(default)]
    pub response_format: Option<ChatResponseFormat>,
    /// Every other field: refused unless it has no effect.
    #[serde(flatten)]
    #[schema(ignore)]
    pub other: Map<String, Value>,
}

/// A message of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ChatCompletionMessage {
    /// Who wrote it.
    pub role: ChatCompletionRole,
    /// Its text.
    pub content: ChatContent,
    /// Every other field: refused unless it has no effect.
    #[serde(flatten)]
    #[schema(ignore)]
    pub other: Map<String, Value>,
}

/// Who wrote a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ChatCompletionRole {
    /// Instructions.
    System,
    /// Instructions, by the newer name.
    Developer,
    /// The user.
    User,
    /// The model.
    Assistant,
}

/// The text of a message, in one piece or in parts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(untagged)]
pub enum ChatContent {
    /// One text.
    Text(String),
    /// Several texts.
    Parts(Vec<ChatPart>),
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ChatPart {
    /// A text.
    Text {
        /// The text.
        text: String,
    },
}

impl ChatContent {
    /// The whole text; parts stand on lines of their own.
    pub fn text(&self) -> String {
        match self {
            ChatContent::Text(text) => text.clone(),
            ChatContent::Parts(parts) => {
                let texts: Vec<&str> = parts.iter().map(|ChatPart::Text { text }| text.as_str()).collect();
                texts.join("\n")
            }
        }
    }
}

impl<'de> Deserialize<'de> for ChatContent {
    // By hand, since the error of an untagged enum would not say which part is not supported.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(text) => Ok(ChatContent::Text(text)),
            Value::Array(parts) if !parts.is_empty() => {
                let parts: Result<Vec<ChatPart>, _> = parts.into_iter().map(part).collect();
                parts.map(ChatContent::Parts).map_err(D::Error::custom)
            }
            _ => Err(D::Error::custom("the content of a message must be a text or a list of text parts")),
        }
    }
}

fn part(value: Value) -> Result<ChatPart, String> {
    match (value["type"].as_str(), value["text"].as_str()) {
        (Some("text"), Some(text)) => Ok(ChatPart::Text { text: text.to_owned() }),
        (Some(kind), _) if kind != "text" => Err(format!("content of type {kind:?} is not supported: only text is")),
        _ => Err("a part of a message's content must be an object with `type` and `text`".to_owned()),
    }
}

/// Texts that end an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum ChatStop {
    /// One.
    One(String),
    /// Several, at most four.
    Several(Vec<String>),
}

/// What a stream has besides the text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChatStreamOptions {
    /// Whether a last chunk has the numbers of tokens.
    #[serde(default)]
    pub include_usage: bool,
}

/// What an answer must look like.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ChatResponseFormat {
    /// Any text.
    Text,
    /// Any JSON object.
    JsonObject,
    /// JSON that is valid against a schema; decoding is constrained by it.
    JsonSchema {
        /// The schema.
        json_schema: ChatJsonSchema,
    },
}

/// The schema of an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ChatJsonSchema {
    /// A name for it; has no effect.
    #[serde(default)]
    pub name: Option<String>,
    /// A description for it; has no effect.
    #[serde(default)]
    pub description: Option<String>,
    /// The JSON schema; any object when not given.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub schema: Option<Value>,
    /// Whether the answer must be valid against the schema; it always is.
    #[serde(default)]
    pub strict: Option<bool>,
}

/// The answer of `POST /v1/chat/completions`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ChatCompletion {
    /// A name of this answer.
    pub id: String,
    /// `chat.completion`.
    pub object: String,
    /// When it was made, in seconds since 1970.
    pub created: i64,
    /// The model that answered.
    pub model: String,
    /// The answer.
    pub choices: Vec<ChatChoice>,
    /// Its tokens.
    pub usage: ChatUsage,
}

/// An answer of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ChatChoice {
    /// Always 0.
    pub index: u32,
    /// The message.
    pub message: ChatAnswerMessage,
    /// Always null.
    #[schema(value_type = Option<Object>)]
    pub logprobs: Option<Value>,
    /// Why it ended.
    pub finish_reason: ChatFinishReason,
}

/// The message of an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ChatAnswerMessage {
    /// `assistant`.
    pub role: String,
    /// Its text.
    pub content: String,
    /// Always null.
    pub refusal: Option<String>,
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ChatFinishReason {
    /// The model ended it, or a text of `stop` did.
    Stop,
    /// It reached its most tokens.
    Length,
}

/// The tokens of an answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChatUsage {
    /// Tokens of the conversation.
    pub prompt_tokens: u64,
    /// Tokens of the answer.
    pub completion_tokens: u64,
    /// Both together.
    pub total_tokens: u64,
    /// More about the tokens of the conversation.
    pub prompt_tokens_details: ChatPromptTokens,
}

/// More about the tokens of a conversation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChatPromptTokens {
    /// How many were in the prefix cache; 0 where a text of `stop` ended the answer.
    pub cached_tokens: u64,
}

impl ChatUsage {
    /// The tokens of a conversation, of which some were cached, and of its answer.
    pub fn new(prompt_tokens: u64, cached_tokens: u64, completion_tokens: u64) -> Self {
        ChatUsage {
            prompt_tokens,
            completion_tokens,
            total_tokens: prompt_tokens + completion_tokens,
            prompt_tokens_details: ChatPromptTokens { cached_tokens },
        }
    }
}

/// An event of an answer to `stream: true`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ChatCompletionChunk {
    /// The same in all events of an answer.
    pub id: String,
    /// `chat.completion.chunk`.
    pub object: String,
    /// When the answer was begun, in seconds since 1970.
    pub created: i64,
    /// The model that answers.
    pub model: String,
    /// More of the answer; empty in the event that has the tokens.
    pub choices: Vec<ChatChunkChoice>,
    /// With `include_usage`: the tokens in the last event, null in the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<ChatUsage>)]
    pub usage: Option<Option<ChatUsage>>,
}

/// More of an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ChatChunkChoice {
    /// Always 0.
    pub index: u32,
    /// What is added.
    pub delta: ChatDelta,
    /// Always null.
    #[schema(value_type = Option<Object>)]
    pub logprobs: Option<Value>,
    /// Why the answer ended, in its last event.
    pub finish_reason: Option<ChatFinishReason>,
}

/// What an event adds to an answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ChatDelta {
    /// `assistant`, in the first event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// More text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<ChatCompletionRequest, String> {
        serde_json::from_str(json).map_err(|error| error.to_string())
    }

    #[test]
    fn content_is_a_text_or_text_parts_and_other_parts_are_named() {
        let text = |json: &str| read(json).map(|request| request.messages[0].content.text());
        assert_eq!(text(r#"{"messages": [{"role": "user", "content": "a"}]}"#).unwrap(), "a");
        let parts = r#"{"messages": [{"role": "developer", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]}"#;
        assert_eq!(text(parts).unwrap(), "a\nb");
        let image =
            r#"{"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]}"#;
        assert!(text(image).unwrap_err().contains("image_url"));
        for wrong in ["null", "[]", "1", r#"[{"text": "a"}]"#] {
            let json = format!(r#"{{"messages": [{{"role": "user", "content": {wrong}}}]}}"#);
            assert!(text(&json).is_err(), "{wrong}");
        }
        assert!(text(r#"{"messages": [{"role": "tool", "content": "a"}]}"#).unwrap_err().contains("tool"));
    }

    #[test]
    fn fields_that_are_not_known_are_kept_to_be_judged() {
        let request = read(r#"{"messages": [], "tools": [1], "max_tokens": 7.0, "stop": ["a"]}"#).unwrap();
        assert_eq!(request.other.keys().collect::<Vec<_>>(), ["tools"]);
        assert_eq!((request.max_tokens, request.stop), (Some(7), Some(ChatStop::Several(vec!["a".into()]))));
    }

    #[test]
    fn a_chunk_has_usage_only_where_it_was_asked_for() {
        let mut chunk = ChatCompletionChunk {
            id: "x".into(),
            object: "chat.completion.chunk".into(),
            created: 0,
            model: "m".into(),
            choices: Vec::new(),
            usage: None,
        };
        assert!(!serde_json::to_string(&chunk).unwrap().contains("usage"));
        chunk.usage = Some(None);
        assert!(serde_json::to_string(&chunk).unwrap().contains("\"usage\":null"));
        chunk.usage = Some(Some(ChatUsage::new(3, 1, 2)));
        assert!(serde_json::to_string(&chunk).unwrap().contains("\"total_tokens\":5"));
    }
}
