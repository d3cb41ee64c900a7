//! The encoder: transformer layers with norms behind their residuals.

use hark_compute::attention::paged::{AttentionRow, KvLayout, paged_attention};
use hark_compute::quantized::Activations;
use hark_compute::row_ops::RowOps;

use super::batch::Batch;
use super::linear::{apply, for_rows};
use super::{EncoderLayer, FeedForward, Marian, position_signal};
use crate::TranslateError;

/// Memory of a pass.
#[derive(Default)]
pub(super) struct Workspace {
    pub(super) activations: Activations,
    pub(super) hidden: Vec<f32>,
    pub(super) product: Vec<f32>,
    pub(super) attended: Vec<f32>,
    qkv: [Vec<f32>; 3],
    cache: Vec<u16>,
}

impl Marian {
    /// The states of all source tokens.
    pub(super) fn encode(&self, batch: &Batch, is_cancelled: &dyn Fn() -> bool) -> Result<Vec<f32>, TranslateError> {
        let width = self.config.width;
        let longest = batch.sentences.iter().map(|rows| rows.len()).max().unwrap_or(0);
        let signals: Vec<Vec<f32>> = (0..longest)
            .map(|position| {
                let mut signal = Vec::new();
                position_signal(position, width, &mut signal);
                signal
            })
            .collect();
        let mut states = vec![0.0; batch.tokens.len() * width];
        for rows in &batch.sentences {
            for (row, signal) in rows.clone().zip(&signals) {
                let state = &mut states[row * width..][..width];
                self.source_embeddings.look_up(Some(batch.tokens[row]), signal, state);
            }
        }
        let mut workspace = Workspace::default();
        for layer in &self.encoder {
            if is_cancelled() {
                return Err(TranslateError::Cancelled);
            }
            self.self_attention(&mut workspace, batch, layer, &mut states);
            self.feed_forward(&mut workspace, &layer.feed_forward, &mut states);
        }
        Ok(states)
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
        let scale = 1.0 / (layout.head_dim as f32).sqrt();
        let heads = self.config.heads;
        paged_attention(&self.compute, &layout, 0, cache, &attention_rows, heads, scale, queries, attended);
        activations.set(&self.compute, attended, rows, width);
        layer.attention_output.apply(&self.compute, activations, product, states);
    }

    /// Pages with so many layers of keys and values.
    pub(super) fn layout(&self, layers: usize) -> KvLayout {
        KvLayout { layers, kv_heads: self.config.heads, head_dim: self.config.head_dim() }
    }

    /// Writes the keys and values of a layer to the pages of all sentences.
    pub(super) fn fill_pages(
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

    pub(super) fn feed_forward(&self, workspace: &mut Workspace, layer: &FeedForward, states: &mut [f32]) {
        let Workspace { activations, hidden, product, .. } = workspace;
        let (width, inner) = (self.config.width, self.config.inner);
        let rows = states.len() / width;
        activations.set(&self.compute, states, rows, width);
        apply(&self.compute, activations, [&layer.inner], [&mut *hidden], |x| x.max(0.0));
        activations.set(&self.compute, hidden, rows, inner);
        layer.outer.apply(&self.compute, activations, product, states);
    }

    /// `states = norm(states + update)` with a norm that has no product of its own.
    pub(super) fn add_norm(&self, norm: &super::linear::LayerNorm, update: &[f32], states: &mut [f32]) {
        let width = self.config.width;
        let (ops, bias) = (RowOps::of(self.compute.isa()), vec![0.0; width]);
        let norm = norm.with(&bias);
        for_rows(&self.compute, states, width, |row, state| {
            ops.add_norm(state, &update[row * width..][..width], &norm)
        });
    }
}
