//! What GPUs do at the moment, from NVIDIA's management library (NVML), which comes with the driver.

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::sync::{Mutex, OnceLock, PoisonError};

use libloading::os::unix::Library;

/// What a GPU does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GpuReading {
    /// Its number.
    pub ordinal: usize,
    /// Its name.
    pub name: String,
    /// Bytes of memory.
    pub memory_total: u64,
    /// Bytes that are free.
    pub memory_free: u64,
    /// Percent of the last moments in which it computed.
    pub utilization: Option<u32>,
    /// Thousandths of a watt.
    pub milliwatts: Option<u32>,
    /// Degrees Celsius.
    pub temperature: Option<u32>,
}

impl GpuReading {
    /// As devices are named.
    pub fn device(&self) -> String {
        format!("cuda:{} ({})", self.ordinal, self.name)
    }
}

/// `nvmlReturn_t` of success.
const SUCCESS: c_int = 0;
/// `NVML_TEMPERATURE_GPU`.
const TEMPERATURE_GPU: c_uint = 0;

type Handle = *mut c_void;

/// `nvmlMemory_t`.
#[repr(C)]
#[derive(Default)]
struct MemoryInfo {
    total: u64,
    free: u64,
    used: u64,
}

/// `nvmlUtilization_t`.
#[repr(C)]
#[derive(Default)]
struct Utilization {
    gpu: c_uint,
    memory: c_uint,
}

/// The library, with the functions that are called.
struct Nvml {
    handle_by_bus: unsafe extern "C" fn(*const c_char, *mut Handle) -> c_int,
    memory: unsafe extern "C" fn(Handle, *mut MemoryInfo) -> c_int,
    utilization: unsafe extern "C" fn(Handle, *mut Utilization) -> c_int,
    power: unsafe extern "C" fn(Handle, *mut c_uint) -> c_int,
    temperature: unsafe extern "C" fn(Handle, c_uint, *mut c_uint) -> c_int,
    /// The functions are of this library.
    _library: Library,
}

impl Nvml {
    fn load() -> Option<Self> {
        // SAFETY: the signatures are those of NVML's header; the initializer may run at any time.
        unsafe {
            let library = Library::new("libnvidia-ml.so.1").ok()?;
            let begin = library.get::<unsafe extern "C" fn() -> c_int>(b"nvmlInit_v2\0").ok()?;
            if begin() != SUCCESS {
                return None;
            }
            Some(Nvml {
                handle_by_bus: *library.get(b"nvmlDeviceGetHandleByPciBusId_v2\0").ok()?,
                memory: *library.get(b"nvmlDeviceGetMemoryInfo\0").ok()?,
                utilization: *library.get(b"nvmlDeviceGetUtilizationRates\0").ok()?,
                power: *library.get(b"nvmlDeviceGetPowerUsage\0").ok()?,
                temperature: *library.get(b"nvmlDeviceGetTemperature\0").ok()?,
                _library: library,
            })
        }
    }

    fn read(&self, bus: &CStr, reading: &mut GpuReading) {
        let mut handle: Handle = std::ptr::null_mut();
        let (mut memory, mut busy) = (MemoryInfo::default(), Utilization::default());
        let (mut milliwatts, mut degrees) = (0, 0);
        // SAFETY: the handle was found by the library; all places are valid for what is written.
        unsafe {
            if (self.handle_by_bus)(bus.as_ptr(), &mut handle) != SUCCESS {
                return;
            }
            if (self.memory)(handle, &mut memory) == SUCCESS {
                (reading.memory_total, reading.memory_free) = (memory.total, memory.free);
            }
            reading.utilization = ((self.utilization)(handle, &mut busy) == SUCCESS).then_some(busy.gpu);
            reading.milliwatts = ((self.power)(handle, &mut milliwatts) == SUCCESS).then_some(milliwatts);
            let known = (self.temperature)(handle, TEMPERATURE_GPU, &mut degrees) == SUCCESS;
            reading.temperature = known.then_some(degrees);
        }
    }
}

fn nvml() -> Option<&'static Nvml> {
    static NVML: OnceLock<Option<Nvml>> = OnceLock::new();
    NVML.get_or_init(Nvml::load).as_ref()
}

/// What never changes of a GPU: its name, bytes of memory, and where it is on the bus.
#[derive(Clone)]
struct Known {
    name: String,
    memory: u64,
    bus: CString,
}

fn known(ordinal: usize) -> Option<Known> {
    static KNOWN: Mutex<Option<HashMap<usize, Known>>> = Mutex::new(None);
    let mut all = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if all.is_none() {
        let gpus = super::gpus().ok()?;
        let one = |gpu: super::GpuInfo| {
            Some((gpu.ordinal, Known { bus: bus_of(gpu.ordinal)?, name: gpu.name, memory: gpu.memory }))
        };
        *all = Some(gpus.into_iter().filter_map(one).collect());
    }
    all.as_ref()?.get(&ordinal).cloned()
}

/// The identifier of a GPU on the PCI bus: NVML counts GPUs that CUDA does not see.
fn bus_of(ordinal: usize) -> Option<CString> {
    let device = cudarc::driver::result::device::get(ordinal as c_int).ok()?;
    let mut text = [0 as c_char; 32];
    // SAFETY: the text has its length, with the zero at its end.
    unsafe {
        cudarc::driver::sys::cuDeviceGetPCIBusId(text.as_mut_ptr(), text.len() as c_int, device).result().ok()?;
        Some(CStr::from_ptr(text.as_ptr()).to_owned())
    }
}

/// What the GPU with this number does; nothing where there is none.
pub fn read(ordinal: usize) -> Option<GpuReading> {
    let Known { name, memory, bus } = known(ordinal)?;
    let mut reading = GpuReading { ordinal, name, memory_total: memory, ..GpuReading::default() };
    if let Some(nvml) = nvml() {
        nvml.read(&bus, &mut reading);
    }
    Some(reading)
}
