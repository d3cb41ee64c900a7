//! NVIDIA's libraries, loaded when they are needed.
//!
//! The driver comes with the machine. The compiler (NVRTC) and cuBLASLt come from the system, or from folders that are given: libraries
//! loaded from there by their path are found by their name afterwards.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

use super::CudaError;

/// Beginnings of the names of what is loaded, in the order in which they need each other.
const WANTED: [&str; 3] = ["libnvrtc-builtins.so", "libnvrtc.so", "libcublasLt.so"];

/// Libraries that were loaded from folders, kept until the process ends.
static LOADED: Mutex<Vec<Library>> = Mutex::new(Vec::new());

/// Where the libraries are that were installed as models, below the folder of models.
pub fn installed_in(models: &Path) -> [PathBuf; 2] {
    ["cuda-runtime", "cuda-compiler"].map(|name| models.join(name))
}

/// Where compiled kernels are kept beside models.
pub fn kernels_in(models: &Path) -> PathBuf {
    models.join(".cuda-kernels")
}

/// Loads the libraries in `folders` and in those below them.
pub fn load_from(folders: &[PathBuf]) {
    let mut loaded = LOADED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if !loaded.is_empty() {
        return;
    }
    let files: Vec<PathBuf> = folders.iter().flat_map(|folder| files_below(folder, 4)).collect();
    for wanted in WANTED {
        let is_wanted =
            |path: &&PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(wanted));
        for path in files.iter().filter(is_wanted) {
            // SAFETY: the initializers of NVIDIA's libraries may run at any time; what is loaded is never unloaded.
            match unsafe { Library::open(Some(path), RTLD_NOW | RTLD_GLOBAL) } {
                Ok(library) => loaded.push(library),
                Err(error) => tracing::warn!(?path, %error, "cuda.library_failed"),
            }
        }
    }
}

fn files_below(folder: &Path, depth: usize) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut files = Vec::new();
    for path in entries.flatten().map(|entry| entry.path()) {
        match path.is_dir() {
            true if depth > 0 => files.extend(files_below(&path, depth - 1)),
            true => {}
            false => files.push(path),
        }
    }
    files
}

/// Whether the driver is there.
pub fn has_driver() -> bool {
    // SAFETY: as in `load_from`.
    unsafe { cudarc::driver::sys::is_culib_present() }
}

/// Which of the two other libraries are missing.
pub fn missing() -> Vec<&'static str> {
    // SAFETY: as in `load_from`.
    let present = unsafe { [cudarc::nvrtc::sys::is_culib_present(), cudarc::cublaslt::sys::is_culib_present()] };
    ["NVRTC", "cuBLASLt"].into_iter().zip(present).filter(|(_, present)| !present).map(|(name, _)| name).collect()
}

/// Fails where a library is missing.
pub fn check() -> Result<(), CudaError> {
    if !has_driver() {
        return Err(CudaError::NoDriver);
    }
    match missing() {
        names if names.is_empty() => Ok(()),
        names => Err(CudaError::NoLibrary(names.join(" and "))),
    }
}
