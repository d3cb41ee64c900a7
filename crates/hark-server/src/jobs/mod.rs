//! Work in the background: recordings from the queue, requests that wait for them, and maintenance.

mod maintenance;
mod run;
mod waiting;
mod workers;

pub(crate) use maintenance::{listen_to_changes, run_maintenance};
pub(crate) use waiting::{Waiter, Waiting};
pub(crate) use workers::{Running, Workers};

/// How the reason of a failure begins that is ours; any other is the sender's (the store's own begin so too).
pub(crate) const OUR_FAULT: &str = "the recording could not be transcribed";
/// The reason of a job whose client went away.
pub(crate) const CLIENT_LEFT: &str = "cancelled: the client went away before the transcript was there";
