//! Writers of one small random network in every weights format, from the formats' descriptions.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

use hark_whisper::weights::{Dims, canonical_tensors};

pub const DIMS: Dims = Dims {
    n_mels: 32,
    n_audio_ctx: 1500,
    n_audio_state: 64,
    n_audio_head: 2,
    n_audio_layer: 1,
    n_text_ctx: 64,
    n_text_state: 64,
    n_text_head: 2,
    n_text_layer: 2,
    n_vocab: 256 + 1509 + 99,
};

/// Value `i` of a tensor: a multiple of 1/8 in [-1, 1) that depends on both.
pub fn value_of(name: &str, i: usize) -> f32 {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for byte in name.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    }
    let mixed = (hash ^ i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed >> 60) as f32 - 8.0) / 8.0
}

fn values(name: &str, shape: &[usize]) -> Vec<f32> {
    (0..shape.iter().product()).map(|i| value_of(name, i)).collect()
}

/// Bits of a half that holds a multiple of 1/8 in [-1, 1) exactly.
fn half(value: f32) -> u16 {
    let bits = value.to_bits();
    if value == 0.0 {
        return 0;
    }
    let exponent = ((bits >> 23) & 0xff) as i32 - 127 + 15;
    ((bits >> 16) & 0x8000) as u16 | (exponent as u16) << 10 | ((bits >> 13) & 0x3ff) as u16
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn halves(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| half(*v).to_le_bytes()).collect()
}

/// The 256 byte tokens in GPT-2's order, as characters of a vocabulary file.
fn byte_letters() -> Vec<char> {
    let printable = |b: u32| (0x21..=0x7e).contains(&b) || (0xa1..=0xac).contains(&b) || (0xae..=0xff).contains(&b);
    let plain = (0..256).filter(|b| printable(*b));
    plain.chain(0x100..0x100 + 68).filter_map(char::from_u32).collect()
}

/// Tokens that are no bytes, up to those of the whole vocabulary that stand for text.
fn words(dims: &Dims) -> impl Iterator<Item = String> {
    let languages = if dims.n_vocab == 51_866 { 100 } else { 99 };
    (256..dims.n_vocab - 1509 - languages).map(|number| format!("w{number}"))
}

fn write_vocabulary(folder: &Path, dims: &Dims) {
    let tokens = byte_letters().into_iter().map(String::from).chain(words(dims)).chain(["<|endoftext|>".to_owned()]);
    let lines: String = tokens.flat_map(|token| [token, "\n".to_owned()]).collect();
    std::fs::write(folder.join("vocabulary.txt"), lines).expect("written");
}

fn write_config(folder: &Path, dims: &Dims) {
    let config = format!(
        r#"{{"encoder_attention_heads": {}, "decoder_attention_heads": {}, "alignment_heads": [[0, 1], [1, 0]]}}"#,
        dims.n_audio_head, dims.n_text_head
    );
    std::fs::write(folder.join("config.json"), config).expect("written");
}

/// A CTranslate2 variable: its name, its shape and the canonical tensors stacked in it.
type Variable = (String, Vec<usize>, Vec<String>);

fn ct2_variables(dims: &Dims) -> Vec<Variable> {
    let shapes: HashMap<String, Vec<usize>> = canonical_tensors(dims).into_iter().collect();
    let mut variables: Vec<Variable> = Vec::new();
    for (side, layers) in [("encoder", dims.n_audio_layer), ("decoder", dims.n_text_layer)] {
        let mut plain = vec![(format!("{side}.positional_embedding"), format!("{side}/position_encodings/encodings"))];
        let ln = if side == "encoder" { "ln_post" } else { "ln" };
        let mut norms = vec![(format!("{side}.{ln}"), format!("{side}/layer_norm"))];
        if side == "encoder" {
            for conv in ["conv1", "conv2"] {
                for part in ["weight", "bias"] {
                    plain.push((format!("{side}.{conv}.{part}"), format!("{side}/{conv}/{part}")));
                }
            }
        } else {
            plain.push(("decoder.token_embedding.weight".into(), "decoder/embeddings/weight".into()));
        }
        for i in 0..layers {
            let block = format!("{side}.blocks.{i}");
            let layer = format!("{side}/layer_{i}");
            let mut linears: Vec<(&str, &str, &[&str])> = vec![
                ("attn", "self_attention/linear_0", &["query", "key", "value"]),
                ("attn", "self_attention/linear_1", &["out"]),
                ("mlp", "ffn/linear_0", &["0"]),
                ("mlp", "ffn/linear_1", &["2"]),
            ];
            norms.push((format!("{block}.attn_ln"), format!("{layer}/self_attention/layer_norm")));
            norms.push((format!("{block}.mlp_ln"), format!("{layer}/ffn/layer_norm")));
            if side == "decoder" {
                norms.push((format!("{block}.cross_attn_ln"), format!("{layer}/attention/layer_norm")));
                linears.push(("cross_attn", "attention/linear_0", &["query"]));
                linears.push(("cross_attn", "attention/linear_1", &["key", "value"]));
                linears.push(("cross_attn", "attention/linear_2", &["out"]));
            }
            for (module, variable, parts) in linears {
                for what in ["weight", "bias"] {
                    let parts: Vec<String> = parts.iter().map(|p| format!("{block}.{module}.{p}.{what}")).collect();
                    // Keys have no bias of their own.
                    let mut shape = parts.iter().find_map(|part| shapes.get(part)).expect("a canonical tensor").clone();
                    shape[0] *= parts.len();
                    variables.push((format!("{layer}/{variable}/{what}"), shape, parts));
                }
            }
        }
        for (name, variable) in norms {
            for (what, ct2) in [("weight", "gamma"), ("bias", "beta")] {
                plain.push((format!("{name}.{what}"), format!("{variable}/{ct2}")));
            }
        }
        for (name, variable) in plain {
            variables.push((variable, shapes[&name].clone(), vec![name]));
        }
    }
    variables
}

/// What a file is written through: bytes, and zeros that take no room on the disk.
struct Holes {
    file: File,
    end: u64,
}

impl Holes {
    fn create(path: &Path) -> Self {
        Holes { file: File::create(path).expect("created"), end: 0 }
    }

    fn put(&mut self, bytes: &[u8]) {
        self.file.seek(SeekFrom::Start(self.end)).and_then(|_| self.file.write_all(bytes)).expect("written");
        self.end += bytes.len() as u64;
    }

    fn skip(&mut self, bytes: usize) {
        self.end += bytes as u64;
        self.file.set_len(self.end).expect("grown");
    }
}

fn ct2_string(text: &str) -> Vec<u8> {
    [&(text.len() as u16 + 1).to_le_bytes(), text.as_bytes(), &[0]].concat()
}

fn ct2_start(variables: usize) -> Vec<u8> {
    [&6u32.to_le_bytes()[..], &ct2_string("WhisperSpec"), &3u32.to_le_bytes(), &(variables as u32).to_le_bytes()]
        .concat()
}

/// What stands before a variable's data.
fn ct2_head(name: &str, shape: &[usize], kind: u8, bytes: usize) -> Vec<u8> {
    let mut out = ct2_string(name);
    out.push(shape.len() as u8);
    shape.iter().for_each(|n| out.extend((*n as u32).to_le_bytes()));
    out.push(kind);
    out.extend((bytes as u32).to_le_bytes());
    out
}

/// CTranslate2 with linears as the given type (0 f32, 4 f16, 1 i8 with scales) and the rest in floats.
pub fn ct2(folder: &Path, dims: &Dims, kind: u8) {
    let shapes: HashMap<String, Vec<usize>> = canonical_tensors(dims).into_iter().collect();
    let mut variables: Vec<(String, Vec<usize>, u8, Vec<u8>)> = Vec::new();
    for (name, shape, parts) in ct2_variables(dims) {
        let of_part = |part: &String| match shapes.get(part) {
            Some(shape) => values(part, shape),
            // Keys have no bias: stacked biases hold zeros there.
            None => vec![0.0; shape[0] / parts.len()],
        };
        let data: Vec<f32> = parts.iter().flat_map(of_part).collect();
        match kind {
            1 if name.ends_with("weight") => {
                let scale = 64.0f32;
                let data = data.iter().map(|v| (v * scale) as i8 as u8).collect();
                let scales = floats(&vec![scale; shape[0]]);
                variables.push((format!("{name}_scale"), vec![shape[0]], 0, scales));
                variables.push((name, shape, 1, data));
            }
            4 => variables.push((name, shape, 4, halves(&data))),
            _ => variables.push((name, shape, 0, floats(&data))),
        }
    }
    for (side, heads) in [("encoder", dims.n_audio_head), ("decoder", dims.n_text_head)] {
        variables.push((format!("{side}/num_heads"), vec![], 2, (heads as i16).to_le_bytes().to_vec()));
    }

    let mut out = ct2_start(variables.len());
    for (name, shape, kind, data) in variables {
        out.extend(ct2_head(&name, &shape, kind, data.len()));
        out.extend(data);
    }
    out.extend(1u32.to_le_bytes());
    out.extend(ct2_string("decoder/projection/weight"));
    out.extend(ct2_string("decoder/embeddings/weight"));
    std::fs::write(folder.join("model.bin"), out).expect("written");
    write_vocabulary(folder, dims);
}

/// CTranslate2 in halves that are all zero and no configuration, of any size.
pub fn ct2_of_zeros(folder: &Path, dims: &Dims) {
    let variables = ct2_variables(dims);
    let mut out = Holes::create(&folder.join("model.bin"));
    out.put(&ct2_start(variables.len()));
    for (name, shape, _) in variables {
        let bytes = 2 * shape.iter().product::<usize>();
        out.put(&ct2_head(&name, &shape, 4, bytes));
        out.skip(bytes);
    }
    out.put(&0u32.to_le_bytes());
    write_vocabulary(folder, dims);
}

/// Hugging Face's name of a canonical tensor.
fn hugging_face(name: &str) -> String {
    let name = name
        .replace("positional_embedding", "embed_positions.weight")
        .replace("token_embedding", "embed_tokens")
        .replace("ln_post", "layer_norm")
        .replace("decoder.ln.", "decoder.layer_norm.")
        .replace("blocks", "layers")
        .replace("cross_attn_ln", "encoder_attn_layer_norm")
        .replace("cross_attn", "encoder_attn")
        .replace(".attn_ln", ".self_attn_layer_norm")
        .replace(".attn.", ".self_attn.")
        .replace("mlp_ln", "final_layer_norm")
        .replace("mlp.0", "fc1")
        .replace("mlp.2", "fc2")
        .replace("query", "q_proj")
        .replace("key", "k_proj")
        .replace("value", "v_proj")
        .replace(".out.", ".out_proj.");
    format!("model.{name}")
}

/// Safetensors of a type, in one file or several with an index.
pub fn safetensors(folder: &Path, dims: &Dims, kind: &str, shards: usize) {
    write_safetensors(folder, dims, kind, shards, "");
}

/// Safetensors with one tensor left out.
pub fn safetensors_without(folder: &Path, left_out: &str) {
    write_safetensors(folder, &DIMS, "F32", 1, left_out);
}

fn write_safetensors(folder: &Path, dims: &Dims, kind: &str, shards: usize, left_out: &str) {
    let mut index = Vec::new();
    for shard in 0..shards {
        let file = if shards == 1 { "model.safetensors".into() } else { format!("model-{shard}.safetensors") };
        let mut table = vec![r#""__metadata__":{"format":"pt"}"#.to_string()];
        let mut data = Vec::new();
        for (i, (name, shape)) in canonical_tensors(dims).into_iter().enumerate() {
            if i % shards != shard || name == left_out {
                continue;
            }
            let values = values(&name, &shape);
            let start = data.len();
            match kind {
                "F16" => data.extend(halves(&values)),
                "BF16" => data.extend(values.iter().flat_map(|v| ((v.to_bits() >> 16) as u16).to_le_bytes())),
                _ => data.extend(floats(&values)),
            }
            let name = hugging_face(&name);
            table.push(format!(
                r#""{name}":{{"dtype":"{kind}","shape":{shape:?},"data_offsets":[{start},{}]}}"#,
                data.len()
            ));
            index.push(format!(r#""{name}":"{file}""#));
        }
        let table = format!("{{{}}}", table.join(","));
        let mut out = (table.len() as u64).to_le_bytes().to_vec();
        out.extend(table.as_bytes());
        out.extend(data);
        std::fs::write(folder.join(file), out).expect("written");
    }
    if shards > 1 {
        let index = format!(r#"{{"weight_map":{{{}}}}}"#, index.join(","));
        std::fs::write(folder.join("model.safetensors.index.json"), index).expect("written");
    }
    write_vocabulary(folder, dims);
    write_config(folder, dims);
}

/// Magic, sizes, filterbank and vocabulary of a ggml file.
fn ggml_start(d: &Dims, kind: u32) -> Vec<u8> {
    let mut out = b"lmgg".to_vec();
    for size in [
        d.n_vocab,
        d.n_audio_ctx,
        d.n_audio_state,
        d.n_audio_head,
        d.n_audio_layer,
        d.n_text_ctx,
        d.n_text_state,
        d.n_text_head,
        d.n_text_layer,
        d.n_mels,
        kind as usize,
        d.n_mels,
        3,
    ] {
        out.extend((size as u32).to_le_bytes());
    }
    out.extend(floats(&vec![0.0; d.n_mels * 3]));
    let letters = byte_letters();
    let unprintable = (0..=255u8).filter(|b| !letters[..188].contains(&char::from(*b)));
    let bytes = letters[..188].iter().map(|letter| u32::from(*letter) as u8).chain(unprintable).map(|b| vec![b]);
    let tokens: Vec<Vec<u8>> =
        bytes.chain(words(d).map(String::into_bytes)).chain([b"<|endoftext|>".to_vec()]).collect();
    out.extend((tokens.len() as u32).to_le_bytes());
    for token in tokens {
        out.extend((token.len() as u32).to_le_bytes());
        out.extend(token);
    }
    out
}

/// What stands before a tensor's data.
fn ggml_head(name: &str, shape: &[usize], kind: u32) -> Vec<u8> {
    // whisper.cpp keeps the biases of convolutions as columns.
    let shape = if name.contains("conv") && shape.len() == 1 { vec![shape[0], 1] } else { shape.to_vec() };
    let numbers = [shape.len() as u32, name.len() as u32, kind];
    let sizes = shape.iter().rev().map(|n| *n as u32);
    let mut out: Vec<u8> = numbers.into_iter().chain(sizes).flat_map(u32::to_le_bytes).collect();
    out.extend(name.as_bytes());
    out
}

/// ggml with matrices of the given ggml type and the rest in f32.
pub fn ggml(folder: &Path, dims: &Dims, kind: u32) {
    let mut out = ggml_start(dims, kind);
    for (name, shape) in canonical_tensors(dims) {
        let values = values(&name, &shape);
        let kind = if shape.len() == 2 { kind } else { 0 };
        out.extend(ggml_head(&name, &shape, kind));
        match kind {
            0 => out.extend(floats(&values)),
            1 => out.extend(halves(&values)),
            _ => values.chunks(32).for_each(|block| out.extend(ggml_block(kind, block))),
        }
    }
    std::fs::write(folder.join("ggml-model.bin"), out).expect("written");
}

/// ggml in halves that are all zero, of any size.
pub fn ggml_of_zeros(folder: &Path, dims: &Dims) {
    let mut out = Holes::create(&folder.join("ggml-model.bin"));
    out.put(&ggml_start(dims, 1));
    for (name, shape) in canonical_tensors(dims) {
        out.put(&ggml_head(&name, &shape, 1));
        out.skip(2 * shape.iter().product::<usize>());
    }
}

fn ggml_block(kind: u32, values: &[f32]) -> Vec<u8> {
    // Eighths as whole numbers from 0 to 15.
    let levels: Vec<u8> = values.iter().map(|v| (v * 8.0 + 8.0) as u8).collect();
    let mut block = half(0.125).to_le_bytes().to_vec();
    match kind {
        2 => {}
        7 => {
            block.extend(half(-1.0).to_le_bytes());
            block.extend([0; 4]);
        }
        _ => {
            block.extend(levels.iter().map(|level| level.wrapping_sub(8)));
            return block;
        }
    }
    block.extend((0..16).map(|i| levels[i] | levels[i + 16] << 4));
    block
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn field(out: &mut Vec<u8>, number: u64, bytes: &[u8]) {
    varint(out, number << 3 | 2);
    varint(out, bytes.len() as u64);
    out.extend(bytes);
}

fn onnx_tensor(name: &str, shape: &[usize], kind: u64, raw: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for n in shape {
        varint(&mut out, 1 << 3);
        varint(&mut out, *n as u64);
    }
    varint(&mut out, 2 << 3);
    varint(&mut out, kind);
    field(&mut out, 8, name.as_bytes());
    field(&mut out, 9, raw);
    out
}

fn onnx_node(name: &str, operation: &str, inputs: &[String], attribute: Option<Vec<u8>>) -> Vec<u8> {
    let mut out = Vec::new();
    inputs.iter().for_each(|input| field(&mut out, 1, input.as_bytes()));
    field(&mut out, 3, name.as_bytes());
    field(&mut out, 4, operation.as_bytes());
    if let Some(attribute) = attribute {
        field(&mut out, 5, &attribute);
    }
    out
}

/// The transformers.js pair: linears known by their nodes only, decoder nodes inside an `If`.
pub fn onnx(folder: &Path, by_channel: bool) {
    for side in ["encoder", "decoder"] {
        let merged = if side == "decoder" { "_merged_0" } else { "" };
        let mut constants = Vec::new();
        let mut nodes = Vec::new();
        for (number, (name, shape)) in canonical_tensors(&DIMS).into_iter().enumerate() {
            if !name.starts_with(side) {
                continue;
            }
            let values = values(&name, &shape);
            let name = hugging_face(&name);
            let name = if side == "encoder" { name.replace("model.encoder.", "") } else { name };
            if shape.len() == 1 || name.contains("embed_positions") {
                constants.push(onnx_tensor(&format!("{name}{merged}"), &shape, 1, &floats(&values)));
                continue;
            }
            let is_linear = name.contains("proj") || name.contains(".fc");
            let stored = if is_linear { format!("onnx::MatMul_{number}") } else { name.clone() };
            let stored = format!("{stored}{merged}");
            let (values, shape) = if is_linear {
                let (rows, columns) = (shape[0], shape[1]);
                let turned = (0..rows * columns).map(|i| values[i % rows * columns + i / rows]).collect();
                (turned, vec![columns, rows])
            } else {
                (values, shape)
            };
            // u8 around 128 with one scale, or i8 around 0 with a scale for each output channel.
            let axis = if is_linear { shape[1] } else { shape[0] };
            let count = if by_channel { axis } else { 1 };
            let zero = if by_channel { 0u8 } else { 128 };
            let quantized: Vec<u8> = values.iter().map(|v| zero.wrapping_add((v * 64.0) as i8 as u8)).collect();
            let kind = if by_channel { 3 } else { 2 };
            let dims = if by_channel { vec![count] } else { vec![] };
            constants.push(onnx_tensor(&format!("{stored}_quantized"), &shape, kind, &quantized));
            constants.push(onnx_tensor(&format!("{stored}_scale"), &dims, 1, &floats(&vec![1.0 / 64.0; count])));
            constants.push(onnx_tensor(&format!("{stored}_zero_point"), &dims, kind, &vec![zero; count]));
            if is_linear {
                let module = name.strip_suffix(".weight").expect("a weight");
                let module = module.replace("model.decoder.", "model/decoder/");
                let module = module.replace(".self_attn.", "/self_attn/").replace(".encoder_attn.", "/encoder_attn/");
                let module = module.replace(".fc", "/fc");
                let inputs = ["x".into(), format!("{stored}_quantized"), "z".into(), format!("{stored}_zero_point")];
                nodes.push(onnx_node(&format!("/{module}/MatMul_quant"), "MatMulInteger", &inputs, None));
            }
        }
        let mut graph = Vec::new();
        if side == "decoder" {
            let mut inner = Vec::new();
            nodes.iter().for_each(|node| field(&mut inner, 1, node));
            let mut attribute = Vec::new();
            field(&mut attribute, 1, b"then_branch");
            field(&mut attribute, 6, &inner);
            field(&mut graph, 1, &onnx_node("optimum::if", "If", &["use_cache".into()], Some(attribute)));
        } else {
            nodes.iter().for_each(|node| field(&mut graph, 1, node));
        }
        constants.iter().for_each(|constant| field(&mut graph, 5, constant));
        let mut model = Vec::new();
        field(&mut model, 7, &graph);
        let name = if side == "encoder" { "encoder_model" } else { "decoder_model_merged" };
        std::fs::write(folder.join(format!("{name}_quantized.onnx")), model).expect("written");
    }
    write_vocabulary(folder, &DIMS);
    write_config(folder, &DIMS);
}

/// A model whose graph holds a node that holds a graph that holds a node, and so on.
pub fn onnx_nested(depth: usize) -> Vec<u8> {
    let mut graph = Vec::new();
    for _ in 0..depth {
        let mut attribute = Vec::new();
        field(&mut attribute, 6, &graph);
        let node = onnx_node("/if", "If", &[], Some(attribute));
        graph = Vec::new();
        field(&mut graph, 1, &node);
    }
    let mut model = Vec::new();
    field(&mut model, 7, &graph);
    model
}
