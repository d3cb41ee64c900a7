//! Word times, computed on a thread of their own while the engine continues to decode.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use hark_whisper::backend::BackendError;
use hark_whisper::decode::Outcome;
use hark_whisper::tokenizer::Tokenizer;

use super::{Reply, panic_message};

/// Texts that may be queued for word timing; the engine waits when there are more.
const MAX_UNTIMED: usize = 32;

/// A thread that computes word times.
pub(super) struct WordTiming {
    tokenizer: Arc<Tokenizer>,
    texts: Option<SyncSender<(Reply, usize, Outcome)>>,
    thread: Option<JoinHandle<()>>,
}

impl WordTiming {
    pub(super) fn start(tokenizer: Arc<Tokenizer>) -> Self {
        let (texts, receiver) = sync_channel(MAX_UNTIMED);
        let thread = std::thread::Builder::new().name("hark-words".to_owned());
        // Without a thread of their own, words are timed on the engine's.
        let for_thread = Arc::clone(&tokenizer);
        match thread.spawn(move || time_words(receiver, &for_thread)) {
            Ok(thread) => WordTiming { tokenizer, texts: Some(texts), thread: Some(thread) },
            Err(_) => WordTiming { tokenizer, texts: None, thread: None },
        }
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
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn time_words(texts: Receiver<(Reply, usize, Outcome)>, tokenizer: &Tokenizer) {
    for (reply, tag, outcome) in texts {
        let timed = catch_unwind(AssertUnwindSafe(|| outcome.timed(tokenizer)));
        reply(
            tag,
            timed.map_err(|panic| BackendError::Fault(format!("timing words panicked: {}", panic_message(&*panic)))),
        );
    }
}
