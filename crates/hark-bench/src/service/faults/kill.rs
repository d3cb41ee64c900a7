//! One node is killed with SIGKILL and started again after a while.

use std::time::Duration;

use super::deployment::{Deployment, hold};
use super::dice::Dice;
use crate::error::BenchError;

pub(super) async fn inject(deployment: &mut Deployment, dice: &mut Dice, time: Duration) -> Result<(), BenchError> {
    let node = dice.below(deployment.nodes.len() as u64) as usize;
    deployment.kill(node);
    hold(time).await;
    deployment.start(node).await
}
