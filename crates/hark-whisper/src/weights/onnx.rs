//! ONNX graphs as transformers.js uses them, mostly quantized: one for the encoder, one for the decoder.
//!
//! Embeddings, biases, norms and convolutions are initializers under Hugging Face's names. The matrices of linears
//! have names such as `onnx::MatMul_603_quantized` that say nothing: the node that multiplies by one carries the
//! module in its own name, `/layers.0/self_attn/q_proj/MatMul_quant`. A merged decoder adds `_merged_0` to names and
//! keeps its nodes in the branches of an `If`. `X_quantized` has its scale in `X_scale`, its zero in `X_zero_point`.

use std::collections::HashMap;
use std::path::Path;

use super::file::WeightsFile;
use super::folder::Facts;
use super::names::from_hugging_face;
use super::protobuf::{Broken, Field, Fields, floats, integers};
use super::tensor::{Element, Scaling, Tensor};
use super::{Format, Found, WeightsError};

/// Graphs inside graphs; the real ones go one deep.
const DEEPEST: usize = 8;

pub(super) fn open(encoder: &Path, decoder: &Path, facts: Facts) -> Result<Found, WeightsError> {
    let files = vec![WeightsFile::open(encoder)?, WeightsFile::open(decoder)?];
    let mut tensors = HashMap::new();
    for (number, side) in ["encoder", "decoder"].into_iter().enumerate() {
        let file = &files[number];
        let graph =
            Graph::read(file.bytes()).map_err(|Broken| file.damaged("it is no ONNX graph, or it ends early"))?;
        for (name, tensor) in graph.tensors(&files, number)? {
            let name = name.strip_prefix("model.").unwrap_or(&name);
            let name = name.strip_prefix(side).and_then(|n| n.strip_prefix('.')).unwrap_or(name);
            tensors.insert(from_hugging_face(&format!("{side}.{name}")), tensor);
        }
    }
    Ok(Found {
        format: Format::Onnx,
        tensors,
        audio_heads: facts.encoder_attention_heads,
        text_heads: facts.decoder_attention_heads,
        vocabulary: None,
        facts,
        files,
    })
}

/// An initializer: a constant of the graph.
#[derive(Default)]
struct Constant<'a> {
    shape: Vec<u64>,
    kind: u64,
    raw: Option<&'a [u8]>,
    floats: Vec<f32>,
    integers: Vec<u64>,
    elsewhere: bool,
}

/// What is needed of a node: its module's path, the operation and the names it reads.
struct Node<'a> {
    name: &'a str,
    operation: &'a str,
    inputs: Vec<&'a str>,
}

#[derive(Default)]
struct Graph<'a> {
    constants: HashMap<&'a str, Constant<'a>>,
    nodes: Vec<Node<'a>>,
}

impl<'a> Graph<'a> {
    fn read(model: &'a [u8]) -> Result<Self, Broken> {
        let mut graph = Self::default();
        for field in Fields::new(model) {
            if let (7, Field::Bytes(message)) = field? {
                graph.read_graph(message, 0)?;
            }
        }
        Ok(graph)
    }

    fn read_graph(&mut self, message: &'a [u8], depth: usize) -> Result<(), Broken> {
        if depth > DEEPEST {
            return Err(Broken);
        }
        for field in Fields::new(message) {
            match field? {
                (1, Field::Bytes(node)) => self.read_node(node, depth)?,
                (5, Field::Bytes(constant)) => {
                    let (name, constant) = read_constant(constant)?;
                    self.constants.insert(name, constant);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn read_node(&mut self, message: &'a [u8], depth: usize) -> Result<(), Broken> {
        let mut node = Node { name: "", operation: "", inputs: Vec::new() };
        let mut output = "";
        for field in Fields::new(message) {
            match field? {
                (1, Field::Bytes(input)) => node.inputs.push(text(input)?),
                (2, Field::Bytes(name)) => output = text(name)?,
                (3, Field::Bytes(name)) => node.name = text(name)?,
                (4, Field::Bytes(operation)) => node.operation = text(operation)?,
                (5, Field::Bytes(attribute)) => {
                    for field in Fields::new(attribute) {
                        match field? {
                            (6 | 11, Field::Bytes(graph)) => self.read_graph(graph, depth + 1)?,
                            // The value of a `Constant` node, known by what the node puts out.
                            (5, Field::Bytes(constant)) if node.operation == "Constant" => {
                                let (_, constant) = read_constant(constant)?;
                                self.constants.entry(output).or_insert(constant);
                            }
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
        }
        self.nodes.push(node);
        Ok(())
    }

    /// The tensors of the network under Hugging Face's names.
    fn tensors(&self, files: &[WeightsFile], number: usize) -> Result<HashMap<String, Tensor>, WeightsError> {
        let mut tensors = HashMap::new();
        for (name, constant) in &self.constants {
            let name_in_model = without_merge_number(name.strip_suffix("_quantized").unwrap_or(name));
            if name_in_model.ends_with(".weight") || name_in_model.ends_with(".bias") {
                let tensor = self.tensor(files, number, name, constant)?;
                tensors.insert(name_in_model.to_owned(), tensor);
            }
        }
        for node in &self.nodes {
            let Some((module, step)) = node.name.trim_start_matches('/').rsplit_once('/') else {
                continue;
            };
            let module = module.replace('/', ".");
            let last = module.rsplit('.').next().unwrap_or_default();
            let is_norm = last.ends_with("layer_norm");
            let is_linear = matches!(last, "q_proj" | "k_proj" | "v_proj" | "out_proj" | "fc1" | "fc2");
            if !is_norm && !is_linear {
                continue;
            }
            match (node.operation, node.inputs.get(1)) {
                ("MatMulInteger" | "MatMul", Some(input)) => {
                    let name = format!("{module}.weight");
                    let known = tensors.contains_key(&name);
                    if let (false, Some(constant)) = (known, self.constants.get(input)) {
                        let matrix = self
                            .tensor(files, number, input, constant)?
                            .transposed()
                            .map_err(|what| files[number].damaged(format!("{input}: {what}")))?;
                        tensors.insert(name, matrix);
                    }
                }
                // Equal biases and norms may share one constant under another module's name.
                ("Add" | "Mul", _) => {
                    let part = match step {
                        "Add" | "Add_1" => "bias",
                        "Mul" if is_norm => "weight",
                        _ => continue,
                    };
                    let constant = node.inputs.iter().find_map(|name| Some((name, self.constants.get(name)?)));
                    let Some((input, constant)) = constant else {
                        continue;
                    };
                    let name = format!("{module}.{part}");
                    if constant.shape.len() == 1 && !tensors.contains_key(&name) {
                        tensors.insert(name, self.tensor(files, number, input, constant)?);
                    }
                }
                _ => {}
            }
        }
        Ok(tensors)
    }

    fn tensor(
        &self,
        files: &[WeightsFile],
        number: usize,
        name: &str,
        constant: &Constant<'a>,
    ) -> Result<Tensor, WeightsError> {
        let file = &files[number];
        let damaged = |what: String| file.damaged(format!("{name}: {what}"));
        if constant.elsewhere {
            return Err(
                file.unsupported(format!("{name} lies in another file; use a model whose graphs hold their weights"))
            );
        }
        let element = match constant.kind {
            1 => Element::F32,
            2 => Element::U8,
            3 => Element::I8,
            10 => Element::F16,
            16 => Element::Bf16,
            other => return Err(file.unsupported(format!("{name} has ONNX type {other}"))),
        };
        let raw = constant.raw.ok_or_else(|| damaged("it has no raw data".into()))?;
        let offset = raw.as_ptr() as usize - file.bytes().as_ptr() as usize;
        let shape: Vec<usize> = constant
            .shape
            .iter()
            .map(|n| usize::try_from(*n).map_err(|_| damaged("absurd shape".into())))
            .collect::<Result<_, _>>()?;
        let tensor = Tensor::stored(files, number, offset, raw.len(), element, shape).map_err(damaged)?;
        if !matches!(element, Element::U8 | Element::I8) {
            return Ok(tensor);
        }

        let base = name.strip_suffix("_quantized").unwrap_or(name);
        let beside = |suffix: &str| self.constants.get(format!("{base}{suffix}").as_str());
        let scales = beside("_scale")
            .map(Constant::values)
            .ok_or_else(|| damaged("it is quantized, but its scale is missing".into()))?;
        let zeros = beside("_zero_point").map_or_else(|| vec![0.0; scales.len()], Constant::values);
        // A convolution has a scale for each output channel, which is its first dimension; a linear's is its last.
        let by_row = tensor.shape.len() == 3 || tensor.columns() != scales.len();
        let scaling = match (&scales[..], &zeros[..]) {
            ([scale], [zero]) => Scaling::Whole { scale: *scale, zero: *zero },
            _ if by_row => Scaling::Rows { scales, zeros },
            _ => Scaling::Columns { scales, zeros },
        };
        tensor.scaled(scaling).map_err(damaged)
    }
}

impl Constant<'_> {
    /// The values of a scale or zero point, however they are stored; few enough to copy.
    fn values(&self) -> Vec<f32> {
        let Some(raw) = self.raw else {
            if !self.floats.is_empty() {
                return self.floats.clone();
            }
            return self.integers.iter().map(|n| *n as i64 as f32).collect();
        };
        match self.kind {
            1 => raw.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect(),
            2 => raw.iter().map(|b| f32::from(*b)).collect(),
            3 => raw.iter().map(|b| f32::from(*b as i8)).collect(),
            _ => Vec::new(),
        }
    }
}

/// A name without the `_merged_0` a merged decoder ends it with.
fn without_merge_number(name: &str) -> &str {
    match name.rsplit_once("_merged_") {
        Some((before, number)) if number.bytes().all(|b| b.is_ascii_digit()) => before,
        _ => name,
    }
}

fn read_constant(message: &[u8]) -> Result<(&str, Constant<'_>), Broken> {
    let mut constant = Constant::default();
    let mut name = "";
    for field in Fields::new(message) {
        match field? {
            (1, dims) => integers(dims, &mut constant.shape)?,
            (2, Field::Number(kind)) => constant.kind = kind,
            (4, field) => floats(field, &mut constant.floats)?,
            (5, field) => integers(field, &mut constant.integers)?,
            (8, Field::Bytes(bytes)) => name = text(bytes)?,
            (9, Field::Bytes(bytes)) => constant.raw = Some(bytes),
            (14, Field::Number(location)) => constant.elsewhere = location != 0,
            _ => {}
        }
    }
    Ok((name, constant))
}

fn text(bytes: &[u8]) -> Result<&str, Broken> {
    std::str::from_utf8(bytes).map_err(|_| Broken)
}

/// The float32 weights of an ONNX graph, for networks that other crates run.
pub struct OnnxWeights<'a>(Graph<'a>);

impl<'a> OnnxWeights<'a> {
    /// Reads the graph in `file`; no number is copied yet.
    pub fn read(file: &'a [u8]) -> Result<Self, String> {
        Graph::read(file).map(Self).map_err(|Broken| "it is no ONNX graph, or it ends early".to_owned())
    }

    /// The name of what the named node reads as its input number `index`.
    pub fn input(&self, node: &str, index: usize) -> Result<&'a str, String> {
        let found = self.0.nodes.iter().find(|found| found.name == node);
        let found = found.ok_or_else(|| format!("it has no node {node}"))?;
        found.inputs.get(index).copied().ok_or_else(|| format!("node {node} has no input {index}"))
    }

    /// The numbers of the named constant, which must have this shape.
    pub fn floats(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, String> {
        let constant = self.0.constants.get(name).ok_or_else(|| format!("it has no constant {name}"))?;
        let same_shape = constant.shape.len() == shape.len()
            && constant.shape.iter().zip(shape).all(|(found, wanted)| usize::try_from(*found) == Ok(*wanted));
        if constant.kind != 1 || !same_shape {
            return Err(format!(
                "{name} has type {} and shape {:?}, not float32 {shape:?}",
                constant.kind, constant.shape
            ));
        }
        let values = constant.values();
        if values.len() != shape.iter().product::<usize>() {
            return Err(format!("{name} holds {} numbers, not those of {shape:?}", values.len()));
        }
        Ok(values)
    }
}
