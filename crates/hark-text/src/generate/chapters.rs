//! Chapter markers: a chapter begins where the words change most, the transcript says when that is, the model what it is about.
//! (Asked for the numbers of blocks, a small model counts 1, 2, 3.)

use std::ops::Range;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::context::{self, Context};
use crate::error::TextError;
use crate::extract;
use crate::facts::FactChecker;
use crate::generate::clock;
use crate::parts;
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

/// Tokens of a title as JSON.
const MAX_TOKENS: usize = 64;

/// Bytes of a chapter: about a minute of speech. Long sources have longer ones.
const CHAPTER: usize = 900;

/// Chapters of the longest source.
const MOST_CHAPTERS: usize = 20;

#[derive(Debug, Deserialize)]
struct Found {
    title: String,
}

pub(super) fn item_schema() -> Value {
    schema::object(&[
        ("start", json!({"type": ["number", "null"], "minimum": 0})),
        ("title", json!({"type": "string", "minLength": 1})),
    ])
}

/// The chapters, of which the first begins with the source, and how many texts were read for them.
pub(super) async fn chapters(context: &Context<'_>, source: &Source) -> Result<(Vec<Chapter>, usize), TextError> {
    let starts = starts(source);
    let budget = context.part_budget(MAX_TOKENS)?;
    context.expect(starts.len());
    let ends = starts.iter().skip(1).copied().chain([source.units().len()]);
    let found = starts.iter().copied().zip(ends).map(|(start, end)| async move {
        let span = source.units()[start].span.start..source.units()[end - 1].span.end;
        let mut text = source.render(start..end, span);
        // The beginning of a very long chapter says what it is about.
        while context.count_tokens(&text) > budget {
            text.truncate(text.floor_char_boundary(text.len() / 2));
        }
        let task = "Give it a title of 2 to 6 words that says what is talked about, like the heading of a chapter. Answer in JSON: {\"items\": [{\"title\": …}]}.";
        let prompt = Prompt { noun: noun(source), text: &text, task: task.into(), language: source.language() };
        let item = schema::object(&[("title", schema::string(72))]);
        let titles = context.items::<Found>(&prompt, item, 1, MAX_TOKENS, 0).await?;
        Ok(titles.into_iter().next().map(|found| (start, found.title)))
    });
    let found = context::all(found.collect()).await?;
    Ok((merge(source, found.into_iter().flatten().collect()), starts.len()))
}

/// The units with which chapters begin: the blocks before which the words change most, not too near to each other.
fn starts(source: &Source) -> Vec<usize> {
    let total = source.text().len();
    let count = (total / CHAPTER).clamp(1, MOST_CHAPTERS);
    let place = |unit: usize| source.units()[unit].span.start;
    let blocks = blocks(source, 0..source.units().len());
    let mut ranked: Vec<(f64, usize)> =
        blocks.iter().skip(1).map(|block| (parts::cohesion_drop(source, block.start), block.start)).collect();
    ranked.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)));
    let least = total / (count * 2);
    let mut starts = vec![0];
    for (_, unit) in ranked {
        let is_apart =
            starts.iter().all(|other| place(unit).abs_diff(place(*other)) >= least) && total - place(unit) >= least;
        if starts.len() < count && is_apart {
            starts.push(unit);
        }
    }
    starts.sort_unstable();
    starts
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
    fn chapters_begin_where_the_subject_changes() {
        let garden = "A garden with flowers needs water and good garden soil every day. ".repeat(14);
        let money = "The budget has costs and revenue for the whole budget year. ".repeat(14);
        let source = Source::from_text(&(garden.clone() + &garden + &money + &money));
        let contents: Vec<_> = starts(&source).into_iter().map(|unit| source.content(&source.units()[unit])).collect();
        assert!(contents.iter().any(|content| content.starts_with("The budget")), "{contents:?}");
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
