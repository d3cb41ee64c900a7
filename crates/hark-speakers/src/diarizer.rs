//! The whole of it: sound comes in as a stream, who spoke when goes out.
//!
//! Of the sound only the last minutes are kept, however long the recording is: what stays is a byte a frame and an
//! embedding for every second of speech. Three hours of speech are 0.6 MB of frames and 8 MB of embeddings.

use crate::cluster::{self, Voice, centred, find_voices};
use crate::frames::{Frame, HOP, Stitcher};
use crate::pieces::{self, PIECE, Piece, Run, first_sample};
use crate::segmentation::{CLASSES, FRAME_STEP, Segmenter, WINDOW_SAMPLES};
use crate::turns::{Heard, Labels, Turn};
use crate::{Embedder, SAMPLE_RATE};

/// Samples from the start of one window to the start of the next.
const HOP_SAMPLES: usize = HOP * FRAME_STEP;
/// Windows segmented at once when nobody waits: the network runs them much quicker together. 160 s of sound.
const BATCH: usize = 32;
/// Frames without a pause after which speech is cut where it stands: 30 s.
const LONGEST_WAIT: usize = 30 * SAMPLE_RATE / FRAME_STEP;

/// The two networks that listen.
pub trait Networks {
    /// Log-probabilities of the classes in each frame of each window, as [`Segmenter::segment`] gives them.
    fn segment(&mut self, windows: &[&[f32]]) -> Vec<Vec<[f32; CLASSES]>>;

    /// A vector of length 1 for each piece, as [`Embedder::embed`] gives it.
    fn embed(&mut self, pieces: &[&[f32]]) -> Vec<Voice>;
}

impl Networks for (Segmenter, Embedder) {
    fn segment(&mut self, windows: &[&[f32]]) -> Vec<Vec<[f32; CLASSES]>> {
        self.0.segment(windows)
    }

    fn embed(&mut self, pieces: &[&[f32]]) -> Vec<Voice> {
        self.1.embed(pieces)
    }
}

impl<N: Networks> Networks for &mut N {
    fn segment(&mut self, windows: &[&[f32]]) -> Vec<Vec<[f32; CLASSES]>> {
        (**self).segment(windows)
    }

    fn embed(&mut self, pieces: &[&[f32]]) -> Vec<Voice> {
        (**self).embed(pieces)
    }
}

/// Who spoke when.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Diarization {
    /// Everybody's turns in order of time; they overlap where people do.
    pub turns: Vec<Turn>,
    /// Turns of which no two overlap, for text that can only be one speaker's.
    pub exclusive: Vec<Turn>,
    /// The spans in which two speak at once, in seconds.
    pub overlaps: Vec<(f64, f64)>,
    /// What each speaker sounds like: a vector of length 1, to compare with others by cosine after [`centred`].
    pub voices: Vec<Voice>,
}

/// Sound on its way to turns.
pub struct Diarizer<N> {
    networks: N,
    batch: usize,
    /// The sound that is still needed, and where it begins.
    samples: Vec<f32>,
    first: usize,
    /// Samples that have come in.
    total: usize,
    windows: usize,
    stitcher: Stitcher,
    frames: Vec<Frame>,
    /// The frame up to which speech has been cut into pieces.
    done: usize,
    speech: Vec<Run>,
    runs: Vec<Run>,
    pieces: Vec<Piece>,
    vectors: Vec<Voice>,
}

impl<N: Networks> Diarizer<N> {
    /// For a recording that comes as fast as it can be heard.
    pub fn new(networks: N) -> Self {
        Diarizer {
            networks,
            batch: BATCH,
            samples: Vec::new(),
            first: 0,
            total: 0,
            windows: 0,
            stitcher: Stitcher::default(),
            frames: Vec::new(),
            done: 0,
            speech: Vec::new(),
            runs: Vec::new(),
            pieces: Vec::new(),
            vectors: Vec::new(),
        }
    }

    /// For people who speak now: every window is heard as soon as it is full, so that the work never comes all at once.
    pub fn live(networks: N) -> Self {
        Diarizer { batch: 1, ..Diarizer::new(networks) }
    }

    /// Takes the next samples of the recording, 16 kHz, of whatever length.
    pub fn push(&mut self, samples: &[f32]) {
        self.samples.extend_from_slice(samples);
        self.total += samples.len();
        while self.total >= (self.windows + self.batch - 1) * HOP_SAMPLES + WINDOW_SAMPLES {
            self.listen(self.batch, false);
        }
    }

    /// Hears what is left and tells who spoke when; with `speakers` there are exactly so many, if they can be told apart.
    pub fn finish(mut self, speakers: Option<usize>) -> Diarization {
        // A last window that would hear nothing new is not heard: the ones before it reach the end.
        let beyond = self.total.saturating_sub(WINDOW_SAMPLES).div_ceil(HOP_SAMPLES) + 1;
        while self.total > 0 && self.windows < beyond {
            let count = self.batch.min(beyond - self.windows);
            self.listen(count, self.windows + count == beyond);
        }
        if self.total > 0 && self.windows == beyond && self.done < self.frames.len() {
            self.embed_speech(true);
        }
        self.label_segments(speakers)
    }

    /// Segments the next windows, and embeds the speech that they complete.
    fn listen(&mut self, count: usize, last: bool) {
        let windows: Vec<&[f32]> = (self.windows..self.windows + count)
            .map(|window| {
                let start = (window * HOP_SAMPLES - self.first).min(self.samples.len());
                &self.samples[start..(start + WINDOW_SAMPLES).min(self.samples.len())]
            })
            .collect();
        let scores = self.networks.segment(&windows);
        for (place, scores) in scores.iter().enumerate() {
            self.frames.extend(self.stitcher.push(scores, last && place + 1 == count));
        }
        self.windows += count;
        if last {
            let heard = (0..self.frames.len()).take_while(|&frame| first_sample(frame) < self.total).count();
            self.frames.truncate(heard);
        }
        self.embed_speech(last);
        let needed = (self.windows * HOP_SAMPLES).min(first_sample(self.done).saturating_sub(FRAME_STEP));
        let gone = needed.saturating_sub(self.first).min(self.samples.len());
        self.samples.drain(..gone);
        self.first += gone;
    }

    /// Cuts finished speech into pieces and embeds them. Speech that goes on waits for its end, unless it never ends.
    fn embed_speech(&mut self, last: bool) {
        let open = self.frames[self.done..].iter().rev().take_while(|frame| frame.speaking() > 0).count();
        let end = if last || open > LONGEST_WAIT { self.frames.len() } else { self.frames.len() - open };
        let known = self.pieces.len();
        for speech in pieces::speech(&self.frames[self.done..end], self.done) {
            for run in pieces::solos(&self.frames, speech) {
                self.pieces.extend(pieces::cut(&self.frames, self.runs.len(), run));
                self.runs.push(run);
            }
            self.speech.push(speech);
        }
        self.done = end;
        let cut: Vec<Vec<f32>> = self.pieces[known..].iter().map(|piece| self.sound(piece.span)).collect();
        let cut: Vec<&[f32]> = cut.iter().map(Vec::as_slice).collect();
        let vectors = self.networks.embed(&cut);
        self.vectors.extend(vectors.iter().map(centred));
    }

    /// The sound of a span of frames, repeated up to the length of a piece, so that all are of one length.
    fn sound(&self, span: Run) -> Vec<f32> {
        let place = |frame: usize| (first_sample(frame) - self.first.min(first_sample(frame))).min(self.samples.len());
        let sound = &self.samples[place(span.start)..place(span.end)];
        sound.iter().copied().cycle().take(if sound.is_empty() { 0 } else { PIECE * FRAME_STEP }).collect()
    }

    fn label_segments(self, speakers: Option<usize>) -> Diarization {
        let seconds = self.total as f64 / SAMPLE_RATE as f64;
        let pieces = self.pieces.iter().zip(&self.vectors);
        let heard: Vec<cluster::Heard> = pieces
            .map(|(piece, &vector)| cluster::Heard {
                vector,
                seconds: piece.seconds,
                clear: piece.clear,
                track: piece.track,
            })
            .collect();
        let voices = find_voices(&heard, speakers);
        drop(heard);
        let heard = Heard {
            frames: &self.frames,
            speech: &self.speech,
            runs: &self.runs,
            pieces: &self.pieces,
            vectors: &self.vectors,
        };
        let labels = Labels::new(&heard, &voices);
        let order = labels.appearances();
        Diarization {
            turns: labels.turns(&order, seconds),
            exclusive: labels.exclusive(&order, seconds),
            overlaps: labels.overlaps(seconds),
            voices: order.iter().map(|&voice| voices[voice]).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::tests::unit;
    use crate::cluster::unit_length;
    use crate::segmentation::{FRAMES_PER_WINDOW, POWERSET, frame_middle};

    /// Sound of people who hum one level each: speaker `n` adds 2ⁿ/64 to every sample.
    fn hum(seconds: f64, turns: &[(f64, f64, usize)]) -> Vec<f32> {
        let mut samples = vec![0.0; (seconds * SAMPLE_RATE as f64) as usize];
        for &(start, end, speaker) in turns {
            let span = (start * SAMPLE_RATE as f64) as usize..(end * SAMPLE_RATE as f64) as usize;
            samples[span].iter_mut().for_each(|sample| *sample += (1 << speaker) as f32 / 64.0);
        }
        samples
    }

    /// Networks that hear such sound perfectly, and count what they were given.
    #[derive(Default)]
    struct Perfect {
        windows: usize,
        most_windows: usize,
        pieces: usize,
    }

    impl Networks for Perfect {
        fn segment(&mut self, windows: &[&[f32]]) -> Vec<Vec<[f32; CLASSES]>> {
            self.windows += windows.len();
            self.most_windows = self.most_windows.max(windows.len());
            windows.iter().map(|window| perfect_window(window)).collect()
        }

        fn embed(&mut self, pieces: &[&[f32]]) -> Vec<Voice> {
            self.pieces += pieces.len();
            let embed = |piece: &&[f32]| {
                assert_eq!(piece.len(), PIECE * FRAME_STEP, "all pieces are of one length");
                let mut sum = [0.0; crate::EMBEDDING_WIDTH];
                for speaker in 0..6 {
                    let heard = piece.iter().filter(|&&sample| (sample * 64.0) as usize >> speaker & 1 == 1).count();
                    let share = heard as f32 / piece.len() as f32;
                    sum.iter_mut().zip(unit(speaker)).for_each(|(sum, value)| *sum += share * value);
                }
                unit_length(&sum)
            };
            pieces.iter().map(embed).collect()
        }
    }

    /// Speakers get the window's voices in the order in which they come in, as the network does it.
    fn perfect_window(window: &[f32]) -> Vec<[f32; CLASSES]> {
        let mut known: Vec<usize> = Vec::new();
        (0..FRAMES_PER_WINDOW)
            .map(|frame| {
                let level = window.get(frame_middle(frame)).map_or(0, |sample| (sample * 64.0) as usize);
                let speaking: Vec<usize> = (0..6).filter(|speaker| level >> speaker & 1 == 1).collect();
                for speaker in &speaking {
                    if !known.contains(speaker) && known.len() < 3 {
                        known.push(*speaker);
                    }
                }
                let mut voices: Vec<usize> =
                    speaking.iter().filter_map(|speaker| known.iter().position(|other| other == speaker)).collect();
                voices.sort_unstable();
                let class = POWERSET.iter().position(|class| *class == voices).unwrap_or(0);
                std::array::from_fn(|other| if other == class { -0.01 } else { -9.0 })
            })
            .collect()
    }

    fn diarize(samples: &[f32], speakers: Option<usize>) -> Diarization {
        let mut diarizer = Diarizer::new(Perfect::default());
        // Pieces of an odd length, as a decoder gives them.
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
    fn turns_come_out_as_they_went_in_numbered_by_first_appearance() {
        let said = [(0.5, 4.0, 3), (4.5, 9.0, 1), (9.0, 14.0, 3), (15.0, 23.0, 0), (23.5, 31.0, 1)];
        let told = diarize(&hum(33.0, &said), None);
        let expected = [(0.5, 4.0, 0), (4.5, 9.0, 1), (9.0, 14.0, 0), (15.0, 23.0, 2), (23.5, 31.0, 1)];
        assert_turns(&told.turns, &expected);
        assert_turns(&told.exclusive, &expected);
        assert_eq!((told.overlaps.len(), told.voices.len()), (0, 3));
        assert!(cluster::dot(&told.voices[0], &centred(&unit(3))) > 0.99);
    }

    #[test]
    fn where_two_speak_both_have_a_turn_and_the_text_has_one() {
        let told = diarize(&hum(20.0, &[(1.0, 8.0, 0), (6.5, 13.0, 1), (14.0, 18.0, 0)]), None);
        assert_turns(&told.turns, &[(1.0, 8.0, 0), (6.5, 13.0, 1), (14.0, 18.0, 0)]);
        assert_turns(&told.exclusive, &[(1.0, 8.0, 0), (8.0, 13.0, 1), (14.0, 18.0, 0)]);
        assert_eq!(told.overlaps.len(), 1);
        assert!((told.overlaps[0].0 - 6.5).abs() < 0.05 && (told.overlaps[0].1 - 8.0).abs() < 0.05);
    }

    #[test]
    fn a_word_too_short_to_embed_belongs_to_the_voice_that_segmentation_hears() {
        // 0.2 s of speaker 1 between two turns of speaker 0, beside a longer turn of speaker 1.
        let told = diarize(&hum(14.0, &[(1.0, 4.0, 0), (4.3, 4.5, 1), (4.8, 7.0, 0), (7.5, 11.0, 1)]), None);
        assert_turns(&told.turns, &[(1.0, 4.0, 0), (4.3, 4.5, 1), (4.8, 7.0, 0), (7.5, 11.0, 1)]);
    }

    #[test]
    fn a_voice_that_returns_after_an_hour_keeps_its_label_in_flat_memory() {
        let mut said = Vec::new();
        for minute in 0..62 {
            let start = f64::from(minute) * 60.0;
            let speaker = if minute == 0 || minute == 61 { 2 } else { minute as usize % 2 };
            said.extend(
                (0..10).map(|turn| (start + 6.0 * f64::from(turn), start + 6.0 * f64::from(turn) + 5.0, speaker)),
            );
        }
        let samples = hum(62.0 * 60.0, &said);
        let mut networks = Perfect::default();
        let mut diarizer = Diarizer::new(&mut networks);
        let mut most = 0;
        for samples in samples.chunks(160_000) {
            diarizer.push(samples);
            most = most.max(diarizer.samples.len());
        }
        assert!(most < 240 * SAMPLE_RATE, "{} s of sound were kept", most / SAMPLE_RATE);
        let told = diarizer.finish(None);
        assert_eq!(told.voices.len(), 3);
        let last = told.turns.last().unwrap();
        assert_eq!((last.speaker, told.turns[0].speaker), (0, 0));
        assert_eq!(told.turns.len(), 620);
        assert!(networks.windows <= 62 * 60 / 4 && networks.most_windows == BATCH);
    }

    #[test]
    fn the_number_of_speakers_given_is_kept_to() {
        let samples = hum(30.0, &[(0.5, 9.0, 0), (10.0, 19.0, 1), (20.0, 29.0, 2)]);
        for speakers in 1..=3 {
            assert_eq!(diarize(&samples, Some(speakers)).voices.len(), speakers);
        }
    }

    #[test]
    fn silence_and_nothing_are_nobody() {
        assert_eq!(diarize(&hum(25.0, &[]), None), Diarization::default());
        assert_eq!(diarize(&[], Some(2)), Diarization::default());
        assert_eq!(diarize(&hum(0.01, &[]), None), Diarization::default());
    }

    #[test]
    fn every_length_of_recording_is_heard_to_its_end() {
        for seconds in [1.0, 4.9, 5.0, 9.99, 10.0, 10.01, 14.995, 15.1, 169.9, 170.0, 331.0] {
            let told = diarize(&hum(seconds, &[(0.0, seconds, 0)]), None);
            assert_turns(&told.turns, &[(0.0, seconds, 0)]);
            assert!(told.turns[0].end <= seconds);
        }
    }

    #[test]
    fn windows_heard_one_by_one_tell_the_same() {
        let said: Vec<(f64, f64, usize)> =
            (0..20).map(|turn| (3.0 * f64::from(turn), 3.0 * f64::from(turn) + 2.5, turn as usize % 2)).collect();
        let sound = hum(60.0, &said);
        let mut diarizer = Diarizer::live(Perfect::default());
        sound.chunks(1_600).for_each(|samples| diarizer.push(samples));
        let told = diarizer.finish(None);
        assert_eq!((told.turns.len(), told.voices.len()), (20, 2));
        assert_eq!(told, diarize(&sound, None));
    }
}
