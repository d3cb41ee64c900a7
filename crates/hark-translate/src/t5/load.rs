//! Weights of a T5 network: safetensors in one file or several, or GGUF with the same names, whose quantized types are kept.

use std::path::Path;

use hark_compute::Compute;
use hark_compute::quantized::{Format, QuantizedMatrix};
use hark_weights::gguf::GgufModel;
use hark_weights::{Dtype, FileError, Tensor, Tensors, WeightsFile, safetensors};

use super::bias::PositionBias;
use super::{Attention, Config, DecoderLayer, EncoderLayer, FeedForward, T5};
use crate::TranslateError;

/// Words of a stretch of the output projection: the logits of 16 rows are 256 KiB.
const STRETCH: usize = 4096;

/// Loads the network in `folder`: `config.json` with `model.safetensors`, its shards and their index, or a GGUF file.
pub(super) fn load(compute: &Compute, folder: &Path) -> Result<T5, TranslateError> {
    let config = Config::read(&folder.join("config.json"))?;
    let tensors = tensors(folder)?;
    let loader = Loader { compute, tensors: &tensors, config: &config };
    let shared = ["shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"];
    let shared = shared.into_iter().find(|name| tensors.contains(name)).unwrap_or(shared[0]);
    let embeddings = loader.tensor(shared, config.words, config.width)?.clone();
    let output = if config.is_tied { shared } else { "lm_head.weight" };
    let output = loader.stretches(output)?;
    let encoder = (0..config.encoder_layers).map(|layer| loader.encoder_layer(layer)).collect::<Result<_, _>>()?;
    let decoder = (0..config.decoder_layers()).map(|layer| loader.decoder_layer(layer)).collect::<Result<_, _>>()?;
    let encoder_norm = loader.norm("encoder.final_layer_norm.weight")?;
    let decoder_norm = loader.norm("decoder.final_layer_norm.weight")?;
    let encoder_bias = loader.position_bias("encoder", true)?;
    let decoder_bias = loader.position_bias("decoder", false)?;
    Ok(T5 {
        compute: compute.clone(),
        config,
        embeddings,
        encoder,
        decoder,
        encoder_norm,
        decoder_norm,
        encoder_bias,
        decoder_bias,
        output,
    })
}

fn tensors(folder: &Path) -> Result<Tensors, TranslateError> {
    let (whole, index) = (folder.join("model.safetensors"), folder.join("model.safetensors.index.json"));
    if index.exists() {
        return Ok(safetensors::read_sharded(&index)?);
    }
    if whole.exists() {
        return Ok(safetensors::read(&WeightsFile::open(&whole)?)?);
    }
    let no_model = |what: &str| TranslateError::NoModel { path: folder.to_owned(), what: what.to_owned() };
    let entries = std::fs::read_dir(folder).map_err(|error| no_model(&error.to_string()))?;
    let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "gguf"));
    files.sort();
    let file = files.first().ok_or_else(|| no_model("there is no model.safetensors and no GGUF file"))?;
    Ok(GgufModel::read(&WeightsFile::open(file)?)?.tensors)
}

struct Loader<'a> {
    compute: &'a Compute,
    tensors: &'a Tensors,
    config: &'a Config,
}

impl Loader<'_> {
    fn encoder_layer(&self, layer: usize) -> Result<EncoderLayer, TranslateError> {
        let name = format!("encoder.block.{layer}.layer");
        Ok(EncoderLayer {
            attention: self.attention(&format!("{name}.0"), "SelfAttention")?,
            feed_forward: self.feed_forward(&format!("{name}.1"))?,
        })
    }

    fn decoder_layer(&self, layer: usize) -> Result<DecoderLayer, TranslateError> {
        let name = format!("decoder.block.{layer}.layer");
        Ok(DecoderLayer {
            attention: self.attention(&format!("{name}.0"), "SelfAttention")?,
            cross_attention: self.attention(&format!("{name}.1"), "EncDecAttention")?,
            feed_forward: self.feed_forward(&format!("{name}.2"))?,
        })
    }

    fn attention(&self, name: &str, kind: &str) -> Result<Attention, TranslateError> {
        let (width, attended) = (self.config.width, self.config.attended());
        let matrix = |part: &str| self.matrix(&format!("{name}.{kind}.{part}.weight"), attended, width);
        Ok(Attention {
            norm: self.norm(&format!("{name}.layer_norm.weight"))?,
            query: matrix("q")?,
            key_value: [matrix("k")?, matrix("v")?],
            output: self.matrix(&format!("{name}.{kind}.o.weight"), width, attended)?,
        })
    }

    fn feed_forward(&self, name: &str) -> Result<FeedForward, TranslateError> {
        let (width, inner) = (self.config.width, self.config.inner);
        let part = |part: &str| format!("{name}.DenseReluDense.{part}.weight");
        Ok(FeedForward {
            norm: self.norm(&format!("{name}.layer_norm.weight"))?,
            gate_up: [self.matrix(&part("wi_0"), inner, width)?, self.matrix(&part("wi_1"), inner, width)?],
            down: self.matrix(&part("wo"), width, inner)?,
        })
    }

    fn norm(&self, name: &str) -> Result<Vec<f32>, FileError> {
        self.tensors.floats(name, &[self.config.width])
    }

    /// The biases of layer 0, which all layers share.
    fn position_bias(&self, side: &str, is_bidirectional: bool) -> Result<PositionBias, FileError> {
        let Config { buckets, heads, max_distance, .. } = *self.config;
        let name = format!("{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight");
        let table = self.tensors.floats(&name, &[buckets, heads])?;
        Ok(PositionBias::new(table, heads, max_distance, is_bidirectional))
    }

    fn tensor(&self, name: &str, rows: usize, columns: usize) -> Result<&Tensor, FileError> {
        let tensor = self.tensors.get(name)?;
        match tensor.shape() == [rows, columns] {
            true => Ok(tensor),
            false => {
                let what = format!("{name} has shape {:?} where {:?} is needed", tensor.shape(), [rows, columns]);
                Err(FileError::damaged(self.tensors.path(), what))
            }
        }
    }

    fn matrix(&self, name: &str, rows: usize, columns: usize) -> Result<QuantizedMatrix, TranslateError> {
        self.pack(self.tensor(name, rows, columns)?, 0..rows)
    }

    /// The projection to words, in stretches whose logits stay in the second-level cache.
    fn stretches(&self, name: &str) -> Result<Vec<QuantizedMatrix>, TranslateError> {
        let words = self.config.words;
        let tensor = self.tensor(name, words, self.config.width)?;
        let count = words.div_ceil(STRETCH);
        let stretch = |index: usize| index * words / count..(index + 1) * words / count;
        (0..count).map(|index| self.pack(tensor, stretch(index))).collect()
    }

    /// Packs rows of a matrix. Quantized types keep their integers; floats become bf16.
    fn pack(&self, tensor: &Tensor, rows: std::ops::Range<usize>) -> Result<QuantizedMatrix, TranslateError> {
        let format = match tensor.dtype() {
            Dtype::Q4_0 => Format::Int4 { mins: false },
            Dtype::Q4_1 => Format::Int4 { mins: true },
            Dtype::Q5_0 => Format::Int5 { mins: false },
            Dtype::Q5_1 => Format::Int5 { mins: true },
            Dtype::Q8_0 => Format::Int8,
            Dtype::Q4_K => Format::Super4,
            Dtype::Q5_K => Format::Super5,
            Dtype::Q6_K => Format::Super6,
            Dtype::F32 | Dtype::F16 | Dtype::Bf16 => Format::Bf16,
            other => {
                let what = format!("{} is stored as {other:?}, which is not supported for matrices", tensor.name());
                return Err(FileError::unsupported(self.tensors.path(), what).into());
            }
        };
        let (columns, first) = (tensor.columns(), rows.start);
        if !columns.is_multiple_of(format.granule()) {
            let what = format!("rows of {} are not made of whole blocks", tensor.name());
            return Err(FileError::unsupported(self.tensors.path(), what).into());
        }
        let packed = if format == Format::Bf16 {
            QuantizedMatrix::pack(self.compute, format, rows.len(), columns, |row, granule, block| {
                let mut whole = [0u16; 32];
                tensor.columns_bf16(first + row, granule * 32, &mut whole);
                for (pair, number) in block.values.chunks_exact_mut(2).zip(whole) {
                    pair.copy_from_slice(&number.to_le_bytes());
                }
            })
        } else {
            QuantizedMatrix::pack(self.compute, format, rows.len(), columns, |row, granule, block| {
                tensor.quant_block(first + row, granule, block);
            })
        };
        packed.ok_or(TranslateError::OutOfMemory)
    }
}
