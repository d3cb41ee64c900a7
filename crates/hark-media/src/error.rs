use std::io;

/// Why audio could not be read from a source.
#[derive(Debug, thiserror::Error)]
pub enum MediaError {
    /// The source holds no bytes at all.
    #[error("the file is empty")]
    Empty,

    /// The bytes are not a format that Hark or ffmpeg knows.
    #[error("not an audio or video format that can be read ({0})")]
    Unrecognized(String),

    /// The container is sound but carries no audio track.
    #[error("the {container} file has no audio track")]
    NoAudio {
        /// The container that was recognized.
        container: String,
    },

    /// The asked audio track does not exist.
    #[error("there is no audio track {track}: the file has {tracks}, counted from 0")]
    NoSuchTrack {
        /// The index that was asked for.
        track: usize,
        /// How many audio tracks the file has.
        tracks: usize,
    },

    /// The format needs ffmpeg, which is not installed.
    #[error(
        "reading {why} needs ffmpeg, which was not found: install it (Debian and Ubuntu: `apt install ffmpeg`, macOS: `brew install ffmpeg`)"
    )]
    FfmpegMissing {
        /// What in the file needs it, for example "opus in ogg".
        why: String,
    },

    /// The audio is longer than the caller allows.
    #[error("the audio is longer than the {limit:.0} s allowed")]
    TooLong {
        /// The limit that was passed, in seconds.
        limit: f64,
    },

    /// The audio turned out longer than its [`Budget`](crate::Budget) grants.
    #[error("the audio goes on after {seconds:.0} s, for longer than was granted")]
    OverBudget {
        /// Seconds that were decoded.
        seconds: f64,
    },

    /// Somebody called it off.
    #[error("cancelled")]
    Cancelled,

    /// A limit on decoding (processor time, memory, no progress) was reached.
    #[error("the decoder was stopped: {0}")]
    Limit(String),

    /// The format was recognized but no audio could be decoded from it.
    #[error("the {container} file could not be decoded: {reason}")]
    Decode {
        /// The container that was recognized.
        container: String,
        /// What is wrong with it, in words of ours.
        reason: String,
    },

    /// Audio can't be given or written as it was asked for.
    #[error("the audio cannot be written: {0}")]
    Output(String),

    /// Reading the source failed.
    #[error("reading the source failed: {0}")]
    Io(#[from] io::Error),
}
