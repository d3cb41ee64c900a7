//! Attention of rows of a batch over the pages of their sequences.
//!
//! A task is one KV head and up to [`TOKENS`] neighbouring rows of one sequence; the query heads that share the KV head are
//! rows of the same task, so that a page is read once for all of them. Softmax is online, page by page: scores stay in
//! registers, outputs in the first-level cache.
//!
//! Cost of a page and six query rows of 128 elements on AVX-512: 2 × 128 × 12 multiply-adds and 512 conversions from f16.

use std::cell::RefCell;
use std::f32::consts::LOG2_E;

use super::{DecoderOps, KvLayout, PAGE};
use crate::Compute;
use crate::buffer::SharedMut;
use crate::lanes::{LANES, Lanes, exp2};

/// Most rows of one sequence in a task.
const TOKENS: usize = 8;
/// Most query rows that share the loads of a page.
const QUERIES: usize = 6;

/// Whose past a row of the batch attends to.
#[derive(Clone, Copy)]
pub struct AttentionRow<'a> {
    /// The pages of its sequence; rows of one sequence share the slice.
    pub pages: &'a [u32],
    /// Positions that it sees, its own included.
    pub length: usize,
}

/// One query row of a task.
#[derive(Clone, Copy)]
struct Query {
    /// The query, scaled so that scores are exponents of 2.
    values: *const f32,
    length: usize,
    out: *mut f32,
}

/// The work of [`AttendFn`]: all query rows of a task.
pub(super) struct Attend<'a> {
    queries: &'a [Query],
    pages: &'a [u32],
    cache: *const u16,
    page_elements: usize,
    keys: usize,
    values: usize,
    head_dim: usize,
    /// Scores are multiplied by this, times log2 e.
    scale: f32,
    /// For each query row its scaled query, its unnormalized output, its largest score and the sum of its weights.
    state: &'a mut Vec<f32>,
}

/// The kernel of one instruction set.
pub(super) type AttendFn = unsafe fn(&mut Attend);

thread_local! {
    static STATE: RefCell<(Vec<Query>, Vec<f32>)> = const { RefCell::new((Vec::new(), Vec::new())) };
}

/// Attends: row `r` of `query` and `out` has `heads` heads of the layout's elements.
///
/// # Panics
/// When a length exceeds its pages, a page lies beyond the cache, heads are no multiple of the KV heads, elements of a head
/// are no multiple of 32, or `query` and `out` have other lengths.
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
    let width = heads * layout.head_dim;
    assert!(layer < layout.layers && layout.head_dim.is_multiple_of(2 * LANES), "a layer of whole vectors");
    assert!(layout.kv_heads > 0 && heads.is_multiple_of(layout.kv_heads), "query heads in equal groups");
    assert!(query.len() == rows.len() * width && out.len() == query.len(), "as many queries as rows");
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
    let attend = DecoderOps::of(compute.isa()).attend;
    let (group_heads, out) = (heads / layout.kv_heads, SharedMut::new(out.as_mut_ptr()));
    compute.parallel_for(groups.len() * layout.kv_heads, |piece, _| {
        let (group, head) = (groups[piece / layout.kv_heads].clone(), piece % layout.kv_heads);
        STATE.with_borrow_mut(|(queries, state)| {
            queries.clear();
            for row in group.clone() {
                for head in head * group_heads..(head + 1) * group_heads {
                    let at = row * width + head * layout.head_dim;
                    queries.push(Query { values: query[at..].as_ptr(), length: rows[row].length, out: out.at(at) });
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
                    scale: scale * LOG2_E,
                    state,
                });
            }
        });
    });
}

/// Body of [`AttendFn`].
#[inline(always)]
pub(super) unsafe fn attend<L: Lanes>(task: &mut Attend) {
    let head_dim = task.head_dim;
    // Of each query row: its query, its output, its largest score, its sum.
    let stride = 2 * head_dim + 2;
    task.state.clear();
    task.state.resize(task.queries.len().next_multiple_of(QUERIES) * stride, 0.0);
    let longest = task.queries.iter().map(|query| query.length).max().unwrap_or(0);
    // SAFETY: the caller vouches for the CPU, pages that hold every position, and rows of `head_dim`.
    unsafe {
        for (query, state) in task.queries.iter().zip(task.state.chunks_exact_mut(stride)) {
            for i in (0..head_dim).step_by(LANES) {
                L::store(state.as_mut_ptr().add(i), L::mul(L::load(query.values.add(i)), L::splat(task.scale)));
            }
            state[2 * head_dim] = f32::NEG_INFINITY;
        }
        for first in (0..longest).step_by(PAGE) {
            let page = task.cache.add(task.pages[first / PAGE] as usize * task.page_elements);
            let (keys, values) = (page.add(task.keys), page.add(task.values));
            let mut row = 0;
            while row < task.queries.len() {
                let state = task.state.as_mut_ptr().add(row * stride);
                let rest = &task.queries[row..];
                row += match rest.len() {
                    1 => attend_page::<L, 1>(state, head_dim, rest, first, keys, values),
                    2..=3 => attend_page::<L, 3>(state, head_dim, rest, first, keys, values),
                    _ => attend_page::<L, QUERIES>(state, head_dim, rest, first, keys, values),
                };
            }
        }
        for (query, state) in task.queries.iter().zip(task.state.chunks_exact(stride)) {
            let inverse = L::splat(1.0 / state[2 * head_dim + 1]);
            for i in (0..head_dim).step_by(LANES) {
                L::store(query.out.add(i), L::mul(L::load(state.as_ptr().add(head_dim + i)), inverse));
            }
        }
    }
}

/// Adds a page to the state of up to `N` query rows; returns how many it was.
#[inline(always)]
unsafe fn attend_page<L: Lanes, const N: usize>(
    state: *mut f32,
    head_dim: usize,
    queries: &[Query],
    first: usize,
    keys: *const u16,
    values: *const u16,
) -> usize {
    let stride = 2 * head_dim + 2;
    let count = queries.len().min(N);
    let mut weights = [[0f32; PAGE]; N];
    let mut positions = 0;
    // SAFETY: the caller vouches for `N` rows of state (padded) and a page of keys and values.
    unsafe {
        let mut scores = [[L::splat(0.0); 2]; N];
        for d in 0..head_dim {
            let line = [L::load_f16(keys.add(d * PAGE)), L::load_f16(keys.add(d * PAGE + LANES))];
            for n in 0..N {
                let q = L::splat(*state.add(n * stride + d));
                scores[n] = [L::fma(q, line[0], scores[n][0]), L::fma(q, line[1], scores[n][1])];
            }
        }
        for n in 0..count {
            let seen = queries[n].length.saturating_sub(first).min(PAGE);
            if seen == 0 {
                continue;
            }
            positions = positions.max(seen);
            let weights = &mut weights[n];
            L::store(weights.as_mut_ptr(), scores[n][0]);
            L::store(weights.as_mut_ptr().add(LANES), scores[n][1]);
            weights[seen..].fill(f32::NEG_INFINITY);
            let [low, high] = [L::load(weights.as_ptr()), L::load(weights.as_ptr().add(LANES))];
            let (largest, sum) = (state.add(n * stride + 2 * head_dim), state.add(n * stride + 2 * head_dim + 1));
            let before = *largest;
            let now = before.max(L::largest(L::max(low, high)));
            let reference = L::splat(now);
            let [low, high] = [exp2::<L>(L::sub(low, reference)), exp2::<L>(L::sub(high, reference))];
            L::store(weights.as_mut_ptr(), low);
            L::store(weights.as_mut_ptr().add(LANES), high);
            weights[seen..].fill(0.0);
            let added = L::sum(L::add(L::load(weights.as_ptr()), L::load(weights.as_ptr().add(LANES))));
            let factor = if now > before { (before - now).exp2() } else { 1.0 };
            *sum = *sum * factor + added;
            if now > before {
                let factor = L::splat(factor);
                for i in (0..head_dim).step_by(LANES) {
                    let place = state.add(n * stride + head_dim + i);
                    L::store(place, L::mul(L::load(place), factor));
                }
                *largest = now;
            }
        }
        for i in (0..head_dim).step_by(2 * LANES) {
            let place = |n: usize, half: usize| state.add(n * stride + head_dim + i + half * LANES);
            let mut sums = [[L::splat(0.0); 2]; N];
            for n in 0..N {
                sums[n] = [L::load(place(n, 0)), L::load(place(n, 1))];
            }
            for position in 0..positions {
                let line = values.add(position * head_dim + i);
                let line = [L::load_f16(line), L::load_f16(line.add(LANES))];
                for n in 0..N {
                    let weight = L::splat(weights[n][position]);
                    sums[n] = [L::fma(weight, line[0], sums[n][0]), L::fma(weight, line[1], sums[n][1])];
                }
            }
            for n in 0..N {
                L::store(place(n, 0), sums[n][0]);
                L::store(place(n, 1), sums[n][1]);
            }
        }
    }
    count
}
