//! Long sources in parts that fit a number of tokens. Nothing is ever left out: parts follow each other without gaps.

use std::collections::HashMap;
use std::ops::Range;

use crate::source::Source;
use crate::words;

/// A run of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The units that it has, the first and the last possibly in part.
    pub units: Range<usize>,
    /// Bytes of the source's text.
    pub span: Range<usize>,
    /// Tokens of its rendered text, at most.
    pub tokens: usize,
}

/// A unit, or a piece of one that is longer than a part.
struct Piece {
    unit: usize,
    span: Range<usize>,
    tokens: usize,
    /// How good it is to begin a part with it.
    boundary: f64,
}

// A turn is a better place than a paragraph, that than a sentence, and inside a sentence is the last resort.
const TURN: f64 = 1.0;
const PARAGRAPH: f64 = 0.9;
const SENTENCE: f64 = 0.4;
const INSIDE: f64 = 0.0;

/// Units on each side of a boundary whose words are compared (TextTiling compares blocks of about this many sentences).
const BLOCK: usize = 8;

/// Words of a unit that are compared, so that hostile units cost no more.
const WORDS_OF_UNIT: usize = 64;

/// Cuts a source into parts of at most `budget` tokens, as `count_tokens` counts them: at speaker turns first, then at paragraphs and
/// sentences, preferably where the subject changes; inside a sentence only where one does not fit.
pub fn split(source: &Source, budget: usize, count_tokens: &dyn Fn(&str) -> usize) -> Vec<Part> {
    let labels: HashMap<&str, usize> =
        source.speakers().iter().map(|name| (name.as_str(), count_tokens(name) + 2)).collect();
    // Every part begins with a label, also inside a turn.
    let margin = labels.values().copied().max().unwrap_or(0).min(budget / 2);
    let budget = (budget - margin).max(8);
    let pieces = pieces(source, budget, &labels, count_tokens);
    let total: usize = pieces.iter().map(|piece| piece.tokens).sum();
    // Parts of about the same length: no small rest at the end.
    let target = total / total.div_ceil(budget).max(1);
    let mut parts = Vec::new();
    let mut first = 0;
    while first < pieces.len() {
        let end = end_of_part(source, &pieces, first, target, budget);
        let part = &pieces[first..end];
        parts.push(Part {
            units: part[0].unit..part[part.len() - 1].unit + 1,
            span: part[0].span.start..part[part.len() - 1].span.end,
            tokens: part.iter().map(|piece| piece.tokens).sum::<usize>() + margin,
        });
        first = end;
    }
    parts
}

/// Where the part that begins with `first` ends: the best boundary near the target.
fn end_of_part(source: &Source, pieces: &[Piece], first: usize, target: usize, budget: usize) -> usize {
    let mut tokens = 0;
    let mut best: Option<(f64, usize)> = None;
    for at in first..pieces.len() {
        if at > first && tokens * 10 >= target * 7 {
            let distance = (tokens as f64 - target as f64).abs() / target.max(1) as f64;
            let score = pieces[at].boundary + cohesion_drop(source, pieces[at].unit) - distance;
            if best.is_none_or(|(best, _)| score > best) {
                best = Some((score, at));
            }
        }
        tokens += pieces[at].tokens;
        if tokens > budget && at > first {
            return best.map_or(at, |(_, at)| at);
        }
        if tokens * 10 > target * 13 && best.is_some() {
            return best.map_or(at + 1, |(_, at)| at);
        }
    }
    pieces.len()
}

fn pieces(
    source: &Source,
    budget: usize,
    labels: &HashMap<&str, usize>,
    count_tokens: &dyn Fn(&str) -> usize,
) -> Vec<Piece> {
    let mut pieces = Vec::with_capacity(source.units().len());
    for unit in source.units() {
        let speaker = unit.speaker.as_deref().filter(|_| unit.starts_turn);
        let label = speaker.and_then(|name| labels.get(name)).copied().unwrap_or(0);
        let overhead = label.min(budget / 2) + 1;
        let boundary = match (unit.starts_turn, unit.starts_paragraph) {
            (true, _) => TURN,
            (_, true) => PARAGRAPH,
            _ => SENTENCE,
        };
        let cut = cut(source.text(), unit.span.clone(), budget - overhead, count_tokens);
        for (at, (span, tokens)) in cut.into_iter().enumerate() {
            let boundary = if at == 0 { boundary } else { INSIDE };
            pieces.push(Piece { unit: unit.index, span, tokens: tokens + overhead, boundary });
        }
    }
    pieces
}

/// A span in pieces of at most `budget` tokens, each with its tokens: halved near its middle until it fits.
fn cut(
    text: &str,
    span: Range<usize>,
    budget: usize,
    count_tokens: &dyn Fn(&str) -> usize,
) -> Vec<(Range<usize>, usize)> {
    let mut done = Vec::new();
    let mut open = vec![span];
    while let Some(span) = open.pop() {
        let part = &text[span.clone()];
        // Few tokens have more than 16 bytes: what is far longer is halved without being counted.
        if part.len() <= budget * 16 {
            let tokens = count_tokens(part.trim());
            let Some(middle) = (if tokens > budget { middle(part) } else { None }) else {
                done.push((span, tokens));
                continue;
            };
            open.push(span.start + middle..span.end);
            open.push(span.start..span.start + middle);
        } else {
            let middle = middle(part).unwrap_or(part.len());
            open.push(span.start + middle..span.end);
            open.push(span.start..span.start + middle);
        }
    }
    done
}

/// A place near the middle, after white space if there is some near; none for a single character.
fn middle(text: &str) -> Option<usize> {
    let half = text.len() / 2;
    let reach = (text.len() / 4).min(4096);
    let start = text.floor_char_boundary(half.saturating_sub(reach));
    let end = text.floor_char_boundary(half + reach);
    let spaces = text[start..end].char_indices().filter(|(_, c)| c.is_whitespace());
    let space = spaces.map(|(at, c)| start + at + c.len_utf8()).min_by_key(|at| at.abs_diff(half));
    let middle = space.unwrap_or_else(|| {
        let floor = text.floor_char_boundary(half);
        if floor == 0 { text.chars().next().map_or(0, char::len_utf8) } else { floor }
    });
    if middle == 0 || middle >= text.len() { None } else { Some(middle) }
}

/// How much the subject changes before a unit: 1 minus the cosine of the words before and after it, 0 to 1.
pub(crate) fn cohesion_drop(source: &Source, unit: usize) -> f64 {
    let units = source.units();
    let before = block_words(source, unit.saturating_sub(BLOCK)..unit);
    let after = block_words(source, unit..(unit + BLOCK).min(units.len()));
    let norm = |counts: &HashMap<String, f64>| counts.values().map(|count| count * count).sum::<f64>().sqrt();
    let dot: f64 = before.iter().filter_map(|(word, count)| after.get(word).map(|other| count * other)).sum();
    let norms = norm(&before) * norm(&after);
    if norms == 0.0 { 0.0 } else { 1.0 - dot / norms }
}

fn block_words(source: &Source, units: Range<usize>) -> HashMap<String, f64> {
    let mut counts = HashMap::new();
    for unit in &source.units()[units] {
        let content = source.content(unit);
        let head = &content[..content.floor_char_boundary(1024)];
        for word in words::content_words(head).into_iter().take(WORDS_OF_UNIT) {
            *counts.entry(word).or_insert(0.0) += 1.0;
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    /// About a token for every four bytes, as English has.
    fn quarter(text: &str) -> usize {
        text.len().div_ceil(4)
    }

    fn check(source: &Source, budget: usize) -> Vec<Part> {
        let parts = split(source, budget, &quarter);
        let joined: String = parts.iter().map(|part| &source.text()[part.span.clone()]).collect();
        assert_eq!(joined, source.text());
        for part in &parts {
            assert!(part.tokens <= budget, "{} tokens in a part of {budget}", part.tokens);
            let rendered = source.render(part.units.clone(), part.span.clone());
            assert!(quarter(&rendered) <= budget + 1, "{} rendered tokens", quarter(&rendered));
        }
        parts
    }

    #[test]
    fn parts_joined_are_the_input_even_if_it_is_hostile() {
        for text in [
            String::new(),
            "short".into(),
            "x".repeat(1_000_000),
            "预算".repeat(100_000),
            "👩‍👩‍👧 ".repeat(5_000),
            " \n".repeat(50_000),
            "A sentence of some words. ".repeat(3_000),
            "A: b\n".repeat(10_000),
            format!("{} end. Next one.", "word ".repeat(20_000)),
        ] {
            check(&Source::from_text(&text), 100);
        }
    }

    #[test]
    fn rendered_parts_have_every_word_of_the_source() {
        let text: String = (0..2000).map(|n| format!("{}: word{n} is said.\n", ["Ann", "Bob", "Cy"][n % 3])).collect();
        let source = Source::from_text(&text);
        let parts = check(&source, 200);
        let rendered: String =
            parts.iter().map(|part| source.render(part.units.clone(), part.span.clone()) + "\n").collect();
        for n in 0..2000 {
            assert!(rendered.contains(&format!("word{n} ")), "word{n} is missing");
        }
    }

    #[test]
    fn a_part_ends_at_a_turn_rather_than_inside_one() {
        let mut text = String::new();
        for n in 0..40 {
            let name = ["Ann", "Bob"][n % 2];
            text.push_str(&format!("{name}: This is one sentence here. This is another one. And this is the third.\n"));
        }
        let source = Source::from_text(&text);
        let parts = check(&source, 250);
        assert!(parts.len() >= 3);
        for part in &parts[1..] {
            assert!(source.units()[part.units.start].starts_turn);
        }
    }

    #[test]
    fn a_part_ends_where_the_subject_changes() {
        let money = "The budget has costs and revenue for the budget year. ".repeat(9);
        let garden = "A garden with flowers needs water and garden soil. ".repeat(11);
        let source = Source::from_text(&(money + &garden));
        let parts = check(&source, 160);
        assert_eq!(parts.len(), 2);
        assert!(source.content(&source.units()[parts[1].units.start]).starts_with("A garden"));
    }

    #[test]
    fn parts_are_of_about_the_same_length() {
        let source = Source::from_text(&"One more sentence of this text. ".repeat(130));
        let parts = check(&source, 1000);
        let smallest = parts.iter().map(|part| part.tokens).min().unwrap();
        assert!(parts.len() == 2 && smallest > 350, "{parts:?}");
    }
}
