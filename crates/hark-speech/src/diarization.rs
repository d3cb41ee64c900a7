//! Diarization in parallel with transcription: a thread receives the same samples.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use hark_speakers::cluster::Embedding;
use hark_speakers::{CLASSES, Compute, Diarization, Diarizer, Embedder, Networks, Segmenter};

use crate::SpeechError;

/// Whether to diarize.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Speakers {
    /// No.
    #[default]
    Off,
    /// Yes; the number of speakers is estimated.
    Auto,
    /// Yes, with this number of speakers.
    Exactly(usize),
}

/// The diarization networks, loaded once; clones share them.
#[derive(Clone)]
pub struct Voices(Arc<Mutex<(Segmenter, Embedder)>>);

impl Voices {
    /// Loads both networks from their folders, to run on threads and kernels that other models share.
    pub fn load(segmentation: &Path, embedding: &Path, compute: &Compute) -> Result<Self, SpeechError> {
        let networks = (Segmenter::load(segmentation, compute)?, Embedder::load(embedding, compute)?);
        Ok(Voices(Arc::new(Mutex::new(networks))))
    }

    fn with<T>(&self, work: impl FnOnce(&mut (Segmenter, Embedder)) -> T) -> T {
        // After a panic only buffers are in an unknown state, and the next call overwrites them.
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Recordings share the networks; the lock is held for one batch at a time.
impl Networks for Voices {
    fn segment(&mut self, windows: &[&[f32]]) -> Vec<Vec<[f32; CLASSES]>> {
        self.with(|networks| networks.segment(windows))
    }

    fn embed(&mut self, pieces: &[&[f32]]) -> Vec<Embedding> {
        self.with(|networks| networks.embed(pieces))
    }
}

/// Maximum blocks of audio queued for the thread, which bounds memory.
const MAX_QUEUED: usize = 64;

/// The diarization thread of one recording.
pub(crate) struct DiarizationThread {
    sender: SyncSender<Vec<f32>>,
    cancelled: Arc<AtomicBool>,
    thread: JoinHandle<Option<Diarization>>,
}

impl DiarizationThread {
    /// Starts the thread; `None` without diarization.
    pub(crate) fn start(voices: Option<&Voices>, speakers: Speakers) -> Result<Option<Self>, SpeechError> {
        let wanted = match speakers {
            Speakers::Off => return Ok(None),
            Speakers::Auto => None,
            Speakers::Exactly(count) => Some(count.max(1)),
        };
        let voices = voices.ok_or(SpeechError::NoVoices)?.clone();
        let (sender, receiver) = sync_channel(MAX_QUEUED);
        let cancelled = Arc::new(AtomicBool::new(false));
        let is_cancelled = Arc::clone(&cancelled);
        let thread = std::thread::Builder::new()
            .name("diarization".into())
            .spawn(move || run(voices, receiver, &is_cancelled, wanted))
            .map_err(|_| SpeechError::EngineStopped)?;
        Ok(Some(DiarizationThread { sender, cancelled, thread }))
    }

    /// Sends the next samples.
    pub(crate) fn push(&self, samples: &[f32]) {
        // A stopped thread is noticed in `finish`.
        let _ = self.sender.send(samples.to_vec());
    }

    /// The diarization; `None` if it failed, which does not affect the words.
    pub(crate) fn finish(self) -> Option<Diarization> {
        drop(self.sender);
        self.thread.join().ok().flatten()
    }

    /// Cancels it.
    pub(crate) fn cancel(self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }
}

fn run(
    voices: Voices,
    receiver: Receiver<Vec<f32>>,
    cancelled: &AtomicBool,
    wanted: Option<usize>,
) -> Option<Diarization> {
    let mut diarizer = Diarizer::new(voices);
    for samples in receiver {
        if cancelled.load(Ordering::Relaxed) {
            return None;
        }
        diarizer.push(&samples);
    }
    (!cancelled.load(Ordering::Relaxed)).then(|| diarizer.finish(wanted))
}
