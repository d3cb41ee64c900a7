//! Retention: deletes old entries of the audit log and old address counts.

use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::app::App;

/// How often old entries are deleted.
const ROUND: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);

/// Deletes expired entries periodically, until the service stops.
pub(crate) fn start(app: &App, mut stop: watch::Receiver<bool>) -> JoinHandle<()> {
    let app = app.clone();
    tokio::spawn(async move {
        loop {
            if let Err(error) = app.store.addresses().expire().await {
                tracing::error!(%error, "retention.addresses_failed");
            }
            let (keep, keep_addresses) = (DAY * app.config.audit_days, DAY * app.config.audit_address_days);
            match app.store.audit().expire(keep, keep_addresses).await {
                Ok(0) => {}
                Ok(deleted) => tracing::info!(deleted, "retention.audit_expired"),
                Err(error) => tracing::error!(%error, "retention.audit_failed"),
            }
            tokio::select! {
                () = tokio::time::sleep(ROUND) => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
        }
    })
}
