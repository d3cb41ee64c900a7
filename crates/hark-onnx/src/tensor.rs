//! Tensors that go into networks and come out of them.

use std::fmt;

use ort::memory::Allocator;
use ort::value::{DynTensor, DynValue, TensorElementType};

use crate::error::{OnnxError, reason};

/// What numbers a tensor holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// 32-bit floats.
    F32,
    /// 16-bit floats.
    F16,
    /// 64-bit integers.
    I64,
}

impl Kind {
    pub(crate) fn of(element: TensorElementType) -> Option<Self> {
        match element {
            TensorElementType::Float32 => Some(Kind::F32),
            TensorElementType::Float16 => Some(Kind::F16),
            TensorElementType::Int64 => Some(Kind::I64),
            _ => None,
        }
    }

    fn element(self) -> TensorElementType {
        match self {
            Kind::F32 => TensorElementType::Float32,
            Kind::F16 => TensorElementType::Float16,
            Kind::I64 => TensorElementType::Int64,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::F32 => "32-bit floats",
            Kind::F16 => "16-bit floats",
            Kind::I64 => "64-bit integers",
        })
    }
}

/// A tensor in the memory of ONNX Runtime. What a network returned can be an input of the next pass without a copy.
#[derive(Debug)]
pub struct Tensor(pub(crate) DynValue);

impl Tensor {
    /// A tensor of 32-bit floats.
    pub fn f32(shape: &[usize], numbers: Vec<f32>) -> Result<Self, OnnxError> {
        check(shape, numbers.len())?;
        if numbers.is_empty() {
            return Self::zeros(Kind::F32, shape);
        }
        let made = ort::value::Tensor::from_array((shape.to_vec(), numbers));
        made.map(|tensor| Tensor(tensor.into_dyn())).map_err(unmade)
    }

    /// A tensor of 64-bit integers.
    pub fn i64(shape: &[usize], numbers: Vec<i64>) -> Result<Self, OnnxError> {
        check(shape, numbers.len())?;
        if numbers.is_empty() {
            return Self::zeros(Kind::I64, shape);
        }
        let made = ort::value::Tensor::from_array((shape.to_vec(), numbers));
        made.map(|tensor| Tensor(tensor.into_dyn())).map_err(unmade)
    }

    /// A tensor of zeros; a dimension may be zero, as that of an empty cache is.
    pub fn zeros(kind: Kind, shape: &[usize]) -> Result<Self, OnnxError> {
        let made = DynTensor::new(&Allocator::default(), kind.element(), shape.to_vec());
        made.map(|tensor| Tensor(tensor.into_dyn())).map_err(unmade)
    }

    /// Its shape.
    pub fn shape(&self) -> Vec<usize> {
        let shape = self.0.dtype().tensor_shape();
        shape.map_or_else(Vec::new, |shape| shape.iter().map(|size| usize::try_from(*size).unwrap_or(0)).collect())
    }

    /// Its numbers, in row-major order, where they are 32-bit floats.
    pub fn as_f32(&self) -> Result<&[f32], OnnxError> {
        self.0.try_extract_tensor::<f32>().map(|(_, numbers)| numbers).map_err(|_| self.is_not(Kind::F32))
    }

    /// Its numbers, in row-major order, where they are 64-bit integers.
    pub fn as_i64(&self) -> Result<&[i64], OnnxError> {
        self.0.try_extract_tensor::<i64>().map(|(_, numbers)| numbers).map_err(|_| self.is_not(Kind::I64))
    }

    fn is_not(&self, wanted: Kind) -> OnnxError {
        OnnxError::Kind { wanted, found: self.0.dtype().to_string() }
    }
}

fn check(shape: &[usize], numbers: usize) -> Result<(), OnnxError> {
    let wanted = shape.iter().try_fold(1usize, |product, size| product.checked_mul(*size));
    if wanted == Some(numbers) { Ok(()) } else { Err(OnnxError::Shape { shape: shape.to_vec(), numbers }) }
}

fn unmade(error: impl fmt::Display) -> OnnxError {
    OnnxError::Tensor { why: reason(&error) }
}
