//! Seals what was stored before there was a master key, while servers run.
//!
//! It works in small independent transactions: a run that is killed can be started again. Rows that are locked by others are skipped (`SKIP LOCKED`)
//! until the next round, so that there is no deadlock; an update seals the row anyway.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use zeroize::Zeroizing;

use crate::BlobKey;
use crate::db::{Tx, Value, args};
use crate::error::{Error, Result};
use crate::ids::{AccountId, EnhancementId, TranscriptId};
use crate::jobs::product::Product;
use crate::ledger;
use crate::recordings::{self, Blob};
use crate::sealing::Sealing;
use crate::sealing::columns::{self, Column, KeyColumn, KeyValue, RowOwner};
use crate::sealing::keyless::KeylessExcluded;
use crate::sealing::{PLAIN, Sealer};
use crate::search;
use crate::uploads;

/// Rows of one query.
const PAGE: usize = 200;
/// Bytes sealed in one transaction, so that other writers never wait for long.
const BATCH: i64 = 1 << 20;
/// How many rounds there are for skipped rows, and the pause between two.
const ROUNDS: u32 = 5;
const PAUSE: Duration = Duration::from_millis(500);

/// An amount of stored data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UnsealedAmount {
    /// Values in the database.
    pub values: u64,
    /// Recordings.
    pub recordings: u64,
    /// Bytes of those recordings.
    pub bytes: u64,
}

impl UnsealedAmount {
    /// Whether it is zero.
    pub fn is_nothing(&self) -> bool {
        self.values == 0 && self.recordings == 0
    }
}

/// The result of [`Sealing::seal_all`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealReport {
    /// What was sealed.
    pub sealed: UnsealedAmount,
    /// What is still plaintext: recordings that are being transcribed, and rows that were locked in every round.
    pub left: UnsealedAmount,
    /// Recordings whose file is missing; they are counted in `left`.
    pub missing: Vec<BlobKey>,
}

/// The first byte of a plaintext value.
const PLAIN_PREFIX: &[u8] = &[PLAIN];

/// A row to seal.
struct PlaintextRow {
    key: Vec<KeyValue>,
    account: Option<AccountId>,
    bytes: i64,
}

impl Sealing<'_> {
    /// How much stored data is plaintext.
    pub async fn unsealed(self) -> Result<UnsealedAmount> {
        let mut plaintext = UnsealedAmount::default();
        let number = |n: i64| u64::try_from(n).unwrap_or(0);
        for Column { table, name, .. } in columns::ALL {
            let sql = format!("SELECT count(*) AS n FROM {table} WHERE substr({name}, 1, 1) = $1");
            plaintext.values += number(self.store.db().one(&sql, args![PLAIN_PREFIX]).await?.get("n")?);
        }
        let sql = "SELECT count(*) AS n, CAST(COALESCE(SUM(size), 0) AS BIGINT) AS bytes FROM blobs WHERE is_sealed = $1 AND state = 'live'";
        let row = self.store.db().one(sql, args![false]).await?;
        plaintext.recordings = number(row.get("n")?);
        plaintext.bytes = number(row.get("bytes")?);
        Ok(plaintext)
    }

    /// Seals all plaintext and reports to `progress` how much was sealed so far. [`Error::Setup`] when a process could no longer read the data
    /// afterwards: without a master key, with accounts sealed under unknown master keys, or while a process without this key uses the database.
    pub async fn seal_all(self, mut progress: impl FnMut(&UnsealedAmount)) -> Result<SealReport> {
        let _excluded = self.check_ready_to_seal().await?;
        // Only the process that began an upload can finish it, and those without a key have ended.
        let sql = "UPDATE blobs SET state = 'deleting' WHERE state = 'uploading' AND is_sealed = $1";
        self.store.db().execute(sql, args![false]).await?;
        uploads::discard_unsealed(self.store).await?;
        self.store.recordings().remove_deleted(None, None).await?;
        // An index is made again rather than sealed: its terms are keyed by the data key, too.
        let mut sealed =
            UnsealedAmount { values: search::discard_unkeyed(self.store).await?, ..UnsealedAmount::default() };
        let mut missing = Vec::new();
        for round in 0..ROUNDS {
            if round > 0 {
                tokio::time::sleep(PAUSE).await;
            }
            for column in columns::ALL {
                self.seal_column(column, &mut sealed, &mut progress).await?;
            }
            missing = self.seal_recordings(&mut sealed, &mut progress).await?;
            let plaintext = self.unsealed().await?;
            if plaintext.values == 0 && plaintext.recordings <= missing.len() as u64 {
                break;
            }
        }
        self.mark_transcripts_encrypted().await?;
        self.store.mark_complete(&self.accounts_with_plaintext().await?).await?;
        self.store.db().truncate_wal().await?;
        Ok(SealReport { sealed, left: self.unsealed().await?, missing })
    }

    /// Accounts with plaintext values or recordings.
    async fn accounts_with_plaintext(self) -> Result<HashSet<AccountId>> {
        let mut plaintext = HashSet::new();
        for column in columns::ALL {
            let sql = format!(
                "SELECT DISTINCT {} AS account FROM {} WHERE substr({}, 1, 1) = $1",
                column.account(self.store.anonymous_account()),
                column.table,
                column.name
            );
            for row in self.store.db().all(&sql, args![PLAIN_PREFIX]).await? {
                plaintext.extend(row.get::<Option<i64>>("account")?.map(AccountId));
            }
        }
        let sql = "SELECT DISTINCT account_id FROM blobs WHERE is_sealed = $1 AND state = 'live'";
        for row in self.store.db().all(sql, args![false]).await? {
            plaintext.extend(row.get::<Option<i64>>("account_id")?.map(AccountId));
        }
        Ok(plaintext)
    }

    /// Rewrites the tables of sealed columns, so that no replaced plaintext remains in the database's files. Blocks other processes meanwhile.
    pub async fn rewrite_tables(self) -> Result<()> {
        let mut tables: Vec<&str> = columns::ALL.iter().map(|column| column.table).collect();
        tables.dedup();
        tables.push("search_passages");
        self.store.db().vacuum(&tables).await
    }

    async fn check_ready_to_seal(self) -> Result<KeylessExcluded> {
        if self.store.master_keys().current().is_none() {
            return Err(Error::Setup("no master key is configured to seal with".into()));
        }
        let ids = self.store.master_keys().ids();
        let list: Vec<String> = (1..=ids.len()).map(|number| format!("${number}")).collect();
        let sql = format!("SELECT count(*) AS n FROM accounts WHERE master_id NOT IN ({})", list.join(", "));
        let values: Vec<Value<'_>> = ids.iter().map(Value::from).collect();
        let unknown: i64 = self.store.db().one(&sql, &values).await?.get("n")?;
        if unknown > 0 {
            return Err(Error::Setup(format!(
                "{unknown} accounts are sealed with master keys that are not configured: is it the right key file?"
            )));
        }
        // A process that just ended may still be listed for a moment.
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
        let mut after: Vec<KeyValue> = Vec::new();
        loop {
            let mut page = self.plaintext_rows(column, &after).await?;
            let mut bytes = 0;
            let fits = page.iter().take_while(|row| {
                bytes += row.bytes;
                bytes <= BATCH
            });
            let batch = fits.count().max(1);
            page.truncate(batch);
            let Some(last) = page.last() else { return Ok(()) };
            let last = last.key.clone();
            // Before the transaction: creating a data key is a transaction of its own.
            let mut sealers = HashMap::new();
            for account in page.iter().filter_map(|row| row.account) {
                match self.store.sealer(account).await {
                    Ok(sealer) => drop(sealers.insert(account, sealer)),
                    // The account was deleted, and the row with it.
                    Err(Error::NotFound(_)) => {}
                    Err(error) => return Err(error),
                }
            }
            sealed.values += self.seal_rows(column, &after, &last, &sealers).await?;
            progress(sealed);
            after = last;
        }
    }

    /// The next page of rows with a plaintext value, after the key `after`.
    async fn plaintext_rows(self, column: &Column, after: &[KeyValue]) -> Result<Vec<PlaintextRow>> {
        let mut values: Vec<Value<'_>> = args![PLAIN_PREFIX].to_vec();
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
                Ok(PlaintextRow {
                    key: column.key.iter().map(|part| part.value_in(row)).collect::<Result<_>>()?,
                    account: row.get::<Option<i64>>("account")?.map(AccountId),
                    bytes: row.get("bytes")?,
                })
            })
            .collect()
    }

    /// Seals the plaintext values of a range of rows in one transaction; returns how many.
    async fn seal_rows(
        self,
        column: &Column,
        after: &[KeyValue],
        last: &[KeyValue],
        sealers: &HashMap<AccountId, Sealer>,
    ) -> Result<u64> {
        let mut tx = self.store.db().begin().await?;
        let mut values: Vec<Value<'_>> = args![PLAIN_PREFIX].to_vec();
        let mut selected = column.key.to_vec();
        selected.extend(column.aad_columns.iter().filter(|aad| column.key.iter().all(|key| key.name() != aad.name())));
        let select = format!(
            "SELECT {}, {} AS account, {name} AS stored FROM {} WHERE substr({name}, 1, 1) = $1{}{} ORDER BY {}{}",
            list(&selected),
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
            // The row is new and of an account without a sealer here: left to the next round.
            let Some(sealer) = account.and_then(|account| sealers.get(&account)) else { continue };
            let key: Vec<KeyValue> = column.key.iter().map(|part| part.value_in(row)).collect::<Result<_>>()?;
            let values: Vec<KeyValue> =
                column.aad_columns.iter().map(|part| part.value_in(row)).collect::<Result<_>>()?;
            let values: Vec<&dyn std::fmt::Display> = values.iter().map(|value| value as _).collect();
            let aad = column.associated_data(&values);
            let stored = Zeroizing::new(row.get::<Vec<u8>>("stored")?);
            let value = Zeroizing::new(sealer.open_allowing_plaintext(&aad, &stored)?);
            if sealer.is_complete() {
                tracing::warn!(place = %aad, "seal.unexpected_plain");
            }
            let new = sealer.seal(&aad, &value)?;
            let mut values: Vec<Value<'_>> = vec![(&new).into(), stored.as_slice().into()];
            values.extend(key.iter().map(Value::from));
            sealed += tx.execute(&update, &values).await?;
        }
        tx.commit().await?;
        Ok(sealed)
    }

    /// Seals recordings that are not being transcribed; returns the keys of missing ones.
    async fn seal_recordings(
        self,
        sealed: &mut UnsealedAmount,
        progress: &mut impl FnMut(&UnsealedAmount),
    ) -> Result<Vec<BlobKey>> {
        let mut missing = Vec::new();
        let mut after = String::new();
        loop {
            let sql = format!(
                "SELECT key, account_id, transcript_id, enhancement_id, size, is_sealed FROM blobs
                 WHERE is_sealed = $1 AND state = 'live' AND key > $2 AND account_id IS NOT NULL
                     AND (transcript_id IS NOT NULL OR enhancement_id IS NOT NULL)
                     AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.transcript_id = blobs.transcript_id AND j.state = 'processing')
                     AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.enhancement_id = blobs.enhancement_id AND j.state = 'processing')
                 ORDER BY key LIMIT {PAGE}"
            );
            let rows = self.store.db().all(&sql, args![false, &after]).await?;
            if rows.is_empty() {
                return Ok(missing);
            }
            for row in &rows {
                let old = recordings::blob(row)?;
                let product = match row.get::<Option<i64>>("enhancement_id")? {
                    Some(id) => Product::from(EnhancementId(id)),
                    None => Product::from(TranscriptId(row.get("transcript_id")?)),
                };
                after = old.key.as_str().to_owned();
                match self.seal_recording(&old, product).await {
                    Ok(true) => {
                        sealed.recordings += 1;
                        sealed.bytes += old.size;
                    }
                    Ok(false) => {}
                    Err(Error::NotFound("recording")) if self.is_live(&old).await? => missing.push(old.key),
                    // It was deleted with its transcript or account.
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

    /// Copies a recording sealed under a new key, which replaces the old one in one transaction. Returns false when it is being
    /// transcribed or was deleted.
    async fn seal_recording(self, old: &Blob, product: Product) -> Result<bool> {
        let mut reader = self.store.recordings().open(old, None).await?;
        let mut upload = self.store.recordings().upload(old.account).await?.without_hash();
        while let Some(piece) = reader.next().await? {
            upload.write(piece).await?;
        }
        let new = upload.finish().await?;
        let replaced = self.replace_recording(old, &new, product).await;
        if !matches!(replaced, Ok(true)) {
            self.store.recordings().discard(&new.key).await?;
            return replaced;
        }
        self.store.recordings().remove(product).await;
        Ok(true)
    }

    async fn replace_recording(self, old: &Blob, new: &Blob, product: Product) -> Result<bool> {
        let mut tx = self.store.db().begin().await?;
        ledger::lock(&mut tx, old.account).await?;
        // A worker that has claimed the job reads the old recording. From here on a claim finds the new one.
        let column = product.column();
        let sql = format!("SELECT state FROM jobs WHERE {column} = $1{}", tx.for_update());
        for job in tx.all(&sql, args![product.number()]).await? {
            if job.get::<String>("state")? == "processing" {
                return Ok(false);
            }
        }
        let sql = "UPDATE blobs SET state = 'deleting' WHERE key = $1 AND state = 'live'";
        let marked = tx.execute(sql, args![old.key.as_str()]).await?;
        // The old row may be gone: its recording was deleted meanwhile, and the new one is given up below.
        let sql = format!(
            "UPDATE blobs SET state = 'live', {column} = $1, size = $2, is_result = COALESCE((SELECT o.is_result FROM blobs o WHERE o.key = $3), FALSE)
             WHERE key = $4 AND state = 'uploading'"
        );
        let values = args![product.number(), new.size as i64, old.key.as_str(), new.key.as_str()];
        let replaced = tx.execute(&sql, values).await?;
        if marked == 0 || replaced == 0 {
            return Ok(false);
        }
        tx.commit().await?;
        Ok(true)
    }

    /// Sets `is_encrypted` of transcripts without plaintext.
    async fn mark_transcripts_encrypted(self) -> Result<()> {
        let is_plaintext = |column: &Column, of: &str| format!("substr({of}.{}, 1, 1) = $1", column.name);
        let mut plaintext = vec![
            "SELECT 1 FROM blobs b WHERE b.transcript_id = transcripts.id AND b.state = 'live' AND b.is_sealed = $2"
                .to_owned(),
        ];
        for column in columns::ALL {
            let table = column.table;
            match column.owner {
                RowOwner::Account if table == "transcripts" => {
                    plaintext.push(format!("SELECT 1 WHERE {}", is_plaintext(column, table)));
                }
                RowOwner::Transcript | RowOwner::Job => plaintext.push(format!(
                    "SELECT 1 FROM {table} x WHERE x.transcript_id = transcripts.id AND {}",
                    is_plaintext(column, "x")
                )),
                RowOwner::Chat => plaintext.push(format!(
                    "SELECT 1 FROM {table} x JOIN chat_sessions s ON s.id = x.session_id WHERE s.transcript_id = transcripts.id AND {}",
                    is_plaintext(column, "x")
                )),
                RowOwner::Account | RowOwner::Service => {}
            }
        }
        let none_plaintext: String = plaintext.iter().map(|query| format!(" AND NOT EXISTS ({query})")).collect();
        let mut after = i64::MIN;
        loop {
            let mut tx = self.store.db().begin().await?;
            let sql = format!(
                "SELECT id FROM transcripts WHERE is_encrypted = $2 AND id > $3{none_plaintext} ORDER BY id LIMIT {PAGE}{}",
                skip_locked(&tx)
            );
            let rows = tx.all(&sql, args![PLAIN_PREFIX, false, after]).await?;
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

/// The suffix of a `SELECT` that locks its rows and skips those that others have locked.
fn skip_locked(tx: &Tx) -> &'static str {
    if tx.is_postgres() { " FOR NO KEY UPDATE SKIP LOCKED" } else { "" }
}

fn list(columns: &[KeyColumn]) -> String {
    columns.iter().map(|column| column.name()).collect::<Vec<_>>().join(", ")
}

/// A condition that compares the key of a row with a page cursor; empty for an empty cursor.
fn compare<'a>(key: &[KeyColumn], operator: &str, cursor: &'a [KeyValue], values: &mut Vec<Value<'a>>) -> String {
    if cursor.is_empty() {
        return String::new();
    }
    let first = values.len() + 1;
    values.extend(cursor.iter().map(Value::from));
    let placeholders: Vec<String> = (first..=values.len()).map(|number| format!("${number}")).collect();
    format!(" AND ({}) {operator} ({})", list(key), placeholders.join(", "))
}
