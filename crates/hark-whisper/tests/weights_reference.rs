//! The plain reference network against numbers from another implementation.
//!
//! The numbers were produced once with CTranslate2 in float32 on the same weights and the same made-up sound.

mod weights_installed;

use std::f64::consts::PI;

use hark_whisper::mel::{LogMel, WINDOW_FRAMES};
use hark_whisper::reference::ReferenceModel;
use hark_whisper::tokenizer::Tokenizer;
use hark_whisper::weights::Checkpoint;

/// Five seconds of a wavering hum under a steady tone.
fn sound() -> Vec<f32> {
    (0..80_000)
        .map(|i| f64::from(i) / 16_000.0)
        .map(|t| {
            let hum = (2.0 * PI * (120.0 + 40.0 * (2.0 * PI * 0.7 * t).sin()) * t).sin();
            let swell = 0.5 + 0.5 * (2.0 * PI * 3.0 * t).sin();
            (0.3 * hum * swell + 0.1 * (2.0 * PI * 900.0 * t).sin()) as f32
        })
        .collect()
}

#[test]
#[ignore = "needs models"]
fn the_reference_network_computes_what_ctranslate2_computes() {
    let checkpoint = Checkpoint::open(&weights_installed::folder("whisper-base")).expect("it opens");
    let model = ReferenceModel::load(&checkpoint).expect("all tensors are there");
    let mut mel = vec![0.0; WINDOW_FRAMES * 80];
    LogMel::new(80).window(&sound(), &mut mel);
    let states = model.encode(&mel);

    let columns = [0, 1, 100, 255, 511];
    for (row, expected) in [
        (0, [-0.804659, -0.020260, 0.393045, 0.323131, -0.092933]),
        (100, [-1.029795, 0.786850, 0.600113, -1.001688, -1.432362]),
        (249, [-0.448620, -1.171748, -0.177299, -0.356042, 0.053739]),
        (250, [-1.531592, -0.438043, 0.996981, 0.406536, 1.003479]),
        (777, [-0.365929, -0.113680, 0.058170, -0.369556, 0.586978]),
        (1499, [-0.734518, -0.504940, -0.632855, -1.138853, -1.24337]),
    ] {
        for (column, expected) in columns.iter().zip(expected) {
            let state = states[row * 512 + column];
            assert!((state - expected).abs() < 2e-3, "row {row}, column {column}: {state}, not {expected}");
        }
    }

    // After the first token the decoder guesses the language: four of the guesses as probabilities.
    let tokenizer = Tokenizer::new(&checkpoint.vocabulary);
    let logits = model.decoder_logits(&states, &[tokenizer.sot]);
    assert_eq!(logits.len(), 51865);
    let odds = |code: &str| logits[tokenizer.language_token(code).expect("known") as usize].exp();
    let all: f32 = tokenizer.languages().iter().map(|code| odds(code)).sum();
    for (code, expected) in [("en", 0.603_739), ("nn", 0.052_038), ("pt", 0.036_624), ("ko", 0.033_231)] {
        let probability = odds(code) / all;
        assert!((probability - expected).abs() < 1e-3, "{code}: {probability}, not {expected}");
    }

    // Later tokens do not change what came before them, and the asked heads come back in their order.
    let tokens = [tokenizer.sot, 50259, 50359, 50363];
    let more = model.decoder_logits(&states, &tokens);
    let worst = more.iter().zip(&logits).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(worst < 1e-3, "{worst}");
    let scores = model.cross_attention_scores(&states, &tokens, &[(5, 1), (3, 1)]);
    let swapped = model.cross_attention_scores(&states, &tokens, &[(3, 1), (5, 1)]);
    assert_eq!((scores.len(), scores[0].len()), (2, 4 * 1500));
    assert!(scores[0] == swapped[1] && scores[1] == swapped[0] && scores[0] != scores[1]);
}
