//! Options of the commands that work on sound.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use hark_voice::FileFormat;

#[derive(Debug, Args)]
pub(crate) struct EnhanceArgs {
    /// Audio or video files; `-` reads from stdin
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,

    /// File or folder to write to; ends with `/` or has no extension: a folder; `-`: stdout [default: talk.mp3 becomes talk.enhanced.wav beside it, stdin goes to stdout]
    #[arg(short, long, value_name = "PATH")]
    pub(crate) output: Option<PathBuf>,

    /// Format to write; flac, mp3 and opus need ffmpeg [default: as the output's extension says, else wav]
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    pub(crate) format: Option<SoundFormat>,

    /// Bits of a WAV sample; 32 are floats
    #[arg(long, value_name = "16|24|32", default_value_t = 16, value_parser = parse_bits)]
    pub(crate) bits: u8,

    /// By how many dB noise is reduced at most, 0 to 100; 100 is no limit
    #[arg(long, value_name = "DB", default_value_t = 100.0, value_parser = parse_strength)]
    pub(crate) strength: f32,

    /// Audio track to use, counted from 0 [default: the first]
    #[arg(long, value_name = "N")]
    pub(crate) track: Option<u16>,

    /// CPU threads [env: HARK_THREADS] [default: all cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,

    /// No progress and no summary; warnings and errors stay
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Replace files that exist
    #[arg(long, conflicts_with = "skip_existing")]
    pub(crate) overwrite: bool,

    /// Leave out recordings whose output exists
    #[arg(long)]
    pub(crate) skip_existing: bool,
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("words").args(["text", "file", "list_voices"]).required(true))]
pub(crate) struct SpeakArgs {
    /// What to say, at most 20,000 characters; `-` reads it from stdin
    #[arg(value_name = "TEXT")]
    pub(crate) text: Option<String>,

    /// File with what to say
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,

    /// File to write to; `-`: stdout, a WAV file without its length in the header [default: stdout, unless it is a terminal]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Format to write: wav, flac, mp3, opus or pcm (24 kHz, 16 bits); flac, mp3 and opus need ffmpeg [default: as the output's extension says, else wav]
    #[arg(short, long, value_name = "FORMAT", value_parser = parse_file_format)]
    pub(crate) format: Option<FileFormat>,

    /// Voice to speak with, see --list-voices [default: one that speaks the language]
    #[arg(long, value_name = "NAME", conflicts_with = "like")]
    pub(crate) voice: Option<String>,

    /// Speak in the voice of this recording of a person, or as much like it as the voices here can: 3 to 10 seconds in which only they speak
    #[arg(long, value_name = "FILE", requires = "consent")]
    pub(crate) like: Option<PathBuf>,

    /// States that the person in the recording of --like agrees to have their voice imitated
    #[arg(long)]
    pub(crate) consent: bool,

    /// Language of the text, as a code such as `en`, or `auto` [default: auto]
    #[arg(short, long, value_name = "CODE")]
    pub(crate) language: Option<String>,

    /// How fast to speak, 0.5 to 2
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = parse_speed)]
    pub(crate) speed: f32,

    /// List the voices with their languages
    #[arg(long, conflicts_with_all = ["output", "voice", "like", "language", "speed"])]
    pub(crate) list_voices: bool,

    /// Data folder of the service, whose watermark key marks the sound [default: hark in the user's data folder]
    #[arg(long, value_name = "DIR", env = "HARK_DATA")]
    pub(crate) data: Option<PathBuf>,

    /// CPU threads [env: HARK_THREADS] [default: all cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,

    /// No summary; errors stay
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Replace a file that exists
    #[arg(long)]
    pub(crate) overwrite: bool,
}

fn parse_file_format(text: &str) -> Result<FileFormat, String> {
    FileFormat::of_name(text).ok_or_else(|| "a format is wav, flac, mp3, opus or pcm".to_owned())
}

fn parse_speed(text: &str) -> Result<f32, String> {
    match text.trim().parse() {
        Ok(speed) if hark_voice::SPEEDS.contains(&speed) => Ok(speed),
        _ => Err("a speed is a number from 0.5 to 2".to_owned()),
    }
}

/// A format of sound that is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SoundFormat {
    /// Uncompressed.
    Wav,
    /// Compressed without loss.
    Flac,
    /// 192 kb/s, one or two channels.
    Mp3,
    /// 96 kb/s, in Ogg.
    Opus,
}

impl SoundFormat {
    /// The usual extension of such files.
    pub(crate) fn extension(self) -> &'static str {
        match self {
            Self::Wav => "wav",
            Self::Flac => "flac",
            Self::Mp3 => "mp3",
            Self::Opus => "opus",
        }
    }

    /// The format that an extension names.
    pub(crate) fn of_extension(extension: &str) -> Option<Self> {
        match extension.to_ascii_lowercase().as_str() {
            "wav" | "wave" => Some(Self::Wav),
            "flac" => Some(Self::Flac),
            "mp3" => Some(Self::Mp3),
            "opus" | "ogg" => Some(Self::Opus),
            _ => None,
        }
    }
}

fn parse_bits(text: &str) -> Result<u8, String> {
    match text {
        "16" => Ok(16),
        "24" => Ok(24),
        "32" => Ok(32),
        _ => Err("a WAV sample has 16, 24 or 32 bits".to_owned()),
    }
}

fn parse_strength(text: &str) -> Result<f32, String> {
    match text.trim().parse() {
        Ok(decibels) if (0.0..=100.0).contains(&decibels) => Ok(decibels),
        _ => Err("a strength is a number of dB from 0 to 100".to_owned()),
    }
}
