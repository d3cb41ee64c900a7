//! What a model reads to answer a question: all of a short source, the best passages of a long one.

use std::ops::Range;

use super::ANSWER_TOKENS;
use super::lines::Lines;
use super::prompt::Question;
use crate::context::Context;
use crate::error::TextError;
use crate::prompt::INSTRUCTION_TOKENS;
use crate::retrieve::{Ranked, Retriever, join_neighbours};
use crate::source::Source;

/// Tokens of the longest source that is read as a whole. Its prompt begins alike for every question, so that the engine reads it once.
const WHOLE_TOKENS: usize = 2600;

/// Tokens of the passages of a longer source.
const PASSAGE_TOKENS: usize = 1400;

/// Tokens below which a prompt makes no sense.
const MIN_TOKENS: usize = 128;

/// Passages that are read at most.
const MAX_PASSAGES: usize = 10;

/// A run of a source that a model reads.
#[derive(Debug, Clone, PartialEq)]
pub struct Excerpt<'a> {
    /// The source.
    pub source: &'a Source,
    /// Its units, the first and the last possibly in part.
    pub units: Range<usize>,
    /// Bytes of the source's text.
    pub span: Range<usize>,
    /// What the source is called, where there are several.
    pub title: Option<&'a str>,
}

impl<'a> Excerpt<'a> {
    /// All of a source.
    pub fn whole(source: &'a Source) -> Self {
        Excerpt { source, units: 0..source.units().len(), span: 0..source.text().len(), title: None }
    }
}

/// Tokens that excerpts may have beside the instructions, the question with its history, and the answer.
fn budget(context: &Context<'_>, question: &Question<'_>) -> Result<usize, TextError> {
    let taken = ANSWER_TOKENS + INSTRUCTION_TOKENS + context.count_tokens(&question.render());
    let length = context.context_length();
    if length < taken + MIN_TOKENS {
        return Err(TextError::ContextTooSmall { context: length, needed: taken + MIN_TOKENS });
    }
    Ok(length - taken)
}

/// Whether a source is short enough to be read as a whole.
pub fn fits_whole(context: &Context<'_>, source: &Source, question: &Question<'_>) -> Result<bool, TextError> {
    let budget = budget(context, question)?.min(WHOLE_TOKENS);
    // Few tokens have more than 16 bytes: what is far longer is not counted.
    if source.text().len() > budget * 16 {
        return Ok(false);
    }
    Ok(context.count_tokens(&Lines::new(&[Excerpt::whole(source)]).render()) <= budget)
}

/// The best passages of a source that fit a prompt, in the order of the source; those that follow each other are one excerpt.
pub fn excerpts<'a>(
    context: &Context<'_>,
    source: &'a Source,
    retriever: &Retriever,
    ranking: &[Ranked],
    question: &Question<'_>,
) -> Result<Vec<Excerpt<'a>>, TextError> {
    let mut left = budget(context, question)?.min(PASSAGE_TOKENS);
    let mut chosen: Vec<usize> = Vec::new();
    for ranked in ranking.iter().take(MAX_PASSAGES) {
        let Some((units, span)) = retriever.run(ranked.index..ranked.index + 1) else { continue };
        let excerpt = Excerpt { source, units, span, title: None };
        let tokens = context.count_tokens(&Lines::new(&[excerpt]).render());
        if tokens <= left {
            left -= tokens;
            chosen.push(ranked.index);
        }
    }
    let runs = join_neighbours(chosen).into_iter().filter_map(|run| retriever.run(run));
    Ok(runs.map(|(units, span)| Excerpt { source, units, span, title: None }).collect())
}

/// As many of the excerpts, which are sorted by how good they are, as fit a prompt. Their order is kept.
pub fn within_budget<'a>(
    context: &Context<'_>,
    ranked: Vec<Excerpt<'a>>,
    question: &Question<'_>,
) -> Result<Vec<Excerpt<'a>>, TextError> {
    let mut left = budget(context, question)?.min(PASSAGE_TOKENS);
    let mut kept = Vec::new();
    for excerpt in ranked.into_iter().take(MAX_PASSAGES) {
        let tokens = context.count_tokens(&Lines::new(std::slice::from_ref(&excerpt)).render());
        if tokens <= left {
            left -= tokens;
            kept.push(excerpt);
        }
    }
    Ok(kept)
}
