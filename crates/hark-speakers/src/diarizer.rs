//! The diarization pipeline: segmentation, embedding, clustering, turns, over a stream of samples.
//!
//! Only the last minutes of audio are buffered, however long the recording is. What remains is a byte per frame and an
//! embedding per second of speech: three hours of speech take 0.6 MB of frames and 8 MB of embeddings.

use crate::cluster::{self, Embedding, centred, cluster_speakers};
use crate::frames::{Frame, HOP, Stitcher};
use crate::pieces::{self, PIECE_FRAMES, Piece, Run, first_sample};
use crate::segmentation::{CLASSES, FRAME_STEP, Segmenter, WINDOW_SAMPLES};
use crate::turns::{LabelInputs, Labels, Turn};
use crate::{Embedder, SAMPLE_RATE};

/// Samples from the start of one window to the start of the next.
const HOP_SAMPLES: usize = HOP * FRAME_STEP;
/// Windows per batch of an offline recording, 160 s of audio: the network is much faster in batches.
const BATCH: usize = 32;
/// Frames of speech without a pause after which it is embedded before it ends: 30 s.
const MAX_OPEN_SPEECH: usize = 30 * SAMPLE_RATE / FRAME_STEP;

/// The segmentation and the embedding network.
pub trait Networks {
    /// Log-probabilities of the classes in each frame of each window, as [`Segmenter::segment`] gives them.
    fn segment(&mut self, windows: &[&[f32]]) -> Vec<Vec<[f32; CLASSES]>>;

    /// An embedding of length 1 for each piece, as [`Embedder::embed`] gives it.
    fn embed(&mut self, pieces: &[&[f32]]) -> Vec<Embedding>;
}

impl Networks for (Segmenter, Embedder) {
    fn segment(&mut self, windows: &[&[f32]]) -> Vec<Vec<[f32; CLASSES]>> {
        self.0.segment(windows)
    }

    fn embed(&mut self, pieces: &[&[f32]]) -> Vec<Embedding> {
        self.1.embed(pieces)
    }
}

impl<N: Networks> Networks for &mut N {
    fn segment(&mut self, windows: &[&[f32]]) -> Vec<Vec<[f32; CLASSES]>> {
        (**self).segment(windows)
    }

    fn embed(&mut self, pieces: &[&[f32]]) -> Vec<Embedding> {
        (**self).embed(pieces)
    }
}

/// The speakers of a recording and their turns.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Diarization {
    /// The turns of all speakers in order of time; in overlapped speech they overlap.
    pub turns: Vec<Turn>,
    /// Non-overlapping turns, for text that can only have one speaker.
    pub exclusive: Vec<Turn>,
    /// The spans of overlapped speech in seconds.
    pub overlaps: Vec<(f64, f64)>,
    /// The cluster centroid of each speaker, of length 1, to compare by cosine similarity with [`centred`] embeddings.
    pub centroids: Vec<Embedding>,
}

/// A streaming diarizer.
pub struct Diarizer<N> {
    networks: N,
    batch: usize,
    /// The buffered samples, and the recording's sample that they start at.
    samples: Vec<f32>,
    buffer_start: usize,
    /// Samples received so far.
    total_samples: usize,
    windows_done: usize,
    stitcher: Stitcher,
    frames: Vec<Frame>,
    /// The frame up to which speech has been split into pieces.
    frames_done: usize,
    speech: Vec<Run>,
    runs: Vec<Run>,
    pieces: Vec<Piece>,
    vectors: Vec<Embedding>,
}

impl<N: Networks> Diarizer<N> {
    /// A diarizer for an offline recording: windows run in batches.
    pub fn new(networks: N) -> Self {
        Diarizer {
            networks,
            batch: BATCH,
            samples: Vec::new(),
            buffer_start: 0,
            total_samples: 0,
            windows_done: 0,
            stitcher: Stitcher::default(),
            frames: Vec::new(),
            frames_done: 0,
            speech: Vec::new(),
            runs: Vec::new(),
            pieces: Vec::new(),
            vectors: Vec::new(),
        }
    }

    /// A diarizer for live audio: every window runs as soon as it is complete, which spreads the work evenly.
    pub fn live(networks: N) -> Self {
        Diarizer { batch: 1, ..Diarizer::new(networks) }
    }

    /// Adds the next samples of the recording, any number of them, at 16 kHz.
    pub fn push(&mut self, samples: &[f32]) {
        self.samples.extend_from_slice(samples);
        self.total_samples += samples.len();
        while self.total_samples >= (self.windows_done + self.batch - 1) * HOP_SAMPLES + WINDOW_SAMPLES {
            self.process_windows(self.batch, false);
        }
    }

    /// Processes the remaining audio and returns the turns; `speakers` fixes the number of speakers, if there is speech of so many.
    pub fn finish(mut self, speakers: Option<usize>) -> Diarization {
        // A last window without new samples is not run: the windows before it reach the end.
        let count = self.total_samples.saturating_sub(WINDOW_SAMPLES).div_ceil(HOP_SAMPLES) + 1;
        while self.total_samples > 0 && self.windows_done < count {
            let batch = self.batch.min(count - self.windows_done);
            self.process_windows(batch, self.windows_done + batch == count);
        }
        if self.total_samples > 0 && self.windows_done == count && self.frames_done < self.frames.len() {
            self.embed_speech(true);
        }
        self.label_turns(speakers)
    }

    /// Segments the next windows, and embeds the speech that they complete.
    fn process_windows(&mut self, count: usize, last: bool) {
        let windows: Vec<&[f32]> = (self.windows_done..self.windows_done + count)
            .map(|window| {
                let start = (window * HOP_SAMPLES - self.buffer_start).min(self.samples.len());
                &self.samples[start..(start + WINDOW_SAMPLES).min(self.samples.len())]
            })
            .collect();
        let scores = self.networks.segment(&windows);
        for (place, scores) in scores.iter().enumerate() {
            self.frames.extend(self.stitcher.push(scores, last && place + 1 == count));
        }
        self.windows_done += count;
        if last {
            let covered = (0..self.frames.len()).take_while(|&frame| first_sample(frame) < self.total_samples).count();
            self.frames.truncate(covered);
        }
        self.embed_speech(last);
        let needed = (self.windows_done * HOP_SAMPLES).min(first_sample(self.frames_done).saturating_sub(FRAME_STEP));
        let unneeded = needed.saturating_sub(self.buffer_start).min(self.samples.len());
        self.samples.drain(..unneeded);
        self.buffer_start += unneeded;
    }

    /// Splits complete speech into pieces and embeds them. Speech at the end of the frames is open: it waits until it
    /// ends or exceeds [`MAX_OPEN_SPEECH`].
    fn embed_speech(&mut self, last: bool) {
        let open = self.frames[self.frames_done..].iter().rev().take_while(|frame| frame.speakers() > 0).count();
        let end = if last || open > MAX_OPEN_SPEECH { self.frames.len() } else { self.frames.len() - open };
        let known = self.pieces.len();
        for speech in pieces::speech_runs(&self.frames[self.frames_done..end], self.frames_done) {
            for run in pieces::single_speaker_runs(&self.frames, speech) {
                self.pieces.extend(pieces::split_run(&self.frames, self.runs.len(), run));
                self.runs.push(run);
            }
            self.speech.push(speech);
        }
        self.frames_done = end;
        let audio: Vec<Vec<f32>> = self.pieces[known..].iter().map(|piece| self.audio(piece.span)).collect();
        let audio: Vec<&[f32]> = audio.iter().map(Vec::as_slice).collect();
        let vectors = self.networks.embed(&audio);
        self.vectors.extend(vectors.iter().map(centred));
    }

    /// The audio of a span of frames, repeated up to the length of a piece, so that all pieces have one length.
    fn audio(&self, span: Run) -> Vec<f32> {
        let place =
            |frame: usize| (first_sample(frame) - self.buffer_start.min(first_sample(frame))).min(self.samples.len());
        let audio = &self.samples[place(span.start)..place(span.end)];
        audio.iter().copied().cycle().take(if audio.is_empty() { 0 } else { PIECE_FRAMES * FRAME_STEP }).collect()
    }

    fn label_turns(self, speakers: Option<usize>) -> Diarization {
        let seconds = self.total_samples as f64 / SAMPLE_RATE as f64;
        let pieces = self.pieces.iter().zip(&self.vectors);
        let embedded: Vec<cluster::EmbeddedPiece> = pieces
            .map(|(piece, &vector)| cluster::EmbeddedPiece {
                vector,
                seconds: piece.seconds,
                reliable: piece.reliable,
                track: piece.track,
            })
            .collect();
        let centroids = cluster_speakers(&embedded, speakers);
        drop(embedded);
        let inputs = LabelInputs {
            frames: &self.frames,
            speech: &self.speech,
            runs: &self.runs,
            pieces: &self.pieces,
            vectors: &self.vectors,
        };
        let labels = Labels::new(&inputs, &centroids);
        let order = labels.order_of_appearance();
        Diarization {
            turns: labels.turns(&order, seconds),
            exclusive: labels.exclusive(&order, seconds),
            overlaps: labels.overlaps(seconds),
            centroids: order.iter().map(|&cluster| centroids[cluster]).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::l2_normalized;
    use crate::cluster::tests::unit;
    use crate::segmentation::{FRAMES_PER_WINDOW, POWERSET, frame_middle};

    /// Synthetic speech: speaker `n` adds 2ⁿ/64 to every sample of their turns.
    fn synthetic(seconds: f64, turns: &[(f64, f64, usize)]) -> Vec<f32> {
        let mut samples = vec![0.0; (seconds * SAMPLE_RATE as f64) as usize];
        for &(start, end, speaker) in turns {
            let span = (start * SAMPLE_RATE as f64) as usize..(end * SAMPLE_RATE as f64) as usize;
            samples[span].iter_mut().for_each(|sample| *sample += (1 << speaker) as f32 / 64.0);
        }
        samples
    }

    /// Networks that segment and embed synthetic speech without error, and count their inputs.
    #[derive(Default)]
    struct PerfectNetworks {
        windows: usize,
        max_batch: usize,
        pieces: usize,
    }

    impl Networks for PerfectNetworks {
        fn segment(&mut self, windows: &[&[f32]]) -> Vec<Vec<[f32; CLASSES]>> {
            self.windows += windows.len();
            self.max_batch = self.max_batch.max(windows.len());
            windows.iter().map(|window| perfect_window(window)).collect()
        }

        fn embed(&mut self, pieces: &[&[f32]]) -> Vec<Embedding> {
            self.pieces += pieces.len();
            let embed = |piece: &&[f32]| {
                assert_eq!(piece.len(), PIECE_FRAMES * FRAME_STEP, "all pieces are of one length");
                let mut sum = [0.0; crate::EMBEDDING_WIDTH];
                for speaker in 0..6 {
                    let active = piece.iter().filter(|&&sample| (sample * 64.0) as usize >> speaker & 1 == 1).count();
                    let share = active as f32 / piece.len() as f32;
                    sum.iter_mut().zip(unit(speaker)).for_each(|(sum, value)| *sum += share * value);
                }
                l2_normalized(&sum)
            };
            pieces.iter().map(embed).collect()
        }
    }

    /// Local speakers are numbered in order of appearance in the window, as the network does.
    fn perfect_window(window: &[f32]) -> Vec<[f32; CLASSES]> {
        let mut known: Vec<usize> = Vec::new();
        (0..FRAMES_PER_WINDOW)
            .map(|frame| {
                let level = window.get(frame_middle(frame)).map_or(0, |sample| (sample * 64.0) as usize);
                let speakers: Vec<usize> = (0..6).filter(|speaker| level >> speaker & 1 == 1).collect();
                for speaker in &speakers {
                    if !known.contains(speaker) && known.len() < 3 {
                        known.push(*speaker);
                    }
                }
                let mut voices: Vec<usize> =
                    speakers.iter().filter_map(|speaker| known.iter().position(|other| other == speaker)).collect();
                voices.sort_unstable();
                let class = POWERSET.iter().position(|class| *class == voices).unwrap_or(0);
                std::array::from_fn(|other| if other == class { -0.01 } else { -9.0 })
            })
            .collect()
    }

    fn diarize(samples: &[f32], speakers: Option<usize>) -> Diarization {
        let mut diarizer = Diarizer::new(PerfectNetworks::default());
        // Blocks of an odd length, as a decoder gives them.
        samples.chunks(4_801).for_each(|samples| diarizer.push(samples));
        diarizer.finish(speakers)
    }

    fn assert_turns(turns: &[Turn], expected: &[(f64, f64, usize)]) {
        assert_eq!(turns.len(), expected.len(), "{turns:?}");
        for (turn, &(start, end, speaker)) in turns.iter().zip(expected) {
            let right = (turn.start - start).abs() < 0.05 && (turn.end - end).abs() < 0.05 && turn.speaker == speaker;
            assert!(right, "{turn:?} is not {:?}; all: {turns:?}", (start, end, speaker));
        }
    }

    #[test]
    fn turns_are_found_and_numbered_by_first_appearance() {
        let spoken = [(0.5, 4.0, 3), (4.5, 9.0, 1), (9.0, 14.0, 3), (15.0, 23.0, 0), (23.5, 31.0, 1)];
        let found = diarize(&synthetic(33.0, &spoken), None);
        let expected = [(0.5, 4.0, 0), (4.5, 9.0, 1), (9.0, 14.0, 0), (15.0, 23.0, 2), (23.5, 31.0, 1)];
        assert_turns(&found.turns, &expected);
        assert_turns(&found.exclusive, &expected);
        assert_eq!((found.overlaps.len(), found.centroids.len()), (0, 3));
        assert!(cluster::dot(&found.centroids[0], &centred(&unit(3))) > 0.99);
    }

    #[test]
    fn in_overlap_both_speakers_have_a_turn_and_exclusive_turns_one() {
        let found = diarize(&synthetic(20.0, &[(1.0, 8.0, 0), (6.5, 13.0, 1), (14.0, 18.0, 0)]), None);
        assert_turns(&found.turns, &[(1.0, 8.0, 0), (6.5, 13.0, 1), (14.0, 18.0, 0)]);
        assert_turns(&found.exclusive, &[(1.0, 8.0, 0), (8.0, 13.0, 1), (14.0, 18.0, 0)]);
        assert_eq!(found.overlaps.len(), 1);
        assert!((found.overlaps[0].0 - 6.5).abs() < 0.05 && (found.overlaps[0].1 - 8.0).abs() < 0.05);
    }

    #[test]
    fn a_run_too_short_to_embed_has_the_label_of_its_local_speaker() {
        // 0.2 s of speaker 1 between two turns of speaker 0, beside a longer turn of speaker 1.
        let found = diarize(&synthetic(14.0, &[(1.0, 4.0, 0), (4.3, 4.5, 1), (4.8, 7.0, 0), (7.5, 11.0, 1)]), None);
        assert_turns(&found.turns, &[(1.0, 4.0, 0), (4.3, 4.5, 1), (4.8, 7.0, 0), (7.5, 11.0, 1)]);
    }

    #[test]
    fn a_speaker_who_returns_after_an_hour_keeps_the_label_in_constant_memory() {
        let mut spoken = Vec::new();
        for minute in 0..62 {
            let start = f64::from(minute) * 60.0;
            let speaker = if minute == 0 || minute == 61 { 2 } else { minute as usize % 2 };
            spoken.extend(
                (0..10).map(|turn| (start + 6.0 * f64::from(turn), start + 6.0 * f64::from(turn) + 5.0, speaker)),
            );
        }
        let samples = synthetic(62.0 * 60.0, &spoken);
        let mut networks = PerfectNetworks::default();
        let mut diarizer = Diarizer::new(&mut networks);
        let mut max_buffered = 0;
        for samples in samples.chunks(160_000) {
            diarizer.push(samples);
            max_buffered = max_buffered.max(diarizer.samples.len());
        }
        assert!(max_buffered < 240 * SAMPLE_RATE, "{} s of audio were buffered", max_buffered / SAMPLE_RATE);
        let found = diarizer.finish(None);
        assert_eq!(found.centroids.len(), 3);
        let last = found.turns.last().unwrap();
        assert_eq!((last.speaker, found.turns[0].speaker), (0, 0));
        assert_eq!(found.turns.len(), 620);
        assert!(networks.windows <= 62 * 60 / 4 && networks.max_batch == BATCH);
    }

    #[test]
    fn a_given_number_of_speakers_is_respected() {
        let samples = synthetic(30.0, &[(0.5, 9.0, 0), (10.0, 19.0, 1), (20.0, 29.0, 2)]);
        for speakers in 1..=3 {
            assert_eq!(diarize(&samples, Some(speakers)).centroids.len(), speakers);
        }
    }

    #[test]
    fn silence_and_empty_recordings_have_no_speakers() {
        assert_eq!(diarize(&synthetic(25.0, &[]), None), Diarization::default());
        assert_eq!(diarize(&[], Some(2)), Diarization::default());
        assert_eq!(diarize(&synthetic(0.01, &[]), None), Diarization::default());
    }

    #[test]
    fn recordings_of_any_length_are_processed_to_the_end() {
        for seconds in [1.0, 4.9, 5.0, 9.99, 10.0, 10.01, 14.995, 15.1, 169.9, 170.0, 331.0] {
            let found = diarize(&synthetic(seconds, &[(0.0, seconds, 0)]), None);
            assert_turns(&found.turns, &[(0.0, seconds, 0)]);
            assert!(found.turns[0].end <= seconds);
        }
    }

    #[test]
    fn live_and_offline_diarization_agree() {
        let spoken: Vec<(f64, f64, usize)> =
            (0..20).map(|turn| (3.0 * f64::from(turn), 3.0 * f64::from(turn) + 2.5, turn as usize % 2)).collect();
        let audio = synthetic(60.0, &spoken);
        let mut diarizer = Diarizer::live(PerfectNetworks::default());
        audio.chunks(1_600).for_each(|samples| diarizer.push(samples));
        let found = diarizer.finish(None);
        assert_eq!((found.turns.len(), found.centroids.len()), (20, 2));
        assert_eq!(found, diarize(&audio, None));
    }
}
