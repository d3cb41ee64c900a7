//! Products by cuBLASLt. For each shape the algorithms that it proposes are measured once, and the fastest is remembered.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::c_void;
use std::mem::MaybeUninit;

use cudarc::cublaslt::result::CublasError;
use cudarc::cublaslt::{result, sys};
use sys::cublasLtMatmulDescAttributes_t as Attribute;

use super::CudaError;
use super::driver::{Events, Memory, Stream};
use crate::device::Output;

/// Bytes that algorithms may use beside the matrices.
const WORKSPACE: usize = 32 << 20;
/// Algorithms that are measured.
const CANDIDATES: usize = 8;
/// `CUBLAS_OP_T`.
const TRANSPOSED: i32 = 1;
/// Sums of products in e4m3 are kept in fewer bits than f32 has, as the tensor cores do.
const FAST_SUMS: i8 = 1;
/// Measurements of each, of which the first does not count.
const RUNS: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Shape {
    rows: usize,
    outputs: usize,
    inputs: usize,
    output: Output,
    has_bias: bool,
    is_fp8: bool,
}

/// A product `y = x W^T + b`; all addresses are on the device.
#[derive(Debug, Clone, Copy)]
pub struct Product {
    pub rows: usize,
    pub outputs: usize,
    pub inputs: usize,
    pub from: u64,
    pub weight: u64,
    /// None when zero.
    pub bias: u64,
    pub to: u64,
    pub output: Output,
    /// Scales of the rows and of the outputs, where both are in e4m3; the bias is bf16 then.
    pub scales: Option<(u64, u64)>,
}

/// How products of one shape are done.
struct Plan {
    description: sys::cublasLtMatmulDesc_t,
    /// Of the weights, the rows and the result.
    layouts: [sys::cublasLtMatrixLayout_t; 3],
    algorithm: sys::cublasLtMatmulAlgo_t,
}

impl Drop for Plan {
    fn drop(&mut self) {
        // SAFETY: they were made with the plan and nobody else has them.
        unsafe {
            for layout in self.layouts {
                let _ = result::destroy_matrix_layout(layout);
            }
            let _ = result::destroy_matmul_desc(self.description);
        }
    }
}

/// cuBLASLt on a stream.
pub struct Products {
    handle: sys::cublasLtHandle_t,
    workspace: Memory,
    plans: RefCell<HashMap<Shape, Plan>>,
}

impl Drop for Products {
    fn drop(&mut self) {
        self.plans.borrow_mut().clear();
        // SAFETY: the handle was made by `new`.
        let _ = unsafe { result::destroy_handle(self.handle) };
    }
}

impl Products {
    pub fn new() -> Result<Self, CudaError> {
        Ok(Products { handle: result::create_handle()?, workspace: Memory::new(WORKSPACE)?, plans: RefCell::default() })
    }

    /// Begins a product on the stream. A shape that is new is measured, which waits for the stream.
    pub fn multiply(&self, stream: &Stream, product: &Product) -> Result<(), CudaError> {
        let Product { rows, outputs, inputs, output, bias, scales, .. } = *product;
        let shape = Shape { rows, outputs, inputs, output, has_bias: bias != 0, is_fp8: scales.is_some() };
        let mut plans = self.plans.borrow_mut();
        let plan = match plans.entry(shape) {
            std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::hash_map::Entry::Vacant(place) => place.insert(self.plan(stream, shape, product)?),
        };
        if bias != 0 {
            set(plan.description, Attribute::CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias)?;
        }
        set_scales(plan.description, scales)?;
        Ok(self.run(stream, plan, product)?)
    }

    fn run(&self, stream: &Stream, plan: &Plan, product: &Product) -> Result<(), CublasError> {
        let one = 1f32;
        let beta = if product.output == Output::AddF32 { 1f32 } else { 0f32 };
        let [weight, from, to] = plan.layouts;
        // SAFETY: the layouts are those of the product's matrices, whose addresses the caller vouches for.
        unsafe {
            result::matmul(
                self.handle,
                plan.description,
                (&raw const one).cast(),
                (&raw const beta).cast(),
                product.weight as *const c_void,
                weight,
                product.from as *const c_void,
                from,
                product.to as *const c_void,
                to,
                product.to as *mut c_void,
                to,
                &raw const plan.algorithm,
                self.workspace.address() as *mut c_void,
                WORKSPACE,
                stream.raw().cast(),
            )
        }
    }

    /// Column by column, as the library counts, it is `y^T = W x^T`.
    fn plan(&self, stream: &Stream, shape: Shape, product: &Product) -> Result<Plan, CudaError> {
        use sys::cublasLtEpilogue_t as Epilogue;
        let Shape { rows, outputs, inputs, output, has_bias, is_fp8 } = shape;
        let bf16 = sys::cudaDataType_t::CUDA_R_16BF;
        let from_type = if is_fp8 { sys::cudaDataType_t::CUDA_R_8F_E4M3 } else { bf16 };
        let to_type = match output {
            Output::Bf16 | Output::Gelu => bf16,
            Output::F32 | Output::AddF32 => sys::cudaDataType_t::CUDA_R_32F,
        };
        let compute = sys::cublasComputeType_t::CUBLAS_COMPUTE_32F;
        let description = result::create_matmul_desc(compute, sys::cudaDataType_t::CUDA_R_32F)?;
        let layout = |kind, rows: usize, columns: usize| {
            result::create_matrix_layout(kind, rows as u64, columns as u64, rows as i64)
        };
        let layouts =
            [layout(from_type, inputs, outputs)?, layout(from_type, inputs, rows)?, layout(to_type, outputs, rows)?];
        // SAFETY: an algorithm is plain numbers, which are filled in below.
        let algorithm = unsafe { MaybeUninit::zeroed().assume_init() };
        let mut plan = Plan { description, layouts, algorithm };
        let epilogue = match (output, has_bias) {
            (Output::Gelu, true) => Epilogue::CUBLASLT_EPILOGUE_GELU_BIAS,
            (Output::Gelu, false) => Epilogue::CUBLASLT_EPILOGUE_GELU,
            (_, true) => Epilogue::CUBLASLT_EPILOGUE_BIAS,
            (_, false) => Epilogue::CUBLASLT_EPILOGUE_DEFAULT,
        };
        set(description, Attribute::CUBLASLT_MATMUL_DESC_TRANSA, &TRANSPOSED)?;
        set(description, Attribute::CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue)?;
        if has_bias {
            set(description, Attribute::CUBLASLT_MATMUL_DESC_BIAS_POINTER, &product.bias)?;
        }
        if is_fp8 {
            let by_row = sys::cublasLtMatmulMatrixScale_t::CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
            set(description, Attribute::CUBLASLT_MATMUL_DESC_A_SCALE_MODE, &by_row)?;
            set(description, Attribute::CUBLASLT_MATMUL_DESC_B_SCALE_MODE, &by_row)?;
            set(description, Attribute::CUBLASLT_MATMUL_DESC_FAST_ACCUM, &FAST_SUMS)?;
            set(description, Attribute::CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &bf16)?;
            set_scales(description, product.scales)?;
        }
        let candidates = self.candidates(&plan)?;
        let scratch = Memory::new(rows * outputs * 4)?;
        let events = Events::new()?;
        let mut best = f32::INFINITY;
        for candidate in candidates {
            let tried = Plan { description, layouts, algorithm: candidate };
            let tried = std::mem::ManuallyDrop::new(tried);
            let aside = Product { to: scratch.address(), ..*product };
            let mut fastest = f32::INFINITY;
            for run in 0..RUNS {
                events.begin(stream)?;
                if self.run(stream, &tried, &aside).is_err() {
                    break;
                }
                let milliseconds = events.end(stream)?;
                if run > 0 {
                    fastest = fastest.min(milliseconds);
                }
            }
            if fastest < best {
                best = fastest;
                plan.algorithm = candidate;
            }
        }
        if best.is_infinite() {
            return Err(CudaError::NoAlgorithm { rows, outputs, inputs });
        }
        let teraflops = 2e-9 * (rows * outputs * inputs) as f64 / f64::from(best);
        tracing::debug!(rows, outputs, inputs, ?output, is_fp8, milliseconds = best, teraflops, "cuda.plan");
        Ok(plan)
    }

    /// The algorithms that the library proposes.
    fn candidates(&self, plan: &Plan) -> Result<Vec<sys::cublasLtMatmulAlgo_t>, CudaError> {
        let preference = result::create_matmul_pref()?;
        let most = sys::cublasLtMatmulPreferenceAttributes_t::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
        let mut found: [MaybeUninit<sys::cublasLtMatmulHeuristicResult_t>; CANDIDATES] =
            [const { MaybeUninit::zeroed() }; CANDIDATES];
        let (mut count, bytes) = (0, WORKSPACE);
        let [weight, from, to] = plan.layouts;
        // SAFETY: all of it was made for this plan; the results have their place.
        let asked = unsafe {
            result::set_matmul_pref_attribute(preference, most, (&raw const bytes).cast(), size_of::<usize>()).and_then(
                |()| {
                    let first = found.as_mut_ptr().cast();
                    sys::cublasLtMatmulAlgoGetHeuristic(
                        self.handle,
                        plan.description,
                        weight,
                        from,
                        to,
                        to,
                        preference,
                        CANDIDATES as i32,
                        first,
                        &mut count,
                    )
                    .result()
                },
            )
        };
        // SAFETY: it was made above.
        let _ = unsafe { result::destroy_matmul_pref(preference) };
        asked?;
        // SAFETY: zeroed or written, and plain numbers.
        let found = found.iter().take(count as usize).map(|one| unsafe { one.assume_init_ref() });
        let is_sound =
            |one: &&sys::cublasLtMatmulHeuristicResult_t| one.state == sys::cublasStatus_t::CUBLAS_STATUS_SUCCESS;
        Ok(found.filter(is_sound).map(|one| one.algo).collect())
    }
}

/// The scales of a product in e4m3.
fn set_scales(description: sys::cublasLtMatmulDesc_t, scales: Option<(u64, u64)>) -> Result<(), CublasError> {
    let Some((of_rows, of_outputs)) = scales else { return Ok(()) };
    set(description, Attribute::CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &of_outputs)?;
    set(description, Attribute::CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &of_rows)
}

fn set<T>(
    description: sys::cublasLtMatmulDesc_t,
    attribute: sys::cublasLtMatmulDescAttributes_t,
    value: &T,
) -> Result<(), CublasError> {
    // SAFETY: the value is as long as the attribute, which is one of those that `plan` and `multiply` name.
    unsafe {
        result::set_matmul_desc_attribute(description, attribute, std::ptr::from_ref(value).cast(), size_of::<T>())
    }
}
