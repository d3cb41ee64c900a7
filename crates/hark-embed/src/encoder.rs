//! The encoder: weights, the forward pass over several texts at once, pooling.

use std::ops::Range;
use std::path::Path;

use hark_compute::Compute;
use hark_compute::attention::paged::{AttentionRow, KvLayout, PAGE, Scoring, attend_rows};
use hark_compute::buffer::Buffer;
use hark_compute::kernels::BLOCK;
use hark_compute::linear::{Linear, Rows, Weights, matmul_add, matmul_bf16, matmul_f32};
use hark_compute::row_ops::{Norm, RowOps};
use hark_compute::view::{MatMut, MatRef};
use hark_weights::{Tensor, Tensors, WeightsFile, safetensors};

use crate::config::Config;
use crate::{EmbedError, Tokenizer};

/// Tokens of a pass: enough rows for the products, few enough for the caches.
const PASS_TOKENS: usize = 2048;

/// Rows that a thread norms or rounds at a time.
const NORM_ROWS: usize = 16;

/// The embedding of a text.
#[derive(Debug, Clone, PartialEq)]
pub struct Embedding {
    /// The vector, of length 1.
    pub vector: Vec<f32>,
    /// Tokens that were read, those at both ends included.
    pub tokens: usize,
    /// Whether the text was longer than the model reads.
    pub is_truncated: bool,
}

/// An embedding model in memory.
pub struct Embedder {
    compute: Compute,
    config: Config,
    tokenizer: Tokenizer,
    /// Rows of word embeddings, read from the mapped file as they are needed.
    words: Tensor,
    /// Embeddings of positions plus that of the only segment.
    positions: Vec<f32>,
    embedding_norm: LayerNorm,
    layers: Vec<Layer>,
}

struct Layer {
    /// Queries, keys and values side by side.
    qkv: Linear,
    attention_output: Linear,
    attention_norm: LayerNorm,
    intermediate: Linear,
    output: Linear,
    output_norm: LayerNorm,
}

struct LayerNorm {
    gain: Vec<f32>,
    shift: Vec<f32>,
}

/// The texts of one pass: their rows stand one behind the other, and each has its own pages of keys and values.
struct Pass {
    /// The tokens of all texts.
    tokens: Vec<u32>,
    /// The rows of each text.
    texts: Vec<Range<usize>>,
    /// The rows of each page.
    page_rows: Vec<Range<usize>>,
    /// The numbers of all pages, and which of them belong to each text.
    pages: Vec<u32>,
    text_pages: Vec<Range<usize>>,
}

/// Memory of a pass, used again for the next.
#[derive(Default)]
struct Workspace {
    /// The residual stream.
    states: Vec<f32>,
    /// The same rounded: the left side of the next product.
    rounded: Bf16Rows,
    /// Queries, keys and values of a row side by side.
    qkv: Vec<f32>,
    attended: Vec<f32>,
    rounded_attended: Bf16Rows,
    hidden: Bf16Rows,
    cache: Vec<u16>,
}

/// Rows of bf16, as products read and write them.
struct Bf16Rows {
    memory: Buffer<u16>,
    rows: usize,
    width: usize,
    /// A cache line more than the width, so that rows do not fall on the same cache sets.
    stride: usize,
}

impl Default for Bf16Rows {
    fn default() -> Self {
        Bf16Rows { memory: Buffer::zeroed(0), rows: 0, width: 0, stride: 0 }
    }
}

impl Bf16Rows {
    /// Takes this shape; what it held is forgotten.
    fn reshape(&mut self, rows: usize, width: usize) {
        (self.rows, self.width, self.stride) = (rows, width, width + BLOCK);
        // Kernels read whole blocks of rows.
        let room = rows.next_multiple_of(BLOCK) * self.stride;
        if self.memory.len() < room {
            self.memory = Buffer::zeroed(room);
        }
    }

    fn view(&self) -> Rows<'_> {
        Rows::new(&self.memory, self.stride, self.rows)
    }

    fn view_mut(&mut self) -> MatMut<'_, u16> {
        MatMut::new(&mut self.memory, self.rows, self.width, self.stride)
    }

    /// The memory row by row, with the padding behind each.
    fn padded_rows(&mut self) -> &mut [u16] {
        &mut self.memory[..self.rows * self.stride]
    }
}

impl Embedder {
    /// Loads the model in `folder`.
    pub fn load(compute: &Compute, folder: &Path) -> Result<Self, EmbedError> {
        let config = Config::read(folder)?;
        let tokenizer_path = folder.join("tokenizer.json");
        let tokenizer = Tokenizer::read(&tokenizer_path)?;
        if tokenizer.largest() as usize >= config.vocab_size {
            return Err(EmbedError::malformed(&tokenizer_path, "it has more tokens than the model"));
        }
        let file = WeightsFile::open(&folder.join("model.safetensors"))?;
        let loader = Loader { tensors: &safetensors::read(&file)?, config: &config };
        let width = config.hidden_size;
        let words = loader.tensors.get("embeddings.word_embeddings.weight")?.clone();
        if words.shape() != [config.vocab_size, width] {
            return Err(EmbedError::malformed(file.path(), "its word embeddings have another shape"));
        }
        let mut positions =
            loader.floats("embeddings.position_embeddings.weight", &[config.max_position_embeddings, width])?;
        let segments = loader.tensors.get("embeddings.token_type_embeddings.weight")?;
        if segments.shape().len() != 2 || segments.shape()[1] != width || segments.rows() == 0 {
            return Err(EmbedError::malformed(file.path(), "its segment embeddings have another shape"));
        }
        let segment = segments.to_finite_f32()?;
        positions.chunks_exact_mut(width).for_each(|row| add(row, &segment[..width]));
        let embedding_norm = loader.norm("embeddings.LayerNorm")?;
        let layers = (0..config.num_hidden_layers).map(|index| loader.layer(index)).collect::<Result<_, _>>()?;
        Ok(Embedder { compute: compute.clone(), tokenizer, words, positions, embedding_norm, layers, config })
    }

    /// Elements of a vector.
    pub fn dimensions(&self) -> usize {
        self.config.hidden_size
    }

    /// Most tokens of a text that are read, those at both ends included.
    pub fn max_tokens(&self) -> usize {
        self.config.max_tokens
    }

    /// The embeddings of texts, in their order. `is_cancelled` is asked between layers.
    pub fn embed(&self, texts: &[&str], is_cancelled: &dyn Fn() -> bool) -> Result<Vec<Embedding>, EmbedError> {
        let encoded: Vec<(Vec<u32>, bool)> =
            texts.iter().map(|text| self.tokenizer.encode(text, self.config.max_tokens)).collect();
        // Texts of like length go together: a pass then ends for all of them at the same time.
        let mut order: Vec<usize> = (0..texts.len()).collect();
        order.sort_by_key(|index| encoded[*index].0.len());
        let mut out: Vec<Option<Embedding>> = texts.iter().map(|_| None).collect();
        let mut workspace = Workspace::default();
        let mut rest = &order[..];
        while !rest.is_empty() {
            let mut total = 0;
            let count = rest.iter().take_while(|index| {
                total += encoded[**index].0.len();
                total <= PASS_TOKENS
            });
            let (now, later) = rest.split_at(count.count().max(1));
            rest = later;
            let pass = Pass::new(now.iter().map(|index| &encoded[*index].0[..]));
            let vectors = self.forward(&mut workspace, &pass, is_cancelled)?;
            for ((index, vector), rows) in now.iter().zip(vectors).zip(&pass.texts) {
                out[*index] = Some(Embedding { vector, tokens: rows.len(), is_truncated: encoded[*index].1 });
            }
        }
        Ok(out.into_iter().flatten().collect())
    }

    fn forward(
        &self,
        workspace: &mut Workspace,
        pass: &Pass,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Vec<Vec<f32>>, EmbedError> {
        self.look_up(workspace, pass);
        for layer in &self.layers {
            if is_cancelled() {
                return Err(EmbedError::Cancelled);
            }
            self.attention(workspace, pass, layer);
            self.feed_forward(workspace, layer);
        }
        let vectors = pass.texts.iter().map(|rows| pool(&workspace.states, rows.clone(), self.config.hidden_size));
        vectors.collect()
    }

    /// Words plus positions, normed.
    fn look_up(&self, workspace: &mut Workspace, pass: &Pass) {
        let width = self.config.hidden_size;
        let place: Vec<usize> = pass.texts.iter().flat_map(|rows| 0..rows.len()).collect();
        let Workspace { states, rounded, .. } = workspace;
        states.resize(pass.tokens.len() * width, 0.0);
        self.compute.parallel_chunks(states, width, |row, out, _| {
            let token = pass.tokens[row] as usize;
            self.words.rows_f32(token..token + 1, out);
            add(out, &self.positions[place[row] * width..][..width]);
        });
        self.norm(&self.embedding_norm, states, rounded);
    }

    fn attention(&self, workspace: &mut Workspace, pass: &Pass, layer: &Layer) {
        let (width, rows) = (self.config.hidden_size, pass.tokens.len());
        let heads = self.config.num_attention_heads;
        let Workspace { states, rounded, qkv, attended, rounded_attended, cache, .. } = workspace;
        qkv.resize(rows * 3 * width, 0.0);
        matmul_f32(&self.compute, rounded.view(), &layer.qkv, MatMut::new(qkv, rows, 3 * width, 3 * width));
        let (ops, qkv) = (RowOps::of(self.compute.isa()), &*qkv);
        let layout = KvLayout { layers: 1, kv_heads: heads, head_dim: self.config.head_dim() };
        cache.resize(pass.page_rows.len() * layout.page_elements(), 0);
        self.compute.parallel_chunks(cache, layout.page_elements(), |page, memory, _| {
            let mut halves = vec![0; 2 * width];
            for (position, row) in pass.page_rows[page].clone().enumerate() {
                ops.to_f16(&qkv[row * 3 * width + width..][..2 * width], &mut halves);
                let (key, value) = halves.split_at(width);
                layout.store(memory, 0, position, key, value);
            }
        });
        let attention_rows: Vec<AttentionRow> = pass
            .texts
            .iter()
            .zip(&pass.text_pages)
            .flat_map(|(rows, pages)| {
                let row = AttentionRow { pages: &pass.pages[pages.clone()], length: rows.len() };
                std::iter::repeat_n(row, rows.len())
            })
            .collect();
        attended.resize(rows * width, 0.0);
        let scoring = Scoring::scaled(1.0 / (layout.head_dim as f32).sqrt());
        let queries = MatRef::new(qkv, rows, width, 3 * width);
        attend_rows(&self.compute, &layout, 0, cache, &attention_rows, heads, scoring, queries, attended);
        rounded_attended.reshape(rows, width);
        let (stride, attended) = (rounded_attended.stride, &*attended);
        self.compute.parallel_chunks(rounded_attended.padded_rows(), NORM_ROWS * stride, |chunk, out, _| {
            let rows = attended[chunk * NORM_ROWS * width..].chunks_exact(width);
            for (row, out) in rows.zip(out.chunks_exact_mut(stride)) {
                ops.to_bf16(row, &mut out[..width]);
            }
        });
        let out = MatMut::new(states, rows, width, width);
        matmul_add(&self.compute, rounded_attended.view(), &layer.attention_output, out);
        self.norm(&layer.attention_norm, states, rounded);
    }

    fn feed_forward(&self, workspace: &mut Workspace, layer: &Layer) {
        let Workspace { states, rounded, hidden, .. } = workspace;
        let (width, inner) = (self.config.hidden_size, self.config.intermediate_size);
        let rows = states.len() / width;
        hidden.reshape(rows, inner);
        matmul_bf16(&self.compute, rounded.view(), &layer.intermediate, true, hidden.view_mut());
        matmul_add(&self.compute, hidden.view(), &layer.output, MatMut::new(states, rows, width, width));
        self.norm(&layer.output_norm, states, rounded);
    }

    /// Norms the states in place and rounds them for the next product.
    fn norm(&self, norm: &LayerNorm, states: &mut [f32], rounded: &mut Bf16Rows) {
        let (width, ops) = (self.config.hidden_size, RowOps::of(self.compute.isa()));
        let zeros = vec![0.0; width];
        let norm = Norm { bias: &zeros, gain: &norm.gain, shift: &norm.shift, epsilon: self.config.layer_norm_eps };
        rounded.reshape(states.len() / width, width);
        let stride = rounded.stride;
        let rounded = (rounded.padded_rows(), NORM_ROWS * stride);
        self.compute.parallel_chunk_pairs((states, NORM_ROWS * width), rounded, |states, rounded| {
            for (state, rounded) in states.chunks_exact_mut(width).zip(rounded.chunks_exact_mut(stride)) {
                ops.add_norm(state, &zeros, &norm);
                ops.to_bf16(state, &mut rounded[..width]);
            }
        });
    }
}

impl Pass {
    fn new<'a>(texts: impl Iterator<Item = &'a [u32]>) -> Self {
        let mut pass = Pass {
            tokens: Vec::new(),
            texts: Vec::new(),
            page_rows: Vec::new(),
            pages: Vec::new(),
            text_pages: Vec::new(),
        };
        for text in texts {
            let (first, first_page) = (pass.tokens.len(), pass.page_rows.len());
            pass.tokens.extend_from_slice(text);
            let rows = first..pass.tokens.len();
            pass.page_rows.extend(rows.clone().step_by(PAGE).map(|row| row..(row + PAGE).min(rows.end)));
            pass.text_pages.push(first_page..pass.page_rows.len());
            pass.texts.push(rows);
        }
        pass.pages = (0..pass.page_rows.len() as u32).collect();
        pass
    }
}

/// The mean of the rows, scaled to length 1.
fn pool(states: &[f32], rows: Range<usize>, width: usize) -> Result<Vec<f32>, EmbedError> {
    let mut vector = vec![0.0; width];
    rows.for_each(|row| add(&mut vector, &states[row * width..][..width]));
    let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    if !length.is_finite() || length == 0.0 {
        return Err(EmbedError::NotFinite);
    }
    vector.iter_mut().for_each(|x| *x /= length);
    Ok(vector)
}

fn add(row: &mut [f32], other: &[f32]) {
    row.iter_mut().zip(other).for_each(|(to, from)| *to += from);
}

struct Loader<'a> {
    tensors: &'a Tensors,
    config: &'a Config,
}

impl Loader<'_> {
    fn layer(&self, index: usize) -> Result<Layer, EmbedError> {
        let (width, inner) = (self.config.hidden_size, self.config.intermediate_size);
        let name = |part: &str| format!("encoder.layer.{index}.{part}");
        Ok(Layer {
            qkv: self.linear(
                &["query", "key", "value"].map(|part| name(&format!("attention.self.{part}"))),
                width,
                width,
            )?,
            attention_output: self.linear(&[name("attention.output.dense")], width, width)?,
            attention_norm: self.norm(&name("attention.output.LayerNorm"))?,
            intermediate: self.linear(&[name("intermediate.dense")], inner, width)?,
            output: self.linear(&[name("output.dense")], width, inner)?,
            output_norm: self.norm(&name("output.LayerNorm"))?,
        })
    }

    fn floats(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, EmbedError> {
        Ok(self.tensors.floats(name, shape)?)
    }

    fn norm(&self, name: &str) -> Result<LayerNorm, EmbedError> {
        let width = self.config.hidden_size;
        Ok(LayerNorm {
            gain: self.floats(&format!("{name}.weight"), &[width])?,
            shift: self.floats(&format!("{name}.bias"), &[width])?,
        })
    }

    /// Layers of the same shape as one, their outputs side by side.
    fn linear(&self, names: &[String], outputs: usize, inputs: usize) -> Result<Linear, EmbedError> {
        let (mut weights, mut bias) = (Vec::new(), Vec::new());
        for name in names {
            weights.extend(self.floats(&format!("{name}.weight"), &[outputs, inputs])?);
            bias.extend(self.floats(&format!("{name}.bias"), &[outputs])?);
        }
        Ok(Linear::pack(&weights, names.len() * outputs, inputs, Some(&bias), Weights::Bf16))
    }
}
