//! A memory-mapped weights file and a reader that never leaves it.

use std::fs::File;
use std::path::{Path, PathBuf};

use memmap2::Mmap;

use super::WeightsError;

/// A weights file, mapped into memory for as long as its checkpoint lives.
pub(super) struct WeightsFile {
    pub path: PathBuf,
    map: Mmap,
}

impl WeightsFile {
    pub fn open(path: &Path) -> Result<Self, WeightsError> {
        let read = |source| WeightsError::Read { path: path.to_owned(), source };
        let file = File::open(path).map_err(read)?;
        // SAFETY: the mapping is read-only and private. Installed weights are replaced by renaming a new file
        // over the old one, never written in place, so the mapped bytes do not change or shrink under us.
        let map = unsafe { Mmap::map(&file) }.map_err(read)?;
        if map.is_empty() {
            return Err(WeightsError::damaged(path, "the file is empty"));
        }
        Ok(Self { path: path.to_owned(), map })
    }

    pub fn bytes(&self) -> &[u8] {
        &self.map
    }

    pub fn damaged(&self, what: impl Into<String>) -> WeightsError {
        WeightsError::damaged(&self.path, what)
    }

    pub fn unsupported(&self, what: impl Into<String>) -> WeightsError {
        WeightsError::unsupported(&self.path, what)
    }
}

/// Reads little-endian values one after the other and fails, rather than reads on, at the file's end.
pub(super) struct Reader<'a> {
    file: &'a WeightsFile,
    at: usize,
}

impl<'a> Reader<'a> {
    pub fn new(file: &'a WeightsFile) -> Self {
        Self { file, at: 0 }
    }

    /// The byte the next read begins at.
    pub fn position(&self) -> usize {
        self.at
    }

    pub fn is_at_end(&self) -> bool {
        self.at == self.file.bytes().len()
    }

    pub fn take(&mut self, count: usize) -> Result<&'a [u8], WeightsError> {
        let rest = &self.file.bytes()[self.at..];
        let taken = rest.get(..count).ok_or_else(|| {
            self.file.damaged(format!(
                "{count} bytes are announced at byte {}, but only {} follow",
                self.at,
                rest.len()
            ))
        })?;
        self.at += count;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], WeightsError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    pub fn u8(&mut self) -> Result<u8, WeightsError> {
        Ok(self.array::<1>()?[0])
    }

    pub fn u16(&mut self) -> Result<u16, WeightsError> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub fn u32(&mut self) -> Result<u32, WeightsError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// A `u32` that counts something in memory.
    pub fn size(&mut self) -> Result<usize, WeightsError> {
        Ok(self.u32()? as usize)
    }
}
