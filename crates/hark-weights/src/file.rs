//! A weights file in memory: mapped from disk, or bytes that are already there.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memmap2::Mmap;

use crate::FileError;

/// The bytes of a weights file, shared by the tensors that lie in it.
pub struct WeightsFile {
    path: PathBuf,
    contents: Contents,
}

enum Contents {
    Mapped(Mmap),
    Owned(Vec<u8>),
}

impl WeightsFile {
    /// Maps the file at `path` into memory.
    pub fn open(path: &Path) -> Result<Arc<Self>, FileError> {
        let read = |source| FileError::Read { path: path.to_owned(), source };
        let file = File::open(path).map_err(read)?;
        // SAFETY: the mapping is read-only and private. Installed weights are replaced by renaming a new file
        // over the old one, never written in place, so the mapped bytes do not change or shrink.
        let map = unsafe { Mmap::map(&file) }.map_err(read)?;
        if map.is_empty() {
            return Err(FileError::damaged(path, "the file is empty"));
        }
        Ok(Arc::new(Self { path: path.to_owned(), contents: Contents::Mapped(map) }))
    }

    /// Bytes that are in memory already; `path` is what errors call them.
    pub fn from_bytes(path: impl Into<PathBuf>, bytes: Vec<u8>) -> Arc<Self> {
        Arc::new(Self { path: path.into(), contents: Contents::Owned(bytes) })
    }

    /// The file's path, for errors.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All bytes of the file.
    pub fn bytes(&self) -> &[u8] {
        match &self.contents {
            Contents::Mapped(map) => map,
            Contents::Owned(bytes) => bytes,
        }
    }

    /// The error that this file contradicts itself or ends early.
    pub fn damaged(&self, what: impl Into<String>) -> FileError {
        FileError::damaged(&self.path, what)
    }

    /// The error that this file uses something that is not supported.
    pub fn unsupported(&self, what: impl Into<String>) -> FileError {
        FileError::unsupported(&self.path, what)
    }
}

impl std::fmt::Debug for WeightsFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WeightsFile")
            .field("path", &self.path)
            .field("len", &self.bytes().len())
            .finish_non_exhaustive()
    }
}
