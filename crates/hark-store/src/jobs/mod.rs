//! Jobs: work that waits in a queue until a worker that can do it claims it.
//!
//! `accept.rs` puts work into the queue, `queue.rs` hands it out and ends it, `lease.rs` keeps it with its worker, `backoff.rs` says when a fault is retried,
//! `retry.rs` is about jobs that have failed, and `needs.rs` says what a worker must have.

pub(crate) mod accept;
pub(crate) mod backoff;
pub(crate) mod lease;
pub(crate) mod needs;
pub(crate) mod queue;
mod raise_hold;
pub(crate) mod retry;

use crate::Store;

/// The queue of jobs.
#[derive(Debug, Clone, Copy)]
pub struct Jobs<'a> {
    pub(crate) store: &'a Store,
}
