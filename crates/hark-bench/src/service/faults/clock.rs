//! The clock of one node is set forwards or back by up to an hour, and right again after a while.
//!
//! libfaketime (Debian: faketime) stands between the process and its clock, and reads the offset from a file. Monotonic clocks are left alone, as by
//! a real step of the system's clock.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::deployment::{Deployment, hold};
use super::dice::Dice;
use crate::error::BenchError;

const HOUR: u64 = 3600;

pub(super) async fn inject(deployment: &mut Deployment, dice: &mut Dice, time: Duration) -> Result<(), BenchError> {
    // Small steps matter, too: one as long as a lease is enough to expire it.
    let seconds = dice.time(Duration::from_secs(1), Duration::from_secs(HOUR)).as_secs();
    let sign = dice.pick(&['+', '-']);
    set(&deployment.clock, &format!("{sign}{seconds}"))?;
    hold(time).await;
    set(&deployment.clock, "+0")
}

/// Sets the offset of a clock in seconds.
pub(super) fn set(clock: &Path, offset: &str) -> Result<(), BenchError> {
    let at = |source| BenchError::File { path: clock.to_owned(), source };
    // A new file in one step: the library must not read half a number.
    let next = clock.with_extension("next");
    std::fs::write(&next, offset).map_err(at)?;
    std::fs::rename(&next, clock).map_err(at)
}

/// The library, where it is installed.
pub(super) fn library() -> Option<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten().map(|entry| entry.path());
    folders.map(|folder| folder.join("faketime/libfaketimeMT.so.1")).find(|path| path.is_file())
}

/// What a process needs in its environment to follow the clock in this file.
pub(in crate::service) fn environment(clock: &Path) -> Vec<(&'static str, PathBuf)> {
    let Some(library) = library() else { return Vec::new() };
    vec![
        ("LD_PRELOAD", library),
        ("FAKETIME_TIMESTAMP_FILE", clock.to_owned()),
        ("FAKETIME_CACHE_DURATION", "1".into()),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1".into()),
        ("NO_FAKE_STAT", "1".into()),
    ]
}
