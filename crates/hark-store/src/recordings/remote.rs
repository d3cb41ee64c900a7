//! Recordings in a bucket: S3 and compatible services, Google Cloud Storage, Azure.
//!
//! A recording is a multipart upload, which becomes visible when it is completed. Credentials come from the environment variables that each
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

use super::write::BlobEncoder;
use super::{BlobKey, MARKER, StoredFile};
use crate::error::{Error, Result};

/// Bytes of a part: the services accept at most 10,000 parts of at least 5 MiB each.
const PART: usize = 8 << 20;
/// Concurrent part uploads; with the part being filled they bound the memory of an upload.
const PARTS_AT_ONCE: usize = 3;

/// A bucket, or a folder in one.
#[derive(Clone)]
pub(crate) struct Bucket {
    store: Arc<dyn ObjectStore>,
    prefix: String,
    /// The address as it was given.
    location: String,
}

impl Bucket {
    /// Opens `s3://bucket/prefix`, `gs://…` or `az://…`; `memory://name` is a bucket in the memory of the process, for tests.
    pub(crate) fn open(location: &str) -> Result<Bucket> {
        let (scheme, rest) = location.split_once("://").unwrap_or((location, ""));
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let address = format!("{scheme}://{bucket}");
        let store: Arc<dyn ObjectStore> = match scheme {
            "memory" => in_memory(bucket),
            #[cfg(feature = "s3")]
            "s3" => {
                install_tls_provider();
                let builder = object_store::aws::AmazonS3Builder::from_env().with_retry(retry());
                Arc::new(builder.with_url(address).build().map_err(setup)?)
            }
            #[cfg(feature = "gcs")]
            "gs" => {
                install_tls_provider();
                let builder = object_store::gcp::GoogleCloudStorageBuilder::from_env().with_retry(retry());
                Arc::new(builder.with_url(address).build().map_err(setup)?)
            }
            #[cfg(feature = "azure")]
            "az" => {
                install_tls_provider();
                let builder = object_store::azure::MicrosoftAzureBuilder::from_env().with_retry(retry());
                Arc::new(builder.with_url(address).build().map_err(setup)?)
            }
            _ => {
                let _ = address;
                return Err(Error::Setup(format!("this build keeps no recordings in {scheme}://")));
            }
        };
        Ok(Bucket { store, prefix: prefix.trim_matches('/').to_owned(), location: location.to_owned() })
    }

    fn path(&self, key: &BlobKey) -> Path {
        Path::from(format!("{}/{}/{}", self.prefix, &key.as_str()[..2], key.as_str()))
    }

    /// Starts the multipart upload of a recording that begins with `header`.
    pub(super) async fn create(&self, key: &BlobKey, encoder: BlobEncoder, header: Vec<u8>) -> Result<Writer> {
        let upload = self.store.put_multipart(&self.path(key)).await.map_err(failed)?;
        let mut parts = WriteMultipart::new_with_chunk_size(upload, PART);
        parts.write(&header);
        Ok(Writer { parts, encoder })
    }

    pub(crate) async fn remove(&self, key: &BlobKey) -> Result<()> {
        match self.store.delete(&self.path(key)).await {
            Ok(()) => Ok(()),
            // S3 answers "not found" for a missing bucket too; then the recording may still exist.
            Err(object_store::Error::NotFound { .. }) => match self.read_marker().await? {
                Some(_) => Ok(()),
                None => {
                    let location = &self.location;
                    Err(Error::Blob(format!("{location} is no bucket of recordings: it is missing or has no {MARKER}")))
                }
            },
            Err(e) => Err(failed(e)),
        }
    }

    /// Removes the objects of readiness probes that were killed before they could remove them: those last modified at `before` (microseconds since 1970)
    /// or earlier.
    pub(super) async fn remove_stale_probes(&self, before: i64) -> Result<()> {
        let mut probes = self.store.list(Some(&Path::from(format!("{}/probe", self.prefix))));
        while let Some(probe) = probes.try_next().await.map_err(failed)? {
            if probe.last_modified.timestamp_micros() <= before {
                match self.store.delete(&probe.location).await {
                    Ok(()) | Err(object_store::Error::NotFound { .. }) => {}
                    Err(e) => return Err(failed(e)),
                }
            }
        }
        Ok(())
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

    pub(super) fn location(&self) -> &str {
        &self.location
    }

    /// Recordings that were last modified at `before` (microseconds since 1970) or earlier.
    pub(super) fn list(&self, before: i64) -> BoxStream<'static, Result<StoredFile>> {
        let prefix = Path::from(self.prefix.as_str());
        let objects = self.store.list(Some(&prefix)).map_err(failed);
        let recordings = objects.try_filter_map(move |object| async move {
            let key = object.location.filename().and_then(BlobKey::parse);
            let key = key.filter(|_| object.last_modified.timestamp_micros() <= before);
            Ok(key.map(|key| StoredFile { key, size: object.size, is_partial: false }))
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

/// The in-memory bucket of that name in this process; one without a name is not shared.
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

/// Retries for ten seconds instead of the client's three minutes: requests fail soon when the bucket is unreachable, and jobs have their own retries.
#[cfg(any(feature = "s3", feature = "gcs", feature = "azure"))]
fn retry() -> object_store::RetryConfig {
    let backoff = object_store::BackoffConfig { max_backoff: Duration::from_secs(2), ..Default::default() };
    object_store::RetryConfig { backoff, max_retries: 5, retry_timeout: Duration::from_secs(10) }
}

/// Installs the TLS provider of the process, which the HTTP client uses; the workspace uses ring.
#[cfg(any(feature = "s3", feature = "gcs", feature = "azure"))]
fn install_tls_provider() {
    // It fails when one is already installed, which is fine.
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

/// The multipart upload of a recording.
pub(super) struct Writer {
    parts: WriteMultipart,
    encoder: BlobEncoder,
}

impl Writer {
    pub(super) async fn write(&mut self, batch: &[Bytes]) -> Result<()> {
        for bytes in batch {
            self.parts.wait_for_capacity(PARTS_AT_ONCE).await.map_err(failed)?;
            self.parts.write(self.encoder.push(bytes)?);
        }
        Ok(())
    }

    pub(super) async fn finish(mut self) -> Result<()> {
        let last = self.encoder.finish()?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn probes_that_were_killed_are_removed_and_nothing_else() {
        let bucket = Bucket::open("memory:///recordings").unwrap();
        for name in ["recordings/probe/abc", "recordings/ab/abababababababababababababababab"] {
            bucket.store.put(&Path::from(name), Bytes::from_static(b"abc").into()).await.unwrap();
        }
        let names = async || bucket.store.list(None).map_ok(|object| object.location.to_string()).try_collect().await;
        bucket.remove_stale_probes(0).await.unwrap();
        let left: Vec<String> = names().await.unwrap();
        assert_eq!(left.len(), 2, "a young one may be in use: {left:?}");
        bucket.remove_stale_probes(i64::MAX).await.unwrap();
        let left: Vec<String> = names().await.unwrap();
        assert_eq!(left, ["recordings/ab/abababababababababababababababab"]);
    }
}
