//! Errors of noise reduction.

use std::path::{Path, PathBuf};

use hark_media::MediaError;
use hark_weights::FileError;

/// Why a recording was not enhanced.
#[derive(Debug, thiserror::Error)]
pub enum EnhanceError {
    /// The model file can't be read.
    #[error("cannot read {}: {source}; install it with `hark models pull deepfilternet3`", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The model file does not hold a DeepFilterNet3 network.
    #[error("{} is not a DeepFilterNet3 model: {what}; install it again with `hark models pull --force deepfilternet3`", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// A sample is not a number, infinite or far beyond full scale.
    #[error("sample {frame} of channel {channel} is {value}, which is no sound")]
    Sample {
        /// The sample's index in its channel.
        frame: u64,
        /// The channel, counted from 0.
        channel: usize,
        /// The sample.
        value: f32,
    },
    /// The recording has no channels or too many.
    #[error("a recording of {channels} channels can't be enhanced: 1 to {most} are supported")]
    Channels {
        /// Channels of the recording.
        channels: usize,
        /// The most that are supported.
        most: usize,
    },
    /// A block of samples does not hold whole frames, or came after the end.
    #[error("{samples} samples are no whole frames of {channels} channels, or come after the end")]
    Frames {
        /// Samples of the block.
        samples: usize,
        /// Channels of the recording.
        channels: usize,
    },
    /// The recording has another rate.
    #[error("samples at {rate} Hz can't be enhanced: the network needs 48000 Hz")]
    Rate {
        /// Samples a second.
        rate: u32,
    },
    /// The attenuation limit is no number of decibels from 0 to 100.
    #[error("a strength of {strength} dB makes no sense: give 0 to 100")]
    Strength {
        /// What was asked for.
        strength: f32,
    },
    /// The recording can't be read, or the result can't be written.
    #[error(transparent)]
    Media(#[from] MediaError),
    /// The caller cancelled it.
    #[error("cancelled")]
    Cancelled,
}

/// Whose fault an error is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The recording or the options: another try gives the same error.
    Request,
    /// The installation: the model, a missing program, a full disk.
    Installation,
    /// Nobody's: the caller cancelled it.
    Cancelled,
}

impl EnhanceError {
    /// Whose fault it is.
    pub fn fault(&self) -> Fault {
        match self {
            Self::Unreadable { .. } | Self::Malformed { .. } => Fault::Installation,
            Self::Sample { .. }
            | Self::Channels { .. }
            | Self::Frames { .. }
            | Self::Rate { .. }
            | Self::Strength { .. } => Fault::Request,
            Self::Media(MediaError::FfmpegMissing { .. } | MediaError::Output(_) | MediaError::Io(_)) => {
                Fault::Installation
            }
            Self::Cancelled | Self::Media(MediaError::Cancelled) => Fault::Cancelled,
            Self::Media(_) => Fault::Request,
        }
    }

    pub(crate) fn malformed(path: &Path, what: impl Into<String>) -> Self {
        Self::Malformed { path: path.to_owned(), what: what.into() }
    }

    /// Maps the error of a graph inside the archive at `path`.
    pub(crate) fn of_graph(error: &FileError, path: &Path) -> Self {
        Self::malformed(path, error.what())
    }
}
