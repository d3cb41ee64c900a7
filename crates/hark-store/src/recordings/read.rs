//! Reading a recording: as a stream, a range, or a file that seeks.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use sha2::{Digest, Sha256};

use super::chunks::{CHUNK, Chunks, HEADER, SEALED_CHUNK, layout};
use super::{Blob, BlobKey, Blobs, blocking};
use crate::error::{Error, Result};
use crate::recordings::Recordings;

/// Bytes that are read at a time: a few chunks.
const STEP: u64 = 4 * CHUNK as u64;

/// Something a decoder can read and seek in.
pub trait ReadSeek: Read + Seek + Send + Sync {}
impl<T: Read + Seek + Send + Sync> ReadSeek for T {}

/// The bytes of a recording as they are stored.
#[derive(Clone)]
pub(crate) enum Stored {
    Local(Arc<File>),
    #[cfg(feature = "object-store")]
    Remote(super::remote::Object),
}

/// A recording that can be read anywhere.
#[derive(Clone)]
struct Open {
    stored: Stored,
    chunks: Option<Arc<Chunks>>,
    /// How many chunks a sealed one has.
    count: u64,
    size: u64,
}

/// A recording, or a range of it, piece by piece.
pub struct BlobReader {
    open: Open,
    range: Range<u64>,
}

impl Recordings<'_> {
    /// Begins to read a recording, all of it or a range (cut to what is there). One in the clear is refused where everything of its account is sealed.
    pub async fn read(self, blob: &Blob, range: Option<Range<u64>>) -> Result<BlobReader> {
        self.refuse_unsealed(blob).await?;
        self.open(blob, range).await
    }

    /// [`Recordings::read`], whether or not the recording is sealed.
    pub(crate) async fn open(self, blob: &Blob, range: Option<Range<u64>>) -> Result<BlobReader> {
        let (stored, length) = self.stored(&blob.key).await?;
        let open = if blob.is_sealed {
            let sealer = self.store.sealer(blob.account).await?;
            let key = sealer.key().ok_or(Error::Sealed("no master key is configured"))?;
            let header = stored.read(0..(HEADER as u64).min(length)).await?;
            let (count, size) = layout(length)?;
            Open { stored, chunks: Some(Arc::new(Chunks::open(key, &blob.key, &header)?)), count, size }
        } else {
            Open { stored, chunks: None, count: 0, size: length }
        };
        let range = range.unwrap_or(0..open.size);
        let end = range.end.min(open.size);
        Ok(BlobReader { range: range.start.min(end)..end, open })
    }
}

impl Recordings<'_> {
    /// A recording as it is stored, and how long that is.
    pub(crate) async fn stored(self, key: &BlobKey) -> Result<(Stored, u64)> {
        self.store.blobs().stored(key).await
    }
}

impl Blobs {
    /// A recording as it is stored, and how long that is.
    pub(crate) async fn stored(&self, key: &BlobKey) -> Result<(Stored, u64)> {
        match self {
            Blobs::Local(folder) => {
                let path = folder.path(key);
                blocking(move || {
                    let file = File::open(path).map_err(missing)?;
                    let length = file.metadata().map_err(|e| Error::io("can't read a recording", e))?.len();
                    Ok((Stored::Local(Arc::new(file)), length))
                })
                .await
            }
            #[cfg(feature = "object-store")]
            Blobs::Remote(bucket) => {
                let (object, length) = bucket.open_object(key).await?;
                Ok((Stored::Remote(object), length))
            }
        }
    }

    /// How long a recording is as it is stored; `None` when it is not there.
    pub(crate) async fn stored_size(&self, key: &BlobKey) -> Result<Option<u64>> {
        match self.stored(key).await {
            Ok((_, length)) => Ok(Some(length)),
            Err(Error::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// SHA-256 of a recording as it is stored, in hexadecimal.
    pub(crate) async fn stored_hash(&self, key: &BlobKey) -> Result<String> {
        let (stored, length) = self.stored(key).await?;
        let (mut hash, mut at) = (Sha256::new(), 0);
        while at < length {
            let end = (at + STEP).min(length);
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

impl Stored {
    pub(crate) async fn read(&self, range: Range<u64>) -> Result<Bytes> {
        match self {
            Stored::Local(file) => {
                let file = file.clone();
                blocking(move || read_file(&file, range)).await
            }
            #[cfg(feature = "object-store")]
            Stored::Remote(object) => object.read(range).await,
        }
    }

    /// [`Stored::read`] from a thread that may block.
    fn read_blocking(&self, range: Range<u64>, runtime: &tokio::runtime::Handle) -> Result<Bytes> {
        match self {
            Stored::Local(file) => read_file(file, range),
            #[cfg(feature = "object-store")]
            Stored::Remote(object) => runtime.block_on(object.read(range)),
        }
    }
}

fn read_file(file: &File, range: Range<u64>) -> Result<Bytes> {
    let mut out = vec![0; (range.end - range.start) as usize];
    file.read_exact_at(&mut out, range.start).map_err(|e| Error::io("can't read a recording", e))?;
    Ok(out.into())
}

impl Open {
    /// Where the bytes that hold this range are stored.
    fn stored_range(&self, range: &Range<u64>) -> Range<u64> {
        if self.chunks.is_none() {
            return range.clone();
        }
        let first = range.start / CHUNK as u64;
        let end = range.end.div_ceil(CHUNK as u64).max(first + 1);
        let at = |chunk: u64| HEADER as u64 + chunk * SEALED_CHUNK as u64;
        let whole = HEADER as u64 + self.size + self.count * (SEALED_CHUNK - CHUNK) as u64;
        at(first)..at(end).min(whole)
    }

    /// The bytes of the range out of what is stored.
    fn unseal(&self, range: &Range<u64>, stored: Bytes) -> Result<Bytes> {
        let Some(chunks) = &self.chunks else { return Ok(stored) };
        let first = range.start / CHUNK as u64;
        let mut out = Vec::with_capacity(stored.len());
        for (number, sealed) in (first..).zip(stored.chunks(SEALED_CHUNK)) {
            let mut chunk = sealed.to_vec();
            chunks.unseal(number, number + 1 == self.count, &mut chunk)?;
            out.extend_from_slice(&chunk);
        }
        let skip = (range.start - first * CHUNK as u64) as usize;
        let length = (range.end - range.start) as usize;
        let end = skip.checked_add(length).filter(|end| *end <= out.len());
        let end = end.ok_or_else(|| Error::Damaged("a sealed recording was cut off".into()))?;
        Ok(Bytes::from(out).slice(skip..end))
    }
}

/// The next step of a range: up to the next border, so that no chunk is opened twice.
fn step(range: &Range<u64>) -> Range<u64> {
    let border = (range.start / STEP + 1) * STEP;
    range.start..range.end.min(border)
}

impl BlobReader {
    /// The length of the whole recording.
    pub fn size(&self) -> u64 {
        self.open.size
    }

    /// What is still to come.
    pub fn remaining(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// The next piece; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>> {
        // An empty sealed recording has one chunk, which must be right too.
        if self.range.is_empty() {
            return Ok(None);
        }
        let step = step(&self.range);
        let stored = self.open.stored.read(self.open.stored_range(&step)).await?;
        let bytes = self.open.unseal(&step, stored)?;
        self.range.start = step.end;
        Ok(Some(bytes))
    }

    /// The rest of the range in one piece; for small ones.
    pub async fn read_all(mut self) -> Result<Vec<u8>> {
        let mut out = Vec::with_capacity(self.remaining() as usize);
        while let Some(piece) = self.next().await? {
            out.extend_from_slice(&piece);
        }
        Ok(out)
    }

    /// The whole recording for a decoder on a thread that may block.
    pub fn into_blocking(self) -> impl ReadSeek {
        Blocking {
            open: self.open,
            runtime: tokio::runtime::Handle::current(),
            position: 0,
            piece: Bytes::new(),
            piece_start: 0,
        }
    }
}

/// A recording as a file that seeks.
struct Blocking {
    open: Open,
    runtime: tokio::runtime::Handle,
    position: u64,
    piece: Bytes,
    piece_start: u64,
}

impl Read for Blocking {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.position >= self.open.size || out.is_empty() {
            return Ok(0);
        }
        let inside = self.position >= self.piece_start && self.position < self.piece_start + self.piece.len() as u64;
        if !inside {
            let start = self.position / STEP * STEP;
            let range = start..(start + STEP).min(self.open.size);
            let stored = self.open.stored_range(&range);
            let bytes = self.open.stored.read_blocking(stored, &self.runtime);
            self.piece = bytes.and_then(|b| self.open.unseal(&range, b)).map_err(io::Error::other)?;
            self.piece_start = start;
        }
        let from = (self.position - self.piece_start) as usize;
        let length = out.len().min(self.piece.len() - from);
        out[..length].copy_from_slice(&self.piece[from..from + length]);
        self.position += length as u64;
        Ok(length)
    }
}

impl Seek for Blocking {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.open.size.checked_add_signed(by),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
        };
        self.position = position.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "seek before the start"))?;
        Ok(self.position)
    }
}
