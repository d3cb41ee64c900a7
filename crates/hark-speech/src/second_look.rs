//! Joins the text of a second look with the words around it.
//!
//! The times of words around a stretch that a text leaves out are those of an alignment that went wrong there, so the stretch
//! may contain a part of what stands: "right here at the Pentagon." is heard again as "at the Pentagon.". Words at the ends of
//! the new text that repeat their neighbours are such an echo, or they were said twice. Times can't tell, so the audio of both is
//! decoded together ([`Check`]): a repetition that was said is in that text.

use hark_whisper::words::AlignedWord;

/// Words of the neighbourhood that are compared with those of a second look.
const NEIGHBOURS: usize = 12;
/// Neighbours begin or end at most this many seconds from the stretch.
const REACH: f64 = 6.0;
/// Words beside a repetition that are decoded with it, so that it does not stand alone.
const CONTEXT: usize = 3;
/// The longest audio that is decoded to tell an echo from a repetition.
const LONGEST_CHECK: f64 = 29.0;

/// A second look whose ends repeat the words around it.
#[derive(Debug, Clone, PartialEq)]
pub struct Check {
    /// The part of the window to decode, in seconds from the window's start.
    pub part: (f64, f64),
    /// Words at the start and at the end of the second look that may be an echo.
    leading: usize,
    trailing: usize,
    /// The text of the part with the second look as it is, and without the echo.
    complete: Vec<String>,
    reduced: Vec<String>,
}

impl Check {
    /// The check that `heard` needs, the words of a second look at `gap` of a window with the words `standing`; `None` if nothing is
    /// repeated. All times are in seconds from the window's start.
    pub fn of(standing: &[AlignedWord], heard: &[AlignedWord], gap: (f64, f64)) -> Option<Check> {
        let split = standing.partition_point(|word| word.start < gap.0);
        let near = |word: &&AlignedWord| word.end > gap.0 - REACH && word.start < gap.1 + REACH;
        let before: Vec<&AlignedWord> = standing[split.saturating_sub(NEIGHBOURS)..split].iter().filter(near).collect();
        let after: Vec<&AlignedWord> = standing[split..].iter().take(NEIGHBOURS).filter(near).collect();
        let (left, right, new) = (plain(before.iter().copied()), plain(after.iter().copied()), plain(heard));
        let leading = overlap(&left, &new);
        let trailing = overlap(&new[leading..], &right);
        if leading + trailing == 0 {
            return None;
        }
        let kept_before = before.len() - before.len().min(leading + CONTEXT);
        let kept_after = right.len().min(trailing + CONTEXT);
        let joined = |middle: &[String]| [&left[kept_before..], middle, &right[..kept_after]].concat();
        let from = before.get(kept_before).map_or(gap.0, |word| word.start.min(gap.0));
        let to = after[..kept_after].last().map_or(gap.1, |word| word.end.max(gap.1));
        Some(Check {
            part: (from, to.min(from + LONGEST_CHECK)),
            leading,
            trailing,
            complete: joined(&new),
            reduced: joined(&new[leading..new.len() - trailing]),
        })
    }

    /// Removes the echo from the words of the second look unless `decoded`, the words of the part, have it twice.
    pub fn apply(&self, decoded: &[AlignedWord], heard: &mut Vec<AlignedWord>) {
        let decoded = plain(decoded);
        if distance(&decoded, &self.complete) >= distance(&decoded, &self.reduced) {
            heard.truncate(heard.len() - self.trailing);
            heard.drain(..self.leading);
        }
    }
}

/// Words as they are compared: without case and punctuation.
fn plain<'a>(words: impl IntoIterator<Item = &'a AlignedWord>) -> Vec<String> {
    let letters =
        |word: &AlignedWord| word.text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect();
    words.into_iter().map(letters).collect()
}

/// How many words at the end of `left` are the first words of `right`; the longest such run.
fn overlap(left: &[String], right: &[String]) -> usize {
    let longest = left.len().min(right.len());
    (1..=longest).rev().find(|&count| left[left.len() - count..] == right[..count]).unwrap_or(0)
}

/// The fewest words to substitute, insert and delete to turn one text into the other.
fn distance(from: &[String], to: &[String]) -> usize {
    let mut above: Vec<usize> = (0..=to.len()).collect();
    for (index, word) in from.iter().enumerate() {
        let mut row = vec![index + 1];
        for (column, other) in to.iter().enumerate() {
            let substituted = above[column] + usize::from(word != other);
            row.push(substituted.min(above[column + 1] + 1).min(row[column] + 1));
        }
        above = row;
    }
    above[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words of half a second each from a moment on.
    fn words(start: f64, text: &str) -> Vec<AlignedWord> {
        let at = |index: usize| start + 0.5 * index as f64;
        let word = |(index, text): (usize, &str)| AlignedWord {
            text: format!(" {text}"),
            tokens: index..index + 1,
            start: at(index),
            end: at(index + 1),
            probability: 0.9,
            holds: (at(index), at(index + 1)),
        };
        text.split(' ').enumerate().map(word).collect()
    }

    fn text(words: &[AlignedWord]) -> String {
        words.iter().map(|word| word.text.trim()).collect::<Vec<_>>().join(" ")
    }

    /// What is left of `heard` in the gap between two texts, given what both are heard as together.
    fn joined(before: &str, heard: &str, after: &str, together: &str) -> String {
        let mut standing = words(0.0, before);
        let from = standing.last().map_or(0.0, |word| word.end + 0.5);
        standing.extend(words(from + 3.0, after).into_iter().filter(|word| word.text.len() > 1));
        let mut heard = words(from, heard);
        if let Some(check) = Check::of(&standing, &heard, (from, from + 3.0)) {
            check.apply(&words(0.0, together), &mut heard);
        }
        text(&heard)
    }

    #[test]
    fn a_second_look_that_repeats_its_neighbours_adds_nothing() {
        let together = "right here at the Pentagon.";
        assert_eq!(joined("right here at", "at the Pentagon.", "the Pentagon.", together), "");
        assert_eq!(joined("right here at the Pentagon.", "the Pentagon", "", together), "");
        assert_eq!(joined("in 2001.", "2001.", "", "in 2001"), "");
    }

    #[test]
    fn words_between_an_echo_stay() {
        let together = "more determined, and so were all the others here.";
        assert_eq!(
            joined("more determined,", "determined and so were all", "all the others here.", together),
            "and so were"
        );
    }

    #[test]
    fn what_was_said_twice_stays() {
        assert_eq!(joined("I said no,", "No, no.", "and left", "I said no, no, no, and left"), "No, no.");
        assert_eq!(joined("four seven", "seven", "one", "Four, seven, seven, one."), "seven");
    }

    #[test]
    fn a_text_without_repetition_needs_no_check() {
        assert_eq!(Check::of(&words(0.0, "one two five"), &words(1.0, "three four"), (1.0, 2.0)), None);
        let far = words(0.0, "yes");
        assert_eq!(Check::of(&far, &words(10.0, "yes"), (10.0, 12.0)), None, "the same word a while later");
    }

    #[test]
    fn the_part_that_is_decoded_has_both_neighbours_and_fits_a_window() {
        let standing = [words(0.0, "a b c d e"), words(6.0, "f g h i j k")].concat();
        let check = Check::of(&standing, &words(3.0, "e x y f"), (3.0, 5.5)).unwrap();
        assert_eq!(check.part, (0.5, 8.0));
        let far = [words(0.0, "a b"), words(40.0, "c")].concat();
        let check = Check::of(&far, &words(1.0, "b x c"), (1.0, 39.0)).unwrap();
        assert!(check.part.1 - check.part.0 <= 29.0, "{:?}", check.part);
    }
}
