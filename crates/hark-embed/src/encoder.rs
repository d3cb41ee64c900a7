//! The encoder: weights, the forward pass over several texts at once, pooling.

use std::ops::Range;
use std::path::Path;

use hark_compute::Compute;
use hark_compute::attention::paged::{AttentionRow, KvLayout, PAGE, paged_attention};
use hark_compute::kernels::math::to_bf16;
use hark_compute::quantized::{Activations, Format, Product, QuantizedMatrix, matmul};
use hark_compute::row_ops::{Norm, RowOps};
use hark_weights::{Tensor, Tensors, WeightsFile, safetensors};

use crate::config::Config;
use crate::{EmbedError, Tokenizer};

/// Tokens of a pass: enough rows for the products, few enough for the caches.
const PASS_TOKENS: usize = 2048;

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
    /// Queries, keys, values.
    qkv: [Linear; 3],
    attention_output: Linear,
    attention_norm: LayerNorm,
    intermediate: Linear,
    output: Linear,
    output_norm: LayerNorm,
}

struct Linear {
    matrix: QuantizedMatrix,
    bias: Vec<f32>,
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
    activations: Activations,
    states: Vec<f32>,
    qkv: [Vec<f32>; 3],
    attended: Vec<f32>,
    product: Vec<f32>,
    hidden: Vec<f32>,
    cache: Vec<u16>,
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
        let loader = Loader { compute, tensors: &safetensors::read(&file)?, config: &config };
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
        let (ops, bias) = (RowOps::of(self.compute.isa()), vec![0.0; width]);
        let norm = self.embedding_norm.with(&bias, self.config.layer_norm_eps);
        workspace.states.resize(pass.tokens.len() * width, 0.0);
        self.compute.parallel_chunks(&mut workspace.states, width, |row, out, _| {
            let token = pass.tokens[row] as usize;
            self.words.rows_f32(token..token + 1, out);
            ops.add_norm(out, &self.positions[place[row] * width..][..width], &norm);
        });
    }

    fn attention(&self, workspace: &mut Workspace, pass: &Pass, layer: &Layer) {
        let (width, rows) = (self.config.hidden_size, pass.tokens.len());
        let heads = self.config.num_attention_heads;
        let Workspace { activations, states, qkv, attended, product, cache, .. } = workspace;
        activations.set(&self.compute, states, rows, width);
        {
            let mut products = Vec::with_capacity(3);
            for (out, linear) in qkv.iter_mut().zip(&layer.qkv) {
                out.resize(rows * width, 0.0);
                products.push(Product::new(&linear.matrix, out, width));
            }
            matmul(&self.compute, activations, &mut products);
        }
        for (rows, linear) in qkv.iter_mut().zip(&layer.qkv) {
            self.compute.parallel_chunks(rows, width, |_, row, _| add(row, &linear.bias));
        }
        let [queries, keys, values] = &*qkv;
        let layout = KvLayout { layers: 1, kv_heads: heads, head_dim: self.config.head_dim() };
        cache.resize(pass.page_rows.len() * layout.page_elements(), 0);
        let ops = RowOps::of(self.compute.isa());
        self.compute.parallel_chunks(cache, layout.page_elements(), |page, memory, _| {
            let mut halves = vec![0; 2 * width];
            let (key, value) = halves.split_at_mut(width);
            for (position, row) in pass.page_rows[page].clone().enumerate() {
                ops.to_f16(&keys[row * width..][..width], key);
                ops.to_f16(&values[row * width..][..width], value);
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
        let scale = 1.0 / (layout.head_dim as f32).sqrt();
        paged_attention(&self.compute, &layout, 0, cache, &attention_rows, heads, scale, queries, attended);
        activations.set(&self.compute, attended, rows, width);
        self.add_and_norm(activations, &layer.attention_output, &layer.attention_norm, product, states);
    }

    fn feed_forward(&self, workspace: &mut Workspace, layer: &Layer) {
        let Workspace { activations, states, product, hidden, .. } = workspace;
        let (width, inner) = (self.config.hidden_size, self.config.intermediate_size);
        let rows = states.len() / width;
        activations.set(&self.compute, states, rows, width);
        hidden.resize(rows * inner, 0.0);
        matmul(&self.compute, activations, &mut [Product::new(&layer.intermediate.matrix, hidden, inner)]);
        let ops = RowOps::of(self.compute.isa());
        self.compute.parallel_chunks(hidden, inner, |_, row, _| ops.bias_gelu(row, &layer.intermediate.bias));
        activations.set(&self.compute, hidden, rows, inner);
        self.add_and_norm(activations, &layer.output, &layer.output_norm, product, states);
    }

    /// `states = norm(states + product + bias)`.
    fn add_and_norm(
        &self,
        activations: &Activations,
        linear: &Linear,
        norm: &LayerNorm,
        product: &mut Vec<f32>,
        states: &mut [f32],
    ) {
        let width = self.config.hidden_size;
        product.resize(states.len(), 0.0);
        matmul(&self.compute, activations, &mut [Product::new(&linear.matrix, product, width)]);
        let ops = RowOps::of(self.compute.isa());
        let (norm, product) = (norm.with(&linear.bias, self.config.layer_norm_eps), &*product);
        self.compute.parallel_chunks(states, width, |row, state, _| {
            ops.add_norm(state, &product[row * width..][..width], &norm);
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

impl LayerNorm {
    fn with<'a>(&'a self, bias: &'a [f32], epsilon: f32) -> Norm<'a> {
        Norm { bias, gain: &self.gain, shift: &self.shift, epsilon }
    }
}

struct Loader<'a> {
    compute: &'a Compute,
    tensors: &'a Tensors,
    config: &'a Config,
}

impl Loader<'_> {
    fn layer(&self, index: usize) -> Result<Layer, EmbedError> {
        let (width, inner) = (self.config.hidden_size, self.config.intermediate_size);
        let name = |part: &str| format!("encoder.layer.{index}.{part}");
        Ok(Layer {
            qkv: [
                self.linear(&name("attention.self.query"), width, width)?,
                self.linear(&name("attention.self.key"), width, width)?,
                self.linear(&name("attention.self.value"), width, width)?,
            ],
            attention_output: self.linear(&name("attention.output.dense"), width, width)?,
            attention_norm: self.norm(&name("attention.output.LayerNorm"))?,
            intermediate: self.linear(&name("intermediate.dense"), inner, width)?,
            output: self.linear(&name("output.dense"), width, inner)?,
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

    fn linear(&self, name: &str, outputs: usize, inputs: usize) -> Result<Linear, EmbedError> {
        let weights = self.floats(&format!("{name}.weight"), &[outputs, inputs])?;
        let packed = QuantizedMatrix::pack(self.compute, Format::Bf16, outputs, inputs, |row, granule, block| {
            let from = &weights[row * inputs + granule * 32..][..32];
            for (pair, weight) in block.values.chunks_exact_mut(2).zip(from) {
                pair.copy_from_slice(&to_bf16(*weight).to_le_bytes());
            }
        });
        let matrix = packed.ok_or(EmbedError::OutOfMemory)?;
        Ok(Linear { matrix, bias: self.floats(&format!("{name}.bias"), &[outputs])? })
    }
}
