//! NVIDIA GPUs as devices: kernels of our own, compiled by NVRTC at first use, and products by cuBLASLt.
//!
//! Nothing of CUDA is needed to build or start the program; the driver and the libraries are loaded when a device is opened.

mod compiler;
mod driver;
mod encoder_attention;
mod few_rows;
pub mod libraries;
mod matmul;
pub mod monitor;
mod operations;
mod staging;
mod tensor_map;

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::c_void;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cudarc::driver::result::DriverError;
use cudarc::driver::sys;
use hark_whisper::backend::BackendError;

use crate::device::{
    DeviceBuffer, DeviceResult, GraphKey, MOST_ALIGNED, MOST_ALIGNMENT_HEADS, MOST_BEST, MOST_ENTRIES,
};
use driver::{Context, Graph, Launch, Memory, Module, Stream};
use matmul::Products;
use staging::Staging;

/// The width of a head.
const HEAD: usize = 64;
/// Compute capabilities from this one on can run the kernels.
const LEAST_CAPABILITY: (i32, i32) = (8, 0);
/// From this compute capability on kernels wait for those before them (`common.cuh`).
const OVERLAP_CAPABILITY: (i32, i32) = (9, 0);
/// Blocks of cross-attention, over all parts of windows, that leave results to be joined.
const MOST_PARTS: usize = 16_384;
/// Most frames of a window.
const MOST_FRAMES: usize = 1500;
/// Parts of the vocabulary that answers are found in, and the bytes of what is found in each: a sum and the likeliest tokens.
const ANSWER_PARTS: usize = 16;
const ANSWER_PART_BYTES: usize = 8 + MOST_BEST * 8;

/// Why a GPU can't be used.
#[derive(Debug, thiserror::Error)]
pub enum CudaError {
    /// There is no driver.
    #[error("there is no NVIDIA driver on this machine")]
    NoDriver,
    /// A library is missing.
    #[error("{0} can't be found: `hark models pull cuda-runtime` installs it, as do CUDA's packages of the system")]
    NoLibrary(String),
    /// The GPU is too old.
    #[error("{name} has compute capability {}.{}; {}.{} or later is needed", .capability.0, .capability.1, LEAST_CAPABILITY.0, LEAST_CAPABILITY.1)]
    TooOld {
        /// The GPU.
        name: String,
        /// What it has.
        capability: (i32, i32),
    },
    /// A kernel does not compile.
    #[error("the kernels of {name} do not compile: {what}")]
    Compiler {
        /// The file.
        name: String,
        /// What the compiler says.
        what: String,
    },
    /// The driver failed.
    #[error("the driver failed: {0}")]
    Driver(#[from] DriverError),
    /// cuBLASLt failed.
    #[error("cuBLASLt failed: {0:?}")]
    Products(cudarc::cublaslt::result::CublasError),
    /// cuBLASLt knows no way to do a product.
    #[error("cuBLASLt has no algorithm for {rows} rows of {inputs} to {outputs}")]
    NoAlgorithm {
        /// Rows of the result.
        rows: usize,
        /// Its columns.
        outputs: usize,
        /// What each is a sum of.
        inputs: usize,
    },
    /// A call that can't be done.
    #[error("{0}")]
    Fault(String),
}

impl From<cudarc::cublaslt::result::CublasError> for CudaError {
    fn from(error: cudarc::cublaslt::result::CublasError) -> Self {
        CudaError::Products(error)
    }
}

impl From<CudaError> for BackendError {
    fn from(error: CudaError) -> Self {
        use sys::CUresult;
        match &error {
            CudaError::Driver(DriverError(code)) => match code {
                CUresult::CUDA_ERROR_OUT_OF_MEMORY => BackendError::OutOfMemory(error.to_string()),
                CUresult::CUDA_ERROR_INVALID_VALUE | CUresult::CUDA_ERROR_NOT_FOUND => {
                    BackendError::Fault(error.to_string())
                }
                _ => BackendError::DeviceLost(error.to_string()),
            },
            CudaError::Products(_) => BackendError::DeviceLost(error.to_string()),
            _ => BackendError::Fault(error.to_string()),
        }
    }
}

/// How a GPU is opened.
#[derive(Debug, Clone, Default)]
pub struct CudaOptions {
    /// The number of the GPU, from 0 on.
    pub ordinal: usize,
    /// Folders in which NVIDIA's libraries are looked for first.
    pub libraries: Vec<PathBuf>,
    /// Folder that compiled kernels are kept in.
    pub cache: Option<PathBuf>,
}

/// What a GPU is, for reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuInfo {
    /// Its number.
    pub ordinal: usize,
    /// Its name.
    pub name: String,
    /// Its compute capability.
    pub capability: (i32, i32),
    /// Bytes of memory.
    pub memory: u64,
}

impl GpuInfo {
    /// Whether it can run the kernels.
    pub fn is_usable(&self) -> bool {
        self.capability >= LEAST_CAPABILITY
    }
}

/// The GPUs of this machine.
pub fn gpus() -> Result<Vec<GpuInfo>, CudaError> {
    if !libraries::has_driver() {
        return Err(CudaError::NoDriver);
    }
    cudarc::driver::result::init()?;
    let count = cudarc::driver::result::device::get_count()?;
    let info = |ordinal: usize| -> Result<GpuInfo, CudaError> {
        let device = cudarc::driver::result::device::get(ordinal as i32)?;
        let name = cudarc::driver::result::device::get_name(device)?;
        // SAFETY: the device was just found.
        let (memory, major, minor) = unsafe {
            use cudarc::driver::result::device::{get_attribute, total_mem};
            let attribute = |attribute| get_attribute(device, attribute);
            (
                total_mem(device)?,
                attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
                attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
            )
        };
        Ok(GpuInfo { ordinal, name, capability: (major, minor), memory: memory as u64 })
    };
    (0..count as usize).map(info).collect()
}

/// Compiles all kernels for an architecture such as `sm_90a`, without a GPU. Returns the names and sizes of the files.
pub fn compile_all(architecture: &str, libraries: &[PathBuf]) -> Result<Vec<(&'static str, usize)>, CudaError> {
    self::libraries::load_from(libraries);
    if self::libraries::missing().contains(&"NVRTC") {
        return Err(CudaError::NoLibrary("NVRTC".to_owned()));
    }
    compiler::sources(architecture)
        .map(|source| Ok((source.name, compiler::compile(source, architecture, None)?.len())))
        .collect()
}

/// A GPU.
pub struct CudaDevice {
    // Freed in this order, the context last.
    graphs: RefCell<HashMap<GraphKey, Option<Graph>>>,
    products: Products,
    functions: HashMap<&'static str, sys::CUfunction>,
    _modules: Vec<Module>,
    scratch: Scratch,
    staging: Staging,
    stream: Stream,
    context: Arc<Context>,
    name: String,
    processors: usize,
    /// Whether kernels may begin while others run ([`OVERLAP_CAPABILITY`]).
    overlaps_kernels: bool,
}

/// What kernels of one operation leave for the next.
struct Scratch {
    cross_attention: Memory,
    /// Parts of cross-attention that are done, zero between operations.
    counts: Memory,
    answers: Memory,
    /// Of alignment: mean and deviation of each frame for each head of each text.
    alignment: Memory,
}

// SAFETY: handles of the driver may be used by any thread, one at a time; every call makes the context current on its thread.
unsafe impl Send for CudaDevice {}

/// Memory of a GPU.
#[derive(Clone)]
pub struct CudaBuffer {
    memory: Arc<Memory>,
    from: usize,
    // The memory is freed before its context.
    _context: Arc<Context>,
}

impl DeviceBuffer for CudaBuffer {
    fn offset(&self, bytes: usize) -> Self {
        CudaBuffer { memory: Arc::clone(&self.memory), from: self.from + bytes, _context: Arc::clone(&self._context) }
    }
}

impl CudaBuffer {
    fn address(&self) -> u64 {
        self.memory.address() + self.from as u64
    }

    /// Fails where fewer than `bytes` are left.
    fn holds(&self, bytes: usize) -> Result<(), CudaError> {
        match self.from + bytes <= self.memory.bytes() {
            true => Ok(()),
            false => Err(CudaError::Fault(format!(
                "{bytes} bytes from {} on are beyond a buffer of {}",
                self.from,
                self.memory.bytes()
            ))),
        }
    }
}

impl CudaDevice {
    /// Opens a GPU and compiles the kernels for it, or takes them from the cache.
    pub fn open(options: &CudaOptions) -> Result<Self, CudaError> {
        libraries::load_from(&options.libraries);
        libraries::check()?;
        let context = Arc::new(Context::new(options.ordinal)?);
        let name = context.device_name()?;
        use sys::CUdevice_attribute as Attribute;
        let capability = (
            context.attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            context.attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        );
        if capability < LEAST_CAPABILITY {
            return Err(CudaError::TooOld { name, capability });
        }
        let processors = context.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)? as usize;
        let (modules, functions) = load_kernels(&compiler::architecture(capability), options.cache.as_deref())?;
        let stream = Stream::new()?;
        let counts = Memory::new(MOST_PARTS * 4)?;
        counts.clear(&stream)?;
        Ok(CudaDevice {
            graphs: RefCell::default(),
            products: Products::new()?,
            functions,
            _modules: modules,
            scratch: Scratch {
                cross_attention: Memory::new(MOST_PARTS * (HEAD + 2) * 4)?,
                counts,
                answers: Memory::new(MOST_ENTRIES * ANSWER_PARTS * ANSWER_PART_BYTES)?,
                alignment: Memory::new(MOST_ALIGNED * MOST_ALIGNMENT_HEADS * MOST_FRAMES * 8)?,
            },
            staging: Staging::new()?,
            stream,
            context,
            name: format!("cuda:{} ({name})", options.ordinal),
            processors,
            overlaps_kernels: capability >= OVERLAP_CAPABILITY,
        })
    }

    /// Waits for everything that was begun.
    pub fn synchronize(&self) -> Result<(), CudaError> {
        self.context.make_current()?;
        self.stream.synchronize()
    }

    /// Whether a kernel was made for this GPU.
    fn has_kernel(&self, kernel: &str) -> bool {
        self.functions.contains_key(kernel)
    }

    fn launch(
        &self,
        kernel: &'static str,
        grid: (usize, usize, usize),
        threads: u32,
        shared_bytes: u32,
        arguments: &mut [*mut c_void],
    ) -> DeviceResult {
        if grid.0 == 0 || grid.1 == 0 || grid.2 == 0 {
            return Ok(());
        }
        let Some(&function) = self.functions.get(kernel) else {
            return Err(BackendError::Fault(format!("there is no kernel {kernel}")));
        };
        self.context.make_current()?;
        let grid = (grid.0 as u32, grid.1 as u32, grid.2 as u32);
        let launch = Launch { grid, threads, shared_bytes, may_begin_early: self.overlaps_kernels };
        // SAFETY: every caller passes what its kernel takes, and buffers as large as the operation says.
        Ok(unsafe { driver::launch(function, &launch, &self.stream, arguments) }?)
    }
}

type Kernels = (Vec<Module>, HashMap<&'static str, sys::CUfunction>);

fn load_kernels(architecture: &str, cache: Option<&Path>) -> Result<Kernels, CudaError> {
    let (mut modules, mut functions) = (Vec::new(), HashMap::new());
    for source in compiler::sources(architecture) {
        let load = |cache: Option<&Path>| Module::load(&compiler::compile(source, architecture, cache)?);
        // What was kept may be damaged: then it is compiled again.
        let module = load(cache).or_else(|_| load(None))?;
        for kernel in source.kernels {
            functions.insert(*kernel, module.function(kernel)?);
        }
        modules.push(module);
    }
    if let Some(&function) = functions.get(encoder_attention::HOPPER) {
        encoder_attention::prepare(function)?;
    }
    Ok((modules, functions))
}
