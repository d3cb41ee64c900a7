//! `hark bench voice`: what becomes of the watermark when a sound is encoded, resampled, stretched, cleaned or disturbed.
//!
//! In: real speech among the installed test sounds, or in folders that are named. Out: a table with a line for each change, false alarms on
//! unmarked speech, and JSON. Audibility is measured outside: `--pairs` writes clean and marked clips, which `bench/pesq.py` compares.

mod changes;
mod clips;
mod watermark;

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::error::BenchError;

/// Arguments of `hark bench voice`.
#[derive(Debug, Args)]
pub(super) struct VoiceArgs {
    /// What to measure; several with commas [default: everything]
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Part>,
    /// Clips of 5 s that are marked
    #[arg(long, value_name = "N", default_value_t = 100)]
    clips: usize,
    /// Hours of unmarked speech in which marks are looked for; recordings come again at other speeds
    #[arg(long, value_name = "HOURS", default_value_t = 1.0)]
    hours: f64,
    /// Folders with speech: audio files of which every part is speech, or with RTTM references [default: the installed test sounds]
    #[arg(long, value_name = "DIR", value_delimiter = ',')]
    sounds: Vec<PathBuf>,
    /// Changes by name, with commas [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    changes: Vec<String>,
    /// Write the clips, clean and marked, to the folders `clean` and `marked` of this folder
    #[arg(long, value_name = "DIR")]
    pairs: Option<PathBuf>,
    /// Write the figures as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// The watermark: payloads read after each change, false alarms, time
    Watermark,
}

/// Runs the benchmark.
pub(super) fn run(args: &VoiceArgs) -> Result<(), BenchError> {
    if args.only.is_empty() || args.only.contains(&Part::Watermark) {
        watermark::run(args)?;
    }
    Ok(())
}

/// A failure of something that the benchmark uses.
fn failed(what: &str, error: impl std::fmt::Display) -> BenchError {
    BenchError::System { system: what.to_owned(), error: error.to_string() }
}
