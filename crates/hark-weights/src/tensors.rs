//! The tensors of a model by name.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::{FileError, MAX_TENSORS, Tensor, WeightsFile};

/// The tensors of one file, or of the files of one model, by name.
#[derive(Debug, Clone)]
pub struct Tensors {
    path: PathBuf,
    by_name: BTreeMap<String, Tensor>,
    /// Tensors that are listed, but stored in a way this crate can't read, and why.
    unsupported: BTreeMap<String, String>,
}

impl Tensors {
    pub(crate) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), by_name: BTreeMap::new(), unsupported: BTreeMap::new() }
    }

    /// The file or folder they come from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The names of all tensors, those that can't be read too.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().chain(self.unsupported.keys()).map(String::as_str)
    }

    /// All tensors that can be read.
    pub fn iter(&self) -> impl Iterator<Item = &Tensor> {
        self.by_name.values()
    }

    /// Tensors listed.
    pub fn len(&self) -> usize {
        self.by_name.len() + self.unsupported.len()
    }

    /// Whether no tensor is listed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a tensor of that name is listed.
    pub fn contains(&self, name: &str) -> bool {
        self.by_name.contains_key(name) || self.unsupported.contains_key(name)
    }

    /// The tensor of that name.
    pub fn get(&self, name: &str) -> Result<&Tensor, FileError> {
        self.by_name.get(name).ok_or_else(|| match self.unsupported.get(name) {
            Some(why) => FileError::unsupported(&self.path, format!("{name} {why}")),
            None => FileError::MissingTensor { path: self.path.clone(), name: name.to_owned() },
        })
    }

    /// The values of the tensor of that name, which must have this shape and be finite.
    pub fn floats(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, FileError> {
        let tensor = self.get(name)?;
        if tensor.shape() != shape {
            let what = format!("{name} has shape {:?} where {shape:?} is needed", tensor.shape());
            return Err(FileError::damaged(&self.path, what));
        }
        tensor.to_finite_f32()
    }

    /// Adds a tensor; one of the same name is replaced.
    pub(crate) fn insert(&mut self, tensor: Tensor) -> Result<(), FileError> {
        self.check_count()?;
        self.by_name.insert(tensor.name().to_owned(), tensor);
        Ok(())
    }

    /// Lists a tensor that can't be read and why: "has type Q4_K, which is not supported".
    pub(crate) fn insert_unsupported(&mut self, name: String, why: String) -> Result<(), FileError> {
        self.check_count()?;
        self.unsupported.insert(name, why);
        Ok(())
    }

    /// Adds the tensors of another file of the same model.
    pub(crate) fn extend(&mut self, other: Tensors) -> Result<(), FileError> {
        other.by_name.into_values().try_for_each(|tensor| self.insert(tensor))?;
        other.unsupported.into_iter().try_for_each(|(name, why)| self.insert_unsupported(name, why))
    }

    fn check_count(&self) -> Result<(), FileError> {
        if self.len() >= MAX_TENSORS {
            return Err(FileError::unsupported(&self.path, format!("it lists more than {MAX_TENSORS} tensors")));
        }
        Ok(())
    }
}

/// Where a slice of the file's bytes lies in it.
pub(crate) fn range_in(file: &WeightsFile, slice: &[u8]) -> std::ops::Range<usize> {
    let start = slice.as_ptr() as usize - file.bytes().as_ptr() as usize;
    start..start + slice.len()
}
