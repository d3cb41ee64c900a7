//! Linear layers: weights packed as int8 or bf16, and their products.

mod epilogue;
mod matmul;
mod rows;

use std::str::FromStr;

use crate::buffer::Buffer;
use crate::kernels::int8::{self, INT8_DEPTH, INT8_TILE};
use crate::kernels::math::{from_bf16, to_bf16};
use crate::kernels::{BLOCK, DEPTH, PANEL, TILE};

pub use epilogue::{add_residual, matmul_add, matmul_bf16, matmul_f32, store_bf16};
pub use matmul::{CHUNK, EpilogueFn, RUN, Run, matmul, matmul_chunk, matmul_in_runs};
pub use rows::Rows;

/// How the weights of a layer are kept, and so what its products are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Weights {
    /// bf16 weights times bf16 activations.
    Bf16,
    /// int8 weights times int8 activations, see [`crate::kernels::int8`].
    #[default]
    Int8,
}

impl Weights {
    /// Every way.
    pub const ALL: [Weights; 2] = [Weights::Bf16, Weights::Int8];

    /// The name used in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Weights::Bf16 => "bf16",
            Weights::Int8 => "int8",
        }
    }
}

impl FromStr for Weights {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Weights::ALL.into_iter().find(|weights| weights.name() == text);
        found.ok_or_else(|| format!("unknown kind of weights '{text}': use bf16 or int8"))
    }
}

/// The weights of a linear layer, packed in panels, with the bias.
pub struct Linear {
    panels: Panels,
    bias: Buffer<f32>,
    /// Output columns, a multiple of 32; columns beyond the layer's own are zero.
    columns: usize,
    inputs: usize,
}

enum Panels {
    /// In the layout of [`super::kernels`].
    Bf16(Buffer<u16>),
    /// In the layout of [`super::kernels::int8`].
    Int8(Int8Panels),
}

struct Int8Panels {
    numbers: Buffer<i8>,
    /// One for each column.
    scales: Buffer<f32>,
    /// For each column what its sums begin with.
    offsets: Buffer<i32>,
}

impl Linear {
    /// Packs `weights[outputs][inputs]`; inputs are padded to whole tiles with zeros.
    pub fn pack(weights: &[f32], outputs: usize, inputs: usize, bias: Option<&[f32]>, kept: Weights) -> Self {
        assert_eq!(Some(weights.len()), outputs.checked_mul(inputs), "weights have the stated shape");
        let columns = outputs.next_multiple_of(BLOCK);
        let mut padded_bias = Buffer::zeroed(columns);
        if let Some(bias) = bias {
            padded_bias[..outputs].copy_from_slice(bias);
        }
        let panels = match kept {
            Weights::Bf16 => Panels::Bf16(pack_bf16(weights, columns, inputs)),
            Weights::Int8 => Panels::Int8(Int8Panels::pack(weights, columns, inputs)),
        };
        Linear { panels, bias: padded_bias, columns, inputs }
    }

    /// Output columns, padded to a multiple of 32.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Blocks of 32 output columns.
    pub fn blocks(&self) -> usize {
        self.columns / BLOCK
    }

    /// Checks that a view can be multiplied: see [`Rows`].
    fn check(&self, rows: &Rows) {
        rows.check(self.inputs.next_multiple_of(DEPTH), PANEL);
    }

    /// Bytes that it takes, bias and scales included.
    pub fn memory(&self) -> u64 {
        let panels = match &self.panels {
            Panels::Bf16(panels) => panels.bytes(),
            Panels::Int8(panels) => panels.numbers.bytes() + panels.scales.bytes() + panels.offsets.bytes(),
        };
        panels + self.bias.bytes()
    }

    /// Bytes of packed weights, which one application reads.
    pub fn bytes(&self) -> usize {
        match &self.panels {
            Panels::Bf16(panels) => panels.len() * 2,
            Panels::Int8(panels) => panels.numbers.len(),
        }
    }

    /// The weight from input `k` to `output`, as it was rounded.
    pub fn weight(&self, output: usize, k: usize) -> f32 {
        let (panel, column) = (output / PANEL, output % PANEL);
        match &self.panels {
            Panels::Bf16(panels) => {
                from_bf16(panels[panel * self.inputs.div_ceil(DEPTH) * TILE + index_in_panel(k, column)])
            }
            Panels::Int8(panels) => {
                let place = panel * self.inputs.div_ceil(INT8_DEPTH) * INT8_TILE + int8::index_in_panel(k, column);
                f32::from(panels.numbers[place]) * panels.scales[output]
            }
        }
    }
}

fn pack_bf16(weights: &[f32], columns: usize, inputs: usize) -> Buffer<u16> {
    let a_panel = inputs.div_ceil(DEPTH) * TILE;
    let mut panels = Buffer::zeroed(columns / PANEL * a_panel);
    for (output, row) in weights.chunks_exact(inputs).enumerate() {
        let panel = &mut panels[output / PANEL * a_panel..][..a_panel];
        for (input, &weight) in row.iter().enumerate() {
            panel[index_in_panel(input, output % PANEL)] = to_bf16(weight);
        }
    }
    panels
}

impl Int8Panels {
    fn pack(weights: &[f32], columns: usize, inputs: usize) -> Self {
        let a_panel = inputs.div_ceil(INT8_DEPTH) * INT8_TILE;
        let mut numbers = Buffer::zeroed(columns / PANEL * a_panel);
        let (mut scales, mut offsets) = (Buffer::zeroed(columns), Buffer::zeroed(columns));
        for (output, row) in weights.chunks_exact(inputs).enumerate() {
            let largest = row.iter().fold(0f32, |largest, weight| largest.max(weight.abs()));
            let inverse = int8::inverse_scale(largest);
            let panel = &mut numbers[output / PANEL * a_panel..][..a_panel];
            let mut total = 0;
            for (input, weight) in row.iter().enumerate() {
                let number = int8::nearest(weight * inverse);
                panel[int8::index_in_panel(input, output % PANEL)] = number;
                total += i32::from(number);
            }
            scales[output] = largest / int8::LARGEST;
            offsets[output] = -i32::from(int8::ZERO) * total;
        }
        Int8Panels { numbers, scales, offsets }
    }
}

/// Where element `(k, column)` lies inside a panel.
#[inline(always)]
pub fn index_in_panel(k: usize, column: usize) -> usize {
    (k / DEPTH) * TILE + ((k % DEPTH) / 2) * 2 * PANEL + column * 2 + k % 2
}
