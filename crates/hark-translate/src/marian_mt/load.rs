//! Weights of a network by the names of the hub: safetensors in one file or several, or a PyTorch file.

use std::path::Path;

use hark_compute::Compute;
use hark_weights::{Dtype, FileError, Tensor, Tensors, WeightsFile, safetensors, torch};

use super::config::Config;
use super::{DecoderLayer, MarianMt, SelfAttention};
use crate::TranslateError;
use crate::marian::{AddNorm, CrossAttention, EncoderLayer, FeedForward, LayerNorm, Linear, Transformer};

/// As PyTorch's layer norm has it.
const NORM_EPSILON: f32 = 1e-5;

/// Loads the network in `folder`.
pub(super) fn load(compute: &Compute, folder: &Path) -> Result<MarianMt, TranslateError> {
    let config = Config::read(folder)?;
    let tensors = tensors(folder)?;
    let loader = Loader { compute, tensors: &tensors, config: &config };
    let names = ["model.shared.weight", "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"];
    let shared = names.into_iter().find(|name| tensors.contains(name)).unwrap_or(names[0]);
    let embeddings = loader.matrix(shared, config.words, config.shape.width)?.clone();
    let bias = match tensors.contains("final_logits_bias") {
        true => tensors.floats("final_logits_bias", &[1, config.words])?,
        false => vec![0.0; config.words],
    };
    let output = Linear::stretches(compute, &embeddings, &bias).ok_or(TranslateError::OutOfMemory)?;
    let encoder =
        (0..config.shape.encoder_layers).map(|layer| loader.encoder_layer(layer)).collect::<Result<_, _>>()?;
    let decoder =
        (0..config.shape.decoder_layers).map(|layer| loader.decoder_layer(layer)).collect::<Result<_, _>>()?;
    let positions = loader.positions()?;
    let transformer = Transformer { compute: compute.clone(), config: config.shape.clone() };
    Ok(MarianMt { transformer, config, embeddings, positions, encoder, decoder, output })
}

fn tensors(folder: &Path) -> Result<Tensors, TranslateError> {
    let [index, whole, pytorch] =
        ["model.safetensors.index.json", "model.safetensors", "pytorch_model.bin"].map(|name| folder.join(name));
    if index.exists() {
        return Ok(safetensors::read_sharded(&index)?);
    }
    if whole.exists() {
        return Ok(safetensors::read(&WeightsFile::open(&whole)?)?);
    }
    if pytorch.exists() {
        return Ok(torch::read(&WeightsFile::open(&pytorch)?)?);
    }
    let what = "there is no model.safetensors and no pytorch_model.bin".to_owned();
    Err(TranslateError::NoModel { path: folder.to_owned(), what })
}

struct Loader<'a> {
    compute: &'a Compute,
    tensors: &'a Tensors,
    config: &'a Config,
}

impl Loader<'_> {
    fn encoder_layer(&self, layer: usize) -> Result<EncoderLayer, TranslateError> {
        let name = format!("model.encoder.layers.{layer}");
        let attention = format!("{name}.self_attn");
        Ok(EncoderLayer {
            qkv: self.projections(&attention, ["q_proj", "k_proj", "v_proj"])?,
            attention_output: self.attention_output(&attention)?,
            feed_forward: self.feed_forward(&name)?,
        })
    }

    fn decoder_layer(&self, layer: usize) -> Result<DecoderLayer, TranslateError> {
        let name = format!("model.decoder.layers.{layer}");
        let (own, cross) = (format!("{name}.self_attn"), format!("{name}.encoder_attn"));
        let [query] = self.projections(&cross, ["q_proj"])?;
        Ok(DecoderLayer {
            attention: SelfAttention {
                qkv: self.projections(&own, ["q_proj", "k_proj", "v_proj"])?,
                output: self.attention_output(&own)?,
            },
            cross_attention: CrossAttention {
                query,
                key_value: self.projections(&cross, ["k_proj", "v_proj"])?,
                output: self.attention_output(&cross)?,
            },
            feed_forward: self.feed_forward(&name)?,
        })
    }

    fn projections<const N: usize>(&self, name: &str, parts: [&str; N]) -> Result<[Linear; N], TranslateError> {
        let width = self.config.shape.width;
        let linears: Vec<Linear> = parts
            .iter()
            .map(|part| self.linear(&format!("{name}.{part}"), width, width))
            .collect::<Result<_, TranslateError>>()?;
        Ok(linears.try_into().unwrap_or_else(|_| unreachable!("one for each part")))
    }

    fn attention_output(&self, name: &str) -> Result<AddNorm, TranslateError> {
        let [linear] = self.projections(name, ["out_proj"])?;
        Ok(AddNorm { linear, norm: self.norm(&format!("{name}_layer_norm"))? })
    }

    fn feed_forward(&self, name: &str) -> Result<FeedForward, TranslateError> {
        let (width, inner) = (self.config.shape.width, self.config.shape.inner);
        let linear = self.linear(&format!("{name}.fc2"), width, inner)?;
        Ok(FeedForward {
            inner: self.linear(&format!("{name}.fc1"), inner, width)?,
            outer: AddNorm { linear, norm: self.norm(&format!("{name}.final_layer_norm"))? },
        })
    }

    fn norm(&self, name: &str) -> Result<LayerNorm, FileError> {
        let vector = |part: &str| self.tensors.floats(&format!("{name}.{part}"), &[self.config.shape.width]);
        Ok(LayerNorm { gain: vector("weight")?, shift: vector("bias")?, epsilon: NORM_EPSILON })
    }

    fn linear(&self, name: &str, outputs: usize, inputs: usize) -> Result<Linear, TranslateError> {
        let matrix = self.matrix(&format!("{name}.weight"), outputs, inputs)?;
        let bias = self.tensors.floats(&format!("{name}.bias"), &[outputs])?;
        Linear::pack(self.compute, matrix, 0..outputs, bias).ok_or(TranslateError::OutOfMemory)
    }

    /// A matrix of finite floats.
    fn matrix(&self, name: &str, rows: usize, columns: usize) -> Result<&Tensor, FileError> {
        let matrix = self.tensors.get(name)?;
        if matrix.shape() != [rows, columns] {
            let what = format!("{name} has shape {:?} where {:?} is needed", matrix.shape(), [rows, columns]);
            return Err(FileError::damaged(self.tensors.path(), what));
        }
        if !matches!(matrix.dtype(), Dtype::F32 | Dtype::F16 | Dtype::Bf16) {
            let what = format!("{name} is stored as {:?}, which is not supported for matrices", matrix.dtype());
            return Err(FileError::unsupported(self.tensors.path(), what));
        }
        matrix.to_finite_f32()?;
        Ok(matrix)
    }

    /// The sinusoids of all positions: those of the file, else by their definition.
    fn positions(&self) -> Result<Vec<f32>, FileError> {
        let (count, width) = (self.config.positions, self.config.shape.width);
        let names = ["model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight"];
        match names.into_iter().find(|name| self.tensors.contains(name)) {
            Some(name) => self.tensors.floats(name, &[count, width]),
            None => Ok((0..count).flat_map(|position| sinusoids(position, width)).collect()),
        }
    }
}

/// The sines, then the cosines of a position, of wavelengths from 2π towards 20,000π.
fn sinusoids(position: usize, width: usize) -> Vec<f32> {
    let angle = |i: usize| position as f64 / 10_000f64.powf(2.0 * i as f64 / width as f64);
    let half = width / 2;
    let sines = (0..half).map(|i| angle(i).sin() as f32);
    sines.chain((0..half).map(|i| angle(i).cos() as f32)).collect()
}
