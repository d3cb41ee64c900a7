//! What every layer needs to run: threads and the kernels of an instruction set.

use std::marker::PhantomData;
use std::sync::Arc;

use crate::Isa;
use crate::buffer::SharedMut;
use crate::kernels::Kernels;
use crate::kernels::int8::Int8Kernels;
use crate::ops::Ops;
use crate::pool::{Priority, ThreadPool};

/// Threads and kernels; clones share the threads.
#[derive(Clone)]
pub struct Compute {
    /// The threads, shared by all models of a process.
    pub(crate) pool: Arc<ThreadPool>,
    // All three are of one instruction set: a thread that is prepared for one is prepared for all.
    /// bf16 products and attention.
    pub(crate) kernels: &'static Kernels,
    /// int8 products.
    pub(crate) int8: &'static Int8Kernels,
    /// What happens between products.
    pub(crate) ops: &'static Ops,
    priority: Priority,
}

impl Compute {
    /// The kernels of `isa` on a pool of its own.
    ///
    /// # Panics
    /// When this machine does not have that instruction set.
    pub fn new(threads: usize, isa: Isa) -> Self {
        Self::on(Arc::new(ThreadPool::new(threads)), isa)
    }

    /// So many threads (all cores when not given) and those kernels (the machine's best when not given).
    ///
    /// # Panics
    /// As [`Compute::new`].
    pub fn from_options(threads: Option<usize>, isa: Option<Isa>) -> Self {
        let threads = threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
        Self::new(threads, isa.unwrap_or_else(Isa::best))
    }

    /// The kernels of `isa` on a pool that others use as well.
    ///
    /// # Panics
    /// When this machine does not have that instruction set.
    pub fn on(pool: Arc<ThreadPool>, isa: Isa) -> Self {
        Compute {
            pool,
            kernels: Kernels::of(isa),
            int8: Int8Kernels::of(isa),
            ops: Ops::of(isa),
            priority: Priority::Foreground,
        }
    }

    /// The same threads and kernels for work that lets others go first: its caller asks [`Compute::is_foreground_active`] and pauses.
    pub fn background(&self) -> Self {
        Compute { priority: Priority::Background, ..self.clone() }
    }

    /// Whether work that is not in the background runs on these threads, or did a moment ago.
    pub fn is_foreground_active(&self) -> bool {
        self.pool.is_foreground_active()
    }

    /// Threads that work on a region, its caller included.
    pub fn threads(&self) -> usize {
        self.pool.threads()
    }

    /// The threads, shared by all models of a process.
    pub fn pool(&self) -> &Arc<ThreadPool> {
        &self.pool
    }

    /// Kernels of bf16 products and attention.
    pub fn kernels(&self) -> &'static Kernels {
        self.kernels
    }

    /// Kernels of int8 products.
    pub fn int8(&self) -> &'static Int8Kernels {
        self.int8
    }

    /// What happens between products.
    pub fn ops(&self) -> &'static Ops {
        self.ops
    }

    /// The instruction set that was chosen.
    pub fn isa(&self) -> Isa {
        self.kernels.isa
    }

    /// Calls `work` once for every index below `count`, shared out among the threads.
    pub fn parallel_for(&self, count: usize, work: impl Fn(usize, &Worker) + Sync) {
        let prepare = self.kernels.prepare;
        self.pool.parallel_for_as(self.priority, count, |index, thread| {
            // SAFETY: the instruction set was checked when the kernels were chosen.
            unsafe { prepare() };
            work(index, &Worker { compute: self, thread, own: PhantomData });
        });
    }

    /// As [`Compute::parallel_for`], each thread with its own of `workspaces`.
    ///
    /// # Panics
    /// When there are fewer workspaces than threads.
    pub fn parallel_for_with<W: Send>(
        &self,
        workspaces: &mut [W],
        count: usize,
        work: impl Fn(usize, &mut W, &Worker) + Sync,
    ) {
        assert!(workspaces.len() >= self.threads(), "a workspace for each thread");
        let workspaces = SharedMut::new(workspaces.as_mut_ptr());
        self.parallel_for(count, |index, worker| {
            // SAFETY: a thread's number is its own while a region runs, and there are as many workspaces.
            let workspace = unsafe { &mut *workspaces.at(worker.thread) };
            work(index, workspace, worker);
        });
    }

    /// Calls `work(index, chunk, worker)` for every `length` elements of `data`, the last chunk being what is left.
    pub fn parallel_chunks<T: Send>(
        &self,
        data: &mut [T],
        length: usize,
        work: impl Fn(usize, &mut [T], &Worker) + Sync,
    ) {
        let (all, start) = (data.len(), SharedMut::new(data.as_mut_ptr()));
        self.parallel_for(all.div_ceil(length), |index, worker| {
            let first = index * length;
            // SAFETY: chunks of different indices do not overlap, and every index is one piece.
            let chunk = unsafe { std::slice::from_raw_parts_mut(start.at(first), length.min(all - first)) };
            work(index, chunk, worker);
        });
    }
}

impl Compute {
    /// Calls `work` for every chunk of one array with the chunk of the other that has the same number; each has its own length.
    ///
    /// # Panics
    /// When the two have different numbers of chunks.
    pub fn parallel_chunk_pairs<A: Send, B: Send>(
        &self,
        (first, first_length): (&mut [A], usize),
        (second, second_length): (&mut [B], usize),
        work: impl Fn(&mut [A], &mut [B]) + Sync,
    ) {
        let pieces = first.len().div_ceil(first_length);
        assert_eq!(second.len().div_ceil(second_length), pieces, "as many chunks of each");
        let (first_end, second_end) = (first.len(), second.len());
        let (first, second) = (SharedMut::new(first.as_mut_ptr()), SharedMut::new(second.as_mut_ptr()));
        self.parallel_for(pieces, |index, _| {
            let (a, b) = (index * first_length, index * second_length);
            // SAFETY: chunks of different indices do not overlap, and every index is one piece.
            let (a, b) = unsafe {
                let a = std::slice::from_raw_parts_mut(first.at(a), first_length.min(first_end - a));
                (a, std::slice::from_raw_parts_mut(second.at(b), second_length.min(second_end - b)))
            };
            work(a, b);
        });
    }
}

/// A thread that runs a piece: it has been prepared for the kernels of its [`Compute`].
///
/// Kernels that need that (tiles have shapes, which belong to a thread) ask for a worker, which only
/// [`Compute::parallel_for`] makes and no other thread can have.
pub struct Worker<'a> {
    compute: &'a Compute,
    thread: usize,
    /// Neither sent nor shared.
    own: PhantomData<*const ()>,
}

impl Worker<'_> {
    /// Its number, below [`Compute::threads`]: no other thread of the region has it.
    #[inline]
    pub fn thread(&self) -> usize {
        self.thread
    }

    /// The kernels that it was prepared for.
    #[inline]
    pub fn kernels(&self) -> &'static Kernels {
        self.compute.kernels
    }

    /// What it computes with. A region inside a piece is allowed.
    #[inline]
    pub fn compute(&self) -> &Compute {
        self.compute
    }
}
