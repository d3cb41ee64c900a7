//! PyTorch's `.pt`: a zip archive with a pickle that names tensors, and one entry for the bytes of each storage.

mod pickle;

use std::collections::HashMap;
use std::io::{Cursor, Read};
use std::sync::Arc;

use crate::{FileError, Tensor, Tensors, WeightsFile};
use pickle::Placement;

/// Longest pickle: one of a thousand tensors has 133 kB.
const MAX_PICKLE: u64 = 64 << 20;

/// The tensors of a file that `torch.save` wrote from a dictionary of tensors.
pub fn read(file: &Arc<WeightsFile>) -> Result<Tensors, FileError> {
    let mut archive = Archive::open(file)?;
    let program = archive.entry("data.pkl", MAX_PICKLE)?;
    let placements = pickle::run(&program).map_err(|what| file.damaged(what))?;
    let mut storages: HashMap<Arc<str>, Arc<WeightsFile>> = HashMap::new();
    let mut tensors = Tensors::new(file.path());
    for (name, Placement { dtype, storage, offset, shape }) in placements {
        let storage = match storages.get(&storage) {
            Some(storage) => storage,
            None => {
                let bytes = archive.entry(&format!("data/{storage}"), u64::MAX)?;
                storages.entry(storage).or_insert(WeightsFile::from_bytes(file.path(), bytes))
            }
        };
        let size = dtype.bytes_for(1).unwrap_or(0);
        let count = shape.iter().try_fold(1usize, |count, n| count.checked_mul(*n));
        let range = count.and_then(|count| {
            let start = offset.checked_mul(size)?;
            Some(start..start.checked_add(count.checked_mul(size)?)?)
        });
        let range = range.filter(|range| range.end <= storage.bytes().len());
        let range = range.ok_or_else(|| file.damaged(format!("{name} reaches past its storage")))?;
        tensors.insert(Tensor::new(&*name, shape, dtype, storage, range)?)?;
    }
    Ok(tensors)
}

/// The zip archive, whose entries stand below a folder of any name.
struct Archive<'a> {
    file: &'a WeightsFile,
    zip: zip::ZipArchive<Cursor<&'a [u8]>>,
    root: String,
    /// Bytes that entries may still take: those of the file, since PyTorch compresses none and entries do not overlap.
    left: u64,
}

impl<'a> Archive<'a> {
    fn open(file: &'a WeightsFile) -> Result<Self, FileError> {
        let zip = zip::ZipArchive::new(Cursor::new(file.bytes())).map_err(|error| file.damaged(error.to_string()))?;
        let root = zip.file_names().find_map(|name| Some(name.ok()?.strip_suffix("data.pkl")?.to_owned()));
        let root = root.ok_or_else(|| file.damaged("it holds no data.pkl: it is no PyTorch file"))?;
        Ok(Archive { file, zip, root, left: file.bytes().len() as u64 })
    }

    /// An entry's bytes, their checksum checked.
    fn entry(&mut self, name: &str, limit: u64) -> Result<Vec<u8>, FileError> {
        let path = format!("{}{name}", self.root);
        let limit = limit.min(self.left);
        let damaged = |what: String| self.file.damaged(format!("{path}: {what}"));
        let entry = self.zip.by_name(&path).map_err(|error| damaged(error.to_string()))?;
        if entry.compression() != zip::CompressionMethod::Stored {
            return Err(self.file.unsupported(format!("{path} is compressed, which PyTorch never does")));
        }
        let mut bytes = Vec::new();
        let read = entry.take(limit.saturating_add(1)).read_to_end(&mut bytes);
        let read = read.map_err(|error| damaged(error.to_string()))? as u64;
        if read > limit {
            return Err(damaged(format!("it is larger than the {limit} bytes it may have")));
        }
        self.left -= read;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests;
