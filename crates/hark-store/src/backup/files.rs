//! Files that are whole and on disk, or not there.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use sha2::{Digest, Sha256};

use super::failed;
use crate::error::Result;
use crate::random::hex;

const BLOCK: usize = 1 << 20;

pub(super) fn hash(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Length and SHA-256 of a file.
pub(super) fn measure(path: &Path) -> Result<(u64, String)> {
    let mut file = File::open(path).map_err(|e| failed("can't read", path, e))?;
    let (mut hash, mut bytes, mut block) = (Sha256::new(), 0, vec![0; BLOCK]);
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

/// Creates a file that only its owner may read, in place of one that is there.
pub(super) fn create(path: &Path) -> Result<File> {
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
    file.map_err(|e| failed("can't create", path, e))
}

/// A file that is written beside its place and hashed as it is.
pub(super) struct Writing {
    file: File,
    part: std::path::PathBuf,
    place: std::path::PathBuf,
    hash: Sha256,
    bytes: u64,
}

impl Writing {
    pub(super) fn begin(place: &Path) -> Result<Writing> {
        let mut part = place.as_os_str().to_owned();
        part.push(".part");
        let part = std::path::PathBuf::from(part);
        Ok(Writing { file: create(&part)?, part, place: place.to_owned(), hash: Sha256::new(), bytes: 0 })
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|e| failed("can't write", &self.part, e))?;
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Brings the file to its place, on disk; returns its length and hash. Its folder is brought to disk by [`sync_folder`].
    pub(super) fn finish(self) -> Result<(u64, String)> {
        self.file.sync_all().map_err(|e| failed("can't bring to disk", &self.part, e))?;
        fs::rename(&self.part, &self.place).map_err(|e| failed("can't rename", &self.part, e))?;
        Ok((self.bytes, hex(&self.hash.finalize())))
    }
}

/// Brings the names in a folder to disk.
pub(super) fn sync_folder(folder: &Path) -> Result<()> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(|e| failed("can't bring to disk", folder, e))
}

/// Brings a file that somebody else wrote to disk.
pub(super) fn sync(path: &Path) -> Result<()> {
    File::open(path).and_then(|file| file.sync_all()).map_err(|e| failed("can't bring to disk", path, e))
}
