//! Excerpts as numbered lines: a model names a line by its number, so that a source can't be invented.

use std::collections::HashSet;
use std::ops::Range;

use super::AnswerSource;
use super::excerpt::Excerpt;
use crate::retrieve::{Bm25Index, query_terms, terms};
use crate::sentences;

/// Words of a line: sentences of one speaker are joined up to this, since every line costs a number and a label.
const LINE_WORDS: usize = 40;

/// Lines of the second look beside those that the model named.
const BEST_LINES: usize = 2;

/// Places that an answer names at most.
const MAX_SOURCES: usize = 4;

/// The share of the best line's score below which a line is no source.
const MIN_RELEVANCE: f64 = 0.2;

/// The share of what is new in the answer, by the weight of its words, that lines must have to support it.
const SUPPORT: f64 = 0.6;

/// The same for the words of the question, which may ask in other words.
const ASKED: f64 = 0.5;

/// How much a word of the answer counts that the question does not have.
const NEW_WEIGHT: f64 = 1.0;

/// How much a word of the question counts beside one that is new in the answer: where the new word stands, the answer was given.
const QUESTION_WEIGHT: f64 = 0.3;

/// Excerpts as numbered lines.
pub struct Lines<'a> {
    excerpts: &'a [Excerpt<'a>],
    lines: Vec<Line>,
}

struct Line {
    excerpt: usize,
    units: Range<usize>,
    /// With the speaker's label.
    text: String,
}

impl<'a> Lines<'a> {
    /// Numbers the lines of excerpts, from 1.
    pub fn new(excerpts: &'a [Excerpt<'a>]) -> Self {
        let mut lines: Vec<Line> = Vec::new();
        for (at, excerpt) in excerpts.iter().enumerate() {
            let (mut words, begins) = (0, lines.len());
            for unit in &excerpt.source.units()[excerpt.units.clone()] {
                let content = unit.content.start.max(excerpt.span.start)..unit.content.end.min(excerpt.span.end);
                if content.is_empty() {
                    continue;
                }
                let content = excerpt.source.text()[content].replace(['\n', '\r'], " ");
                let count = sentences::count_words(&content);
                match lines[begins..].last_mut() {
                    Some(line) if !unit.starts_turn && words + count <= LINE_WORDS => {
                        line.text.push(' ');
                        line.text.push_str(&content);
                        line.units.end = unit.index + 1;
                        words += count;
                    }
                    _ => {
                        let label = unit.speaker.as_ref().map(|name| format!("{name}: ")).unwrap_or_default();
                        lines.push(Line {
                            excerpt: at,
                            units: unit.index..unit.index + 1,
                            text: format!("{label}{content}"),
                        });
                        words = count;
                    }
                }
            }
        }
        Lines { excerpts, lines }
    }

    pub fn len(&self) -> usize {
        self.lines.len()
    }

    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// All lines as a model reads them.
    pub fn render(&self) -> String {
        self.render_only(0..self.lines.len())
    }

    fn render_only(&self, chosen: impl IntoIterator<Item = usize>) -> String {
        let mut rendered = String::new();
        let mut before: Option<usize> = None;
        for at in chosen {
            let line = &self.lines[at];
            let excerpt = &self.excerpts[line.excerpt];
            if before.is_none_or(|before| self.lines[before].excerpt != line.excerpt) {
                match excerpt.title {
                    Some(title) => rendered.push_str(&format!("From \"{}\":\n", title.replace(['\n', '\r'], " "))),
                    // Something was left out between the excerpts of one source.
                    None if before.is_some() => rendered.push_str("…\n"),
                    None => {}
                }
            }
            rendered.push_str(&format!("[{}] {}\n", at + 1, line.text));
            before = Some(at);
        }
        rendered
    }

    /// Everything that an answer may take names and numbers from.
    pub fn facts(&self) -> String {
        let mut facts: Vec<&str> = self.lines.iter().map(|line| line.text.as_str()).collect();
        for excerpt in self.excerpts {
            facts.extend(excerpt.title);
            facts.extend(excerpt.source.speakers().iter().map(String::as_str));
        }
        facts.join("\n")
    }

    /// The lines that a model named, each with its neighbours, and those with most words of the question: a small model often names a line beside the right
    /// one.
    pub fn evidence_and_best(&self, evidence: &[usize], question: &str) -> String {
        let index = Bm25Index::new(self.lines.iter().map(|line| &line.text));
        let best = index.rank(&query_terms(question)).into_iter().take(BEST_LINES).map(|best| best.index);
        let last = self.lines.len().saturating_sub(1);
        let named = self.named(evidence).flat_map(|at| at.saturating_sub(1)..=(at + 1).min(last));
        let mut chosen: Vec<usize> = named.chain(best).collect();
        chosen.sort_unstable();
        chosen.dedup();
        self.render_only(chosen)
    }

    /// Whether a line, with the next, has most of what is new in the answer, and they or those beside them most of the question. Rare words count
    /// most: what is asked about and never mentioned is not answered.
    pub fn support(&self, question: &str, answer: &str) -> bool {
        let said: Vec<HashSet<String>> =
            self.lines.iter().map(|line| terms(&line.text).into_iter().collect()).collect();
        let weigh = |(term, _): (String, f64)| {
            let lines = said.iter().filter(|said| said.contains(&term)).count();
            (term, (1.0 + said.len() as f64 / (1.0 + lines as f64)).ln())
        };
        let (new, asked): (Vec<_>, Vec<_>) =
            wanted_terms(question, answer).into_iter().partition(|(_, weight)| *weight == NEW_WEIGHT);
        let new: Vec<(String, f64)> = new.into_iter().map(weigh).collect();
        let asked: Vec<(String, f64)> = asked.into_iter().map(weigh).collect();
        let share = |wanted: &[(String, f64)], lines: &[HashSet<String>]| {
            let is_said = |term: &str| lines.iter().any(|said| said.contains(term));
            let sum = |terms: &mut dyn Iterator<Item = &(String, f64)>| terms.map(|(_, weight)| weight).sum::<f64>();
            sum(&mut wanted.iter().filter(|(term, _)| is_said(term))) / sum(&mut wanted.iter())
        };
        let excerpt = |at: usize| self.lines[at].excerpt;
        let supports = |at: usize| {
            let last =
                (at..self.lines.len().min(at + 3)).rev().find(|last| excerpt(*last) == excerpt(at)).unwrap_or(at);
            let first = if at > 0 && excerpt(at - 1) == excerpt(at) { at - 1 } else { at };
            let begins = new.iter().any(|(term, _)| said[at].contains(term));
            begins
                && share(&new, &said[at..=last.min(at + 1)]) >= SUPPORT
                && share(&asked, &said[first..=last]) >= ASKED
        };
        !new.is_empty() && (0..self.lines.len()).any(supports)
    }

    fn named(&self, evidence: &[usize]) -> impl Iterator<Item = usize> {
        let count = self.lines.len();
        evidence
            .iter()
            .filter_map(move |number| number.checked_sub(1).filter(|at| *at < count))
            .collect::<Vec<_>>()
            .into_iter()
    }

    /// The units that an answer rests on, best first: of the lines that the model named and of the line that says most of the answer, the unit that
    /// says most of it. A named line that says nothing of answer or question is left out.
    pub fn sources(&self, evidence: &[usize], question: &str, answer: &str) -> Vec<AnswerSource> {
        let index = Bm25Index::new(self.lines.iter().map(|line| &line.text));
        let wanted = wanted_terms(question, answer);
        let mut scores = vec![0.0; self.lines.len()];
        for (term, weight) in &wanted {
            for ranked in index.rank(std::slice::from_ref(term)) {
                scores[ranked.index] += weight * ranked.score;
            }
        }
        let best = scores.iter().copied().fold(0.0, f64::max);
        let mut chosen: Vec<usize> = self.named(evidence).collect();
        chosen.extend((0..scores.len()).filter(|at| best > 0.0 && scores[*at] == best).take(1));
        chosen.sort_unstable();
        chosen.dedup();
        if best > 0.0 {
            chosen.retain(|at| scores[*at] >= best * MIN_RELEVANCE);
        }
        chosen.sort_by(|one, other| scores[*other].total_cmp(&scores[*one]).then(one.cmp(other)));
        chosen.truncate(MAX_SOURCES);
        let relevance = |at: usize| if best > 0.0 { scores[at] / best } else { 0.0 };
        let source = |at: usize| AnswerSource {
            excerpt: self.lines[at].excerpt,
            unit: self.best_unit(&self.lines[at], &wanted),
            relevance: relevance(at),
        };
        chosen.into_iter().map(source).collect()
    }

    /// The unit of a line that has most of the wanted terms; the first of several.
    fn best_unit(&self, line: &Line, wanted: &[(String, f64)]) -> usize {
        let source = self.excerpts[line.excerpt].source;
        let shared = |unit: usize| -> f64 {
            let said = terms(source.content(&source.units()[unit]));
            wanted.iter().filter(|(term, _)| said.contains(term)).map(|(_, weight)| weight).sum()
        };
        let better = |one: &(usize, f64), other: &(usize, f64)| one.1.total_cmp(&other.1).then(other.0.cmp(&one.0));
        line.units.clone().map(|unit| (unit, shared(unit))).max_by(better).map_or(line.units.start, |(unit, _)| unit)
    }
}

/// The terms that show where an answer comes from, with their weights.
fn wanted_terms(question: &str, answer: &str) -> Vec<(String, f64)> {
    let asked = query_terms(question);
    let new = query_terms(answer).into_iter().filter(|term| !asked.contains(term)).map(|term| (term, NEW_WEIGHT));
    let mut wanted: Vec<(String, f64)> = new.collect();
    wanted.extend(asked.into_iter().map(|term| (term, QUESTION_WEIGHT)));
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Source;

    fn source() -> Source {
        Source::from_text(
            "Ann: The invoice is 4200 euros. It is due on Friday.\nBob: I call the supplier.\nAnn: The garden needs water.\nBob: Fine.",
        )
    }

    #[test]
    fn sentences_of_a_turn_are_one_line_with_a_number() {
        let source = source();
        let excerpts = [Excerpt::whole(&source)];
        assert_eq!(
            Lines::new(&excerpts).render(),
            "[1] Ann: The invoice is 4200 euros. It is due on Friday.\n[2] Bob: I call the supplier.\n[3] Ann: The garden needs water.\n[4] Bob: Fine.\n"
        );
    }

    #[test]
    fn excerpts_are_told_apart_by_their_titles_and_gaps_are_shown() {
        let source = source();
        let part = |units: Range<usize>, title| {
            let span = source.units()[units.start].span.start..source.units()[units.end - 1].span.end;
            Excerpt { source: &source, units, span, title }
        };
        let gap = [part(0..1, None), part(3..4, None)];
        assert_eq!(
            Lines::new(&gap).render(),
            "[1] Ann: The invoice is 4200 euros.\n…\n[2] Ann: The garden needs water.\n"
        );
        let titles = [part(0..1, Some("Monday\nmeeting")), part(4..5, Some("Call"))];
        let lines = Lines::new(&titles);
        assert_eq!(
            lines.render(),
            "From \"Monday meeting\":\n[1] Ann: The invoice is 4200 euros.\nFrom \"Call\":\n[2] Bob: Fine.\n"
        );
        assert!(lines.facts().contains("Monday"));
    }

    #[test]
    fn a_source_is_the_unit_that_says_the_answer_even_if_the_model_named_another_line() {
        let source = source();
        let excerpts = [Excerpt::whole(&source)];
        let lines = Lines::new(&excerpts);
        for evidence in [&[1][..], &[], &[3], &[99, 0]] {
            let sources = lines.sources(evidence, "When is the invoice due?", "It is due on Friday.");
            assert_eq!((sources[0].unit, sources[0].relevance), (1, 1.0), "{evidence:?}");
            assert_eq!(sources.len(), 1, "{evidence:?}: the garden has nothing to do with it");
        }
    }

    #[test]
    fn a_part_of_a_unit_is_a_line_too() {
        let source = Source::from_text(&"word ".repeat(500));
        let excerpts = [Excerpt { source: &source, units: 0..1, span: 100..150, title: None }];
        assert_eq!(Lines::new(&excerpts).render().matches("word").count(), 10);
        assert!(Lines::new(&[]).is_empty());
    }

    #[test]
    fn lines_with_the_words_of_question_and_answer_support_it() {
        let source = source();
        let excerpts = [Excerpt::whole(&source)];
        let lines = Lines::new(&excerpts);
        let question = "How much is the invoice that is due?";
        assert!(lines.support(question, "The invoice is 4200 euros."));
        assert!(!lines.support(question, "The garden needs water."), "it answers something else");
        assert!(
            !lines.support("How much is the water for the office?", "It is 4200 euros."),
            "it is about something else"
        );
        assert!(!lines.support("", "") && !lines.support(question, ""));
    }

    #[test]
    fn the_second_look_sees_the_named_lines_and_those_with_the_words_of_the_question() {
        let source = source();
        let excerpts = [Excerpt::whole(&source)];
        let lines = Lines::new(&excerpts);
        let seen = lines.evidence_and_best(&[4], "");
        assert!(seen.contains("garden") && seen.contains("Fine") && !seen.contains("invoice"), "{seen}");
        let seen = lines.evidence_and_best(&[], "What about the garden?");
        assert!(seen.contains("garden") && !seen.contains("invoice"), "{seen}");
        assert_eq!(lines.evidence_and_best(&[1, 4], ""), lines.render());
    }
}
