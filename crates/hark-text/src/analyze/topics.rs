//! What a text is about.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::context::{self, Context};
use crate::error::TextError;
use crate::extract;
use crate::names;
use crate::prompt::Prompt;
use crate::schema;
use crate::source::Source;
use crate::words::{self, TextIndex};

/// What a text is about.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Topics {
    /// The most relevant first.
    pub topics: Vec<Topic>,
}

/// A subject of a text.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Topic {
    /// A few words.
    pub name: String,
    /// How much of the text it is about beside the main subject, which has 1.
    pub relevance: f64,
}

/// Topics of an answer.
pub(super) const MOST_TOPICS: usize = 10;

/// Topics of one part.
const TOPICS_OF_PART: usize = 6;

/// Tokens of an answer.
const MAX_TOKENS: usize = 200;

pub(super) fn item_schema() -> Value {
    schema::object(&[
        ("name", json!({"type": "string", "minLength": 1})),
        ("relevance", json!({"type": "number", "minimum": 0, "maximum": 1})),
    ])
}

#[derive(Deserialize)]
struct Found {
    subject: String,
}

pub(super) async fn topics(context: &Context<'_>, source: &Source) -> Result<(Topics, usize), TextError> {
    let parts = context.parts(source, MAX_TOKENS, usize::MAX)?;
    context.expect(parts.len());
    let found = parts.iter().map(|part| async {
        // Beside a transcript with its speakers a small model lists people.
        let text = source.render_without_speakers(part.units.clone(), part.span.clone());
        let task = "What is it about? List its 3 to 6 main subjects, the most important first. A subject is a noun phrase of 2 to 4 words, like the heading \
                    of a chapter. People are not subjects. Answer in JSON: {\"items\": [{\"subject\": …}]}.";
        let prompt = Prompt { noun: "text", text: &text, task: task.into(), language: source.language() };
        let item = schema::object(&[("subject", schema::string(48))]);
        context.items::<Found>(&prompt, item, TOPICS_OF_PART, MAX_TOKENS, 0).await
    });
    let found = context::all(found.collect()).await?;
    let index = TextIndex::new(source.text());
    let total: usize = parts.iter().map(|part| part.span.len()).sum();
    let mut merged: Vec<(String, f64)> = Vec::new();
    for (part, names) in parts.iter().zip(found) {
        let share = part.span.len() as f64 / total.max(1) as f64;
        for (rank, name) in names.into_iter().map(|found| found.subject.trim().to_owned()).enumerate() {
            // Half of its words must stand in the text: a subject may be named more generally than it was said.
            if name.is_empty() || is_person(source, &name) || index.coverage(&name) < 0.5 {
                continue;
            }
            let weight = share / (1.0 + rank as f64 * 0.35);
            let same = merged
                .iter_mut()
                .find(|(other, _)| words::similarity(other, &name) >= 0.6 || other.eq_ignore_ascii_case(&name));
            match same {
                Some((_, sum)) => *sum += weight,
                None => merged.push((name, weight)),
            }
        }
    }
    if merged.is_empty() {
        merged = keywords(source);
    }
    merged.sort_by(|one, other| other.1.total_cmp(&one.1));
    let most = merged.first().map_or(1.0, |(_, weight)| *weight);
    let topic = |(name, weight): (String, f64)| Topic { name, relevance: (weight / most * 100.0).round() / 100.0 };
    Ok((Topics { topics: merged.into_iter().take(MOST_TOPICS).map(topic).collect() }, parts.len()))
}

/// Small models list the speakers whatever they are asked for.
fn is_person(source: &Source, name: &str) -> bool {
    let key = words::normalize(name);
    source.speakers().iter().any(|speaker| words::normalize(speaker) == key) || names::is_given_name(&key)
}

/// The most frequent content words: for a model whose subjects are not in the text.
fn keywords(source: &Source) -> Vec<(String, f64)> {
    let mut counts = std::collections::HashMap::<String, f64>::new();
    for unit in extract::central_units(source, 50) {
        for word in words::content_words(source.content(&source.units()[unit])) {
            if word.chars().count() > 3 {
                *counts.entry(word).or_insert(0.0) += 1.0;
            }
        }
    }
    let mut counts: Vec<(String, f64)> = counts.into_iter().collect();
    counts.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
    counts.truncate(TOPICS_OF_PART);
    counts
}
