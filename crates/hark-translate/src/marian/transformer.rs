//! The layers that Marian's networks share, with norms behind their residuals: the encoder, cross-attention and feed-forward layers.

use hark_compute::Compute;
use hark_compute::attention::paged::{AttentionRow, KvLayout, paged_attention};
use hark_compute::quantized::Activations;
use hark_compute::row_ops::{Gate, RowOps};

use super::batch::Batch;
use super::config::{Activation, Config};
use super::linear::{AddNorm, Linear, apply, for_rows};
use crate::TranslateError;

/// What the layers of a network work with: threads and shape.
pub(crate) struct Transformer {
    pub(crate) compute: Compute,
    pub(crate) config: Config,
}

pub(crate) struct EncoderLayer {
    /// Queries, keys, values.
    pub(crate) qkv: [Linear; 3],
    pub(crate) attention_output: AddNorm,
    pub(crate) feed_forward: FeedForward,
}

pub(crate) struct CrossAttention {
    pub(crate) query: Linear,
    /// Keys and values over the encoder's output.
    pub(crate) key_value: [Linear; 2],
    pub(crate) output: AddNorm,
}

pub(crate) struct FeedForward {
    pub(crate) inner: Linear,
    pub(crate) outer: AddNorm,
}

/// Memory of a pass.
#[derive(Default)]
pub(crate) struct Workspace {
    pub(crate) activations: Activations,
    pub(crate) product: Vec<f32>,
    pub(crate) attended: Vec<f32>,
    pub(crate) qkv: [Vec<f32>; 3],
    hidden: Vec<f32>,
    cache: Vec<u16>,
}

/// Encoded sentences: the keys and values of every decoder layer.
pub(crate) struct Source {
    pub(crate) batch: Batch,
    layout: KvLayout,
    cache: Vec<u16>,
}

impl Transformer {
    /// Encodes the embedded tokens of all sentences.
    pub(crate) fn encode(
        &self,
        layers: &[EncoderLayer],
        batch: &Batch,
        states: &mut [f32],
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<(), TranslateError> {
        let mut workspace = Workspace::default();
        for layer in layers {
            if is_cancelled() {
                return Err(TranslateError::Cancelled);
            }
            self.self_attention(&mut workspace, batch, layer, states);
            self.feed_forward(&mut workspace, &layer.feed_forward, states);
        }
        Ok(())
    }

    fn self_attention(&self, workspace: &mut Workspace, batch: &Batch, layer: &EncoderLayer, states: &mut [f32]) {
        let (width, rows) = (self.config.width, batch.tokens.len());
        let Workspace { activations, product, attended, qkv: [queries, keys, values], cache, .. } = workspace;
        activations.set(&self.compute, states, rows, width);
        let [query, key, value] = &layer.qkv;
        apply(&self.compute, activations, [query, key, value], [queries, keys, values], |x| x);
        let layout = self.layout(1);
        self.fill_pages(batch, &layout, 0, keys, values, cache);
        let attention_rows: Vec<AttentionRow> = (0..batch.sentences.len())
            .flat_map(|sentence| {
                let length = batch.sentences[sentence].len();
                std::iter::repeat_n(AttentionRow { pages: batch.pages_of(sentence), length }, length)
            })
            .collect();
        attended.resize(rows * width, 0.0);
        let heads = self.config.heads;
        let scale = self.config.score_scale();
        paged_attention(&self.compute, &layout, 0, cache, &attention_rows, heads, scale, queries, attended);
        activations.set(&self.compute, attended, rows, width);
        layer.attention_output.apply(&self.compute, activations, product, states);
    }

    /// Pages with so many layers of keys and values.
    fn layout(&self, layers: usize) -> KvLayout {
        KvLayout { layers, kv_heads: self.config.heads, head_dim: self.config.head_dim() }
    }

    /// Writes the keys and values of a layer to the pages of all sentences.
    fn fill_pages(
        &self,
        batch: &Batch,
        layout: &KvLayout,
        layer: usize,
        keys: &[f32],
        values: &[f32],
        cache: &mut Vec<u16>,
    ) {
        let width = self.config.width;
        cache.resize(batch.page_rows.len() * layout.page_elements(), 0);
        let ops = RowOps::of(self.compute.isa());
        self.compute.parallel_chunks(cache, layout.page_elements(), |page, memory, _| {
            let mut halves = vec![0; 2 * width];
            let (key, value) = halves.split_at_mut(width);
            for (position, row) in batch.page_rows[page].clone().enumerate() {
                ops.to_f16(&keys[row * width..][..width], key);
                ops.to_f16(&values[row * width..][..width], value);
                layout.store(memory, layer, position, key, value);
            }
        });
    }

    /// The keys and values of encoded sentences for the cross-attention of every decoder layer.
    pub(crate) fn source<'a>(
        &self,
        batch: Batch,
        encoded: &[f32],
        layers: impl ExactSizeIterator<Item = &'a CrossAttention>,
    ) -> Source {
        let layout = self.layout(layers.len());
        let (mut cache, mut activations) = (Vec::new(), Activations::default());
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        activations.set(&self.compute, encoded, batch.tokens.len(), self.config.width);
        for (index, layer) in layers.enumerate() {
            let [key, value] = &layer.key_value;
            apply(&self.compute, &activations, [key, value], [&mut keys, &mut values], |x| x);
            self.fill_pages(&batch, &layout, index, &keys, &values, &mut cache);
        }
        Source { batch, layout, cache }
    }

    /// Attention of rows to their sentences in the pages of layer `index`, its output and norm.
    pub(crate) fn cross_attention(
        &self,
        workspace: &mut Workspace,
        layer: &CrossAttention,
        index: usize,
        source: &Source,
        sentences: impl ExactSizeIterator<Item = usize>,
        states: &mut [f32],
    ) {
        let (width, rows) = (self.config.width, sentences.len());
        let Workspace { activations, product, attended, qkv: [queries, ..], .. } = workspace;
        activations.set(&self.compute, states, rows, width);
        apply(&self.compute, activations, [&layer.query], [&mut *queries], |x| x);
        let Source { batch, layout, cache } = source;
        let attention_rows: Vec<AttentionRow> = sentences
            .map(|sentence| AttentionRow { pages: batch.pages_of(sentence), length: batch.sentences[sentence].len() })
            .collect();
        attended.resize(rows * width, 0.0);
        let (heads, scale) = (self.config.heads, self.config.score_scale());
        paged_attention(&self.compute, layout, index, cache, &attention_rows, heads, scale, queries, attended);
        activations.set(&self.compute, attended, rows, width);
        layer.output.apply(&self.compute, activations, product, states);
    }

    pub(crate) fn feed_forward(&self, workspace: &mut Workspace, layer: &FeedForward, states: &mut [f32]) {
        let Workspace { activations, hidden, product, .. } = workspace;
        let (width, inner) = (self.config.width, self.config.inner);
        let rows = states.len() / width;
        activations.set(&self.compute, states, rows, width);
        match self.config.activation {
            Activation::Relu => apply(&self.compute, activations, [&layer.inner], [&mut *hidden], |x| x.max(0.0)),
            Activation::Swish => {
                apply(&self.compute, activations, [&layer.inner], [&mut *hidden], |x| x);
                let (ops, ones) = (RowOps::of(self.compute.isa()), vec![1.0; inner]);
                for_rows(&self.compute, hidden, inner, |_, row| ops.gate(Gate::Silu, row, &ones));
            }
        }
        activations.set(&self.compute, hidden, rows, inner);
        layer.outer.apply(&self.compute, activations, product, states);
    }

    /// `states = norm(states + update)` with a norm that has no product of its own.
    pub(crate) fn add_norm(&self, norm: &super::linear::LayerNorm, update: &[f32], states: &mut [f32]) {
        let width = self.config.width;
        let (ops, bias) = (RowOps::of(self.compute.isa()), vec![0.0; width]);
        let norm = norm.with(&bias);
        for_rows(&self.compute, states, width, |row, state| {
            ops.add_norm(state, &update[row * width..][..width], &norm)
        });
    }
}

impl Linear {
    /// Bytes of several layers.
    pub(crate) fn sum_of_bytes<'a>(layers: impl IntoIterator<Item = &'a Linear>) -> u64 {
        layers.into_iter().map(Linear::bytes).sum()
    }
}

impl EncoderLayer {
    /// Bytes of its weights.
    pub(crate) fn bytes(&self) -> u64 {
        Linear::sum_of_bytes(self.qkv.iter().chain([&self.attention_output.linear])) + self.feed_forward.bytes()
    }
}

impl CrossAttention {
    /// Bytes of its weights.
    pub(crate) fn bytes(&self) -> u64 {
        Linear::sum_of_bytes(self.key_value.iter().chain([&self.query, &self.output.linear]))
    }
}

impl FeedForward {
    /// Bytes of its weights.
    pub(crate) fn bytes(&self) -> u64 {
        Linear::sum_of_bytes([&self.inner, &self.outer.linear])
    }
}
