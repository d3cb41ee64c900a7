//! `hark bench live`: real speech at the pace of speech through N callers at once.
//!
//! Each caller replays clips joined in an order of its own, in frames of 2730 bytes, as a microphone would, over a
//! WebSocket of its own to a real server on loopback. What it is shown is kept with its time; words are then held
//! against the times that the same model finds in the whole recording. Offline and live hear the same sound, so their word
//! error rates compare. A peer hears the same callers in the same run.

mod figures;
mod inside;
mod line;
mod server;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use hark_media::Source;
use hark_speech::{Compute, EngineStats, LoadOptions, Transcriber};
use serde::Serialize;

use super::BenchError;
use super::audio::{RATE, Recording, Scratch, WavWriter, recordings, samples_of};
use super::report::aligned;
use super::systems;
use super::wer::WordErrors;
use figures::{Figures, Shown, TimedWord};
use hark_models::Role;
use server::Server;

pub(crate) use server::start as start_server;

/// Bytes of a frame, as the contract recommends.
const FRAME_BYTES: usize = 2730;
/// Threads that replay the callers: hundreds of them take more than one.
const CALLER_THREADS: usize = 4;
/// Silence between two clips, in seconds.
const PAUSE: f64 = 0.8;

/// Arguments of `hark bench live`.
#[derive(Debug, Args)]
pub(super) struct LiveArgs {
    /// Folder of WAV clips with their references
    #[arg(long, value_name = "PATH", default_value = "bench/out/corpus/clips")]
    audio: PathBuf,
    /// Lines of a file name without .wav, a tab, and its words [default: refs.tsv beside the clips]
    #[arg(long, value_name = "FILE")]
    refs: Option<PathBuf>,
    /// Model of all sessions
    #[arg(long, value_name = "NAME", default_value = "whisper-base")]
    model: String,
    /// Callers at once; several numbers are measured one after the other
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1,8")]
    streams: Vec<usize>,
    /// Seconds of speech of each caller
    #[arg(long, value_name = "S", default_value_t = 120.0)]
    seconds: f64,
    /// Language spoken; the word error rate knows English only
    #[arg(long, value_name = "CODE", default_value = "en")]
    language: String,
    /// Threads that compute [default: all cores]
    #[arg(long)]
    threads: Option<usize>,
    /// Sessions in this process instead of callers of a server
    #[arg(long)]
    inside: bool,
    /// Callers of WhisperLive, measured behind Hark in the same run; `bench/live-peer.sh` installs it
    #[arg(long, value_name = "N", value_delimiter = ',')]
    peer_streams: Vec<usize>,
    /// Write the figures as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// What one caller says: the sound, and its words.
struct Script {
    samples: Vec<f32>,
    reference: String,
    /// The words that the model finds in the whole, with their times.
    offline: Vec<TimedWord>,
    offline_text: String,
}

/// One line of the table.
#[derive(Debug, Serialize)]
struct Row {
    system: String,
    streams: usize,
    #[serde(flatten)]
    figures: Figures,
    /// Word error rate of the texts that stay.
    live_wer: Option<f64>,
    /// Word error rate of the same recordings transcribed as files.
    offline_wer: Option<f64>,
    /// Processor seconds of the server for a second of the run, and its memory.
    cores: Option<f64>,
    memory_bytes: Option<u64>,
}

fn failed(error: impl std::fmt::Display) -> BenchError {
    BenchError::System { system: "live".to_owned(), error: error.to_string() }
}

/// Callers do not begin at the same moment.
fn delay(caller: usize) -> Duration {
    Duration::from_secs_f64(caller as f64 * 0.37 % 2.0)
}

pub(super) fn run(args: &LiveArgs) -> Result<(), BenchError> {
    let clips: Vec<Recording> = recordings(std::slice::from_ref(&args.audio), args.refs.as_deref())?
        .into_iter()
        .filter(|clip| clip.reference.is_some())
        .collect();
    if clips.is_empty() {
        return Err(BenchError::NoAudio { place: args.audio.clone() });
    }
    let model = systems::installed(&args.model)?;
    let options = LoadOptions {
        compute: Some(Compute::from_options(args.threads, None)),
        ..LoadOptions::new(model.clone(), systems::installed_for(Role::Vad)?)
    };
    let transcriber = Transcriber::load(&options).map_err(failed)?;
    let backend = transcriber.backend_name();
    let most = args.streams.iter().chain(&args.peer_streams).copied().max().unwrap_or(1);
    let scratch = Scratch::new()?;
    let mut scripts: Vec<Arc<Script>> = Vec::with_capacity(most);
    // Of more callers than there are clips several say the same.
    let mut last = None;
    for stream in 0..most {
        let first = stream * clips.len() / most;
        if last != Some(first) {
            eprintln!("transcribing the recording of caller {} of {most} as a file", stream + 1);
            scripts.push(Arc::new(script(&transcriber, args, &clips, first, &scratch)?));
        } else if let Some(same) = scripts.last().map(Arc::clone) {
            scripts.push(same);
        }
        last = Some(first);
    }

    let (mut rows, mut stats) = (Vec::new(), None);
    let before = transcriber.stats();
    if args.inside {
        for &streams in &args.streams {
            eprintln!("{streams} sessions at once, {:.0} s", args.seconds);
            let shown = inside::replay_all(&transcriber, &args.language, &scripts[..streams])?;
            rows.push(row("hark, inside", &shown, &scripts[..streams]));
        }
        stats = Some(costs(&before, &transcriber.stats()));
    }
    // The servers have the machine for themselves.
    drop(transcriber);
    let folder = tempfile::tempdir().map_err(failed)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(CALLER_THREADS)
        .enable_all()
        .build()
        .map_err(failed)?;
    if !args.inside {
        let start = Server::hark(folder.path(), &args.model, most, args.threads);
        let server = runtime.block_on(start)?;
        for &streams in &args.streams {
            rows.push(over_sockets(&runtime, args, "hark serve", &server, &scripts[..streams])?);
        }
    }
    if !args.peer_streams.is_empty() {
        let server = peer(folder.path(), &model, args.threads)?;
        for &streams in &args.peer_streams {
            rows.push(over_sockets(&runtime, args, "WhisperLive", &server, &scripts[..streams])?);
        }
    }
    let text = format!("{}{}", table(args, &backend, &rows), stats.unwrap_or_default());
    crate::print(&text)?;
    if let Some(path) = &args.json {
        let text = serde_json::to_string_pretty(&rows).map_err(BenchError::Json)?;
        std::fs::write(path, text).map_err(|source| BenchError::File { path: path.clone(), source })?;
    }
    Ok(())
}

/// The peer over the same weights, if it is installed.
fn peer(folder: &Path, model: &Path, threads: Option<usize>) -> Result<Server, BenchError> {
    let bench = systems::bench_folder().ok_or_else(|| failed("the bench folder is not here: set HARK_BENCH"))?;
    let venv = std::env::var_os("HARK_LIVE_PEER_VENV").map_or_else(|| bench.join(".live-venv"), PathBuf::from);
    let python = venv.join("bin/python");
    if !python.exists() {
        return Err(failed(format!("WhisperLive is not installed in {}: run bench/live-peer.sh", venv.display())));
    }
    let threads = threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    Server::whisper_live(folder, &python, &bench.join("live_peer.py"), model, threads)
}

fn over_sockets(
    runtime: &tokio::runtime::Runtime,
    args: &LiveArgs,
    system: &str,
    server: &Server,
    scripts: &[Arc<Script>],
) -> Result<Row, BenchError> {
    eprintln!("{system}: {} callers at once, {:.0} s", scripts.len(), args.seconds);
    // The first caller of all waits until the model is loaded, which is not what is measured.
    runtime.block_on(line::warm_up(&server.listener, &args.language))?;
    let (cpu, begun) = (server.cpu_seconds(), std::time::Instant::now());
    let shown = runtime.block_on(line::replay_all(&server.listener, &args.language, scripts))?;
    let cores = (server.cpu_seconds() - cpu) / begun.elapsed().as_secs_f64();
    Ok(Row { cores: Some(cores), memory_bytes: Some(server.memory()), ..row(system, &shown, scripts) })
}

/// Clips from `first` on, joined with pauses until they last long enough, and what the model makes of them as a file.
fn script(
    transcriber: &Transcriber,
    args: &LiveArgs,
    clips: &[Recording],
    first: usize,
    scratch: &Scratch,
) -> Result<Script, BenchError> {
    let (mut samples, mut words) = (Vec::new(), Vec::new());
    let wanted = (args.seconds * f64::from(RATE)) as usize;
    for clip in clips.iter().cycle().skip(first) {
        if samples.len() >= wanted {
            break;
        }
        samples.extend(samples_of(&clip.path)?);
        samples.extend(vec![0.0; (PAUSE * f64::from(RATE)) as usize]);
        words.extend(clip.reference.clone());
    }
    let path = scratch.file("recording.wav");
    let mut file = WavWriter::create(&path, samples.len() as u64)?;
    file.write(&samples)?;
    file.finish()?;
    let request = hark_speech::Request { language: Some(args.language.clone()), ..hark_speech::Request::default() };
    let heard = transcriber.transcribe(Source::Path(path), &request, &mut |_| {}).map_err(failed)?.result;
    let timed = heard.segments.iter().flat_map(|segment| &segment.words);
    let offline = timed.map(|word| TimedWord { text: word.word.clone(), end: word.end }).collect();
    Ok(Script { samples, reference: words.join(" "), offline, offline_text: heard.text })
}

/// Adds up what the callers of these scripts were shown.
fn row(system: &str, shown: &[Shown], scripts: &[Arc<Script>]) -> Row {
    let mut figures = figures::Gathered::default();
    let (mut live, mut offline) = (WordErrors::default(), WordErrors::default());
    for (shown, script) in shown.iter().zip(scripts) {
        live += WordErrors::between(&script.reference, &shown.text());
        offline += WordErrors::between(&script.reference, &script.offline_text);
        figures.add(shown, &script.offline);
    }
    let rate = |errors: WordErrors| errors.rate().map(|rate| rate * 100.0);
    Row {
        system: system.to_owned(),
        streams: scripts.len(),
        figures: figures.figures(),
        live_wer: rate(live),
        offline_wer: rate(offline),
        cores: None,
        memory_bytes: None,
    }
}

fn table(args: &LiveArgs, backend: &str, rows: &[Row]) -> String {
    let head = [
        "system",
        "callers",
        "seen p50",
        "p95",
        "stays p50",
        "p95",
        "rewrites/word",
        "WER live",
        "file",
        "cores",
        "memory",
    ];
    let mut lines = vec![head.map(str::to_owned)];
    for row in rows {
        let rate = |rate: Option<f64>| rate.map_or("–".to_owned(), |rate| format!("{rate:.1} %"));
        let Figures { seen_p50, seen_p95, stays_p50, stays_p95, rewrites, .. } = row.figures;
        lines.push([
            row.system.clone(),
            row.streams.to_string(),
            format!("{seen_p50:.2} s"),
            format!("{seen_p95:.2} s"),
            format!("{stays_p50:.2} s"),
            format!("{stays_p95:.2} s"),
            format!("{rewrites:.2}"),
            rate(row.live_wer),
            rate(row.offline_wer),
            row.cores.map_or("–".to_owned(), |cores| format!("{cores:.2}")),
            row.memory_bytes.map_or("–".to_owned(), |bytes| format!("{} MB", bytes >> 20)),
        ]);
    }
    format!(
        "{}, {backend}, {:.0} s of speech of each caller, load {}\nseconds from the end of a word until it is seen for good, and until it is told as text that stays\n\n{}",
        args.model,
        args.seconds,
        load(),
        aligned(&lines)
    )
}

/// Where the engine's time went between two moments.
fn costs(before: &EngineStats, after: &EngineStats) -> String {
    let mut lines = vec![["the engine's work", "times", "each", "together"].map(str::to_owned)];
    let works = [
        ("encoding windows", before.encoded, after.encoded),
        ("steps with prompts", before.prompted, after.prompted),
        ("steps of single tokens", before.stepped, after.stepped),
        ("aligning words", before.aligned, after.aligned),
    ];
    for (name, before, after) in works {
        let (times, took) = (after.0 - before.0, after.1.saturating_sub(before.1).as_secs_f64());
        let each = took * 1000.0 / times.max(1) as f64;
        lines.push([name.to_owned(), times.to_string(), format!("{each:.1} ms"), format!("{took:.1} s")]);
    }
    format!("\n{}", aligned(&lines))
}

/// What runs on the machine besides, as the system counts it over a minute.
fn load() -> String {
    let told = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    told.split(' ').next().unwrap_or_default().to_owned()
}
