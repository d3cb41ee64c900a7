//! The servers that callers speak to, as child processes: `hark serve` itself, and the peer that `bench/live-peer.sh`
//! installed.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use hark_store::{Options, Store};

use super::failed;
use super::line::Listener;
use crate::BenchError;
use crate::process::{cpu_seconds_of, memory_of};
use crate::service::callers;

/// A server that listens; killed when dropped.
pub(super) struct Server {
    child: Child,
    pub(super) listener: Listener,
}

impl Server {
    /// `hark serve` over an empty folder, with an account for each caller.
    pub(super) async fn hark(
        folder: &Path,
        model: &str,
        callers: usize,
        threads: Option<usize>,
    ) -> Result<Self, BenchError> {
        let data = folder.join("data");
        std::fs::create_dir_all(&data).map_err(failed)?;
        let (database, blobs) = (format!("sqlite://{}", data.join("hark.db").display()), data.join("blobs"));
        let store = Store::open(Options::new(database, blobs.display().to_string())).await.map_err(failed)?;
        let keys = callers::create(&store, callers).await?.into_iter().map(|caller| caller.key).collect();
        store.close().await;
        let limits = format!("[server.stream]\nsessions = {}\n", callers + 1);
        std::fs::write(folder.join("hark.toml"), limits).map_err(failed)?;
        let mut command = Command::new(crate::hark_binary()?);
        command.arg("serve").args(["--listen", "127.0.0.1:0"]).arg("--data").arg(&data).current_dir(folder);
        command.args(threads.iter().flat_map(|threads| ["--threads".to_owned(), threads.to_string()]));
        let (child, address) = start(command, &folder.join("hark.log"), |line| {
            line.strip_prefix("hark listens on http://").map(str::to_owned)
        })?;
        Ok(Server { child, listener: Listener::Hark { address, keys, model: model.to_owned() } })
    }

    /// WhisperLive over the same weights, its batches on.
    pub(super) fn whisper_live(
        folder: &Path,
        python: &Path,
        driver: &Path,
        model: &Path,
        threads: usize,
    ) -> Result<Self, BenchError> {
        let mut command = Command::new(python);
        command.arg(driver).arg(model).env("OMP_NUM_THREADS", threads.to_string());
        let (child, address) =
            start(command, &folder.join("peer.log"), |line| line.strip_prefix("listens on ").map(str::to_owned))?;
        Ok(Server { child, listener: Listener::WhisperLive { address } })
    }

    /// Processor seconds spent so far.
    pub(super) fn cpu_seconds(&self) -> f64 {
        cpu_seconds_of(self.child.id()).unwrap_or_default()
    }

    /// The most memory it had, in bytes.
    pub(super) fn memory(&self) -> u64 {
        memory_of(self.child.id(), "VmHWM:").unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a child and reads its output until it says where it listens.
pub(crate) fn start(
    mut command: Command,
    log: &Path,
    address: impl Fn(&str) -> Option<String>,
) -> Result<(Child, SocketAddr), BenchError> {
    let file = std::fs::File::create(log).map_err(|source| BenchError::File { path: log.to_owned(), source })?;
    let started = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(file).spawn();
    let mut child = started.map_err(|source| BenchError::Start { system: "the server".to_owned(), source })?;
    let lines = child.stdout.take().map(BufReader::new).into_iter().flat_map(BufReader::lines);
    let said = lines.map_while(Result::ok).find_map(|line| address(&line));
    match said.and_then(|said| said.trim().parse().ok()) {
        Some(address) => Ok((child, address)),
        None => {
            let _ = child.kill();
            let _ = child.wait();
            let told = std::fs::read_to_string(log).unwrap_or_default();
            let last: Vec<&str> = told.lines().rev().take(3).collect();
            Err(failed(format!("the server did not start: {}", last.join(" / "))))
        }
    }
}
