//! Sentences as one stream of samples: edges trimmed, pauses between, no clicks.

use std::collections::VecDeque;

use crate::TtsError;
use crate::model::{SpeechModel, Voice};

/// A sentence in phonemes and the pause after it.
#[derive(Debug, Clone, PartialEq)]
pub struct Sentence {
    /// The phonemes.
    pub phonemes: String,
    /// Seconds of silence before the next sentence.
    pub pause: f32,
}

impl Sentence {
    /// A sentence with the pause that its last sign asks for.
    pub fn new(phonemes: &str) -> Self {
        let end = phonemes.trim_end().trim_end_matches(['"', '”', ')', '“']).chars().next_back();
        let pause = match end {
            Some('.' | '!' | '?') => 0.4,
            Some('…' | '—') => 0.35,
            Some(';' | ':') => 0.25,
            Some(',') => 0.15,
            // A sentence that was cut in its middle because it is long.
            _ => 0.05,
        };
        Sentence { phonemes: phonemes.to_owned(), pause }
    }
}

/// Windows in which loudness is measured, in seconds.
const WINDOW: f32 = 0.01;
/// How far below the loudest window speech begins and ends: -40 dB.
const QUIET: f32 = 0.01;
/// What is kept of the quiet around speech, in seconds: breaths and the ends of fricatives.
const MARGIN: f32 = 0.05;
/// Length of the fades at both ends, in seconds.
const FADE: f32 = 0.005;

/// The sound of sentences, one after the other; each is made when it is asked for.
///
/// A sentence comes with the pause after it; the last has none. After an error nothing more comes.
pub struct SpeechStream<'a> {
    model: &'a dyn SpeechModel,
    voice: &'a Voice,
    speed: f32,
    sentences: VecDeque<Sentence>,
    is_cancelled: &'a dyn Fn() -> bool,
}

impl<'a> SpeechStream<'a> {
    /// A stream of these sentences.
    pub fn new(
        model: &'a dyn SpeechModel,
        voice: &'a Voice,
        speed: f32,
        sentences: impl IntoIterator<Item = Sentence>,
        is_cancelled: &'a dyn Fn() -> bool,
    ) -> Self {
        SpeechStream { model, voice, speed, sentences: sentences.into_iter().collect(), is_cancelled }
    }
}

impl Iterator for SpeechStream<'_> {
    type Item = Result<Vec<f32>, TtsError>;

    fn next(&mut self) -> Option<Self::Item> {
        let sentence = self.sentences.pop_front()?;
        let spoken = self.model.speak(&sentence.phonemes, self.voice, self.speed, self.is_cancelled);
        Some(match spoken {
            Ok(samples) => {
                let rate = self.model.sample_rate();
                let mut samples = trimmed(&samples, rate);
                if !self.sentences.is_empty() {
                    let pause = sentence.pause / self.speed * rate as f32;
                    samples.resize(samples.len() + pause as usize, 0.0);
                }
                Ok(samples)
            }
            Err(error) => {
                self.sentences.clear();
                Err(error)
            }
        })
    }
}

/// The samples between the first and the last window that is not quiet, with a margin, faded in and out.
pub fn trimmed(samples: &[f32], rate: u32) -> Vec<f32> {
    let count = |seconds: f32| (seconds * rate as f32) as usize;
    let window = count(WINDOW).max(1);
    let loudness: Vec<f32> = samples
        .chunks(window)
        .map(|window| (window.iter().map(|x| x * x).sum::<f32>() / window.len() as f32).sqrt())
        .collect();
    let threshold = loudness.iter().fold(0f32, |most, x| most.max(*x)) * QUIET;
    let is_loud = |loudness: &f32| *loudness > threshold;
    let (Some(first), Some(last)) = (loudness.iter().position(is_loud), loudness.iter().rposition(is_loud)) else {
        return Vec::new();
    };
    let first = (first * window).saturating_sub(count(MARGIN));
    let last = ((last + 1) * window + count(MARGIN)).min(samples.len());
    let mut out = samples[first..last].to_vec();
    let fade = count(FADE).min(out.len() / 2);
    for step in 0..fade {
        let gain = 0.5 - 0.5 * (std::f32::consts::PI * (step as f32 + 0.5) / fade as f32).cos();
        out[step] *= gain;
        let from_end = out.len() - 1 - step;
        out[from_end] *= gain;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::VoiceKind;

    /// Speaks as many tenths of a second of a tone as a sentence has phonemes, between two of silence, and nothing of `x`.
    struct Tone(Vec<Voice>);

    impl Tone {
        fn new() -> Self {
            Tone(vec![Voice { name: "tone".into(), kind: VoiceKind::Preset, numbers: [1.0].into() }])
        }
    }

    impl SpeechModel for Tone {
        fn sample_rate(&self) -> u32 {
            8_000
        }
        fn voices(&self) -> &[Voice] {
            &self.0
        }
        fn max_phonemes(&self) -> usize {
            10
        }
        fn speak(&self, phonemes: &str, _: &Voice, _: f32, cancelled: &dyn Fn() -> bool) -> Result<Vec<f32>, TtsError> {
            if cancelled() {
                return Err(TtsError::Cancelled);
            }
            if phonemes == "x" {
                return Ok(vec![0.0; 800]);
            }
            // Whole periods of ten samples.
            let tone = |sample: usize| (sample as f32 * std::f32::consts::TAU / 10.0).sin() * 0.5;
            let tone = (0..phonemes.chars().count() * 800).map(tone);
            Ok([0.0; 1600].into_iter().chain(tone).chain([0.0; 1600]).collect())
        }
    }

    #[test]
    fn sentences_lose_their_silence_and_get_the_pause_of_their_last_sign() {
        let model = Tone::new();
        let sentences = ["ab.", "cd,", "x", "e"].map(Sentence::new);
        let stream = SpeechStream::new(&model, &model.0[0], 1.0, sentences, &|| false);
        let sounds: Vec<Vec<f32>> = stream.map(Result::unwrap).collect();
        // Speech of 0.3, 0.3 and 0.1 s with 50 ms at each end; pauses of 0.4, 0.15 and 0.05 s; none after the last.
        let lengths: Vec<usize> = sounds.iter().map(Vec::len).collect();
        assert_eq!(lengths, [2400 + 800 + 3200, 2400 + 800 + 1200, 400, 800 + 800]);
        let all = sounds.concat();
        let steps = all.windows(2).map(|pair| (pair[1] - pair[0]).abs()).fold(0f32, f32::max);
        assert!(steps <= 0.32, "nothing jumps more than the tone itself does: {steps}");
        for sound in sounds.iter().filter(|sound| !sound.is_empty()) {
            assert!(sound[0].abs() < 1e-3 && sound[sound.len() - 1].abs() < 1e-3);
        }
    }

    #[test]
    fn loud_edges_are_faded() {
        let faded = trimmed(&[0.8; 4000], 8_000);
        assert_eq!(faded.len(), 4000);
        assert!(faded[0] < 0.01 && faded[3999] < 0.01 && faded[100] == 0.8);
        assert!(faded[..40].windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn a_cancelled_stream_ends_with_one_error() {
        let model = Tone::new();
        let sentences = ["ab.", "cd."].map(Sentence::new);
        let mut stream = SpeechStream::new(&model, &model.0[0], 1.0, sentences, &|| true);
        assert!(matches!(stream.next(), Some(Err(TtsError::Cancelled))));
        assert!(stream.next().is_none());
    }
}
