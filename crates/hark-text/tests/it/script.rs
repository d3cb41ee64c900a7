//! A language model whose answers a test writes.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use hark_text::model::{Answer, Event};
use hark_text::{Completion, CompletionRequest, Context, Finish, LanguageModel, ModelError, OutputFormat, Usage};
use hark_transcript::Lane;
use tokio::sync::mpsc::unbounded_channel;

type Respond = dyn Fn(&CompletionRequest) -> Result<Answer, ModelError> + Send + Sync;

pub struct Script {
    context: usize,
    respond: Box<Respond>,
    /// Submissions that find no room, by their number.
    refused: Range<usize>,
    submitted: AtomicUsize,
    requests: Mutex<Vec<CompletionRequest>>,
}

pub fn answer(text: impl Into<String>) -> Result<Answer, ModelError> {
    Ok(Answer { text: text.into(), finish: Finish::Stop, usage: Usage::default() })
}

impl Script {
    pub fn new(respond: impl Fn(&CompletionRequest) -> Result<Answer, ModelError> + Send + Sync + 'static) -> Self {
        Script {
            context: 4096,
            respond: Box::new(respond),
            refused: 0..0,
            submitted: AtomicUsize::new(0),
            requests: Mutex::default(),
        }
    }

    /// Answers every request with this text.
    pub fn always(text: &'static str) -> Self {
        Script::new(move |_| answer(text))
    }

    pub fn with_context(mut self, tokens: usize) -> Self {
        self.context = tokens;
        self
    }

    /// Has no room for these submissions.
    pub fn refusing(mut self, submissions: Range<usize>) -> Self {
        self.refused = submissions;
        self
    }

    pub fn task(&self) -> Context<'_> {
        Context::new(self, 7, Lane::Interactive)
    }

    pub fn requests(&self) -> Vec<CompletionRequest> {
        self.requests.lock().unwrap().clone()
    }
}

/// Everything that a request says.
pub fn prompt(request: &CompletionRequest) -> String {
    request.messages.iter().map(|message| message.content.as_str()).collect::<Vec<_>>().join("\n")
}

/// The text between the marks of a request.
pub fn data(request: &CompletionRequest) -> String {
    let user = &request.messages[1].content;
    let start = user.find("\n\n==").unwrap() + 2;
    let mark = user[start..].lines().next().unwrap();
    let end = user.rfind(&format!("\n{mark}\n")).unwrap();
    user[start + mark.len() + 1..end].to_owned()
}

impl LanguageModel for Script {
    fn name(&self) -> &str {
        "script"
    }

    fn context_length(&self) -> usize {
        self.context
    }

    fn count_tokens(&self, text: &str) -> usize {
        text.len().div_ceil(4)
    }

    fn complete(&self, request: CompletionRequest) -> Result<Completion, ModelError> {
        if self.refused.contains(&self.submitted.fetch_add(1, Ordering::SeqCst)) {
            return Err(ModelError::Busy);
        }
        // Every prompt must fit, with its answer.
        let tokens = self.count_tokens(&prompt(&request)) + request.max_tokens;
        if tokens > self.context {
            return Err(ModelError::TooLong { tokens, limit: self.context });
        }
        if let OutputFormat::Json(schema) = &request.format {
            assert_eq!(schema["additionalProperties"], false, "{schema}");
        }
        self.requests.lock().unwrap().push(request.clone());
        let (sender, receiver) = unbounded_channel();
        match (self.respond)(&request) {
            Ok(answer) => {
                sender.send(Event::Text(answer.text)).unwrap();
                sender.send(Event::End(answer.finish, answer.usage)).unwrap();
            }
            Err(error) => sender.send(Event::Failed(error)).unwrap(),
        }
        Ok(Completion::new(receiver))
    }
}
