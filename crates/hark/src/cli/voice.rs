//! Options of the commands that work on sound.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

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
