//! `GET /v1/search`.

use axum::Json as Answer;
use axum::extract::State;
use hark_api::{DateTime, SearchAnswer, SearchHit, SearchMode};
use hark_store::{SearchFilter, TranscriptId};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::app::App;
use crate::error::Failure;
use crate::extract::Query;
use crate::metrics::text::{Outcome, TextTimer};
use crate::middleware::Identity;
use crate::routes::transcripts::list::date_or_date_time;
use crate::routes::{AnyError, Invalid, Limited, Missing, Unauthorized, Unavailable};
use crate::search::{Hit, MAX_RANKED, SearchQuery, search};

/// What the metrics call it.
const TASK: &str = "search";
/// The longest query, in characters.
const MAX_QUERY: usize = 1000;

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct SearchParams {
    /// Words or a question; words in double quotes must follow each other.
    #[serde(default)]
    #[param(required = true, min_length = 1, max_length = 1000, pattern = r"\S")]
    q: String,
    /// Compare words, meanings, or both.
    #[serde(default)]
    #[param(inline)]
    mode: SearchMode,
    /// The most passages to return.
    #[serde(default = "default_limit")]
    #[param(minimum = 1, maximum = 100, default = 20)]
    limit: i64,
    /// Passages to skip.
    #[serde(default)]
    #[param(minimum = 0, maximum = 200, default = 0)]
    offset: i64,
    /// Only in this transcript.
    transcript_id: Option<i64>,
    /// Only in transcripts in this language.
    language: Option<String>,
    /// Only in transcripts uploaded at this moment or later: a date or a date-time.
    #[param(schema_with = date_or_date_time)]
    created_after: Option<DateTime>,
    /// Only in transcripts uploaded before this moment: a date or a date-time.
    #[param(schema_with = date_or_date_time)]
    created_before: Option<DateTime>,
}

fn default_limit() -> i64 {
    20
}

/// Search the transcripts of the account
///
/// Returns passages, best first. By words every form of a word is found, by meaning also other words that say the same. Where the query can't be compared by meaning,
/// `mode=all` compares words alone, as `mode` of the answer says; `mode=meaning` is refused.
#[utoipa::path(get, path = "/v1/search", tag = "transcripts", operation_id = "search", params(SearchParams),
    responses((status = 200, body = SearchAnswer), Invalid, Unauthorized, Missing, Limited, Unavailable, AnyError),
    security(("bearer" = [])))]
pub(crate) async fn find(
    State(app): State<App>,
    identity: Identity,
    Query(params): Query<SearchParams>,
) -> Result<Answer<SearchAnswer>, Failure> {
    let text = params.q.trim();
    if text.is_empty() {
        return Err(Failure::invalid("`q` is missing: say what to search for"));
    }
    if params.q.chars().count() > MAX_QUERY {
        return Err(Failure::invalid(format!("`q` may have {MAX_QUERY} characters")));
    }
    if !(1..=100).contains(&params.limit) {
        return Err(Failure::invalid("`limit` must be a number from 1 to 100"));
    }
    let offset = usize::try_from(params.offset).ok().filter(|offset| *offset <= MAX_RANKED);
    let offset = offset.ok_or_else(|| Failure::invalid(format!("`offset` must be a number from 0 to {MAX_RANKED}")))?;
    let transcript = params.transcript_id.map(TranscriptId);
    if let Some(id) = transcript {
        app.store.transcripts().get(identity.account(), id).await?;
    }
    let query = SearchQuery {
        text: text.to_owned(),
        mode: params.mode,
        filter: SearchFilter {
            transcript,
            language: params.language.filter(|language| !language.is_empty()),
            created_after: params.created_after.map(|moment| moment.0),
            created_before: params.created_before.map(|moment| moment.0),
        },
        offset,
        limit: usize::try_from(params.limit).unwrap_or(1),
    };
    let timer = TextTimer::start(&app.metrics, TASK);
    let found = search(&app, &identity, &query).await;
    timer.end(Outcome::of(&found));
    let found = found?;
    let counts = app.store.search().counts(identity.account()).await?;
    Ok(Answer(SearchAnswer {
        hits: found.hits.into_iter().map(wire).collect(),
        more: found.more,
        mode: found.mode,
        indexed: counts.indexed,
        pending: counts.pending,
    }))
}

fn wire(hit: Hit) -> SearchHit {
    let first = hit.passage.segment_at(0);
    SearchHit {
        transcript_id: hit.passage.transcript.0,
        start_time: first.map_or(0.0, |segment| segment.start),
        end_time: hit.passage.segments.last().map_or(0.0, |segment| segment.end),
        speaker: first.and_then(|segment| segment.speaker.as_deref()).map(|label| hit.speaker(label)),
        segment_order: first.map_or(0, |segment| segment.position),
        title: hit.transcript.title,
        created_at: DateTime(hit.transcript.created_at),
        text: hit.text,
        highlights: hit.highlights,
        score: hit.score,
    }
}
