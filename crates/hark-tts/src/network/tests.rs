//! The real network against figures of ONNX Runtime 1.31 on the same graph: a sentence in the voice af_heart.

use std::path::PathBuf;

use super::*;

const PHONEMES: &str = "həlˈoʊ wˈɜːld, ðɪs ɪz ɐ tˈɛst ʌv spˈiːtʃ sˈɪnθəsɪs ɪn ðə kwˈaɪət ɹˈuːm.";
const DURATIONS: [usize; 73] = [
    14, 2, 3, 2, 2, 2, 2, 2, 1, 3, 2, 4, 3, 9, 3, 2, 2, 2, 2, 2, 2, 1, 1, 1, 2, 2, 3, 2, 2, 1, 1, 1, 1, 2, 2, 1, 2, 1,
    2, 1, 1, 2, 1, 1, 1, 3, 2, 3, 4, 4, 4, 2, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 1, 2, 2, 2, 2, 3, 13, 6, 1,
];
/// Twelve values of each stage, evenly spaced.
const BERT: [f32; 12] =
    [-1.4186, 1.2523, -0.1855, -0.5297, -0.2861, 0.7446, -1.2832, -0.7555, -0.5618, 0.2421, 0.7545, -0.1837];
const TEXT: [f32; 12] =
    [-0.0002, 0.0055, 0.0, -0.0026, -0.2111, -0.2191, -0.4337, -0.0078, 0.0126, 0.1281, -0.5652, -0.0114];
const PITCH: [f32; 12] =
    [-0.3015, 266.6558, 173.8549, -0.1991, 219.4781, 220.049, 191.8132, 159.4734, 185.0068, 190.2247, 0.3543, -0.3134];
const ENERGY: [f32; 12] =
    [-9.2072, 8.0907, 6.0626, -5.536, 5.9137, 4.5343, 5.4208, 5.1361, 7.6544, 6.9921, 3.5129, -9.2983];
const DECODED: [f32; 12] =
    [-2.2129, 1.0297, 2.613, -1.9787, -0.7693, -0.0987, -2.2858, -0.3727, -1.9614, 0.8075, -0.8081, -4.0339];
/// The loudness of 24 parts of the sound.
const LOUDNESS: [f32; 24] = [
    0.0, 0.0162, 0.1577, 0.1394, 0.0978, 0.0403, 0.0006, 0.1002, 0.0704, 0.0708, 0.0696, 0.0424, 0.0599, 0.0736,
    0.0353, 0.0431, 0.0581, 0.0579, 0.1094, 0.0562, 0.0333, 0.0107, 0.0, 0.0,
];

fn folder() -> PathBuf {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let models = variable("HARK_MODELS").or_else(|| {
        Some(variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")))?.join("hark/models"))
    });
    models.expect("a home folder").join("kokoro-82m")
}

fn assert_near(what: &str, found: &[f32], expected: &[f32; 12], tolerance: f32) {
    for (point, expected) in expected.iter().enumerate() {
        let found = found[point * (found.len() / 12) + found.len() / 24];
        let near = tolerance * (1.0 + expected.abs());
        assert!((found - expected).abs() < near, "{what}, value {point}: {found} instead of {expected}");
    }
}

#[test]
#[ignore = "needs models"]
fn every_stage_gives_what_onnx_runtime_gives() {
    let ids = crate::phonemes::encode(PHONEMES).unwrap();
    let voice = std::fs::read(folder().join("voices/af_heart.bin")).expect("kokoro-82m is installed");
    let voice: Vec<f32> = voice.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    let style = &voice[(ids.len() - 3) * STYLE_WIDTH..][..STYLE_WIDTH];
    let (sound, prosodic) = style.split_at(STYLE);
    let compute = Compute::from_options(Some(2), None);
    for (precision, tolerance) in [(Precision::Split, 2e-3), (Precision::Bf16, 0.1)] {
        let network = Network::open(&folder().join("model.onnx"), precision).unwrap();
        let pass = &mut Pass::new(&compute, &|| false);
        let bert = network.bert.run(pass, &ids).unwrap();
        assert_near("PL-BERT", &bert.data, &BERT, 1e-3);
        let prosody = network.predictor.run(pass, prosodic, &bert, 1.0).unwrap();
        assert_eq!(prosody.durations, DURATIONS);
        assert_near("pitch", &prosody.pitch, &PITCH, 1e-3);
        assert_near("energy", &prosody.energy, &ENERGY, 1e-3);
        let text = network.text.run(pass, &ids).unwrap();
        assert_near("text", &text.data, &TEXT, 1e-3);
        let text = repeated(&text, &prosody.durations);
        let decoded = network.decoder.run(pass, sound, &text, &prosody.pitch, &prosody.energy).unwrap();
        assert_near("decoder", &decoded.data, &DECODED, tolerance);
        let samples = network.generator.run(pass, sound, decoded, &prosody.pitch).unwrap();
        assert_eq!(samples.len(), DURATIONS.iter().sum::<usize>() * 600);
        for (part, (samples, expected)) in samples.chunks_exact(samples.len() / 24).zip(LOUDNESS).enumerate() {
            let found = (samples.iter().map(|x| x * x).sum::<f32>() / samples.len() as f32).sqrt();
            let near = 0.05 * expected + 5e-4;
            assert!((found - expected).abs() < near, "{precision:?}, part {part}: {found} instead of {expected}");
        }
        let again = network.run(&compute, &ids, style, 1.0, &|| false).unwrap();
        assert_eq!(again, samples, "equal inputs give equal samples");
    }
}
