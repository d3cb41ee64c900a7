//! A recording as a live session, on the clock of its own sound: every pass and every answer about a voice is waited for, so a
//! busy machine tells what a quick one would.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use hark_speakers::SAMPLE_RATE;
use hark_speech::Transcriber;
use hark_speech::live::{LiveEvent, LiveOptions, LiveSession};

use super::driver::speech_failed;
use crate::{BenchError, protocol::LiveWords};

/// Samples that come at once: 85 ms.
const FRAME: usize = SAMPLE_RATE * 85 / 1000;
/// How long an answer is waited for before the session is asked again.
const PATIENCE: Duration = Duration::from_secs(1);

/// Hears a recording live and keeps who was told to say each word, at once and at the end.
pub(super) fn replay(transcriber: &Transcriber, samples: &[f32]) -> Result<LiveWords, BenchError> {
    let (wake, woken) = channel();
    let wake = Mutex::new(wake);
    let options = LiveOptions { speakers: true, ..LiveOptions::default() };
    let mut session = LiveSession::new(transcriber, &options, move || {
        // A session that is over does not listen any more.
        let _ = wake.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).send(());
    })
    .map_err(|error| speech_failed(&error))?;
    let mut words = LiveWords::default();
    for frame in samples.chunks(FRAME) {
        session.push(frame);
        settle(&mut session, &woken, &mut words)?;
    }
    session.finish();
    while !session.is_finished() {
        settle(&mut session, &woken, &mut words)?;
    }
    Ok(words)
}

/// Takes what the session has to say until it waits for sound.
fn settle(session: &mut LiveSession, woken: &Receiver<()>, words: &mut LiveWords) -> Result<(), BenchError> {
    loop {
        for event in session.poll().map_err(|error| speech_failed(&error))? {
            match event {
                LiveEvent::Partial { .. } => {}
                LiveEvent::Text(text) => {
                    let speaker = text.speaker.unwrap_or_default();
                    words.told.extend(text.words.iter().map(|word| (word.start, word.end, speaker.clone())));
                }
                LiveEvent::Final(result) => {
                    for segment in result.segments {
                        let speaker = segment.speaker.unwrap_or_default();
                        words.finally.extend(segment.words.iter().map(|word| (word.start, word.end, speaker.clone())));
                    }
                }
            }
        }
        if !session.is_busy() {
            return Ok(());
        }
        // Woken or not, the next look tells.
        let _ = woken.recv_timeout(PATIENCE);
    }
}
