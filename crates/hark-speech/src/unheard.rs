//! Sound between the windows: what voice activity detection left out.
//!
//! The network was made for speech: under loud music, sung or far away it gives speech low probabilities. Such stretches are
//! decoded, too, if they are long and loud enough to be heard. Their text counts only if it is certain: of noise and music without a voice
//! Whisper makes sentences, which give themselves away by their words' probabilities and times.

use hark_whisper::decode::{DecodeOptions, Decoded};
use hark_whisper::words::AlignedWord;

use crate::vad::SAMPLES_PER_PROBABILITY;
use crate::windows::{SpeechStats, Window};

const CHUNK: usize = SAMPLES_PER_PROBABILITY;
const SAMPLE_RATE: usize = 16_000;
/// Shorter stretches are pauses.
const MIN_STRETCH: usize = 2 * SAMPLE_RATE;
/// Longer stretches are cut: the length of the encoder's input.
const MAX_STRETCH: usize = 30 * SAMPLE_RATE;
/// The root mean square of sound that can be heard: −50 dB of full scale.
const AUDIBLE: f32 = 0.003_2;
/// A stretch has sound that resembles speech at least this much for a third of a second.
const TRACE: f32 = 0.02;
const MIN_TRACES: usize = 10;
/// The least mean log-probability of a text that is certain.
const LOGPROB_THRESHOLD: f32 = -0.7;
/// Fewer words may be invented.
const MIN_WORDS: usize = 4;
/// The durations of a spoken word. The words of an invented text have no place in the sound: many last no time, others seconds.
const WORD_SECONDS: std::ops::Range<f64> = 0.04..1.6;
/// The least share of words with such a duration.
const MIN_SPOKEN: f64 = 0.8;

/// Whether a text of such a stretch is kept.
pub fn is_certain(decoded: &Decoded) -> bool {
    let spoken = |word: &&AlignedWord| WORD_SECONDS.contains(&(word.end - word.start));
    let (words, rules) = (decoded.words.len(), DecodeOptions::default());
    decoded.mean_logprob >= LOGPROB_THRESHOLD
        && decoded.no_speech <= rules.no_speech_threshold
        && decoded.compression <= rules.compression_ratio_threshold
        && words >= MIN_WORDS
        && decoded.words.iter().filter(spoken).count() as f64 >= MIN_SPOKEN * words as f64
}

/// Collects the sound of one recording that no window contains.
#[derive(Default)]
pub struct Unheard {
    /// Samples from `start` on, the end of the last window or stretch, and the probabilities of all chunks from `first_chunk` on.
    samples: Vec<f32>,
    start: u64,
    probabilities: Vec<f32>,
    first_chunk: usize,
}

impl Unheard {
    /// Adds the next samples and probabilities.
    pub fn push(&mut self, samples: &[f32], probabilities: &[f32]) {
        self.samples.extend_from_slice(samples);
        self.probabilities.extend_from_slice(probabilities);
    }

    /// What lies before a window, if it is worth decoding; the window itself is not needed any more.
    pub fn before(&mut self, window: &Window) -> Vec<Window> {
        let stretches = self.take_until(window.start);
        let behind = ((window.end() - self.start) as usize).min(self.samples.len());
        self.samples.drain(..behind);
        self.start = window.end();
        stretches
    }

    /// What lies before `settled`, where no window begins before, as soon as it is as long as a window.
    pub fn settled(&mut self, settled: u64) -> Vec<Window> {
        if settled >= self.start + MAX_STRETCH as u64 { self.take_until(settled) } else { Vec::new() }
    }

    /// What is left at the end of the recording.
    pub fn finish(&mut self) -> Vec<Window> {
        self.take_until(self.start + self.samples.len() as u64)
    }

    fn take_until(&mut self, end: u64) -> Vec<Window> {
        let mut windows = Vec::new();
        while self.start < end && !self.samples.is_empty() {
            let length = ((end - self.start) as usize).min(MAX_STRETCH).min(self.samples.len());
            let samples: Vec<f32> = self.samples.drain(..length).collect();
            windows.extend(self.stretch(samples));
            self.start += length as u64;
        }
        let passed = (self.start as usize / CHUNK - self.first_chunk).min(self.probabilities.len());
        self.probabilities.drain(..passed);
        self.first_chunk += passed;
        windows
    }

    /// The stretch of `samples` from `start` on, if it is worth decoding.
    fn stretch(&self, samples: Vec<f32>) -> Option<Window> {
        let first = (self.start as usize / CHUNK).saturating_sub(self.first_chunk).min(self.probabilities.len());
        let last = (first + samples.len() / CHUNK).min(self.probabilities.len());
        let probabilities = &self.probabilities[first..last];
        let traces = probabilities.iter().filter(|&&probability| probability >= TRACE).count();
        let level = (samples.iter().map(|x| x * x).sum::<f32>() / samples.len() as f32).sqrt();
        if samples.len() < MIN_STRETCH || traces < MIN_TRACES || level < AUDIBLE {
            return None;
        }
        let stats = SpeechStats {
            speech_seconds: 0.0,
            mean_probability: probabilities.iter().sum::<f32>() / probabilities.len() as f32,
            peak_probability: probabilities.iter().copied().fold(0.0, f32::max),
        };
        let speech = vec![(self.start, self.start + samples.len() as u64)];
        Some(Window { start: self.start, samples, speech, stats })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = SAMPLE_RATE as u64;

    /// Sound of some seconds and of one probability.
    fn sound(unheard: &mut Unheard, seconds: usize, level: f32, probability: f32) {
        let samples: Vec<f32> = (0..seconds * SAMPLE_RATE).map(|i| if i % 2 == 0 { level } else { -level }).collect();
        unheard.push(&samples, &vec![probability; samples.len() / CHUNK]);
    }

    fn window(from: u64, to: u64) -> Window {
        let stats = SpeechStats { speech_seconds: 1.0, mean_probability: 0.9, peak_probability: 1.0 };
        let samples = vec![0.1; ((to - from) * SECOND) as usize];
        Window { start: from * SECOND, samples, speech: vec![(from * SECOND, to * SECOND)], stats }
    }

    fn spans(windows: &[Window]) -> Vec<(f64, f64)> {
        let seconds = |sample: u64| sample as f64 / SECOND as f64;
        windows.iter().map(|window| (seconds(window.start), seconds(window.end()))).collect()
    }

    #[test]
    fn what_lies_before_and_behind_windows_is_found_once() {
        let mut unheard = Unheard::default();
        sound(&mut unheard, 20, 0.1, 0.3);
        assert_eq!(spans(&unheard.before(&window(5, 10))), [(0.0, 5.0)]);
        assert_eq!(spans(&unheard.before(&window(11, 13))), [], "a pause is too short");
        assert_eq!(spans(&unheard.finish()), [(13.0, 20.0)]);
        assert_eq!(spans(&unheard.finish()), []);
    }

    #[test]
    fn a_long_stretch_is_cut_while_it_goes_on() {
        let mut unheard = Unheard::default();
        sound(&mut unheard, 29, 0.1, 0.3);
        assert_eq!(spans(&unheard.settled(29 * SECOND)), []);
        sound(&mut unheard, 3, 0.1, 0.3);
        assert_eq!(spans(&unheard.settled(31 * SECOND)), [(0.0, 30.0)]);
        sound(&mut unheard, 3, 0.1, 0.3);
        assert_eq!(spans(&unheard.finish()), [(31.0, 35.0)]);
    }

    /// A text with words of the given durations.
    fn decoded(mean_logprob: f32, durations: &[f64]) -> Decoded {
        let word = |&duration: &f64| AlignedWord {
            text: " word".to_owned(),
            tokens: 0..1,
            start: 1.0,
            end: 1.0 + duration,
            probability: 0.9,
            holds: (1.0, 1.0 + duration),
        };
        Decoded { mean_logprob, words: durations.iter().map(word).collect(), ..Decoded::default() }
    }

    #[test]
    fn a_text_is_certain_if_its_words_are_likely_and_have_their_place_in_the_sound() {
        assert!(is_certain(&decoded(-0.4, &[0.3, 0.2, 0.5, 0.3, 0.0, 0.4])));
        assert!(!is_certain(&decoded(-0.9, &[0.3, 0.2, 0.5, 0.3, 0.2, 0.4])), "unlikely");
        assert!(!is_certain(&decoded(-0.4, &[0.3, 0.3, 0.3])), "\"Thank you.\" may be invented");
        assert!(!is_certain(&decoded(-0.4, &[1.4, 3.7, 3.7, 12.0])), "\"Thank you very much.\" of music");
        assert!(!is_certain(&decoded(-0.4, &[1.4, 0.0, 0.0, 0.0, 0.0])), "a sentence at one moment");
    }

    #[test]
    fn silence_and_what_has_no_trace_of_a_voice_is_left_out() {
        for (level, probability) in [(0.001, 0.4), (0.1, 0.01)] {
            let mut unheard = Unheard::default();
            sound(&mut unheard, 40, level, probability);
            assert_eq!(spans(&unheard.finish()), [], "{level} {probability}");
        }
    }
}
