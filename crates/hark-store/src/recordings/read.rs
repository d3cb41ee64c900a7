//! Reads a recording as a stream, a range, or a seekable file.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use sha2::{Digest, Sha256};

use super::chunks::{CHUNK_LENGTH, ChunkCipher, HEADER_LENGTH, SEALED_CHUNK_LENGTH, layout};
use super::{Blob, BlobKey, Blobs, blocking};
use crate::error::{Error, Result};
use crate::recordings::Recordings;

/// Bytes of one read, a multiple of the chunk length.
const READ_LENGTH: u64 = 4 * CHUNK_LENGTH as u64;

/// A seekable input for a decoder.
pub trait ReadSeek: Read + Seek + Send + Sync {}
impl<T: Read + Seek + Send + Sync> ReadSeek for T {}

/// A stored file or object, sealed or not.
#[derive(Clone)]
pub(crate) enum StoredObject {
    Local(Arc<File>),
    #[cfg(feature = "object-store")]
    Remote(super::remote::Object),
}

/// A recording with random access.
#[derive(Clone)]
struct OpenRecording {
    stored: StoredObject,
    cipher: Option<Arc<ChunkCipher>>,
    /// Chunks of a sealed recording.
    chunk_count: u64,
    size: u64,
}

/// Reads a recording, or a range of it, in pieces.
pub struct BlobReader {
    recording: OpenRecording,
    range: Range<u64>,
}

impl Recordings<'_> {
    /// Opens a recording for reading, whole or a range (clamped to its length). A plaintext recording is refused if all data of its account is sealed.
    pub async fn read(self, blob: &Blob, range: Option<Range<u64>>) -> Result<BlobReader> {
        self.refuse_unsealed(blob).await?;
        self.open(blob, range).await
    }

    /// [`Recordings::read`] without that check.
    pub(crate) async fn open(self, blob: &Blob, range: Option<Range<u64>>) -> Result<BlobReader> {
        let (stored, length) = self.stored(&blob.key).await?;
        let recording = if blob.is_sealed {
            let sealer = self.store.sealer(blob.account).await?;
            let key = sealer.key().ok_or(Error::Sealed("no master key is configured"))?;
            let header = stored.read(0..(HEADER_LENGTH as u64).min(length)).await?;
            let (chunk_count, size) = layout(length)?;
            let cipher = Some(Arc::new(ChunkCipher::open(key, &blob.key, &header)?));
            let recording = OpenRecording { stored, cipher, chunk_count, size };
            if size == 0 {
                // An empty recording is sealed as one empty chunk, which no read would reach.
                let chunk = recording.stored.read(recording.stored_range(&(0..0))).await?;
                recording.unseal(&(0..0), chunk)?;
            }
            recording
        } else {
            OpenRecording { stored, cipher: None, chunk_count: 0, size: length }
        };
        let range = range.unwrap_or(0..recording.size);
        let end = range.end.min(recording.size);
        Ok(BlobReader { range: range.start.min(end)..end, recording })
    }
}

impl Recordings<'_> {
    /// The stored file or object of a recording, and its length.
    pub(crate) async fn stored(self, key: &BlobKey) -> Result<(StoredObject, u64)> {
        self.store.blobs().stored(key).await
    }
}

impl Blobs {
    /// The stored file or object of a recording, and its length.
    pub(crate) async fn stored(&self, key: &BlobKey) -> Result<(StoredObject, u64)> {
        match self {
            Blobs::Local(folder) => {
                let path = folder.path(key);
                blocking(move || {
                    let file = File::open(path).map_err(missing)?;
                    let length = file.metadata().map_err(|e| Error::io("can't read a recording", e))?.len();
                    Ok((StoredObject::Local(Arc::new(file)), length))
                })
                .await
            }
            #[cfg(feature = "object-store")]
            Blobs::Remote(bucket) => {
                let (object, length) = bucket.open_object(key).await?;
                Ok((StoredObject::Remote(object), length))
            }
        }
    }

    /// The length of a recording as stored; `None` when it is missing.
    pub(crate) async fn stored_size(&self, key: &BlobKey) -> Result<Option<u64>> {
        match self.stored(key).await {
            Ok((_, length)) => Ok(Some(length)),
            Err(Error::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// SHA-256 of a recording as stored, in hexadecimal.
    pub(crate) async fn stored_hash(&self, key: &BlobKey) -> Result<String> {
        let (stored, length) = self.stored(key).await?;
        let (mut hash, mut at) = (Sha256::new(), 0);
        while at < length {
            let end = (at + READ_LENGTH).min(length);
            hash.update(&stored.read(at..end).await?);
            at = end;
        }
        Ok(crate::random::hex(&hash.finalize()))
    }
}

fn missing(error: io::Error) -> Error {
    if error.kind() == io::ErrorKind::NotFound {
        Error::NotFound("recording")
    } else {
        Error::io("can't open a recording", error)
    }
}

impl StoredObject {
    pub(crate) async fn read(&self, range: Range<u64>) -> Result<Bytes> {
        match self {
            StoredObject::Local(file) => {
                let file = file.clone();
                blocking(move || read_file(&file, range)).await
            }
            #[cfg(feature = "object-store")]
            StoredObject::Remote(object) => object.read(range).await,
        }
    }

    /// [`StoredObject::read`] from a thread that may block.
    fn read_blocking(&self, range: Range<u64>, runtime: &tokio::runtime::Handle) -> Result<Bytes> {
        match self {
            StoredObject::Local(file) => read_file(file, range),
            #[cfg(feature = "object-store")]
            StoredObject::Remote(object) => runtime.block_on(object.read(range)),
        }
    }
}

fn read_file(file: &File, range: Range<u64>) -> Result<Bytes> {
    let mut out = vec![0; (range.end - range.start) as usize];
    file.read_exact_at(&mut out, range.start).map_err(|e| Error::io("can't read a recording", e))?;
    Ok(out.into())
}

impl OpenRecording {
    /// The stored range that contains this plaintext range.
    fn stored_range(&self, range: &Range<u64>) -> Range<u64> {
        if self.cipher.is_none() {
            return range.clone();
        }
        let first = range.start / CHUNK_LENGTH as u64;
        let end = range.end.div_ceil(CHUNK_LENGTH as u64).max(first + 1);
        let at = |chunk: u64| HEADER_LENGTH as u64 + chunk * SEALED_CHUNK_LENGTH as u64;
        let whole = HEADER_LENGTH as u64 + self.size + self.chunk_count * (SEALED_CHUNK_LENGTH - CHUNK_LENGTH) as u64;
        at(first)..at(end).min(whole)
    }

    /// Decrypts a plaintext range from its stored bytes.
    fn unseal(&self, range: &Range<u64>, stored: Bytes) -> Result<Bytes> {
        let Some(cipher) = &self.cipher else { return Ok(stored) };
        let first = range.start / CHUNK_LENGTH as u64;
        let mut out = Vec::with_capacity(stored.len());
        for (number, sealed) in (first..).zip(stored.chunks(SEALED_CHUNK_LENGTH)) {
            let mut chunk = sealed.to_vec();
            cipher.unseal(number, number + 1 == self.chunk_count, &mut chunk)?;
            out.extend_from_slice(&chunk);
        }
        let skip = (range.start - first * CHUNK_LENGTH as u64) as usize;
        let length = (range.end - range.start) as usize;
        let end = skip.checked_add(length).filter(|end| *end <= out.len());
        let end = end.ok_or_else(|| Error::Damaged("a sealed recording was cut off".into()))?;
        Ok(Bytes::from(out).slice(skip..end))
    }
}

/// The next read of a range: up to the next multiple of [`READ_LENGTH`], so that no chunk is decrypted twice.
fn next_read(range: &Range<u64>) -> Range<u64> {
    let boundary = (range.start / READ_LENGTH + 1) * READ_LENGTH;
    range.start..range.end.min(boundary)
}

impl BlobReader {
    /// The plaintext length of the recording.
    pub fn size(&self) -> u64 {
        self.recording.size
    }

    /// Bytes of the range that were not read yet.
    pub fn remaining(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// The next piece; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>> {
        if self.range.is_empty() {
            return Ok(None);
        }
        let next = next_read(&self.range);
        let stored = self.recording.stored.read(self.recording.stored_range(&next)).await?;
        let bytes = self.recording.unseal(&next, stored)?;
        self.range.start = next.end;
        Ok(Some(bytes))
    }

    /// Reads the rest of the range into memory; for small ranges.
    pub async fn read_all(mut self) -> Result<Vec<u8>> {
        let mut out = Vec::with_capacity(self.remaining() as usize);
        while let Some(bytes) = self.next().await? {
            out.extend_from_slice(&bytes);
        }
        Ok(out)
    }

    /// The whole recording as a seekable file, for a decoder on a thread that may block.
    pub fn into_blocking(self) -> impl ReadSeek {
        BlockingReader {
            recording: self.recording,
            runtime: tokio::runtime::Handle::current(),
            position: 0,
            buffer: Bytes::new(),
            buffer_start: 0,
        }
    }
}

/// A recording as a seekable file.
struct BlockingReader {
    recording: OpenRecording,
    runtime: tokio::runtime::Handle,
    position: u64,
    buffer: Bytes,
    buffer_start: u64,
}

impl Read for BlockingReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.position >= self.recording.size || out.is_empty() {
            return Ok(0);
        }
        let inside = self.position >= self.buffer_start && self.position < self.buffer_start + self.buffer.len() as u64;
        if !inside {
            let start = self.position / READ_LENGTH * READ_LENGTH;
            let range = start..(start + READ_LENGTH).min(self.recording.size);
            let stored = self.recording.stored_range(&range);
            let bytes = self.recording.stored.read_blocking(stored, &self.runtime);
            self.buffer = bytes.and_then(|b| self.recording.unseal(&range, b)).map_err(io::Error::other)?;
            self.buffer_start = start;
        }
        let from = (self.position - self.buffer_start) as usize;
        let length = out.len().min(self.buffer.len() - from);
        out[..length].copy_from_slice(&self.buffer[from..from + length]);
        self.position += length as u64;
        Ok(length)
    }
}

impl Seek for BlockingReader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.recording.size.checked_add_signed(by),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
        };
        self.position = position.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "seek before the start"))?;
        Ok(self.position)
    }
}
