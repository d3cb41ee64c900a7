//! Many connections: a thousand that say nothing, two hundred that work, and those that are so slow that a server might wait for
//! them.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::callers::{self, Caller, Times, request_until};
use super::client::{Connection, request, upload, wav};
use super::server::{Server, Setting};
use super::{Measured, failed};

const IDLE: usize = 1000;
const ACTIVE: usize = 200;
/// How often an active client asks: together a load that leaves the machine room, so that waiting shows.
const BEAT: Duration = Duration::from_millis(100);
const SLOW: usize = 100;
const PATHS: [&str; 3] = ["/v1/account", "/v1/credits", "/v1/transcripts"];
/// Requests that a slow reader sends at once: their answers fill every buffer on the way, so that the server's writes wait.
const PIPELINED: usize = 100;

/// What a crowd did to those who work.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) idle: usize,
    pub(super) active: usize,
    pub(super) slow_uploads: usize,
    pub(super) slow_readers: usize,
    pub(super) alone: Times,
    pub(super) with_idle: Times,
    pub(super) with_idle_and_slow: Times,
    /// Slow ones that were still connected at the end.
    pub(super) slow_alive: usize,
    pub(super) idle_alive: usize,
    pub(super) memory_mb: f64,
    pub(super) peak_memory_mb: f64,
}

/// The memory of a busy server over time.
#[derive(Debug, Serialize)]
pub(super) struct Memory {
    pub(super) minutes: f64,
    pub(super) requests: usize,
    pub(super) uploads: u64,
    pub(super) refused: u64,
    /// Megabytes after the first tenth of the time, when caches are warm.
    pub(super) first_mb: f64,
    pub(super) last_mb: f64,
    pub(super) peak_mb: f64,
    /// Megabytes over time, at equal distances.
    pub(super) series_mb: Vec<f64>,
}

async fn prepare(setting: &Setting) -> Measured<Vec<Caller>> {
    let store = setting.store().await?;
    let callers = callers::create(&store, SLOW).await?;
    store.close().await;
    Ok(callers)
}

/// Measures those who work: alone, beside the idle, beside the idle and the slow.
pub(super) async fn run(folder: &Path, seconds: f64) -> Measured<Report> {
    let setting = Setting::sqlite(folder);
    let callers = prepare(&setting).await?;
    let server = Server::start(&setting, &folder.join("log"))?;
    let (address, span) = (server.address, Duration::from_secs_f64(seconds));
    let alone = work(address, &callers, ACTIVE, span).await?;
    let mut idle = Vec::new();
    for number in 0..IDLE {
        let mut connection = Connection::open(address).await.map_err(failed)?;
        // Each has been of use once: a connection that never asked is another thing.
        let bytes = request("GET", "/v1/credits", &callers[number % callers.len()].key, &[], &[]);
        connection.ask(&bytes).await.map_err(failed)?;
        idle.push(connection);
    }
    let with_idle = work(address, &callers, ACTIVE, span).await?;
    let mut slow = JoinSet::new();
    for caller in &callers {
        slow.spawn(send_slowly(address, caller.key.clone()));
        slow.spawn(read_slowly(address));
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    let with_idle_and_slow = work(address, &callers, ACTIVE, span).await?;
    let mut gone = 0;
    while let Some(ended) = slow.try_join_next() {
        gone += 1;
        if let Ok(Err(error)) = ended {
            eprintln!("hark: a slow client ended: {error}");
        }
    }
    let memory_mb = server.memory("VmRSS:") as f64 / 1e6;
    slow.abort_all();
    let mut idle_alive = 0;
    for connection in &mut idle {
        let bytes = request("GET", "/v1/credits", &callers[0].key, &[], &[]);
        idle_alive += usize::from(connection.ask(&bytes).await.is_ok_and(|answer| answer.status == 200));
    }
    Ok(Report {
        idle: IDLE,
        active: ACTIVE,
        slow_uploads: SLOW,
        slow_readers: SLOW,
        alone,
        with_idle,
        with_idle_and_slow,
        slow_alive: 2 * SLOW - gone,
        idle_alive,
        memory_mb,
        peak_memory_mb: server.memory("VmHWM:") as f64 / 1e6,
    })
}

/// Active clients for a while.
async fn work(address: SocketAddr, callers: &[Caller], clients: usize, span: Duration) -> Measured<Times> {
    let begun = Instant::now();
    let mut active = JoinSet::new();
    for number in 0..clients {
        let key = callers[number % callers.len()].key.clone();
        active.spawn(async move { request_until(address, &key, &PATHS, Some(BEAT), begun + span).await });
    }
    let mut seen = Vec::new();
    while let Some(client) = active.join_next().await {
        seen.push(client.map_err(failed)??);
    }
    Ok(Times::of(seen, begun.elapsed()))
}

/// An upload of a byte a second.
async fn send_slowly(address: SocketAddr, key: String) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    let bytes = upload("/v1/transcribe", &key, &[], "slow.wav", &wav(1, 8000));
    let head = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or(0) + 4;
    stream.write_all(&bytes[..head]).await?;
    for byte in &bytes[head..] {
        stream.write_all(&[*byte]).await?;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    Ok(())
}

/// Answers read at a byte a second, while the server has more to write.
async fn read_slowly(address: SocketAddr) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    let requests = request("GET", "/openapi.json", "none", &[], &[]).repeat(PIPELINED);
    stream.write_all(&requests).await?;
    let mut byte = [0];
    while stream.read(&mut byte).await? > 0 {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    Err(std::io::ErrorKind::UnexpectedEof.into())
}

/// Clients that ask, and others that send recordings and delete them, for as long as wished.
pub(super) async fn memory(folder: &Path, minutes: f64) -> Measured<Memory> {
    const CLIENTS: usize = 50;
    const SENDERS: usize = 4;
    const SAMPLES: usize = 20;
    let setting = Setting::sqlite(folder);
    let callers = prepare(&setting).await?;
    let server = Server::start(&setting, &folder.join("log"))?;
    let (address, span) = (server.address, Duration::from_secs_f64(minutes * 60.0));
    let end = Instant::now() + span;
    let senders: Vec<_> = callers[..SENDERS]
        .iter()
        .map(|caller| {
            let key = caller.key.clone();
            tokio::spawn(async move { send_and_delete(address, &key, end).await })
        })
        .collect();
    let clients = {
        let callers = callers.clone();
        tokio::spawn(async move { work(address, &callers, CLIENTS, span).await })
    };
    let mut series_mb = Vec::new();
    for _ in 0..SAMPLES {
        tokio::time::sleep(span / SAMPLES as u32).await;
        series_mb.push(server.memory("VmRSS:") as f64 / 1e6);
    }
    let times = clients.await.map_err(failed)??;
    let (mut uploads, mut refused) = (0, times.refused);
    for sender in senders {
        let (sent, no) = sender.await.map_err(failed)??;
        uploads += sent;
        refused += no;
    }
    Ok(Memory {
        minutes,
        requests: times.requests,
        uploads,
        refused,
        first_mb: series_mb[SAMPLES / 10 - 1],
        last_mb: series_mb[SAMPLES - 1],
        peak_mb: server.memory("VmHWM:") as f64 / 1e6,
        series_mb,
    })
}

/// One recording after the other; gives how many, and how many answers were no success.
async fn send_and_delete(address: SocketAddr, key: &str, end: Instant) -> Measured<(u64, u64)> {
    let mut connection = Connection::open(address).await.map_err(failed)?;
    let recording = wav(61, 8000);
    let (mut sent, mut refused) = (0, 0);
    while Instant::now() < end {
        let bytes = upload("/v1/transcribe", key, &[], "talk.wav", &recording);
        let answer = connection.ask(&bytes).await.map_err(failed)?;
        sent += 1;
        refused += u64::from(answer.status != 200);
        if let Some(id) = answer.header("x-transcript-id") {
            let bytes = request("DELETE", &format!("/v1/transcripts/{id}"), key, &[], &[]);
            refused += u64::from(connection.ask(&bytes).await.map_err(failed)?.status != 200);
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    Ok((sent, refused))
}
