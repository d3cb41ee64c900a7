//! Keys and values quantized to int8: what cross-attention reads.
//!
//! A decoding step reads the keys and values of every live window, 19 MB each for whisper-base in bf16: more than all
//! weights together, and the whole cost of a step. Kept as whole numbers of 8 bits with one scale for each element of
//! a head, they are half that. The scale of a key element goes into the query and that of a value element into the
//! result, and whole numbers up to 127 are exact in bf16, so the only loss is the rounding here.

use std::ops::Range;

use super::KeyValues;
use crate::Compute;
use crate::buffer::Buffer;
use crate::kernels::math::from_bf16;
use crate::kernels::{HEAD, PANEL};

/// The int8 keys and values of one window: head after head of all layers, the keys of each and then its values
/// in the order of [`KeyValues`].
///
/// All layers lie in one buffer, so that it is large enough for huge pages: the processor reads ahead only within a page.
pub struct Int8KeyValues {
    numbers: Buffer<i8>,
    /// One for each head and element.
    key_scales: Buffer<f32>,
    value_scales: Buffer<f32>,
    padded: usize,
    /// Frames that count.
    pub(super) frames: usize,
}

impl Int8KeyValues {
    /// Workspace for `heads`, those of all layers; none where the system has no memory for it.
    pub fn new(heads: usize, frames: usize) -> Option<Self> {
        let padded = KeyValues::padded_frames(frames);
        Some(Int8KeyValues {
            numbers: Buffer::try_zeroed(heads * 2 * padded * HEAD)?,
            key_scales: Buffer::try_zeroed(heads * HEAD)?,
            value_scales: Buffer::try_zeroed(heads * HEAD)?,
            padded,
            frames,
        })
    }

    /// Bytes of a cache of so many heads and frames.
    pub fn bytes(heads: usize, frames: usize) -> u64 {
        (heads * 2 * KeyValues::padded_frames(frames) * HEAD + heads * HEAD * 8) as u64
    }

    /// Checks that a layer of `from` fits from `first_head` on.
    fn check(&self, from: &KeyValues, first_head: usize, heads: usize) {
        let workspace = self.key_scales.len() / HEAD;
        assert!(first_head.checked_add(heads).is_some_and(|end| end <= workspace), "workspace for the layer");
        assert_eq!((from.padded(), from.heads() >= heads), (self.padded, true), "a layer of as many frames and heads");
    }

    /// Rounds a layer's `heads` into this cache, from `first_head` on.
    pub fn fill(&mut self, compute: &Compute, from: &KeyValues, first_head: usize, heads: usize) {
        self.check(from, first_head, heads);
        let (padded, a_head) = (self.padded, self.padded * HEAD);
        // Keys lie as [panel of frames][half of the head][pair][frame][2], values as [16 elements][pair of frames][element][2].
        let key_element = |index: usize| index / 512 % 2 * 32 + index / 32 % 16 * 2 + index % 2;
        let value_element = move |index: usize| index / (PANEL * padded) * PANEL + index / 2 % PANEL;
        let numbers = self.numbers.shared();
        let (key_scales, value_scales) = (self.key_scales.shared(), self.value_scales.shared());
        compute.parallel_for(heads * 2, |piece, _| {
            let (head, is_value) = (piece / 2, piece % 2 == 1);
            let to = first_head + head;
            // SAFETY: a head's keys, and its values, belong to one piece.
            unsafe {
                if is_value {
                    let (out, scales) = (numbers.at((to * 2 + 1) * a_head), value_scales.at(to * HEAD));
                    round(from.values_of(head), Lines::Alike(PANEL * padded), out, scales, value_element);
                } else {
                    let (out, scales) = (numbers.at(to * 2 * a_head), key_scales.at(to * HEAD));
                    round(from.keys_of(head), Lines::Repeat(32), out, scales, key_element);
                }
            }
        });
    }

    /// Rounds `rows` of a layer, whole blocks, as [`Int8KeyValues::fill`] does but with the scales that the cache has: what is larger than any number it was
    /// filled with becomes the largest.
    pub fn refill(&mut self, compute: &Compute, from: &KeyValues, rows: Range<usize>, first_head: usize, heads: usize) {
        self.check(from, first_head, heads);
        let (padded, a_head) = (self.padded, self.padded * HEAD);
        assert!(rows.start.is_multiple_of(2 * PANEL) && rows.start <= rows.end, "whole blocks of rows");
        let rows = rows.start..rows.end.next_multiple_of(2 * PANEL).min(padded);
        let numbers = self.numbers.shared();
        let (key_scales, value_scales) = (&self.key_scales, &self.value_scales);
        compute.parallel_for(heads, |head, _| {
            let to = first_head + head;
            let (key_scales, value_scales) = (&key_scales[to * HEAD..][..HEAD], &value_scales[to * HEAD..][..HEAD]);
            let (keys, values) = (to * 2 * a_head, (to * 2 + 1) * a_head);
            let inverse = |scale: f32| if scale > 0.0 { 1.0 / scale } else { 0.0 };
            let first = rows.start * HEAD;
            let source = &from.keys_of(head)[first..rows.end * HEAD];
            for (line, source) in source.chunks_exact(32).enumerate() {
                // 32 lines are a panel: [half of the head][pair][frame][2].
                let element = line % 32 / 16 * 32 + line % 16 * 2;
                let inverse = [inverse(key_scales[element]), inverse(key_scales[element + 1])];
                // SAFETY: a head's keys belong to one piece, and lie in the order of the source.
                let out = unsafe { std::slice::from_raw_parts_mut(numbers.at(keys + first + line * 32), 32) };
                for place in 0..32 {
                    out[place] = quantize(source[place], inverse[place % 2]);
                }
            }
            for group in 0..HEAD / PANEL {
                let inverse: [f32; 32] = std::array::from_fn(|place| inverse(value_scales[group * PANEL + place / 2]));
                let first = group * PANEL * padded + rows.start * PANEL;
                let source = &from.values_of(head)[first..][..rows.len() * PANEL];
                for (line, source) in source.chunks_exact(32).enumerate() {
                    // SAFETY: a head's values belong to one piece, and lie in the order of the source.
                    let out = unsafe { std::slice::from_raw_parts_mut(numbers.at(values + first + line * 32), 32) };
                    for place in 0..32 {
                        out[place] = quantize(source[place], inverse[place]);
                    }
                }
            }
        });
    }

    /// Keys of `width` frames from `first` on.
    pub fn keys(&self, head: usize, first: usize, width: usize) -> &[i8] {
        &self.head(head).0[first * HEAD..][..width * HEAD]
    }

    /// Values of `width` frames from `first` on, sixteen elements of the head from `element` on.
    pub fn values(&self, head: usize, element: usize, first: usize, width: usize) -> &[i8] {
        &self.head(head).1[element * self.padded + first * PANEL..][..width * PANEL]
    }

    /// All keys and all values of a head.
    pub fn head(&self, head: usize) -> (&[i8], &[i8]) {
        let a_head = self.padded * HEAD;
        self.numbers[head * 2 * a_head..][..2 * a_head].split_at(a_head)
    }

    /// The scales of the key elements of a head.
    pub fn key_scales(&self, head: usize) -> &[f32] {
        &self.key_scales[head * HEAD..][..HEAD]
    }

    /// The scales of the value elements of a head.
    pub fn value_scales(&self, head: usize) -> &[f32] {
        &self.value_scales[head * HEAD..][..HEAD]
    }
}

/// The nearest whole number of scales, at most 127 of them.
#[inline(always)]
fn quantize(number: u16, inverse: f32) -> i8 {
    let scaled = (from_bf16(number) * inverse).clamp(-127.0, 127.0);
    // Adding 1.5·2²³ rounds to the nearest whole number and leaves it in the low bits.
    (scaled + 12_582_912.0).to_bits() as i8
}

/// Which lines of 32 numbers hold the same elements at the same places.
#[derive(Clone, Copy)]
enum Lines {
    /// Every so many-th line.
    Repeat(usize),
    /// All lines of so many numbers.
    Alike(usize),
}

/// Rounds one head: the largest magnitude of each element becomes 127.
///
/// `element` names the element of the head that a number belongs to.
///
/// # Safety
/// `out` reaches as many numbers as `from`, `scales` reaches 64, and nobody else writes them.
unsafe fn round(from: &[u16], lines: Lines, out: *mut i8, scales: *mut f32, element: impl Fn(usize) -> usize) {
    // SAFETY: the caller vouches for the lengths.
    let (out, scales) =
        unsafe { (std::slice::from_raw_parts_mut(out, from.len()), std::slice::from_raw_parts_mut(scales, HEAD)) };
    let (kinds, numbers_a_kind) = match lines {
        Lines::Repeat(count) => (count, 32),
        Lines::Alike(numbers) => (from.len() / numbers, numbers),
    };
    let kind_of = |line: usize| match lines {
        Lines::Repeat(count) => line % count,
        Lines::Alike(numbers) => line * 32 / numbers,
    };
    let mut largest = vec![[0f32; 32]; kinds];
    for (index, line) in from.chunks_exact(32).enumerate() {
        let largest = &mut largest[kind_of(index)];
        for place in 0..32 {
            let size = from_bf16(line[place] & 0x7fff);
            largest[place] = if size > largest[place] { size } else { largest[place] };
        }
    }
    let mut most = [0f32; HEAD];
    for (kind, largest) in largest.iter().enumerate() {
        for (place, &size) in largest.iter().enumerate() {
            let most = &mut most[element(kind * numbers_a_kind + place)];
            *most = most.max(size);
        }
    }
    for (scale, most) in scales.iter_mut().zip(most) {
        *scale = most / 127.0;
    }
    let inverse: Vec<[f32; 32]> = (0..kinds)
        .map(|kind| {
            std::array::from_fn(|place| {
                let scale = scales[element(kind * numbers_a_kind + place)];
                if scale > 0.0 { 1.0 / scale } else { 0.0 }
            })
        })
        .collect();
    for (index, (line, out)) in from.chunks_exact(32).zip(out.chunks_exact_mut(32)).enumerate() {
        let inverse = &inverse[kind_of(index)];
        for place in 0..32 {
            // Adding 1.5·2²³ rounds to the nearest whole number and leaves it in the low bits.
            let shifted = from_bf16(line[place]) * inverse[place] + 12_582_912.0;
            out[place] = shifted.to_bits() as i8;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layer_of_other_counts_is_refused() {
        let compute = Compute::new(1, Isa::Portable);
        let refused = |heads: usize, frames: usize, first: usize, count: usize| {
            let from = KeyValues::new(heads, frames);
            let mut cache = Int8KeyValues::new(4, 64).expect("there is memory");
            let fill = std::panic::AssertUnwindSafe(|| cache.fill(&compute, &from, first, count));
            std::panic::catch_unwind(fill).is_err()
        };
        assert!(!refused(2, 64, 2, 2));
        assert!(refused(2, 64, 3, 2), "more heads than the cache has workspace for");
        assert!(refused(1, 64, 0, 2), "more heads than the window has");
        assert!(refused(2, 96, 0, 2), "more frames than the cache has workspace for");
        assert!(refused(2, 32, 0, 2), "fewer frames than the cache has");
        assert!(refused(2, 64, usize::MAX, 2));
    }
    use crate::attention::IN_ORDER;
    use crate::kernels::BlockEpilogue;
    use crate::{Compute, Isa};

    #[test]
    fn numbers_come_back_to_within_half_a_unit() {
        // With 64 frames, padding included, sixteen elements of the values are as many numbers as a panel of keys.
        [70, 40, 28].into_iter().for_each(check_frames);
    }

    fn check_frames(frames: usize) {
        let heads = 2;
        // The second of two layers.
        let layer = heads;
        let compute = Compute::new(1, Isa::Portable);
        let mut whole = KeyValues::new(heads, frames);
        let number =
            |frame: usize, column: usize| ((frame * 37 + column * 101) % 251) as f32 / 30.0 - (column % 5) as f32;
        let bias = [0f32; 32];
        for first in (0..frames).step_by(32) {
            for column in (0..heads * HEAD).step_by(32) {
                let rows = 32.min(frames - first);
                let sums: Vec<f32> =
                    (0..rows * 32).map(|index| number(first + index / 32, column + index % 32)).collect();
                let done = BlockEpilogue { sums: &sums, rows, bias: &bias, gelu: false };
                let (keys, values) = whole.writers(&compute, &IN_ORDER);
                // SAFETY: blocks are written one after the other.
                unsafe {
                    keys.write(&done, first, column);
                    values.write(&done, first, column);
                }
            }
        }
        let mut cache = Int8KeyValues::new(2 * heads, frames).expect("there is memory");
        cache.fill(&compute, &whole, layer, heads);
        for head in layer..layer + heads {
            for element in 0..HEAD {
                let column = (head - layer) * HEAD + element;
                for frame in 0..frames {
                    let exact = number(frame, column);
                    let panel = cache.keys(head, frame / PANEL * PANEL, PANEL);
                    let place = element / 32 * 512 + element % 32 / 2 * 32 + frame % PANEL * 2 + element % 2;
                    let key = f32::from(panel[place]) * cache.key_scales(head)[element];
                    assert!((key - exact).abs() <= cache.key_scales(head)[element] * 0.51 + 0.04, "{key} for {exact}");
                    let pairs = cache.values(head, element / PANEL * PANEL, frame / 32 * 32, 32);
                    let value = f32::from(pairs[frame % 32 / 2 * 32 + element % PANEL * 2 + frame % 2])
                        * cache.value_scales(head)[element];
                    assert!((value - exact).abs() <= cache.value_scales(head)[element] * 0.51 + 0.04);
                }
            }
        }
    }
}
