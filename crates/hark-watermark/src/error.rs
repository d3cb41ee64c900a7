//! What can go wrong.

/// Why a sound could not be marked or examined.
#[derive(Debug, thiserror::Error)]
pub enum WatermarkError {
    /// The mark needs the band up to 3.4 kHz.
    #[error("a sample rate of {rate} Hz can't carry the watermark; it needs 8000 Hz or more")]
    Rate {
        /// The rate that was given.
        rate: u32,
    },
    /// Interleaved samples of no channel, or of part of a frame.
    #[error("{samples} samples are no whole frames of {channels} channels")]
    Channels {
        /// Samples in the block.
        samples: usize,
        /// Channels of the stream.
        channels: usize,
    },
    /// Not enough sound to look for the mark in.
    #[error(
        "the sound is {seconds:.2} s long; a watermark can be looked for in 1 s or more, and is read from about 5 s of speech"
    )]
    TooShort {
        /// The length of the sound.
        seconds: f64,
    },
    /// Nothing that could carry a mark.
    #[error("the sound is silent: there is nothing that could carry a watermark")]
    Silent,
    /// A sample is infinite or not a number.
    #[error("sample {index} is not a finite number; decode the file again or repair it")]
    NotFinite {
        /// The index of the first such sample.
        index: usize,
    },
    /// Whoever asked has called it off.
    #[error("the search for the watermark was cancelled")]
    Cancelled,
    /// The text of a key is not 64 hexadecimal digits.
    #[error("a watermark key is 64 hexadecimal digits (32 bytes), as `openssl rand -hex 32` makes them")]
    Key,
    /// The file of the key can't be read or made.
    #[error("the watermark key {path}: {source}", path = path.display())]
    KeyFile {
        /// The file.
        path: std::path::PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The operating system gave no random bytes.
    #[error("no random bytes from the operating system: {0}")]
    Random(String),
}

impl WatermarkError {
    /// Whether the sound that was given is at fault, rather than this program or its settings.
    pub fn is_input_fault(&self) -> bool {
        matches!(
            self,
            Self::Rate { .. } | Self::TooShort { .. } | Self::Silent | Self::NotFinite { .. } | Self::Channels { .. }
        )
    }
}
