//! A transcript as atoms: the smallest pieces of text that layout never splits, each with its time.

use hark_transcript::{Segment, TranscriptionResult};

use crate::script::{self, Ending};

/// A word of a spaced script, or a character of an unspaced one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Atom {
    pub(crate) text: String,
    /// Whether a space stands before it when it does not begin a line.
    pub(crate) spaced: bool,
    pub(crate) width: usize,
    pub(crate) start: f64,
    pub(crate) end: f64,
    pub(crate) ending: Ending,
    /// Whether a word of the transcript ends with it: unspaced scripts are better broken there.
    pub(crate) ends_word: bool,
    /// Whether a segment of the transcript ends with it.
    pub(crate) ends_segment: bool,
}

/// One voice without interruption.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Turn {
    pub(crate) speaker: Option<String>,
    pub(crate) atoms: Vec<Atom>,
}

/// Splits a transcript into turns: a new one where the speaker changes. Times are made to run forwards.
pub(crate) fn turns(transcript: &TranscriptionResult) -> Vec<Turn> {
    let mut turns: Vec<Turn> = Vec::new();
    let mut clock = 0.0;
    let alone = speaks_alone(transcript);
    for segment in &transcript.segments {
        let mut atoms = segment_atoms(segment);
        let Some(last) = atoms.last_mut() else {
            continue;
        };
        last.ends_segment = true;
        for atom in &mut atoms {
            atom.start = finite(atom.start).max(clock);
            atom.end = finite(atom.end).max(atom.start);
            clock = atom.start;
        }
        match turns.last_mut() {
            Some(turn) if alone || turn.speaker == segment.speaker => {
                if let (Some(before), Some(first)) = (turn.atoms.last(), atoms.first_mut()) {
                    first.spaced = !script::joins_tightly(&before.text, &first.text);
                }
                turn.atoms.append(&mut atoms);
            }
            _ => {
                atoms[0].spaced = false;
                turns.push(Turn { speaker: segment.speaker.clone().filter(|_| !alone), atoms });
            }
        }
    }
    turns
}

/// Whether all is said by one voice that nobody gave a name: then a label in front of it tells a reader nothing.
pub(crate) fn speaks_alone(transcript: &TranscriptionResult) -> bool {
    let mut labels = transcript.segments.iter().map(|segment| segment.speaker.as_deref());
    let first = labels.next().flatten();
    first.and_then(label_number).is_some() && labels.all(|label| label == first)
}

/// The number in the label of a speaker without a name, from 0; none where it is a name.
pub(crate) fn label_number(label: &str) -> Option<u32> {
    let digits = label.strip_prefix("SPEAKER_")?;
    digits.bytes().all(|digit| digit.is_ascii_digit()).then(|| digits.parse().ok())?
}

/// The atoms of a text without times.
pub(crate) fn of_text(text: &str) -> Vec<Atom> {
    let mut atoms = Vec::new();
    push_parts(&mut atoms, text, false, 0.0, 0.0);
    atoms
}

fn finite(seconds: f64) -> f64 {
    if seconds.is_finite() { seconds } else { 0.0 }
}

fn segment_atoms(segment: &Segment) -> Vec<Atom> {
    let mut atoms = Vec::new();
    if segment.words.is_empty() {
        push_parts(&mut atoms, &segment.text, true, segment.start, segment.end);
        return atoms;
    }
    // Words carry no spaces, the segment's text does: walk it beside them. Where the two disagree the words win, since
    // they have the times.
    let mut rest = segment.text.as_str();
    for word in &segment.words {
        let text = word.word.trim();
        if text.is_empty() {
            continue;
        }
        let trimmed = rest.trim_start();
        let spaced = match trimmed.strip_prefix(text) {
            Some(after) => {
                let spaced = trimmed.len() < rest.len();
                rest = after;
                spaced
            }
            None => match rest.find(text) {
                Some(at) => {
                    let spaced = at == 0 || rest[..at].ends_with(char::is_whitespace);
                    rest = &rest[at + text.len()..];
                    spaced
                }
                None => atoms.last().is_none_or(|before: &Atom| !script::joins_tightly(&before.text, text)),
            },
        };
        push_parts(&mut atoms, text, spaced, word.start, word.end);
    }
    atoms
}

/// Cuts `text` into atoms and shares the time out by width, since no times exist below it.
fn push_parts(atoms: &mut Vec<Atom>, text: &str, spaced: bool, start: f64, end: f64) {
    let columns = text.split_whitespace().map(script::width).sum::<usize>().max(1) as f64;
    let seconds = (end - start).max(0.0);
    let mut done = 0;
    for (n, word) in text.split_whitespace().enumerate() {
        let word_spaced = if n == 0 { spaced } else { true };
        let parts = script::breakable_parts(word);
        let last = parts.len() - 1;
        for (k, part) in parts.into_iter().enumerate() {
            let width = script::width(part);
            let begin = start + seconds * done as f64 / columns;
            done += width;
            atoms.push(Atom {
                text: part.to_owned(),
                spaced: k == 0 && word_spaced,
                width,
                start: begin,
                end: start + seconds * done as f64 / columns,
                ending: script::ending(part),
                ends_word: k == last,
                ends_segment: false,
            });
        }
    }
}

/// Columns of `atoms` on one line.
pub(crate) fn line_width(atoms: &[Atom]) -> usize {
    atoms.iter().enumerate().map(|(n, atom)| atom.width + usize::from(n > 0 && atom.spaced)).sum()
}

/// `atoms` as one line of text.
pub(crate) fn line_text(atoms: &[Atom]) -> String {
    let mut line = String::new();
    for (n, atom) in atoms.iter().enumerate() {
        if n > 0 && atom.spaced {
            line.push(' ');
        }
        line.push_str(&atom.text);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use hark_transcript::Word;

    fn word(word: &str, start: f64, end: f64) -> Word {
        Word { word: word.into(), start, end, confidence: 1.0 }
    }

    fn one(segment: Segment) -> Vec<Atom> {
        let transcript = TranscriptionResult { segments: vec![segment], ..Default::default() };
        turns(&transcript).remove(0).atoms
    }

    #[test]
    fn spaces_between_words_come_from_the_text_of_the_segment() {
        let words = vec![word("well", 0.0, 0.2), word("-known", 0.2, 0.5), word("fact", 0.6, 1.0)];
        let atoms = one(Segment { text: "well-known fact".into(), end: 1.0, words, ..Default::default() });
        assert_eq!(line_text(&atoms), "well-known fact");
    }

    #[test]
    fn words_that_the_text_lacks_are_kept() {
        let words = vec![word("one", 0.0, 0.2), word("two", 0.2, 0.5), word("three", 0.6, 1.0)];
        let atoms = one(Segment { text: "one three".into(), end: 1.0, words, ..Default::default() });
        assert_eq!(line_text(&atoms), "one two three");
    }

    #[test]
    fn without_word_times_a_segment_shares_its_time_by_width() {
        let atoms = one(Segment { start: 10.0, end: 20.0, text: "ab cdefgh ij".into(), ..Default::default() });
        let times: Vec<_> = atoms.iter().map(|a| (a.start, a.end)).collect();
        assert_eq!(times, [(10.0, 12.0), (12.0, 18.0), (18.0, 20.0)]);
    }

    #[test]
    fn times_that_run_backwards_or_are_no_numbers_are_straightened() {
        let words = vec![word("a", 5.0, 6.0), word("b", 4.0, 4.5), word("c", f64::NAN, 7.0)];
        let atoms = one(Segment { text: "a b c".into(), words, ..Default::default() });
        assert!(atoms.windows(2).all(|pair| pair[0].start <= pair[1].start));
        assert!(atoms.iter().all(|atom| atom.end >= atom.start && atom.end.is_finite()));
    }
}
