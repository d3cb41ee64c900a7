//! The forward pass over a batch of rows of several sequences.

use hark_compute::attention::paged::{AttentionRow, Scoring, attend_rows};
use hark_compute::quantized::{Activations, Product, QuantizedMatrix, matmul};
use hark_compute::row_ops::RowOps;
use hark_compute::view::MatRef;

use crate::load::Layer;
use crate::{KvCache, LmError, Model, SequenceId};

/// A token that is appended to a sequence.
#[derive(Debug, Clone, Copy)]
pub struct BatchRow {
    /// The sequence; rows of one sequence stand together, in order.
    pub sequence: SequenceId,
    /// The token.
    pub token: u32,
    /// Whether the logits behind this token are wanted.
    pub wants_logits: bool,
}

/// Memory of a forward pass, used again for the next.
#[derive(Default)]
pub struct Workspace {
    activations: Activations,
    /// The residual stream.
    residual: Vec<f32>,
    normed: Vec<f32>,
    queries: Vec<f32>,
    keys: Vec<f32>,
    values: Vec<f32>,
    attended: Vec<f32>,
    gate: Vec<f32>,
    up: Vec<f32>,
    product: Vec<f32>,
    halves: Vec<u16>,
    angles: Vec<[f32; 2]>,
    /// Those of local layers.
    local_angles: Vec<[f32; 2]>,
    logits: Vec<f32>,
}

impl Workspace {
    /// The logits of the last forward pass.
    pub(crate) fn logits(&self) -> &[f32] {
        &self.logits
    }
}

/// Work below so many elements is done by the calling thread: a parallel region costs as much.
const ALONE: usize = 1 << 14;

impl Model {
    /// Appends the rows to their sequences and returns the logits of those that want them, row after row of the vocabulary.
    ///
    /// `is_cancelled` is asked between layers. On an error no sequence has grown.
    pub fn forward<'w>(
        &self,
        workspace: &'w mut Workspace,
        cache: &mut KvCache,
        rows: &[BatchRow],
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<&'w [f32], LmError> {
        let positions = self.place_rows(cache, rows)?;
        self.embed(workspace, rows)?;
        workspace.angles.clear();
        positions.iter().for_each(|position| self.rope.angles(*position, &mut workspace.angles));
        workspace.local_angles.clear();
        if let Some(rope) = &self.local_rope {
            positions.iter().for_each(|position| rope.angles(*position, &mut workspace.local_angles));
        }
        for (index, layer) in self.layers.iter().enumerate() {
            if is_cancelled() {
                return Err(LmError::Cancelled);
            }
            self.attention_layer(workspace, cache, rows, &positions, index, layer)?;
            self.feed_forward_layer(workspace, layer);
        }
        self.logits(workspace, rows)?;
        for rows in rows.chunk_by(|a, b| a.sequence == b.sequence) {
            cache.commit(rows[0].sequence, rows.len());
        }
        Ok(&workspace.logits)
    }

    /// Reserves room for the rows and returns the position of each.
    fn place_rows(&self, cache: &mut KvCache, rows: &[BatchRow]) -> Result<Vec<usize>, LmError> {
        let mut positions = Vec::with_capacity(rows.len());
        let groups: Vec<&[BatchRow]> = rows.chunk_by(|a, b| a.sequence == b.sequence).collect();
        for (index, group) in groups.iter().enumerate() {
            let sequence = group[0].sequence;
            if groups[..index].iter().any(|other| other[0].sequence == sequence) {
                return Err(LmError::Invalid("the rows of a sequence do not stand together".to_owned()));
            }
            let first = cache.length(sequence)?;
            cache.reserve(sequence, group.len())?;
            positions.extend((0..group.len()).map(|row| first + row));
        }
        Ok(positions)
    }

    fn embed(&self, workspace: &mut Workspace, rows: &[BatchRow]) -> Result<(), LmError> {
        let width = self.config.width;
        if let Some(row) = rows.iter().find(|row| row.token as usize >= self.config.vocabulary) {
            return Err(LmError::Invalid(format!("token {} is not in the vocabulary", row.token)));
        }
        workspace.residual.resize(rows.len() * width, 0.0);
        let embed = |row: usize, out: &mut [f32]| {
            let token = rows[row].token as usize;
            self.embeddings.rows_f32(token..token + 1, out);
            if self.config.embedding_scale != 1.0 {
                out.iter_mut().for_each(|x| *x *= self.config.embedding_scale);
            }
        };
        self.each_row(&mut workspace.residual, width, embed);
        Ok(())
    }

    /// Calls `work` for each row of `data`, on several threads where that pays.
    fn each_row(&self, data: &mut [f32], width: usize, work: impl Fn(usize, &mut [f32]) + Sync) {
        if data.len() < ALONE {
            data.chunks_exact_mut(width).enumerate().for_each(|(row, data)| work(row, data));
        } else {
            self.compute.parallel_chunks(data, width, |row, data, _| work(row, data));
        }
    }

    fn norm(&self, input: &[f32], gain: &[f32], out: &mut Vec<f32>) {
        let (width, ops) = (gain.len(), RowOps::of(self.compute.isa()));
        out.resize(input.len(), 0.0);
        let norm = |row: usize, out: &mut [f32]| {
            ops.rms_norm(&input[row * width..(row + 1) * width], gain, self.config.norm_epsilon, out);
        };
        self.each_row(out, width, norm);
    }

    /// `residual += product of the activations with the matrix`, normed first where `norm` has a gain.
    fn add_product(
        &self,
        activations: &Activations,
        matrix: &QuantizedMatrix,
        norm: Option<&[f32]>,
        [product, normed]: [&mut Vec<f32>; 2],
        to: &mut [f32],
    ) {
        let width = matrix.rows();
        product.resize(to.len(), 0.0);
        matmul(&self.compute, activations, &mut [Product::new(matrix, product, width)]);
        let product = match norm {
            Some(gain) => {
                self.norm(product, gain, normed);
                &*normed
            }
            None => &*product,
        };
        self.each_row(to, width, |row, to| {
            to.iter_mut().zip(&product[row * width..]).for_each(|(to, from)| *to += from);
        });
    }

    fn attention_layer(
        &self,
        workspace: &mut Workspace,
        cache: &mut KvCache,
        rows: &[BatchRow],
        positions: &[usize],
        index: usize,
        layer: &Layer,
    ) -> Result<(), LmError> {
        let Workspace {
            activations,
            residual,
            normed,
            queries,
            keys,
            values,
            attended,
            product,
            halves,
            angles,
            local_angles,
            ..
        } = workspace;
        let angles = if layer.is_local { local_angles } else { angles };
        let (config, count) = (&self.config, rows.len());
        self.norm(residual, &layer.attention_norm, normed);
        activations.set(&self.compute, normed, count, config.width);
        let widths = [config.heads, config.kv_heads, config.kv_heads].map(|heads| heads * config.head_dim);
        let outputs = [queries, keys, values];
        {
            let mut products = Vec::with_capacity(3);
            for ((out, matrix), width) in outputs.into_iter().zip(&layer.qkv).zip(widths) {
                out.resize(count * width, 0.0);
                products.push(Product::new(matrix, out, width));
            }
            matmul(&self.compute, activations, &mut products);
        }
        let (queries, keys, values) = (&mut workspace.queries, &mut workspace.keys, &mut workspace.values);
        let norms = layer.qk_norm.as_ref();
        self.place_in_time(queries, widths[0], layer.qkv_bias[0].as_deref(), norms.map(|norms| &*norms[0]), angles);
        self.place_in_time(keys, widths[1], layer.qkv_bias[1].as_deref(), norms.map(|norms| &*norms[1]), angles);
        if let Some(bias) = &layer.qkv_bias[2] {
            self.each_row(values, widths[2], |_, row| add(row, bias));
        }
        let ops = RowOps::of(self.compute.isa());
        halves.resize(2 * widths[1], 0);
        for (row, position) in positions.iter().enumerate() {
            let (key_halves, value_halves) = halves.split_at_mut(widths[1]);
            ops.to_f16(&keys[row * widths[1]..(row + 1) * widths[1]], key_halves);
            ops.to_f16(&values[row * widths[1]..(row + 1) * widths[1]], value_halves);
            cache.store(rows[row].sequence, index, *position, key_halves, value_halves);
        }
        let mut attention_rows = Vec::with_capacity(count);
        for (row, position) in rows.iter().zip(positions) {
            attention_rows.push(AttentionRow { pages: cache.pages(row.sequence)?, length: position + 1 });
        }
        attended.resize(count * widths[0], 0.0);
        let scoring = Scoring {
            scale: config.attention_scale,
            softcap: config.attention_softcap,
            window: config.window.filter(|_| layer.is_local),
        };
        let (layout, memory) = (cache.layout(), cache.memory());
        let queries = MatRef::new(queries, count, widths[0], widths[0]);
        attend_rows(&self.compute, layout, index, memory, &attention_rows, config.heads, scoring, queries, attended);
        activations.set(&self.compute, attended, count, widths[0]);
        let norm = layer.post_attention_norm.as_deref();
        self.add_product(activations, &layer.attention_output, norm, [product, normed], residual);
        Ok(())
    }

    /// Bias, norm of each head, rotary embedding.
    fn place_in_time(
        &self,
        rows: &mut [f32],
        width: usize,
        bias: Option<&[f32]>,
        norm: Option<&[f32]>,
        angles: &[[f32; 2]],
    ) {
        let (ops, pairs) = (RowOps::of(self.compute.isa()), self.rope.pairs());
        self.each_row(rows, width, |row, data| {
            if let Some(bias) = bias {
                add(data, bias);
            }
            if let Some(gain) = norm {
                let mut normed = vec![0.0; gain.len()];
                for head in data.chunks_exact_mut(gain.len()) {
                    ops.rms_norm(head, gain, self.config.norm_epsilon, &mut normed);
                    head.copy_from_slice(&normed);
                }
            }
            self.rope.rotate(data, self.config.head_dim, &angles[row * pairs..(row + 1) * pairs]);
        });
    }

    fn feed_forward_layer(&self, workspace: &mut Workspace, layer: &Layer) {
        let Workspace { activations, residual, normed, gate, up, product, .. } = workspace;
        let (width, hidden) = (self.config.width, self.config.feed_forward);
        let count = residual.len() / width;
        self.norm(residual, &layer.feed_forward_norm, normed);
        activations.set(&self.compute, normed, count, width);
        gate.resize(count * hidden, 0.0);
        up.resize(count * hidden, 0.0);
        let products = &mut [Product::new(&layer.gate, gate, hidden), Product::new(&layer.up, up, hidden)];
        matmul(&self.compute, activations, products);
        let (ops, up) = (RowOps::of(self.compute.isa()), &*up);
        let activation = self.config.activation;
        self.each_row(gate, hidden, |row, gate| ops.gate(activation, gate, &up[row * hidden..(row + 1) * hidden]));
        activations.set(&self.compute, gate, count, hidden);
        let norm = layer.post_feed_forward_norm.as_deref();
        self.add_product(activations, &layer.down, norm, [product, normed], residual);
    }

    fn logits(&self, workspace: &mut Workspace, rows: &[BatchRow]) -> Result<(), LmError> {
        let Workspace { activations, residual, normed, logits, product, .. } = workspace;
        let (width, vocabulary) = (self.config.width, self.config.vocabulary);
        product.clear();
        for (_, row) in rows.iter().zip(residual.chunks_exact(width)).filter(|(row, _)| row.wants_logits) {
            product.extend_from_slice(row);
        }
        let count = product.len() / width;
        self.norm(product, &self.output_norm, normed);
        activations.set(&self.compute, normed, count, width);
        logits.clear();
        logits.resize(count * vocabulary, 0.0);
        matmul(&self.compute, activations, &mut [Product::new(&self.output, logits, vocabulary)]);
        if let Some(cap) = self.config.logit_softcap {
            self.each_row(logits, vocabulary, |_, row| row.iter_mut().for_each(|x| *x = cap * (*x / cap).tanh()));
        }
        // A sum over all is finite if each is, unless it overflows, which logits do not.
        let is_finite =
            logits.chunks(vocabulary.max(1)).all(|row| row.iter().map(|x| x * 1e-6).sum::<f32>().is_finite());
        if is_finite { Ok(()) } else { Err(LmError::NotFinite) }
    }
}

fn add(row: &mut [f32], bias: &[f32]) {
    row.iter_mut().zip(bias).for_each(|(to, from)| *to += from);
}
