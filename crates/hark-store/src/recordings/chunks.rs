//! Sealed recordings: chunks of 64 KiB, each sealed for its place.
//!
//! File = `HARKBLB1`, 19 random bytes, then chunks of 65,536 bytes with a tag of 16 each; the last may be shorter. The nonce of a chunk is the random bytes,
//! its number and whether it is the last (the STREAM construction), so that chunks can't be swapped, left out or cut off at the end. The name of the
//! recording is associated data, so that files can't be swapped either. Any chunk opens without those before it, so ranges cost only what they read.

use std::sync::Arc;

use chacha20poly1305::aead::AeadInOut;
use chacha20poly1305::{XChaCha20Poly1305, XNonce};

use super::BlobKey;
use crate::error::{Error, Result};
use crate::random;
use crate::sealing::DataKey;

/// Bytes of a recording in a chunk.
pub(crate) const CHUNK: usize = 64 * 1024;
const TAG: usize = 16;
/// Bytes of a whole chunk in the file.
pub(crate) const SEALED_CHUNK: usize = CHUNK + TAG;
const MAGIC: &[u8; 8] = b"HARKBLB1";
const SALT: usize = 19;
/// Bytes before the first chunk.
pub(crate) const HEADER: usize = MAGIC.len() + SALT;

/// One recording's cipher.
pub(crate) struct Chunks {
    cipher: XChaCha20Poly1305,
    salt: [u8; SALT],
    name: String,
}

impl Chunks {
    /// For a recording that is written.
    pub(crate) fn create(key: &DataKey, name: &BlobKey) -> Result<Chunks> {
        Ok(Chunks { cipher: key.cipher(), salt: random::bytes()?, name: name.as_str().to_owned() })
    }

    /// For a recording that begins with this header.
    pub(crate) fn open(key: &DataKey, name: &BlobKey, header: &[u8]) -> Result<Chunks> {
        let damaged = || Error::Damaged("a sealed recording does not begin as one".into());
        let (magic, salt) = header.split_at_checked(MAGIC.len()).ok_or_else(damaged)?;
        let salt = salt.try_into().map_err(|_| damaged())?;
        if magic != MAGIC {
            return Err(damaged());
        }
        Ok(Chunks { cipher: key.cipher(), salt, name: name.as_str().to_owned() })
    }

    pub(crate) fn header(&self) -> Vec<u8> {
        [&MAGIC[..], &self.salt].concat()
    }

    fn nonce(&self, number: u64, last: bool) -> Result<XNonce> {
        // 2^32 chunks are 256 TiB.
        let number = u32::try_from(number).map_err(|_| Error::Blob("a recording is too long to seal".into()))?;
        let mut nonce = [0; 24];
        nonce[..SALT].copy_from_slice(&self.salt);
        nonce[SALT..SALT + 4].copy_from_slice(&number.to_be_bytes());
        nonce[SALT + 4] = last.into();
        Ok(XNonce::from(nonce))
    }

    /// Appends a sealed chunk.
    fn seal(&self, number: u64, last: bool, chunk: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let start = out.len();
        out.extend_from_slice(chunk);
        let sealed = &mut out[start..];
        let tag = self
            .cipher
            .encrypt_inout_detached(&self.nonce(number, last)?, self.name.as_bytes(), sealed.into())
            .map_err(|_| Error::Sealed("a chunk of a recording can't be sealed"))?;
        out.extend_from_slice(&tag);
        Ok(())
    }

    /// Opens a sealed chunk in place.
    pub(crate) fn unseal(&self, number: u64, last: bool, chunk: &mut Vec<u8>) -> Result<()> {
        let damaged = || Error::Damaged("a sealed recording was changed or cut off".into());
        let text = chunk.len().checked_sub(TAG).ok_or_else(damaged)?;
        let tag: [u8; TAG] = chunk[text..].try_into().map_err(|_| damaged())?;
        chunk.truncate(text);
        self.cipher
            .decrypt_inout_detached(
                &self.nonce(number, last)?,
                self.name.as_bytes(),
                chunk.as_mut_slice().into(),
                &tag.into(),
            )
            .map_err(|_| damaged())
    }
}

/// How many chunks a sealed file of this length has, and how long the recording in it is.
pub(crate) fn layout(file: u64) -> Result<(u64, u64)> {
    let damaged = || Error::Damaged("a sealed recording was cut off".into());
    let body = file.checked_sub(HEADER as u64).ok_or_else(damaged)?;
    let chunks = body.div_ceil(SEALED_CHUNK as u64);
    let size = body.checked_sub(chunks * TAG as u64).filter(|_| chunks > 0).ok_or_else(damaged)?;
    Ok((chunks, size))
}

/// How long the sealed file of a recording of this length is.
pub(crate) fn sealed_size(size: u64) -> u64 {
    let chunks = size.div_ceil(CHUNK as u64).max(1);
    HEADER as u64 + size + chunks * TAG as u64
}

/// Seals a recording as it comes.
pub(crate) struct Sealing {
    chunks: Arc<Chunks>,
    number: u64,
    /// What waits to be a whole chunk. A whole one waits too, since it may be the last.
    pending: Vec<u8>,
}

impl Sealing {
    pub(crate) fn new(chunks: Chunks) -> Sealing {
        Sealing { chunks: Arc::new(chunks), number: 0, pending: Vec::with_capacity(CHUNK) }
    }

    /// Appends what is ready to be written for these bytes.
    pub(crate) fn push(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) -> Result<()> {
        while !bytes.is_empty() {
            if self.pending.len() == CHUNK {
                self.chunks.seal(self.number, false, &self.pending, out)?;
                self.number += 1;
                self.pending.clear();
            }
            let (now, later) = bytes.split_at(bytes.len().min(CHUNK - self.pending.len()));
            self.pending.extend_from_slice(now);
            bytes = later;
        }
        Ok(())
    }

    /// Appends the last chunk.
    pub(crate) fn finish(self, out: &mut Vec<u8>) -> Result<()> {
        self.chunks.seal(self.number, true, &self.pending, out)
    }
}
