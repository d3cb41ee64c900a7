//! The service and its dependencies, into which faults are injected.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::watch;

use super::s3::S3;
use crate::error::BenchError;
use crate::service::failed;
use crate::service::server::{Server, Setting};

/// The database.
pub(super) enum Database {
    Sqlite(PathBuf),
    Postgres(hark_postgres::Server),
}

/// A running service with its dependencies.
pub(super) struct Deployment {
    /// The small disk with the recordings, and with the database if it is SQLite.
    pub(super) disk: PathBuf,
    pub(super) log: PathBuf,
    pub(super) setting: Setting,
    pub(super) database: Database,
    /// The bucket of the recordings, where they are in one.
    pub(super) s3: Option<S3>,
    /// The offset of the first node's clock.
    pub(super) clock: PathBuf,
    /// Running processes of the service; none where one was killed.
    pub(super) nodes: Vec<Option<Server>>,
    /// Their addresses, for the users.
    pub(super) addresses: watch::Sender<Vec<SocketAddr>>,
}

impl Deployment {
    /// The folder of the recordings.
    pub(super) fn recordings(&self) -> PathBuf {
        PathBuf::from(&self.setting.blobs)
    }

    /// Starts a node and announces its address.
    pub(super) async fn start(&mut self, node: usize) -> Result<(), BenchError> {
        let clock = (node == 0 && super::clock::library().is_some()).then(|| self.clock.clone());
        let setting = Setting { clock, ..self.setting.clone() };
        let log = self.log.clone();
        // Blocking: starting waits for the child.
        let started = tokio::task::spawn_blocking(move || Server::start(&setting, &log)).await.map_err(failed)??;
        self.nodes[node] = Some(started);
        self.announce();
        Ok(())
    }

    /// Kills a node with SIGKILL.
    pub(super) fn kill(&mut self, node: usize) {
        self.nodes[node] = None;
        self.announce();
    }

    /// Kills every node and starts it again.
    pub(super) async fn restart(&mut self) -> Result<(), BenchError> {
        for node in 0..self.nodes.len() {
            self.kill(node);
            self.start(node).await?;
        }
        Ok(())
    }

    fn announce(&self) {
        let running = self.nodes.iter().flatten().map(|server| server.address).collect();
        let _ = self.addresses.send(running);
    }
}

/// Keeps a fault active for this long while the users continue.
pub(super) async fn hold(time: Duration) {
    tokio::time::sleep(time).await;
}
