//! Takes calls that are due from the store and makes them, until each is answered or given up.

use std::time::Duration;

use hark_api::{DateTime, WebhookEvent};
use hark_store::{Change, Micros, Status, WebhookDelivery};
use tokio::sync::{broadcast, watch};
use tokio::task::{JoinHandle, JoinSet};

use super::call::{Call, Caller, Outcome, signature};
use crate::app::App;
use crate::wire::wire_status;

/// Calls under way at once; one takes ten seconds at most.
const AT_ONCE: usize = 16;
/// Whoever claimed a call and has not said how it ended after this long is dead.
const LEASE: Duration = Duration::from_secs(60);
/// How often the store is asked when nothing happens here: other processes finish transcripts too.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// How long after each failed attempt the next one comes: eight attempts over a day and a half.
const WAITS: [Duration; 7] = [
    Duration::from_secs(10),
    Duration::from_secs(60),
    Duration::from_secs(5 * 60),
    Duration::from_secs(30 * 60),
    Duration::from_secs(2 * 3600),
    Duration::from_secs(8 * 3600),
    Duration::from_secs(24 * 3600),
];

/// Makes calls until the service ends; those under way are finished.
pub(crate) fn start(app: &App, mut stop: watch::Receiver<bool>) -> JoinHandle<()> {
    let app = app.clone();
    let caller = Caller::new(&app.config.webhooks);
    let mut changes = app.store.changes();
    tokio::spawn(async move {
        let mut under_way = JoinSet::new();
        loop {
            while under_way.try_join_next().is_some() {}
            let claimed = claim(&app, AT_ONCE - under_way.len()).await;
            let is_more = !claimed.is_empty();
            for delivery in claimed {
                let (app, caller) = (app.clone(), caller.clone());
                under_way.spawn(async move { deliver(&app, &caller, &delivery).await });
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
        while under_way.join_next().await.is_some() {}
    })
}

/// Takes at most as many calls as there are places.
async fn claim(app: &App, places: usize) -> Vec<WebhookDelivery> {
    if places == 0 {
        return Vec::new();
    }
    app.store.webhooks().claim(places as i64, LEASE).await.unwrap_or_else(|error| {
        tracing::error!(%error, "webhook.poll_failed");
        Vec::new()
    })
}

/// Waits for news that may make a call due.
async fn finished(changes: &mut broadcast::Receiver<Change>) {
    loop {
        match changes.recv().await {
            Ok(Change::Finished(_)) | Err(broadcast::error::RecvError::Lagged(_)) => return,
            Ok(_) => {}
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
        }
    }
}

async fn deliver(app: &App, caller: &Caller, delivery: &WebhookDelivery) {
    let transcript = delivery.transcript;
    let outcome = match prepare(app, delivery).await {
        Ok(Some(call)) => {
            let caller = caller.clone();
            let made = tokio::task::spawn_blocking(move || caller.call(&call)).await;
            made.unwrap_or_else(|error| Outcome::Again(error.to_string()))
        }
        Ok(None) => Outcome::Never("the transcript is gone".to_owned()),
        Err(error) => Outcome::Again(error.to_string()),
    };
    let attempt = delivery.attempt;
    let noted = match outcome {
        Outcome::Delivered => {
            tracing::info!(%transcript, attempt, "webhook.delivered");
            app.store.webhooks().remove(delivery).await
        }
        Outcome::Never(why) => {
            tracing::warn!(%transcript, attempt, error = why, "webhook.failed");
            app.store.webhooks().remove(delivery).await
        }
        Outcome::Again(why) => match wait_after(attempt, app.store.now()) {
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
    if let Err(error) = noted {
        tracing::error!(%error, "webhook.outcome_not_written");
    }
}

/// How long to wait after an attempt; none after the last. A little more or less each time, so that many calls that failed
/// together do not come back together.
fn wait_after(attempt: i64, now: Micros) -> Option<Duration> {
    let wait = *WAITS.get(usize::try_from(attempt - 1).ok()?)?;
    let tenth = wait.as_micros() as i64 / 10;
    let spread = now.rem_euclid(2 * tenth + 1) - tenth;
    Some(Duration::from_micros((wait.as_micros() as i64 + spread).unsigned_abs()))
}

/// The call as it goes out now; none where its transcript is gone.
async fn prepare(app: &App, delivery: &WebhookDelivery) -> hark_store::Result<Option<Call>> {
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
    Ok(Some(Call { url: delivery.target.url.clone(), body, event, delivery: delivery.id.0, signature }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_lie_ever_further_apart_and_end() {
        let mut last = Duration::ZERO;
        for attempt in 1..=7 {
            let wait = wait_after(attempt, attempt * 7_919).unwrap();
            assert!(wait > last * 2, "{attempt}: {wait:?} after {last:?}");
            last = wait;
        }
        assert_eq!(wait_after(8, 0), None);
        assert_ne!(wait_after(1, 1), wait_after(1, 2), "those that failed together come back apart");
    }
}
