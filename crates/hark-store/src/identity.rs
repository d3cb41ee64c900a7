//! The identity of a store: an id in the database and in a marker file beside the recordings.
//!
//! A database and recordings that don't belong together are refused before anything is read or removed: an empty database with a full folder, a folder that
//! is not mounted, a wrong address in the configuration.

use serde::{Deserialize, Serialize};

use crate::db::{Db, args};
use crate::error::{Error, Result};
use crate::random;
use crate::recordings::sweep;
use crate::recordings::{Blobs, StoredFile};

/// Name of the row in `store_meta`.
const STORE_ID: &str = "store_id";
/// Files that are compared with the database when the recordings have no marker.
const SAMPLE: usize = 1000;

/// What to do about recordings with the marker of another store, or without a marker although the database has an id.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum IdentityCheck {
    /// Refuse to open the store.
    #[default]
    Enforce,
    /// Assign the recordings to this database (`hark store adopt`).
    Adopt,
}

/// The marker file beside the recordings, as JSON.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Marker {
    format: u32,
    store: String,
}

impl Marker {
    pub(crate) fn new(store: &str) -> Marker {
        Marker { format: 1, store: store.to_owned() }
    }

    pub(crate) async fn read(blobs: &Blobs) -> Result<Option<String>> {
        let Some(bytes) = blobs.read_marker().await? else { return Ok(None) };
        let marker: Marker = serde_json::from_slice(&bytes)
            .map_err(|e| Error::Damaged(format!("{} in {}: {e}", crate::recordings::MARKER, blobs.location())))?;
        Ok(Some(marker.store))
    }

    pub(crate) async fn write(&self, blobs: &Blobs) -> Result<()> {
        let mut bytes = serde_json::to_vec(self).map_err(|e| Error::Damaged(e.to_string()))?;
        bytes.push(b'\n');
        blobs.write_marker(bytes).await
    }
}

/// The store id in the database.
pub(crate) async fn read_id(db: &Db) -> Result<Option<String>> {
    let row = db.optional("SELECT value FROM store_meta WHERE name = $1", args![STORE_ID]).await?;
    row.map(|row| row.get("value")).transpose()
}

/// Checks that database and recordings belong together; returns the id of the store, which is created at the first start.
pub(crate) async fn check(db: &Db, blobs: &Blobs, check: IdentityCheck) -> Result<String> {
    // The marker is read first: a new id is written to the database before the marker, so a marker of this store is never
    // seen without its row.
    let marker_id = Marker::read(blobs).await?;
    let database_id = read_id(db).await?;
    let location = blobs.location();
    match (&database_id, &marker_id) {
        (Some(database_id), Some(marker_id)) if database_id == marker_id => return Ok(database_id.clone()),
        _ if check == IdentityCheck::Adopt => {}
        (Some(database_id), Some(marker_id)) => {
            return Err(Error::Setup(format!(
                "the recordings in {location} belong to store {marker_id}, the database is store {database_id}: correct `database` or `blobs` \
                 (HARK_DATABASE, HARK_BLOBS); if they do belong together, run `hark store adopt`"
            )));
        }
        (None, Some(marker_id)) => {
            return Err(Error::Setup(format!(
                "the recordings in {location} belong to store {marker_id}, and the database is of no store yet (it is new, or older than its recordings): \
                 correct `database` or `blobs` (HARK_DATABASE, HARK_BLOBS), or restore the database with `hark restore`; \
                 if they do belong together, run `hark store adopt`"
            )));
        }
        (_, None) => check_files(db, blobs).await?,
    }
    let id = match (database_id, marker_id) {
        (Some(database_id), _) => database_id,
        (None, marker_id) => claim(db, marker_id).await?,
    };
    Marker::new(&id).write(blobs).await?;
    Ok(id)
}

/// Writes an id to the database, unless another process was first.
async fn claim(db: &Db, marker_id: Option<String>) -> Result<String> {
    let id = match marker_id {
        Some(id) => id,
        None => random::token::<16>()?,
    };
    let sql = "INSERT INTO store_meta (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING";
    db.execute(sql, args![STORE_ID, &id]).await?;
    read_id(db).await?.ok_or_else(|| Error::Damaged("the store has no id".into()))
}

/// Accepts recordings without a marker if the database knows them: a store of a version before ids, or one whose first start was interrupted.
async fn check_files(db: &Db, blobs: &Blobs) -> Result<()> {
    let location = blobs.location();
    let advice =
        "correct `database` or `blobs` (HARK_DATABASE, HARK_BLOBS); if they do belong together, run `hark store adopt`";
    let mut sample: Vec<StoredFile> = Vec::new();
    let mut pages = blobs.pages(std::time::Duration::ZERO).await?;
    while sample.len() < SAMPLE
        && let Some(page) = pages.next().await?
    {
        sample.extend(page.into_iter().filter(|file| !file.is_partial));
    }
    let files = sample.len() as u64;
    let unknown = sweep::unknown(db, sample).await?.len() as u64;
    let live: i64 = db.one("SELECT count(*) AS live FROM blobs WHERE state = 'live'", &[]).await?.get("live")?;
    if files == 0 && live > 0 {
        return Err(Error::Setup(format!(
            "the database knows {live} recordings, and {location} holds none: is the right folder or bucket mounted? {advice}"
        )));
    }
    if files > 0 && unknown == files || sweep::is_mismatch(unknown, files) {
        return Err(Error::Setup(format!(
            "{location} holds recordings that this database does not know ({unknown} of the {files} that were looked at): {advice}"
        )));
    }
    Ok(())
}
