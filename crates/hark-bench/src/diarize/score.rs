//! How far one account of who spoke when is from another: diarization error, Jaccard error, who said each word.
//!
//! Everything is measured on the moments between two edges of any turn, so no grid rounds anything. Names need not
//! agree: each voice of the reference is paired with at most one voice of the answer, so that they share the most time.

use std::collections::BTreeMap;

/// A span of time in which one voice speaks; turns of different voices may overlap.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// Second in which it begins.
    pub start: f64,
    /// Second in which it ends.
    pub end: f64,
    /// Whose it is.
    pub voice: String,
}

/// What was counted in one file or in many, in seconds of voices (two at once count twice).
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize)]
pub struct Errors {
    /// Speech of the reference.
    pub speech: f64,
    /// Speech that nobody was named for.
    pub missed: f64,
    /// Voices named where nobody, or fewer, spoke.
    pub false_alarm: f64,
    /// Speech under another's name.
    pub confused: f64,
}

impl Errors {
    /// Diarization error rate: all that is wrong over all that was said.
    pub fn rate(&self) -> f64 {
        let wrong = self.missed + self.false_alarm + self.confused;
        if self.speech > 0.0 { wrong / self.speech } else { f64::from(wrong > 0.0) }
    }
}

impl std::ops::AddAssign for Errors {
    fn add_assign(&mut self, other: Self) {
        self.speech += other.speech;
        self.missed += other.missed;
        self.false_alarm += other.false_alarm;
        self.confused += other.confused;
    }
}

/// A moment in which nobody starts or stops: its length and who speaks in both accounts, as indices.
struct Moment {
    seconds: f64,
    reference: Vec<usize>,
    answer: Vec<usize>,
}

/// The diarization errors of an answer. Nothing within `collar` seconds of an edge of a reference turn is counted.
pub fn diarization_errors(reference: &[Span], answer: &[Span], collar: f64) -> Errors {
    let (moments, pairs) = compared(reference, answer, collar);
    let mut errors = Errors::default();
    for moment in &moments {
        let (said, named) = (moment.reference.len(), moment.answer.len());
        let right = moment.reference.iter().filter(|&&voice| is_named(&pairs, voice, &moment.answer)).count();
        errors.speech += moment.seconds * said as f64;
        errors.missed += moment.seconds * said.saturating_sub(named) as f64;
        errors.false_alarm += moment.seconds * named.saturating_sub(said) as f64;
        errors.confused += moment.seconds * (said.min(named) - right) as f64;
    }
    errors
}

/// The Jaccard error rate: one minus shared over joint time of each voice of the reference and its partner, the mean of all.
pub fn jaccard_error(reference: &[Span], answer: &[Span]) -> f64 {
    let (moments, pairs) = compared(reference, answer, 0.0);
    let voices = voices(reference).len();
    if voices == 0 {
        return f64::from(!answer.is_empty());
    }
    let (mut shared, mut joint) = (vec![0.0; voices], vec![0.0; voices]);
    for moment in &moments {
        for voice in 0..voices {
            let said = moment.reference.contains(&voice);
            let named = is_named(&pairs, voice, &moment.answer);
            shared[voice] += moment.seconds * f64::from(said && named);
            joint[voice] += moment.seconds * f64::from(said || named);
        }
    }
    let errors = shared.iter().zip(&joint).map(|(shared, joint)| 1.0 - if *joint > 0.0 { shared / joint } else { 0.0 });
    errors.sum::<f64>() / voices as f64
}

/// How many different voices speak.
pub fn count(spans: &[Span]) -> usize {
    voices(spans).len()
}

/// Words under the right name, and words that were counted: those in whose middle exactly one voice of the reference speaks.
pub fn words_right(reference: &[Span], words: &[Span]) -> (usize, usize) {
    let judged = judged_words(reference, words);
    (judged.iter().filter(|(_, right)| *right).count(), judged.len())
}

/// The words in whose middle exactly one voice of the reference speaks: when that is, and whether the name is right. One
/// without a name is wrong.
pub fn judged_words(reference: &[Span], words: &[Span]) -> Vec<(f64, bool)> {
    let named: Vec<Span> = words.iter().filter(|word| !word.voice.is_empty()).cloned().collect();
    let (_, pairs) = compared(reference, &named, 0.0);
    let (names, given) = (voices(reference), voices(&named));
    let mut judged = Vec::new();
    for word in words {
        let middle = f64::midpoint(word.start, word.end);
        let mut speaking: Vec<&str> = reference
            .iter()
            .filter(|span| span.start <= middle && middle < span.end)
            .map(|span| span.voice.as_str())
            .collect();
        speaking.dedup();
        if let [voice] = speaking[..] {
            let right = pairs[names[voice]].is_some_and(|pair| given.get(word.voice.as_str()) == Some(&pair));
            judged.push((middle, right));
        }
    }
    judged
}

fn is_named(pairs: &[Option<usize>], voice: usize, answer: &[usize]) -> bool {
    pairs[voice].is_some_and(|partner| answer.contains(&partner))
}

fn voices(spans: &[Span]) -> BTreeMap<&str, usize> {
    let mut names: BTreeMap<&str, usize> = spans.iter().map(|span| (span.voice.as_str(), 0)).collect();
    for (index, place) in names.values_mut().enumerate() {
        *place = index;
    }
    names
}

/// The moments that count, and for each voice of the reference its partner in the answer.
fn compared(reference: &[Span], answer: &[Span], collar: f64) -> (Vec<Moment>, Vec<Option<usize>>) {
    let (names, given) = (voices(reference), voices(answer));
    let moments = moments(reference, answer, &names, &given, collar);
    let mut shared = vec![vec![0.0; given.len()]; names.len()];
    for moment in &moments {
        for &voice in &moment.reference {
            for &partner in &moment.answer {
                shared[voice][partner] += moment.seconds;
            }
        }
    }
    (moments, best_pairs(&shared))
}

fn moments(
    reference: &[Span],
    answer: &[Span],
    names: &BTreeMap<&str, usize>,
    given: &BTreeMap<&str, usize>,
    collar: f64,
) -> Vec<Moment> {
    // (time, what begins or ends, +1 or -1): voices of the reference, of the answer, and stretches that don't count.
    enum Edge {
        Reference(usize),
        Answer(usize),
        Collar,
    }
    let mut edges = Vec::new();
    for span in reference.iter().filter(|span| span.end > span.start) {
        edges.push((span.start, Edge::Reference(names[span.voice.as_str()]), 1));
        edges.push((span.end, Edge::Reference(names[span.voice.as_str()]), -1));
        for edge in [span.start, span.end] {
            if collar > 0.0 {
                edges.push((edge - collar, Edge::Collar, 1));
                edges.push((edge + collar, Edge::Collar, -1));
            }
        }
    }
    for span in answer.iter().filter(|span| span.end > span.start) {
        edges.push((span.start, Edge::Answer(given[span.voice.as_str()]), 1));
        edges.push((span.end, Edge::Answer(given[span.voice.as_str()]), -1));
    }
    edges.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut said, mut named, mut outside) = (vec![0; names.len()], vec![0; given.len()], 0);
    let active = |counts: &[i32]| (0..counts.len()).filter(|&voice| counts[voice] > 0).collect::<Vec<_>>();
    let mut moments = Vec::new();
    let mut before = edges.first().map_or(0.0, |edge| edge.0);
    for (time, edge, step) in edges {
        let (reference, answer) = (active(&said), active(&named));
        if time > before && outside == 0 && !(reference.is_empty() && answer.is_empty()) {
            moments.push(Moment { seconds: time - before, reference, answer });
        }
        before = time;
        match edge {
            Edge::Reference(voice) => said[voice] += step,
            Edge::Answer(voice) => named[voice] += step,
            Edge::Collar => outside += step,
        }
    }
    moments
}

/// For each row its column, or none, so that the sum of the chosen cells is the greatest there is.
///
/// The Hungarian algorithm with potentials on the negated matrix, padded to a square: cubic in the number of voices.
fn best_pairs(shared: &[Vec<f64>]) -> Vec<Option<usize>> {
    let (rows, columns) = (shared.len(), shared.first().map_or(0, Vec::len));
    let size = rows.max(columns);
    let cost = |row: usize, column: usize| -shared.get(row).and_then(|row| row.get(column)).copied().unwrap_or(0.0);
    let (mut row_potential, mut column_potential) = (vec![0.0; size + 1], vec![0.0; size + 1]);
    // Row matched with each column, counted from 1; column 0 is where a search starts.
    let (mut matched, mut way) = (vec![0; size + 1], vec![0; size + 1]);
    for row in 1..=size {
        matched[0] = row;
        let mut column = 0;
        let (mut least, mut used) = (vec![f64::INFINITY; size + 1], vec![false; size + 1]);
        while matched[column] != 0 {
            used[column] = true;
            let (from, mut step, mut next) = (matched[column], f64::INFINITY, 0);
            for other in (1..=size).filter(|&other| !used[other]) {
                let reduced = cost(from - 1, other - 1) - row_potential[from] - column_potential[other];
                if reduced < least[other] {
                    (least[other], way[other]) = (reduced, column);
                }
                if least[other] < step {
                    (step, next) = (least[other], other);
                }
            }
            for other in 0..=size {
                if used[other] {
                    row_potential[matched[other]] += step;
                    column_potential[other] -= step;
                } else {
                    least[other] -= step;
                }
            }
            column = next;
        }
        while column != 0 {
            matched[column] = matched[way[column]];
            column = way[column];
        }
    }
    let mut pairs = vec![None; rows];
    for column in 1..=columns {
        if matched[column] <= rows && shared[matched[column] - 1][column - 1] > 0.0 {
            pairs[matched[column] - 1] = Some(column - 1);
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(turns: &[(f64, f64, &str)]) -> Vec<Span> {
        turns.iter().map(|&(start, end, voice)| Span { start, end, voice: voice.to_owned() }).collect()
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    #[test]
    fn other_names_for_the_same_turns_are_no_error() {
        let reference = spans(&[(0.0, 5.0, "ann"), (5.0, 9.0, "bob"), (4.0, 6.0, "cid")]);
        let answer = spans(&[(0.0, 5.0, "2"), (5.0, 9.0, "0"), (4.0, 6.0, "1")]);
        assert_eq!(diarization_errors(&reference, &answer, 0.0).rate(), 0.0);
        assert_eq!(jaccard_error(&reference, &answer), 0.0);
    }

    #[test]
    fn missed_false_and_confused_speech_are_told_apart() {
        let reference = spans(&[(0.0, 10.0, "ann"), (10.0, 14.0, "bob")]);
        // One second late, three seconds of bob under ann's name, two seconds too long.
        let answer = spans(&[(1.0, 13.0, "x"), (13.0, 16.0, "y")]);
        let errors = diarization_errors(&reference, &answer, 0.0);
        assert!(close(errors.speech, 14.0) && close(errors.missed, 1.0), "{errors:?}");
        assert!(close(errors.false_alarm, 2.0) && close(errors.confused, 3.0), "{errors:?}");
        assert!(close(errors.rate(), 6.0 / 14.0), "{errors:?}");
    }

    #[test]
    fn two_at_once_count_twice_and_one_name_for_them_misses_one() {
        let reference = spans(&[(0.0, 4.0, "ann"), (0.0, 4.0, "bob")]);
        let errors = diarization_errors(&reference, &spans(&[(0.0, 4.0, "x")]), 0.0);
        assert!(close(errors.speech, 8.0) && close(errors.missed, 4.0) && close(errors.confused, 0.0), "{errors:?}");
    }

    #[test]
    fn the_collar_forgives_the_edges_of_the_reference_and_nothing_else() {
        let reference = spans(&[(1.0, 3.0, "ann")]);
        let late = spans(&[(1.25, 3.0, "x")]);
        assert!(close(diarization_errors(&reference, &late, 0.25).rate(), 0.0));
        assert!(close(diarization_errors(&reference, &late, 0.0).rate(), 0.125));
        let far = spans(&[(1.0, 3.0, "x"), (5.0, 6.0, "x")]);
        let errors = diarization_errors(&reference, &far, 0.25);
        assert!(close(errors.speech, 1.5) && close(errors.false_alarm, 1.0), "{errors:?}");
    }

    #[test]
    fn the_pairing_is_the_best_for_all_not_the_best_for_the_first() {
        // Greedy would pair a with x (5) and leave b with y (0): 5. The best is a-y (4) and b-x (4): 8.
        assert_eq!(best_pairs(&[vec![5.0, 4.0], vec![4.0, 0.0]]), [Some(1), Some(0)]);
        assert_eq!(best_pairs(&[vec![1.0, 2.0, 3.0]]), [Some(2)]);
        assert_eq!(best_pairs(&[vec![1.0], vec![2.0], vec![0.5]]), [None, Some(0), None]);
        assert_eq!(best_pairs(&[vec![], vec![]]), [None, None]);
    }

    #[test]
    fn every_pairing_of_small_matrices_is_as_good_as_trying_all() {
        let mut state = 7_u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            f64::from((state >> 40) as u32 % 100) + 1.0
        };
        for size in 1..=4 {
            for _ in 0..50 {
                let shared: Vec<Vec<f64>> = (0..size).map(|_| (0..size).map(|_| random()).collect()).collect();
                let sum: f64 =
                    best_pairs(&shared).iter().enumerate().map(|(row, pair)| shared[row][pair.unwrap()]).sum();
                assert!(close(sum, best_by_trying(&shared, 0, &mut vec![false; size])), "{shared:?}");
            }
        }
    }

    fn best_by_trying(shared: &[Vec<f64>], row: usize, used: &mut Vec<bool>) -> f64 {
        if row == shared.len() {
            return 0.0;
        }
        let mut best = f64::NEG_INFINITY;
        for column in 0..shared.len() {
            if !used[column] {
                used[column] = true;
                best = best.max(shared[row][column] + best_by_trying(shared, row + 1, used));
                used[column] = false;
            }
        }
        best
    }

    #[test]
    fn a_voice_that_was_never_found_costs_its_whole_share_of_the_jaccard_error() {
        let reference = spans(&[(0.0, 9.0, "ann"), (9.0, 10.0, "bob")]);
        let answer = spans(&[(0.0, 10.0, "x")]);
        assert!(close(jaccard_error(&reference, &answer), f64::midpoint(0.1, 1.0)));
    }

    #[test]
    fn words_count_where_one_voice_speaks() {
        let reference = spans(&[(0.0, 4.0, "ann"), (3.0, 8.0, "bob")]);
        let words = spans(&[(0.5, 1.0, "0"), (3.2, 3.6, "1"), (5.0, 5.5, "1"), (6.0, 6.4, "0"), (9.0, 9.5, "1")]);
        // The second falls on both, the last on nobody; of the three left, one has the wrong name.
        assert_eq!(words_right(&reference, &words), (2, 3));
    }

    #[test]
    fn a_word_without_a_name_is_wrong_and_names_nobody() {
        let reference = spans(&[(0.0, 4.0, "ann"), (4.0, 8.0, "bob")]);
        let words = spans(&[(0.5, 1.0, ""), (1.0, 3.0, ""), (3.0, 3.5, "0"), (5.0, 5.5, "1")]);
        let verdicts: Vec<bool> = judged_words(&reference, &words).iter().map(|&(_, right)| right).collect();
        assert_eq!(verdicts, [false, false, true, true]);
    }

    #[test]
    fn an_answer_without_speech_misses_everything_and_silence_without_an_answer_is_right() {
        let reference = spans(&[(0.0, 2.0, "ann")]);
        assert_eq!(diarization_errors(&reference, &[], 0.0).rate(), 1.0);
        assert_eq!(diarization_errors(&[], &[], 0.0).rate(), 0.0);
        assert_eq!(diarization_errors(&[], &reference, 0.0).rate(), 1.0);
    }
}
