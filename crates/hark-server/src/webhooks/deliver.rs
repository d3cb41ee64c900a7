//! Claims webhooks that are due and delivers them, with retries.

use std::time::Duration;

use hark_api::{DateTime, WebhookEvent};
use hark_store::{Change, Micros, Status, WebhookDelivery};
use tokio::sync::{broadcast, watch};
use tokio::task::{JoinHandle, JoinSet};

use super::send::{Message, Outcome, Sender, signature};
use crate::app::App;
use crate::wire::wire_status;

/// Requests in flight; each takes ten seconds at most.
const MAX_IN_FLIGHT: usize = 16;
/// A claim that is older is of a process that died.
const LEASE: Duration = Duration::from_secs(60);
/// How often the store is polled when nothing happens here: other processes finish transcripts too.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// The backoff after each failed attempt: eight attempts over a day and a half.
const BACKOFF: [Duration; 7] = [
    Duration::from_secs(10),
    Duration::from_secs(60),
    Duration::from_secs(5 * 60),
    Duration::from_secs(30 * 60),
    Duration::from_secs(2 * 3600),
    Duration::from_secs(8 * 3600),
    Duration::from_secs(24 * 3600),
];

/// Delivers webhooks until the service ends; requests in flight are finished.
pub(crate) fn start(app: &App, mut stop: watch::Receiver<bool>) -> JoinHandle<()> {
    let app = app.clone();
    let sender = Sender::new(&app.config.webhooks);
    let mut changes = app.store.changes();
    tokio::spawn(async move {
        let mut in_flight = JoinSet::new();
        loop {
            while in_flight.try_join_next().is_some() {}
            let claimed = claim(&app, MAX_IN_FLIGHT - in_flight.len()).await;
            let is_more = !claimed.is_empty();
            for delivery in claimed {
                let (app, sender) = (app.clone(), sender.clone());
                in_flight.spawn(async move { deliver(&app, &sender, &delivery).await });
            }
            if is_more && !*stop.borrow() {
                continue;
            }
            tokio::select! {
                () = finished(&mut changes) => {}
                () = tokio::time::sleep(POLL_INTERVAL) => {}
                _ = stop.wait_for(|stop| *stop) => break,
            }
        }
        while in_flight.join_next().await.is_some() {}
    })
}

/// Claims at most `free` webhooks that are due.
async fn claim(app: &App, free: usize) -> Vec<WebhookDelivery> {
    if free == 0 {
        return Vec::new();
    }
    app.store.webhooks().claim(free as i64, LEASE).await.unwrap_or_else(|error| {
        tracing::error!(%error, "webhook.poll_failed");
        Vec::new()
    })
}

/// Waits for a finished transcript, whose webhook may be due.
async fn finished(changes: &mut broadcast::Receiver<Change>) {
    loop {
        match changes.recv().await {
            Ok(Change::Finished(_)) | Err(broadcast::error::RecvError::Lagged(_)) => return,
            Ok(_) => {}
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
        }
    }
}

async fn deliver(app: &App, sender: &Sender, delivery: &WebhookDelivery) {
    let transcript = delivery.transcript;
    let outcome = match prepare(app, delivery).await {
        Ok(Some(message)) => sender.send(message).await,
        Ok(None) => Outcome::GiveUp("the transcript is gone".to_owned()),
        Err(error) => Outcome::Retry(error.to_string()),
    };
    let attempt = delivery.attempt;
    let recorded = match outcome {
        Outcome::Delivered => {
            tracing::info!(%transcript, attempt, "webhook.delivered");
            app.store.webhooks().remove(delivery).await
        }
        Outcome::GiveUp(why) => {
            tracing::warn!(%transcript, attempt, error = why, "webhook.failed");
            app.store.webhooks().remove(delivery).await
        }
        Outcome::Retry(why) => match backoff(attempt, app.store.now()) {
            Some(wait) => {
                tracing::info!(%transcript, attempt, error = why, retry_in = wait.as_secs(), "webhook.retried");
                app.store.webhooks().retry(delivery, app.store.now() + wait.as_micros() as i64).await
            }
            None => {
                tracing::warn!(%transcript, attempt, error = why, "webhook.failed");
                app.store.webhooks().remove(delivery).await
            }
        },
    };
    if let Err(error) = recorded {
        tracing::error!(%error, "webhook.outcome_not_written");
    }
}

/// How long to wait after an attempt; none after the last. With jitter, so that many webhooks that failed together are not
/// retried together.
fn backoff(attempt: i64, now: Micros) -> Option<Duration> {
    let wait = *BACKOFF.get(usize::try_from(attempt - 1).ok()?)?;
    let tenth = wait.as_micros() as i64 / 10;
    let spread = now.rem_euclid(2 * tenth + 1) - tenth;
    Some(Duration::from_micros((wait.as_micros() as i64 + spread).unsigned_abs()))
}

/// The message as it is sent now; none where its transcript is gone.
async fn prepare(app: &App, delivery: &WebhookDelivery) -> hark_store::Result<Option<Message>> {
    let transcript = match app.store.transcripts().get(delivery.account, delivery.transcript).await {
        Ok(transcript) => transcript,
        Err(hark_store::Error::NotFound(_)) => return Ok(None),
        Err(error) => return Err(error),
    };
    let is_completed = transcript.status == Status::Completed;
    let event = if is_completed { "transcript.completed" } else { "transcript.failed" };
    let body = WebhookEvent {
        event: event.to_owned(),
        id: transcript.id.0,
        status: wire_status(transcript.status),
        title: transcript.title,
        created_at: DateTime(transcript.created_at),
        completed_at: transcript.completed_at.map(DateTime),
        language: is_completed.then_some(transcript.language),
        duration: is_completed.then_some(transcript.duration_seconds),
        word_count: is_completed.then_some(transcript.word_count),
        error: transcript.error,
    };
    let body = serde_json::to_string(&body).map_err(|error| hark_store::Error::Damaged(error.to_string()))?;
    // Signed with what is valid now: a secret that was rotated since must not be needed any more.
    let secrets = super::secrets(&app.store, delivery.account).await?;
    let signature = signature(&secrets, app.clock.now().div_euclid(1_000_000), &body);
    Ok(Some(Message { url: delivery.target.url.clone(), body, event, delivery: delivery.id.0, signature }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_lie_ever_further_apart_and_end() {
        let mut last = Duration::ZERO;
        for attempt in 1..=7 {
            let wait = backoff(attempt, attempt * 7_919).unwrap();
            assert!(wait > last * 2, "{attempt}: {wait:?} after {last:?}");
            last = wait;
        }
        assert_eq!(backoff(8, 0), None);
        assert_ne!(backoff(1, 1), backoff(1, 2), "those that failed together come back apart");
    }
}
