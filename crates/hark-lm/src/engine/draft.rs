//! Prompt lookup decoding: tokens that followed the same tokens before are drafted and computed with the next token in one step.
//!
//! Answers about a text repeat it: names, amounts, quotes, sentences. A few rows more cost little in a step that is bound by reading the weights. Every
//! token is still chosen from its own logits, and a draft counts only as far as it is what was chosen: answers are the same as without drafts.

/// Tokens that must match in a row before anything is drafted.
const MIN_MATCH: usize = 2;

/// Longer matches are not told apart.
const MAX_MATCH: usize = 8;

/// Tokens of the first draft: with the next token they fill one group of rows of the int8 kernels.
const FIRST_DRAFT: usize = 3;

/// Tokens of the longest draft.
pub(super) const MAX_DRAFT: usize = 7;

/// How many failures in a row make the required match longer, and by how much at most.
const MAX_CAUTION: usize = 3;

/// Drafts for one answer.
#[derive(Debug)]
pub(super) struct Drafter {
    /// Tokens of the next draft.
    length: usize,
    /// Drafts in a row of which nothing was accepted.
    failures: usize,
}

impl Default for Drafter {
    fn default() -> Self {
        Drafter { length: FIRST_DRAFT, failures: 0 }
    }
}

impl Drafter {
    /// At most `most` tokens that may come after `tokens`: what followed the longest match of their end, the latest of equals.
    pub(super) fn draft<'a>(&self, tokens: &'a [u32], most: usize) -> &'a [u32] {
        let most = most.min(self.length);
        let wanted = MIN_MATCH + self.failures.min(MAX_CAUTION);
        if most == 0 || tokens.len() <= wanted {
            return &[];
        }
        let (mut best, mut longest) = (0, wanted - 1);
        for end in (wanted..tokens.len()).rev() {
            let backwards = tokens[..end].iter().rev().zip(tokens.iter().rev());
            let length = backwards.take(MAX_MATCH).take_while(|(one, other)| one == other).count();
            if length > longest {
                (best, longest) = (end, length);
                if length == MAX_MATCH {
                    break;
                }
            }
        }
        if best == 0 { &[] } else { &tokens[best..(best + most).min(tokens.len())] }
    }

    /// Learns from a draft how long the next should be.
    pub(super) fn observe(&mut self, drafted: usize, accepted: usize) {
        if drafted == 0 {
            return;
        }
        if accepted == 0 {
            (self.length, self.failures) = (1, self.failures + 1);
            return;
        }
        self.failures = 0;
        // A draft that was cut short by the step tells nothing of longer ones.
        self.length = if accepted >= self.length { MAX_DRAFT.min(2 * self.length + 1) } else { FIRST_DRAFT };
    }
}

/// Rows of drafts that a step of `rows` other rows has for nothing or nearly so: rows are computed in groups of up to `few`, beyond that in blocks.
pub(super) fn spare_rows(rows: usize, few: usize, block: usize) -> usize {
    if rows <= few { few - rows } else { rows.next_multiple_of(block) - rows }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_followed_the_longest_match_is_drafted_and_the_latest_of_equals() {
        let drafter = Drafter::default();
        assert_eq!(drafter.draft(&[1, 2, 3, 4, 5, 9, 1, 2], 3), [3, 4, 5]);
        assert_eq!(drafter.draft(&[1, 2, 3, 4, 5, 9, 1, 2], 2), [3, 4]);
        assert_eq!(drafter.draft(&[1, 2, 7, 8, 1, 2, 3, 4, 9, 1, 2], 2), [3, 4], "the latest");
        assert_eq!(drafter.draft(&[0, 1, 2, 7, 8, 5, 1, 2, 3, 4, 0, 1, 2], 2), [7, 8], "the longest");
        assert_eq!(drafter.draft(&[6, 6, 6, 6], 3), [6], "a run of one token");
    }

    #[test]
    fn nothing_is_drafted_without_a_match_or_room() {
        let drafter = Drafter::default();
        for tokens in [&[][..], &[1], &[1, 2], &[1, 2, 3, 4, 2, 9], &[5, 2, 3, 1, 2]] {
            assert!(drafter.draft(tokens, 3).is_empty(), "{tokens:?}");
        }
        assert!(drafter.draft(&[1, 2, 3, 1, 2], 0).is_empty());
    }

    #[test]
    fn drafts_grow_while_they_are_right_and_ask_for_longer_matches_when_they_are_not() {
        let tokens: Vec<u32> = (0..20).chain(0..3).collect();
        let mut drafter = Drafter::default();
        assert_eq!(drafter.draft(&tokens, 99).len(), 3);
        drafter.observe(3, 3);
        assert_eq!(drafter.draft(&tokens, 99).len(), MAX_DRAFT);
        drafter.observe(7, 2);
        assert_eq!(drafter.draft(&tokens, 99).len(), 3);
        drafter.observe(3, 0);
        assert_eq!(drafter.draft(&tokens, 99), [3]);
        drafter.observe(1, 0);
        assert!(drafter.draft(&tokens, 99).is_empty(), "three tokens match, four are wanted");
        drafter.observe(0, 0);
        assert!(drafter.draft(&tokens, 99).is_empty());
        drafter.observe(1, 1);
        assert_eq!(drafter.draft(&tokens, 99).len(), 3);
    }

    #[test]
    fn a_step_is_filled_up_to_its_group_or_block() {
        assert_eq!([0, 1, 5, 8].map(|rows| spare_rows(rows, 8, 32)), [8, 7, 3, 0]);
        assert_eq!([9, 31, 32, 33].map(|rows| spare_rows(rows, 8, 32)), [23, 1, 0, 31]);
    }
}
