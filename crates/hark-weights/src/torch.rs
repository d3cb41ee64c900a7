//! PyTorch's `.pt` and `.bin`: a zip archive with a pickle that names tensors, and one entry for the bytes of each storage; or, before PyTorch 1.6, pickles one
//! behind the other and then the storages.

mod legacy;
mod pickle;

use std::collections::HashMap;
use std::io::{Cursor, Read};
use std::ops::Range;
use std::sync::Arc;

use crate::{FileError, Tensor, Tensors, WeightsFile};
use pickle::Placement;

/// Longest pickle: one of a thousand tensors has 133 kB.
const MAX_PICKLE: u64 = 64 << 20;

/// The tensors of a file that `torch.save` wrote from a dictionary of tensors, such as the state of a module.
pub fn read(file: &Arc<WeightsFile>) -> Result<Tensors, FileError> {
    if file.bytes().starts_with(legacy::MAGIC) {
        return legacy::read(file);
    }
    let mut archive = Archive::open(file)?;
    let program = archive.entry("data.pkl", MAX_PICKLE)?;
    let placements = pickle::run(&program).and_then(|pickled| pickled.tensors()).map_err(|what| file.damaged(what))?;
    let mut storages: HashMap<Arc<str>, Arc<WeightsFile>> = HashMap::new();
    let mut tensors = Tensors::new(file.path());
    for (name, placement) in placements {
        let storage = match storages.get(&placement.storage) {
            Some(storage) => storage,
            None => {
                let bytes = archive.entry(&format!("data/{}", placement.storage), u64::MAX)?;
                storages.entry(placement.storage.clone()).or_insert(WeightsFile::from_bytes(file.path(), bytes))
            }
        };
        tensors.insert(place(&name, placement, storage, 0..storage.bytes().len())?)?;
    }
    Ok(tensors)
}

/// A tensor in the storage that lies at `storage` in its file.
fn place(
    name: &str,
    Placement { dtype, offset, shape, .. }: Placement,
    file: &Arc<WeightsFile>,
    storage: Range<usize>,
) -> Result<Tensor, FileError> {
    let size = dtype.bytes_for(1).unwrap_or(0);
    let count = shape.iter().try_fold(1usize, |count, n| count.checked_mul(*n));
    let range = count.and_then(|count| {
        let start = storage.start.checked_add(offset.checked_mul(size)?)?;
        Some(start..start.checked_add(count.checked_mul(size)?)?)
    });
    let range = range.filter(|range| range.end <= storage.end);
    let range = range.ok_or_else(|| file.damaged(format!("{name} reaches past its storage")))?;
    Tensor::new(name, shape, dtype, file, range)
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
