//! Writers of small files, from the formats' descriptions.

use std::io::{Cursor, Write};

pub fn f32s(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

pub fn bf16s(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| ((value.to_bits() >> 16) as u16).to_le_bytes()).collect()
}

/// Halves of values that they hold exactly.
pub fn f16s(values: &[f32]) -> Vec<u8> {
    let half = |value: f32| {
        let bits = value.to_bits();
        let exponent = ((bits >> 23) & 0xff) as u16 + 15 - 127;
        ((bits >> 16) & 0x8000) as u16 | exponent << 10 | ((bits >> 13) & 0x3ff) as u16
    };
    values.iter().flat_map(|value| half(*value).to_le_bytes()).collect()
}

/// Safetensors with these tensors: name, type, shape, bytes.
pub fn safetensors(tensors: &[(&str, &str, &[usize], Vec<u8>)]) -> Vec<u8> {
    let mut table = vec![r#""__metadata__":{"format":"pt"}"#.to_owned()];
    let mut data = Vec::new();
    for (name, dtype, shape, bytes) in tensors {
        let start = data.len();
        data.extend(bytes);
        let end = data.len();
        table.push(format!(r#""{name}":{{"dtype":"{dtype}","shape":{shape:?},"data_offsets":[{start},{end}]}}"#));
    }
    let table = format!("{{{}}}", table.join(","));
    [&(table.len() as u64).to_le_bytes()[..], table.as_bytes(), &data].concat()
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

fn number(out: &mut Vec<u8>, field: u64, value: u64) {
    varint(out, field << 3);
    varint(out, value);
}

/// A tensor of raw bytes of the given ONNX type.
pub fn onnx_tensor(name: &str, shape: &[usize], kind: u64, raw: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    shape.iter().for_each(|n| number(&mut out, 1, *n as u64));
    number(&mut out, 2, kind);
    field(&mut out, 8, name.as_bytes());
    field(&mut out, 9, raw);
    out
}

/// A float tensor whose values are a packed list.
pub fn onnx_list(name: &str, shape: &[usize], values: &[f32]) -> Vec<u8> {
    let mut out = Vec::new();
    shape.iter().for_each(|n| number(&mut out, 1, *n as u64));
    number(&mut out, 2, 1);
    field(&mut out, 4, &f32s(values));
    field(&mut out, 8, name.as_bytes());
    out
}

/// A float tensor whose values lie in another file.
pub fn onnx_external(name: &str, shape: &[usize]) -> Vec<u8> {
    let mut out = onnx_tensor(name, shape, 1, &[]);
    number(&mut out, 14, 1);
    out
}

pub fn onnx_node(name: &str, operation: &str, inputs: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    inputs.iter().for_each(|input| field(&mut out, 1, input.as_bytes()));
    field(&mut out, 3, name.as_bytes());
    field(&mut out, 4, operation.as_bytes());
    out
}

/// An `If` node with a branch that holds these nodes.
pub fn onnx_branch(nodes: &[Vec<u8>]) -> Vec<u8> {
    let mut graph = Vec::new();
    nodes.iter().for_each(|node| field(&mut graph, 1, node));
    let mut attribute = Vec::new();
    field(&mut attribute, 6, &graph);
    let mut out = onnx_node("/if", "If", &[]);
    field(&mut out, 5, &attribute);
    out
}

pub fn onnx(constants: &[Vec<u8>], nodes: &[Vec<u8>]) -> Vec<u8> {
    let mut graph = Vec::new();
    nodes.iter().for_each(|node| field(&mut graph, 1, node));
    constants.iter().for_each(|constant| field(&mut graph, 5, constant));
    let mut model = Vec::new();
    field(&mut model, 7, &graph);
    model
}

fn ct2_string(text: &str) -> Vec<u8> {
    [&(text.len() as u16 + 1).to_le_bytes(), text.as_bytes(), &[0]].concat()
}

/// CTranslate2 with variables (name, shape, type, bytes) and aliases (alias, variable).
pub fn ct2(spec: &str, variables: &[(&str, &[usize], u8, Vec<u8>)], aliases: &[(&str, &str)]) -> Vec<u8> {
    let mut out = 6u32.to_le_bytes().to_vec();
    out.extend(ct2_string(spec));
    out.extend(3u32.to_le_bytes());
    out.extend((variables.len() as u32).to_le_bytes());
    for (name, shape, kind, data) in variables {
        out.extend(ct2_string(name));
        out.push(shape.len() as u8);
        shape.iter().for_each(|n| out.extend((*n as u32).to_le_bytes()));
        out.push(*kind);
        out.extend((data.len() as u32).to_le_bytes());
        out.extend(data);
    }
    out.extend((aliases.len() as u32).to_le_bytes());
    for (alias, name) in aliases {
        out.extend(ct2_string(alias));
        out.extend(ct2_string(name));
    }
    out
}

/// whisper.cpp's format: sizes 1 to 11, a filterbank of two values, two tokens, and tensors (name, shape, type, bytes).
pub fn ggml(tensors: &[(&str, &[usize], u32, Vec<u8>)]) -> Vec<u8> {
    let mut out = b"lmgg".to_vec();
    (1..=11u32).for_each(|size| out.extend(size.to_le_bytes()));
    [1u32, 2].iter().for_each(|n| out.extend(n.to_le_bytes()));
    out.extend(f32s(&[0.0, 0.0]));
    out.extend(2u32.to_le_bytes());
    for token in ["a", "bc"] {
        out.extend((token.len() as u32).to_le_bytes());
        out.extend(token.as_bytes());
    }
    for (name, shape, kind, data) in tensors {
        for n in [shape.len() as u32, name.len() as u32, *kind] {
            out.extend(n.to_le_bytes());
        }
        shape.iter().rev().for_each(|n| out.extend((*n as u32).to_le_bytes()));
        out.extend(name.as_bytes());
        out.extend(data);
    }
    out
}

/// A GGUF file in the making.
pub struct Gguf {
    version: u32,
    metadata: Vec<u8>,
    table: Vec<(String, Vec<usize>, u32, Vec<u8>)>,
    counts: Option<(u64, u64)>,
    values: u64,
    alignment: usize,
}

impl Gguf {
    pub fn new(version: u32) -> Self {
        Self { version, metadata: Vec::new(), table: Vec::new(), counts: None, values: 0, alignment: 32 }
    }

    fn string(out: &mut Vec<u8>, text: &str) {
        out.extend((text.len() as u64).to_le_bytes());
        out.extend(text.as_bytes());
    }

    fn value(mut self, key: &str, kind: u32, bytes: &[u8]) -> Self {
        Self::string(&mut self.metadata, key);
        self.metadata.extend(kind.to_le_bytes());
        self.metadata.extend(bytes);
        self.values += 1;
        self
    }

    pub fn u32(mut self, key: &str, value: u32) -> Self {
        if key == "general.alignment" {
            self.alignment = value.max(1) as usize;
        }
        self.value(key, 4, &value.to_le_bytes())
    }

    pub fn f32(self, key: &str, value: f32) -> Self {
        self.value(key, 6, &value.to_le_bytes())
    }

    pub fn text(self, key: &str, text: &str) -> Self {
        let mut bytes = Vec::new();
        Self::string(&mut bytes, text);
        self.value(key, 8, &bytes)
    }

    pub fn texts(self, key: &str, texts: &[&str]) -> Self {
        let mut bytes = 8u32.to_le_bytes().to_vec();
        bytes.extend((texts.len() as u64).to_le_bytes());
        texts.iter().for_each(|text| Self::string(&mut bytes, text));
        self.value(key, 9, &bytes)
    }

    /// An array of an array of an array, and so on.
    pub fn nested_arrays(self, key: &str, depth: usize) -> Self {
        let level = [&9u32.to_le_bytes()[..], &1u64.to_le_bytes()].concat();
        self.value(key, 9, &level.repeat(depth))
    }

    /// An array of bytes that says it is longer than the file.
    pub fn lying_array(self, key: &str, count: u64) -> Self {
        let bytes = [&0u32.to_le_bytes()[..], &count.to_le_bytes()].concat();
        self.value(key, 9, &bytes)
    }

    pub fn with_counts(mut self, tensors: u64, values: u64) -> Self {
        self.counts = Some((tensors, values));
        self
    }

    pub fn tensor(mut self, name: &str, shape: &[usize], kind: u32, data: Vec<u8>) -> Self {
        self.table.push((name.to_owned(), shape.to_vec(), kind, data));
        self
    }

    pub fn finish(self) -> Vec<u8> {
        let mut out = b"GGUF".to_vec();
        out.extend(self.version.to_le_bytes());
        let (tensors, values) = self.counts.unwrap_or((self.table.len() as u64, self.values));
        out.extend(tensors.to_le_bytes());
        out.extend(values.to_le_bytes());
        out.extend(&self.metadata);
        let mut data = Vec::new();
        for (name, shape, kind, bytes) in &self.table {
            data.resize(usize::next_multiple_of(data.len(), self.alignment), 0);
            Self::string(&mut out, name);
            out.extend((shape.len() as u32).to_le_bytes());
            shape.iter().rev().for_each(|n| out.extend((*n as u64).to_le_bytes()));
            out.extend(kind.to_le_bytes());
            out.extend((data.len() as u64).to_le_bytes());
            data.extend(bytes);
        }
        out.resize(out.len().next_multiple_of(self.alignment), 0);
        out.extend(data);
        out
    }
}

/// A PyTorch file with one tensor over one storage.
pub fn torch(class: &str, name: &str, shape: &[usize], storage: &[u8]) -> Vec<u8> {
    torch_file(class, name, shape, storage, zip::CompressionMethod::Stored)
}

/// A PyTorch file of floats whose entries are compressed.
pub fn torch_compressed(name: &str, shape: &[usize], storage: &[u8]) -> Vec<u8> {
    torch_file("FloatStorage", name, shape, storage, zip::CompressionMethod::Deflated)
}

fn torch_file(class: &str, name: &str, shape: &[usize], storage: &[u8], method: zip::CompressionMethod) -> Vec<u8> {
    let text = |text: &str| [&b"X"[..], &(text.len() as u32).to_le_bytes(), text.as_bytes()].concat();
    let tuple = |numbers: &[usize]| {
        let numbers = numbers.iter().flat_map(|n| [b'K', *n as u8]);
        [&b"("[..], &numbers.collect::<Vec<_>>(), b"t"].concat()
    };
    let strides: Vec<usize> = (0..shape.len()).map(|i| shape[i + 1..].iter().product()).collect();
    let pickle = [
        b"\x80\x02}(",
        &text(name)[..],
        b"ctorch._utils\n_rebuild_tensor_v2\n((",
        &text("storage"),
        format!("ctorch\n{class}\n").as_bytes(),
        &text("0"),
        &text("cpu"),
        b"K\x04tQK\x00",
        &tuple(shape),
        &tuple(&strides),
        b"\x89ccollections\nOrderedDict\n)RtRu.",
    ]
    .concat();
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default().compression_method(method);
    for (entry, bytes) in [("any/data.pkl", &pickle[..]), ("any/data/0", storage)] {
        writer.start_file(entry, options).unwrap();
        writer.write_all(bytes).unwrap();
    }
    writer.finish().unwrap().into_inner()
}
