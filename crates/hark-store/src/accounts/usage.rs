//! Usage of accounts by day, independent of whether the counted transcripts still exist.

use crate::accounts::Accounts;
use crate::clock::{Micros, day_of};
use crate::db::{Tx, args};
use crate::error::Result;
use crate::ids::AccountId;

/// The usage of one day.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UsageDay {
    /// UTC day since 1970.
    pub day: i64,
    /// Transcripts completed.
    pub transcripts: i64,
    /// Seconds of audio.
    pub duration_seconds: f64,
    /// Words.
    pub words: i64,
}

/// The usage of a period.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct UsageSummary {
    /// Transcripts completed.
    pub total_transcripts: i64,
    /// Seconds of audio.
    pub total_duration_seconds: f64,
    /// Words.
    pub total_words: i64,
    /// The days with usage, oldest first.
    pub daily: Vec<UsageDay>,
}

impl Accounts<'_> {
    /// The usage of an account in the last `days` days, today included.
    pub async fn usage(self, account: AccountId, days: i64) -> Result<UsageSummary> {
        let first = day_of(self.store.now()) - days + 1;
        let rows = self.store
            .db()
            .all(
                "SELECT day, transcripts, duration_seconds, words FROM usage_days WHERE account_id = $1 AND day >= $2 ORDER BY day",
                args![account, first],
            )
            .await?;
        let mut summary = UsageSummary::default();
        for row in rows {
            let day = UsageDay {
                day: row.get("day")?,
                transcripts: row.get("transcripts")?,
                duration_seconds: row.get("duration_seconds")?,
                words: row.get("words")?,
            };
            summary.total_transcripts += day.transcripts;
            summary.total_duration_seconds += day.duration_seconds;
            summary.total_words += day.words;
            summary.daily.push(day);
        }
        Ok(summary)
    }
}

/// Counts a completed transcript.
pub(crate) async fn count(tx: &mut Tx, account: AccountId, seconds: f64, words: i64, now: Micros) -> Result<()> {
    tx.execute(
        "INSERT INTO usage_days (account_id, day, transcripts, duration_seconds, words) VALUES ($1, $2, 1, $3, $4)
         ON CONFLICT (account_id, day) DO UPDATE SET transcripts = usage_days.transcripts + 1,
             duration_seconds = usage_days.duration_seconds + excluded.duration_seconds, words = usage_days.words + excluded.words",
        args![account, day_of(now), seconds, words],
    )
    .await
    .map(drop)
}
