//! Recordings in a bucket: S3 and what speaks its language, Google Cloud Storage, Azure.
//!
//! A recording is sent in parts and appears when the last is there, so it is whole or not there. Credentials come from the environment variables that each
//! service's own tools read.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};
#[cfg(any(feature = "s3", feature = "gcs", feature = "azure"))]
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{StreamExt, TryStreamExt};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, WriteMultipart};

use super::write::Stream;
use super::{BlobKey, MARKER, StoredFile};
use crate::error::{Error, Result};

/// Bytes of a part: the services take at most 10,000 parts and want at least 5 MiB each.
const PART: usize = 8 << 20;
/// Parts on their way at once; with the one that is being filled they bound the memory of an upload.
const PARTS_AT_ONCE: usize = 3;

/// A bucket, or a folder in one.
#[derive(Clone)]
pub(crate) struct Bucket {
    store: Arc<dyn ObjectStore>,
    prefix: String,
    /// The address as it was given.
    place: String,
}

impl Bucket {
    /// Opens `s3://bucket/prefix` and its kind; `memory://name` is a bucket that is gone with the process, for tests.
    pub(crate) fn open(place: &str) -> Result<Bucket> {
        let (scheme, rest) = place.split_once("://").unwrap_or((place, ""));
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let address = format!("{scheme}://{bucket}");
        let store: Arc<dyn ObjectStore> = match scheme {
            "memory" => in_memory(bucket),
            #[cfg(feature = "s3")]
            "s3" => {
                speak_tls();
                let builder = object_store::aws::AmazonS3Builder::from_env().with_retry(retry());
                Arc::new(builder.with_url(address).build().map_err(setup)?)
            }
            #[cfg(feature = "gcs")]
            "gs" => {
                speak_tls();
                let builder = object_store::gcp::GoogleCloudStorageBuilder::from_env().with_retry(retry());
                Arc::new(builder.with_url(address).build().map_err(setup)?)
            }
            #[cfg(feature = "azure")]
            "az" => {
                speak_tls();
                let builder = object_store::azure::MicrosoftAzureBuilder::from_env().with_retry(retry());
                Arc::new(builder.with_url(address).build().map_err(setup)?)
            }
            _ => {
                let _ = address;
                return Err(Error::Setup(format!("this build keeps no recordings in {scheme}://")));
            }
        };
        Ok(Bucket { store, prefix: prefix.trim_matches('/').to_owned(), place: place.to_owned() })
    }

    fn path(&self, key: &BlobKey) -> Path {
        Path::from(format!("{}/{}/{}", self.prefix, &key.as_str()[..2], key.as_str()))
    }

    /// Begins a recording with these bytes.
    pub(super) async fn create(&self, key: &BlobKey, stream: Stream, header: Vec<u8>) -> Result<Writer> {
        let upload = self.store.put_multipart(&self.path(key)).await.map_err(failed)?;
        let mut parts = WriteMultipart::new_with_chunk_size(upload, PART);
        parts.write(&header);
        Ok(Writer { parts, stream })
    }

    pub(crate) async fn remove(&self, key: &BlobKey) -> Result<()> {
        match self.store.delete(&self.path(key)).await {
            Ok(()) => Ok(()),
            // S3 says so of a whole bucket that is away, and then the recording may come back with it.
            Err(object_store::Error::NotFound { .. }) => match self.read_marker().await? {
                Some(_) => Ok(()),
                None => {
                    Err(Error::Blob(format!("the bucket of recordings {} is away: it has no {MARKER}", self.place)))
                }
            },
            Err(e) => Err(failed(e)),
        }
    }

    /// Writes a small object, reads it back and removes it.
    pub(crate) async fn probe(&self, token: &str) -> Result<()> {
        let path = Path::from(format!("{}/probe/{token}", self.prefix));
        let content = Bytes::copy_from_slice(token.as_bytes());
        self.store.put(&path, content.clone().into()).await.map_err(failed)?;
        let read = async { self.store.get(&path).await?.bytes().await }.await;
        self.store.delete(&path).await.map_err(failed)?;
        if read.map_err(failed)? == content { Ok(()) } else { Err(crate::integrity::probe::mismatch()) }
    }

    pub(super) fn place(&self) -> &str {
        &self.place
    }

    /// Recordings that were last written at `before` (microseconds since 1970) or earlier.
    pub(super) fn list(&self, before: i64) -> BoxStream<'static, Result<StoredFile>> {
        let prefix = Path::from(self.prefix.as_str());
        let objects = self.store.list(Some(&prefix)).map_err(failed);
        let recordings = objects.try_filter_map(move |object| async move {
            let key = object.location.filename().and_then(BlobKey::parse);
            let key = key.filter(|_| object.last_modified.timestamp_micros() <= before);
            Ok(key.map(|key| StoredFile { key, size: object.size, is_incoming: false }))
        });
        recordings.boxed()
    }

    fn marker(&self) -> Path {
        Path::from(format!("{}/{MARKER}", self.prefix))
    }

    pub(super) async fn read_marker(&self) -> Result<Option<Vec<u8>>> {
        match self.store.get(&self.marker()).await {
            Ok(found) => Ok(Some(found.bytes().await.map_err(failed)?.to_vec())),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(e) => Err(failed(e)),
        }
    }

    pub(super) async fn write_marker(&self, bytes: Vec<u8>) -> Result<()> {
        self.store.put(&self.marker(), bytes.into()).await.map(drop).map_err(failed)
    }

    /// A recording and its length.
    pub(crate) async fn open_object(&self, key: &BlobKey) -> Result<(Object, u64)> {
        let path = self.path(key);
        match self.store.head(&path).await {
            Ok(about) => Ok((Object { store: self.store.clone(), path }, about.size)),
            Err(object_store::Error::NotFound { .. }) => Err(Error::NotFound("recording")),
            Err(e) => Err(failed(e)),
        }
    }
}

/// The bucket of that name in this process; one without a name is nobody else's.
fn in_memory(name: &str) -> Arc<dyn ObjectStore> {
    static NAMED: Mutex<BTreeMap<String, Arc<InMemory>>> = Mutex::new(BTreeMap::new());
    if name.is_empty() {
        return Arc::new(InMemory::new());
    }
    let mut named = NAMED.lock().unwrap_or_else(|e| e.into_inner());
    named.entry(name.to_owned()).or_default().clone()
}

fn failed(error: object_store::Error) -> Error {
    Error::Blob(error.to_string())
}

#[cfg(any(feature = "s3", feature = "gcs", feature = "azure"))]
fn setup(error: object_store::Error) -> Error {
    Error::Setup(format!("can't use the bucket of recordings: {error}"))
}

/// A request is repeated for seconds, not for the client's three minutes: whoever waits is told soon that the bucket is away, and jobs have retries of their own.
#[cfg(any(feature = "s3", feature = "gcs", feature = "azure"))]
fn retry() -> object_store::RetryConfig {
    let backoff = object_store::BackoffConfig { max_backoff: Duration::from_secs(2), ..Default::default() };
    object_store::RetryConfig { backoff, max_retries: 5, retry_timeout: Duration::from_secs(10) }
}

/// The HTTP client takes the process's way to speak TLS; the whole house uses ring.
#[cfg(any(feature = "s3", feature = "gcs", feature = "azure"))]
fn speak_tls() {
    // It fails when one is there already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// A recording in a bucket.
#[derive(Clone)]
pub(crate) struct Object {
    store: Arc<dyn ObjectStore>,
    path: Path,
}

impl Object {
    pub(crate) async fn read(&self, range: Range<u64>) -> Result<Bytes> {
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        let length = range.end - range.start;
        let bytes = self.store.get_range(&self.path, range).await.map_err(failed)?;
        if bytes.len() as u64 == length { Ok(bytes) } else { Err(Error::Damaged("a recording was cut off".into())) }
    }
}

/// A recording on its way into a bucket.
pub(super) struct Writer {
    parts: WriteMultipart,
    stream: Stream,
}

impl Writer {
    pub(super) async fn write(&mut self, batch: &[Bytes]) -> Result<()> {
        for bytes in batch {
            self.parts.wait_for_capacity(PARTS_AT_ONCE).await.map_err(failed)?;
            self.parts.write(self.stream.push(bytes)?);
        }
        Ok(())
    }

    pub(super) async fn finish(mut self) -> Result<()> {
        let last = self.stream.finish()?;
        self.parts.write(&last);
        self.parts.finish().await.map_err(failed)?;
        Ok(())
    }

    pub(super) async fn abort(self) {
        if let Err(error) = self.parts.abort().await {
            tracing::warn!(%error, "upload.abort_failed");
        }
    }
}
