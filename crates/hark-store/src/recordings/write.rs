//! Uploads: recordings that arrive as a stream.

use bytes::Bytes;
use tokio::task::JoinHandle;

use super::chunks::{Chunks, Sealing};
use super::hash::Hashing;
use super::local::Incoming;
use super::{Blob, BlobKey, Blobs, blocking};
use crate::Store;
use crate::db::args;
use crate::error::{Error, Result};
use crate::ids::AccountId;
use crate::recordings::Recordings;

/// Bytes that are collected before they are written, so that small pieces from a socket don't cost a system call and a thread switch each.
const BATCH: usize = 1 << 20;

/// A recording that comes in pieces. Dropped before [`Upload::finish`], it leaves nothing behind.
pub struct Upload {
    store: Store,
    account: AccountId,
    key: BlobKey,
    size: u64,
    is_sealed: bool,
    batch: Vec<Bytes>,
    batched: usize,
    /// None when nobody asks for the recording's hash.
    hashing: Option<Hashing>,
    /// `None` only while an error or the end has taken it away.
    state: Option<State>,
    finished: bool,
}

/// The next batch is collected while this one is written.
enum State {
    Idle(Box<Writer>),
    Writing(JoinHandle<Result<Box<Writer>>>),
    #[cfg(feature = "object-store")]
    Remote(Box<super::remote::Writer>),
}

/// Seals and writes; lives on blocking threads.
struct Writer {
    file: Incoming,
    stream: Stream,
}

/// What happens to bytes before they are written.
pub(super) struct Stream {
    sealing: Option<Sealing>,
    buffer: Vec<u8>,
}

impl Stream {
    fn new(sealing: Option<Sealing>) -> Stream {
        Stream { sealing, buffer: Vec::new() }
    }

    /// What to write for these bytes.
    pub(super) fn push<'a>(&'a mut self, bytes: &'a [u8]) -> Result<&'a [u8]> {
        let Some(sealing) = &mut self.sealing else { return Ok(bytes) };
        self.buffer.clear();
        sealing.push(bytes, &mut self.buffer)?;
        Ok(&self.buffer)
    }

    /// What to write last.
    pub(super) fn finish(self) -> Result<Vec<u8>> {
        let mut last = Vec::new();
        if let Some(sealing) = self.sealing {
            sealing.finish(&mut last)?;
        }
        Ok(last)
    }
}

impl Writer {
    fn write(&mut self, batch: &[Bytes]) -> Result<()> {
        for bytes in batch {
            self.file.write(self.stream.push(bytes)?)?;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<()> {
        let last = self.stream.finish()?;
        self.file.write(&last)?;
        self.file.finish()
    }
}

impl Recordings<'_> {
    /// Begins a recording of an account; it is sealed when the account's data is.
    pub async fn upload(self, account: AccountId) -> Result<Upload> {
        let key = BlobKey::draw()?;
        let sealer = self.store.sealer(account).await?;
        self.store.db()
            .execute(
                "INSERT INTO blobs (key, account_id, state, size, is_sealed, created_at) VALUES ($1, $2, 'uploading', 0, $3, $4)",
                args![key.as_str(), account, sealer.is_sealing(), self.store.now()],
            )
            .await?;
        let chunks = sealer.key().map(|data_key| Chunks::create(data_key, &key)).transpose()?;
        let header = chunks.as_ref().map(Chunks::header).unwrap_or_default();
        let stream = Stream::new(chunks.map(Sealing::new));
        let state = match self.store.blobs() {
            Blobs::Local(folder) => {
                let (folder, key) = (folder.clone(), key.clone());
                let created = blocking(move || {
                    let mut file = folder.create(&key)?;
                    file.write(&header)?;
                    Ok(file)
                });
                State::Idle(Box::new(Writer { file: created.await?, stream }))
            }
            #[cfg(feature = "object-store")]
            Blobs::Remote(bucket) => State::Remote(Box::new(bucket.create(&key, stream, header).await?)),
        };
        Ok(Upload {
            store: self.store.clone(),
            account,
            key,
            size: 0,
            is_sealed: sealer.is_sealing(),
            batch: Vec::new(),
            batched: 0,
            hashing: Some(Hashing::new()),
            state: Some(state),
            finished: false,
        })
    }
}

impl Blobs {
    /// Stores a file under a name, as it is.
    pub(crate) async fn put_file(&self, key: &BlobKey, from: &std::path::Path) -> Result<()> {
        use std::io::Read;
        let failed = |e| Error::io("can't read a recording of the backup", e);
        let mut source = std::fs::File::open(from).map_err(failed)?;
        let stream = Stream::new(None);
        let mut state = match self {
            Blobs::Local(folder) => State::Idle(Box::new(Writer { file: folder.create(key)?, stream })),
            #[cfg(feature = "object-store")]
            Blobs::Remote(bucket) => State::Remote(Box::new(bucket.create(key, stream, Vec::new()).await?)),
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
    /// The name of the recording.
    pub fn key(&self) -> &BlobKey {
        &self.key
    }

    /// Bytes so far.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Whether it is sealed at rest. One that is not gets a stored checksum, unless its hash is left out.
    pub fn is_sealed(&self) -> bool {
        self.is_sealed
    }

    /// Does without the recording's hash, a third of the work of an upload.
    pub fn without_hash(mut self) -> Self {
        self.hashing = None;
        self
    }

    /// Adds a piece. Waits while the disk is behind, so that memory stays bounded.
    pub async fn write(&mut self, bytes: Bytes) -> Result<()> {
        self.size += bytes.len() as u64;
        self.batched += bytes.len();
        self.batch.push(bytes);
        if self.batched >= BATCH { self.flush().await } else { Ok(()) }
    }

    async fn flush(&mut self) -> Result<()> {
        let batch = std::mem::take(&mut self.batch);
        self.batched = 0;
        if let Some(hashing) = &mut self.hashing {
            hashing.push(&batch).await?;
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

    /// Waits for what is being written.
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

    /// Makes the recording durable. Until a job is accepted with it, a sweep may remove it.
    pub async fn finish(mut self) -> Result<Blob> {
        self.flush().await?;
        match self.idle().await? {
            State::Idle(writer) => super::blocking(move || writer.finish()).await?,
            #[cfg(feature = "object-store")]
            State::Remote(writer) => writer.finish().await?,
            State::Writing(_) => return Err(Error::Blob("the upload is still being written".into())),
        }
        let sha256 = match self.hashing.take() {
            Some(hashing) => Some(hashing.finish().await?),
            None => None,
        };
        self.finished = true;
        Ok(Blob { key: self.key.clone(), account: self.account, size: self.size, is_sealed: self.is_sealed, sha256 })
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        // Its file goes with the writer; its row, and a part of it in a bucket, need the runtime. Without one the sweep finds them.
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
