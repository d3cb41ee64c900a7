//! The device that decodes: the CPU, or an NVIDIA GPU.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use hark_cuda::cuda::{CudaDevice, CudaOptions, GpuInfo, libraries};
use hark_cuda::{GpuBackend, GpuOptions, Precision};
use hark_whisper::backend::{Backend, TokenMap};
use hark_whisper::weights::Checkpoint;

use crate::SpeechError;
use crate::load::{BackendLoader, Devices, LoadOptions};

/// Where checkpoints are decoded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum DeviceChoice {
    /// On the CPU.
    #[default]
    Cpu,
    /// On all GPUs, or on the CPU where there is none that can be used.
    Auto,
    /// On the GPUs with these numbers; an error where one can't be used.
    Cuda(Vec<usize>),
}

impl FromStr for DeviceChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "cpu" => Ok(DeviceChoice::Cpu),
            "auto" => Ok(DeviceChoice::Auto),
            "cuda" => Ok(DeviceChoice::Cuda(vec![0])),
            _ => {
                let numbers = text.strip_prefix("cuda:").unwrap_or_default().split(',').map(str::parse);
                let numbers = numbers.collect::<Result<Vec<usize>, _>>().ok();
                let has_twins = |numbers: &[usize]| (1..numbers.len()).any(|at| numbers[..at].contains(&numbers[at]));
                numbers
                    .filter(|numbers| !has_twins(numbers))
                    .map(DeviceChoice::Cuda)
                    .ok_or_else(|| format!("{text} is no device: give cpu, auto, cuda, cuda:N or cuda:N,M"))
            }
        }
    }
}

impl DeviceChoice {
    /// [`DeviceChoice::devices`] with the libraries that are installed in a folder of models, where compiled kernels are kept, too.
    pub fn devices_in(&self, models: &Path, precision: Precision) -> Devices {
        self.devices(&libraries::installed_in(models), Some(&libraries::kernels_in(models)), precision)
    }

    /// The devices, each with what loads checkpoints on it. NVIDIA's libraries are looked for in the folders `libraries`, then in those of
    /// the system; compiled kernels are kept in `cache`.
    pub fn devices(&self, libraries: &[PathBuf], cache: Option<&Path>, precision: Precision) -> Devices {
        let (gpus, or_cpu) = match self {
            DeviceChoice::Cpu => return Devices::default(),
            DeviceChoice::Auto => (usable(&hark_cuda::cuda::gpus().unwrap_or_default()), true),
            DeviceChoice::Cuda(ordinals) => (ordinals.clone(), false),
        };
        // Where there is none, trying the first one tells why.
        let tried = if gpus.is_empty() { vec![0] } else { gpus.clone() };
        let loader = |ordinal: usize| -> BackendLoader {
            let cuda = CudaOptions { ordinal, libraries: libraries.to_vec(), cache: cache.map(Path::to_path_buf) };
            Arc::new(move |checkpoint: &Checkpoint, tokens: TokenMap, options: &LoadOptions| {
                load_on_gpu(checkpoint, tokens, options, &cuda, precision)
            })
        };
        Devices { loaders: tried.into_iter().map(loader).collect(), gpus, or_cpu }
    }
}

/// Numbers of the GPUs that may be of use.
fn usable(gpus: &[GpuInfo]) -> Vec<usize> {
    gpus.iter().filter(|gpu| gpu.is_usable()).map(|gpu| gpu.ordinal).collect()
}

fn load_on_gpu(
    checkpoint: &Checkpoint,
    tokens: TokenMap,
    options: &LoadOptions,
    cuda: &CudaOptions,
    precision: Precision,
) -> Result<Box<dyn Backend>, SpeechError> {
    let failed = |problem: String| SpeechError::Device(format!("cuda:{}: {problem}", cuda.ordinal));
    let device = CudaDevice::open(cuda).map_err(|error| failed(error.to_string()))?;
    let rows = options.widest_beam.max(1);
    let gpu = GpuOptions { slots: options.slots, rows, precision, ..GpuOptions::default() };
    let backend = GpuBackend::load(device, checkpoint, tokens, gpu).map_err(|error| failed(error.to_string()))?;
    Ok(Box::new(backend))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_named() {
        let parse = |text: &str| text.parse::<DeviceChoice>();
        assert_eq!(parse("cpu"), Ok(DeviceChoice::Cpu));
        assert_eq!(parse("auto"), Ok(DeviceChoice::Auto));
        assert_eq!(
            (parse("cuda"), parse("cuda:3")),
            (Ok(DeviceChoice::Cuda(vec![0])), Ok(DeviceChoice::Cuda(vec![3])))
        );
        assert_eq!(parse("cuda:0,2"), Ok(DeviceChoice::Cuda(vec![0, 2])));
        for wrong in ["", "gpu", "cuda:", "cuda:x", "cuda:-1", "CPU", "cuda:0,", "cuda:1,1", "0,1"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert!(DeviceChoice::Cpu.devices(&[], None, Precision::default()).loaders.is_empty());
    }
}
