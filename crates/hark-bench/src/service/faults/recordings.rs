//! The folder of the recordings is gone for a while, as when its volume is not mounted: nothing is there, or an empty folder.

use std::time::Duration;

use super::deployment::{Deployment, hold};
use super::dice::Dice;
use crate::error::BenchError;

pub(super) async fn inject(deployment: &mut Deployment, dice: &mut Dice, time: Duration) -> Result<(), BenchError> {
    let (folder, away) = (deployment.recordings(), deployment.disk.join("recordings-away"));
    let at = |source| BenchError::File { path: deployment.recordings(), source };
    std::fs::rename(&folder, &away).map_err(at)?;
    if dice.below(2) == 0 {
        std::fs::create_dir(&folder).map_err(at)?;
    }
    hold(time).await;
    // What was written into the empty place meanwhile is hidden once the volume is back: whoever was promised it has lost it.
    let hidden = deployment.disk.join(format!("hidden-{}", dice.below(u64::MAX)));
    loop {
        match std::fs::rename(&folder, &hidden) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(at(error)),
            _ => {}
        }
        // The service may make the folder again in between.
        match std::fs::rename(&away, &folder) {
            Err(error) if error.kind() == std::io::ErrorKind::DirectoryNotEmpty => {
                std::fs::remove_dir_all(&hidden).map_err(at)?
            }
            done => return done.map_err(at),
        }
    }
}
