//! Small authenticated requests, as many as the machine gives, with the client on the same cores.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use hark_store::{NewTranscript, Store};
use hark_transcript::{Segment, TranscriptionResult};
use serde::Serialize;

use super::callers::{self, Caller, Times, request_until};
use super::server::{Server, Setting};
use super::{Measured, failed};
use crate::error::BenchError;
use crate::process::cpu_seconds_of;
use crate::spread::Spread;

const CONNECTIONS: usize = 32;
const ACCOUNTS: usize = 16;
/// Transcripts of each account: a full first page of the list.
const TRANSCRIPTS: usize = 20;

/// What is asked for; the last line asks for all in turn.
const MIXES: [(&str, &[&str]); 4] = [
    ("GET /v1/account", &["/v1/account"]),
    ("GET /v1/credits", &["/v1/credits"]),
    ("GET /v1/transcripts (20 of 20)", &["/v1/transcripts"]),
    ("all three in turn", &["/v1/account", "/v1/credits", "/v1/transcripts"]),
];

/// One line of the table.
#[derive(Debug, Serialize)]
pub(super) struct Line {
    pub(super) what: &'static str,
    pub(super) per_second: Spread,
    pub(super) p50_ms: Spread,
    pub(super) p99_ms: Spread,
    /// Processor time of a request in microseconds: a busy machine changes it less than it changes the time that passes.
    pub(super) server_cpu_us: Spread,
    pub(super) client_cpu_us: Spread,
    pub(super) refused: u64,
}

/// One measurement.
struct Round {
    times: Times,
    server_cpu_us: f64,
    client_cpu_us: f64,
}

/// Measures; each round asks for every mix.
pub(super) async fn run(folder: &Path, seconds: f64, rounds: usize) -> Result<Vec<Line>, BenchError> {
    let setting = Setting::sqlite(folder);
    let store = setting.store().await?;
    let callers = callers::create(&store, ACCOUNTS).await?;
    for caller in &callers {
        fill(&store, caller).await?;
    }
    store.close().await;
    let server = Server::start(&setting, &folder.join("log"))?;
    let span = Duration::from_secs_f64(seconds);
    let mut measured: Vec<Vec<Round>> = MIXES.iter().map(|_| Vec::new()).collect();
    // Statements are prepared and caches filled before anything counts.
    ask(server.address, &callers, MIXES[MIXES.len() - 1].1, Duration::from_secs(1))?;
    for _ in 0..rounds.max(1) {
        for ((_, paths), rounds) in MIXES.iter().zip(&mut measured) {
            let spent = || (server.cpu_seconds(), cpu_seconds_of(std::process::id()).unwrap_or_default());
            let before = spent();
            let times = ask(server.address, &callers, paths, span)?;
            let after = spent();
            let each = |seconds: f64| seconds * 1e6 / times.requests.max(1) as f64;
            let (server_cpu_us, client_cpu_us) = (each(after.0 - before.0), each(after.1 - before.1));
            rounds.push(Round { times, server_cpu_us, client_cpu_us });
        }
    }
    let lines = MIXES.iter().zip(measured).map(|((what, _), rounds)| {
        let of = |pick: fn(&Round) -> f64| Spread::of(rounds.iter().map(pick).collect()).ok_or(BenchError::NoRounds);
        Ok(Line {
            what,
            per_second: of(|round| round.times.per_second)?,
            p50_ms: of(|round| round.times.p50)?,
            p99_ms: of(|round| round.times.p99)?,
            server_cpu_us: of(|round| round.server_cpu_us)?,
            client_cpu_us: of(|round| round.client_cpu_us)?,
            refused: rounds.iter().map(|round| round.times.refused).sum(),
        })
    });
    lines.collect()
}

/// All clients on one thread: what it leaves of the cores is the server's.
fn ask(address: SocketAddr, callers: &[Caller], paths: &'static [&str], span: Duration) -> Measured<Times> {
    let callers = callers.to_vec();
    let clients = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        runtime.block_on(async {
            let begun = Instant::now();
            let clients: Vec<_> = (0..CONNECTIONS)
                .map(|number| {
                    let key = callers[number % callers.len()].key.clone();
                    tokio::spawn(async move { request_until(address, &key, paths, None, begun + span).await })
                })
                .collect();
            let mut seen = Vec::new();
            for client in clients {
                seen.push(client.await.map_err(failed)??);
            }
            Ok(Times::of(seen, begun.elapsed()))
        })
    });
    clients.join().unwrap_or_else(|_| Err(failed("the clients panicked")))
}

async fn fill(store: &Store, caller: &Caller) -> Result<(), BenchError> {
    let segment = Segment { end: 1.0, text: "nothing was heard".into(), ..Segment::default() };
    let result = TranscriptionResult {
        text: segment.text.clone(),
        language: "en".into(),
        duration: 1.0,
        segments: vec![segment],
        ..TranscriptionResult::default()
    };
    for number in 0..TRANSCRIPTS {
        let new = NewTranscript {
            title: format!("Meeting {number}"),
            source_type: "api".into(),
            language: "auto".into(),
            model: "instant".into(),
        };
        store.transcripts().save(caller.account, &new, &result, None).await.map_err(failed)?;
    }
    Ok(())
}
