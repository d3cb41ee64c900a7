//! Word error rate: the fewest words to substitute, insert and delete to turn the reference into what was heard.

use std::ops::AddAssign;

use serde::Serialize;

use super::english;

/// The errors of one transcript, or of many added up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct WordErrors {
    /// Words heard as another word.
    pub substitutions: usize,
    /// Words heard that were not said.
    pub insertions: usize,
    /// Words said that were not heard.
    pub deletions: usize,
    /// Words in the reference.
    pub reference_words: usize,
}

impl WordErrors {
    /// Compares two texts after both were put in the same plain English.
    pub fn between(reference: &str, heard: &str) -> Self {
        align(&english::words(reference), &english::words(heard))
    }

    /// Errors per word of the reference; above 1 when more was invented than said. `None` without a reference.
    pub fn rate(&self) -> Option<f64> {
        let errors = self.substitutions + self.insertions + self.deletions;
        (self.reference_words > 0).then(|| errors as f64 / self.reference_words as f64)
    }
}

impl AddAssign for WordErrors {
    fn add_assign(&mut self, other: Self) {
        self.substitutions += other.substitutions;
        self.insertions += other.insertions;
        self.deletions += other.deletions;
        self.reference_words += other.reference_words;
    }
}

/// One cell of the alignment: the best way to get here and what it cost. Carrying the counts along the path
/// needs two rows of memory where a trace back would need the whole table (10,000 words squared).
#[derive(Clone, Copy, Default)]
struct Path {
    substitutions: u32,
    insertions: u32,
    deletions: u32,
}

impl Path {
    fn cost(self) -> u32 {
        self.substitutions + self.insertions + self.deletions
    }
}

fn align(reference: &[String], heard: &[String]) -> WordErrors {
    let mut above: Vec<Path> =
        (0..=heard.len() as u32).map(|insertions| Path { insertions, ..Path::default() }).collect();
    let mut row = above.clone();
    for (said_before, said) in reference.iter().enumerate() {
        row[0] = Path { deletions: said_before as u32 + 1, ..Path::default() };
        for (at, word) in heard.iter().enumerate() {
            let diagonal = above[at];
            let matched =
                if word == said { diagonal } else { Path { substitutions: diagonal.substitutions + 1, ..diagonal } };
            let deleted = Path { deletions: above[at + 1].deletions + 1, ..above[at + 1] };
            let inserted = Path { insertions: row[at].insertions + 1, ..row[at] };
            row[at + 1] = [matched, deleted, inserted].into_iter().min_by_key(|path| path.cost()).unwrap_or(matched);
        }
        std::mem::swap(&mut above, &mut row);
    }
    let best = above[heard.len()];
    WordErrors {
        substitutions: best.substitutions as usize,
        insertions: best.insertions as usize,
        deletions: best.deletions as usize,
        reference_words: reference.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(reference: &str, heard: &str) -> (usize, usize, usize) {
        let errors = WordErrors::between(reference, heard);
        (errors.substitutions, errors.insertions, errors.deletions)
    }

    #[test]
    fn the_same_words_have_no_errors_however_they_are_written() {
        assert_eq!(counts("mister hale had seven ships", "Mr. Hale had 7 ships."), (0, 0, 0));
    }

    #[test]
    fn each_kind_of_error_is_counted_as_what_it_is() {
        assert_eq!(counts("the cat sat", "the dog sat"), (1, 0, 0));
        assert_eq!(counts("the cat sat", "the big cat sat"), (0, 1, 0));
        assert_eq!(counts("the cat sat", "the sat"), (0, 0, 1));
        assert_eq!(counts("a b c d e", "x b d e f"), (1, 1, 1));
    }

    #[test]
    fn the_rate_is_errors_per_word_said() {
        let errors = WordErrors::between("one two three four", "one too three four five");
        assert_eq!(errors.rate(), Some(0.5));
    }

    #[test]
    fn silence_against_words_is_all_deletions_and_words_against_silence_have_no_rate() {
        assert_eq!(counts("one two", ""), (0, 0, 2));
        let invented = WordErrors::between("", "thanks for watching");
        assert_eq!((invented.insertions, invented.rate()), (3, None));
    }

    #[test]
    fn errors_of_clips_add_up_before_they_are_divided() {
        let mut total = WordErrors::between("a b c d e f g h", "a b c d e f g h");
        total += WordErrors::between("x y", "");
        assert_eq!(total.rate(), Some(0.2));
    }

    #[test]
    fn the_alignment_agrees_with_a_full_table_on_random_words() {
        let mut state = 7u32;
        let mut next = |below: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 16) % below
        };
        for _ in 0..200 {
            let mut text = || -> Vec<String> { (0..next(12)).map(|_| format!("w{}", next(4))).collect() };
            let (reference, heard) = (text(), text());
            let errors = align(&reference, &heard);
            assert_eq!(errors.substitutions + errors.insertions + errors.deletions, plain_distance(&reference, &heard));
            let length_change = heard.len() as i64 - reference.len() as i64;
            assert_eq!(errors.insertions as i64 - errors.deletions as i64, length_change);
        }
    }

    fn plain_distance(a: &[String], b: &[String]) -> usize {
        let mut table = vec![vec![0; b.len() + 1]; a.len() + 1];
        for i in 0..=a.len() {
            for j in 0..=b.len() {
                table[i][j] = match (i, j) {
                    (0, _) => j,
                    (_, 0) => i,
                    _ => {
                        let change = usize::from(a[i - 1] != b[j - 1]);
                        (table[i - 1][j - 1] + change).min(table[i - 1][j] + 1).min(table[i][j - 1] + 1)
                    }
                };
            }
        }
        table[a.len()][b.len()]
    }
}
