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
mod registry;
mod session;
mod socket;

pub(crate) use dialect::{Dialect, Said};
pub(crate) use message::{Hello, parse_hello};
pub(crate) use realtime::Realtime;
pub(crate) use registry::Streams;
pub(crate) use session::{begin, resume};
pub(crate) use socket::{Connection, MOST_LIBRARY_BYTES, refuse};

use std::time::Duration;

use serde::Deserialize;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::app::App;
use crate::config::Seconds;

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

/// What live sessions may do: the `[server.stream]` table.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StreamLimits {
    /// Sessions at once, of everybody together.
    pub sessions: usize,
    /// Seconds of sound of one session.
    pub longest: Seconds,
    /// Seconds without sound after which a session ends.
    pub idle: Seconds,
    /// Seconds a client has for its first message.
    pub first_message: Seconds,
    /// Seconds for which a session whose connection broke can be gone on with.
    pub resume: Seconds,
    /// Seconds after which the other end is asked whether it is still there; it is gone when it says nothing three times.
    pub ping: Seconds,
    /// Seconds after which the held credit of a session that heard nothing is free again if its process died; one that lives
    /// says so in time.
    pub hold: Seconds,
}

impl Default for StreamLimits {
    fn default() -> Self {
        StreamLimits {
            sessions: 256,
            longest: Seconds(4.0 * 3600.0),
            idle: Seconds(60.0),
            first_message: Seconds(10.0),
            resume: Seconds(120.0),
            ping: Seconds(15.0),
            hold: Seconds(900.0),
        }
    }
}

impl StreamLimits {
    /// What storing the end of a session may take.
    fn store_within(&self, is_draining: bool) -> Duration {
        if is_draining { STORE_WITHIN / 6 } else { STORE_WITHIN }
    }
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
