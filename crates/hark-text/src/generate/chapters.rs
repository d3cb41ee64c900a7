//! Chapter markers: the model says with which block a chapter begins, the transcript when that is.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::context::{self, Context};
use crate::error::TextError;
use crate::extract;
use crate::facts::FactChecker;
use crate::generate::clock;
use crate::prompt::Prompt;
use crate::schema;
use crate::source::Source;
use crate::summarize::noun;
use crate::words;

/// Where a subject begins.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Chapter {
    /// Seconds from the start of the recording; null for a text, which has no times.
    pub start: Option<f64>,
    /// What it is about.
    pub title: String,
}

/// Characters of a block: some sentences, so that chapters do not begin with every one.
const BLOCK: usize = 280;

/// Tokens of a part's answer.
const MAX_TOKENS: usize = 260;

/// Tokens of a part. Numbers and labels of blocks take some more.
const PART_TOKENS: usize = 1800;

/// Chapters of one part.
const MOST_OF_PART: usize = 6;

#[derive(Debug, Deserialize)]
struct Found {
    first: usize,
    title: String,
}

pub(super) fn item_schema() -> Value {
    schema::object(&[
        ("start", json!({"type": ["number", "null"], "minimum": 0})),
        ("title", json!({"type": "string", "minLength": 1})),
    ])
}

/// The chapters, of which the first begins with the source, and over how many parts they were found.
pub(super) async fn chapters(context: &Context<'_>, source: &Source) -> Result<(Vec<Chapter>, usize), TextError> {
    let parts = context.parts(source, MAX_TOKENS, PART_TOKENS)?;
    context.expect(parts.len());
    let found = parts.iter().map(|part| async {
        let blocks = blocks(source, part.units.clone());
        let mut text = String::new();
        for (at, block) in blocks.iter().enumerate() {
            let span = source.units()[block.start].span.start.max(part.span.start)
                ..source.units()[block.end - 1].span.end.min(part.span.end);
            text.push_str(&format!("[{}] {}\n", at + 1, source.render(block.clone(), span)));
        }
        let task = format!(
            "Divide it into {} chapters by subject. For each give the number of the block that begins it (a number in square brackets) and a title of \
             2 to 6 words that says what it is about. The first chapter begins with 1. Answer in JSON: {{\"items\": [{{\"first\": …, \"title\": …}}]}}.",
            if blocks.len() < 8 { "1 to 3" } else { "3 to 6" }
        );
        let prompt = Prompt { noun: noun(source), text: &text, task, language: source.language() };
        let item = schema::object(&[("first", schema::integer(1, blocks.len())), ("title", schema::string(72))]);
        let found = context.items::<Found>(&prompt, item, MOST_OF_PART, MAX_TOKENS, 0).await?;
        let begin = |found: Found| Some((blocks.get(found.first.checked_sub(1)?)?.start, found.title));
        Ok(found.into_iter().filter_map(begin).collect::<Vec<_>>())
    });
    let found = context::all(found.collect()).await?.concat();
    Ok((merge(source, found), parts.len()))
}

/// Units joined to blocks of a few sentences; a block ends at a turn where it is long enough.
fn blocks(source: &Source, units: Range<usize>) -> Vec<Range<usize>> {
    let mut blocks: Vec<Range<usize>> = Vec::new();
    let mut length = 0;
    for unit in &source.units()[units] {
        let is_full = length >= BLOCK || (length >= BLOCK / 2 && unit.starts_turn);
        match blocks.last_mut() {
            Some(block) if !is_full => block.end = unit.index + 1,
            _ => {
                blocks.push(unit.index..unit.index + 1);
                length = 0;
            }
        }
        length += unit.content.len();
    }
    blocks
}

/// Chapters in order of their beginnings, each beginning and each title once, unfounded titles left out, the first at the very start.
fn merge(source: &Source, mut found: Vec<(usize, String)>) -> Vec<Chapter> {
    let checker = FactChecker::new(source);
    found.sort_by_key(|(unit, _)| *unit);
    let mut chapters: Vec<(usize, String)> = Vec::new();
    for (unit, title) in found {
        let title = title.trim().trim_matches(['"', '#', '*', '.']).trim().to_owned();
        let is_founded = checker.unfounded_in_title(&title).is_none() && checker.index().coverage(&title) > 0.0;
        let is_known = chapters.last().is_some_and(|(at, last)| *at == unit || words::similarity(last, &title) >= 0.7);
        if !title.is_empty() && is_founded && !is_known {
            chapters.push((unit, title));
        }
    }
    match chapters.first_mut() {
        Some((unit, _)) => *unit = 0,
        None => {
            let title = extract::extract(source, 1, 60).pop().unwrap_or_default();
            chapters.push((0, title));
        }
    }
    chapters.into_iter().map(|(unit, title)| Chapter { start: source.units()[unit].start, title }).collect()
}

pub(super) fn to_markdown(chapters: &[Chapter]) -> String {
    let line = |chapter: &Chapter| match chapter.start {
        Some(start) => format!("- {} {}", clock(start), chapter.title),
        None => format!("- {}", chapter.title),
    };
    chapters.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use hark_transcript::Segment;

    fn source() -> Source {
        let segment = |n: usize| Segment {
            start: n as f64 * 10.0,
            end: n as f64 * 10.0 + 9.0,
            text: format!("Sentence {n} about the budget, the garden and other things that take some room."),
            ..Segment::default()
        };
        Source::from_segments(&(0..40).map(segment).collect::<Vec<_>>(), "en")
    }

    #[test]
    fn blocks_cover_the_units_they_are_made_of() {
        let blocks = blocks(&source(), 3..40);
        assert_eq!((blocks[0].start, blocks[blocks.len() - 1].end), (3, 40));
        assert!(blocks.windows(2).all(|pair| pair[0].end == pair[1].start));
    }

    #[test]
    fn chapter_times_are_the_transcripts() {
        let found = vec![
            (20, "The garden".into()),
            (4, "The budget".into()),
            (20, "Again".into()),
            (24, "the Garden".into()),
            (30, "Meeting John".into()),
        ];
        let chapters = merge(&source(), found);
        assert_eq!(to_markdown(&chapters), "- 0:00 The budget\n- 3:20 The garden");
        assert_eq!(merge(&source(), Vec::new()).len(), 1);
    }
}
