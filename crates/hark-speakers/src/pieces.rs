//! Selects the pieces (sub-segments) of a recording to embed: runs with one active local speaker, in windows of 1.5 s.

use crate::SAMPLE_RATE;
use crate::frames::{Frame, window_of};
use crate::segmentation::{FRAME_STEP, RECEPTIVE_FIELD};

/// Frames of a piece: 1.5 s.
pub const PIECE_FRAMES: usize = frames_of(1.5);
/// Frames from one piece to the next inside a long run: 1 s. A hop of 0.75 s costs a third more and improves nothing.
const PIECE_HOP: usize = frames_of(1.0);
/// Runs shorter than this are not embedded; they take the label of their surroundings.
const MIN_PIECE: usize = frames_of(0.3);
/// Pieces shorter than this are labelled, but not clustered.
const MIN_RELIABLE: usize = frames_of(1.0);
/// Speech shorter than this is dropped as a click.
const MIN_SPEECH: usize = frames_of(0.1);
/// A change of local speaker shorter than this is ignored as a segmentation error.
const MIN_CHANGE: usize = frames_of(0.25);

const fn frames_of(seconds: f64) -> usize {
    (seconds * SAMPLE_RATE as f64 / FRAME_STEP as f64 + 0.5) as usize
}

/// Length of a frame in seconds.
pub const FRAME_SECONDS: f64 = FRAME_STEP as f64 / SAMPLE_RATE as f64;

/// The first sample of a frame: a frame covers the hop around the middle of its receptive field.
pub fn first_sample(frame: usize) -> usize {
    frame * FRAME_STEP + (RECEPTIVE_FIELD - FRAME_STEP) / 2
}

/// A half-open range of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// The first frame.
    pub start: usize,
    /// The frame after the last.
    pub end: usize,
}

impl Run {
    /// Length in frames.
    pub fn len(self) -> usize {
        self.end - self.start
    }

    /// Length in seconds.
    pub fn seconds(self) -> f32 {
        self.len() as f32 * FRAME_SECONDS as f32
    }
}

/// A window of a run that is embedded.
#[derive(Debug, Clone, PartialEq)]
pub struct Piece {
    /// Index of the run it was split from.
    pub run: usize,
    /// Its frames.
    pub span: Run,
    /// Seconds of the run that it represents.
    pub seconds: f32,
    /// Whether it is long enough to be clustered.
    pub reliable: bool,
    /// The track: its segmentation window and the local speaker in it.
    pub track: Option<(u32, u8)>,
}

/// The runs of speech among frames `offset..`, without clicks.
pub fn speech_runs(frames: &[Frame], offset: usize) -> Vec<Run> {
    runs_where(frames, offset, |frame| frame.speakers() > 0).filter(|run| run.len() >= MIN_SPEECH).collect()
}

/// The runs with overlapped speech.
pub fn overlap_runs(frames: &[Frame], within: Run) -> Vec<Run> {
    runs_where(&frames[within.start..within.end], within.start, |frame| frame.speakers() > 1).collect()
}

/// The runs of one stretch of speech with one active local speaker, split where the local speaker changes.
pub fn single_speaker_runs(frames: &[Frame], speech: Run) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let mut previous_voice = None;
    let mut start = speech.start;
    while start < speech.end {
        if frames[start].speakers() > 1 {
            start += 1;
            continue;
        }
        let voice = frames[start].single_speaker();
        let same = |frame: &Frame| {
            frame.speakers() < 2 && (voice.is_none() || frame.single_speaker().is_none_or(|other| Some(other) == voice))
        };
        let length = frames[start..speech.end].iter().take_while(|frame| same(frame)).count();
        let run = Run { start, end: start + length };
        match runs.last_mut() {
            Some(previous) if previous.end == run.start && (run.len() < MIN_CHANGE || voice == previous_voice) => {
                previous.end = run.end
            }
            _ => {
                runs.push(run);
                previous_voice = voice;
            }
        }
        start = run.end;
    }
    runs
}

/// The pieces of one run: none of a very short one, the whole run up to [`PIECE_FRAMES`], else evenly spaced windows.
pub fn split_run(frames: &[Frame], run: usize, span: Run) -> Vec<Piece> {
    if span.len() < MIN_PIECE {
        return Vec::new();
    }
    let count = if span.len() <= PIECE_FRAMES { 1 } else { (span.len() - PIECE_FRAMES).div_ceil(PIECE_HOP) + 1 };
    let length = span.len().min(PIECE_FRAMES);
    let piece = |place: usize| {
        let start = span.start + (place * (span.len() - length) + (count - 1) / 2) / (count - 1).max(1);
        let middle = start + length / 2;
        let track = frames[middle].single_speaker().map(|voice| (window_of(middle) as u32, voice as u8));
        Piece {
            run,
            span: Run { start, end: start + length },
            seconds: span.seconds() / count as f32,
            reliable: length >= MIN_RELIABLE,
            track,
        }
    };
    (0..count).map(piece).collect()
}

fn runs_where(frames: &[Frame], offset: usize, wanted: impl Fn(&Frame) -> bool) -> impl Iterator<Item = Run> {
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

    /// Frames from (count, speaker count, local speaker).
    pub fn frames(parts: &[(usize, u8, usize)]) -> Vec<Frame> {
        let frame = |&(count, speakers, voice): &(usize, u8, usize)| {
            let voices = std::array::from_fn(|other| other == voice || (speakers > 1 && other == (voice + 1) % 3));
            vec![Frame::new(speakers, voices); count]
        };
        parts.iter().flat_map(frame).collect()
    }

    #[test]
    fn speech_excludes_silence_and_clicks() {
        let frames = frames(&[(50, 0, 0), (3, 1, 0), (40, 0, 0), (100, 1, 0), (30, 2, 0), (20, 0, 0)]);
        assert_eq!(speech_runs(&frames, 0), [Run { start: 93, end: 223 }]);
        assert_eq!(overlap_runs(&frames, Run { start: 93, end: 223 }), [Run { start: 193, end: 223 }]);
        assert_eq!(speech_runs(&frames[60..], 60), [Run { start: 93, end: 223 }]);
    }

    #[test]
    fn runs_end_at_speaker_changes_and_overlap_but_not_at_brief_changes() {
        let frames = frames(&[(100, 1, 0), (5, 1, 1), (50, 1, 0), (80, 1, 2), (40, 2, 0), (60, 1, 0)]);
        let runs = single_speaker_runs(&frames, Run { start: 0, end: frames.len() });
        let ends: Vec<(usize, usize)> = runs.iter().map(|run| (run.start, run.end)).collect();
        assert_eq!(ends, [(0, 155), (155, 235), (275, 335)]);
    }

    #[test]
    fn pieces_cover_their_run_from_end_to_end_evenly() {
        let frames = frames(&[(1_000, 1, 1)]);
        for length in MIN_PIECE..600 {
            let pieces = split_run(&frames, 7, Run { start: 200, end: 200 + length });
            assert_eq!((pieces[0].span.start, pieces[pieces.len() - 1].span.end), (200, 200 + length));
            assert!(pieces.windows(2).all(|pair| pair[1].span.start - pair[0].span.start <= PIECE_HOP + 1));
            let seconds: f32 = pieces.iter().map(|piece| piece.seconds).sum();
            assert!((seconds - length as f32 * FRAME_SECONDS as f32).abs() < 1e-3);
            assert!(pieces.iter().all(|piece| piece.reliable == (length >= MIN_RELIABLE) && piece.run == 7));
        }
        assert_eq!(split_run(&frames, 0, Run { start: 0, end: MIN_PIECE - 1 }), []);
    }

    #[test]
    fn a_piece_has_the_track_of_its_middle_frame() {
        let frames = frames(&[(1_000, 1, 1)]);
        assert_eq!(split_run(&frames, 0, Run { start: 600, end: 680 })[0].track, Some((window_of(640) as u32, 1)));
    }
}
