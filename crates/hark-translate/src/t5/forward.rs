//! The forward pass: encoder over whole sentences, decoder one token for each row.

use hark_compute::Compute;
use hark_compute::quantized::{Activations, Product, QuantizedMatrix, matmul};
use hark_compute::row_ops::{Gate, RowOps};

use super::{Attention, FeedForward, T5};
use crate::TranslateError;
use crate::decoding::{Decoder, Heads, KeyValues, Query, Row, attend};

/// Memory of a pass, used again for every layer.
#[derive(Default)]
pub(crate) struct Workspace {
    activations: Activations,
    normed: Vec<f32>,
    queries: Vec<f32>,
    keys: Vec<f32>,
    values: Vec<f32>,
    attended: Vec<f32>,
    gate: Vec<f32>,
    up: Vec<f32>,
    product: Vec<f32>,
    logits: Vec<f32>,
}

/// An encoded sentence: keys and values of the cross-attention of every decoder layer.
pub(crate) struct Source {
    tokens: usize,
    layers: Vec<KeyValues>,
}

impl T5 {
    fn heads(&self) -> Heads {
        Heads { count: self.config.heads, dim: self.config.head_dim, scale: 1.0 }
    }

    /// Encodes sentences, their rows one behind the other.
    pub(super) fn encode(
        &self,
        sentences: &[&[u32]],
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Vec<Source>, TranslateError> {
        let width = self.config.width;
        let tokens: Vec<u32> = sentences.iter().flat_map(|sentence| sentence.iter().copied()).collect();
        assert!(sentences.iter().all(|sentence| !sentence.is_empty()), "a sentence has at least its end");
        let mut workspace = Workspace::default();
        let mut states = self.embed(&tokens);
        for layer in &self.encoder {
            if is_cancelled() {
                return Err(TranslateError::Cancelled);
            }
            self.project_attention(&mut workspace, &layer.attention, &states);
            let caches = self.split(&workspace, sentences);
            let queries: Vec<Query<'_>> = caches
                .iter()
                .zip(sentences)
                .flat_map(|(over, sentence)| (0..sentence.len()).map(move |position| Query { over, position }))
                .collect();
            workspace.attended.resize(workspace.queries.len(), 0.0);
            let bias = |head: usize, position: usize, scores: &mut [f32]| self.encoder_bias.row(head, position, scores);
            let Workspace { queries: query_rows, attended, .. } = &mut workspace;
            attend(&self.compute, self.heads(), Some(&bias), &queries, query_rows, attended);
            self.add_attended(&mut workspace, &layer.attention, &mut states);
            self.feed_forward(&mut workspace, &layer.feed_forward, &mut states);
        }
        self.norm(&mut workspace.normed, &self.encoder_norm, &states);
        let Workspace { activations, normed, keys, values, .. } = &mut workspace;
        activations.set(&self.compute, normed, tokens.len(), width);
        let mut sources: Vec<Source> =
            sentences.iter().map(|sentence| Source { tokens: sentence.len(), layers: Vec::new() }).collect();
        for layer in &self.decoder {
            let [key, value] = &layer.cross_attention.key_value;
            self.products(activations, [key, value], [&mut *keys, &mut *values]);
            let mut first = 0;
            for source in &mut sources {
                let part = first * self.config.attended()..(first + source.tokens) * self.config.attended();
                let mut cache = KeyValues::default();
                cache.push(&keys[part.clone()], &values[part]);
                source.layers.push(cache);
                first += source.tokens;
            }
        }
        Ok(sources)
    }

    fn embed(&self, tokens: &[u32]) -> Vec<f32> {
        let width = self.config.width;
        let mut states = vec![0.0; tokens.len() * width];
        for (state, token) in states.chunks_exact_mut(width).zip(tokens) {
            let row = *token as usize;
            self.embeddings.rows_f32(row..row + 1, state);
        }
        states
    }

    fn norm(&self, out: &mut Vec<f32>, gain: &[f32], states: &[f32]) {
        let ops = RowOps::of(self.compute.isa());
        out.resize(states.len(), 0.0);
        for (state, out) in states.chunks_exact(gain.len()).zip(out.chunks_exact_mut(gain.len())) {
            ops.rms_norm(state, gain, self.config.epsilon, out);
        }
    }

    fn products<const N: usize>(
        &self,
        activations: &Activations,
        matrices: [&QuantizedMatrix; N],
        out: [&mut Vec<f32>; N],
    ) {
        let mut products = Vec::with_capacity(N);
        for (out, matrix) in out.into_iter().zip(matrices) {
            out.resize(activations.rows() * matrix.rows(), 0.0);
            products.push(Product::new(matrix, out, matrix.rows()));
        }
        matmul(&self.compute, activations, &mut products);
    }

    /// Queries, keys and values of the normed states.
    fn project_attention(&self, workspace: &mut Workspace, layer: &Attention, states: &[f32]) {
        self.norm(&mut workspace.normed, &layer.norm, states);
        let Workspace { activations, normed, queries, keys, values, .. } = workspace;
        activations.set(&self.compute, normed, states.len() / self.config.width, self.config.width);
        let [key, value] = &layer.key_value;
        self.products(activations, [&layer.query, key, value], [queries, keys, values]);
    }

    /// The keys and values of each sentence.
    fn split(&self, workspace: &Workspace, sentences: &[&[u32]]) -> Vec<KeyValues> {
        let attended = self.config.attended();
        let mut first = 0;
        let cache = |sentence: &&[u32]| {
            let part = first * attended..(first + sentence.len()) * attended;
            first += sentence.len();
            let mut cache = KeyValues::default();
            cache.push(&workspace.keys[part.clone()], &workspace.values[part]);
            cache
        };
        sentences.iter().map(cache).collect()
    }

    /// `states += output(attended)`
    fn add_attended(&self, workspace: &mut Workspace, layer: &Attention, states: &mut [f32]) {
        let Workspace { activations, attended, product, .. } = workspace;
        activations.set(&self.compute, attended, states.len() / self.config.width, self.config.attended());
        self.products(activations, [&layer.output], [&mut *product]);
        states.iter_mut().zip(&*product).for_each(|(state, update)| *state += update);
    }

    /// `states += down(gelu(gate(norm(states))) * up(norm(states)))`
    fn feed_forward(&self, workspace: &mut Workspace, layer: &FeedForward, states: &mut [f32]) {
        let (rows, inner) = (states.len() / self.config.width, self.config.inner);
        self.norm(&mut workspace.normed, &layer.norm, states);
        let Workspace { activations, normed, gate, up, product, .. } = workspace;
        activations.set(&self.compute, normed, rows, self.config.width);
        let [gates, ups] = &layer.gate_up;
        self.products(activations, [gates, ups], [&mut *gate, &mut *up]);
        let ops = RowOps::of(self.compute.isa());
        let up = &*up;
        self.compute.parallel_chunks(gate, inner, |row, gate, _| {
            ops.gate(Gate::Gelu, gate, &up[row * inner..][..inner]);
        });
        activations.set(&self.compute, gate, rows, inner);
        self.products(activations, [&layer.down], [&mut *product]);
        states.iter_mut().zip(&*product).for_each(|(state, update)| *state += update);
    }
}

impl Decoder for T5 {
    type Sources = Vec<Source>;
    type Workspace = Workspace;

    fn compute(&self) -> &Compute {
        &self.compute
    }

    fn begin(&self, source: usize) -> Row {
        Row::new(source, self.config.start, self.decoder.len())
    }

    fn step(&self, workspace: &mut Workspace, sources: &Vec<Source>, rows: &mut [Row]) {
        let attended = self.config.attended();
        let last: Vec<u32> = rows.iter().map(|row| row.last).collect();
        let mut states = self.embed(&last);
        let compute = &self.compute;
        let bias = |head: usize, position: usize, scores: &mut [f32]| self.decoder_bias.row(head, position, scores);
        for (index, layer) in self.decoder.iter().enumerate() {
            self.project_attention(workspace, &layer.attention, &states);
            let Workspace { keys, values, .. } = &mut *workspace;
            for ((row, key), value) in
                rows.iter_mut().zip(keys.chunks_exact(attended)).zip(values.chunks_exact(attended))
            {
                row.layers[index].push(key, value);
            }
            let queries: Vec<Query<'_>> =
                rows.iter().map(|row| Query { over: &row.layers[index], position: row.position }).collect();
            workspace.attended.resize(workspace.queries.len(), 0.0);
            let Workspace { queries: query_rows, attended: out, .. } = &mut *workspace;
            attend(compute, self.heads(), Some(&bias), &queries, query_rows, out);
            self.add_attended(workspace, &layer.attention, &mut states);

            let cross = &layer.cross_attention;
            self.norm(&mut workspace.normed, &cross.norm, &states);
            let Workspace { activations, normed, queries, .. } = &mut *workspace;
            activations.set(compute, normed, rows.len(), self.config.width);
            self.products(activations, [&cross.query], [&mut *queries]);
            let over: Vec<Query<'_>> = rows
                .iter()
                .map(|row| Query { over: &sources[row.source].layers[index], position: row.position })
                .collect();
            attend(compute, self.heads(), None, &over, &workspace.queries, &mut workspace.attended);
            self.add_attended(workspace, cross, &mut states);
            self.feed_forward(workspace, &layer.feed_forward, &mut states);
        }
        rows.iter_mut().for_each(|row| row.position += 1);
        self.norm(&mut workspace.normed, &self.decoder_norm, &states);
        if self.config.is_tied {
            // T5 scales the states where the projection shares the weights of the embeddings.
            let scale = (self.config.width as f32).powf(-0.5);
            workspace.normed.iter_mut().for_each(|value| *value *= scale);
        }
    }

    fn for_logits(&self, workspace: &mut Workspace, rows: usize, take: &(dyn Fn(usize, usize, &[f32]) + Sync)) {
        let Workspace { activations, normed, logits, .. } = workspace;
        activations.set(&self.compute, normed, rows, self.config.width);
        let mut first = 0;
        for stretch in &self.output {
            self.products(activations, [stretch], [&mut *logits]);
            let words = stretch.rows();
            self.compute.parallel_chunks(logits, words, |row, logits, _| take(row, first, logits));
            first += words;
        }
    }
}
