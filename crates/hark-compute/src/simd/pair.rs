//! Two vectors side by side: twice the lanes of an implementation.

use std::marker::PhantomData;

use super::{Simd, methods};

/// Two vectors of `S` as one.
pub(crate) struct Pair<S>(PhantomData<S>);

impl<S: Simd> Simd for Pair<S> {
    type F = [S::F; 2];
    const LANES: usize = 2 * S::LANES;

    methods! {
        splat(x: f32) -> [S::F; 2] { [S::splat(x); 2] }
        load(from: *const f32) -> [S::F; 2] { [S::load(from), S::load(from.add(S::LANES))] }
        store(to: *mut f32, v: [S::F; 2]) {
            S::store(to, v[0]);
            S::store(to.add(S::LANES), v[1]);
        }
        add(a: [S::F; 2], b: [S::F; 2]) -> [S::F; 2] { [S::add(a[0], b[0]), S::add(a[1], b[1])] }
        sub(a: [S::F; 2], b: [S::F; 2]) -> [S::F; 2] { [S::sub(a[0], b[0]), S::sub(a[1], b[1])] }
        mul(a: [S::F; 2], b: [S::F; 2]) -> [S::F; 2] { [S::mul(a[0], b[0]), S::mul(a[1], b[1])] }
        div(a: [S::F; 2], b: [S::F; 2]) -> [S::F; 2] { [S::div(a[0], b[0]), S::div(a[1], b[1])] }
        max(a: [S::F; 2], b: [S::F; 2]) -> [S::F; 2] { [S::max(a[0], b[0]), S::max(a[1], b[1])] }
        min(a: [S::F; 2], b: [S::F; 2]) -> [S::F; 2] { [S::min(a[0], b[0]), S::min(a[1], b[1])] }
        abs(a: [S::F; 2]) -> [S::F; 2] { [S::abs(a[0]), S::abs(a[1])] }
        sqrt(a: [S::F; 2]) -> [S::F; 2] { [S::sqrt(a[0]), S::sqrt(a[1])] }
        round(a: [S::F; 2]) -> [S::F; 2] { [S::round(a[0]), S::round(a[1])] }
        fma(a: [S::F; 2], b: [S::F; 2], c: [S::F; 2]) -> [S::F; 2] { [S::fma(a[0], b[0], c[0]), S::fma(a[1], b[1], c[1])] }
        fnma(a: [S::F; 2], b: [S::F; 2], c: [S::F; 2]) -> [S::F; 2] { [S::fnma(a[0], b[0], c[0]), S::fnma(a[1], b[1], c[1])] }
        nearest_and_power(a: [S::F; 2]) -> ([S::F; 2], [S::F; 2]) {
            let (low, high) = (S::nearest_and_power(a[0]), S::nearest_and_power(a[1]));
            ([low.0, high.0], [low.1, high.1])
        }
        sum(a: [S::F; 2]) -> f32 { S::sum(S::add(a[0], a[1])) }
        largest(a: [S::F; 2]) -> f32 { S::largest(S::max(a[0], a[1])) }
    }
}
