//! Raises the hold of a job whose recording turns out longer than its container says.

use crate::addresses::anonymous::{self, AnonymousLimit};
use crate::clock::month_of;
use crate::db::args;
use crate::error::{Error, Result};
use crate::ids::{KeyId, Owner};
use crate::jobs::Jobs;
use crate::jobs::lease::Lease;
use crate::jobs::queue::lease_lost_if_deleted;
use crate::keys;
use crate::ledger;

impl Jobs<'_> {
    /// Raises what a running job holds to `minutes`: credits of its account, minutes of its key's month and of its address's day, all or
    /// none. Returns the minutes that are held, which may be more. [`Error::NotEnoughCredits`] or [`Error::Limit`] when
    /// they do not suffice, [`Error::LeaseLost`] when the job is no longer this worker's.
    pub async fn raise_hold(self, lease: &Lease, minutes: i64, anonymous_limit: Option<AnonymousLimit>) -> Result<i64> {
        let now = self.store.now();
        let mut tx = self.store.db().begin().await?;
        ledger::lock(&mut tx, lease.account).await.map_err(lease_lost_if_deleted)?;
        let sql = format!(
            "SELECT minutes, retries, owner, key_id, key_month, anonymous_day FROM jobs WHERE id = $1 AND lease = $2 AND state = 'processing'{}",
            tx.for_update()
        );
        let job = tx.optional(&sql, args![lease.job, &lease.token]).await?.ok_or(Error::LeaseLost)?;
        let held: i64 = job.get("minutes")?;
        let more = minutes - held;
        if more <= 0 {
            return Ok(held);
        }
        tx.execute("UPDATE jobs SET minutes = $1 WHERE id = $2", args![minutes, lease.job]).await?;
        if let (Some(id), Some(month)) = (job.get::<Option<i64>>("key_id")?, job.get::<Option<i64>>("key_month")?) {
            match month_of(now) == month {
                true => drop(keys::use_minutes(&mut tx, KeyId(id), more, now).await?),
                // The month of the job has ended, so its limit no longer applies.
                false => keys::add_minutes(&mut tx, KeyId(id), month, more).await?,
            }
        }
        if let (Some(day), Some(Owner::Anonymous(address))) =
            (job.get::<Option<i64>>("anonymous_day")?, Owner::parse(&job.get::<String>("owner")?))
        {
            anonymous::count_more(&mut tx, &address, day, more, anonymous_limit).await?;
        }
        let reference = ledger::job_reference(lease.job, job.get("retries")?);
        ledger::raise(&mut tx, lease.account, &reference, more, now).await?;
        tx.commit().await?;
        Ok(minutes)
    }
}
