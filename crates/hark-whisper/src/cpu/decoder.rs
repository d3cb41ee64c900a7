//! The decoder: tokens in, scores out, for many rows at once.

use super::attention::{IN_ORDER, KeyValues, SCALE, ScoreTap, attend_block};
use super::buffer::{Buffer, SharedMut};
use super::cache::FrameCache;
use super::encoder::{LayerNorm, add_to, load_linear, load_stacked, store_bf16};
use super::kernels::{BLOCK, FEW_ROWS, Finish, HEAD, PastAttention, RoundedAttention};
use super::linear::{Linear, RUN, Rows, apply, apply_in_runs};
use super::{Compute, CpuOptions};
use crate::backend::{AlignmentScores, Answer, Ask, Entry, TokenMap};
use crate::pick::{self, Best, Total};
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

/// The decoder's weights, the windows it looks at, and the past of its rows.
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
    /// Windows' keys and values: one for each slot, then those of the memories. They take their room when they are first
    /// used: with large-v3 that is 123 MB each.
    windows: Vec<Option<FrameCache>>,
    /// Which of them each slot looks at.
    window_of: Vec<usize>,
    /// Where a layer's keys and values are computed before they are rounded.
    projected: KeyValues,
    rows_a_slot: usize,
    past: Past,
    room: Room,
}

/// Self-attention keys and values of all rows: `[slot][position][layer][row of the slot][key, value][width]`, and behind
/// the slots those of the row that alignment runs on.
///
/// Slots and positions come first so that memory is touched only for slots in use, and only as far as their longest row
/// reaches. A row's past is a list of which row wrote each position, so following another hypothesis copies a list of
/// numbers and no keys.
struct Past {
    cache: Buffer<u16>,
    rows_a_slot: usize,
    positions: usize,
    layers: usize,
    width: usize,
    /// By row, counted over all slots; the last one is alignment's.
    lineage: Vec<Vec<u16>>,
}

impl Past {
    fn new(slots: usize, rows_a_slot: usize, positions: usize, layers: usize, width: usize) -> Self {
        let rows = slots * rows_a_slot + 1;
        let cache = Buffer::zeroed(rows * positions * layers * 2 * width);
        Past { cache, rows_a_slot, positions, layers, width, lineage: vec![Vec::new(); rows] }
    }

    /// The row that belongs to no slot.
    fn spare_row(&self) -> usize {
        self.lineage.len() - 1
    }

    fn offset(&self, position: usize, layer: usize, row: usize) -> usize {
        let first = row / self.rows_a_slot * self.rows_a_slot;
        let beside = if row == self.spare_row() { 1 } else { self.rows_a_slot };
        let place = first * self.positions * self.layers + (position * self.layers + layer) * beside;
        (place + row - first) * 2 * self.width
    }

    /// Lets every entry's row follow its parent and own its position.
    fn follow(&mut self, entries: &[Step]) {
        let inherited: Vec<(usize, Vec<u16>)> = entries
            .iter()
            .filter(|step| step.parent != step.row)
            .map(|step| (step.row, self.lineage[step.parent][..step.position].to_vec()))
            .collect();
        for (row, lineage) in inherited {
            self.lineage[row] = lineage;
        }
        for step in entries {
            let lineage = &mut self.lineage[step.row];
            assert!(lineage.len() >= step.position, "a row grows by one position at a time");
            lineage.truncate(step.position);
            lineage.push(step.row as u16);
        }
    }
}

/// An [`Entry`] with its rows counted over all slots.
#[derive(Clone, Copy)]
struct Step {
    slot: usize,
    row: usize,
    parent: usize,
    position: usize,
    token: u32,
}

/// Where the layers put what they compute; grows with the largest batch.
struct Room {
    rows: usize,
    stream: Buffer<f32>,
    normed: Buffer<u16>,
    query: Buffer<u16>,
    attended: Buffer<u16>,
    hidden: Buffer<u16>,
    asking: Buffer<u16>,
    scores: Buffer<f32>,
}

impl Room {
    fn new(rows: usize, width: usize) -> Self {
        let padded = rows.next_multiple_of(BLOCK) + BLOCK;
        Room {
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
    /// Packs the decoder's weights and makes room for its windows and their rows.
    pub fn load(checkpoint: &Checkpoint, tokens: TokenMap, options: CpuOptions) -> Result<Self, WeightsError> {
        let CpuOptions { slots, rows: rows_a_slot, weights, memories, .. } = options;
        let dims = checkpoint.dims;
        let width = dims.n_text_state;
        let layers = (0..dims.n_text_layer)
            .map(|index| {
                let name = |part: &str| format!("decoder.blocks.{index}.{part}");
                let linear = |part: &str| load_linear(checkpoint, &name(part), weights);
                Ok(Layer {
                    norm: LayerNorm::load(checkpoint, &name("attn_ln"))?,
                    query_key_value: load_stacked(
                        checkpoint,
                        &[(&name("attn.query"), 1.0), (&name("attn.key"), 1.0), (&name("attn.value"), 1.0)],
                        weights,
                    )?,
                    out: linear("attn.out")?,
                    cross_norm: LayerNorm::load(checkpoint, &name("cross_attn_ln"))?,
                    cross_query: linear("cross_attn.query")?,
                    cross_key_value: load_stacked(
                        checkpoint,
                        &[(&name("cross_attn.key"), 1.0), (&name("cross_attn.value"), 1.0)],
                        weights,
                    )?,
                    cross_out: linear("cross_attn.out")?,
                    mlp_norm: LayerNorm::load(checkpoint, &name("mlp_ln"))?,
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
            last_norm: LayerNorm::load(checkpoint, "decoder.ln")?,
            alignment_heads: checkpoint.alignment_heads.clone(),
            tokens,
            windows: (0..slots + memories).map(|_| None).collect(),
            window_of: (0..slots).collect(),
            projected: KeyValues::new(dims.n_text_head, dims.n_audio_ctx),
            rows_a_slot,
            past: Past::new(slots, rows_a_slot, dims.n_text_ctx, layers.len(), width),
            room: Room::new(BLOCK, width),
            layers,
        })
    }

    /// Projects a window's encoder states into the slot's keys and values.
    pub fn admit(&mut self, compute: &Compute, slot: usize, states: Rows) {
        self.window_of[slot] = slot;
        self.project(compute, slot, states, None);
    }

    /// Projects encoder states into the keys and values of a memory, all of them or those from a row on, and lets the slot
    /// look at it.
    pub fn admit_again(&mut self, compute: &Compute, slot: usize, memory: usize, states: Rows, first: Option<usize>) {
        let window = self.window_of.len() + memory;
        self.window_of[slot] = window;
        self.project(compute, window, states, first);
    }

    fn project(&mut self, compute: &Compute, window: usize, states: Rows, part: Option<usize>) {
        let width = self.width;
        let first = part.unwrap_or(0);
        let (heads, frames, layers) = (self.heads, self.frames, self.layers.len());
        let cache = self.windows[window].get_or_insert_with(|| FrameCache::new(layers * heads, frames));
        for (index, layer) in self.layers.iter().enumerate() {
            let keys = self.projected.key_writer(compute);
            let values = self.projected.value_writer(compute, &IN_ORDER);
            apply(compute, states, &layer.cross_key_value, &|done, row, column| match column / width {
                0 => keys(done, first + row, column),
                _ => values(done, first + row, column - width),
            });
            match part {
                None => cache.fill(compute, &self.projected, index * heads, heads),
                Some(first) => {
                    cache.refill(compute, &self.projected, first..first + states.count, index * heads, heads);
                }
            }
        }
    }

    /// Puts all entries through the decoder and answers those that ask.
    pub fn step(&mut self, compute: &Compute, entries: &[Entry]) -> Vec<Answer> {
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

        let asking: Vec<usize> = (0..entries.len()).filter(|&index| entries[index].ask.is_some()).collect();
        if asking.is_empty() {
            return Vec::new();
        }
        let width = self.width;
        self.last_norm.apply(compute, &self.room.stream, entries.len(), &mut self.room.normed, width);
        for (to, &from) in asking.iter().enumerate() {
            let row = &self.room.normed[from * width..(from + 1) * width];
            self.room.asking[to * width..(to + 1) * width].copy_from_slice(row);
        }
        let rows = Rows { start: self.room.asking.as_ptr(), stride: width, count: asking.len() };
        let asks: Vec<&Ask> = asking.iter().filter_map(|&index| entries[index].ask.as_ref()).collect();
        self.answer(compute, rows, &asks)
    }

    /// Answers `asks` from the states in `rows`.
    ///
    /// Most questions are answered run by run of tokens while the scores are still near; only the others have their scores
    /// written down whole.
    fn answer(&mut self, compute: &Compute, rows: Rows, asks: &[&Ask]) -> Vec<Answer> {
        let (columns, vocabulary, tokens) = (self.embedding.columns(), self.vocabulary, &self.tokens);
        let mut written = 0;
        let place_of: Vec<Option<usize>> = asks
            .iter()
            .map(|ask| {
                pick::needs_all_scores(ask).then(|| {
                    written += 1;
                    written - 1
                })
            })
            .collect();
        if self.room.scores.len() < written * columns {
            self.room.scores = Buffer::zeroed(written * columns);
        }
        let scores = self.room.scores.shared();
        let log_sum = |scores: &[f32]| {
            // SAFETY: a slice has its length.
            unsafe { (compute.kernels.log_sum)(scores.as_ptr(), scores.len()) }
        };

        let runs = columns.div_ceil(RUN);
        let mut totals = vec![[Total::NOTHING; 2]; asks.len() * runs];
        let mut best: Vec<[Best; 2]> =
            (0..compute.team.members()).flat_map(|_| asks.iter().map(|ask| Best::pair(ask.best))).collect();
        let (totals_out, best_out) = (SharedMut::new(totals.as_mut_ptr()), SharedMut::new(best.as_mut_ptr()));
        apply_in_runs(compute, rows, &self.embedding, &|mut run| {
            let (index, member) = (run.columns.start / RUN, run.member);
            let known = run.columns.start..run.columns.end.min(vocabulary);
            let stretch = pick::Stretch::new(tokens, known.clone());
            for row in run.rows.clone() {
                let here = &mut run.row(row)[..known.len()];
                // SAFETY: these columns of a row, their total, and a member's best of a row belong to this piece alone.
                unsafe {
                    if let Some(place) = place_of[row] {
                        let to = scores.at(place * columns + known.start);
                        std::ptr::copy_nonoverlapping(here.as_ptr(), to, here.len());
                    } else {
                        let best = &mut *best_out.at(member * asks.len() + row);
                        *totals_out.at(row * runs + index) = stretch.look(here, asks[row], best, &log_sum);
                    }
                }
            }
        });
        let mut answers = vec![Answer::default(); asks.len()];
        let out = SharedMut::new(answers.as_mut_ptr());
        compute.each(asks.len(), |row, _| {
            let answer = if let Some(place) = place_of[row] {
                // SAFETY: a row's scores belong to this piece alone.
                let scores = unsafe { std::slice::from_raw_parts_mut(scores.at(place * columns), vocabulary) };
                pick::answer(scores, tokens, asks[row], &log_sum)
            } else {
                let best = best.iter().skip(row).step_by(asks.len());
                pick::conclude(asks[row], &totals[row * runs..(row + 1) * runs], best)
            };
            // SAFETY: a row's answer belongs to this piece alone.
            unsafe { *out.at(row) = answer };
        });
        answers
    }

    /// Scores of the alignment heads for `tokens[first..]`.
    pub fn align(
        &mut self,
        compute: &Compute,
        slot: usize,
        tokens: &[u32],
        first: usize,
        frames: usize,
    ) -> AlignmentScores {
        let row = self.past.spare_row();
        let steps: Vec<Step> = tokens
            .iter()
            .enumerate()
            .take(self.positions)
            .map(|(position, &token)| Step { slot, row, parent: row, position, token })
            .collect();
        self.past.lineage[row].clear();
        let rows = steps.len().saturating_sub(first);
        let heads = self.alignment_heads.len();
        let mut captured = AlignmentScores { heads, rows, frames, scores: vec![0.0; heads * rows * frames] };
        self.forward(compute, &steps, Some((first, &mut captured)));
        captured
    }

    /// Runs all layers; the residual stream ends up in `room.stream`.
    fn forward(&mut self, compute: &Compute, steps: &[Step], mut capture: Option<(usize, &mut AlignmentScores)>) {
        let (width, count) = (self.width, steps.len());
        if self.room.rows < count {
            self.room =
                Room { scores: std::mem::replace(&mut self.room.scores, Buffer::zeroed(0)), ..Room::new(count, width) };
        }
        self.past.follow(steps);
        self.embed(steps);
        let groups = groups(steps);
        for index in 0..self.layers.len() {
            let layer = &self.layers[index];
            let room = &mut self.room;
            let normed = Rows { start: room.normed.as_ptr(), stride: width, count };
            layer.norm.apply(compute, &room.stream, count, &mut room.normed, width);
            let query = store_bf16(compute, room.query.shared(), width, false);
            let remember = remember(compute, &mut self.past, steps, index);
            apply(compute, normed, &layer.query_key_value, &|done, row, column| match column / width {
                0 => query(done, row, column),
                _ => remember(done, row, column - width),
            });
            attend_past(compute, &self.past, steps, index, &room.query, &mut room.attended, self.heads);
            let attended = Rows { start: room.attended.as_ptr(), stride: width, count };
            apply(compute, attended, &layer.out, &add_to(compute, room.stream.shared(), width, false));

            layer.cross_norm.apply(compute, &room.stream, count, &mut room.normed, width);
            apply(compute, normed, &layer.cross_query, &store_bf16(compute, room.query.shared(), width, false));
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
            let (layer, room) = (&self.layers[index], &mut self.room);
            apply(compute, attended, &layer.cross_out, &add_to(compute, room.stream.shared(), width, false));

            layer.mlp_norm.apply(compute, &room.stream, count, &mut room.normed, width);
            apply(compute, normed, &layer.up, &store_bf16(compute, room.hidden.shared(), 4 * width, true));
            let hidden = Rows { start: room.hidden.as_ptr(), stride: 4 * width, count };
            apply(compute, hidden, &layer.down, &add_to(compute, room.stream.shared(), width, false));
        }
    }

    /// Token and position embeddings into the residual stream.
    fn embed(&mut self, steps: &[Step]) {
        let width = self.width;
        for (step, out) in steps.iter().zip(self.room.stream.chunks_exact_mut(width)) {
            let position = &self.position_embedding[step.position * width..];
            for (k, out) in out.iter_mut().enumerate() {
                *out = self.embedding.weight(step.token as usize, k) + position[k];
            }
        }
    }

    /// Every row looks at its window; rows of one window share the reading of its keys and values.
    fn attend_windows(
        &mut self,
        compute: &Compute,
        groups: &[Group],
        layer: usize,
        taps: &[(usize, usize)],
        capture: Option<(usize, &mut AlignmentScores)>,
    ) {
        let (width, heads) = (self.width, self.heads);
        let query = Rows { start: self.room.query.as_ptr(), stride: width, count: 0 };
        let out = self.room.attended.shared();
        let (windows, window_of) = (&self.windows, &self.window_of);
        let captured = capture
            .map(|(first, scores)| (first, scores.rows, scores.frames, SharedMut::new(scores.scores.as_mut_ptr())));
        compute.each(groups.len() * heads, |piece, _| {
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
            let cache = windows[window_of[group.slot]].as_ref().expect("a window is encoded before it is looked at");
            let place = layer * heads + head;
            let to = out.at(group.first * width + head * HEAD);
            if let Some(attend_rounded) = compute.kernels.attend_rounded.filter(|_| group.count <= FEW_ROWS) {
                let (keys, values) = cache.head(place);
                let mut copy_row = |row: usize, scores: &[f32]| copy(row, 0, scores);
                // SAFETY: the group's rows and this head's columns belong to this piece alone.
                unsafe {
                    attend_rounded(&mut RoundedAttention {
                        query: block.start,
                        query_stride: width,
                        rows: group.count,
                        keys,
                        values,
                        key_units: cache.key_units(place),
                        value_units: cache.value_units(place),
                        frames: cache.frames,
                        scale: SCALE,
                        out: to,
                        out_stride: width,
                        tap: if tap_of_head.is_some() { Some(&mut copy_row) } else { None },
                    });
                }
                return;
            }
            let tap: Option<ScoreTap> = if tap_of_head.is_some() { Some(&mut copy) } else { None };
            // SAFETY: the group's rows and this head's columns belong to this piece alone; buffers are padded.
            unsafe { attend_block(compute, block, cache, place, to, width, tap) };
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

/// A finish that writes new keys and values (columns `0..width` and `width..2*width`) into the rows' past.
fn remember(
    compute: &Compute,
    past: &mut Past,
    steps: &[Step],
    layer: usize,
) -> impl Fn(&Finish, usize, usize) + Sync + use<> {
    let places: Vec<usize> = steps.iter().map(|step| past.offset(step.position, layer, step.row)).collect();
    let (cache, finish_bf16) = (past.cache.shared(), compute.kernels.finish_bf16);
    move |done, row, column| {
        let mut block = [[0u16; BLOCK]; BLOCK];
        // SAFETY: the block has 32 rows of 32; each step has its own place in the cache.
        unsafe {
            finish_bf16(done, block.as_mut_ptr().cast(), BLOCK);
            for line in 0..done.rows {
                let to = cache.at(places[row + line] + column);
                std::ptr::copy_nonoverlapping(block[line].as_ptr(), to, BLOCK);
            }
        }
    }
}

/// Self-attention: every row looks at its own past.
fn attend_past(
    compute: &Compute,
    past: &Past,
    steps: &[Step],
    layer: usize,
    query: &[u16],
    out: &mut Buffer<u16>,
    heads: usize,
) {
    let width = past.width;
    let out = out.shared();
    compute.each(steps.len(), |index, _| {
        let step = &steps[index];
        let mut rows = [std::ptr::null::<u16>(); MAX_POSITIONS];
        let mut weights = [0f32; MAX_HEADS * MAX_POSITIONS];
        let positions = step.position + 1;
        for (position, &row) in past.lineage[step.row][..positions].iter().enumerate() {
            rows[position] = past.cache[past.offset(position, layer, usize::from(row))..].as_ptr();
        }
        // SAFETY: the rows of the cache hold a key and a value of `width`; the output row belongs to this piece.
        unsafe {
            (compute.kernels.attend_past)(&mut PastAttention {
                query: query[index * width..].as_ptr(),
                past: &rows[..positions],
                value_offset: width,
                heads,
                scale: SCALE,
                weights: &mut weights[..heads * positions],
                out: out.at(index * width),
            });
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_a_place_of_its_own_and_slots_lie_apart() {
        let (slots, rows_a_slot, positions, layers, width) = (3, 5, 7, 4, 64);
        let past = Past::new(slots, rows_a_slot, positions, layers, width);
        let mut taken = vec![false; past.cache.len() / (2 * width)];
        for row in 0..=past.spare_row() {
            for position in 0..positions {
                for layer in 0..layers {
                    let place = past.offset(position, layer, row) / (2 * width);
                    assert!(!std::mem::replace(&mut taken[place], true), "row {row} writes over another");
                    let a_slot = rows_a_slot * positions * layers;
                    assert_eq!(place / a_slot, row / rows_a_slot, "a slot's rows lie together");
                }
            }
        }
        assert!(taken.iter().all(|taken| *taken), "no room is left over");
    }
}
