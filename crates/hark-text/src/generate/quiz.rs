//! Quizzes: questions with four choices of which one is right.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::context::{self, Context};
use crate::error::TextError;
use crate::facts::FactChecker;
use crate::generate::cards::{self, MOST_ITEMS, items_of_part};
use crate::prompt::Prompt;
use crate::schema;
use crate::source::Source;
use crate::summarize::noun;
use crate::words;

/// A question with four choices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct QuizQuestion {
    /// What is asked.
    pub question: String,
    /// Four answers, one of them right.
    pub choices: Vec<String>,
    /// The right one of the choices.
    pub answer: String,
}

/// Choices of a question.
const CHOICES: usize = 4;

/// Characters of an answer; one that reaches them was cut off.
const MAX_ANSWER: usize = 80;

/// Tokens of a part's answer.
const MAX_TOKENS: usize = 900;

/// Tokens of a part.
const PART_TOKENS: usize = 1800;

/// What a model finds: the names sort in the order in which it should think.
#[derive(Debug, Deserialize)]
struct Found {
    question: String,
    right: String,
    wrong: Vec<String>,
}

pub(super) fn item_schema() -> Value {
    let text = json!({"type": "string", "minLength": 1});
    schema::object(&[
        ("question", text.clone()),
        ("choices", json!({"type": "array", "items": text, "minItems": CHOICES, "maxItems": CHOICES})),
        ("answer", text),
    ])
}

pub(super) async fn quiz(context: &Context<'_>, source: &Source) -> Result<(Vec<QuizQuestion>, usize), TextError> {
    let parts = context.parts(source, MAX_TOKENS, PART_TOKENS)?;
    let most = items_of_part(parts.len()).min(6);
    context.expect(parts.len());
    let checker = FactChecker::new(source);
    let mut questions: Vec<QuizQuestion> = Vec::new();
    for attempt in 0..2 {
        let found = parts.iter().map(|part| async move {
            let text = source.render(part.units.clone(), part.span.clone());
            let task = format!(
                "Make a quiz of {most} questions about its facts. Each has the right answer, of 1 to 6 words that stand in the text, and 3 wrong answers \
                 of the same kind that differ from it and from each other. Answer in JSON: {{\"items\": [{{\"question\": …, \"right\": …, \"wrong\": [3 texts]}}]}}."
            );
            let prompt = Prompt { noun: noun(source), text: &text, task, language: source.language() };
            let wrong = json!({"type": "array", "items": schema::string(MAX_ANSWER), "minItems": CHOICES - 1, "maxItems": CHOICES - 1});
            let item = schema::object(&[("question", schema::string(200)), ("right", schema::string(MAX_ANSWER)), ("wrong", wrong)]);
            context.items::<Found>(&prompt, item, most, MAX_TOKENS, attempt).await
        });
        let found: Vec<Found> = context::all(found.collect()).await?.into_iter().flatten().collect();
        // Right answers to other questions can be wrong ones here; words of the text only where nothing else is left.
        let mut fillers: Vec<String> = found.iter().map(|found| found.right.clone()).collect();
        if attempt > 0 {
            fillers.extend(words::content_words(source.text()));
        }
        for found in found {
            let is_known = questions.iter().any(|other| words::similarity(&other.question, &found.question) >= 0.7);
            if is_known || questions.len() == MOST_ITEMS || !cards::is_usable(&found.question, &found.right, &checker) {
                continue;
            }
            let seed = questions.len();
            questions.extend(with_choices(found, &fillers, seed));
        }
        if !questions.is_empty() {
            return Ok((questions, parts.len()));
        }
        context.expect(parts.len());
    }
    Err(TextError::InvalidAnswer)
}

/// A question with its choices: the right answer, and wrong ones that differ from it and from each other. Where a model repeats itself,
/// `fillers` are used; none when even those do not suffice, or when the answer was cut off. The right one's place depends on `seed`, so that
/// it is not always the same.
fn with_choices(found: Found, fillers: &[String], seed: usize) -> Option<QuizQuestion> {
    let answer = found.right.trim().to_owned();
    let mut choices = vec![answer.clone()];
    for choice in found.wrong.iter().chain(fillers).map(|choice| choice.trim()) {
        let key = words::normalize(choice);
        if choices.len() < CHOICES && !key.is_empty() && choices.iter().all(|other| words::normalize(other) != key) {
            choices.push(choice.to_owned());
        }
    }
    if choices.len() < CHOICES || answer.chars().count() >= MAX_ANSWER {
        return None;
    }
    // 0, 2, 1, 3 and from the start again.
    choices.swap(0, [0, 2, 1, 3][seed % CHOICES]);
    Some(QuizQuestion { question: found.question.trim().to_owned(), choices, answer })
}

pub(super) fn to_markdown(questions: &[QuizQuestion]) -> String {
    let mut markdown = String::new();
    for (at, question) in questions.iter().enumerate() {
        markdown.push_str(&format!("{}. {}\n", at + 1, question.question));
        for (letter, choice) in ('A'..).zip(&question.choices) {
            markdown.push_str(&format!("   - {letter}) {choice}\n"));
        }
        markdown.push('\n');
    }
    let letters = questions.iter().enumerate().map(|(at, question)| {
        let right = question.choices.iter().position(|choice| *choice == question.answer).unwrap_or(0);
        format!("{}: {}", at + 1, char::from(b'A' + right as u8))
    });
    markdown.push_str(&format!("**Answers:** {}", letters.collect::<Vec<_>>().join(", ")));
    markdown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quiz_question_has_four_different_choices_and_its_answer_is_one_of_them() {
        let fillers = ["Lisbon", "Berlin", "forty seats"].map(str::to_owned);
        for seed in 0..5 {
            let wrong = vec!["Porto".to_owned(), "lisbon!".into(), "Porto".into()];
            let found = Found { question: "Where is the office?".into(), right: "Lisbon".into(), wrong };
            let question = with_choices(found, &fillers, seed).unwrap();
            let distinct: std::collections::HashSet<_> =
                question.choices.iter().map(|choice| words::normalize(choice)).collect();
            assert_eq!(distinct.len(), 4, "{question:?}");
            assert!(question.choices.contains(&question.answer));
            assert!(to_markdown(&[question]).contains("**Answers:** 1: "));
        }
        let found = Found { question: "Where?".into(), right: "Lisbon".into(), wrong: vec!["Lisbon".into(); 3] };
        assert_eq!(with_choices(found, &[], 0), None);
    }
}
