//! The text of an answer, sentence by sentence, without those that name something unknown.

use super::{Refused, refusal};
use crate::facts::FactChecker;
use crate::sentences;

/// Collects an answer and gives its sentences away once they have been checked.
pub(super) struct CheckedText<'a> {
    checker: &'a FactChecker,
    on_text: &'a (dyn Fn(&str) + Send + Sync),
    /// What came and was not looked at yet.
    pending: String,
    /// What was given away.
    given: String,
    says_not_found: bool,
}

impl<'a> CheckedText<'a> {
    pub(super) fn new(checker: &'a FactChecker, on_text: &'a (dyn Fn(&str) + Send + Sync)) -> Self {
        CheckedText { checker, on_text, pending: String::new(), given: String::new(), says_not_found: false }
    }

    pub(super) fn push(&mut self, piece: &str) {
        self.pending.push_str(piece);
    }

    /// What came and was not given away yet.
    pub(super) fn pending(&self) -> &str {
        &self.pending
    }

    /// Whether a sentence is complete: another one has begun behind it.
    pub(super) fn has_sentence(&self) -> bool {
        sentences::split(&self.pending).len() > 1
    }

    /// Whether the answer begins by saying that there is none.
    pub(super) fn says_not_found(&self) -> bool {
        self.says_not_found
    }

    /// Gives complete sentences away.
    pub(super) fn give_sentences(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        let mut spans = sentences::split(&pending);
        if let Some(last) = spans.pop() {
            spans.into_iter().for_each(|span| self.give(&pending[span]));
            self.pending = pending[last].to_owned();
        }
    }

    /// The whole answer, or why nothing of it can be used. The last sentence of one that was cut off is left out, unless it is the only
    /// one.
    pub(super) fn finish(mut self, is_cut_off: bool) -> Result<String, Refused> {
        let last = std::mem::take(&mut self.pending);
        if !is_cut_off || self.given.is_empty() {
            self.give(&last);
        }
        match (self.says_not_found, self.given.is_empty()) {
            (true, _) => Err(Refused::NotFound),
            (_, true) => Err(Refused::Unfounded),
            _ => Ok(self.given),
        }
    }

    fn give(&mut self, sentence: &str) {
        let sentence = without_citations(sentence);
        let sentence = sentence.trim();
        if !sentence.chars().any(char::is_alphanumeric) || self.says_not_found {
            return;
        }
        if self.given.is_empty() && refusal::says_not_found(sentence) {
            self.says_not_found = true;
            return;
        }
        if self.checker.unfounded(sentence).is_some() {
            return;
        }
        let piece = match self.given.chars().last() {
            None | Some('。' | '！' | '？') => sentence.to_owned(),
            Some(_) => format!(" {sentence}"),
        };
        (self.on_text)(&piece);
        self.given.push_str(&piece);
    }
}

/// A sentence without numbers of lines such as `[3]` or `[3, 4]`.
fn without_citations(sentence: &str) -> String {
    let mut kept = String::with_capacity(sentence.len());
    let mut rest = sentence;
    while let Some(open) = rest.find('[') {
        let (before, bracket) = rest.split_at(open);
        let close = bracket.find(']').filter(|close| {
            let inside = &bracket[1..*close];
            inside.contains(|c: char| c.is_ascii_digit())
                && inside.chars().all(|c| c.is_ascii_digit() || matches!(c, ',' | ' ' | '-' | '–'))
        });
        match close {
            Some(close) => {
                kept.push_str(before.trim_end());
                rest = &bracket[close + 1..];
            }
            None => {
                kept.push_str(before);
                kept.push('[');
                rest = &bracket[1..];
            }
        }
    }
    kept.push_str(rest);
    kept
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::language;

    /// What is given away and what comes out, of an answer that arrives in pieces of four characters.
    fn run(answer: &str, is_cut_off: bool) -> (String, Result<String, Refused>) {
        let checker = FactChecker::of_text("Bob: The invoice is 4200 euros, due on Friday.", language::by_code("en"));
        let given = Mutex::new(String::new());
        let on_text = |piece: &str| given.lock().unwrap().push_str(piece);
        let mut text = CheckedText::new(&checker, &on_text);
        for piece in answer.chars().collect::<Vec<_>>().chunks(4) {
            text.push(&piece.iter().collect::<String>());
            text.give_sentences();
        }
        let whole = text.finish(is_cut_off);
        (given.into_inner().unwrap(), whole)
    }

    #[test]
    fn what_is_given_away_is_the_answer() {
        let (given, whole) = run("The invoice is 4200 euros [1].  It is due on Friday [1, 2].", false);
        assert_eq!(given, "The invoice is 4200 euros. It is due on Friday.");
        assert_eq!(whole.as_deref(), Ok(given.as_str()));
    }

    #[test]
    fn sentences_with_something_unknown_are_dropped() {
        assert_eq!(
            run("Bob pays 4200 euros. Maria agreed. It takes 99 days.", false).1.unwrap(),
            "Bob pays 4200 euros."
        );
        assert_eq!(run("It was Maria.", false).1, Err(Refused::Unfounded));
        assert_eq!(run("", false).1, Err(Refused::Unfounded));
    }

    #[test]
    fn an_answer_that_says_that_there_is_none_is_a_refusal() {
        assert_eq!(
            run("The transcript does not mention a dog. Bob pays.", false),
            (String::new(), Err(Refused::NotFound))
        );
    }

    #[test]
    fn an_answer_that_was_cut_off_ends_with_a_sentence() {
        assert_eq!(run("Bob pays 4200 euros. It is due o", true).1.unwrap(), "Bob pays 4200 euros.");
        assert_eq!(run("Bob pays 4200 eu", true).1.unwrap(), "Bob pays 4200 eu");
    }

    #[test]
    fn brackets_that_cite_nothing_stay() {
        assert_eq!(without_citations("a [b] c [1] d [2-3]."), "a [b] c d.");
        assert_eq!(without_citations("open [1"), "open [1");
    }
}
