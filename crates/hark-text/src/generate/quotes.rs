//! Key quotes: the model says which sentences, the text has their words. So every quote is verbatim.

use serde::Serialize;
use serde_json::{Value, json};

use crate::context::{self, Context};
use crate::error::TextError;
use crate::extract;
use crate::generate::clock;
use crate::prompt::Prompt;
use crate::schema;
use crate::sentences;
use crate::source::{Source, Unit};
use crate::summarize::noun;
use crate::words;

/// Something that was said, word by word.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct KeyQuote {
    /// As it stands in the text.
    pub quote: String,
    /// Who said it, where that is known.
    pub speaker: Option<String>,
    /// Seconds from the start of the recording; null for a text.
    pub start: Option<f64>,
}

/// Quotes of an answer.
const MOST_QUOTES: usize = 10;

/// Quotes of one part.
const MOST_OF_PART: usize = 5;

/// Tokens of a part's answer: numbers only.
const MAX_TOKENS: usize = 64;

/// Tokens of a part.
const PART_TOKENS: usize = 1400;

/// Words that a quote has at least and at most.
const WORDS: std::ops::RangeInclusive<usize> = 6..=70;

pub(super) fn item_schema() -> Value {
    schema::object(&[
        ("quote", json!({"type": "string", "minLength": 1})),
        ("speaker", json!({"type": ["string", "null"]})),
        ("start", json!({"type": ["number", "null"], "minimum": 0})),
    ])
}

pub(super) async fn key_quotes(context: &Context<'_>, source: &Source) -> Result<(Vec<KeyQuote>, usize), TextError> {
    // Numbers and labels of short lines take as much again.
    let most = context.part_budget(MAX_TOKENS)? / 2;
    let parts = context.parts(source, MAX_TOKENS, PART_TOKENS.min(most))?;
    context.expect(parts.len());
    let found = parts.iter().map(|part| async {
        let units: Vec<&Unit> = source.units()[part.units.clone()].iter().filter(|unit| is_quotable(source, unit)).collect();
        if units.is_empty() {
            return Ok(Vec::new());
        }
        let mut text = String::new();
        for (at, unit) in units.iter().enumerate() {
            let speaker = unit.speaker.as_ref().map(|name| format!("{name}: ")).unwrap_or_default();
            text.push_str(&format!("[{}] {speaker}{}\n", at + 1, source.content(unit).replace(['\n', '\r'], " ")));
        }
        let task = format!(
            "Choose the {} most quotable lines: strong opinions, decisions, surprising facts, memorable words. Not greetings, not questions. \
             Answer with their numbers, the best first, in JSON: {{\"items\": [numbers]}}.",
            MOST_OF_PART.min(units.len())
        );
        let prompt = Prompt { noun: noun(source), text: &text, task, language: source.language() };
        let numbers = context.items::<usize>(&prompt, schema::integer(1, units.len()), MOST_OF_PART, MAX_TOKENS, 0).await?;
        Ok(numbers.into_iter().filter_map(|number| Some(units.get(number.checked_sub(1)?)?.index)).collect::<Vec<_>>())
    });
    let found = context::all(found.collect()).await?;
    Ok((choose(source, &found), parts.len()))
}

fn is_quotable(source: &Source, unit: &Unit) -> bool {
    let content = source.content(unit);
    content.len() < 2000 && WORDS.contains(&sentences::count_words(content))
}

/// The best of every part before the second best of any, each once, then in the order of the text.
fn choose(source: &Source, found: &[Vec<usize>]) -> Vec<KeyQuote> {
    let mut chosen: Vec<usize> = Vec::new();
    for rank in 0..MOST_OF_PART {
        for unit in found.iter().filter_map(|part| part.get(rank)) {
            let text = |unit: usize| words::normalize(source.content(&source.units()[unit]));
            if chosen.len() < MOST_QUOTES && chosen.iter().all(|other| text(*other) != text(*unit)) {
                chosen.push(*unit);
            }
        }
    }
    if chosen.is_empty() {
        chosen = extract::central_units(source, 3);
    }
    chosen.sort_unstable();
    let quote = |at: usize| {
        let unit = &source.units()[at];
        KeyQuote { quote: source.content(unit).to_owned(), speaker: unit.speaker.clone(), start: unit.start }
    };
    chosen.into_iter().map(quote).collect()
}

pub(super) fn to_markdown(quotes: &[KeyQuote]) -> String {
    let quote = |quote: &KeyQuote| {
        let who: Vec<String> = quote.speaker.iter().cloned().chain(quote.start.map(clock)).collect();
        let who = if who.is_empty() { String::new() } else { format!("\n> — {}", who.join(", ")) };
        format!("> {}{who}", quote.quote.replace('\n', "\n> "))
    };
    quotes.iter().map(quote).collect::<Vec<_>>().join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_are_chosen_from_every_part_and_given_in_order() {
        let text = "First sentence here. Second sentence here. Third one. Second sentence here. Fifth.";
        let source = Source::from_text(text);
        let quotes = choose(&source, &[vec![1, 0], vec![3, 4]]);
        let texts: Vec<_> = quotes.iter().map(|quote| quote.quote.as_str()).collect();
        assert_eq!(texts, ["First sentence here.", "Second sentence here.", "Fifth."]);
        assert!(texts.iter().all(|quote| text.contains(quote)));
        assert!(!choose(&source, &[]).is_empty());
    }
}
