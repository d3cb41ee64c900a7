//! Where speech begins and ends in sound that has not ended.

use crate::vad::SAMPLES_PER_PROBABILITY;

const CHUNK: u64 = SAMPLES_PER_PROBABILITY as u64;
/// Speech begins where the probability reaches this…
const BEGINS: f32 = 0.5;
/// …and goes on while it does not fall below this.
const GOES_ON: f32 = 0.35;
/// Chunks of speech before it counts: a click is not an utterance.
const LEAST_CHUNKS: u32 = 5;

/// Follows the speech probabilities of one session.
#[derive(Debug, Default)]
pub struct Endpointer {
    /// Samples judged so far.
    heard: u64,
    /// First sample of the speech that is going on or was last.
    began: u64,
    /// The sample after the last of speech.
    ended: u64,
    is_speaking: bool,
    /// Chunks of speech since the utterance began.
    chunks: u32,
    open: bool,
}

impl Endpointer {
    /// Takes the probabilities of the next chunks.
    pub fn push(&mut self, probabilities: &[f32]) {
        for &probability in probabilities {
            self.is_speaking = probability >= if self.is_speaking { GOES_ON } else { BEGINS };
            if self.is_speaking {
                if self.chunks == 0 {
                    self.began = self.heard;
                }
                self.chunks += 1;
                self.ended = self.heard + CHUNK;
                self.open |= self.chunks >= LEAST_CHUNKS;
            } else if !self.open && self.heard >= self.ended + 10 * CHUNK {
                self.chunks = 0;
            }
            self.heard += CHUNK;
        }
    }

    /// Whether an utterance is open.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// First sample of the utterance, or of what may become one.
    pub fn began(&self) -> u64 {
        if self.chunks > 0 { self.began } else { self.heard }
    }

    /// The sample after the last of speech.
    pub fn ended(&self) -> u64 {
        self.ended
    }

    /// Samples of the utterance between two samples: a pause before it is none of it.
    pub fn spoken_between(&self, from: u64, until: u64) -> u64 {
        self.ended.min(until).saturating_sub(from.max(self.began()))
    }

    /// Samples of silence since the last speech.
    pub fn silence(&self) -> u64 {
        self.heard.saturating_sub(self.ended)
    }

    /// Closes the utterance: what follows is the next one.
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
        let mut ends = Endpointer::default();
        ends.push(&[0.1, 0.9, 0.9, 0.1, 0.1]);
        ends.push(&[0.0; 20]);
        assert!(!ends.is_open());
        ends.push(&[0.9; 6]);
        assert!(ends.is_open());
        assert_eq!(ends.began(), 25 * CHUNK);
        ends.push(&[0.1; 4]);
        assert_eq!(ends.silence(), 4 * CHUNK);
        assert_eq!(ends.ended(), 31 * CHUNK);
    }

    #[test]
    fn after_a_close_the_next_utterance_begins_anew() {
        let mut ends = Endpointer::default();
        ends.push(&[0.9; 10]);
        ends.push(&[0.0; 30]);
        ends.close();
        assert!(!ends.is_open());
        ends.push(&[0.9; 10]);
        assert!(ends.is_open());
        assert_eq!(ends.began(), 40 * CHUNK);
    }

    #[test]
    fn a_pause_is_not_spoken() {
        let mut ends = Endpointer::default();
        ends.push(&[0.9; 10]);
        ends.push(&[0.0; 30]);
        ends.close();
        ends.push(&[0.9; 20]);
        ends.push(&[0.0; 5]);
        // The last word ended with the first utterance; then it was silent for 30 chunks.
        assert_eq!(ends.spoken_between(10 * CHUNK, 65 * CHUNK), 20 * CHUNK);
        assert_eq!(ends.spoken_between(10 * CHUNK, 50 * CHUNK), 10 * CHUNK);
        assert_eq!(ends.spoken_between(45 * CHUNK, 65 * CHUNK), 15 * CHUNK);
        assert_eq!(ends.spoken_between(63 * CHUNK, 65 * CHUNK), 0);
    }
}
