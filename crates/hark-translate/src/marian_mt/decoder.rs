//! The decoder: one token for each row, over the keys and values of what the row wrote and of its sentence.

use hark_compute::Compute;

use super::{MarianMt, SelfAttention};
use crate::decoding::{Decoder, Heads, Query, Row, attend};
use crate::marian::{Source, Transformer, Workspace, apply, products};

/// Memory of a step beside that of [`Workspace`].
#[derive(Default)]
pub(crate) struct StepWorkspace {
    shared: Workspace,
    states: Vec<f32>,
    logits: Vec<f32>,
}

impl MarianMt {
    /// Attention of every row to itself and what it wrote before.
    fn self_attention(
        &self,
        workspace: &mut Workspace,
        layer: &SelfAttention,
        index: usize,
        rows: &mut [Row],
        states: &mut [f32],
    ) {
        let Transformer { compute, config } = &self.transformer;
        let width = config.width;
        let Workspace { activations, product, attended, qkv: [queries, keys, values], .. } = workspace;
        activations.set(compute, states, rows.len(), width);
        let [query, key, value] = &layer.qkv;
        apply(compute, activations, [query, key, value], [&mut *queries, &mut *keys, &mut *values], |x| x);
        for ((row, key), value) in rows.iter_mut().zip(keys.chunks_exact(width)).zip(values.chunks_exact(width)) {
            row.layers[index].push(key, value);
        }
        let over: Vec<Query<'_>> =
            rows.iter().map(|row| Query { over: &row.layers[index], position: row.position }).collect();
        attended.resize(rows.len() * width, 0.0);
        let heads = Heads { count: config.heads, dim: config.head_dim(), scale: config.score_scale() };
        attend(compute, heads, None, &over, queries, attended);
        activations.set(compute, attended, rows.len(), width);
        layer.output.apply(compute, activations, product, states);
    }
}

impl Decoder for MarianMt {
    type Sources = Source;
    type Workspace = StepWorkspace;

    fn compute(&self) -> &Compute {
        &self.transformer.compute
    }

    fn begin(&self, source: usize) -> Row {
        Row::new(source, self.config.start, self.decoder.len())
    }

    fn step(&self, workspace: &mut StepWorkspace, source: &Source, rows: &mut [Row]) {
        let StepWorkspace { shared, states, .. } = workspace;
        states.resize(rows.len() * self.transformer.config.width, 0.0);
        self.embed(rows.iter().map(|row| (row.last, row.position)), states);
        for (index, layer) in self.decoder.iter().enumerate() {
            self.self_attention(shared, &layer.attention, index, rows, states);
            let sentences = rows.iter().map(|row| row.source);
            self.transformer.cross_attention(shared, &layer.cross_attention, index, source, sentences, states);
            self.transformer.feed_forward(shared, &layer.feed_forward, states);
        }
        rows.iter_mut().for_each(|row| row.position += 1);
    }

    fn for_logits(&self, workspace: &mut StepWorkspace, rows: usize, take: &(dyn Fn(usize, usize, &[f32]) + Sync)) {
        let Transformer { compute, config } = &self.transformer;
        let StepWorkspace { shared, states, logits } = workspace;
        shared.activations.set(compute, states, rows, config.width);
        let mut first = 0;
        for stretch in &self.output {
            products(compute, &shared.activations, [stretch], [&mut *logits]);
            compute.parallel_chunks(logits, stretch.outputs(), |row, logits, _| {
                stretch.finish(logits, |x| x);
                take(row, first, logits);
            });
            first += stretch.outputs();
        }
    }
}
