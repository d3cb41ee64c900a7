//! Finding the mark in a sound of any length.

use serde::Serialize;

use crate::key::Key;
use crate::payload::Payload;
use crate::window::{Reading, Stretch, WindowReader};
use crate::{MIN_RATE, WatermarkError};

/// Sound that is examined at once, and how far the next window lies after it: any ten seconds are half covered by one window.
const WINDOW_S: f64 = 10.0;
const HOP_S: f64 = 5.0;
/// The shortest sound that is examined.
const MIN_S: f64 = 1.0;
/// Samples below this are silence: less than the last bit of 24.
const SILENCE: f32 = 1e-7;

/// What was found in a sound.
#[derive(Clone, Debug, Serialize)]
pub struct Detection {
    /// Whether the mark is there.
    pub present: bool,
    /// What it says, where it could be read; the payload of the surest span when there are several.
    pub payload: Option<Payload>,
    /// One less the bound on the probability that a sound without the mark looks like this; 0 when nothing was found.
    pub confidence: f64,
    /// The decimal logarithm of that bound, at most 0.
    pub log10_false_alarm: f64,
    /// The strongest correlation with the pattern, in standard deviations.
    pub score: f64,
    /// The speed relative to that of the sound that was marked, where the mark was found.
    pub speed: Option<f64>,
    /// The share of coded bits that the error correction turned, where the payload was read.
    pub corrected: Option<f64>,
    /// Where the mark was found.
    pub spans: Vec<Span>,
    /// The length of the sound in seconds.
    pub seconds: f64,
}

/// A stretch of sound that carries the mark. Its ends are those of the windows that were examined, so they may be some seconds off.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Span {
    /// Its begin in seconds.
    pub start: f64,
    /// Its end in seconds.
    pub end: f64,
    /// The speed relative to that of the sound that was marked.
    pub speed: f64,
    /// What it says, where it could be read.
    pub payload: Option<Payload>,
}

/// Looks for the mark in a stream of samples, in flat memory.
pub struct Detector {
    reader: WindowReader,
    rate: u32,
    channels: usize,
    /// Mono samples from sample `start` on.
    samples: Vec<f32>,
    start: usize,
    /// Up to which sample windows have been examined.
    examined: usize,
    is_silent: bool,
    windows: usize,
    stretch: Option<Stretch>,
    best: Option<Reading>,
    spans: Vec<Span>,
}

impl Detector {
    /// A detector of marks that were made with this key, for interleaved samples.
    pub fn new(rate: u32, channels: usize, key: &Key) -> Result<Self, WatermarkError> {
        if rate < MIN_RATE {
            return Err(WatermarkError::Rate { rate });
        }
        if channels == 0 {
            return Err(WatermarkError::Channels { samples: 0, channels });
        }
        Ok(Detector {
            reader: WindowReader::new(key),
            rate,
            channels,
            samples: Vec::new(),
            start: 0,
            examined: 0,
            is_silent: true,
            windows: 0,
            stretch: None,
            best: None,
            spans: Vec::new(),
        })
    }

    /// Takes whole frames. `is_cancelled` is asked several times a window.
    pub fn push(&mut self, interleaved: &[f32], is_cancelled: &dyn Fn() -> bool) -> Result<(), WatermarkError> {
        let channels = self.channels;
        if !interleaved.len().is_multiple_of(channels) {
            return Err(WatermarkError::Channels { samples: interleaved.len(), channels });
        }
        if let Some(index) = interleaved.iter().position(|sample| !sample.is_finite()) {
            return Err(WatermarkError::NotFinite { index: (self.start + self.samples.len()) * channels + index });
        }
        let (window, hop) = (self.samples_of(WINDOW_S), self.samples_of(HOP_S));
        // Long blocks are taken in parts, so that the samples that wait stay few.
        for block in interleaved.chunks(hop * channels) {
            let scale = 1.0 / channels as f32;
            let mono = block.chunks_exact(channels).map(|frame| frame.iter().sum::<f32>() * scale);
            self.samples.extend(mono);
            self.is_silent &= block.iter().all(|sample| sample.abs() < SILENCE);
            while self.samples.len() >= window {
                self.examine(window, is_cancelled)?;
                self.samples.drain(..hop);
                self.start += hop;
            }
        }
        Ok(())
    }

    /// Examines the rest and says what was found.
    pub fn finish(mut self, is_cancelled: &dyn Fn() -> bool) -> Result<Detection, WatermarkError> {
        let end = self.start + self.samples.len();
        let seconds = end as f64 / f64::from(self.rate);
        if seconds < MIN_S {
            return Err(WatermarkError::TooShort { seconds });
        }
        if self.is_silent {
            return Err(WatermarkError::Silent);
        }
        if self.examined < end {
            self.examine(self.samples.len(), is_cancelled)?;
        }
        let present = self.best.filter(Reading::is_present);
        // Every window was another chance for a false alarm.
        let log_bound = |reading: Reading| (reading.log_false_alarm + (self.windows as f64).ln()).min(0.0);
        let bound = self.best.map_or(0.0, log_bound);
        Ok(Detection {
            present: present.is_some(),
            payload: present.and_then(|reading| reading.payload),
            confidence: -bound.exp_m1(),
            log10_false_alarm: bound / std::f64::consts::LN_10,
            score: self.best.map_or(0.0, |reading| reading.score),
            speed: present.map(|reading| reading.stretch.speed),
            corrected: present.and_then(|reading| reading.corrected),
            spans: self.spans,
            seconds,
        })
    }

    fn samples_of(&self, seconds: f64) -> usize {
        (seconds * f64::from(self.rate)) as usize
    }

    /// Looks at the first samples that wait.
    fn examine(&mut self, count: usize, is_cancelled: &dyn Fn() -> bool) -> Result<(), WatermarkError> {
        let samples = &self.samples[..count];
        let reading =
            self.reader.read(samples, self.rate, self.stretch, is_cancelled).ok_or(WatermarkError::Cancelled)?;
        self.windows += 1;
        self.examined = self.start + count;
        if reading.is_present() {
            self.stretch = Some(reading.stretch);
            let second = |sample: usize| sample as f64 / f64::from(self.rate);
            let (start, end) = (second(self.start), second(self.examined));
            match self.spans.last_mut().filter(|span| span.end >= start && span.payload == reading.payload) {
                Some(span) => span.end = end,
                None => {
                    let (speed, payload) = (reading.stretch.speed, reading.payload);
                    self.spans.push(Span { start, end, speed, payload });
                }
            }
        }
        if self.best.is_none_or(|best| reading.log_false_alarm < best.log_false_alarm) {
            self.best = Some(reading);
        }
        Ok(())
    }
}

/// Looks for the mark in mono samples.
pub fn detect(samples: &[f32], rate: u32, key: &Key) -> Result<Detection, WatermarkError> {
    let mut detector = Detector::new(rate, 1, key)?;
    detector.push(samples, &|| false)?;
    detector.finish(&|| false)
}
