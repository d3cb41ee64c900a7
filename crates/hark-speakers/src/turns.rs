//! Labels every frame of speech with its speaker, or two speakers in overlap, and joins the frames to turns.

use crate::SAMPLE_RATE;
use crate::cluster::{Embedding, dot};
use crate::frames::Frame;
use crate::pieces::{Piece, Run, first_sample, overlap_runs};

/// Penalty, in cosine similarity, of a speaker change inside a run: one ambiguous piece must not split a sentence in three.
const SWITCH_PENALTY: f32 = 0.1;
/// Frames around a short or overlapped run in which its local speakers are searched: 5 s, where their numbering is stable.
const SEARCH_RADIUS: usize = 300;
/// Decay lengths in frames of a neighbouring label's vote: 1 s for the same local speaker, 2 s for any speaker nearby.
const LOCAL_SPEAKER_DECAY: f32 = 60.0;
const NEIGHBOUR_DECAY: f32 = 120.0;
/// Weight of any speaker nearby relative to a match of the local speaker.
const NEIGHBOUR_WEIGHT: f32 = 0.1;

/// A span of time in which one speaker speaks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Turn {
    /// Start in seconds.
    pub start: f64,
    /// End in seconds.
    pub end: f64,
    /// The speaker, numbered from 0 in order of first appearance.
    pub speaker: usize,
}

/// The speaker of each frame, and a second speaker in overlap.
#[derive(Debug, Clone, PartialEq)]
pub struct Labels {
    first: Vec<Option<u16>>,
    second: Vec<Option<u16>>,
}

/// What labelling works on.
pub struct LabelInputs<'a> {
    /// All frames of the recording.
    pub frames: &'a [Frame],
    /// The runs of speech among them.
    pub speech: &'a [Run],
    /// The runs with one active local speaker.
    pub runs: &'a [Run],
    /// The pieces of the runs, in order.
    pub pieces: &'a [Piece],
    /// Their embeddings, centred.
    pub vectors: &'a [Embedding],
}

impl Labels {
    /// Labels every frame of speech with the nearest of the `voices` (cluster centroids).
    pub fn new(inputs: &LabelInputs, voices: &[Embedding]) -> Self {
        let count = inputs.frames.len();
        let mut labels = Labels { first: vec![None; count], second: vec![None; count] };
        if voices.is_empty() {
            return labels;
        }
        let mut pieces = inputs.pieces.iter().zip(inputs.vectors).peekable();
        for (number, run) in inputs.runs.iter().enumerate() {
            let mut own = Vec::new();
            while let Some(piece) = pieces.next_if(|(piece, _)| piece.run == number) {
                own.push(piece);
            }
            labels.label_run(*run, &own, voices);
        }
        // Labels from embeddings are fixed; the remaining frames are labelled from them alone.
        let known = labels.first.clone();
        for &speech in inputs.speech {
            labels.label_short_runs(inputs.frames, &known, speech);
            for overlap in overlap_runs(inputs.frames, speech) {
                labels.label_overlap(inputs.frames, &known, overlap, voices.len());
            }
        }
        labels
    }

    /// Finds the best sequence of speakers over the pieces of a run (Viterbi), and labels each frame as its nearest piece.
    fn label_run(&mut self, run: Run, pieces: &[(&Piece, &Embedding)], voices: &[Embedding]) {
        let Some(last) = pieces.len().checked_sub(1) else { return };
        let similarity: Vec<Vec<f32>> =
            pieces.iter().map(|(_, vector)| voices.iter().map(|voice| dot(vector, voice)).collect()).collect();
        let mut score = similarity[0].clone();
        let mut backpointers: Vec<Vec<usize>> = Vec::with_capacity(last);
        for similarity in &similarity[1..] {
            let best = argmax(&score);
            let from: Vec<usize> = (0..voices.len())
                .map(|voice| if score[voice] >= score[best] - SWITCH_PENALTY { voice } else { best })
                .collect();
            let reached = |voice: usize| score[from[voice]] - if from[voice] == voice { 0.0 } else { SWITCH_PENALTY };
            score = (0..voices.len()).map(|voice| reached(voice) + similarity[voice]).collect();
            backpointers.push(from);
        }
        let mut path = vec![argmax(&score); pieces.len()];
        for place in (0..last).rev() {
            path[place] = backpointers[place][path[place + 1]];
        }
        let mut place = 0;
        let middle = |place: usize| pieces[place].0.span.start + pieces[place].0.span.end;
        for frame in run.start..run.end {
            while place < last && 2 * (2 * frame + 1) > middle(place) + middle(place + 1) {
                place += 1;
            }
            self.first[frame] = Some(path[place] as u16);
        }
    }

    /// Labels runs too short to embed: as the nearest frames of the same local speaker, else as the nearest labelled frame.
    fn label_short_runs(&mut self, frames: &[Frame], known: &[Option<u16>], speech: Run) {
        let mut start = speech.start;
        while start < speech.end {
            let open = |frame: &usize| known[*frame].is_none() && frames[*frame].speakers() < 2;
            let end = (start..speech.end).find(|frame| !open(frame)).unwrap_or(speech.end);
            if end > start {
                let middle = usize::midpoint(start, end);
                let frames_alone =
                    |voice: usize| (start..end).filter(|&frame| frames[frame].single_speaker() == Some(voice)).count();
                let local = (0..3).max_by_key(|&voice| frames_alone(voice)).filter(|&voice| frames_alone(voice) > 0);
                let label = nearest_first(middle, SEARCH_RADIUS, known.len())
                    .find(|&frame| known[frame].is_some() && local.is_some() && frames[frame].single_speaker() == local)
                    .or_else(|| nearest_first(middle, known.len(), known.len()).find(|&frame| known[frame].is_some()))
                    .and_then(|frame| known[frame]);
                self.first[start..end].fill(label);
            }
            start = end.max(start + 1);
        }
    }

    /// Labels an overlap with the two distinct speakers that its two most active local speakers most likely are, by
    /// distance-weighted votes of the labelled frames around it.
    fn label_overlap(&mut self, frames: &[Frame], known: &[Option<u16>], overlap: Run, voices: usize) {
        let active =
            |voice: usize| (overlap.start..overlap.end).filter(|&frame| frames[frame].is_active(voice)).count();
        let mut locals = [0, 1, 2];
        locals.sort_by_key(|&voice| std::cmp::Reverse(active(voice)));
        let mut votes = [vec![0.0_f32; voices], vec![0.0; voices]];
        let mut nearby = vec![0.0_f32; voices];
        let middle = usize::midpoint(overlap.start, overlap.end);
        for frame in overlap.start.saturating_sub(2 * SEARCH_RADIUS)..(overlap.end + 2 * SEARCH_RADIUS).min(known.len())
        {
            let Some(label) = known[frame] else { continue };
            let distance = overlap.start.saturating_sub(frame).max(frame.saturating_sub(overlap.end)) as f32;
            nearby[usize::from(label)] += (-distance / NEIGHBOUR_DECAY).exp();
            if let Some(side) = locals[..2].iter().position(|&voice| frames[frame].single_speaker() == Some(voice))
                && frame.abs_diff(middle) < SEARCH_RADIUS
            {
                votes[side][usize::from(label)] += (-distance / LOCAL_SPEAKER_DECAY).exp();
            }
        }
        let fraction = |votes: &[f32], voice: usize| votes[voice] / votes.iter().sum::<f32>().max(1e-9);
        let chance =
            |side: usize, voice: usize| fraction(&votes[side], voice) + NEIGHBOUR_WEIGHT * fraction(&nearby, voice);
        let mut best = (f32::NEG_INFINITY, 0, 0);
        for first in 0..voices {
            for second in (0..voices).filter(|&second| second != first) {
                let sum = chance(0, first) + chance(1, second);
                if sum > best.0 {
                    best = (sum, first, second);
                }
            }
        }
        let (_, first, second) = best;
        // Without labelled frames around it the overlap stays unlabelled.
        if nearby.iter().all(|&votes| votes == 0.0) {
            return;
        }
        self.first[overlap.start..overlap.end].fill(Some(first as u16));
        if voices > 1 {
            self.second[overlap.start..overlap.end].fill(Some(second as u16));
        }
    }

    /// The cluster of each speaker in order of first appearance, without clusters that label no frame.
    pub fn order_of_appearance(&self) -> Vec<usize> {
        let mut order = Vec::new();
        for label in self.first.iter().zip(&self.second).flat_map(|(first, second)| [first, second]).flatten() {
            if !order.contains(&usize::from(*label)) {
                order.push(usize::from(*label));
            }
        }
        order
    }

    /// The turns of all speakers in order of time; in overlapped speech they overlap.
    pub fn turns(&self, order: &[usize], seconds: f64) -> Vec<Turn> {
        let mut turns: Vec<Turn> = Vec::new();
        for (speaker, &voice) in order.iter().enumerate() {
            let speaks = |frame: usize| [self.first[frame], self.second[frame]].contains(&Some(voice as u16));
            turns.extend(spans(self.first.len(), seconds, |frame| speaks(frame).then_some(speaker)));
        }
        turns.sort_by(|a, b| a.start.total_cmp(&b.start).then(a.end.total_cmp(&b.end)));
        turns
    }

    /// Non-overlapping turns: in an overlap the current speaker continues.
    pub fn exclusive(&self, order: &[usize], seconds: f64) -> Vec<Turn> {
        let mut before = None;
        let chosen: Vec<Option<usize>> = (0..self.first.len())
            .map(|frame| {
                let label = if self.second[frame].is_some() && self.second[frame] == before {
                    before
                } else {
                    self.first[frame]
                };
                before = label;
                order.iter().position(|&voice| label == Some(voice as u16))
            })
            .collect();
        spans(chosen.len(), seconds, |frame| chosen[frame])
    }

    /// The spans of overlapped speech in seconds.
    pub fn overlaps(&self, seconds: f64) -> Vec<(f64, f64)> {
        spans(self.second.len(), seconds, |frame| self.second[frame].map(|_| 0))
            .into_iter()
            .map(|span| (span.start, span.end))
            .collect()
    }
}

fn spans(frames: usize, seconds: f64, speaker: impl Fn(usize) -> Option<usize>) -> Vec<Turn> {
    let time = |frame: usize| (first_sample(frame) as f64 / SAMPLE_RATE as f64).min(seconds);
    let mut turns = Vec::new();
    let mut start = 0;
    while start < frames {
        let current = speaker(start);
        let end = (start + 1..frames).find(|&frame| speaker(frame) != current).unwrap_or(frames);
        if let Some(speaker) = current {
            turns.push(Turn { start: time(start), end: time(end), speaker });
        }
        start = end;
    }
    turns
}

/// The frames around `middle`, nearest first, up to `max_distance`.
fn nearest_first(middle: usize, max_distance: usize, frames: usize) -> impl Iterator<Item = usize> {
    (0..=max_distance.min(frames)).flat_map(move |distance| {
        let after = middle + distance;
        [middle.checked_sub(distance), (after < frames && distance > 0).then_some(after)].into_iter().flatten()
    })
}

fn argmax(scores: &[f32]) -> usize {
    (0..scores.len()).max_by(|&a, &b| scores[a].total_cmp(&scores[b])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::l2_normalized;
    use crate::cluster::tests::unit;
    use crate::pieces::{single_speaker_runs, speech_runs, split_run};

    fn between(share: f32, one: &Embedding, other: &Embedding) -> Embedding {
        l2_normalized(&std::array::from_fn(|place| share * one[place] + (1.0 - share) * other[place]))
    }

    /// Labels of frames, with the embedding of each piece chosen by its middle frame.
    fn labels(frames: &[Frame], voices: &[Embedding], vector: impl Fn(usize) -> Embedding) -> Labels {
        let speech = speech_runs(frames, 0);
        let runs: Vec<Run> = speech.iter().flat_map(|&speech| single_speaker_runs(frames, speech)).collect();
        let pieces: Vec<Piece> =
            runs.iter().enumerate().flat_map(|(number, &run)| split_run(frames, number, run)).collect();
        let vectors: Vec<Embedding> =
            pieces.iter().map(|piece| vector(usize::midpoint(piece.span.start, piece.span.end))).collect();
        Labels::new(&LabelInputs { frames, speech: &speech, runs: &runs, pieces: &pieces, vectors: &vectors }, voices)
    }

    fn single(count: usize, voice: usize) -> Vec<Frame> {
        vec![Frame::new(1, std::array::from_fn(|other| other == voice)); count]
    }

    #[test]
    fn one_ambiguous_piece_does_not_split_a_turn() {
        let voices = [unit(1), unit(2)];
        let doubtful = between(0.48, &voices[0], &voices[1]);
        let frames = single(600, 0);
        let labels = labels(&frames, &voices, |middle| if middle.abs_diff(300) < 25 { doubtful } else { voices[0] });
        assert_eq!(labels.turns(&labels.order_of_appearance(), 100.0).len(), 1);
    }

    #[test]
    fn a_speaker_change_that_segmentation_missed_is_found_by_embeddings() {
        let voices = [unit(1), unit(2)];
        let frames = single(600, 0);
        let labels = labels(&frames, &voices, |middle| voices[usize::from(middle > 300)]);
        let turns = labels.turns(&labels.order_of_appearance(), 100.0);
        assert_eq!(turns.iter().map(|turn| turn.speaker).collect::<Vec<_>>(), [0, 1]);
        assert!((turns[0].end - 300.0 * 0.016875).abs() < 0.4, "{turns:?}");
    }

    #[test]
    fn an_overlap_has_two_distinct_speakers() {
        let voices = [unit(1), unit(2), unit(3)];
        let mut frames = single(200, 0);
        frames.extend(vec![Frame::new(2, [true, true, false]); 100]);
        frames.extend(single(200, 0));
        // No other speaker has a frame alone: the second label is any speaker but the first.
        let labels = labels(&frames, &voices, |_| voices[2]);
        assert!(labels.first[200..300].iter().all(|&label| label == Some(2)));
        assert!(labels.second[200..300].iter().all(|&label| label.is_some() && label != Some(2)));
        assert!(labels.second[..200].iter().all(Option::is_none));
    }

    #[test]
    fn with_one_speaker_an_overlap_has_no_second_label() {
        let mut frames = single(200, 0);
        frames.extend(vec![Frame::new(2, [true, true, false]); 100]);
        let labels = labels(&frames, &[unit(1)], |_| unit(1));
        assert_eq!((labels.first[250], labels.second[250]), (Some(0), None));
        assert_eq!(labels.overlaps(100.0), []);
    }

    #[test]
    fn the_nearest_frames_come_first() {
        assert_eq!(nearest_first(2, 10, 5).collect::<Vec<_>>(), [2, 1, 3, 0, 4]);
        assert_eq!(nearest_first(0, 2, 10).collect::<Vec<_>>(), [0, 1, 2]);
    }
}
