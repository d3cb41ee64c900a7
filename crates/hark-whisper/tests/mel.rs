//! The log-mel spectrogram against its definition, written out in f64 with a plain Fourier sum.

use hark_whisper::mel::{LogMel, WINDOW_FRAMES, WINDOW_SAMPLES};
use std::f64::consts::PI;

/// The definition, step by step: pad, reflect, window, transform, bands, logarithm, clamp.
fn definition(pcm: &[f32], n_mels: usize) -> Vec<f32> {
    let mut padded = vec![0.0; WINDOW_SAMPLES];
    padded[..pcm.len()].copy_from_slice(pcm);
    let mut signal: Vec<f64> = Vec::new();
    signal.extend((1..=200).rev().map(|i| f64::from(padded[i])));
    signal.extend(padded.iter().map(|v| f64::from(*v)));
    signal.extend((2..=201).map(|i| f64::from(padded[WINDOW_SAMPLES - i])));

    let turn: Vec<(f64, f64)> = (0..400).map(|i| (2.0 * PI * i as f64 / 400.0).sin_cos()).collect();
    let filters = librosa_filters(n_mels);
    let mut logs = vec![0.0; WINDOW_FRAMES * n_mels];
    for frame in 0..WINDOW_FRAMES {
        let cut: Vec<f64> = (0..400).map(|i| signal[frame * 160 + i] * (0.5 - 0.5 * turn[i].1)).collect();
        if cut.iter().all(|v| *v == 0.0) {
            logs[frame * n_mels..][..n_mels].fill(-10.0);
            continue;
        }
        let power: Vec<f64> = (0..201)
            .map(|bin| {
                let (mut re, mut im) = (0.0, 0.0);
                for (i, v) in cut.iter().enumerate() {
                    let (sin, cos) = turn[bin * i % 400];
                    re += v * cos;
                    im -= v * sin;
                }
                re * re + im * im
            })
            .collect();
        for (mel, filter) in filters.iter().enumerate() {
            let sum: f64 = filter.iter().zip(&power).map(|(w, p)| w * p).sum();
            logs[frame * n_mels + mel] = sum.max(1e-10).log10();
        }
    }
    let loudest = logs.iter().fold(f64::MIN, |a, b| a.max(*b));
    logs.iter().map(|v| ((v.max(loudest - 8.0) + 4.0) / 4.0) as f32).collect()
}

/// librosa's way: corner frequencies, differences, two ramps, the lower of them, norm by width.
fn librosa_filters(n_mels: usize) -> Vec<Vec<f64>> {
    let logstep = 6.4f64.ln() / 27.0;
    let top = 15.0 + (8000.0f64 / 1000.0).ln() / logstep;
    let corners: Vec<f64> = (0..n_mels + 2)
        .map(|i| top * i as f64 / (n_mels + 1) as f64)
        .map(|mel| if mel >= 15.0 { 1000.0 * (logstep * (mel - 15.0)).exp() } else { mel * 200.0 / 3.0 })
        .collect();
    (0..n_mels)
        .map(|m| {
            (0..201)
                .map(|bin| {
                    let hertz = bin as f64 * 40.0;
                    let rising = (hertz - corners[m]) / (corners[m + 1] - corners[m]);
                    let falling = (corners[m + 2] - hertz) / (corners[m + 2] - corners[m + 1]);
                    rising.min(falling).max(0.0) * 2.0 / (corners[m + 2] - corners[m])
                })
                .collect()
        })
        .collect()
}

fn noise(samples: usize, mut seed: u64) -> Vec<f32> {
    (0..samples)
        .map(|i| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let white = (seed >> 40) as f32 / (1 << 23) as f32 - 1.0;
            // Loud and quiet stretches, with a tone, so that both the clamp and the bands matter.
            let loudness = if (i / 4000).is_multiple_of(3) { 0.001 } else { 0.3 };
            white * loudness + 0.2 * (i as f32 * 0.31).sin()
        })
        .collect()
}

fn largest_difference(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[test]
fn a_window_equals_its_definition_for_any_length() {
    // Lengths around the edges: nothing, one sample, half a frame, not a multiple of the hop, almost full, full.
    for (n_mels, lengths) in [(80, &[1, 199, 16_001, 480_000][..]), (128, &[5_000, 479_700][..])] {
        let mel = LogMel::new(n_mels);
        for length in lengths {
            let pcm = noise(*length, 7 + *length as u64);
            let mut out = vec![f32::NAN; WINDOW_FRAMES * n_mels];
            mel.window(&pcm, &mut out);
            let difference = largest_difference(&out, &definition(&pcm, n_mels));
            // The quietest bins lie 80 dB below the tone: an f32 transform can't hold more of them.
            assert!(difference < 1e-4, "{n_mels} channels, {length} samples: {difference}");
        }
    }
}

#[test]
fn silence_is_flat_and_samples_past_thirty_seconds_do_not_matter() {
    let mel = LogMel::new(80);
    let mut out = vec![f32::NAN; WINDOW_FRAMES * 80];
    for silence in [vec![], vec![0.0; 48_000]] {
        mel.window(&silence, &mut out);
        assert!(out.iter().all(|v| (v + 1.5).abs() < 1e-6));
    }
    let long = noise(WINDOW_SAMPLES + 999, 3);
    let mut of_start = out.clone();
    mel.window(&long, &mut out);
    mel.window(&long[..WINDOW_SAMPLES], &mut of_start);
    assert_eq!(out, of_start);
}
