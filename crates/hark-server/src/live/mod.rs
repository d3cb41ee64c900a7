//! Live sessions: audio is streamed over a WebSocket, text is sent back while the speaker talks.
//!
//! A session is a task of its own. It outlives its connection for a while, so that a client can reconnect and resume it.
//! Its text and its charge are stored as it runs ([`record`]), so a client can also resume a session whose process died;
//! otherwise the session is completed with its stored text.

mod message;
mod outbox;
mod previous;
mod protocol;
mod realtime;
mod record;
mod session;
mod socket;

pub(crate) use message::{SessionConfig, parse_config};
pub(crate) use protocol::{ClientMessage, Protocol};
pub(crate) use realtime::Realtime;
pub(crate) use session::{begin, resume};
pub(crate) use socket::{MAX_MESSAGE_BYTES, refuse};

use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::app::App;
use crate::config::StreamLimits;

/// Unanswered pings after which the connection is considered broken.
const MAX_UNANSWERED_PINGS: u32 = 3;
/// Time without audio after which the text is finalized: the client's own voice detection may have stopped sending.
const FLUSH_AFTER: Duration = Duration::from_secs(1);
/// Seconds of audio queued for the engine from which the socket is no longer read (backpressure).
const MAX_BACKLOG: f64 = 30.0;
/// Timeout of the engine for the rest of an ending session.
const FINISH_TIMEOUT: Duration = Duration::from_secs(120);

/// Minimum time without a renewal before a session's process counts as dead: several renewal intervals.
const MIN_GRACE: Duration = Duration::from_secs(20);
/// Interval of the check for expired sessions.
const EXPIRY_INTERVAL: Duration = Duration::from_secs(5);
/// How long storing the end of a session is retried while the database fails.
const STORE_TIMEOUT: Duration = Duration::from_secs(60);

/// The timeout of storing the end of a session.
fn store_timeout(is_draining: bool) -> Duration {
    if is_draining { STORE_TIMEOUT / 6 } else { STORE_TIMEOUT }
}

/// How long a session whose process died can be resumed before it is completed with its stored text; also how long a
/// session continues while nothing can be stored.
fn grace(limits: &StreamLimits) -> Duration {
    limits.resume.duration().max(MIN_GRACE)
}

/// Completes the sessions of processes that died, until the service ends.
pub(crate) fn expire_sessions(app: &App, mut stop: watch::Receiver<bool>) -> JoinHandle<()> {
    let app = app.clone();
    tokio::spawn(async move {
        loop {
            if let Err(error) = app.store.live().expire(grace(&app.config.stream)).await {
                tracing::error!(%error, "live.expiry_failed");
            }
            tokio::select! {
                () = tokio::time::sleep(EXPIRY_INTERVAL) => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
        }
    })
}
