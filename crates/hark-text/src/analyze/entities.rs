//! People, organizations, places and other names in a text, counted in it.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::context::{self, Context};
use crate::error::TextError;
use crate::prompt::Prompt;
use crate::schema;
use crate::source::Source;
use crate::summarize::noun;
use crate::words::{self, NameIndex};

/// The names in a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Entities {
    /// The most frequent first.
    pub entities: Vec<Entity>,
}

/// A name in a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Entity {
    /// As the text writes it.
    pub text: String,
    /// One of [`ENTITY_TYPES`].
    pub r#type: String,
    /// How often it stands in the text.
    pub count: usize,
}

/// The types of entities.
pub const ENTITY_TYPES: &[&str] = &[
    "person",
    "organization",
    "location",
    "date",
    "time",
    "product",
    "event",
    "money",
    "percent",
    "work",
    "law",
    "other",
];

/// Tokens of a part: in longer ones a small model overlooks names.
const PART_TOKENS: usize = 900;

/// Names of one part.
const MOST_OF_PART: usize = 30;

/// Tokens of an answer.
const MAX_TOKENS: usize = 700;

pub(super) fn item_schema() -> Value {
    schema::object(&[
        ("text", json!({"type": "string", "minLength": 1})),
        ("type", schema::one_of(ENTITY_TYPES)),
        ("count", json!({"type": "integer", "minimum": 1})),
    ])
}

#[derive(Deserialize)]
struct Found {
    name: String,
    r#type: String,
}

pub(super) async fn entities(context: &Context<'_>, source: &Source) -> Result<(Entities, usize), TextError> {
    let parts = context.parts(source, MAX_TOKENS, PART_TOKENS)?;
    context.expect(parts.len());
    let found = parts.iter().map(|part| async {
        let text = source.render(part.units.clone(), part.span.clone());
        let task = "List the proper names and dates that stand in it: people, organizations, places, products, events, dates and amounts of money. \
                    Copy each exactly as it is written and give its type. List each once. Leave out pronouns and common words. \
                    Answer in JSON: {\"items\": [{\"name\": …, \"type\": …}]}.";
        let prompt = Prompt { noun: noun(source), text: &text, task: task.into(), language: source.language() };
        let item = schema::object(&[("name", schema::string(64)), ("type", schema::one_of(ENTITY_TYPES))]);
        context.items::<Found>(&prompt, item, MOST_OF_PART, MAX_TOKENS, 0).await
    });
    let found = context::all(found.collect()).await?;
    // Speaker labels are names too, though they stand beside the text.
    let labels = if source.is_transcript() { source.speakers().join("\n") } else { String::new() };
    let text = format!("{}\n{labels}", source.text());
    let index = NameIndex::new(&text);
    let mut types: HashMap<String, HashMap<String, usize>> = HashMap::new();
    let mut order: Vec<(String, String)> = Vec::new();
    for found in found.into_iter().flatten() {
        let name = found.name.trim().trim_matches(['"', '“', '”', '.', ',']).trim().to_owned();
        let key = words::normalize(&name);
        if !is_name(&name, &key, &found.r#type) || !index.has(&name) {
            continue;
        }
        if !types.contains_key(&key) {
            order.push((key.clone(), name));
        }
        *types.entry(key).or_default().entry(found.r#type).or_insert(0) += 1;
    }
    let mut entities: Vec<Entity> = order
        .into_iter()
        .map(|(key, name)| {
            let votes = &types[&key];
            let most = votes.iter().max_by(|one, other| one.1.cmp(other.1).then(other.0.cmp(one.0)));
            let r#type = most.map_or_else(|| "other".into(), |(name, _)| name.clone());
            let written = index.as_written(&name, source.text().len()).unwrap_or(&name);
            Entity { count: index.count(&name), text: written.to_owned(), r#type }
        })
        .collect();
    entities.sort_by(|one, other| other.count.cmp(&one.count).then_with(|| one.text.cmp(&other.text)));
    Ok((Entities { entities }, parts.len()))
}

/// A name has a capital letter or a digit, where its script has capitals; a date or an amount may have none ("next Friday" has one).
fn is_name(name: &str, key: &str, r#type: &str) -> bool {
    let has_case = name.chars().any(|c| c.is_lowercase() || c.is_uppercase());
    let is_marked = name.chars().any(|c| c.is_uppercase() || c.is_numeric());
    let may_be_plain = matches!(r#type, "date" | "time" | "money" | "percent");
    !key.is_empty() && !key.split(' ').all(words::is_stop_word) && (is_marked || !has_case || may_be_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_marked_as_one() {
        assert!(is_name("Maria", "maria", "person"));
        assert!(is_name("预算", "预算", "other"));
        assert!(is_name("next week", "next week", "date"));
        assert!(!is_name("the", "the", "date") && !is_name("meeting", "meeting", "event"));
    }
}
