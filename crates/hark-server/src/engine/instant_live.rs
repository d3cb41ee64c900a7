//! A live recognizer that reads numbers instead of speech: each second of audio encodes one, and becomes one text at once.
//!
//! The stored text can then be compared with the audio that was sent: a lost second is a gap, one that was processed twice a repeat.

use hark_api::{Segment, TranscriptionResult};
use hark_media::SAMPLE_RATE;
use hark_speech::SpeechError;
use hark_speech::live::{LiveEvent, LiveSegments, LiveText};

use super::{LiveRecognizer, Wake, Work};

/// Samples of a second.
const SECOND: usize = SAMPLE_RATE as usize;
/// A number is written in two samples, to this base.
const BASE: u32 = 20_000;

pub(super) struct InstantLive {
    language: String,
    model: String,
    wake: Wake,
    /// Audio of the current second.
    pending: Vec<f32>,
    samples: usize,
    texts: Vec<LiveText>,
    /// Texts that were polled.
    polled: usize,
    is_finishing: bool,
    is_finished: bool,
}

impl InstantLive {
    pub(super) fn new(work: &Work, wake: Wake) -> Self {
        InstantLive {
            language: work.language.clone().unwrap_or_else(|| "en".into()),
            model: work.model.clone(),
            wake,
            pending: Vec::new(),
            samples: 0,
            texts: Vec::new(),
            polled: 0,
            is_finishing: false,
            is_finished: false,
        }
    }

    fn settle(&mut self, second: &[f32]) {
        let start = self.texts.len() as f64;
        self.texts.push(LiveText {
            text: format!("{}.", number(second)),
            start,
            end: start + 1.0,
            words: Vec::new(),
            language: self.language.clone(),
            confidence: 1.0,
            speaker: None,
            ends_utterance: true,
        });
    }
}

/// The two samples at the start of a second of audio that encode `number`, as 16-bit integers.
pub fn numbered_samples(number: u32) -> [i16; 2] {
    // Both are below the base, so they fit 16 bits.
    [(number / BASE % BASE) as i16, (number % BASE) as i16]
}

fn number(second: &[f32]) -> u32 {
    let digit = |sample: &f32| (sample * 32_768.0).round().max(0.0) as u32;
    second.iter().take(2).fold(0, |number, sample| number * BASE + digit(sample))
}

fn segment(text: &LiveText) -> Segment {
    Segment { start: text.start, end: text.end, text: text.text.clone(), confidence: 1.0, ..Segment::default() }
}

impl LiveRecognizer for InstantLive {
    fn push(&mut self, samples: &[f32]) {
        self.samples += samples.len();
        self.pending.extend_from_slice(samples);
        let pending = std::mem::take(&mut self.pending);
        let seconds = pending.chunks_exact(SECOND);
        self.pending = seconds.remainder().to_vec();
        seconds.for_each(|second| self.settle(second));
    }

    fn flush(&mut self) {}

    fn finish(&mut self) {
        self.is_finishing = true;
        (self.wake)();
    }

    fn backlog(&self) -> f64 {
        0.0
    }

    fn poll(&mut self) -> Result<Vec<LiveEvent>, SpeechError> {
        let mut events: Vec<LiveEvent> = self.texts[self.polled..].iter().cloned().map(LiveEvent::Text).collect();
        self.polled = self.texts.len();
        if self.is_finishing && !self.is_finished {
            self.is_finished = true;
            events.push(LiveEvent::Final(Box::new(self.so_far())));
        }
        Ok(events)
    }

    fn so_far(&self) -> TranscriptionResult {
        let segments: Vec<Segment> = self.texts[..self.polled].iter().map(segment).collect();
        TranscriptionResult {
            text: segments.iter().map(|segment| segment.text.as_str()).collect::<Vec<_>>().join(" "),
            language: self.language.clone(),
            duration: self.samples as f64 / f64::from(SAMPLE_RATE),
            segments,
            model: self.model.clone(),
            ..TranscriptionResult::default()
        }
    }

    fn final_segments_from(&self, from: usize) -> LiveSegments {
        let segments: Vec<Segment> =
            self.texts.get(from..self.polled).unwrap_or_default().iter().map(segment).collect();
        LiveSegments { closed: segments.len(), next: self.polled.max(from), segments }
    }

    fn language(&self) -> Option<&str> {
        Some(&self.language)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_second_of_sound_becomes_the_number_that_it_carries() {
        let mut live = InstantLive::new(&Work::default(), Box::new(|| {}));
        let numbers = [0, 7, 19_999, 20_000, 123_456_789];
        let second = |number| {
            let [high, low] = numbered_samples(number).map(|sample| f32::from(sample) / 32_768.0);
            let mut second = vec![0.0; SECOND];
            second[..2].copy_from_slice(&[high, low]);
            second
        };
        let sound: Vec<f32> = numbers.into_iter().flat_map(second).collect();
        for piece in sound.chunks(1_234) {
            live.push(piece);
        }
        live.push(&[0.0; 10]);
        assert_eq!(live.poll().unwrap().len(), numbers.len());
        assert_eq!(live.so_far().text, "0. 7. 19999. 20000. 123456789.");
        let settled = live.final_segments_from(3);
        assert_eq!((settled.segments.len(), settled.closed, settled.next), (2, 2, 5));
        assert_eq!((settled.segments[0].start, settled.segments[0].end), (3.0, 4.0));
    }
}
