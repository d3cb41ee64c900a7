//! The bucket of the recordings is gone for a while: connections are refused, or taken and never answered.

use std::time::Duration;

use super::deployment::{Deployment, hold};
use super::dice::Dice;
use crate::error::BenchError;
use crate::service::failed;

pub(super) async fn inject(deployment: &mut Deployment, dice: &mut Dice, time: Duration) -> Result<(), BenchError> {
    let s3 = deployment.s3.as_ref().ok_or_else(|| failed("the recordings are in no bucket"))?;
    if dice.below(2) == 0 {
        s3.freeze();
        hold(time).await;
        s3.thaw();
    } else {
        s3.refuse();
        hold(time).await;
        s3.accept();
    }
    Ok(())
}
