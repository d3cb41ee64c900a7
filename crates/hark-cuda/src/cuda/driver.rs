//! The driver's context, stream, memory, events and graphs, each freed with its owner.

use std::ffi::{CString, c_void};

use cudarc::driver::{result, sys};

use super::CudaError;

/// The primary context of a device.
pub struct Context {
    device: sys::CUdevice,
    context: sys::CUcontext,
}

// SAFETY: a context may be current on any thread, and on several at once.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    /// That of the device with this number, current on this thread.
    pub fn new(ordinal: usize) -> Result<Self, CudaError> {
        result::init()?;
        let device = result::device::get(ordinal as i32)?;
        // SAFETY: the device was just found.
        let context = unsafe { result::primary_ctx::retain(device)? };
        let context = Context { device, context };
        context.make_current()?;
        Ok(context)
    }

    /// Lets calls of this thread go to the device.
    pub fn make_current(&self) -> Result<(), CudaError> {
        // SAFETY: the context lives as long as this.
        unsafe { result::ctx::set_current(self.context) }.map_err(CudaError::from)
    }

    pub fn device_name(&self) -> Result<String, CudaError> {
        Ok(result::device::get_name(self.device)?)
    }

    pub fn attribute(&self, attribute: sys::CUdevice_attribute) -> Result<i32, CudaError> {
        // SAFETY: the device lives as long as this.
        Ok(unsafe { result::device::get_attribute(self.device, attribute)? })
    }

    /// Free and all memory, in bytes.
    pub fn memory(&self) -> Result<(u64, u64), CudaError> {
        self.make_current()?;
        let (free, total) = result::mem_get_info()?;
        Ok((free as u64, total as u64))
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: it was retained by `new`.
        let _ = unsafe { result::primary_ctx::release(self.device) };
    }
}

/// A stream of work.
pub struct Stream(sys::CUstream);

impl Stream {
    pub fn new() -> Result<Self, CudaError> {
        Ok(Stream(result::stream::create(result::stream::StreamKind::NonBlocking)?))
    }

    pub fn raw(&self) -> sys::CUstream {
        self.0
    }

    pub fn synchronize(&self) -> Result<(), CudaError> {
        // SAFETY: the stream lives as long as this.
        unsafe { result::stream::synchronize(self.0) }.map_err(CudaError::from)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: it was made by `new`.
        let _ = unsafe { result::stream::destroy(self.0) };
    }
}

/// Memory of the device.
pub struct Memory {
    address: u64,
    bytes: usize,
}

impl Memory {
    /// Memory that is not initialized.
    pub fn new(bytes: usize) -> Result<Self, CudaError> {
        // SAFETY: what is in it is never read before it is written.
        let address = unsafe { result::malloc_sync(bytes.max(1))? };
        Ok(Memory { address, bytes })
    }

    pub fn address(&self) -> u64 {
        self.address
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Sets all bytes to zero, in the order of the stream.
    pub fn clear(&self, stream: &Stream) -> Result<(), CudaError> {
        // SAFETY: the memory has as many bytes.
        unsafe { result::memset_d8_async(self.address, 0, self.bytes, stream.raw()) }.map_err(CudaError::from)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: it was allocated by `new`; the driver waits for work that uses it.
        let _ = unsafe { result::free_sync(self.address) };
    }
}

/// Two events that time is measured between.
pub struct Events([sys::CUevent; 2]);

impl Events {
    pub fn new() -> Result<Self, CudaError> {
        let event = || result::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT);
        Ok(Events([event()?, event()?]))
    }

    pub fn begin(&self, stream: &Stream) -> Result<(), CudaError> {
        // SAFETY: the events live as long as this.
        unsafe { result::event::record(self.0[0], stream.raw()) }.map_err(CudaError::from)
    }

    /// Milliseconds since `begin`; waits for the work in between.
    pub fn end(&self, stream: &Stream) -> Result<f32, CudaError> {
        // SAFETY: as above.
        unsafe {
            result::event::record(self.0[1], stream.raw())?;
            result::event::synchronize(self.0[1])?;
            Ok(result::event::elapsed(self.0[0], self.0[1])?)
        }
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        for event in self.0 {
            // SAFETY: it was made by `new`.
            let _ = unsafe { result::event::destroy(event) };
        }
    }
}

/// Machine code on the device.
pub struct Module(sys::CUmodule);

impl Module {
    pub fn load(code: &[u8]) -> Result<Self, CudaError> {
        // SAFETY: the code is a whole ELF file; the driver checks it.
        Ok(Module(unsafe { result::module::load_data(code.as_ptr().cast())? }))
    }

    pub fn function(&self, name: &str) -> Result<sys::CUfunction, CudaError> {
        let name = CString::new(name).map_err(|_| CudaError::Fault("a kernel's name has a zero in it".to_owned()))?;
        // SAFETY: the module lives as long as this.
        Ok(unsafe { result::module::get_function(self.0, name)? })
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: it was loaded by `load`.
        let _ = unsafe { result::module::unload(self.0) };
    }
}

/// A sequence of operations that is launched as one.
pub struct Graph(sys::CUgraphExec);

impl Graph {
    /// Records what `work` puts on the stream, without doing it.
    pub fn record(stream: &Stream, work: &mut dyn FnMut() -> Result<(), CudaError>) -> Result<Self, CudaError> {
        // SAFETY: the stream lives; what is recorded refers to memory that its owner keeps as long as the graph.
        unsafe {
            result::stream::begin_capture(stream.raw(), sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)?;
            let worked = work();
            let graph = result::stream::end_capture(stream.raw());
            worked?;
            let graph = graph?;
            let launched = result::graph::instantiate(graph, sys::CUgraphInstantiate_flags(0));
            let _ = result::graph::destroy(graph);
            Ok(Graph(launched?))
        }
    }

    pub fn launch(&self, stream: &Stream) -> Result<(), CudaError> {
        // SAFETY: both live.
        unsafe { result::graph::launch(self.0, stream.raw()) }.map_err(CudaError::from)
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: it was made by `record`.
        let _ = unsafe { result::graph::exec_destroy(self.0) };
    }
}

/// How many threads a kernel has, and what else it needs.
#[derive(Debug, Clone, Copy)]
pub struct Launch {
    /// Blocks.
    pub grid: (u32, u32, u32),
    /// Threads of a block.
    pub threads: u32,
    /// Bytes of shared memory beside those that the kernel declares.
    pub shared_bytes: u32,
    /// Whether it may begin while kernels before it still run: it waits for them itself.
    pub may_begin_early: bool,
}

/// Launches a kernel.
///
/// # Safety
/// `arguments` point to values of the types that the kernel takes, in their order; addresses among them are of memory that is large enough.
pub unsafe fn launch(
    function: sys::CUfunction,
    launch: &Launch,
    stream: &Stream,
    arguments: &mut [*mut c_void],
) -> Result<(), CudaError> {
    let Launch { grid, threads, shared_bytes, may_begin_early } = *launch;
    let mut early = sys::CUlaunchAttribute {
        id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
        pad: [0; 4],
        value: sys::CUlaunchAttributeValue { programmaticStreamSerializationAllowed: 1 },
    };
    let config = sys::CUlaunchConfig {
        gridDimX: grid.0,
        gridDimY: grid.1,
        gridDimZ: grid.2,
        blockDimX: threads,
        blockDimY: 1,
        blockDimZ: 1,
        sharedMemBytes: shared_bytes,
        hStream: stream.raw(),
        attrs: &raw mut early,
        numAttrs: u32::from(may_begin_early),
    };
    // SAFETY: the caller's; the configuration lives as long as the call.
    unsafe {
        sys::cuLaunchKernelEx(&raw const config, function, arguments.as_mut_ptr(), std::ptr::null_mut()).result()?;
    }
    Ok(())
}
