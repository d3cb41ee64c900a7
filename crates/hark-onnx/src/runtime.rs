//! ONNX Runtime, loaded once for a process.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use ort::environment::Environment;

use crate::error::{OnnxError, reason};

/// The catalogue's entry of the library for this processor.
pub const CATALOGUE_NAME: &str = if cfg!(target_arch = "aarch64") { "onnxruntime-aarch64" } else { "onnxruntime" };
/// The file of the library in the folder of that entry.
pub const LIBRARY: &str = "libonnxruntime.so";

/// ONNX Runtime. All clones are the same library.
#[derive(Clone)]
pub struct Runtime {
    pub(crate) environment: Environment,
    library: PathBuf,
}

/// What was loaded. A process has one ONNX Runtime, which is never unloaded.
static LOADED: Mutex<Option<Runtime>> = Mutex::new(None);

impl Runtime {
    /// Loads the library at a path. Where one is loaded already, that one is used, from whichever path it came.
    pub fn load(library: &Path) -> Result<Self, OnnxError> {
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(runtime) = &*loaded {
            return Ok(runtime.clone());
        }
        if !library.is_file() {
            return Err(OnnxError::Missing { path: library.to_owned() });
        }
        // A path that is not absolute is looked for beside the program by `ort`, and not here.
        let path = std::path::absolute(library).unwrap_or_else(|_| library.to_owned());
        let failed = |why: String| OnnxError::Library { path: path.clone(), why };
        let builder = ort::init_from(&path).map_err(|error| failed(reason(&error)))?;
        let environment =
            builder.with_name("hark").with_telemetry(false).build().map_err(|error| failed(reason(&error)))?;
        environment.set_log_level(ort::logging::LogLevel::Fatal);
        Ok(loaded.insert(Runtime { environment, library: path }).clone())
    }

    /// Where the library was loaded from.
    pub fn library(&self) -> &Path {
        &self.library
    }
}

impl std::fmt::Debug for Runtime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runtime").field("library", &self.library).finish_non_exhaustive()
    }
}
