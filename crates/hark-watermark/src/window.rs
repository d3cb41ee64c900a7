//! Looking for the mark in one window of some seconds: alignment first, then the payload.

use crate::code::{Code, RATE};
use crate::features::{Features, Frames, STEP_S};
use crate::key::Key;
use crate::pattern::{BANDS, PERIOD, Pattern, Role, SLOT_S};
use crate::payload::{BITS, Payload};

/// Speeds are searched this far to both sides, in steps this far apart: over ten seconds half a step is 12 ms.
const SPEED_RANGE: f64 = 0.06;
const SPEED_STEP: f64 = 0.0025;
/// Alignments of one speed that are kept, and of all speeds that are decoded.
const KEPT: usize = 6;
const ATTEMPTS: usize = 12;
/// Below this a score says nothing: every search of so many alignments finds one.
const MIN_SYNC: f64 = 3.5;
/// The natural logarithm of the probability that is let through as a false alarm of one window: 1e-9.
const FALSE_ALARM: f64 = -20.7;
/// Payloads of the version that is read: 64 bits.
const PAYLOADS: f64 = 64.0 * std::f64::consts::LN_2;

/// How the sound was stretched.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Stretch {
    /// Frequencies relative to those that were marked.
    pub(crate) pitch: f64,
    /// Speed relative to that which was marked.
    pub(crate) speed: f64,
}

/// One alignment of the pattern.
#[derive(Clone, Copy, Debug)]
struct Alignment {
    stretch: Stretch,
    /// The slot of the period that lies at the first measurement of this phase.
    slot: usize,
    /// Measurements after the begin.
    phase: usize,
    /// The score of the synchronization cells.
    score: f64,
}

impl Alignment {
    /// Where the period begins, in seconds of the marked sound.
    fn begin(&self) -> f64 {
        (self.slot as f64 * SLOT_S - self.phase as f64 * STEP_S * self.stretch.speed).rem_euclid(PERIOD as f64 * SLOT_S)
    }

    fn is_near(&self, other: &Self) -> bool {
        (self.begin() - other.begin()).abs() < 0.4 * SLOT_S
            && (self.stretch.speed - other.stretch.speed).abs() < 1.5 * SPEED_STEP
    }
}

/// What a window showed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub(crate) payload: Option<Payload>,
    /// The score of all cells where the payload was read, else of the synchronization cells.
    pub(crate) score: f64,
    /// The natural logarithm of the bound on the probability that a sound without the mark shows this.
    pub(crate) log_false_alarm: f64,
    pub(crate) stretch: Stretch,
    /// The share of coded bits that the error correction turned, where the payload was read.
    pub(crate) corrected: Option<f64>,
}

impl Reading {
    pub(crate) fn is_present(&self) -> bool {
        self.log_false_alarm <= FALSE_ALARM
    }
}

/// Features summed over the periods, for each phase and slot of the period.
struct Folded {
    rows: Vec<[f32; BANDS]>,
    phases: usize,
}

/// One phase of folded features by band: each column is written twice, so that a period from any slot lies in one piece.
struct Columns([[f32; 2 * PERIOD]; BANDS]);

impl Columns {
    fn new(rows: &[[f32; BANDS]]) -> Self {
        let mut columns = [[0f32; 2 * PERIOD]; BANDS];
        for (slot, row) in rows.iter().enumerate() {
            for (column, &value) in columns.iter_mut().zip(row) {
                column[slot] = value;
                column[slot + PERIOD] = value;
            }
        }
        Columns(columns)
    }
}

impl Folded {
    fn new(features: &Features, speed: f64) -> Self {
        let distance = SLOT_S / speed / STEP_S;
        let phases = distance.ceil() as usize;
        let mut rows = vec![[0f32; BANDS]; phases * PERIOD];
        for (at, slot) in (0..).map(|slot| ((slot as f64 * distance).round() as usize, slot % PERIOD)) {
            let Some(features) = features.rows().get(at..) else { break };
            for (phase, features) in features.iter().take(phases).enumerate() {
                for (sum, feature) in rows[phase * PERIOD + slot].iter_mut().zip(features) {
                    *sum += feature;
                }
            }
        }
        Folded { rows, phases }
    }

    fn phase(&self, phase: usize) -> &[[f32; BANDS]] {
        &self.rows[phase * PERIOD..][..PERIOD]
    }
}

/// Reads windows with one key.
pub(crate) struct WindowReader {
    pattern: Pattern,
    /// The synchronization cells: slot, band and sign.
    sync: Vec<(usize, usize, f32)>,
    code: Code,
}

impl WindowReader {
    pub(crate) fn new(key: &Key) -> Self {
        let pattern = Pattern::new(key);
        let cells = (0..PERIOD).flat_map(|slot| pattern.slot(slot).iter().enumerate().map(move |cell| (slot, cell)));
        let sync = cells.filter(|(_, (_, cell))| cell.role == Role::Sync);
        WindowReader {
            sync: sync.map(|(slot, (band, cell))| (slot, band, cell.sign)).collect(),
            pattern,
            code: Code::new(),
        }
    }

    /// Looks for the mark, first as it was stretched in the window before. None when it was cancelled.
    pub(crate) fn read(
        &self,
        samples: &[f32],
        rate: u32,
        before: Option<Stretch>,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Option<Reading> {
        let frames = Frames::measure(samples, rate);
        if let Some(stretch) = before {
            let mut found = Vec::new();
            let tried = self.align(&frames.features(stretch.pitch), stretch, &mut found);
            let reading = self.decode_best(&frames, found, tried);
            if reading.payload.is_some() && reading.is_present() {
                return Some(reading);
            }
        }
        let mut found = Vec::new();
        let mut tried = 0;
        let steps = (SPEED_RANGE / SPEED_STEP).round() as i32;
        let speeds = || (-steps..=steps).map(|step| 1.0 + f64::from(step) * SPEED_STEP);
        for speed in speeds() {
            if is_cancelled() {
                return None;
            }
            tried += self.align(&frames.features(speed), Stretch { pitch: speed, speed }, &mut found);
        }
        // Tempo changed, pitch kept.
        let features = frames.features(1.0);
        for speed in speeds().filter(|&speed| speed != 1.0) {
            tried += self.align(&features, Stretch { pitch: 1.0, speed }, &mut found);
        }
        if is_cancelled() { None } else { Some(self.decode_best(&frames, found, tried)) }
    }

    /// Scores the known pattern at every offset and keeps the best; says how many there were.
    fn align(&self, features: &Features, stretch: Stretch, found: &mut Vec<Alignment>) -> usize {
        let folded = Folded::new(features, stretch.speed);
        let mut alignments = Vec::with_capacity(folded.phases * PERIOD);
        for phase in 0..folded.phases {
            let columns = Columns::new(folded.phase(phase));
            // For all offsets at once: with the pattern's slot `s` at the first row, a cell of slot `c` lies in row `c - s`.
            let (mut sums, mut squares) = ([0f32; PERIOD], [0f32; PERIOD]);
            for &(slot, band, sign) in &self.sync {
                let column = &columns.0[band][slot + 1..][..PERIOD];
                for ((sum, square), value) in sums.iter_mut().zip(&mut squares).zip(column) {
                    *sum += sign * value;
                    *square += value * value;
                }
            }
            // The row `r` beyond `slot + 1` belongs to the offset `PERIOD - 1 - r`.
            for (slot, (sum, square)) in (0..PERIOD).rev().zip(sums.iter().zip(&squares)) {
                let score = f64::from(sum / square.sqrt().max(f32::MIN_POSITIVE));
                alignments.push(Alignment { stretch, slot, phase, score });
            }
        }
        let tried = alignments.len();
        if tried > KEPT {
            alignments.select_nth_unstable_by(KEPT, |a, b| b.score.total_cmp(&a.score));
            alignments.truncate(KEPT);
        }
        found.append(&mut alignments);
        tried
    }

    /// Decodes the best alignments until one gives a payload.
    fn decode_best(&self, frames: &Frames, mut found: Vec<Alignment>, tried: usize) -> Reading {
        found.sort_by(|a, b| b.score.total_cmp(&a.score));
        let mut best: Vec<Alignment> = Vec::with_capacity(ATTEMPTS);
        for alignment in found {
            // A second alignment beside a better one may be the one that reads, a third is not.
            if best.len() < ATTEMPTS && best.iter().filter(|other| other.is_near(&alignment)).count() < 2 {
                best.push(alignment);
            }
        }
        let log_tried = (tried.max(1) as f64).ln();
        let unstretched = Stretch { pitch: 1.0, speed: 1.0 };
        let first = best.first().map_or((0.0, unstretched), |best| (best.score.max(0.0), best.stretch));
        for alignment in best.iter().take_while(|alignment| alignment.score >= MIN_SYNC) {
            let folded = Folded::new(&frames.features(alignment.stretch.pitch), alignment.stretch.speed);
            if let Some((payload, score, corrected)) = self.decode(folded.phase(alignment.phase), alignment.slot) {
                let log_false_alarm = log_tried + PAYLOADS - score * score / 2.0;
                let (payload, stretch) = (Some(payload), alignment.stretch);
                let reading = Reading { payload, score, log_false_alarm, stretch, corrected: Some(corrected) };
                if reading.is_present() {
                    return reading;
                }
            }
        }
        let (score, stretch) = first;
        Reading { payload: None, score, log_false_alarm: log_tried - score * score / 2.0, stretch, corrected: None }
    }

    /// The payload at an alignment, the score of all cells with it, and the share of coded bits that were wrong, if its checksum is right.
    fn decode(&self, rows: &[[f32; BANDS]], slot: usize) -> Option<(Payload, f64, f64)> {
        let cells = || {
            let slots = rows.iter().enumerate().map(|(at, row)| (self.pattern.slot(slot + at), row));
            slots.flat_map(|(cells, row)| cells.iter().zip(row).map(|(cell, value)| (cell.role, cell.sign * value)))
        };
        let mut soft = vec![0f32; BITS * RATE];
        for (role, value) in cells() {
            if let Role::Coded(at) = role {
                soft[usize::from(at)] += value;
            }
        }
        let bits: [bool; BITS] = self.code.decode(&soft).try_into().ok()?;
        let payload = Payload::from_bits(&bits)?;
        let coded = self.code.encode(&bits);
        let wrong = coded.iter().zip(&soft).filter(|&(&bit, &soft)| bit != (soft > 0.0)).count();
        let (mut sum, mut squares) = (0f64, 0f64);
        for (role, value) in cells() {
            let is_plus = match role {
                Role::Sync => true,
                Role::Coded(at) => coded[usize::from(at)],
            };
            sum += f64::from(if is_plus { value } else { -value });
            squares += f64::from(value * value);
        }
        Some((payload, sum / squares.sqrt().max(f64::MIN_POSITIVE), wrong as f64 / coded.len() as f64))
    }
}
