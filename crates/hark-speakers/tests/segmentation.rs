//! The segmentation network: golden numbers from ONNX Runtime, and the fast network compared with the reference.

mod sounds;

use std::sync::Arc;

use hark_speakers::segmentation::reference::ReferenceSegmenter;
use hark_speakers::{CLASSES, Compute, FRAMES_PER_WINDOW, Isa, Segmenter, SpeakersError, WINDOW_SAMPLES};
use sounds::{conversation, installed, synthetic_speech};

const MODEL: &str = "pyannote-segmentation-3";

/// Log-probabilities by ONNX Runtime 1.31.1 of the same file: `(frame, classes)`.
const SYNTHETIC: [(usize, [f32; CLASSES]); 4] = [
    (0, [-0.3082, -4.1168, -2.8424, -1.7928, -5.6423, -5.2319, -4.1813]),
    (200, [-0.1499, -5.6041, -3.8083, -2.3028, -6.6893, -6.0977, -4.617]),
    (400, [-0.0907, -5.8159, -4.244, -2.717, -7.9328, -7.4652, -6.0597]),
    (588, [-0.2344, -4.674, -3.0801, -1.9696, -6.3264, -6.0814, -4.6006]),
];
const CONVERSATION: [(usize, [f32; CLASSES]); 5] = [
    (0, [-0.2284, -4.3519, -2.2835, -2.5228, -6.4964, -6.3389, -5.1416]),
    (150, [-0.0969, -4.747, -3.4629, -2.995, -7.9903, -7.1671, -6.7443]),
    (300, [-0.0526, -5.065, -4.9313, -3.3196, -8.5633, -7.3626, -7.289]),
    (450, [-2.8813, -6.6563, -0.1609, -4.5037, -4.3791, -7.9797, -2.698]),
    (588, [-4.9675, -6.762, -0.1153, -4.335, -4.4747, -8.1413, -2.5768]),
];

fn segmenter(threads: usize, isa: Isa) -> Segmenter {
    Segmenter::load(&installed(MODEL), &Arc::new(Compute::new(threads, isa))).expect("the network loads")
}

fn top(classes: &[f32; CLASSES]) -> usize {
    (0..CLASSES).max_by(|&a, &b| classes[a].total_cmp(&classes[b])).expect("there are classes")
}

#[test]
#[ignore = "needs models"]
fn the_reference_matches_onnx_runtime() {
    let network = ReferenceSegmenter::load(&installed(MODEL)).expect("the network loads");
    let made = network.segment(&synthetic_speech(WINDOW_SAMPLES));
    let real = network.segment(&conversation()[..WINDOW_SAMPLES]);
    for (answer, golden) in [(made, &SYNTHETIC[..]), (real, &CONVERSATION[..])] {
        assert_eq!(answer.len(), FRAMES_PER_WINDOW);
        for (frame, expected) in golden {
            for class in 0..CLASSES {
                let off = (answer[*frame][class] - expected[class]).abs();
                assert!(
                    off < 1e-3,
                    "frame {frame}, class {class}: {} and not {}",
                    answer[*frame][class],
                    expected[class]
                );
            }
        }
    }
}

#[test]
#[ignore = "needs models"]
fn every_instruction_set_matches_the_classes_of_the_reference() {
    let samples = conversation();
    let windows: Vec<&[f32]> = samples.windows(WINDOW_SAMPLES).step_by(WINDOW_SAMPLES / 2).collect();
    assert_eq!(windows.len(), 5);
    let reference = ReferenceSegmenter::load(&installed(MODEL)).expect("the network loads");
    let expected: Vec<_> = windows.iter().map(|window| reference.segment(window)).collect();
    let speech = expected.iter().flatten().filter(|classes| top(classes) != 0).count();
    assert!(speech > FRAMES_PER_WINDOW, "speech is detected");
    for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
        let answer = segmenter(2, isa).segment(&windows);
        let pairs = || answer.iter().flatten().zip(expected.iter().flatten());
        let same = pairs().filter(|(a, b)| top(a) == top(b)).count();
        let all = windows.len() * FRAMES_PER_WINDOW;
        assert!(same * 1000 >= all * 995, "{}: {same} of {all} frames", isa.name());
        let off = pairs().flat_map(|(a, b)| (0..CLASSES).map(|class| (a[class].exp() - b[class].exp()).abs()));
        let mean = off.sum::<f32>() / (all * CLASSES) as f32;
        assert!(mean < 1e-3, "{}: probabilities are {mean} off", isa.name());
    }
}

#[test]
#[ignore = "needs models"]
fn a_window_has_the_same_scores_alone_and_in_a_batch() {
    let samples = conversation();
    let windows: Vec<&[f32]> = (0..35).map(|index| &samples[index * 4_000..][..WINDOW_SAMPLES]).collect();
    for threads in [1, 3] {
        let mut network = segmenter(threads, Isa::best());
        let together = network.segment(&windows);
        for index in [0, 16, 34] {
            assert_eq!(network.segment(&windows[index..=index])[0], together[index], "window {index}");
        }
    }
}

#[test]
#[ignore = "needs models"]
fn a_short_window_is_padded_with_silence() {
    let samples = conversation();
    let mut padded = samples[..50_000].to_vec();
    padded.resize(WINDOW_SAMPLES, 0.0);
    let mut network = segmenter(1, Isa::best());
    // Leaves old contents in the buffers.
    network.segment(&[&samples[..WINDOW_SAMPLES]]);
    assert_eq!(network.segment(&[&samples[..50_000]]), network.segment(&[&padded]));
    assert!(network.segment(&[]).is_empty());
    let nothing = network.segment(&[&[]]);
    assert!(nothing[0].iter().flatten().all(|x| x.is_finite()), "no sound at all");
}

#[test]
fn a_missing_and_a_damaged_file_are_different_errors() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let compute = Arc::new(Compute::new(1, Isa::Portable));
    let missing = Segmenter::load(folder.path(), &compute).expect_err("nothing is there");
    assert!(matches!(missing, SpeakersError::Unreadable { .. }));
    assert!(missing.to_string().contains("hark models pull pyannote-segmentation-3"), "{missing}");
    let whole = std::fs::read(installed(MODEL).join("segmentation-3.0.onnx")).expect("the file is there");
    for length in [0, 100, whole.len() / 2, whole.len() - 1] {
        std::fs::write(folder.path().join("segmentation-3.0.onnx"), &whole[..length]).expect("it can be written");
        let damaged = Segmenter::load(folder.path(), &compute).expect_err("the file ends early");
        assert!(matches!(damaged, SpeakersError::Malformed { .. }), "{length}: {damaged}");
    }
    // Eight bytes hold a whole float wherever its first byte lies.
    let mut not_finite = whole.clone();
    not_finite[whole.len() / 2..][..8].fill(0xff);
    std::fs::write(folder.path().join("segmentation-3.0.onnx"), not_finite).expect("it can be written");
    let damaged = Segmenter::load(folder.path(), &compute).expect_err("a weight is not a number");
    assert!(damaged.to_string().contains("not finite"), "{damaged}");
}
