//! The bucket of the recordings is gone for a while: connections are refused, or taken and never answered.

use std::time::Duration;

use super::dice::Dice;
use super::site::{Site, hold};
use crate::error::BenchError;
use crate::service::failed;

pub(super) async fn inflict(site: &mut Site, dice: &mut Dice, time: Duration) -> Result<(), BenchError> {
    let s3 = site.s3.as_ref().ok_or_else(|| failed("the recordings are in no bucket"))?;
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
