//! Seals what was stored before there was a master key, beside running servers.
//!
//! It works in small transactions that each stand on their own: a run that is killed is started again. Rows that others are changing are skipped (`SKIP LOCKED`)
//! until the next round, so that there is no deadlock; whoever changes a row seals it anyway.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use zeroize::Zeroizing;

use crate::BlobKey;
use crate::db::{Tx, Value, args};
use crate::error::{Error, Result};
use crate::ids::{AccountId, TranscriptId};
use crate::ledger;
use crate::recordings::{self, Blob};
use crate::sealing::Sealing;
use crate::sealing::columns::{self, Column, Of, Part, PartValue};
use crate::sealing::keyless::KeylessExcluded;
use crate::sealing::{PLAIN, Sealer};

/// Rows that are looked at in one statement.
const PAGE: usize = 200;
/// Bytes that are sealed in one transaction, so that other writers never wait for long.
const BATCH: i64 = 1 << 20;
/// How often, and with which pause, what others were changing is tried again.
const ROUNDS: u32 = 5;
const PAUSE: Duration = Duration::from_millis(500);

/// An amount of what is stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UnsealedAmount {
    /// Texts and other values in the database.
    pub values: u64,
    /// Recordings.
    pub recordings: u64,
    /// Bytes of those recordings.
    pub bytes: u64,
}

impl UnsealedAmount {
    /// Whether it is nothing.
    pub fn is_nothing(&self) -> bool {
        self.values == 0 && self.recordings == 0
    }
}

/// What came of sealing everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealReport {
    /// What was sealed.
    pub sealed: UnsealedAmount,
    /// What still lies open: recordings that are being transcribed, and what others were changing all the time.
    pub left: UnsealedAmount,
    /// Recordings that the database knows and that are not where they should be; they are among those left.
    pub missing: Vec<BlobKey>,
}

/// The first byte of a value that lies open.
const OPEN: &[u8] = &[PLAIN];

/// A row that is to be sealed.
struct OpenRow {
    key: Vec<PartValue>,
    account: Option<AccountId>,
    bytes: i64,
}

impl Sealing<'_> {
    /// How much of what is stored is not sealed.
    pub async fn unsealed(self) -> Result<UnsealedAmount> {
        let mut open = UnsealedAmount::default();
        let number = |n: i64| u64::try_from(n).unwrap_or(0);
        for Column { table, name, .. } in columns::ALL {
            let sql = format!("SELECT count(*) AS n FROM {table} WHERE substr({name}, 1, 1) = $1");
            open.values += number(self.store.db().one(&sql, args![OPEN]).await?.get("n")?);
        }
        let sql = "SELECT count(*) AS n, CAST(COALESCE(SUM(size), 0) AS BIGINT) AS bytes FROM blobs WHERE is_sealed = $1 AND state = 'live'";
        let row = self.store.db().one(sql, args![false]).await?;
        open.recordings = number(row.get("n")?);
        open.bytes = number(row.get("bytes")?);
        Ok(open)
    }

    /// Seals everything that is stored in the clear and reports to `progress` how much that is so far. [`Error::Setup`] when somebody could read less
    /// afterwards: without a master key, with accounts that other master keys seal, or while a process without this key uses the database.
    pub async fn seal_all(self, mut progress: impl FnMut(&UnsealedAmount)) -> Result<SealReport> {
        let _excluded = self.ready_to_seal().await?;
        // Only the process that began an upload can hand it in, and those that did so without a key have ended.
        let sql = "UPDATE blobs SET state = 'deleting' WHERE state = 'uploading' AND is_sealed = $1";
        self.store.db().execute(sql, args![false]).await?;
        self.store.recordings().remove_deleted(None, None).await?;
        let mut sealed = UnsealedAmount::default();
        let mut missing = Vec::new();
        for round in 0..ROUNDS {
            if round > 0 {
                tokio::time::sleep(PAUSE).await;
            }
            for column in columns::ALL {
                self.seal_column(column, &mut sealed, &mut progress).await?;
            }
            missing = self.seal_recordings(&mut sealed, &mut progress).await?;
            let open = self.unsealed().await?;
            if open.values == 0 && open.recordings <= missing.len() as u64 {
                break;
            }
        }
        self.mark_encrypted().await?;
        self.store.mark_complete(&self.open_accounts().await?).await?;
        self.store.db().truncate_wal().await?;
        Ok(SealReport { sealed, left: self.unsealed().await?, missing })
    }

    /// Accounts with anything that is not sealed.
    async fn open_accounts(self) -> Result<HashSet<AccountId>> {
        let mut open = HashSet::new();
        for column in columns::ALL {
            let sql = format!(
                "SELECT DISTINCT {} AS account FROM {} WHERE substr({}, 1, 1) = $1",
                column.account(self.store.anonymous_account()),
                column.table,
                column.name
            );
            for row in self.store.db().all(&sql, args![OPEN]).await? {
                open.extend(row.get::<Option<i64>>("account")?.map(AccountId));
            }
        }
        let sql = "SELECT DISTINCT account_id FROM blobs WHERE is_sealed = $1 AND state = 'live'";
        for row in self.store.db().all(sql, args![false]).await? {
            open.extend(row.get::<Option<i64>>("account_id")?.map(AccountId));
        }
        Ok(open)
    }

    /// Writes the tables of sealed columns anew: what was replaced is then in no file of the database. Other processes wait while it lasts.
    pub async fn rewrite_tables(self) -> Result<()> {
        let mut tables: Vec<&str> = columns::ALL.iter().map(|column| column.table).collect();
        tables.dedup();
        self.store.db().vacuum(&tables).await
    }

    async fn ready_to_seal(self) -> Result<KeylessExcluded> {
        if self.store.master_keys().current().is_none() {
            return Err(Error::Setup("no master key is configured to seal with".into()));
        }
        let ids = self.store.master_keys().ids();
        let list: Vec<String> = (1..=ids.len()).map(|number| format!("${number}")).collect();
        let sql = format!("SELECT count(*) AS n FROM accounts WHERE master_id NOT IN ({})", list.join(", "));
        let values: Vec<Value<'_>> = ids.iter().map(Value::from).collect();
        let strange: i64 = self.store.db().one(&sql, &values).await?.get("n")?;
        if strange > 0 {
            return Err(Error::Setup(format!(
                "{strange} accounts are sealed with master keys that are not configured: is it the right key file?"
            )));
        }
        // Somebody who just ended may still be seen for a moment.
        for _ in 0..20 {
            if let Some(excluded) = self.store.0.keyless.exclude(self.store.db(), self.store.master_keys()).await? {
                return Ok(excluded);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Err(Error::Setup(
            "a process uses this database without the master key and could no longer read it: restart servers with `master_key_file` first, or stop them"
                .into(),
        ))
    }

    async fn seal_column(
        self,
        column: &Column,
        sealed: &mut UnsealedAmount,
        progress: &mut impl FnMut(&UnsealedAmount),
    ) -> Result<()> {
        let mut after: Vec<PartValue> = Vec::new();
        loop {
            let mut page = self.open_rows(column, &after).await?;
            let mut bytes = 0;
            let fits = page.iter().take_while(|row| {
                bytes += row.bytes;
                bytes <= BATCH
            });
            let batch = fits.count().max(1);
            page.truncate(batch);
            let Some(last) = page.last() else { return Ok(()) };
            let last = last.key.clone();
            // Before the transaction: a key that must be made is a transaction of its own.
            let mut sealers = HashMap::new();
            for account in page.iter().filter_map(|row| row.account) {
                match self.store.sealer(account).await {
                    Ok(sealer) => drop(sealers.insert(account, sealer)),
                    // It was deleted, and the row with it.
                    Err(Error::NotFound(_)) => {}
                    Err(error) => return Err(error),
                }
            }
            sealed.values += self.seal_rows(column, &after, &last, &sealers).await?;
            progress(sealed);
            after = last;
        }
    }

    /// The next rows whose value lies open.
    async fn open_rows(self, column: &Column, after: &[PartValue]) -> Result<Vec<OpenRow>> {
        let mut values: Vec<Value<'_>> = args![OPEN].to_vec();
        let sql = format!(
            "SELECT {}, {} AS account, CAST(length({name}) AS BIGINT) AS bytes FROM {} WHERE substr({name}, 1, 1) = $1{} ORDER BY {} LIMIT {PAGE}",
            list(column.key),
            column.account(self.store.anonymous_account()),
            column.table,
            compare(column.key, ">", after, &mut values),
            list(column.key),
            name = column.name,
        );
        let rows = self.store.db().all(&sql, &values).await?;
        rows.iter()
            .map(|row| {
                Ok(OpenRow {
                    key: column.key.iter().map(|part| part.of(row)).collect::<Result<_>>()?,
                    account: row.get::<Option<i64>>("account")?.map(AccountId),
                    bytes: row.get("bytes")?,
                })
            })
            .collect()
    }

    /// Seals what lies open in a range of rows, in one transaction; returns how many values it sealed.
    async fn seal_rows(
        self,
        column: &Column,
        after: &[PartValue],
        last: &[PartValue],
        sealers: &HashMap<AccountId, Sealer>,
    ) -> Result<u64> {
        let mut tx = self.store.db().begin().await?;
        let mut values: Vec<Value<'_>> = args![OPEN].to_vec();
        let mut parts = column.key.to_vec();
        parts.extend(column.parts.iter().filter(|part| column.key.iter().all(|key| key.name() != part.name())));
        let select = format!(
            "SELECT {}, {} AS account, {name} AS stored FROM {} WHERE substr({name}, 1, 1) = $1{}{} ORDER BY {}{}",
            list(&parts),
            column.account(self.store.anonymous_account()),
            column.table,
            compare(column.key, ">", after, &mut values),
            compare(column.key, "<=", last, &mut values),
            list(column.key),
            skip_locked(&tx),
            name = column.name,
        );
        let rows = tx.all(&select, &values).await?;
        let mut update = format!("UPDATE {} SET {name} = $1 WHERE {name} = $2", column.table, name = column.name);
        for (number, part) in (3..).zip(column.key) {
            update.push_str(&format!(" AND {} = ${number}", part.name()));
        }
        let mut sealed = 0;
        for row in &rows {
            let account = row.get::<Option<i64>>("account")?.map(AccountId);
            // The row of an account that was not seen before waits for the next round.
            let Some(sealer) = account.and_then(|account| sealers.get(&account)) else { continue };
            let key: Vec<PartValue> = column.key.iter().map(|part| part.of(row)).collect::<Result<_>>()?;
            let place: Vec<PartValue> = column.parts.iter().map(|part| part.of(row)).collect::<Result<_>>()?;
            let place: Vec<&dyn std::fmt::Display> = place.iter().map(|part| part as &dyn std::fmt::Display).collect();
            let place = column.at(&place);
            let stored = Zeroizing::new(row.get::<Vec<u8>>("stored")?);
            let value = Zeroizing::new(sealer.open_plain(&place, &stored)?);
            if sealer.is_complete() {
                tracing::warn!(%place, "seal.unexpected_plain");
            }
            let new = sealer.seal(&place, &value)?;
            let mut values: Vec<Value<'_>> = vec![(&new).into(), stored.as_slice().into()];
            values.extend(key.iter().map(Value::from));
            sealed += tx.execute(&update, &values).await?;
        }
        tx.commit().await?;
        Ok(sealed)
    }

    /// Seals recordings that nobody is reading; returns those that are missing.
    async fn seal_recordings(
        self,
        sealed: &mut UnsealedAmount,
        progress: &mut impl FnMut(&UnsealedAmount),
    ) -> Result<Vec<BlobKey>> {
        let mut missing = Vec::new();
        let mut after = String::new();
        loop {
            let sql = format!(
                "SELECT key, account_id, transcript_id, size, is_sealed FROM blobs
                 WHERE is_sealed = $1 AND state = 'live' AND key > $2 AND account_id IS NOT NULL AND transcript_id IS NOT NULL
                     AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.transcript_id = blobs.transcript_id AND j.state = 'processing')
                 ORDER BY key LIMIT {PAGE}"
            );
            let rows = self.store.db().all(&sql, args![false, &after]).await?;
            if rows.is_empty() {
                return Ok(missing);
            }
            for row in &rows {
                let old = recordings::blob(row)?;
                let transcript = TranscriptId(row.get("transcript_id")?);
                after = old.key.as_str().to_owned();
                match self.seal_recording(&old, transcript).await {
                    Ok(true) => {
                        sealed.recordings += 1;
                        sealed.bytes += old.size;
                    }
                    Ok(false) => {}
                    Err(Error::NotFound("recording")) if self.is_live(&old).await? => missing.push(old.key),
                    // It went away with its transcript or its account.
                    Err(Error::NotFound(_)) => {}
                    Err(error) => return Err(error),
                }
                progress(sealed);
            }
        }
    }

    async fn is_live(self, blob: &Blob) -> Result<bool> {
        let sql = "SELECT key FROM blobs WHERE key = $1 AND state = 'live'";
        Ok(self.store.db().optional(sql, args![blob.key.as_str()]).await?.is_some())
    }

    /// Writes a recording anew, sealed and under a new name, which takes the place of the old one in one transaction. False when it is wanted by
    /// somebody, or by nobody any more.
    async fn seal_recording(self, old: &Blob, transcript: TranscriptId) -> Result<bool> {
        let mut reader = self.store.recordings().open(old, None).await?;
        let mut upload = self.store.recordings().upload(old.account).await?.without_hash();
        while let Some(piece) = reader.next().await? {
            upload.write(piece).await?;
        }
        let new = upload.finish().await?;
        let replaced = self.replace_recording(old, &new, transcript).await;
        if !matches!(replaced, Ok(true)) {
            self.store.recordings().discard(&new.key).await?;
            return replaced;
        }
        self.store.recordings().remove(transcript).await;
        Ok(true)
    }

    async fn replace_recording(self, old: &Blob, new: &Blob, transcript: TranscriptId) -> Result<bool> {
        let mut tx = self.store.db().begin().await?;
        ledger::lock(&mut tx, old.account).await?;
        // A worker that has begun reads the old one. Whoever claims the job from here on finds the new.
        let sql = format!("SELECT state FROM jobs WHERE transcript_id = $1{}", tx.for_update());
        for job in tx.all(&sql, args![transcript]).await? {
            if job.get::<String>("state")? == "processing" {
                return Ok(false);
            }
        }
        let sql = "UPDATE blobs SET state = 'deleting' WHERE key = $1 AND state = 'live'";
        let given_up = tx.execute(sql, args![old.key.as_str()]).await?;
        let sql =
            "UPDATE blobs SET state = 'live', transcript_id = $1, size = $2 WHERE key = $3 AND state = 'uploading'";
        let taken = tx.execute(sql, args![transcript, new.size as i64, new.key.as_str()]).await?;
        if given_up == 0 || taken == 0 {
            return Ok(false);
        }
        tx.commit().await?;
        Ok(true)
    }

    /// Says of transcripts that they are sealed, once everything of them is.
    async fn mark_encrypted(self) -> Result<()> {
        let is_open = |column: &Column, of: &str| format!("substr({of}.{}, 1, 1) = $1", column.name);
        let mut open = vec![
            "SELECT 1 FROM blobs b WHERE b.transcript_id = transcripts.id AND b.state = 'live' AND b.is_sealed = $2"
                .to_owned(),
        ];
        for column in columns::ALL {
            let table = column.table;
            match column.of {
                Of::Account if table == "transcripts" => {
                    open.push(format!("SELECT 1 WHERE {}", is_open(column, table)));
                }
                Of::Transcript | Of::Job => open.push(format!(
                    "SELECT 1 FROM {table} x WHERE x.transcript_id = transcripts.id AND {}",
                    is_open(column, "x")
                )),
                Of::Chat => open.push(format!(
                    "SELECT 1 FROM {table} x JOIN chat_sessions s ON s.id = x.session_id WHERE s.transcript_id = transcripts.id AND {}",
                    is_open(column, "x")
                )),
                Of::Account | Of::Service => {}
            }
        }
        let none_open: String = open.iter().map(|query| format!(" AND NOT EXISTS ({query})")).collect();
        let mut after = i64::MIN;
        loop {
            let mut tx = self.store.db().begin().await?;
            let sql = format!(
                "SELECT id FROM transcripts WHERE is_encrypted = $2 AND id > $3{none_open} ORDER BY id LIMIT {PAGE}{}",
                skip_locked(&tx)
            );
            let rows = tx.all(&sql, args![OPEN, false, after]).await?;
            if rows.is_empty() {
                return Ok(());
            }
            for row in &rows {
                after = row.get("id")?;
                tx.execute("UPDATE transcripts SET is_encrypted = $1 WHERE id = $2", args![true, after]).await?;
            }
            tx.commit().await?;
        }
    }
}

/// What a `SELECT` ends with that locks its rows and passes over those that others have locked.
fn skip_locked(tx: &Tx) -> &'static str {
    if tx.is_postgres() { " FOR NO KEY UPDATE SKIP LOCKED" } else { "" }
}

fn list(parts: &[Part]) -> String {
    parts.iter().map(|part| part.name()).collect::<Vec<_>>().join(", ")
}

/// A condition that compares the key of a row with this one; none for an empty key.
fn compare<'a>(key: &[Part], with: &str, than: &'a [PartValue], values: &mut Vec<Value<'a>>) -> String {
    if than.is_empty() {
        return String::new();
    }
    let first = values.len() + 1;
    values.extend(than.iter().map(Value::from));
    let placeholders: Vec<String> = (first..=values.len()).map(|number| format!("${number}")).collect();
    format!(" AND ({}) {with} ({})", list(key), placeholders.join(", "))
}
