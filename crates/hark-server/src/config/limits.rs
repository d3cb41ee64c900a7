//! The `[server.limits]` table: limits on resources that unauthenticated clients can occupy.

use serde::Deserialize;

use super::Seconds;

/// Limits on connections, request bodies and anonymous transcriptions, in total and per address (IPv6: per /64).
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Maximum open connections.
    pub connections: usize,
    /// Maximum open connections per address; trusted proxies are exempt.
    pub connections_per_address: usize,
    /// Maximum bytes of request bodies in transfer.
    pub body_bytes: u64,
    /// Maximum bytes of request bodies in transfer per address.
    pub body_bytes_per_address: u64,
    /// Minimum average rate of a request body in bytes per second.
    pub body_rate: u64,
    /// Seconds before the minimum rate is enforced.
    pub body_grace: Seconds,
    /// Maximum anonymous transcriptions that are being uploaded, queued or running.
    pub anonymous_at_once: u32,
    /// Maximum requests for the status of transcripts per minute and address.
    pub status_rate: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 8192,
            connections_per_address: 512,
            body_bytes: 64 << 30,
            // Five recordings of 2 GB, the maximum that one paid account may upload at once, and some spare.
            body_bytes_per_address: 12 << 30,
            body_rate: 1000,
            body_grace: Seconds(30.0),
            anonymous_at_once: 64,
            status_rate: 600,
        }
    }
}

impl Limits {
    /// Validates the settings; the error is for the operator.
    pub(crate) fn check(&self) -> Result<(), String> {
        let counts = [
            ("connections", self.connections as u64),
            ("connections_per_address", self.connections_per_address as u64),
            ("body_bytes", self.body_bytes),
            ("body_bytes_per_address", self.body_bytes_per_address),
            ("status_rate", u64::from(self.status_rate)),
        ];
        match counts.iter().find(|(_, count)| *count == 0) {
            Some((name, _)) => Err(format!("`limits.{name}` must be at least 1")),
            None => Ok(()),
        }
    }
}
