//! What every layer needs to run: threads and kernels.

use crate::Isa;
use crate::kernels::Kernels;
use crate::kernels::bytes::ByteKernels;
use crate::team::Team;

/// What every layer needs to run: a team and the kernels it uses.
#[non_exhaustive]
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
