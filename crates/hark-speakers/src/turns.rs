//! From voices to turns: a label for every frame of speech, two where two speak, and the spans they make.

use crate::SAMPLE_RATE;
use crate::cluster::{Voice, dot};
use crate::frames::Frame;
use crate::pieces::{Piece, Run, first_sample, overlaps};

/// What a change of voice inside a run costs, in cosine: one doubtful piece must not break a sentence in three.
const SWITCH: f32 = 0.1;
/// Frames around a short or overlapped stretch in which its local voice is looked for: 5 s, where names are sure.
const AROUND: usize = 300;
/// Frames after which a neighbour counts for a third: 1 s for the same local voice, 2 s for anybody who speaks nearby.
const FADE_OF_VOICE: f32 = 60.0;
const FADE_OF_NEIGHBOUR: f32 = 120.0;
/// What it counts that somebody speaks nearby, against that the local voice was theirs.
const NEIGHBOUR: f32 = 0.1;

/// A span of time in which one speaker speaks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Turn {
    /// Second in which it begins.
    pub start: f64,
    /// Second in which it ends.
    pub end: f64,
    /// Whose it is, counted from 0 in order of first appearance.
    pub speaker: usize,
}

/// Who speaks in each frame: the first, and a second where two speak at once.
#[derive(Debug, Clone, PartialEq)]
pub struct Labels {
    first: Vec<Option<u16>>,
    second: Vec<Option<u16>>,
}

/// What the labels are made from.
pub struct Heard<'a> {
    /// All frames of the recording.
    pub frames: &'a [Frame],
    /// The stretches of speech among them.
    pub speech: &'a [Run],
    /// The stretches in which one voice speaks alone.
    pub runs: &'a [Run],
    /// The pieces of the runs, in order.
    pub pieces: &'a [Piece],
    /// Their embeddings, centred.
    pub vectors: &'a [Voice],
}

impl Labels {
    /// Labels every frame of speech with the voices it is nearest to.
    pub fn new(heard: &Heard, voices: &[Voice]) -> Self {
        let count = heard.frames.len();
        let mut labels = Labels { first: vec![None; count], second: vec![None; count] };
        if voices.is_empty() {
            return labels;
        }
        let mut pieces = heard.pieces.iter().zip(heard.vectors).peekable();
        for (number, run) in heard.runs.iter().enumerate() {
            let mut own = Vec::new();
            while let Some(piece) = pieces.next_if(|(piece, _)| piece.run == number) {
                own.push(piece);
            }
            labels.label_run(*run, &own, voices);
        }
        // What was said by pieces stays as it is while the rest is filled in from it.
        let known = labels.first.clone();
        for &speech in heard.speech {
            labels.fill(heard.frames, &known, speech);
            for overlap in overlaps(heard.frames, speech) {
                labels.share(heard.frames, &known, overlap, voices.len());
            }
        }
        labels
    }

    /// The best sequence of voices through the pieces of a run, and for each frame that of the nearest piece.
    fn label_run(&mut self, run: Run, pieces: &[(&Piece, &Voice)], voices: &[Voice]) {
        let Some(last) = pieces.len().checked_sub(1) else { return };
        let alike: Vec<Vec<f32>> =
            pieces.iter().map(|(_, vector)| voices.iter().map(|voice| dot(vector, voice)).collect()).collect();
        let mut score = alike[0].clone();
        let mut came_from: Vec<Vec<usize>> = Vec::with_capacity(last);
        for alike in &alike[1..] {
            let best = largest(&score);
            let from: Vec<usize> = (0..voices.len())
                .map(|voice| if score[voice] >= score[best] - SWITCH { voice } else { best })
                .collect();
            let reached = |voice: usize| score[from[voice]] - if from[voice] == voice { 0.0 } else { SWITCH };
            score = (0..voices.len()).map(|voice| reached(voice) + alike[voice]).collect();
            came_from.push(from);
        }
        let mut path = vec![largest(&score); pieces.len()];
        for place in (0..last).rev() {
            path[place] = came_from[place][path[place + 1]];
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

    /// Labels stretches too short to embed: the same local voice nearby, else whoever is nearest.
    fn fill(&mut self, frames: &[Frame], known: &[Option<u16>], speech: Run) {
        let mut start = speech.start;
        while start < speech.end {
            let open = |frame: &usize| known[*frame].is_none() && frames[*frame].speaking() < 2;
            let end = (start..speech.end).find(|frame| !open(frame)).unwrap_or(speech.end);
            if end > start {
                let middle = usize::midpoint(start, end);
                let solo = |voice: usize| (start..end).filter(|&frame| frames[frame].solo() == Some(voice)).count();
                let local = (0..3).max_by_key(|&voice| solo(voice)).filter(|&voice| solo(voice) > 0);
                let label = outward(middle, AROUND, known.len())
                    .find(|&frame| known[frame].is_some() && local.is_some() && frames[frame].solo() == local)
                    .or_else(|| outward(middle, known.len(), known.len()).find(|&frame| known[frame].is_some()))
                    .and_then(|frame| known[frame]);
                self.first[start..end].fill(label);
            }
            start = end.max(start + 1);
        }
    }

    /// Gives a stretch in which several speak to the two speakers that its two local voices are likeliest to be, never
    /// the same one twice.
    fn share(&mut self, frames: &[Frame], known: &[Option<u16>], overlap: Run, voices: usize) {
        let heard = |voice: usize| (overlap.start..overlap.end).filter(|&frame| frames[frame].has(voice)).count();
        let mut locals = [0, 1, 2];
        locals.sort_by_key(|&voice| std::cmp::Reverse(heard(voice)));
        let mut votes = [vec![0.0_f32; voices], vec![0.0; voices]];
        let mut nearby = vec![0.0_f32; voices];
        let middle = usize::midpoint(overlap.start, overlap.end);
        for frame in overlap.start.saturating_sub(2 * AROUND)..(overlap.end + 2 * AROUND).min(known.len()) {
            let Some(label) = known[frame] else { continue };
            let away = overlap.start.saturating_sub(frame).max(frame.saturating_sub(overlap.end)) as f32;
            nearby[usize::from(label)] += (-away / FADE_OF_NEIGHBOUR).exp();
            if let Some(side) = locals[..2].iter().position(|&voice| frames[frame].solo() == Some(voice))
                && frame.abs_diff(middle) < AROUND
            {
                votes[side][usize::from(label)] += (-away / FADE_OF_VOICE).exp();
            }
        }
        let share = |votes: &[f32], voice: usize| votes[voice] / votes.iter().sum::<f32>().max(1e-9);
        let chance = |side: usize, voice: usize| share(&votes[side], voice) + NEIGHBOUR * share(&nearby, voice);
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
        // Nobody known around: nothing that could be told.
        if nearby.iter().all(|&votes| votes == 0.0) {
            return;
        }
        self.first[overlap.start..overlap.end].fill(Some(first as u16));
        if voices > 1 {
            self.second[overlap.start..overlap.end].fill(Some(second as u16));
        }
    }

    /// The speakers in order of first appearance: which voice each one is. Voices that never speak are left out.
    pub fn appearances(&self) -> Vec<usize> {
        let mut order = Vec::new();
        for label in self.first.iter().zip(&self.second).flat_map(|(first, second)| [first, second]).flatten() {
            if !order.contains(&usize::from(*label)) {
                order.push(usize::from(*label));
            }
        }
        order
    }

    /// Everybody's turns in order of time; where two speak at once they overlap.
    pub fn turns(&self, order: &[usize], seconds: f64) -> Vec<Turn> {
        let mut turns: Vec<Turn> = Vec::new();
        for (speaker, &voice) in order.iter().enumerate() {
            let speaks = |frame: usize| [self.first[frame], self.second[frame]].contains(&Some(voice as u16));
            turns.extend(spans(self.first.len(), seconds, |frame| speaks(frame).then_some(speaker)));
        }
        turns.sort_by(|a, b| a.start.total_cmp(&b.start).then(a.end.total_cmp(&b.end)));
        turns
    }

    /// Turns of which no two overlap: where two speak, whoever spoke before goes on.
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

    /// The spans in which two speak at once.
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
        let here = speaker(start);
        let end = (start + 1..frames).find(|&frame| speaker(frame) != here).unwrap_or(frames);
        if let Some(speaker) = here {
            turns.push(Turn { start: time(start), end: time(end), speaker });
        }
        start = end;
    }
    turns
}

/// The frames around a middle, the nearest first, no further away than `most`.
fn outward(middle: usize, most: usize, frames: usize) -> impl Iterator<Item = usize> {
    (0..=most.min(frames)).flat_map(move |away| {
        let after = middle + away;
        [middle.checked_sub(away), (after < frames && away > 0).then_some(after)].into_iter().flatten()
    })
}

fn largest(scores: &[f32]) -> usize {
    (0..scores.len()).max_by(|&a, &b| scores[a].total_cmp(&scores[b])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::tests::unit;
    use crate::cluster::unit_length;
    use crate::pieces::{cut, solos, speech};

    fn between(share: f32, one: &Voice, other: &Voice) -> Voice {
        unit_length(&std::array::from_fn(|place| share * one[place] + (1.0 - share) * other[place]))
    }

    /// Labels of frames, with the embedding of each piece chosen by its middle frame.
    fn labels(frames: &[Frame], voices: &[Voice], vector: impl Fn(usize) -> Voice) -> Labels {
        let speech = speech(frames, 0);
        let runs: Vec<Run> = speech.iter().flat_map(|&speech| solos(frames, speech)).collect();
        let pieces: Vec<Piece> = runs.iter().enumerate().flat_map(|(number, &run)| cut(frames, number, run)).collect();
        let vectors: Vec<Voice> =
            pieces.iter().map(|piece| vector(usize::midpoint(piece.span.start, piece.span.end))).collect();
        Labels::new(&Heard { frames, speech: &speech, runs: &runs, pieces: &pieces, vectors: &vectors }, voices)
    }

    fn alone(count: usize, voice: usize) -> Vec<Frame> {
        vec![Frame::new(1, std::array::from_fn(|other| other == voice)); count]
    }

    #[test]
    fn one_doubtful_piece_does_not_break_a_sentence() {
        let voices = [unit(1), unit(2)];
        let doubtful = between(0.48, &voices[0], &voices[1]);
        let frames = alone(600, 0);
        let told = labels(&frames, &voices, |middle| if middle.abs_diff(300) < 25 { doubtful } else { voices[0] });
        assert_eq!(told.turns(&told.appearances(), 100.0).len(), 1);
    }

    #[test]
    fn a_voice_that_segmentation_missed_is_found_by_its_embeddings() {
        let voices = [unit(1), unit(2)];
        let frames = alone(600, 0);
        let told = labels(&frames, &voices, |middle| voices[usize::from(middle > 300)]);
        let turns = told.turns(&told.appearances(), 100.0);
        assert_eq!(turns.iter().map(|turn| turn.speaker).collect::<Vec<_>>(), [0, 1]);
        assert!((turns[0].end - 300.0 * 0.016875).abs() < 0.4, "{turns:?}");
    }

    #[test]
    fn two_who_speak_at_once_are_never_one() {
        let voices = [unit(1), unit(2), unit(3)];
        let mut frames = alone(200, 0);
        frames.extend(vec![Frame::new(2, [true, true, false]); 100]);
        frames.extend(alone(200, 0));
        // Nobody else was ever heard alone: the second voice is somebody, but not the first one again.
        let told = labels(&frames, &voices, |_| voices[2]);
        assert!(told.first[200..300].iter().all(|&label| label == Some(2)));
        assert!(told.second[200..300].iter().all(|&label| label.is_some() && label != Some(2)));
        assert!(told.second[..200].iter().all(Option::is_none));
    }

    #[test]
    fn one_known_voice_alone_takes_an_overlap_without_a_second() {
        let mut frames = alone(200, 0);
        frames.extend(vec![Frame::new(2, [true, true, false]); 100]);
        let told = labels(&frames, &[unit(1)], |_| unit(1));
        assert_eq!((told.first[250], told.second[250]), (Some(0), None));
        assert_eq!(told.overlaps(100.0), []);
    }

    #[test]
    fn the_nearest_frames_come_first() {
        assert_eq!(outward(2, 10, 5).collect::<Vec<_>>(), [2, 1, 3, 0, 4]);
        assert_eq!(outward(0, 2, 10).collect::<Vec<_>>(), [0, 1, 2]);
    }
}
