//! What happens between products: epilogues, norms, pooling, LSTM cells, by instruction set.
//!
//! A body is plain Rust and is the definition; the compiler turns it into vectors, once for each instruction set. The
//! only difference between the sets is that vectors multiply and add in one rounding. Every method checks the shapes of
//! its views once, never in a loop.

mod activate;
#[cfg(target_arch = "x86_64")]
mod avx512_bf16;
mod epilogue;
mod lstm;
mod math;
mod norm;
mod pooling;
#[cfg(test)]
mod tests;

use crate::Isa;
use crate::kernels::BLOCK;
use crate::view::{MatMut, MatRef};

pub use activate::Activation;
pub(crate) use activate::Finish;
pub use epilogue::Epilogue;
pub use lstm::{LSTM_GATES, LSTM_UNITS};

/// The functions of one instruction set; given out only where the machine has it.
pub struct Ops {
    lstm_step: unsafe fn(&lstm::Step),
    max_pool: unsafe fn(*const f32, usize, *mut f32, usize, bool),
    instance_norm: unsafe fn(&norm::Columns),
    leaky_relu: unsafe fn(*const f32, usize, *const f32, *mut u16, usize),
    epilogue: unsafe fn(&epilogue::Block),
    scale_relu: unsafe fn(&norm::Scaled),
    mask: unsafe fn(*const f32, usize, *const f32, *const u32, *mut u16, usize),
    column_sums: unsafe fn(*const u16, usize, usize, usize, *mut f32),
    moments: unsafe fn(&norm::Scaled, *mut f32, *mut f32),
    gemv: unsafe fn(&[f32], &[f32], &mut [f32]),
    ln: unsafe fn(&mut [f32]),
    activate: unsafe fn(&activate::Activate),
    finish: unsafe fn(&activate::Finish),
}

/// Compiles every body for the given features.
macro_rules! set {
    ($name:ident, $fused:literal, $(#[$attribute:meta])*) => {
        mod $name {
            use super::{Ops, activate, epilogue, lstm, math, norm, pooling};

            pub(super) static OPS: Ops = Ops {
                lstm_step, max_pool, instance_norm, leaky_relu, epilogue, scale_relu, mask, column_sums, moments, gemv, ln,
                activate, finish,
            };

            $(#[$attribute])*
            unsafe fn lstm_step(step: &lstm::Step) {
                // SAFETY: same contract as the body.
                unsafe { lstm::step::<$fused>(step) }
            }
            $(#[$attribute])*
            unsafe fn max_pool(sums: *const f32, rows: usize, out: *mut f32, stride: usize, magnitudes: bool) {
                // SAFETY: same contract as the body.
                unsafe { pooling::max_pool(sums, rows, out, stride, magnitudes) }
            }
            $(#[$attribute])*
            unsafe fn instance_norm(columns: &norm::Columns) {
                // SAFETY: same contract as the body.
                unsafe { norm::instance_norm::<$fused>(columns) }
            }
            $(#[$attribute])*
            unsafe fn leaky_relu(sums: *const f32, rows: usize, bias: *const f32, out: *mut u16, stride: usize) {
                // SAFETY: same contract as the body.
                unsafe { epilogue::leaky_relu(sums, rows, bias, out, stride) }
            }
            $(#[$attribute])*
            unsafe fn epilogue(block: &epilogue::Block) {
                // SAFETY: same contract as the body.
                unsafe { epilogue::apply(block) }
            }
            $(#[$attribute])*
            unsafe fn scale_relu(scaled: &norm::Scaled) {
                // SAFETY: same contract as the body.
                unsafe { norm::scale_relu::<$fused>(scaled) }
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
                unsafe { epilogue::mask(sums, rows, masks, which, out, stride) }
            }
            $(#[$attribute])*
            unsafe fn column_sums(rows: *const u16, stride: usize, count: usize, width: usize, sums: *mut f32) {
                // SAFETY: same contract as the body.
                unsafe { pooling::column_sums(rows, stride, count, width, sums) }
            }
            $(#[$attribute])*
            unsafe fn moments(scaled: &norm::Scaled, sums: *mut f32, squares: *mut f32) {
                // SAFETY: same contract as the body.
                unsafe { norm::moments::<$fused>(scaled, sums, squares) }
            }
            $(#[$attribute])*
            unsafe fn gemv(weights: &[f32], x: &[f32], out: &mut [f32]) {
                math::gemv::<$fused>(weights, x, out)
            }
            $(#[$attribute])*
            unsafe fn ln(numbers: &mut [f32]) {
                math::ln::<$fused>(numbers)
            }
            $(#[$attribute])*
            unsafe fn activate(rows: &activate::Activate) {
                // SAFETY: same contract as the body.
                unsafe { activate::activate::<$fused>(rows) }
            }
            $(#[$attribute])*
            unsafe fn finish(block: &activate::Finish) {
                // SAFETY: same contract as the body.
                unsafe { activate::finish::<$fused>(block) }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
set!(avx512, true, #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,fma")]);
#[cfg(target_arch = "x86_64")]
set!(avx2, true, #[target_feature(enable = "avx2,fma")]);
set!(portable, false,);

impl Ops {
    /// The functions for `isa`.
    ///
    /// # Panics
    /// When this machine does not have that instruction set.
    pub fn of(isa: Isa) -> &'static Ops {
        assert!(isa.is_available(), "this machine has no {}", isa.name());
        match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Amx | Isa::Avx512Bf16 => &avx512_bf16::OPS,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Vnni | Isa::Avx512 => &avx512::OPS,
            #[cfg(target_arch = "x86_64")]
            Isa::AvxVnni | Isa::Avx2 => &avx2::OPS,
            _ => &portable::OPS,
        }
    }

    /// One step of [`LSTM_UNITS`] units over the rows of `out`, which gets the outputs as bf16.
    ///
    /// `sums` has for each row the [`LSTM_GATES`] of these units (i, f, g, o), to which `bias` is added; `cells` their
    /// state. Gates come as exponents of two, the factor being in the weights: `-i`, `-f`, `-2g`, `-o`, each times log2 e.
    #[inline]
    pub fn lstm_step(&self, sums: &[f32], bias: &[f32], cells: &mut [f32], mut out: MatMut<u16>) {
        let rows = out.rows();
        assert!(sums.len() >= rows * LSTM_GATES && bias.len() >= LSTM_GATES, "the gates of every row");
        assert!(cells.len() >= rows * LSTM_UNITS && out.width() >= LSTM_UNITS, "the state of every row");
        let step = lstm::Step {
            sums: sums.as_ptr(),
            rows,
            bias: bias.as_ptr(),
            cells: cells.as_mut_ptr(),
            out_stride: out.stride(),
            out: out.as_mut_ptr(),
        };
        // SAFETY: the gates, the state and the place of every row were checked; the set is of this machine.
        unsafe { (self.lstm_step)(&step) }
    }

    /// The largest of every three rows of 32 sums, or of their magnitudes.
    #[inline]
    pub fn max_pool(&self, sums: &[f32], mut out: MatMut<f32>, magnitudes: bool) {
        let (rows, stride) = (out.rows(), out.stride());
        assert!(sums.len() >= 3 * rows * BLOCK && out.width() >= BLOCK, "three rows for each");
        // SAFETY: three rows of sums for each row of the output were checked; the set is of this machine.
        unsafe { (self.max_pool)(sums.as_ptr(), rows, out.as_mut_ptr(), stride, magnitudes) }
    }

    /// Normalizes each column over all rows (mean 0, variance 1), then applies `gain`, `shift` and leaky ReLU.
    ///
    /// # Panics
    /// When the matrix is neither 64 nor 80 columns wide.
    pub fn instance_norm(&self, values: MatRef<f32>, gain: &[f32], shift: &[f32], mut out: MatMut<u16>) {
        let columns = values.width();
        assert!(out.rows() >= values.rows() && out.width() >= columns, "a place for every row");
        assert!(gain.len() >= columns && shift.len() >= columns, "gain and shift of every column");
        let columns = norm::Columns {
            values: values.as_ptr(),
            stride: values.stride(),
            rows: values.rows(),
            columns,
            gain: gain.as_ptr(),
            shift: shift.as_ptr(),
            out_stride: out.stride(),
            out: out.as_mut_ptr(),
        };
        // SAFETY: a gain, a shift and a place for every column were checked; the set is of this machine.
        unsafe { (self.instance_norm)(&columns) }
    }

    /// Rows of 32 sums plus 32 biases through leaky ReLU, as bf16.
    #[inline]
    pub fn leaky_relu(&self, sums: &[f32], bias: &[f32], mut out: MatMut<u16>) {
        let (rows, stride) = (out.rows(), out.stride());
        assert!(sums.len() >= rows * BLOCK && bias.len() >= BLOCK && out.width() >= BLOCK, "a block of sums");
        // SAFETY: a block of sums and biases for every row of the output was checked; the set is of this machine.
        unsafe { (self.leaky_relu)(sums.as_ptr(), rows, bias.as_ptr(), out.as_mut_ptr(), stride) }
    }

    /// Turns a block of sums into bf16 rows: see [`Epilogue`].
    #[inline]
    pub fn epilogue(&self, epilogue: &Epilogue, mut out: MatMut<u16>) {
        let (rows, stride) = (out.rows(), out.stride());
        let Epilogue { sums, bias, residual, relu } = *epilogue;
        assert!(sums.len() >= rows * BLOCK && bias.len() >= BLOCK && out.width() >= BLOCK, "a block of sums");
        let residual = residual.map(|residual| {
            assert!(residual.rows() >= rows && residual.width() >= BLOCK, "a residual for every row");
            (residual.as_ptr(), residual.stride())
        });
        let (residual, residual_stride) = residual.unwrap_or((std::ptr::null(), 0));
        let block = epilogue::Block {
            sums: sums.as_ptr(),
            rows,
            bias: bias.as_ptr(),
            residual,
            residual_stride,
            relu,
            out: out.as_mut_ptr(),
            stride,
        };
        // SAFETY: sums, biases and the residual of every row of the output were checked; the set is of this machine.
        unsafe { (self.epilogue)(&block) }
    }

    /// `max(x · gain + shift, 0)` by columns, a multiple of 32 of them.
    #[inline]
    pub fn scale_relu(&self, rows: MatRef<u16>, gain: &[f32], shift: &[f32], mut out: MatMut<u16>) {
        assert!(out.rows() >= rows.rows() && out.width() >= rows.width(), "a place for every row");
        let scaled = norm::Scaled::new(rows, gain, shift, out.as_mut_ptr(), out.stride());
        // SAFETY: a gain, a shift and a place for every column were checked; the set is of this machine.
        unsafe { (self.scale_relu)(&scaled) }
    }

    /// Adds the sums over all rows of what [`Ops::scale_relu`] gives to `sums`, and those of its squares to `squares`.
    pub fn moments(&self, rows: MatRef<u16>, gain: &[f32], shift: &[f32], sums: &mut [f32], squares: &mut [f32]) {
        assert!(sums.len() >= rows.width() && squares.len() >= rows.width(), "a place for every column");
        let scaled = norm::Scaled::new(rows, gain, shift, std::ptr::null_mut(), 0);
        // SAFETY: a gain, a shift and both sums of every column were checked, and the output is not used; the set is of this machine.
        unsafe { (self.moments)(&scaled, sums.as_mut_ptr(), squares.as_mut_ptr()) }
    }

    /// Multiplies each row of 32 sums by the row of `masks` that `which` names for it.
    #[inline]
    pub fn mask(&self, sums: &[f32], masks: &[[f32; BLOCK]], which: &[u32], mut out: MatMut<u16>) {
        let (rows, stride) = (out.rows(), out.stride());
        assert!(sums.len() >= rows * BLOCK && out.width() >= BLOCK, "a block of sums");
        assert!(which[..rows].iter().all(|&mask| (mask as usize) < masks.len()), "every row has its mask");
        // SAFETY: a block of sums and a mask for every row of the output were checked; the set is of this machine.
        unsafe {
            (self.mask)(sums.as_ptr(), rows, masks.as_ptr().cast(), which.as_ptr(), out.as_mut_ptr(), stride);
        }
    }

    /// The sum of each column of bf16, a multiple of 16 of them.
    #[inline]
    pub fn column_sums(&self, rows: MatRef<u16>, sums: &mut [f32]) {
        let width = rows.width();
        assert!(width.is_multiple_of(LSTM_UNITS) && sums.len() >= width, "whole groups of columns");
        // SAFETY: a sum for every column was checked; the set is of this machine.
        unsafe { (self.column_sums)(rows.as_ptr(), rows.stride(), rows.rows(), width, sums.as_mut_ptr()) }
    }

    /// `out[n] += x[k] · weights[k][n]`.
    #[inline]
    pub fn gemv(&self, weights: &[f32], x: &[f32], out: &mut [f32]) {
        // SAFETY: a set is given out only where its instructions are available.
        unsafe { (self.gemv)(weights, x, out) }
    }

    /// Rows of float32 as bf16 rows: `activation(x · scale + shift)` by columns, a multiple of 32 of them.
    ///
    /// Where `split` says so, a row becomes three: the rounded numbers, what rounding left of them, and the rounded numbers again
    /// ([`crate::conv1d::Precision::Split`]).
    ///
    /// # Panics
    /// When a side is too small for the rows, or a column has no scale, shift or parameter of its activation.
    pub fn activate(
        &self,
        rows: MatRef<f32>,
        (scale, shift): (&[f32], &[f32]),
        activation: Activation,
        split: bool,
        mut out: MatMut<u16>,
    ) {
        let width = rows.width();
        let out_width = if split { 3 * width } else { width };
        assert!(width.is_multiple_of(BLOCK), "whole blocks of columns");
        assert!(out.rows() >= rows.rows() && out.width() >= out_width, "a place for every row");
        assert!(scale.len() >= width && shift.len() >= width, "scale and shift of every column");
        let kind = match activation {
            Activation::Identity => activate::Kind::Identity,
            Activation::LeakyRelu(slope) => activate::Kind::LeakyRelu(slope),
            Activation::Snake(alpha, inverse) => {
                assert!(alpha.len() >= width && inverse.len() >= width, "alpha of every column");
                activate::Kind::Snake(alpha.as_ptr(), inverse.as_ptr())
            }
            Activation::GeluTanh => activate::Kind::GeluTanh,
        };
        let block = activate::Activate {
            from: rows.as_ptr(),
            from_stride: rows.stride(),
            rows: rows.rows(),
            width,
            scale: scale.as_ptr(),
            shift: shift.as_ptr(),
            kind,
            out_stride: out.stride(),
            out: out.as_mut_ptr(),
            split,
        };
        // SAFETY: the views and the parameters of every column were checked; the set is of this machine.
        unsafe { (self.activate)(&block) }
    }

    /// The end of a block of a convolution: see [`Finish`].
    ///
    /// # Safety
    /// The block describes live memory of its shape, which nobody else uses.
    #[inline]
    pub(crate) unsafe fn finish(&self, block: &Finish) {
        // SAFETY: the caller vouches for the shapes; the set is of this machine.
        unsafe { (self.finish)(block) }
    }

    /// The natural logarithm of each number, none of which is below float32's smallest normal one.
    pub fn ln(&self, numbers: &mut [f32]) {
        // SAFETY: a set is given out only where its instructions are available.
        unsafe { (self.ln)(numbers) }
    }
}
