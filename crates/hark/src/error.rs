//! What ends a command early, and with which exit code.

/// Why a command did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    /// The command line or the configuration makes no sense; nothing was done.
    #[error("{0}")]
    Usage(String),
    /// Something went wrong on the way.
    #[error("{0}")]
    Failed(String),
    /// Some files or checks failed and were reported one by one.
    #[error("some of it failed")]
    Reported,
    /// What was looked for is not there, which was said already.
    #[error("not found")]
    Absent,
    /// The user or the system asked us to stop, with this signal.
    #[error("interrupted: files already written are complete, the others were not begun")]
    Interrupted(i32),
    /// The reader of our output has gone, as `head` does: nobody is left to tell.
    #[error("the output was closed")]
    OutputClosed,
}

impl CliError {
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::OutputClosed => 0,
            Self::Failed(_) | Self::Reported => 1,
            Self::Usage(_) => 2,
            Self::Absent => 3,
            // What a shell shows for a program that a signal ended.
            Self::Interrupted(signal) => u8::try_from(128 + signal).unwrap_or(130),
        }
    }

    /// Whether the message says something that the user has not read yet.
    pub(crate) fn is_for_reading(&self) -> bool {
        !matches!(self, Self::Reported | Self::Absent | Self::OutputClosed)
    }
}
