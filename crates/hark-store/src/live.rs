//! Live sessions: transcripts that grow while audio is streamed, charged by the started minute.
//!
//! Final text is appended as the session runs, so a crash loses seconds of it, not hours. The row in `live_sessions` is a lease: every write checks its token
//! and increments its renewals. Maintenance completes a session whose renewals have not changed for the grace time by its own monotonic clock: no wall clock
//! matters, and the grace time starts once a process runs that the client could reconnect to.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use hark_api::{Segment, TranscriptionResult};

use crate::accounts::usage;
use crate::clock::Micros;
use crate::db::{Row, Tx, args};
use crate::error::{Error, Result};
use crate::ids::{AccountId, KeyId, Owner, TranscriptId};
use crate::keys;
use crate::ledger::{self, EntryKind};
use crate::sealing::Sealer;
use crate::transcripts;
use crate::transcripts::segment;
use crate::webhooks;
use crate::{Change, NewTranscript, Store, random, search};

/// Live sessions and their transcripts.
#[derive(Debug, Clone, Copy)]
pub struct LiveSessions<'a> {
    pub(crate) store: &'a Store,
}

/// The note of a charge.
const NOTE: &str = "live transcription";

/// The right to write to a live session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveLease {
    /// The transcript that grows.
    pub transcript: TranscriptId,
    account: AccountId,
    session: String,
    token: String,
}

/// A live session that was taken over from another connection or process.
#[derive(Debug, Clone)]
pub struct ResumedLive {
    /// The new lease; the previous one is lost.
    pub lease: LiveLease,
    /// Seconds of audio processed.
    pub heard_seconds: f64,
    /// Minutes charged.
    pub charged_minutes: i64,
    /// The final segments so far.
    pub segments: Vec<Segment>,
}

/// An append to a live session.
#[derive(Debug, Clone, Default)]
pub struct LiveAppend {
    /// Seconds of audio processed so far.
    pub heard_seconds: f64,
    /// The language, once it is known.
    pub language: String,
    /// The position of the first segment; stored segments from there on are replaced.
    pub position: i64,
    /// New or extended segments.
    pub segments: Vec<Segment>,
}

/// The renewals of live sessions as maintenance last observed them, and since when they are unchanged.
#[derive(Default)]
pub(crate) struct ObservedRenewals(Mutex<HashMap<TranscriptId, (i64, Instant)>>);

impl ObservedRenewals {
    fn reset(&self) {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clear();
    }

    /// Records the renewals of all sessions; returns the sessions unchanged for this long.
    fn unrenewed(&self, all: &[(TranscriptId, i64)], unchanged_for: Duration) -> Vec<(TranscriptId, i64)> {
        let mut observed = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let now = Instant::now();
        let since = |id: TranscriptId, renewals: i64| match observed.get(&id) {
            Some(&(before, since)) if before == renewals => since,
            _ => now,
        };
        let known: HashMap<_, _> = all.iter().map(|&(id, renewals)| (id, (renewals, since(id, renewals)))).collect();
        *observed = known;
        let is_unrenewed =
            |id: &TranscriptId| observed.get(id).is_some_and(|(_, since)| since.elapsed() >= unchanged_for);
        all.iter().copied().filter(|(id, _)| is_unrenewed(id)).collect()
    }
}

/// The ledger reference of the first minute of a session.
pub fn live_reference(session: &str) -> String {
    format!("stream:{session}")
}

fn minute_reference(session: &str, minute: i64) -> String {
    if minute == 1 { live_reference(session) } else { format!("{}:{minute}", live_reference(session)) }
}

/// Increments the renewals of a session and returns its charged minutes; [`Error::LeaseLost`] when it was taken over, ended or deleted.
async fn renew(tx: &mut Tx, lease: &LiveLease, processed_seconds: f64) -> Result<i64> {
    let row = tx
        .optional(
            "UPDATE live_sessions SET renewals = renewals + 1, heard_seconds = CASE WHEN heard_seconds < $1 THEN $1 ELSE heard_seconds END
             WHERE transcript_id = $2 AND lease = $3 RETURNING charged_minutes",
            args![processed_seconds, lease.transcript, &lease.token],
        )
        .await?;
    row.ok_or(Error::LeaseLost)?.get("charged_minutes")
}

/// Locks the account of a running session; a deleted account has deleted the session too.
async fn lock(tx: &mut Tx, lease: &LiveLease) -> Result<i64> {
    match ledger::lock(tx, lease.account).await {
        Err(Error::NotFound(_)) => Err(Error::LeaseLost),
        locked => locked,
    }
}

impl LiveSessions<'_> {
    /// Begins the transcript of a session; idempotent by session.
    pub async fn begin(self, account: AccountId, session: &str, new: &NewTranscript) -> Result<LiveLease> {
        let sealer = self.store.sealer(account).await?;
        let mut tx = self.store.db().begin().await?;
        ledger::lock(&mut tx, account).await?;
        let lease = |transcript, token| LiveLease { transcript, account, session: session.to_owned(), token };
        let sql = "SELECT transcript_id, lease FROM live_sessions WHERE session = $1 AND account_id = $2";
        if let Some(row) = tx.optional(sql, args![session, account]).await? {
            return Ok(lease(TranscriptId(row.get("transcript_id")?), row.get("lease")?));
        }
        let owner = Owner::Account(account).name();
        let id = transcripts::insert(&mut tx, &sealer, account, &owner, new, 0.0, self.store.now()).await?;
        tx.execute("UPDATE transcripts SET status = 'processing' WHERE id = $1", args![id]).await?;
        let token = random::token::<16>()?;
        tx.execute(
            "INSERT INTO live_sessions (transcript_id, account_id, session, lease, renewals, heard_seconds, charged_minutes)
             VALUES ($1, $2, $3, $4, 0, 0.0, 0)",
            args![id, account, session, &token],
        )
        .await?;
        tx.commit().await?;
        Ok(lease(id, token))
    }

    /// Charges the session up to this many minutes, each once, the first from the session's hold. If the credits do not suffice, the available ones are
    /// charged and [`Error::NotEnoughCredits`] is returned.
    pub async fn charge(self, lease: &LiveLease, key: KeyId, processed_seconds: f64, minutes: i64) -> Result<()> {
        let now = self.store.now();
        let mut tx = self.store.db().begin().await?;
        let mut have = lock(&mut tx, lease).await?;
        let charged = renew(&mut tx, lease, 0.0).await?;
        let mut paid = charged;
        while paid < minutes {
            let reference = minute_reference(&lease.session, paid + 1);
            let held = if paid == 0 { ledger::settle(&mut tx, &reference, 1, NOTE, now).await? } else { None };
            match held {
                Some(settled) => have = settled.credits,
                None if have < 1 => break,
                None => {
                    let charge = EntryKind::Charge;
                    have = ledger::post(&mut tx, lease.account, charge, -1, Some(&reference), NOTE, now).await?;
                }
            }
            paid += 1;
        }
        if paid > charged {
            let month = keys::use_minutes(&mut tx, key, paid - charged, now).await?;
            count_minutes(&mut tx, lease.transcript, key, month, paid - charged).await?;
            let sql = "UPDATE live_sessions SET charged_minutes = $1 WHERE transcript_id = $2";
            tx.execute(sql, args![paid, lease.transcript]).await?;
            // Only paid audio counts as processed.
            renew(&mut tx, lease, processed_seconds.min(60.0 * paid as f64)).await?;
        }
        tx.commit().await?;
        if paid < minutes { Err(Error::NotEnoughCredits { have, need: minutes - paid }) } else { Ok(()) }
    }

    /// Appends final segments; without segments it only renews the lease.
    pub async fn append(self, lease: &LiveLease, text: &LiveAppend) -> Result<()> {
        let id = lease.transcript;
        let sealer = self.store.sealer(lease.account).await?;
        let sealed = segment::seal_from(&sealer, id, text.position, &text.segments)?;
        let mut tx = self.store.db().begin().await?;
        renew(&mut tx, lease, text.heard_seconds).await?;
        if !sealed.is_empty() {
            segment::write_from(&mut tx, id, text.position, &sealed).await?;
        }
        let sql = "UPDATE transcripts SET duration_seconds = $1, language = CASE WHEN $2 = '' THEN language ELSE $2 END WHERE id = $3";
        tx.execute(sql, args![text.heard_seconds, &text.language, id]).await?;
        tx.commit().await
    }

    /// Ends a session: the whole result replaces what was appended; without a result, that stays.
    pub async fn complete(self, lease: &LiveLease, result: Option<&TranscriptionResult>) -> Result<()> {
        let id = lease.transcript;
        // A resumed session without stored text or new audio ends as if it had been cut off: it is refunded.
        let result = result.filter(|result| result.duration > 0.0 || !result.segments.is_empty());
        let sealer = self.store.sealer(lease.account).await?;
        let sealed = result.map(|result| segment::seal_from(&sealer, id, 0, &result.segments)).transpose()?;
        let mut tx = self.store.db().begin().await?;
        lock(&mut tx, lease).await?;
        let sql = format!("DELETE FROM live_sessions WHERE transcript_id = $1 AND lease = $2 RETURNING {ENDED}");
        let row = tx.optional(&sql, args![id, &lease.token]).await?;
        let Some(row) = row else {
            // Either a response was lost after the commit, or the session expired with less stored than the client would see.
            let sql = "SELECT id FROM transcripts WHERE id = $1 AND status = 'completed'";
            tx.optional(sql, args![id]).await?.ok_or(Error::LeaseLost)?;
            let stored = segment::read(&mut tx, &sealer, id).await?.len();
            let is_whole = result.is_none_or(|result| stored >= result.segments.len());
            return if is_whole { Ok(()) } else { Err(Error::LeaseLost) };
        };
        match (result, sealed) {
            (Some(result), Some(sealed)) => {
                segment::write_from(&mut tx, id, 0, &sealed).await?;
                let language = (!result.language.is_empty()).then_some(result.language.as_str());
                let sql = "UPDATE transcripts SET language = COALESCE($1, language), model = $2 WHERE id = $3";
                tx.execute(sql, args![language, &result.model, id]).await?;
                end(&mut tx, lease.account, id, result.duration, &result.segments, self.store.now()).await?;
            }
            _ => end_as_stored(&mut tx, &sealer, lease.account, id, &row, self.store.now()).await?,
        }
        tx.commit().await?;
        self.store.notify(Change::Finished(id));
        Ok(())
    }

    /// Resumes a running session, or one whose process died; `None` if it has ended.
    pub async fn resume(self, account: AccountId, session: &str) -> Result<Option<ResumedLive>> {
        let sealer = self.store.sealer(account).await?;
        let token = random::token::<16>()?;
        let mut tx = self.store.db().begin().await?;
        let row = tx
            .optional(
                "UPDATE live_sessions SET lease = $1, renewals = renewals + 1 WHERE session = $2 AND account_id = $3
                 RETURNING transcript_id, heard_seconds, charged_minutes",
                args![&token, session, account],
            )
            .await?;
        let Some(row) = row else { return Ok(None) };
        let transcript = TranscriptId(row.get("transcript_id")?);
        let segments = segment::read(&mut tx, &sealer, transcript).await?;
        tx.commit().await?;
        Ok(Some(ResumedLive {
            lease: LiveLease { transcript, account, session: session.to_owned(), token },
            heard_seconds: row.get("heard_seconds")?,
            charged_minutes: row.get("charged_minutes")?,
            segments,
        }))
    }

    /// Completes the sessions that this process has not observed renewed for this long, with their stored text. One without words is refunded. Returns how many.
    pub async fn expire(self, unchanged_for: Duration) -> Result<u64> {
        let all = match self.renewals().await {
            Ok(all) => all,
            Err(error) => {
                // During an outage of the database no session can renew: start observing again.
                self.store.observed_renewals().reset();
                return Err(error);
            }
        };
        let mut expired = 0;
        for (id, renewals) in self.store.observed_renewals().unrenewed(&all, unchanged_for) {
            if self.expire_one(id, renewals).await? {
                expired += 1;
                tracing::warn!(transcript = %id, "live.lease_expired");
                self.store.notify(Change::Finished(id));
            }
        }
        Ok(expired)
    }

    /// The renewals of each session. Fails where the database is read-only: then running sessions cannot renew either.
    async fn renewals(self) -> Result<Vec<(TranscriptId, i64)>> {
        let sql = "SELECT transcript_id, renewals FROM live_sessions";
        if self.store.db().all(sql, &[]).await?.is_empty() {
            return Ok(Vec::new());
        }
        self.store.integrity().probe_database().await?;
        // Read again: sessions may have renewed while the probe waited.
        let rows = self.store.db().all(sql, &[]).await?;
        rows.iter().map(|row| Ok((TranscriptId(row.get("transcript_id")?), row.get("renewals")?))).collect()
    }

    async fn expire_one(self, id: TranscriptId, renewals: i64) -> Result<bool> {
        let sql = "SELECT account_id FROM live_sessions WHERE transcript_id = $1";
        let Some(row) = self.store.db().optional(sql, args![id]).await? else { return Ok(false) };
        let account = AccountId(row.get("account_id")?);
        let sealer: Sealer = match self.store.sealer(account).await {
            Err(Error::NotFound(_)) => return Ok(false),
            sealer => sealer?,
        };
        let mut tx = self.store.db().begin().await?;
        match ledger::lock(&mut tx, account).await {
            Err(Error::NotFound(_)) => return Ok(false),
            locked => locked.map(drop)?,
        }
        // One that was renewed meanwhile is still running.
        let sql = format!("DELETE FROM live_sessions WHERE transcript_id = $1 AND renewals = $2 RETURNING {ENDED}");
        let Some(row) = tx.optional(&sql, args![id, renewals]).await? else { return Ok(false) };
        end_as_stored(&mut tx, &sealer, account, id, &row, self.store.now()).await?;
        tx.commit().await?;
        Ok(true)
    }
}

/// Refuses to change the text of a running session: completing it rewrites the text.
pub(crate) async fn check_ended(tx: &mut Tx, id: TranscriptId) -> Result<()> {
    let found = tx.optional("SELECT session FROM live_sessions WHERE transcript_id = $1", args![id]).await?;
    match found {
        Some(_) => Err(Error::Conflict("the live session goes on: edit its text when it is over")),
        None => Ok(()),
    }
}

/// The columns read of an ended session.
const ENDED: &str = "session, heard_seconds, charged_minutes";

/// Completes the transcript of a session that was cut off with its stored text; without any, its charge is refunded.
async fn end_as_stored(
    tx: &mut Tx,
    sealer: &Sealer,
    account: AccountId,
    id: TranscriptId,
    row: &Row,
    now: Micros,
) -> Result<()> {
    let segments = segment::read(tx, sealer, id).await?;
    let charged: i64 = row.get("charged_minutes")?;
    if segments.is_empty() && charged > 0 {
        let reference = live_reference(&row.get::<String>("session")?);
        let note = "the session was cut off before any words were settled";
        ledger::post(tx, account, EntryKind::Refund, charged, Some(&reference), note, now).await?;
        let sql = "SELECT key_id, month, minutes FROM live_minutes WHERE transcript_id = $1";
        for row in tx.all(sql, args![id]).await? {
            keys::add_minutes(tx, KeyId(row.get("key_id")?), row.get("month")?, -row.get::<i64>("minutes")?).await?;
        }
    }
    end(tx, account, id, row.get("heard_seconds")?, &segments, now).await
}

/// Records the key and month that a session's minutes were counted for.
async fn count_minutes(tx: &mut Tx, id: TranscriptId, key: KeyId, month: i64, minutes: i64) -> Result<()> {
    tx.execute(
        "INSERT INTO live_minutes (transcript_id, key_id, month, minutes) VALUES ($1, $2, $3, $4)
         ON CONFLICT (transcript_id, key_id, month) DO UPDATE SET minutes = live_minutes.minutes + excluded.minutes",
        args![id, key, month, minutes],
    )
    .await
    .map(drop)
}

/// Completes the transcript of an ended session and counts its usage.
async fn end(
    tx: &mut Tx,
    account: AccountId,
    id: TranscriptId,
    seconds: f64,
    segments: &[Segment],
    now: Micros,
) -> Result<()> {
    tx.execute("DELETE FROM live_minutes WHERE transcript_id = $1", args![id]).await?;
    let words: i64 = segments.iter().map(segment::words_in).sum();
    tx.execute(
        "UPDATE transcripts SET status = 'completed', progress = 100, duration_seconds = $1, word_count = $2, num_speakers = $3, completed_at = $4
         WHERE id = $5",
        args![seconds, words, segment::speakers(segments).len() as i64, now, id],
    )
    .await?;
    usage::count(tx, account, seconds, words, now).await?;
    search::mark_due(tx, id, now).await?;
    webhooks::mark_due(tx, id, now).await
}
