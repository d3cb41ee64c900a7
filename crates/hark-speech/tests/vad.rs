//! The voice-activity network against ONNX Runtime, and what a stream promises.

use std::path::PathBuf;
use std::sync::Arc;

use hark_speech::vad::{SAMPLES_PER_PROBABILITY, SileroVad, VadStream};

/// The package's two sets of weights, and the probabilities that ONNX Runtime 1.31 gives with each for
/// [`babble`].
#[rustfmt::skip]
const EXPECTED: [(&str, [f32; 59]); 2] = [
    ("silero_vad_16k_sequence.onnx", [
        0.02146, 0.29051, 0.64518, 0.61209, 0.78767, 0.85626, 0.97260, 0.86312, 0.74968, 0.52793, 0.27019, 0.14766,
        0.09559, 0.06455, 0.05895, 0.12599, 0.31906, 0.30867, 0.50707, 0.53555, 0.82002, 0.82400, 0.60140, 0.42167,
        0.23993, 0.10790, 0.05533, 0.03165, 0.02166, 0.04840, 0.04381, 0.07416, 0.11294, 0.11550, 0.09771, 0.11409,
        0.18238, 0.14655, 0.09157, 0.04014, 0.02102, 0.01437, 0.01081, 0.00885, 0.03806, 0.02013, 0.03400, 0.04635,
        0.07609, 0.10386, 0.09707, 0.18993, 0.13302, 0.10472, 0.05751, 0.03413, 0.02392, 0.01723, 0.01381,
    ]),
    ("silero_vad_16k.safetensors", [
        0.22712, 0.86048, 0.84113, 0.77771, 0.77671, 0.88877, 0.96614, 0.95536, 0.95241, 0.77755, 0.46175, 0.20646,
        0.10913, 0.07857, 0.06865, 0.91965, 0.96757, 0.98271, 0.98844, 0.98825, 0.99740, 0.99899, 0.99408, 0.99103,
        0.88107, 0.45710, 0.16590, 0.09314, 0.07977, 0.26425, 0.98023, 0.98545, 0.97846, 0.96409, 0.96934, 0.98906,
        0.99632, 0.99185, 0.97175, 0.77379, 0.35684, 0.13080, 0.07149, 0.05425, 0.18592, 0.89220, 0.98610, 0.97657,
        0.97583, 0.98158, 0.98133, 0.98483, 0.98555, 0.93663, 0.68295, 0.30527, 0.11708, 0.06488, 0.04867,
    ]),
];

/// 1.9 s of syllables from a formula: 30 harmonics of a gliding voice under three moving formants.
fn babble() -> Vec<f32> {
    use std::f64::consts::TAU;
    let sample = |n: usize| {
        let t = n as f64 / 16_000.0;
        let phase = TAU * 120.0 * t - 20.0 / 1.3 * (TAU * 1.3 * t).cos();
        let loudness = (TAU * 2.1 * t).sin().max(0.0).powi(2);
        let first = 500.0 + 250.0 * (TAU * 0.9 * t).sin();
        let second = 1500.0 + 500.0 * (TAU * 1.7 * t + 1.0).sin();
        let bump = |f: f64, centre: f64, width: f64| (-((f - centre) / width).powi(2)).exp();
        let voice: f64 = (1..=30)
            .map(|k| {
                let f = 120.0 * k as f64;
                let gain = bump(f, first, 150.0) + 0.6 * bump(f, second, 200.0) + 0.2 * bump(f, 2600.0, 300.0) + 0.02;
                gain * (k as f64 * phase).sin()
            })
            .sum();
        (0.08 * loudness * voice) as f32
    };
    (0..30_000).map(sample).collect()
}

fn models_folder() -> PathBuf {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = || variable("XDG_CACHE_HOME").or_else(|| variable("HOME").map(|home| home.join(".cache")));
    variable("HARK_MODELS")
        .or_else(|| cache().map(|cache| cache.join("hark/models")))
        .expect("HARK_MODELS, XDG_CACHE_HOME or HOME is set")
}

/// The sets of weights that are installed, with what is expected of them; at least one must be.
fn installed() -> Vec<(PathBuf, [f32; 59])> {
    let folder = models_folder().join("silero-vad");
    let found: Vec<_> = EXPECTED
        .iter()
        .map(|(file, expected)| (folder.join(file), *expected))
        .filter(|(path, _)| path.exists())
        .collect();
    assert!(!found.is_empty(), "no voice-activity weights in {}: `./hark test` installs them", folder.display());
    found
}

fn load() -> Arc<SileroVad> {
    Arc::new(SileroVad::load(&installed()[0].0).expect("the installed weights load"))
}

fn probabilities(stream: &mut VadStream, samples: &[f32], block: usize) -> Vec<f32> {
    let mut probabilities = Vec::new();
    for block in samples.chunks(block) {
        stream.push(block, &mut probabilities);
    }
    stream.finish(&mut probabilities);
    probabilities
}

fn worst(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| if a.is_finite() { (a - b).abs() } else { f32::INFINITY }).fold(0.0, f32::max)
}

#[test]
#[ignore = "needs models"]
fn every_kernel_set_gives_the_probabilities_of_onnx_runtime() {
    let sound = babble();
    for (path, expected) in installed() {
        for kernels in SileroVad::available_kernels() {
            let mut model = SileroVad::load(&path).expect("the installed weights load");
            assert!(model.use_kernels(kernels));
            let model = Arc::new(model);
            for block in [sound.len(), SAMPLES_PER_PROBABILITY, 5_000] {
                let got = probabilities(&mut VadStream::new(&model), &sound, block);
                let off = worst(&got, &expected);
                assert!(off < 1e-4, "{} with {kernels} in blocks of {block}: off by {off}", path.display());
            }
        }
    }
}

#[test]
#[ignore = "needs models"]
fn blocks_of_any_size_give_the_same_probabilities() {
    let model = load();
    // Over 48 chunks, so that whole batches, partial ones and single chunks all meet.
    let sound: Vec<f32> = babble().into_iter().cycle().take(100_123).collect();
    let whole = probabilities(&mut VadStream::new(&model), &sound, sound.len());
    assert_eq!(whole.len(), 100_123_usize.div_ceil(SAMPLES_PER_PROBABILITY));
    for block in [1, 63, 511, 513, 1_999, 24_576, 24_577] {
        let got = probabilities(&mut VadStream::new(&model), &sound, block);
        assert!(worst(&got, &whole) < 1e-4, "blocks of {block}");
    }
}

#[test]
#[ignore = "needs models"]
fn a_finished_stream_starts_anew() {
    let model = load();
    let sound = babble();
    let mut stream = VadStream::new(&model);
    let first = probabilities(&mut stream, &sound, 4_000);
    assert_eq!(probabilities(&mut stream, &sound, 4_000), first);
    assert!(probabilities(&mut stream, &[], 1).is_empty());
}

#[test]
#[ignore = "needs models"]
fn samples_that_are_no_numbers_do_not_poison_what_follows() {
    let model = load();
    let sound = babble();
    let after = |bad: f32| {
        let mut stream = VadStream::new(&model);
        let mut got = Vec::new();
        stream.push(&[bad; 1_024], &mut got);
        stream.push(&[0.0; 80_000], &mut got);
        assert!(got.iter().all(|p| (0.0..=1.0).contains(p)), "after {bad}: {got:?}");
        got.clear();
        stream.push(&sound, &mut got);
        got
    };
    assert_eq!(after(f32::NAN), after(0.0), "NaN is silence");
    for bad in [f32::INFINITY, f32::NEG_INFINITY, f32::MAX] {
        assert!(after(bad).iter().all(|p| (0.0..=1.0).contains(p)), "5 s after {bad}");
    }
}

#[test]
#[ignore = "needs models"]
fn gain_control_detects_quiet_speech_and_leaves_loud_speech_alone() {
    let model = load();
    let loud: Vec<f32> = babble().iter().map(|x| 8.0 * x).collect();
    let quiet: Vec<f32> = loud.iter().map(|x| x / 1_000.0).collect();
    let run = |mut stream: VadStream, sound: &[f32]| probabilities(&mut stream, sound, 1_000);
    let speech = |probabilities: &[f32]| probabilities.iter().filter(|p| **p >= 0.5).count();
    let plain = run(VadStream::new(&model), &loud);
    let (quiet_plain, quiet_controlled) =
        (speech(&run(VadStream::new(&model), &quiet)), speech(&run(VadStream::with_gain_control(&model), &quiet)));
    assert!(speech(&plain) >= 5, "{plain:?}");
    assert!(quiet_controlled > quiet_plain + 2, "{quiet_plain} chunks without, {quiet_controlled} with");
    // The first sounds are too faint to tell the level by, and the network remembers them for a while.
    let controlled = run(VadStream::with_gain_control(&model), &loud);
    assert!(worst(&controlled[4..], &plain[4..]) < 0.15, "{controlled:?}\n{plain:?}");
    // Silence and noise of any level stay what they are.
    let mut state = 1u64;
    let noise: Vec<f32> = (0..160_000)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
        })
        .collect();
    for gain in [0.0, 3e-5, 1e-3, 0.03, 0.5] {
        let noise: Vec<f32> = noise.iter().map(|x| gain * x).collect();
        let got = run(VadStream::with_gain_control(&model), &noise);
        assert!(got.iter().all(|p| *p < 0.35), "noise at {gain}: {got:?}");
    }
}

#[test]
#[ignore = "needs models"]
fn a_damaged_file_is_refused_with_what_to_do() {
    let path = installed()[0].0.clone();
    let bytes = std::fs::read(&path).expect("the installed weights can be read");
    let copy = std::env::temp_dir().join(format!("hark-vad-damaged-{}", std::process::id()));
    for length in [0, 7, 100, 5_000, bytes.len() / 2, bytes.len() - 1] {
        std::fs::write(&copy, &bytes[..length]).expect("the temporary folder takes a file");
        let message = SileroVad::load(&copy).expect_err("a part of the file is not the file").to_string();
        assert!(message.contains("hark models pull silero-vad"), "{message}");
    }
    // Eight bytes hold a bytes float wherever its first byte lies.
    let mut not_finite = bytes.clone();
    not_finite[bytes.len() / 2..][..8].fill(0xff);
    std::fs::write(&copy, not_finite).expect("the temporary folder takes a file");
    let message = SileroVad::load(&copy).expect_err("a weight is not a number").to_string();
    assert!(message.contains("not finite"), "{message}");
    std::fs::remove_file(&copy).expect("the file was there");
    let message = SileroVad::load(&copy).expect_err("the file is gone").to_string();
    assert!(message.starts_with("cannot read the voice-activity model"), "{message}");
}
