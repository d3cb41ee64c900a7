//! Anonymous use, by address and day.

use crate::addresses::Addresses;
use crate::db::{Tx, args};
use crate::error::{Error, Limit, Result};

/// The daily quota of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnonymousLimit {
    /// Transcriptions.
    Transcriptions(i64),
    /// Minutes of audio.
    Minutes(i64),
}

/// The usage of an address on a day.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AnonymousUse {
    /// Transcriptions.
    pub transcriptions: i64,
    /// Minutes of audio, each recording rounded up.
    pub minutes: i64,
}

impl Addresses<'_> {
    /// The usage of an address (its hash) on a day.
    pub async fn anonymous_use(self, address: &str, day: i64) -> Result<AnonymousUse> {
        let sql = "SELECT transcriptions, minutes FROM anonymous_days WHERE day = $1 AND address = $2";
        match self.store.db().optional(sql, args![day, address]).await? {
            Some(row) => Ok(AnonymousUse { transcriptions: row.get("transcriptions")?, minutes: row.get("minutes")? }),
            None => Ok(AnonymousUse::default()),
        }
    }

    /// Queued and running anonymous jobs.
    pub async fn anonymous_jobs(self) -> Result<i64> {
        let sql = "SELECT count(*) AS live FROM jobs WHERE account_id = $1";
        self.store.db().one(sql, args![self.store.anonymous_account()]).await?.get("live")
    }

    /// Counts a transcription outside of jobs (a live session) for an address.
    pub async fn count_anonymous(self, address: &str, day: i64, minutes: i64, limit: AnonymousLimit) -> Result<()> {
        let mut tx = self.store.db().begin().await?;
        count(&mut tx, address, day, minutes, Some(limit)).await?;
        tx.commit().await
    }
}

/// Counts one transcription of this many minutes for an address, if its limit allows.
pub(crate) async fn count(
    tx: &mut Tx,
    address: &str,
    day: i64,
    minutes: i64,
    limit: Option<AnonymousLimit>,
) -> Result<()> {
    // Counting first creates and locks the row; a rejection rolls it back.
    let row = tx
        .one(
            "INSERT INTO anonymous_days (day, address, transcriptions, minutes) VALUES ($1, $2, 1, $3)
             ON CONFLICT (day, address) DO UPDATE SET
                 transcriptions = anonymous_days.transcriptions + 1, minutes = anonymous_days.minutes + excluded.minutes
             RETURNING transcriptions, minutes",
            args![day, address, minutes],
        )
        .await?;
    let (transcriptions, sum): (i64, i64) = (row.get("transcriptions")?, row.get("minutes")?);
    match limit {
        Some(AnonymousLimit::Transcriptions(limit)) if transcriptions > limit => {
            Err(Error::Limit { what: Limit::AnonymousTranscriptions, limit, used: transcriptions - 1 })
        }
        Some(AnonymousLimit::Minutes(limit)) if sum > limit => {
            Err(Error::Limit { what: Limit::AnonymousMinutes, limit, used: sum - minutes })
        }
        _ => Ok(()),
    }
}

/// Adjusts the minutes of a counted transcription; negative to return unused ones.
pub(crate) async fn add_minutes(tx: &mut Tx, address: &str, day: i64, minutes: i64) -> Result<()> {
    let sql = "UPDATE anonymous_days SET minutes = minutes + $1 WHERE day = $2 AND address = $3";
    tx.execute(sql, args![minutes, day, address]).await.map(drop)
}

/// Counts more minutes for a counted transcription, if the limit allows.
pub(crate) async fn count_more(
    tx: &mut Tx,
    address: &str,
    day: i64,
    minutes: i64,
    limit: Option<AnonymousLimit>,
) -> Result<()> {
    let sql = "UPDATE anonymous_days SET minutes = minutes + $1 WHERE day = $2 AND address = $3 RETURNING minutes";
    let row = tx.optional(sql, args![minutes, day, address]).await?;
    let sum: i64 = row.map_or(Ok(minutes), |row| row.get("minutes"))?;
    match limit {
        Some(AnonymousLimit::Minutes(limit)) if sum > limit => {
            Err(Error::Limit { what: Limit::AnonymousMinutes, limit, used: sum - minutes })
        }
        _ => Ok(()),
    }
}

/// Uncounts a failed job.
pub(crate) async fn uncount(tx: &mut Tx, address: &str, day: i64, minutes: i64) -> Result<()> {
    tx.execute(
        "UPDATE anonymous_days SET transcriptions = transcriptions - 1, minutes = minutes - $1 WHERE day = $2 AND address = $3",
        args![minutes, day, address],
    )
    .await
    .map(drop)
}
