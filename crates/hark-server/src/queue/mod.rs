//! The queue in this process: running jobs, requests that wait for them, and the circuit breaker of claims.

mod breaker;
mod fault;
mod running;
mod waiting;

pub(crate) use breaker::{Breaker, wait_after};
pub(crate) use fault::Fault;
pub(crate) use running::Running;
pub(crate) use waiting::{Waiter, Waiting};
