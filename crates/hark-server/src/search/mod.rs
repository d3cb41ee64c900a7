//! Search over the transcripts of an account, by words and by meaning.
//!
//! The store's index gives candidates; those with words are ranked by BM25 on their text, those by meaning by the cosine of their vectors, and both rankings
//! are fused by reciprocal rank. The result is the same on both databases.

mod ranking;

use std::collections::HashMap;

use hark_api::{SearchHighlight, SearchMode};
use hark_store::{FoundPassage, PassageId, SearchFilter, SearchedTranscript, TranscriptId};
use hark_text::retrieve::{Ranked, fuse};

use crate::app::App;
use crate::embeddings::embed_query;
use crate::error::Failure;
use crate::middleware::{Caller, Identity};
use ranking::Words;

/// Passages of each ranking. More are not looked at, so pages end there.
pub(crate) const MAX_RANKED: usize = 200;
/// The least cosine of a passage that is found by its meaning: below it passages are about something else.
const MIN_COSINE: f64 = 0.2;

/// A search.
#[derive(Debug, Clone, Default)]
pub(crate) struct SearchQuery {
    /// Words, or a question; what is in double quotes must stand in a passage.
    pub(crate) text: String,
    pub(crate) mode: SearchMode,
    pub(crate) filter: SearchFilter,
    /// Passages to skip.
    pub(crate) offset: usize,
    /// The most passages to return.
    pub(crate) limit: usize,
}

/// What was found.
#[derive(Debug)]
pub(crate) struct SearchResult {
    /// Passages, best first.
    pub(crate) hits: Vec<Hit>,
    /// Whether there are more.
    pub(crate) more: bool,
    /// What was compared.
    pub(crate) mode: SearchMode,
}

/// A passage that was found.
#[derive(Debug, Clone)]
pub(crate) struct Hit {
    /// The passage; speakers of its segments are labels, see [`Hit::speaker`].
    pub(crate) passage: FoundPassage,
    /// The transcript that it is from.
    pub(crate) transcript: SearchedTranscript,
    /// The text of the passage.
    pub(crate) text: String,
    /// Where the words of the query stand in the text.
    pub(crate) highlights: Vec<SearchHighlight>,
    /// Only comparable within one search.
    pub(crate) score: f64,
}

impl Hit {
    /// The name of a speaker, or the label of one without a name.
    pub(crate) fn speaker(&self, label: &str) -> String {
        self.transcript.speakers.get(label).map_or(label, String::as_str).to_owned()
    }
}

/// Searches the transcripts of an account.
pub(crate) async fn search(app: &App, identity: &Identity, query: &SearchQuery) -> Result<SearchResult, Failure> {
    let account = identity.account();
    let words = Words::parse(&query.text);
    // A phrase is about words: meanings would add passages without it.
    let wants_meaning = match query.mode {
        SearchMode::Text => false,
        SearchMode::Meaning => true,
        SearchMode::All => !words.has_phrases() && app.engines.embed().is_ok(),
    };
    let mut texts: HashMap<PassageId, FoundPassage> = HashMap::new();
    let mut rankings: Vec<Vec<(PassageId, f64)>> = Vec::new();
    if query.mode != SearchMode::Meaning && !words.terms.is_empty() {
        let required = words.required();
        let candidates =
            app.store.search().candidates(account, &words.terms, &required, &query.filter, MAX_RANKED).await?;
        let mut ranked = Vec::new();
        for passage in app.store.search().passages(account, &candidates.passages).await? {
            if let Some(score) = words.score(&passage.text(), &candidates).filter(|score| *score > 0.0) {
                ranked.push((passage.id, score));
                texts.insert(passage.id, passage);
            }
        }
        ranked.sort_by(|one, other| other.1.total_cmp(&one.1).then(other.0.cmp(&one.0)));
        rankings.push(ranked);
    }
    let embedded = match wants_meaning {
        true => match embed_query(app, &Caller::Account(identity.clone()), query.text.clone()).await {
            Ok(embedded) => Some(embedded),
            // Words are an answer, too, unless meanings alone were asked for.
            Err(failure) if query.mode == SearchMode::All => {
                tracing::warn!(error = %failure.error.message, "search.query_not_embedded");
                None
            }
            Err(failure) => return Err(failure),
        },
        false => None,
    };
    let mode = if query.mode == SearchMode::All && embedded.is_none() { SearchMode::Text } else { query.mode };
    if let Some(embedded) = embedded {
        let vector = embedded.vectors.into_iter().next().unwrap_or_default();
        let nearest = app.store.search().nearest(account, &embedded.model, &vector, &query.filter, MAX_RANKED).await?;
        let near = nearest.into_iter().filter(|one| one.cosine >= MIN_COSINE);
        rankings.push(near.map(|one| (one.passage, one.cosine)).collect());
    }
    let ranked = combine(rankings);
    let more = ranked.len() > query.offset.saturating_add(query.limit);
    let page: Vec<(PassageId, f64)> = ranked.into_iter().skip(query.offset).take(query.limit).collect();
    let missing: Vec<PassageId> = page.iter().map(|(id, _)| *id).filter(|id| !texts.contains_key(id)).collect();
    for passage in app.store.search().passages(account, &missing).await? {
        texts.insert(passage.id, passage);
    }
    let found: Vec<(FoundPassage, f64)> =
        page.into_iter().filter_map(|(id, score)| Some((texts.remove(&id)?, score))).collect();
    let mut ids: Vec<TranscriptId> = found.iter().map(|(passage, _)| passage.transcript).collect();
    ids.sort_unstable();
    ids.dedup();
    let transcripts = app.store.search().transcripts(account, &ids).await?;
    let hits = found.into_iter().filter_map(|(passage, score)| {
        let transcript = transcripts.get(&passage.transcript)?.clone();
        let text = passage.text();
        let highlights = highlights(&words, &passage, &text);
        Some(Hit { passage, transcript, text, highlights, score })
    });
    Ok(SearchResult { hits: hits.collect(), more, mode })
}

/// One ranking of one or two, best first. Scores of a single ranking stay as they are.
fn combine(mut rankings: Vec<Vec<(PassageId, f64)>>) -> Vec<(PassageId, f64)> {
    if rankings.len() < 2 {
        return rankings.pop().unwrap_or_default();
    }
    // By id, so that equal scores have one order.
    let mut ids: Vec<PassageId> = rankings.iter().flatten().map(|(id, _)| *id).collect();
    ids.sort_unstable_by(|one, other| other.cmp(one));
    ids.dedup();
    let places: HashMap<PassageId, usize> = ids.iter().enumerate().map(|(place, id)| (*id, place)).collect();
    let ranking = |ranked: &Vec<(PassageId, f64)>| -> Vec<Ranked> {
        ranked.iter().map(|(id, score)| Ranked { index: places[id], score: *score }).collect()
    };
    let fused = fuse(&rankings.iter().map(ranking).collect::<Vec<_>>());
    fused.into_iter().map(|ranked| (ids[ranked.index], ranked.score)).collect()
}

fn highlights(words: &Words, passage: &FoundPassage, text: &str) -> Vec<SearchHighlight> {
    let (mut byte, mut characters) = (0, 0);
    let mut count_to = |to: usize| {
        characters += text[byte..to].chars().count();
        byte = to;
        characters
    };
    let places = words.places(text).into_iter().map(|place| SearchHighlight {
        start_time: passage.segment_at(place.start).map_or(0.0, |segment| segment.start),
        start: count_to(place.start),
        end: count_to(place.end),
    });
    places.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_passage_of_both_rankings_comes_first_and_a_single_ranking_keeps_its_scores() {
        let ranking = |ids: &[i64]| ids.iter().map(|id| (PassageId(*id), 0.5)).collect::<Vec<_>>();
        let order = |ranked: Vec<(PassageId, f64)>| ranked.into_iter().map(|(id, _)| id.0).collect::<Vec<_>>();
        assert_eq!(order(combine(vec![ranking(&[4, 2, 7]), ranking(&[9, 2])])), [2, 9, 4, 7]);
        assert_eq!(combine(vec![ranking(&[3, 1])]), ranking(&[3, 1]));
        assert_eq!(combine(Vec::new()), []);
    }
}
