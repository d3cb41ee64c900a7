//! A large upload beside what `cat` does on the same disk, both until the bytes are on the disk (fsync).

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use serde::Serialize;

use super::client::{around, form_type, request, wav_header};
use super::server::{Server, Setting};
use super::{callers, failed};
use crate::error::BenchError;
use crate::spread::Spread;

/// What an upload came to.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) megabytes: u64,
    pub(super) cat_mb_per_second: Spread,
    pub(super) upload_mb_per_second: Spread,
    /// Of each round: the upload's speed over `cat`'s.
    pub(super) share: Spread,
    /// The same for an upload with an `Idempotency-Key`, which is hashed, too.
    pub(super) share_with_key: Spread,
    /// Processor time that the server spent on one upload.
    pub(super) server_cpu_seconds: Spread,
    pub(super) peak_memory_mb: f64,
}

/// Measures in rounds of both, in turn.
pub(super) async fn run(folder: &Path, megabytes: u64, rounds: usize) -> Result<Report, BenchError> {
    let setting = Setting::sqlite(folder);
    let store = setting.store().await?;
    let caller = callers::create(&store, 1).await?.swap_remove(0);
    store.close().await;
    let source = folder.join("recording.wav");
    make(&source, megabytes * 1_000_000)?;
    let server = Server::start(&setting, &folder.join("log"))?;
    let (mut cat, mut uploaded, mut share, mut spent) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut share_with_key = Vec::new();
    for round in 0..rounds.max(1) {
        let before = server.cpu_seconds();
        // Whoever goes second finds what the first left to the disk; so they take turns.
        let (copied, sent) = if round % 2 == 0 {
            let copied = copy(&source, &folder.join("copy"))?;
            (copied, send(server.address, &caller.key, &source, None)?)
        } else {
            let sent = send(server.address, &caller.key, &source, None)?;
            (copy(&source, &folder.join("copy"))?, sent)
        };
        let speed = |seconds: f64| megabytes as f64 / seconds;
        cat.push(speed(copied));
        uploaded.push(speed(sent));
        share.push(copied / sent);
        spent.push(server.cpu_seconds() - before);
        let sent = send(server.address, &caller.key, &source, Some(&format!("round {round}")))?;
        share_with_key.push(copied / sent);
    }
    let spread = |rounds| Spread::of(rounds).ok_or(BenchError::NoRounds);
    Ok(Report {
        megabytes,
        cat_mb_per_second: spread(cat)?,
        upload_mb_per_second: spread(uploaded)?,
        share: spread(share)?,
        share_with_key: spread(share_with_key)?,
        server_cpu_seconds: spread(spent)?,
        peak_memory_mb: server.memory("VmHWM:") as f64 / 1e6,
    })
}

/// A recording of that many bytes, which no disk can store in less.
fn make(path: &Path, bytes: u64) -> Result<(), BenchError> {
    let at = |source| BenchError::File { path: path.to_owned(), source };
    let mut file = std::io::BufWriter::new(File::create(path).map_err(at)?);
    let header = wav_header((bytes - 44) as u32, 48_000);
    file.write_all(&header).map_err(at)?;
    let mut block = vec![0u8; 1 << 20];
    getrandom::fill(&mut block).map_err(failed)?;
    let mut left = bytes - header.len() as u64;
    let mut number = 0u64;
    while left > 0 {
        number += 1;
        block[..8].copy_from_slice(&number.to_le_bytes());
        let length = left.min(block.len() as u64);
        file.write_all(&block[..length as usize]).map_err(at)?;
        left -= length;
    }
    file.into_inner().map_err(|error| at(error.into_error()))?.sync_all().map_err(at)
}

/// Lets the disk come to rest, so that nobody pays for what was written before.
fn settle() -> Result<(), BenchError> {
    Command::new("sync").status().map(drop).map_err(failed)
}

/// Seconds of `cat`, the file being on disk at the end.
fn copy(source: &Path, to: &Path) -> Result<f64, BenchError> {
    settle()?;
    let at = |source| BenchError::File { path: to.to_owned(), source };
    let begun = Instant::now();
    let file = File::create(to).map_err(at)?;
    let cat = Command::new("cat").arg(source).stdout(Stdio::from(file.try_clone().map_err(at)?)).status();
    if !cat.map_err(at)?.success() {
        return Err(failed("cat failed"));
    }
    file.sync_all().map_err(at)?;
    let seconds = begun.elapsed().as_secs_f64();
    std::fs::remove_file(to).map_err(at)?;
    Ok(seconds)
}

/// Seconds of an upload, up to the answer that promises its transcript.
fn send(address: SocketAddr, key: &str, source: &Path, idempotency: Option<&str>) -> Result<f64, BenchError> {
    settle()?;
    let at = |error| BenchError::File { path: source.to_owned(), source: error };
    let mut file = File::open(source).map_err(at)?;
    let length = file.metadata().map_err(at)?.len();
    let (before, after) = around("recording.wav");
    let total = (before.len() + after.len()) as u64 + length;
    let (kind, total) = (form_type(), total.to_string());
    let mut headers =
        vec![("content-type", kind.as_str()), ("content-length", total.as_str()), ("connection", "close")];
    headers.extend(idempotency.map(|name| ("idempotency-key", name)));
    // As a request without a body: its length is one of the headers.
    let head = request("GET", "/v1/transcribe?async=true", key, &headers, &[]);
    let head = [b"POST".as_slice(), &head[3..]].concat();
    let begun = Instant::now();
    let mut stream = TcpStream::connect(address).map_err(failed)?;
    stream.write_all(&[head, before].concat()).map_err(failed)?;
    // In the kernel, where it can be: the client should cost as little as it may.
    std::io::copy(&mut file, &mut stream).map_err(failed)?;
    stream.write_all(&after).map_err(failed)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(failed)?;
    let seconds = begun.elapsed().as_secs_f64();
    if !answer.starts_with("HTTP/1.1 202") {
        return Err(failed(format!("the upload was answered {answer}")));
    }
    // Disks fill up; the transcript may be done or not.
    let id: i64 =
        answer.split("\"id\":").nth(1).and_then(|rest| rest.split([',', '}']).next()?.parse().ok()).unwrap_or(0);
    let mut stream = TcpStream::connect(address).map_err(failed)?;
    let delete = request("DELETE", &format!("/v1/transcripts/{id}"), key, &[("connection", "close")], &[]);
    stream.write_all(&delete).map_err(failed)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(failed)?;
    match answer.starts_with("HTTP/1.1 200") {
        true => Ok(seconds),
        false => Err(failed(format!("the deletion was answered {answer}"))),
    }
}
