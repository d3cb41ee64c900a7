//! Work in the background: jobs from the queue, requests that wait for them, and maintenance.

mod budget;
mod draft;
mod enhancement;
mod kind;
mod maintenance;
mod run;
mod transcription;
mod workers;

pub(crate) use enhancement::NEEDS as ENHANCEMENT_NEEDS;
pub(crate) use maintenance::{listen_to_changes, run_maintenance};
pub(crate) use transcription::needs;
pub(crate) use workers::Workers;

/// The reason of a job whose client disconnected.
pub(crate) const CLIENT_LEFT: &str = "cancelled: the client went away before the transcript was there";
