//! Single sentences with references: translation, personal data, sentiment.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;
use serde_json::{Value, json};

use super::chrf::ChrF;
use super::http::Client;
use super::{Share, failed};
use crate::error::BenchError;

/// Sentences of a quick run: each takes a call of its own.
const QUICK: usize = 20;

/// What single sentences gave.
#[derive(Debug, Default, Serialize)]
pub(super) struct Figures {
    /// chrF2 by pair of languages.
    pub(super) chrf: BTreeMap<String, f64>,
    pub(super) sentiment: Share,
    /// Sentences rated positive that are negative, or the other way round.
    pub(super) opposite: usize,
    pub(super) pii_patterns: Recall,
    pub(super) pii_names: Recall,
    pub(super) misses: Vec<String>,
}

/// What was found of what is there.
#[derive(Debug, Default, Serialize)]
pub(super) struct Recall {
    pub(super) found: Share,
    /// Of what was found, what is really there.
    pub(super) right: Share,
}

/// Measures all sentences; `repository` has `bench` and `crates`.
pub(super) fn run(client: &Client, repository: &Path, quick: bool) -> Result<Figures, BenchError> {
    let mut figures = Figures::default();
    let limit = if quick { QUICK } else { usize::MAX };
    let file = |from: &str, to: &str| repository.join(format!("bench/text/translation-{from}-{to}.tsv"));
    for (from, to) in [("en", "pt"), ("pt", "en")] {
        translate(client, &pairs(&file(from, to))?, from, to, &mut figures)?;
    }
    // No model of these pairs is among the default ones: they show what the language model does.
    for other in ["de", "es", "fr", "it"] {
        let lines = pairs(&file("en", other))?;
        translate(client, &lines, "en", other, &mut figures)?;
        let reversed: Vec<_> = lines.into_iter().map(|(one, other)| (other, one)).collect();
        translate(client, &reversed, other, "en", &mut figures)?;
    }
    let data = repository.join("crates/hark-text/tests/data");
    let labelled = pairs(&data.join("sentiment.tsv"))?;
    sentiment(client, &labelled[..labelled.len().min(limit)], &mut figures)?;
    let Share { hits, total } = figures.sentiment;
    eprintln!("  sentiment: {hits} of {total}, {} opposite", figures.opposite);
    let lines = read(&data.join("pii.txt"))?;
    for line in lines.lines().take(limit) {
        personal_data(client, line, &mut figures)?;
    }
    Ok(figures)
}

fn read(path: &Path) -> Result<String, BenchError> {
    std::fs::read_to_string(path).map_err(|source| BenchError::File { path: path.to_owned(), source })
}

/// Lines of two fields.
fn pairs(path: &Path) -> Result<Vec<(String, String)>, BenchError> {
    let pair = |line: &str| {
        let (one, other) = line.split_once('\t')?;
        Some((one.to_owned(), other.to_owned()))
    };
    Ok(read(path)?.lines().filter_map(pair).collect())
}

fn translate(
    client: &Client,
    lines: &[(String, String)],
    from: &str,
    to: &str,
    figures: &mut Figures,
) -> Result<(), BenchError> {
    let texts: Vec<&String> = lines.iter().map(|(text, _)| text).collect();
    let body = json!({ "texts": texts, "source_language": from, "target_language": to });
    let answer = client.post("/v1/translate", &body)?;
    let translations = answer["translations"].as_array().ok_or_else(|| failed("/v1/translate gave no translations"))?;
    let mut all = ChrF::default();
    for ((_, reference), translation) in lines.iter().zip(translations) {
        let text = translation["translated_text"].as_str().unwrap_or_default();
        all.add(text, reference);
        let mut one = ChrF::default();
        one.add(text, reference);
        if one.score() < 40.0 {
            figures
                .misses
                .push(format!("translation {from}-{to}, chrF {:.0}: {text} (expected {reference})", one.score()));
        }
    }
    let model = answer["model"].as_str().unwrap_or_default();
    eprintln!("  {from}-{to} by {model}: chrF {:.1}", all.score());
    figures.chrf.insert(format!("{from}-{to}, {model}"), all.score());
    Ok(())
}

fn sentiment(client: &Client, lines: &[(String, String)], figures: &mut Figures) -> Result<(), BenchError> {
    for (label, sentence) in lines {
        let answer = client.post("/v1/analyze", &json!({ "text": sentence, "type": "sentiment" }))?;
        let rated = answer["result"]["label"].as_str().unwrap_or_default();
        figures.sentiment.count(rated == label);
        figures.opposite +=
            usize::from(matches!((label.as_str(), rated), ("positive", "negative") | ("negative", "positive")));
        if rated != label {
            figures.misses.push(format!("{label} rated {rated}: {sentence}"));
        }
    }
    Ok(())
}

/// What is to be found in a text: its type, and where it begins and ends in Unicode scalar values.
type Span = (String, usize, usize);

fn personal_data(client: &Client, line: &str, figures: &mut Figures) -> Result<(), BenchError> {
    let (text, expected) = marked(line).ok_or_else(|| failed(format!("pii.txt: a mark does not end: {line}")))?;
    let answer = client.post("/v1/analyze", &json!({ "text": text, "type": "pii_redact" }))?;
    let span = |found: &Value| {
        let number = |field: &str| found[field].as_u64().and_then(|number| usize::try_from(number).ok());
        Some((found["type"].as_str()?.to_owned(), number("start")?, number("end")?))
    };
    let found: Vec<Span> = answer["result"]["entities"].as_array().into_iter().flatten().filter_map(span).collect();
    compare(&text, &expected, &found, figures);
    Ok(())
}

/// A line in which `{type:match}` marks what is to be found.
fn marked(line: &str) -> Option<(String, Vec<Span>)> {
    let (mut text, mut expected, mut rest) = (String::new(), Vec::new(), line);
    while let Some((before, behind)) = rest.split_once('{') {
        let (mark, after) = behind.split_once('}')?;
        let (kind, found) = mark.split_once(':')?;
        text.push_str(before);
        let start = text.chars().count();
        text.push_str(found);
        expected.push((kind.to_owned(), start, text.chars().count()));
        rest = after;
    }
    text.push_str(rest);
    Some((text, expected))
}

fn compare(text: &str, expected: &[Span], found: &[Span], figures: &mut Figures) {
    for span in expected {
        let of_kind = if span.0 == "person" { &mut figures.pii_names } else { &mut figures.pii_patterns };
        of_kind.found.count(found.contains(span));
        if !found.contains(span) {
            figures.misses.push(format!("{} not found: {text}", span.0));
        }
    }
    for span in found {
        let of_kind = if span.0 == "person" { &mut figures.pii_names } else { &mut figures.pii_patterns };
        of_kind.right.count(expected.contains(span));
        if !expected.contains(span) {
            let excerpt: String = text.chars().skip(span.1).take(span.2.saturating_sub(span.1)).collect();
            figures.misses.push(format!("{excerpt:?} is no {}: {text}", span.0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn personal_data_is_compared_by_type_and_place() {
        let (text, expected) = marked("Schreib Zoë an {email:zoe@example.de}, {phone:nobody}.").unwrap();
        assert_eq!(text, "Schreib Zoë an zoe@example.de, nobody.");
        assert_eq!(expected[0], ("email".to_owned(), 15, 29));
        let mut figures = Figures::default();
        compare(&text, &expected, &[expected[0].clone(), ("person".to_owned(), 8, 11)], &mut figures);
        let Recall { found, right } = &figures.pii_patterns;
        assert_eq!((found.hits, found.total, right.hits, right.total), (1, 2, 1, 1));
        assert_eq!((figures.pii_names.right.hits, figures.pii_names.right.total), (0, 1));
        assert_eq!(figures.misses.len(), 2);
        assert!(marked("a {mark without end").is_none());
    }
}
