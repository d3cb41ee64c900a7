//! Answers from all transcripts of an account: from the passages that search finds.

use hark_api::{ChatSource, Segment};
use hark_text::ask::{AnswerSource, Excerpt, Question, ask, not_found, within_budget};
use hark_text::{Context, Source};

use super::Found;
use crate::app::App;
use crate::error::Failure;
use crate::middleware::Identity;
use crate::search::{Hit, SearchQuery, search};
use crate::text_work::failure;

/// Passages that are asked for; those that do not fit a prompt are left out.
const PASSAGES: usize = 10;

/// Answers a question from the transcripts of an account.
pub(super) async fn answer(
    app: &App,
    identity: &Identity,
    context: &Context<'_>,
    question: &Question<'_>,
    on_text: &(dyn Fn(&str) + Send + Sync),
) -> Result<Found, Failure> {
    let hits = find(app, identity, question).await?;
    let sources: Vec<Source> = hits.iter().map(source).collect();
    let excerpts = hits
        .iter()
        .zip(&sources)
        .map(|(hit, source)| Excerpt { title: Some(&hit.transcript.title), ..Excerpt::whole(source) });
    let mut excerpts = within_budget(context, excerpts.collect(), question).map_err(failure)?;
    // A talk is read in its order.
    let place = |excerpt: &Excerpt<'_>| sources.iter().position(|source| std::ptr::eq(source, excerpt.source));
    let order = |excerpt: &Excerpt<'_>| {
        let passage = place(excerpt).map(|at| &hits[at].passage);
        passage.map(|passage| (passage.transcript, passage.segments.first().map(|segment| segment.position)))
    };
    excerpts.sort_by_key(order);
    if excerpts.is_empty() {
        let answer = not_found(question);
        on_text(&answer.text);
        return Ok(Found { answer, sources: Vec::new() });
    }
    let answer = ask(context, &excerpts, question, on_text).await.map_err(failure)?;
    let found = answer.sources.iter().filter_map(|found| chat_source(&hits[place(&excerpts[found.excerpt])?], found));
    let sources = found.collect();
    Ok(Found { answer, sources })
}

/// The passages that say something about a question.
async fn find(app: &App, identity: &Identity, question: &Question<'_>) -> Result<Vec<Hit>, Failure> {
    // Quotation marks of a question ask for no phrase.
    let text = question.retrieval_query().replace(['"', '“', '”', '„'], " ");
    let query = SearchQuery { text, limit: PASSAGES, ..SearchQuery::default() };
    Ok(search(app, identity, &query).await?.hits)
}

/// A passage as a source of its own: each of its segments is a unit.
fn source(hit: &Hit) -> Source {
    let segments = hit.passage.segments.iter().map(|segment| Segment {
        start: segment.start,
        end: segment.end,
        text: segment.text.clone(),
        speaker: segment.speaker.as_ref().map(|label| hit.speaker(label)),
        ..Segment::default()
    });
    Source::from_segments(&segments.collect::<Vec<_>>(), &hit.transcript.language)
}

fn chat_source(hit: &Hit, found: &AnswerSource) -> Option<ChatSource> {
    let segment = hit.passage.segments.get(found.unit)?;
    Some(ChatSource {
        text: segment.text.clone(),
        speaker: segment.speaker.as_ref().map(|label| hit.speaker(label)),
        start_time: segment.start,
        end_time: segment.end,
        relevance: found.relevance as f32,
        segment_order: segment.position,
        score: found.relevance as f32,
        transcript_id: hit.passage.transcript.0,
    })
}
