//! Writes small ONNX files (feature `test-support`).

use std::path::Path;

/// A dimension of an input or output.
#[derive(Debug, Clone, Copy)]
pub enum Size {
    /// Always this.
    Is(usize),
    /// Chosen by the caller, under a name.
    Any(&'static str),
}

/// The type of an input, output or constant, as ONNX numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Element {
    /// 32-bit floats.
    F32 = 1,
    /// 64-bit integers.
    I64 = 7,
    /// 16-bit floats.
    F16 = 10,
}

/// An attribute of a node.
#[derive(Debug, Clone, Copy)]
pub enum Value<'a> {
    /// A float.
    Float(f32),
    /// An integer.
    Int(i64),
    /// Several integers.
    Ints(&'a [i64]),
}

/// A graph that is being built.
#[derive(Debug, Default)]
pub struct Graph {
    nodes: Vec<Vec<u8>>,
    inputs: Vec<Vec<u8>>,
    outputs: Vec<Vec<u8>>,
    constants: Vec<(String, Vec<usize>, Element, Vec<u8>)>,
    state: u64,
}

impl Graph {
    /// An empty graph whose random weights come from a seed.
    pub fn new(seed: u64) -> Self {
        Graph { state: seed.wrapping_mul(2).wrapping_add(1), ..Graph::default() }
    }

    /// Adds an input.
    pub fn input(&mut self, name: &str, element: Element, shape: &[Size]) {
        self.inputs.push(value_info(name, element, shape));
    }

    /// Adds an output, which a node must make.
    pub fn output(&mut self, name: &str, element: Element, shape: &[Size]) {
        self.outputs.push(value_info(name, element, shape));
    }

    /// Adds a constant of floats.
    pub fn floats(&mut self, name: &str, shape: &[usize], numbers: &[f32]) {
        assert_eq!(shape.iter().product::<usize>(), numbers.len(), "{name}");
        let bytes = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        self.constants.push((name.to_owned(), shape.to_vec(), Element::F32, bytes));
    }

    /// Adds a constant of integers.
    pub fn integers(&mut self, name: &str, shape: &[usize], numbers: &[i64]) {
        assert_eq!(shape.iter().product::<usize>(), numbers.len(), "{name}");
        let bytes = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        self.constants.push((name.to_owned(), shape.to_vec(), Element::I64, bytes));
    }

    /// Adds a constant of random floats from `-scale` to `scale`.
    pub fn random(&mut self, name: &str, shape: &[usize], scale: f32) {
        let numbers: Vec<f32> = (0..shape.iter().product::<usize>()).map(|_| self.next() * scale).collect();
        self.floats(name, shape, &numbers);
    }

    /// From -1 to 1.
    fn next(&mut self) -> f32 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }

    /// Adds a node; the operator of another domain than ONNX's own is written `com.microsoft:GroupQueryAttention`.
    pub fn node(&mut self, operator: &str, inputs: &[&str], outputs: &[&str], attributes: &[(&str, Value<'_>)]) {
        let (domain, operator) = operator.split_once(':').unwrap_or(("", operator));
        let mut node = Vec::new();
        inputs.iter().for_each(|name| bytes(&mut node, 1, name.as_bytes()));
        outputs.iter().for_each(|name| bytes(&mut node, 2, name.as_bytes()));
        bytes(&mut node, 3, outputs[0].as_bytes());
        bytes(&mut node, 4, operator.as_bytes());
        for (name, value) in attributes {
            bytes(&mut node, 5, &attribute(name, *value));
        }
        if !domain.is_empty() {
            bytes(&mut node, 7, domain.as_bytes());
        }
        self.nodes.push(node);
    }

    /// Writes a file with its constants in it.
    pub fn write(&self, path: &Path) {
        std::fs::write(path, self.encoded(None).0).expect("an ONNX file can be written");
    }

    /// Writes a file whose constants of more than a hundred bytes lie in the file `NAME_data` beside it, as exporters do with large models.
    pub fn write_external(&self, path: &Path) {
        let name = path.file_name().and_then(|name| name.to_str()).expect("a file name");
        let location = format!("{name}_data");
        let (file, data) = self.encoded(Some(&location));
        std::fs::write(path, file).expect("an ONNX file can be written");
        std::fs::write(path.with_file_name(location), data).expect("its data can be written");
    }

    fn encoded(&self, location: Option<&str>) -> (Vec<u8>, Vec<u8>) {
        let (mut graph, mut data) = (Vec::new(), Vec::new());
        self.nodes.iter().for_each(|node| bytes(&mut graph, 1, node));
        bytes(&mut graph, 2, b"test");
        for (name, shape, element, raw) in &self.constants {
            let mut tensor = Vec::new();
            shape.iter().for_each(|size| number(&mut tensor, 1, *size as u64));
            number(&mut tensor, 2, *element as u64);
            bytes(&mut tensor, 8, name.as_bytes());
            match location.filter(|_| raw.len() > 100) {
                None => bytes(&mut tensor, 9, raw),
                Some(location) => {
                    for (key, value) in [
                        ("location", location.to_owned()),
                        ("offset", data.len().to_string()),
                        ("length", raw.len().to_string()),
                    ] {
                        let mut entry = Vec::new();
                        bytes(&mut entry, 1, key.as_bytes());
                        bytes(&mut entry, 2, value.as_bytes());
                        bytes(&mut tensor, 13, &entry);
                    }
                    number(&mut tensor, 14, 1);
                    data.extend_from_slice(raw);
                }
            }
            bytes(&mut graph, 5, &tensor);
        }
        self.inputs.iter().for_each(|input| bytes(&mut graph, 11, input));
        self.outputs.iter().for_each(|output| bytes(&mut graph, 12, output));
        let mut model = Vec::new();
        number(&mut model, 1, 10);
        bytes(&mut model, 7, &graph);
        for (domain, version) in [("", 20), ("com.microsoft", 1)] {
            let mut opset = Vec::new();
            bytes(&mut opset, 1, domain.as_bytes());
            number(&mut opset, 2, version);
            bytes(&mut model, 8, &opset);
        }
        (model, data)
    }
}

fn value_info(name: &str, element: Element, shape: &[Size]) -> Vec<u8> {
    let mut dimensions = Vec::new();
    for size in shape {
        let mut dimension = Vec::new();
        match size {
            Size::Is(size) => number(&mut dimension, 1, *size as u64),
            Size::Any(name) => bytes(&mut dimension, 2, name.as_bytes()),
        }
        bytes(&mut dimensions, 1, &dimension);
    }
    let mut tensor = Vec::new();
    number(&mut tensor, 1, element as u64);
    bytes(&mut tensor, 2, &dimensions);
    let mut kind = Vec::new();
    bytes(&mut kind, 1, &tensor);
    let mut info = Vec::new();
    bytes(&mut info, 1, name.as_bytes());
    bytes(&mut info, 2, &kind);
    info
}

fn attribute(name: &str, value: Value<'_>) -> Vec<u8> {
    let mut attribute = Vec::new();
    bytes(&mut attribute, 1, name.as_bytes());
    let kind = match value {
        Value::Float(value) => {
            varint(&mut attribute, 2 << 3 | 5);
            attribute.extend_from_slice(&value.to_le_bytes());
            1
        }
        Value::Int(value) => {
            number(&mut attribute, 3, value as u64);
            2
        }
        Value::Ints(values) => {
            values.iter().for_each(|value| number(&mut attribute, 8, *value as u64));
            7
        }
    };
    number(&mut attribute, 20, kind);
    attribute
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn number(out: &mut Vec<u8>, field: u64, value: u64) {
    varint(out, field << 3);
    varint(out, value);
}

fn bytes(out: &mut Vec<u8>, field: u64, value: &[u8]) {
    varint(out, field << 3 | 2);
    varint(out, value.len() as u64);
    out.extend_from_slice(value);
}
