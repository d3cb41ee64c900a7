//! Aggregates the powerset scores of overlapping windows into one speaker count and set of local speakers per frame.
//!
//! Windows overlap by half, so every frame is scored twice. The speaker count is the mean of both scores, weighted
//! towards the middle of a window, where the network has the most context. The local speakers are those of the window
//! whose middle is nearest. Each window numbers its local speakers in its own order, so each window is matched with the
//! previous one by the permutation that agrees best over the frames they share.

use crate::{CLASSES, FRAMES_PER_WINDOW, POWERSET};

/// Frames from the start of one window to the start of the next: just under 5 s.
pub const HOP: usize = 296;

/// Local speakers that the powerset of a window distinguishes.
const LOCAL_SPEAKERS: usize = 3;
/// Probability of silence from which a frame counts as non-speech. A higher threshold would recover a third of the missed
/// speech of meetings, but as much noise, whose embeddings mislead clustering.
const SILENCE_THRESHOLD: f32 = 0.5;
/// Probability of overlap from which a frame has two speakers. The network underestimates overlap: on the tuning
/// conversations and one half of the meetings 0.3 to 0.45 score alike, and all better than 0.5.
const OVERLAP_THRESHOLD: f32 = 0.4;
/// Frames that two neighbouring windows share.
const SHARED_FRAMES: usize = FRAMES_PER_WINDOW - HOP;

/// Speaker count and local speakers of one frame, packed in a byte: three hours have half a million frames.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Frame(u8);

impl Frame {
    /// A frame with this many speakers; `voices` are the local speakers that are active if any is.
    pub fn new(speakers: u8, voices: [bool; LOCAL_SPEAKERS]) -> Self {
        let bits = voices.iter().enumerate().map(|(voice, &active)| u8::from(active) << voice).sum::<u8>();
        Frame(speakers << LOCAL_SPEAKERS | bits)
    }

    /// The speaker count: 0, 1, or 2 for two and more.
    pub fn speakers(self) -> u8 {
        self.0 >> LOCAL_SPEAKERS
    }

    /// Whether this local speaker is active.
    pub fn is_active(self, voice: usize) -> bool {
        self.0 >> voice & 1 == 1
    }

    /// The local speaker, if exactly one is active.
    pub fn single_speaker(self) -> Option<usize> {
        match self.0 & 0b111 {
            0b001 => Some(0),
            0b010 => Some(1),
            0b100 => Some(2),
            _ => None,
        }
    }
}

impl std::fmt::Debug for Frame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{:03b}", self.speakers(), self.0 & 0b111)
    }
}

/// The window whose local speakers a frame uses.
pub fn window_of(frame: usize) -> usize {
    let (window, offset) = (frame / HOP, frame % HOP);
    // Each of two windows decides half of the frames they share.
    if offset < SHARED_FRAMES / 2 { window.saturating_sub(1) } else { window }
}

/// Log-probabilities of one window.
type Scores = [[f32; CLASSES]];

/// Aggregates the windows of a recording into frames, in order.
#[derive(Debug, Default)]
pub struct Stitcher {
    windows: usize,
    /// The frames of the last window that the next one shares.
    tail: Vec<FrameScores>,
    /// The number, across windows, of each local speaker of the last window.
    permutation: [usize; LOCAL_SPEAKERS],
}

#[derive(Debug, Clone, Copy)]
struct FrameScores {
    /// Probability of zero, one and more speakers, times the weight.
    speakers: [f32; 3],
    weight: f32,
    /// Probability of each local speaker, after the permutation.
    voices: [f32; LOCAL_SPEAKERS],
    /// The active local speakers, after the permutation.
    active: [bool; LOCAL_SPEAKERS],
}

impl Stitcher {
    /// Adds the next window and returns the frames that it completes: those before the start of the next window, or all
    /// the remaining ones if this is the last.
    pub fn push(&mut self, scores: &Scores, last: bool) -> Vec<Frame> {
        let probabilities: Vec<[f32; CLASSES]> = scores.iter().map(softmax).collect();
        self.permutation = if self.windows == 0 { [0, 1, 2] } else { self.best_permutation(&probabilities) };
        let now: Vec<FrameScores> =
            probabilities.iter().enumerate().map(|(place, frame)| self.tail(place, frame)).collect();
        let complete = if last { now.len() } else { HOP.min(now.len()) };
        let frames = now[..complete].iter().enumerate().map(|(place, here)| {
            let before = self.tail.get(place);
            let labels_from = if place < SHARED_FRAMES / 2 { before.unwrap_or(here) } else { here };
            let weight = here.weight + before.map_or(0.0, |before| before.weight);
            let speakers: [f32; 3] = std::array::from_fn(|count| {
                (here.speakers[count] + before.map_or(0.0, |before| before.speakers[count])) / weight
            });
            let count =
                if speakers[0] >= SILENCE_THRESHOLD { 0 } else { 1 + u8::from(speakers[2] > OVERLAP_THRESHOLD) };
            Frame::new(count, labels_from.active)
        });
        let frames = frames.collect();
        self.tail = now[HOP.min(now.len())..].to_vec();
        self.windows += 1;
        frames
    }

    fn tail(&self, place: usize, frame: &[f32; CLASSES]) -> FrameScores {
        let angle = std::f32::consts::TAU * (place + 1) as f32 / (FRAMES_PER_WINDOW + 1) as f32;
        // A raised cosine with a floor: the first and the last frames of a recording are scored once, at an edge.
        let weight = 0.5 - 0.5 * angle.cos() + 0.05;
        let mut speakers = [0.0; 3];
        for (class, probability) in frame.iter().enumerate() {
            speakers[POWERSET[class].len()] += probability * weight;
        }
        // Speech or silence is decided by `speakers`; this is the likeliest class given speech.
        let class = (1..CLASSES).max_by(|&a, &b| frame[a].total_cmp(&frame[b])).unwrap_or(1);
        let mut active = [false; LOCAL_SPEAKERS];
        POWERSET[class].iter().for_each(|&voice| active[self.permutation[voice]] = true);
        let mut voices = [0.0; LOCAL_SPEAKERS];
        for (voice, probability) in speaker_probabilities(frame).into_iter().enumerate() {
            voices[self.permutation[voice]] = probability;
        }
        FrameScores { speakers, weight, voices, active }
    }

    /// The permutation of a window's local speakers that agrees best with the previous window.
    fn best_permutation(&self, probabilities: &[[f32; CLASSES]]) -> [usize; LOCAL_SPEAKERS] {
        const ORDERS: [[usize; LOCAL_SPEAKERS]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
        let mut agreement = [[0.0_f32; LOCAL_SPEAKERS]; LOCAL_SPEAKERS];
        for (before, frame) in self.tail.iter().zip(probabilities) {
            for (voice, probability) in speaker_probabilities(frame).into_iter().enumerate() {
                for (number, known) in before.voices.iter().enumerate() {
                    agreement[voice][number] += probability * known;
                }
            }
        }
        let sum = |order: &[usize; LOCAL_SPEAKERS]| {
            (0..LOCAL_SPEAKERS).map(|voice| agreement[voice][order[voice]]).sum::<f32>()
        };
        ORDERS.into_iter().max_by(|a, b| sum(a).total_cmp(&sum(b))).unwrap_or([0, 1, 2])
    }
}

fn softmax(scores: &[f32; CLASSES]) -> [f32; CLASSES] {
    let max = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let powers = scores.map(|score| (score - max).exp());
    let sum: f32 = powers.iter().sum();
    powers.map(|power| power / sum)
}

fn speaker_probabilities(frame: &[f32; CLASSES]) -> [f32; LOCAL_SPEAKERS] {
    let mut voices = [0.0; LOCAL_SPEAKERS];
    for (class, probability) in frame.iter().enumerate() {
        POWERSET[class].iter().for_each(|&voice| voices[voice] += probability);
    }
    voices
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A window in which each frame has one certain class.
    fn window(class: impl Fn(usize) -> usize) -> Vec<[f32; CLASSES]> {
        (0..FRAMES_PER_WINDOW)
            .map(|frame| std::array::from_fn(|other| if other == class(frame) { 0.0 } else { -20.0 }))
            .collect()
    }

    #[test]
    fn every_frame_comes_once_and_in_order() {
        let mut stitcher = Stitcher::default();
        let counts: Vec<usize> = (0..4).map(|place| stitcher.push(&window(|_| 1), place == 3).len()).collect();
        assert_eq!(counts, [HOP, HOP, HOP, FRAMES_PER_WINDOW]);
    }

    #[test]
    fn a_local_speaker_keeps_its_number_when_the_next_window_permutes_them() {
        let mut stitcher = Stitcher::default();
        // Speaker 0 until frame 400, then speaker 1; the second window numbers them 2 and 0.
        let mut frames = stitcher.push(&window(|frame| if frame < 400 { 1 } else { 2 }), false);
        frames.extend(stitcher.push(&window(|frame| if frame + HOP < 400 { 3 } else { 1 }), true));
        assert!(frames[..400].iter().all(|frame| frame.single_speaker() == Some(0) && frame.speakers() == 1));
        assert!(frames[400..].iter().all(|frame| frame.single_speaker() == Some(1)));
    }

    #[test]
    fn silence_one_and_two_are_counted() {
        let mut stitcher = Stitcher::default();
        let frames = stitcher.push(&window(|frame| [0, 3, 5][frame / 200]), true);
        assert_eq!(frames[100].speakers(), 0);
        assert_eq!((frames[300].speakers(), frames[300].single_speaker()), (1, Some(2)));
        assert_eq!((frames[500].speakers(), frames[500].single_speaker()), (2, None));
        assert!(frames[500].is_active(0) && !frames[500].is_active(1) && frames[500].is_active(2));
    }

    #[test]
    fn overlap_is_detected_below_a_probability_of_one_half() {
        let unsure = |both: f32| {
            let frame = std::array::from_fn(|class| match class {
                1 => (1.0 - both).ln(),
                4 => both.ln(),
                _ => -20.0,
            });
            Stitcher::default().push(&vec![frame; FRAMES_PER_WINDOW], true)[300].speakers()
        };
        assert_eq!((unsure(0.35), unsure(0.45)), (1, 2));
    }

    #[test]
    fn where_windows_disagree_the_one_whose_middle_is_nearer_weighs_more() {
        let mut stitcher = Stitcher::default();
        let mut frames = stitcher.push(&window(|_| 1), false);
        frames.extend(stitcher.push(&window(|_| 0), true));
        assert_eq!(frames[HOP + 20].speakers(), 1);
        assert_eq!(frames[HOP + SHARED_FRAMES - 20].speakers(), 0);
        assert_eq!((window_of(HOP + 20), window_of(HOP + SHARED_FRAMES - 20), window_of(3)), (0, 1, 0));
    }

    #[test]
    fn a_frame_is_one_byte_and_returns_what_was_stored() {
        assert_eq!(size_of::<Frame>(), 1);
        for bits in 0..8 {
            let voices = [bits & 1 > 0, bits & 2 > 0, bits & 4 > 0];
            let frame = Frame::new(2, voices);
            assert_eq!((frame.speakers(), [frame.is_active(0), frame.is_active(1), frame.is_active(2)]), (2, voices));
        }
    }
}
