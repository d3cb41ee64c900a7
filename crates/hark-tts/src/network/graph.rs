//! The constants of the exported graph, found through the nodes that read them.
//!
//! The exporter folded and transposed weights and gave many of them names of its own, so a layer is known by its node,
//! whose name is the path of its module.

use std::collections::HashMap;
use std::path::Path;

use hark_compute::conv1d::{Conv1d, Precision};
use hark_weights::onnx::OnnxModel;
use hark_weights::{FileError, WeightsFile};

use super::layers::{Convolution, padded};

/// An ONNX graph and where its nodes are.
pub(crate) struct Graph {
    model: OnnxModel,
    /// The number of each node.
    nodes: HashMap<String, usize>,
}

impl Graph {
    /// Reads the graph; values stay in the file until they are asked for.
    pub(crate) fn open(path: &Path) -> Result<Self, FileError> {
        let model = OnnxModel::read(&WeightsFile::open(path)?)?;
        let nodes = model.nodes.iter().enumerate().map(|(index, node)| (node.name.clone(), index)).collect();
        Ok(Graph { model, nodes })
    }

    /// The constant of that name.
    pub(crate) fn named(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, FileError> {
        self.model.tensors.floats(name, shape)
    }

    /// Input number `index` of a node, which is a constant.
    pub(crate) fn constant(&self, node: &str, index: usize, shape: &[usize]) -> Result<Vec<f32>, FileError> {
        let damaged = |what: String| FileError::damaged(self.model.tensors.path(), what);
        let found = self.nodes.get(node).ok_or_else(|| damaged(format!("it has no node {node}")))?;
        let input = self.model.nodes[*found].inputs.get(index);
        let input = input.ok_or_else(|| damaged(format!("node {node} has no input {index}")))?;
        self.model.tensors.floats(input, shape)
    }

    /// A convolution, whose node is `{path}/Conv`; its inputs get columns up to a multiple of 32.
    pub(crate) fn convolution(
        &self,
        path: &str,
        (outputs, inputs, taps): (usize, usize, usize),
        has_bias: bool,
        precision: Precision,
    ) -> Result<Convolution, FileError> {
        let node = format!("{path}/Conv");
        let weights = self.constant(&node, 1, &[outputs, inputs, taps])?;
        let bias = if has_bias { Some(self.constant(&node, 2, &[outputs])?) } else { None };
        let columns = padded(inputs);
        let conv = Conv1d::pack((outputs, columns, taps), bias.as_deref(), precision, |output, input, tap| {
            if input < inputs { weights[(output * inputs + input) * taps + tap] } else { 0.0 }
        });
        Ok(Convolution::new(conv, columns, taps / 2))
    }

    /// A linear layer, whose nodes are `{path}/MatMul` and `{path}/Add`.
    pub(crate) fn linear(&self, path: &str, outputs: usize, inputs: usize) -> Result<Convolution, FileError> {
        let (weights, bias) = self.linear_values(path, outputs, inputs)?;
        let conv = Conv1d::pack((outputs, inputs, 1), Some(&bias), Precision::Split, |output, input, _| {
            weights[input * outputs + output]
        });
        Ok(Convolution::new(conv, inputs, 0))
    }

    /// Weights `[input][output]` and bias of a linear layer.
    pub(crate) fn linear_values(
        &self,
        path: &str,
        outputs: usize,
        inputs: usize,
    ) -> Result<(Vec<f32>, Vec<f32>), FileError> {
        let weights = self.constant(&format!("{path}/MatMul"), 1, &[inputs, outputs])?;
        Ok((weights, self.constant(&format!("{path}/Add"), 0, &[outputs])?))
    }
}
