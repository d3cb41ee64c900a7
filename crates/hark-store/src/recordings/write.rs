//! Uploads of recordings as a stream.

use bytes::Bytes;
use tokio::task::JoinHandle;

use super::chunks::{ChunkCipher, ChunkSealer};
use super::hash::BackgroundHasher;
use super::local::SpoolFile;
use super::{Blob, BlobKey, Blobs, blocking};
use crate::Store;
use crate::db::args;
use crate::error::{Error, Result};
use crate::ids::{AccountId, UploadId};
use crate::recordings::Recordings;

/// Bytes that are buffered before a write, so that small reads from a socket don't cost a system call and a thread switch each.
const BATCH: usize = 1 << 20;

/// An upload in progress. If it is dropped before [`Upload::finish`], it is deleted.
pub struct Upload {
    store: Store,
    account: AccountId,
    key: BlobKey,
    size: u64,
    is_sealed: bool,
    batch: Vec<Bytes>,
    batched: usize,
    /// `None` without hash.
    hasher: Option<BackgroundHasher>,
    /// `None` after an error, and while `idle` waits.
    state: Option<State>,
    finished: bool,
    /// The upload in parts whose pieces are written.
    joined_from: Option<UploadId>,
}

/// The next batch is buffered while the last one is written.
enum State {
    Idle(Box<Writer>),
    Writing(JoinHandle<Result<Box<Writer>>>),
    #[cfg(feature = "object-store")]
    Remote(Box<super::remote::Writer>),
}

/// Encodes and writes a local file; runs on blocking threads.
struct Writer {
    file: SpoolFile,
    encoder: BlobEncoder,
}

/// Encodes a recording as stored: sealed in chunks, or unchanged.
pub(super) struct BlobEncoder {
    sealer: Option<ChunkSealer>,
    buffer: Vec<u8>,
}

impl BlobEncoder {
    fn new(sealer: Option<ChunkSealer>) -> BlobEncoder {
        BlobEncoder { sealer, buffer: Vec::new() }
    }

    /// The bytes to write for these.
    pub(super) fn push<'a>(&'a mut self, bytes: &'a [u8]) -> Result<&'a [u8]> {
        let Some(sealer) = &mut self.sealer else { return Ok(bytes) };
        self.buffer.clear();
        sealer.push(bytes, &mut self.buffer)?;
        Ok(&self.buffer)
    }

    /// The bytes to write at the end.
    pub(super) fn finish(self) -> Result<Vec<u8>> {
        let mut last = Vec::new();
        if let Some(sealer) = self.sealer {
            sealer.finish(&mut last)?;
        }
        Ok(last)
    }
}

impl Writer {
    fn write(&mut self, batch: &[Bytes]) -> Result<()> {
        for bytes in batch {
            self.file.write(self.encoder.push(bytes)?)?;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<()> {
        let last = self.encoder.finish()?;
        self.file.write(&last)?;
        self.file.finish()
    }
}

impl Recordings<'_> {
    /// Begins an upload for an account; it is sealed if the account has a data key.
    pub async fn upload(self, account: AccountId) -> Result<Upload> {
        let key = BlobKey::generate()?;
        let sealer = self.store.sealer(account).await?;
        self.store.db()
            .execute(
                "INSERT INTO blobs (key, account_id, state, size, is_sealed, created_at) VALUES ($1, $2, 'uploading', 0, $3, $4)",
                args![key.as_str(), account, sealer.is_sealing(), self.store.now()],
            )
            .await?;
        let cipher = sealer.key().map(|data_key| ChunkCipher::create(data_key, &key)).transpose()?;
        let header = cipher.as_ref().map(ChunkCipher::header).unwrap_or_default();
        let encoder = BlobEncoder::new(cipher.map(ChunkSealer::new));
        let state = match self.store.blobs() {
            Blobs::Local(folder) => {
                let (folder, key) = (folder.clone(), key.clone());
                let created = blocking(move || {
                    let mut file = folder.create(&key)?;
                    file.write(&header)?;
                    Ok(file)
                });
                State::Idle(Box::new(Writer { file: created.await?, encoder }))
            }
            #[cfg(feature = "object-store")]
            Blobs::Remote(bucket) => State::Remote(Box::new(bucket.create(&key, encoder, header).await?)),
        };
        Ok(Upload {
            store: self.store.clone(),
            account,
            key,
            size: 0,
            is_sealed: sealer.is_sealing(),
            batch: Vec::new(),
            batched: 0,
            hasher: Some(BackgroundHasher::new()),
            state: Some(state),
            finished: false,
            joined_from: None,
        })
    }
}

impl Blobs {
    /// Stores a file unchanged under a key.
    pub(crate) async fn put_file(&self, key: &BlobKey, from: &std::path::Path) -> Result<()> {
        use std::io::Read;
        let failed = |e| Error::io("can't read a recording of the backup", e);
        let mut source = std::fs::File::open(from).map_err(failed)?;
        let encoder = BlobEncoder::new(None);
        let mut state = match self {
            Blobs::Local(folder) => State::Idle(Box::new(Writer { file: folder.create(key)?, encoder })),
            #[cfg(feature = "object-store")]
            Blobs::Remote(bucket) => State::Remote(Box::new(bucket.create(key, encoder, Vec::new()).await?)),
        };
        loop {
            let (read, block) = super::blocking(move || {
                let mut block = vec![0; BATCH];
                let count = source.read(&mut block).map_err(failed)?;
                block.truncate(count);
                Ok((source, block))
            })
            .await?;
            source = read;
            let end = block.is_empty();
            state = match state {
                State::Idle(mut writer) => {
                    let writer = super::blocking(move || {
                        if end {
                            return writer.finish().map(|()| None);
                        }
                        writer.write(&[block.into()])?;
                        Ok(Some(writer))
                    });
                    match writer.await? {
                        Some(writer) => State::Idle(writer),
                        None => return Ok(()),
                    }
                }
                #[cfg(feature = "object-store")]
                State::Remote(mut writer) => {
                    if end {
                        return writer.finish().await;
                    }
                    writer.write(&[block.into()]).await?;
                    State::Remote(writer)
                }
                State::Writing(_) => return Err(Error::Blob("the recording is still being written".into())),
            };
        }
    }
}

impl Upload {
    /// The key of the recording.
    pub fn key(&self) -> &BlobKey {
        &self.key
    }

    /// Bytes received so far.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Whether it is sealed at rest. A plaintext recording gets a stored checksum, unless without hash.
    pub fn is_sealed(&self) -> bool {
        self.is_sealed
    }

    /// Notes the upload in parts whose pieces are written.
    pub(crate) fn joined_from(mut self, upload: UploadId) -> Self {
        self.joined_from = Some(upload);
        self
    }

    /// Skips hashing, a third of the work of an upload.
    pub fn without_hash(mut self) -> Self {
        self.hasher = None;
        self
    }

    /// Adds bytes. Waits while the disk is behind, so that memory stays bounded.
    pub async fn write(&mut self, bytes: Bytes) -> Result<()> {
        self.size += bytes.len() as u64;
        self.batched += bytes.len();
        self.batch.push(bytes);
        if self.batched >= BATCH { self.flush().await } else { Ok(()) }
    }

    async fn flush(&mut self) -> Result<()> {
        let batch = std::mem::take(&mut self.batch);
        self.batched = 0;
        if let Some(hasher) = &mut self.hasher {
            hasher.push(&batch).await?;
        }
        let state = match self.idle().await? {
            State::Idle(mut writer) => State::Writing(tokio::task::spawn_blocking(move || {
                writer.write(&batch)?;
                Ok(writer)
            })),
            #[cfg(feature = "object-store")]
            State::Remote(mut writer) => {
                writer.write(&batch).await?;
                State::Remote(writer)
            }
            writing => writing,
        };
        self.state = Some(state);
        Ok(())
    }

    /// Waits for the write in progress.
    async fn idle(&mut self) -> Result<State> {
        match self.state.take() {
            Some(State::Writing(handle)) => match handle.await {
                Ok(writer) => writer.map(State::Idle),
                Err(e) => Err(Error::Blob(format!("the upload was stopped: {e}"))),
            },
            Some(state) => Ok(state),
            None => Err(Error::Blob("the upload failed before".into())),
        }
    }

    /// Makes the recording durable. Until a job is accepted with it, the sweep may remove it as abandoned.
    pub async fn finish(mut self) -> Result<Blob> {
        self.flush().await?;
        match self.idle().await? {
            State::Idle(writer) => super::blocking(move || writer.finish()).await?,
            #[cfg(feature = "object-store")]
            State::Remote(writer) => writer.finish().await?,
            State::Writing(_) => return Err(Error::Blob("the upload is still being written".into())),
        }
        let sha256 = match self.hasher.take() {
            Some(hasher) => Some(hasher.finish().await?),
            None => None,
        };
        self.finished = true;
        Ok(Blob {
            key: self.key.clone(),
            account: self.account,
            size: self.size,
            is_sealed: self.is_sealed,
            sha256,
            joined_from: self.joined_from,
        })
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        // Dropping the writer removes the spool file. Deleting the row and aborting a multipart upload need the runtime; without one they are left to the sweep.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (store, key, state) = (self.store.clone(), self.key.clone(), self.state.take());
        runtime.spawn(async move {
            match state {
                Some(State::Writing(handle)) => drop(handle.await),
                #[cfg(feature = "object-store")]
                Some(State::Remote(writer)) => writer.abort().await,
                other => drop(other),
            }
            if let Err(error) = store.recordings().discard(&key).await {
                tracing::warn!(%error, %key, "upload.discard_failed");
            }
        });
    }
}
