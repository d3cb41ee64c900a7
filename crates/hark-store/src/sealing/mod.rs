//! Encryption at rest: each account has a data key, wrapped with the master key.
//!
//! XChaCha20-Poly1305 throughout: its nonces are long enough to be random for every value. The associated data of a value is its table,
//! column and row, so that a value moved elsewhere fails to decrypt.

pub(crate) mod columns;
pub(crate) mod keyless;
pub(crate) mod seal_all;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use chacha20poly1305::aead::{Aead, Payload};
use chacha20poly1305::{KeyInit, XChaCha20Poly1305, XNonce};
use sha2::{Digest, Sha256};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::Store;
use crate::db::{Row, Tx, args};
use crate::error::{Error, Result};
use crate::ids::AccountId;
use crate::mac::mac;
use crate::random;
use columns::{AssociatedData, RowOwner};

/// Encryption at rest: sealing stored plaintext, and rotating master keys.
#[derive(Debug, Clone, Copy)]
pub struct Sealing<'a> {
    pub(crate) store: &'a Store,
}

/// First byte of a stored value: plaintext or sealed.
pub(crate) const PLAIN: u8 = 0;
const SEALED: u8 = 1;
const NONCE_LENGTH: usize = 24;

/// The error for a plaintext value or recording of an account whose data is all sealed.
pub(crate) const NOT_SEALED: &str =
    "a value in the clear was found in an account whose data is all sealed: it was written without the master key";

/// A 32-byte key that wraps the data keys of all accounts.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct MasterKey([u8; 32]);

impl MasterKey {
    /// A key from its bytes.
    pub fn new(bytes: [u8; 32]) -> MasterKey {
        MasterKey(bytes)
    }

    /// A key from 64 hexadecimal digits.
    pub fn from_hex(text: &str) -> Result<MasterKey> {
        random::unhex(text.trim())
            .map(MasterKey)
            .ok_or_else(|| Error::Setup("a master key is 64 hexadecimal digits (32 bytes)".into()))
    }

    /// A new random key.
    pub fn generate() -> Result<MasterKey> {
        random::bytes().map(MasterKey)
    }

    /// The key as 64 hexadecimal digits.
    pub fn to_hex(&self) -> Zeroizing<String> {
        Zeroizing::new(random::hex(&self.0))
    }

    /// An id of the key that reveals nothing about it.
    pub fn id(&self) -> String {
        let mut hash = Sha256::new();
        hash.update(b"hark master key id\0");
        hash.update(self.0);
        random::hex(&hash.finalize()[..8])
    }
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MasterKey({})", self.id())
    }
}

/// The master keys of a store: the first wraps data keys, the others only unwrap. Without any, nothing is sealed.
#[derive(Clone, Debug, Default)]
pub struct MasterKeys(Vec<MasterKey>);

impl MasterKeys {
    /// No master key: nothing is sealed.
    pub fn none() -> MasterKeys {
        MasterKeys::default()
    }

    /// The current key.
    pub fn new(current: MasterKey) -> MasterKeys {
        MasterKeys(vec![current])
    }

    /// Adds a key that was current before.
    pub fn with_old(mut self, old: MasterKey) -> MasterKeys {
        self.0.push(old);
        self
    }

    /// The ids of the keys, the current one first.
    pub(crate) fn ids(&self) -> Vec<String> {
        self.0.iter().map(MasterKey::id).collect()
    }

    pub(crate) fn current(&self) -> Option<&MasterKey> {
        self.0.first()
    }

    fn by_id(&self, id: &str) -> Result<&MasterKey> {
        self.0
            .iter()
            .find(|key| key.id() == id)
            .ok_or(Error::Sealed("no configured master key is the one that wrapped this account's key"))
    }
}

/// The data key of an account.
#[derive(Zeroize, ZeroizeOnDrop)]
pub(crate) struct DataKey {
    key: [u8; 32],
    /// Whether all data of the account is sealed, so that a plaintext value was written without the key. It is part of the associated data of the wrapped key,
    /// so it can't be forged without the master key.
    is_complete: bool,
}

impl fmt::Debug for DataKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DataKey")
    }
}

impl DataKey {
    pub(crate) fn cipher(&self) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new(&self.key.into())
    }

    /// A key for another purpose, from which the data key can't be computed.
    pub(crate) fn derive(&self, purpose: &[u8]) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(mac(&self.key, &[purpose]))
    }
}

/// Encrypts and decrypts the values of one account; without a data key it stores plaintext.
#[derive(Clone, Debug)]
pub(crate) struct Sealer(Option<Arc<DataKey>>);

impl Sealer {
    pub(crate) fn key(&self) -> Option<&Arc<DataKey>> {
        self.0.as_ref()
    }

    pub(crate) fn is_sealing(&self) -> bool {
        self.0.is_some()
    }

    /// Whether all data of the account is sealed: plaintext is refused.
    pub(crate) fn is_complete(&self) -> bool {
        self.0.as_ref().is_some_and(|key| key.is_complete)
    }

    /// Encodes a value for storage.
    pub(crate) fn seal(&self, aad: &AssociatedData, value: &[u8]) -> Result<Vec<u8>> {
        match &self.0 {
            Some(key) => {
                let mut out = vec![SEALED];
                out.extend(encrypt(&key.cipher(), aad.as_str(), value)?);
                Ok(out)
            }
            None => Ok([&[PLAIN], value].concat()),
        }
    }

    /// Decodes a stored value.
    pub(crate) fn open(&self, aad: &AssociatedData, stored: &[u8]) -> Result<Vec<u8>> {
        match (stored.split_first(), &self.0) {
            (Some((&PLAIN, _)), _) if self.is_complete() => Err(Error::Sealed(NOT_SEALED)),
            (Some((&PLAIN, value)), _) => Ok(value.to_vec()),
            (Some((&SEALED, sealed)), Some(key)) => decrypt(&key.cipher(), aad.as_str(), sealed),
            (Some((&SEALED, _)), None) => Err(Error::Sealed("no master key is configured")),
            _ => Err(Error::Damaged(format!("{aad} has no valid first byte"))),
        }
    }

    /// [`Sealer::open`] that accepts plaintext, which was stored before there was a master key.
    pub(crate) fn open_allowing_plaintext(&self, aad: &AssociatedData, stored: &[u8]) -> Result<Vec<u8>> {
        match stored.split_first() {
            Some((&PLAIN, value)) => Ok(value.to_vec()),
            _ => self.open(aad, stored),
        }
    }

    /// [`Sealer::open`] for text.
    pub(crate) fn open_text(&self, aad: &AssociatedData, stored: &[u8]) -> Result<String> {
        String::from_utf8(self.open(aad, stored)?).map_err(|_| Error::Damaged(format!("{aad} is not text")))
    }
}

fn encrypt(cipher: &XChaCha20Poly1305, aad: &str, value: &[u8]) -> Result<Vec<u8>> {
    let nonce = random::bytes::<NONCE_LENGTH>()?;
    let sealed = cipher
        .encrypt(&XNonce::from(nonce), Payload { msg: value, aad: aad.as_bytes() })
        .map_err(|_| Error::Sealed("the value is too long to seal"))?;
    Ok([&nonce[..], &sealed].concat())
}

fn decrypt(cipher: &XChaCha20Poly1305, aad: &str, sealed: &[u8]) -> Result<Vec<u8>> {
    let damaged = || Error::Damaged(format!("{aad} was changed or belongs elsewhere"));
    let (nonce, sealed) = sealed.split_first_chunk::<NONCE_LENGTH>().ok_or_else(damaged)?;
    cipher.decrypt(&XNonce::from(*nonce), Payload { msg: sealed, aad: aad.as_bytes() }).map_err(|_| damaged())
}

/// The associated data of a wrapped data key.
fn data_key_aad(account: AccountId, is_complete: bool) -> String {
    format!("accounts.data_key/{account}{}", if is_complete { "/complete" } else { "" })
}

fn wrap(master: &MasterKey, account: AccountId, key: &DataKey) -> Result<Vec<u8>> {
    encrypt(&XChaCha20Poly1305::new(&master.0.into()), &data_key_aad(account, key.is_complete), &key.key)
}

fn unwrap(master: &MasterKey, account: AccountId, wrapped: &[u8]) -> Result<DataKey> {
    let cipher = XChaCha20Poly1305::new(&master.0.into());
    let (is_complete, bytes) = match decrypt(&cipher, &data_key_aad(account, true), wrapped) {
        Ok(bytes) => (true, bytes),
        Err(_) => (false, decrypt(&cipher, &data_key_aad(account, false), wrapped)?),
    };
    let bytes = Zeroizing::new(bytes);
    let key = bytes.as_slice().try_into().map_err(|_| Error::Damaged("a data key has the wrong length".into()))?;
    Ok(DataKey { key, is_complete })
}

/// Cache of unwrapped data keys.
#[derive(Default)]
pub(crate) struct DataKeyCache(Mutex<HashMap<AccountId, (Sealer, Instant)>>);

/// How long the key of an account with plaintext values is cached: another process may have sealed them since.
const INCOMPLETE_TTL: Duration = Duration::from_secs(60);

/// Enough for all accounts that are active at once; a full cache is cleared.
const MAX_CACHED_KEYS: usize = 10_000;

impl DataKeyCache {
    fn get(&self, account: AccountId) -> Option<Sealer> {
        let cache = self.0.lock().unwrap_or_else(|e| e.into_inner());
        let (sealer, since) = cache.get(&account)?;
        (sealer.is_complete() || since.elapsed() < INCOMPLETE_TTL).then(|| sealer.clone())
    }

    fn put(&self, account: AccountId, sealer: &Sealer) {
        let mut cache = self.0.lock().unwrap_or_else(|e| e.into_inner());
        if cache.len() >= MAX_CACHED_KEYS {
            cache.clear();
        }
        cache.insert(account, (sealer.clone(), Instant::now()));
    }

    pub(crate) fn forget(&self, account: AccountId) {
        self.0.lock().unwrap_or_else(|e| e.into_inner()).remove(&account);
    }
}

impl Store {
    /// The sealer of an account. If there is a master key and the account has no data key, one is created.
    pub(crate) async fn sealer(&self, account: AccountId) -> Result<Sealer> {
        if let Some(sealer) = self.data_keys().get(account) {
            return Ok(sealer);
        }
        let sealer = self.load_sealer(account).await?;
        // An account without a data key may get one from another process that has a master key.
        if sealer.is_sealing() {
            self.data_keys().put(account, &sealer);
        }
        Ok(sealer)
    }

    /// The sealer of an account, from a row with its `data_key` and `master_id`. An account without a data key has nothing sealed.
    pub(crate) fn sealer_of_row(&self, account: AccountId, row: &Row) -> Result<Sealer> {
        if let Some(sealer) = self.data_keys().get(account) {
            return Ok(sealer);
        }
        let Some(wrapped) = row.get::<Option<Vec<u8>>>("data_key")? else { return Ok(Sealer(None)) };
        let sealer = self.unwrap_sealer(account, &wrapped, &row.get::<String>("master_id")?)?;
        self.data_keys().put(account, &sealer);
        Ok(sealer)
    }

    async fn load_sealer(&self, account: AccountId) -> Result<Sealer> {
        let select = "SELECT data_key, master_id FROM accounts WHERE id = $1";
        let row = self.db().optional(select, args![account]).await?.ok_or(Error::NotFound("account"))?;
        if let Some(wrapped) = row.get::<Option<Vec<u8>>>("data_key")? {
            return self.unwrap_sealer(account, &wrapped, &row.get::<String>("master_id")?);
        }
        let Some(master) = self.master_keys().current() else { return Ok(Sealer(None)) };
        let mut tx = self.db().begin().await?;
        let key = DataKey { key: random::bytes()?, is_complete: !self.has_stored_values(&mut tx, account).await? };
        let wrapped = wrap(master, account, &key)?;
        tx.execute(
            "UPDATE accounts SET data_key = $1, master_id = $2 WHERE id = $3 AND data_key IS NULL",
            args![&wrapped, &master.id(), account],
        )
        .await?;
        // Another process may have been first: use the stored key.
        let row = tx.optional(select, args![account]).await?.ok_or(Error::NotFound("account"))?;
        tx.commit().await?;
        self.unwrap_sealer(account, &row.get::<Vec<u8>>("data_key")?, &row.get::<String>("master_id")?)
    }

    /// Whether an account has stored values, which may be plaintext. Values that belong to transcripts need no check: they don't exist without a transcript.
    async fn has_stored_values(&self, tx: &mut Tx, account: AccountId) -> Result<bool> {
        let mut queries: Vec<String> = Vec::new();
        for column in columns::ALL {
            let (table, name) = (column.table, column.name);
            match column.owner {
                RowOwner::Account | RowOwner::Job => {
                    queries.push(format!("SELECT 1 FROM {table} WHERE account_id = $1 AND {name} IS NOT NULL"))
                }
                RowOwner::Service if account == self.anonymous_account() => {
                    queries.push(format!("SELECT 1 FROM {table} WHERE {name} IS NOT NULL"));
                }
                RowOwner::Transcript | RowOwner::Chat | RowOwner::Service => {}
            }
        }
        let any: Vec<String> = queries.iter().map(|query| format!("EXISTS ({query})")).collect();
        let sql = format!("SELECT id FROM accounts WHERE id = $1 AND ({})", any.join(" OR "));
        Ok(tx.optional(&sql, args![account]).await?.is_some())
    }

    /// Marks every account but these as completely sealed: from here on plaintext is refused.
    pub(crate) async fn mark_complete(&self, open: &HashSet<AccountId>) -> Result<()> {
        let mut after = AccountId(i64::MIN);
        loop {
            let mut tx = self.db().begin().await?;
            let sql = format!(
                "SELECT id, data_key, master_id FROM accounts WHERE id > $1 AND data_key IS NOT NULL ORDER BY id LIMIT 100{}",
                tx.for_update()
            );
            let rows = tx.all(&sql, args![after]).await?;
            if rows.is_empty() {
                return Ok(());
            }
            for row in rows {
                let account = AccountId(row.get("id")?);
                after = account;
                let master = self.master_keys().by_id(&row.get::<String>("master_id")?)?;
                let mut key = unwrap(master, account, &row.get::<Vec<u8>>("data_key")?)?;
                if key.is_complete || open.contains(&account) {
                    continue;
                }
                key.is_complete = true;
                let wrapped = wrap(master, account, &key)?;
                tx.execute("UPDATE accounts SET data_key = $1 WHERE id = $2", args![&wrapped, account]).await?;
                self.data_keys().forget(account);
            }
            tx.commit().await?;
        }
    }

    fn unwrap_sealer(&self, account: AccountId, wrapped: &[u8], master_id: &str) -> Result<Sealer> {
        let master = self.master_keys().by_id(master_id)?;
        Ok(Sealer(Some(Arc::new(unwrap(master, account, wrapped)?))))
    }
}

impl Sealing<'_> {
    /// Rewraps the data keys of all accounts with the current master key; returns how many were wrapped with an old one. Afterwards the old master keys
    /// are no longer needed.
    pub async fn rotate_master(self) -> Result<u64> {
        let master = self
            .store
            .master_keys()
            .current()
            .ok_or_else(|| Error::Setup("no master key is configured to rotate to".into()))?;
        let current = master.id();
        let mut rotated = 0;
        let mut after = AccountId(i64::MIN);
        loop {
            let mut tx = self.store.db().begin().await?;
            let sql = format!(
                "SELECT id, data_key, master_id FROM accounts
                 WHERE id > $1 AND data_key IS NOT NULL AND master_id <> $2 ORDER BY id LIMIT 100{}",
                tx.for_update()
            );
            let rows = tx.all(&sql, args![after, &current]).await?;
            if rows.is_empty() {
                return Ok(rotated);
            }
            for row in rows {
                let account = AccountId(row.get("id")?);
                let old = self.store.master_keys().by_id(&row.get::<String>("master_id")?)?;
                let key = unwrap(old, account, &row.get::<Vec<u8>>("data_key")?)?;
                let wrapped = wrap(master, account, &key)?;
                let sql = "UPDATE accounts SET data_key = $1, master_id = $2 WHERE id = $3";
                rotated += tx.execute(sql, args![&wrapped, &current, account]).await?;
                after = account;
            }
            tx.commit().await?;
        }
    }
}
