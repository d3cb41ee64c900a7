//! Marks in real speech, through what plain arithmetic can do to a sound. Codecs are measured by `hark bench voice`.

use std::path::PathBuf;

use hark_media::{Options, Resampler, Source, decode_all};
use hark_watermark::{Detection, Detector, Embedder, Key, Payload, WatermarkError, detect, embed};

const RATE: u32 = 16_000;

fn key() -> Key {
    Key::new([7; 32])
}

fn payload() -> Payload {
    Payload::new(4711, 20_775, 0xdead_beef)
}

/// Thirty seconds of a real conversation at 16 kHz.
fn conversation() -> Vec<f32> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let models = set("HARK_MODELS")
        .or_else(|| set("XDG_CACHE_HOME").map(|cache| cache.join("hark/models")))
        .or_else(|| set("HOME").map(|home| home.join(".cache/hark/models")))
        .expect("HARK_MODELS or HOME says where models are");
    let path = models.join("test-sounds-meetings/sample.wav");
    assert!(path.is_file(), "{} is missing: `./hark test` installs it", path.display());
    decode_all(Source::Path(path), &Options::default()).expect("sample.wav is sound").0
}

/// The part in which people speak.
fn speech() -> Vec<f32> {
    conversation()[7 * RATE as usize..][..8 * RATE as usize].to_vec()
}

fn resample(samples: &[f32], from: u32, to: u32) -> Vec<f32> {
    let mut resampler = Resampler::between(from, to);
    let mut out = Vec::new();
    resampler.push(samples, &mut out);
    resampler.finish(&mut out);
    out
}

fn marked(samples: &[f32], rate: u32) -> Vec<f32> {
    embed(samples, rate, 1, &payload(), &key()).expect("finite samples can be marked")
}

#[track_caller]
fn assert_read(samples: &[f32], rate: u32) -> Detection {
    let found = detect(samples, rate, &key()).expect("a sound that can be examined");
    assert!(found.present, "{found:?}");
    assert_eq!(found.payload, Some(payload()), "{found:?}");
    assert!(found.log10_false_alarm < -9.0 && found.confidence > 0.999_999, "{found:?}");
    found
}

/// Numbers that look random, the same in every run.
fn uniform(seed: u64) -> impl FnMut() -> f32 {
    let mut state = seed | 1;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }
}

fn energy(samples: &[f32]) -> f32 {
    samples.iter().map(|sample| sample * sample).sum()
}

#[test]
fn a_payload_is_read_at_every_rate_wherever_it_was_written() {
    let speech = speech();
    for rate in [8_000, 11_025, 16_000, 24_000, 44_100, 48_000] {
        let there = marked(&resample(&speech, RATE, rate), rate);
        let found = assert_read(&there, rate);
        assert_eq!(found.speed, Some(1.0));
        assert_read(&resample(&there, rate, RATE), RATE);
    }
    let at_48 = marked(&resample(&speech, RATE, 48_000), 48_000);
    assert_read(&resample(&at_48, 48_000, 8_000), 8_000);
}

#[test]
fn five_seconds_from_anywhere_are_enough() {
    let there = marked(&conversation(), RATE);
    let mut random = uniform(5);
    for second in [7, 8, 9, 12, 20] {
        let odd = ((random() + 1.0) * 500.0) as usize;
        assert_read(&there[second * RATE as usize + odd..][..5 * RATE as usize], RATE);
    }
}

#[test]
fn gain_and_noise_and_another_speed_leave_the_payload() {
    let there = marked(&speech(), RATE);
    for gain in [0.5, 2.0, -1.0] {
        let louder: Vec<f32> = there.iter().map(|sample| sample * gain).collect();
        assert_read(&louder, RATE);
    }
    let mut random = uniform(11);
    let noise: Vec<f32> = there.iter().map(|_| random() + random() + random()).collect();
    let share = (energy(&there) / energy(&noise) / 100.0).sqrt();
    let noisy: Vec<f32> = there.iter().zip(&noise).map(|(sample, noise)| sample + share * noise).collect();
    assert_read(&noisy, RATE);
    for percent in [95, 97, 103, 105] {
        let found = assert_read(&resample(&there, RATE * percent / 100, RATE), RATE);
        let speed = found.speed.unwrap_or(0.0);
        assert!((speed - f64::from(percent) / 100.0).abs() < 0.004, "{speed} instead of {percent} %");
    }
}

#[test]
fn another_key_finds_nothing_and_unmarked_speech_has_nothing() {
    let there = marked(&speech(), RATE);
    let other = detect(&there, RATE, &Key::new([8; 32])).unwrap();
    assert!(!other.present && other.payload.is_none() && other.spans.is_empty(), "{other:?}");
    let clean = detect(&conversation(), RATE, &key()).unwrap();
    assert!(!clean.present && clean.payload.is_none(), "{clean:?}");
    assert!(clean.confidence < 0.9, "{clean:?}");
}

/// For a sound without the mark, scores are sums of random signs: the best of `n` alignments stays below what a normal distribution allows,
/// and the bound says so. Checked for noise and speech, each with several keys.
#[test]
fn scores_of_unmarked_sound_stay_within_their_bound() {
    let mut random = uniform(3);
    let noise: Vec<f32> = (0..6 * RATE).map(|_| random() * 0.3).collect();
    let speech = speech();
    let mut best: f64 = 0.0;
    for seed in 0..6 {
        let key = Key::new([100 + seed; 32]);
        for sound in [&noise[..], &speech[..6 * RATE as usize]] {
            let found = detect(sound, RATE, &key).unwrap();
            assert!(!found.present, "{found:?}");
            best = best.max(found.score);
            // The best of some 50,000 alignments, many of them alike.
            assert!((2.5..6.5).contains(&found.score), "{found:?}");
        }
    }
    assert!(best > 3.5, "{best}");
}

#[test]
fn blocks_of_any_size_give_the_same_output_of_the_same_length() {
    let stereo: Vec<f32> = speech()[..3 * RATE as usize].iter().flat_map(|&sample| [sample, 0.5 * sample]).collect();
    let whole = embed(&stereo, RATE, 2, &payload(), &key()).unwrap();
    assert_eq!(whole.len(), stereo.len());
    for size in [2, 14, 1_600, 50_002] {
        let mut embedder = Embedder::new(RATE, 2, &payload(), &key()).unwrap();
        let mut out = Vec::new();
        for block in stereo.chunks(size) {
            embedder.push(block, &mut out).unwrap();
        }
        let delay = (stereo.len() - out.len()) / 2;
        assert!(delay < RATE as usize * 2 / 5, "{delay} frames are held back");
        embedder.finish(&mut out);
        assert!(out == whole, "blocks of {size}");
    }
    for count in [0, 1, 100, 4_000] {
        assert_eq!(embed(&stereo[..2 * count], RATE, 2, &payload(), &key()).unwrap().len(), 2 * count);
    }
}

#[test]
fn both_channels_carry_the_mark_and_a_stream_finds_it_where_it_is() {
    let conversation = conversation();
    let (clean, rest) = conversation.split_at(10 * RATE as usize);
    let marked = marked(rest, RATE);
    let stereo: Vec<f32> = clean.iter().chain(&marked).flat_map(|&sample| [0.3 * sample, sample]).collect();
    let mut detector = Detector::new(RATE, 2, &key()).unwrap();
    for block in stereo.chunks(7_778) {
        detector.push(block, &|| false).unwrap();
    }
    let found = detector.finish(&|| false).unwrap();
    assert_eq!(found.payload, Some(payload()));
    assert_eq!(found.spans.len(), 1, "{found:?}");
    let span = found.spans[0];
    assert!((5.0..=10.0).contains(&span.start) && span.end == 30.0, "{span:?}");
    let left: Vec<f32> = stereo.chunks(2).map(|frame| frame[0]).collect();
    assert_read(&left, RATE);
}

#[test]
fn marking_keeps_silence_silent_and_never_clips_what_did_not_clip() {
    let silent = marked(&vec![0.0; RATE as usize], RATE);
    assert!(silent.iter().all(|&sample| sample == 0.0));
    let speech = speech();
    let peak = speech.iter().fold(0f32, |peak, sample| peak.max(sample.abs()));
    let loud: Vec<f32> = speech.iter().map(|sample| sample / peak).collect();
    assert!(marked(&loud, RATE).iter().all(|sample| sample.abs() <= 1.0));
    // Some 3 dB in cells of a part of the spectrum: the difference is at least 10 dB below the speech.
    let difference: Vec<f32> = marked(&speech, RATE).iter().zip(&speech).map(|(one, two)| one - two).collect();
    assert!(energy(&difference) < energy(&speech) / 10.0);
}

#[test]
fn what_can_not_be_examined_is_a_typed_error() {
    let second = vec![0.1; RATE as usize];
    assert!(matches!(detect(&[], RATE, &key()), Err(WatermarkError::TooShort { .. })));
    assert!(matches!(detect(&second[..8_000], RATE, &key()), Err(WatermarkError::TooShort { .. })));
    assert!(matches!(detect(&vec![0.0; 80_000], RATE, &key()), Err(WatermarkError::Silent)));
    assert!(matches!(detect(&second, 7_999, &key()), Err(WatermarkError::Rate { rate: 7_999 })));
    let mut broken = vec![0.1; 80_000];
    broken[77_777] = f32::NAN;
    let error = detect(&broken, RATE, &key()).unwrap_err();
    assert!(matches!(error, WatermarkError::NotFinite { index: 77_777 }) && error.is_input_fault());
    assert!(matches!(embed(&broken, RATE, 1, &payload(), &key()), Err(WatermarkError::NotFinite { index: 77_777 })));
    assert!(matches!(embed(&[0.0; 3], RATE, 2, &payload(), &key()), Err(WatermarkError::Channels { .. })));
    assert!(matches!(Detector::new(RATE, 0, &key()), Err(WatermarkError::Channels { .. })));
    let mut detector = Detector::new(RATE, 1, &key()).unwrap();
    detector.push(&speech(), &|| false).unwrap();
    assert!(matches!(detector.finish(&|| true), Err(WatermarkError::Cancelled)));
    // A constant has no level in any band: nothing is found, and nothing breaks.
    assert!(!detect(&vec![0.5; 80_000], RATE, &key()).unwrap().present);
}
