//! From the scores of overlapping windows to one account of every frame of a recording.
//!
//! Windows begin half a window apart, so that every frame is heard twice. How many speak is the mean of both, weighted
//! towards the middle of a window, where the network sees most around a frame. Who they are among the window's voices is
//! the word of the window whose middle is nearest; windows name their voices each in its own order, so the names of each
//! are matched with those of the one before over the frames that both heard.

use crate::{CLASSES, FRAMES_PER_WINDOW, POWERSET};

/// Frames from the start of one window to the start of the next: just under 5 s.
pub const HOP: usize = 296;

/// Voices that a window can tell apart.
const VOICES: usize = 3;
/// Probability of silence from which nobody speaks. More would find words that are missed now (a third of what meetings
/// miss), but as much noise, whose embeddings mislead the search for voices.
const SILENCE: f32 = 0.5;
/// Probability of two voices from which two speak. The network is slow to say so: on tuning conversations and one half of
/// the meetings 0.3 to 0.45 are alike and all better than 0.5.
const OVERLAP: f32 = 0.4;
/// Frames that two neighbouring windows both hear.
const SHARED: usize = FRAMES_PER_WINDOW - HOP;

/// What is known of one frame, in a byte, since there are half a million of them in three hours.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Frame(u8);

impl Frame {
    /// A frame in which so many speak, and who of the three voices would if anybody did.
    pub fn new(speaking: u8, voices: [bool; VOICES]) -> Self {
        let bits = voices.iter().enumerate().map(|(voice, &active)| u8::from(active) << voice).sum::<u8>();
        Frame(speaking << VOICES | bits)
    }

    /// 0, 1, or 2 for two and more.
    pub fn speaking(self) -> u8 {
        self.0 >> VOICES
    }

    /// Whether this local voice is among those who speak.
    pub fn has(self, voice: usize) -> bool {
        self.0 >> voice & 1 == 1
    }

    /// The local voice, where it is a single one.
    pub fn solo(self) -> Option<usize> {
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
        write!(f, "{}:{:03b}", self.speaking(), self.0 & 0b111)
    }
}

/// The window that has the word on who speaks in a frame.
pub fn window_of(frame: usize) -> usize {
    let (window, offset) = (frame / HOP, frame % HOP);
    // Half of what both hear belongs to each.
    if offset < SHARED / 2 { window.saturating_sub(1) } else { window }
}

/// Log-probabilities of one window.
type Scores = [[f32; CLASSES]];

/// Windows on their way to frames.
#[derive(Debug, Default)]
pub struct Stitcher {
    windows: usize,
    /// The frames of the last window that the next one hears too: probabilities, and the voices by their matched names.
    tail: Vec<Tail>,
    /// The matched name of each voice of the last window.
    names: [usize; VOICES],
}

#[derive(Debug, Clone, Copy)]
struct Tail {
    /// Probability of none, one, more; times its weight.
    speaking: [f32; 3],
    weight: f32,
    /// Probability of each voice, by matched name.
    voices: [f32; VOICES],
    /// Who speaks, by matched name.
    active: [bool; VOICES],
}

impl Stitcher {
    /// Takes the next window and gives the frames that it completes: those before the start of the window to come, or
    /// all that are left if this is the last.
    pub fn push(&mut self, scores: &Scores, last: bool) -> Vec<Frame> {
        let probabilities: Vec<[f32; CLASSES]> = scores.iter().map(probabilities).collect();
        self.names = if self.windows == 0 { [0, 1, 2] } else { self.matched(&probabilities) };
        let now: Vec<Tail> = probabilities.iter().enumerate().map(|(place, frame)| self.tail(place, frame)).collect();
        let complete = if last { now.len() } else { HOP.min(now.len()) };
        let frames = now[..complete].iter().enumerate().map(|(place, here)| {
            let before = self.tail.get(place);
            let told_by = if place < SHARED / 2 { before.unwrap_or(here) } else { here };
            let weight = here.weight + before.map_or(0.0, |before| before.weight);
            let speaking: [f32; 3] = std::array::from_fn(|count| {
                (here.speaking[count] + before.map_or(0.0, |before| before.speaking[count])) / weight
            });
            let count = if speaking[0] >= SILENCE { 0 } else { 1 + u8::from(speaking[2] > OVERLAP) };
            Frame::new(count, told_by.active)
        });
        let frames = frames.collect();
        self.tail = now[HOP.min(now.len())..].to_vec();
        self.windows += 1;
        frames
    }

    fn tail(&self, place: usize, frame: &[f32; CLASSES]) -> Tail {
        let angle = std::f32::consts::TAU * (place + 1) as f32 / (FRAMES_PER_WINDOW + 1) as f32;
        // A raised cosine that is not quite zero at the edges, where the first and the last frames are heard once.
        let weight = 0.5 - 0.5 * angle.cos() + 0.05;
        let mut speaking = [0.0; 3];
        for (class, probability) in frame.iter().enumerate() {
            speaking[POWERSET[class].len()] += probability * weight;
        }
        // Whether anybody speaks is decided elsewhere: here only who it would be.
        let class = (1..CLASSES).max_by(|&a, &b| frame[a].total_cmp(&frame[b])).unwrap_or(1);
        let mut active = [false; VOICES];
        POWERSET[class].iter().for_each(|&voice| active[self.names[voice]] = true);
        let mut voices = [0.0; VOICES];
        for (voice, probability) in voice_probabilities(frame).into_iter().enumerate() {
            voices[self.names[voice]] = probability;
        }
        Tail { speaking, weight, voices, active }
    }

    /// The names of a window's voices: the order in which they agree best with the window before.
    fn matched(&self, probabilities: &[[f32; CLASSES]]) -> [usize; VOICES] {
        const ORDERS: [[usize; VOICES]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
        let mut agreement = [[0.0_f32; VOICES]; VOICES];
        for (before, frame) in self.tail.iter().zip(probabilities) {
            for (voice, probability) in voice_probabilities(frame).into_iter().enumerate() {
                for (name, known) in before.voices.iter().enumerate() {
                    agreement[voice][name] += probability * known;
                }
            }
        }
        let sum = |order: &[usize; VOICES]| (0..VOICES).map(|voice| agreement[voice][order[voice]]).sum::<f32>();
        ORDERS.into_iter().max_by(|a, b| sum(a).total_cmp(&sum(b))).unwrap_or([0, 1, 2])
    }
}

fn probabilities(scores: &[f32; CLASSES]) -> [f32; CLASSES] {
    let most = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let powers = scores.map(|score| (score - most).exp());
    let sum: f32 = powers.iter().sum();
    powers.map(|power| power / sum)
}

fn voice_probabilities(frame: &[f32; CLASSES]) -> [f32; VOICES] {
    let mut voices = [0.0; VOICES];
    for (class, probability) in frame.iter().enumerate() {
        POWERSET[class].iter().for_each(|&voice| voices[voice] += probability);
    }
    voices
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A window in which each frame surely has one class.
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
    fn a_voice_keeps_its_name_though_the_next_window_calls_it_otherwise() {
        let mut stitcher = Stitcher::default();
        // Voice 0 until frame 400, then voice 1; the second window has them as its voices 2 and 0.
        let mut frames = stitcher.push(&window(|frame| if frame < 400 { 1 } else { 2 }), false);
        frames.extend(stitcher.push(&window(|frame| if frame + HOP < 400 { 3 } else { 1 }), true));
        assert!(frames[..400].iter().all(|frame| frame.solo() == Some(0) && frame.speaking() == 1));
        assert!(frames[400..].iter().all(|frame| frame.solo() == Some(1)));
    }

    #[test]
    fn silence_one_and_two_are_counted() {
        let mut stitcher = Stitcher::default();
        let frames = stitcher.push(&window(|frame| [0, 3, 5][frame / 200]), true);
        assert_eq!(frames[100].speaking(), 0);
        assert_eq!((frames[300].speaking(), frames[300].solo()), (1, Some(2)));
        assert_eq!((frames[500].speaking(), frames[500].solo()), (2, None));
        assert!(frames[500].has(0) && !frames[500].has(1) && frames[500].has(2));
    }

    #[test]
    fn two_are_heard_before_they_are_likelier_than_one() {
        let unsure = |both: f32| {
            let frame = std::array::from_fn(|class| match class {
                1 => (1.0 - both).ln(),
                4 => both.ln(),
                _ => -20.0,
            });
            Stitcher::default().push(&vec![frame; FRAMES_PER_WINDOW], true)[300].speaking()
        };
        assert_eq!((unsure(0.35), unsure(0.45)), (1, 2));
    }

    #[test]
    fn where_windows_disagree_the_one_whose_middle_is_nearer_weighs_more() {
        let mut stitcher = Stitcher::default();
        let mut frames = stitcher.push(&window(|_| 1), false);
        frames.extend(stitcher.push(&window(|_| 0), true));
        assert_eq!(frames[HOP + 20].speaking(), 1);
        assert_eq!(frames[HOP + SHARED - 20].speaking(), 0);
        assert_eq!((window_of(HOP + 20), window_of(HOP + SHARED - 20), window_of(3)), (0, 1, 0));
    }

    #[test]
    fn a_frame_is_one_byte_and_tells_what_went_in() {
        assert_eq!(size_of::<Frame>(), 1);
        for bits in 0..8 {
            let voices = [bits & 1 > 0, bits & 2 > 0, bits & 4 > 0];
            let frame = Frame::new(2, voices);
            assert_eq!((frame.speaking(), [frame.has(0), frame.has(1), frame.has(2)]), (2, voices));
        }
    }
}
