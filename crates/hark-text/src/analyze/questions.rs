//! What was asked, and whether it was answered. Questions and answers are the text's own sentences; the model only says which
//! sentence answers which question, so neither can be invented.

use std::ops::Range;

use serde::Serialize;
use serde_json::{Value, json};

use crate::context::{self, Context};
use crate::error::TextError;
use crate::extract;
use crate::language;
use crate::prompt::{Prompt, mark};
use crate::schema;
use crate::sentences;
use crate::source::{Source, Unit};
use crate::summarize::noun;

/// What was asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Questions {
    /// In the order of the text.
    pub questions: Vec<Question>,
}

/// A question in a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Question {
    /// In the text's own words.
    pub question: String,
    /// Who asked, where there are speakers.
    pub asked_by: Option<String>,
    /// Whether the text answers it.
    pub answered: bool,
    /// The answer in the text's own words.
    pub answer: Option<String>,
}

/// Units after a question among which its answer is looked for.
const WINDOW: usize = 10;

/// Words of the shortest question: "Right?" and "Okay, Tom?" ask nothing.
const MIN_WORDS: usize = 3;

/// Characters of an answer.
const MAX_ANSWER: usize = 400;

pub(super) fn item_schema() -> Value {
    let optional = json!({"type": ["string", "null"]});
    schema::object(&[
        ("question", json!({"type": "string", "minLength": 1})),
        ("asked_by", optional.clone()),
        ("answered", json!({"type": "boolean"})),
        ("answer", optional),
    ])
}

struct Asked {
    unit: usize,
    text: String,
}

pub(super) async fn questions(context: &Context<'_>, source: &Source) -> Result<(Questions, usize), TextError> {
    let asked = asked(source);
    context.expect(asked.len());
    let found = asked.iter().map(|asked| async {
        let unit = &source.units()[asked.unit];
        let answer = answer(context, source, asked).await?;
        Ok(Question {
            question: asked.text.clone(),
            asked_by: unit.speaker.clone(),
            answered: answer.is_some(),
            answer,
        })
    });
    let questions = context::all(found.collect()).await?;
    Ok((Questions { questions }, asked.len().max(1)))
}

/// The sentences that end with a question mark, each once.
fn asked(source: &Source) -> Vec<Asked> {
    let mut found: Vec<Asked> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    for unit in source.units() {
        let content = source.content(unit);
        for sentence in sentences::split(content) {
            let text = content[sentence].trim();
            let is_question = text.trim_end_matches(['"', '”', '»', ')', '\'']).ends_with(['?', '？', '؟', '⁇', ';'])
                && (!text.ends_with(';') || source.language().is_some_and(|language| language.code == "el"));
            let is_asked = is_question && sentences::count_words(text) >= MIN_WORDS;
            if is_asked && seen.insert((unit.speaker.clone(), crate::words::normalize(text))) {
                found.push(Asked { unit: unit.index, text: extract::shorten(text, MAX_ANSWER) });
            }
        }
    }
    found
}

/// The sentences that answer a question, as the model points to them.
async fn answer(context: &Context<'_>, source: &Source, asked: &Asked) -> Result<Option<String>, TextError> {
    let window = asked.unit + 1..(asked.unit + 1 + WINDOW).min(source.units().len());
    let candidates: Vec<&Unit> =
        source.units()[window.clone()].iter().filter(|unit| !unit.content.is_empty()).collect();
    if candidates.is_empty() {
        return Ok(None);
    }
    let asker = source.units()[asked.unit].speaker.as_deref();
    let text = render(source, asked, &candidates);
    // The question is a sentence of the text: between marks of its own it is data here too. A small model needs it beside its task: told to look for it in the
    // first or last line, it chose worse lines.
    let question = extract::shorten(&asked.text, 200);
    let mark = mark(&question);
    let task = format!(
        "Which of the numbered lines answers the question {mark} {question} {mark}? Give the number of the line that begins the answer, or 0 if no \
         line answers it. Another question is not an answer. Answer in JSON: {{\"line\": …}}."
    );
    let prompt = Prompt { noun: noun(source), text: &text, task, language: language::by_code("en") };
    let answer = context
        .object(prompt.messages(), schema::object(&[("line", schema::integer(0, candidates.len()))]), 16)
        .await?;
    let line = answer.get("line").and_then(Value::as_u64).unwrap_or(0) as usize;
    let Some(first) = line.checked_sub(1).and_then(|at| candidates.get(at)) else { return Ok(None) };
    // A question is no answer, nor is what the asker goes on with before anybody else has spoken.
    let spoke = |unit: &&&Unit| unit.index <= first.index && unit.speaker.as_deref() != asker;
    let nobody_spoke = asker.is_some() && !candidates.iter().any(|unit| spoke(&unit));
    if nobody_spoke || is_question(source.content(first)) {
        return Ok(None);
    }
    Ok(Some(answer_text(source, first.index..window.end)))
}

fn is_question(text: &str) -> bool {
    text.trim_end().ends_with(['?', '？', '؟'])
}

/// The question and the lines after it, each short enough that the prompt fits the smallest context.
fn render(source: &Source, asked: &Asked, candidates: &[&Unit]) -> String {
    let label = |unit: &Unit| unit.speaker.as_ref().map(|name| format!("{name}: ")).unwrap_or_default();
    let mut text = format!("Question: {}{}\n", label(&source.units()[asked.unit]), extract::shorten(&asked.text, 200));
    for (at, unit) in candidates.iter().enumerate() {
        text.push_str(&format!("[{}] {}{}\n", at + 1, label(unit), extract::shorten(source.content(unit), 240)));
    }
    text
}

/// A unit with those after it that its speaker goes on with, as far as they are short.
fn answer_text(source: &Source, units: Range<usize>) -> String {
    let first = &source.units()[units.start];
    let mut text = source.content(first).to_owned();
    for unit in &source.units()[units.start + 1..units.end] {
        let content = source.content(unit);
        let goes_on =
            unit.speaker == first.speaker && unit.speaker.is_some() && !unit.starts_turn && !is_question(content);
        if !goes_on || text.len() + content.len() > MAX_ANSWER / 2 {
            break;
        }
        text.push(' ');
        text.push_str(content);
    }
    extract::shorten(&text, MAX_ANSWER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_the_sentences_that_ask_something() {
        let source = Source::from_text(
            "Ann: Hi, Bob. When do we ship? Right?\nBob: On Monday. Okay?\nAnn: When do we ship?\nBob: 你们什么时候发货？",
        );
        let found: Vec<_> = asked(&source).into_iter().map(|asked| asked.text).collect();
        assert_eq!(found, ["When do we ship?", "你们什么时候发货？"]);
    }
}
