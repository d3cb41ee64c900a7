//! Ranking of passages by their words, and where the words of a query stand in a text.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use hark_store::Candidates;
use hark_text::retrieve::{query_terms, term_score, term_weight, terms};

/// Terms of a query; the rest is ignored.
const MAX_TERMS: usize = 32;

/// The words of a query.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Words {
    /// Terms to find any of, those of phrases among them; each once.
    pub(super) terms: Vec<String>,
    /// Terms that stand in no phrase.
    loose: HashSet<String>,
    /// Terms that must follow each other.
    phrases: Vec<Vec<String>>,
}

impl Words {
    /// Reads a query. What is in double quotes is a phrase; a quote that is not closed is none.
    pub(super) fn parse(query: &str) -> Words {
        let parts: Vec<&str> = query.split(['"', '“', '”', '„']).collect();
        let (mut loose_text, mut words) = (String::new(), Words::default());
        for (at, part) in parts.iter().enumerate() {
            let is_quoted = at % 2 == 1 && at + 1 < parts.len();
            let phrase = if is_quoted { terms(part) } else { Vec::new() };
            if phrase.is_empty() {
                loose_text.push_str(part);
                loose_text.push(' ');
            } else {
                words.phrases.push(phrase.into_iter().take(MAX_TERMS).collect());
            }
        }
        let loose = query_terms(&loose_text);
        let mut seen = HashSet::new();
        let all = words.phrases.iter().flatten().chain(&loose).filter(|term| seen.insert(term.as_str()));
        words.terms = all.take(MAX_TERMS).cloned().collect();
        words.loose = loose.into_iter().collect();
        words
    }

    /// Terms that every passage must have.
    pub(super) fn required(&self) -> Vec<String> {
        let terms: HashSet<&String> = self.phrases.iter().flatten().collect();
        terms.into_iter().cloned().collect()
    }

    pub(super) fn has_phrases(&self) -> bool {
        !self.phrases.is_empty()
    }

    /// The score of a text by BM25; none where a phrase does not stand in it.
    pub(super) fn score(&self, text: &str, statistics: &Candidates) -> Option<f64> {
        let tokens = tokens(text);
        if self.phrases.iter().any(|phrase| occurrences(&tokens, phrase).next().is_none()) {
            return None;
        }
        let mut counts: HashMap<&str, f64> = HashMap::new();
        for token in &tokens {
            *counts.entry(&token.term).or_default() += 1.0;
        }
        let length = tokens.len() as f64 / statistics.average_terms.max(1.0);
        let score = self.terms.iter().zip(&statistics.frequencies).map(|(term, &documents)| {
            let count = counts.get(term.as_str()).copied().unwrap_or(0.0);
            term_score(term_weight(statistics.total as f64, documents as f64), count, length)
        });
        Some(score.sum())
    }

    /// Where the words of the query stand in a text, in bytes; places that touch are one.
    pub(super) fn places(&self, text: &str) -> Vec<Range<usize>> {
        let tokens = tokens(text);
        let loose = tokens.iter().filter(|token| self.loose.contains(&token.term));
        let mut places: Vec<Range<usize>> = loose.map(|token| token.span.clone()).collect();
        for phrase in &self.phrases {
            places.extend(
                occurrences(&tokens, phrase).map(|at| tokens[at.start].span.start..tokens[at.end - 1].span.end),
            );
        }
        places.sort_by_key(|place| (place.start, place.end));
        let mut merged: Vec<Range<usize>> = Vec::new();
        for place in places {
            match merged.last_mut() {
                Some(last) if place.start <= last.end => last.end = last.end.max(place.end),
                _ => merged.push(place),
            }
        }
        merged
    }
}

/// A term in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Token {
    term: String,
    /// Bytes of the text.
    span: Range<usize>,
}

/// Where the terms of a phrase follow each other.
fn occurrences<'a>(tokens: &'a [Token], phrase: &'a [String]) -> impl Iterator<Item = Range<usize>> + 'a {
    let starts = tokens.windows(phrase.len().max(1)).enumerate();
    let is_there = move |window: &[Token]| window.iter().zip(phrase).all(|(token, term)| token.term == *term);
    starts.filter(move |(_, window)| is_there(window)).map(|(at, window)| at..at + window.len())
}

/// The terms of a text with their places.
fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut word: Option<Range<usize>> = None;
    for (at, c) in text.char_indices() {
        if is_in_word(c) {
            let word = word.get_or_insert(at..at);
            word.end = at + c.len_utf8();
        } else if !is_joiner(c)
            && let Some(word) = word.take()
        {
            push_tokens(text, word, &mut tokens);
        }
    }
    if let Some(word) = word {
        push_tokens(text, word, &mut tokens);
    }
    tokens
}

fn push_tokens(text: &str, word: Range<usize>, tokens: &mut Vec<Token>) {
    let found = terms(&text[word.clone()]);
    let mut bounds: Vec<usize> =
        text[word.clone()].char_indices().filter(|(_, c)| !is_joiner(*c)).map(|(at, _)| word.start + at).collect();
    bounds.push(word.end);
    // Scripts without spaces give a term for each pair of characters.
    let are_pairs = found.len() > 1 && bounds.len() == found.len() + 2;
    for (at, term) in found.into_iter().enumerate() {
        let span = if are_pairs { bounds[at]..bounds[at + 2] } else { word.clone() };
        tokens.push(Token { term, span });
    }
}

fn is_in_word(c: char) -> bool {
    c.is_alphanumeric() || (!c.is_ascii() && !c.is_whitespace() && !terms(c.encode_utf8(&mut [0; 4])).is_empty())
}

/// Characters that a word is read without.
fn is_joiner(c: char) -> bool {
    matches!(c, '\'' | '’' | 'ʼ' | '\u{ad}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn highlighted<'a>(query: &str, text: &'a str) -> Vec<&'a str> {
        Words::parse(query).places(text).into_iter().map(|place| &text[place]).collect()
    }

    #[test]
    fn the_terms_of_tokens_are_those_of_the_text() {
        for text in [
            "It's O'Neil’s plan — 3.5 % of Ánna-Maria's “budget”!",
            "今天我们讨论预算 and more",
            "नमस्ते दुनिया",
            "",
            "' ' x",
        ] {
            let found: Vec<String> = tokens(text).into_iter().map(|token| token.term).collect();
            assert_eq!(found, terms(text), "{text}");
        }
    }

    #[test]
    fn words_are_highlighted_in_all_their_forms_and_phrases_as_a_whole() {
        let text = "We planned the Budget: budgets, the plan of the budget.";
        assert_eq!(highlighted("budget", text), ["Budget", "budgets", "budget"]);
        assert_eq!(highlighted("\"the budget\"", text), ["the Budget", "the budget"]);
        assert_eq!(highlighted("\"the budget\" plans", text), ["planned", "the Budget", "plan", "the budget"]);
        assert_eq!(highlighted("nothing", text), Vec::<&str>::new());
        assert_eq!(highlighted("预算", "今天讨论预算问题"), ["预算"]);
        assert_eq!(highlighted("讨论预算", "今天讨论预算问题"), ["讨论预算"]);
    }

    #[test]
    fn a_phrase_must_stand_in_the_text_in_its_order() {
        let statistics = Candidates { frequencies: vec![1, 1], total: 3, average_terms: 5.0, ..Default::default() };
        let words = Words::parse("\"red apple\"");
        assert_eq!(words.terms, ["red", "appl"]);
        assert!(words.score("a Red apple.", &statistics).is_some_and(|score| score > 0.0));
        assert_eq!(words.score("apple red", &statistics), None);
        // Not closed: no phrase.
        assert!(Words::parse("red \"apple").score("apple red", &statistics).is_some());
        assert_eq!(Words::parse("\"\" ?!"), Words::default());
    }

    #[test]
    fn a_rare_term_counts_more_and_a_repeated_one_a_little_more() {
        let statistics = Candidates { frequencies: vec![1, 90], total: 100, average_terms: 4.0, ..Default::default() };
        let score = |text| Words::parse("sandwich budget").score(text, &statistics).unwrap();
        assert!(score("a sandwich and tea") > score("a budget and budget"));
        assert!(score("budget and the budget") > score("budget and the rest"));
        assert_eq!(score("nothing of it"), 0.0);
    }
}
