//! `hark`: speech to text on the command line.
//!
//! In: arguments, environment, `hark.toml`. Out: transcripts on stdout or in files, everything else on stderr, and an
//! exit code: 0 done, 1 something failed, 2 wrong usage, 3 looked for and not found. None of its business: how sound becomes words.

mod account;
mod audit;
mod backup;
mod bench;
mod cli;
mod config;
mod doctor;
mod embed;
mod enhance;
mod error;
mod integrity;
mod jobs;
mod key;
mod live;
mod local_store;
mod models;
mod openapi;
mod output;
mod recordings;
mod remote;
mod seal;
mod serve;
mod speak;
mod speakers;
mod table;
mod text;
mod transcribe;
mod transcripts;
mod watermark;

use std::process::ExitCode;

use clap::Parser;

pub(crate) use error::CliError;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    log_to_stderr(cli.verbose, matches!(cli.command, cli::Command::Serve(_)));
    let done = match cli.command {
        cli::Command::Transcribe(args) => transcribe::run(args, &cli.common),
        cli::Command::Live(args) => live::run(&args, &cli.common),
        cli::Command::Enhance(args) => enhance::run(&args, &cli.common),
        cli::Command::Speak(args) => speak::run(&args, &cli.common),
        cli::Command::Serve(args) => serve::run(args, &cli.common),
        cli::Command::Speakers(args) => speakers::run(&args, &cli.common),
        cli::Command::Summarize(args) => text::summarize(&args, &cli.common),
        cli::Command::Translate(args) => text::translate(&args, &cli.common),
        cli::Command::Analyze(args) => text::analyze(&args, &cli.common),
        cli::Command::Generate(args) => text::generate(&args, &cli.common),
        cli::Command::Ask(args) => text::ask(&args, &cli.common),
        cli::Command::Watermark(args) => watermark::run(&args, &cli.common),
        cli::Command::Embed(args) => embed::run(&args, &cli.common),
        cli::Command::Transcripts(args) => transcripts::run(args),
        cli::Command::Account(args) => account::run(args, &cli.common),
        cli::Command::Jobs(args) => jobs::run(args, &cli.common),
        cli::Command::Key(args) => key::run(args, &cli.common),
        cli::Command::Audit(args) => audit::run(args, &cli.common),
        cli::Command::Seal(args) => seal::run(args, &cli.common),
        cli::Command::Integrity(args) => integrity::run(&args, &cli.common),
        cli::Command::Backup(args) => backup::backup(&args, &cli.common),
        cli::Command::Restore(args) => backup::restore(&args, &cli.common),
        cli::Command::Store(args) => backup::store(&args, &cli.common),
        cli::Command::Recordings(args) => recordings::run(args, &cli.common),
        cli::Command::Models(args) => models::run(args, &cli.common),
        cli::Command::Doctor(args) => doctor::run(args, &cli.common),
        cli::Command::Openapi => openapi::run(),
        cli::Command::Bench(args) => bench::run(args.args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if error.is_for_reading() {
                eprintln!("hark: {error}");
            }
            ExitCode::from(error.exit_code())
        }
    }
}

/// `RUST_LOG` decides what is logged; without it only what a user should act on, and for a service its requests.
fn log_to_stderr(verbose: u8, is_service: bool) {
    use tracing_subscriber::EnvFilter;
    let level = match verbose {
        0 if is_service => "warn,hark=info,hark_server=info",
        0 => "error",
        1 => {
            "hark=info,hark_media=info,hark_models=info,hark_server=info,hark_speech=info,hark_store=info,hark_whisper=info"
        }
        _ => "debug",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    log.with_target(false).with_ansi(is_terminal).init();
}
