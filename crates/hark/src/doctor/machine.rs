//! What the machine itself offers: processor, memory, graphics card, ffmpeg and what confines it.

use std::process::{Command, Stdio};

use super::{Finding, bytes};
use crate::config::Config;

/// Names of `/proc/cpuinfo` and of people, fastest kernels first.
const FEATURES: [(&str, &str); 9] = [
    ("amx_bf16", "AMX bf16"),
    ("amx_int8", "AMX int8"),
    ("avx512f", "AVX-512"),
    ("avx512bw", "AVX-512 BW"),
    ("avx512_vnni", "AVX-512 VNNI"),
    ("avx512_bf16", "AVX-512 bf16"),
    ("avx_vnni", "AVX VNNI"),
    ("avx2", "AVX2"),
    ("fma", "FMA"),
];

pub(super) fn cpu() -> Finding {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let (model, features) = read_cpuinfo(&cpuinfo);
    let model = model.unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    let isa = hark_speech::Isa::best();
    if isa == hark_speech::Isa::Portable {
        return Finding::optional(
            "cpu",
            format!("{model}: no vector extension that hark has kernels for"),
            "works with portable kernels, slowly; a machine with AVX2 or newer is much faster",
        );
    }
    let features = features.join(", ");
    Finding::ok("cpu", format!("{model}: {features}; uses {} kernels", isa.name()))
}

fn read_cpuinfo(cpuinfo: &str) -> (Option<String>, Vec<&'static str>) {
    let value = |name: &str| {
        let line = cpuinfo.lines().find(|line| line.split(':').next().is_some_and(|key| key.trim() == name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let flags = value("flags").unwrap_or_default();
    let has = |name: &str| flags.split_whitespace().any(|flag| flag == name);
    let features = FEATURES.iter().filter(|(flag, _)| has(flag)).map(|(_, name)| *name).collect();
    (value("model name"), features)
}

pub(super) fn cores() -> Finding {
    match std::thread::available_parallelism() {
        Ok(count) => Finding::ok("cores", format!("{count} usable")),
        Err(error) => Finding::optional("cores", format!("unknown ({error})"), "set HARK_THREADS"),
    }
}

pub(super) fn memory() -> Finding {
    /// whisper-base with its caches and a few files open.
    const ENOUGH: u64 = 1 << 30;
    let Some((total, available)) = machine_memory() else {
        return Finding::optional("memory", "unknown", "check that about 1 GB is free");
    };
    let detail = format!("{} of {} free", bytes(available), bytes(total));
    match available {
        ENOUGH.. => Finding::ok("memory", detail),
        _ => Finding::optional("memory", detail, "close other programs, or use a smaller model"),
    }
}

/// Total and available bytes of the machine, or of the limit of its control group.
pub(crate) fn machine_memory() -> Option<(u64, u64)> {
    let (total, available) = read_meminfo(&std::fs::read_to_string("/proc/meminfo").ok()?)?;
    let limit = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok().and_then(|text| text.trim().parse().ok());
    Some(match limit {
        Some(limit) if limit < total => (limit, available.min(limit)),
        _ => (total, available),
    })
}

/// Total and available bytes.
fn read_meminfo(meminfo: &str) -> Option<(u64, u64)> {
    let value = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
    };
    Some((value("MemTotal")?, value("MemAvailable")?))
}

/// Only the driver's library is looked for: whether it can be loaded says more than a device file.
pub(super) fn gpu(config: &Config) -> Finding {
    use hark_cuda::cuda::{self, libraries};
    let found = match cuda::gpus() {
        Ok(found) => found,
        Err(cuda::CudaError::NoDriver) => return Finding::ok("gpu", "no NVIDIA driver: hark runs on the CPU"),
        Err(error) => return Finding::optional("gpu", error.to_string(), "hark runs on the CPU"),
    };
    let Some(first) = found.first() else { return Finding::ok("gpu", "no NVIDIA GPU: hark runs on the CPU") };
    let detail = format!("{} of {} GPUs: {} with {}", first.ordinal, found.len(), first.name, bytes(first.memory));
    let folder = super::models::folder(config);
    libraries::load_from(&libraries::installed_in(&folder));
    let missing = libraries::missing();
    if !missing.is_empty() {
        let fix = "`hark models pull cuda-runtime`, or install CUDA 13";
        return Finding::optional("gpu", format!("{detail}; {} not found", missing.join(" and ")), fix);
    }
    Finding::ok("gpu", format!("{detail}; used with --device cuda"))
}

pub(super) fn ffmpeg() -> Finding {
    let fix = "install ffmpeg (Debian: apt-get install ffmpeg) for the formats hark can't decode itself";
    program("ffmpeg", "-version", 2, fix)
}

pub(super) fn espeak() -> Finding {
    let fix =
        "install espeak-ng (Debian: apt-get install espeak-ng) to speak languages other than English and Japanese";
    program("espeak-ng", "--version", 3, fix)
}

/// A program beside this one, and the version that it gives as that word of its answer.
fn program(name: &'static str, argument: &str, word: usize, fix: &'static str) -> Finding {
    match Command::new(name).arg(argument).stdin(Stdio::null()).stderr(Stdio::null()).output() {
        Ok(output) if output.status.success() => {
            let text = String::from_utf8_lossy(&output.stdout);
            Finding::ok(name, text.split_whitespace().nth(word).unwrap_or("unknown version"))
        }
        Ok(output) => Finding::optional(name, format!("does not run ({})", output.status), fix),
        Err(_) => Finding::optional(name, "not found", fix),
    }
}

/// How far a program that a hostile file or text took over is kept from the rest of this machine.
pub(super) fn sandbox() -> Finding {
    let layers = hark_sandbox::layers();
    let (active, missing): (Vec<_>, Vec<_>) = layers.iter().partition(|layer| layer.is_active);
    let names = |layers: &[&hark_sandbox::Layer]| layers.iter().map(|layer| layer.name).collect::<Vec<_>>().join(", ");
    if missing.is_empty() {
        return Finding::ok("sandbox", names(&active));
    }
    let denied: Vec<String> =
        missing.iter().map(|layer| format!("{} would deny it {}", layer.name, layer.denies)).collect();
    Finding::optional(
        "sandbox",
        format!("{}; missing: {}", names(&active), names(&missing)),
        format!(
            "a newer kernel, or a container that allows it, confines ffmpeg and espeak-ng further: {}",
            denied.join("; ")
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_whole_flags_and_not_parts_of_others() {
        let cpuinfo = "processor\t: 0\nmodel name\t: A CPU @ 2 GHz\nflags\t\t: fpu avx2 avx512fp16 fma\n";
        let (model, features) = read_cpuinfo(cpuinfo);
        assert_eq!(model.as_deref(), Some("A CPU @ 2 GHz"));
        assert_eq!(features, ["AVX2", "FMA"]);
    }

    #[test]
    fn memory_is_read_in_bytes() {
        let meminfo = "MemTotal:       2048 kB\nMemFree:  1 kB\nMemAvailable:   1024 kB\n";
        assert_eq!(read_meminfo(meminfo), Some((2_097_152, 1_048_576)));
    }
}
