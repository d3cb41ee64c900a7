//! The decoder: tokens in, scores out, for many rows at once.

use hark_compute::Compute;
use hark_compute::attention::{IN_ORDER, Int8KeyValues, KeyValues, ScoreTap, cross_attention};
use hark_compute::buffer::{Buffer, SharedMut};
use hark_compute::kernels::{BLOCK, HEAD};
use hark_compute::linear::{Linear, RUN, Rows, add_residual, matmul, matmul_in_runs, store_bf16};
use hark_compute::norm::LayerNorm;
use hark_compute::view::MatMut;

use super::CpuOptions;
use super::encoder::{all_finite, load_linear, load_norm, load_stacked};
use super::kv_cache::{KvCache, KvWriter, attend_past};
use crate::backend::{AlignmentRequest, AlignmentScores, Answer, BackendError, Entry, TokenMap, TokenQuery};
use crate::logits::{self, LogSumExp, TopK};
use crate::weights::{Checkpoint, WeightsError};

/// Most positions and heads of any Whisper, for arrays on the stack.
pub const MAX_POSITIONS: usize = 448;
pub const MAX_HEADS: usize = 20;

struct Layer {
    norm: LayerNorm,
    query_key_value: Linear,
    out: Linear,
    cross_norm: LayerNorm,
    cross_query: Linear,
    cross_key_value: Linear,
    cross_out: Linear,
    mlp_norm: LayerNorm,
    up: Linear,
    down: Linear,
}

/// The decoder's weights, the windows it attends to, and the KV cache of its rows.
pub struct Decoder {
    width: usize,
    heads: usize,
    /// Positions of the encoder.
    frames: usize,
    vocabulary: usize,
    positions: usize,
    layers: Vec<Layer>,
    embedding: Linear,
    position_embedding: Vec<f32>,
    last_norm: LayerNorm,
    alignment_heads: Vec<(usize, usize)>,
    tokens: TokenMap,
    /// Cross-attention keys and values of windows: one for each slot, then those of the encoder caches. They are allocated when first
    /// used: with large-v3 that is 123 MB each.
    windows: Vec<Option<Int8KeyValues>>,
    /// Which of them each slot attends to.
    window_of: Vec<usize>,
    /// Where a layer's keys and values are computed before they are quantized.
    projected: KeyValues,
    rows_a_slot: usize,
    kv_cache: KvCache,
    workspace: Workspace,
}

/// An [`Entry`] with its rows counted over all slots.
#[derive(Clone, Copy)]
pub(super) struct Step {
    pub(super) slot: usize,
    pub(super) row: usize,
    pub(super) parent: usize,
    pub(super) position: usize,
    pub(super) token: u32,
}

/// The workspace of the layers; grows with the largest batch.
struct Workspace {
    rows: usize,
    stream: Buffer<f32>,
    normed: Buffer<u16>,
    query: Buffer<u16>,
    attended: Buffer<u16>,
    hidden: Buffer<u16>,
    asking: Buffer<u16>,
    scores: Buffer<f32>,
}

impl Workspace {
    fn new(rows: usize, width: usize) -> Self {
        let padded = rows.next_multiple_of(BLOCK) + BLOCK;
        Workspace {
            rows,
            stream: Buffer::zeroed(padded * width),
            normed: Buffer::zeroed(padded * width),
            query: Buffer::zeroed(padded * width),
            attended: Buffer::zeroed(padded * width),
            hidden: Buffer::zeroed(padded * 4 * width),
            asking: Buffer::zeroed(padded * width),
            scores: Buffer::zeroed(0),
        }
    }
}

impl Decoder {
    /// Packs the decoder's weights and makes workspace for its windows and their rows.
    pub fn load(checkpoint: &Checkpoint, tokens: TokenMap, options: CpuOptions) -> Result<Self, WeightsError> {
        let CpuOptions { slots, rows: rows_a_slot, weights, encoder_caches, .. } = options;
        let dims = checkpoint.dims;
        let width = dims.n_text_state;
        let layers = (0..dims.n_text_layer)
            .map(|index| {
                let name = |part: &str| format!("decoder.blocks.{index}.{part}");
                let linear = |part: &str| load_linear(checkpoint, &name(part), weights);
                Ok(Layer {
                    norm: load_norm(checkpoint, &name("attn_ln"))?,
                    query_key_value: load_stacked(
                        checkpoint,
                        &[(&name("attn.query"), 1.0), (&name("attn.key"), 1.0), (&name("attn.value"), 1.0)],
                        weights,
                    )?,
                    out: linear("attn.out")?,
                    cross_norm: load_norm(checkpoint, &name("cross_attn_ln"))?,
                    cross_query: linear("cross_attn.query")?,
                    cross_key_value: load_stacked(
                        checkpoint,
                        &[(&name("cross_attn.key"), 1.0), (&name("cross_attn.value"), 1.0)],
                        weights,
                    )?,
                    cross_out: linear("cross_attn.out")?,
                    mlp_norm: load_norm(checkpoint, &name("mlp_ln"))?,
                    up: linear("mlp.0")?,
                    down: linear("mlp.2")?,
                })
            })
            .collect::<Result<Vec<_>, WeightsError>>()?;
        Ok(Decoder {
            width,
            heads: dims.n_text_head,
            frames: dims.n_audio_ctx,
            vocabulary: dims.n_vocab,
            positions: dims.n_text_ctx,
            embedding: load_linear(checkpoint, "decoder.token_embedding", weights)?,
            position_embedding: checkpoint.tensor("decoder.positional_embedding")?,
            last_norm: load_norm(checkpoint, "decoder.ln")?,
            alignment_heads: checkpoint.alignment_heads.clone(),
            tokens,
            windows: (0..slots + encoder_caches).map(|_| None).collect(),
            window_of: (0..slots).collect(),
            projected: KeyValues::new(dims.n_text_head, dims.n_audio_ctx),
            rows_a_slot,
            kv_cache: KvCache::new(slots, rows_a_slot, dims.n_text_ctx, layers.len(), width),
            workspace: Workspace::new(BLOCK, width),
            layers,
        })
    }

    /// Projects a window's encoder states into the slot's keys and values.
    pub fn admit(&mut self, compute: &Compute, slot: usize, states: Rows) -> Result<(), BackendError> {
        self.project(compute, slot, states, None)?;
        self.window_of[slot] = slot;
        Ok(())
    }

    /// Projects encoder states into the keys and values of a cached window, all of them or those from a row on, and lets the
    /// slot attend to it.
    pub fn admit_cached(
        &mut self,
        compute: &Compute,
        slot: usize,
        cache: usize,
        states: Rows,
        first: Option<usize>,
    ) -> Result<(), BackendError> {
        let window = self.window_of.len() + cache;
        self.project(compute, window, states, first)?;
        self.window_of[slot] = window;
        Ok(())
    }

    fn project(
        &mut self,
        compute: &Compute,
        window: usize,
        states: Rows,
        part: Option<usize>,
    ) -> Result<(), BackendError> {
        let width = self.width;
        let first = part.unwrap_or(0);
        let (heads, frames, layers) = (self.heads, self.frames, self.layers.len());
        if self.windows[window].is_none() {
            self.windows[window] = Int8KeyValues::new(layers * heads, frames);
        }
        let Some(cache) = &mut self.windows[window] else {
            let bytes = Int8KeyValues::bytes(layers * heads, frames);
            return Err(BackendError::OutOfMemory(format!("a window's keys and values need {bytes} bytes")));
        };
        for (index, layer) in self.layers.iter().enumerate() {
            let (keys, values) = self.projected.writers(compute, &IN_ORDER);
            // SAFETY: each block of the product is finished once.
            matmul(compute, states, &layer.cross_key_value, &|done, row, column| unsafe {
                match column / width {
                    0 => keys.write(done, first + row, column),
                    _ => values.write(done, first + row, column - width),
                }
            });
            match part {
                None => cache.fill(compute, &self.projected, index * heads, heads),
                Some(first) => {
                    cache.refill(compute, &self.projected, first..first + states.count(), index * heads, heads);
                }
            }
        }
        Ok(())
    }

    /// Bytes of the weights.
    pub fn weight_bytes(&self) -> u64 {
        let of_layer = |layer: &Layer| {
            let Layer { query_key_value, out, cross_query, cross_key_value, cross_out, up, down, .. } = layer;
            let all = [query_key_value, out, cross_query, cross_key_value, cross_out, up, down];
            all.map(Linear::memory).iter().sum::<u64>()
        };
        let positions = (self.position_embedding.len() * 4) as u64;
        self.layers.iter().map(of_layer).sum::<u64>() + self.embedding.memory() + positions + self.projected.bytes()
    }

    /// Frees the memory of windows, rows and the workspace. No slot may hold a window.
    pub fn trim(&mut self) {
        self.windows.iter_mut().for_each(|window| *window = None);
        (0..self.window_of.len()).for_each(|slot| self.window_of[slot] = slot);
        self.projected.clear();
        self.kv_cache.cache.clear();
        self.kv_cache.lineage.iter_mut().for_each(|lineage| *lineage = Vec::new());
        self.workspace = Workspace::new(BLOCK, self.width);
    }

    /// Checks the entries, which come from outside: invalid ones would panic or write to one position twice.
    fn check(&self, entries: &[Entry]) -> Result<(), BackendError> {
        let fault = |what: &str| Err(BackendError::Fault(format!("a step can't be done: {what}")));
        let mut places: Vec<(usize, usize)> = Vec::with_capacity(entries.len());
        for entry in entries {
            if entry.slot >= self.window_of.len() || entry.row.max(entry.parent) >= self.rows_a_slot {
                return fault("there is no such slot or row");
            }
            if entry.position >= self.positions || entry.token as usize >= self.vocabulary {
                return fault("a token or its position is beyond the network");
            }
            if self.windows[self.window_of[entry.slot]].is_none() {
                return fault("no window was encoded into the slot");
            }
            places.push((entry.slot * self.rows_a_slot + entry.row, entry.position));
        }
        places.sort_unstable();
        if places.windows(2).any(|two| two[0] == two[1]) {
            return fault("a row has two tokens at one position");
        }
        Ok(())
    }

    /// Runs all entries through the decoder and answers their queries.
    pub fn step(&mut self, compute: &Compute, entries: &[Entry]) -> Result<Vec<Answer>, BackendError> {
        self.check(entries)?;
        let steps: Vec<Step> = entries
            .iter()
            .map(|entry| Step {
                slot: entry.slot,
                row: entry.slot * self.rows_a_slot + entry.row,
                parent: entry.slot * self.rows_a_slot + entry.parent,
                position: entry.position,
                token: entry.token,
            })
            .collect();
        self.forward(compute, &steps, None);

        let asking: Vec<usize> = (0..entries.len()).filter(|&index| entries[index].query.is_some()).collect();
        if asking.is_empty() {
            return Ok(Vec::new());
        }
        let width = self.width;
        self.last_norm.apply(compute, &self.workspace.stream, entries.len(), &mut self.workspace.normed, width);
        for (to, &from) in asking.iter().enumerate() {
            let row = &self.workspace.normed[from * width..(from + 1) * width];
            self.workspace.asking[to * width..(to + 1) * width].copy_from_slice(row);
        }
        if !all_finite(&self.workspace.asking[..asking.len() * width]) {
            return Err(BackendError::Fault("the decoder's states are not finite".to_owned()));
        }
        let queries: Vec<&TokenQuery> = asking.iter().filter_map(|&index| entries[index].query.as_ref()).collect();
        Ok(self.answer(compute, &queries))
    }

    /// Answers `queries` from the states in `workspace.asking`.
    ///
    /// Most queries are answered by runs of tokens while the logits are in cache; only for the others all logits are
    /// stored.
    fn answer(&mut self, compute: &Compute, queries: &[&TokenQuery]) -> Vec<Answer> {
        let (columns, vocabulary, tokens) = (self.embedding.columns(), self.vocabulary, &self.tokens);
        let mut written = 0;
        let place_of: Vec<Option<usize>> = queries
            .iter()
            .map(|query| {
                logits::needs_all_scores(query).then(|| {
                    written += 1;
                    written - 1
                })
            })
            .collect();
        if self.workspace.scores.len() < written * columns {
            self.workspace.scores = Buffer::zeroed(written * columns);
        }
        let rows = Rows::new(&self.workspace.asking, self.width, queries.len());
        let scores = self.workspace.scores.shared();
        let log_sum = |scores: &[f32]| compute.kernels().log_sum(scores);

        let runs = columns.div_ceil(RUN);
        let mut totals = vec![[LogSumExp::EMPTY; 2]; queries.len() * runs];
        let mut best: Vec<[TopK; 2]> =
            (0..compute.threads()).flat_map(|_| queries.iter().map(|query| TopK::pair(query.top_k))).collect();
        let (totals_out, best_out) = (SharedMut::new(totals.as_mut_ptr()), SharedMut::new(best.as_mut_ptr()));
        matmul_in_runs(compute, rows, &self.embedding, &|mut run| {
            let (index, thread) = (run.columns.start / RUN, run.thread);
            let known = run.columns.start..run.columns.end.min(vocabulary);
            let stretch = logits::TokenRange::new(tokens, known.clone());
            for row in run.rows.clone() {
                let here = &mut run.row(row)[..known.len()];
                // SAFETY: these columns of a row, their total, and a thread's best of a row belong to this piece alone.
                unsafe {
                    if let Some(place) = place_of[row] {
                        let to = scores.at(place * columns + known.start);
                        std::ptr::copy_nonoverlapping(here.as_ptr(), to, here.len());
                    } else {
                        let best = &mut *best_out.at(thread * queries.len() + row);
                        *totals_out.at(row * runs + index) = stretch.scan(here, queries[row], best, &log_sum);
                    }
                }
            }
        });
        let mut answers = vec![Answer::default(); queries.len()];
        let out = SharedMut::new(answers.as_mut_ptr());
        compute.parallel_for(queries.len(), |row, _| {
            let answer = if let Some(place) = place_of[row] {
                // SAFETY: a row's scores belong to this piece alone.
                let scores = unsafe { std::slice::from_raw_parts_mut(scores.at(place * columns), vocabulary) };
                logits::answer(scores, tokens, queries[row], &log_sum)
            } else {
                let best = best.iter().skip(row).step_by(queries.len());
                logits::conclude(queries[row], &totals[row * runs..(row + 1) * runs], best)
            };
            // SAFETY: a row's answer belongs to this piece alone.
            unsafe { *out.at(row) = answer };
        });
        answers
    }

    /// Scores of the alignment heads for the request's tokens from its first on.
    pub fn align(&mut self, compute: &Compute, request: &AlignmentRequest) -> Result<AlignmentScores, BackendError> {
        let &AlignmentRequest { slot, tokens, first, frames } = request;
        let row = self.kv_cache.spare_row();
        let is_known = |token: &u32| (*token as usize) < self.vocabulary;
        let window = self.window_of.get(slot).and_then(|&window| self.windows[window].as_ref());
        if window.is_none() || frames > self.frames || !tokens.iter().all(is_known) {
            return Err(BackendError::Fault("a text can't be aligned: no such window or token".to_owned()));
        }
        let steps: Vec<Step> = tokens
            .iter()
            .enumerate()
            .take(self.positions)
            .map(|(position, &token)| Step { slot, row, parent: row, position, token })
            .collect();
        self.kv_cache.lineage[row].clear();
        let rows = steps.len().saturating_sub(first);
        let heads = self.alignment_heads.len();
        let mut captured = AlignmentScores { heads, rows, frames, scores: vec![0.0; heads * rows * frames] };
        self.forward(compute, &steps, Some((first, &mut captured)));
        let odd = captured.scores.iter().fold(0u32, |odd, score| odd + u32::from(!score.is_finite()));
        if odd > 0 {
            return Err(BackendError::Fault("the alignment's scores are not finite".to_owned()));
        }
        Ok(captured)
    }

    /// Runs all layers; the residual stream ends up in `workspace.stream`.
    fn forward(&mut self, compute: &Compute, steps: &[Step], mut capture: Option<(usize, &mut AlignmentScores)>) {
        let (width, count) = (self.width, steps.len());
        if self.workspace.rows < count {
            self.workspace = Workspace {
                scores: std::mem::replace(&mut self.workspace.scores, Buffer::zeroed(0)),
                ..Workspace::new(count, width)
            };
        }
        self.kv_cache.follow(steps);
        self.embed(steps);
        let groups = groups(steps);
        for index in 0..self.layers.len() {
            let layer = &self.layers[index];
            let workspace = &mut self.workspace;
            layer.norm.apply(compute, &workspace.stream, count, &mut workspace.normed, width);
            let kv_writer = KvWriter::new(compute, &mut self.kv_cache, steps, index);
            // SAFETY: every row of the step has a row in the workspace and a place of its own in the past; each block of a product is
            // finished once.
            unsafe {
                let query = store_bf16(compute, MatMut::new(&mut workspace.query, count, width, width), false);
                let normed = Rows::new(&workspace.normed, width, count);
                matmul(compute, normed, &layer.query_key_value, &|done, row, column| match column / width {
                    0 => query(done, row, column),
                    _ => kv_writer.write(done, row, column - width),
                });
            }
            attend_past(compute, &self.kv_cache, steps, index, &workspace.query, &mut workspace.attended, self.heads);
            // SAFETY: as above.
            unsafe {
                let attended = Rows::new(&workspace.attended, width, count);
                matmul(
                    compute,
                    attended,
                    &layer.out,
                    &add_residual(compute, MatMut::new(&mut workspace.stream, count, width, width), false),
                );
                layer.cross_norm.apply(compute, &workspace.stream, count, &mut workspace.normed, width);
                let normed = Rows::new(&workspace.normed, width, count);
                let query = MatMut::new(&mut workspace.query, count, width, width);
                matmul(compute, normed, &layer.cross_query, &store_bf16(compute, query, false));
            }
            let taps: Vec<(usize, usize)> = self
                .alignment_heads
                .iter()
                .enumerate()
                .filter(|(_, place)| capture.is_some() && place.0 == index)
                .map(|(tap, place)| (tap, place.1))
                .collect();
            self.attend_windows(
                compute,
                &groups,
                index,
                &taps,
                capture.as_mut().map(|(first, scores)| (*first, &mut **scores)),
            );
            let (layer, workspace) = (&self.layers[index], &mut self.workspace);
            // SAFETY: as above; the hidden rows are four times as wide.
            unsafe {
                let attended = Rows::new(&workspace.attended, width, count);
                matmul(
                    compute,
                    attended,
                    &layer.cross_out,
                    &add_residual(compute, MatMut::new(&mut workspace.stream, count, width, width), false),
                );
                layer.mlp_norm.apply(compute, &workspace.stream, count, &mut workspace.normed, width);
                let normed = Rows::new(&workspace.normed, width, count);
                let hidden = MatMut::new(&mut workspace.hidden, count, 4 * width, 4 * width);
                matmul(compute, normed, &layer.up, &store_bf16(compute, hidden, true));
                let hidden = Rows::new(&workspace.hidden, 4 * width, count);
                let stream = MatMut::new(&mut workspace.stream, count, width, width);
                matmul(compute, hidden, &layer.down, &add_residual(compute, stream, false));
            }
        }
    }

    /// Token and position embeddings into the residual stream.
    fn embed(&mut self, steps: &[Step]) {
        let width = self.width;
        for (step, out) in steps.iter().zip(self.workspace.stream.chunks_exact_mut(width)) {
            let position = &self.position_embedding[step.position * width..];
            for (k, out) in out.iter_mut().enumerate() {
                *out = self.embedding.weight(step.token as usize, k) + position[k];
            }
        }
    }

    /// Cross-attention: every row attends to its window; rows of one window share the reading of its keys and values.
    fn attend_windows(
        &mut self,
        compute: &Compute,
        groups: &[Group],
        layer: usize,
        taps: &[(usize, usize)],
        capture: Option<(usize, &mut AlignmentScores)>,
    ) {
        let (width, heads) = (self.width, self.heads);
        let query = Rows::new(&self.workspace.query, width, 0);
        let out = self.workspace.attended.shared();
        let (windows, window_of) = (&self.windows, &self.window_of);
        let captured = capture
            .map(|(first, scores)| (first, scores.rows, scores.frames, SharedMut::new(scores.scores.as_mut_ptr())));
        compute.parallel_for(groups.len() * heads, |piece, worker| {
            let (group, head) = (&groups[piece / heads], piece % heads);
            let block = query.part(group.first, group.count, head * HEAD);
            let tap_of_head = taps.iter().find(|&&(_, tapped)| tapped == head).map(|&(tap, _)| tap);
            let mut copy = |row: usize, frame: usize, scores: &[f32]| {
                let (Some((first, rows, frames, to)), Some(tap)) = (captured, tap_of_head) else { return };
                let row = group.first + row;
                if row < first || frame >= frames {
                    return;
                }
                for (index, &score) in scores.iter().take(frames - frame).enumerate() {
                    // SAFETY: inside `heads × rows × frames`; this head and these rows belong to this piece alone.
                    unsafe { *to.at((tap * rows + row - first) * frames + frame + index) = score * 0.125 };
                }
            };
            let cache = windows[window_of[group.slot]].as_ref().expect("entries were checked to have windows");
            let place = layer * heads + head;
            let to = out.at(group.first * width + head * HEAD);
            let tap: Option<ScoreTap> = if tap_of_head.is_some() { Some(&mut copy) } else { None };
            // SAFETY: the group's rows and this head's columns belong to this piece alone.
            let to = unsafe { MatMut::from_raw(to, group.count, HEAD, width) };
            cross_attention(worker, block, cache, place, to, tap);
        });
    }
}

/// Up to 32 neighbouring rows of one window.
struct Group {
    slot: usize,
    first: usize,
    count: usize,
}

fn groups(steps: &[Step]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        match groups.last_mut() {
            Some(group) if group.slot == step.slot && group.count < BLOCK => group.count += 1,
            _ => groups.push(Group { slot: step.slot, first: index, count: 1 }),
        }
    }
    groups
}
