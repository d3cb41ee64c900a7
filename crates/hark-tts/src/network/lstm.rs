//! Bidirectional LSTMs of 256 units each way; the state stays float32.

use hark_compute::Compute;
use hark_compute::conv1d::{Conv1d, Precision};
use hark_compute::ops::Activation;
use hark_compute::vector::{PackedF32, Vectors};
use hark_weights::FileError;

use super::graph::Graph;
use super::layers::{Convolution, Pass, Steps};
use crate::TtsError;

/// Units of one direction.
const UNITS: usize = 256;
/// Gates of one direction.
const GATES: usize = 4 * UNITS;
/// Rows of a panel of recurrent weights: as many sums as fill the registers.
const PANEL: usize = 128;

/// Both directions of a layer.
pub(crate) struct BiLstm {
    /// From an input to the gates of both directions.
    input: Convolution,
    recurrent: [PackedF32; 2],
}

/// Where ONNX (input, output, forget, cell) keeps a gate of ours (input, forget, cell, output).
fn stored_gate(gate: usize) -> usize {
    let (kind, unit) = (gate / UNITS, gate % UNITS);
    [0, 2, 3, 1][kind] * UNITS + unit
}

impl BiLstm {
    /// Reads the LSTM of a node.
    pub(crate) fn read(graph: &Graph, node: &str, inputs: usize) -> Result<Self, FileError> {
        let weights = graph.constant(node, 1, &[2, GATES, inputs])?;
        let recurrent = graph.constant(node, 2, &[2, GATES, UNITS])?;
        let biases = graph.constant(node, 3, &[2, 2 * GATES])?;
        let place = |gate: usize| gate / GATES * GATES + stored_gate(gate % GATES);
        let bias: Vec<f32> = (0..2 * GATES)
            .map(|gate| {
                let at = gate / GATES * 2 * GATES + stored_gate(gate % GATES);
                biases[at] + biases[at + GATES]
            })
            .collect();
        let input = Conv1d::pack((2 * GATES, inputs, 1), Some(&bias), Precision::Split, |gate, input, _| {
            weights[place(gate) * inputs + input]
        });
        let pack = |direction: usize| {
            PackedF32::pack(GATES, UNITS, PANEL, |gate, unit| {
                recurrent[(direction * GATES + stored_gate(gate)) * UNITS + unit]
            })
        };
        Ok(BiLstm { input: Convolution::new(input, inputs, 0), recurrent: [pack(0), pack(1)] })
    }

    /// The outputs of both directions beside each other.
    pub(crate) fn run(&self, pass: &mut Pass, x: &Steps) -> Result<Steps, TtsError> {
        let gates = self.input.apply(pass, x, Activation::Identity)?;
        let steps = x.len();
        let mut found = vec![0f32; 2 * steps * UNITS];
        let compute: &Compute = pass.compute;
        let vectors = Vectors::of(compute.isa());
        let no_bias = [0f32; GATES];
        compute.parallel_chunks(&mut found, steps * UNITS, |direction, out, _| {
            let (mut cell, mut hidden) = ([0f32; UNITS], [0f32; UNITS]);
            let mut sums = [0f32; GATES];
            for step in 0..steps {
                let step = if direction == 0 { step } else { steps - 1 - step };
                sums.copy_from_slice(&gates.row(step)[direction * GATES..][..GATES]);
                vectors.gemv(&self.recurrent[direction], 0, &hidden, &mut sums);
                vectors.lstm_step(&sums, &no_bias, &mut cell, &mut hidden);
                out[step * UNITS..][..UNITS].copy_from_slice(&hidden);
            }
        });
        let mut out = Steps::zeroed(steps, 2 * UNITS);
        let (forward, backward) = found.split_at(steps * UNITS);
        for step in 0..steps {
            let row = out.row_mut(step);
            row[..UNITS].copy_from_slice(&forward[step * UNITS..][..UNITS]);
            row[UNITS..].copy_from_slice(&backward[step * UNITS..][..UNITS]);
        }
        Ok(out)
    }

    pub(crate) fn memory(&self) -> u64 {
        self.input.memory() + 2 * (GATES * UNITS * 4) as u64
    }
}
