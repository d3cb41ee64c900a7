//! Descriptions of matrices for the copy engine (TMA).

use std::ffi::c_void;
use std::mem::MaybeUninit;

use cudarc::driver::sys;

use super::{CudaError, HEAD};

/// Rows of heads: bf16 `[window][frame][head][64]`, of which a row of all heads is `pitch` numbers long.
#[derive(Debug, Clone, Copy)]
pub struct HeadRows {
    /// The first number, on the device.
    pub address: u64,
    pub windows: usize,
    pub frames: usize,
    pub heads: usize,
    pub pitch: usize,
    /// Frames of one copy.
    pub copied: usize,
}

/// A `CUtensorMap`, which kernels take as an argument.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct TensorMap(sys::CUtensorMap);

impl TensorMap {
    /// A map of rows that are copied with the 128-byte swizzle; frames beyond a window are read as zeros and not written.
    pub fn new(rows: &HeadRows) -> Result<Self, CudaError> {
        let HeadRows { address, windows, frames, heads, pitch, copied } = *rows;
        let sizes = [HEAD as u64, frames as u64, heads as u64, windows as u64];
        let strides = [pitch as u64 * 2, HEAD as u64 * 2, (frames * pitch) as u64 * 2];
        let copied = [HEAD as u32, copied as u32, 1, 1];
        let mut map = MaybeUninit::uninit();
        // SAFETY: all arrays are as long as the rank; the map is written, or the call fails.
        unsafe {
            sys::cuTensorMapEncodeTiled(
                map.as_mut_ptr(),
                sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
                sizes.len() as u32,
                address as *mut c_void,
                sizes.as_ptr(),
                strides.as_ptr(),
                copied.as_ptr(),
                [1; 4].as_ptr(),
                sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
                sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_128B,
                sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                sys::CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
            )
            .result()?;
            Ok(TensorMap(map.assume_init()))
        }
    }
}
