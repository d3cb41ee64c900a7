//! Commands about what a service on this machine keeps: backups, its identity, its recordings.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::service::DataArgs;

#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    #[command(flatten)]
    pub(crate) data: DataArgs,

    /// Folder of the backup: empty, or with an earlier backup of the same store that is brought up to date
    #[arg(value_name = "DEST")]
    pub(crate) folder: PathBuf,

    /// Check the backup that is there instead of making one: reads all of it and compares it with its hashes
    #[arg(long)]
    pub(crate) verify: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    #[command(flatten)]
    pub(crate) data: DataArgs,

    /// Folder of the backup
    #[arg(value_name = "SRC")]
    pub(crate) folder: PathBuf,

    /// Replace the database that is there and put recordings among those that are there; stop all servers first
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct StoreArgs {
    #[command(flatten)]
    pub(crate) data: DataArgs,

    #[command(subcommand)]
    pub(crate) command: StoreCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Show the id of the store and where its recordings are
    Show,
    /// Make the recordings those of this database, though they carry the id of another store or none; stop all servers first
    Adopt,
}

#[derive(Debug, Args)]
pub(crate) struct RecordingsArgs {
    #[command(flatten)]
    pub(crate) data: DataArgs,

    #[command(subcommand)]
    pub(crate) command: RecordingsCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RecordingsCommand {
    /// Files among the recordings that the database does not know
    #[command(subcommand)]
    Quarantine(QuarantineCommand),
}

#[derive(Debug, Subcommand)]
pub(crate) enum QuarantineCommand {
    /// List them with the day on which each is removed
    List,
    /// Take files off the list: they stay, and get new days if a later sweep still does not know them
    Restore {
        /// Their names, or `all`
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
    /// Remove files now
    Delete {
        /// Their names, or `all`
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}
