//! How a text feels: a label for each statement by the model, a score by their lengths.

use serde::Serialize;
use serde_json::{Value, json};

use crate::context::{self, Context};
use crate::error::TextError;
use crate::extract;
use crate::prompt::Prompt;
use crate::schema;
use crate::source::Source;
use crate::summarize::noun;

/// How a text feels.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Sentiment {
    /// In a word.
    pub label: SentimentLabel,
    /// From -1 (negative) to 1 (positive): the mean over all statements, weighted by their lengths.
    pub score: f64,
    /// The same for each speaker, where there are speakers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub by_speaker: Vec<SpeakerSentiment>,
}

/// How one speaker feels.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SpeakerSentiment {
    /// Whose.
    pub speaker: String,
    /// In a word.
    pub label: SentimentLabel,
    /// From -1 (negative) to 1 (positive).
    pub score: f64,
}

/// A sentiment in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum SentimentLabel {
    /// Mostly positive.
    Positive,
    /// Neither, or hardly.
    Neutral,
    /// Mostly negative.
    Negative,
    /// Much of both.
    Mixed,
}

/// What a model calls a statement, and the score of each.
const LABELS: &[(&str, f64)] =
    &[("very negative", -1.0), ("negative", -0.6), ("neutral", 0.0), ("positive", 0.6), ("very positive", 1.0)];

/// Statements of one completion. Properties are sorted by name, so their numbers have one digit.
const BATCH: usize = 8;

/// Characters of a statement: a few sentences of one speaker.
const STATEMENT: usize = 320;

/// A score beyond this is not neutral.
const NEUTRAL: f64 = 0.15;

pub(super) fn schema() -> Value {
    let label = schema::one_of(&["positive", "neutral", "negative", "mixed"]);
    let score = json!({"type": "number", "minimum": -1, "maximum": 1});
    let speaker =
        schema::object(&[("speaker", json!({"type": "string"})), ("label", label.clone()), ("score", score.clone())]);
    let mut schema = schema::object(&[("label", label), ("score", score)]);
    schema["properties"]["by_speaker"] = json!({"type": "array", "items": speaker});
    schema
}

struct Statement {
    speaker: Option<String>,
    text: String,
    length: f64,
}

/// The sentiment, and the number of completions that it was made of.
pub(super) async fn sentiment(context: &Context<'_>, source: &Source) -> Result<(Sentiment, usize), TextError> {
    let statements = statements(source);
    let batches: Vec<&[Statement]> = statements.chunks(BATCH).collect();
    context.expect(batches.len());
    let scores = context::all(batches.iter().map(|batch| score(context, source, batch)).collect()).await?.concat();
    let all: Vec<(f64, f64)> =
        statements.iter().zip(&scores).map(|(statement, score)| (*score, statement.length)).collect();
    let (label, total) = aggregate(&all);
    let by_speaker = source.speakers().iter().map(|speaker| {
        let own = statements.iter().zip(&scores).filter(|(statement, _)| statement.speaker.as_ref() == Some(speaker));
        let own: Vec<(f64, f64)> = own.map(|(statement, score)| (*score, statement.length)).collect();
        let (label, score) = aggregate(&own);
        SpeakerSentiment { speaker: speaker.clone(), label, score }
    });
    Ok((Sentiment { label, score: total, by_speaker: by_speaker.collect() }, batches.len().max(1)))
}

/// Neighbouring units of one speaker, joined to a few sentences.
fn statements(source: &Source) -> Vec<Statement> {
    let mut statements: Vec<Statement> = Vec::new();
    for unit in source.units().iter().filter(|unit| !unit.content.is_empty()) {
        let text = source.content(unit);
        let length = text.chars().count() as f64;
        match statements.last_mut() {
            Some(last)
                if last.speaker == unit.speaker
                    && !unit.starts_paragraph
                    && last.text.len() + text.len() <= STATEMENT =>
            {
                last.text.push(' ');
                last.text.push_str(text);
                last.length += length;
            }
            _ => statements.push(Statement { speaker: unit.speaker.clone(), text: text.to_owned(), length }),
        }
    }
    statements
}

async fn score(context: &Context<'_>, source: &Source, batch: &[Statement]) -> Result<Vec<f64>, TextError> {
    let lines: Vec<String> = batch
        .iter()
        .enumerate()
        .map(|(at, statement)| format!("{}. {}", at + 1, extract::shorten(&statement.text, 2 * STATEMENT)))
        .collect();
    let labels: Vec<&str> = LABELS.iter().map(|(label, _)| *label).collect();
    let names: Vec<String> = (1..=batch.len()).map(|number| number.to_string()).collect();
    let properties: Vec<(&str, Value)> = names.iter().map(|name| (name.as_str(), schema::one_of(&labels))).collect();
    let task = "Rate the feeling that each numbered statement expresses: very negative (anger, disaster), negative (problem, complaint, worry, \
                disappointment), neutral (plain fact, plan, question, greeting), positive (satisfaction, thanks, progress) or very positive (delight). \
                Answer with a JSON object that has the label of each number.";
    let prompt = Prompt {
        noun: noun(source),
        text: &lines.join("\n"),
        task: task.into(),
        // Labels are English words in every language.
        language: crate::language::by_code("en"),
    };
    let answer = context.object(prompt.messages(), schema::object(&properties), 16 * batch.len() + 32).await?;
    let value = |name: &String| {
        let label = answer.get(name).and_then(Value::as_str).unwrap_or("neutral");
        LABELS.iter().find(|(known, _)| *known == label).map_or(0.0, |(_, score)| *score)
    };
    Ok(names.iter().map(value).collect())
}

/// The label and the mean of scores, each weighted by the length of its statement.
fn aggregate(scores: &[(f64, f64)]) -> (SentimentLabel, f64) {
    let total: f64 = scores.iter().map(|(_, length)| length).sum();
    if total == 0.0 {
        return (SentimentLabel::Neutral, 0.0);
    }
    let mean = scores.iter().map(|(score, length)| score * length).sum::<f64>() / total;
    let share = |test: fn(f64) -> bool| {
        scores.iter().filter(|(score, _)| test(*score)).map(|(_, length)| length).sum::<f64>() / total
    };
    let (positive, negative) = (share(|score| score > 0.0), share(|score| score < 0.0));
    let label = if positive >= 0.25 && negative >= 0.25 && mean.abs() < 0.4 {
        SentimentLabel::Mixed
    } else if mean > NEUTRAL {
        SentimentLabel::Positive
    } else if mean < -NEUTRAL {
        SentimentLabel::Negative
    } else {
        SentimentLabel::Neutral
    };
    (label, (mean * 1000.0).round() / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_weighted_by_length() {
        assert_eq!(aggregate(&[(1.0, 90.0), (-0.6, 10.0)]), (SentimentLabel::Positive, 0.84));
        assert_eq!(aggregate(&[(0.6, 50.0), (-0.6, 50.0)]), (SentimentLabel::Mixed, 0.0));
        assert_eq!(aggregate(&[(0.0, 95.0), (-1.0, 5.0)]), (SentimentLabel::Neutral, -0.05));
        assert_eq!(aggregate(&[(-0.6, 10.0)]), (SentimentLabel::Negative, -0.6));
        assert_eq!(aggregate(&[]), (SentimentLabel::Neutral, 0.0));
    }
}
