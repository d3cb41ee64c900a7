//! Any audio or video as a stream of samples, and samples as an audio file.
//!
//! In: a path or a reader with the bytes of any audio or video file. Out: blocks of `f32` samples in bounded memory, 16 kHz mono
//! unless [`Options`] ask for another rate or for all channels, with what is known about the file and warnings about what is wrong
//! with it. The other way, samples of any rate and channels become WAV ([`WavWriter`]) or, through ffmpeg, FLAC, MP3 or Opus
//! ([`Encoder`]), block by block. None of its business: what the samples mean, where files come from, networks.
//!
//! What Symphonia reads as well as ffmpeg does (the format tests hold them side by side) is decoded in this process: WAV, AIFF,
//! FLAC, MP3, AAC-LC, Vorbis. The rest goes through a confined ffmpeg child. Both hand over the track's own rate and
//! channels; one downmix and one resampler turn them into the output. The encoder child reads samples from a pipe and writes to one.

mod convert;
mod decode;
mod downmix;
mod encode;
mod error;
mod faststart;
mod ffmpeg;
mod full_scale;
mod input;
mod mp4;
mod phase;
mod report;
mod resample;
mod sniff;
mod stream;
mod tags;
mod watch;
mod wav;

use std::path::PathBuf;
use std::time::{Duration, Instant};

pub use encode::{Encoder, OutputFormat};
pub use error::MediaError;
pub use input::{ReadSeek, Source};
pub use resample::Resampler;
pub use sniff::{HEAD_BYTES as SNIFFED_BYTES, media_type};
pub use stream::{AudioStream, decode_all};
pub use tags::Tags;
pub use watch::{Budget, CancelToken, LengthBudget};
pub use wav::{WavFormat, WavWriter, wav_header, write_wav, write_wav_file};

/// The rate of streams unless [`Options`] ask for another, in samples a second.
pub const SAMPLE_RATE: u32 = 16_000;

/// The rate and channels of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AudioSpec {
    /// Samples a second of each channel.
    pub rate: u32,
    /// Channels, interleaved.
    pub channels: u16,
}

/// Where samples go, block by block.
pub trait SampleWriter {
    /// Takes whole frames: one sample of each channel after the other.
    fn write(&mut self, interleaved: &[f32]) -> Result<(), MediaError>;

    /// Completes the output; nothing can be written after it. Says how many frames were written.
    fn finish(&mut self) -> Result<u64, MediaError>;
}

/// Which channels a stream has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutputChannels {
    /// One: all channels mixed by their speaker positions.
    #[default]
    Mono,
    /// Those of the track, interleaved.
    All,
}

/// What one source may cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// The longest audio, in seconds; longer is [`MediaError::TooLong`].
    pub max_seconds: Option<f64>,
    /// Processor time of the ffmpeg child, in seconds.
    pub ffmpeg_cpu_seconds: u64,
    /// Address space of the ffmpeg child, in bytes.
    pub ffmpeg_memory_bytes: u64,
    /// The longest wait for ffmpeg's next samples.
    pub ffmpeg_wall: Duration,
    /// The most that is written to a temporary file when a pipe carries a container that must seek, in bytes.
    pub spool_bytes: u64,
    /// The most that is held in memory when a source that seeks and is no file carries such a container, in bytes. What is longer is read from front to back.
    pub memory_bytes: u64,
}

impl Default for Limits {
    /// Enough for a day of video on a slow machine.
    fn default() -> Self {
        Limits {
            max_seconds: None,
            ffmpeg_cpu_seconds: 3600,
            ffmpeg_memory_bytes: 2 << 30,
            ffmpeg_wall: Duration::from_secs(60),
            spool_bytes: 16 << 30,
            memory_bytes: 512 << 20,
        }
    }
}

/// How to read a source.
#[derive(Clone, Debug)]
pub struct Options {
    /// The rate of the stream, between 8 kHz and 192 kHz; [`SAMPLE_RATE`] by default.
    pub rate: u32,
    /// The channels of the stream; one by default.
    pub channels: OutputChannels,
    /// Which audio track to read, counted from 0; the first when not given.
    pub track: Option<usize>,
    /// What it may cost.
    pub limits: Limits,
    /// The ffmpeg program; looked for on the path when not given.
    pub ffmpeg: Option<PathBuf>,
    /// Calls the reading off from another thread; a child ends with it.
    pub cancel: CancelToken,
    /// When reading must have ended; later it is [`MediaError::Limit`].
    pub deadline: Option<Instant>,
    /// What an [`Encoder`] writes into the metadata of its file.
    pub tags: Tags,
    /// Asked as the real length shows; what a container says is not believed.
    pub budget: Budget,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            rate: SAMPLE_RATE,
            channels: OutputChannels::Mono,
            track: None,
            limits: Limits::default(),
            ffmpeg: None,
            cancel: CancelToken::default(),
            deadline: None,
            tags: Tags::default(),
            budget: Budget::default(),
        }
    }
}

/// Who decodes a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoder {
    /// Rust code in this process.
    InProcess,
    /// An ffmpeg child process.
    Ffmpeg,
}

/// What a source turned out to be.
#[derive(Clone, Debug, PartialEq)]
pub struct Info {
    /// The container, for example "mp3" or "matroska".
    pub container: String,
    /// The audio codec, for example "aac".
    pub codec: String,
    /// The track's own sample rate.
    pub sample_rate: u32,
    /// The track's own number of channels.
    pub channels: u16,
    /// The length in seconds as the container gives it; samples may turn out fewer or more.
    pub duration: Option<f64>,
    /// How many audio tracks there are.
    pub audio_tracks: usize,
    /// Who decodes it.
    pub decoder: Decoder,
}

/// Decoded samples at the track's own rate, channels interleaved.
#[derive(Default)]
pub(crate) struct Block {
    rate: u32,
    channels: usize,
    /// Speaker positions, see `downmix`.
    mask: Option<u64>,
    samples: Vec<f32>,
}

impl Block {
    fn frames(&self) -> usize {
        self.samples.len() / self.channels.max(1)
    }

    fn silence(&mut self, rate: u32, channels: usize, frames: usize) {
        (self.rate, self.channels, self.mask) = (rate, channels, None);
        self.samples.clear();
        self.samples.resize(frames * channels, 0.0);
    }

    fn drop_front(&mut self, frames: usize) {
        self.samples.drain(..frames.min(self.frames()) * self.channels);
    }

    fn truncate(&mut self, frames: u64) {
        if frames < self.frames() as u64 {
            self.samples.truncate(frames as usize * self.channels);
        }
    }
}
