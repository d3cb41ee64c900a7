//! Speaker labels of live texts, computed in a thread that receives the same audio.
//!
//! When a text is final, the ten seconds up to its end are segmented, and the embedding of its local speaker's speech without
//! overlap is compared with the clusters so far. In addition the whole session is diarized as a file would be, with the
//! result at the end.

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
use crate::diarization::Voices;
use crate::speakers::label;

/// Samples of an embedded piece, as in files; a shorter one is repeated up to that.
const PIECE_SAMPLES: usize = SAMPLE_RATE as usize * 3 / 2;
/// Maximum pieces embedded for one text: six seconds are enough.
const MAX_PIECES: usize = 4;
/// Minimum samples to embed a local speaker.
const MIN_SAMPLES: usize = SAMPLE_RATE as usize * 3 / 10;
/// From this many samples on an embedding is reliable…
const RELIABLE_SAMPLES: usize = SAMPLE_RATE as usize * 2;
/// …and the cosine similarity needed to join a known cluster: below that many samples, and from there on.
const JOIN_SIMILARITY: (f32, f32) = (0.25, 0.40);
/// Samples after a text that are included in its window; most have arrived when a text is final, and none are waited for.
const LOOKAHEAD: u64 = SAMPLE_RATE as u64 * 3 / 2;
/// Samples that are buffered: texts are a few seconds late, more on a slow machine.
const BUFFERED: usize = SAMPLE_RATE as usize * 120;

/// The diarization thread of a live session.
pub(super) struct LiveSpeakers {
    sender: Sender<Message>,
    answers: Receiver<Answer>,
}

enum Message {
    Audio(Vec<f32>),
    /// A request for the speaker of a range of the session's samples.
    Identify(Range<u64>),
    /// The end of the audio.
    Finish,
}

/// An answer of the thread.
pub(super) enum Answer {
    /// The speaker of a requested text, in order of the requests.
    Speaker(Option<usize>),
    /// The diarization of the whole session.
    Session(Diarization),
    /// The thread failed: texts continue without speakers.
    Failed,
}

impl LiveSpeakers {
    /// Starts the thread; it calls `wake` when there is an answer.
    pub(super) fn start(voices: &Voices, wake: Arc<dyn Fn() + Send + Sync>) -> Result<Self, SpeechError> {
        let (sender, messages) = channel();
        let (answer, answers) = channel();
        let voices = voices.clone();
        std::thread::Builder::new()
            .name("live diarizer".into())
            .spawn(move || {
                // Wake the session even if the thread panics.
                let _wake = WakeOnDrop(Arc::clone(&wake));
                run(voices, &messages, &|reply| {
                    let _ = answer.send(reply);
                    wake();
                });
            })
            .map_err(|_| SpeechError::EngineStopped)?;
        Ok(LiveSpeakers { sender, answers })
    }

    pub(super) fn push(&self, samples: &[f32]) {
        let _ = self.sender.send(Message::Audio(samples.to_vec()));
    }

    /// Requests the speaker of a range of samples; answers are in the order of the requests.
    pub(super) fn identify(&self, samples: Range<u64>) {
        let _ = self.sender.send(Message::Identify(samples));
    }

    /// Ends the audio.
    pub(super) fn finish(&self) {
        let _ = self.sender.send(Message::Finish);
    }

    /// The next answer, if any.
    pub(super) fn answer(&self) -> Option<Answer> {
        match self.answers.try_recv() {
            Ok(answer) => Some(answer),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Answer::Failed),
        }
    }
}

struct WakeOnDrop(Arc<dyn Fn() + Send + Sync>);

impl Drop for WakeOnDrop {
    fn drop(&mut self) {
        (self.0)();
    }
}

fn run(mut voices: Voices, messages: &Receiver<Message>, send: &dyn Fn(Answer)) {
    let mut session = Diarizer::live(voices.clone());
    let mut clusters = SpeakerClusters::default();
    // The buffered audio and the number of its first sample.
    let (mut audio, mut first) = (Vec::new(), 0u64);
    for message in messages {
        match message {
            Message::Audio(samples) => {
                session.push(&samples);
                audio.extend(samples);
                let excess = audio.len().saturating_sub(BUFFERED);
                // Not for every message, since the rest is moved.
                if excess > BUFFERED / 4 {
                    audio.drain(..excess);
                    first += excess as u64;
                }
            }
            Message::Identify(Range { start, end }) => {
                let offset = |sample: u64| (sample.saturating_sub(first) as usize).min(audio.len());
                let until = offset(end + LOOKAHEAD);
                let from = until.saturating_sub(WINDOW_SAMPLES);
                let text = offset(start).max(from) - from..offset(end).max(from) - from;
                send(Answer::Speaker(clusters.speaker(&mut voices, &audio[from..until], text)));
            }
            Message::Finish => return send(Answer::Session(session.finish(None))),
        }
    }
}

/// The speaker clusters so far.
#[derive(Default)]
struct SpeakerClusters {
    clusters: Vec<Cluster>,
    /// The speaker of the last text.
    last: Option<usize>,
}

/// A local speaker of a window.
struct LocalSpeaker {
    /// Frames of the text in which it is active.
    text_frames: usize,
    /// Its speech without overlap, at most the last six seconds.
    speech: Vec<f32>,
}

impl SpeakerClusters {
    /// The speaker of `text` in a window of audio; the last speaker if there is too little speech.
    fn speaker(&mut self, networks: &mut impl Networks, window: &[f32], text: Range<usize>) -> Option<usize> {
        let locals = local_speakers(networks, window, &text);
        let text_speaker = (0..locals.len())
            .filter(|&local| locals[local].text_frames > 0)
            .max_by_key(|&local| locals[local].text_frames)?;
        let mut order: Vec<usize> =
            (0..locals.len()).filter(|&local| locals[local].speech.len() >= MIN_SAMPLES).collect();
        // The longest speech first; two local speakers of one window never share a cluster.
        order.sort_by_key(|&local| std::cmp::Reverse(locals[local].speech.len()));
        // Local speakers and their clusters.
        let mut assigned: Vec<(usize, usize)> = Vec::new();
        for local in order {
            let speech = &locals[local].speech;
            let embedding = embed(networks, speech);
            let is_free = |candidate: &(usize, f32)| assigned.iter().all(|&(_, other)| other != candidate.0);
            let similarities = self.clusters.iter().map(|cluster| dot(&embedding, &cluster.centroid())).enumerate();
            let best = similarities.filter(is_free).max_by(|a, b| a.1.total_cmp(&b.1));
            let threshold = if speech.len() >= RELIABLE_SAMPLES { JOIN_SIMILARITY.1 } else { JOIN_SIMILARITY.0 };
            let seconds = speech.len() as f32 / SAMPLE_RATE as f32;
            match best.filter(|best| best.1 >= threshold) {
                Some((cluster, _)) => {
                    self.clusters[cluster].merge(&Cluster::new(&embedding, seconds));
                    assigned.push((local, cluster));
                }
                // Only the speaker of the text starts a new cluster.
                None if local == text_speaker => {
                    self.clusters.push(Cluster::new(&embedding, seconds));
                    assigned.push((local, self.clusters.len() - 1));
                }
                None => {}
            }
        }
        let speaker = assigned.iter().find(|&&(local, _)| local == text_speaker).map(|&(_, cluster)| cluster);
        self.last = speaker.or(self.last);
        self.last
    }
}

/// The local speakers of a window.
fn local_speakers(networks: &mut impl Networks, window: &[f32], text: &Range<usize>) -> Vec<LocalSpeaker> {
    let scores = networks.segment(&[window]).pop().unwrap_or_default();
    let mut locals: Vec<LocalSpeaker> = (0..3).map(|_| LocalSpeaker { text_frames: 0, speech: Vec::new() }).collect();
    for (frame, scores) in scores.iter().enumerate().rev() {
        let first = frame_middle(frame).saturating_sub(FRAME_STEP / 2);
        let samples = window.get(first..(first + FRAME_STEP).min(window.len()));
        let Some(samples) = samples.filter(|samples| !samples.is_empty()) else { continue };
        let class = (0..scores.len()).max_by(|&a, &b| scores[a].total_cmp(&scores[b])).unwrap_or(0);
        for &local in POWERSET[class] {
            locals[local].text_frames += usize::from(text.contains(&first));
        }
        if let &[local] = POWERSET[class] {
            // Collected backwards, and reversed below.
            locals[local].speech.extend(samples.iter().rev());
        }
    }
    for local in &mut locals {
        local.speech.truncate(MAX_PIECES * PIECE_SAMPLES);
        local.speech.reverse();
    }
    locals
}

/// The embedding of a speaker's speech: the mean over its pieces, weighted by their length.
fn embed(networks: &mut impl Networks, speech: &[f32]) -> Embedding {
    let pieces = speech.rchunks(PIECE_SAMPLES);
    let weights = pieces.clone().map(|piece| piece.len() as f32);
    let pieces: Vec<Vec<f32>> =
        pieces.map(|piece| piece.iter().copied().cycle().take(PIECE_SAMPLES).collect()).collect();
    let pieces: Vec<&[f32]> = pieces.iter().map(Vec::as_slice).collect();
    let mut sum: Embedding = [0.0; EMBEDDING_WIDTH];
    for (embedding, weight) in networks.embed(&pieces).iter().map(centred).zip(weights) {
        sum.iter_mut().zip(embedding).for_each(|(sum, number)| *sum += number * weight);
    }
    l2_normalized(&sum)
}

/// Gives the speakers of the whole session the labels that most of their words had live; `live_labels` has each word's live label.
pub(super) fn relabel(segments: &mut [Segment], live_labels: &[Option<usize>]) {
    let words = |segment: &Segment| segment.words.iter().map(|_: &Word| segment.speaker.clone()).collect::<Vec<_>>();
    let mut counts: BTreeMap<(String, usize), usize> = BTreeMap::new();
    for (now, live) in segments.iter().flat_map(words).zip(live_labels) {
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

    fn segment(speaker: &str, words: usize) -> Segment {
        Segment { speaker: Some(speaker.into()), words: vec![Word::default(); words], ..Segment::default() }
    }

    #[test]
    fn speakers_keep_their_live_labels() {
        // Live, the second speaker was first labelled as the first, and a third label was wrong.
        let mut segments = vec![
            segment("SPEAKER_00", 2),
            segment("SPEAKER_01", 5),
            segment("SPEAKER_00", 1),
            segment("SPEAKER_02", 1),
        ];
        relabel(&mut segments, &[Some(0), Some(0), Some(0), Some(1), Some(1), Some(1), Some(1), Some(2), Some(1)]);
        let labels: Vec<&str> = segments.iter().filter_map(|segment| segment.speaker.as_deref()).collect();
        assert_eq!(labels, ["SPEAKER_00", "SPEAKER_01", "SPEAKER_00", "SPEAKER_02"]);

        let mut segments = vec![segment("SPEAKER_00", 3), segment("SPEAKER_01", 4)];
        relabel(&mut segments, &[Some(1), Some(1), Some(1), Some(0), Some(0), Some(0), Some(0)]);
        let labels: Vec<&str> = segments.iter().filter_map(|segment| segment.speaker.as_deref()).collect();
        assert_eq!(labels, ["SPEAKER_01", "SPEAKER_00"]);
    }
}
