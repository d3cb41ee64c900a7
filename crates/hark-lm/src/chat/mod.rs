//! Conversations as prompts: the chat template of a model file, applied so that no message can become a control token.
//!
//! The template is rendered with a placeholder instead of each message. Control tokens are looked for in what the template itself
//! wrote; the text of messages is put in afterwards and encoded as plain text.

mod jinja;
#[cfg(test)]
mod tests;

use std::hash::{BuildHasher, RandomState};

use minijinja::{Environment, Value};

use crate::{LmError, Tokenizer};

/// Who wrote a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChatRole {
    /// The instructions.
    System,
    /// The user.
    User,
    /// The model.
    Assistant,
}

impl ChatRole {
    /// Its name in templates.
    pub fn name(self) -> &'static str {
        match self {
            ChatRole::System => "system",
            ChatRole::User => "user",
            ChatRole::Assistant => "assistant",
        }
    }
}

/// A message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatMessage {
    /// Who wrote it.
    pub role: ChatRole,
    /// Its text; white space around it does not count.
    pub content: String,
}

/// The chat template of a model.
pub struct ChatTemplate {
    environment: Environment<'static>,
    /// Starts every placeholder of this process; nobody outside can know it.
    secret: String,
    /// Whether the fallback can be used: the vocabulary has its control tokens.
    has_chatml: bool,
}

/// The largest template that is read; published ones have up to 20 KB.
const MAX_SOURCE: usize = 256 << 10;
/// The most bytes that a template may write around the messages.
const MAX_OUTPUT: usize = 1 << 20;
/// Instructions that rendering may take, for the template and for each message.
const FUEL: u64 = 20_000;
const FUEL_PER_MESSAGE: u64 = 2_000;
/// The most messages of a conversation.
const MAX_MESSAGES: usize = 10_000;

const FILE_TEMPLATE: &str = "file";
const CHATML_TEMPLATE: &str = "chatml";
/// The template of files that have none, where their vocabulary has its control tokens.
const CHATML: &str = "{% for message in messages %}{{ '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}{% endfor %}\
    {{ '<|im_start|>assistant\n' }}";

impl ChatTemplate {
    /// The template that the tokenizer's file carries, else ChatML.
    pub fn new(tokenizer: &Tokenizer) -> Result<Self, LmError> {
        Self::from_source(tokenizer, tokenizer.chat_template())
    }

    /// A template from its source, else ChatML.
    pub fn from_source(tokenizer: &Tokenizer, source: Option<&str>) -> Result<Self, LmError> {
        let mut environment = jinja::environment();
        for (name, token) in [("bos_token", tokenizer.bos_token()), ("eos_token", tokenizer.eos_token())] {
            let text = token.map(|token| tokenizer.name(token)).unwrap_or_default();
            environment.add_global(name, Value::from(&*text));
        }
        let has_chatml = ["<|im_start|>", "<|im_end|>"].iter().all(|name| tokenizer.control_at(name).is_some());
        if has_chatml {
            environment.add_template(CHATML_TEMPLATE, CHATML).map_err(|error| template_error(&error))?;
        }
        match source {
            Some(source) if source.len() > MAX_SOURCE => {
                let what = format!("it has {} bytes, more than {MAX_SOURCE}", source.len());
                return Err(LmError::Template(what));
            }
            Some(source) => {
                let added = environment.add_template_owned(FILE_TEMPLATE, source.to_owned());
                added.map_err(|error| template_error(&error))?;
            }
            None if has_chatml => {}
            None => {
                let what = "the model file has none, and its vocabulary has no tokens for ChatML";
                return Err(LmError::Template(what.to_owned()));
            }
        }
        let (first, second) = (RandomState::new().hash_one(1), RandomState::new().hash_one(2));
        Ok(ChatTemplate { environment, secret: format!("hark{first:016x}{second:016x}"), has_chatml })
    }

    /// The prompt of a conversation: its tokens up to where the model's answer begins.
    ///
    /// A template that refuses system messages or leaves a message out is asked again with the instructions in the first message of
    /// the user, then replaced by ChatML where the vocabulary has that. Where nothing helps, the error says whose fault it is: the
    /// conversation's, if the template can write a plain question.
    pub fn apply(&self, tokenizer: &Tokenizer, messages: &[ChatMessage]) -> Result<Vec<u32>, LmError> {
        if messages.len() > MAX_MESSAGES {
            return Err(LmError::Conversation(format!("{} messages are more than {MAX_MESSAGES}", messages.len())));
        }
        let outcome = self.apply_any(tokenizer, messages);
        let Err(LmError::Template(what)) = outcome else { return outcome };
        let question = [ChatMessage { role: ChatRole::User, content: "?".to_owned() }];
        Err(match self.apply_any(tokenizer, &question) {
            Ok(_) => LmError::Conversation(what),
            Err(_) => LmError::Template(what),
        })
    }

    /// The prompt by the first template that can write it.
    fn apply_any(&self, tokenizer: &Tokenizer, messages: &[ChatMessage]) -> Result<Vec<u32>, LmError> {
        if self.environment.get_template(FILE_TEMPLATE).is_err() {
            return self.render(CHATML_TEMPLATE, tokenizer, messages);
        }
        let mut outcome = self.render(FILE_TEMPLATE, tokenizer, messages);
        if outcome.is_err() && messages.iter().any(|message| message.role == ChatRole::System) {
            outcome = self.render(FILE_TEMPLATE, tokenizer, &without_system(messages));
        }
        if outcome.is_err() && self.has_chatml {
            return self.render(CHATML_TEMPLATE, tokenizer, messages);
        }
        outcome
    }

    fn render(&self, name: &str, tokenizer: &Tokenizer, messages: &[ChatMessage]) -> Result<Vec<u32>, LmError> {
        let contents: Vec<&str> = messages.iter().map(|message| message.content.trim()).collect();
        // An empty text stays empty: templates ask for that.
        let placeholder = |index: usize| match contents[index].is_empty() {
            true => String::new(),
            false => format!("{}x{index}x", self.secret),
        };
        let values = messages.iter().enumerate().map(|(index, message)| {
            Value::from_pairs([
                ("role", Value::from(message.role.name())),
                ("content", Value::from(placeholder(index))),
            ])
        });
        let context = Value::from_pairs([
            ("messages", values.collect::<Value>()),
            ("add_generation_prompt", Value::from(true)),
            // Templates tell `none` from what is not defined.
            ("tools", Value::from(())),
            ("documents", Value::from(())),
            // Models that can think first are asked for the answer alone.
            ("enable_thinking", Value::from(false)),
        ]);
        let mut environment = self.environment.clone();
        environment.set_fuel(Some(FUEL + FUEL_PER_MESSAGE * messages.len() as u64));
        let template = environment.get_template(name).map_err(|error| template_error(&error))?;
        let rendered = template.render(context).map_err(|error| template_error(&error))?;
        if rendered.len() > MAX_OUTPUT + messages.len() * 1024 {
            return Err(LmError::Template(format!("it wrote {} bytes", rendered.len())));
        }
        let mut prompt = PromptBuilder { tokenizer, tokens: Vec::new(), plain: String::new() };
        let mut is_used = vec![false; messages.len()];
        let mut pieces = rendered.split(self.secret.as_str());
        prompt.push_template(pieces.next().unwrap_or_default());
        for piece in pieces {
            let (index, rest) = split_index(piece).ok_or_else(|| missing("a message"))?;
            let content = contents.get(index).ok_or_else(|| missing("a message"))?;
            is_used[index] = true;
            prompt.plain.push_str(content);
            prompt.push_template(rest);
        }
        if let Some(index) = (0..messages.len()).find(|index| !is_used[*index] && !contents[*index].is_empty()) {
            return Err(missing(messages[index].role.name()));
        }
        let mut tokens = prompt.finish();
        if let Some(bos) = tokenizer.bos().filter(|bos| tokens.first() != Some(bos)) {
            tokens.insert(0, bos);
        }
        Ok(tokens)
    }
}

/// The index behind a placeholder's secret, and what follows it.
fn split_index(piece: &str) -> Option<(usize, &str)> {
    let (index, rest) = piece.strip_prefix('x')?.split_once('x')?;
    Some((index.parse().ok()?, rest))
}

/// The messages with the instructions in front of the first message of the user.
fn without_system(messages: &[ChatMessage]) -> Vec<ChatMessage> {
    let instructions = messages.iter().filter(|message| message.role == ChatRole::System);
    let mut instructions = instructions.map(|message| message.content.trim()).collect::<Vec<_>>().join("\n\n");
    let mut out = Vec::with_capacity(messages.len());
    for message in messages.iter().filter(|message| message.role != ChatRole::System) {
        let mut message = message.clone();
        if message.role == ChatRole::User && !instructions.is_empty() {
            message.content = format!("{}\n\n{}", std::mem::take(&mut instructions), message.content.trim());
        }
        out.push(message);
    }
    if !instructions.is_empty() {
        out.insert(0, ChatMessage { role: ChatRole::User, content: instructions });
    }
    out
}

/// Collects plain text until a control token of the template comes.
struct PromptBuilder<'a> {
    tokenizer: &'a Tokenizer,
    tokens: Vec<u32>,
    plain: String,
}

impl PromptBuilder<'_> {
    /// Text that the template wrote: names of control tokens in it are those tokens.
    fn push_template(&mut self, mut text: &str) {
        while let Some(c) = text.chars().next() {
            match self.tokenizer.control_at(text) {
                Some((token, length)) => {
                    self.flush();
                    self.tokens.push(token);
                    text = self.tokenizer.behind_control(token, &text[length..]);
                }
                None => {
                    self.plain.push(c);
                    text = &text[c.len_utf8()..];
                }
            }
        }
    }

    fn flush(&mut self) {
        self.tokens.extend(self.tokenizer.encode(&self.plain));
        self.plain.clear();
    }

    fn finish(mut self) -> Vec<u32> {
        self.flush();
        self.tokens
    }
}

fn template_error(error: &minijinja::Error) -> LmError {
    LmError::Template(error.to_string())
}

fn missing(what: &str) -> LmError {
    LmError::Template(format!("it leaves out the text of {what}"))
}
