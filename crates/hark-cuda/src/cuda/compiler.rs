//! Compiles kernels by NVRTC, once: what comes out is kept in a folder by source, architecture and compiler.

use std::ffi::{CStr, CString};
use std::fs;
use std::path::{Path, PathBuf};

use cudarc::nvrtc::{result, sys};
use sha2::{Digest, Sha256};

use super::CudaError;

/// What all kernels share.
const COMMON: &str = include_str!("kernels/common.cuh");
/// What those over windows share.
const WINDOWS: &str = include_str!("kernels/window_attention.cuh");
/// The architecture that has instructions of its own here: Hopper.
const HOPPER: &str = "sm_90a";

/// A file of kernels.
pub struct Source {
    /// The file's name.
    pub name: &'static str,
    /// What it includes, beside what all do.
    shared: &'static str,
    text: &'static str,
    /// The kernels in it.
    pub kernels: &'static [&'static str],
    /// The only architecture that has its instructions, where not all have them.
    only: Option<&'static str>,
}

/// All files of kernels.
const SOURCES: [Source; 9] = [
    Source {
        name: "rows.cu",
        shared: "",
        text: include_str!("kernels/rows.cu"),
        kernels: &["unfold_float", "unfold_bf16", "add_positions", "layer_norm", "layer_norm_few", "embed_tokens"],
        only: None,
    },
    Source {
        name: "encoder_attention.cu",
        shared: "",
        text: include_str!("kernels/encoder_attention.cu"),
        kernels: &["encoder_attention"],
        only: None,
    },
    Source {
        name: "encoder_attention_hopper.cu",
        shared: "",
        text: include_str!("kernels/encoder_attention_hopper.cu"),
        kernels: &["encoder_attention_hopper"],
        only: Some(HOPPER),
    },
    Source {
        name: "decoder_attention.cu",
        shared: "",
        text: include_str!("kernels/decoder_attention.cu"),
        kernels: &["store_keys_values", "self_attention"],
        only: None,
    },
    Source {
        name: "window_attention.cu",
        shared: WINDOWS,
        text: include_str!("kernels/window_attention.cu"),
        kernels: &["store_window_keys", "cross_attention", "shared_cross_attention", "head_scores"],
        only: None,
    },
    Source {
        name: "fp8.cu",
        shared: WINDOWS,
        text: include_str!("kernels/fp8.cu"),
        kernels: &[
            "cross_attention_fp8",
            "shared_cross_attention_fp8",
            "head_scores_fp8",
            "quantize_rows",
            "layer_norm_fp8",
            "store_window_keys_fp8",
        ],
        only: Some(HOPPER),
    },
    Source {
        name: "answers.cu",
        shared: "",
        text: include_str!("kernels/answers.cu"),
        kernels: &["scan_logits", "answer_queries"],
        only: None,
    },
    Source {
        name: "alignment.cu",
        shared: "",
        text: include_str!("kernels/alignment.cu"),
        kernels: &["softmax_scores", "frame_stats", "agree"],
        only: None,
    },
    Source {
        name: "few_rows.cu",
        shared: "",
        text: include_str!("kernels/few_rows.cu"),
        kernels: &["linear_8", "linear_16", "linear_32", "norm_linear_8"],
        only: None,
    },
];

/// The files that are made for an architecture.
pub fn sources(architecture: &str) -> impl Iterator<Item = &'static Source> {
    SOURCES.iter().filter(move |source| source.only.is_none_or(|only| only == architecture))
}

/// Architectures that kernels are made for, as NVRTC names them.
pub fn architecture((major, minor): (i32, i32)) -> String {
    // Instructions of Hopper alone need the `a`.
    if (major, minor) == (9, 0) { HOPPER.to_owned() } else { format!("sm_{major}{minor}") }
}

/// The machine code of a file of kernels for an architecture, from `cache` where it was compiled before.
pub fn compile(source: &Source, architecture: &str, cache: Option<&Path>) -> Result<Vec<u8>, CudaError> {
    let (name, source) = (source.name, format!("{COMMON}\n{}\n{}", source.shared, source.text));
    let kept = cache.map(|folder| folder.join(kept_name(name, &source, architecture)));
    if let Some(code) = kept.as_ref().and_then(|path| fs::read(path).ok()).filter(|code| code.starts_with(b"\x7fELF")) {
        return Ok(code);
    }
    let code = compile_now(name, &source, architecture)?;
    if let Some(path) = kept
        && let Err(error) = keep(&path, &code)
    {
        tracing::debug!(?path, %error, "cuda.kernel_not_kept");
    }
    Ok(code)
}

fn kept_name(name: &str, source: &str, architecture: &str) -> PathBuf {
    let (mut major, mut minor) = (0, 0);
    // SAFETY: both are valid places for a number.
    let _ = unsafe { sys::nvrtcVersion(&mut major, &mut minor) };
    let hash = Sha256::digest(format!("{architecture} {major}.{minor}\n{source}"));
    let hash: String = hash.iter().take(12).map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{architecture}-{hash}.cubin", name.trim_end_matches(".cu")).into()
}

/// Writes a file whole or not at all.
fn keep(path: &Path, code: &[u8]) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let partial = path.with_extension(format!("partial-{}", std::process::id()));
    fs::write(&partial, code)?;
    fs::rename(partial, path)
}

fn compile_now(name: &str, source: &str, architecture: &str) -> Result<Vec<u8>, CudaError> {
    let failed = |what: String| CudaError::Compiler { name: name.to_owned(), what };
    let text = CString::new(source).map_err(|error| failed(error.to_string()))?;
    let file = CString::new(name).map_err(|error| failed(error.to_string()))?;
    let program = result::create_program(&text, Some(&file)).map_err(|error| failed(format!("{error:?}")))?;
    let options =
        [format!("--gpu-architecture={architecture}"), "--std=c++17".to_owned(), "-default-device".to_owned()];
    // SAFETY: the program was made above and is destroyed below.
    let compiled = unsafe { result::compile_program(program, &options) };
    let code = match compiled {
        // SAFETY: as above; the size is that of the code.
        Ok(()) => unsafe {
            let mut size = 0;
            let mut code = Vec::new();
            let mut found = sys::nvrtcGetCUBINSize(program, &mut size).result();
            if found.is_ok() {
                code.resize(size, 0u8);
                found = sys::nvrtcGetCUBIN(program, code.as_mut_ptr().cast()).result();
            }
            found.map(|()| code).map_err(|error| failed(format!("{error:?}")))
        },
        // SAFETY: as above.
        Err(error) => match unsafe { result::get_program_log(program) } {
            Ok(mut log) => {
                log.push(0);
                // SAFETY: the text ends in zero.
                let log = unsafe { CStr::from_ptr(log.as_ptr()) };
                Err(failed(log.to_string_lossy().into_owned()))
            }
            Err(_) => Err(failed(format!("{error:?}"))),
        },
    };
    // SAFETY: it was made above and is not used any more.
    let _ = unsafe { result::destroy_program(program) };
    code
}
