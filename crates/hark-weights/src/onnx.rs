//! The constants and nodes of an ONNX graph.
//!
//! Field numbers are those of ONNX's protobuf schema. Graphs inside nodes (the branches of an `If`) are read into the
//! same lists. A constant is an initializer or the value of a `Constant` node, known by what that node puts out.
//! ONNX Runtime's quantizer keeps the scale of `X_quantized` in `X_scale` and its zero point in `X_zero_point`.

use std::sync::Arc;

use crate::protobuf::{Broken, Field, Fields, floats, integers};
use crate::tensors::range_in;
use crate::{Dtype, FileError, MAX_TENSORS, Quantization, Tensor, Tensors, WeightsFile};

/// Graphs inside graphs; real ones go one deep.
const MAX_DEPTH: usize = 8;
/// Most nodes, and most inputs of all nodes together; large graphs have some ten thousand.
const MAX_NODES: usize = 1 << 20;

/// What is needed of a node: the path of its module, the operation and the names it reads.
#[derive(Debug, Clone)]
pub struct Node {
    /// Its name, often a path of modules: `/layers.0/self_attn/q_proj/MatMul`.
    pub name: String,
    /// The operation: `MatMul`, `LSTM`.
    pub op_type: String,
    /// The names of the values it reads.
    pub inputs: Vec<String>,
}

/// An ONNX graph as its constants and nodes.
pub struct OnnxModel {
    /// Its constants; those in other files or of other types are listed, but can't be read.
    pub tensors: Tensors,
    /// Its nodes, in their order.
    pub nodes: Vec<Node>,
}

impl OnnxModel {
    /// Reads the graph in the file; values stay where they are.
    pub fn read(file: &Arc<WeightsFile>) -> Result<Self, FileError> {
        let mut graph = Graph { file, constants: Vec::new(), nodes: Vec::new(), inputs: 0 };
        graph.read_model().map_err(|Broken| file.damaged("it is no ONNX graph, or it ends early"))?;
        let mut tensors = Tensors::new(file.path());
        for (name, constant) in graph.constants {
            // The first of a name counts: initializers come before what branches repeat of them.
            if tensors.contains(&name) {
                continue;
            }
            match constant.into_tensor(&name, file)? {
                Ok(tensor) => tensors.insert(tensor)?,
                Err(why) => tensors.insert_unsupported(name, why)?,
            }
        }
        Ok(Self { tensors, nodes: graph.nodes })
    }

    /// The name of what the named node reads as input number `index`.
    pub fn node_input(&self, node: &str, index: usize) -> Result<&str, FileError> {
        let damaged = |what: String| FileError::damaged(self.tensors.path(), what);
        let found = self.nodes.iter().find(|found| found.name == node);
        let found = found.ok_or_else(|| damaged(format!("it has no node {node}")))?;
        let input = found.inputs.get(index).map(String::as_str);
        input.ok_or_else(|| damaged(format!("node {node} has no input {index}")))
    }

    /// The constant of that name; an 8-bit one gets the scales that lie beside it.
    pub fn dequantized(&self, name: &str) -> Result<Tensor, FileError> {
        let tensor = self.tensors.get(name)?.clone();
        if !matches!(tensor.dtype(), Dtype::U8 | Dtype::I8) {
            return Ok(tensor);
        }
        let base = name.strip_suffix("_quantized").unwrap_or(name);
        let scales = self.tensors.get(&format!("{base}_scale")).map(Tensor::to_f32).map_err(|_| {
            FileError::damaged(self.tensors.path(), format!("{name} is quantized, but its scale is missing"))
        })?;
        let zero_points = match self.tensors.get(&format!("{base}_zero_point")) {
            Ok(zero_points) => zero_points.to_f32(),
            Err(_) => vec![0.0; scales.len()],
        };
        // A convolution has a scale for each output channel, which is its first dimension; a linear's is its last.
        let by_row = tensor.shape().len() == 3 || tensor.columns() != scales.len();
        tensor.quantized(match (&scales[..], &zero_points[..]) {
            ([scale], [zero_point]) => Quantization::PerTensor { scale: *scale, zero_point: *zero_point },
            _ if by_row => Quantization::PerRow { scales: scales.into(), zero_points: zero_points.into() },
            _ => Quantization::PerColumn { scales: scales.into(), zero_points: zero_points.into() },
        })
    }
}

struct Graph<'a> {
    file: &'a WeightsFile,
    constants: Vec<(String, Constant<'a>)>,
    nodes: Vec<Node>,
    /// Inputs of all nodes.
    inputs: usize,
}

impl<'a> Graph<'a> {
    fn read_model(&mut self) -> Result<(), Broken> {
        let mut found = false;
        for field in Fields::new(self.file.bytes()) {
            if let (7, Field::Bytes(message)) = field? {
                self.read_graph(message, 0)?;
                found = true;
            }
        }
        if found { Ok(()) } else { Err(Broken) }
    }

    fn read_graph(&mut self, message: &'a [u8], depth: usize) -> Result<(), Broken> {
        if depth > MAX_DEPTH {
            return Err(Broken);
        }
        for field in Fields::new(message) {
            match field? {
                (1, Field::Bytes(node)) => self.read_node(node, depth)?,
                (5, Field::Bytes(constant)) => {
                    let (name, constant) = Constant::read(constant)?;
                    self.add_constant(name, constant)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn read_node(&mut self, message: &'a [u8], depth: usize) -> Result<(), Broken> {
        let mut node = Node { name: String::new(), op_type: String::new(), inputs: Vec::new() };
        let mut output = "";
        for field in Fields::new(message) {
            match field? {
                (1, Field::Bytes(input)) => {
                    self.inputs += 1;
                    node.inputs.push(text(input)?.to_owned());
                }
                (2, Field::Bytes(name)) => output = text(name)?,
                (3, Field::Bytes(name)) => node.name = text(name)?.to_owned(),
                (4, Field::Bytes(operation)) => node.op_type = text(operation)?.to_owned(),
                (5, Field::Bytes(attribute)) => {
                    for field in Fields::new(attribute) {
                        match field? {
                            (6 | 11, Field::Bytes(graph)) => self.read_graph(graph, depth + 1)?,
                            (5, Field::Bytes(constant)) if node.op_type == "Constant" => {
                                let (_, constant) = Constant::read(constant)?;
                                self.add_constant(output, constant)?;
                            }
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
            if self.inputs > MAX_NODES {
                return Err(Broken);
            }
        }
        self.nodes.push(node);
        if self.nodes.len() > MAX_NODES { Err(Broken) } else { Ok(()) }
    }

    fn add_constant(&mut self, name: &str, constant: Constant<'a>) -> Result<(), Broken> {
        self.constants.push((name.to_owned(), constant));
        if self.constants.len() > MAX_TENSORS { Err(Broken) } else { Ok(()) }
    }
}

/// A constant as the graph holds it: raw bytes, or lists of numbers.
#[derive(Default)]
struct Constant<'a> {
    shape: Vec<u64>,
    kind: u64,
    raw: Option<&'a [u8]>,
    floats: Vec<f32>,
    integers: Vec<u64>,
    is_external: bool,
}

impl<'a> Constant<'a> {
    fn read(message: &'a [u8]) -> Result<(&'a str, Self), Broken> {
        let mut constant = Self::default();
        let mut name = "";
        for field in Fields::new(message) {
            match field? {
                (1, dims) => integers(dims, &mut constant.shape)?,
                (2, Field::Number(kind)) => constant.kind = kind,
                (4, field) => floats(field, &mut constant.floats)?,
                (5 | 7, field) => integers(field, &mut constant.integers)?,
                (8, Field::Bytes(bytes)) => name = text(bytes)?,
                (9, Field::Bytes(bytes)) => constant.raw = Some(bytes),
                (14, Field::Number(location)) => constant.is_external = location != 0,
                _ => {}
            }
        }
        Ok((name, constant))
    }

    /// The constant as a tensor, or why it can't be read.
    fn into_tensor(self, name: &str, file: &Arc<WeightsFile>) -> Result<Result<Tensor, String>, FileError> {
        if self.is_external {
            return Ok(Err("lies in another file; use a model whose graphs hold their weights".into()));
        }
        let dtype = match self.kind {
            1 => Dtype::F32,
            2 => Dtype::U8,
            3 => Dtype::I8,
            5 => Dtype::I16,
            6 => Dtype::I32,
            7 => Dtype::I64,
            10 => Dtype::F16,
            11 => Dtype::F64,
            16 => Dtype::Bf16,
            other => return Ok(Err(format!("has ONNX type {other}, which is not supported"))),
        };
        let shape = self.shape.iter().map(|n| usize::try_from(*n)).collect::<Result<Vec<_>, _>>();
        let shape = shape.map_err(|_| file.damaged(format!("{name} has an impossible shape")))?;
        if let Some(raw) = self.raw {
            return Tensor::new(name, shape, dtype, file, range_in(file, raw)).map(Ok);
        }
        let bytes: Vec<u8> = match dtype {
            Dtype::F32 => self.floats.iter().flat_map(|value| value.to_le_bytes()).collect(),
            Dtype::U8 | Dtype::I8 => self.integers.iter().map(|value| *value as u8).collect(),
            Dtype::I32 => self.integers.iter().flat_map(|value| (*value as u32).to_le_bytes()).collect(),
            Dtype::I64 => self.integers.iter().flat_map(|value| value.to_le_bytes()).collect(),
            _ => return Ok(Err("has no raw data".into())),
        };
        let length = bytes.len();
        Tensor::new(name, shape, dtype, &WeightsFile::from_bytes(file.path(), bytes), 0..length).map(Ok)
    }
}

fn text(bytes: &[u8]) -> Result<&str, Broken> {
    std::str::from_utf8(bytes).map_err(|_| Broken)
}
