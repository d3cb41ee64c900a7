//! The `[server.stream]` table.

use serde::Deserialize;

use super::Seconds;

/// What live sessions may do.
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
