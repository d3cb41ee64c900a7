//! The `[server.limits]` table: what strangers may hold of the server at once.

use serde::Deserialize;

use super::Seconds;

/// Limits on connections, bodies and anonymous work, in all and by address (IPv6 by /64).
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Open connections in all.
    pub connections: usize,
    /// Open connections of one address; trusted proxies have no such limit.
    pub connections_per_address: usize,
    /// Bytes of request bodies that are arriving, in all.
    pub body_bytes: u64,
    /// Bytes of request bodies that are arriving from one address.
    pub body_bytes_per_address: u64,
    /// Bytes a second that the sender of a body must reach on average.
    pub body_rate: u64,
    /// Seconds that the server waits for a body before the rate counts.
    pub body_grace: Seconds,
    /// Transcriptions without an account that arrive, wait or run, in all.
    pub anonymous_at_once: u32,
    /// Requests a minute for the status of transcripts, of one address.
    pub status_rate: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 8192,
            connections_per_address: 512,
            body_bytes: 64 << 30,
            // Five recordings of 2 GB, the most that one paid account may send at once.
            body_bytes_per_address: 12 << 30,
            body_rate: 1000,
            body_grace: Seconds(30.0),
            anonymous_at_once: 64,
            status_rate: 600,
        }
    }
}

impl Limits {
    /// What makes no sense, in words for the operator.
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
