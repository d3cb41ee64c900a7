//! The shared state of all requests.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hark_store::{Capabilities, Clock, Owner, Store};
use tokio::sync::Notify;

use crate::call_slots::CallSlots;
use crate::config::Config;
use crate::credentials::Credentials;
use crate::documentation::Documentation;
use crate::engine::{Engines, Models, TRANSLATIONS_AT_ONCE};
use crate::limits::{AddressHash, AtOnce, Bodies, RateLimiter};
use crate::mail::Mailer;
use crate::marks::MarkerOnDemand;
use crate::metrics::Metrics;
use crate::metrics::readiness::Report;
use crate::probe::Probes;
use crate::queue::{Breaker, Running, Waiting};
use crate::random;
use crate::readiness::{Needs, Readiness};
use crate::retrievers::Retrievers;
use crate::sign::Sign;
use crate::streams::Streams;
use crate::waveforms::Waveforms;

/// The role of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Everything on one port.
    All,
    /// Accounts and transcripts; jobs run on other nodes.
    Account,
    /// Runs jobs from the queue.
    Gpu,
}

/// Calls that embed texts at once: one computes on all cores while the next is tokenized.
const EMBEDDINGS_AT_ONCE: usize = 2;
/// Queries that are embedded at once beside them: each is one short text, and a search waits for it.
const QUERIES_AT_ONCE: usize = 4;
/// Searches for watermarks at once: each takes one core, which speech waits for.
const DETECTIONS_AT_ONCE: usize = 2;

/// How long lists from the disk are cached.
const KEEP_LISTS: Duration = Duration::from_secs(5);

/// The state of the service; clones share it.
#[derive(Clone)]
pub(crate) struct App(Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) store: Store,
    pub(crate) engines: Engines,
    pub(crate) config: Config,
    pub(crate) role: Role,
    /// The id of this process among those that share the store.
    pub(crate) node: String,
    pub(crate) clock: Clock,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) documentation: Documentation,
    pub(crate) fonts: Arc<hark_export::Fonts>,
    pub(crate) credentials: Credentials,
    pub(crate) rates: RateLimiter,
    /// Requests for the status of transcripts, by address.
    pub(crate) status_rates: RateLimiter,
    pub(crate) addresses: AddressHash,
    pub(crate) sign: Sign,
    /// Set if a mail server is configured: addresses are confirmed.
    pub(crate) mailer: Option<Mailer>,
    pub(crate) uploads: AtOnce<Owner>,
    /// Media probes in progress.
    pub(crate) probes: Probes,
    /// Calls that embed texts.
    pub(crate) embed_slots: CallSlots,
    /// Queries of searches that are embedded: they do not wait for calls with many texts.
    pub(crate) query_slots: CallSlots,
    /// Calls that translate.
    pub(crate) translate_slots: CallSlots,
    /// Calls that look for watermarks.
    pub(crate) watermark_slots: CallSlots,
    /// Calls that speak.
    pub(crate) speech_slots: CallSlots,
    /// Requests that decode recordings for their waveforms.
    pub(crate) waveforms: Waveforms,
    /// Calls that work on texts with the language model, and those that speak.
    pub(crate) text_calls: AtOnce<Owner>,
    /// Calls that speak in the voice of a reference and are not charged yet.
    pub(crate) matched_calls: AtOnce<Owner>,
    /// The key of the watermark.
    pub(crate) marker: MarkerOnDemand,
    /// Indexes of long transcripts that were asked about.
    pub(crate) retrievers: Retrievers,
    /// Uploads in progress that have an `Idempotency-Key`.
    pub(crate) named_uploads: AtOnce<(Owner, String)>,
    /// Anonymous uploads in progress.
    pub(crate) anonymous_uploads: AtOnce<()>,
    /// Request bodies in progress.
    pub(crate) bodies: Bodies,
    pub(crate) waiting: Waiting,
    /// Live sessions.
    pub(crate) streams: Arc<Streams>,
    /// Jobs that run here.
    pub(crate) running: Running,
    /// The circuit breaker: pauses claiming while a dependency is unreachable.
    pub(crate) breaker: Breaker,
    /// Notified when workers should check the queue.
    pub(crate) queue_changed: Notify,
    /// Notified when a transcript may be due to be indexed.
    pub(crate) index_due: Notify,
    /// Readiness.
    readiness: Readiness,
    draining: AtomicBool,
    models: TimedCache<Vec<hark_api::Model>>,
    text_models: TimedCache<Vec<hark_api::TextModel>>,
    device: TimedCache<Option<String>>,
    capabilities: TimedCache<Capabilities>,
}

impl Deref for App {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl App {
    pub(crate) fn new(
        store: Store,
        engines: Engines,
        config: Config,
        role: Role,
        clock: Clock,
        documentation: Documentation,
    ) -> Self {
        let mailer = config.mail.as_ref().and_then(|mail| match Mailer::new(mail) {
            Ok(mailer) => Some(mailer),
            Err(problem) => {
                tracing::error!(problem, "mail.misconfigured");
                None
            }
        });
        let speech_slots = CallSlots::new(engines.speeches_at_once(), "too many texts are being spoken");
        App(Arc::new(Shared {
            probes: Probes::new(config.probes),
            store,
            engines,
            config,
            role,
            node: random::id(),
            clock,
            metrics: Arc::default(),
            documentation,
            fonts: Arc::default(),
            credentials: Credentials::default(),
            rates: RateLimiter::new(),
            status_rates: RateLimiter::new(),
            addresses: AddressHash::default(),
            sign: Sign::default(),
            mailer,
            embed_slots: CallSlots::new(EMBEDDINGS_AT_ONCE, "too many texts are being embedded"),
            query_slots: CallSlots::new(QUERIES_AT_ONCE, "too many searches are under way"),
            translate_slots: CallSlots::new(TRANSLATIONS_AT_ONCE, "too many texts are being translated"),
            watermark_slots: CallSlots::new(DETECTIONS_AT_ONCE, "too many recordings are being examined"),
            speech_slots,
            waveforms: Waveforms::default(),
            text_calls: AtOnce::new(),
            matched_calls: AtOnce::new(),
            marker: MarkerOnDemand::default(),
            retrievers: Retrievers::default(),
            uploads: AtOnce::new(),
            named_uploads: AtOnce::new(),
            anonymous_uploads: AtOnce::new(),
            bodies: Bodies::default(),
            waiting: Waiting::default(),
            streams: Arc::default(),
            running: Running::default(),
            breaker: Breaker::default(),
            queue_changed: Notify::new(),
            index_due: Notify::new(),
            readiness: Readiness::default(),
            draining: AtomicBool::new(false),
            models: TimedCache::default(),
            text_models: TimedCache::default(),
            device: TimedCache::default(),
            capabilities: TimedCache::default(),
        }))
    }

    /// The models that requests may name.
    pub(crate) async fn models(&self) -> Vec<hark_api::Model> {
        self.models.get(&self.engines, Models::models).await
    }

    /// The models that work on text.
    pub(crate) async fn text_models(&self) -> Vec<hark_api::TextModel> {
        self.text_models.get(&self.engines, Models::text_models).await
    }

    /// The capabilities of this process for jobs.
    pub(crate) async fn capabilities(&self) -> Capabilities {
        self.capabilities.get(&self.engines, Models::capabilities).await
    }

    /// The readiness of the server, at most a second old.
    pub(crate) async fn readiness(&self) -> Report {
        let models = async {
            match self.role {
                Role::Account => None,
                Role::All | Role::Gpu => Some(self.device().await.is_some()),
            }
        };
        let min_free_disk = self.config.min_free_disk_mb.saturating_mul(1_000_000);
        self.readiness.report(Needs { store: &self.store, metrics: &self.metrics, min_free_disk, models }).await
    }

    /// The name of the backend.
    pub(crate) async fn device(&self) -> Option<String> {
        self.device.get(&self.engines, Models::device).await
    }
}

impl Shared {
    /// Starts the shutdown: no new work.
    pub(crate) fn begin_draining(&self) {
        self.draining.store(true, Ordering::SeqCst);
        self.streams.stop();
        self.queue_changed.notify_one();
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::SeqCst)
    }
}

/// A value that is read from disk and cached for a moment.
struct TimedCache<T>(Mutex<Option<(Instant, T)>>);

impl<T> Default for TimedCache<T> {
    fn default() -> Self {
        TimedCache(Mutex::new(None))
    }
}

impl<T: Clone + Default + Send + 'static> TimedCache<T> {
    async fn get(&self, engines: &Engines, look: fn(&dyn Models) -> T) -> T {
        if let Some((at, value)) = &*self.lock()
            && at.elapsed() < KEEP_LISTS
        {
            return value.clone();
        }
        let models = Arc::clone(&engines.models);
        let value = tokio::task::spawn_blocking(move || look(&*models)).await.unwrap_or_default();
        *self.lock() = Some((Instant::now(), value.clone()));
        value
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<(Instant, T)>> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
