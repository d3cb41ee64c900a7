//! Answers questions about stored transcripts: admitted within the daily limit, answered from the text, added to their conversation.

mod account;
mod admission;
mod passages;
mod transcript;

use axum::Json;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use hark_api::{ChatAnswer, ChatAnswerDelta, ChatAnswerSources, ChatRequest, ChatSource, ErrorKind};
use hark_store::{ChatRole, ChatTurn, TranscriptId};
use hark_text::ask::{Answer, Exchange, Question};

use crate::app::App;
use crate::error::Failure;
use crate::idempotent::Canonical;
use crate::metrics::text::{Outcome, TextTimer};
use crate::middleware::Identity;
use crate::sse::{self, Events};
use crate::text_work::{context, load, within};
use admission::{Admitted, Opened};
pub(crate) use transcript::Asked;

/// What metrics call a question.
const TASK: &str = "chat";

/// Characters of the longest question.
const MAX_QUESTION: usize = 2000;

/// Turns of a conversation that are read: more than a prompt takes.
const MAX_TURNS: i64 = 20;

/// What a question is about.
pub(crate) enum About {
    /// One transcript.
    Transcript(Asked),
    /// All transcripts of the account.
    Account,
}

/// A question that may be answered.
struct Job {
    app: App,
    identity: Identity,
    about: About,
    request: ChatRequest,
    history: Vec<Exchange>,
    admitted: Admitted,
}

/// An answer with the segments that it rests on.
struct Found {
    answer: Answer,
    sources: Vec<ChatSource>,
}

impl About {
    fn transcript(&self) -> Option<TranscriptId> {
        match self {
            About::Transcript(asked) => Some(asked.id),
            About::Account => None,
        }
    }

    fn operation(&self) -> &'static str {
        match self {
            About::Transcript(_) => "POST /v1/transcripts/{id}/chat",
            About::Account => "POST /v1/chat",
        }
    }
}

/// Answers a question, as JSON or as events.
pub(crate) async fn answer(
    app: &App,
    identity: &Identity,
    headers: &HeaderMap,
    about: About,
    request: ChatRequest,
) -> Result<Response, Failure> {
    let is_stream = request.stream || sse::is_wanted(headers);
    app.engines.language()?;
    let canonical = Canonical::new(about.operation())
        .with("id", &about.transcript().map(|id| id.0), &None)?
        .with("question", &request.question, &String::new())?
        .with("session_id", &request.session_id, &None)?;
    let admitted = match Admitted::begin(app, identity, headers, canonical).await? {
        Opened::New(admitted) => admitted,
        Opened::Repeated(answer) if is_stream => {
            return Ok(sse::respond(|events| async move {
                send_text(&events, &answer.answer);
                send_end(&events, &answer);
            }));
        }
        Opened::Repeated(answer) => return Ok(Json(answer).into_response()),
    };
    let history = match &request.session_id {
        Some(session) => {
            let (account, about) = (identity.account(), about.transcript());
            exchanges(app.store.chats().last_turns(account, about, session, MAX_TURNS).await?)
        }
        None => Vec::new(),
    };
    let admitted = admitted.count(identity.plan().daily_questions()).await?;
    let (app, identity) = (app.clone(), identity.clone());
    let job = Job { app, identity, about, request, history, admitted };
    if !is_stream {
        return Ok(Json(job.run(None).await?).into_response());
    }
    Ok(sse::respond(|events| async move {
        match job.run(Some(&events)).await {
            Ok(answer) => send_end(&events, &answer),
            Err(failure) => events.send_named("error", &failure.error.body()),
        }
    }))
}

fn send_text(events: &Events, text: &str) {
    events.send_named("delta", &ChatAnswerDelta { text: text.to_owned() });
}

fn send_end(events: &Events, answer: &ChatAnswer) {
    events.send_named("sources", &ChatAnswerSources { sources: answer.sources.clone() });
    events.send_named("done", answer);
}

/// Refuses a question that says nothing, or too much.
pub(crate) fn check_question(question: &str) -> Result<(), Failure> {
    if question.trim().is_empty() {
        return Err(Failure::invalid("`question` is empty: ask something"));
    }
    let length = question.chars().count();
    if length > MAX_QUESTION {
        let message = format!("`question` has {length} characters: ask with at most {MAX_QUESTION}");
        return Err(Failure::invalid(message));
    }
    Ok(())
}

/// Questions with their answers.
fn exchanges(turns: Vec<ChatTurn>) -> Vec<Exchange> {
    let mut exchanges: Vec<Exchange> = Vec::new();
    for turn in turns {
        match (turn.role, exchanges.last_mut()) {
            (ChatRole::Assistant, Some(last)) => last.answer = turn.text,
            (ChatRole::Assistant, None) => {}
            (ChatRole::User, _) => exchanges.push(Exchange { question: turn.text, answer: String::new() }),
        }
    }
    exchanges
}

impl Job {
    /// Answers, with the text as events where there are any, and counts what became of the question.
    async fn run(self, events: Option<&Events>) -> Result<ChatAnswer, Failure> {
        let timer = TextTimer::start(&self.app.metrics, TASK);
        let result = self.answer(events).await;
        timer.end(Outcome::of(&result));
        result
    }

    /// Answers within the time limit and adds question and answer to the conversation. Dropped before its end, it leaves nothing; the question stays counted
    /// if part of the answer was sent.
    async fn answer(self, events: Option<&Events>) -> Result<ChatAnswer, Failure> {
        let Job { app, identity, about, request, history, admitted } = self;
        let transcript = about.transcript();
        let question = Question { text: &request.question, history: &history };
        let on_text = |text: &str| {
            let Some(events) = events else { return };
            admitted.hear();
            send_text(events, text);
        };
        let work = async {
            let model = load(&app).await?;
            let context = context(&*model, &identity);
            let found = match about {
                About::Transcript(asked) => asked.answer(&app, &identity, &context, &question, &on_text).await,
                About::Account => account::answer(&app, &identity, &context, &question, &on_text).await,
            };
            // A model that fails is not the caller's doing. Time that runs out after part of the answer counts, or reading slowly would make answers free.
            let found = found.inspect_err(|_| admitted.waive())?;
            Ok((found, context.model_name().to_owned()))
        };
        let (found, model) = within(app.config.text.timeout.duration(), work).await?;
        let Found { answer, sources } = found;
        let (account, chats) = (identity.account(), app.store.chats());
        let session_id = match request.session_id {
            Some(session) => session,
            None => chats.begin(account, transcript).await?,
        };
        chats.add(account, transcript, &session_id, &request.question, &answer.text).await?;
        let answer = ChatAnswer { answer: answer.text, found: answer.found, sources, session_id, model };
        admitted.complete(&answer).await?;
        Ok(answer)
    }
}

/// What can't happen to a request that was admitted.
fn internal() -> Failure {
    ErrorKind::Internal.into()
}
