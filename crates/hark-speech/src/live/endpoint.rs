//! Endpointing: where utterances start and end in a stream.

use crate::vad::SAMPLES_PER_PROBABILITY;

const CHUNK: u64 = SAMPLES_PER_PROBABILITY as u64;
/// Speech starts where the probability reaches this…
const THRESHOLD: f32 = 0.5;
/// …and continues while it does not fall below this.
const NEG_THRESHOLD: f32 = 0.35;
/// Minimum chunks of speech of an utterance: a click is not one.
const MIN_SPEECH_CHUNKS: u32 = 5;

/// Detects utterances from the speech probabilities of a session.
#[derive(Debug, Default)]
pub struct Endpointer {
    /// Samples processed so far.
    processed: u64,
    /// First sample of the current or last speech.
    speech_start: u64,
    /// The sample after the last speech.
    speech_end: u64,
    is_speaking: bool,
    /// Chunks of speech since the start of the utterance.
    chunks: u32,
    open: bool,
}

impl Endpointer {
    /// Processes the probabilities of the next chunks.
    pub fn push(&mut self, probabilities: &[f32]) {
        for &probability in probabilities {
            self.is_speaking = probability >= if self.is_speaking { NEG_THRESHOLD } else { THRESHOLD };
            if self.is_speaking {
                if self.chunks == 0 {
                    self.speech_start = self.processed;
                }
                self.chunks += 1;
                self.speech_end = self.processed + CHUNK;
                self.open |= self.chunks >= MIN_SPEECH_CHUNKS;
            } else if !self.open && self.processed >= self.speech_end + 10 * CHUNK {
                self.chunks = 0;
            }
            self.processed += CHUNK;
        }
    }

    /// Whether an utterance is open.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// First sample of the utterance or of a possible one.
    pub fn speech_start(&self) -> u64 {
        if self.chunks > 0 { self.speech_start } else { self.processed }
    }

    /// The sample after the last speech.
    pub fn speech_end(&self) -> u64 {
        self.speech_end
    }

    /// Samples of the utterance between two samples; a pause before it is not counted.
    pub fn speech_between(&self, from: u64, until: u64) -> u64 {
        self.speech_end.min(until).saturating_sub(from.max(self.speech_start()))
    }

    /// Samples of silence since the last speech.
    pub fn silence(&self) -> u64 {
        self.processed.saturating_sub(self.speech_end)
    }

    /// Ends the utterance: later speech starts the next one.
    pub fn close(&mut self) {
        self.open = false;
        self.chunks = 0;
        self.is_speaking = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_utterance_opens_with_speech_and_not_with_a_click() {
        let mut endpointer = Endpointer::default();
        endpointer.push(&[0.1, 0.9, 0.9, 0.1, 0.1]);
        endpointer.push(&[0.0; 20]);
        assert!(!endpointer.is_open());
        endpointer.push(&[0.9; 6]);
        assert!(endpointer.is_open());
        assert_eq!(endpointer.speech_start(), 25 * CHUNK);
        endpointer.push(&[0.1; 4]);
        assert_eq!(endpointer.silence(), 4 * CHUNK);
        assert_eq!(endpointer.speech_end(), 31 * CHUNK);
    }

    #[test]
    fn after_a_close_the_next_utterance_begins_anew() {
        let mut endpointer = Endpointer::default();
        endpointer.push(&[0.9; 10]);
        endpointer.push(&[0.0; 30]);
        endpointer.close();
        assert!(!endpointer.is_open());
        endpointer.push(&[0.9; 10]);
        assert!(endpointer.is_open());
        assert_eq!(endpointer.speech_start(), 40 * CHUNK);
    }

    #[test]
    fn a_pause_is_not_spoken() {
        let mut endpointer = Endpointer::default();
        endpointer.push(&[0.9; 10]);
        endpointer.push(&[0.0; 30]);
        endpointer.close();
        endpointer.push(&[0.9; 20]);
        endpointer.push(&[0.0; 5]);
        // The last word ended with the first utterance; then it was silent for 30 chunks.
        assert_eq!(endpointer.speech_between(10 * CHUNK, 65 * CHUNK), 20 * CHUNK);
        assert_eq!(endpointer.speech_between(10 * CHUNK, 50 * CHUNK), 10 * CHUNK);
        assert_eq!(endpointer.speech_between(45 * CHUNK, 65 * CHUNK), 15 * CHUNK);
        assert_eq!(endpointer.speech_between(63 * CHUNK, 65 * CHUNK), 0);
    }
}
