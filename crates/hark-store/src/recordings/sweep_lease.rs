//! The lease of the sweep: one of the processes that share a database runs it at a time.

use std::time::Duration;

use crate::clock::micros;
use crate::db::args;
use crate::error::Result;
use crate::random;
use crate::recordings::Recordings;
use crate::recordings::sweep::{Mismatch, SweepReport};

/// The task name of the sweep.
const SWEEP: &str = "sweep";
/// The task name of a backup. Until its lease ends, the files of deleted recordings stay, see [`crate::backup`].
pub(crate) const BACKUP: &str = "backup";

/// The lease of a maintenance task.
#[derive(Debug)]
pub struct MaintenanceLease {
    task: &'static str,
    holder: String,
}

impl Recordings<'_> {
    /// Acquires the lease for `ttl` if the last sweep ended more than `every` ago and no other process holds it. A store that was never swept counts as
    /// swept now.
    pub async fn begin_sweep(self, every: Duration, ttl: Duration) -> Result<Option<MaintenanceLease>> {
        let now = self.store.lease_now().await?;
        let mut tx = self.store.db().begin().await?;
        let sql =
            "INSERT INTO maintenance (task, lease_until, finished_at) VALUES ($1, 0, $2) ON CONFLICT (task) DO NOTHING";
        tx.execute(sql, args![SWEEP, now]).await?;
        let holder = random::token::<8>()?;
        let begun = tx
            .execute(
                "UPDATE maintenance SET holder = $1, lease_until = $2 WHERE task = $3 AND lease_until <= $4 AND finished_at <= $5",
                args![
                    &holder,
                    now.saturating_add(micros(ttl)),
                    SWEEP,
                    now,
                    now.saturating_sub(micros(every).max(1))
                ],
            )
            .await?;
        tx.commit().await?;
        Ok((begun > 0).then_some(MaintenanceLease { task: SWEEP, holder }))
    }

    /// Releases the lease and stores the mismatch found; a sweep that failed is due again at once.
    pub async fn end_sweep(self, lease: MaintenanceLease, swept: Option<&SweepReport>) -> Result<()> {
        let now = self.store.lease_now().await?;
        let report = swept.map(|swept| serde_json::to_string(&swept.mismatch).unwrap_or_default());
        let sql = "UPDATE maintenance SET holder = NULL, lease_until = 0, finished_at = CASE WHEN $1 IS NULL THEN finished_at ELSE $2 END,
                       report = COALESCE($1, report)
                   WHERE task = $3 AND holder = $4";
        self.store.db().execute(sql, args![report.as_deref(), now, lease.task, &lease.holder]).await.map(drop)
    }

    /// The mismatch that the last sweep of any process found.
    pub async fn mismatch(self) -> Result<Option<Mismatch>> {
        let row = self.store.db().optional("SELECT report FROM maintenance WHERE task = $1", args![SWEEP]).await?;
        let report = row.map(|row| row.get::<Option<String>>("report")).transpose()?.flatten();
        Ok(report.and_then(|report| serde_json::from_str(&report).ok()).flatten())
    }
}
