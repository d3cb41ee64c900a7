//! `hark bench`: what Hark is measured by, against the peers found on this machine.
//!
//! In: audio with references, the peers that `bench/peers.sh` installed. Out: a table, a plot, JSON. None of its
//! business: how anything is transcribed; it only starts systems, asks them and watches the clock and the memory.

mod audio;
mod diarize;
mod driver;
mod english;
mod error;
mod kernels;
mod live;
mod measure;
mod noise;
mod numbers;
mod plot;
mod process;
mod protocol;
mod report;
mod scenarios;
mod service;
mod spread;
mod systems;
mod transcribe;
mod wer;

use clap::{Parser, Subcommand};

use crate::CliError;
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
    /// What the service costs around its engine, and what it survives
    Service(service::ServiceArgs),
    /// How late words come while people speak, in one session and in many
    Live(live::LiveArgs),
    /// Who spoke when, by Hark and the peers on this machine, against references
    Diarize(diarize::DiarizeArgs),
    /// Hark behind the benchmark's line protocol
    #[command(hide = true)]
    Driver(driver::DriverArgs),
    /// The same for who spoke when
    #[command(hide = true)]
    DiarizeDriver(diarize::DiarizeDriverArgs),
}

/// Runs `hark bench` with the arguments that follow it.
pub fn run(args: Vec<String>) -> Result<(), CliError> {
    let cli = BenchCli::parse_from(std::iter::once("hark bench".to_owned()).chain(args));
    let done = match cli.command {
        BenchCommand::Transcribe(args) => transcribe::run(&args),
        BenchCommand::Kernels(args) => kernels::run(&args),
        BenchCommand::Service(args) => service::run(&args),
        BenchCommand::Live(args) => live::run(&args),
        BenchCommand::Diarize(args) => diarize::run(&args),
        BenchCommand::Driver(args) => driver::run(&args),
        BenchCommand::DiarizeDriver(args) => diarize::run_driver(&args),
    };
    done.map_err(|error| CliError::Failed(error.to_string()))
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
