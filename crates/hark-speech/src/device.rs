//! The device that decodes: the CPU, or an NVIDIA GPU.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use hark_cuda::cuda::{CudaDevice, CudaOptions};
use hark_cuda::{GpuBackend, GpuOptions};
use hark_whisper::backend::{Backend, TokenMap};
use hark_whisper::weights::Checkpoint;

use crate::SpeechError;
use crate::load::{BackendLoader, LoadOptions, load_on_cpu};

/// Where checkpoints are decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeviceChoice {
    /// On the CPU.
    #[default]
    Cpu,
    /// On the first GPU, or on the CPU where there is none that can be used.
    Auto,
    /// On the GPU with this number; an error where it can't be used.
    Cuda(usize),
}

impl FromStr for DeviceChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "cpu" => Ok(DeviceChoice::Cpu),
            "auto" => Ok(DeviceChoice::Auto),
            "cuda" => Ok(DeviceChoice::Cuda(0)),
            _ => {
                let number = text.strip_prefix("cuda:").and_then(|number| number.parse().ok());
                number
                    .map(DeviceChoice::Cuda)
                    .ok_or_else(|| format!("{text} is no device: give cpu, auto, cuda or cuda:N"))
            }
        }
    }
}

impl DeviceChoice {
    /// What loads checkpoints on the device; `None` for the CPU. NVIDIA's libraries are looked for in the folders `libraries`, then in those of
    /// the system; compiled kernels are kept in `cache`.
    pub fn loader(self, libraries: Vec<PathBuf>, cache: Option<PathBuf>) -> Option<BackendLoader> {
        let (ordinal, may_be_cpu) = match self {
            DeviceChoice::Cpu => return None,
            DeviceChoice::Auto => (0, true),
            DeviceChoice::Cuda(ordinal) => (ordinal, false),
        };
        let cuda = CudaOptions { ordinal, libraries, cache };
        Some(Arc::new(move |checkpoint: &Checkpoint, tokens: TokenMap, options: &LoadOptions| {
            match load_on_gpu(checkpoint, tokens.clone(), options, &cuda) {
                Err(error) if may_be_cpu => {
                    tracing::info!(%error, "engine.no_gpu");
                    load_on_cpu(checkpoint, tokens, options)
                }
                loaded => loaded,
            }
        }))
    }
}

fn load_on_gpu(
    checkpoint: &Checkpoint,
    tokens: TokenMap,
    options: &LoadOptions,
    cuda: &CudaOptions,
) -> Result<Box<dyn Backend>, SpeechError> {
    let failed = |problem: String| SpeechError::Device(format!("cuda:{}: {problem}", cuda.ordinal));
    let device = CudaDevice::open(cuda).map_err(|error| failed(error.to_string()))?;
    let gpu = GpuOptions { slots: options.slots, rows: options.widest_beam.max(1), ..GpuOptions::default() };
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
        assert_eq!((parse("cuda"), parse("cuda:3")), (Ok(DeviceChoice::Cuda(0)), Ok(DeviceChoice::Cuda(3))));
        for wrong in ["", "gpu", "cuda:", "cuda:x", "cuda:-1", "CPU"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert!(DeviceChoice::Cpu.loader(Vec::new(), None).is_none());
    }
}
