//! Word times, computed on threads of their own while the engine continues to decode.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use hark_whisper::backend::BackendError;
use hark_whisper::decode::Outcome;
use hark_whisper::tokenizer::Tokenizer;

use super::{Reply, panic_message};

/// Texts that may be queued for word timing; the engine waits when there are more.
const MAX_UNTIMED: usize = 32;

/// Cores for each thread: a GPU decodes hundreds of texts a second, each of which takes a millisecond here.
const CORES_OF_A_THREAD: usize = 4;
/// Most threads.
const MAX_THREADS: usize = 8;

/// Threads that compute word times.
pub(super) struct WordTiming {
    tokenizer: Arc<Tokenizer>,
    texts: Option<SyncSender<(Reply, usize, Outcome)>>,
    threads: Vec<JoinHandle<()>>,
}

impl WordTiming {
    pub(super) fn start(tokenizer: Arc<Tokenizer>) -> Self {
        let (texts, receiver) = sync_channel(MAX_UNTIMED);
        let receiver = Arc::new(Mutex::new(receiver));
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let start = |_| {
            let (receiver, tokenizer) = (Arc::clone(&receiver), Arc::clone(&tokenizer));
            let thread = std::thread::Builder::new().name("hark-words".to_owned());
            thread.spawn(move || time_words(&receiver, &tokenizer)).ok()
        };
        let threads: Vec<_> = (0..(cores / CORES_OF_A_THREAD).clamp(1, MAX_THREADS)).filter_map(start).collect();
        // Without a thread of their own, words are timed on the engine's.
        WordTiming { tokenizer, texts: Some(texts).filter(|_| !threads.is_empty()), threads }
    }

    pub(super) fn reply(&self, reply: Reply, tag: usize, outcome: Outcome) {
        match (&self.texts, outcome) {
            (Some(texts), outcome @ Outcome::Untimed(_)) => {
                if let Err(lost) = texts.send((reply, tag, outcome)) {
                    let (reply, tag, _) = lost.0;
                    reply(tag, Err(BackendError::Fault("the times of words can't be computed".to_owned())));
                }
            }
            (_, outcome) => reply(tag, Ok(outcome.timed(&self.tokenizer))),
        }
    }
}

impl Drop for WordTiming {
    fn drop(&mut self) {
        self.texts = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Takes the next text while the engine has not ended.
fn next(texts: &Mutex<Receiver<(Reply, usize, Outcome)>>) -> Option<(Reply, usize, Outcome)> {
    texts.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}

fn time_words(texts: &Mutex<Receiver<(Reply, usize, Outcome)>>, tokenizer: &Tokenizer) {
    while let Some((reply, tag, outcome)) = next(texts) {
        let timed = catch_unwind(AssertUnwindSafe(|| outcome.timed(tokenizer)));
        reply(
            tag,
            timed.map_err(|panic| BackendError::Fault(format!("timing words panicked: {}", panic_message(&*panic)))),
        );
    }
}
