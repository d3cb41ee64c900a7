//! The service as a child process: the real one but for its engine, which hears nothing and answers at once.
//!
//! Only the bench starts it, by an option that no help shows; `hark serve` knows no such engine.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use hark_server::{Config, Engines, InstantEngine, NoModelsEngine, Role, Seconds, Service, StreamLimits};
use hark_store::{Clock, Options, Store};
use serde::{Deserialize, Serialize};

use super::{failed, faults};
use crate::error::BenchError;
use crate::process::{cpu_seconds_of, memory_of};

/// What `hark serve` logs without being asked: the bench pays for it, too.
const LOGS: &str = "warn,hark=info,hark_server=info";

/// What the child is told.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Setting {
    pub(super) database: String,
    pub(super) blobs: String,
    /// Milliseconds that a recording takes.
    pub(super) takes: u64,
    /// Seconds after which a silent worker counts as dead.
    pub(super) lease: f64,
    /// Seconds a client may be silent.
    pub(super) idle: f64,
    /// Seconds for which a live session waits for its client.
    pub(super) resume: f64,
    /// Whether its engine has models.
    pub(super) has_models: bool,
    /// The file with the offset of its clock, where it has one of its own.
    pub(super) clock: Option<PathBuf>,
}

impl Setting {
    /// A service over SQLite in a folder.
    pub(super) fn sqlite(folder: &Path) -> Self {
        let database = format!("sqlite://{}", folder.join("hark.db").display());
        Self::new(database, folder)
    }

    /// A service over a database, with its recordings in a folder.
    pub(super) fn new(database: String, folder: &Path) -> Self {
        let blobs = folder.join("blobs").display().to_string();
        Setting { database, blobs, takes: 0, lease: 30.0, idle: 60.0, resume: 120.0, has_models: true, clock: None }
    }

    /// The store that the child uses, from outside.
    pub(super) async fn store(&self) -> Result<Store, BenchError> {
        Store::open(Options::new(&self.database, &self.blobs)).await.map_err(failed)
    }
}

/// The child's side: serves until it is killed or its parent has gone.
pub(super) fn serve(setting: &Setting) -> Result<(), BenchError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(failed)?;
    runtime.block_on(async {
        let store = setting.store().await?;
        let config = Config {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            lease: Seconds(setting.lease),
            idle_timeout: Seconds(setting.idle),
            stream: StreamLimits { resume: Seconds(setting.resume), ..StreamLimits::default() },
            ..Config::default()
        };
        let engines: Engines = match setting.has_models {
            true => InstantEngine { takes: Duration::from_millis(setting.takes) }.into(),
            false => NoModelsEngine.into(),
        };
        let service = Service::start(store, engines, config, Role::All, Clock::system()).await.map_err(failed)?;
        let mut stdout = std::io::stdout();
        let told = stdout.write_all(format!("{}\n", service.address()).as_bytes()).and_then(|()| stdout.flush());
        told.map_err(BenchError::Pipe)?;
        // Standard input ends with the parent, however that ends.
        let gone = tokio::task::spawn_blocking(|| std::io::stdin().lines().count());
        let _ = gone.await;
        Ok(())
    })
}

/// The parent's side: the running child, killed when dropped.
pub(super) struct Server {
    child: Child,
    pub(super) address: SocketAddr,
}

/// A child that has not said where it listens.
pub(super) struct Starting(Option<Child>);

impl Starting {
    /// Starts a service; what it logs is added to `log`.
    pub(super) fn new(setting: &Setting, log: &Path) -> Result<Self, BenchError> {
        let at = |source| BenchError::File { path: PathBuf::from(log), source };
        let log = std::fs::OpenOptions::new().create(true).append(true).open(log).map_err(at)?;
        let start = |source| BenchError::Start { system: "the service".to_owned(), source };
        let told = serde_json::to_string(setting).map_err(BenchError::Json)?;
        let child = Command::new(crate::own_binary()?)
            .args(["service", "--child", &told])
            .env("RUST_LOG", LOGS)
            .envs(setting.clock.iter().flat_map(|clock| faults::clock_environment(clock)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .map_err(start)?;
        Ok(Starting(Some(child)))
    }

    /// Waits until it listens.
    pub(super) fn wait(mut self) -> Result<Server, BenchError> {
        let Some(mut child) = self.0.take() else { return Err(failed("the service was started before")) };
        let mut line = String::new();
        let read = child.stdout.take().map(|stdout| BufReader::new(stdout).read_line(&mut line));
        match line.trim().parse() {
            Ok(address) => Ok(Server { child, address }),
            Err(_) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(failed(format!("the service did not start ({read:?} {line:?})")))
            }
        }
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Server {
    /// Starts a service and waits until it listens.
    pub(super) fn start(setting: &Setting, log: &Path) -> Result<Self, BenchError> {
        Starting::new(setting, log)?.wait()
    }

    /// A line of the child's memory in bytes: `VmRSS:` is now, `VmHWM:` the most so far.
    pub(super) fn memory(&self, line: &str) -> u64 {
        memory_of(self.child.id(), line).unwrap_or_default()
    }

    /// Processor seconds that the child has spent so far.
    pub(super) fn cpu_seconds(&self) -> f64 {
        cpu_seconds_of(self.child.id()).unwrap_or_default()
    }

    /// Whether it still runs.
    pub(super) fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Server {
    /// SIGKILL: nothing of the child runs after it.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
