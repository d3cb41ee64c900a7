//! Everything that can go wrong here, in words that the server may pass on.

use std::fmt;

use hark_api::FaultKind;

/// Why the store did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No such thing, or it belongs to another account.
    #[error("{0} not found")]
    NotFound(&'static str),
    /// The balance does not cover what was to be held or charged.
    #[error("not enough credits: {need} needed, {have} left")]
    NotEnoughCredits {
        /// Credits of the account.
        have: i64,
        /// Credits that were asked for.
        need: i64,
    },
    /// Another worker has the job, or it was canceled, finished or deleted.
    #[error("this worker no longer holds the job; stop working on it")]
    LeaseLost,
    /// A limit of the account, key or address is reached.
    #[error("{what} limit reached: {used} of {limit} used")]
    Limit {
        /// Which limit.
        what: Limit,
        /// What is allowed.
        limit: i64,
        /// What is used already.
        used: i64,
    },
    /// Too many jobs wait.
    #[error("the queue is full: {length} jobs wait")]
    QueueFull {
        /// Jobs that wait.
        length: i64,
    },
    /// The request contradicts what is stored.
    #[error("{0}")]
    Conflict(&'static str),
    /// The name of an idempotent request was used for another request.
    #[error("this idempotency key was used for a different request")]
    KeyReused,
    /// A later version of Hark wrote this database.
    #[error("the database has version {found}, this program knows {known}: start a newer hark")]
    Newer {
        /// Version of the database.
        found: i64,
        /// Last version known here.
        known: i64,
    },
    /// Sealed data that the configured master keys don't open.
    #[error("sealed data can't be opened: {0}")]
    Sealed(&'static str),
    /// Stored data is not what was written.
    #[error("stored data is damaged: {0}")]
    Damaged(String),
    /// The store can't be opened as configured.
    #[error("{0}")]
    Setup(String),
    /// The folder or bucket of recordings failed.
    #[error("blob store: {0}")]
    Blob(String),
    /// The database failed.
    #[error("database: {0}")]
    Database(#[from] sqlx::Error),
}

/// A result of the store.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The limits that the store counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Jobs of one owner that wait or run.
    ConcurrentJobs,
    /// Minutes of one key in this month.
    MonthlyMinutes,
    /// Transcriptions of one address today.
    AnonymousTranscriptions,
    /// Minutes of one address today.
    AnonymousMinutes,
    /// Questions of one account today.
    DailyQuestions,
    /// Bytes of recordings that one account keeps.
    StorageBytes,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Limit::ConcurrentJobs => "concurrent transcription",
            Limit::MonthlyMinutes => "monthly minutes",
            Limit::AnonymousTranscriptions => "daily transcription",
            Limit::AnonymousMinutes => "daily minutes",
            Limit::DailyQuestions => "daily question",
            Limit::StorageBytes => "storage",
        })
    }
}

impl Error {
    pub(crate) fn io(doing: &str, error: std::io::Error) -> Error {
        Error::Blob(format!("{doing}: {error}"))
    }

    /// Whose fault it is when a job meets this error.
    pub fn fault(&self) -> FaultKind {
        match self {
            Error::Blob(_) | Error::Database(_) | Error::Sealed(_) | Error::Setup(_) | Error::Newer { .. } => {
                FaultKind::Unavailable
            }
            Error::LeaseLost => FaultKind::Cancelled,
            Error::NotFound(_)
            | Error::NotEnoughCredits { .. }
            | Error::Limit { .. }
            | Error::QueueFull { .. }
            | Error::Conflict(_)
            | Error::KeyReused
            | Error::Damaged(_) => FaultKind::Internal,
        }
    }

    /// Whether a unique index refused the write.
    pub(crate) fn is_duplicate(&self) -> bool {
        matches!(self, Error::Database(sqlx::Error::Database(error)) if error.is_unique_violation())
    }
}
