//! Webhook deliveries: requests to send once a transcript is completed or failed.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Store;
use crate::audit::{self, NewAudit, audited};
use crate::clock::{Micros, micros};
use crate::db::{Tx, args};
use crate::error::{Error, Result};
use crate::ids::{AccountId, TranscriptId, WebhookId};
use crate::random;
use crate::sealing::Sealer;
use crate::sealing::columns::{self, AssociatedData};

/// Webhook deliveries that are due, and the signing secret of an account.
#[derive(Debug, Clone, Copy)]
pub struct Webhooks<'a> {
    pub(crate) store: &'a Store,
    /// Written in the transaction of the next change.
    pub(crate) audit: Option<&'a NewAudit>,
}

audited!(Webhooks);

/// The receiver.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebhookTarget {
    /// Its URL.
    pub url: String,
    /// The key of the signature.
    pub secret: String,
}

impl std::fmt::Debug for WebhookTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WebhookTarget").field("url", &self.url).finish_non_exhaustive()
    }
}

/// A claimed delivery.
#[derive(Debug, Clone)]
pub struct WebhookDelivery {
    /// Its id, the same in every attempt.
    pub id: WebhookId,
    /// The account that owns the transcript.
    pub account: AccountId,
    /// The transcript that is completed or failed.
    pub transcript: TranscriptId,
    /// The receiver.
    pub target: WebhookTarget,
    /// Which attempt this is, from 1.
    pub attempt: i64,
    lease: String,
}

fn aad(id: TranscriptId) -> AssociatedData {
    columns::WEBHOOK.associated_data(&[&id])
}

/// Adds a delivery that becomes due when the transcript is completed or failed.
pub(crate) async fn insert(
    tx: &mut Tx,
    sealer: &Sealer,
    account: AccountId,
    id: TranscriptId,
    target: &WebhookTarget,
    now: Micros,
) -> Result<()> {
    let target = serde_json::to_vec(target).map_err(|_| Error::Conflict("the webhook can't be written down"))?;
    let sealed = sealer.seal(&aad(id), &target)?;
    tx.execute(
        "INSERT INTO webhooks (account_id, transcript_id, target, state, attempts, next_at, created_at)
         VALUES ($1, $2, $3, 'waiting', 0, $4, $4)",
        args![account, id, &sealed, now],
    )
    .await
    .map(drop)
}

/// Marks the deliveries of a transcript as due.
pub(crate) async fn mark_due(tx: &mut Tx, id: TranscriptId, now: Micros) -> Result<()> {
    let sql = "UPDATE webhooks SET state = 'due', next_at = $1 WHERE transcript_id = $2 AND state = 'waiting'";
    tx.execute(sql, args![now, id]).await.map(drop)
}

impl Webhooks<'_> {
    /// Claims due deliveries for the time of `lease`; after that they are due again.
    pub async fn claim(self, limit: i64, lease: Duration) -> Result<Vec<WebhookDelivery>> {
        let now = self.store.now();
        let token = random::token::<16>()?;
        let mut tx = self.store.db().begin().await?;
        let skip = if tx.is_postgres() { "FOR UPDATE SKIP LOCKED" } else { "" };
        let sql = format!(
            "UPDATE webhooks SET attempts = attempts + 1, next_at = $1, lease = $2
             WHERE id IN (SELECT id FROM webhooks WHERE state = 'due' AND next_at <= $3 ORDER BY next_at LIMIT 0 + $4 {skip})
             RETURNING id, account_id, transcript_id, target, attempts"
        );
        let rows = tx.all(&sql, args![now.saturating_add(micros(lease)), &token, now, limit]).await?;
        tx.commit().await?;
        let mut out = Vec::with_capacity(rows.len());
        for row in rows {
            let account = AccountId(row.get("account_id")?);
            let transcript = TranscriptId(row.get("transcript_id")?);
            let target = self.store.sealer(account).await?.open(&aad(transcript), &row.get::<Vec<u8>>("target")?)?;
            out.push(WebhookDelivery {
                id: WebhookId(row.get("id")?),
                account,
                transcript,
                target: serde_json::from_slice(&target)
                    .map_err(|_| Error::Damaged("a webhook is not what was written".into()))?,
                attempt: row.get("attempts")?,
                lease: token.clone(),
            });
        }
        Ok(out)
    }

    /// Removes a delivery that succeeded or failed for the last time.
    pub async fn remove(self, delivery: &WebhookDelivery) -> Result<()> {
        let sql = "DELETE FROM webhooks WHERE id = $1 AND lease = $2";
        self.store.db().execute(sql, args![delivery.id, &delivery.lease]).await.map(drop)
    }

    /// Schedules the next attempt of a failed delivery.
    pub async fn retry(self, delivery: &WebhookDelivery, at: Micros) -> Result<()> {
        let sql = "UPDATE webhooks SET next_at = $1 WHERE id = $2 AND lease = $3";
        self.store.db().execute(sql, args![at, delivery.id, &delivery.lease]).await.map(drop)
    }

    /// How often the webhook secret of an account was rotated, and until when the previous one signs as well.
    pub async fn rotation(self, id: AccountId) -> Result<(i64, Option<Micros>)> {
        let sql = "SELECT webhook_rotation, webhook_previous_until FROM accounts WHERE id = $1";
        let row = self.store.db().optional(sql, args![id]).await?.ok_or(Error::NotFound("account"))?;
        let until: Option<Micros> = row.get("webhook_previous_until")?;
        Ok((row.get("webhook_rotation")?, until.filter(|until| *until > self.store.now())))
    }

    /// Rotates the webhook secret of an account; the previous one signs as well for `grace`.
    pub async fn rotate_secret(self, id: AccountId, grace: Duration) -> Result<()> {
        let until = self.store.now().saturating_add(micros(grace));
        let sql =
            "UPDATE accounts SET webhook_rotation = webhook_rotation + 1, webhook_previous_until = $1 WHERE id = $2";
        let mut tx = self.store.db().begin().await?;
        if tx.execute(sql, args![until, id]).await? == 0 {
            return Err(Error::NotFound("account"));
        }
        audit::write_act(&mut tx, self.audit, "", self.store.now()).await?;
        tx.commit().await
    }
}
