//! Voiceprints of an account's known speakers. A print is opaque here: sealed bytes.

use std::fmt;

use crate::Store;
use crate::audit::{self, NewAudit, audited};
use crate::clock::Micros;
use crate::db::{Row, args};
use crate::error::{Error, Result};
use crate::ids::{AccountId, VoiceprintId};
use crate::ledger;
use crate::sealing::Sealer;
use crate::sealing::columns::{self, AssociatedData};

/// The voiceprints of accounts.
#[derive(Debug, Clone, Copy)]
pub struct Voiceprints<'a> {
    pub(crate) store: &'a Store,
    /// Written in the transaction of the next change.
    pub(crate) audit: Option<&'a NewAudit>,
}

audited!(Voiceprints);

/// Voiceprints that an account may have.
pub const MAX_VOICEPRINTS: usize = 100;

/// A known speaker of an account.
#[derive(Clone, PartialEq, Eq)]
pub struct Voiceprint {
    /// Its id.
    pub id: VoiceprintId,
    /// The name of the speaker.
    pub name: String,
    /// The voice embedding, in the caller's encoding.
    pub print: Vec<u8>,
    /// When it was created.
    pub created_at: Micros,
}

/// Neither a name nor a print belongs in a log.
impl fmt::Debug for Voiceprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Voiceprint").field("id", &self.id).finish_non_exhaustive()
    }
}

fn name_aad(id: VoiceprintId) -> AssociatedData {
    columns::VOICE_NAME.associated_data(&[&id])
}

fn print_aad(id: VoiceprintId) -> AssociatedData {
    columns::VOICE_PRINT.associated_data(&[&id])
}

const SELECT: &str = "SELECT id, name, print, created_at FROM voiceprints WHERE account_id = $1 ORDER BY id";

fn voiceprint(row: &Row, sealer: &Sealer) -> Result<Voiceprint> {
    let id = VoiceprintId(row.get("id")?);
    Ok(Voiceprint {
        id,
        name: sealer.open_text(&name_aad(id), &row.get::<Vec<u8>>("name")?)?,
        print: sealer.open(&print_aad(id), &row.get::<Vec<u8>>("print")?)?,
        created_at: row.get("created_at")?,
    })
}

impl Voiceprints<'_> {
    /// Adds a voiceprint; [`Error::Conflict`] when the account has one of that name (ignoring case) or
    /// has reached its limit.
    pub async fn add(self, account: AccountId, name: &str, print: &[u8]) -> Result<Voiceprint> {
        let sealer = self.store.sealer(account).await?;
        let created_at = self.store.now();
        let mut tx = self.store.db().begin().await?;
        // Otherwise two concurrent calls could both find the name free.
        ledger::lock(&mut tx, account).await?;
        let known = tx.all(SELECT, args![account]).await?;
        if known.len() >= MAX_VOICEPRINTS {
            return Err(Error::Conflict("the account knows 100 voices: remove one first"));
        }
        for row in &known {
            if voiceprint(row, &sealer)?.name.to_lowercase() == name.to_lowercase() {
                return Err(Error::Conflict(
                    "the account knows a voice of that name: remove it first, or choose another name",
                ));
            }
        }
        // The associated data of the sealed values needs the id of the row.
        let empty: &[u8] = &[];
        let sql = "INSERT INTO voiceprints (account_id, name, print, created_at) VALUES ($1, $2, $2, $3) RETURNING id";
        let id = VoiceprintId(tx.one(sql, args![account, empty, created_at]).await?.get("id")?);
        let (sealed_name, sealed_print) =
            (sealer.seal(&name_aad(id), name.as_bytes())?, sealer.seal(&print_aad(id), print)?);
        let sql = "UPDATE voiceprints SET name = $1, print = $2 WHERE id = $3";
        tx.execute(sql, args![&sealed_name, &sealed_print, id]).await?;
        tx.commit().await?;
        Ok(Voiceprint { id, name: name.to_owned(), print: print.to_vec(), created_at })
    }

    /// The voiceprints of an account, oldest first.
    pub async fn list(self, account: AccountId) -> Result<Vec<Voiceprint>> {
        let sealer = self.store.sealer(account).await?;
        self.store.db().all(SELECT, args![account]).await?.iter().map(|row| voiceprint(row, &sealer)).collect()
    }

    /// Deletes a voiceprint of the account; [`Error::NotFound`] when it has no such one.
    pub async fn remove(self, account: AccountId, id: VoiceprintId) -> Result<()> {
        let sql = "DELETE FROM voiceprints WHERE id = $1 AND account_id = $2";
        let mut tx = self.store.db().begin().await?;
        if tx.execute(sql, args![id, account]).await? == 0 {
            return Err(Error::NotFound("speaker"));
        }
        audit::write_act(&mut tx, self.audit, &format!("speaker {id}"), self.store.now()).await?;
        tx.commit().await
    }
}
