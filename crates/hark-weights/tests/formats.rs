//! Small files of every format, made here: what comes out, and what cut and lying files give.

mod writers;

use std::sync::Arc;

use hark_weights::ct2::Ct2Model;
use hark_weights::ggml::GgmlModel;
use hark_weights::gguf::{GgufModel, Value};
use hark_weights::onnx::OnnxModel;
use hark_weights::{Dtype, FileError, Quantization, Tensor, Tensors, WeightsFile, safetensors, torch};
use writers::{Gguf, bf16s, f16s, f32s};

fn file(bytes: Vec<u8>) -> Arc<WeightsFile> {
    WeightsFile::from_bytes("test.file", bytes)
}

/// The tensors of a file of any format, by its first bytes.
fn tensors_of(format: &str, bytes: Vec<u8>) -> Result<Tensors, FileError> {
    let file = file(bytes);
    Ok(match format {
        "safetensors" => safetensors::read(&file)?,
        "onnx" => OnnxModel::read(&file)?.tensors,
        "ct2" => Ct2Model::read(&file)?.tensors,
        "ggml" => GgmlModel::read(&file)?.tensors,
        "gguf" => GgufModel::read(&file)?.tensors,
        "torch" => torch::read(&file)?,
        other => panic!("no format {other}"),
    })
}

/// Each format's file with a float32 tensor `w` = [[1, -2, 3], [-4, 5, -6]] in it.
fn samples() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("safetensors", writers::safetensors(&[("w", "F32", &[2, 3], f32s(&WHOLE))])),
        ("onnx", writers::onnx(&[writers::onnx_tensor("w", &[2, 3], 1, &f32s(&WHOLE))], &[])),
        ("ct2", writers::ct2("TestSpec", &[("w", &[2, 3], 0, f32s(&WHOLE))], &[])),
        ("ggml", writers::ggml(&[("w", &[2, 3], 0, f32s(&WHOLE))])),
        ("gguf", Gguf::new(3).text("general.name", "test").tensor("w", &[2, 3], 0, f32s(&WHOLE)).finish()),
        ("torch", writers::torch("FloatStorage", "w", &[2, 3], &f32s(&WHOLE))),
    ]
}

const WHOLE: [f32; 6] = [1.0, -2.0, 3.0, -4.0, 5.0, -6.0];

#[test]
fn every_format_gives_the_same_tensor() {
    for (format, bytes) in samples() {
        let tensors = tensors_of(format, bytes).unwrap_or_else(|error| panic!("{format}: {error}"));
        assert_eq!(tensors.names().collect::<Vec<_>>(), ["w"], "{format}");
        let tensor = tensors.get("w").unwrap();
        assert_eq!((tensor.shape(), tensor.dtype()), (&[2, 3][..], Dtype::F32), "{format}");
        assert_eq!(tensor.to_f32(), WHOLE, "{format}");
        assert_eq!(tensors.floats("w", &[2, 3]).unwrap(), WHOLE, "{format}");
        assert!(matches!(tensors.floats("w", &[3, 2]), Err(FileError::Damaged { .. })), "{format}");
        assert!(matches!(tensors.get("v"), Err(FileError::MissingTensor { .. })), "{format}");
    }
}

#[test]
fn files_cut_short_anywhere_are_errors() {
    for (format, whole) in samples() {
        for length in 0..whole.len() {
            let error = tensors_of(format, whole[..length].to_vec()).map(|tensors| tensors.len());
            // ONNX is a list of fields and ggml a list of tensors: cut between two of them, a file is whole but for what
            // is missing. CTranslate2 may end before its aliases.
            let may_be_whole = matches!(format, "onnx" | "ggml" | "ct2");
            match error {
                Err(error) => assert!(!error.to_string().is_empty()),
                Ok(count) => assert!(may_be_whole && count < 2, "{format} cut at {length} of {}", whole.len()),
            }
        }
    }
}

#[test]
fn files_with_any_bytes_changed_are_errors_or_read_but_never_panic() {
    for (format, whole) in samples() {
        for at in 0..whole.len() {
            for absurd in [0u64, 1, 1 << 31, 0x7fff_ffff_ffff_fff0, u64::MAX] {
                for width in [1, 4, 8] {
                    let mut bytes = whole.clone();
                    let end = (at + width).min(bytes.len());
                    bytes[at..end].copy_from_slice(&absurd.to_le_bytes()[..end - at]);
                    let Ok(tensors) = tensors_of(format, bytes) else { continue };
                    for tensor in tensors.iter() {
                        // A tensor never has more values than bytes of its file hold.
                        assert!(tensor.len() <= whole.len(), "{format}: {} values", tensor.len());
                        let _ = tensor.to_f32();
                    }
                }
            }
        }
    }
}

#[test]
fn a_mapped_file_reads_as_one_in_memory_and_a_missing_or_empty_one_is_named() {
    let folder = tempfile::tempdir().unwrap();
    for (format, bytes) in samples() {
        let path = folder.path().join(format);
        std::fs::write(&path, &bytes).unwrap();
        let mapped = WeightsFile::open(&path).unwrap();
        assert_eq!(mapped.bytes(), bytes);
        if format == "safetensors" {
            assert_eq!(safetensors::read(&mapped).unwrap().floats("w", &[2, 3]).unwrap(), WHOLE);
        }
    }
    let missing = WeightsFile::open(&folder.path().join("none")).unwrap_err();
    assert!(matches!(missing, FileError::Read { .. }) && missing.to_string().contains("none"), "{missing}");
    std::fs::write(folder.path().join("empty"), []).unwrap();
    assert!(matches!(WeightsFile::open(&folder.path().join("empty")), Err(FileError::Damaged { .. })));
    assert!(matches!(WeightsFile::open(folder.path()), Err(FileError::Read { .. })));
}

#[test]
fn safetensors_of_other_types_are_listed_with_the_reason() {
    let bytes = writers::safetensors(&[
        ("a", "F16", &[3], f16s(&[1.0, -0.5, 2.0])),
        ("b", "BF16", &[3], bf16s(&[1.0, -0.5, 2.0])),
        ("c", "F8_E4M3", &[2], vec![1, 2]),
        ("d", "I64", &[1], 7i64.to_le_bytes().to_vec()),
    ]);
    let tensors = safetensors::read(&file(bytes)).unwrap();
    assert_eq!(tensors.floats("a", &[3]).unwrap(), [1.0, -0.5, 2.0]);
    assert_eq!(tensors.floats("b", &[3]).unwrap(), [1.0, -0.5, 2.0]);
    assert_eq!(tensors.floats("d", &[1]).unwrap(), [7.0]);
    let error = tensors.get("c").unwrap_err().to_string();
    assert!(error.contains("F8_E4M3"), "{error}");
    assert_eq!((tensors.len(), tensors.iter().count(), tensors.contains("c")), (4, 3, true));
}

#[test]
fn safetensors_with_lying_headers_are_refused() {
    let with_header = |header: &str, data: usize| {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.as_bytes());
        bytes.resize(bytes.len() + data, 0);
        safetensors::read(&file(bytes)).unwrap_err().to_string()
    };
    let entry =
        |shape: &str, offsets: &str| format!(r#"{{"w":{{"dtype":"F32","shape":{shape},"data_offsets":{offsets}}}}}"#);
    with_header(&entry("[2]", "[0,12]"), 12);
    with_header(&entry("[2]", "[4,12]"), 12);
    with_header(&entry("[2]", "[8,0]"), 8);
    with_header(&entry("[18446744073709551615,2]", "[0,8]"), 8);
    with_header(&entry("[0,4294967296,4294967296,4294967296]", "[0,0]"), 0);
    assert!(with_header(&entry("[2]", "[0,8]"), 9).contains("9 follow"));
    assert!(with_header(&entry("[2]", "[0,8]"), 7).contains("7 follow"));
    // Two tensors over the same bytes.
    let twice =
        r#"{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}"#;
    with_header(twice, 4);
    // Offsets whose sum overflows.
    let mut huge = String::from("{");
    for i in 0..8u64 {
        let size = if i == 7 { (1 << 61) - 1 } else { 1u64 << 61 };
        let start = i << 61;
        huge += &format!(r#""{i}":{{"dtype":"U8","shape":[{size}],"data_offsets":[{start},{}]}},"#, start + size);
    }
    huge.pop();
    with_header(&(huge + "}"), 16);
    let too_long = safetensors::read(&file(u64::MAX.to_le_bytes().to_vec())).unwrap_err().to_string();
    assert!(too_long.contains("header"), "{too_long}");
}

#[test]
fn shards_are_read_together_and_stay_in_their_folder() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("1.safetensors"), writers::safetensors(&[("a", "F32", &[1], f32s(&[1.0]))])).unwrap();
    std::fs::write(path("2.safetensors"), writers::safetensors(&[("b", "F32", &[1], f32s(&[2.0]))])).unwrap();
    let index = path("model.safetensors.index.json");
    std::fs::write(&index, r#"{"weight_map":{"a":"1.safetensors","b":"2.safetensors"}}"#).unwrap();
    let tensors = safetensors::read_sharded(&index).unwrap();
    assert_eq!((tensors.floats("a", &[1]).unwrap(), tensors.floats("b", &[1]).unwrap()), (vec![1.0], vec![2.0]));
    for outside in ["../1.safetensors", "/etc/passwd", "x/../1.safetensors", ""] {
        std::fs::write(&index, format!(r#"{{"weight_map":{{"a":"{outside}"}}}}"#)).unwrap();
        assert!(matches!(safetensors::read_sharded(&index), Err(FileError::Damaged { .. })), "{outside}");
    }
    std::fs::write(&index, r#"{"weight_map":{}}"#).unwrap();
    assert!(safetensors::read_sharded(&index).is_err());
}

#[test]
fn onnx_constants_come_from_raw_bytes_lists_and_branches_with_their_scales() {
    let lists = writers::onnx_list("lists", &[2], &[0.5, 0.25]);
    let quantized = writers::onnx_tensor("m_quantized", &[2, 3], 2, &[128, 130, 126, 0, 255, 128]);
    let scale = writers::onnx_tensor("m_scale", &[], 1, &f32s(&[0.5]));
    let zero = writers::onnx_tensor("m_zero_point", &[], 2, &[128]);
    let columns = writers::onnx_tensor("c_quantized", &[2, 3], 3, &[1, 2, 3, 4, 5, 6]);
    let column_scales = writers::onnx_tensor("c_scale", &[3], 1, &f32s(&[1.0, 10.0, 100.0]));
    let text = writers::onnx_tensor("text", &[1], 8, b"x");
    let external = writers::onnx_external("external", &[4]);
    let node = writers::onnx_node("/fc/MatMul", "MatMul", &["x", "m_quantized"]);
    let branch = writers::onnx_branch(&[writers::onnx_node("/inside/Add", "Add", &["y", "lists"])]);
    let constants = [lists, quantized, scale, zero, columns, column_scales, text, external];
    let model = OnnxModel::read(&file(writers::onnx(&constants, &[node, branch]))).unwrap();

    assert_eq!(model.tensors.floats("lists", &[2]).unwrap(), [0.5, 0.25]);
    assert_eq!(model.dequantized("m_quantized").unwrap().to_f32(), [0.0, 1.0, -1.0, -64.0, 63.5, 0.0]);
    let columns = model.dequantized("c_quantized").unwrap();
    assert_eq!(columns.to_f32(), [1.0, 20.0, 300.0, 4.0, 50.0, 600.0]);
    assert_eq!(columns.transposed().unwrap().to_f32(), [1.0, 4.0, 20.0, 50.0, 300.0, 600.0]);
    assert!(model.tensors.get("text").unwrap_err().to_string().contains("ONNX type 8"));
    assert!(model.tensors.get("external").unwrap_err().to_string().contains("another file"));
    assert_eq!(model.node_input("/fc/MatMul", 1).unwrap(), "m_quantized");
    assert_eq!(model.node_input("/inside/Add", 1).unwrap(), "lists");
    assert!(model.node_input("/fc/MatMul", 2).is_err() && model.node_input("/none", 0).is_err());

    let mut nested = writers::onnx_node("/if", "If", &[]);
    for _ in 0..2000 {
        nested = writers::onnx_branch(&[nested]);
    }
    assert!(matches!(OnnxModel::read(&file(writers::onnx(&[], &[nested]))), Err(FileError::Damaged { .. })));
    // Millions of nodes of two bytes each would take a hundred times their size.
    let many = vec![Vec::new(); (1 << 20) + 1];
    assert!(OnnxModel::read(&file(writers::onnx(&[], &many))).is_err());
}

#[test]
fn ct2_variables_have_their_scales_aliases_and_attributes() {
    let variables: [(&str, &[usize], u8, Vec<u8>); 5] = [
        ("w", &[2, 3], 1, vec![2, 4, 6, 250, 0, 1]),
        ("w_scale", &[2], 0, f32s(&[2.0, 0.5])),
        ("heads", &[], 2, 8i16.to_le_bytes().to_vec()),
        ("h", &[2], 4, f16s(&[1.0, -2.0])),
        ("unknown", &[1], 77, vec![0]),
    ];
    let aliases = [("alias", "w"), ("of alias", "alias"), ("of nothing", "none")];
    let model = Ct2Model::read(&file(writers::ct2("TestSpec", &variables, &aliases))).unwrap();
    assert_eq!((model.spec.as_str(), model.revision), ("TestSpec", 3));
    assert_eq!(model.tensors.floats("w", &[2, 3]).unwrap(), [1.0, 2.0, 3.0, -12.0, 0.0, 2.0]);
    assert_eq!(model.tensors.get("alias").unwrap().to_f32(), model.tensors.get("w").unwrap().to_f32());
    assert!(!model.tensors.contains("of alias") && !model.tensors.contains("of nothing"));
    assert_eq!(model.tensors.floats("h", &[2]).unwrap(), [1.0, -2.0]);
    assert_eq!((model.attribute("heads"), model.attribute("h"), model.attribute("none")), (Some(8), None, None));
    assert!(matches!(model.tensors.get("unknown"), Err(FileError::Unsupported { .. })));
    assert_eq!(*model.tensors.get("heads").unwrap().quantization(), Quantization::None);

    let wrong_scales: [(&str, &[usize], u8, Vec<u8>); 2] =
        [("w", &[2, 3], 1, vec![0; 6]), ("w_scale", &[3], 0, f32s(&[1.0; 3]))];
    assert!(Ct2Model::read(&file(writers::ct2("TestSpec", &wrong_scales, &[]))).is_err());
    let mut old = writers::ct2("TestSpec", &[], &[]);
    old[0] = 3;
    let error = Ct2Model::read(&file(old)).err().unwrap().to_string();
    assert!(error.contains("version 3"), "{error}");
}

#[test]
fn ggml_carries_its_vocabulary_and_blocks() {
    let mut block = f16s(&[0.5]);
    block.extend((0..32).map(|i| (i as i8 - 16) as u8));
    let bytes = writers::ggml(&[("q", &[1, 32], 8, block), ("bias", &[4, 1], 1, f16s(&[1.0, 2.0, 3.0, 4.0]))]);
    let model = GgmlModel::read(&file(bytes)).unwrap();
    assert_eq!(model.vocabulary, [b"a".to_vec(), b"bc".to_vec()]);
    assert_eq!((model.sizes[0], model.sizes[10]), (1, 11));
    let values: Vec<f32> = (0..32).map(|i| (i as f32 - 16.0) * 0.5).collect();
    assert_eq!(model.tensors.floats("q", &[1, 32]).unwrap(), values);
    let bias = model.tensors.get("bias").unwrap().clone().reshaped(&[4]).unwrap();
    assert_eq!((bias.shape(), bias.to_f32()), (&[4][..], vec![1.0, 2.0, 3.0, 4.0]));
    // A row that is no whole number of blocks, and a type that is not known.
    assert!(GgmlModel::read(&file(writers::ggml(&[("q", &[1, 31], 8, vec![0; 34])]))).is_err());
    let error = GgmlModel::read(&file(writers::ggml(&[("q", &[1, 32], 10, vec![0; 34])]))).err().unwrap();
    assert!(error.to_string().contains("ggml type 10"), "{error}");
}

#[test]
fn gguf_carries_metadata_and_aligned_tensors() {
    let mut block = f16s(&[2.0]);
    block.extend([1; 32]);
    let gguf = |version: u32, alignment: u32| {
        Gguf::new(version)
            .text("general.architecture", "llama")
            .u32("general.alignment", alignment)
            .u32("llama.block_count", 22)
            .f32("llama.rope.freq_base", 10_000.0)
            .texts("tokenizer.ggml.tokens", &["<s>", "hello"])
            .tensor("f32", &[3], 0, f32s(&[1.0, 2.0, 3.0]))
            .tensor("f16", &[2, 2], 1, f16s(&[1.0, 2.0, 3.0, 4.0]))
            .tensor("bf16", &[2], 30, bf16s(&[-1.0, 0.5]))
            .tensor("q8", &[1, 32], 8, block.clone())
            .tensor("q4_k", &[1, 256], 12, vec![0; 144])
            .tensor("q2_k", &[1, 256], 10, vec![0; 84])
            .finish()
    };
    for (version, alignment) in [(2, 32), (3, 32), (3, 64), (3, 8)] {
        let model = GgufModel::read(&file(gguf(version, alignment))).unwrap();
        assert_eq!(model.metadata["general.architecture"].as_str(), Some("llama"));
        assert_eq!(model.metadata["llama.block_count"].as_u64(), Some(22));
        assert_eq!(model.metadata["llama.rope.freq_base"], Value::Float(10_000.0));
        let tokens = Value::Array(vec![Value::Text("<s>".into()), Value::Text("hello".into())]);
        assert_eq!(model.metadata["tokenizer.ggml.tokens"], tokens);
        assert_eq!(model.tensors.floats("f32", &[3]).unwrap(), [1.0, 2.0, 3.0]);
        assert_eq!(model.tensors.floats("f16", &[2, 2]).unwrap(), [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(model.tensors.floats("bf16", &[2]).unwrap(), [-1.0, 0.5]);
        assert_eq!(model.tensors.floats("q8", &[1, 32]).unwrap(), [2.0; 32]);
        assert_eq!(model.tensors.floats("q4_k", &[1, 256]).unwrap(), [0.0; 256]);
        assert!(model.tensors.get("q2_k").unwrap_err().to_string().contains("ggml type 10"));
    }
    let refused = |bytes: Vec<u8>| GgufModel::read(&file(bytes)).err().expect("refused").to_string();
    assert!(refused(gguf(1, 32)).contains("version 1"));
    assert!(refused(gguf(3, 0)).contains("alignment") && refused(gguf(3, 24)).contains("alignment"));
    assert!(refused(Gguf::new(3).nested_arrays("deep", 50).finish()).contains("deep"));
    assert!(refused(Gguf::new(3).lying_array("long", u64::MAX).finish()).contains("announced"));
    assert!(refused(Gguf::new(3).with_counts(u64::MAX, 0).finish()).contains("tensors"));
}

#[test]
fn pytorch_storages_of_every_type_are_read_and_compressed_ones_refused() {
    for (class, dtype, bytes) in [
        ("FloatStorage", Dtype::F32, f32s(&[1.0, -2.0])),
        ("HalfStorage", Dtype::F16, f16s(&[1.0, -2.0])),
        ("BFloat16Storage", Dtype::Bf16, bf16s(&[1.0, -2.0])),
        ("DoubleStorage", Dtype::F64, [1f64, -2.0].map(f64::to_le_bytes).concat()),
        ("LongStorage", Dtype::I64, [1i64, -2].map(i64::to_le_bytes).concat()),
        ("CharStorage", Dtype::I8, vec![1, 254]),
    ] {
        let tensors = torch::read(&file(writers::torch(class, "w", &[2], &bytes))).unwrap();
        assert_eq!(tensors.get("w").unwrap().dtype(), dtype);
        assert_eq!(tensors.floats("w", &[2]).unwrap(), [1.0, -2.0], "{class}");
    }
    let error = torch::read(&file(writers::torch_compressed("w", &[2, 3], &f32s(&WHOLE)))).unwrap_err();
    assert!(matches!(error, FileError::Unsupported { .. }), "{error}");
    // A bit that was flipped on the way does not pass the archive's checksum.
    let mut bytes = writers::torch("FloatStorage", "w", &[2, 3], &f32s(&WHOLE));
    let at = bytes.windows(4).position(|four| four == f32s(&[5.0])).unwrap();
    bytes[at] ^= 1;
    assert!(matches!(torch::read(&file(bytes)), Err(FileError::Damaged { .. })));
}

/// A 3 × 4 matrix of bytes with the given quantization.
fn matrix(quantization: Quantization) -> Tensor {
    let bytes: Vec<u8> = (0..12).collect();
    Tensor::new("m", vec![3, 4], Dtype::U8, &file(bytes), 0..12).unwrap().quantized(quantization).unwrap()
}

#[test]
fn rows_parts_and_transposes_agree_with_the_whole() {
    let per_row = Quantization::PerRow { scales: [1.0, 2.0, 3.0].into(), zero_points: [0.0, 1.0, 2.0].into() };
    let per_column = Quantization::PerColumn { scales: [1.0, 2.0, 3.0, 4.0].into(), zero_points: [0.0; 4].into() };
    let per_tensor = Quantization::PerTensor { scale: 0.5, zero_point: 3.0 };
    for quantization in [Quantization::None, per_tensor, per_row, per_column] {
        let tensor = matrix(quantization);
        let whole = tensor.to_f32();
        let mut rows = vec![0.0; 8];
        tensor.rows_f32(1..3, &mut rows);
        assert_eq!(rows, whole[4..]);
        let part = tensor.part(2, 3).unwrap();
        assert_eq!((part.shape(), part.to_f32()), (&[1, 4][..], whole[8..].to_vec()));
        assert!(tensor.part(0, 2).is_err());
        let transposed = tensor.clone().transposed().unwrap();
        assert_eq!((transposed.shape(), transposed.rows(), transposed.columns()), (&[4, 3][..], 4, 3));
        let expected: Vec<f32> = (0..12).map(|i| whole[i % 3 * 4 + i / 3]).collect();
        assert_eq!(transposed.to_f32(), expected);
        let mut rows = vec![0.0; 6];
        transposed.rows_f32(1..3, &mut rows);
        assert_eq!(rows, expected[3..9]);
        assert_eq!(transposed.transposed().unwrap().to_f32(), whole);
        let mut bf16 = vec![0; 12];
        tensor.rows_bf16(0..3, &mut bf16);
        let back: Vec<f32> = bf16.iter().map(|bits| hark_weights::bf16_to_f32(*bits)).collect();
        assert_eq!(back, whole);
    }
}

#[test]
fn tensors_that_do_not_fit_their_bytes_are_refused() {
    let file = file(vec![0; 64]);
    let new = |shape: &[usize], dtype, bytes| Tensor::new("t", shape.to_vec(), dtype, &file, bytes);
    assert!(new(&[4], Dtype::F32, 0..16).is_ok() && new(&[], Dtype::F32, 0..4).is_ok());
    assert!(new(&[4], Dtype::F32, 0..15).is_err() && new(&[4], Dtype::F32, 56..72).is_err());
    assert!(new(&[usize::MAX, 2], Dtype::F32, 0..16).is_err());
    assert!(new(&[0, usize::MAX, 2], Dtype::F32, 0..0).is_err());
    assert!(new(&[1; 9], Dtype::F32, 0..4).is_err());
    let empty = new(&[0, 7], Dtype::F32, 64..64).unwrap();
    assert!(empty.is_empty() && empty.to_f32().is_empty());
    // No row of a trillion columns, and a trillion rows of none: nothing is allocated or counted for them.
    let tall = new(&[1 << 40, 0], Dtype::F32, 0..0).unwrap();
    tall.rows_bf16(0..1 << 40, &mut []);
    let flat = new(&[0, 1 << 40], Dtype::F32, 0..0).unwrap();
    assert!(flat.to_f32().is_empty() && flat.transposed().unwrap().to_f32().is_empty());
    let wide = new(&[7, 0], Dtype::F32, 0..0).unwrap();
    assert!(wide.is_empty() && wide.to_f32().is_empty() && wide.transposed().unwrap().to_f32().is_empty());
    assert!(new(&[2, 2], Dtype::F32, 0..16).unwrap().reshaped(&[4]).is_err());
    assert!(new(&[4], Dtype::F32, 0..16).unwrap().transposed().is_err());
}

#[test]
fn an_empty_tensor_whose_other_dimensions_overflow_is_refused() {
    // Found by fuzzing: three large dimensions and a zero.
    let bytes = include_bytes!("../../../fuzz/seeds/weights/empty-of-huge-shape").to_vec();
    let error = Ct2Model::read(&WeightsFile::from_bytes("model.bin", bytes)).map(drop).unwrap_err();
    assert!(error.to_string().contains("impossible shape"), "{error}");
}
