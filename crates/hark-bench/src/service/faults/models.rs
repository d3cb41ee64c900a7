//! A node without models runs beside healthy ones for a while and takes jobs from their queue.

use std::time::Duration;

use super::deployment::{Deployment, hold};
use crate::error::BenchError;
use crate::service::failed;
use crate::service::server::{Server, Setting};

pub(super) async fn inject(deployment: &mut Deployment, time: Duration) -> Result<(), BenchError> {
    let (setting, log) = (Setting { has_models: false, ..deployment.setting.clone() }, deployment.log.clone());
    let node = tokio::task::spawn_blocking(move || Server::start(&setting, &log)).await.map_err(failed)??;
    // People do not ask it: their requests go to the others, and so nothing they see may change.
    hold(time).await;
    drop(node);
    Ok(())
}
