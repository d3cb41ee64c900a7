//! `GET /health`: what works and what does not.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use hark_api::{ErrorKind, GpuHealth, Health};

use crate::app::{App, Role};
use crate::error::Failure;
use crate::routes::AnyError;

/// How the server is
///
/// 200 while it takes requests; 503 when its database does not answer or it is going down.
#[utoipa::path(get, path = "/health", tag = "reference", operation_id = "health",
    responses((status = 200, body = Health), AnyError))]
pub(crate) async fn health(State(app): State<App>) -> Response {
    if app.is_draining() {
        return Failure::from(ErrorKind::ShuttingDown).into_response();
    }
    let queue_length = match app.store.queue_length().await {
        Ok(length) => length,
        Err(error) => {
            tracing::error!(%error, "the database does not answer");
            return Failure::new(ErrorKind::QueueFull, "the database does not answer").into_response();
        }
    };
    let device = match app.role {
        Role::Account => None,
        Role::All | Role::Gpu => app.device().await,
    };
    // A server without models still serves accounts and transcripts.
    let is_sound = device.is_some() || app.role == Role::Account;
    Json(Health {
        status: if is_sound { "ok" } else { "degraded" }.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        gpu: GpuHealth {
            status: if device.is_some() { "cpu" } else { "unavailable" }.to_owned(),
            queue_length: queue_length.max(0) as u64,
            gpu_memory_free_mb: 0,
        },
        gpu_available: false,
        gpu_name: device.unwrap_or_else(|| "none".to_owned()),
        gpu_memory_mb: 0,
    })
    .into_response()
}
