//! Hearing who speaks, beside the words: the same samples go to a thread of their own.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use hark_speakers::cluster::Embedding;
use hark_speakers::{CLASSES, Compute, Diarization, Diarizer, Embedder, Networks, Segmenter};

use crate::SpeechError;

/// Whether to tell speakers apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Speakers {
    /// No.
    #[default]
    Off,
    /// Yes, and find out how many there are.
    Auto,
    /// Yes, and there are so many.
    Exactly(usize),
}

/// The networks that tell voices apart, loaded once; clones share them.
#[derive(Clone)]
pub struct Voices(Arc<Mutex<(Segmenter, Embedder)>>);

impl Voices {
    /// Loads both networks from their folders, to run on threads and kernels that other models share.
    pub fn load(segmentation: &Path, embedding: &Path, compute: &Compute) -> Result<Self, SpeechError> {
        let networks = (Segmenter::load(segmentation, compute)?, Embedder::load(embedding, compute)?);
        Ok(Voices(Arc::new(Mutex::new(networks))))
    }

    fn with<T>(&self, work: impl FnOnce(&mut (Segmenter, Embedder)) -> T) -> T {
        // What a panic leaves behind are buffers that the next call overwrites.
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Recordings take turns, a batch at a time.
impl Networks for Voices {
    fn segment(&mut self, windows: &[&[f32]]) -> Vec<Vec<[f32; CLASSES]>> {
        self.with(|networks| networks.segment(windows))
    }

    fn embed(&mut self, pieces: &[&[f32]]) -> Vec<Embedding> {
        self.with(|networks| networks.embed(pieces))
    }
}

/// Blocks of sound that may wait for the listener: a bound on memory, and no more than the words are ahead anyway.
const MOST_WAITING: usize = 64;

/// A thread that hears the voices of one recording.
pub(crate) struct Listener {
    sender: SyncSender<Vec<f32>>,
    unwanted: Arc<AtomicBool>,
    thread: JoinHandle<Option<Diarization>>,
}

impl Listener {
    /// Starts to listen; none when nobody is to be told apart.
    pub(crate) fn start(voices: Option<&Voices>, speakers: Speakers) -> Result<Option<Self>, SpeechError> {
        let wanted = match speakers {
            Speakers::Off => return Ok(None),
            Speakers::Auto => None,
            Speakers::Exactly(count) => Some(count.max(1)),
        };
        let voices = voices.ok_or(SpeechError::NoVoices)?.clone();
        let (sender, receiver) = sync_channel(MOST_WAITING);
        let unwanted = Arc::new(AtomicBool::new(false));
        let called_off = Arc::clone(&unwanted);
        let thread = std::thread::Builder::new()
            .name("voices".into())
            .spawn(move || listen(voices, receiver, &called_off, wanted))
            .map_err(|_| SpeechError::EngineStopped)?;
        Ok(Some(Listener { sender, unwanted, thread }))
    }

    /// Hands over the next samples.
    pub(crate) fn push(&self, samples: &[f32]) {
        // One that has stopped says so at the end.
        let _ = self.sender.send(samples.to_vec());
    }

    /// Who spoke when; none where listening failed, which costs the words nothing.
    pub(crate) fn finish(self) -> Option<Diarization> {
        drop(self.sender);
        self.thread.join().ok().flatten()
    }

    /// Nobody waits for it any more.
    pub(crate) fn give_up(self) {
        self.unwanted.store(true, Ordering::Relaxed);
    }
}

fn listen(
    voices: Voices,
    receiver: Receiver<Vec<f32>>,
    unwanted: &AtomicBool,
    wanted: Option<usize>,
) -> Option<Diarization> {
    let mut diarizer = Diarizer::new(voices);
    for samples in receiver {
        if unwanted.load(Ordering::Relaxed) {
            return None;
        }
        diarizer.push(&samples);
    }
    (!unwanted.load(Ordering::Relaxed)).then(|| diarizer.finish(wanted))
}
