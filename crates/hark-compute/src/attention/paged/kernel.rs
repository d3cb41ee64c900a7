//! The kernel over the pages of one sequence, written once over [`Simd16`]: scores stay in registers, outputs in the
//! first-level cache.
//!
//! Cost of a page and six query rows of 128 elements on AVX-512: 2 × 128 × 12 multiply-adds and 512 conversions from f16.

use super::PAGE;
use crate::Isa;
use crate::simd::{LANES, Simd16, exp2};

/// Most query rows that share the loads of a page.
const QUERIES: usize = 6;

/// One query row of a task.
#[derive(Clone, Copy)]
pub(super) struct Query {
    /// `head_dim` elements.
    pub values: *const f32,
    /// The first position that it sees, and the one behind the last.
    pub start: usize,
    pub length: usize,
    /// Where its `head_dim` outputs go.
    pub out: *mut f32,
}

/// The work of [`AttendFn`]: all query rows of a task.
pub(super) struct Attend<'a> {
    pub queries: &'a [Query],
    pub pages: &'a [u32],
    pub cache: *const u16,
    pub page_elements: usize,
    /// Where the keys of the head begin in a page.
    pub keys: usize,
    /// Where its values begin.
    pub values: usize,
    pub head_dim: usize,
    /// Scores are multiplied by this, times log2 e, so that they are exponents of 2.
    pub scale: f32,
    /// Scores go through `cap * tanh(score / cap)`, in the unit of the scaled scores; 0 leaves them.
    pub softcap: f32,
    /// For each query row its scaled query, its unnormalized output, its largest score and the sum of its weights.
    pub state: &'a mut Vec<f32>,
}

/// The kernel of one instruction set.
///
/// # Safety
/// The CPU has that set. Every query has `head_dim` elements, a multiple of 32, to read and its output as many to write, which
/// nobody else uses; every page that its positions need is a whole page of the cache, with keys and values where the task says.
pub(super) type AttendFn = unsafe fn(&mut Attend);

/// The kernel for `isa`, which the caller has found available.
pub(super) fn attend_kernel(isa: Isa) -> AttendFn {
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Amx | Isa::Avx512Bf16 | Isa::Avx512Vnni => attend_vnni,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 | Isa::AvxVnni | Isa::Avx2 => attend_avx2,
        _ => attend_portable,
    }
}

unsafe fn attend_portable(task: &mut Attend) {
    // SAFETY: the contract of `AttendFn`; arrays need no features.
    unsafe { attend::<crate::simd::Portable<16>>(task) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn attend_avx2(task: &mut Attend) {
    // SAFETY: the contract of `AttendFn`; the features are enabled here.
    unsafe { attend::<crate::simd::Pair<crate::simd::Avx2>>(task) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
unsafe fn attend_vnni(task: &mut Attend) {
    // SAFETY: the contract of `AttendFn`; the features are enabled here.
    unsafe { attend::<crate::simd::Avx512>(task) }
}

/// Body of [`AttendFn`].
#[inline(always)]
unsafe fn attend<S: Simd16>(task: &mut Attend) {
    let head_dim = task.head_dim;
    // Of each query row: its query, its output, its largest score, its sum.
    let stride = 2 * head_dim + 2;
    task.state.clear();
    task.state.resize(task.queries.len().next_multiple_of(QUERIES) * stride, 0.0);
    let longest = task.queries.iter().map(|query| query.length).max().unwrap_or(0);
    let earliest = task.queries.iter().map(|query| query.start).min().unwrap_or(0);
    // SAFETY: the caller vouches for the CPU, pages that hold every position, and rows of `head_dim`.
    unsafe {
        for (query, state) in task.queries.iter().zip(task.state.chunks_exact_mut(stride)) {
            for i in (0..head_dim).step_by(LANES) {
                S::store(state.as_mut_ptr().add(i), S::mul(S::load(query.values.add(i)), S::splat(task.scale)));
            }
            state[2 * head_dim] = f32::NEG_INFINITY;
        }
        for first in (earliest / PAGE * PAGE..longest).step_by(PAGE) {
            let page = task.cache.add(task.pages[first / PAGE] as usize * task.page_elements);
            let (keys, values) = (page.add(task.keys), page.add(task.values));
            let mut row = 0;
            while row < task.queries.len() {
                let state = task.state.as_mut_ptr().add(row * stride);
                let rest = &task.queries[row..];
                row += match rest.len() {
                    1 => attend_page::<S, 1>(state, head_dim, task.softcap, rest, first, keys, values),
                    2..=3 => attend_page::<S, 3>(state, head_dim, task.softcap, rest, first, keys, values),
                    _ => attend_page::<S, QUERIES>(state, head_dim, task.softcap, rest, first, keys, values),
                };
            }
        }
        for (query, state) in task.queries.iter().zip(task.state.chunks_exact(stride)) {
            let inverse = S::splat(1.0 / state[2 * head_dim + 1]);
            for i in (0..head_dim).step_by(LANES) {
                S::store(query.out.add(i), S::mul(S::load(state.as_ptr().add(head_dim + i)), inverse));
            }
        }
    }
}

/// `cap * tanh(x / cap)`
#[inline(always)]
unsafe fn capped<S: Simd16>(x: S::F, cap: f32) -> S::F {
    // SAFETY: the caller vouches for the CPU.
    unsafe {
        let (one, two) = (S::splat(1.0), S::splat(2.0));
        // tanh z = 2 / (1 + e^(-2z)) - 1; the exponent of 2 is limited so that it does not overflow.
        let exponent = S::mul(x, S::splat(-2.0 * std::f32::consts::LOG2_E / cap));
        let exponent = S::min(S::max(exponent, S::splat(-120.0)), S::splat(120.0));
        let tanh = S::sub(S::div(two, S::add(one, exp2::<S>(exponent))), one);
        S::mul(tanh, S::splat(cap))
    }
}

/// Adds a page to the state of up to `N` query rows; returns how many it was.
#[inline(always)]
unsafe fn attend_page<S: Simd16, const N: usize>(
    state: *mut f32,
    head_dim: usize,
    softcap: f32,
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
        let mut scores = [[S::splat(0.0); 2]; N];
        for d in 0..head_dim {
            let line = [S::load_f16(keys.add(d * PAGE)), S::load_f16(keys.add(d * PAGE + LANES))];
            for n in 0..N {
                let q = S::splat(*state.add(n * stride + d));
                scores[n] = [S::fma(q, line[0], scores[n][0]), S::fma(q, line[1], scores[n][1])];
            }
        }
        for n in 0..count {
            let seen = queries[n].length.saturating_sub(first).min(PAGE);
            let unseen = queries[n].start.saturating_sub(first).min(PAGE);
            if seen <= unseen {
                continue;
            }
            positions = positions.max(seen);
            let weights = &mut weights[n];
            if softcap > 0.0 {
                scores[n] = [capped::<S>(scores[n][0], softcap), capped::<S>(scores[n][1], softcap)];
            }
            S::store(weights.as_mut_ptr(), scores[n][0]);
            S::store(weights.as_mut_ptr().add(LANES), scores[n][1]);
            weights[..unseen].fill(f32::NEG_INFINITY);
            weights[seen..].fill(f32::NEG_INFINITY);
            let [low, high] = [S::load(weights.as_ptr()), S::load(weights.as_ptr().add(LANES))];
            let (largest, sum) = (state.add(n * stride + 2 * head_dim), state.add(n * stride + 2 * head_dim + 1));
            let before = *largest;
            let now = before.max(S::largest(S::max(low, high)));
            let reference = S::splat(now);
            let [low, high] = [exp2::<S>(S::sub(low, reference)), exp2::<S>(S::sub(high, reference))];
            S::store(weights.as_mut_ptr(), low);
            S::store(weights.as_mut_ptr().add(LANES), high);
            weights[..unseen].fill(0.0);
            weights[seen..].fill(0.0);
            let added = S::sum(S::add(S::load(weights.as_ptr()), S::load(weights.as_ptr().add(LANES))));
            let factor = if now > before { (before - now).exp2() } else { 1.0 };
            *sum = *sum * factor + added;
            if now > before {
                let factor = S::splat(factor);
                for i in (0..head_dim).step_by(LANES) {
                    let place = state.add(n * stride + head_dim + i);
                    S::store(place, S::mul(S::load(place), factor));
                }
                *largest = now;
            }
        }
        for i in (0..head_dim).step_by(2 * LANES) {
            let place = |n: usize, half: usize| state.add(n * stride + head_dim + i + half * LANES);
            let mut sums = [[S::splat(0.0); 2]; N];
            for n in 0..N {
                sums[n] = [S::load(place(n, 0)), S::load(place(n, 1))];
            }
            for position in 0..positions {
                let line = values.add(position * head_dim + i);
                let line = [S::load_f16(line), S::load_f16(line.add(LANES))];
                for n in 0..N {
                    let weight = S::splat(weights[n][position]);
                    sums[n] = [S::fma(weight, line[0], sums[n][0]), S::fma(weight, line[1], sums[n][1])];
                }
            }
            for n in 0..N {
                S::store(place(n, 0), sums[n][0]);
                S::store(place(n, 1), sums[n][1]);
            }
        }
    }
    count
}
