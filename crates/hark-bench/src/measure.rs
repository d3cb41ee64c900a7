//! The same audio through every system, alternating, several rounds.

use serde::Serialize;

use super::{
    BenchError,
    audio::{Recording, Scratch, cut},
    process::Process,
    protocol::Request,
    report::Measured,
    spread::Spread,
    systems::{NotRun, System},
    wer::WordErrors,
};

/// Seconds of speech that each system transcribes before anything is timed: what is loaded on first use is loaded.
const WARM_UP_SECONDS: f64 = 5.0;

/// How loaded the machine was by others, since on a busy machine only ratios mean anything.
#[derive(Debug, Clone, Serialize)]
pub struct Load {
    /// Runnable processes, mean of a minute, before the first round.
    pub before: Option<f64>,
    /// The same after the last round, our own work included.
    pub after: Option<f64>,
}

/// What a run of several systems gave.
pub struct Measurement {
    /// One entry a system, in the order they were given.
    pub systems: Vec<Measured>,
    /// Those that could not be started.
    pub not_run: Vec<NotRun>,
    /// The machine's load.
    pub load: Load,
}

struct Running {
    system: System,
    process: Process,
    speeds: Vec<f64>,
    cpu: Vec<f64>,
    errors: Option<WordErrors>,
    words: usize,
    same_text: bool,
    texts: Vec<String>,
}

/// Runs every system over all recordings, one file after the other, `rounds` times.
///
/// Systems alternate within a round, and each round begins with another one, so that a slow minute of the
/// machine falls on all of them. A system for reference only runs once.
pub fn alternate(
    systems: Vec<System>,
    recordings: &[Recording],
    language: &str,
    rounds: usize,
) -> Result<Measurement, BenchError> {
    let scratch = Scratch::new()?;
    let before = load_average();
    let mut not_run = Vec::new();
    let mut running = Vec::new();
    for (index, mut system) in systems.into_iter().enumerate() {
        eprintln!("loading {}", system.name);
        let command = std::mem::replace(&mut system.command, std::process::Command::new("true"));
        match Process::start(&system.name, command, scratch.file(&format!("{index}.log"))) {
            Ok(process) => running.push(Running {
                system,
                process,
                speeds: Vec::new(),
                cpu: Vec::new(),
                errors: None,
                words: 0,
                same_text: true,
                texts: Vec::new(),
            }),
            // Hark failing is the user's error to see; a peer failing must not stop the rest.
            Err(error) if system.is_hark => return Err(error),
            Err(error) => not_run.push(NotRun { name: system.name, why: error.to_string() }),
        }
    }
    warm_up(&mut running, recordings, language, &scratch)?;
    let seconds: f64 = recordings.iter().map(|recording| recording.seconds).sum();
    let count = running.len();
    for round in 0..rounds {
        for turn in 0..count {
            let entry = &mut running[(round + turn) % count];
            if entry.system.reference_only && round > 0 {
                continue;
            }
            one_round(entry, recordings, language, seconds)?;
            let speed = entry.speeds.last().copied().unwrap_or_default();
            eprintln!("round {} of {rounds}: {} {speed:.1} × real time", round + 1, entry.system.name);
        }
    }
    let systems = running.into_iter().filter_map(finished).collect();
    Ok(Measurement { systems, not_run, load: Load { before, after: load_average() } })
}

fn warm_up(
    running: &mut [Running],
    recordings: &[Recording],
    language: &str,
    scratch: &Scratch,
) -> Result<(), BenchError> {
    let Some(first) = recordings.first() else {
        return Ok(());
    };
    let clip = scratch.file("warm-up.wav");
    // A file that is not in the benchmark's own format warms up whole.
    let audio = match cut(&first.path, 0.0, first.seconds.min(WARM_UP_SECONDS), &clip) {
        Ok(()) => clip,
        Err(_) => first.path.clone(),
    };
    for entry in running {
        entry.process.transcribe(&Request {
            id: 0,
            audio: audio.to_string_lossy().into_owned(),
            language: language.to_owned(),
            interactive: false,
            speakers: None,
        })?;
    }
    Ok(())
}

fn one_round(entry: &mut Running, recordings: &[Recording], language: &str, seconds: f64) -> Result<(), BenchError> {
    let cpu_before = entry.process.cpu_seconds();
    let mut spent = 0.0;
    let mut errors = WordErrors::default();
    let mut texts = Vec::with_capacity(recordings.len());
    entry.words = 0;
    for (id, recording) in recordings.iter().enumerate() {
        let audio = recording.path.to_string_lossy().into_owned();
        let done = entry.process.transcribe(&Request {
            id: id as u64,
            audio,
            language: language.to_owned(),
            interactive: false,
            speakers: None,
        })?;
        spent += done.seconds;
        entry.words += done.words;
        if let Some(reference) = &recording.reference {
            errors += WordErrors::between(reference, &done.text);
        }
        texts.push(done.text);
    }
    entry.speeds.push(seconds / spent);
    if let (Some(before), Some(after)) = (cpu_before, entry.process.cpu_seconds()) {
        entry.cpu.push(after - before);
    }
    if errors.reference_words > 0 {
        entry.errors.get_or_insert(errors);
    }
    if !entry.texts.is_empty() && entry.texts != texts {
        entry.same_text = false;
    }
    entry.texts = texts;
    Ok(())
}

fn finished(entry: Running) -> Option<Measured> {
    Some(Measured {
        name: entry.system.name,
        settings: entry.system.settings,
        version: entry.process.version.clone(),
        is_hark: entry.system.is_hark,
        reference_only: entry.system.reference_only,
        speed: Spread::of(entry.speeds)?,
        cpu_seconds: Spread::of(entry.cpu),
        word_error_rate: entry.errors.and_then(|errors| errors.rate()),
        word_errors: entry.errors,
        timed_words: entry.words,
        same_text_every_round: entry.same_text,
        peak_memory_bytes: entry.process.peak_memory(),
        load_seconds: entry.process.load_seconds,
    })
}

/// The mean number of runnable processes of the last minute, where the system tells it.
pub fn load_average() -> Option<f64> {
    std::fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
}
