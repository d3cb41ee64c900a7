//! `POST /v1/audio/transcriptions` and `POST /v1/audio/translations`.

use std::borrow::Cow;

use axum::extract::{Request, State};
use axum::response::Response;
use hark_api::{OpenAiDiarized, OpenAiTranscription, OpenAiTranscriptionForm, OpenAiTranslationForm, OpenAiVerbose};
use utoipa::ToSchema;
use utoipa::openapi::schema::AnyOfBuilder;
use utoipa::openapi::{Ref, RefOr, Schema};

use super::events;
use super::fields::{TranscriptionFields, TranslationFields};
use super::layout::Layout;
use super::{AnyError, Invalid, Late, Limited, Payment, Reused, TooLarge, Unauthorized, Unavailable};
use crate::app::App;
use crate::error::Failure;
use crate::error::TRANSCRIPT_ID;
use crate::middleware::Caller;
use crate::routes::IdempotencyHeader;
use crate::routes::transcribe::{Form, Wait, enqueue};

/// Transcribe a recording, as OpenAI's clients ask for it
///
/// The same as `POST /v1/transcribe` with OpenAI's form, layouts and errors.
#[utoipa::path(post, path = "/v1/audio/transcriptions", tag = "openai", operation_id = "createTranscription", params(
        IdempotencyHeader),
    request_body(content = OpenAiTranscriptionForm, content_type = "multipart/form-data"),
    responses((status = 200, description = "the transcript", headers(
            ("X-Transcript-Id" = i64, description = "the saved transcript"),
            ("X-Model" = String, description = "the checkpoint that ran"),
            ("X-Warnings" = Option<String>, description = "what is wrong or remarkable about the recording, if anything")), content(
            (AnyJson = "application/json"), (String = "text/plain; charset=utf-8"),
            (String = "application/x-subrip; charset=utf-8"), (String = "text/vtt; charset=utf-8"),
            (EventMessage = "text/event-stream; charset=utf-8"))),
        Invalid, Unauthorized, Payment, TooLarge, Reused, Limited, Unavailable, Late, AnyError),
    security((), ("bearer" = [])))]
pub(crate) async fn transcriptions(
    State(app): State<App>,
    caller: Caller,
    request: Request,
) -> Result<Response, Failure> {
    answer::<TranscriptionFields>(&app, &caller, request).await
}

/// Write down in English what is said in a recording, as OpenAI's clients ask for it
///
/// The same as `POST /v1/transcribe` with `translate=true` and OpenAI's form, layouts and errors.
#[utoipa::path(post, path = "/v1/audio/translations", tag = "openai", operation_id = "createTranslation", params(
        IdempotencyHeader),
    request_body(content = OpenAiTranslationForm, content_type = "multipart/form-data"),
    responses((status = 200, description = "the transcript in English", headers(
            ("X-Transcript-Id" = i64, description = "the saved transcript"),
            ("X-Model" = String, description = "the checkpoint that ran"),
            ("X-Warnings" = Option<String>, description = "what is wrong or remarkable about the recording, if anything")), content(
            (AnyJson = "application/json"), (String = "text/plain; charset=utf-8"),
            (String = "application/x-subrip; charset=utf-8"), (String = "text/vtt; charset=utf-8"))),
        Invalid, Unauthorized, Payment, TooLarge, Reused, Limited, Unavailable, Late, AnyError),
    security((), ("bearer" = [])))]
pub(crate) async fn translations(
    State(app): State<App>,
    caller: Caller,
    request: Request,
) -> Result<Response, Failure> {
    answer::<TranslationFields>(&app, &caller, request).await
}

/// An event as it travels.
#[derive(utoipa::ToSchema)]
#[schema(as = OpenAiEventMessage)]
#[allow(dead_code, reason = "it exists for its documentation")]
pub(crate) struct EventMessage {
    /// A line of JSON: `{"type": "transcript.text.delta", "delta": …}` for more of the text, at the end
    /// `{"type": "transcript.text.done", "text": …, "usage": …}`, or `{"error": …}` where it failed.
    #[schema(content_media_type = "application/json")]
    data: String,
}

/// The layouts in JSON. Every fuller one is a short one with more, so an answer may have several of their schemas.
pub(crate) struct AnyJson;

impl utoipa::PartialSchema for AnyJson {
    fn schema() -> RefOr<Schema> {
        let of_name = |name| Ref::from_schema_name(name);
        AnyOfBuilder::new()
            .description(Some("The answer in JSON, as `response_format` asks for it."))
            .item(of_name(OpenAiVerbose::name()))
            .item(of_name(OpenAiDiarized::name()))
            .item(of_name(OpenAiTranscription::name()))
            .into()
    }
}

impl ToSchema for AnyJson {
    fn name() -> Cow<'static, str> {
        "OpenAiAnswer".into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        fn add<S: ToSchema>(schemas: &mut Vec<(String, RefOr<Schema>)>) {
            schemas.push((S::name().into_owned(), S::schema()));
            S::schemas(schemas);
        }
        add::<OpenAiVerbose>(schemas);
        add::<OpenAiDiarized>(schemas);
        add::<OpenAiTranscription>(schemas);
    }
}

async fn answer<F: Form<Layout = Layout>>(app: &App, caller: &Caller, request: Request) -> Result<Response, Failure> {
    let (head, body) = request.into_parts();
    let queued = enqueue::<F>(app, caller, &head.headers, body, true).await?;
    let wait = Wait::begin(app, caller, &queued);
    if queued.layout.stream {
        let mut response = events::respond(wait);
        response.headers_mut().insert(TRANSCRIPT_ID, queued.transcript.0.into());
        return Ok(response);
    }
    wait.answer(move |result| queued.layout.respond(result)).await
}
