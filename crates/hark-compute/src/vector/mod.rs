//! float32 kernels written once over vectors of any width: GEMM, GEMV, LSTM, GRU, activations, STFT, dot products, filters.
//!
//! Everything stays float32, for small networks and filters whose precision matters more than the few microseconds
//! that bf16 tiles would save.

mod activation;
mod dot;
mod filters;
mod gemm;
mod gru;
mod lstm;
pub mod stft;
#[cfg(test)]
mod tests;

pub use filters::{FILTER_ROWS, Filters};
pub use gemm::{Left, PackedF32};
pub use stft::Stft;

use crate::Isa;
use crate::simd::Portable;
#[cfg(target_arch = "x86_64")]
use crate::simd::{Avx2, Avx512};
use crate::view::reach;
use stft::{BINS, CHUNK, CONTEXT, FRAMES};

/// Floats in a cache line: the granule of every matrix, and the widest vector.
pub const LINE: usize = 16;

/// Which vectors a set uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Width {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

/// The kernels for one width of vector; given out only where the machine has it.
#[derive(Clone, Copy)]
#[allow(clippy::type_complexity)]
pub struct Vectors {
    width: Width,
    gemm: unsafe fn(Left, &[f32], usize, usize, Option<&[f32]>, &mut [f32]),
    gemv: unsafe fn(&PackedF32, usize, &[f32], &mut [f32]),
    spectrum: unsafe fn(&Stft, &[f32], &[f32], usize, &mut [f32]),
    spectrum_of_one: unsafe fn(&Stft, &[f32], f32, &mut [f32]),
    lstm_step: unsafe fn(&[f32], &[f32], &mut [f32], &mut [f32]),
    gru_step: unsafe fn(&[f32], &[f32], &[f32], &mut [f32]),
    sigmoid: unsafe fn(&mut [f32]),
    tanh: unsafe fn(&mut [f32]),
}

impl Vectors {
    /// The widest that this machine has.
    pub fn best() -> Self {
        Self::of(Isa::best())
    }

    /// Those of an instruction set.
    ///
    /// # Panics
    /// When this machine does not have that instruction set.
    pub fn of(isa: Isa) -> Self {
        assert!(isa.is_available(), "this machine has no {}", isa.name());
        match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Amx | Isa::Avx512Bf16 | Isa::Avx512Vnni | Isa::Avx512 => avx512::VECTORS,
            #[cfg(target_arch = "x86_64")]
            Isa::AvxVnni | Isa::Avx2 => avx2::VECTORS,
            _ => portable::VECTORS,
        }
    }

    /// Every set that this machine can run, narrowest first.
    pub fn available() -> Vec<Self> {
        let sets = [Isa::Portable, Isa::Avx2, Isa::Avx512].into_iter();
        sets.filter(|isa| isa.is_available()).map(Self::of).collect()
    }

    /// Its name in reports.
    pub fn name(&self) -> &'static str {
        match self.width {
            Width::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Width::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Width::Avx512 => "avx512",
        }
    }

    /// `out[row][col] = Σ_k left[row][k] · right[k][col]`, over `columns` columns (a multiple of 16) of rows that lie
    /// `stride` apart; with a bias per row, that is added and ReLU applied.
    pub fn gemm(
        &self,
        left: Left,
        right: &[f32],
        columns: usize,
        stride: usize,
        bias: Option<&[f32]>,
        out: &mut [f32],
    ) {
        assert!(left.rows.is_multiple_of(LINE) && columns.is_multiple_of(LINE) && columns <= stride);
        assert!(left.rows > 0 && left.depth > 0 && left.step >= LINE && columns > 0);
        let panels = reach(left.rows / LINE, 0, left.panel);
        let needed = reach(left.depth, LINE, left.step).and_then(|panel| panel.checked_add(panels?));
        assert!(needed.is_some_and(|needed| needed <= left.data.len()), "the left side has all panels");
        let fits = |rows: usize, len: usize| reach(rows, columns, stride).is_some_and(|needed| needed <= len);
        assert!(
            fits(left.depth, right.len()) && fits(left.rows, out.len()),
            "the right side and the sums have all rows"
        );
        assert!(bias.is_none_or(|b| b.len() >= left.rows));
        // SAFETY: the set was given out only where the machine has it; the bounds are checked above.
        unsafe { (self.gemm)(left, right, columns, stride, bias, out) }
    }

    /// `out[row] += Σ_k weights[row][first + k] · x[k]` for all rows, a multiple of 64.
    pub fn gemv(&self, weights: &PackedF32, first: usize, x: &[f32], out: &mut [f32]) {
        assert!(weights.rows.is_multiple_of(4 * LINE) && out.len() >= weights.rows);
        assert!(first.checked_add(x.len()).is_some_and(|last| last <= weights.depth), "columns of the matrix");
        // SAFETY: the set was given out only where the machine has it. A packed matrix has all its rows, in whole panels; rows,
        // columns and outputs were checked above.
        unsafe { (self.gemv)(weights, first, x, out) }
    }

    /// Magnitudes `out[frame][bin][chunk]` of as many chunks as there are `gains`, each with its context made louder
    /// by its gain; `audio` holds the context and then the chunks; `stride` (a multiple of 16) is the distance between
    /// bins. Columns past the last chunk are filled, too.
    pub fn spectrum(&self, stft: &Stft, audio: &[f32], gains: &[f32], stride: usize, out: &mut [f32]) {
        let chunks = gains.len();
        assert!(chunks > 0 && chunks <= stride && stride.is_multiple_of(LINE));
        let needed = stride.checked_mul(FRAMES * BINS);
        assert!(audio.len() >= CONTEXT + chunks * CHUNK && needed.is_some_and(|needed| needed <= out.len()));
        // SAFETY: the set was given out only where the machine has it; the bounds are checked above.
        unsafe { (self.spectrum)(stft, audio, gains, stride, out) }
    }

    /// Magnitudes `out[bin][frame]` of one chunk after its context, bins 16 apart.
    pub fn spectrum_of_one(&self, stft: &Stft, audio: &[f32], gain: f32, out: &mut [f32]) {
        assert!(audio.len() >= CONTEXT + CHUNK && out.len() >= BINS * LINE);
        // SAFETY: the set was given out only where the machine has it; the bounds are checked above.
        unsafe { (self.spectrum_of_one)(stft, audio, gain, out) }
    }

    /// One LSTM step: sums of the gates (input, forget, new, output) and their bias in, `cell` and `hidden` replaced.
    /// There are as many units as `cell` is long, a multiple of 16.
    pub fn lstm_step(&self, sums: &[f32], bias: &[f32], cell: &mut [f32], hidden: &mut [f32]) {
        let units = cell.len();
        assert!(units.is_multiple_of(LINE) && hidden.len() >= units, "whole vectors of units");
        assert!(sums.len() >= 4 * units && bias.len() >= 4 * units, "four gates of each unit");
        // SAFETY: the set was given out only where the machine has it; the bounds are checked above.
        unsafe { (self.lstm_step)(sums, bias, cell, hidden) }
    }

    /// One GRU step: the sums of the gates (update, reset, new) over the input and their bias, the sums over the old hidden
    /// state with the recurrent bias in them; `hidden` is replaced. It has as many units as it is long, a multiple of 16.
    pub fn gru_step(&self, input: &[f32], bias: &[f32], recurrent: &[f32], hidden: &mut [f32]) {
        let units = hidden.len();
        assert!(units.is_multiple_of(LINE), "whole vectors of units");
        let gates = units.checked_mul(3).expect("a count of units");
        assert!([input, bias, recurrent].iter().all(|sums| sums.len() >= gates), "three gates of each unit");
        // SAFETY: the set was given out only where the machine has it; the bounds are checked above.
        unsafe { (self.gru_step)(input, bias, recurrent, hidden) }
    }

    /// Replaces every value by its sigmoid; there is a multiple of 16 of them.
    pub fn sigmoid(&self, values: &mut [f32]) {
        assert!(values.len().is_multiple_of(LINE), "whole vectors");
        // SAFETY: the set was given out only where the machine has it; the length is checked above.
        unsafe { (self.sigmoid)(values) }
    }

    /// Replaces every value by its hyperbolic tangent; there is a multiple of 16 of them.
    pub fn tanh(&self, values: &mut [f32]) {
        assert!(values.len().is_multiple_of(LINE), "whole vectors");
        // SAFETY: the set was given out only where the machine has it; the length is checked above.
        unsafe { (self.tanh)(values) }
    }

    /// The dot products of `row` with `N` stretches of `input`, which begin `stride` apart. The row's length is a
    /// multiple of 16.
    #[inline]
    pub fn dots<const N: usize>(&self, input: &[f32], stride: usize, row: &[f32]) -> [f32; N] {
        assert!(row.len().is_multiple_of(LINE), "whole vectors");
        let mut inputs = [&input[..0]; N];
        for (n, stretch) in inputs.iter_mut().enumerate() {
            *stretch = &input[n * stride..][..row.len()];
        }
        // SAFETY: the set was given out only where the machine has it; every stretch is as long as the row, a multiple of the
        // widest vector.
        unsafe {
            match self.width {
                Width::Portable => dot::dots::<Portable<4>, N>(inputs, row),
                #[cfg(target_arch = "x86_64")]
                Width::Avx2 => avx2::dots(inputs, row),
                #[cfg(target_arch = "x86_64")]
                Width::Avx512 => avx512::dots(inputs, row),
            }
        }
    }
}

/// Compiles the generic kernels for one implementation of `Simd`, with tiles of `$rows` rows × 3 vectors:
/// as many sums as its registers hold.
macro_rules! kernel_set {
    ($module:ident, $width:ident, $simd:ty, $rows:literal $(, $feature:literal)?) => {
        mod $module {
            use super::*;
            pub(super) const VECTORS: Vectors = Vectors {
                width: Width::$width, gemm, gemv, spectrum, spectrum_of_one, lstm_step, gru_step, sigmoid, tanh,
            };

            $(#[target_feature(enable = $feature)])?
            unsafe fn gemm(
                left: Left, right: &[f32], columns: usize, stride: usize, bias: Option<&[f32]>, out: &mut [f32],
            ) {
                // SAFETY: `Vectors::of` checked the CPU, `Vectors::gemm` the bounds.
                unsafe { super::gemm::gemm::<$simd, $rows>(left, right, columns, stride, bias, out) }
            }
            $(#[target_feature(enable = $feature)])?
            unsafe fn gemv(weights: &PackedF32, first: usize, x: &[f32], out: &mut [f32]) {
                // SAFETY: `Vectors::of` checked the CPU, `Vectors::gemv` the bounds.
                unsafe { super::gemm::gemv::<$simd>(weights, first, x, out) }
            }
            $(#[target_feature(enable = $feature)])?
            unsafe fn spectrum(stft: &Stft, audio: &[f32], gains: &[f32], stride: usize, out: &mut [f32]) {
                // SAFETY: `Vectors::of` checked the CPU, `Vectors::spectrum` the bounds.
                unsafe { stft::spectrum::<$simd>(stft, audio, gains, stride, out) }
            }
            $(#[target_feature(enable = $feature)])?
            unsafe fn spectrum_of_one(stft: &Stft, audio: &[f32], gain: f32, out: &mut [f32]) {
                // SAFETY: `Vectors::of` checked the CPU, `Vectors::spectrum_of_one` the bounds.
                unsafe { stft::spectrum_of_one::<$simd>(stft, audio, gain, out) }
            }
            $(#[target_feature(enable = $feature)])?
            unsafe fn lstm_step(sums: &[f32], bias: &[f32], cell: &mut [f32], hidden: &mut [f32]) {
                // SAFETY: `Vectors::of` checked the CPU, `Vectors::lstm_step` the bounds.
                unsafe { lstm::step::<$simd>(sums, bias, cell, hidden) }
            }
            $(#[target_feature(enable = $feature)])?
            unsafe fn gru_step(input: &[f32], bias: &[f32], recurrent: &[f32], hidden: &mut [f32]) {
                // SAFETY: `Vectors::of` checked the CPU, `Vectors::gru_step` the bounds.
                unsafe { gru::step::<$simd>(input, bias, recurrent, hidden) }
            }
            $(#[target_feature(enable = $feature)])?
            unsafe fn sigmoid(values: &mut [f32]) {
                // SAFETY: `Vectors::of` checked the CPU, `Vectors::sigmoid` the length.
                unsafe { activation::sigmoid_all::<$simd>(values) }
            }
            $(#[target_feature(enable = $feature)])?
            unsafe fn tanh(values: &mut [f32]) {
                // SAFETY: `Vectors::of` checked the CPU, `Vectors::tanh` the length.
                unsafe { activation::tanh_all::<$simd>(values) }
            }
            $(
            #[target_feature(enable = $feature)]
            pub(super) unsafe fn dots<const N: usize>(inputs: [&[f32]; N], row: &[f32]) -> [f32; N] {
                // SAFETY: `Vectors::of` checked the CPU, `Vectors::dots` the bounds.
                unsafe { dot::dots::<$simd, N>(inputs, row) }
            })?
        }
    };
}

kernel_set!(portable, Portable, Portable<4>, 4);
#[cfg(target_arch = "x86_64")]
kernel_set!(avx2, Avx2, Avx2, 4, "avx2,fma");
#[cfg(target_arch = "x86_64")]
kernel_set!(avx512, Avx512, Avx512, 8, "avx512f,avx2,fma");
