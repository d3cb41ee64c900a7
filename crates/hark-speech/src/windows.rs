//! Cuts a recording into windows: the parts with speech, to be decoded.
//!
//! In: samples and their speech probabilities ([`crate::vad`]), in blocks of any size. Out: [`Window`]s in
//! order, none longer than 30 s, without overlap.
//!
//! A window is one contiguous part of the recording, so one offset converts its times. Decoding costs a full
//! 30 s encoder pass whatever its length, so speech is collected greedily: a window takes the next span of
//! speech while it fits and the silence before it is short. A window that would become too long ends in its
//! last pause, if that is in its second half; otherwise at the quietest point of that half. Only the current window is
//! buffered: silence is dropped as it arrives.

use std::collections::VecDeque;

use crate::vad::SAMPLES_PER_PROBABILITY;

const CHUNK: u64 = SAMPLES_PER_PROBABILITY as u64;
const SAMPLE_RATE: f32 = 16_000.0;
/// The length of the encoder's input, in seconds.
const MAX_WINDOW_SECONDS: f32 = 30.0;

/// Samples processed at a time, so that a large block does not become a large buffer.
const MAX_BLOCK: usize = 16_384;

/// Thresholds of speech and limits of windows. Durations are in seconds.
#[derive(Debug, Clone, PartialEq)]
pub struct WindowOptions {
    /// Speech begins where the probability reaches this.
    pub threshold: f32,
    /// Speech ends where the probability falls below this and stays down for `min_silence`.
    pub neg_threshold: f32,
    /// Shorter bursts are not speech (a click, a cough).
    pub min_speech: f32,
    /// Shorter pauses do not end a span of speech.
    pub min_silence: f32,
    /// Audio kept before and after speech: the network detects soft onsets a little late.
    pub speech_pad: f32,
    /// The longest silence inside a window. Each window costs a whole encoder pass, so joining across pauses
    /// saves passes; but the longer the silence handed to the decoder, the likelier it invents words for it.
    /// The default is a judgement between the two, not a measurement. A live session, where a window is only
    /// known to be over after this long, wants less.
    pub max_gap: f32,
    /// From this length on a window is full enough to end at the next pause of `full_gap`: the more utterances
    /// are in one window, the likelier the decoder skips one of them.
    pub full_from: f32,
    /// The longest silence inside a window that is full enough.
    pub full_gap: f32,
    /// The longest window; the encoder takes no more than 30 s.
    pub max_window: f32,
    /// Whether only speech is in windows. If not, windows cover the whole recording.
    pub only_speech: bool,
}

impl Default for WindowOptions {
    fn default() -> Self {
        WindowOptions {
            threshold: 0.5,
            neg_threshold: 0.35,
            min_speech: 0.25,
            min_silence: 0.3,
            speech_pad: 0.4,
            max_gap: 3.0,
            full_from: 20.0,
            full_gap: 1.0,
            max_window: MAX_WINDOW_SECONDS,
            only_speech: true,
        }
    }
}

/// Statistics of the speech probabilities of a window, to detect text from noise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SpeechStats {
    /// Seconds of speech in the window, pauses and padding left out.
    pub speech_seconds: f32,
    /// Mean probability over the spans of speech.
    pub mean_probability: f32,
    /// The highest probability of any 32 ms in the window.
    pub peak_probability: f32,
}

/// A part of the recording to decode.
#[derive(Debug, Clone, PartialEq)]
pub struct Window {
    /// Index in the recording of the first sample.
    pub start: u64,
    /// The audio at 16 kHz, at most 480,000 samples.
    pub samples: Vec<f32>,
    /// Its spans of speech: `(start, end)` sample indices in the recording, in order.
    pub speech: Vec<(u64, u64)>,
    /// Statistics of its speech probabilities.
    pub stats: SpeechStats,
}

impl Window {
    /// Index in the recording of the sample after the last.
    pub fn end(&self) -> u64 {
        self.start + self.samples.len() as u64
    }

    /// Samples of silence to insert before the window: if the recording begins with speech, as much
    /// as the audio kept before speech elsewhere (`pad`, in seconds). Without it the first word is more easily
    /// misrecognized ("Never tried" for "Ever tried").
    pub(crate) fn leading_silence(&self, pad: f32) -> usize {
        match self.speech.first() {
            Some(&(first, _)) if self.start == 0 => {
                let room = ((MAX_WINDOW_SECONDS * SAMPLE_RATE) as usize).saturating_sub(self.samples.len());
                ((pad * SAMPLE_RATE) as usize).saturating_sub(first as usize).min(room)
            }
            _ => 0,
        }
    }

    /// The part between two times, in seconds from the window's start, with a little audio around it.
    pub(crate) fn sub_window(&self, from: f64, to: f64) -> Window {
        const PAD: f64 = 0.2;
        let sample = |seconds: f64| ((seconds.max(0.0) * f64::from(SAMPLE_RATE)) as usize).min(self.samples.len());
        let (first, last) = (sample(from - PAD), sample(to + PAD));
        let (start, end) = (self.start + first as u64, self.start + last as u64);
        let clip = |span: &(u64, u64)| (span.0.max(start), span.1.min(end));
        Window {
            start,
            samples: self.samples[first..last].to_vec(),
            speech: self.speech.iter().map(clip).filter(|span| span.0 < span.1).collect(),
            stats: self.stats,
        }
    }
}

/// The options in samples.
struct Limits {
    threshold: f32,
    neg_threshold: f32,
    min_speech: u64,
    min_silence: u64,
    pad: u64,
    max_gap: u64,
    full_from: u64,
    full_gap: u64,
    max_window: u64,
    only_speech: bool,
}

/// A span of speech that has not ended.
struct Run {
    start: u64,
    /// Where the probability fell below the threshold, if it has not risen since.
    pause: Option<u64>,
    /// Whether it continues speech that was split by the end of a window: then it is kept however short.
    is_continuation: bool,
}

/// Cuts one recording into windows as it arrives.
pub struct WindowCutter {
    limits: Limits,
    /// Samples and probabilities from chunk `first_chunk` on.
    samples: Vec<f32>,
    probabilities: Vec<f32>,
    first_chunk: u64,
    /// Probabilities whose samples have not all arrived.
    pending: VecDeque<f32>,
    /// Samples received, and chunks whose probability was processed.
    received: u64,
    processed_chunks: u64,
    /// Spans of speech of the current window.
    spans: Vec<(u64, u64)>,
    run: Option<Run>,
    /// End of the last window: no later one begins before it.
    previous_end: u64,
}

impl WindowCutter {
    /// A cutter at the beginning of a recording.
    pub fn new(options: &WindowOptions) -> Self {
        let samples = |seconds: f32| (seconds.max(0.0) * SAMPLE_RATE).round() as u64;
        // Below 2 s there is no second half to cut in; the encoder takes no more than the maximum.
        let max_window = samples(options.max_window.clamp(2.0, MAX_WINDOW_SECONDS));
        WindowCutter {
            limits: Limits {
                threshold: options.threshold,
                neg_threshold: options.neg_threshold.min(options.threshold),
                min_speech: samples(options.min_speech),
                // At most a quarter of a window, so that a pause before one cut has ended by the next.
                min_silence: samples(options.min_silence).clamp(CHUNK, max_window / 4),
                pad: samples(options.speech_pad),
                max_gap: samples(options.max_gap),
                full_from: samples(options.full_from),
                full_gap: samples(options.full_gap),
                max_window,
                only_speech: options.only_speech,
            },
            samples: Vec::new(),
            probabilities: Vec::new(),
            first_chunk: 0,
            pending: VecDeque::new(),
            received: 0,
            processed_chunks: 0,
            spans: Vec::new(),
            run: None,
            previous_end: 0,
        }
    }

    /// Adds the next samples and the next probabilities, and returns the windows that are now complete. How
    /// either is split into blocks makes no difference.
    pub fn push(&mut self, samples: &[f32], probabilities: &[f32]) -> Vec<Window> {
        let mut windows = Vec::new();
        self.pending.extend(probabilities);
        for block in samples.chunks(MAX_BLOCK) {
            self.samples.extend_from_slice(block);
            self.received += block.len() as u64;
            self.advance(&mut windows);
        }
        self.advance(&mut windows);
        windows
    }

    /// Ends the recording and returns the last windows. The cutter is then reset.
    pub fn finish(&mut self) -> Vec<Window> {
        let mut windows = Vec::new();
        // The last chunk may be incomplete.
        if self.processed_chunks * CHUNK < self.received
            && let Some(probability) = self.pending.pop_front()
        {
            self.step(probability, &mut windows);
        }
        if let Some(run) = &self.run {
            let end = run.pause.unwrap_or((self.processed_chunks * CHUNK).min(self.received));
            self.close_run(end);
        }
        self.emit(&mut windows);
        self.samples.clear();
        self.probabilities.clear();
        self.pending.clear();
        (self.first_chunk, self.received, self.processed_chunks, self.previous_end) = (0, 0, 0, 0);
        windows
    }

    /// No later window begins before this sample.
    pub fn settled(&self) -> u64 {
        let next = (self.processed_chunks * CHUNK).saturating_sub(self.limits.pad);
        self.window_start().unwrap_or(next).max(self.previous_end)
    }

    /// Buffered samples: the current window, or a little silence.
    pub fn buffered(&self) -> usize {
        self.samples.len()
    }

    fn advance(&mut self, windows: &mut Vec<Window>) {
        while (self.processed_chunks + 1) * CHUNK <= self.received
            && let Some(probability) = self.pending.pop_front()
        {
            self.step(probability, windows);
        }
        self.drop_consumed();
    }

    /// Processes the next chunk: updates the run of speech, and ends the window after a long silence or at its maximum length.
    fn step(&mut self, probability: f32, windows: &mut Vec<Window>) {
        let start = self.processed_chunks * CHUNK;
        let end = (start + CHUNK).min(self.received);
        self.probabilities.push(probability);
        self.processed_chunks += 1;
        self.update_run(probability, start, end);

        if let Some(&(_, last)) = self.spans.last() {
            let silent_to = self.run.as_ref().map_or(end, |run| run.start);
            let is_full = self.spans.first().is_some_and(|first| last - first.0 >= self.limits.full_from);
            let longest_gap = if is_full { self.limits.full_gap } else { self.limits.max_gap };
            if silent_to - last > longest_gap {
                self.emit(windows);
            }
        }
        if let Some(from) = self.window_start()
            && end - from > self.limits.max_window
        {
            let half = from + self.limits.max_window / 2;
            match &self.run {
                Some(run) if self.spans.is_empty() || run.start < half => self.split(from, windows),
                _ => self.emit(windows),
            }
        }
    }

    /// Hysteresis: speech starts at `threshold` and ends where it stayed below `neg_threshold` for `min_silence`.
    fn update_run(&mut self, probability: f32, start: u64, end: u64) {
        let Some(run) = &mut self.run else {
            if probability >= self.limits.threshold || !self.limits.only_speech {
                self.run = Some(Run { start, pause: None, is_continuation: !self.limits.only_speech });
            }
            return;
        };
        if !self.limits.only_speech {
            return;
        }
        if probability >= self.limits.threshold {
            run.pause = None;
        } else if probability < self.limits.neg_threshold {
            run.pause.get_or_insert(start);
        }
        if let Some(pause) = run.pause
            && end - pause >= self.limits.min_silence
        {
            self.close_run(pause);
        }
    }

    fn close_run(&mut self, end: u64) {
        if let Some(run) = self.run.take() {
            let length = end.saturating_sub(run.start);
            if length > 0 && (run.is_continuation || length >= self.limits.min_speech) {
                self.spans.push((run.start, end));
            }
        }
    }

    /// The start of the current window, if it has speech.
    fn window_start(&self) -> Option<u64> {
        let first = self.spans.first().map(|span| span.0).or(self.run.as_ref().map(|run| run.start))?;
        Some(first.saturating_sub(self.limits.pad).max(self.previous_end))
    }

    /// Ends the window after its last complete span; a run in progress starts the next one.
    fn emit(&mut self, windows: &mut Vec<Window>) {
        let (Some(from), Some(&(_, last))) = (self.window_start(), self.spans.last()) else {
            return;
        };
        let seen = (self.processed_chunks * CHUNK).min(self.received);
        let mut to = (last + self.limits.pad).min(from + self.limits.max_window).min(seen);
        if let Some(run) = &self.run {
            // Two windows closer than their padding divide the silence between them.
            to = to.min(last + (run.start - last) / 2);
        }
        let speech = std::mem::take(&mut self.spans);
        windows.push(self.window(from, to, speech));
        self.previous_end = to;
    }

    /// Ends the window inside a run of speech that is too long for it.
    fn split(&mut self, from: u64, windows: &mut Vec<Window>) {
        let to = self.quietest(from + self.limits.max_window / 2, from + self.limits.max_window);
        let mut speech = std::mem::take(&mut self.spans);
        if let Some(run) = &mut self.run {
            speech.push((run.start, run.pause.map_or(to, |pause| pause.min(to))));
            run.start = to;
            run.is_continuation = true;
        }
        windows.push(self.window(from, to, speech));
        self.previous_end = to;
    }

    /// The middle of the quietest chunk that starts in `from..to`, smoothed over 160 ms: lowest probability, then lowest
    /// level, then latest. The last half second is excluded, so that the remainder is not too short.
    fn quietest(&self, from: u64, to: u64) -> u64 {
        let first = from.div_ceil(CHUNK);
        let last = (to.saturating_sub(SAMPLE_RATE as u64 / 2) / CHUNK).max(first + 1);
        // Two chunks on either side; all exist, since `from` and `to` are well inside the buffer.
        let (low, high) = ((first - 2 - self.first_chunk) as usize, (last + 2 - self.first_chunk) as usize);
        let rms: Vec<f32> = self.samples[low * CHUNK as usize..high * CHUNK as usize]
            .chunks_exact(CHUNK as usize)
            .map(|chunk| (chunk.iter().map(|x| x * x).sum::<f32>() / CHUNK as f32).sqrt())
            .collect();
        let smooth = |values: &[f32]| -> Vec<f32> { values.windows(5).map(|w| w.iter().sum::<f32>() / 5.0).collect() };
        let probabilities = smooth(&self.probabilities[low..high]);
        let rms = smooth(&rms);
        let loudest = rms.iter().copied().fold(f32::MIN_POSITIVE, f32::max);
        let candidates = rms.len();
        let score = |i: usize| {
            let early = 1.0 - i as f32 / candidates as f32;
            probabilities[i] + 0.5 * rms[i] / loudest + 0.1 * early
        };
        let best = (0..candidates).min_by(|&a, &b| score(a).total_cmp(&score(b))).unwrap_or(candidates);
        (first + best as u64) * CHUNK + CHUNK / 2
    }

    /// The spans of speech between two samples, where windows contain other sound, too.
    fn speech_between(&self, from: u64, to: u64) -> Vec<(u64, u64)> {
        let mut spans: Vec<(u64, u64)> = Vec::new();
        for chunk in from / CHUNK..to.div_ceil(CHUNK) {
            if self.probabilities[(chunk - self.first_chunk) as usize] < self.limits.threshold {
                continue;
            }
            let (start, end) = ((chunk * CHUNK).max(from), ((chunk + 1) * CHUNK).min(to));
            match spans.last_mut() {
                Some(last) if start - last.1 < self.limits.min_silence => last.1 = end,
                _ => spans.push((start, end)),
            }
        }
        spans.retain(|span| span.1 - span.0 >= self.limits.min_speech);
        spans
    }

    fn window(&self, from: u64, to: u64, speech: Vec<(u64, u64)>) -> Window {
        let speech = if self.limits.only_speech { speech } else { self.speech_between(from, to) };
        let buffer_start = self.first_chunk * CHUNK;
        let samples = self.samples[(from - buffer_start) as usize..(to - buffer_start) as usize].to_vec();
        let of = |from: u64, to: u64| {
            &self.probabilities
                [(from / CHUNK - self.first_chunk) as usize..(to.div_ceil(CHUNK) - self.first_chunk) as usize]
        };
        let (mut sum, mut count, mut length) = (0.0, 0, 0);
        for &(from, to) in &speech {
            sum += of(from, to).iter().sum::<f32>();
            count += of(from, to).len();
            length += to - from;
        }
        let stats = SpeechStats {
            speech_seconds: length as f32 / SAMPLE_RATE,
            mean_probability: sum / count.max(1) as f32,
            peak_probability: of(from, to.min(self.processed_chunks * CHUNK)).iter().copied().fold(0.0, f32::max),
        };
        Window { start: from, samples, speech, stats }
    }

    /// Drops audio that no window needs any more.
    fn drop_consumed(&mut self) {
        let needed = self.window_start().unwrap_or((self.processed_chunks * CHUNK).saturating_sub(self.limits.pad));
        let chunk = (needed / CHUNK).min(self.processed_chunks);
        // Not on every call, since the rest is moved to the front.
        if chunk - self.first_chunk >= 32 {
            let drop = (chunk - self.first_chunk) as usize;
            self.samples.drain(..drop * CHUNK as usize);
            self.probabilities.drain(..drop);
            self.first_chunk = chunk;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(start: u64, first_speech: u64, length: usize) -> Window {
        let stats = SpeechStats { speech_seconds: 1.0, mean_probability: 0.9, peak_probability: 1.0 };
        Window { start, samples: vec![0.1; length], speech: vec![(first_speech, start + length as u64)], stats }
    }

    #[test]
    fn only_a_recording_that_begins_with_speech_gets_leading_silence() {
        assert_eq!(window(0, 0, 50_000).leading_silence(0.4), 6400);
        assert_eq!(window(0, 1000, 50_000).leading_silence(0.4), 5400);
        assert_eq!(window(0, 6400, 50_000).leading_silence(0.4), 0);
        assert_eq!(window(48_000, 48_000, 50_000).leading_silence(0.4), 0);
        assert_eq!(window(0, 0, 480_000 - 10).leading_silence(0.4), 10);
        assert_eq!(window(0, 0, 480_000).leading_silence(0.4), 0);
    }

    #[test]
    fn a_part_of_a_window_keeps_its_place_in_the_recording_and_the_speech_inside_it() {
        let mut whole = window(32_000, 32_000, 160_000);
        whole.samples = (0..160_000).map(|sample| sample as f32).collect();
        whole.speech = vec![(32_000, 40_000), (50_000, 90_000), (120_000, 130_000)];
        // From 1.8 s to 4.2 s of the window: a fifth of a second more on both sides.
        let sub_window = whole.sub_window(2.0, 4.0);
        assert_eq!((sub_window.start, sub_window.end()), (60_800, 99_200));
        assert_eq!((sub_window.samples[0], sub_window.samples.last()), (28_800.0, Some(&67_199.0)));
        assert_eq!(sub_window.speech, [(60_800, 90_000)]);
        // There is no more audio at the ends.
        assert_eq!(whole.sub_window(0.1, 99.0), whole);
    }
}
