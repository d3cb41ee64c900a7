//! Voices that an account wants to know again. What a print is made of is its maker's business; here it is sealed bytes.

use std::fmt;

use crate::Store;
use crate::audit::{self, NewAudit, audited};
use crate::clock::Micros;
use crate::db::{Row, args};
use crate::error::{Error, Result};
use crate::ids::{AccountId, VoiceprintId};
use crate::ledger;
use crate::sealing::Sealer;
use crate::sealing::columns::{self, Place};

/// Known voices of accounts.
#[derive(Debug, Clone, Copy)]
pub struct Voiceprints<'a> {
    pub(crate) store: &'a Store,
    /// Written in the transaction of the next act.
    pub(crate) audit: Option<&'a NewAudit>,
}

audited!(Voiceprints);

/// Voices that one account may keep.
pub const MAX_VOICEPRINTS: usize = 100;

/// A voice that an account knows.
#[derive(Clone, PartialEq, Eq)]
pub struct Voiceprint {
    /// Its id.
    pub id: VoiceprintId,
    /// Whose voice it is.
    pub name: String,
    /// What it sounds like.
    pub print: Vec<u8>,
    /// When it was learned.
    pub created_at: Micros,
}

/// Neither a name nor a print belongs in a log.
impl fmt::Debug for Voiceprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Voiceprint").field("id", &self.id).finish_non_exhaustive()
    }
}

fn name_place(id: VoiceprintId) -> Place {
    columns::VOICE_NAME.at(&[&id])
}

fn print_place(id: VoiceprintId) -> Place {
    columns::VOICE_PRINT.at(&[&id])
}

const SELECT: &str = "SELECT id, name, print, created_at FROM voiceprints WHERE account_id = $1 ORDER BY id";

fn voiceprint(row: &Row, sealer: &Sealer) -> Result<Voiceprint> {
    let id = VoiceprintId(row.get("id")?);
    Ok(Voiceprint {
        id,
        name: sealer.open_text(&name_place(id), &row.get::<Vec<u8>>("name")?)?,
        print: sealer.open(&print_place(id), &row.get::<Vec<u8>>("print")?)?,
        created_at: row.get("created_at")?,
    })
}

impl Voiceprints<'_> {
    /// Keeps a voice under a name; [`Error::Conflict`] when the account has one of that name, whatever the case of its letters, or
    /// as many voices as it may have.
    pub async fn add(self, account: AccountId, name: &str, print: &[u8]) -> Result<Voiceprint> {
        let sealer = self.store.sealer(account).await?;
        let created_at = self.store.now();
        let mut tx = self.store.db().begin().await?;
        // Two at once would both find the name free.
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
        // A sealed value names its place, and the place is known once the row is there.
        let empty: &[u8] = &[];
        let sql = "INSERT INTO voiceprints (account_id, name, print, created_at) VALUES ($1, $2, $2, $3) RETURNING id";
        let id = VoiceprintId(tx.one(sql, args![account, empty, created_at]).await?.get("id")?);
        let (sealed_name, sealed_print) =
            (sealer.seal(&name_place(id), name.as_bytes())?, sealer.seal(&print_place(id), print)?);
        let sql = "UPDATE voiceprints SET name = $1, print = $2 WHERE id = $3";
        tx.execute(sql, args![&sealed_name, &sealed_print, id]).await?;
        tx.commit().await?;
        Ok(Voiceprint { id, name: name.to_owned(), print: print.to_vec(), created_at })
    }

    /// The voices that an account knows, oldest first.
    pub async fn list(self, account: AccountId) -> Result<Vec<Voiceprint>> {
        let sealer = self.store.sealer(account).await?;
        self.store.db().all(SELECT, args![account]).await?.iter().map(|row| voiceprint(row, &sealer)).collect()
    }

    /// Forgets a voice of the account; [`Error::NotFound`] when it has no such one.
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
