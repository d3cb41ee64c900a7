//! Loading a model: every matrix is packed for the kernels once, small tensors become floats.

use std::path::Path;

use hark_compute::Compute;
use hark_compute::quantized::{Format, QuantizedMatrix};
use hark_weights::gguf::GgufModel;
use hark_weights::{Dtype, FileError, Tensor, Tensors, WeightsFile};

use crate::config::Architecture;
use crate::rope::Rope;
use crate::{Config, LmError, Tokenizer};

/// A language model in memory.
pub struct Model {
    pub(crate) compute: Compute,
    pub(crate) config: Config,
    pub(crate) tokenizer: Tokenizer,
    pub(crate) rope: Rope,
    /// Rows of embeddings, read from the mapped file as they are needed.
    pub(crate) embeddings: Tensor,
    pub(crate) layers: Vec<Layer>,
    pub(crate) output_norm: Vec<f32>,
    pub(crate) output: QuantizedMatrix,
}

/// The weights of one layer.
pub(crate) struct Layer {
    pub(crate) attention_norm: Vec<f32>,
    /// Queries, keys, values.
    pub(crate) qkv: [QuantizedMatrix; 3],
    pub(crate) qkv_bias: [Option<Vec<f32>>; 3],
    /// Norms of each query head and of each key head.
    pub(crate) qk_norm: Option<[Vec<f32>; 2]>,
    pub(crate) attention_output: QuantizedMatrix,
    pub(crate) feed_forward_norm: Vec<f32>,
    pub(crate) gate: QuantizedMatrix,
    pub(crate) up: QuantizedMatrix,
    pub(crate) down: QuantizedMatrix,
}

impl Model {
    /// Maps and packs the GGUF file at `path`.
    pub fn load(compute: &Compute, path: &Path) -> Result<Self, LmError> {
        Self::from_file(compute, &WeightsFile::open(path)?)
    }

    /// Packs a GGUF file that is mapped already.
    pub fn from_file(compute: &Compute, file: &std::sync::Arc<WeightsFile>) -> Result<Self, LmError> {
        let gguf = GgufModel::read(file)?;
        let config = Config::read(file.path(), &gguf)?;
        let tokenizer = Tokenizer::from_gguf(file.path(), &gguf)?;
        let loader = Loader { compute, tensors: &gguf.tensors };
        let (width, vocabulary) = (config.width, config.vocabulary);
        let embeddings = loader.matrix_tensor("token_embd.weight", vocabulary, width)?.clone();
        let output = match loader.tensors.contains("output.weight") {
            true => loader.matrix("output.weight", vocabulary, width)?,
            false => loader.matrix("token_embd.weight", vocabulary, width)?,
        };
        let output_norm = loader.floats("output_norm.weight", width)?;
        let layers = (0..config.layers).map(|index| loader.layer(&config, index)).collect::<Result<Vec<_>, _>>()?;
        let divisors = match loader.tensors.contains("rope_freqs.weight") {
            true => Some(loader.floats("rope_freqs.weight", config.rope_dims / 2)?),
            false => None,
        };
        if divisors.iter().flatten().any(|divisor| !divisor.is_finite() || *divisor <= 0.0) {
            return Err(FileError::damaged(file.path(), "its rotary frequencies are impossible").into());
        }
        let Config { rope_style, rope_dims, rope_base, rope_factor, .. } = config;
        let rope = Rope::new(rope_style, rope_dims, rope_base, rope_factor, divisors.as_deref());
        Ok(Model { compute: compute.clone(), config, tokenizer, rope, embeddings, layers, output_norm, output })
    }

    /// The shape of the model.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Text to tokens and back.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// Bytes of packed weights.
    pub fn bytes(&self) -> u64 {
        let of_layer = |layer: &Layer| {
            let others = [&layer.attention_output, &layer.gate, &layer.up, &layer.down];
            layer.qkv.iter().chain(others).map(QuantizedMatrix::bytes).sum::<u64>()
        };
        self.output.bytes() + self.layers.iter().map(of_layer).sum::<u64>()
    }
}

struct Loader<'a> {
    compute: &'a Compute,
    tensors: &'a Tensors,
}

impl Loader<'_> {
    fn layer(&self, config: &Config, index: usize) -> Result<Layer, LmError> {
        let name = |part: &str| format!("blk.{index}.{part}");
        let (width, hidden) = (config.width, config.feed_forward);
        let (queries, keys) = (config.heads * config.head_dim, config.kv_heads * config.head_dim);
        let bias = |part: &str, length: usize| {
            let name = name(part);
            self.tensors.contains(&name).then(|| self.floats(&name, length)).transpose()
        };
        let qk_norm = match config.architecture {
            Architecture::Qwen3 => {
                let norm = |part: &str| self.floats(&name(part), config.head_dim);
                Some([norm("attn_q_norm.weight")?, norm("attn_k_norm.weight")?])
            }
            Architecture::Llama | Architecture::Qwen2 => None,
        };
        Ok(Layer {
            attention_norm: self.floats(&name("attn_norm.weight"), width)?,
            qkv: [
                self.matrix(&name("attn_q.weight"), queries, width)?,
                self.matrix(&name("attn_k.weight"), keys, width)?,
                self.matrix(&name("attn_v.weight"), keys, width)?,
            ],
            qkv_bias: [bias("attn_q.bias", queries)?, bias("attn_k.bias", keys)?, bias("attn_v.bias", keys)?],
            qk_norm,
            attention_output: self.matrix(&name("attn_output.weight"), width, queries)?,
            feed_forward_norm: self.floats(&name("ffn_norm.weight"), width)?,
            gate: self.matrix(&name("ffn_gate.weight"), hidden, width)?,
            up: self.matrix(&name("ffn_up.weight"), hidden, width)?,
            down: self.matrix(&name("ffn_down.weight"), width, hidden)?,
        })
    }

    fn floats(&self, name: &str, length: usize) -> Result<Vec<f32>, LmError> {
        Ok(self.tensors.floats(name, &[length])?)
    }

    fn matrix_tensor(&self, name: &str, rows: usize, columns: usize) -> Result<&Tensor, LmError> {
        let tensor = self.tensors.get(name)?;
        if tensor.shape() != [rows, columns] {
            let what = format!("{name} has shape {:?} where {:?} is needed", tensor.shape(), [rows, columns]);
            return Err(FileError::damaged(self.tensors.path(), what).into());
        }
        Ok(tensor)
    }

    /// Packs a matrix. Quantized types keep their integers; floats become bf16.
    fn matrix(&self, name: &str, rows: usize, columns: usize) -> Result<QuantizedMatrix, LmError> {
        let tensor = self.matrix_tensor(name, rows, columns)?;
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
                let what = format!("{name} is stored as {other:?}, which is not supported for matrices");
                return Err(FileError::unsupported(self.tensors.path(), what).into());
            }
        };
        let packed = if format == Format::Bf16 {
            QuantizedMatrix::pack(self.compute, format, rows, columns, |row, granule, block| {
                let mut whole = [0u16; 32];
                tensor.columns_bf16(row, granule * 32, &mut whole);
                for (pair, number) in block.values.chunks_exact_mut(2).zip(whole) {
                    pair.copy_from_slice(&number.to_le_bytes());
                }
            })
        } else {
            QuantizedMatrix::pack(self.compute, format, rows, columns, |row, granule, block| {
                tensor.quant_block(row, granule, block);
            })
        };
        let bytes = (tensor.len() as u64).saturating_mul(format.bits() as u64) / 8;
        packed.ok_or(LmError::OutOfMemory { what: "the weights", bytes })
    }
}
