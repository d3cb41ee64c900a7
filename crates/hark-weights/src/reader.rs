//! Reads little-endian values one after the other and fails, rather than reads on, at the file's end.

use crate::{FileError, WeightsFile};

/// A position in a file.
pub(crate) struct Reader<'a> {
    file: &'a WeightsFile,
    position: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(file: &'a WeightsFile) -> Self {
        Self { file, position: 0 }
    }

    /// The byte the next read begins at.
    pub(crate) fn position(&self) -> usize {
        self.position
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.position == self.file.bytes().len()
    }

    /// The next `count` bytes.
    pub(crate) fn bytes(&mut self, count: usize) -> Result<&'a [u8], FileError> {
        let rest = &self.file.bytes()[self.position..];
        let bytes = rest.get(..count).ok_or_else(|| {
            self.file.damaged(format!(
                "{count} bytes are announced at byte {}, but only {} follow",
                self.position,
                rest.len()
            ))
        })?;
        self.position += count;
        Ok(bytes)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], FileError> {
        let mut array = [0; N];
        array.copy_from_slice(self.bytes(N)?);
        Ok(array)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, FileError> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub(crate) fn u16(&mut self) -> Result<u16, FileError> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, FileError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, FileError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A `u32` that counts bytes or items.
    pub(crate) fn size(&mut self) -> Result<usize, FileError> {
        Ok(self.u32()? as usize)
    }

    /// A `u64` that counts bytes or items.
    pub(crate) fn size64(&mut self) -> Result<usize, FileError> {
        let size = self.u64()?;
        usize::try_from(size).map_err(|_| self.file.damaged(format!("impossible size {size}")))
    }
}
