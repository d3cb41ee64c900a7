//! The CPU backend: products of bytes or bf16 on tiles or vectors, fused attention, and a team of threads.

pub mod attention;
pub mod buffer;
pub mod cache;
mod decoder;
mod encoder;
pub mod isa;
pub mod kernels;
pub mod linear;
pub mod team;

pub use isa::Isa;
pub use linear::Weights;
pub use team::Team;

use crate::backend::{AlignmentScores, Answer, Backend, Entry, TokenMap};
use crate::weights::{Checkpoint, Dims, WeightsError};
use kernels::Kernels;
use kernels::bytes::ByteKernels;

/// What every layer needs to run: a team and the kernels it uses.
pub struct Compute {
    /// The threads.
    pub team: Team,
    /// The arithmetic.
    pub kernels: &'static Kernels,
    /// The arithmetic of layers kept in bytes.
    pub bytes: &'static ByteKernels,
}

impl Compute {
    /// A team of `threads` that uses the kernels of `isa`.
    pub fn new(threads: usize, isa: Isa) -> Self {
        Compute { kernels: Kernels::of(isa), bytes: ByteKernels::of(isa), team: Team::new(threads) }
    }

    /// Shares `pieces` out among prepared members.
    pub fn each(&self, pieces: usize, work: impl Fn(usize, usize) + Sync) {
        let prepare = self.kernels.prepare;
        self.team.each(pieces, |piece, member| {
            // SAFETY: the instruction set was checked when the kernels were chosen.
            unsafe { prepare() };
            work(piece, member);
        });
    }
}

/// How a [`CpuBackend`] is set up.
#[derive(Debug, Clone, Copy)]
pub struct CpuOptions {
    /// Threads that compute.
    pub threads: usize,
    /// The kernels to use.
    pub isa: Isa,
    /// How the linear layers are kept.
    pub weights: Weights,
    /// Windows decoded at once.
    pub slots: usize,
    /// Rows of a window: the widest beam.
    pub rows: usize,
}

/// A checkpoint on the CPU.
pub struct CpuBackend {
    dims: Dims,
    options: CpuOptions,
    compute: Compute,
    encoder: encoder::Encoder,
    decoder: decoder::Decoder,
}

impl CpuBackend {
    /// Packs the weights of `checkpoint`.
    pub fn load(checkpoint: &Checkpoint, tokens: TokenMap, options: CpuOptions) -> Result<Self, WeightsError> {
        Ok(CpuBackend {
            dims: checkpoint.dims,
            options,
            compute: Compute::new(options.threads, options.isa),
            encoder: encoder::Encoder::load(checkpoint, options.weights, options.threads.max(1))?,
            decoder: decoder::Decoder::load(checkpoint, tokens, options)?,
        })
    }

    /// The encoder's states of one window, rounded to bf16, for comparison with a reference.
    pub fn encoder_states(&mut self, mel: &[f32]) -> Vec<u16> {
        self.encoder.encode(&self.compute, mel);
        self.encoder.states()
    }
}

impl Backend for CpuBackend {
    fn dims(&self) -> &Dims {
        &self.dims
    }

    fn slots(&self) -> usize {
        self.options.slots
    }

    fn rows(&self) -> usize {
        self.options.rows
    }

    fn name(&self) -> String {
        format!("cpu ({}, {} threads)", self.options.isa.name(), self.options.threads)
    }

    fn encode(&mut self, windows: &[(usize, &[f32])]) {
        for &(slot, mel) in windows {
            let states = self.encoder.encode(&self.compute, mel);
            self.decoder.admit(&self.compute, slot, states);
        }
    }

    fn step(&mut self, entries: &[Entry]) -> Vec<Answer> {
        self.decoder.step(&self.compute, entries)
    }

    fn align(&mut self, slot: usize, tokens: &[u32], first: usize, frames: usize) -> AlignmentScores {
        self.decoder.align(&self.compute, slot, tokens, first, frames)
    }
}
