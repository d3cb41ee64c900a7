//! The programs that Hark's voice is measured beside and judged by: Python drivers in an environment of their own.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::systems::{NotRun, package_folder};

/// The environment that `bench/peers_voice.sh` makes.
const ENVIRONMENT: &str = ".venv-voice";

/// A driver of the bench folder.
#[derive(Debug, Clone, Copy)]
pub(super) struct Driver {
    pub(super) name: &'static str,
    /// The package that it can't do without.
    package: &'static str,
    script: &'static str,
}

/// Kokoro's graph in ONNX Runtime.
pub(super) const ONNX_RUNTIME: Driver =
    Driver { name: "ONNX Runtime", package: "onnxruntime", script: "peer_onnxruntime_speech.py" };
/// Speaker embeddings that matching does not use.
pub(super) const SPEAKER_JUDGE: Driver =
    Driver { name: "speaker judge", package: "kaldi_native_fbank", script: "judge_speakers.py" };

/// DeepFilterNet's own library, the weights of Hark's model.
pub(super) const DEEPFILTERNET: Driver = Driver { name: "libdeepfilter", package: "numpy", script: "peer_denoise.py" };
/// RNNoise with the weights in its library.
pub(super) const RNNOISE: Driver = Driver { name: "RNNoise", package: "numpy", script: "peer_denoise.py" };
/// PESQ and STOI.
pub(super) const QUALITY_JUDGE: Driver =
    Driver { name: "quality judge", package: "pystoi", script: "judge_quality.py" };

/// The environment's folder.
fn environment(bench: &Path) -> PathBuf {
    std::env::var_os("HARK_BENCH_VOICE_VENV").map_or_else(|| bench.join(ENVIRONMENT), PathBuf::from)
}

/// Where weights and libraries of packages lie that were unpacked and not installed.
pub(super) fn archives(bench: &Path) -> PathBuf {
    environment(bench).join("archives")
}

impl Driver {
    /// The command that starts it, or why it can't run.
    pub(super) fn command(self, bench: Option<&Path>, threads: usize) -> Result<Command, NotRun> {
        let not_run = |why: &str| NotRun { name: self.name.to_owned(), why: why.to_owned() };
        let bench = bench
            .ok_or_else(|| not_run("the bench folder was not found; run from the repository or set HARK_BENCH"))?;
        let venv = environment(bench);
        let python = venv.join("bin/python");
        if !python.is_file() || !package_folder(&venv, self.package) {
            return Err(not_run("not installed; run bench/peers_voice.sh"));
        }
        let mut command = Command::new(python);
        command.arg(bench.join(self.script)).args(["--threads", &threads.to_string()]);
        command.env("OMP_NUM_THREADS", threads.to_string());
        Ok(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_whose_packages_are_missing_says_what_to_run() {
        let folder = tempfile::tempdir().unwrap();
        let error = ONNX_RUNTIME.command(Some(folder.path()), 2).unwrap_err();
        assert!(error.why.contains("peers_voice.sh"), "{error:?}");
        let packages = folder.path().join(".venv-voice/lib/python3.11/site-packages/onnxruntime");
        std::fs::create_dir_all(packages).unwrap();
        std::fs::create_dir_all(folder.path().join(".venv-voice/bin")).unwrap();
        std::fs::write(folder.path().join(".venv-voice/bin/python"), "").unwrap();
        let command = ONNX_RUNTIME.command(Some(folder.path()), 2).unwrap();
        assert!(command.get_args().any(|argument| argument == "--threads"));
    }
}
