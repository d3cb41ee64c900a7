//! Recordings in a folder.
//!
//! A recording is written beside its place, brought to disk, then renamed, and the folder is brought to disk too: it is whole or not there, also after
//! the power failed.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::{BlobKey, MARKER, StoredFile};
use crate::db::private_folder;
use crate::error::{Error, Result};

/// Where recordings are while they come.
const INCOMING: &str = "incoming";

/// How much is written before the kernel is told to begin bringing it to disk. Without it a gigabyte waits in memory until the end, and the last step takes as
/// long as the upload.
const WRITEBACK: u64 = 8 << 20;

/// A folder of recordings.
#[derive(Debug, Clone)]
pub(crate) struct Folder {
    root: PathBuf,
}

impl Folder {
    pub(crate) fn open(root: &Path) -> Result<Folder> {
        private_folder(&root.join(INCOMING))
            .map_err(|e| Error::Setup(format!("can't create the folder of recordings {}: {e}", root.display())))?;
        Ok(Folder { root: root.to_owned() })
    }

    /// Where a recording lies. Two digits of its name are its folder, since some file systems are slow with a million files in one.
    pub(crate) fn path(&self, key: &BlobKey) -> PathBuf {
        self.root.join(&key.as_str()[..2]).join(key.as_str())
    }

    /// Begins a recording.
    pub(crate) fn create(&self, key: &BlobKey) -> Result<Incoming> {
        let path = self.root.join(INCOMING).join(key.as_str());
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let file = file.map_err(|e| Error::io("can't create a recording", e))?;
        Ok(Incoming { file, path: Some(path), place: self.path(key), written: 0, flushed: 0 })
    }

    /// Removes a recording, whole or not; one that is not there is fine, unless the folder itself is away.
    pub(crate) fn remove(&self, key: &BlobKey) -> Result<()> {
        let is_whole_gone = remove_file(&self.path(key))?;
        let is_part_gone = remove_file(&self.root.join(INCOMING).join(key.as_str()))?;
        if is_whole_gone || is_part_gone {
            return Ok(());
        }
        // A volume that is not mounted holds no file either. Forgetting the recording now would leave its file behind when the volume is back.
        self.check_mounted()?;
        // The folder may have come back after the first look.
        remove_file(&self.path(key))?;
        remove_file(&self.root.join(INCOMING).join(key.as_str())).map(drop)
    }

    /// Fails unless this is the folder of a store: one that is absent or empty is a volume that is not mounted.
    fn check_mounted(&self) -> Result<()> {
        let marker = self.root.join(MARKER);
        fs::metadata(&marker).map(drop).map_err(|e| {
            let place = self.root.display();
            Error::Blob(format!(
                "the folder of recordings {place} is away: {MARKER} can't be read ({e}); is its volume mounted?"
            ))
        })
    }

    /// Where the folder is.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Writes a few bytes where recordings arrive, reads them back and removes them.
    pub(crate) fn probe(&self, token: &str) -> Result<()> {
        let path = self.root.join(INCOMING).join(format!("probe-{token}"));
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

    /// The folders that hold recordings.
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

    /// Recordings in one of the [`Folder::folders`] that were last written at `before` or earlier, whole or not.
    pub(super) fn list(&self, folder: &Path, before: SystemTime) -> Result<Vec<StoredFile>> {
        let is_incoming = folder.ends_with(INCOMING);
        let mut out = Vec::new();
        for file in fs::read_dir(folder).map_err(list_failed)? {
            let file = file.map_err(list_failed)?;
            let Some(key) = file.file_name().to_str().and_then(BlobKey::parse) else { continue };
            // One that vanished meanwhile is none of ours.
            let Ok(about) = file.metadata() else { continue };
            if about.modified().is_ok_and(|written| written <= before) {
                out.push(StoredFile { key, size: about.len(), is_incoming });
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
        // A name of its own: processes that start at the same moment write the same.
        let beside = self.root.join(INCOMING).join(format!("{MARKER}-{}", crate::random::token::<8>()?));
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

/// Removes a file; whether it was there.
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

/// A recording that comes; removed unless finished.
pub(crate) struct Incoming {
    file: File,
    path: Option<PathBuf>,
    place: PathBuf,
    written: u64,
    flushed: u64,
}

impl Incoming {
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|e| Error::io("can't write a recording", e))?;
        self.written += bytes.len() as u64;
        if self.written - self.flushed >= WRITEBACK {
            begin_writeback(&self.file, self.flushed, self.written - self.flushed);
            self.flushed = self.written;
        }
        Ok(())
    }

    /// Brings the recording to its place, on disk.
    pub(crate) fn finish(mut self) -> Result<()> {
        let failed = |e| Error::io("can't bring a recording to disk", e);
        let Some(path) = self.path.take() else { return Ok(()) };
        let finish = || {
            self.file.sync_all()?;
            let folder = self.place.parent().unwrap_or(Path::new("."));
            if !folder.exists() {
                // Where the file that is to be moved is missing, so is the volume of the recordings: nothing is made in its place.
                fs::metadata(&path)?;
                match fs::DirBuilder::new().mode(0o700).create(folder) {
                    Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => return Err(e),
                    _ => {}
                }
                sync_folder(folder.parent().unwrap_or(Path::new(".")))?;
            }
            fs::rename(&path, &self.place)?;
            sync_folder(folder)
        };
        finish().map_err(|e| {
            // The sweep finds what can't be removed now.
            let _ = fs::remove_file(&path);
            failed(e)
        })
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // The sweep finds what can't be removed now.
            let _ = fs::remove_file(path);
        }
    }
}

fn sync_folder(folder: &Path) -> std::io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Tells the kernel to begin writing a range to disk, without waiting for it.
fn begin_writeback(file: &File, start: u64, length: u64) {
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::AsRawFd;
        // SAFETY: the descriptor is open for as long as `file` lives, and the call touches no memory of ours. Its failure only means that the last
        // step takes longer.
        unsafe {
            libc::sync_file_range(file.as_raw_fd(), start as i64, length as i64, libc::SYNC_FILE_RANGE_WRITE);
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (file, start, length);
}
