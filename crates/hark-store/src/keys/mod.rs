//! API keys, tokens and sessions: the credentials of an account.
//!
//! A secret is generated here, shown once, and stored only as its SHA-256, by which it is looked up: 256 random bits need no slow hash.

use std::fmt;
use std::time::Duration;

use sha2::{Digest, Sha256};
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::Store;
use crate::accounts::plan::Plan;
use crate::audit::{self, NewAudit, audited};
use crate::clock::{Micros, micros, month_of};
use crate::db::{Row, Tx, args};
use crate::error::{Error, Limit, Result};
use crate::idempotency::{self, Idempotency, IdempotencyKey, StoredAnswer};
use crate::ids::{AccountId, KeyId, Owner};
use crate::random;

/// API keys, tokens and sessions.
#[derive(Debug, Clone, Copy)]
pub struct Keys<'a> {
    pub(crate) store: &'a Store,
    /// Written in the transaction of the next change.
    pub(crate) audit: Option<&'a NewAudit>,
}

audited!(Keys);

/// `last_used` is updated at most once in this time, to save a write for every request.
const LAST_USED_INTERVAL: Micros = 60_000_000;
/// Characters of a secret that may be shown.
const PREFIX_LENGTH: usize = 12;

/// The kind of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    /// An API key: `svc_`.
    Service,
    /// A user's API token, created at sign-in: `usr_`.
    User,
    /// A session of the web app: `ses_`.
    Session,
    /// Confirms an email address, once: `cnf_`.
    Confirmation,
    /// Sets a new password, once: `rst_`.
    Reset,
}

impl KeyKind {
    const ALL: [KeyKind; 5] =
        [KeyKind::Service, KeyKind::User, KeyKind::Session, KeyKind::Confirmation, KeyKind::Reset];

    fn name(self) -> &'static str {
        match self {
            KeyKind::Service => "svc",
            KeyKind::User => "usr",
            KeyKind::Session => "ses",
            KeyKind::Confirmation => "cnf",
            KeyKind::Reset => "rst",
        }
    }

    fn parse(name: &str) -> Result<KeyKind> {
        KeyKind::ALL
            .into_iter()
            .find(|kind| kind.name() == name)
            .ok_or_else(|| Error::Damaged(format!("no key is of kind {name:?}")))
    }
}

/// A permission of a key; a key without stored scopes has all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Submit recordings and texts for processing.
    Transcribe,
    /// Read stored data.
    Read,
    /// Change and delete: transcripts, keys, the account.
    Manage,
}

impl Scope {
    /// All of them.
    pub const ALL: [Scope; 3] = [Scope::Transcribe, Scope::Read, Scope::Manage];

    /// The name as stored and shown.
    pub fn name(self) -> &'static str {
        match self {
            Scope::Transcribe => "transcribe",
            Scope::Read => "read",
            Scope::Manage => "manage",
        }
    }
}

impl std::str::FromStr for Scope {
    type Err = Error;

    fn from_str(name: &str) -> Result<Scope> {
        let scope = Scope::ALL.into_iter().find(|scope| scope.name() == name);
        scope.ok_or(Error::Conflict("a scope is transcribe, read or manage"))
    }
}

/// A new secret; it can't be retrieved again.
#[derive(Clone, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub struct Secret(String);

impl Secret {
    /// The secret itself, to show to its owner.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({}…)", &self.0[..PREFIX_LENGTH])
    }
}

/// A new key.
#[derive(Debug, Clone)]
pub struct NewKey {
    /// Its kind.
    pub kind: KeyKind,
    /// Its name.
    pub name: String,
    /// Requests per minute.
    pub rate_limit: i64,
    /// Minutes of audio per month.
    pub monthly_limit_minutes: i64,
    /// How long it is valid; for ever by default.
    pub valid_for: Option<Duration>,
    /// Its scopes; all by default.
    pub scopes: Vec<Scope>,
    /// Addresses and networks that it may be used from, in the server's notation; any when empty.
    pub allowed_addresses: Vec<String>,
    /// Credits that it may spend in total; unlimited by default.
    pub spending_limit: Option<i64>,
}

impl NewKey {
    /// A key with the contract's limits: 60 requests per minute, 5,000 minutes per month.
    pub fn new(kind: KeyKind, name: impl Into<String>) -> NewKey {
        NewKey {
            kind,
            name: name.into(),
            rate_limit: 60,
            monthly_limit_minutes: 5000,
            valid_for: None,
            scopes: Scope::ALL.to_vec(),
            allowed_addresses: Vec::new(),
            spending_limit: None,
        }
    }
}

/// A key as stored, without its secret.
#[derive(Debug, Clone, PartialEq)]
pub struct Key {
    /// Its id.
    pub id: KeyId,
    /// The account that owns it.
    pub account: AccountId,
    /// Its kind.
    pub kind: KeyKind,
    /// Its name.
    pub name: String,
    /// The first characters of the secret.
    pub prefix: String,
    /// Whether it is not revoked.
    pub is_active: bool,
    /// Requests per minute.
    pub rate_limit: i64,
    /// Minutes of audio per month.
    pub monthly_limit_minutes: i64,
    /// When it was last used, to the minute.
    pub last_used: Option<Micros>,
    /// When it was created.
    pub created_at: Micros,
    /// When it expires.
    pub expires_at: Option<Micros>,
    /// Its scopes.
    pub scopes: Vec<Scope>,
    /// Addresses and networks that it may be used from; any when empty.
    pub allowed_addresses: Vec<String>,
    /// Credits that it may spend in total.
    pub spending_limit: Option<i64>,
    /// Until when the previous secret stays valid after a rollover.
    pub previous_until: Option<Micros>,
}

/// Changes to a key; what is `None` stays.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KeyChange {
    /// Its name.
    pub name: Option<String>,
    /// Requests per minute.
    pub rate_limit: Option<i64>,
    /// Minutes of audio per month.
    pub monthly_limit_minutes: Option<i64>,
    /// Credits that it may spend in total; `Some(None)` is unlimited.
    pub spending_limit: Option<Option<i64>>,
}

/// A valid key with what a request needs to know of its account, from one query.
#[derive(Debug, Clone, PartialEq)]
pub struct Credential {
    /// The key.
    pub key: Key,
    /// The plan of its account.
    pub plan: Plan,
    /// Whether the plan is in force.
    pub plan_active: bool,
    /// Whether the account may manage other accounts.
    pub is_admin: bool,
    /// Whether the account's email address is confirmed.
    pub is_confirmed: bool,
}

const COLUMNS: &str = "k.id AS id, k.account_id AS account_id, k.kind AS kind, k.name AS name, k.prefix AS prefix, k.is_active AS is_active,
    k.rate_limit AS rate_limit, k.monthly_limit_minutes AS monthly_limit_minutes, k.last_used AS last_used, k.created_at AS created_at,
    k.expires_at AS expires_at, k.scopes AS scopes, k.allowed_addresses AS allowed_addresses, k.spending_limit AS spending_limit,
    k.previous_until AS previous_until";

/// Whether a key has this hash and kind, is active and has not expired.
const IS_VALID: &str = "hash = $1 AND kind = $2 AND is_active = $3 AND (expires_at IS NULL OR expires_at > $4)";

fn key(row: &Row) -> Result<Key> {
    Ok(Key {
        id: KeyId(row.get("id")?),
        account: AccountId(row.get("account_id")?),
        kind: KeyKind::parse(&row.get::<String>("kind")?)?,
        name: row.get("name")?,
        prefix: row.get("prefix")?,
        is_active: row.get("is_active")?,
        rate_limit: row.get("rate_limit")?,
        monthly_limit_minutes: row.get("monthly_limit_minutes")?,
        last_used: row.get("last_used")?,
        created_at: row.get("created_at")?,
        expires_at: row.get("expires_at")?,
        scopes: match row.get::<Option<String>>("scopes")? {
            Some(names) => names.split_whitespace().map(str::parse).collect::<Result<_>>()?,
            None => Scope::ALL.to_vec(),
        },
        allowed_addresses: row
            .get::<Option<String>>("allowed_addresses")?
            .map(|list| list.split_whitespace().map(str::to_owned).collect())
            .unwrap_or_default(),
        spending_limit: row.get("spending_limit")?,
        previous_until: row.get("previous_until")?,
    })
}

/// Whether a text is a well-formed secret of this kind; saves a query for those that are not.
fn is_well_formed(secret: &str, kind: Option<KeyKind>) -> bool {
    let Some((name, digits)) = secret.split_once('_') else { return false };
    digits.len() == 64
        && digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
        && match kind {
            Some(kind) => name == kind.name(),
            None => KeyKind::ALL.iter().any(|kind| kind.name() == name),
        }
}

/// The subject of a key in the audit log.
fn subject(id: KeyId) -> String {
    format!("key {id}")
}

fn hash(secret: &str) -> Vec<u8> {
    Sha256::digest(secret.as_bytes()).to_vec()
}

impl Keys<'_> {
    /// Creates a key. The returned secret is stored nowhere.
    pub async fn create(self, account: AccountId, new: &NewKey) -> Result<(Key, Secret)> {
        let mut tx = self.store.db().begin().await?;
        let now = self.store.now();
        let (key, secret) = insert(&mut tx, account, new, now).await?;
        audit::write_act(&mut tx, self.audit, &subject(key.id), now).await?;
        tx.commit().await?;
        Ok((key, secret))
    }

    /// Creates a key for a request with an idempotency key, and stores the response that `write` makes of it, in one transaction. A repeated
    /// request creates no key and gets the stored response. [`Error::KeyReused`] when the idempotency key belongs to another request.
    pub async fn create_once(
        self,
        account: AccountId,
        new: &NewKey,
        name: &IdempotencyKey,
        write: impl FnOnce(Key, Secret) -> Result<StoredAnswer>,
    ) -> Result<StoredAnswer> {
        let owner = Owner::Account(account).name();
        let sealer = self.store.sealer(account).await?;
        let now = self.store.now();
        let mut tx = self.store.db().begin().await?;
        // The claim is never seen by others: it ends in this transaction.
        let claim = match idempotency::claim(&mut tx, &sealer, &owner, account, name, name.keep, now).await? {
            Idempotency::New(claim) => claim,
            Idempotency::Done(answer) => return Ok(answer),
            // Only a request of another kind can be without a response.
            Idempotency::UnderWay => return Err(Error::KeyReused),
        };
        let (key, secret) = insert(&mut tx, account, new, now).await?;
        audit::write_act(&mut tx, self.audit, &subject(key.id), now).await?;
        let answer = write(key, secret)?;
        idempotency::finish(&mut tx, &sealer, &owner, &claim, &answer, now).await?;
        tx.commit().await?;
        Ok(answer)
    }

    /// The credential of a secret; [`Error::NotFound`] when it is unknown, revoked or expired. Confirmations and resets are not credentials.
    pub async fn authenticate(self, secret: &str) -> Result<Credential> {
        if !is_well_formed(secret, None) {
            return Err(Error::NotFound("key"));
        }
        let now = self.store.now();
        let sql = format!(
            "SELECT {COLUMNS}, a.plan AS plan, a.plan_active AS plan_active, a.is_admin AS is_admin, a.is_confirmed AS is_confirmed
             FROM keys k JOIN accounts a ON a.id = k.account_id
             WHERE (k.hash = $1 OR (k.previous_hash = $1 AND k.previous_until > $3)) AND k.is_active = $2
                 AND (k.expires_at IS NULL OR k.expires_at > $3) AND k.kind IN ('svc', 'usr', 'ses')"
        );
        let row =
            self.store.db().optional(&sql, args![&hash(secret), true, now]).await?.ok_or(Error::NotFound("key"))?;
        let credential = Credential {
            key: key(&row)?,
            plan: row.get::<String>("plan")?.parse()?,
            plan_active: row.get("plan_active")?,
            is_admin: row.get("is_admin")?,
            is_confirmed: row.get("is_confirmed")?,
        };
        if credential.key.last_used.is_none_or(|last| last < now - LAST_USED_INTERVAL) {
            self.touch(credential.key.id).await?;
        }
        Ok(credential)
    }

    /// Updates `last_used`, at most once a minute; for servers that cache credentials.
    pub async fn touch(self, id: KeyId) -> Result<()> {
        let now = self.store.now();
        let sql = "UPDATE keys SET last_used = $1 WHERE id = $2 AND (last_used IS NULL OR last_used < $3)";
        self.store.db().execute(sql, args![now, id, now - LAST_USED_INTERVAL]).await.map(drop)
    }

    /// The keys of an account of one kind, oldest first, revoked ones included.
    pub async fn list(self, account: AccountId, kind: KeyKind) -> Result<Vec<Key>> {
        let sql = format!("SELECT {COLUMNS} FROM keys k WHERE k.account_id = $1 AND k.kind = $2 ORDER BY k.id");
        self.store.db().all(&sql, args![account, kind.name()]).await?.iter().map(key).collect()
    }

    /// Revokes a key of the account; [`Error::NotFound`] when it has no such active key.
    pub async fn revoke(self, account: AccountId, id: KeyId) -> Result<()> {
        let sql = "UPDATE keys SET is_active = $1 WHERE id = $2 AND account_id = $3 AND is_active = $4";
        let mut tx = self.store.db().begin().await?;
        if tx.execute(sql, args![false, id, account, true]).await? == 0 {
            return Err(Error::NotFound("key"));
        }
        audit::write_act(&mut tx, self.audit, &subject(id), self.store.now()).await?;
        tx.commit().await
    }

    /// Gives a key a new secret; the previous one stays valid for `grace`. [`Error::NotFound`] when the account has no such active key.
    pub async fn roll(self, account: AccountId, id: KeyId, grace: Duration) -> Result<(Key, Secret)> {
        let now = self.store.now();
        let mut tx = self.store.db().begin().await?;
        let rolled = roll(&mut tx, account, id, grace, now).await?;
        audit::write_act(&mut tx, self.audit, &subject(id), now).await?;
        tx.commit().await?;
        Ok(rolled)
    }

    /// Changes the name or the limits of a key of the account and returns the changed key.
    pub async fn change(self, account: AccountId, id: KeyId, change: &KeyChange) -> Result<Key> {
        let mut tx = self.store.db().begin().await?;
        let sql = format!(
            "SELECT {COLUMNS} FROM keys k WHERE k.id = $1 AND k.account_id = $2 AND k.is_active = $3 AND k.kind = $4"
        );
        let row = tx.optional(&sql, args![id, account, true, KeyKind::Service.name()]).await?;
        let old = key(&row.ok_or(Error::NotFound("key"))?)?;
        let changed = Key {
            name: change.name.clone().unwrap_or(old.name),
            rate_limit: change.rate_limit.unwrap_or(old.rate_limit),
            monthly_limit_minutes: change.monthly_limit_minutes.unwrap_or(old.monthly_limit_minutes),
            spending_limit: change.spending_limit.unwrap_or(old.spending_limit),
            ..old
        };
        tx.execute(
            "UPDATE keys SET name = $1, rate_limit = $2, monthly_limit_minutes = $3, spending_limit = $4 WHERE id = $5",
            args![&changed.name, changed.rate_limit, changed.monthly_limit_minutes, changed.spending_limit, id],
        )
        .await?;
        audit::write_act(&mut tx, self.audit, &subject(id), self.store.now()).await?;
        tx.commit().await?;
        Ok(changed)
    }

    /// Revokes all keys of a kind but one: signing out everywhere else.
    pub async fn revoke_others(self, account: AccountId, kind: KeyKind, keep: KeyId) -> Result<u64> {
        let sql = "UPDATE keys SET is_active = $1 WHERE account_id = $2 AND kind = $3 AND is_active = $4 AND id <> $5";
        self.store.db().execute(sql, args![false, account, kind.name(), true, keep]).await
    }

    /// Revokes all keys of a kind: signing out everywhere, after a new password.
    pub async fn revoke_all(self, account: AccountId, kind: KeyKind) -> Result<u64> {
        let sql = "UPDATE keys SET is_active = $1 WHERE account_id = $2 AND kind = $3 AND is_active = $4";
        self.store.db().execute(sql, args![false, account, kind.name(), true]).await
    }

    /// Redeems a single-use secret (a confirmation, a reset) and returns its account.
    pub async fn redeem(self, secret: &str, kind: KeyKind) -> Result<AccountId> {
        if !is_well_formed(secret, Some(kind)) {
            return Err(Error::NotFound("key"));
        }
        let sql = format!("DELETE FROM keys WHERE {IS_VALID} RETURNING account_id");
        let mut tx = self.store.db().begin().await?;
        let row = tx.optional(&sql, args![&hash(secret), kind.name(), true, self.store.now()]).await?;
        tx.commit().await?;
        Ok(AccountId(row.ok_or(Error::NotFound("key"))?.get("account_id")?))
    }

    /// The account of a single-use secret, without redeeming it.
    pub async fn account_of(self, secret: &str, kind: KeyKind) -> Result<AccountId> {
        if !is_well_formed(secret, Some(kind)) {
            return Err(Error::NotFound("key"));
        }
        let sql = format!("SELECT account_id FROM keys WHERE {IS_VALID}");
        let row = self.store.db().optional(&sql, args![&hash(secret), kind.name(), true, self.store.now()]).await?;
        Ok(AccountId(row.ok_or(Error::NotFound("key"))?.get("account_id")?))
    }

    /// Minutes of audio that a key has used this month.
    pub async fn minutes_used(self, id: KeyId) -> Result<i64> {
        let month = month_of(self.store.now());
        let sql = "SELECT minutes FROM key_months WHERE key_id = $1 AND month = $2";
        self.store.db().optional(sql, args![id, month]).await?.map_or(Ok(0), |row| row.get("minutes"))
    }

    /// Fails when this many more minutes exceed a quota of the key: [`Limit::MonthlyMinutes`] or [`Limit::Spending`].
    pub async fn check_minutes(self, id: KeyId, minutes: i64) -> Result<()> {
        let mut tx = self.store.db().snapshot().await?;
        check_minutes(&mut tx, id, minutes, month_of(self.store.now()), false).await
    }

    /// Credits that a key has spent in total.
    pub async fn spent(self, id: KeyId) -> Result<i64> {
        spent(&mut self.store.db().snapshot().await?, id).await
    }

    /// Counts minutes against the quotas of a key, outside of jobs; [`Limit::MonthlyMinutes`] or [`Limit::Spending`] when they exceed one.
    pub async fn use_minutes(self, id: KeyId, minutes: i64) -> Result<()> {
        let mut tx = self.store.db().begin().await?;
        use_minutes(&mut tx, id, minutes, self.store.now()).await?;
        tx.commit().await
    }
}

/// Inserts a key with a new secret.
async fn insert(tx: &mut Tx, account: AccountId, new: &NewKey, now: Micros) -> Result<(Key, Secret)> {
    let secret = Secret(format!("{}_{}", new.kind.name(), random::token::<32>()?));
    let expires_at = new.valid_for.map(|valid| now.saturating_add(micros(valid)));
    // All scopes are stored as NULL, as for keys of earlier versions.
    let scopes = (new.scopes.len() < Scope::ALL.len())
        .then(|| new.scopes.iter().map(|scope| scope.name()).collect::<Vec<_>>().join(" "));
    let allowed = (!new.allowed_addresses.is_empty()).then(|| new.allowed_addresses.join(" "));
    let found = tx.optional("SELECT id FROM accounts WHERE id = $1", args![account]).await?;
    found.ok_or(Error::NotFound("account"))?;
    let row = tx
        .one(
            "INSERT INTO keys (account_id, kind, name, prefix, hash, is_active, rate_limit, monthly_limit_minutes, created_at, expires_at,
                 scopes, allowed_addresses, spending_limit)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) RETURNING id",
            args![
                account,
                new.kind.name(),
                &new.name,
                &secret.0[..PREFIX_LENGTH],
                &hash(&secret.0),
                true,
                new.rate_limit,
                new.monthly_limit_minutes,
                now,
                expires_at,
                scopes.as_deref(),
                allowed.as_deref(),
                new.spending_limit
            ],
        )
        .await?;
    Ok((find(tx, KeyId(row.get("id")?)).await?, secret))
}

/// A key by its id.
async fn find(tx: &mut Tx, id: KeyId) -> Result<Key> {
    let sql = format!("SELECT {COLUMNS} FROM keys k WHERE k.id = $1");
    key(&tx.one(&sql, args![id]).await?)
}

/// Counts minutes against the quotas of a key and returns the month they count for.
pub(crate) async fn use_minutes(tx: &mut Tx, id: KeyId, minutes: i64, now: Micros) -> Result<i64> {
    let month = month_of(now);
    check_minutes(tx, id, minutes, month, true).await?;
    add_minutes(tx, id, month, minutes).await?;
    Ok(month)
}

/// Fails when the minutes exceed a quota of the key; `lock` locks the key until the transaction ends.
async fn check_minutes(tx: &mut Tx, id: KeyId, minutes: i64, month: i64, lock: bool) -> Result<()> {
    let lock = if lock { tx.for_update() } else { "" };
    let sql = format!("SELECT monthly_limit_minutes, spending_limit FROM keys WHERE id = $1{lock}");
    let row = tx.optional(&sql, args![id]).await?.ok_or(Error::NotFound("key"))?;
    let limit: i64 = row.get("monthly_limit_minutes")?;
    let used = tx.optional("SELECT minutes FROM key_months WHERE key_id = $1 AND month = $2", args![id, month]).await?;
    let used: i64 = used.map_or(Ok(0), |row| row.get("minutes"))?;
    if used.saturating_add(minutes) > limit {
        return Err(Error::Limit { what: Limit::MonthlyMinutes, limit, used });
    }
    check_spending(tx, id, row.get("spending_limit")?, minutes).await
}

/// Fails when the credits exceed the spending limit of a key.
async fn check_spending(tx: &mut Tx, id: KeyId, limit: Option<i64>, credits: i64) -> Result<()> {
    let Some(limit) = limit else { return Ok(()) };
    let used = spent(tx, id).await?;
    if used.saturating_add(credits) > limit {
        return Err(Error::Limit { what: Limit::Spending, limit, used });
    }
    Ok(())
}

/// Counts credits that are not minutes against the spending limit of a key.
pub(crate) async fn use_credits(tx: &mut Tx, id: KeyId, credits: i64, month: i64) -> Result<()> {
    let sql = format!("SELECT spending_limit FROM keys WHERE id = $1{}", tx.for_update());
    let row = tx.optional(&sql, args![id]).await?.ok_or(Error::NotFound("key"))?;
    check_spending(tx, id, row.get("spending_limit")?, credits).await?;
    add_credits(tx, id, month, credits).await
}

/// Adds credits that are not minutes to a key's count of a month; negative to return unused ones.
pub(crate) async fn add_credits(tx: &mut Tx, id: KeyId, month: i64, credits: i64) -> Result<()> {
    tx.execute(
        "INSERT INTO key_months (key_id, month, minutes, credits) SELECT id, $2, 0, $3 FROM keys WHERE id = $1
         ON CONFLICT (key_id, month) DO UPDATE SET credits = key_months.credits + excluded.credits",
        args![id, month, credits],
    )
    .await
    .map(drop)
}

/// Credits that a key has spent in any month: one for each minute, and those of calls.
async fn spent(tx: &mut Tx, id: KeyId) -> Result<i64> {
    let sql = "SELECT CAST(COALESCE(SUM(minutes + credits), 0) AS BIGINT) AS spent FROM key_months WHERE key_id = $1";
    tx.one(sql, args![id]).await?.get("spent")
}

/// Replaces the secret of an active key of the account.
async fn roll(tx: &mut Tx, account: AccountId, id: KeyId, grace: Duration, now: Micros) -> Result<(Key, Secret)> {
    let secret = Secret(format!("{}_{}", KeyKind::Service.name(), random::token::<32>()?));
    let changed = tx
        .execute(
            "UPDATE keys SET previous_hash = hash, previous_until = $1, hash = $2, prefix = $3
             WHERE id = $4 AND account_id = $5 AND is_active = $6 AND kind = $7",
            args![
                now.saturating_add(micros(grace)),
                &hash(&secret.0),
                &secret.0[..PREFIX_LENGTH],
                id,
                account,
                true,
                KeyKind::Service.name()
            ],
        )
        .await?;
    if changed == 0 {
        return Err(Error::NotFound("key"));
    }
    Ok((find(tx, id).await?, secret))
}

/// Adds minutes to a key's count of a month; negative to return unused ones.
pub(crate) async fn add_minutes(tx: &mut Tx, id: KeyId, month: i64, minutes: i64) -> Result<()> {
    tx.execute(
        "INSERT INTO key_months (key_id, month, minutes) SELECT id, $2, $3 FROM keys WHERE id = $1
         ON CONFLICT (key_id, month) DO UPDATE SET minutes = key_months.minutes + excluded.minutes",
        args![id, month, minutes],
    )
    .await
    .map(drop)
}
