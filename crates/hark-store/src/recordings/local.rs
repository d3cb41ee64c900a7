//! Recordings in a folder.
//!
//! A recording is written to a spool file, synced, renamed to its path, and the folder is synced too: it is complete or absent, also after a
//! power failure.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::{BlobKey, MARKER, StoredFile};
use crate::db::private_folder;
use crate::error::{Error, Result};

/// The folder of uploads in progress.
const SPOOL: &str = "incoming";
/// What the names of the files of readiness probes begin with.
const PROBE: &str = "probe-";

/// Writeback starts each time this much was written. Otherwise a gigabyte stays in the page cache until the end, and the final sync takes as
/// long as the upload.
const WRITEBACK_BYTES: u64 = 8 << 20;

/// A folder of recordings.
#[derive(Debug, Clone)]
pub(crate) struct Folder {
    root: PathBuf,
}

impl Folder {
    pub(crate) fn open(root: &Path) -> Result<Folder> {
        private_folder(&root.join(SPOOL))
            .map_err(|e| Error::Setup(format!("can't create the folder of recordings {}: {e}", root.display())))?;
        Ok(Folder { root: root.to_owned() })
    }

    /// The path of a recording. The first two digits of its key are the folder, since some file systems are slow with a million files in one.
    pub(crate) fn path(&self, key: &BlobKey) -> PathBuf {
        self.root.join(&key.as_str()[..2]).join(key.as_str())
    }

    /// Creates the spool file of a recording.
    pub(crate) fn create(&self, key: &BlobKey) -> Result<SpoolFile> {
        let path = self.root.join(SPOOL).join(key.as_str());
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let file = file.map_err(|e| Error::io("can't create a recording", e))?;
        Ok(SpoolFile { file, path: Some(path), destination: self.path(key), written: 0, flushed: 0 })
    }

    /// Removes a recording, complete or partial; an absent one is fine, unless the folder itself is unreachable.
    pub(crate) fn remove(&self, key: &BlobKey) -> Result<()> {
        let is_whole_gone = remove_file(&self.path(key))?;
        let is_part_gone = remove_file(&self.root.join(SPOOL).join(key.as_str()))?;
        if is_whole_gone || is_part_gone {
            return Ok(());
        }
        // The file is absent from an unmounted volume too. Deleting the row now would leave the file behind once the volume is mounted again.
        self.check_mounted()?;
        // The volume may have been mounted after the first attempt.
        remove_file(&self.path(key))?;
        remove_file(&self.root.join(SPOOL).join(key.as_str())).map(drop)
    }

    /// Fails unless the folder has the marker of a store: without it, the volume is probably not mounted.
    fn check_mounted(&self) -> Result<()> {
        let marker = self.root.join(MARKER);
        fs::metadata(&marker).map(drop).map_err(|e| {
            let root = self.root.display();
            Error::Blob(format!(
                "the folder of recordings {root} is unreachable: {MARKER} can't be read ({e}); is its volume mounted?"
            ))
        })
    }

    /// The path of the folder.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Removes the files of readiness probes that were killed before they could remove them: those last modified at `before` or earlier.
    pub(super) fn remove_stale_probes(&self, before: SystemTime) -> Result<()> {
        for file in fs::read_dir(self.root.join(SPOOL)).map_err(list_failed)? {
            let file = file.map_err(list_failed)?;
            let is_probe = file.file_name().to_str().is_some_and(|name| name.starts_with(PROBE));
            if is_probe && file.metadata().and_then(|about| about.modified()).is_ok_and(|written| written <= before) {
                // Another process may have been faster.
                let _ = fs::remove_file(file.path());
            }
        }
        Ok(())
    }

    /// Writes a few bytes to the spool folder, reads them back and removes them.
    pub(crate) fn probe(&self, token: &str) -> Result<()> {
        let path = self.root.join(SPOOL).join(format!("{PROBE}{token}"));
        let probe = || {
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
            file.write_all(token.as_bytes())?;
            file.sync_all()?;
            fs::read(&path)
        };
        let read = probe();
        let removed = fs::remove_file(&path);
        let read = read.map_err(|e| Error::io("can't write to the folder of recordings", e))?;
        removed.map_err(|e| Error::io("can't remove from the folder of recordings", e))?;
        if read == token.as_bytes() { Ok(()) } else { Err(crate::integrity::probe::mismatch()) }
    }

    /// The folders of recordings, the spool folder included.
    pub(super) fn folders(&self) -> Result<Vec<PathBuf>> {
        let mut out = Vec::new();
        for folder in fs::read_dir(&self.root).map_err(list_failed)? {
            let folder = folder.map_err(list_failed)?.path();
            if folder.is_dir() {
                out.push(folder);
            }
        }
        out.sort();
        Ok(out)
    }

    /// Recordings in one of the [`Folder::folders`] that were last modified at `before` or earlier, complete or partial.
    pub(super) fn list(&self, folder: &Path, before: SystemTime) -> Result<Vec<StoredFile>> {
        let is_partial = folder.ends_with(SPOOL);
        let mut out = Vec::new();
        for file in fs::read_dir(folder).map_err(list_failed)? {
            let file = file.map_err(list_failed)?;
            let Some(key) = file.file_name().to_str().and_then(BlobKey::parse) else { continue };
            // It was removed in the meantime.
            let Ok(about) = file.metadata() else { continue };
            if about.modified().is_ok_and(|written| written <= before) {
                out.push(StoredFile { key, size: about.len(), is_partial });
            }
        }
        Ok(out)
    }

    pub(super) fn read_marker(&self) -> Result<Option<Vec<u8>>> {
        match fs::read(self.root.join(MARKER)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(Error::io("can't read the id of the recordings", e)),
        }
    }

    pub(super) fn write_marker(&self, bytes: &[u8]) -> Result<()> {
        // A random name: processes that start at the same time write the same marker.
        let beside = self.root.join(SPOOL).join(format!("{MARKER}-{}", crate::random::token::<8>()?));
        let write = || {
            let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
            file.write_all(bytes)?;
            file.sync_all()?;
            fs::rename(&beside, self.root.join(MARKER))?;
            sync_folder(&self.root)
        };
        write().map_err(|e| Error::io("can't write the id of the recordings", e))
    }
}

/// Removes a file; returns whether it existed.
fn remove_file(path: &Path) -> Result<bool> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(Error::io("can't remove a recording", e)),
    }
}

fn list_failed(error: std::io::Error) -> Error {
    Error::io("can't list the recordings", error)
}

/// The spool file of an upload; removed when dropped unless finished.
pub(crate) struct SpoolFile {
    file: File,
    path: Option<PathBuf>,
    destination: PathBuf,
    written: u64,
    flushed: u64,
}

impl SpoolFile {
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|e| Error::io("can't write a recording", e))?;
        self.written += bytes.len() as u64;
        if self.written - self.flushed >= WRITEBACK_BYTES {
            begin_writeback(&self.file, self.flushed, self.written - self.flushed);
            self.flushed = self.written;
        }
        Ok(())
    }

    /// Syncs the recording and renames it to its path.
    pub(crate) fn finish(mut self) -> Result<()> {
        let failed = |e| Error::io("can't bring a recording to disk", e);
        let Some(path) = self.path.take() else { return Ok(()) };
        let finish = || {
            self.file.sync_all()?;
            let folder = self.destination.parent().unwrap_or(Path::new("."));
            if !folder.exists() {
                // If the spool file is missing, the volume is not mounted: don't create folders on its mount point.
                fs::metadata(&path)?;
                match fs::DirBuilder::new().mode(0o700).create(folder) {
                    Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => return Err(e),
                    _ => {}
                }
                sync_folder(folder.parent().unwrap_or(Path::new(".")))?;
            }
            fs::rename(&path, &self.destination)?;
            sync_folder(folder)
        };
        finish().map_err(|e| {
            // The sweep removes what can't be removed now.
            let _ = fs::remove_file(&path);
            failed(e)
        })
    }
}

impl Drop for SpoolFile {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // The sweep removes what can't be removed now.
            let _ = fs::remove_file(path);
        }
    }
}

fn sync_folder(folder: &Path) -> std::io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Starts writeback of a range without waiting for it.
fn begin_writeback(file: &File, start: u64, length: u64) {
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::AsRawFd;
        // SAFETY: the descriptor is open for as long as `file` lives, and the call accesses no memory of the process. If it fails, only the final
        // sync takes longer.
        unsafe {
            libc::sync_file_range(file.as_raw_fd(), start as i64, length as i64, libc::SYNC_FILE_RANGE_WRITE);
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (file, start, length);
}
