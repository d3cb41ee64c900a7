//! Detects processes that use a database without its master key. Once an account has a data key, such a process can no longer read it, so [`super::seal_all`]
//! is refused while one runs.
//!
//! On SQLite a process without a key holds a lock on a file beside the database, shared with others like it; the kernel releases it however the process ends. On
//! PostgreSQL every connection shows the names of the keys that its process has.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use crate::db::{Db, args, sqlite_path};
use crate::error::{Error, Result};
use crate::sealing::MasterKeys;

/// The `application_name` of connections to PostgreSQL. PostgreSQL cuts names after 63 bytes, enough for three keys, the current one first.
pub(crate) fn application_name(keys: &MasterKeys) -> String {
    let mut name = String::from("hark");
    for (number, id) in keys.ids().iter().take(3).enumerate() {
        name.push(if number == 0 { ' ' } else { ',' });
        name.push_str(id);
    }
    name
}

/// A lock that shows others that this process uses the database without a master key, if it does.
pub(crate) struct KeylessLock {
    lock: Option<File>,
    path: Option<PathBuf>,
}

/// While this lives, no process without a master key can open a SQLite database.
pub(crate) struct KeylessExcluded(#[allow(dead_code, reason = "holds the lock")] Option<File>);

impl KeylessLock {
    pub(crate) fn take(database: &str, keys: &MasterKeys) -> Result<KeylessLock> {
        let Some(path) = sqlite_path(database) else { return Ok(KeylessLock { lock: None, path: None }) };
        let mut beside = path.into_os_string();
        beside.push("-keyless");
        let path = Some(PathBuf::from(beside));
        if keys.current().is_some() {
            return Ok(KeylessLock { lock: None, path });
        }
        let unlocked = KeylessLock { lock: None, path };
        let lock = unlocked.file()?;
        match lock.try_lock_shared() {
            Ok(()) => Ok(KeylessLock { lock: Some(lock), ..unlocked }),
            Err(TryLockError::WouldBlock) => Err(Error::Setup(
                "everything in this database is being sealed: start with its master key (`master_key_file`)".into(),
            )),
            // A file system without locks must not keep a service from starting.
            Err(TryLockError::Error(error)) => {
                tracing::debug!(%error, "seal.keyless_lock_unsupported");
                Ok(unlocked)
            }
        }
    }

    fn file(&self) -> Result<File> {
        let failed = |error| Error::Setup(format!("can't open the lock beside the database: {error}"));
        let path = self.path.as_ref().ok_or_else(|| Error::Setup("the database has no file".into()))?;
        OpenOptions::new().create(true).append(true).mode(0o600).open(path).map_err(failed)
    }

    /// Releases the lock: the process has closed the database.
    pub(crate) fn release(&self) {
        if let Some(lock) = &self.lock {
            // The kernel releases it with the process otherwise.
            let _ = lock.unlock();
        }
    }

    /// Fails unless every other process that uses the database knows the current key, as far as can be seen.
    pub(crate) async fn exclude(&self, db: &Db, keys: &MasterKeys) -> Result<Option<KeylessExcluded>> {
        let Some(current) = keys.current() else { return Ok(None) };
        if let Db::Sqlite { .. } = db {
            let file = self.file()?;
            return match file.try_lock() {
                Ok(()) => Ok(Some(KeylessExcluded(Some(file)))),
                Err(TryLockError::WouldBlock) => Ok(None),
                Err(TryLockError::Error(error)) => {
                    Err(Error::Setup(format!("can't tell whether a server runs without the master key: {error}")))
                }
            };
        }
        let sql = "SELECT count(*) AS others FROM pg_stat_activity
                   WHERE datname = current_database() AND (application_name = 'hark' OR application_name LIKE 'hark %')
                       AND position($1 in application_name) = 0";
        let others: i64 = db.one(sql, args![&current.id()]).await?.get("others")?;
        Ok((others == 0).then_some(KeylessExcluded(None)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MasterKey;

    #[test]
    fn the_name_of_a_connection_is_short_enough_for_postgres_and_names_the_keys() {
        let key = |byte| MasterKey::new([byte; 32]);
        let keys = MasterKeys::new(key(1)).with_old(key(2)).with_old(key(3)).with_old(key(4));
        let name = application_name(&keys);
        assert!(name.len() < 64, "{name}");
        assert!(name.contains(&key(1).id()) && name.contains(&key(3).id()), "{name}");
        assert_eq!(application_name(&MasterKeys::none()), "hark");
    }
}
