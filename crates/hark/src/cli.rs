//! The command line: every command, option and default in one place.

mod service;
mod store;
mod text;
mod voice;
mod watermark;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use hark_export::Format;

pub(crate) use service::{
    AccountArgs, AccountCommand, AuditArgs, FailedJobs, IntegrityArgs, JobsArgs, JobsCommand, KeyArgs, KeyCommand,
    RemoteArgs, SealArgs, SealCommand, SpeakersArgs, SpeakersCommand, TranscriptsArgs, TranscriptsCommand,
};
pub(crate) use store::{
    BackupArgs, QuarantineCommand, RecordingsArgs, RecordingsCommand, RestoreArgs, StoreArgs, StoreCommand,
};
pub(crate) use text::{AnalyzeArgs, AskArgs, GenerateArgs, SummarizeArgs, TextArgs, TranslateArgs};
pub(crate) use voice::{EnhanceArgs, SoundFormat, SpeakArgs};
pub(crate) use watermark::{WatermarkArgs, WatermarkCommand, WatermarkDetectArgs};

/// Speech to text that you own: audio and video to words, on this machine.
#[derive(Debug, Parser)]
#[command(name = "hark", version, arg_required_else_help = true, propagate_version = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) common: Common,

    /// Say more on stderr about what happens (twice: debug); RUST_LOG overrides it
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options of every command.
#[derive(Debug, Clone, Args)]
pub(crate) struct Common {
    /// Configuration file [default: ./hark.toml, else hark/hark.toml in the user's configuration folder]
    #[arg(long, global = true, value_name = "FILE", env = "HARK_CONFIG")]
    pub(crate) config: Option<PathBuf>,

    /// Folder of the models [env: HARK_MODELS] [default: hark/models in the user's cache folder]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) models_dir: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Turn audio or video files into text or subtitles
    Transcribe(TranscribeArgs),
    /// Write down what is being said: from the microphone, or from a pipe
    Live(LiveArgs),
    /// Take the noise out of recordings of speech
    Enhance(EnhanceArgs),
    /// Speak a text into a sound file that says it is synthetic
    Speak(SpeakArgs),
    /// Answer requests over HTTP: transcription, transcripts, accounts and keys
    Serve(ServeArgs),
    /// Teach hark the voices of people, so that `transcribe --identify` names them
    Speakers(SpeakersArgs),
    /// Summarize a text, a transcript or a recording
    Summarize(SummarizeArgs),
    /// Translate a text, subtitles, a transcript or a recording
    Translate(TranslateArgs),
    /// Find sentiment, topics, entities, action items, questions or personal data
    Analyze(AnalyzeArgs),
    /// Write a blog post, meeting notes, flashcards, chapters and more from a text, a transcript or a recording
    Generate(GenerateArgs),
    /// Answer questions about a text, a transcript or a recording, with their sources
    Ask(AskArgs),
    /// Find the watermark of synthetic speech
    Watermark(WatermarkArgs),
    /// Turn lines of text into vectors that say how alike their meanings are
    Embed(EmbedArgs),
    /// List, show, export, retry and delete what a server has transcribed
    Transcripts(TranscriptsArgs),
    /// Make and manage the accounts of a service on this machine
    Account(AccountArgs),
    /// Make, list, roll over and revoke API keys of a service on this machine
    Key(KeyArgs),
    /// List, retry and drop the jobs of a service on this machine
    Jobs(JobsArgs),
    /// Show who did what: sign-ins, keys, credits, deletions, and what was done with these commands
    Audit(AuditArgs),
    /// Make and change the master key that seals what a service keeps
    Seal(SealArgs),
    /// Check what a service on this machine keeps: database, ledger, recordings
    Integrity(IntegrityArgs),
    /// Copy the database and the recordings of a service to a folder, while it runs
    Backup(BackupArgs),
    /// Bring a service back from a backup
    Restore(RestoreArgs),
    /// Show which store this is, or make recordings its own
    Store(StoreArgs),
    /// Look at files among the recordings that the database does not know
    Recordings(RecordingsArgs),
    /// Show, fetch, check and remove models
    Models(ModelsArgs),
    /// Say what this machine has, what is missing and how to fix it
    Doctor(DoctorArgs),
    /// Print the OpenAPI document of the service as JSON
    Openapi,
    /// Measure: `hark bench transcribe`, `hark bench kernels`, `hark bench service`
    #[command(disable_help_flag = true)]
    Bench(BenchArgs),
}

#[derive(Debug, Args)]
pub(crate) struct EmbedArgs {
    /// Text files, every line of which is a text; `-` reads from stdin [default: -]
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

/// What is said, and what hears it.
#[derive(Debug, Args)]
pub(crate) struct SpeechArgs {
    /// Language spoken, as a code such as `en`, `auto`, or, for files, `multi`: each part in its own [env: HARK_LANGUAGE] [default: auto]
    #[arg(short, long, value_name = "CODE")]
    pub(crate) language: Option<String>,

    /// Model or alias to use, see `hark models` [env: HARK_MODEL] [default: whisper-base]
    #[arg(short, long, value_name = "NAME")]
    pub(crate) model: Option<String>,

    /// Write what was said, or its translation into English
    #[arg(long, value_enum, default_value_t = Task::Transcribe)]
    pub(crate) task: Task,

    /// Text that comes before the audio: names, spelling and style follow it
    #[arg(long, value_name = "TEXT")]
    pub(crate) prompt: Option<String>,

    /// Words to expect, with commas
    #[arg(long, value_name = "WORDS")]
    pub(crate) hotwords: Option<String>,

    /// CPU threads [env: HARK_THREADS] [default: all cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
}

#[derive(Debug, Args)]
pub(crate) struct TranscribeArgs {
    /// Audio or video files; `-` reads from stdin
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,

    /// Formats to write, several with commas: txt, srt, vtt, json, csv, docx, pdf [env: HARK_FORMAT] [default: txt]
    #[arg(short, long, value_delimiter = ',', value_name = "FORMAT", value_parser = parse_format)]
    pub(crate) format: Vec<Format>,

    /// File or folder to write to; ends with `/` or has no extension: a folder [default: stdout]
    #[arg(short, long, value_name = "PATH")]
    pub(crate) output: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) speech: SpeechArgs,

    /// Where the model runs: cpu, auto, cuda, cuda:N or cuda:N,M [env: HARK_DEVICE] [default: cpu]
    #[arg(long, value_name = "DEVICE")]
    pub(crate) device: Option<hark_speech::DeviceChoice>,

    /// Hypotheses kept while decoding; 1 is greedy and fastest
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=32))]
    pub(crate) beam: Option<u8>,

    /// Temperatures to try one after the other where a text fails its checks, with commas
    #[arg(long, value_name = "T", value_delimiter = ',', value_parser = parse_temperature)]
    pub(crate) temperature: Vec<f32>,

    /// Sound to transcribe: off takes all of it, for singing and speech under loud music; gentle what is speech or may be; strict only what is speech for sure [default: gentle]
    #[arg(long, value_name = "off|gentle|strict", value_parser = parse_vad)]
    pub(crate) vad: Option<hark_speech::VoiceActivity>,

    /// Times for each word; auto: where the format uses them (srt, vtt, json)
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = Words::Auto)]
    pub(crate) words: Words,

    /// The same as `--words no`
    #[arg(long, conflicts_with = "words")]
    pub(crate) no_words: bool,

    /// Tell speakers apart: auto finds out how many there are, a number says it, off leaves it [default: auto where its models are installed]
    #[arg(long, value_name = "auto|N|off", value_parser = parse_speakers)]
    pub(crate) speakers: Option<hark_speech::Speakers>,

    /// Name the speakers whose voices are known, see `hark speakers`
    #[arg(long)]
    pub(crate) identify: bool,

    /// Let the text so far guide the next window: smoother, slower, may repeat itself
    #[arg(long)]
    pub(crate) condition: bool,

    /// Columns in a line of subtitles; wide characters take two
    #[arg(long, value_name = "N", default_value_t = 42, value_parser = parse_columns)]
    pub(crate) max_line_width: usize,

    /// Lines in a subtitle
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = parse_lines)]
    pub(crate) max_lines: usize,

    /// What becomes of several channels: auto keeps two apart that share nothing, as those of a recorded call; separate transcribes each by itself, as a speaker; mono mixes them
    #[arg(long, value_name = "auto|separate|mono", default_value = "auto")]
    pub(crate) channels: hark_speech::Channels,

    /// Audio track to use, counted from 0 [default: the first with words]
    #[arg(long, value_name = "N")]
    pub(crate) track: Option<u16>,

    /// Kernels to use instead of the fastest this machine has: amx, avx512-bf16, avx512-vnni, avx512, avx-vnni, avx2, portable
    #[arg(long, value_name = "NAME", env = "HARK_ISA", value_parser = parse_isa)]
    pub(crate) isa: Option<hark_speech::Isa>,

    /// No progress and no summary; warnings and errors stay
    #[arg(short, long)]
    pub(crate) quiet: bool,

    #[command(flatten)]
    pub(crate) remote: RemoteArgs,

    /// Replace files that exist
    #[arg(long, conflicts_with = "skip_existing")]
    pub(crate) overwrite: bool,

    /// Leave out recordings whose outputs all exist
    #[arg(long)]
    pub(crate) skip_existing: bool,
}

#[derive(Debug, Args)]
pub(crate) struct LiveArgs {
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,

    /// `-` or a file: a recording in any format, or 16-bit samples, little-endian, one channel [default: the microphone]
    #[arg(value_name = "SOURCE")]
    pub(crate) source: Option<PathBuf>,

    /// Samples a second, where the source does not say it
    #[arg(long, value_name = "HZ", default_value_t = 16_000, value_parser = clap::value_parser!(u32).range(4_000..=192_000))]
    pub(crate) rate: u32,

    /// Microphone to use, as `arecord -L` or `pw-record --list-targets` names it [default: the system's]
    #[arg(long, value_name = "NAME", conflicts_with = "source")]
    pub(crate) device: Option<String>,

    /// File to write at the end; without `-f` its extension says the format
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Format of that file: txt, srt, vtt, json, csv, docx, pdf
    #[arg(short, long, value_name = "FORMAT", value_parser = parse_format, requires = "output")]
    pub(crate) format: Option<Format>,

    /// Replace the file if it exists
    #[arg(long)]
    pub(crate) overwrite: bool,

    #[command(flatten)]
    pub(crate) speech: SpeechArgs,

    /// Say who speaks: a label before each line
    #[arg(long)]
    pub(crate) speakers: bool,

    /// Only the words: nothing about the microphone and the length
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Address and port to listen on [default: 127.0.0.1:8600]
    #[arg(long, value_name = "ADDR", env = "HARK_LISTEN")]
    pub(crate) listen: Option<std::net::SocketAddr>,

    /// Folder of the database and the recordings [default: hark in the user's data folder]
    #[arg(long, value_name = "DIR", env = "HARK_DATA")]
    pub(crate) data: Option<PathBuf>,

    /// Pull the default models that are missing while it serves
    #[arg(long)]
    pub(crate) pull: bool,

    /// Leave out the web app: the API alone
    #[arg(long)]
    pub(crate) no_web: bool,

    /// Which part of the service this process is
    #[arg(long, value_enum, default_value_t = ServeRole::All, env = "HARK_ROLE")]
    pub(crate) role: ServeRole,

    /// CPU threads of the engine [env: HARK_THREADS] [default: all cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
}

/// Which part of the service a process is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ServeRole {
    /// Everything.
    All,
    /// Accounts and transcripts, without models.
    Account,
    /// Recordings from the queue.
    Gpu,
}

/// What to do with the speech.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Task {
    /// Write it in its language.
    Transcribe,
    /// Write it in English.
    Translate,
}

impl From<Task> for hark_speech::Task {
    fn from(task: Task) -> Self {
        match task {
            Task::Transcribe => hark_speech::Task::Transcribe,
            Task::Translate => hark_speech::Task::Translate,
        }
    }
}

/// When words get times of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Words {
    /// Where a format uses them.
    Auto,
    /// Always.
    Yes,
    /// Never.
    No,
}

#[derive(Debug, Args)]
pub(crate) struct ModelsArgs {
    #[command(subcommand)]
    pub(crate) command: Option<ModelsCommand>,

    /// The list as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ModelsCommand {
    /// Show what exists and what is installed
    List {
        /// The list as JSON
        #[arg(long)]
        json: bool,
    },
    /// Fetch models; an interrupted download goes on where it stopped
    Pull {
        /// Names or aliases from `hark models`
        #[arg(required_unless_present_any = ["default", "speech"], value_name = "NAME")]
        names: Vec<String>,
        /// The models of a fresh machine
        #[arg(long)]
        default: bool,
        /// Those of them that transcription needs
        #[arg(long)]
        speech: bool,
        /// Fetch again what is installed
        #[arg(long)]
        force: bool,
        /// No progress
        #[arg(short, long)]
        quiet: bool,
    },
    /// Check the hashes of installed models
    Verify {
        /// Names or aliases [default: everything installed]
        #[arg(value_name = "NAME")]
        names: Vec<String>,
    },
    /// Print the folder of an installed model
    Path {
        /// Name or alias
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Delete models from this machine
    Remove {
        /// Names or aliases
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// The findings as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// What to measure and its options
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) args: Vec<String>,
}

fn parse_format(name: &str) -> Result<Format, String> {
    name.parse().map_err(|error: hark_export::ExportError| error.to_string())
}

fn parse_isa(name: &str) -> Result<hark_speech::Isa, String> {
    let isa: hark_speech::Isa = name.parse()?;
    if isa.is_available() { Ok(isa) } else { Err(format!("this machine can't run {name} kernels")) }
}

fn parse_vad(name: &str) -> Result<hark_speech::VoiceActivity, String> {
    name.trim().parse()
}

fn parse_speakers(text: &str) -> Result<hark_speech::Speakers, String> {
    use hark_speech::Speakers;
    match text.trim() {
        "auto" => Ok(Speakers::Auto),
        "off" => Ok(Speakers::Off),
        number => match number.parse() {
            Ok(count) if (1..=100).contains(&count) => Ok(Speakers::Exactly(count)),
            _ => Err("give auto, off, or how many speak: a number from 1 to 100".to_owned()),
        },
    }
}

fn parse_temperature(text: &str) -> Result<f32, String> {
    match text.trim().parse() {
        Ok(value) if (0.0..=2.0).contains(&value) => Ok(value),
        _ => Err("a temperature is a number from 0 to 2".to_owned()),
    }
}

fn parse_columns(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(columns) if (10..=1000).contains(&columns) => Ok(columns),
        _ => Err("a line has 10 to 1000 columns".to_owned()),
    }
}

fn parse_lines(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(lines) if (1..=10).contains(&lines) => Ok(lines),
        _ => Err("a subtitle has 1 to 10 lines".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_contradicts_itself_nowhere() {
        Cli::command().debug_assert();
    }

    #[test]
    fn formats_can_be_listed_with_commas() {
        let cli = Cli::parse_from(["hark", "transcribe", "a.mp3", "-f", "srt,json"]);
        let Command::Transcribe(args) = cli.command else { panic!("not transcribe") };
        assert_eq!(args.format, [Format::Srt, Format::Json]);
    }
}
