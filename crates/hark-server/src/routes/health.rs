//! `GET /health` and its probes: what works and what does not.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use hark_api::{ApiError, ErrorKind, GpuHealth, Health, Liveness, Readiness};

use crate::app::{App, Role};
use crate::engine::{EngineState, GpuReading};
use crate::error::{Failure, UNAVAILABLE_RETRY};
use crate::metrics::readiness::{Check, Report};
use crate::routes::AnyError;

/// How the server is
///
/// 200 while it takes requests, `degraded` when something that some of them need is missing; 503 when its database takes no writes or it is going down.
#[utoipa::path(get, path = "/health", tag = "reference", operation_id = "health",
    responses((status = 200, body = Health), AnyError))]
pub(crate) async fn health(State(app): State<App>) -> Response {
    if app.is_draining() {
        return Failure::from(ErrorKind::ShuttingDown).into_response();
    }
    let report = app.readiness().await;
    if !report.passed(Check::Database) || !report.passed(Check::Integrity) {
        return database_down().into_response();
    }
    let queue_length = match app.store.jobs().queue_length().await {
        Ok(length) => length,
        Err(error) => return Failure::from(error).into_response(),
    };
    let device = match app.role {
        Role::Account => None,
        Role::All | Role::Gpu => app.device().await,
    };
    let on_gpu = device.as_deref().is_some_and(|name| name.starts_with("cuda"));
    let gpus = if on_gpu { app.engines.models.gpus() } else { Vec::new() };
    let megabytes = |bytes: fn(&GpuReading) -> u64| gpus.iter().map(bytes).sum::<u64>() >> 20;
    // A failed engine is being reloaded.
    let runs = |state: EngineState| state == EngineState::Running;
    let engines_run = app.engines.models.reports().iter().all(|engine| engine.state.is_none_or(runs));
    Json(Health {
        // A server without models still serves accounts and transcripts.
        status: if report.is_ready() && engines_run { "ok" } else { "degraded" }.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        gpu: GpuHealth {
            status: match &device {
                Some(_) if on_gpu => "ok",
                Some(_) => "cpu",
                None => "unavailable",
            }
            .to_owned(),
            queue_length: queue_length.max(0) as u64,
            gpu_memory_free_mb: megabytes(|gpu| gpu.memory_free),
        },
        gpu_available: on_gpu,
        gpu_name: device.unwrap_or_else(|| "none".to_owned()),
        gpu_memory_mb: megabytes(|gpu| gpu.memory_total),
    })
    .into_response()
}

/// Whether the process runs
///
/// 200 as long as the process answers at all; looks at nothing else. For supervisors that restart what hangs: a restart does not bring a database back.
#[utoipa::path(get, path = "/health/live", tag = "reference", operation_id = "health_live",
    responses((status = 200, body = Liveness), AnyError))]
pub(crate) async fn live() -> Json<Liveness> {
    Json(Liveness { status: "alive".to_owned() })
}

/// Whether the server takes requests
///
/// Writes to the database, looks at the free space of the data and temporary folders, writes, reads and removes a probe beside the recordings, and asks for a
/// model that can run. 503 with `Retry-After` when one of them fails; `checks` in the body says which. For load balancers and rolling upgrades.
#[utoipa::path(get, path = "/health/ready", tag = "reference", operation_id = "health_ready",
    responses((status = 200, body = Readiness), AnyError))]
pub(crate) async fn ready(State(app): State<App>) -> Response {
    if app.is_draining() {
        return Failure::from(ErrorKind::ShuttingDown).into_response();
    }
    let report = app.readiness().await;
    let ready =
        Readiness { status: if report.is_ready() { "ready" } else { "unready" }.to_owned(), checks: checks(&report) };
    if report.is_ready() {
        return Json(ready).into_response();
    }
    let failed: Vec<&str> = report.checks().filter(|(_, passed)| !passed).map(|(check, _)| check.name()).collect();
    let error = ApiError::new(ErrorKind::Unavailable, format!("not ready: {}", failed.join(", ")));
    Failure::from(error.retry_after(UNAVAILABLE_RETRY)).with_details(&ready)
}

fn checks(report: &Report) -> BTreeMap<String, String> {
    let word = |passed| if passed { "ok" } else { "failed" };
    report.checks().map(|(check, passed)| (check.name().to_owned(), word(passed).to_owned())).collect()
}

fn database_down() -> Failure {
    ApiError::new(ErrorKind::Unavailable, "the database takes no requests at the moment")
        .retry_after(UNAVAILABLE_RETRY)
        .into()
}
