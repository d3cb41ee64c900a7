//! Self-attention of the encoder: which of its kernels, and how it is launched.

use std::ffi::c_void;

use cudarc::driver::sys;

use super::operations::arguments;
use super::tensor_map::{HeadRows, TensorMap};
use super::{CudaDevice, HEAD};
use crate::device::DeviceResult;

/// The kernel by wgmma, and the name by which it is known whether it was made.
pub const HOPPER: &str = "encoder_attention_hopper";
/// Scores are scaled by one over the root of the width of a head.
const SCALE: f32 = 0.125;

/// What attends: bf16 `[window][frame][query, key, value][width]` to `[window][frame][width]`.
#[derive(Debug, Clone, Copy)]
pub struct EncoderAttention {
    pub windows: usize,
    pub frames: usize,
    pub width: usize,
    pub from: u64,
    pub to: u64,
}

impl EncoderAttention {
    pub fn launch(&self, device: &CudaDevice) -> DeviceResult {
        // A copy has as many frames at least.
        match device.has_kernel(HOPPER) && self.frames >= hopper::KEYS {
            true => self.launch_hopper(device),
            false => self.launch_general(device),
        }
    }

    fn launch_general(&self, device: &CudaDevice) -> DeviceResult {
        const QUERIES: usize = 128;
        const SHARED: u32 = (128 + 4 * 64) * 128;
        let EncoderAttention { windows, frames, width, from, to } = *self;
        let (count, columns, scale) = (frames as i32, width as i32, SCALE);
        let grid = (frames.div_ceil(QUERIES), width / HEAD, windows);
        device.launch("encoder_attention", grid, 256, SHARED, arguments![from, to, count, columns, scale])
    }

    fn launch_hopper(&self, device: &CudaDevice) -> DeviceResult {
        use hopper::{GROUPS, KEYS, SHARED, THREADS, TILE};
        /// `Sizes` of the kernel.
        #[repr(C)]
        struct Sizes([i32; 4]);
        let EncoderAttention { windows, frames, width, from, to } = *self;
        let heads = width / HEAD;
        let rows = |address: u64, pitch: usize, copied: usize| {
            TensorMap::new(&HeadRows { address, windows, frames, heads, pitch, copied })
        };
        let part = |index: usize| from + (index * width * 2) as u64;
        let maps = [
            rows(part(0), 3 * width, TILE)?,
            rows(part(1), 3 * width, KEYS)?,
            rows(part(2), 3 * width, KEYS)?,
            rows(to, width, TILE)?,
        ];
        let tiles_of_queries = frames.div_ceil(GROUPS * TILE);
        let tiles = tiles_of_queries * heads * windows;
        let sizes = Sizes([frames, heads, tiles_of_queries, tiles].map(|size| size as i32));
        let scale = SCALE * std::f32::consts::LOG2_E;
        let grid = (tiles.min(device.processors), 1, 1);
        device.launch(HOPPER, grid, THREADS, SHARED, arguments![maps, sizes, from, scale])
    }
}

/// Sizes of the kernel by wgmma.
mod hopper {
    /// Warpgroups that compute.
    pub const GROUPS: usize = 3;
    /// Queries of each.
    pub const TILE: usize = 64;
    /// Frames of a block of keys.
    pub const KEYS: usize = 128;
    /// Blocks of keys, and of values, in shared memory.
    const STAGES: usize = 4;
    /// With the warpgroup that copies.
    pub const THREADS: u32 = (GROUPS as u32 + 1) * 128;
    /// Bytes of shared memory: queries and results of a tile, keys and values, barriers, and up to a multiple of 1,024 before them.
    pub const SHARED: u32 =
        ((2 * GROUPS * TILE + 2 * STAGES * KEYS) * 128 + 8 * (2 * GROUPS + 4 * STAGES) + 1024) as u32;
}

/// Allows the kernel by wgmma its shared memory, which is more than any kernel has unasked.
pub fn prepare(function: sys::CUfunction) -> Result<(), cudarc::driver::result::DriverError> {
    let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    // SAFETY: the function belongs to a module that is loaded.
    unsafe { cudarc::driver::result::function::set_function_attribute(function, attribute, hopper::SHARED as i32) }
}
