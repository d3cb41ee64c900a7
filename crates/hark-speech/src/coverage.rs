//! Finds speech that a window's text leaves out.
//!
//! Given several utterances at once, Whisper sometimes transcribes some of them and skips the others, more often the wider
//! the beam. Voice activity detects speech there, and the alignment shows it: the time of the
//! missing words is aligned to a neighbour, which then spans seconds of speech. Such parts are decoded
//! again on their own.

use hark_whisper::words::AlignedWord;

/// A word that spans less time than this hides nothing.
const LONG_HOLD: f64 = 1.6;
/// Shorter utterances are ignored.
const SHORT_UTTERANCE: f64 = 0.5;
/// Tolerance for an utterance to be inside the span of a word.
const SLACK: f64 = 0.3;
/// Maximum duration of one drawn-out word.
const ONE_WORD: f64 = 1.0;
/// Minimum duration of missing speech without a pause.
const LONG_STRETCH: f64 = 2.0;
/// The median duration of the words of speech at an ordinary pace; the durations above are those of such speech.
const ORDINARY_WORD: f64 = 0.3;
/// Fewer words do not tell the pace.
const MIN_WORDS: usize = 8;
/// Parts closer than this are decoded together.
const JOIN: f64 = 1.5;

/// Parts of `speech` that no word of `words` accounts for. All times are in seconds from the start of the window.
pub fn left_out(words: &[AlignedWord], speech: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let slowness = slowness(words);
    let (long_hold, one_word, long_stretch) = (LONG_HOLD * slowness, ONE_WORD * slowness, LONG_STRETCH * slowness);
    let mut stretches: Vec<(f64, f64)> = Vec::new();
    for word in words {
        let (from, to) = word.holds;
        if to - from < long_hold {
            continue;
        }
        let inside = |&&(start, end): &&(f64, f64)| start >= from - SLACK && end <= to + SLACK;
        let utterances: Vec<(f64, f64)> =
            speech.iter().filter(inside).filter(|span| span.1 - span.0 >= SHORT_UTTERANCE).copied().collect();
        let total: f64 = utterances.iter().map(|span| span.1 - span.0).sum();
        // A single short utterance is the word itself.
        let is_the_word = utterances.len() == 1 && total < one_word;
        if !utterances.is_empty() && !is_the_word {
            let alone =
                speech.iter().filter(|span| span.1 > from + SLACK && span.0 < to - SLACK).count() == utterances.len();
            // Without other speech nearby the word is in one of these utterances.
            let keep = if alone { without_the_word(&utterances, word, one_word) } else { utterances };
            stretches.extend(keep);
            let begun = begun_inside(speech, (from, to)).map(|start| (start, to - one_word));
            stretches.extend(begun.filter(|part| part.1 - part.0 >= long_stretch));
            continue;
        }
        // No pause: continuous speech aligned to one word.
        for &(start, end) in speech {
            let (start, end) = (start.max(from + one_word), end.min(to));
            if end - start >= long_stretch {
                stretches.push((start, end));
            }
        }
    }
    let mut joined: Vec<(f64, f64)> = Vec::new();
    for stretch in stretches {
        match joined.last_mut() {
            Some(last) if stretch.0 - last.1 <= JOIN => last.1 = last.1.max(stretch.1),
            _ => joined.push(stretch),
        }
    }
    joined
}

/// How much slower than ordinary speech the words are, 1 at least: a slow speaker's words are long, and nothing is left out there.
fn slowness(words: &[AlignedWord]) -> f64 {
    let mut durations: Vec<f64> =
        words.iter().map(|word| word.end - word.start).filter(|duration| *duration > 0.0).collect();
    if durations.len() < MIN_WORDS {
        return 1.0;
    }
    durations.sort_by(f64::total_cmp);
    (durations[durations.len() / 2] / ORDINARY_WORD).max(1.0)
}

/// The start of an utterance that begins between two times and goes on after the second.
fn begun_inside(speech: &[(f64, f64)], (from, to): (f64, f64)) -> Option<f64> {
    speech.iter().find(|span| span.0 >= from - SLACK && span.1 > to + SLACK && span.0 < to).map(|span| span.0)
}

/// The utterances without the one that the word was spoken in, by its times without the pause.
fn without_the_word(utterances: &[(f64, f64)], word: &AlignedWord, one_word: f64) -> Vec<(f64, f64)> {
    let overlap = |span: &(f64, f64)| span.1.min(word.end) - span.0.max(word.start);
    let own = utterances
        .iter()
        .enumerate()
        .filter(|(_, span)| overlap(span) > 0.0 && span.1 - span.0 < one_word)
        .max_by(|a, b| overlap(a.1).total_cmp(&overlap(b.1)))
        .map(|(index, _)| index);
    utterances.iter().enumerate().filter(|&(index, _)| Some(index) != own).map(|(_, span)| *span).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(holds: (f64, f64)) -> AlignedWord {
        AlignedWord {
            text: " word".to_owned(),
            tokens: 0..1,
            start: holds.0,
            end: holds.1.min(holds.0 + 0.5),
            probability: 0.9,
            holds,
        }
    }

    #[test]
    fn words_of_ordinary_length_leave_nothing_out() {
        let words = [word((0.0, 0.4)), word((0.4, 1.0)), word((1.0, 2.4))];
        assert!(left_out(&words, &[(0.1, 2.4)]).is_empty());
    }

    #[test]
    fn long_words_of_a_slow_speaker_leave_nothing_out() {
        let text = |duration: f64| -> Vec<AlignedWord> {
            let mut words: Vec<AlignedWord> = (0..9)
                .map(|index| word((f64::from(index) * duration, f64::from(index + 1) * duration)))
                .map(|word| AlignedWord { end: word.holds.1, ..word })
                .collect();
            let from = 9.0 * duration;
            words.push(word((from, from + 1.9)));
            words
        };
        let spoken = |words: &[AlignedWord]| [(0.0, words[8].end - 0.1), (words[9].holds.0 + 0.2, words[9].holds.1)];
        let ordinary = text(0.3);
        assert_eq!(left_out(&ordinary, &spoken(&ordinary)).len(), 1);
        let slow = text(0.55);
        assert!(left_out(&slow, &spoken(&slow)).is_empty());
    }

    #[test]
    fn a_pause_held_by_a_word_is_no_speech() {
        let words = [word((0.0, 0.5)), word((0.5, 6.0)), word((6.0, 6.5))];
        assert!(left_out(&words, &[(0.1, 1.1), (5.9, 6.5)]).is_empty());
    }

    #[test]
    fn an_utterance_under_a_long_word_is_left_out() {
        let words = [word((0.0, 0.5)), word((0.5, 8.0)), word((8.0, 8.5))];
        assert_eq!(left_out(&words, &[(0.1, 1.1), (2.0, 5.0), (7.9, 9.0)]), [(2.0, 5.0)]);
    }

    #[test]
    fn the_end_of_a_run_of_speech_is_left_out_where_the_text_stops_early() {
        let words = [word((0.0, 0.5)), word((0.5, 9.0))];
        assert_eq!(left_out(&words, &[(0.1, 9.0)]), [(1.5, 9.0)]);
    }

    #[test]
    fn the_beginning_of_an_utterance_is_left_out_with_those_before_it() {
        let words = [word((0.0, 0.5)), word((0.5, 12.0)), word((12.0, 12.5))];
        let speech = [(0.1, 1.1), (2.0, 5.0), (5.5, 20.0)];
        assert_eq!(left_out(&words, &speech), [(2.0, 11.0)]);
        // Too little of it to tell from the word.
        assert_eq!(left_out(&words, &[(0.1, 1.1), (2.0, 5.0), (9.5, 20.0)]), [(2.0, 5.0)]);
    }

    #[test]
    fn neighbouring_stretches_are_joined() {
        let words = [word((0.0, 0.5)), word((0.5, 12.0)), word((12.0, 12.5))];
        assert_eq!(left_out(&words, &[(0.1, 1.1), (2.0, 5.0), (5.8, 9.0), (11.9, 13.0)]), [(2.0, 9.0)]);
    }
}
