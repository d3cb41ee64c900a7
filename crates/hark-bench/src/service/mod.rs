//! `hark bench service`: what the service costs around its engine, and what it survives.
//!
//! In: this machine, and a child process that is the service with an engine that answers at once. Out: a table and JSON. None
//! of its business: how fast anything is transcribed.

pub(super) mod callers;
mod client;
mod crowd;
mod faults;
mod kills;
mod overhead;
mod server;
mod show;
mod upload;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::error::BenchError;
use crate::print;
use server::Setting;

/// Arguments of `hark bench service`.
#[derive(Debug, Args)]
pub(super) struct ServiceArgs {
    /// What to measure
    #[arg(value_enum, default_values = ["overhead", "upload", "crowd"])]
    parts: Vec<Part>,
    /// Seconds of each measurement of requests
    #[arg(long, default_value_t = 5.0, value_name = "S")]
    seconds: f64,
    /// Rounds of each measurement
    #[arg(long, default_value_t = 3, value_name = "N")]
    rounds: usize,
    /// Size of the upload; 2000 is the largest that a plan allows
    #[arg(long, default_value_t = 2000, value_name = "MB", value_parser = clap::value_parser!(u64).range(1..=2000))]
    megabytes: u64,
    /// How long memory is watched
    #[arg(long, default_value_t = 60.0, value_name = "M")]
    minutes: f64,
    /// How often the service is killed on each database
    #[arg(long, default_value_t = 200, value_name = "N")]
    kills: u64,
    /// Faults to let happen on each database, after one of each kind by chance
    #[arg(long, default_value_t = 100, value_name = "N")]
    faults: u64,
    /// Kinds of faults, with commas
    #[arg(long, value_delimiter = ',', value_enum, default_values = ["disk", "database", "recordings", "bucket", "clock", "models", "kill"])]
    kinds: Vec<faults::Kind>,
    /// The longest outage of the database or the bucket, in seconds
    #[arg(long, default_value_t = 45.0, value_name = "S")]
    longest: f64,
    /// What decides which faults happen when [default: by chance, and printed]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Databases to kill it on, with commas
    #[arg(long, value_delimiter = ',', default_value = "sqlite,postgres", value_parser = ["sqlite", "postgres"])]
    databases: Vec<String>,
    /// Where databases and recordings are put [default: the system's folder for temporary files]
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Write the figures as JSON to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// The service itself, as the bench starts it
    #[arg(long, hide = true, value_name = "JSON")]
    child: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Small authenticated requests, as many as the machine gives
    Overhead,
    /// A large upload beside `cat`
    Upload,
    /// Idle, active and very slow clients at once
    Crowd,
    /// Memory under load over time
    Memory,
    /// kill -9 at random moments under load, and whether everything adds up afterwards
    Kills,
    /// Full disks, absent databases and recordings, wrong clocks: how soon it recovers, and whether everything adds up
    Faults,
}

/// What a measurement gives.
type Measured<T> = Result<T, BenchError>;

/// Everything that was measured.
#[derive(Debug, Default, Serialize)]
struct Report {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    overhead: Vec<overhead::Line>,
    #[serde(skip_serializing_if = "Option::is_none")]
    upload: Option<upload::Report>,
    #[serde(skip_serializing_if = "Option::is_none")]
    crowd: Option<crowd::Report>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<crowd::Memory>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    kills: Vec<kills::Report>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    faults: Vec<faults::Report>,
}

fn failed(error: impl std::fmt::Display) -> BenchError {
    BenchError::System { system: "the service".to_owned(), error: error.to_string() }
}

pub(super) fn run(args: &ServiceArgs) -> Result<(), BenchError> {
    hark_server::raise_file_limit();
    if let Some(told) = &args.child {
        let setting: Setting = serde_json::from_str(told).map_err(BenchError::Json)?;
        return server::serve(&setting);
    }
    if args.parts.contains(&Part::Faults) && faults::disk().is_none() {
        return inside(args);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(failed)?;
    let report = runtime.block_on(measure(args))?;
    if let Some(path) = &args.json {
        let text = serde_json::to_string_pretty(&report).map_err(BenchError::Json)?;
        std::fs::write(path, text + "\n").map_err(|source| BenchError::File { path: path.clone(), source })?;
    }
    let wrong = report.kills.iter().map(|report| &report.wrong).chain(report.faults.iter().map(|report| &report.wrong));
    match wrong.map(Vec::len).sum() {
        0 => Ok(()),
        wrong @ 1usize.. => Err(failed(format!("{wrong} things do not add up"))),
    }
}

/// The same once more, over a small disk that can be filled.
fn inside(args: &ServiceArgs) -> Result<(), BenchError> {
    let folder = scratch(args)?;
    // Recordings pile up from round to round.
    let megabytes = 64 + 4 * args.faults * args.databases.len() as u64;
    let status = faults::run_inside(folder.path(), megabytes)?;
    if status.success() { Ok(()) } else { Err(failed(format!("the bench ended with {status}"))) }
}

async fn measure(args: &ServiceArgs) -> Result<Report, BenchError> {
    let mut report = Report::default();
    for part in &args.parts {
        match part {
            Part::Overhead => {
                report.overhead = overhead::run(scratch(args)?.path(), args.seconds, args.rounds).await?;
                print(&show::overhead(&report.overhead))?;
            }
            Part::Upload => {
                let uploaded = upload::run(scratch(args)?.path(), args.megabytes, args.rounds).await?;
                print(&show::upload(report.upload.insert(uploaded)))?;
            }
            Part::Crowd => {
                let crowd = crowd::run(scratch(args)?.path(), args.seconds).await?;
                print(&show::crowd(report.crowd.insert(crowd)))?;
            }
            Part::Memory => {
                let memory = crowd::memory(scratch(args)?.path(), args.minutes).await?;
                print(&show::memory(report.memory.insert(memory)))?;
            }
            Part::Kills => {
                for database in &args.databases {
                    report.kills.push(kill(args, database).await?);
                }
            }
            Part::Faults => {
                for database in &args.databases {
                    report.faults.extend(fault(args, database).await?);
                }
            }
        }
    }
    Ok(report)
}

async fn kill(args: &ServiceArgs, database: &str) -> Measured<kills::Report> {
    let database = if database == "postgres" { "postgres" } else { "sqlite" };
    let folder = scratch(args)?;
    let killed = kills::run(database, args.kills, folder.path()).await?;
    print(&show::kills(&killed))?;
    if !killed.wrong.is_empty() {
        eprintln!("hark: what is left stays in {}", folder.keep().display());
    }
    Ok(killed)
}

async fn fault(args: &ServiceArgs, database: &str) -> Measured<Vec<faults::Report>> {
    let database = if database == "postgres" { "postgres" } else { "sqlite" };
    let disk = faults::disk().ok_or_else(|| failed("there is no small disk"))?;
    let seed = args.seed.unwrap_or_else(|| kills::random(1_000_000));
    let longest = std::time::Duration::from_secs_f64(args.longest.clamp(0.3, 600.0));
    let mut reports = Vec::new();
    for (has_bucket, kinds, rounds) in faults::runs(&args.kinds, args.faults) {
        let place = if has_bucket { "a bucket" } else { "a folder" };
        eprintln!("hark: {rounds} faults on {database}, recordings in {place}, --seed {seed}");
        let plan = faults::Plan { rounds, seed, kinds: &kinds, longest, has_bucket };
        let report = faults::run(database, &disk, &plan).await?;
        print(&show::faults(&report))?;
        reports.push(report);
    }
    Ok(reports)
}

fn scratch(args: &ServiceArgs) -> Result<tempfile::TempDir, BenchError> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("hark-bench-");
    match &args.folder {
        Some(folder) => builder.tempdir_in(folder),
        None => builder.tempdir(),
    }
    .map_err(failed)
}
