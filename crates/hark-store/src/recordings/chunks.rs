//! Sealed recordings: AEAD chunks of 64 KiB.
//!
//! File = `HARKBLB1`, a random salt of 19 bytes, then chunks of 65,536 bytes with a tag of 16 each; the last may be shorter. The nonce of a chunk is the salt,
//! its number and whether it is the last (the STREAM construction), so reordered, missing or truncated chunks fail to decrypt. The key of the
//! recording is the associated data, so a file swapped for another fails too. Each chunk decrypts on its own, so reading a range decrypts only its chunks.

use std::sync::Arc;

use chacha20poly1305::aead::AeadInOut;
use chacha20poly1305::{XChaCha20Poly1305, XNonce};

use super::BlobKey;
use crate::error::{Error, Result};
use crate::random;
use crate::sealing::DataKey;

/// Plaintext bytes of a chunk.
pub(crate) const CHUNK_LENGTH: usize = 64 * 1024;
const TAG_LENGTH: usize = 16;
/// Bytes of a full chunk in the file.
pub(crate) const SEALED_CHUNK_LENGTH: usize = CHUNK_LENGTH + TAG_LENGTH;
const MAGIC: &[u8; 8] = b"HARKBLB1";
const SALT_LENGTH: usize = 19;
/// Bytes of the file before its first chunk.
pub(crate) const HEADER_LENGTH: usize = MAGIC.len() + SALT_LENGTH;

/// Encrypts and decrypts the chunks of one recording.
pub(crate) struct ChunkCipher {
    cipher: XChaCha20Poly1305,
    salt: [u8; SALT_LENGTH],
    name: String,
}

impl ChunkCipher {
    /// With a new salt, for a new recording.
    pub(crate) fn create(key: &DataKey, name: &BlobKey) -> Result<ChunkCipher> {
        Ok(ChunkCipher { cipher: key.cipher(), salt: random::bytes()?, name: name.as_str().to_owned() })
    }

    /// With the salt from the header of a stored recording.
    pub(crate) fn open(key: &DataKey, name: &BlobKey, header: &[u8]) -> Result<ChunkCipher> {
        let damaged = || Error::Damaged("a sealed recording does not begin as one".into());
        let (magic, salt) = header.split_at_checked(MAGIC.len()).ok_or_else(damaged)?;
        let salt = salt.try_into().map_err(|_| damaged())?;
        if magic != MAGIC {
            return Err(damaged());
        }
        Ok(ChunkCipher { cipher: key.cipher(), salt, name: name.as_str().to_owned() })
    }

    pub(crate) fn header(&self) -> Vec<u8> {
        [&MAGIC[..], &self.salt].concat()
    }

    fn nonce(&self, number: u64, last: bool) -> Result<XNonce> {
        // 2^32 chunks are 256 TiB.
        let number = u32::try_from(number).map_err(|_| Error::Blob("a recording is too long to seal".into()))?;
        let mut nonce = [0; 24];
        nonce[..SALT_LENGTH].copy_from_slice(&self.salt);
        nonce[SALT_LENGTH..SALT_LENGTH + 4].copy_from_slice(&number.to_be_bytes());
        nonce[SALT_LENGTH + 4] = last.into();
        Ok(XNonce::from(nonce))
    }

    /// Encrypts a chunk and appends it with its tag to `out`.
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

    /// Decrypts a chunk in place.
    pub(crate) fn unseal(&self, number: u64, last: bool, chunk: &mut Vec<u8>) -> Result<()> {
        let damaged = || Error::Damaged("a sealed recording was changed or cut off".into());
        let length = chunk.len().checked_sub(TAG_LENGTH).ok_or_else(damaged)?;
        let tag: [u8; TAG_LENGTH] = chunk[length..].try_into().map_err(|_| damaged())?;
        chunk.truncate(length);
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

/// The number of chunks and the plaintext length of a sealed file of this length.
pub(crate) fn layout(file: u64) -> Result<(u64, u64)> {
    let damaged = || Error::Damaged("a sealed recording was cut off".into());
    let body = file.checked_sub(HEADER_LENGTH as u64).ok_or_else(damaged)?;
    let chunks = body.div_ceil(SEALED_CHUNK_LENGTH as u64);
    let last = body - chunks.checked_sub(1).ok_or_else(damaged)? * SEALED_CHUNK_LENGTH as u64;
    // The last chunk holds a byte at least, except in an empty recording. With less, no read would reach it and its tag would
    // not be verified.
    if last < TAG_LENGTH as u64 + u64::from(chunks > 1) {
        return Err(damaged());
    }
    Ok((chunks, body - chunks * TAG_LENGTH as u64))
}

/// The length of the sealed file for a plaintext of this length.
pub(crate) fn sealed_size(size: u64) -> u64 {
    let chunks = size.div_ceil(CHUNK_LENGTH as u64).max(1);
    HEADER_LENGTH as u64 + size + chunks * TAG_LENGTH as u64
}

/// Seals a recording from a stream of bytes.
pub(crate) struct ChunkSealer {
    cipher: Arc<ChunkCipher>,
    number: u64,
    /// The current chunk. A full one is sealed only when more bytes follow, since the last chunk has another nonce.
    pending: Vec<u8>,
}

impl ChunkSealer {
    pub(crate) fn new(cipher: ChunkCipher) -> ChunkSealer {
        ChunkSealer { cipher: Arc::new(cipher), number: 0, pending: Vec::with_capacity(CHUNK_LENGTH) }
    }

    /// Adds bytes; appends the chunks that are complete to `out`.
    pub(crate) fn push(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) -> Result<()> {
        while !bytes.is_empty() {
            if self.pending.len() == CHUNK_LENGTH {
                self.cipher.seal(self.number, false, &self.pending, out)?;
                self.number += 1;
                self.pending.clear();
            }
            let (now, later) = bytes.split_at(bytes.len().min(CHUNK_LENGTH - self.pending.len()));
            self.pending.extend_from_slice(now);
            bytes = later;
        }
        Ok(())
    }

    /// Appends the last chunk to `out`.
    pub(crate) fn finish(self, out: &mut Vec<u8>) -> Result<()> {
        self.cipher.seal(self.number, true, &self.pending, out)
    }
}
