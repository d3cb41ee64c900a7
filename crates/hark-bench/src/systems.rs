//! Which systems can be measured here: Hark itself, and the peers that `bench/peers.sh` installed.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use hark_models::{Catalogue, ModelStore, Role};
use hark_speech::Isa;

use super::BenchError;

/// Where systems run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Device {
    /// On the processor.
    Cpu,
    /// On the first NVIDIA GPU.
    Cuda,
}

/// What all systems of a run share.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The model's name in the models folder.
    pub model: String,
    /// The folder with that model's files, which Hark and the peers both read.
    pub model_folder: PathBuf,
    /// Word times on.
    pub words: bool,
    /// Width of the beam; without it Hark runs at its own default and the peers at 1, their fastest.
    pub beam: Option<u32>,
    /// Threads for everybody.
    pub threads: usize,
    /// The best instructions that anybody may use; the machine's best without it.
    pub isa: Option<Isa>,
    /// Where they run.
    pub device: Device,
    /// The `bench/` folder with the peers' drivers.
    pub bench_folder: Option<PathBuf>,
}

/// A system that can be started: its name, what it was told, and the command that speaks the line protocol.
#[derive(Debug)]
pub struct System {
    /// Short and unique, such as `faster-whisper batched 8`.
    pub name: String,
    /// The settings that matter, in words.
    pub settings: String,
    /// True for Hark itself.
    pub is_hark: bool,
    /// True for the system that is there to compare the words with, and whose speed is no contest.
    pub reference_only: bool,
    /// Starts its driver.
    pub command: Command,
}

/// A system that was asked for and could not be run, and why.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct NotRun {
    /// Its name.
    pub name: String,
    /// Why.
    pub why: String,
}

/// One peer that `--peers` can name.
struct Peer {
    key: &'static str,
    name: &'static str,
    in_auto: bool,
    kind: Kind,
}

enum Kind {
    FasterWhisper { compute: &'static str, batch: u32, beam: Option<u32>, reference_only: bool },
    WhisperCpp,
    OpenVino,
}

const PEERS: &[Peer] = &[
    Peer {
        key: "fw-seq",
        name: "faster-whisper sequential",
        in_auto: true,
        kind: Kind::FasterWhisper { compute: "int8", batch: 0, beam: None, reference_only: false },
    },
    Peer {
        key: "fw-batch8",
        name: "faster-whisper batched 8",
        in_auto: true,
        kind: Kind::FasterWhisper { compute: "int8", batch: 8, beam: None, reference_only: false },
    },
    Peer {
        key: "fw-batch16",
        name: "faster-whisper batched 16",
        in_auto: false,
        kind: Kind::FasterWhisper { compute: "int8", batch: 16, beam: None, reference_only: false },
    },
    Peer {
        key: "fw-f32",
        name: "faster-whisper float32",
        in_auto: true,
        kind: Kind::FasterWhisper { compute: "float32", batch: 0, beam: Some(5), reference_only: true },
    },
    Peer { key: "cpp", name: "whisper.cpp", in_auto: true, kind: Kind::WhisperCpp },
    Peer { key: "openvino", name: "OpenVINO GenAI", in_auto: true, kind: Kind::OpenVino },
];

/// The folder of an installed model.
pub fn installed(model: &str) -> Result<PathBuf, BenchError> {
    let store = ModelStore::new(ModelStore::default_dir());
    match store.installed(model) {
        Some(found) => Ok(found.dir),
        None => Err(BenchError::NoModel { model: model.to_owned(), folder: store.dir().to_owned() }),
    }
}

/// The folder of the installed model that plays a role by default.
pub fn installed_for(role: Role) -> Result<PathBuf, BenchError> {
    let catalogue = Catalogue::builtin();
    let model = catalogue
        .default_for(role)
        .map_err(|error| BenchError::System { system: "hark".to_owned(), error: error.to_string() })?;
    installed(&model.name)
}

/// The repository's `bench/` folder: `$HARK_BENCH`, the current folder's, or one above the running binary.
pub fn bench_folder() -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os("HARK_BENCH") {
        return Some(PathBuf::from(folder));
    }
    let beside_binary = std::env::current_exe().ok();
    let above = beside_binary.iter().flat_map(|binary| binary.ancestors()).map(Path::to_owned);
    std::env::current_dir()
        .into_iter()
        .chain(above)
        .map(|folder| folder.join("bench"))
        .find(|folder| folder.join("protocol.py").is_file())
}

/// Hark's own driver: this binary in a process of its own, so that its memory is counted as the peers' is.
pub fn hark(setup: &Setup) -> Result<System, BenchError> {
    let mut command = Command::new(crate::own_binary()?);
    command.args(["driver", "--model", &setup.model, "--threads", &setup.threads.to_string()]);
    if let Some(beam) = setup.beam {
        command.args(["--beam", &beam.to_string()]);
    }
    if setup.words {
        command.arg("--words");
    }
    if let Some(isa) = setup.isa {
        command.args(["--isa", isa.name()]);
    }
    if setup.device == Device::Cuda {
        command.args(["--device", "cuda"]);
    }
    let beam = setup.beam.map_or("its default search".to_owned(), |beam| format!("beam {beam}"));
    Ok(System { name: "hark".to_owned(), settings: beam, is_hark: true, reference_only: false, command })
}

/// The peers that `choice` names (`auto`, `none`, or keys with commas between), and those that can't run here.
pub fn peers(choice: &str, setup: &Setup) -> Result<(Vec<System>, Vec<NotRun>), BenchError> {
    let (mut systems, mut not_run) = (Vec::new(), Vec::new());
    for peer in chosen(choice)? {
        match system(peer, setup) {
            Ok(system) => systems.push(system),
            Err(why) => not_run.push(NotRun { name: peer.name.to_owned(), why }),
        }
    }
    Ok((systems, not_run))
}

fn chosen(choice: &str) -> Result<Vec<&'static Peer>, BenchError> {
    match choice {
        "none" => Ok(Vec::new()),
        "auto" => Ok(PEERS.iter().filter(|peer| peer.in_auto).collect()),
        keys => keys
            .split(',')
            .map(|key| {
                PEERS.iter().find(|peer| peer.key == key.trim()).ok_or_else(|| BenchError::NoSuchPeer {
                    key: key.trim().to_owned(),
                    known: PEERS.iter().map(|peer| peer.key).collect::<Vec<_>>().join(", "),
                })
            })
            .collect(),
    }
}

fn system(peer: &Peer, setup: &Setup) -> Result<System, String> {
    let bench = setup
        .bench_folder
        .as_deref()
        .ok_or("the bench folder was not found; run from the repository or set HARK_BENCH")?;
    let venv = std::env::var_os("HARK_BENCH_VENV").map_or_else(|| bench.join(".venv"), PathBuf::from);
    let python = venv.join("bin/python");
    if !python.is_file() {
        return Err("peers are not installed; run bench/peers.sh".to_owned());
    }
    if !setup.model_folder.join("model.bin").is_file() {
        return Err(format!("{} is not in CTranslate2 form, which all peers' weights are made from", setup.model));
    }
    let installed = |package: &str| match package_folder(&venv, package) {
        true => Ok(()),
        false => Err(format!("{package} is not installed; run bench/peers.sh")),
    };
    let driver = |script: &str| {
        let mut command = Command::new(&python);
        command.arg(bench.join(script)).args(["--threads", &setup.threads.to_string()]);
        // The libraries' own thread pools outside their settings (voice activity, array work) must not exceed the share.
        command.env("OMP_NUM_THREADS", setup.threads.to_string());
        for (variable, value) in setup.isa.into_iter().flat_map(instruction_limits) {
            command.env(variable, value);
        }
        if setup.words {
            command.arg("--words");
        }
        command
    };
    match peer.kind {
        Kind::WhisperCpp | Kind::OpenVino if setup.device == Device::Cuda => {
            Err("its packages here are those for processors".to_owned())
        }
        Kind::FasterWhisper { compute, batch, beam, reference_only } => {
            installed("faster_whisper")?;
            let compute = match (setup.device, compute) {
                (Device::Cuda, "int8") => "float16",
                (_, compute) => compute,
            };
            let beam = beam.or(setup.beam).unwrap_or(1).to_string();
            let mut command = driver("peer_faster_whisper.py");
            command.arg("--model").arg(&setup.model_folder);
            command.args(["--compute-type", compute, "--batch", &batch.to_string(), "--beam", &beam]);
            if setup.device == Device::Cuda {
                command.args(["--device", "cuda"]);
            }
            let settings = format!("{compute}, beam {beam}");
            Ok(System { name: peer.name.to_owned(), settings, is_hark: false, reference_only, command })
        }
        Kind::WhisperCpp => {
            installed("pywhispercpp")?;
            let file = bench.join("out").join(format!("ggml-{}.bin", setup.model));
            if !file.is_file() {
                return Err(format!("its copy of the weights is missing; run bench/peers.sh {}", setup.model));
            }
            let beam = setup.beam.unwrap_or(1).to_string();
            let mut command = driver("peer_whisper_cpp.py");
            command.arg("--model").arg(file).args(["--beam", &beam]);
            let settings = format!("fp16, beam {beam}, no voice activity");
            Ok(System { name: peer.name.to_owned(), settings, is_hark: false, reference_only: false, command })
        }
        Kind::OpenVino => {
            installed("openvino_genai")?;
            let folder = bench.join("out").join(format!("openvino-{}", setup.model));
            if !folder.join("openvino_encoder_model.xml").is_file() {
                return Err(format!("its copy of the weights is missing; run bench/peers.sh {}", setup.model));
            }
            if setup.words || setup.beam.is_some_and(|beam| beam > 1) {
                return Err("its converted graph serves neither word times nor beams".to_owned());
            }
            let mut command = driver("peer_openvino.py");
            command.arg("--model").arg(folder);
            Ok(System {
                name: peer.name.to_owned(),
                settings: "its own precision, beam 1, no voice activity".to_owned(),
                is_hark: false,
                reference_only: false,
                command,
            })
        }
    }
}

/// What keeps the peers' math libraries (oneMKL, oneDNN, OpenVINO's copy of it) off newer instructions, as if the
/// machine had none. whisper.cpp decides when it is built and knows no such switch.
fn instruction_limits(isa: Isa) -> Vec<(&'static str, &'static str)> {
    let (mkl, onednn) = match isa {
        Isa::Amx => return Vec::new(),
        Isa::Avx512Bf16 => ("AVX512_E3", "AVX512_CORE_BF16"),
        Isa::Avx512Vnni => ("AVX512_E1", "AVX512_CORE_VNNI"),
        Isa::Avx512 => ("AVX512", "AVX512_CORE"),
        Isa::AvxVnni => ("AVX2_E1", "AVX2_VNNI"),
        Isa::Avx2 => ("AVX2", "AVX2"),
        Isa::Portable => ("SSE4_2", "SSE41"),
    };
    vec![("MKL_ENABLE_INSTRUCTIONS", mkl), ("ONEDNN_MAX_CPU_ISA", onednn)]
}

/// Whether a virtual environment has a package.
pub fn package_folder(venv: &Path, package: &str) -> bool {
    let Ok(versions) = std::fs::read_dir(venv.join("lib")) else {
        return false;
    };
    versions.filter_map(Result::ok).any(|version| version.path().join("site-packages").join(package).exists())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audio::Scratch;

    fn setup(bench: &Path) -> Setup {
        Setup {
            model: "whisper-base".into(),
            model_folder: bench.join("model"),
            words: true,
            beam: None,
            threads: 2,
            isa: None,
            device: Device::Cpu,
            bench_folder: Some(bench.to_owned()),
        }
    }

    fn arguments(system: &System) -> Vec<String> {
        system.command.get_args().map(|argument| argument.to_string_lossy().into_owned()).collect()
    }

    /// A bench folder where everything seems to be installed.
    fn installed_bench() -> Scratch {
        let scratch = Scratch::new().unwrap();
        let packages = ".venv/lib/python3.11/site-packages";
        for folder in [
            ".venv/bin",
            "model",
            "out/openvino-whisper-base",
            &format!("{packages}/faster_whisper"),
            &format!("{packages}/openvino_genai"),
        ] {
            std::fs::create_dir_all(scratch.file(folder)).unwrap();
        }
        for file in [".venv/bin/python", "model/model.bin", "out/openvino-whisper-base/openvino_encoder_model.xml"] {
            std::fs::write(scratch.file(file), "").unwrap();
        }
        scratch
    }

    #[test]
    fn a_machine_without_amx_is_one_for_the_peers_too() {
        let bench = installed_bench();
        let limited = Setup { isa: Some(Isa::Avx2), ..setup(&bench.folder) };
        let (systems, _) = peers("fw-seq", &limited).unwrap();
        let limit = systems[0].command.get_envs().find(|(name, _)| *name == "MKL_ENABLE_INSTRUCTIONS");
        assert_eq!(limit.and_then(|(_, value)| value), Some("AVX2".as_ref()));
        assert!(arguments(&hark(&limited).unwrap()).join(" ").contains("--isa avx2"));
    }

    #[test]
    fn on_a_gpu_only_what_can_use_it_runs() {
        let bench = installed_bench();
        let on_gpu = Setup { device: Device::Cuda, ..setup(&bench.folder) };
        let (systems, not_run) = peers("fw-seq,fw-f32,openvino", &on_gpu).unwrap();
        let commands: Vec<String> = systems.iter().map(|system| arguments(system).join(" ")).collect();
        assert!(
            commands[0].contains("--compute-type float16") && commands[0].contains("--device cuda"),
            "{commands:?}"
        );
        assert!(commands[1].contains("--compute-type float32"), "{commands:?}");
        assert_eq!(not_run.len(), 1);
        assert!(arguments(&hark(&on_gpu).unwrap()).join(" ").contains("--device cuda"));
    }

    #[test]
    fn a_model_in_another_form_is_not_swapped_for_one_that_peers_can_read() {
        let bench = installed_bench();
        std::fs::remove_file(bench.file("model/model.bin")).unwrap();
        let (systems, not_run) = peers("fw-seq", &setup(&bench.folder)).unwrap();
        assert!(systems.is_empty() && not_run[0].why.contains("CTranslate2"), "{not_run:?}");
    }

    #[test]
    fn a_peer_that_is_not_installed_says_what_to_run() {
        let scratch = Scratch::new().unwrap();
        let (systems, not_run) = peers("fw-seq,cpp", &setup(&scratch.folder)).unwrap();
        assert!(systems.is_empty());
        assert_eq!(not_run.len(), 2);
        assert!(not_run.iter().all(|peer| peer.why.contains("bench/peers.sh")), "{not_run:?}");
    }

    #[test]
    fn an_installed_peer_gets_the_same_words_and_threads_and_its_own_beam() {
        let scratch = installed_bench();
        let (systems, _) = peers("fw-batch8,fw-f32", &setup(&scratch.folder)).unwrap();
        let batched = arguments(&systems[0]).join(" ");
        assert!(
            batched.contains("--threads 2 --words") && batched.ends_with("--compute-type int8 --batch 8 --beam 1"),
            "{batched}"
        );
        assert!(systems[1].reference_only && systems[1].settings == "float32, beam 5");
    }

    #[test]
    fn a_peer_that_cannot_do_what_is_asked_is_not_run_at_something_else() {
        let scratch = installed_bench();
        let (systems, not_run) = peers("openvino", &setup(&scratch.folder)).unwrap();
        assert!(systems.is_empty() && not_run[0].why.contains("word times"), "{not_run:?}");
        let without_words = Setup { words: false, ..setup(&scratch.folder) };
        assert_eq!(peers("openvino", &without_words).unwrap().0.len(), 1);
    }

    #[test]
    fn an_unknown_peer_is_an_error_that_lists_the_known() {
        let error = peers("fw-seq,kaldi", &setup(Path::new("bench"))).unwrap_err().to_string();
        assert!(error.contains("kaldi") && error.contains("fw-batch8"), "{error}");
    }

    #[test]
    fn none_means_none() {
        let (systems, not_run) = peers("none", &setup(Path::new("bench"))).unwrap();
        assert!(systems.is_empty() && not_run.is_empty());
    }
}
