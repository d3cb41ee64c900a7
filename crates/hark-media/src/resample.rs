//! Any sample rate to any other, as a stream of one channel.
//!
//! A polyphase windowed sinc. Output sample `k` lies at input time `k·from/to = i + p/L`; it is the dot product of the
//! `taps` input samples around `i` with row `p` of a table. The filter is flat to 92.5 % of the lower of the two Nyquist
//! frequencies (7.4 kHz to 16 kHz from anything above) and 90 dB down from that Nyquist frequency on, so nothing folds back. It
//! is symmetric about the output's own time: there is no delay, and `n` samples in give `ceil(n·to/from)` out.
//!
//! Cost: `taps` multiply-adds an output sample, 432 from 44.1 to 16 kHz. There the table has 160 rows and fills the second-level
//! cache, so outputs of one phase from several periods are made together: each row is loaded once for all of them.

use std::sync::{Arc, Mutex, PoisonError};

use crate::SAMPLE_RATE;
use hark_compute::vector::{LINE, Vectors};

/// The lowest and highest input rates: below, a few bytes would blow up to minutes; above, no recorder works.
pub(crate) const RATES: std::ops::RangeInclusive<u32> = 2_000..=768_000;
/// The lowest and highest output rates; from the highest input rate to the lowest of these a filter has 16,000 taps.
pub(crate) const OUTPUT_RATES: std::ops::RangeInclusive<u32> = 8_000..=192_000;

/// Width of the transition band as a share of the lower Nyquist frequency.
const TRANSITION: f64 = 0.075;
/// Attenuation the window is designed for; 90 dB is promised, the rest is margin for the Kaiser estimate.
const ATTENUATION_DB: f64 = 96.0;
/// Periods of the phases made together. Eight sums hide the latency of the multiply-adds and fit the registers of AVX2.
const PERIODS: usize = 8;
/// Rates with a larger exact table share one of `COARSE_PHASES` rows and interpolate between neighbours.
const MAX_TABLE: usize = 1 << 20;
/// Linear interpolation between 512 phases errs by (π/512)²/8, 106 dB down.
const COARSE_PHASES: u32 = 512;

/// Largest table that is cached, in coefficients: 16 MB. Only odd rates far above the output's have larger ones.
const MAX_CACHED: usize = 1 << 22;

/// The filter for one pair of rates.
struct Table {
    from: u32,
    to: u32,
    /// Output steps to input steps in lowest terms: each output sample advances the input by `step / phases`.
    phases: u64,
    step: u64,
    taps: usize,
    /// `rows` rows of `taps` coefficients; row `r` is for an offset of `r / (rows - 1)` or `r / rows`, see `interpolated`.
    coefficients: Vec<f32>,
    interpolated: bool,
}

impl Table {
    fn new(from: u32, to: u32) -> Self {
        let divisor = gcd(from, to);
        let phases = to / divisor;
        let nyquist = f64::from(from.min(to)) / 2.0;
        let width = std::f64::consts::TAU * TRANSITION * nyquist / f64::from(from);
        // Kaiser's estimate of the length for this attenuation and transition width.
        let length = (ATTENUATION_DB - 7.95) / (2.285 * width) + 1.0;
        let taps = (length.ceil() as usize).next_multiple_of(LINE);
        let interpolated = phases as usize * taps > MAX_TABLE;
        let grid = if interpolated { COARSE_PHASES } else { phases } as usize;
        let half = taps / 2;

        // The filter is even, so its value at every distance |m| / grid is computed once and read by two phases.
        let beta = 0.1102 * (ATTENUATION_DB - 8.7);
        let cutoff = nyquist * (1.0 - TRANSITION / 2.0) / f64::from(from);
        let prototype: Vec<f64> = (0..=half * grid)
            .map(|m| {
                let distance = m as f64 / grid as f64;
                let edge = distance / half as f64;
                let window = bessel_i0(beta * (1.0 - edge * edge).max(0.0).sqrt()) / bessel_i0(beta);
                2.0 * cutoff * sinc(2.0 * cutoff * distance) * window
            })
            .collect();
        let rows = grid + usize::from(interpolated);
        let mut coefficients = Vec::with_capacity(rows * taps);
        for phase in 0..rows {
            // Tap `j` meets the input sample at `i - half + 1 + j`.
            let at = |tap: usize| prototype[((half - 1) * grid + phase).abs_diff(tap * grid).min(half * grid)];
            let sum: f64 = (0..taps).map(at).sum();
            coefficients.extend((0..taps).map(|tap| (at(tap) / sum) as f32));
        }
        Table { from, to, phases: u64::from(phases), step: u64::from(from / divisor), taps, coefficients, interpolated }
    }

    /// The table for a pair of rates, cached for the next stream: building one takes milliseconds.
    fn shared(from: u32, to: u32) -> Arc<Table> {
        static CACHE: Mutex<Vec<Arc<Table>>> = Mutex::new(Vec::new());
        const CACHED: usize = 8;
        let find = |cache: &[Arc<Table>]| cache.iter().find(|table| (table.from, table.to) == (from, to)).cloned();
        if let Some(table) = find(&CACHE.lock().unwrap_or_else(PoisonError::into_inner)) {
            return table;
        }
        let table = Arc::new(Table::new(from, to));
        let mut cache = CACHE.lock().unwrap_or_else(PoisonError::into_inner);
        if find(&cache).is_none() && table.coefficients.len() <= MAX_CACHED {
            if cache.len() == CACHED {
                cache.remove(0);
            }
            cache.push(table.clone());
        }
        table
    }
}

/// Turns a stream of samples of one channel at one rate into another rate.
pub struct Resampler {
    /// None when both rates are the same.
    table: Option<Arc<Table>>,
    /// The input still needed; `input[0]` is what the first tap of the next output meets, once `skip` more have gone by.
    input: Vec<f32>,
    skip: usize,
    phase: u64,
    taken: u64,
    given: u64,
    vectors: Vectors,
}

impl Resampler {
    /// A resampler to 16 kHz from `rate`, which must lie between 2 kHz and 768 kHz.
    pub fn new(rate: u32) -> Self {
        Self::between(rate, SAMPLE_RATE)
    }

    /// A resampler from a rate between 2 kHz and 768 kHz to one between 8 kHz and 192 kHz.
    ///
    /// # Panics
    /// When a rate lies outside.
    pub fn between(from: u32, to: u32) -> Self {
        assert!(RATES.contains(&from) && OUTPUT_RATES.contains(&to), "unchecked sample rates {from}, {to}");
        let table = (from != to).then(|| Table::shared(from, to));
        // The first output lies at input 0: its earlier taps meet the silence before the recording.
        let before = table.as_ref().map_or(0, |table| table.taps / 2 - 1);
        Resampler { table, input: vec![0.0; before], skip: 0, phase: 0, taken: 0, given: 0, vectors: Vectors::best() }
    }

    /// Takes `samples` in and appends the output they complete.
    pub fn push(&mut self, samples: &[f32], out: &mut Vec<f32>) {
        self.taken += samples.len() as u64;
        let before = out.len();
        match self.table.clone() {
            None => out.extend_from_slice(samples),
            Some(table) => {
                self.input.extend_from_slice(samples);
                self.run(&table, u64::MAX, out);
            }
        }
        self.given += (out.len() - before) as u64;
    }

    /// Appends the end of the output, as if silence followed the input.
    pub fn finish(&mut self, out: &mut Vec<f32>) {
        if let Some(table) = self.table.take() {
            let total = (u128::from(self.taken) * u128::from(table.phases)).div_ceil(u128::from(table.step)) as u64;
            let wanted = total - self.given;
            self.input.resize(self.input.len() + table.taps, 0.0);
            self.run(&table, wanted, out);
            self.given += wanted;
        }
    }

    /// Gives [`PERIODS`] periods of the phases at once while the input lasts, and at the end (when `most` is known) the rest one
    /// by one; then forgets the input they are done with.
    fn run(&mut self, table: &Table, most: u64, out: &mut Vec<f32>) {
        let Table { taps, phases, step, .. } = *table;
        let (period, stride) = (phases as usize, step as usize);
        let (whole, part) = ((step / phases) as usize, step % phases);
        let together = !table.interpolated && most == u64::MAX;
        let mut at = self.skip;
        while together && at + PERIODS * stride + taps <= self.input.len() {
            let base = out.len();
            out.resize(base + PERIODS * period, 0.0);
            let (mut phase, mut from) = (self.phase, at);
            for i in 0..period {
                let row = &table.coefficients[phase as usize * taps..][..taps];
                let samples = self.vectors.dots::<PERIODS>(&self.input[from..], stride, row);
                for (later, sample) in samples.into_iter().enumerate() {
                    out[base + later * period + i] = sample;
                }
                phase += part;
                from += whole;
                if phase >= phases {
                    phase -= phases;
                    from += 1;
                }
            }
            at += PERIODS * stride;
        }
        let mut given = 0;
        while !together && at + taps <= self.input.len() && given < most {
            let input = &self.input[at..at + taps];
            let sample = if table.interpolated {
                let place = self.phase as f64 * f64::from(COARSE_PHASES) / phases as f64;
                let row = place as usize;
                let share = (place - row as f64) as f32;
                let rows = &table.coefficients[row * taps..(row + 2) * taps];
                let [near] = self.vectors.dots::<1>(input, 0, &rows[..taps]);
                let [far] = self.vectors.dots::<1>(input, 0, &rows[taps..]);
                near + share * (far - near)
            } else {
                let row = self.phase as usize * taps;
                let [sample] = self.vectors.dots::<1>(input, 0, &table.coefficients[row..row + taps]);
                sample
            };
            out.push(sample);
            given += 1;
            self.phase += part;
            at += whole;
            if self.phase >= phases {
                self.phase -= phases;
                at += 1;
            }
        }
        let gone = at.min(self.input.len());
        self.input.drain(..gone);
        self.skip = at - gone;
    }
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn sinc(x: f64) -> f64 {
    let x = std::f64::consts::PI * x;
    if x.abs() < 1e-12 { 1.0 } else { x.sin() / x }
}

/// The modified Bessel function of order zero, by its power series.
fn bessel_i0(x: f64) -> f64 {
    let quarter = x * x / 4.0;
    let (mut term, mut sum, mut k) = (1.0, 1.0, 1.0);
    while term > sum * 1e-14 {
        term *= quarter / (k * k);
        sum += term;
        k += 1.0;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tone(rate: u32, hertz: f64, count: usize) -> Vec<f32> {
        (0..count).map(|i| (std::f64::consts::TAU * hertz * i as f64 / f64::from(rate)).sin() as f32).collect()
    }

    fn resampled(rate: u32, samples: &[f32]) -> Vec<f32> {
        resampled_to(rate, SAMPLE_RATE, samples)
    }

    fn resampled_to(from: u32, to: u32, samples: &[f32]) -> Vec<f32> {
        let mut out = Vec::new();
        let mut resampler = Resampler::between(from, to);
        resampler.push(samples, &mut out);
        resampler.finish(&mut out);
        out
    }

    /// Root mean square in decibels against a full-scale sine, the ends left out: there the tone is cut off.
    fn level_db(samples: &[f32]) -> f64 {
        let middle = &samples[1000..samples.len() - 1000];
        let power = middle.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / middle.len() as f64;
        10.0 * (2.0 * power).max(1e-30).log10()
    }

    const COMMON_RATES: [u32; 12] =
        [8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000, 88_200, 96_000, 192_000];
    /// Rates that share few factors with 16,000 and so take the interpolated table.
    const ODD_RATES: [u32; 3] = [44_099, 15_999, 96_001];

    #[test]
    fn tones_in_the_pass_band_arrive_unchanged_and_on_time() {
        for rate in COMMON_RATES.into_iter().chain(ODD_RATES) {
            let top = 0.925 * f64::from(rate.min(SAMPLE_RATE)) / 2.0;
            for hertz in [50.0, 440.0, 1000.0, 0.7 * top, 0.99 * top] {
                let out = resampled(rate, &tone(rate, hertz, rate as usize / 2));
                let want = tone(SAMPLE_RATE, hertz, out.len());
                let error: Vec<f32> = out.iter().zip(&want).map(|(a, b)| a - b).collect();
                let error = level_db(&error);
                assert!(error < -85.0, "{rate} Hz, tone of {hertz:.0} Hz: error {error:.1} dB");
            }
        }
    }

    #[test]
    fn tones_above_the_new_nyquist_frequency_vanish() {
        for rate in COMMON_RATES.into_iter().chain(ODD_RATES).filter(|&rate| rate > 17_000) {
            let nyquist = f64::from(rate) / 2.0;
            for hertz in [8_000.0, 8_050.0, 8_600.0, 9_000.0, 10_000.0, 15_900.0, 16_100.0, 20_000.0, 40_000.0] {
                if hertz < nyquist {
                    let level = level_db(&resampled(rate, &tone(rate, hertz, rate as usize / 2)));
                    assert!(level < -90.0, "{rate} Hz, tone of {hertz:.0} Hz: {level:.1} dB left");
                }
            }
        }
    }

    /// Pairs of rates in both directions, one of them with an interpolated table.
    const PAIRS: [(u32, u32); 9] = [
        (8_000, 48_000),
        (16_000, 44_100),
        (16_000, 48_000),
        (22_050, 24_000),
        (24_000, 48_000),
        (44_100, 48_000),
        (48_000, 44_100),
        (48_000, 24_000),
        (44_099, 48_000),
    ];

    #[test]
    fn any_pair_of_rates_keeps_tones_their_length_and_nothing_else() {
        for (from, to) in PAIRS {
            let lower = f64::from(from.min(to)) / 2.0;
            for hertz in [440.0, 0.5 * lower, 0.9 * lower] {
                let out = resampled_to(from, to, &tone(from, hertz, from as usize / 2));
                assert_eq!(out.len(), (from as usize / 2 * to as usize).div_ceil(from as usize), "{from} to {to}");
                let want = tone(to, hertz, out.len());
                let rest: Vec<f32> = out.iter().zip(&want).map(|(a, b)| a - b).collect();
                assert!(level_db(&rest) < -85.0, "{from} to {to}, {hertz:.0} Hz: {:.1} dB", level_db(&rest));
            }
            let above = 1.02 * f64::from(to) / 2.0;
            if above < f64::from(from) / 2.0 {
                let level = level_db(&resampled_to(from, to, &tone(from, above, from as usize / 2)));
                assert!(level < -90.0, "{from} to {to}, {above:.0} Hz: {level:.1} dB left");
            }
        }
    }

    #[test]
    fn upsampling_leaves_no_image_above_the_old_nyquist_frequency() {
        // A tone of 3.4 kHz at 8 kHz has its image at 4.6 kHz: nothing but the tone may come out.
        let out = resampled(8_000, &tone(8_000, 3_400.0, 16_000));
        let want = tone(SAMPLE_RATE, 3_400.0, out.len());
        let rest: Vec<f32> = out.iter().zip(&want).map(|(a, b)| a - b).collect();
        assert!(level_db(&rest) < -90.0, "{}", level_db(&rest));
    }

    #[test]
    fn a_chirp_keeps_its_shape() {
        let chirp = |rate: u32, count: usize| -> Vec<f32> {
            (0..count)
                .map(|i| {
                    let t = i as f64 / f64::from(rate);
                    (std::f64::consts::TAU * (100.0 * t + 1_700.0 * t * t)).sin() as f32
                })
                .collect()
        };
        for rate in [44_100, 48_000, 96_000, 44_099] {
            let out = resampled(rate, &chirp(rate, 2 * rate as usize));
            let want = chirp(SAMPLE_RATE, out.len());
            let rest: Vec<f32> = out.iter().zip(&want).map(|(a, b)| a - b).collect();
            assert!(level_db(&rest) < -85.0, "{rate} Hz: {}", level_db(&rest));
        }
    }

    #[test]
    fn blocks_of_any_size_give_the_same_stream_as_one_piece() {
        for rate in [8_000, 16_000, 22_050, 44_100, 44_099, 96_000, 768_000] {
            let input = tone(rate, 700.0, 30_011);
            let whole = resampled(rate, &input);
            let mut out = Vec::new();
            let mut resampler = Resampler::new(rate);
            let mut rest = &input[..];
            for size in [1, 7, 0, 333, 2, 4096, 1].iter().cycle() {
                let (block, later) = rest.split_at((*size).min(rest.len()));
                resampler.push(block, &mut out);
                rest = later;
                if rest.is_empty() {
                    break;
                }
            }
            resampler.finish(&mut out);
            assert_eq!(out, whole, "{rate} Hz");
        }
    }

    #[test]
    fn the_output_is_exactly_as_long_as_the_input_lasts() {
        for rate in COMMON_RATES.into_iter().chain(ODD_RATES) {
            for count in [0, 1, 2, 159, 44_100, 100_003] {
                let want = (count as u64 * u64::from(SAMPLE_RATE)).div_ceil(u64::from(rate));
                assert_eq!(resampled(rate, &vec![0.1; count]).len() as u64, want, "{count} at {rate} Hz");
            }
        }
    }
}
