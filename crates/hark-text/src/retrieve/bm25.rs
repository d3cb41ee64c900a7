//! Ranking by words: Okapi BM25 over passages in memory.

use std::collections::HashMap;

use super::rank::{Ranked, sort};
use super::terms::terms;

// The constants of Robertson and Zaragoza, "The Probabilistic Relevance Framework", 2009: k1 saturates repeated words, b corrects for length.
const K1: f64 = 1.2;
const B: f64 = 0.75;

/// An index of passages by their terms.
#[derive(Debug, Clone, Default)]
pub struct Bm25Index {
    /// Passages that have a term, with how often.
    postings: HashMap<String, Vec<(usize, u32)>>,
    lengths: Vec<u32>,
    average_length: f64,
}

impl Bm25Index {
    /// Indexes texts; their places are counted from 0.
    pub fn new<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> Self {
        let mut index = Bm25Index::default();
        for (at, text) in texts.into_iter().enumerate() {
            let terms = terms(text.as_ref());
            index.lengths.push(u32::try_from(terms.len()).unwrap_or(u32::MAX));
            for term in terms {
                let postings = index.postings.entry(term).or_default();
                match postings.last_mut() {
                    Some((last, count)) if *last == at => *count += 1,
                    _ => postings.push((at, 1)),
                }
            }
        }
        let total: f64 = index.lengths.iter().map(|length| f64::from(*length)).sum();
        index.average_length = (total / index.lengths.len().max(1) as f64).max(1.0);
        index
    }

    /// How many texts there are.
    pub fn len(&self) -> usize {
        self.lengths.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// Whether some text has this term.
    pub fn has_term(&self, term: &str) -> bool {
        self.postings.contains_key(term)
    }

    /// Bytes that it takes, about.
    pub fn bytes(&self) -> usize {
        let entries = self.postings.values().map(|postings| 64 + postings.len() * size_of::<(usize, u32)>());
        entries.sum::<usize>() + self.lengths.len() * size_of::<u32>()
    }

    /// The texts that have any of these terms, best first.
    pub fn rank(&self, query: &[String]) -> Vec<Ranked> {
        let mut scores: HashMap<usize, f64> = HashMap::new();
        for term in query {
            let Some(postings) = self.postings.get(term) else { continue };
            let weight = term_weight(self.lengths.len() as f64, postings.len() as f64);
            for (at, count) in postings {
                let length = f64::from(self.lengths[*at]) / self.average_length;
                let score = term_score(weight, f64::from(*count), length);
                *scores.entry(*at).or_insert(0.0) += score;
            }
        }
        sort(scores.into_iter().map(|(index, score)| Ranked { index, score }).collect())
    }
}

/// The inverse document frequency: how telling a term is that `documents` of `all` texts have; above 0.
pub fn term_weight(all: f64, documents: f64) -> f64 {
    (((all - documents).max(0.0) + 0.5) / (documents + 0.5)).ln_1p()
}

/// The score of a text that has a term `count` times; `length` is its own as a multiple of the average.
pub fn term_score(weight: f64, count: f64, length: f64) -> f64 {
    weight * count * (K1 + 1.0) / (count + K1 * (1.0 - B + B * length))
}

#[cfg(test)]
mod tests {
    use super::super::terms::query_terms;
    use super::*;

    fn ranked(texts: &[&str], question: &str) -> Vec<usize> {
        Bm25Index::new(texts).rank(&query_terms(question)).into_iter().map(|ranked| ranked.index).collect()
    }

    #[test]
    fn a_rare_word_counts_more_than_a_frequent_one() {
        let texts = ["the budget of the team", "the budget and the budget", "a sandwich and the budget", "the weather"];
        assert_eq!(ranked(&texts, "Is the sandwich in the budget?")[0], 2);
    }

    #[test]
    fn a_short_text_with_the_word_goes_before_a_long_one() {
        let long = format!("invoice {}", "and then we talked about something else ".repeat(20));
        assert_eq!(ranked(&[&long, "the invoice came"], "invoices?"), [1, 0]);
    }

    #[test]
    fn texts_without_any_of_the_words_are_not_ranked() {
        assert_eq!(ranked(&["one two", "three four"], "five"), [0; 0]);
        assert_eq!(ranked(&[], "five"), [0; 0]);
        assert_eq!(ranked(&["", " "], "five"), [0; 0]);
    }

    #[test]
    fn the_score_is_that_of_the_formula() {
        // Two texts of two terms: idf = ln(1 + 1.5 / 1.5), and the length correction is 1.
        let ranked = Bm25Index::new(["red apple", "green pear"]).rank(&["apple".to_owned(), "appl".to_owned()]);
        assert_eq!(ranked.len(), 1);
        assert!((ranked[0].score - 2.0f64.ln()).abs() < 1e-12, "{ranked:?}");
    }

    #[test]
    fn chinese_is_found_by_pairs_of_characters() {
        assert_eq!(ranked(&["我们明天去北京开会", "预算已经超支了"], "预算怎么样"), [1]);
    }
}
