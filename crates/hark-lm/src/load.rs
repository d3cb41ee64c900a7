//! Loading a model: every matrix is packed for the kernels once, small tensors become floats.

use std::path::Path;

use hark_compute::Compute;
use hark_compute::quantized::{Format, QuantizedMatrix};
use hark_weights::gguf::GgufModel;
use hark_weights::{Dtype, FileError, Tensor, Tensors, WeightsFile};

use crate::config::Architecture;
use crate::rope::Rope;
use crate::{Config, KvCache, LmError, Tokenizer};

/// A language model in memory.
pub struct Model {
    pub(crate) compute: Compute,
    pub(crate) config: Config,
    pub(crate) tokenizer: Tokenizer,
    pub(crate) rope: Rope,
    /// For contexts up to [`Config::original_context`], where that is another one.
    short_rope: Option<Rope>,
    /// In local layers.
    pub(crate) local_rope: Option<Rope>,
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
    /// Norms what attention adds to the residual stream.
    pub(crate) post_attention_norm: Option<Vec<f32>>,
    pub(crate) feed_forward_norm: Vec<f32>,
    pub(crate) gate: QuantizedMatrix,
    pub(crate) up: QuantizedMatrix,
    pub(crate) down: QuantizedMatrix,
    /// Norms what the feed-forward part adds to the residual stream.
    pub(crate) post_feed_forward_norm: Option<Vec<f32>>,
    /// Whether its rows see only the positions of the window.
    pub(crate) is_local: bool,
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
        let rope = |name: &str| -> Result<Option<Rope>, LmError> {
            if !loader.tensors.contains(name) {
                return Ok(None);
            }
            let divisors = loader.floats(name, config.rope_dims / 2)?;
            if divisors.iter().any(|divisor| !divisor.is_finite() || *divisor <= 0.0) {
                return Err(FileError::damaged(file.path(), "its rotary frequencies are impossible").into());
            }
            Ok(Some(global_rope(&config, Some(&divisors))))
        };
        let long_rope = match rope("rope_freqs.weight")? {
            Some(rope) => Some(rope),
            None => rope("rope_factors_long.weight")?,
        };
        let short_rope = rope("rope_factors_short.weight")?;
        let local_rope =
            config.window.map(|_| Rope::new(config.rope_style, config.rope_dims, config.local_rope_base, 1.0, None));
        let mut model = Model {
            compute: compute.clone(),
            rope: long_rope.unwrap_or_else(|| global_rope(&config, None)),
            short_rope,
            local_rope,
            tokenizer,
            embeddings,
            layers,
            output_norm,
            output,
            config,
        };
        model.limit_context(usize::MAX);
        Ok(model)
    }

    /// Lowers the most tokens of a sequence; a context that the model was first trained for takes the rotary factors of that.
    pub(crate) fn limit_context(&mut self, context: usize) {
        self.config.context = self.config.context.min(context);
        if self.config.context <= self.config.original_context
            && let Some(short) = self.short_rope.take()
        {
            self.rope = short;
        }
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

/// Bytes of memory that a model takes with a KV cache for `context` positions, as the metadata of its file says; the weights are not read.
pub fn memory_needed(path: &Path, context: usize) -> Result<u64, LmError> {
    /// Activations, logits, vocabulary and grammar.
    const WORKSPACE: u64 = 300_000_000;
    let file = WeightsFile::open(path)?;
    let gguf = GgufModel::read(&file)?;
    let config = Config::read(path, &gguf)?;
    let weights: u64 = gguf.tensors.iter().map(|tensor| tensor.bytes().len() as u64).sum();
    // K types are packed with scales of eight instead of six bits.
    let packed = weights.saturating_add(weights / 32);
    Ok(packed.saturating_add(KvCache::bytes_for(&config, context.min(config.context))).saturating_add(WORKSPACE))
}

/// The rotary embedding of layers that see all positions.
fn global_rope(config: &Config, divisors: Option<&[f32]>) -> Rope {
    let Config { rope_style, rope_dims, rope_base, rope_factor, rope_magnitude, .. } = *config;
    Rope::new(rope_style, rope_dims, rope_base, rope_factor, divisors).with_magnitude(rope_magnitude)
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
        let norm =
            |is_there: bool, part: &str, length: usize| is_there.then(|| self.floats(&name(part), length)).transpose();
        let heads_are_normed = config.architecture.has_qk_norm();
        let query_norm = norm(heads_are_normed, "attn_q_norm.weight", config.head_dim)?;
        let key_norm = norm(heads_are_normed, "attn_k_norm.weight", config.head_dim)?;
        let has_post_norms = config.architecture.has_post_norms();
        let (fused, gate) = (name("attn_qkv.weight"), name("ffn_gate.weight"));
        let qkv = match self.tensors.contains(&fused) {
            true => self.parts(&fused, [queries, keys, keys], width)?,
            false => [
                self.matrix(&name("attn_q.weight"), queries, width)?,
                self.matrix(&name("attn_k.weight"), keys, width)?,
                self.matrix(&name("attn_v.weight"), keys, width)?,
            ],
        };
        let [gate, up] = match config.architecture == Architecture::Phi3 && !self.tensors.contains(&gate) {
            true => self.parts(&name("ffn_up.weight"), [hidden, hidden], width)?,
            false => [self.matrix(&gate, hidden, width)?, self.matrix(&name("ffn_up.weight"), hidden, width)?],
        };
        Ok(Layer {
            attention_norm: self.floats(&name("attn_norm.weight"), width)?,
            qkv,
            qkv_bias: [bias("attn_q.bias", queries)?, bias("attn_k.bias", keys)?, bias("attn_v.bias", keys)?],
            qk_norm: query_norm.zip(key_norm).map(|(query, key)| [query, key]),
            attention_output: self.matrix(&name("attn_output.weight"), width, queries)?,
            post_attention_norm: norm(has_post_norms, "post_attention_norm.weight", width)?,
            feed_forward_norm: self.floats(&name("ffn_norm.weight"), width)?,
            gate,
            up,
            down: self.matrix(&name("ffn_down.weight"), width, hidden)?,
            post_feed_forward_norm: norm(has_post_norms, "post_ffw_norm.weight", width)?,
            is_local: config.is_local(index),
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

    /// The matrices that one tensor has one behind the other, given by their rows.
    fn parts<const N: usize>(
        &self,
        name: &str,
        rows: [usize; N],
        columns: usize,
    ) -> Result<[QuantizedMatrix; N], LmError> {
        let tensor = self.matrix_tensor(name, rows.iter().sum(), columns)?;
        let mut first = 0;
        let parts = rows.iter().map(|rows| {
            first += rows;
            self.pack(tensor, first - rows, *rows, columns)
        });
        let parts = parts.collect::<Result<Vec<_>, _>>()?;
        parts.try_into().map_err(|_| LmError::Invalid("a matrix for each part".to_owned()))
    }

    fn matrix(&self, name: &str, rows: usize, columns: usize) -> Result<QuantizedMatrix, LmError> {
        self.pack(self.matrix_tensor(name, rows, columns)?, 0, rows, columns)
    }

    /// Packs some rows of a tensor. Quantized types keep their integers; floats become bf16.
    fn pack(&self, tensor: &Tensor, first: usize, rows: usize, columns: usize) -> Result<QuantizedMatrix, LmError> {
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
        let packed = if format == Format::Bf16 {
            QuantizedMatrix::pack(self.compute, format, rows, columns, |row, granule, block| {
                let mut whole = [0u16; 32];
                tensor.columns_bf16(first + row, granule * 32, &mut whole);
                for (pair, number) in block.values.chunks_exact_mut(2).zip(whole) {
                    pair.copy_from_slice(&number.to_le_bytes());
                }
            })
        } else {
            QuantizedMatrix::pack(self.compute, format, rows, columns, |row, granule, block| {
                tensor.quant_block(first + row, granule, block);
            })
        };
        let bytes = (rows as u64).saturating_mul(columns as u64).saturating_mul(format.bits() as u64) / 8;
        packed.ok_or(LmError::OutOfMemory { what: "the weights", bytes })
    }
}
