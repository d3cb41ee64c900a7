//! Which pieces of a recording are embedded: stretches in which one voice speaks alone, cut to the length the network likes.

use crate::SAMPLE_RATE;
use crate::frames::{Frame, window_of};
use crate::segmentation::{FRAME_FIELD, FRAME_STEP};

/// Frames of the piece that embeddings are made of: 1.5 s.
pub const PIECE: usize = frames_of(1.5);
/// Frames from one piece to the next inside a long run: 1 s. Pieces every 0.75 s cost a third more and tell nobody apart better.
const STEP: usize = frames_of(1.0);
/// Runs shorter than this say nothing of a voice; they take the label of what is around them.
const LEAST: usize = frames_of(0.3);
/// Pieces shorter than this are labelled, but no voice is learned from them.
const CLEAR: usize = frames_of(1.0);
/// Speech shorter than this is a click.
const CLICK: usize = frames_of(0.1);
/// A change of voice for less than this is a slip of the network.
const SLIP: usize = frames_of(0.25);

const fn frames_of(seconds: f64) -> usize {
    (seconds * SAMPLE_RATE as f64 / FRAME_STEP as f64 + 0.5) as usize
}

/// Seconds of a frame.
pub const FRAME_SECONDS: f64 = FRAME_STEP as f64 / SAMPLE_RATE as f64;

/// The sample with which the time of a frame begins: frames stand for the step around their middle.
pub fn first_sample(frame: usize) -> usize {
    frame * FRAME_STEP + (FRAME_FIELD - FRAME_STEP) / 2
}

/// A stretch of frames, the last one not included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// The first frame.
    pub start: usize,
    /// The frame after the last.
    pub end: usize,
}

impl Run {
    /// How many frames.
    pub fn len(self) -> usize {
        self.end - self.start
    }

    /// How long it lasts.
    pub fn seconds(self) -> f32 {
        self.len() as f32 * FRAME_SECONDS as f32
    }
}

/// A piece of a run that is embedded.
#[derive(Debug, Clone, PartialEq)]
pub struct Piece {
    /// The run it was cut from, by its place among all runs.
    pub run: usize,
    /// Where it lies.
    pub span: Run,
    /// Seconds of the run that it stands for.
    pub seconds: f32,
    /// Whether it is long enough to learn a voice from.
    pub clear: bool,
    /// Its window and the voice in it.
    pub track: Option<(u32, u8)>,
}

/// The stretches of speech among frames `offset..`, clicks left out.
pub fn speech(frames: &[Frame], offset: usize) -> Vec<Run> {
    stretches(frames, offset, |frame| frame.speaking() > 0).filter(|run| run.len() >= CLICK).collect()
}

/// The frames in which several speak.
pub fn overlaps(frames: &[Frame], within: Run) -> Vec<Run> {
    stretches(&frames[within.start..within.end], within.start, |frame| frame.speaking() > 1).collect()
}

/// The stretches of one speech run in which one voice speaks alone, cut where segmentation hears another one.
pub fn solos(frames: &[Frame], speech: Run) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let mut voice_before = None;
    let mut start = speech.start;
    while start < speech.end {
        if frames[start].speaking() > 1 {
            start += 1;
            continue;
        }
        let voice = frames[start].solo();
        let same = |frame: &Frame| {
            frame.speaking() < 2 && (voice.is_none() || frame.solo().is_none_or(|other| Some(other) == voice))
        };
        let length = frames[start..speech.end].iter().take_while(|frame| same(frame)).count();
        let run = Run { start, end: start + length };
        match runs.last_mut() {
            Some(before) if before.end == run.start && (run.len() < SLIP || voice == voice_before) => {
                before.end = run.end
            }
            _ => {
                runs.push(run);
                voice_before = voice;
            }
        }
        start = run.end;
    }
    runs
}

/// The pieces of one run that are embedded: none of a very short one, all of it up to [`PIECE`], else evenly spaced.
pub fn cut(frames: &[Frame], run: usize, span: Run) -> Vec<Piece> {
    if span.len() < LEAST {
        return Vec::new();
    }
    let count = if span.len() <= PIECE { 1 } else { (span.len() - PIECE).div_ceil(STEP) + 1 };
    let length = span.len().min(PIECE);
    let piece = |place: usize| {
        let start = span.start + (place * (span.len() - length) + (count - 1) / 2) / (count - 1).max(1);
        let middle = start + length / 2;
        let track = frames[middle].solo().map(|voice| (window_of(middle) as u32, voice as u8));
        Piece {
            run,
            span: Run { start, end: start + length },
            seconds: span.seconds() / count as f32,
            clear: length >= CLEAR,
            track,
        }
    };
    (0..count).map(piece).collect()
}

fn stretches(frames: &[Frame], offset: usize, wanted: impl Fn(&Frame) -> bool) -> impl Iterator<Item = Run> {
    let mut start = offset;
    let runs: Vec<Run> = frames
        .chunk_by(|a, b| wanted(a) == wanted(b))
        .filter_map(|chunk| {
            let run = Run { start, end: start + chunk.len() };
            start = run.end;
            wanted(&chunk[0]).then_some(run)
        })
        .collect();
    runs.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames from (how many, how many speak, local voice).
    pub fn frames(parts: &[(usize, u8, usize)]) -> Vec<Frame> {
        let frame = |&(count, speaking, voice): &(usize, u8, usize)| {
            let voices = std::array::from_fn(|other| other == voice || (speaking > 1 && other == (voice + 1) % 3));
            vec![Frame::new(speaking, voices); count]
        };
        parts.iter().flat_map(frame).collect()
    }

    #[test]
    fn speech_is_what_is_not_silent_and_not_a_click() {
        let frames = frames(&[(50, 0, 0), (3, 1, 0), (40, 0, 0), (100, 1, 0), (30, 2, 0), (20, 0, 0)]);
        assert_eq!(speech(&frames, 0), [Run { start: 93, end: 223 }]);
        assert_eq!(overlaps(&frames, Run { start: 93, end: 223 }), [Run { start: 193, end: 223 }]);
        assert_eq!(speech(&frames[60..], 60), [Run { start: 93, end: 223 }]);
    }

    #[test]
    fn runs_end_where_the_voice_changes_or_another_joins_but_not_at_a_slip() {
        let frames = frames(&[(100, 1, 0), (5, 1, 1), (50, 1, 0), (80, 1, 2), (40, 2, 0), (60, 1, 0)]);
        let runs = solos(&frames, Run { start: 0, end: frames.len() });
        let ends: Vec<(usize, usize)> = runs.iter().map(|run| (run.start, run.end)).collect();
        assert_eq!(ends, [(0, 155), (155, 235), (275, 335)]);
    }

    #[test]
    fn pieces_cover_their_run_from_end_to_end_evenly() {
        let frames = frames(&[(1_000, 1, 1)]);
        for length in LEAST..600 {
            let pieces = cut(&frames, 7, Run { start: 200, end: 200 + length });
            assert_eq!((pieces[0].span.start, pieces[pieces.len() - 1].span.end), (200, 200 + length));
            assert!(pieces.windows(2).all(|pair| pair[1].span.start - pair[0].span.start <= STEP + 1));
            let seconds: f32 = pieces.iter().map(|piece| piece.seconds).sum();
            assert!((seconds - length as f32 * FRAME_SECONDS as f32).abs() < 1e-3);
            assert!(pieces.iter().all(|piece| piece.clear == (length >= CLEAR) && piece.run == 7));
        }
        assert_eq!(cut(&frames, 0, Run { start: 0, end: LEAST - 1 }), []);
    }

    #[test]
    fn a_piece_knows_its_window_and_the_voice_in_it() {
        let frames = frames(&[(1_000, 1, 1)]);
        assert_eq!(cut(&frames, 0, Run { start: 600, end: 680 })[0].track, Some((window_of(640) as u32, 1)));
    }
}
