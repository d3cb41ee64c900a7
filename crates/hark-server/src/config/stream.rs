//! The `[server.stream]` table: limits of live sessions.

use serde::Deserialize;

use super::Seconds;

/// Limits of live sessions.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StreamLimits {
    /// Maximum concurrent sessions.
    pub sessions: usize,
    /// Maximum seconds of audio per session.
    pub longest: Seconds,
    /// Seconds without audio after which a session ends.
    pub idle: Seconds,
    /// Seconds within which a client must send its first message.
    pub first_message: Seconds,
    /// Seconds for which a session can be resumed after its connection was lost.
    pub resume: Seconds,
    /// Seconds after a lost connection at which what was said is finalized: a client that is back before goes on within its word.
    pub reconnect: Seconds,
    /// Interval of WebSocket pings in seconds; a client that misses three is disconnected.
    pub ping: Seconds,
    /// Seconds after which the held credit of an idle session is released if its process died; a live process extends the hold
    /// in time.
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
            reconnect: Seconds(5.0),
            ping: Seconds(15.0),
            hold: Seconds(900.0),
        }
    }
}
