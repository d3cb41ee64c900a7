//! The embedding network: golden numbers from an independent run, and the fast network compared with the reference.

mod sounds;

use std::ops::Range;
use std::sync::Arc;

use hark_speakers::embedding::reference::ReferenceEmbedder;
use hark_speakers::{Compute, EMBEDDING_WIDTH, Embedder, Isa, SHORTEST_PIECE, SpeakersError};
use sounds::{conversation, installed, synthetic_speech};

const MODEL: &str = "campplus-zh-en";

/// The first eight and the last four numbers of vectors, from the same weights as an ONNX graph run by ONNX Runtime 1.31.1
/// on a filter bank in double precision by numpy.
const SYNTHETIC: [(Range<usize>, [f32; 12]); 2] = [
    (
        24_000..48_000,
        [
            -0.022_271, 0.015_465, 0.079_408, -0.084_284, 0.026_933, 0.010_742, -0.108_344, 0.017_313, -0.042_05,
            0.022_433, -0.039_196, 0.080_013,
        ],
    ),
    (
        0..16_000,
        [
            -0.119_76, 0.015_581, 0.029_575, -0.042_363, -0.124_807, 0.010_055, -0.023_038, 0.028_833, -0.023_627,
            0.009_733, -0.007_905, 0.041_597,
        ],
    ),
];
const CONVERSATION: (Range<usize>, [f32; 12]) = (
    112_000..136_000,
    [
        -0.0111, 0.027_126, -0.085_787, -0.020_89, 0.020_678, 0.039_842, 0.022_408, 0.051_544, 0.050_881, -0.088_341,
        -0.025_842, 0.076_014,
    ],
);

fn embedder(threads: usize, isa: Isa) -> Embedder {
    Embedder::load(&installed(MODEL), &Arc::new(Compute::new(threads, isa))).expect("the network loads")
}

fn reference() -> ReferenceEmbedder {
    ReferenceEmbedder::load(&installed(MODEL)).expect("the network loads")
}

fn cosine(a: &[f32; EMBEDDING_WIDTH], b: &[f32; EMBEDDING_WIDTH]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[test]
#[ignore = "needs models"]
fn the_reference_matches_an_independent_implementation() {
    let (network, made, real) = (reference(), synthetic_speech(48_000), conversation());
    let made = SYNTHETIC.into_iter().map(|(span, golden)| (&made[span], golden));
    let real = std::iter::once((&real[CONVERSATION.0], CONVERSATION.1));
    for (samples, golden) in made.chain(real) {
        let vector = network.embed(samples);
        for (index, expected) in (0..8).chain(EMBEDDING_WIDTH - 4..EMBEDDING_WIDTH).zip(golden) {
            assert!((vector[index] - expected).abs() < 1e-4, "number {index}: {} and not {expected}", vector[index]);
        }
    }
}

#[test]
#[ignore = "needs models"]
fn every_instruction_set_matches_the_reference() {
    let samples = conversation();
    // The last is long enough for two context segments.
    let pieces = [
        &samples[112_000..136_000],
        &samples[200_000..224_000],
        &samples[240_000..250_000],
        &samples[300_000..348_000],
    ];
    let network = reference();
    let expected = pieces.map(|piece| network.embed(piece));
    for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
        for (index, (vector, expected)) in embedder(2, isa).embed(&pieces).iter().zip(&expected).enumerate() {
            assert!((cosine(vector, vector) - 1.0).abs() < 1e-5, "a vector has length 1");
            let close = cosine(vector, expected);
            assert!(close > 0.998, "{}: piece {index} has a cosine of {close}", isa.name());
        }
    }
}

#[test]
#[ignore = "needs models"]
fn a_piece_has_the_same_embedding_alone_and_in_a_batch() {
    let samples = conversation();
    // Two lengths, in turns, and more pieces than a batch.
    let pieces: Vec<&[f32]> =
        (0..21).map(|index| &samples[index * 16_000..][..if index % 3 == 0 { 24_000 } else { 16_000 }]).collect();
    for threads in [1, 3] {
        let mut network = embedder(threads, Isa::best());
        let together = network.embed(&pieces);
        for index in [0, 1, 13, 20] {
            assert_eq!(network.embed(&pieces[index..=index])[0], together[index], "piece {index}");
        }
        assert!(network.embed(&[]).is_empty());
    }
}

#[test]
#[ignore = "needs models"]
fn spans_have_the_embeddings_of_their_pieces() {
    let samples = conversation();
    let mut network = embedder(2, Isa::best());
    let overlapping: Vec<Range<usize>> = (0..10).map(|index| 5_003 + index * 12_000..29_003 + index * 12_000).collect();
    let with_a_gap = [0..24_000, 400_000..424_000, 100_000 - 80..124_000];
    let beyond = [470_000..494_000, 600_000..624_000, 0..24_000];
    for spans in [&overlapping[..], &with_a_gap, &beyond, &[]] {
        let pieces: Vec<&[f32]> =
            spans.iter().map(|span| samples.get(span.start..span.end.min(samples.len())).unwrap_or(&[])).collect();
        assert_eq!(network.embed_spans(&samples, spans), network.embed(&pieces), "{spans:?}");
    }
}

#[test]
#[ignore = "needs models"]
fn a_speaker_is_closer_to_themselves_than_to_another() {
    let samples = conversation();
    // By the reference that comes with the recording: the first three spans are one speaker, the others another.
    let spans = [11.1, 12.7, 19.55, 15.99, 21.78, 24.78].map(|second: f64| {
        let start = (second * 16_000.0) as usize;
        start..start + 24_000
    });
    let vectors = embedder(2, Isa::best()).embed_spans(&samples, &spans);
    let same = [(0, 1), (0, 2), (1, 2), (3, 4), (3, 5), (4, 5)].map(|(a, b)| cosine(&vectors[a], &vectors[b]));
    let other = (0..3).flat_map(|a| (3..6).map(move |b| (a, b))).map(|(a, b)| cosine(&vectors[a], &vectors[b]));
    let (closest, farthest) = (other.fold(f32::MIN, f32::max), same.into_iter().fold(f32::MAX, f32::min));
    assert!(farthest > closest, "the same speaker {farthest}, another {closest}");
}

#[test]
#[ignore = "needs models"]
fn silence_and_very_short_pieces_have_finite_embeddings() {
    let mut network = embedder(1, Isa::best());
    for piece in [&[][..], &[0.5], &vec![0.0; SHORTEST_PIECE], &vec![0.0; 24_000]] {
        let vector = network.embed(&[piece])[0];
        assert!(vector.iter().all(|x| x.is_finite()), "{} samples", piece.len());
    }
}

#[test]
#[ignore = "needs models"]
fn a_missing_and_a_damaged_file_are_different_errors() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let compute = Arc::new(Compute::new(1, Isa::Portable));
    let missing = Embedder::load(folder.path(), &compute).expect_err("nothing is there");
    assert!(matches!(missing, SpeakersError::Unreadable { .. }));
    assert!(missing.to_string().contains("hark models pull campplus-zh-en"), "{missing}");
    let file = "campplus_cn_en_common.pt";
    let whole = std::fs::read(installed(MODEL).join(file)).expect("the file is there");
    for length in [0, 1000, whole.len() / 2, whole.len() - 1000] {
        std::fs::write(folder.path().join(file), &whole[..length]).expect("it can be written");
        let damaged = Embedder::load(folder.path(), &compute).expect_err("the file ends early");
        assert!(matches!(damaged, SpeakersError::Malformed { .. }), "{length}: {damaged}");
    }
}
