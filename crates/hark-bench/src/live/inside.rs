//! Sessions inside this process, without a server and its sockets.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hark_speech::Transcriber;
use hark_speech::live::{LiveEvent, LiveOptions, LiveSession};

use super::figures::Shown;
use super::{FRAME_BYTES, Script, delay, failed};
use crate::BenchError;
use crate::audio::RATE;

/// Runs one session for each script.
pub(super) fn replay_all(
    transcriber: &Transcriber,
    language: &str,
    scripts: &[Arc<Script>],
) -> Result<Vec<Shown>, BenchError> {
    std::thread::scope(|scope| {
        let session = |(index, script): (usize, &'_ Arc<Script>)| {
            let samples = script.samples.clone();
            scope.spawn(move || {
                std::thread::sleep(delay(index));
                replay(transcriber, language, &samples)
            })
        };
        let sessions: Vec<_> = scripts.iter().enumerate().map(session).collect();
        sessions.into_iter().map(|session| session.join().unwrap_or_else(|_| Err(failed("a session died")))).collect()
    })
}

/// Sends a recording at the pace of speech and keeps what is shown, with its times.
fn replay(transcriber: &Transcriber, language: &str, samples: &[f32]) -> Result<Shown, BenchError> {
    let (wake, woken) = channel();
    let wake = Mutex::new(wake);
    let options = LiveOptions { language: Some(language.to_owned()), ..LiveOptions::default() };
    let mut session = LiveSession::new(transcriber, &options, move || {
        // A session that is over does not listen any more.
        let _ = wake.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).send(());
    })
    .map_err(failed)?;
    let mut shown = Shown::default();
    let begun = Instant::now();
    let mut frames = samples.chunks(FRAME_BYTES / 2);
    let mut sent = 0;
    while !session.is_finished() {
        let due = Duration::from_secs_f64(sent as f64 / f64::from(RATE));
        match woken.recv_timeout(due.saturating_sub(begun.elapsed())) {
            Err(RecvTimeoutError::Timeout) => match frames.next() {
                Some(frame) => {
                    sent += frame.len();
                    session.push(frame);
                }
                None => {
                    session.finish();
                    // From here on only answers are waited for.
                    sent += 3600 * RATE as usize;
                }
            },
            Ok(()) | Err(RecvTimeoutError::Disconnected) => {}
        }
        for event in session.poll().map_err(failed)? {
            let now = begun.elapsed().as_secs_f64();
            match event {
                LiveEvent::Partial { text, .. } => shown.partial(now, &text),
                LiveEvent::Text(text) => shown.text_that_stays(now, &text.text),
                LiveEvent::Final(_) => {}
            }
        }
    }
    Ok(shown)
}
