//! A peak limiter with lookahead: output never passes full scale, and the gain moves without steps.
//!
//! Each frame needs a gain of `min(1, ceiling / peak)` over its channels. The smallest that is needed within 5 ms is averaged over
//! 5 ms, so the gain has reached what a peak needs when the peak comes out. Sound that stays below the ceiling is not
//! changed at all.

use std::collections::VecDeque;

/// The largest 16-bit sample.
const CEILING: f32 = 32767.0 / 32768.0;
/// Frames over which the gain moves: 5 ms.
const WINDOW: usize = 240;

/// Limits interleaved frames.
pub(crate) struct Limiter {
    channels: usize,
    /// Frames that wait for the gain that those after them need; `WINDOW - 1` of them between calls.
    held: VecDeque<f32>,
    /// Of the silence that `held` began with, samples still to be dropped.
    skip: usize,
    /// Frames so far.
    frame: u64,
    /// Frames since one needed a gain below 1.
    calm: usize,
    /// Needed gains of the last [`WINDOW`] frames that none after them undercuts, with their frames, smallest first.
    minima: VecDeque<(u64, f32)>,
    /// The smallest needed gains of the last [`WINDOW`] frames and their sum.
    smallest: VecDeque<f32>,
    sum: f64,
}

impl Limiter {
    pub(crate) fn new(channels: usize) -> Self {
        let ahead = (WINDOW - 1) * channels;
        Limiter {
            channels,
            held: vec![0.0; ahead].into(),
            skip: ahead,
            frame: 0,
            calm: 2 * WINDOW,
            minima: VecDeque::new(),
            smallest: vec![1.0; WINDOW].into(),
            sum: WINDOW as f64,
        }
    }

    /// Takes frames, and appends as many of those before them to `out`.
    pub(crate) fn process(&mut self, frames: &[f32], out: &mut Vec<f32>) {
        let from = out.len();
        if self.calm >= 2 * WINDOW && frames.iter().all(|sample| sample.abs() <= CEILING) {
            self.held.extend(frames);
            out.extend(self.held.drain(..frames.len()));
            self.frame += (frames.len() / self.channels) as u64;
        } else {
            for frame in frames.chunks(self.channels) {
                let gain = self.next_gain(frame);
                self.held.extend(frame);
                out.extend(self.held.drain(..self.channels).map(|sample| (sample * gain).clamp(-CEILING, CEILING)));
            }
        }
        let skipped = self.skip.min(out.len() - from);
        out.drain(from..from + skipped);
        self.skip -= skipped;
    }

    /// Appends what is still held.
    pub(crate) fn finish(&mut self, out: &mut Vec<f32>) {
        self.process(&vec![0.0; (WINDOW - 1) * self.channels], out);
    }

    /// The gain of the frame `WINDOW - 1` before this one.
    fn next_gain(&mut self, frame: &[f32]) -> f32 {
        let peak = frame.iter().fold(0f32, |peak, sample| peak.max(sample.abs()));
        let needed = if peak > CEILING { CEILING / peak } else { 1.0 };
        self.calm = if needed < 1.0 { 0 } else { self.calm.saturating_add(1) };
        while self.minima.back().is_some_and(|(_, gain)| *gain >= needed) {
            self.minima.pop_back();
        }
        self.minima.push_back((self.frame, needed));
        while self.minima.front().is_some_and(|(frame, _)| frame + WINDOW as u64 <= self.frame) {
            self.minima.pop_front();
        }
        self.frame += 1;
        let smallest = self.minima.front().map_or(1.0, |(_, gain)| *gain);
        let oldest = self.smallest.pop_front().unwrap_or(1.0);
        self.smallest.push_back(smallest);
        self.sum += f64::from(smallest) - f64::from(oldest);
        if self.calm >= 2 * WINDOW {
            // No rounding is left behind.
            self.sum = WINDOW as f64;
        }
        (self.sum / WINDOW as f64) as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limited(samples: &[f32], channels: usize, block: usize) -> Vec<f32> {
        let (mut limiter, mut out) = (Limiter::new(channels), Vec::new());
        samples.chunks(block * channels).for_each(|block| limiter.process(block, &mut out));
        limiter.finish(&mut out);
        out
    }

    #[test]
    fn sound_below_full_scale_passes_unchanged() {
        let samples: Vec<f32> = (0..5000).map(|n| (n as f32 * 0.37).sin() * 0.99).collect();
        for block in [1, 7, 480, 5000] {
            assert_eq!(limited(&samples, 2, block), samples);
        }
        assert!(limited(&[], 1, 1).is_empty());
    }

    #[test]
    fn peaks_stay_below_full_scale_without_steps_and_with_one_gain_for_all_channels() {
        let mut samples: Vec<f32> = (0..20_000).map(|n| (n as f32 * 0.05).sin() * 0.5).collect();
        for (at, peak) in [(0, -1.5), (3000, 4.0), (3001, -2.0), (9000, 1.2), (19_999, 3.0)] {
            samples[at] = peak;
        }
        for block in [1, 333, 10_000] {
            let out = limited(&samples, 2, block);
            assert_eq!(out.len(), samples.len());
            assert!(out.iter().all(|sample| sample.abs() <= CEILING));
            let gains: Vec<f32> = samples.iter().zip(&out).map(|(x, y)| y / x).collect();
            for (frame, pair) in gains.chunks(2).enumerate().skip(1) {
                assert!((pair[0] - pair[1]).abs() < 1e-5, "frame {frame}: {pair:?}");
            }
            // Over 240 frames the gain moves by at most 3/4.
            assert!(gains.windows(3).skip(1).all(|three| (three[2] - three[0]).abs() < 0.01));
            assert_eq!(out[12_000..18_000], samples[12_000..18_000], "far from peaks nothing changes");
            assert!((out[3000] - CEILING).abs() < 1e-3, "a peak is not made smaller than it must be: {}", out[3000]);
        }
    }
}
