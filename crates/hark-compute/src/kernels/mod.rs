//! The kernels: small pieces of arithmetic, one set for each instruction set, chosen at run time.
//!
//! Products take activations as bf16 rows and weights as packed bf16 panels, and accumulate in float32, on every
//! machine: so the numbers differ between machines only by the order of additions. int8 layers have kernels of their own:
//! see [`int8`].
//!
//! **Panel layout** (what AMX wants, and what the others read just as well). A matrix that multiplies from the
//! right, `b[k][n]`, is cut into panels of 16 columns; a panel is a sequence of tiles of 32 `k`; a tile is
//! 16 rows of 64 bytes, row `p` holding the pairs `b[2p][n], b[2p+1][n]` for its 16 columns:
//! `index(k, n) = (n/16) * 16*K + (k/32) * 512 + ((k%32)/2) * 32 + (n%16) * 2 + k%2`.

use crate::Isa;

#[cfg(target_arch = "x86_64")]
mod amx;
#[cfg(target_arch = "x86_64")]
mod amx_attention;
#[cfg(target_arch = "x86_64")]
mod amx_int8;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
pub mod int8;
#[cfg(target_arch = "x86_64")]
mod int8_avx2;
#[cfg(target_arch = "x86_64")]
mod int8_avx512;
#[cfg(test)]
mod int8_tests;
pub mod math;
pub mod portable;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod vnni;

/// Rows and columns of the block that one call of [`Kernels::block`] computes.
pub const BLOCK: usize = 32;
/// Depth of a tile: `k` is padded to a multiple of this.
pub const DEPTH: usize = 32;
/// Columns of a panel.
pub const PANEL: usize = 16;
/// Elements of a tile.
pub const TILE: usize = DEPTH * PANEL;

/// One product block: `c[rows][32] (+)= a[rows][32*depth] · b`, `b` two panels.
///
/// Rows beyond `rows` up to the next multiple of 16 may be read and written: buffers are padded for that.
#[derive(Clone, Copy)]
pub struct Block {
    /// First activation row, bf16.
    pub a: *const u16,
    /// Elements between activation rows.
    pub a_stride: usize,
    /// First tile of the left panel.
    pub left: *const u16,
    /// First tile of the right panel.
    pub right: *const u16,
    /// Where the block goes.
    pub c: *mut f32,
    /// Elements between rows of `c`.
    pub c_stride: usize,
    /// Number of tiles along `k`.
    pub depth: usize,
    /// Rows that matter, 1 to 32.
    pub rows: usize,
    /// Whether `c` is added to or overwritten.
    pub accumulate: bool,
}

/// The epilogue of a block of float32 sums, 32 columns wide.
#[derive(Clone, Copy)]
pub struct BlockEpilogue<'a> {
    /// The sums, `rows` rows of 32.
    pub sums: &'a [f32],
    /// Rows that matter.
    pub rows: usize,
    /// 32 biases.
    pub bias: &'a [f32],
    /// Whether GELU is applied after the bias.
    pub gelu: bool,
}

/// The kernels of one instruction set; made only by [`Kernels::of`], for sets that the machine has.
#[non_exhaustive]
pub struct Kernels {
    /// The instruction set.
    pub isa: Isa,
    /// Prepares the calling thread (loads the tile configuration); cheap, called at the start of a region.
    pub(crate) prepare: unsafe fn(),
    /// A product block.
    pub block: unsafe fn(&Block),
    /// Bias, GELU, and bf16 out: `out[r*stride + c]`.
    pub epilogue_bf16: unsafe fn(&BlockEpilogue, out: *mut u16, stride: usize),
    /// Bias, GELU, and added to float32 `out[r*stride + c]`.
    pub epilogue_add: unsafe fn(&BlockEpilogue, out: *mut f32, stride: usize),
    /// A tile of keys from 16 frames of 32 elements: `(frames, out)`.
    pub transpose_keys: unsafe fn(*const u16, *mut u16),
    /// A tile of values from 32 frames, 32 elements apart, of which 16 are taken: `(frames, pairs, out)`. Line by line, the
    /// tile holds the pairs of frames that `pairs` names.
    pub interleave_values: unsafe fn(*const u16, &[usize; DEPTH / 2], *mut u16),
    /// Layer norm of one float32 row to bf16: `(row, gain, bias, width, out)`.
    pub layer_norm: unsafe fn(*const f32, *const f32, *const f32, usize, *mut u16),
    /// The exponentials of a block of scores: see [`SoftmaxBlock`].
    pub softmax_block: unsafe fn(&mut SoftmaxBlock),
    /// `out[i] = in[i] * factor` as bf16, `(in, factor, n, out)`.
    pub scale_to_bf16: unsafe fn(*const f32, f32, usize, *mut u16),
    /// Attention of at most [`MAX_INT8_ROWS`] rows over int8 keys and values, where the set has a way of its own.
    pub(crate) attend_int8: Option<unsafe fn(&mut Int8Attention)>,
    /// The encoder's attention, where the set has a way of its own.
    pub self_attention: Option<SelfAttentionKernel>,
    /// Whole numbers as bf16, exactly: `(numbers, how many, out)`, a multiple of 32.
    pub int8_to_bf16: unsafe fn(*const i8, usize, *mut u16),
    /// Attention of one row over its own past, whose shapes were checked: see [`CausalAttention`].
    pub(crate) causal_attention: unsafe fn(&mut CausalAttention),
    /// See [`Kernels::log_sum`].
    pub(crate) log_sum: unsafe fn(*const f32, usize) -> (f32, f32),
}

/// Online softmax of up to 32 rows over one chunk of scores: writes the weights `2^(scale·(score − reference))` and adds
/// them up.
///
/// A row's reference is the highest score of its first chunk. Any other would do as well, as long as no weight
/// overflows: bf16 is as precise at 2^40 as at 1. So it is moved only if a later chunk goes far beyond it, which saves
/// finding the exact maximum of every row and rescaling what was summed so far.
pub struct SoftmaxBlock {
    /// Scores of the chunk.
    pub scores: *const f32,
    /// Elements between rows of scores.
    pub scores_stride: usize,
    /// The rows to do now.
    pub rows: std::ops::Range<usize>,
    /// Chunk width, a multiple of 32.
    pub width: usize,
    /// Where the bf16 weights go.
    pub weights: *mut u16,
    /// Elements between rows of weights.
    pub weights_stride: usize,
    /// Scores are multiplied by this before the exponential (1/sqrt(d), times log2 e: the base is 2).
    pub scale: f32,
    /// Whether this is the rows' first chunk.
    pub is_first: bool,
    /// Reference score of each row.
    pub reference: [f32; BLOCK],
    /// Sums of weights of each row, in 16 lanes to be added up at the end.
    pub sums: [[f32; 16]; BLOCK],
    /// What earlier results of each row must be multiplied by; 1 where the reference stayed.
    pub rescale: [f32; BLOCK],
}

/// A weight may grow to 2 to this power before its row's reference is moved.
pub const MAX_EXPONENT: f32 = 40.0;

/// Attention of one decoder row over the positions before it, all heads, each of 64 elements:
/// [`crate::attention::causal_attention`].
pub struct CausalAttention<'a> {
    /// The query row, bf16, `heads * 64`.
    pub query: &'a [u16],
    /// The KV cache.
    pub cache: &'a [u16],
    /// For every position where its key row begins in the cache; the value row begins `value_offset` elements behind that.
    pub past: &'a [usize],
    /// Elements from the start of a key row to that of its value row.
    pub value_offset: usize,
    /// Number of heads.
    pub heads: usize,
    /// Scores are multiplied by this (1/sqrt(64), times log2 e).
    pub scale: f32,
    /// Workspace for `heads * past.len()` weights.
    pub weights: &'a mut [f32],
    /// Where the bf16 result row goes, `heads * 64`.
    pub out: &'a mut [u16],
}

/// Called with the raw scores of a row.
pub(crate) type RowTap<'a> = &'a mut dyn FnMut(usize, &[f32]);

/// Most rows of a [`Int8Attention`].
pub(crate) const MAX_INT8_ROWS: usize = 8;
/// Most frames of a [`Int8Attention`], padding included.
pub(crate) const MAX_INT8_FRAMES: usize = 1504;

/// Attention of a few rows of one head over int8 keys and values (see [`crate::attention::Int8KeyValues`]).
pub(crate) struct Int8Attention<'a> {
    /// The query rows, bf16, 64 elements each.
    pub query: *const u16,
    /// Elements between query rows.
    pub query_stride: usize,
    /// Rows, 1 to [`MAX_INT8_ROWS`].
    pub rows: usize,
    /// All keys of the head.
    pub keys: &'a [i8],
    /// All values of the head.
    pub values: &'a [i8],
    /// The scale of each key element.
    pub key_scales: &'a [f32],
    /// The scale of each value element.
    pub value_scales: &'a [f32],
    /// Frames that count; keys and values are padded.
    pub frames: usize,
    /// Scores are multiplied by this (1/sqrt(64), times log2 e).
    pub scale: f32,
    /// Where the bf16 result rows go.
    pub out: *mut u16,
    /// Elements between result rows.
    pub out_stride: usize,
    /// Called with `(row, scores)`.
    pub tap: Option<RowTap<'a>>,
}

/// The encoder's queries are multiplied by this many times the base-2 exponent that a score stands for.
pub const SCORE_SCALE: f32 = 128.0;

/// A set's own way through the encoder's attention.
#[derive(Clone, Copy)]
pub struct SelfAttentionKernel {
    /// Attends.
    pub attend: unsafe fn(&SelfAttention),
    /// Which pair of frames each line of a tile of values holds.
    pub pairs: &'static [usize; DEPTH / 2],
}

/// Attention of up to 32 query rows of one head over all frames of the encoder's window.
pub struct SelfAttention {
    /// The query rows, bf16, 64 elements each; 32 can be read.
    pub query: *const u16,
    /// Elements between query rows.
    pub query_stride: usize,
    /// Rows that matter, 1 to 32.
    pub rows: usize,
    /// The head's panels of keys.
    pub keys: *const u16,
    /// The head's panels of values.
    pub values: *const u16,
    /// Frames that count; keys and values are padded to 32 with finite numbers.
    pub frames: usize,
    /// Where the bf16 result rows go.
    pub out: *mut u16,
    /// Elements between result rows.
    pub out_stride: usize,
}

/// Elements of an attention head: 64 in every Whisper.
pub const HEAD: usize = 64;

impl Kernels {
    /// The kernels for `isa`.
    ///
    /// # Panics
    /// When this machine does not have that instruction set.
    pub fn of(isa: Isa) -> &'static Kernels {
        assert!(isa.is_available(), "this machine has no {}", isa.name());
        match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Amx => &amx::KERNELS,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Bf16 if avx512::has_slow_bf16_products() => &avx512::KERNELS_BF16_WIDENED,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Bf16 => &avx512::KERNELS_BF16,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Vnni => &avx512::KERNELS_VNNI,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => &avx512::KERNELS,
            #[cfg(target_arch = "x86_64")]
            Isa::AvxVnni | Isa::Avx2 => &avx2::KERNELS,
            _ => &portable::KERNELS,
        }
    }

    /// `(max, sum of exp(x - max))` of a float32 row.
    pub fn log_sum(&self, row: &[f32]) -> (f32, f32) {
        // SAFETY: the set was given out only where the machine has it; a slice has its length.
        unsafe { (self.log_sum)(row.as_ptr(), row.len()) }
    }

    /// Bias and GELU of a block of sums, rounded to bf16; rows beyond those of the block stay as they are.
    ///
    /// # Panics
    /// When the block has more than 32 rows, or fewer sums or biases than its shape says.
    pub fn finish_block(&self, block: &BlockEpilogue, out: &mut [[u16; BLOCK]; BLOCK]) {
        block.check();
        // SAFETY: the set was given out only where the machine has it; the block was checked, and `out` has 32 rows of 32.
        unsafe { (self.epilogue_bf16)(block, out.as_mut_ptr().cast(), BLOCK) }
    }
}

impl BlockEpilogue<'_> {
    /// Checks that the block is one: at most 32 rows, all of whose sums are there, and 32 biases.
    #[inline]
    pub(crate) fn check(&self) {
        let is_whole = self.sums.len() >= self.rows * BLOCK && self.bias.len() >= BLOCK;
        assert!(self.rows <= BLOCK && is_whole, "a block of at most 32 rows of 32 sums");
    }
}

/// A kernel that has nothing to prepare.
///
/// # Safety
/// None needed; the type is that of [`Kernels::prepare`].
unsafe fn nothing_to_prepare() {}
