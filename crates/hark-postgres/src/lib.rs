//! A PostgreSQL of one's own, for tests and benches.
//!
//! In: an installed PostgreSQL. Out: addresses of empty databases on a server that listens on a Unix socket in a temporary folder, or one that takes only
//! encrypted connections with a password, and is gone with the process that asked for it. None of its business: what is kept in them.

mod pause;

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};

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
    let started = tokio::task::spawn_blocking(|| address("postgres")).await;
    let name = create_database(&started.map_err(|e| Error::SetUp(e.to_string()))??).await?;
    address(&name)
}

/// A database on a server of its own that wants TLS and a password.
pub struct Encrypted {
    /// Its address, without how to encrypt.
    pub address: String,
    /// The certificate of the authority that vouches for the server.
    pub authority: PathBuf,
}

/// Starts a server that takes connections over the network interface of this machine, with TLS and a password only.
pub async fn new_encrypted_database() -> Result<Encrypted, Error> {
    let started = tokio::task::spawn_blocking(start_encrypted).await;
    let (folder, port) = started.map_err(|e| Error::SetUp(e.to_string()))??;
    let name = create_database(&local_address(&folder, "postgres")).await?;
    let mut connection = connect(&local_address(&folder, &name)).await?;
    let sql = format!("CREATE ROLE walker LOGIN PASSWORD 'swordfish'; ALTER DATABASE {name} OWNER TO walker");
    connection.execute(AssertSqlSafe(sql)).await.map_err(|e| Error::Silent(e.to_string()))?;
    let address = format!("postgres://walker:swordfish@localhost:{port}/{name}");
    Ok(Encrypted { address, authority: folder.join("server.crt") })
}

/// A server of its own that a test may stop and start again.
pub struct Server {
    cluster: Cluster,
    database: String,
}

/// Starts a server beside the shared one.
pub async fn new_server() -> Result<Server, Error> {
    let started = tokio::task::spawn_blocking(|| {
        let cluster = Cluster::new()?;
        cluster.start(LOCAL)?;
        Ok(cluster)
    });
    let cluster = started.await.map_err(|e| Error::SetUp(e.to_string()))??;
    let database = create_database(&local_address(&cluster.folder, "postgres")).await?;
    Ok(Server { cluster, database })
}

impl Server {
    /// The address of its database.
    pub fn address(&self) -> String {
        local_address(&self.cluster.folder, &self.database)
    }

    /// Ends the server as a crash would; connections break, its data stay.
    pub fn stop(&self) -> Result<(), Error> {
        run(unprivileged(self.cluster.owner)
            .arg(self.cluster.programs.join("pg_ctl"))
            .args(["stop", "--mode=immediate", "-D"])
            .arg(self.cluster.folder.join("data")))
    }

    /// Starts it again and waits until it answers.
    pub async fn start(&self) -> Result<(), Error> {
        self.cluster.start(LOCAL)?;
        connect(&self.address()).await.map(drop)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A stopped server leaves its folder behind; one that runs removes it with this process.
        let _ = self.stop();
        let _ = std::fs::remove_dir_all(&self.cluster.folder);
    }
}

async fn create_database(server: &str) -> Result<String, Error> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!("hark_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let created = connect(server).await?.execute(AssertSqlSafe(format!("CREATE DATABASE {name}"))).await;
    created.map_err(|e| Error::Silent(e.to_string()))?;
    Ok(name)
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
    let folder = CLUSTER.get_or_init(start_local).clone()?;
    Ok(local_address(&folder, database))
}

fn local_address(folder: &Path, database: &str) -> String {
    format!("postgres://hark@localhost/{database}?host={}", folder.display())
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

/// Everybody on this machine may connect over the socket.
const LOCAL: &[&str] = &["-c", "listen_addresses="];

fn start_local() -> Result<PathBuf, Error> {
    Cluster::new()?.start(LOCAL)
}

/// A certificate for `localhost` that vouches for itself, and one rule: encrypted, with a password.
fn start_encrypted() -> Result<(PathBuf, u16), Error> {
    let cluster = Cluster::new()?;
    let (certificate, key) = (cluster.folder.join("server.crt"), cluster.folder.join("server.key"));
    run(unprivileged(cluster.owner)
        .args(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"])
        .args(["-addext", "subjectAltName=DNS:localhost", "-addext", "basicConstraints=critical,CA:FALSE", "-keyout"])
        .arg(&key)
        .arg("-out")
        .arg(&certificate))?;
    let rules =
        "local all hark trust\nhostssl all all 127.0.0.1/32 scram-sha-256\nhostssl all all ::1/128 scram-sha-256\n";
    std::fs::write(cluster.folder.join("data/pg_hba.conf"), rules).map_err(|e| Error::SetUp(e.to_string()))?;
    // Another program may take the port before the server does; a test then fails with what the server says.
    let free = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
    let port = free.map_err(|e| Error::SetUp(e.to_string()))?.port();
    let listen = format!("port={port}");
    let (certificate, key) =
        (format!("ssl_cert_file={}", certificate.display()), format!("ssl_key_file={}", key.display()));
    let options = ["-c", "listen_addresses=localhost", "-c", &listen, "-c", "ssl=on", "-c", &certificate, "-c", &key];
    let folder = cluster.start(&options)?;
    // The socket's name has the port in it; addresses of this crate name the usual one.
    std::os::unix::fs::symlink(format!(".s.PGSQL.{port}"), folder.join(".s.PGSQL.5432"))
        .map_err(|e| Error::SetUp(e.to_string()))?;
    Ok((folder, port))
}

/// A set of databases that no server runs on yet.
struct Cluster {
    programs: PathBuf,
    folder: PathBuf,
    owner: &'static str,
}

impl Cluster {
    fn new() -> Result<Self, Error> {
        let programs = programs()?;
        // Kept: the shell that runs the server removes it when the server has stopped.
        let folder =
            tempfile::Builder::new().prefix("hark-pg-").tempdir().map_err(|e| Error::SetUp(e.to_string()))?.keep();
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
        Ok(Cluster { programs, folder, owner })
    }

    /// Starts the server. It is stopped and its folder removed whenever this process ends, however that happens. Durability against power failure is not
    /// what is tested here, so the disk is not waited for.
    fn start(&self, options: &[&str]) -> Result<PathBuf, Error> {
        let script = r#"
            programs=$1 folder=$2
            shift 2
            "$programs/postgres" -D "$folder/data" -k "$folder" -c fsync=off -c max_connections=400 -c shared_buffers=32MB "$@" >"$folder/log" 2>&1 &
            server=$!
            trap 'kill -INT $server; wait $server; rm -rf "$folder"; exit' TERM
            wait $server
            cat "$folder/log" >&2
        "#;
        let mut server = unprivileged(self.owner);
        server
            .args(["sh", "-c", script, "sh"])
            .arg(&self.programs)
            .arg(&self.folder)
            .args(options)
            .stdin(Stdio::null());
        // The death signal comes when the thread that started the child ends, so that must be one that stays.
        std::thread::spawn(move || server.status());
        Ok(self.folder.clone())
    }
}
