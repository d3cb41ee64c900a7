//! Products of few rows by kernels of our own, which read the weights once and do nothing else for long.

use std::ffi::c_void;

use super::matmul::Product;
use super::operations::arguments;
use super::{CudaBuffer, CudaDevice};
use crate::device::{DeviceResult, NormWeights, Output};

/// Most rows of the kernels' products, for which they have accumulators; more go to cuBLASLt. Where that becomes faster was not measured.
const MOST_ROWS: usize = 32;
/// Most rows that are normed on the way.
const MOST_NORMED: usize = 8;
/// Inputs come in steps of so many.
const STEP: usize = 32;
/// Outputs of a block.
const OUTPUTS: usize = 16;
const THREADS: u32 = 256;

/// `Layer` of the kernels.
#[repr(C)]
struct Layer {
    weight: u64,
    bias: u64,
    outputs: i32,
    inputs: i32,
}

impl Layer {
    fn of(product: &Product) -> Self {
        let Product { weight, bias, outputs, inputs, .. } = *product;
        Layer { weight, bias, outputs: outputs as i32, inputs: inputs as i32 }
    }
}

fn output_of(output: Output) -> i32 {
    match output {
        Output::Bf16 => 0,
        Output::Gelu => 1,
        Output::F32 => 2,
        Output::AddF32 => 3,
    }
}

/// Whether a product is one of these.
pub fn can(product: &Product) -> bool {
    product.rows <= MOST_ROWS && product.inputs.is_multiple_of(STEP)
}

/// Whether it is with a layer norm before it.
pub fn can_norm(product: &Product) -> bool {
    product.rows <= MOST_NORMED && can(product) && shared_bytes(product) <= 40 << 10
}

/// Bytes of the normed rows.
fn shared_bytes(product: &Product) -> usize {
    product.rows * (product.inputs + 32) * 2
}

/// Begins a product.
pub fn launch(device: &CudaDevice, product: &Product) -> DeviceResult {
    let kernel = match product.rows {
        0..=8 => "linear_8",
        9..=16 => "linear_16",
        _ => "linear_32",
    };
    let (from, to, layer) = (product.from, product.to, Layer::of(product));
    let (rows, output) = (product.rows as i32, output_of(product.output));
    let grid = (product.outputs.div_ceil(OUTPUTS), 1, 1);
    device.launch(kernel, grid, THREADS, 0, arguments![from, layer, to, rows, output])
}

/// Begins a product of the layer norm of rows of the residual stream.
pub fn launch_normed(device: &CudaDevice, product: &Product, norm: &NormWeights<CudaBuffer>) -> DeviceResult {
    let (from, to, layer) = (product.from, product.to, Layer::of(product));
    let (gain, bias) = (norm.gain.address(), norm.bias.address());
    let (rows, output) = (product.rows as i32, output_of(product.output));
    let grid = (product.outputs.div_ceil(OUTPUTS), 1, 1);
    let shared = shared_bytes(product) as u32;
    device.launch("norm_linear_8", grid, THREADS, shared, arguments![from, gain, bias, layer, to, rows, output])
}
