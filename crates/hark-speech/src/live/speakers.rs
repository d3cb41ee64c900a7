//! Who says a live text: asked of a thread that hears the same sound.
//!
//! The ten seconds up to a text's end are segmented when it is told, and the voice that says it is compared, with all it
//! says alone in them, with the voices known so far. Beside that the whole session is listened to as a file would be, and
//! told once at the end.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};

use hark_media::SAMPLE_RATE;
use hark_speakers::cluster::{Cluster, Embedding, centred, dot, l2_normalized};
use hark_speakers::{
    Diarization, Diarizer, EMBEDDING_WIDTH, FRAME_STEP, Networks, POWERSET, WINDOW_SAMPLES, frame_middle,
};
use hark_transcript::{Segment, Word};

use crate::SpeechError;
use crate::speakers::label;
use crate::voices::Voices;

/// Sound that is compared at a time, as in files; shorter sound is repeated up to that.
const PIECE: usize = SAMPLE_RATE as usize * 3 / 2;
/// Pieces of a voice that are listened to for one text: six seconds say enough.
const MOST_PIECES: usize = 4;
/// Under this the sound of a voice says nothing…
const LEAST: usize = SAMPLE_RATE as usize * 3 / 10;
/// …and from this on it says much: the cosines that are asked for to be a known voice, below and above.
const MUCH: usize = SAMPLE_RATE as usize * 2;
const SAME: (f32, f32) = (0.25, 0.40);
/// Sound behind a text that helps to hear who said it; most of it is there when a text is told, and none is waited for.
const BEHIND: u64 = SAMPLE_RATE as u64 * 3 / 2;
/// Sound that is kept to be asked about: texts come a few seconds late, more when the machine lags.
const KEPT: usize = SAMPLE_RATE as usize * 120;

/// The thread that hears the voices of a live session.
pub(super) struct LiveSpeakers {
    sender: Sender<Message>,
    answers: Receiver<Answer>,
}

enum Message {
    Sound(Vec<f32>),
    /// Who speaks between two samples of the session?
    Who(u64, u64),
    /// That was all.
    Finish,
}

/// What the thread says.
pub(super) enum Answer {
    /// Who says the text that was asked about, texts in order.
    Speaker(Option<usize>),
    /// Who spoke when, in the whole session.
    Whole(Diarization),
    /// It failed: texts go on without speakers.
    Gone,
}

impl LiveSpeakers {
    /// Starts to listen; calls `wake` when there is an answer.
    pub(super) fn start(voices: &Voices, wake: Arc<dyn Fn() + Send + Sync>) -> Result<Self, SpeechError> {
        let (sender, messages) = channel();
        let (answer, answers) = channel();
        let voices = voices.clone();
        std::thread::Builder::new()
            .name("live voices".into())
            .spawn(move || {
                // However it ends, whoever waits must look.
                let _bell = Bell(Arc::clone(&wake));
                listen(voices, &messages, &|told| {
                    let _ = answer.send(told);
                    wake();
                });
            })
            .map_err(|_| SpeechError::EngineStopped)?;
        Ok(LiveSpeakers { sender, answers })
    }

    pub(super) fn push(&self, samples: &[f32]) {
        let _ = self.sender.send(Message::Sound(samples.to_vec()));
    }

    /// Asks who speaks between two samples; the answer comes in the order of the questions.
    pub(super) fn ask(&self, start: u64, end: u64) {
        let _ = self.sender.send(Message::Who(start, end));
    }

    /// No more sound will come.
    pub(super) fn finish(&self) {
        let _ = self.sender.send(Message::Finish);
    }

    /// The next answer, if one is there.
    pub(super) fn answer(&self) -> Option<Answer> {
        match self.answers.try_recv() {
            Ok(answer) => Some(answer),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Answer::Gone),
        }
    }
}

struct Bell(Arc<dyn Fn() + Send + Sync>);

impl Drop for Bell {
    fn drop(&mut self) {
        (self.0)();
    }
}

fn listen(mut voices: Voices, messages: &Receiver<Message>, tell: &dyn Fn(Answer)) {
    let mut whole = Diarizer::live(voices.clone());
    let mut known = Known::default();
    let (mut sound, mut first) = (Vec::new(), 0u64);
    for message in messages {
        match message {
            Message::Sound(samples) => {
                whole.push(&samples);
                sound.extend(samples);
                let gone = sound.len().saturating_sub(KEPT);
                // Not for every message: what is left must be moved.
                if gone > KEPT / 4 {
                    sound.drain(..gone);
                    first += gone as u64;
                }
            }
            Message::Who(start, end) => {
                let place = |sample: u64| (sample.saturating_sub(first) as usize).min(sound.len());
                let until = place(end + BEHIND);
                let from = until.saturating_sub(WINDOW_SAMPLES);
                let text = place(start).max(from) - from..place(end).max(from) - from;
                tell(Answer::Speaker(known.speaker(&mut voices, &sound[from..until], text)));
            }
            Message::Finish => return tell(Answer::Whole(whole.finish(None))),
        }
    }
}

/// The voices known so far.
#[derive(Default)]
struct Known {
    voices: Vec<Cluster>,
    last: Option<usize>,
}

/// One of the voices that a window tells apart.
struct Local {
    /// Frames of the text in which it speaks.
    of_text: usize,
    /// What it says alone, at most the last six seconds.
    sound: Vec<f32>,
}

impl Known {
    /// Who says the `text` in a window of sound; the last speaker where nothing can be told.
    fn speaker(&mut self, networks: &mut impl Networks, window: &[f32], text: Range<usize>) -> Option<usize> {
        let locals = locals(networks, window, &text);
        let wanted =
            (0..locals.len()).filter(|&local| locals[local].of_text > 0).max_by_key(|&local| locals[local].of_text)?;
        let heard: Vec<usize> = (0..locals.len()).filter(|&local| locals[local].sound.len() >= LEAST).collect();
        let mut order = heard.clone();
        // Who is heard best is known best; two voices of one window are two people.
        order.sort_by_key(|&local| std::cmp::Reverse(locals[local].sound.len()));
        let mut taken: Vec<(usize, usize)> = Vec::new();
        for local in order {
            let vector = vector(networks, &locals[local].sound);
            let free = |voice: &(usize, f32)| taken.iter().all(|&(_, other)| other != voice.0);
            let cosines = self.voices.iter().map(|voice| dot(&vector, &voice.centroid())).enumerate();
            let best = cosines.filter(free).max_by(|a, b| a.1.total_cmp(&b.1));
            let least = if locals[local].sound.len() >= MUCH { SAME.1 } else { SAME.0 };
            let seconds = locals[local].sound.len() as f32 / SAMPLE_RATE as f32;
            match best.filter(|best| best.1 >= least) {
                Some((voice, _)) => {
                    self.voices[voice].merge(&Cluster::new(&vector, seconds));
                    taken.push((local, voice));
                }
                // A new voice must say the text: others get their turn when they say one.
                None if local == wanted => {
                    self.voices.push(Cluster::new(&vector, seconds));
                    taken.push((local, self.voices.len() - 1));
                }
                None => {}
            }
        }
        let speaker = taken.iter().find(|&&(local, _)| local == wanted).map(|&(_, voice)| voice);
        self.last = speaker.or(self.last);
        self.last
    }
}

/// The voices of a window.
fn locals(networks: &mut impl Networks, window: &[f32], text: &Range<usize>) -> Vec<Local> {
    let scores = networks.segment(&[window]).pop().unwrap_or_default();
    let mut locals: Vec<Local> = (0..3).map(|_| Local { of_text: 0, sound: Vec::new() }).collect();
    for (frame, scores) in scores.iter().enumerate().rev() {
        let first = frame_middle(frame).saturating_sub(FRAME_STEP / 2);
        let Some(sound) = window.get(first..(first + FRAME_STEP).min(window.len())).filter(|sound| !sound.is_empty())
        else {
            continue;
        };
        let class = (0..scores.len()).max_by(|&a, &b| scores[a].total_cmp(&scores[b])).unwrap_or(0);
        for &voice in POWERSET[class] {
            locals[voice].of_text += usize::from(text.contains(&first));
        }
        if let &[voice] = POWERSET[class] {
            // Backwards for now: the sound is turned round when all of it is there.
            locals[voice].sound.extend(sound.iter().rev());
        }
    }
    for local in &mut locals {
        local.sound.truncate(MOST_PIECES * PIECE);
        local.sound.reverse();
    }
    locals
}

/// What a voice sounds like.
fn vector(networks: &mut impl Networks, sound: &[f32]) -> Embedding {
    let pieces: Vec<Vec<f32>> =
        sound.rchunks(PIECE).map(|piece| piece.iter().copied().cycle().take(PIECE).collect()).collect();
    let weights = sound.rchunks(PIECE).map(|piece| piece.len() as f32);
    let pieces: Vec<&[f32]> = pieces.iter().map(Vec::as_slice).collect();
    let mut sum: Embedding = [0.0; EMBEDDING_WIDTH];
    for (vector, weight) in networks.embed(&pieces).iter().map(centred).zip(weights) {
        sum.iter_mut().zip(vector).for_each(|(sum, number)| *sum += number * weight);
    }
    l2_normalized(&sum)
}

/// Gives the speakers of the whole session the labels under which most of their words were told live; `told` is each word's live label.
pub(super) fn relabel(segments: &mut [Segment], told: &[Option<usize>]) {
    let words = |segment: &Segment| segment.words.iter().map(|_: &Word| segment.speaker.clone()).collect::<Vec<_>>();
    let mut counts: BTreeMap<(String, usize), usize> = BTreeMap::new();
    for (now, live) in segments.iter().flat_map(words).zip(told) {
        if let (Some(now), Some(live)) = (now, *live) {
            *counts.entry((now, live)).or_default() += 1;
        }
    }
    let mut counts: Vec<((String, usize), usize)> = counts.into_iter().collect();
    counts.sort_by_key(|&(_, words)| std::cmp::Reverse(words));
    let mut labels: BTreeMap<String, usize> = BTreeMap::new();
    for ((now, live), _) in counts {
        if !labels.contains_key(&now) && !labels.values().any(|&taken| taken == live) {
            labels.insert(now, live);
        }
    }
    for segment in segments {
        for speaker in segment.speaker.iter_mut().chain(&mut segment.overlapping_speakers) {
            let number = labels.get(speaker).copied().unwrap_or_else(|| {
                let free = (0..).find(|number| labels.values().all(|taken| taken != number)).unwrap_or_default();
                labels.insert(speaker.clone(), free);
                free
            });
            *speaker = label(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(speaker: &str, words: usize) -> Segment {
        Segment { speaker: Some(speaker.into()), words: vec![Word::default(); words], ..Segment::default() }
    }

    #[test]
    fn labels_that_were_told_stay_with_their_voices() {
        // Live, the second voice was first taken for the first, and a third was told that is none.
        let mut segments =
            vec![said("SPEAKER_00", 2), said("SPEAKER_01", 5), said("SPEAKER_00", 1), said("SPEAKER_02", 1)];
        relabel(&mut segments, &[Some(0), Some(0), Some(0), Some(1), Some(1), Some(1), Some(1), Some(2), Some(1)]);
        let labels: Vec<&str> = segments.iter().filter_map(|segment| segment.speaker.as_deref()).collect();
        assert_eq!(labels, ["SPEAKER_00", "SPEAKER_01", "SPEAKER_00", "SPEAKER_02"]);

        let mut segments = vec![said("SPEAKER_00", 3), said("SPEAKER_01", 4)];
        relabel(&mut segments, &[Some(1), Some(1), Some(1), Some(0), Some(0), Some(0), Some(0)]);
        let labels: Vec<&str> = segments.iter().filter_map(|segment| segment.speaker.as_deref()).collect();
        assert_eq!(labels, ["SPEAKER_01", "SPEAKER_00"]);
    }
}
