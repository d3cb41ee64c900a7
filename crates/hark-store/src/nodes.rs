//! The processes that use the store: each says from time to time that it runs, and what it does.

use std::time::Duration;

use crate::Store;
use crate::clock::{Micros, micros};
use crate::db::args;
use crate::error::Result;

/// How long a process that says nothing more stays in the list.
pub const NODE_KEPT: Duration = Duration::from_secs(900);

/// The processes that use the store.
#[derive(Debug, Clone, Copy)]
pub struct Nodes<'a> {
    pub(crate) store: &'a Store,
}

/// What a process says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heartbeat {
    /// Its id, new at each start.
    pub id: String,
    /// The name of its machine.
    pub host: String,
    /// The address that it listens on.
    pub address: String,
    /// Its version.
    pub version: String,
    /// Its role.
    pub role: String,
    /// When it was started.
    pub started_at: Micros,
    /// What it does now, in the caller's format; never text of people.
    pub state: String,
}

/// A process and when it was last heard of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// What it said last.
    pub heartbeat: Heartbeat,
    /// When it said so.
    pub seen_at: Micros,
    /// How long ago that is, by the clock that all processes share.
    pub silent_for: Duration,
}

impl Nodes<'_> {
    /// Stores what a process says of itself, and removes those that have been silent for [`NODE_KEPT`].
    pub async fn beat(self, heartbeat: &Heartbeat) -> Result<()> {
        let now = self.store.lease_now().await?;
        let mut tx = self.store.db().begin().await?;
        let Heartbeat { id, host, address, version, role, started_at, state } = heartbeat;
        tx.execute(
            "INSERT INTO nodes (id, host, address, version, role, started_at, seen_at, state) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
             ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at, state = excluded.state",
            args![id, host, address, version, role, *started_at, now, state],
        )
        .await?;
        tx.execute("DELETE FROM nodes WHERE seen_at <= $1", args![now.saturating_sub(micros(NODE_KEPT))]).await?;
        tx.commit().await
    }

    /// The processes that were heard of in the last [`NODE_KEPT`], by machine and address.
    pub async fn list(self) -> Result<Vec<Node>> {
        let now = self.store.lease_now().await?;
        let sql = "SELECT id, host, address, version, role, started_at, seen_at, state FROM nodes WHERE seen_at > $1
                   ORDER BY host, address, started_at, id";
        let rows = self.store.db().all(sql, args![now.saturating_sub(micros(NODE_KEPT))]).await?;
        rows.iter()
            .map(|row| {
                let seen_at: Micros = row.get("seen_at")?;
                Ok(Node {
                    heartbeat: Heartbeat {
                        id: row.get("id")?,
                        host: row.get("host")?,
                        address: row.get("address")?,
                        version: row.get("version")?,
                        role: row.get("role")?,
                        started_at: row.get("started_at")?,
                        state: row.get("state")?,
                    },
                    seen_at,
                    silent_for: Duration::from_micros(now.saturating_sub(seen_at).max(0).unsigned_abs()),
                })
            })
            .collect()
    }

    /// Removes a process that ends.
    pub async fn remove(self, id: &str) -> Result<()> {
        self.store.db().execute("DELETE FROM nodes WHERE id = $1", args![id]).await.map(drop)
    }
}
