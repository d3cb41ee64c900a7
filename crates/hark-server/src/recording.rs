//! Recordings between the store and whoever reads them.

use hark_media::{CancelToken, Source};
use hark_store::{AnonymousLimit, Blob, BlobSource, Store};

use crate::app::App;
use crate::error::Failure;
use crate::middleware::Caller;
use crate::panics;
use crate::probe::{self, CancelOnDrop};

/// The recording as a decoder reads it.
pub(crate) async fn open(app: &App, blob: &Blob) -> hark_store::Result<Source> {
    Ok(match app.store.recordings().source(blob).await? {
        BlobSource::Path(path) => Source::Path(path),
        BlobSource::Reader(reader) => Source::Seekable(Box::new(reader)),
    })
}

/// Seconds of audio in a recording that a caller sent.
pub(crate) async fn duration(app: &App, caller: &Caller, blob: &Blob) -> Result<f64, Failure> {
    let longest = longest(app, caller).await?;
    decode(app, caller, blob, move |source, cancel| probe::duration(source, longest, cancel)).await
}

/// Decodes a recording that a caller sent, on a blocking thread and as one of the probes of its owner. It is cancelled when the caller disconnects.
pub(crate) async fn decode<T: Send + 'static>(
    app: &App,
    caller: &Caller,
    blob: &Blob,
    work: impl FnOnce(Source, CancelToken) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    // A repeat of a request may come while others take all places of its owner.
    let limit = caller.plan().concurrency() + 1;
    let place = app.probes.enter(caller.owner(), limit, &app.metrics).await?;
    decode_in(app, place, blob, work).await
}

/// Decodes a recording on a blocking thread, which holds `place` until it ends. It is cancelled when the caller disconnects.
pub(crate) async fn decode_in<T: Send + 'static>(
    app: &App,
    place: impl Send + 'static,
    blob: &Blob,
    work: impl FnOnce(Source, CancelToken) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let source = open(app, blob).await?;
    let cancel = CancelOnDrop(CancelToken::default());
    let (token, span) = (cancel.0.clone(), tracing::Span::current());
    let decoding = tokio::task::spawn_blocking(move || {
        // The place is released when the decoder has ended, not when nobody waits for it any more.
        let _place = place;
        span.in_scope(|| work(source, token))
    });
    match decoding.await {
        Ok(decoded) => decoded,
        Err(error) => {
            tracing::error!(error = panics::ending(&error), "media.probe_panicked");
            Err(hark_api::ErrorKind::Internal.into())
        }
    }
}

/// Seconds beyond which a caller can't have a recording transcribed, so that nobody needs to know how long it is.
async fn longest(app: &App, caller: &Caller) -> Result<f64, Failure> {
    let minutes = match caller {
        Caller::Account(identity) => app.store.accounts().get(identity.account()).await?.credits,
        Caller::Anonymous(_) => match app.config.anonymous.limit.into() {
            AnonymousLimit::Minutes(limit) => limit,
            AnonymousLimit::Transcriptions(_) => return Ok(f64::INFINITY),
        },
    };
    Ok(minutes as f64 * 60.0 + 1.0)
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
            if let Err(error) = store.recordings().discard(&key).await {
                tracing::warn!(%error, "recording.left_to_sweep");
            }
        });
    }
}
