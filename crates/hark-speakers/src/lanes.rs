//! The arithmetic between products: bodies that the compiler turns into vectors, once for each instruction set.
//!
//! A body is plain Rust and is the definition; [`Lanes`] has it compiled with and without vector instructions. The
//! only difference between them is that vectors multiply and add in one rounding.

use hark_compute::Isa;
use hark_compute::kernels::math::{EXP2, from_bf16, to_bf16};

/// Units of a recurrent layer that are done together: one panel for each gate.
pub(crate) const GROUP: usize = 16;

/// The functions of one instruction set.
#[derive(Clone, Copy)]
pub(crate) struct Lanes {
    /// One step of 16 units of a recurrent layer: see [`Cells`].
    pub(crate) cells: unsafe fn(&Cells),
    /// The largest of every three rows: `(sums, pooled rows, out, stride of out, whether of magnitudes)`.
    pub(crate) pool: unsafe fn(*const f32, usize, *mut f32, usize, bool),
    /// Normalizes columns and bends what is negative: see [`Columns`].
    pub(crate) normalize: unsafe fn(&Columns),
    /// Adds 32 biases, bends what is negative, and rounds: `(sums, rows, biases, out, stride of out)`.
    pub(crate) bend: unsafe fn(*const f32, usize, *const f32, *mut u16, usize),
    /// Finishes a block of 32 columns: see [`Finish`].
    pub(crate) finish: unsafe fn(&Finish),
    /// Scales and shifts columns of bf16 and cuts what is negative: see [`Scaled`].
    pub(crate) scale: unsafe fn(&Scaled),
    /// Multiplies each row of 32 sums by one of several masks: `(sums, rows, masks, which mask for each row, out, stride)`.
    pub(crate) mask: unsafe fn(*const f32, usize, *const f32, *const u32, *mut u16, usize),
    /// Adds up columns of bf16: `(rows, their stride, how many, width, sums)`, a width in whole groups of 16.
    pub(crate) add_up: unsafe fn(*const u16, usize, usize, usize, *mut f32),
    /// Like `scale`, but adds up the numbers and their squares: `(what, sums, sums of squares)`.
    pub(crate) moments: unsafe fn(&Scaled, *mut f32, *mut f32),
    /// `out[n] += x[k] · weights[k][n]`, `n` in whole groups of 16: `(weights, x, out)`.
    pub(crate) apply: fn(&[f32], &[f32], &mut [f32]),
    /// The natural logarithm of each number, none of which is below float32's smallest normal one.
    pub(crate) logarithms: fn(&mut [f32]),
}

/// A block of sums that becomes bf16: biases are added, then perhaps other numbers, then perhaps what is negative is cut.
pub(crate) struct Finish {
    /// Rows of 32.
    pub(crate) sums: *const f32,
    pub(crate) rows: usize,
    /// 32 of them.
    pub(crate) bias: *const f32,
    /// Rows of bf16 as far apart as `out`'s, or null.
    pub(crate) other: *const u16,
    pub(crate) cut: bool,
    pub(crate) out: *mut u16,
    pub(crate) stride: usize,
}

/// `max(x · gain + shift, 0)` by columns, bf16 in and out.
pub(crate) struct Scaled {
    pub(crate) rows: *const u16,
    pub(crate) stride: usize,
    pub(crate) count: usize,
    /// Columns, a multiple of 32.
    pub(crate) width: usize,
    pub(crate) gain: *const f32,
    pub(crate) shift: *const f32,
    pub(crate) out: *mut u16,
    pub(crate) out_stride: usize,
}

/// One step of 16 units over a few rows.
///
/// Gates come as exponents of two (the factor is in the weights): `-i`, `-f`, `-2g`, `-o`, each times log2 e.
pub(crate) struct Cells {
    /// Rows of 64 sums: i, f, g, o of the 16 units.
    pub(crate) sums: *const f32,
    pub(crate) rows: usize,
    /// 64 biases.
    pub(crate) bias: *const f32,
    /// The cells, rows of 16.
    pub(crate) cells: *mut f32,
    /// Where the outputs go as bf16.
    pub(crate) out: *mut u16,
    pub(crate) out_stride: usize,
}

/// Columns to be normalized over all rows: mean 0, variance 1, then a gain and a shift for each.
pub(crate) struct Columns {
    pub(crate) values: *const f32,
    pub(crate) stride: usize,
    pub(crate) rows: usize,
    /// Columns: 64 or 80.
    pub(crate) columns: usize,
    pub(crate) gain: *const f32,
    pub(crate) shift: *const f32,
    /// Where the numbers go as bf16.
    pub(crate) out: *mut u16,
    pub(crate) out_stride: usize,
}

/// What is added to a variance.
const EPSILON: f32 = 1e-5;
/// How much of a negative number stays.
const LEAK: f32 = 0.01;
/// Exponents are kept within this, so that a product of three stays finite.
const MOST_EXPONENT: f32 = 40.0;

impl Lanes {
    /// The functions for `isa`, which this machine must have.
    pub(crate) fn of(isa: Isa) -> &'static Lanes {
        assert!(isa.is_available(), "this machine has no {}", isa.name());
        match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Amx | Isa::Avx512Bf16 => &native::LANES,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Vnni | Isa::Avx512 => &avx512::LANES,
            #[cfg(target_arch = "x86_64")]
            Isa::AvxVnni | Isa::Avx2 => &avx2::LANES,
            _ => &portable::LANES,
        }
    }
}

/// Compiles every body for the given features.
macro_rules! set {
    ($name:ident, $fused:literal, $(#[$attribute:meta])*) => {
        mod $name {
            use super::{Cells, Columns, Finish, Lanes, Scaled, body};

            pub(super) static LANES: Lanes =
                Lanes { cells, pool, normalize, bend, finish, scale, mask, add_up, moments, apply, logarithms };

            $(#[$attribute])*
            unsafe fn cells(step: &Cells) {
                // SAFETY: same contract as the body.
                unsafe { body::cells::<$fused>(step) }
            }
            $(#[$attribute])*
            unsafe fn pool(sums: *const f32, rows: usize, out: *mut f32, stride: usize, magnitudes: bool) {
                // SAFETY: same contract as the body.
                unsafe { body::pool(sums, rows, out, stride, magnitudes) }
            }
            $(#[$attribute])*
            unsafe fn normalize(columns: &Columns) {
                // SAFETY: same contract as the body.
                unsafe { body::normalize::<$fused>(columns) }
            }
            $(#[$attribute])*
            unsafe fn bend(sums: *const f32, rows: usize, bias: *const f32, out: *mut u16, stride: usize) {
                // SAFETY: same contract as the body.
                unsafe { body::bend(sums, rows, bias, out, stride) }
            }
            $(#[$attribute])*
            unsafe fn finish(finish: &Finish) {
                // SAFETY: same contract as the body.
                unsafe { body::finish(finish) }
            }
            $(#[$attribute])*
            unsafe fn scale(scaled: &Scaled) {
                // SAFETY: same contract as the body.
                unsafe { body::scale::<$fused>(scaled) }
            }
            $(#[$attribute])*
            unsafe fn mask(
                sums: *const f32,
                rows: usize,
                masks: *const f32,
                which: *const u32,
                out: *mut u16,
                stride: usize,
            ) {
                // SAFETY: same contract as the body.
                unsafe { body::mask(sums, rows, masks, which, out, stride) }
            }
            $(#[$attribute])*
            unsafe fn add_up(rows: *const u16, stride: usize, count: usize, width: usize, sums: *mut f32) {
                // SAFETY: same contract as the body.
                unsafe { body::add_up(rows, stride, count, width, sums) }
            }
            $(#[$attribute])*
            unsafe fn moments(scaled: &Scaled, sums: *mut f32, squares: *mut f32) {
                // SAFETY: same contract as the body.
                unsafe { body::moments::<$fused>(scaled, sums, squares) }
            }
            fn apply(weights: &[f32], x: &[f32], out: &mut [f32]) {
                $(#[$attribute])*
                unsafe fn inner(weights: &[f32], x: &[f32], out: &mut [f32]) {
                    body::apply::<$fused>(weights, x, out)
                }
                // SAFETY: a set is given out only where its instructions are available.
                unsafe { inner(weights, x, out) }
            }
            fn logarithms(numbers: &mut [f32]) {
                $(#[$attribute])*
                unsafe fn inner(numbers: &mut [f32]) {
                    body::logarithms::<$fused>(numbers)
                }
                // SAFETY: a set is given out only where its instructions are available.
                unsafe { inner(numbers) }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
set!(avx512, true, #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,fma")]);
#[cfg(target_arch = "x86_64")]
set!(avx2, true, #[target_feature(enable = "avx2,fma")]);
set!(portable, false,);

/// AVX-512 where two vectors round to bf16 in one instruction: the two functions that do little else.
#[cfg(target_arch = "x86_64")]
mod native {
    use std::arch::x86_64::*;

    use super::{Finish, Lanes, Scaled, avx512};

    pub(super) static LANES: Lanes = Lanes { finish, scale, ..avx512::LANES };

    /// 16 bf16 as float32.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    unsafe fn widened(numbers: *const u16) -> __m512 {
        // SAFETY: the caller vouches for 16 numbers.
        let numbers = unsafe { _mm256_loadu_si256(numbers.cast()) };
        _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(numbers)))
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    unsafe fn store(low: __m512, high: __m512, out: *mut u16) {
        // SAFETY: the caller vouches for 32 numbers.
        unsafe { _mm512_storeu_si512(out.cast(), bits(_mm512_cvtne2ps_pbh(high, low))) }
    }

    #[inline(always)]
    fn bits(numbers: __m512bh) -> __m512i {
        // SAFETY: both are 64 bytes without meaning of their own.
        unsafe { std::mem::transmute(numbers) }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16,fma")]
    unsafe fn finish(finish: &Finish) {
        // SAFETY: the caller vouches for the shapes.
        unsafe {
            let zero = _mm512_setzero_ps();
            let (bias_low, bias_high) = (_mm512_loadu_ps(finish.bias), _mm512_loadu_ps(finish.bias.add(16)));
            for row in 0..finish.rows {
                let sums = finish.sums.add(row * 32);
                let mut low = _mm512_add_ps(_mm512_loadu_ps(sums), bias_low);
                let mut high = _mm512_add_ps(_mm512_loadu_ps(sums.add(16)), bias_high);
                if !finish.other.is_null() {
                    let other = finish.other.add(row * finish.stride);
                    low = _mm512_add_ps(low, widened(other));
                    high = _mm512_add_ps(high, widened(other.add(16)));
                }
                if finish.cut {
                    (low, high) = (_mm512_max_ps(low, zero), _mm512_max_ps(high, zero));
                }
                store(low, high, finish.out.add(row * finish.stride));
            }
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16,fma")]
    unsafe fn scale(scaled: &Scaled) {
        // SAFETY: the caller vouches for the shapes.
        unsafe {
            let zero = _mm512_setzero_ps();
            for column in (0..scaled.width).step_by(32) {
                let (gain, shift) = (scaled.gain.add(column), scaled.shift.add(column));
                let (gain_low, gain_high) = (_mm512_loadu_ps(gain), _mm512_loadu_ps(gain.add(16)));
                let (shift_low, shift_high) = (_mm512_loadu_ps(shift), _mm512_loadu_ps(shift.add(16)));
                for row in 0..scaled.count {
                    let numbers = scaled.rows.add(row * scaled.stride + column);
                    let low = _mm512_fmadd_ps(widened(numbers), gain_low, shift_low);
                    let high = _mm512_fmadd_ps(widened(numbers.add(16)), gain_high, shift_high);
                    let out = scaled.out.add(row * scaled.out_stride + column);
                    store(_mm512_max_ps(low, zero), _mm512_max_ps(high, zero), out);
                }
            }
        }
    }
}

mod body {
    use super::{Cells, Columns, EPSILON, EXP2, Finish, GROUP, LEAK, MOST_EXPONENT, Scaled, from_bf16, to_bf16};

    /// `a * b + c`, in one rounding where the machine has that.
    #[inline(always)]
    fn fused<const FUSED: bool>(a: f32, b: f32, c: f32) -> f32 {
        if FUSED { a.mul_add(b, c) } else { a * b + c }
    }

    /// `2^x`, x cut to ±[`MOST_EXPONENT`], to within 3e-6.
    #[inline(always)]
    fn exp2<const FUSED: bool>(x: f32) -> f32 {
        // Adding 1.5·2²³ rounds to the nearest integer and leaves that integer in the low bits.
        const ROUND: f32 = 12_582_912.0;
        let x = x.clamp(-MOST_EXPONENT, MOST_EXPONENT);
        let shifted = x + ROUND;
        let part = x - (shifted - ROUND);
        let mut sum = EXP2[4];
        sum = fused::<FUSED>(sum, part, EXP2[3]);
        sum = fused::<FUSED>(sum, part, EXP2[2]);
        sum = fused::<FUSED>(sum, part, EXP2[1]);
        sum = fused::<FUSED>(sum, part, EXP2[0]);
        sum * f32::from_bits(shifted.to_bits().wrapping_shl(23).wrapping_add(0x3f80_0000))
    }

    #[inline(always)]
    fn leaky(x: f32) -> f32 {
        if x < 0.0 { x * LEAK } else { x }
    }

    /// `c' = σ(f)·c + σ(i)·tanh(g)` and `h = σ(o)·tanh(c')`, each brought to one division.
    ///
    /// # Safety
    /// `step` must describe live memory of the stated shapes.
    #[inline(always)]
    pub(super) unsafe fn cells<const FUSED: bool>(step: &Cells) {
        const TANH: f32 = -2.0 * std::f32::consts::LOG2_E;
        // SAFETY: the caller vouches for the shapes.
        unsafe {
            let bias = &*step.bias.cast::<[f32; 4 * GROUP]>();
            for row in 0..step.rows {
                let sums = &*step.sums.add(row * 4 * GROUP).cast::<[f32; 4 * GROUP]>();
                let cells = &mut *step.cells.add(row * GROUP).cast::<[f32; GROUP]>();
                let out = &mut *step.out.add(row * step.out_stride).cast::<[u16; GROUP]>();
                for lane in 0..GROUP {
                    let i = 1.0 + exp2::<FUSED>(sums[lane] + bias[lane]);
                    let f = 1.0 + exp2::<FUSED>(sums[GROUP + lane] + bias[GROUP + lane]);
                    let g = exp2::<FUSED>(sums[2 * GROUP + lane] + bias[2 * GROUP + lane]);
                    let o = 1.0 + exp2::<FUSED>(sums[3 * GROUP + lane] + bias[3 * GROUP + lane]);
                    let both = i * (1.0 + g);
                    let cell = fused::<FUSED>(cells[lane], both, (1.0 - g) * f) / (f * both);
                    cells[lane] = cell;
                    let tanh = exp2::<FUSED>(cell * TANH);
                    out[lane] = to_bf16((1.0 - tanh) / (o * (1.0 + tanh)));
                }
            }
        }
    }

    /// # Safety
    /// `sums` must reach `3 * rows` rows of 32, `out` `rows` rows of 32.
    #[inline(always)]
    pub(super) unsafe fn pool(sums: *const f32, rows: usize, out: *mut f32, stride: usize, magnitudes: bool) {
        for row in 0..rows {
            // SAFETY: the caller vouches for the shapes.
            let (sums, out) =
                unsafe { (&*sums.add(row * 96).cast::<[f32; 96]>(), &mut *out.add(row * stride).cast::<[f32; 32]>()) };
            for column in 0..32 {
                let three = [sums[column], sums[32 + column], sums[64 + column]];
                let [a, b, c] = if magnitudes { three.map(f32::abs) } else { three };
                let larger = if a > b { a } else { b };
                out[column] = if larger > c { larger } else { c };
            }
        }
    }

    /// # Safety
    /// `columns` must describe live memory of the stated shapes.
    #[inline(always)]
    pub(super) unsafe fn normalize<const FUSED: bool>(columns: &Columns) {
        // SAFETY: same contract.
        unsafe {
            match columns.columns {
                64 => normalize_wide::<FUSED, 64>(columns),
                80 => normalize_wide::<FUSED, 80>(columns),
                other => panic!("{other} columns are not a width of this network"),
            }
        }
    }

    /// Three times over the rows, all columns at once: a row is read from memory in one go.
    #[inline(always)]
    unsafe fn normalize_wide<const FUSED: bool, const WIDTH: usize>(columns: &Columns) {
        // SAFETY: the caller vouches for the shapes.
        unsafe {
            let at = |row: usize| &*columns.values.add(row * columns.stride).cast::<[f32; WIDTH]>();
            let count = columns.rows as f32;
            let mut means = [0f32; WIDTH];
            for row in 0..columns.rows {
                let values = at(row);
                for column in 0..WIDTH {
                    means[column] += values[column];
                }
            }
            for mean in &mut means {
                *mean /= count;
            }
            let mut squares = [0f32; WIDTH];
            for row in 0..columns.rows {
                let values = at(row);
                for column in 0..WIDTH {
                    let distance = values[column] - means[column];
                    squares[column] = fused::<FUSED>(distance, distance, squares[column]);
                }
            }
            let gain = &*columns.gain.cast::<[f32; WIDTH]>();
            let shift = &*columns.shift.cast::<[f32; WIDTH]>();
            let (mut factors, mut shifts) = ([0f32; WIDTH], [0f32; WIDTH]);
            for column in 0..WIDTH {
                factors[column] = gain[column] / (squares[column] / count + EPSILON).sqrt();
                shifts[column] = shift[column] - means[column] * factors[column];
            }
            for row in 0..columns.rows {
                let values = at(row);
                let out = &mut *columns.out.add(row * columns.out_stride).cast::<[u16; WIDTH]>();
                for column in 0..WIDTH {
                    out[column] = to_bf16(leaky(fused::<FUSED>(values[column], factors[column], shifts[column])));
                }
            }
        }
    }

    /// # Safety
    /// `sums` must reach `rows` rows of 32, `bias` 32, `out` `rows` rows of 32.
    #[inline(always)]
    pub(super) unsafe fn bend(sums: *const f32, rows: usize, bias: *const f32, out: *mut u16, stride: usize) {
        // SAFETY: the caller vouches for the shapes.
        unsafe {
            let bias = &*bias.cast::<[f32; 32]>();
            for row in 0..rows {
                let sums = &*sums.add(row * 32).cast::<[f32; 32]>();
                let out = &mut *out.add(row * stride).cast::<[u16; 32]>();
                for column in 0..32 {
                    out[column] = to_bf16(leaky(sums[column] + bias[column]));
                }
            }
        }
    }

    /// # Safety
    /// `finish` must describe live memory of the stated shapes.
    #[inline(always)]
    pub(super) unsafe fn finish(finish: &Finish) {
        // SAFETY: the caller vouches for the shapes.
        unsafe {
            let bias = &*finish.bias.cast::<[f32; 32]>();
            for row in 0..finish.rows {
                let sums = &*finish.sums.add(row * 32).cast::<[f32; 32]>();
                let mut numbers: [f32; 32] = std::array::from_fn(|column| sums[column] + bias[column]);
                if !finish.other.is_null() {
                    let other = &*finish.other.add(row * finish.stride).cast::<[u16; 32]>();
                    for column in 0..32 {
                        numbers[column] += from_bf16(other[column]);
                    }
                }
                if finish.cut {
                    for number in &mut numbers {
                        *number = if *number > 0.0 { *number } else { 0.0 };
                    }
                }
                let out = &mut *finish.out.add(row * finish.stride).cast::<[u16; 32]>();
                for column in 0..32 {
                    out[column] = to_bf16(numbers[column]);
                }
            }
        }
    }

    /// # Safety
    /// `scaled` must describe live memory of the stated shapes.
    #[inline(always)]
    pub(super) unsafe fn scale<const FUSED: bool>(scaled: &Scaled) {
        // SAFETY: the caller vouches for the shapes.
        unsafe {
            let gain = std::slice::from_raw_parts(scaled.gain, scaled.width);
            let shift = std::slice::from_raw_parts(scaled.shift, scaled.width);
            for row in 0..scaled.count {
                let numbers = std::slice::from_raw_parts(scaled.rows.add(row * scaled.stride), scaled.width);
                let out = std::slice::from_raw_parts_mut(scaled.out.add(row * scaled.out_stride), scaled.width);
                for column in 0..scaled.width {
                    let x = fused::<FUSED>(from_bf16(numbers[column]), gain[column], shift[column]);
                    out[column] = to_bf16(if x > 0.0 { x } else { 0.0 });
                }
            }
        }
    }

    /// # Safety
    /// `scaled` (but for its `out`, which is not used) must describe live memory of the stated shapes; `sums` and
    /// `squares` reach its width.
    #[inline(always)]
    pub(super) unsafe fn moments<const FUSED: bool>(scaled: &Scaled, sums: *mut f32, squares: *mut f32) {
        // SAFETY: the caller vouches for the shapes.
        unsafe {
            let gain = std::slice::from_raw_parts(scaled.gain, scaled.width);
            let shift = std::slice::from_raw_parts(scaled.shift, scaled.width);
            let sums = std::slice::from_raw_parts_mut(sums, scaled.width);
            let squares = std::slice::from_raw_parts_mut(squares, scaled.width);
            for row in 0..scaled.count {
                let numbers = std::slice::from_raw_parts(scaled.rows.add(row * scaled.stride), scaled.width);
                for column in 0..scaled.width {
                    let x = fused::<FUSED>(from_bf16(numbers[column]), gain[column], shift[column]);
                    let x = if x > 0.0 { x } else { 0.0 };
                    sums[column] += x;
                    squares[column] = fused::<FUSED>(x, x, squares[column]);
                }
            }
        }
    }

    /// # Safety
    /// `sums` must reach `rows` rows of 32, `which` as many numbers, each of which is a row of 32 `masks`; `out` as many
    /// rows of 32.
    #[inline(always)]
    pub(super) unsafe fn mask(
        sums: *const f32,
        rows: usize,
        masks: *const f32,
        which: *const u32,
        out: *mut u16,
        stride: usize,
    ) {
        for row in 0..rows {
            // SAFETY: the caller vouches for the shapes.
            unsafe {
                let sums = &*sums.add(row * 32).cast::<[f32; 32]>();
                let mask = &*masks.add(*which.add(row) as usize * 32).cast::<[f32; 32]>();
                let out = &mut *out.add(row * stride).cast::<[u16; 32]>();
                for column in 0..32 {
                    out[column] = to_bf16(sums[column] * mask[column]);
                }
            }
        }
    }

    /// # Safety
    /// `rows` must reach `count` rows of `width`, `sums` `width` numbers.
    #[inline(always)]
    pub(super) unsafe fn add_up(rows: *const u16, stride: usize, count: usize, width: usize, sums: *mut f32) {
        for first in (0..width).step_by(GROUP) {
            // SAFETY: the caller vouches for the shapes.
            unsafe {
                let mut group = [0f32; GROUP];
                for row in 0..count {
                    let numbers = &*rows.add(row * stride + first).cast::<[u16; GROUP]>();
                    for lane in 0..GROUP {
                        group[lane] += from_bf16(numbers[lane]);
                    }
                }
                *sums.add(first).cast::<[f32; GROUP]>() = group;
            }
        }
    }

    /// `ln(2^e · m) = e · ln 2 + 2 artanh((m - 1) / (m + 1))`, m between √½ and √2, to within 1e-7 of the larger part.
    #[inline(always)]
    pub(super) fn logarithms<const FUSED: bool>(numbers: &mut [f32]) {
        /// The bits of √½.
        const ROOT: u32 = 0x3f35_04f3;
        for number in numbers {
            let over = number.to_bits().wrapping_sub(ROOT);
            let exponent = (over as i32 >> 23) as f32;
            let mantissa = f32::from_bits((over & 0x007f_ffff) + ROOT);
            let s = (mantissa - 1.0) / (mantissa + 1.0);
            let square = s * s;
            let mut sum = fused::<FUSED>(square, 2.0 / 9.0, 2.0 / 7.0);
            sum = fused::<FUSED>(sum, square, 2.0 / 5.0);
            sum = fused::<FUSED>(sum, square, 2.0 / 3.0);
            sum = fused::<FUSED>(sum, square, 2.0);
            *number = fused::<FUSED>(exponent, std::f32::consts::LN_2, sum * s);
        }
    }

    #[inline(always)]
    pub(super) fn apply<const FUSED: bool>(weights: &[f32], x: &[f32], out: &mut [f32]) {
        for (weights, &x) in weights.chunks_exact(out.len()).zip(x) {
            for (out, &weight) in out.iter_mut().zip(weights) {
                *out = fused::<FUSED>(weight, x, *out);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hark_compute::kernels::math::from_bf16;

    /// Numbers between -1 and 1 that look random and are always the same.
    fn numbers(count: usize, seed: u32) -> Vec<f32> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state as f32 / 2f32.powi(31) - 1.0
        };
        (0..count).map(|_| next()).collect()
    }

    fn sets() -> impl Iterator<Item = &'static Lanes> {
        [Isa::Avx512Bf16, Isa::Avx512, Isa::Avx2, Isa::Portable]
            .into_iter()
            .filter(|isa| isa.is_available())
            .map(Lanes::of)
    }

    fn assert_close(got: &[u16], wanted: &[f32], what: &str) {
        for (got, wanted) in got.iter().zip(wanted) {
            let off = (from_bf16(*got) - wanted).abs();
            assert!(off <= wanted.abs() / 250.0 + 1e-5, "{what}: {} instead of {wanted}", from_bf16(*got));
        }
    }

    #[test]
    fn cells_follow_the_definition_of_a_recurrent_unit() {
        let rows = 5;
        // Gates far beyond what saturates, too.
        let sums: Vec<f32> = numbers(rows * 64, 1).iter().map(|x| x.powi(3) * 60.0).collect();
        let bias = numbers(64, 2);
        let before = numbers(rows * 16, 3);
        let gate = |row: usize, gate: usize, lane: usize| {
            f64::from((sums[row * 64 + gate * 16 + lane] + bias[gate * 16 + lane]) * -std::f32::consts::LN_2)
        };
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        for set in sets() {
            let (mut cells, mut out) = (before.clone(), vec![0u16; rows * 16]);
            let step = Cells {
                sums: sums.as_ptr(),
                rows,
                bias: bias.as_ptr(),
                cells: cells.as_mut_ptr(),
                out: out.as_mut_ptr(),
                out_stride: 16,
            };
            // SAFETY: the arrays have the stated shapes, and the set is available.
            unsafe { (set.cells)(&step) };
            let mut hidden = Vec::new();
            for row in 0..rows {
                for lane in 0..16 {
                    let [i, f, g, o] = [0, 1, 2, 3].map(|index| gate(row, index, lane));
                    let cell = sigmoid(f) * f64::from(before[row * 16 + lane]) + sigmoid(i) * (g / 2.0).tanh();
                    assert!((f64::from(cells[row * 16 + lane]) - cell).abs() < 2e-5, "cell {row} {lane}");
                    hidden.push((sigmoid(o) * cell.tanh()) as f32);
                }
            }
            assert_close(&out, &hidden, "outputs");
        }
    }

    #[test]
    fn pooling_takes_the_largest_of_three_rows() {
        let sums = numbers(6 * 32, 4);
        for set in sets() {
            for magnitudes in [false, true] {
                let mut out = vec![0f32; 2 * 40];
                // SAFETY: the arrays have the stated shapes, and the set is available.
                unsafe { (set.pool)(sums.as_ptr(), 2, out.as_mut_ptr(), 40, magnitudes) };
                for (row, column) in (0..2).flat_map(|row| (0..32).map(move |column| (row, column))) {
                    let three = (0..3).map(|k| sums[(row * 3 + k) * 32 + column]);
                    let three = three.map(|x| if magnitudes { x.abs() } else { x });
                    assert_eq!(out[row * 40 + column], three.fold(f32::MIN, f32::max));
                }
            }
        }
    }

    #[test]
    fn columns_come_out_with_the_mean_and_spread_they_are_given() {
        for width in [64, 80] {
            let rows = 301;
            let values: Vec<f32> = numbers(rows * 96, 5).iter().map(|x| 3.0 + x * 0.5).collect();
            let (gain, shift) = (numbers(width, 6), numbers(width, 7));
            for set in sets() {
                let mut out = vec![0u16; rows * width];
                let columns = Columns {
                    values: values.as_ptr(),
                    stride: 96,
                    rows,
                    columns: width,
                    gain: gain.as_ptr(),
                    shift: shift.as_ptr(),
                    out: out.as_mut_ptr(),
                    out_stride: width,
                };
                // SAFETY: the arrays have the stated shapes, and the set is available.
                unsafe { (set.normalize)(&columns) };
                for column in 0..width {
                    let of = |row: usize| f64::from(values[row * 96 + column]);
                    let mean = (0..rows).map(of).sum::<f64>() / rows as f64;
                    let variance = (0..rows).map(|row| (of(row) - mean).powi(2)).sum::<f64>() / rows as f64;
                    for row in [0, 17, rows - 1] {
                        let x = (of(row) - mean) / (variance + 1e-5).sqrt() * f64::from(gain[column]);
                        let x = (x + f64::from(shift[column])) as f32;
                        let wanted = if x < 0.0 { x * 0.01 } else { x };
                        assert_close(&out[row * width + column..][..1], &[wanted], "a column");
                    }
                }
            }
        }
    }

    #[test]
    fn bending_adds_the_bias_first() {
        let (sums, bias) = (numbers(3 * 32, 8), numbers(32, 9));
        for set in sets() {
            let mut out = vec![0u16; 3 * 48];
            // SAFETY: the arrays have the stated shapes, and the set is available.
            unsafe { (set.bend)(sums.as_ptr(), 3, bias.as_ptr(), out.as_mut_ptr(), 48) };
            for row in 0..3 {
                let x = (0..32).map(|column| sums[row * 32 + column] + bias[column]);
                let wanted: Vec<f32> = x.map(|x| if x < 0.0 { x * 0.01 } else { x }).collect();
                assert_close(&out[row * 48..][..32], &wanted, "a row");
            }
        }
    }

    #[test]
    fn logarithms_are_right_from_the_smallest_to_the_largest() {
        for set in sets() {
            let numbers: Vec<f32> =
                (0..4000).map(|step| 1.2e-7 * 1.02f32.powi(step)).take_while(|x| *x < 1e30).collect();
            let mut out = numbers.clone();
            (set.logarithms)(&mut out);
            for (number, out) in numbers.iter().zip(&out) {
                let wanted = f64::from(*number).ln();
                assert!(
                    (f64::from(*out) - wanted).abs() < 4e-6 + wanted.abs() * 3e-7,
                    "ln {number} = {out}, not {wanted}"
                );
            }
        }
    }

    #[test]
    fn finishing_adds_the_bias_and_the_other_rows_before_it_cuts() {
        let (sums, bias) = (numbers(3 * 32, 10), numbers(32, 11));
        let other: Vec<u16> = numbers(3 * 40, 12).iter().map(|x| to_bf16(*x)).collect();
        for (set, cut, added) in sets().flat_map(|set| [(set, true, false), (set, true, true), (set, false, true)]) {
            let mut out = vec![0u16; 3 * 40];
            let finish = Finish {
                sums: sums.as_ptr(),
                rows: 3,
                bias: bias.as_ptr(),
                other: if added { other.as_ptr() } else { std::ptr::null() },
                cut,
                out: out.as_mut_ptr(),
                stride: 40,
            };
            // SAFETY: the arrays have the stated shapes, and the set is available.
            unsafe { (set.finish)(&finish) };
            for row in 0..3 {
                let wanted: Vec<f32> = (0..32)
                    .map(|column| {
                        let other = if added { from_bf16(other[row * 40 + column]) } else { 0.0 };
                        let x = sums[row * 32 + column] + bias[column] + other;
                        if cut { x.max(0.0) } else { x }
                    })
                    .collect();
                assert_close(&out[row * 40..][..32], &wanted, "a finished row");
                assert_eq!(out[row * 40 + 32..][..8], [0; 8], "what lies between rows");
            }
        }
    }

    #[test]
    fn scaling_and_its_moments_agree() {
        let (count, width) = (7, 96);
        let rows: Vec<u16> = numbers(count * 100, 13).iter().map(|x| to_bf16(*x)).collect();
        let (gain, shift) = (numbers(width, 14), numbers(width, 15));
        for set in sets() {
            let mut out = vec![0u16; count * 128];
            let scaled = Scaled {
                rows: rows.as_ptr(),
                stride: 100,
                count,
                width,
                gain: gain.as_ptr(),
                shift: shift.as_ptr(),
                out: out.as_mut_ptr(),
                out_stride: 128,
            };
            let (mut sums, mut squares) = (vec![0f32; width], vec![0f32; width]);
            // SAFETY: the arrays have the stated shapes, and the set is available.
            unsafe {
                (set.scale)(&scaled);
                (set.moments)(&scaled, sums.as_mut_ptr(), squares.as_mut_ptr());
            }
            for column in 0..width {
                let wanted = |row: usize| (from_bf16(rows[row * 100 + column]) * gain[column] + shift[column]).max(0.0);
                for row in 0..count {
                    assert_close(&out[row * 128 + column..][..1], &[wanted(row)], "a scaled number");
                }
                assert!((sums[column] - (0..count).map(wanted).sum::<f32>()).abs() < 1e-4);
                assert!((squares[column] - (0..count).map(|row| wanted(row).powi(2)).sum::<f32>()).abs() < 1e-4);
            }
        }
    }

    #[test]
    fn masks_sums_and_products_follow_their_definitions() {
        let (sums, masks, which) = (numbers(3 * 32, 16), numbers(2 * 32, 17), [1u32, 0, 1]);
        let (weights, x) = (numbers(5 * 32, 18), numbers(5, 19));
        let rows: Vec<u16> = numbers(4 * 40, 20).iter().map(|x| to_bf16(*x)).collect();
        for set in sets() {
            let (mut out, mut added, mut product) = (vec![0u16; 3 * 32], vec![0f32; 32], vec![1f32; 32]);
            // SAFETY: the arrays have the stated shapes, and the set is available.
            unsafe {
                (set.mask)(sums.as_ptr(), 3, masks.as_ptr(), which.as_ptr(), out.as_mut_ptr(), 32);
                (set.add_up)(rows.as_ptr(), 40, 4, 32, added.as_mut_ptr());
            }
            (set.apply)(&weights, &x, &mut product);
            for column in 0..32 {
                for row in 0..3 {
                    let wanted = sums[row * 32 + column] * masks[which[row] as usize * 32 + column];
                    assert_close(&out[row * 32 + column..][..1], &[wanted], "a masked number");
                }
                let wanted: f32 = (0..4).map(|row| from_bf16(rows[row * 40 + column])).sum();
                assert!((added[column] - wanted).abs() < 1e-5);
                let wanted: f32 = 1.0 + (0..5).map(|k| x[k] * weights[k * 32 + column]).sum::<f32>();
                assert!((product[column] - wanted).abs() < 1e-5);
            }
        }
    }
}
