//! `GET /v1/transcripts`.

use axum::Json as Answer;
use axum::extract::State;
use hark_api::{DateTime, TranscriptPage, TranscriptStatus, TranscriptSummary};
use hark_store::{Status, TranscriptFilter};
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, OneOfBuilder, Schema, SchemaFormat, Type};

use crate::app::App;
use crate::error::Failure;
use crate::extract::Query;
use crate::middleware::Identity;
use crate::routes::paging::{first_page, page_size};
use crate::routes::{AnyError, Invalid, Unauthorized};
use crate::wire::{wire_language, wire_status};

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// Which page, from 1.
    #[serde(default = "first_page")]
    #[param(minimum = 1, default = 1)]
    page: i64,
    /// Transcripts a page.
    #[serde(default = "page_size")]
    #[param(minimum = 1, maximum = 100, default = 20)]
    per_page: i64,
    /// Only those that are so far.
    status: Option<TranscriptStatus>,
    /// Only those in this language.
    language: Option<String>,
    /// Only those uploaded at this moment or later: a date or a date-time.
    #[param(schema_with = date_or_date_time)]
    created_after: Option<DateTime>,
    /// Only those uploaded before this moment: a date or a date-time.
    #[param(schema_with = date_or_date_time)]
    created_before: Option<DateTime>,
}

/// A date, or a date with a time.
pub(crate) fn date_or_date_time() -> Schema {
    let text = |format| ObjectBuilder::new().schema_type(Type::String).format(Some(SchemaFormat::KnownFormat(format)));
    OneOfBuilder::new().item(text(KnownFormat::Date)).item(text(KnownFormat::DateTime)).into()
}

/// The transcripts of the account, newest first
#[utoipa::path(get, path = "/v1/transcripts", tag = "transcripts", operation_id = "listTranscripts", params(ListQuery),
    responses((status = 200, body = TranscriptPage), Invalid, Unauthorized, AnyError), security(("bearer" = [])))]
pub(crate) async fn list(
    State(app): State<App>,
    identity: Identity,
    Query(query): Query<ListQuery>,
) -> Result<Answer<TranscriptPage>, Failure> {
    if query.page < 1 {
        return Err(Failure::invalid("`page` must be 1 or more"));
    }
    if !(1..=100).contains(&query.per_page) {
        return Err(Failure::invalid("`per_page` must be a number from 1 to 100"));
    }
    let filter = TranscriptFilter {
        page: query.page,
        per_page: query.per_page,
        status: query.status.map(|status| match status {
            TranscriptStatus::Queued => Status::Queued,
            TranscriptStatus::Processing => Status::Processing,
            TranscriptStatus::Completed => Status::Completed,
            TranscriptStatus::Failed => Status::Failed,
        }),
        language: query.language.filter(|language| !language.is_empty()),
        created_after: query.created_after.map(|moment| moment.0),
        created_before: query.created_before.map(|moment| moment.0),
    };
    let page = app.store.transcripts().list(identity.account(), &filter).await?;
    let transcripts = page.transcripts.into_iter().map(|transcript| TranscriptSummary {
        id: transcript.id.0,
        title: transcript.title,
        status: wire_status(transcript.status),
        language: wire_language(transcript.language),
        duration_seconds: transcript.duration_seconds,
        word_count: transcript.word_count,
        source_type: transcript.source_type,
        created_at: DateTime(transcript.created_at),
        share_token: transcript.share_token,
    });
    Ok(Answer(TranscriptPage {
        transcripts: transcripts.collect(),
        total: page.total,
        page: query.page,
        per_page: query.per_page,
    }))
}
