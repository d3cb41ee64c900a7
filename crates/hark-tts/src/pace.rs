//! How quickly somebody talks, and 24 kHz samples at 16 kHz.

/// Samples of a second.
const RATE: usize = 16_000;
/// Samples of a step of the envelope: 10 ms.
const STEP: usize = RATE / 100;
/// Steps on each side over which the envelope is smoothed: what is quicker than a syllable goes.
const SMOOTH: usize = 5;
/// A syllable rises by this factor above the dip before it.
const RISE: f32 = 1.25;
/// What is below this part of the loudest is a pause.
const PAUSE: f32 = 0.08;

/// Syllables in a second of speech, pauses not counted, by the peaks of the envelope (16 kHz); none where there is too little speech.
pub(crate) fn syllables_per_second(samples: &[f32]) -> Option<f32> {
    let energy: Vec<f32> =
        samples.chunks_exact(STEP).map(|step| (step.iter().map(|x| x * x).sum::<f32>() / STEP as f32).sqrt()).collect();
    let smooth: Vec<f32> = (0..energy.len())
        .map(|at| {
            let near = &energy[at.saturating_sub(SMOOTH)..(at + SMOOTH + 1).min(energy.len())];
            near.iter().sum::<f32>() / near.len() as f32
        })
        .collect();
    let threshold = smooth.iter().fold(0f32, |most, x| most.max(*x)) * PAUSE;
    let speech = smooth.iter().filter(|x| **x > threshold).count();
    let (mut peaks, mut dip, mut top, mut is_rising) = (0, f32::MAX, 0f32, false);
    for x in smooth {
        if is_rising {
            top = top.max(x);
            if x * RISE < top {
                peaks += usize::from(top > threshold);
                (is_rising, dip) = (false, x);
            }
        } else {
            dip = dip.min(x);
            if x > dip * RISE {
                (is_rising, top) = (true, x);
            }
        }
    }
    (peaks >= 3 && speech >= 50).then(|| peaks as f32 * 100.0 / speech as f32)
}

/// Samples of the filter on each side, in samples of 24 kHz.
const SIDE: isize = 24;
/// Where the filter lets half through, as a part of 12 kHz: a little below 8 kHz.
const CUTOFF: f64 = 0.63;

/// 24 kHz samples at 16 kHz: two for every three, through a windowed sinc.
pub(crate) fn to_16_khz(samples: &[f32]) -> Vec<f32> {
    // An output lies on an input or in the middle between two.
    let table = |offset: f64| -> Vec<f32> {
        let weight = |tap: isize| {
            let x = tap as f64 - offset;
            let sinc =
                if x == 0.0 { CUTOFF } else { (std::f64::consts::PI * CUTOFF * x).sin() / (std::f64::consts::PI * x) };
            let window = (std::f64::consts::PI * x / (2 * (SIDE + 1)) as f64).cos();
            sinc * window * window
        };
        let weights: Vec<f64> = (-SIDE..=SIDE + 1).map(weight).collect();
        let sum: f64 = weights.iter().sum();
        weights.iter().map(|weight| (weight / sum) as f32).collect()
    };
    let tables = [table(0.0), table(0.5)];
    let sample = |index: usize| {
        let first = (index * 3 / 2) as isize - SIDE;
        let taps = tables[index % 2].iter().enumerate();
        taps.map(|(tap, weight)| samples.get((first + tap as isize) as usize).map_or(0.0, |x| x * weight)).sum()
    };
    (0..samples.len() * 2 / 3).map(sample).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tone(rate: f32, hertz: f32, seconds: f32) -> Vec<f32> {
        (0..(rate * seconds) as usize).map(|n| (n as f32 * hertz * std::f32::consts::TAU / rate).sin()).collect()
    }

    #[test]
    fn a_tone_keeps_its_pitch_and_height_and_what_16_khz_cannot_hold_is_gone() {
        let resampled = to_16_khz(&tone(24_000.0, 1_000.0, 0.5));
        let exact = tone(16_000.0, 1_000.0, 0.5);
        assert_eq!(resampled.len(), exact.len());
        let middle = 100..exact.len() - 100;
        assert!(middle.clone().all(|n| (resampled[n] - exact[n]).abs() < 1e-2));
        let high = to_16_khz(&tone(24_000.0, 10_500.0, 0.5));
        assert!(middle.clone().all(|n| high[n].abs() < 0.02));
    }

    #[test]
    fn syllables_are_the_bursts_of_the_envelope() {
        for per_second in [3.0f32, 5.0] {
            let bursts: Vec<f32> = tone(16_000.0, 200.0, 4.0)
                .iter()
                .enumerate()
                .map(|(n, x)| x * (0.55 - 0.45 * (n as f32 / 16_000.0 * per_second * std::f32::consts::TAU).cos()))
                .collect();
            let found = syllables_per_second(&bursts).unwrap();
            assert!((found - per_second).abs() < 0.4, "{found} of {per_second}");
        }
        assert_eq!(syllables_per_second(&[0.0; 32_000]), None);
    }
}
