//! Commands about a service: its accounts and keys on this machine, its transcripts from afar.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use hark_export::Format;

use super::parse_format;

/// Where a service on this machine keeps its things.
#[derive(Debug, Clone, Args)]
pub(crate) struct DataArgs {
    /// Folder of the service's database and recordings [default: hark in the user's data folder]
    #[arg(long, global = true, value_name = "DIR", env = "HARK_DATA")]
    pub(crate) data: Option<PathBuf>,

    /// The answer as JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// A service elsewhere.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct RemoteArgs {
    /// Address of a hark server to use instead of this machine, such as `https://hark.example.com`
    #[arg(long, global = true, value_name = "URL", env = "HARK_SERVER")]
    pub(crate) server: Option<String>,

    /// API key for that server; HARK_KEY keeps it out of the list of processes
    #[arg(long, global = true, value_name = "KEY", env = "HARK_KEY", hide_env_values = true)]
    pub(crate) key: Option<String>,
}

/// The account that a command is about.
#[derive(Debug, Args)]
pub(crate) struct AccountName {
    /// Email address or number of the account
    pub(crate) account: String,
}

#[derive(Debug, Args)]
pub(crate) struct IntegrityArgs {
    #[command(flatten)]
    pub(crate) data: DataArgs,

    /// Recordings to read, chosen at random [default: `recordings` under [server.integrity], 100]
    #[arg(long, value_name = "N")]
    pub(crate) recordings: Option<u32>,
}

#[derive(Debug, Args)]
pub(crate) struct SpeakersArgs {
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,

    /// The answer as JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,

    #[command(subcommand)]
    pub(crate) command: SpeakersCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SpeakersCommand {
    /// Learn a voice from clips in which only that person speaks; ask the person first
    Enroll {
        /// Who speaks
        name: String,
        /// Audio or video: 3 seconds of speech at least, better 10 or more; a server takes one
        #[arg(required = true, value_name = "CLIP")]
        clips: Vec<PathBuf>,
    },
    /// Show whose voices are known
    List,
    /// Forget a voice
    Remove {
        /// Whose
        name: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct AccountArgs {
    #[command(flatten)]
    pub(crate) data: DataArgs,

    #[command(subcommand)]
    pub(crate) command: AccountCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AccountCommand {
    /// Make an account
    Create {
        /// Its email address
        email: String,
        /// What it has paid for
        #[arg(long, value_parser = parse_plan, default_value = "free")]
        plan: hark_store::Plan,
        /// Credits to begin with [default: what the plan gives]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(0..))]
        credits: Option<i64>,
        /// Language of mails and pages
        #[arg(long, default_value = "en")]
        lang: String,
        /// Let it manage other accounts
        #[arg(long)]
        admin: bool,
        /// Ask for a password to sign in with
        #[arg(long)]
        password: bool,
        /// Read the password from stdin instead of asking
        #[arg(long, conflicts_with = "password")]
        password_stdin: bool,
    },
    /// List all accounts
    List,
    /// Show an account with its keys and its last credits
    Show(AccountName),
    /// Give an account credits, or take some with a negative number
    Credit {
        #[command(flatten)]
        account: AccountName,
        /// How many
        #[arg(allow_negative_numbers = true)]
        amount: i64,
        /// Why, for the ledger
        #[arg(long, default_value = "by hand")]
        note: String,
    },
    /// Set what an account has paid for
    Plan {
        #[command(flatten)]
        account: AccountName,
        /// free, pro, business or enterprise
        #[arg(value_parser = parse_plan)]
        plan: hark_store::Plan,
        /// Note the plan without putting it in force
        #[arg(long)]
        inactive: bool,
    },
    /// Set a new password and sign the account out everywhere
    Password {
        #[command(flatten)]
        account: AccountName,
        /// Read the password from stdin instead of asking
        #[arg(long)]
        stdin: bool,
    },
    /// Delete an account with its transcripts, recordings and keys
    Delete {
        #[command(flatten)]
        account: AccountName,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct JobsArgs {
    #[command(flatten)]
    pub(crate) data: DataArgs,

    #[command(subcommand)]
    pub(crate) command: JobsCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum JobsCommand {
    /// List jobs, the oldest first
    List {
        /// Only queued, processing or failed ones
        #[arg(long, value_parser = ["queued", "processing", "failed"])]
        state: Option<String>,
        /// Only those whose last fault was of this kind: internal, unavailable or timeout
        #[arg(long, value_name = "KIND", value_parser = parse_fault)]
        error_kind: Option<hark_store::FaultKind>,
        /// At most so many
        #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(i64).range(1..))]
        limit: i64,
    },
    /// Queue failed jobs again, with all their attempts
    Retry(FailedJobs),
    /// Give failed jobs up with their recordings; their transcripts stay, failed
    Drop(FailedJobs),
}

/// Which failed jobs a command is about.
#[derive(Debug, Args)]
pub(crate) struct FailedJobs {
    /// Their numbers
    #[arg(value_name = "ID", conflicts_with_all = ["all", "error_kind"])]
    pub(crate) jobs: Vec<i64>,

    /// All that have failed
    #[arg(long, conflicts_with = "error_kind")]
    pub(crate) all: bool,

    /// All whose last fault was of this kind: internal, unavailable or timeout
    #[arg(long, value_name = "KIND", value_parser = parse_fault)]
    pub(crate) error_kind: Option<hark_store::FaultKind>,
}

#[derive(Debug, Args)]
pub(crate) struct KeyArgs {
    #[command(flatten)]
    pub(crate) data: DataArgs,

    #[command(subcommand)]
    pub(crate) command: KeyCommand,
}

/// The key of an account that a command is about.
#[derive(Debug, Args)]
pub(crate) struct KeyName {
    #[command(flatten)]
    pub(crate) account: AccountName,

    /// The key's number, or its first characters as `hark key list` shows them
    pub(crate) key: String,
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Make an API key and print it; it is shown only now
    Create {
        #[command(flatten)]
        account: AccountName,
        /// What to call it
        #[arg(long, default_value = "API key")]
        name: String,
        /// Requests a minute
        #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(i64).range(1..=100_000))]
        rate_limit: i64,
        /// Minutes of audio a month
        #[arg(long, value_name = "N", default_value_t = 5000, value_parser = clap::value_parser!(i64).range(0..=1_000_000_000))]
        monthly_minutes: i64,
        /// What it may do: transcribe, read or manage; again for more [default: all]
        #[arg(long = "scope", value_name = "SCOPE", value_parser = parse_scope)]
        scopes: Vec<hark_store::Scope>,
        /// When it ends by itself: a date or a date-time such as 2030-01-31T12:00:00Z
        #[arg(long, value_name = "WHEN", value_parser = parse_moment)]
        expires: Option<hark_api::DateTime>,
        /// An address or network that it may be used from, such as 192.0.2.0/24; again for more [default: everywhere]
        #[arg(long = "allow", value_name = "NETWORK", value_parser = parse_network)]
        allowed: Vec<ipnet::IpNet>,
        /// Credits that it may spend in all [default: as many as the account has]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(0..=1_000_000_000))]
        spending_limit: Option<i64>,
    },
    /// List the keys of an account
    List(AccountName),
    /// Give a key a new secret and print it; the one before stays valid for a while
    Roll {
        #[command(flatten)]
        key: KeyName,
        /// Hours for which the secret before stays valid
        #[arg(long, value_name = "HOURS", default_value_t = 24, value_parser = clap::value_parser!(u64).range(0..=720))]
        grace: u64,
    },
    /// Revoke a key
    Revoke(KeyName),
}

#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    #[command(flatten)]
    pub(crate) data: DataArgs,

    /// Email address or number of an account [default: all]
    #[arg(long, value_name = "ACCOUNT")]
    pub(crate) account: Option<String>,

    /// Entries to show, newest first
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(i64).range(1..=1000))]
    pub(crate) limit: i64,
}

#[derive(Debug, Args)]
pub(crate) struct SealArgs {
    #[command(flatten)]
    pub(crate) data: DataArgs,

    /// File of the master keys [env: HARK_MASTER_KEY_FILE] [default: `master_key_file` of hark.toml]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,

    #[command(subcommand)]
    pub(crate) command: SealCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SealCommand {
    /// Make a file with a new master key; it must not exist
    Init,
    /// Seal what was stored before there was a master key, also while servers that have the key run; a run that was stopped goes on where it was
    All {
        /// Afterwards write the database's tables anew, so that nothing of what was replaced is left in its files; servers wait meanwhile
        #[arg(long)]
        rewrite: bool,
    },
    /// Show how much is stored that is not sealed
    Status,
    /// Seal every account's key with a new master key; the old ones stay in the file
    Rotate {
        /// Use the first key of the file instead of making a new one
        #[arg(long)]
        no_new_key: bool,
        /// Take the old keys out of the file, once nothing is sealed with them
        #[arg(long)]
        forget_old: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct TranscriptsArgs {
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,

    #[command(subcommand)]
    pub(crate) command: TranscriptsCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TranscriptsCommand {
    /// List transcripts, newest first
    List {
        /// Which page, from 1
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
        page: u32,
        /// Transcripts a page
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100))]
        per_page: u32,
        /// Only queued, processing, completed or failed ones
        #[arg(long, value_parser = ["queued", "processing", "completed", "failed"])]
        status: Option<String>,
        /// Only those in this language
        #[arg(long, value_name = "CODE")]
        language: Option<String>,
        /// The list as JSON
        #[arg(long)]
        json: bool,
    },
    /// Find passages by their words and their meaning
    Search {
        /// Words or a question; words in double quotes must follow each other
        #[arg(required = true, value_name = "WORDS")]
        words: Vec<String>,
        /// Compare words (text), meanings, or both
        #[arg(long, default_value = "all", value_parser = ["all", "text", "meaning"])]
        mode: String,
        /// The most passages to show
        #[arg(short = 'n', long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
        limit: u32,
        /// Only in this transcript
        #[arg(long = "in", value_name = "ID")]
        transcript: Option<i64>,
        /// The answer as JSON
        #[arg(long)]
        json: bool,
    },
    /// Show a transcript
    Show {
        /// Its number
        id: i64,
        /// All of it as JSON
        #[arg(long)]
        json: bool,
    },
    /// Get a transcript as a file
    Export {
        /// Its number
        id: i64,
        /// txt, srt, vtt, json, csv, docx or pdf [default: the extension of the output, else txt]
        #[arg(short, long, value_name = "FORMAT", value_parser = parse_format)]
        format: Option<Format>,
        /// File to write to [default: stdout]
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Replace a file that exists
        #[arg(long)]
        overwrite: bool,
    },
    /// Try failed transcripts again, for which their recordings are kept
    Retry {
        /// Their numbers
        #[arg(required = true, value_name = "ID")]
        ids: Vec<i64>,
    },
    /// Delete transcripts with their recordings
    Delete {
        /// Their numbers
        #[arg(required = true, value_name = "ID")]
        ids: Vec<i64>,
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

fn parse_fault(name: &str) -> Result<hark_store::FaultKind, String> {
    let kind = name.parse::<hark_store::FaultKind>().ok().filter(|kind| kind.is_ours());
    kind.ok_or_else(|| "choose one of internal, unavailable, timeout".to_owned())
}

fn parse_scope(name: &str) -> Result<hark_store::Scope, String> {
    name.parse().map_err(|_| "choose transcribe, read or manage".to_owned())
}

fn parse_moment(text: &str) -> Result<hark_api::DateTime, String> {
    hark_api::DateTime::parse(text).ok_or_else(|| "write a date or a date-time such as 2030-01-31T12:00:00Z".to_owned())
}

fn parse_network(text: &str) -> Result<ipnet::IpNet, String> {
    let one = text.parse::<std::net::IpAddr>().ok().map(|address| ipnet::IpNet::from(address.to_canonical()));
    let network = one.or_else(|| text.parse::<ipnet::IpNet>().ok().map(|network| network.trunc()));
    network.ok_or_else(|| "write an address or a network such as 192.0.2.0/24".to_owned())
}

fn parse_plan(name: &str) -> Result<hark_store::Plan, String> {
    match name.parse() {
        Ok(hark_store::Plan::Anonymous) | Err(_) => Err("choose one of free, pro, business, enterprise".to_owned()),
        Ok(plan) => Ok(plan),
    }
}
