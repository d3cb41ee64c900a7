//! Answers to questions about transcripts and texts, with the places that they rest on.
//!
//! ```text
//!  question ─▶ excerpts (all of a short source, else what retrieval finds) ─▶ numbered lines ─▶ {"evidence", "found", "reply"}
//!                                                                                                     │
//!  answer or refusal, sources ◀── sentences with unknown names or numbers dropped ◀── second look at the evidence
//! ```
//!
//! A small model says too readily that it has found something. So its own `found` is only the first of three conditions: one line must
//! have most words of question and answer, or else the lines that it names must answer the question in a second look that shows
//! little else; and every sentence of the answer is checked against the excerpts.

mod checked;
mod excerpt;
mod lines;
mod prompt;
mod refusal;
mod reply;

pub use excerpt::{Excerpt, excerpts, fits_whole, within_budget};
pub use prompt::{Exchange, Question};

use crate::context::Context;
use crate::error::TextError;
use crate::facts::FactChecker;
use crate::model::{Completion, Event, Finish, ModelError, OutputFormat};
use checked::CheckedText;
use lines::Lines;
use prompt::AskPrompt;
use reply::ReplyReader;

/// Tokens of an answer with its evidence.
const ANSWER_TOKENS: usize = 240;

/// Tokens of the second look: `{"answered": false}`.
const CHECK_TOKENS: usize = 16;

/// The answer to a question.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The answer, or a sentence in the question's language that says that there is none.
    pub text: String,
    /// Whether the excerpts have an answer.
    pub found: bool,
    /// What the answer rests on, best first; empty where nothing was found.
    pub sources: Vec<AnswerSource>,
    /// Why nothing counts as found.
    pub refused: Option<Refused>,
}

/// Which of the checks an answer failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The model said that it found nothing.
    NotFound,
    /// The second look at the evidence says that it has no answer.
    NotInEvidence,
    /// Every sentence named something that the excerpts do not have.
    Unfounded,
}

/// A unit that an answer rests on.
#[derive(Debug, Clone, PartialEq)]
pub struct AnswerSource {
    /// Which of the excerpts.
    pub excerpt: usize,
    /// Which unit of its source.
    pub unit: usize,
    /// How much of answer and question it says, compared to the line that says most: 0 to 1.
    pub relevance: f64,
}

/// Answers a question from excerpts of sources. `on_text` gets the answer sentence by sentence: what it was given, joined, is the answer's
/// text and is never taken back.
pub async fn ask(
    context: &Context<'_>,
    excerpts: &[Excerpt<'_>],
    question: &Question<'_>,
    on_text: &(dyn Fn(&str) + Send + Sync),
) -> Result<Answer, TextError> {
    let lines = Lines::new(excerpts);
    if lines.is_empty() {
        return Err(TextError::Empty);
    }
    let language = question.answer_language(excerpts);
    let prompt = AskPrompt { lines: &lines, question, language };
    let refuse = |refused: Refused| {
        let answer = refusal::answer(language, refused);
        on_text(&answer.text);
        Ok(answer)
    };
    context.expect(1);
    let format = OutputFormat::Json(prompt::reply_schema(lines.len()));
    let mut completion = context.start(prompt.messages(), format, ANSWER_TOKENS).await?;
    let checker = FactChecker::of_text(&lines.facts(), language);
    let mut text = CheckedText::new(&checker, on_text);
    let (mut reader, mut check, mut end) = (ReplyReader::default(), Check::NotStarted, None);
    let (query, mut is_supported) = (question.retrieval_query(), false);
    while end.is_none() {
        match completion.next().await {
            Some(Event::Text(piece)) => reader.push(&piece),
            Some(Event::End(finish, _)) => end = Some(finish),
            Some(Event::Failed(error)) => return Err(error.into()),
            None => return Err(ModelError::Failed("the model stopped without an answer".into()).into()),
        }
        let Some(head) = reader.head(end.is_some()).cloned() else { continue };
        if !head.found {
            return refuse(Refused::NotFound);
        }
        text.push(&reader.take_reply());
        if !(text.has_sentence() || end.is_some()) {
            continue;
        }
        // Words are looked at first, since that costs nothing.
        is_supported = is_supported || lines.support(&query, text.pending());
        if !is_supported {
            if let Check::NotStarted = check {
                context.expect(1);
                let (messages, format) = prompt.check(&lines.evidence_and_best(&head.evidence, question.text));
                check = Check::Running(context.start(messages, format, CHECK_TOKENS).await?);
            }
            is_supported = check.passes(context).await?;
        }
        if !is_supported {
            // More sentences may have the words that support the answer.
            if end.is_none() {
                continue;
            }
            return refuse(Refused::NotInEvidence);
        }
        text.give_sentences();
        if text.says_not_found() {
            return refuse(Refused::NotFound);
        }
    }
    context.completed();
    let head = reader.head(true).ok_or(TextError::InvalidAnswer)?;
    let text = match text.finish(end == Some(Finish::Length)) {
        Ok(text) => text,
        Err(refused) => return refuse(refused),
    };
    let sources = lines.sources(&head.evidence, question.text, &text);
    Ok(Answer { text, found: true, sources, refused: None })
}

/// The answer to a question about which nothing was found.
pub fn not_found(question: &Question<'_>) -> Answer {
    refusal::answer(question.answer_language(&[]), Refused::NotFound)
}

/// The second look: whether the evidence alone answers the question.
enum Check {
    NotStarted,
    Running(Completion),
    Passed,
    Failed,
}

impl Check {
    /// Waits for its result; an answer of another form counts as no.
    async fn passes(&mut self, context: &Context<'_>) -> Result<bool, TextError> {
        if let Check::Running(_) = self
            && let Check::Running(completion) = std::mem::replace(self, Check::Failed)
        {
            let answer = completion.answer().await?;
            context.completed();
            let value: Option<serde_json::Value> = serde_json::from_str(&answer.text).ok();
            if value.and_then(|value| value.get("answered")?.as_bool()) == Some(true) {
                *self = Check::Passed;
            }
        }
        Ok(matches!(self, Check::Passed))
    }
}
