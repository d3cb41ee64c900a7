//! Recordings between the store and whoever reads them.

use hark_media::Source;
use hark_store::{Blob, BlobSource, Store};

use crate::app::App;
use crate::error::Failure;
use crate::probe;

/// The recording as a decoder reads it.
pub(crate) async fn open(app: &App, blob: &Blob) -> hark_store::Result<Source> {
    Ok(match app.store.source(blob).await? {
        BlobSource::Path(path) => Source::Path(path),
        BlobSource::Reader(reader) => Source::Seekable(Box::new(reader)),
    })
}

/// Seconds of audio in a recording.
pub(crate) async fn duration(app: &App, blob: &Blob) -> Result<f64, Failure> {
    let source = open(app, blob).await?;
    match tokio::task::spawn_blocking(move || probe::duration(source)).await {
        Ok(probed) => probed,
        Err(error) => {
            tracing::error!(%error, "the look at a recording panicked");
            Err(hark_api::ErrorKind::Internal.into())
        }
    }
}

/// A recording that is whole but belongs to no job yet: dropped, it goes.
pub(crate) struct Unclaimed {
    store: Store,
    pub(crate) blob: Blob,
    is_claimed: bool,
}

impl Unclaimed {
    pub(crate) fn new(store: &Store, blob: Blob) -> Self {
        Unclaimed { store: store.clone(), blob, is_claimed: false }
    }

    /// Somebody else sees to it from now on.
    pub(crate) fn claim(mut self) -> Blob {
        self.is_claimed = true;
        self.blob.clone()
    }
}

impl Drop for Unclaimed {
    fn drop(&mut self) {
        if self.is_claimed {
            return;
        }
        // Without a runtime the sweep finds it.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (store, key) = (self.store.clone(), self.blob.key.clone());
        runtime.spawn(async move {
            if let Err(error) = store.discard(&key).await {
                tracing::warn!(%error, "a recording that nobody wants is left to the sweep");
            }
        });
    }
}
