//! Assigns the words of a transcript to the speaker turns of a diarization.

use hark_speakers::{Diarization, Turn};
use hark_transcript::{Segment, Word};

use crate::segments::ends_sentence;

/// The cost of a speaker change before a word; a word entirely in another speaker's turn costs 1. Word times are off by a tenth of a second or
/// two, and people change at the ends of sentences and after pauses far more often than inside a phrase.
const CHANGE_AFTER_SENTENCE: f64 = 0.1;
const CHANGE_AFTER_PAUSE: f64 = 0.2;
const CHANGE_AFTER_COMMA: f64 = 0.4;
const CHANGE_INSIDE: f64 = 0.7;
/// A silence that counts as a pause.
const PAUSE: f64 = 0.4;
/// The minimum duration of a word, in seconds: a shorter one would count for nothing.
const SHORTEST_WORD: f64 = 0.08;
/// An overlapping speaker is listed with a segment from this many seconds on.
const LEAST_OVERLAP: f64 = 0.3;

/// The label of a speaker by number.
pub fn label(speaker: usize) -> String {
    format!("SPEAKER_{speaker:02}")
}

/// The labels of segments in order of first appearance.
pub(crate) fn speakers_of(segments: &[Segment]) -> Vec<String> {
    let mut speakers: Vec<String> = Vec::new();
    for label in segments.iter().filter_map(|segment| segment.speaker.as_ref()) {
        if !speakers.contains(label) {
            speakers.push(label.clone());
        }
    }
    speakers
}

/// Assigns every word to the speaker at its time, and splits segments where the speaker changes. Labels are numbered in order of
/// first appearance in the text.
pub fn assign(segments: Vec<Segment>, heard: &Diarization) -> Vec<Segment> {
    assign_in_order(segments, heard).0
}

/// [`assign`], and the speaker of the diarization for each label.
pub(crate) fn assign_in_order(segments: Vec<Segment>, heard: &Diarization) -> (Vec<Segment>, Vec<usize>) {
    let turns = &heard.turns;
    let speakers = turns.iter().map(|turn| turn.speaker + 1).max().unwrap_or(0);
    if speakers == 0 {
        return (segments, Vec::new());
    }
    let words: Vec<&Word> = segments.iter().flat_map(|segment| &segment.words).collect();
    let chosen = choose(&words, &costs(&words, heard, speakers));
    let mut names = Names::default();
    let mut out = Vec::with_capacity(segments.len());
    let mut at = 0;
    for segment in segments {
        let of_words = &chosen[at..at + segment.words.len()];
        at += segment.words.len();
        for (mut part, speaker) in split(segment, of_words) {
            let speaker = speaker.or_else(|| nearest(turns, part.start, part.end));
            part.speaker = speaker.map(|speaker| names.of(speaker));
            out.push((part, speaker));
        }
    }
    // Overlapping speakers, after every speaker of a word has a number.
    for (part, speaker) in &mut out {
        let mut beside = vec![0.0; speakers];
        for turn in around(turns, part.start, part.end) {
            beside[turn.speaker] += overlap(turn, part.start, part.end);
        }
        let others = (0..speakers).filter(|&other| Some(other) != *speaker && beside[other] >= LEAST_OVERLAP);
        part.overlapping_speakers = others.map(|other| names.of(other)).collect();
    }
    (out.into_iter().map(|(part, _)| part).collect(), names.0)
}

/// Numbers speakers in order of appearance.
#[derive(Default)]
struct Names(Vec<usize>);

impl Names {
    fn of(&mut self, speaker: usize) -> String {
        let number = self.0.iter().position(|&known| known == speaker).unwrap_or_else(|| {
            self.0.push(speaker);
            self.0.len() - 1
        });
        label(number)
    }
}

fn overlap(turn: &Turn, start: f64, end: f64) -> f64 {
    (turn.end.min(end) - turn.start.max(start)).max(0.0)
}

/// The turns that may overlap a time range. Assumes that no turn is longer than [`LONGEST_TURN`].
fn around(turns: &[Turn], start: f64, end: f64) -> impl Iterator<Item = &Turn> {
    let past = turns.partition_point(|turn| turn.start < end);
    turns[..past]
        .iter()
        .rev()
        .take_while(move |turn| turn.start > start - LONGEST_TURN)
        .filter(move |turn| turn.end > start)
}

/// The maximum duration of a turn for the search.
const LONGEST_TURN: f64 = 600.0;

/// For each word and speaker, the share of the word's duration in which the speaker is silent.
fn costs(words: &[&Word], heard: &Diarization, speakers: usize) -> Vec<Vec<f32>> {
    let of_word = |word: &&Word| {
        let middle = (word.start + word.end) / 2.0;
        let half = ((word.end - word.start) / 2.0).max(SHORTEST_WORD / 2.0);
        let (start, end) = (middle - half, middle + half);
        let mut covered = vec![0.0; speakers];
        // In overlap either may be the speaker, the more active one rather.
        for turn in around(&heard.turns, start, end).chain(around(&heard.exclusive, start, end)) {
            covered[turn.speaker] += overlap(turn, start, end) / (end - start) / 2.0;
        }
        if covered.iter().all(|&share| share == 0.0)
            && let Some(speaker) = nearest(&heard.turns, start, end)
        {
            // Nobody speaks at its time: prefer the nearest speaker a little.
            covered[speaker] = 0.5;
        }
        covered.iter().map(|&share| 1.0 - f64::min(share, 1.0) as f32).collect()
    };
    words.iter().map(of_word).collect()
}

/// The speaker of the turn nearest to a time range.
fn nearest(turns: &[Turn], start: f64, end: f64) -> Option<usize> {
    let away = |turn: &Turn| (turn.start - end).max(start - turn.end).max(0.0);
    let past = turns.partition_point(|turn| turn.start < end);
    let candidates =
        turns[..past].iter().rev().take_while(|turn| turn.start > start - LONGEST_TURN).chain(turns.get(past));
    candidates.min_by(|a, b| away(a).total_cmp(&away(b))).map(|turn| turn.speaker)
}

/// The speakers of all words with the least total cost of silence and changes (Viterbi).
fn choose(words: &[&Word], costs: &[Vec<f32>]) -> Vec<usize> {
    let Some(first) = costs.first() else { return Vec::new() };
    let mut best: Vec<f64> = first.iter().map(|&cost| cost.into()).collect();
    let mut from: Vec<Vec<usize>> = Vec::with_capacity(words.len());
    for (pair, costs) in words.windows(2).zip(&costs[1..]) {
        let change = change_cost(pair[0], pair[1]);
        let cheapest = cheapest(&best);
        let origin: Vec<usize> =
            (0..best.len()).map(|own| if best[own] <= best[cheapest] + change { own } else { cheapest }).collect();
        let next = origin
            .iter()
            .enumerate()
            .map(|(own, &origin)| best[origin] + f64::from(costs[own]) + if origin == own { 0.0 } else { change });
        best = next.collect();
        from.push(origin);
    }
    let mut chosen = vec![cheapest(&best)];
    for origin in from.iter().rev() {
        chosen.push(origin[chosen[chosen.len() - 1]]);
    }
    chosen.reverse();
    chosen
}

fn cheapest(costs: &[f64]) -> usize {
    (0..costs.len()).min_by(|&a, &b| costs[a].total_cmp(&costs[b])).unwrap_or(0)
}

fn change_cost(before: &Word, after: &Word) -> f64 {
    if ends_sentence(&before.word) {
        CHANGE_AFTER_SENTENCE
    } else if after.start - before.end >= PAUSE {
        CHANGE_AFTER_PAUSE
    } else if before.word.ends_with([',', ';', ':', '，', '、', '，', '،', '-', '—']) {
        CHANGE_AFTER_COMMA
    } else {
        CHANGE_INSIDE
    }
}

/// The parts of a segment by speaker; a segment without words is one part with an unknown speaker.
fn split(segment: Segment, speakers: &[usize]) -> Vec<(Segment, Option<usize>)> {
    let Some(&first) = speakers.first() else { return vec![(segment, None)] };
    if speakers.iter().all(|&speaker| speaker == first) {
        return vec![(segment, Some(first))];
    }
    let mut parts: Vec<(Segment, Option<usize>)> = Vec::new();
    let mut rest = segment.text.as_str();
    let mut words = segment.words.into_iter().zip(speakers).peekable();
    while let Some((word, &speaker)) = words.next() {
        // The text up to the next word belongs to this word, so that spacing is preserved.
        let next = words.peek().and_then(|(next, _)| {
            let after = rest.find(&word.word).map_or(0, |at| at + word.word.len());
            rest[after..].find(&next.word).map(|at| after + at)
        });
        let (own, others) = rest.split_at(next.unwrap_or(if words.peek().is_none() { rest.len() } else { 0 }));
        rest = others;
        match parts.last_mut() {
            Some((part, Some(same))) if *same == speaker => {
                part.text.push_str(own);
                part.end = word.end;
                part.words.push(word);
            }
            _ => parts.push((
                Segment {
                    start: word.start,
                    end: word.end,
                    text: own.to_owned(),
                    words: vec![word],
                    language: segment.language.clone(),
                    ..Segment::default()
                },
                Some(speaker),
            )),
        }
    }
    for (part, _) in &mut parts {
        part.text = part.text.trim().to_owned();
        part.confidence = part.words.iter().map(|word| word.confidence).sum::<f32>() / part.words.len() as f32;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str, times: &[(f64, f64)]) -> Segment {
        let words = text.split_whitespace().zip(times);
        let words: Vec<Word> =
            words.map(|(word, &(start, end))| Word { word: word.into(), start, end, confidence: 0.8 }).collect();
        Segment {
            start: times[0].0,
            end: times[times.len() - 1].1,
            text: text.into(),
            confidence: 0.8,
            words,
            ..Segment::default()
        }
    }

    fn turn(start: f64, end: f64, speaker: usize) -> Turn {
        Turn { start, end, speaker }
    }

    fn heard(turns: &[Turn]) -> Diarization {
        Diarization { turns: turns.to_vec(), exclusive: turns.to_vec(), ..Diarization::default() }
    }

    fn lines(segments: &[Segment]) -> Vec<String> {
        let line = |segment: &Segment| format!("{}: {}", segment.speaker.as_deref().unwrap_or("nobody"), segment.text);
        segments.iter().map(line).collect()
    }

    #[test]
    fn a_segment_is_split_where_the_speaker_changes() {
        let segment = said(
            "Are you there? Yes, I am.",
            &[(0.0, 0.2), (0.2, 0.4), (0.4, 0.8), (1.0, 1.3), (1.3, 1.4), (1.4, 1.7)],
        );
        let (out, order) = assign_in_order(vec![segment], &heard(&[turn(0.0, 0.9, 1), turn(0.95, 2.0, 0)]));
        assert_eq!(order, [1, 0], "labels are numbered as the text goes");
        assert_eq!(lines(&out), ["SPEAKER_00: Are you there?", "SPEAKER_01: Yes, I am."]);
        assert_eq!((out[0].start, out[0].end, out[1].start, out[1].end), (0.0, 0.8, 1.0, 1.7));
        assert_eq!(out[1].words.len(), 3);
    }

    #[test]
    fn a_word_that_laps_over_the_border_stays_with_its_sentence() {
        let segment = said("we go home now. Fine.", &[(0.0, 0.3), (0.3, 0.6), (0.6, 0.9), (0.9, 1.3), (1.4, 1.8)]);
        // The first turn ends early: most of "now." lies in the second.
        let out = assign(vec![segment], &heard(&[turn(0.0, 1.0, 0), turn(1.0, 2.0, 1)]));
        assert_eq!(lines(&out), ["SPEAKER_00: we go home now.", "SPEAKER_01: Fine."]);
    }

    #[test]
    fn a_word_outside_all_turns_goes_to_the_nearest() {
        let segments = vec![said("Hello.", &[(0.0, 0.4)]), said("Bye.", &[(9.0, 9.4)])];
        let out = assign(segments, &heard(&[turn(1.0, 3.0, 0), turn(6.0, 8.5, 1)]));
        assert_eq!(lines(&out), ["SPEAKER_00: Hello.", "SPEAKER_01: Bye."]);
    }

    #[test]
    fn who_speaks_at_the_same_time_is_told() {
        let segment = said("All of this is mine.", &[(0.0, 0.5), (0.5, 1.0), (1.0, 1.5), (1.5, 2.0), (2.0, 2.5)]);
        let out = assign(vec![segment], &heard(&[turn(0.0, 2.5, 0), turn(1.0, 1.6, 1), turn(2.4, 2.5, 2)]));
        assert_eq!(lines(&out), ["SPEAKER_00: All of this is mine."]);
        assert_eq!(out[0].overlapping_speakers, ["SPEAKER_01"]);
    }

    #[test]
    fn text_without_spaces_keeps_its_form_when_split() {
        let word = |word: &str, start: f64| Word { word: word.into(), start, end: start + 0.5, confidence: 1.0 };
        let words = vec![word("你好。", 0.0), word("是", 1.0), word("的。", 1.5)];
        let segment = Segment { end: 2.0, text: "你好。是的。".into(), words, ..Segment::default() };
        let out = assign(vec![segment], &heard(&[turn(0.0, 0.6, 0), turn(0.9, 2.1, 1)]));
        assert_eq!(lines(&out), ["SPEAKER_00: 你好。", "SPEAKER_01: 是的。"]);
    }

    #[test]
    fn without_turns_nobody_speaks_and_without_words_turns_still_count() {
        assert_eq!(assign(vec![said("Hello.", &[(0.0, 0.4)])], &heard(&[]))[0].speaker, None);
        let wordless = Segment { start: 5.0, end: 6.0, text: "Hello.".into(), ..Segment::default() };
        assert_eq!(
            assign(vec![wordless], &heard(&[turn(0.0, 1.0, 3), turn(4.0, 7.0, 2)]))[0].speaker.as_deref(),
            Some("SPEAKER_00")
        );
        assert!(assign(Vec::new(), &heard(&[turn(0.0, 1.0, 0)])).is_empty());
    }
}
