//! `hark bench diarize`: who spoke when, by Hark and by the peers here, against references.
//!
//! In: WAV files with an RTTM file of the same name beside each. Out: a table and JSON. Files are told apart by their
//! folder and the first part of their name (`heldout/talk`, `meetings`), since they differ in kind.

mod driver;
mod live;
mod reference;
mod report;
mod score;

use std::{
    collections::BTreeMap,
    io::Write,
    path::{Path, PathBuf},
    process::Command,
};

use super::{
    BenchError,
    audio::Scratch,
    process::Process,
    protocol::Request,
    systems::{self, NotRun},
};
pub use driver::{DiarizeDriverArgs, run as run_driver};
use reference::Conversation;
use report::{DiarizeReport, Figures, Measured};
use score::Span;

/// Options of `hark bench diarize`.
#[derive(Debug, clap::Args)]
pub struct DiarizeArgs {
    /// WAV files with an RTTM file beside each, or folders of them [default: heldout and meetings of bench/out/conversations]
    #[arg(long, num_args = 1.., value_name = "PATH")]
    audio: Vec<PathBuf>,

    /// auto, none, or senko
    #[arg(long, default_value = "auto", value_name = "LIST")]
    peers: String,

    /// Tell everybody how many speak (Hark only; senko can't be told)
    #[arg(long)]
    given: bool,

    /// Also transcribe with this model and count the words under the right speaker (Hark only)
    #[arg(long, value_name = "MODEL")]
    words: Option<String>,

    /// Also hear every recording in a live session of this model and count the words under the right speaker, as told and at the end (Hark only)
    #[arg(long, value_name = "MODEL")]
    live: Option<String>,

    /// Times that everything is measured; the speed is the best of them
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,

    /// Threads for everybody [default: all cores]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,

    /// Write the figures as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// A system that can be started.
struct Contestant {
    name: String,
    is_hark: bool,
    command: Command,
}

/// Runs every system over all files, prints the table and writes what was asked for.
pub fn run(args: &DiarizeArgs) -> Result<(), BenchError> {
    let bench = systems::bench_folder();
    let out = bench.clone().unwrap_or_else(|| PathBuf::from("bench")).join("out/conversations");
    let named =
        if args.audio.is_empty() { vec![out.join("heldout"), out.join("meetings")] } else { args.audio.clone() };
    let conversations = reference::conversations(&named)?;
    let threads = args.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let (contestants, mut not_run) = contestants(args, threads, bench.as_deref())?;
    let scratch = Scratch::new()?;
    let mut systems = Vec::new();
    for contestant in contestants {
        let (name, is_hark) = (contestant.name.clone(), contestant.is_hark);
        match measure(contestant, &conversations, args, &scratch) {
            Ok(measured) => systems.push(measured),
            // Hark failing is the user's error to see; a peer failing must not stop the rest.
            Err(error) if is_hark => return Err(error),
            Err(error) => not_run.push(NotRun { name, why: error.to_string() }),
        }
    }
    let report = DiarizeReport { threads, rounds: args.rounds, systems, not_run };
    std::io::stdout().write_all(report.table().as_bytes()).map_err(BenchError::Pipe)?;
    if let Some(path) = &args.json {
        let json = serde_json::to_string_pretty(&report).map_err(BenchError::Json)? + "\n";
        std::fs::write(path, json).map_err(|source| BenchError::File { path: path.clone(), source })?;
    }
    Ok(())
}

fn contestants(
    args: &DiarizeArgs,
    threads: usize,
    bench: Option<&Path>,
) -> Result<(Vec<Contestant>, Vec<NotRun>), BenchError> {
    let mut command = Command::new(crate::own_binary()?);
    command.args(["diarize-driver", "--threads", &threads.to_string()]);
    if let Some(model) = &args.words {
        command.args(["--words", model]);
    }
    if let Some(model) = &args.live {
        command.args(["--live", model]);
    }
    let mut contestants = vec![Contestant { name: "hark".to_owned(), is_hark: true, command }];
    let mut not_run = Vec::new();
    match args.peers.as_str() {
        "none" => {}
        "auto" | "senko" => match senko(threads, bench) {
            Ok(command) => contestants.push(Contestant { name: "senko".to_owned(), is_hark: false, command }),
            Err(why) => not_run.push(NotRun { name: "senko".to_owned(), why }),
        },
        other => return Err(BenchError::NoSuchPeer { key: other.to_owned(), known: "senko".to_owned() }),
    }
    Ok((contestants, not_run))
}

fn senko(threads: usize, bench: Option<&Path>) -> Result<Command, String> {
    let bench = bench.ok_or("the bench folder was not found; run from the repository or set HARK_BENCH")?;
    let venv = std::env::var_os("HARK_BENCH_SPEAKERS_VENV").map_or_else(|| bench.join(".venv-speakers"), PathBuf::from);
    let python = venv.join("bin/python");
    if !python.is_file() || !systems::package_folder(&venv, "senko") {
        return Err("not installed; run bench/peers_speakers.sh".to_owned());
    }
    let mut command = Command::new(python);
    command.arg(bench.join("peer_senko.py")).args(["--threads", &threads.to_string()]);
    command.env("OMP_NUM_THREADS", threads.to_string());
    Ok(command)
}

fn measure(
    contestant: Contestant,
    conversations: &[Conversation],
    args: &DiarizeArgs,
    scratch: &Scratch,
) -> Result<Measured, BenchError> {
    eprintln!("loading {}", contestant.name);
    let log = scratch.file(&format!("{}.log", contestant.name));
    let mut process = Process::start(&contestant.name, contestant.command, log)?;
    let request = |id: usize| Request {
        id: id as u64,
        audio: conversations[id].path.to_string_lossy().into_owned(),
        language: String::new(),
        interactive: false,
        speakers: (args.given && contestant.is_hark).then(|| score::count(&conversations[id].turns)),
    };
    // What is loaded on first use is loaded before anything is timed. A live session takes minutes: not twice.
    if !conversations.is_empty() && args.live.is_none() {
        process.transcribe(&request(0))?;
    }
    let mut kinds: BTreeMap<String, Figures> = BTreeMap::new();
    let mut speeds = Vec::new();
    for round in 0..args.rounds {
        let (mut seconds, mut spent) = (0.0, 0.0);
        for (id, conversation) in conversations.iter().enumerate() {
            let done = process.transcribe(&request(id))?;
            seconds += conversation.seconds;
            spent += done.seconds;
            if round == 0 {
                let figures = kinds.entry(conversation.kind.clone()).or_default();
                figures.count(&conversation.turns, &spans(done.turns), conversation.seconds);
                figures.count_words(&conversation.turns, &spans(done.spoken_words));
                if let Some(live) = done.live {
                    figures.live.count(&conversation.turns, &spans(live.told), &spans(live.finally));
                }
            }
        }
        speeds.push(seconds / spent);
        eprintln!("round {} of {}: {} {:.0} × real time", round + 1, args.rounds, contestant.name, seconds / spent);
    }
    Ok(Measured {
        name: contestant.name,
        version: process.version.clone(),
        is_hark: contestant.is_hark,
        speeds,
        peak_memory_bytes: process.peak_memory(),
        kinds,
    })
}

fn spans(told: Vec<(f64, f64, String)>) -> Vec<Span> {
    told.into_iter().map(|(start, end, voice)| Span { start, end, voice }).collect()
}
