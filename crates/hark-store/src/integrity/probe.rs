//! Readiness probes: real writes, cheap enough to run every second.

use std::path::{Path, PathBuf};

use crate::db::{Db, args};
use crate::error::{Error, Result};
use crate::integrity::Integrity;
use crate::recordings::{Blobs, blocking};

impl Integrity<'_> {
    /// Writes one row to the database and commits it.
    pub async fn probe_database(self) -> Result<()> {
        let sql =
            "INSERT INTO probes (name, at) VALUES ('readiness', $1) ON CONFLICT (name) DO UPDATE SET at = excluded.at";
        self.store.db().execute(sql, args![self.store.now()]).await.map(drop)
    }

    /// Writes a few bytes beside the recordings, reads them back and removes them.
    pub async fn probe_recordings(self) -> Result<()> {
        let token = crate::random::token::<16>()?;
        match self.store.blobs() {
            Blobs::Local(folder) => {
                let folder = folder.clone();
                blocking(move || folder.probe(&token)).await
            }
            #[cfg(feature = "object-store")]
            Blobs::Remote(bucket) => bucket.probe(&token).await,
        }
    }

    /// The local folders that the store writes to.
    pub fn local_folders(self) -> Vec<PathBuf> {
        let mut folders = Vec::new();
        if let Db::Sqlite { file, .. } = self.store.db() {
            folders.extend(file.path().parent().filter(|parent| !parent.as_os_str().is_empty()).map(Path::to_owned));
        }
        match self.store.blobs() {
            Blobs::Local(folder) => folders.push(folder.root().to_owned()),
            #[cfg(feature = "object-store")]
            Blobs::Remote(_) => {}
        }
        folders
    }
}

/// Free bytes of the file system of a folder that this process may use.
pub fn free_space(folder: &Path) -> std::io::Result<u64> {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::CString::new(folder.as_os_str().as_bytes())?;
    let mut about = std::mem::MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the path is NUL-terminated, the structure has the type of the call, and neither pointer is retained.
    if unsafe { libc::statvfs(path.as_ptr(), about.as_mut_ptr()) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so the structure is initialized.
    let about = unsafe { about.assume_init() };
    Ok(about.f_bavail.saturating_mul(about.f_frsize))
}

/// The error of a probe that read back other bytes than it wrote.
pub(crate) fn mismatch() -> Error {
    Error::Blob("what was written is not what was read back".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_space_is_that_of_a_file_system_and_a_missing_folder_has_none() {
        assert!(free_space(Path::new("/")).unwrap() > 0);
        assert!(free_space(Path::new("/no/such/folder")).is_err());
    }
}
