//! What this process knows of the queue: jobs that run, requests that wait for them, and what is not to be claimed now.

mod breaker;
mod fault;
mod running;
mod waiting;

pub(crate) use breaker::{Breaker, wait_after};
pub(crate) use fault::Fault;
pub(crate) use running::Running;
pub(crate) use waiting::{Waiter, Waiting};
