//! The disk with the recordings, and with the database where it is SQLite, is full for a while.

use std::fs::File;
use std::io::Write as _;
use std::time::Duration;

use super::deployment::{Deployment, hold};
use super::dice::Dice;
use crate::error::BenchError;

/// Fills the disk to the last bytes and frees it again.
pub(super) async fn inject(deployment: &mut Deployment, dice: &mut Dice, time: Duration) -> Result<(), BenchError> {
    let ballast = deployment.disk.join("ballast");
    let at = |source| BenchError::File { path: deployment.disk.join("ballast"), source };
    // Nothing left, or a few pages: then small writes succeed and large ones do not.
    let left = dice.pick(&[0, 0, 16 << 10, 256 << 10]);
    let mut file = File::create(&ballast).map_err(at)?;
    let block = vec![0u8; 1 << 20];
    let mut written = 0u64;
    for size in [1 << 20, 4096, 1] {
        // An error is the aim.
        while let Ok(bytes @ 1..) = file.write(&block[..size]) {
            written += bytes as u64;
        }
    }
    file.set_len(written.saturating_sub(left)).map_err(at)?;
    drop(file);
    hold(time).await;
    std::fs::remove_file(&ballast).map_err(at)
}
