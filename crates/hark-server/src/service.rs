//! The running service: its listeners, its workers, and its shutdown.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::get;
use hark_store::{Clock, Store};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tower::ServiceExt as _;

use crate::app::{App, Role};
use crate::config::Config;
use crate::documentation::Documentation;
use crate::engine::Engines;
use crate::error::ServerError;
use crate::{indexer, integrity, jobs, listen, live, nodes, retention, router, webhooks};

/// A running service; dropping it leaves it running until the runtime ends.
pub struct Service {
    app: App,
    address: SocketAddr,
    metrics_address: Option<SocketAddr>,
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
    /// Forwards changes of the store until everything else has ended.
    changes: JoinHandle<()>,
    workers: Option<jobs::Workers>,
}

impl Service {
    /// Binds the addresses and starts the workers and listeners.
    pub async fn start(
        store: Store,
        engines: impl Into<Engines>,
        config: Config,
        role: Role,
        clock: Clock,
    ) -> Result<Self, ServerError> {
        config.check().map_err(ServerError::Config)?;
        let listener = listen::bind(config.listen).await?;
        let address = listener.local_addr().map_err(|source| ServerError::Listen { address: config.listen, source })?;
        let metrics = match config.metrics_listen {
            Some(address) => Some(listen::bind(address).await?),
            None => None,
        };
        let metrics_address = metrics.as_ref().and_then(|listener| listener.local_addr().ok());
        let app = App::new(store, engines.into(), config, role, clock, Documentation::new(&router::document()));
        let (stop, stopped) = watch::channel(false);
        let changes = jobs::listen_to_changes(&app, stopped.clone()).await;
        let mut tasks =
            vec![jobs::run_maintenance(&app, stopped.clone()), live::expire_sessions(&app, stopped.clone())];
        tasks.push(nodes::start(&app, address, stopped.clone()));
        if app.config.integrity.enabled {
            tasks.push(integrity::start(&app, stopped.clone()));
        }
        // Passages are embedded where models are.
        if role != Role::Account {
            tasks.push(indexer::start(&app, stopped.clone()));
        }
        if role != Role::Gpu {
            tasks.push(retention::start(&app, stopped.clone()));
        }
        // A node that only runs jobs may have no outbound access; the others deliver webhooks.
        if app.config.webhooks.enabled && role != Role::Gpu {
            tasks.push(webhooks::start(&app, stopped.clone()));
        }
        let workers = (role != Role::Account).then(|| jobs::Workers::start(&app));
        if let Some(listener) = metrics {
            tasks.push(serve(&app, listener, metrics_router(&app), stopped.clone()));
        }
        tasks.push(serve(&app, listener, router::router(&app), stopped));
        Ok(Service { app, address, metrics_address, stop, tasks, changes, workers })
    }

    /// The address of the service.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of `/metrics`.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics_address
    }

    /// Shuts down: accepts no more requests, waits a while for those in progress, and releases unfinished jobs.
    pub async fn stop(self) {
        self.app.begin_draining();
        let _ = self.stop.send(true);
        let workers = async {
            if let Some(workers) = self.workers {
                workers.stop().await;
            }
        };
        let serving = async {
            for task in self.tasks {
                let _ = task.await;
            }
        };
        let drain = self.app.config.drain_timeout.duration();
        let sessions = async {
            if tokio::time::timeout(drain, self.app.streams.all_ended()).await.is_err() {
                tracing::warn!(timeout = drain.as_secs(), "drain.sessions_left");
            }
        };
        tokio::join!(workers, serving, sessions);
        nodes::leave(&self.app).await;
        drop(self.stop);
        let _ = self.changes.await;
    }
}

fn serve(app: &App, listener: tokio::net::TcpListener, router: Router, stop: watch::Receiver<bool>) -> JoinHandle<()> {
    let app = app.clone();
    tokio::spawn(async move {
        let service = router.map_request(router::without_trailing_slash);
        listen::serve(listener, service, &app.config, Arc::clone(&app.metrics), stop).await;
    })
}

fn metrics_router(app: &App) -> Router {
    Router::new().route("/metrics", get(metrics)).with_state(app.clone())
}

async fn metrics(State(app): State<App>) -> impl IntoResponse {
    // The gauges of readiness are as fresh as the rest.
    app.readiness().await;
    if let Ok(dead) = app.store.jobs().failed_count().await {
        app.metrics.jobs_dead.store(dead, std::sync::atomic::Ordering::Relaxed);
    }
    let queue_length = app.store.jobs().queue_length().await.ok().and_then(|length| u64::try_from(length).ok());
    let mut text = app.metrics.render(queue_length);
    crate::metrics::render_engines(&mut text, &app.engines.models.reports());
    crate::metrics::render_gpus(&mut text, &app.engines.models.gpus());
    crate::metrics::text::render_language(&mut text, &app.engines.language_report());
    if let (Ok(quarantined), Ok(mismatch)) =
        (app.store.recordings().quarantine_count().await, app.store.recordings().mismatch().await)
    {
        crate::metrics::render_recordings(&mut text, quarantined, mismatch.is_some());
    }
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text)
}
