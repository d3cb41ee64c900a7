//! Work on a transcript's text: summaries, analyses and generated content, stored with the transcript until its text changes.

use axum::Json as Answer;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use hark_api::{ErrorKind, SummarizeTranscriptRequest, TranscriptAnalyzeRequest, TranscriptGenerateRequest};
use hark_store::{Status, TranscriptId};
use hark_text::{Analysis, Generation, Source, Summary, Task};
use serde_json::{Map, Value};

use crate::app::App;
use crate::error::Failure;
use crate::extract::{Json, OptionalJson, Path};
use crate::idempotent::Canonical;
use crate::middleware::Identity;
use crate::routes::{
    AnyError, IdempotencyHeader, Invalid, Limited, Missing, Payment, Reused, TimedOut, Unauthorized, Unavailable,
};
use crate::sse;
use crate::text_work::{Cached, TextCall, TextRevision, kind};

/// A result that is wanted about a transcript.
struct Wanted {
    id: i64,
    task: Task,
    /// Make it again even if there is one.
    force: bool,
}

impl Wanted {
    /// The stored result, or a new one.
    async fn run(
        self,
        app: App,
        identity: Identity,
        headers: HeaderMap,
        canonical: Canonical,
    ) -> Result<Response, Failure> {
        let Wanted { id, task, force } = self;
        check(&app, &identity, id).await?;
        if !force && let Some(answer) = stored(&app, &identity, id, &kind(task)).await? {
            return Ok(respond(&headers, answer));
        }
        let (source, revision) = source(&app, &identity, id).await?;
        let transcript = Some(TextRevision { transcript: TranscriptId(id), revision });
        TextCall { app, identity, headers, canonical, task, source, transcript }.run().await
    }
}

/// A stored result, as the request accepts it.
fn respond(headers: &HeaderMap, answer: Map<String, Value>) -> Response {
    if sse::is_wanted(headers) {
        return sse::respond(|events| async move { events.send_named("result", &answer) });
    }
    Answer(answer).into_response()
}

/// Refuses transcripts that are not there, not completed or empty.
pub(super) async fn check(app: &App, identity: &Identity, id: i64) -> Result<(), Failure> {
    let transcript = app.store.transcripts().get(identity.account(), TranscriptId(id)).await?;
    if transcript.status != Status::Completed {
        return Err(ErrorKind::NotReady.into());
    }
    if transcript.word_count == 0 {
        return Err(Failure::new(ErrorKind::NotReady, "the transcript is empty"));
    }
    Ok(())
}

/// The stored result of this kind; one that can't be read any more is made again.
pub(super) async fn stored(
    app: &App,
    identity: &Identity,
    id: i64,
    kind: &str,
) -> Result<Option<Map<String, Value>>, Failure> {
    let body = app.store.transcripts().derived(identity.account(), TranscriptId(id), kind).await?;
    let answer = body.and_then(|body| serde_json::from_slice::<Map<String, Value>>(&body).ok());
    Ok(answer.map(|mut answer| {
        answer.insert("cached".to_owned(), Value::Bool(true));
        answer
    }))
}

/// The text of a transcript and its revision.
async fn source(app: &App, identity: &Identity, id: i64) -> Result<(Source, i64), Failure> {
    let (transcript, text) = app.store.transcripts().text(identity.account(), TranscriptId(id)).await?;
    Ok((Source::from_transcript(&text), transcript.text_revision))
}

/// Summarize a transcript
///
/// Costs 1 credit, when it is written; one of the same style that was written before costs nothing.
#[utoipa::path(post, path = "/v1/transcripts/{id}/summarize", tag = "transcripts", operation_id = "summarizeTranscript",
    params(("id" = i64, Path, description = "the transcript's number"), IdempotencyHeader),
    request_body = Option<SummarizeTranscriptRequest>,
    responses((status = 200, content((Cached<Summary> = "application/json"), (String = "text/event-stream; charset=utf-8"))), Invalid, Unauthorized, Payment, Missing, Reused, Limited, Unavailable,
        TimedOut, AnyError),
    security(("bearer" = [])))]
pub(crate) async fn summarize(
    State(app): State<App>,
    identity: Identity,
    Path(id): Path<i64>,
    headers: HeaderMap,
    OptionalJson(request): OptionalJson<SummarizeTranscriptRequest>,
) -> Result<Response, Failure> {
    let canonical = Canonical::new("POST /v1/transcripts/{id}/summarize").with("id", &id, &0)?.with(
        "request",
        &request,
        &SummarizeTranscriptRequest::default(),
    )?;
    Wanted { id, task: Task::Summarize(request.style), force: request.force }
        .run(app, identity, headers, canonical)
        .await
}

/// Look for something in a transcript
///
/// Costs 1 credit, when it is made; one of the same type that was made before costs nothing.
#[utoipa::path(post, path = "/v1/transcripts/{id}/analyze", tag = "transcripts", operation_id = "analyzeTranscript",
    params(("id" = i64, Path, description = "the transcript's number"), IdempotencyHeader),
    request_body = TranscriptAnalyzeRequest,
    responses((status = 200, content((Cached<Analysis> = "application/json"), (String = "text/event-stream; charset=utf-8"))), Invalid, Unauthorized, Payment, Missing, Reused, Limited, Unavailable,
        TimedOut, AnyError),
    security(("bearer" = [])))]
pub(crate) async fn analyze(
    State(app): State<App>,
    identity: Identity,
    Path(id): Path<i64>,
    headers: HeaderMap,
    Json(request): Json<TranscriptAnalyzeRequest>,
) -> Result<Response, Failure> {
    let canonical = Canonical::new("POST /v1/transcripts/{id}/analyze")
        .with("id", &id, &0)?
        .with("type", &Some(request.r#type), &None)?
        .with("force", &request.force, &false)?;
    Wanted { id, task: Task::Analyze(request.r#type), force: request.force }
        .run(app, identity, headers, canonical)
        .await
}

/// Write something from a transcript
///
/// Costs 1 credit, when it is written; one of the same type that was written before costs nothing.
#[utoipa::path(post, path = "/v1/transcripts/{id}/generate", tag = "transcripts", operation_id = "generateFromTranscript",
    params(("id" = i64, Path, description = "the transcript's number"), IdempotencyHeader),
    request_body = TranscriptGenerateRequest,
    responses((status = 200, content((Cached<Generation> = "application/json"), (String = "text/event-stream; charset=utf-8"))), Invalid, Unauthorized, Payment, Missing, Reused, Limited, Unavailable,
        TimedOut, AnyError),
    security(("bearer" = [])))]
pub(crate) async fn generate(
    State(app): State<App>,
    identity: Identity,
    Path(id): Path<i64>,
    headers: HeaderMap,
    Json(request): Json<TranscriptGenerateRequest>,
) -> Result<Response, Failure> {
    let canonical = Canonical::new("POST /v1/transcripts/{id}/generate")
        .with("id", &id, &0)?
        .with("type", &Some(request.r#type), &None)?
        .with("force", &request.force, &false)?;
    Wanted { id, task: Task::Generate(request.r#type), force: request.force }
        .run(app, identity, headers, canonical)
        .await
}
