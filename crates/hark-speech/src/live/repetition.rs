//! Detects repeated phrases: a sign that the decoder has lost the audio.

use std::ops::Range;

/// Maximum words of a phrase.
const MAX_PHRASE: usize = 12;
/// This many repetitions of a phrase in a row…
const MIN_REPETITIONS: usize = 3;
/// …with this many words in total count: people say "no, no, no", too.
const MIN_WORDS: usize = 9;

/// The first occurrence of a phrase that a text repeats with nothing between; case and punctuation do not count.
pub fn first_repetition<'a>(words: impl Iterator<Item = &'a str>) -> Option<Range<usize>> {
    let words: Vec<String> = words.map(plain).collect();
    for length in 1..=MAX_PHRASE.min(words.len() / MIN_REPETITIONS) {
        let rounds = MIN_REPETITIONS.max(MIN_WORDS.div_ceil(length));
        // Words in a row that equal those one phrase before.
        let mut same = 0;
        for at in length..words.len() {
            same = if words[at] == words[at - length] { same + 1 } else { 0 };
            if same == (rounds - 1) * length {
                let first = at + 1 - rounds * length;
                return Some(first..first + length);
            }
        }
    }
    None
}

fn plain(word: &str) -> String {
    word.chars().filter(|character| character.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repetition_in(text: &str) -> Option<Range<usize>> {
        first_repetition(text.split(' '))
    }

    #[test]
    fn a_phrase_said_three_times_is_a_repetition() {
        let text = "for further investigation. Marks of violence. Marks of violence, marks of violence.";
        assert_eq!(repetition_in(text), Some(3..6));
        assert_eq!(repetition_in(&format!("{text} But a mob")), Some(3..6));
    }

    #[test]
    fn what_people_repeat_is_none() {
        for text in [
            "",
            "no no no no no",
            "thou also, thou also: the gut",
            "I don't know. I don't know what it is.",
            "one two three one two four",
        ] {
            assert_eq!(repetition_in(text), None, "{text}");
        }
    }

    #[test]
    fn a_single_word_is_one_when_it_is_said_for_long() {
        assert_eq!(repetition_in(&format!("well {}", ["no"; 9].join(" "))), Some(1..2));
    }

    #[test]
    fn rounds_with_something_between_are_none() {
        assert_eq!(repetition_in("marks of violence and marks of violence or marks of violence"), None);
    }
}
