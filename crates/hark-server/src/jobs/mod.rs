//! Work in the background: jobs from the queue, requests that wait for them, and maintenance.

mod breaker;
mod budget;
mod kind;
mod maintenance;
mod run;
mod settings;
mod transcription;
mod waiting;
mod workers;

pub(crate) use breaker::Breaker;
pub(crate) use kind::Kinds;
pub(crate) use maintenance::{listen_to_changes, run_maintenance};
pub use settings::JobSettings;
pub(crate) use transcription::needs;
pub(crate) use waiting::{Waiter, Waiting};
pub(crate) use workers::{Running, Workers};

/// The reason of a job whose client went away.
pub(crate) const CLIENT_LEFT: &str = "cancelled: the client went away before the transcript was there";
