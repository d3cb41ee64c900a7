//! Live sessions: audio comes over a WebSocket, words go back while somebody speaks.
//!
//! A session is a task of its own. It outlives its connection for a while, so that a client whose connection broke can come
//! back to it; when it ends, it is stored and charged, whatever became of the client.

mod bill;
mod dialect;
mod message;
mod outbox;
mod realtime;
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

use crate::config::Seconds;

/// Pings without any answer after which the other end is gone.
const UNANSWERED_PINGS: u32 = 3;
/// Without sound for so long, what was said is finished: the sender's own voice detection may have closed the line.
const PAUSE: Duration = Duration::from_secs(1);
/// Seconds of sound that may wait for the engine before the sender must wait, too.
const MOST_BACKLOG: f64 = 30.0;
/// What the engine may take for the rest of a session that ends.
const FINISH_WITHIN: Duration = Duration::from_secs(120);

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
    /// Seconds after which the credits of a session whose process died are free again; one that lives says so in time.
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
