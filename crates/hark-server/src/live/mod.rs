//! Live sessions: audio comes over a WebSocket, words go back while somebody speaks.
//!
//! A session is a task of its own. It outlives its connection for a while, so that a client whose connection broke can come
//! back to it. Its text and its charge are stored as it goes ([`record`]), so a client can also come back to one whose
//! process died; when nobody does, it is completed with what was settled.

mod before;
mod dialect;
mod message;
mod outbox;
mod realtime;
mod record;
mod session;
mod socket;

pub(crate) use dialect::{ClientMessage, Dialect};
pub(crate) use message::{Hello, parse_hello};
pub(crate) use realtime::Realtime;
pub(crate) use session::{begin, resume};
pub(crate) use socket::{MOST_LIBRARY_BYTES, refuse};

use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::app::App;
use crate::config::StreamLimits;

/// Pings without any answer after which the other end is gone.
const UNANSWERED_PINGS: u32 = 3;
/// Without sound for so long, what was said is finished: the sender's own voice detection may have closed the line.
const PAUSE: Duration = Duration::from_secs(1);
/// Seconds of sound that may wait for the engine before the sender must wait, too.
const MOST_BACKLOG: f64 = 30.0;
/// What the engine may take for the rest of a session that ends.
const FINISH_WITHIN: Duration = Duration::from_secs(120);

/// The least time for which a session may be silent before its process counts as dead: some times what lies between two writes.
const LEAST_GRACE: Duration = Duration::from_secs(20);
/// How often silent sessions are looked for.
const LOOK_FOR_SILENT: Duration = Duration::from_secs(5);
/// What storing the end of a session may take while the database fails.
const STORE_WITHIN: Duration = Duration::from_secs(60);

/// What storing the end of a session may take.
fn store_within(is_draining: bool) -> Duration {
    if is_draining { STORE_WITHIN / 6 } else { STORE_WITHIN }
}

/// How long a session whose process died waits for its client before it is completed with what was settled; also how long
/// a session goes on while nothing can be stored.
fn grace(limits: &StreamLimits) -> Duration {
    limits.resume.duration().max(LEAST_GRACE)
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
                () = tokio::time::sleep(LOOK_FOR_SILENT) => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
        }
    })
}
