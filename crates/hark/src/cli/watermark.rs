//! Options of the commands around the watermark.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
pub(crate) struct WatermarkArgs {
    #[command(subcommand)]
    pub(crate) command: WatermarkCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum WatermarkCommand {
    /// Say whether sounds carry the watermark, and what it says; exit code 3 when one does not
    Detect(WatermarkDetectArgs),
}

#[derive(Debug, Args)]
pub(crate) struct WatermarkDetectArgs {
    /// Audio or video files
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,

    /// File of the key that marked them [env: HARK_WATERMARK_KEY, the key itself] [default: watermark.key in the data folder]
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,

    /// Data folder of the service [default: hark in the user's data folder]
    #[arg(long, value_name = "DIR", env = "HARK_DATA")]
    pub(crate) data: Option<PathBuf>,

    /// Print a line of JSON for each file
    #[arg(long)]
    pub(crate) json: bool,
}
