//! The network's weights, with each batch norm folded into the adjacent layer.

use std::collections::HashMap;
use std::path::Path;

use hark_weights::{Dtype, WeightsFile, torch};

use crate::SpeakersError;

/// The model's name in the catalogue.
pub(super) const MODEL: &str = "campplus-zh-en";
/// The file in its folder.
const FILE: &str = "campplus_cn_en_common.pt";

/// Channels of the convolutional head.
pub(super) const PLANES: usize = 32;
/// Channels after the first TDNN layer.
pub(super) const FIRST: usize = 128;
/// Kernel size of the first TDNN layer.
pub(super) const FIRST_TAPS: usize = 5;
/// Growth rate: channels that every dense layer adds.
pub(super) const GROWTH: usize = 32;
/// Bottleneck channels of a dense layer.
pub(super) const BOTTLENECK: usize = 128;
/// Hidden channels of the context mask.
pub(super) const CONTEXT: usize = 64;
/// Layers of each dense block and the dilation of their three taps.
pub(super) const BLOCKS: [(usize, usize); 3] = [(12, 1), (24, 2), (16, 2)];
/// Channels before statistics pooling.
pub(super) const LAST: usize = 512;
/// Steps of a context segment: masks use its mean and that of the whole piece.
pub(super) const SEGMENT: usize = 100;

const EPSILON: f32 = 1e-5;

/// The float32 tensors of the file by name: shape and values.
#[derive(Clone)]
pub(super) struct Tensors(HashMap<String, (Vec<usize>, Vec<f32>)>);

impl Tensors {
    /// The values of the named tensor, which must have this shape.
    pub(super) fn get(&self, name: &str, shape: &[usize]) -> Result<&[f32], String> {
        let (found, values) = self.0.get(name).ok_or_else(|| format!("it has no tensor {name}"))?;
        if found != shape {
            return Err(format!("{name} has shape {found:?} where {shape:?} is needed"));
        }
        Ok(values)
    }
}

/// Reads the float32 tensors of the file in `folder` and converts them; counters (integers) are skipped.
pub(super) fn load<T>(folder: &Path, make: impl Fn(&Tensors) -> Result<T, String>) -> Result<T, SpeakersError> {
    let path = folder.join(FILE);
    let tensors = WeightsFile::open(&path).and_then(|file| torch::read(&file));
    let tensors = tensors.map_err(|error| SpeakersError::of_file(error, &path, MODEL))?;
    let floats = tensors.iter().filter(|tensor| tensor.dtype() == Dtype::F32);
    let floats =
        floats.map(|tensor| Ok((tensor.name().to_owned(), (tensor.shape().to_vec(), tensor.to_finite_f32()?))));
    let floats = floats.collect::<Result<_, _>>().map_err(|error| SpeakersError::of_file(error, &path, MODEL))?;
    make(&Tensors(floats)).map_err(|what| SpeakersError::malformed(&path, MODEL, what))
}

/// A batch norm as one gain and one shift per channel.
pub(super) struct Norm {
    pub(super) gain: Vec<f32>,
    pub(super) shift: Vec<f32>,
}

impl Norm {
    pub(super) fn read(tensors: &Tensors, name: &str, width: usize) -> Result<Self, String> {
        let get = |part: &str| tensors.get(&format!("{name}.{part}"), &[width]);
        Ok(Self::of(get("weight")?, get("bias")?, get("running_mean")?, get("running_var")?))
    }

    /// A batch norm without affine parameters.
    pub(super) fn read_without_affine(tensors: &Tensors, name: &str, width: usize) -> Result<Self, String> {
        let get = |part: &str| tensors.get(&format!("{name}.{part}"), &[width]);
        Ok(Self::of(&vec![1.0; width], &vec![0.0; width], get("running_mean")?, get("running_var")?))
    }

    fn of(weight: &[f32], bias: &[f32], mean: &[f32], variance: &[f32]) -> Self {
        let gain: Vec<f32> = weight.iter().zip(variance).map(|(weight, v)| weight / (v + EPSILON).sqrt()).collect();
        let shift = bias.iter().zip(mean).zip(&gain).map(|((bias, mean), gain)| bias - mean * gain).collect();
        Norm { gain, shift }
    }
}

/// A convolution's weights, output-major, with the gain of the following batch norm folded in.
pub(super) fn folded(tensors: &Tensors, name: &str, shape: &[usize], norm: &Norm) -> Result<Vec<f32>, String> {
    let mut weights = tensors.get(&format!("{name}.weight"), shape)?.to_vec();
    let inputs: usize = shape[1..].iter().product();
    for (weights, gain) in weights.chunks_exact_mut(inputs).zip(&norm.gain) {
        weights.iter_mut().for_each(|weight| *weight *= gain);
    }
    Ok(weights)
}
