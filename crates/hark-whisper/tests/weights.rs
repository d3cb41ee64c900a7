//! One small random network written in every format must come back the same; broken files must give errors.
//!
//! Its values are multiples of 1/8 in [-1, 1), which every stored type, quantized ones too, holds exactly.

mod weights_formats;
mod weights_installed;

use std::path::Path;

use hark_weights::FileError;
use hark_whisper::tokenizer::Tokenizer;
use hark_whisper::weights::{Checkpoint, Dims, Format, WeightsError, canonical_tensors};
use weights_formats::{DIMS, onnx, value_of};

type Writer = fn(&Path);

/// Every format, its writer, and the file whose damage is tried.
const FORMATS: [(&str, Format, Writer, &str); 13] = [
    ("ct2 f32", Format::CTranslate2, |f| weights_formats::ct2(f, &DIMS, 0), "model.bin"),
    ("ct2 f16", Format::CTranslate2, |f| weights_formats::ct2(f, &DIMS, 4), "model.bin"),
    ("ct2 int8", Format::CTranslate2, |f| weights_formats::ct2(f, &DIMS, 1), "model.bin"),
    ("safetensors f32", Format::Safetensors, |f| weights_formats::safetensors(f, &DIMS, "F32", 1), "model.safetensors"),
    (
        "safetensors bf16",
        Format::Safetensors,
        |f| weights_formats::safetensors(f, &DIMS, "BF16", 1),
        "model.safetensors",
    ),
    (
        "safetensors sharded",
        Format::Safetensors,
        |f| weights_formats::safetensors(f, &DIMS, "F16", 3),
        "model-1.safetensors",
    ),
    ("ggml f32", Format::Ggml, |f| weights_formats::ggml(f, &DIMS, 0), "ggml-model.bin"),
    ("ggml f16", Format::Ggml, |f| weights_formats::ggml(f, &DIMS, 1), "ggml-model.bin"),
    ("ggml q4_0", Format::Ggml, |f| weights_formats::ggml(f, &DIMS, 2), "ggml-model.bin"),
    ("ggml q5_1", Format::Ggml, |f| weights_formats::ggml(f, &DIMS, 7), "ggml-model.bin"),
    ("ggml q8_0", Format::Ggml, |f| weights_formats::ggml(f, &DIMS, 8), "ggml-model.bin"),
    ("onnx u8", Format::Onnx, |f| onnx(f, false), "decoder_model_merged_quantized.onnx"),
    ("onnx i8 by channel", Format::Onnx, |f| onnx(f, true), "encoder_model_quantized.onnx"),
];

#[test]
fn every_format_gives_the_same_network() {
    for (name, format, write, _) in FORMATS {
        let folder = tempfile::tempdir().expect("a folder for the test");
        write(folder.path());
        let checkpoint = Checkpoint::open(folder.path()).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!((checkpoint.format, checkpoint.dims), (format, DIMS), "{name}");
        for (tensor, shape) in canonical_tensors(&DIMS) {
            assert_eq!(checkpoint.shape(&tensor).expect("listed"), shape, "{name}: {tensor}");
            let values = checkpoint.tensor(&tensor).expect("listed");
            let wrong = (0..values.len()).find(|i| values[*i] != value_of(&tensor, *i));
            assert_eq!(wrong, None, "{name}: {tensor} {shape:?} differs");
            let (rows, columns) = (shape[0], values.len() / shape[0]);
            let mut some = vec![0.0; (rows / 2) * columns];
            checkpoint.rows(&tensor, rows - rows / 2..rows, &mut some).expect("listed");
            assert_eq!(some, values[(rows - rows / 2) * columns..], "{name}: rows of {tensor}");
        }
        assert!(!checkpoint.has("encoder.blocks.0.attn.key.bias") && !checkpoint.has("nonsense"));
        assert_eq!(checkpoint.vocabulary.bytes(0), b"!", "{name}");
    }
}

/// Of large-v3 everything but the widths: 128 mels, 32 layers (and turbo's 4), 51,866 tokens.
fn narrow(decoder_layers: usize) -> Dims {
    Dims {
        n_mels: 128,
        n_audio_head: 1,
        n_audio_layer: 32,
        n_text_ctx: 448,
        n_text_head: 1,
        n_text_layer: decoder_layers,
        n_vocab: 51_866,
        ..DIMS
    }
}

#[test]
fn the_depths_and_the_vocabulary_of_large_v3_and_turbo_load_from_every_format() {
    type OfSize = fn(&Path, &Dims);
    let writers: [(&str, Format, OfSize); 5] = [
        ("ct2 f16", Format::CTranslate2, |f, dims| weights_formats::ct2(f, dims, 4)),
        ("ct2 int8", Format::CTranslate2, |f, dims| weights_formats::ct2(f, dims, 1)),
        ("safetensors", Format::Safetensors, |f, dims| weights_formats::safetensors(f, dims, "F16", 1)),
        ("sharded", Format::Safetensors, |f, dims| weights_formats::safetensors(f, dims, "F32", 2)),
        ("ggml q5_1", Format::Ggml, |f, dims| weights_formats::ggml(f, dims, 7)),
    ];
    for (name, format, write) in writers {
        for dims in [narrow(32), narrow(4)] {
            let folder = tempfile::tempdir().expect("a folder for the test");
            write(folder.path(), &dims);
            let checkpoint = Checkpoint::open(folder.path()).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!((checkpoint.format, checkpoint.dims), (format, dims), "{name}");
            for (tensor, shape) in canonical_tensors(&dims) {
                let values = checkpoint.tensor(&tensor).expect("listed");
                let wrong = (0..values.len()).find(|i| values[*i] != value_of(&tensor, *i));
                assert_eq!(wrong, None, "{name}: {tensor} {shape:?} differs");
            }
            let tokenizer = Tokenizer::new(&checkpoint.vocabulary);
            assert_eq!(tokenizer.decode(&[50_256]), "w50256", "{name}");
            let cantonese = tokenizer.language_token("yue");
            assert_eq!((tokenizer.eot, cantonese, tokenizer.timestamp_begin), (50_257, Some(50_358), 50_365), "{name}");
        }
    }
}

#[test]
fn large_checkpoints_have_their_alignment_heads_where_the_files_tell_none() {
    let of_shape = |width: usize, n_mels: usize, layers: (usize, usize), n_vocab: usize| Dims {
        n_mels,
        n_audio_state: width,
        n_audio_head: width / 64,
        n_audio_layer: layers.0,
        n_text_ctx: 448,
        n_text_state: width,
        n_text_head: width / 64,
        n_text_layer: layers.1,
        n_vocab,
        ..DIMS
    };
    // As OpenAI published them.
    let medium: &[(usize, usize)] = &[(13, 15), (15, 4), (15, 15), (16, 1), (20, 0), (23, 4)];
    let large_v3: &[(usize, usize)] =
        &[(7, 0), (10, 17), (12, 18), (13, 12), (16, 1), (17, 14), (19, 11), (21, 4), (24, 1), (25, 6)];
    let turbo: &[(usize, usize)] = &[(2, 4), (2, 11), (3, 3), (3, 6), (3, 11), (3, 14)];
    for (dims, heads) in [
        (of_shape(1024, 80, (24, 24), 51_865), medium),
        (of_shape(1280, 128, (32, 32), 51_866), large_v3),
        (of_shape(1280, 128, (32, 4), 51_866), turbo),
    ] {
        for write in [weights_formats::ct2_of_zeros, weights_formats::ggml_of_zeros] {
            let folder = tempfile::tempdir().expect("a folder for the test");
            write(folder.path(), &dims);
            let checkpoint = Checkpoint::open(folder.path()).expect("it opens");
            assert_eq!(checkpoint.dims, dims, "{:?}", checkpoint.format);
            assert_eq!(checkpoint.alignment_heads, heads, "{:?}", checkpoint.format);
            let last = format!("decoder.blocks.{}.mlp.2.weight", dims.n_text_layer - 1);
            assert_eq!(checkpoint.tensor(&last).expect("listed").len(), 4 * dims.n_text_state * dims.n_text_state);
        }
    }
}

#[test]
fn a_format_without_encoder_positions_gets_sinusoids() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    weights_formats::safetensors_without(folder.path(), "encoder.positional_embedding");
    let checkpoint = Checkpoint::open(folder.path()).expect("it opens");
    let positions = checkpoint.tensor("encoder.positional_embedding").expect("made");
    let width = DIMS.n_audio_state;
    assert_eq!(positions.len(), 1500 * width);
    // Row 7: the sine and cosine of 7 first, of 7 / 10000 last.
    let row = &positions[7 * width..8 * width];
    let (half, last) = (width / 2, 7e-4f32);
    for (value, expected) in
        [(row[0], 7f32.sin()), (row[half], 7f32.cos()), (row[half - 1], last.sin()), (row[width - 1], last.cos())]
    {
        assert!((value - expected).abs() < 1e-6, "{value} {expected}");
    }
}

/// Opens a perhaps broken checkpoint and reads all it holds: any answer is right, a panic is not.
fn read_all(folder: &Path) -> Result<(), WeightsError> {
    let checkpoint = Checkpoint::open(folder)?;
    for (name, _) in canonical_tensors(&checkpoint.dims) {
        checkpoint.tensor(&name)?;
    }
    Ok(())
}

#[test]
fn files_cut_short_are_errors() {
    for (name, _, write, file) in FORMATS {
        let folder = tempfile::tempdir().expect("a folder for the test");
        write(folder.path());
        let path = folder.path().join(file);
        let whole = std::fs::read(&path).expect("written");
        for part in 0..24 {
            // Close to the start every few bytes, later in leaps; never a whole file.
            let length = if part < 12 { part * 5 } else { whole.len() - 1 - (24 - part) * whole.len() / 14 };
            std::fs::write(&path, &whole[..length.min(whole.len() - 1)]).expect("cut");
            let error = read_all(folder.path()).expect_err(name).to_string();
            assert!(!error.is_empty());
        }
        std::fs::write(&path, &whole).expect("restored");
        read_all(folder.path()).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn absurd_numbers_in_files_never_panic() {
    let mut seed = 9u64;
    let mut random = move |below: usize| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) as usize % below
    };
    for (name, _, write, file) in FORMATS {
        let folder = tempfile::tempdir().expect("a folder for the test");
        write(folder.path());
        let path = folder.path().join(file);
        let whole = std::fs::read(&path).expect("written");
        let mut refused = 0;
        for attempt in 0..40 {
            let mut bytes = whole.clone();
            let near_start = attempt % 2 == 0;
            let at = random(if near_start { 24 } else { bytes.len() - 8 });
            let absurd = [u64::MAX, 0, 1 << 31, 0x7f00_0000_0000_00ff][random(4)];
            let width = 1 + random(8);
            bytes[at..at + width].copy_from_slice(&absurd.to_le_bytes()[..width]);
            std::fs::write(&path, &bytes).expect("written");
            refused += usize::from(read_all(folder.path()).is_err());
        }
        assert!(refused > 0, "{name}: none of 40 damages was noticed");
    }
}

#[test]
fn graphs_nested_without_end_are_refused() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    onnx(folder.path(), false);
    let nested = weights_formats::onnx_nested(2000);
    std::fs::write(folder.path().join("encoder_model_quantized.onnx"), nested).expect("written");
    assert!(matches!(Checkpoint::open(folder.path()), Err(WeightsError::File(FileError::Damaged { .. }))));
}

#[test]
fn a_missing_tensor_or_a_wrong_vocabulary_is_named() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    weights_formats::safetensors_without(folder.path(), "decoder.blocks.1.cross_attn.value.bias");
    let error = Checkpoint::open(folder.path()).expect_err("incomplete").to_string();
    assert!(error.contains("decoder.blocks.1.cross_attn.value.bias"), "{error}");

    weights_formats::ct2(folder.path(), &DIMS, 0);
    std::fs::remove_file(folder.path().join("model.safetensors")).expect("removed");
    std::fs::write(folder.path().join("vocabulary.txt"), "a\nb\n").expect("written");
    let error = Checkpoint::open(folder.path()).expect_err("wrong vocabulary").to_string();
    assert!(error.contains("vocabulary"), "{error}");

    let empty = tempfile::tempdir().expect("a folder for the test");
    assert!(matches!(Checkpoint::open(empty.path()), Err(WeightsError::NothingFound { .. })));
    assert!(matches!(Checkpoint::open(&empty.path().join("none")), Err(WeightsError::File(FileError::Read { .. }))));
}

#[test]
#[ignore = "needs models"]
fn whisper_base_opens_with_every_tensor_and_its_facts() {
    let checkpoint = Checkpoint::open(&weights_installed::folder("whisper-base")).expect("it opens");
    let dims = checkpoint.dims;
    assert_eq!((dims.n_mels, dims.n_audio_state, dims.n_audio_head, dims.n_audio_layer), (80, 512, 8, 6));
    assert_eq!((dims.n_text_ctx, dims.n_text_layer, dims.n_vocab), (448, 6, 51865));
    assert_eq!(checkpoint.alignment_heads.len(), 8);
    // The encoder's positions are a formula, so they say whether rows, types and offsets are right.
    let positions = checkpoint.tensor("encoder.positional_embedding").expect("listed");
    assert!((positions[512 * 3] - 3f32.sin()).abs() < 1e-3 && (positions[512 * 3 + 256] - 3f32.cos()).abs() < 1e-3);
    for (name, _) in canonical_tensors(&dims) {
        assert!(checkpoint.tensor(&name).expect("listed").iter().all(|v| v.is_finite()), "{name}");
    }
}
