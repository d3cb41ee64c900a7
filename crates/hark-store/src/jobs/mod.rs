//! The job queue.
//!
//! `accept.rs` queues jobs, `queue.rs` claims and ends them, `lease.rs` renews and expires leases, `backoff.rs` is the retry policy,
//! `retry.rs` handles failed jobs, `needs.rs` matches jobs with workers, and `product.rs` is what a job makes.

pub(crate) mod accept;
pub(crate) mod backoff;
pub(crate) mod lease;
pub(crate) mod needs;
pub(crate) mod product;
pub(crate) mod queue;
mod raise_hold;
pub(crate) mod retry;

use crate::Store;
use crate::audit::{NewAudit, audited};

/// The queue of jobs.
#[derive(Debug, Clone, Copy)]
pub struct Jobs<'a> {
    pub(crate) store: &'a Store,
    /// Written in the transaction of the next retry or removal of a failed job.
    pub(crate) audit: Option<&'a NewAudit>,
}

audited!(Jobs);
