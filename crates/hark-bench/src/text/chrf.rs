//! chrF2 (Popović, 2015): how much of the character n-grams of a translation and its reference agree.

use std::collections::HashMap;

/// The longest n-gram.
const ORDER: usize = 6;
/// Recall weighs this much more than precision.
const BETA: f64 = 2.0;

/// Matches, n-grams of translations and of references, by order.
#[derive(Debug, Default, Clone)]
pub(super) struct ChrF {
    counts: [(usize, usize, usize); ORDER],
}

impl ChrF {
    /// Adds a sentence.
    pub(super) fn add(&mut self, translation: &str, reference: &str) {
        let letters = |text: &str| text.chars().filter(|letter| !letter.is_whitespace()).collect::<Vec<char>>();
        let (translation, reference) = (letters(translation), letters(reference));
        for (order, (matched, written, expected)) in self.counts.iter_mut().enumerate() {
            let (ours, theirs) = (ngrams(&translation, order + 1), ngrams(&reference, order + 1));
            *matched += ours.iter().map(|(gram, count)| count.min(theirs.get(gram).unwrap_or(&0))).sum::<usize>();
            *written += ours.values().sum::<usize>();
            *expected += theirs.values().sum::<usize>();
        }
    }

    /// 0 to 100, over all sentences.
    pub(super) fn score(&self) -> f64 {
        let used: Vec<_> = self.counts.iter().filter(|(_, written, expected)| *written > 0 && *expected > 0).collect();
        if used.is_empty() {
            return 0.0;
        }
        let orders = used.len() as f64;
        let precision =
            used.iter().map(|(matched, written, _)| *matched as f64 / *written as f64).sum::<f64>() / orders;
        let recall = used.iter().map(|(matched, _, expected)| *matched as f64 / *expected as f64).sum::<f64>() / orders;
        if precision + recall == 0.0 {
            return 0.0;
        }
        100.0 * (1.0 + BETA * BETA) * precision * recall / (BETA * BETA * precision + recall)
    }
}

fn ngrams(letters: &[char], order: usize) -> HashMap<&[char], usize> {
    let mut counts = HashMap::new();
    for gram in letters.windows(order) {
        *counts.entry(gram).or_insert(0) += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn score(translation: &str, reference: &str) -> f64 {
        let mut chrf = ChrF::default();
        chrf.add(translation, reference);
        chrf.score()
    }

    #[test]
    fn the_same_sentence_scores_100_and_another_0() {
        assert!((score("O comboio parte às nove.", "O comboio parte às nove.") - 100.0).abs() < 1e-9);
        assert_eq!(score("xyz", "abc"), 0.0);
        assert_eq!(score("", "abc"), 0.0);
    }

    #[test]
    fn recall_weighs_more_than_precision() {
        assert!(score("abcdefgh", "abcd") > score("abcd", "abcdefgh"));
    }

    #[test]
    fn a_small_case_agrees_with_a_calculation_by_hand() {
        // Unigrams 3 of 4 and 3 of 4, bigrams 1 of 3, trigrams and longer none (of 2 and 1).
        let expected = (0.75 + 1.0 / 3.0) / 4.0 * 100.0;
        assert!((score("abxd", "abcd") - expected).abs() < 1e-9);
    }
}
