//! A PostgreSQL of one's own, for tests and benches.
//!
//! In: an installed PostgreSQL. Out: addresses of empty databases on a server that listens on a Unix socket in a temporary folder and is gone with the
//! process that asked for it. None of its business: what is kept in them.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use sqlx::{Connection, Executor, PgConnection};

/// How long the server may take to start on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Why there is no database.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// No PostgreSQL on this machine.
    #[error("PostgreSQL is not installed; `./hark test` installs it")]
    Missing,
    /// A program of it could not do its part.
    #[error("the temporary PostgreSQL could not be set up: {0}")]
    SetUp(String),
    /// It was started and says no.
    #[error("the temporary PostgreSQL does not answer: {0}")]
    Silent(String),
}

/// A new empty database; gives its address. The first one starts the server.
pub async fn new_database() -> Result<String, Error> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!("hark_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let started = tokio::task::spawn_blocking(|| address("postgres")).await;
    let mut connection = connect(&started.map_err(|e| Error::SetUp(e.to_string()))??).await?;
    let created = connection.execute(format!("CREATE DATABASE {name}").as_str()).await;
    created.map_err(|e| Error::Silent(e.to_string()))?;
    address(&name)
}

/// Connects as soon as the server is up: for a moment it listens and refuses.
async fn connect(address: &str) -> Result<PgConnection, Error> {
    let begun = Instant::now();
    loop {
        match PgConnection::connect(address).await {
            Ok(connection) => return Ok(connection),
            Err(e) if begun.elapsed() > PATIENCE => return Err(Error::Silent(e.to_string())),
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

fn address(database: &str) -> Result<String, Error> {
    static CLUSTER: OnceLock<Result<PathBuf, Error>> = OnceLock::new();
    let folder = CLUSTER.get_or_init(start).clone()?;
    Ok(format!("postgres://hark@localhost/{database}?host={}", folder.display()))
}

/// The folder of the newest installed PostgreSQL's programs.
fn programs() -> Result<PathBuf, Error> {
    let installed = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> =
        installed.map(|e| e.path().join("bin")).filter(|p| p.join("initdb").exists()).collect();
    folders.sort();
    folders.pop().ok_or(Error::Missing)
}

/// PostgreSQL refuses to run as root; then an unprivileged user runs it. The signal ends it with this process.
fn unprivileged(owner: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "TERM"]);
    if is_root() {
        command.args(["--reuid", owner, "--regid", owner, "--clear-groups"]);
    }
    command
}

fn is_root() -> bool {
    // SAFETY: takes nothing and can't fail.
    unsafe { libc::geteuid() == 0 }
}

fn run(command: &mut Command) -> Result<(), Error> {
    let done = command.output().map_err(|e| Error::SetUp(format!("{command:?}: {e}")))?;
    if done.status.success() {
        return Ok(());
    }
    Err(Error::SetUp(format!("{command:?}: {}", String::from_utf8_lossy(&done.stderr))))
}

fn start() -> Result<PathBuf, Error> {
    let programs = programs()?;
    // Kept: the shell below removes it when the cluster has stopped.
    let folder = tempfile::Builder::new().prefix("hark-pg-").tempdir().map_err(|e| Error::SetUp(e.to_string()))?.keep();
    let owner = if Command::new("id").arg("postgres").output().is_ok_and(|o| o.status.success()) {
        "postgres"
    } else {
        "nobody"
    };
    if is_root() {
        run(Command::new("chown").arg(owner).arg(&folder))?;
    }
    run(unprivileged(owner)
        .arg(programs.join("initdb"))
        .args(["--auth=trust", "--username=hark", "--encoding=UTF8", "--locale=C", "--no-sync", "-D"])
        .arg(folder.join("data"))
        .env("LC_ALL", "C"))?;
    // The server is stopped and its folder removed whenever this process ends, however that happens. Durability against power failure is not what is tested
    // here, so the disk is not waited for.
    let script = r#"
        "$1/postgres" -D "$2/data" -k "$2" -c listen_addresses= -c fsync=off -c max_connections=400 -c shared_buffers=32MB >"$2/log" 2>&1 &
        server=$!
        trap 'kill -INT $server; wait $server; rm -rf "$2"; exit' TERM
        wait $server
        cat "$2/log" >&2
    "#;
    let mut server = unprivileged(owner);
    server.args(["sh", "-c", script, "sh"]).arg(&programs).arg(&folder).stdin(Stdio::null());
    // The death signal comes when the thread that started the child ends, so that must be one that stays.
    std::thread::spawn(move || server.status());
    Ok(folder)
}
