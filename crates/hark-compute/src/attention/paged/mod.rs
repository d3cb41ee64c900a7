//! Attention of rows of a batch over the pages of a KV cache, for decoders of many sequences and for encoders of many texts.
//!
//! A task is one KV head and up to `TOKENS` neighbouring rows of one sequence; the query heads that share the KV head are
//! rows of the same task, so that a page is read once for all of them. Softmax is online, page by page (`kernel`).

mod kernel;
mod layout;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::f32::consts::LOG2_E;

use crate::Compute;
use crate::buffer::SharedMut;
use crate::simd::LANES;
use crate::view::MatRef;
use kernel::{Attend, Query, attend_kernel};
pub use layout::{KvLayout, PAGE};

/// Most rows of one sequence in a task.
const TOKENS: usize = 8;

/// Whose past a row of the batch attends to.
#[derive(Clone, Copy)]
pub struct AttentionRow<'a> {
    /// The pages of its sequence; rows of one sequence share the slice.
    pub pages: &'a [u32],
    /// Positions that it sees, its own included.
    pub length: usize,
}

/// How scores are made of queries and keys.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scoring {
    /// Products are multiplied by this.
    pub scale: f32,
    /// Scores go through `cap * tanh(score / cap)`.
    pub softcap: Option<f32>,
    /// A row sees so many positions, its own included; all before it where there is none.
    pub window: Option<usize>,
}

impl Scoring {
    /// Plain attention: scaled products, all positions.
    pub fn scaled(scale: f32) -> Self {
        Scoring { scale, softcap: None, window: None }
    }
}

thread_local! {
    static STATE: RefCell<(Vec<Query>, Vec<f32>)> = const { RefCell::new((Vec::new(), Vec::new())) };
}

/// As [`attend_rows`], with plain scores.
///
/// # Panics
/// As [`attend_rows`].
pub fn paged_attention(
    compute: &Compute,
    layout: &KvLayout,
    layer: usize,
    cache: &[u16],
    rows: &[AttentionRow],
    heads: usize,
    scale: f32,
    query: &[f32],
    out: &mut [f32],
) {
    let width = heads.saturating_mul(layout.head_dim);
    let query = MatRef::new(query, rows.len(), width, width);
    attend_rows(compute, layout, layer, cache, rows, heads, Scoring::scaled(scale), query, out);
}

/// Attends: row `r` of `query` and `out` has `heads` heads of the layout's elements.
///
/// # Panics
/// When a length exceeds its pages, a page lies beyond the cache, heads are no multiple of the KV heads, elements of a head
/// are no multiple of 32, `query` and `out` have other lengths, or a window
/// or cap is nothing.
pub fn attend_rows(
    compute: &Compute,
    layout: &KvLayout,
    layer: usize,
    cache: &[u16],
    rows: &[AttentionRow],
    heads: usize,
    scoring: Scoring,
    query: MatRef<f32>,
    out: &mut [f32],
) {
    assert!(layer < layout.layers && layout.head_dim.is_multiple_of(2 * LANES), "a layer of whole vectors");
    assert!(layout.kv_heads > 0 && heads.is_multiple_of(layout.kv_heads), "query heads in equal groups");
    // Checked, since a product that overflows would pass for a short one.
    let width = heads.checked_mul(layout.head_dim).expect("a row fits the address space");
    assert!(query.rows() == rows.len() && query.width() == width, "as many queries as rows");
    assert!(rows.len().checked_mul(width) == Some(out.len()), "as many outputs as rows");
    let softcap = scoring.softcap.map_or(0.0, |cap| cap * LOG2_E);
    let window = scoring.window.unwrap_or(usize::MAX);
    assert!(window > 0 && scoring.softcap.is_none_or(|cap| cap > 0.0), "a window and a cap of something");
    let pages = cache.len() / layout.page_elements();
    // Rows of one sequence stand together, a task's rows share their pages.
    let mut groups: Vec<std::ops::Range<usize>> = Vec::new();
    for (row, AttentionRow { pages: own, length }) in rows.iter().enumerate() {
        assert!(*length > 0 && *length <= own.len() * PAGE, "positions that have pages");
        match groups.last_mut() {
            Some(last) if last.len() < TOKENS && std::ptr::eq(rows[last.start].pages, *own) => last.end += 1,
            _ => {
                assert!(own.iter().all(|page| (*page as usize) < pages), "pages of the cache");
                groups.push(row..row + 1);
            }
        }
    }
    // Long rows first, so that threads end together.
    groups.sort_by_key(|group| std::cmp::Reverse(rows[group.end - 1].length * group.len()));
    let attend = attend_kernel(compute.isa());
    let (group_heads, out) = (heads / layout.kv_heads, SharedMut::new(out.as_mut_ptr()));
    compute.parallel_for(groups.len() * layout.kv_heads, |piece, _| {
        let (group, head) = (groups[piece / layout.kv_heads].clone(), piece % layout.kv_heads);
        STATE.with_borrow_mut(|(queries, state)| {
            queries.clear();
            for row in group.clone() {
                for head in head * group_heads..(head + 1) * group_heads {
                    // Inside of the view, which has these rows of all heads.
                    let values = query.as_ptr().wrapping_add(row * query.stride() + head * layout.head_dim);
                    let at = row * width + head * layout.head_dim;
                    let length = rows[row].length;
                    let start = length.saturating_sub(window);
                    queries.push(Query { values, start, length, out: out.at(at) });
                }
            }
            // SAFETY: the set is the machine's; pages and lengths were checked; these heads of these rows of the output are
            // this piece's own.
            unsafe {
                attend(&mut Attend {
                    queries,
                    pages: rows[group.start].pages,
                    cache: cache.as_ptr(),
                    page_elements: layout.page_elements(),
                    keys: layout.keys(layer, head),
                    values: layout.values(layer, head),
                    head_dim: layout.head_dim,
                    scale: scoring.scale * LOG2_E,
                    softcap,
                    state,
                });
            }
        });
    });
}
