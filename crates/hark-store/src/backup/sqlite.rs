//! Consistent dumps of SQLite.

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Connection, Row};

use super::write::Snapshot;
use crate::BlobKey;
use crate::db::Db;
use crate::error::{Error, Result};

type Boxed<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// Writes a consistent copy of the database, including its WAL, to an empty file, while it is in use.
pub(super) fn dump<'a>(db: &'a Db, to: &'a Path) -> Boxed<'a, ()> {
    Box::pin(async move {
        let row = db.one("SELECT file FROM pragma_database_list WHERE name = 'main'", &[]).await?;
        let from = PathBuf::from(row.get::<String>("file")?);
        let mut connection = open(&from).await?;
        // A connection of its own: `query_only` of the store's readers also forbids `VACUUM INTO`.
        let to = to.to_str().ok_or_else(|| Error::Setup("the name of the backup's folder is not UTF-8".into()))?;
        sqlx::query("VACUUM INTO $1").bind(to).execute(&mut connection).await?;
        Ok(connection.close().await?)
    })
}

/// Checks the integrity of a dump and reads its metadata.
pub(super) fn inspect(path: &Path) -> Boxed<'_, Snapshot> {
    Box::pin(async move {
        let mut connection = open(path).await?;
        let verdict: String = sqlx::query("PRAGMA integrity_check(1)").fetch_one(&mut connection).await?.try_get(0)?;
        if verdict != "ok" {
            return Err(Error::Damaged(format!("{}: {verdict}", path.display())));
        }
        let sql = "SELECT (SELECT count(*) FROM migrations), (SELECT value FROM store_meta WHERE name = 'store_id')";
        let row = sqlx::query(sql).fetch_one(&mut connection).await?;
        let mut snapshot = Snapshot { schema: row.try_get(0)?, store: row.try_get(1)?, recordings: Vec::new() };
        for row in sqlx::query("SELECT key FROM blobs WHERE state IN ('live', 'piece') ORDER BY key")
            .fetch_all(&mut connection)
            .await?
        {
            snapshot.recordings.extend(BlobKey::parse(&row.try_get::<String, _>(0)?));
        }
        connection.close().await?;
        Ok(snapshot)
    })
}

async fn open(path: &Path) -> Result<SqliteConnection> {
    let options = SqliteConnectOptions::new().filename(path).create_if_missing(false);
    Ok(options.busy_timeout(Duration::from_secs(30)).connect().await?)
}
