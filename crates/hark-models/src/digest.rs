//! Hashes of files: SHA-256, and the git blob id that the hub publishes for small files.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use sha1::Sha1;
use sha2::{Digest, Sha256};

use crate::error::Error;

const BUFFER: usize = 1 << 18;

/// A hash some file must have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Pin {
    Sha256(String),
    GitBlob(String),
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Twelve hexadecimal digits that tell sources and archives apart in folder names.
pub(crate) fn short_id(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes)[..6])
}

/// The file's SHA-256, telling `on_bytes` how far it has read.
pub(crate) fn sha256_file(path: &Path, on_bytes: &mut dyn FnMut(u64)) -> Result<String, Error> {
    let mut hasher = Sha256::new();
    read_all(path, on_bytes, &mut |block| hasher.update(block))?;
    Ok(hex(&hasher.finalize()))
}

/// The file's git blob id: the SHA-1 of its length and content.
fn git_blob_file(path: &Path) -> Result<String, Error> {
    let size = std::fs::metadata(path).map_err(Error::io("read", path))?.len();
    let mut hasher = Sha1::new();
    hasher.update(format!("blob {size}\0").as_bytes());
    read_all(path, &mut |_| {}, &mut |block| hasher.update(block))?;
    Ok(hex(&hasher.finalize()))
}

/// Whether the file has the pinned hash; the hash found when it has not.
pub(crate) fn check(path: &Path, pin: &Pin, on_bytes: &mut dyn FnMut(u64)) -> Result<Result<(), String>, Error> {
    let (wanted, found) = match pin {
        Pin::Sha256(wanted) => (wanted, sha256_file(path, on_bytes)?),
        Pin::GitBlob(wanted) => (wanted, git_blob_file(path)?),
    };
    Ok(if *wanted == found { Ok(()) } else { Err(found) })
}

impl Pin {
    pub(crate) fn text(&self) -> &str {
        match self {
            Pin::Sha256(text) | Pin::GitBlob(text) => text,
        }
    }
}

fn read_all(path: &Path, on_bytes: &mut dyn FnMut(u64), take: &mut dyn FnMut(&[u8])) -> Result<(), Error> {
    let mut file = File::open(path).map_err(Error::io("open", path))?;
    let mut buffer = vec![0; BUFFER];
    let mut done = 0;
    loop {
        let read = file.read(&mut buffer).map_err(Error::io("read", path))?;
        if read == 0 {
            return Ok(());
        }
        take(&buffer[..read]);
        done += read as u64;
        on_bytes(done);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_equal_the_published_vectors() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("abc");
        std::fs::write(&path, b"abc").unwrap();
        // FIPS 180-2, appendix B.1, and `printf abc | git hash-object --stdin`.
        let sha = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256_file(&path, &mut |_| {}).unwrap(), sha);
        assert_eq!(git_blob_file(&path).unwrap(), "f2ba8f84ab5c1bce84a7b441cb1959cfc7093b7f");
        assert_eq!(check(&path, &Pin::Sha256(sha.into()), &mut |_| {}).unwrap(), Ok(()));
        assert_eq!(check(&path, &Pin::GitBlob("00".into()), &mut |_| {}).unwrap().unwrap_err().len(), 40);
    }
}
