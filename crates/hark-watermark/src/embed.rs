//! Marking a sound as it is written, block by block.

use std::collections::VecDeque;
use std::sync::Arc;

use realfft::num_complex::Complex;
use realfft::{ComplexToReal, RealFftPlanner, RealToComplex};

use crate::code::Code;
use crate::features::difference;
use crate::key::Key;
use crate::pattern::{BAND_HZ, BANDS, FRAME_SLOTS, HIGH_HZ, LOW_HZ, Pattern, Role, SLOT_S, WINDOW_S};
use crate::payload::Payload;
use crate::spectrum::Spectrum;
use crate::{MIN_RATE, WatermarkError};

/// The windows in which gains are applied: long enough to tell bands apart, short enough to tell slots apart.
const SYNTHESIS_S: f64 = 0.019;
/// By how much a symbol should stand out, in dB.
const TARGET_DB: f32 = 3.3;
/// The least and the most by which a cell is made louder or softer.
const LEAST_DB: f32 = 1.0;
const MOST_DB: f32 = 6.0;
/// Keeps digital silence finite.
const FLOOR: f32 = 1e-9;

/// Marks a stream of samples. Output follows input by about a third of a second.
pub struct Embedder {
    rate: u32,
    channels: usize,
    pattern: Pattern,
    /// +1 or -1 for each coded bit.
    coded: Vec<f32>,
    spectrum: Spectrum,
    synthesis: Synthesis,
    /// Interleaved input from frame `start` on.
    input: VecDeque<f32>,
    mono: VecDeque<f32>,
    start: i64,
    received: i64,
    is_ended: bool,
    /// Levels of the bands in dB for each slot, from slot `first_level` on.
    levels: VecDeque<[f32; BANDS]>,
    first_level: usize,
    next_level: usize,
    /// Factors of the bands less one for each slot, from slot `first_gain` on.
    gains: VecDeque<[f32; BANDS]>,
    first_gain: usize,
    next_gain: usize,
    sums: Vec<f64>,
    /// What is added to the input, interleaved, from frame `emitted` on.
    delta: VecDeque<f32>,
    emitted: i64,
    next_window: i64,
}

/// Overlapping windows whose bins are amplified or attenuated.
struct Synthesis {
    window: Vec<f32>,
    hop: usize,
    forward: Arc<dyn RealToComplex<f32>>,
    inverse: Arc<dyn ComplexToReal<f32>>,
    time: Vec<f32>,
    bins: Vec<Complex<f32>>,
    scratch: Vec<Complex<f32>>,
    /// The band of each bin.
    bands: Vec<Option<usize>>,
}

impl Synthesis {
    fn new(rate: u32) -> Self {
        let hop = (f64::from(rate) * SYNTHESIS_S / 4.0).round() as usize;
        let length = 4 * hop;
        let mut planner = RealFftPlanner::new();
        let (forward, inverse) = (planner.plan_fft_forward(length), planner.plan_fft_inverse(length));
        let scratch = forward.get_scratch_len().max(inverse.get_scratch_len());
        // The squares of the windows that overlap add up to 2; the inverse transform multiplies by the length.
        let window = (0..length).map(|at| {
            let phase = std::f64::consts::PI * (at as f64 + 0.5) / length as f64;
            phase.sin() as f32
        });
        let band = |bin: usize| {
            let hz = bin as f64 * f64::from(rate) / length as f64;
            let at = (hz - LOW_HZ) / BAND_HZ;
            (at >= 0.0 && at < BANDS as f64).then_some(at as usize)
        };
        Synthesis {
            window: window.collect(),
            hop,
            time: forward.make_input_vec(),
            bins: forward.make_output_vec(),
            scratch: vec![Complex::default(); scratch],
            bands: (0..=length / 2).map(band).collect(),
            forward,
            inverse,
        }
    }

    /// What gains, as factors less one, add to the windowed samples in `time`.
    fn apply(&mut self, gains: &[f32; BANDS]) {
        let length = self.window.len();
        let done = self.forward.process_with_scratch(&mut self.time, &mut self.bins, &mut self.scratch);
        debug_assert!(done.is_ok(), "the buffers are the plan's own");
        let scale = 0.5 / length as f32;
        for (bin, band) in self.bins.iter_mut().zip(&self.bands) {
            *bin *= band.map_or(0.0, |band| gains[band] * scale);
        }
        // Real transforms want real ends.
        self.bins[0].im = 0.0;
        self.bins[length / 2].im = 0.0;
        let done = self.inverse.process_with_scratch(&mut self.bins, &mut self.time, &mut self.scratch);
        debug_assert!(done.is_ok(), "the buffers are the plan's own");
    }
}

impl Embedder {
    /// An embedder of one payload, for interleaved samples of so many channels.
    pub fn new(rate: u32, channels: usize, payload: &Payload, key: &Key) -> Result<Self, WatermarkError> {
        if rate < MIN_RATE {
            return Err(WatermarkError::Rate { rate });
        }
        if channels == 0 {
            return Err(WatermarkError::Channels { samples: 0, channels });
        }
        let coded = Code::new().encode(&payload.to_bits());
        Ok(Embedder {
            rate,
            channels,
            pattern: Pattern::new(key),
            coded: coded.into_iter().map(|bit| if bit { 1.0 } else { -1.0 }).collect(),
            spectrum: Spectrum::new(rate, WINDOW_S, LOW_HZ, HIGH_HZ),
            synthesis: Synthesis::new(rate),
            input: VecDeque::new(),
            mono: VecDeque::new(),
            start: 0,
            received: 0,
            is_ended: false,
            levels: VecDeque::new(),
            first_level: 0,
            next_level: 0,
            gains: VecDeque::new(),
            first_gain: 0,
            next_gain: 0,
            sums: Vec::new(),
            delta: VecDeque::new(),
            emitted: 0,
            next_window: 0,
        })
    }

    /// Takes whole frames and appends those that are marked to `out`.
    pub fn push(&mut self, interleaved: &[f32], out: &mut Vec<f32>) -> Result<(), WatermarkError> {
        let channels = self.channels;
        if !interleaved.len().is_multiple_of(channels) {
            return Err(WatermarkError::Channels { samples: interleaved.len(), channels });
        }
        if let Some(index) = interleaved.iter().position(|sample| !sample.is_finite()) {
            return Err(WatermarkError::NotFinite { index: self.received as usize * channels + index });
        }
        self.received += (interleaved.len() / channels) as i64;
        self.input.extend(interleaved);
        self.mono.extend(interleaved.chunks_exact(channels).map(|frame| frame.iter().sum::<f32>()));
        self.advance(out);
        Ok(())
    }

    /// Appends the rest: as many frames have come out as went in.
    pub fn finish(mut self, out: &mut Vec<f32>) {
        self.is_ended = true;
        self.advance(out);
    }

    fn advance(&mut self, out: &mut Vec<f32>) {
        while self.measure_slot() {
            if self.next_level == self.next_gain + FRAME_SLOTS + 1 {
                self.choose_gains();
            }
        }
        while self.synthesize(out) {}
    }

    /// Measures the next slot if its sound has come. After the end there are slots of silence, as many as the last frame of slots needs.
    fn measure_slot(&mut self) -> bool {
        let slot = SLOT_S * f64::from(self.rate);
        let length = self.spectrum.length() as i64;
        let from = ((self.next_level as f64 + 0.5) * slot).round() as i64 - length / 2;
        let end = from + length;
        let is_due = if self.is_ended {
            from <= self.received + (slot * (FRAME_SLOTS + 2) as f64) as i64
        } else {
            end <= self.received
        };
        if !is_due {
            return false;
        }
        let (start, mono) = (self.start, &self.mono);
        let sample = |at: i64| usize::try_from(at - start).ok().and_then(|at| mono.get(at)).copied().unwrap_or(0.0);
        self.sums.clear();
        self.spectrum.accumulate((from..end).map(sample), &mut self.sums);
        let below = |band: usize| Spectrum::below(&self.sums, self.spectrum.place(LOW_HZ + BAND_HZ * band as f64));
        let level = |band: usize| 10.0 * ((below(band + 1) - below(band)) as f32 + FLOOR).log10();
        self.levels.push_back(std::array::from_fn(level));
        self.next_level += 1;
        true
    }

    /// Chooses the gains of the next frame of slots. A symbol that the sound itself already shows needs less, one that it contradicts more
    /// (informed embedding): that removes most of what the sound would disturb at the detector.
    fn choose_gains(&mut self) {
        let slots = self.next_gain..self.next_gain + FRAME_SLOTS;
        let symbol = |role: Role| match role {
            Role::Sync => self.coded.len(),
            Role::Coded(at) => usize::from(at),
        };
        let wanted = |role: Role| self.coded.get(symbol(role)).copied().unwrap_or(1.0);
        // How far each symbol already stands out, and in how many cells.
        let mut shown = vec![(0f32, 0f32); self.coded.len() + 1];
        for slot in slots.clone() {
            let levels = |slot: usize| &self.levels[slot - self.first_level];
            let before = levels(slot.max(self.first_level + 1) - 1);
            for (band, cell) in self.pattern.slot(slot).iter().enumerate() {
                let (sum, count) = &mut shown[symbol(cell.role)];
                *sum += cell.sign * wanted(cell.role) * difference(levels(slot), before, levels(slot + 1), band);
                *count += 1.0;
            }
        }
        for slot in slots {
            let cells = self.pattern.slot(slot);
            self.gains.push_back(std::array::from_fn(|band| {
                let role = cells[band].role;
                let (sum, count) = shown[symbol(role)];
                let strength = (TARGET_DB - sum / count).clamp(LEAST_DB, MOST_DB);
                10f32.powf(cells[band].sign * wanted(role) * strength / 20.0) - 1.0
            }));
        }
        self.next_gain += FRAME_SLOTS;
        // The last slot of this frame is the neighbour of the next frame's first.
        while self.first_level + 1 < self.next_gain {
            self.levels.pop_front();
            self.first_level += 1;
        }
    }

    /// Marks the next window if its sound and gains are there, and passes on what no later window changes.
    fn synthesize(&mut self, out: &mut Vec<f32>) -> bool {
        let (hop, length, channels) = (self.synthesis.hop as i64, self.synthesis.window.len() as i64, self.channels);
        let center = self.next_window * hop;
        let from = center - length / 2;
        let slot = (center as f64 / f64::from(self.rate) / SLOT_S) as usize;
        let is_short = from + length > self.received && !self.is_ended;
        if is_short || from >= self.received || slot >= self.next_gain {
            return false;
        }
        while self.first_gain < slot {
            self.gains.pop_front();
            self.first_gain += 1;
        }
        let end = ((from + length).min(self.received) - self.emitted).max(0) as usize * channels;
        if self.delta.len() < end {
            self.delta.resize(end, 0.0);
        }
        for channel in 0..channels {
            for at in 0..length {
                let frame = from + at - self.start;
                let sample = usize::try_from(frame).ok().and_then(|frame| self.input.get(frame * channels + channel));
                self.synthesis.time[at as usize] = self.synthesis.window[at as usize] * sample.copied().unwrap_or(0.0);
            }
            self.synthesis.apply(&self.gains[0]);
            for at in 0..length {
                if let Ok(frame) = usize::try_from(from + at - self.emitted)
                    && let Some(delta) = self.delta.get_mut(frame * channels + channel)
                {
                    *delta += self.synthesis.window[at as usize] * self.synthesis.time[at as usize];
                }
            }
        }
        self.next_window += 1;
        self.emit(from + hop, out);
        true
    }

    /// Passes frames on up to `end`, and forgets what no window needs any more.
    fn emit(&mut self, end: i64, out: &mut Vec<f32>) {
        let channels = self.channels;
        let count = (end.min(self.received) - self.emitted).max(0) as usize;
        let skip = (self.emitted - self.start) as usize * channels;
        for (at, delta) in self.delta.drain(..count * channels).enumerate() {
            let sample = self.input[skip + at];
            // A peak at full scale is not made to clip.
            let most = sample.abs().max(1.0);
            out.push((sample + delta).clamp(-most, most));
        }
        self.emitted += count as i64;
        // Windows of both kinds begin after this.
        let slot = (self.next_level as f64 * SLOT_S * f64::from(self.rate)) as i64;
        let first =
            (slot - self.spectrum.length() as i64).min(self.emitted).min(end - self.synthesis.window.len() as i64);
        let drop = (first - self.start).max(0) as usize;
        self.input.drain(..drop * channels);
        self.mono.drain(..drop);
        self.start += drop as i64;
    }
}

/// Marks a whole sound.
pub fn embed(
    interleaved: &[f32],
    rate: u32,
    channels: usize,
    payload: &Payload,
    key: &Key,
) -> Result<Vec<f32>, WatermarkError> {
    let mut embedder = Embedder::new(rate, channels, payload, key)?;
    let mut out = Vec::with_capacity(interleaved.len());
    embedder.push(interleaved, &mut out)?;
    embedder.finish(&mut out);
    Ok(out)
}
