//! What becomes of one window on its way: submitted, decoded, looked at again.

use std::sync::Arc;

use hark_media::SAMPLE_RATE;
use hark_whisper::decode::Decoded;

use crate::coverage::left_out;
use crate::edges::to_sound;
use crate::scheduler::Meter;
use crate::second_look::Check;
use crate::windows::Window;

/// A submitted window.
pub(super) struct Outstanding {
    pub(super) window: Window,
    pub(super) purpose: Purpose,
    /// Set for one whose prompt has the text before it.
    pub(super) is_conditioned: bool,
    pub(super) meter: Meter,
}

/// Why a window is decoded.
pub(super) enum Purpose {
    /// It is a window of the recording.
    FirstLook,
    /// Voice activity detection left it out.
    Unheard,
    /// The text of another window left it out.
    SecondLook(Gap),
    /// It tells whether the words that a second look has in common with its neighbours were said twice.
    Check(Gap, Box<Look>, Check),
}

/// A part that the text of a window left out.
pub(super) struct Gap {
    pub(super) window: Arc<Window>,
    /// The window's index in `done`.
    pub(super) done: usize,
    /// In seconds from the window's start.
    pub(super) part: (f64, f64),
    /// How often what is left out there may be decoded again.
    pub(super) looks: usize,
}

/// A window with its text, before it is added to the transcript.
pub(super) struct Look {
    pub(super) window: Arc<Window>,
    pub(super) done: Done,
    /// How often what its text leaves out may be decoded again.
    pub(super) looks: usize,
}

/// The share of encoding in a window's work; the rest is decoding.
const ENCODING_SHARE: f64 = 0.2;
/// Prior of the step rate: decoding steps per second of audio, weighted as this many seconds.
const EXPECTED_STEPS: (f64, f64) = (4.0, 60.0);
/// The maximum share of a window that is not done: its text may be longer than expected.
const MAX_SHARE: f64 = 0.95;

/// Decoding steps per second of audio, from the windows that are done.
#[derive(Default)]
pub(super) struct StepRate {
    steps: f64,
    seconds: f64,
}

impl StepRate {
    pub(super) fn add(&mut self, window: &Outstanding) {
        self.steps += f64::from(window.meter.steps());
        self.seconds += window.seconds();
    }

    /// The share of a window's work that is done.
    pub(super) fn share_done(&self, window: &Outstanding) -> f64 {
        if !window.meter.is_encoded() {
            return 0.0;
        }
        let (steps, seconds) = EXPECTED_STEPS;
        let steps_per_second = (steps * seconds + self.steps) / (seconds + self.seconds);
        let text = f64::from(window.meter.steps()) / (steps_per_second * window.seconds()).max(1.0);
        (ENCODING_SHARE + (1.0 - ENCODING_SHARE) * text).min(MAX_SHARE)
    }
}

impl Outstanding {
    /// Seconds of audio that it contributes to the progress; those of a second look were counted already.
    pub(super) fn seconds(&self) -> f64 {
        match self.purpose {
            Purpose::FirstLook => self.window.samples.len() as f64 / f64::from(SAMPLE_RATE),
            Purpose::Unheard | Purpose::SecondLook(_) | Purpose::Check(..) => 0.0,
        }
    }
}

/// A decoded window, without its samples.
pub(super) struct Done {
    /// First sample and the one after the last.
    pub(super) samples: (u64, u64),
    pub(super) decoded: Decoded,
    /// Parts whose text is that of a second look, in seconds from the window's start.
    pub(super) gaps: Vec<(f64, f64)>,
}

impl Look {
    /// The text of a window, with the speech that it leaves out.
    pub(super) fn new(window: Window, mut decoded: Decoded, looks: usize) -> Self {
        let seconds = |sample: u64| (sample - window.start) as f64 / f64::from(SAMPLE_RATE);
        let speech: Vec<(f64, f64)> = window.speech.iter().map(|span| (seconds(span.0), seconds(span.1))).collect();
        let gaps = if looks == 0 { Vec::new() } else { left_out(&decoded.words, &speech) };
        to_sound(&mut decoded.words, &window.samples, &speech);
        let done = Done { samples: (window.start, window.end()), decoded, gaps };
        Look { window: Arc::new(window), done, looks }
    }
}
