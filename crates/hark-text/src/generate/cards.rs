//! Flashcards.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::context::{self, Context};
use crate::error::TextError;
use crate::extract;
use crate::facts::FactChecker;
use crate::prompt::Prompt;
use crate::schema;
use crate::source::Source;
use crate::summarize::noun;
use crate::words;

/// A card to learn with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Flashcard {
    /// A question or a term.
    pub front: String,
    /// The answer or the explanation.
    pub back: String,
}

/// Cards of an answer.
pub(super) const MOST_ITEMS: usize = 20;

/// Tokens of a part's answer.
const MAX_TOKENS: usize = 700;

/// Tokens of a part.
const PART_TOKENS: usize = 1800;

/// What a model finds: the names sort in the order in which it should think.
#[derive(Debug, Deserialize)]
struct Found {
    question: String,
    reply: String,
}

pub(super) fn item_schema() -> Value {
    let text = json!({"type": "string", "minLength": 1});
    schema::object(&[("front", text.clone()), ("back", text)])
}

/// How many items each of `parts` parts gives, so that the whole has neither too few nor too many.
pub(super) fn items_of_part(parts: usize) -> usize {
    MOST_ITEMS.div_ceil(parts).clamp(2, 8)
}

/// A question whose answer the text does not have, or that asks for nothing.
pub(super) fn is_usable(question: &str, answer: &str, checker: &FactChecker) -> bool {
    let is_blank = |text: &str| !text.chars().any(char::is_alphanumeric);
    !is_blank(question)
        && !is_blank(answer)
        && words::normalize(question) != words::normalize(answer)
        && checker.unfounded(answer).is_none()
        && checker.unfounded(question).is_none()
        && checker.index().coverage(answer) >= 0.5
}

pub(super) async fn flashcards(context: &Context<'_>, source: &Source) -> Result<(Vec<Flashcard>, usize), TextError> {
    let parts = context.parts(source, MAX_TOKENS, PART_TOKENS)?;
    let most = items_of_part(parts.len());
    context.expect(parts.len());
    let found = parts.iter().map(|part| async move {
        let text = source.render(part.units.clone(), part.span.clone());
        let task = format!(
            "Make {most} flashcards about its most important facts. Each has a question that can be understood without the text, and a reply of one \
             short sentence or a few words that stands in the text. Answer in JSON: {{\"items\": [{{\"question\": …, \"reply\": …}}]}}."
        );
        let prompt = Prompt { noun: noun(source), text: &text, task, language: source.language() };
        let item = schema::object(&[("question", schema::string(200)), ("reply", schema::string(240))]);
        context.items::<Found>(&prompt, item, most, MAX_TOKENS, 0).await
    });
    let found = context::all(found.collect()).await?;
    let checker = FactChecker::new(source);
    let mut cards: Vec<Flashcard> = Vec::new();
    for Found { question, reply } in found.into_iter().flatten() {
        let is_known = cards.iter().any(|card| words::similarity(&card.front, &question) >= 0.7);
        if !is_known && is_usable(&question, &reply, &checker) && cards.len() < MOST_ITEMS {
            cards.push(Flashcard { front: question.trim().to_owned(), back: reply.trim().to_owned() });
        }
    }
    if cards.is_empty() {
        cards = gaps(source);
    }
    Ok((cards, parts.len()))
}

/// Sentences of the text with a gap, and the word that fills it: for a model whose cards are all unfounded.
fn gaps(source: &Source) -> Vec<Flashcard> {
    let card = |sentence: String| {
        let longest = sentence.split_whitespace().max_by_key(|word| word.chars().count())?.to_owned();
        let word = longest.trim_matches(|c: char| !c.is_alphanumeric()).to_owned();
        let front = sentence.replacen(&word, "____", 1);
        (!word.is_empty()).then_some(Flashcard { front, back: word })
    };
    let cards: Vec<Flashcard> = extract::extract(source, 5, 240).into_iter().filter_map(card).collect();
    if cards.is_empty() {
        let text = extract::shorten(source.text(), 240);
        return vec![Flashcard { front: text.clone(), back: text }];
    }
    cards
}

pub(super) fn to_markdown(cards: &[Flashcard]) -> String {
    let card = |card: &Flashcard| format!("**{}**\n\n{}", card.front, card.back);
    cards.iter().map(card).collect::<Vec<_>>().join("\n\n---\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_made_of_the_texts_own_words() {
        let source = Source::from_text("The committee approved the expenditure. Good.");
        let cards = gaps(&source);
        assert_eq!(
            cards[0],
            Flashcard { front: "The committee approved the ____.".into(), back: "expenditure".into() }
        );
    }

    #[test]
    fn a_card_whose_answer_is_not_in_the_text_is_unusable() {
        let source = Source::from_text("The committee approved 40 seats for the Lisbon office.");
        let checker = FactChecker::new(&source);
        assert!(is_usable("How many seats were approved?", "40 seats", &checker));
        assert!(!is_usable("How many seats were approved?", "45 seats", &checker));
        assert!(!is_usable("Where is the office?", "In Porto", &checker));
        assert!(!is_usable("Where?", "where", &checker));
    }
}
