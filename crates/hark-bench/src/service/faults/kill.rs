//! One node is killed with SIGKILL and started again after a while.

use std::time::Duration;

use super::dice::Dice;
use super::site::{Site, hold};
use crate::error::BenchError;

pub(super) async fn inflict(site: &mut Site, dice: &mut Dice, time: Duration) -> Result<(), BenchError> {
    let node = dice.below(site.nodes.len() as u64) as usize;
    site.kill(node);
    hold(time).await;
    site.start(node).await
}
