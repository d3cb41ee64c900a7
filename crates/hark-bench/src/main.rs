//! `hark-bench`, reached as `hark bench`: what Hark is measured by, against the peers found on this machine.
//!
//! In: audio with references, the peers that `bench/peers.sh` installed. Out: a table, a plot, JSON. None of its
//! business: how anything is transcribed; it only starts systems, asks them and watches the clock and the memory.

mod audio;
mod diarize;
mod driver;
mod english;
mod error;
mod gpu;
mod kernels;
mod live;
mod measure;
mod noise;
mod numbers;
mod parallel;
mod plot;
mod process;
mod protocol;
mod report;
mod scenarios;
mod service;
mod spread;
mod systems;
mod text;
mod times;
mod transcribe;
mod voice;
mod wer;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use error::BenchError;

#[derive(Debug, Parser)]
#[command(name = "hark bench", about = "Measure speed, accuracy and memory", arg_required_else_help = true)]
struct BenchCli {
    #[command(subcommand)]
    command: BenchCommand,
}

#[derive(Debug, Subcommand)]
enum BenchCommand {
    /// The same audio and weights through Hark and the peers on this machine
    Transcribe(transcribe::TranscribeArgs),
    /// Each kernel as a fraction of this machine's measured peak
    Kernels(kernels::KernelsArgs),
    /// The network on a GPU: kernels as fractions of what it can do, windows at several batch sizes
    Gpu(gpu::GpuArgs),
    /// What the service costs around its engine, and what it survives
    Service(service::ServiceArgs),
    /// How late words come while people speak, in one session and in many
    Live(live::LiveArgs),
    /// How near the times of words are to where people begin and end to speak
    Times(times::TimesArgs),
    /// Who spoke when, by Hark and the peers on this machine, against references
    Diarize(diarize::DiarizeArgs),
    /// Summaries, analyses, answers, translations: how good and how fast, on transcripts with references
    Text(text::TextArgs),
    /// Speech and matched voices, noise reduction, and what the watermark survives
    Voice(voice::VoiceArgs),
    /// Hark behind the benchmark's line protocol
    #[command(hide = true)]
    Driver(driver::DriverArgs),
    /// The same for who spoke when
    #[command(hide = true)]
    DiarizeDriver(diarize::DiarizeDriverArgs),
    /// The same for speech
    #[command(hide = true)]
    VoiceDriver(voice::VoiceDriverArgs),
}

fn main() -> ExitCode {
    log_to_stderr();
    let done = match BenchCli::parse().command {
        BenchCommand::Transcribe(args) => transcribe::run(&args),
        BenchCommand::Kernels(args) => kernels::run(&args),
        BenchCommand::Gpu(args) => gpu::run(&args),
        BenchCommand::Service(args) => service::run(&args),
        BenchCommand::Live(args) => live::run(&args),
        BenchCommand::Times(args) => times::run(&args),
        BenchCommand::Diarize(args) => diarize::run(&args),
        BenchCommand::Text(args) => text::run(&args),
        BenchCommand::Voice(args) => voice::run(&args),
        BenchCommand::Driver(args) => driver::run(&args),
        BenchCommand::DiarizeDriver(args) => diarize::run_driver(&args),
        BenchCommand::VoiceDriver(args) => voice::run_driver(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of the table has gone, as `head` does: nobody is left to tell.
        Err(BenchError::Pipe(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hark bench: {error}");
            ExitCode::FAILURE
        }
    }
}

/// `RUST_LOG` decides what is logged, errors without it.
fn log_to_stderr() {
    use tracing_subscriber::EnvFilter;
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("error"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false)
        .with_ansi(false)
        .init();
}

/// Writes a table to standard output.
fn print(text: &str) -> Result<(), BenchError> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(BenchError::Pipe)
}

/// This program, to be started again as a child.
fn own_binary() -> Result<PathBuf, BenchError> {
    std::env::current_exe().map_err(|source| BenchError::Start { system: "hark-bench".to_owned(), source })
}

/// The `hark` program beside this one.
fn hark_binary() -> Result<PathBuf, BenchError> {
    let beside = own_binary()?.with_file_name("hark");
    if beside.is_file() { Ok(beside) } else { Err(BenchError::NoHark { expected: beside }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_contradicts_itself_nowhere() {
        BenchCli::command().debug_assert();
    }
}
