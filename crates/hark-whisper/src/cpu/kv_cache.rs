//! The decoder's KV cache: keys and values of every token of every hypothesis.

use std::marker::PhantomData;

use hark_compute::Compute;
use hark_compute::attention::SCALE;
use hark_compute::buffer::{Buffer, SharedMut};
use hark_compute::kernels::{BLOCK, BlockEpilogue, CausalAttention};

use super::decoder::{MAX_HEADS, MAX_POSITIONS, Step};

/// Self-attention keys and values of all rows: `[slot][position][layer][row of the slot][key, value][width]`, and behind
/// the slots those of the row that alignment runs on.
///
/// Slots and positions come first so that memory is touched only for slots in use, and only as far as their longest row
/// reaches. A row's past is a list of which row wrote each position, so following another hypothesis copies a list of
/// numbers and no keys.
pub(super) struct KvCache {
    pub(super) cache: Buffer<u16>,
    rows_a_slot: usize,
    positions: usize,
    layers: usize,
    width: usize,
    /// By row, counted over all slots; the last one is alignment's.
    pub(super) lineage: Vec<Vec<u16>>,
}

impl KvCache {
    pub(super) fn new(slots: usize, rows_a_slot: usize, positions: usize, layers: usize, width: usize) -> Self {
        let rows = slots * rows_a_slot + 1;
        let cache = Buffer::zeroed(rows * positions * layers * 2 * width);
        KvCache { cache, rows_a_slot, positions, layers, width, lineage: vec![Vec::new(); rows] }
    }

    /// The row that belongs to no slot.
    pub(super) fn spare_row(&self) -> usize {
        self.lineage.len() - 1
    }

    pub(super) fn offset(&self, position: usize, layer: usize, row: usize) -> usize {
        let first = row / self.rows_a_slot * self.rows_a_slot;
        let beside = if row == self.spare_row() { 1 } else { self.rows_a_slot };
        let place = first * self.positions * self.layers + (position * self.layers + layer) * beside;
        (place + row - first) * 2 * self.width
    }

    /// Lets every entry's row follow its parent and own its position.
    pub(super) fn follow(&mut self, entries: &[Step]) {
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

/// Writes new keys and values (columns `0..width` and `width..2*width`) into the rows' cache.
pub(super) struct KvWriter<'a> {
    places: Vec<usize>,
    cache: SharedMut<u16>,
    epilogue_bf16: unsafe fn(&BlockEpilogue, *mut u16, usize),
    owner: PhantomData<&'a mut KvCache>,
}

impl<'a> KvWriter<'a> {
    pub(super) fn new(compute: &Compute, kv_cache: &'a mut KvCache, steps: &[Step], layer: usize) -> Self {
        let places: Vec<usize> = steps.iter().map(|step| kv_cache.offset(step.position, layer, step.row)).collect();
        let a_place = 2 * kv_cache.width;
        assert!(places.iter().all(|place| place + a_place <= kv_cache.cache.len()), "every step has its place");
        KvWriter {
            places,
            cache: kv_cache.cache.shared(),
            epilogue_bf16: compute.kernels.epilogue_bf16,
            owner: PhantomData,
        }
    }

    /// Writes a finished block: steps `row..`, columns `column..`.
    ///
    /// # Safety
    /// The block lies within the columns; each step has its own place, and each block is finished once.
    pub(super) unsafe fn write(&self, done: &BlockEpilogue, row: usize, column: usize) {
        let mut block = [[0u16; BLOCK]; BLOCK];
        // SAFETY: the block has 32 rows of 32; the caller vouches for the places.
        unsafe {
            (self.epilogue_bf16)(done, block.as_mut_ptr().cast(), BLOCK);
            for line in 0..done.rows {
                let to = self.cache.at(self.places[row + line] + column);
                std::ptr::copy_nonoverlapping(block[line].as_ptr(), to, BLOCK);
            }
        }
    }
}

/// Causal self-attention: every row attends to its own tokens so far.
pub(super) fn causal_attention(
    compute: &Compute,
    kv_cache: &KvCache,
    steps: &[Step],
    layer: usize,
    query: &[u16],
    out: &mut Buffer<u16>,
    heads: usize,
) {
    let width = kv_cache.width;
    let out = out.shared();
    compute.parallel_for(steps.len(), |index, _| {
        let step = &steps[index];
        let mut rows = [std::ptr::null::<u16>(); MAX_POSITIONS];
        let mut weights = [0f32; MAX_HEADS * MAX_POSITIONS];
        let positions = step.position + 1;
        for (position, &row) in kv_cache.lineage[step.row][..positions].iter().enumerate() {
            rows[position] = kv_cache.cache[kv_cache.offset(position, layer, usize::from(row))..].as_ptr();
        }
        // SAFETY: the rows of the cache hold a key and a value of `width`; the output row belongs to this piece.
        unsafe {
            (compute.kernels.causal_attention)(&mut CausalAttention {
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
        let past = KvCache::new(slots, rows_a_slot, positions, layers, width);
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
        assert!(taken.iter().all(|taken| *taken), "no workspace is left over");
    }
}
