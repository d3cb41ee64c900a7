//! The format of PyTorch before 1.6: four pickles (a version, facts about the machine, the dictionary, the names of its storages), then for each storage how many
//! values it has and the values.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::{pickle, place};
use crate::{FileError, Tensors, WeightsFile};

/// The pickle of a magic number, with which files begin.
pub(super) const MAGIC: &[u8] = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";

/// The tensors of such a file; they lie in the mapped file, nothing is copied.
pub(super) fn read(file: &Arc<WeightsFile>) -> Result<Tensors, FileError> {
    let damaged = |what: String| file.damaged(what);
    let version = pickle::run(&file.bytes()[MAGIC.len()..]).map_err(damaged)?;
    let machine = pickle::run(version.rest).map_err(damaged)?;
    let dictionary = pickle::run(machine.rest).map_err(damaged)?;
    let names = pickle::run(dictionary.rest).map_err(damaged)?;
    let mut storages: HashMap<Arc<str>, Range<usize>> = HashMap::new();
    let mut rest = names.rest;
    for name in names.texts().map_err(damaged)? {
        let ends = || file.damaged(format!("the storage {name} reaches past the end of the file"));
        let dtype = dictionary.storages.get(&name);
        let dtype = dtype.ok_or_else(|| file.damaged(format!("its dictionary does not know the storage {name}")))?;
        let (count, values) = rest.split_first_chunk().ok_or_else(ends)?;
        let bytes = usize::try_from(u64::from_le_bytes(*count)).ok().and_then(|count| dtype.bytes_for(count));
        let (values, behind) = bytes.and_then(|bytes| values.split_at_checked(bytes)).ok_or_else(ends)?;
        storages.insert(name, crate::tensors::range_in(file, values));
        rest = behind;
    }
    let mut tensors = Tensors::new(file.path());
    for (name, placement) in dictionary.tensors().map_err(damaged)? {
        let storage = storages.get(&placement.storage).cloned();
        let storage = storage.ok_or_else(|| file.damaged(format!("the storage of {name} is not in it")))?;
        tensors.insert(place(&name, placement, file, storage)?)?;
    }
    Ok(tensors)
}
