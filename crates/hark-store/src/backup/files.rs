//! Atomic, durable files and their checksums.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use sha2::{Digest, Sha256};

use super::failed;
use crate::error::Result;
use crate::random::hex;

const READ_SIZE: usize = 1 << 20;

pub(super) fn hash(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Length and SHA-256 of a file.
pub(super) fn length_and_hash(path: &Path) -> Result<(u64, String)> {
    let mut file = File::open(path).map_err(|e| failed("can't read", path, e))?;
    let (mut hash, mut bytes, mut block) = (Sha256::new(), 0, vec![0; READ_SIZE]);
    loop {
        match file.read(&mut block).map_err(|e| failed("can't read", path, e))? {
            0 => return Ok((bytes, hex(&hash.finalize()))),
            count => {
                hash.update(&block[..count]);
                bytes += count as u64;
            }
        }
    }
}

/// Creates or truncates a file with mode 0600.
pub(super) fn create(path: &Path) -> Result<File> {
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
    file.map_err(|e| failed("can't create", path, e))
}

/// A file that is written to a temporary name, hashed, and renamed into place when it is complete and durable.
pub(super) struct AtomicFile {
    file: File,
    part: std::path::PathBuf,
    target: std::path::PathBuf,
    hash: Sha256,
    bytes: u64,
}

impl AtomicFile {
    pub(super) fn begin(target: &Path) -> Result<AtomicFile> {
        let mut part = target.as_os_str().to_owned();
        part.push(".part");
        let part = std::path::PathBuf::from(part);
        Ok(AtomicFile { file: create(&part)?, part, target: target.to_owned(), hash: Sha256::new(), bytes: 0 })
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|e| failed("can't write", &self.part, e))?;
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Syncs the file and renames it into place; returns its length and hash. The caller syncs the folder with [`sync_folder`].
    pub(super) fn finish(self) -> Result<(u64, String)> {
        self.file.sync_all().map_err(|e| failed("can't bring to disk", &self.part, e))?;
        fs::rename(&self.part, &self.target).map_err(|e| failed("can't rename", &self.part, e))?;
        Ok((self.bytes, hex(&self.hash.finalize())))
    }
}

/// Makes the entries of a folder durable (fsync).
pub(super) fn sync_folder(folder: &Path) -> Result<()> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(|e| failed("can't bring to disk", folder, e))
}

/// Makes a file that another program wrote durable (fsync).
pub(super) fn sync(path: &Path) -> Result<()> {
    File::open(path).and_then(|file| file.sync_all()).map_err(|e| failed("can't bring to disk", path, e))
}
