//! Errors of the store; their messages may be shown to users.

use std::fmt;

use hark_api::FaultKind;

/// An error of the store.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It does not exist, or belongs to another account.
    #[error("{0} not found")]
    NotFound(&'static str),
    /// The balance does not cover what was to be held or charged.
    #[error("not enough credits: {need} needed, {have} left")]
    NotEnoughCredits {
        /// Credits of the account.
        have: i64,
        /// Credits required.
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
        /// What is used.
        used: i64,
    },
    /// Too many jobs are queued.
    #[error("the queue is full: {length} jobs wait")]
    QueueFull {
        /// Jobs that wait.
        length: i64,
    },
    /// The request contradicts what is stored.
    #[error("{0}")]
    Conflict(&'static str),
    /// It was changed since the version that the request rests on.
    #[error("it was changed since it was read")]
    Changed,
    /// The idempotency key was used for a different request.
    #[error("this idempotency key was used for a different request")]
    KeyReused,
    /// The transcript of an idempotent request was deleted in the meantime.
    #[error("the transcript that this idempotency key made was deleted")]
    Deleted,
    /// A later version of Hark wrote this database.
    #[error("the database has version {found}, this program knows {known}: start a newer hark")]
    Newer {
        /// Version of the database.
        found: i64,
        /// Last version known here.
        known: i64,
    },
    /// Sealed data that the configured master keys cannot decrypt.
    #[error("sealed data can't be opened: {0}")]
    Sealed(&'static str),
    /// Stored data is corrupt.
    #[error("stored data is damaged: {0}")]
    Damaged(String),
    /// The store can't be opened as configured.
    #[error("{0}")]
    Setup(String),
    /// The folder or bucket of recordings failed.
    #[error("blob store: {0}")]
    Blob(String),
    /// A value that cannot be stored.
    #[error("{0}")]
    Invalid(&'static str),
    /// The database is unreachable or cannot write at the moment; a retry may succeed.
    #[error("the database is not available: {0}")]
    Unavailable(String),
    /// The database failed.
    #[error("database: {0}")]
    Database(sqlx::Error),
}

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        match classify(&error) {
            Class::Unavailable => Error::Unavailable(error.to_string()),
            Class::Damaged => Error::Damaged(format!("the database: {error}")),
            Class::Other => Error::Database(error),
        }
    }
}

/// Classification of driver errors.
enum Class {
    Unavailable,
    Damaged,
    Other,
}

fn classify(error: &sqlx::Error) -> Class {
    use sqlx::Error as E;
    match error {
        E::Io(_) | E::Tls(_) | E::Protocol(_) | E::PoolTimedOut | E::PoolClosed | E::WorkerCrashed | E::BeginFailed => {
            Class::Unavailable
        }
        E::Database(error) => {
            let code = error.code().unwrap_or_default();
            if error.try_downcast_ref::<sqlx::postgres::PgDatabaseError>().is_some() {
                classify_postgres(&code)
            } else {
                classify_sqlite(&code)
            }
        }
        _ => Class::Other,
    }
}

/// By SQLSTATE: https://www.postgresql.org/docs/current/errcodes-appendix.html
fn classify_postgres(code: &str) -> Class {
    match code {
        // Data or index corrupted.
        "XX001" | "XX002" => Class::Damaged,
        // A standby or a database set to read-only; serialization failure; deadlock; shutdown, crash recovery, starting.
        "25006" | "40001" | "40P01" | "57P01" | "57P02" | "57P03" | "57P05" => Class::Unavailable,
        // Connection exceptions, insufficient resources (disk full, out of memory, too many connections), system errors (I/O).
        _ if ["08", "53", "58"].iter().any(|class| code.starts_with(class)) => Class::Unavailable,
        _ => Class::Other,
    }
}

/// Result code of SQLite: another connection holds a lock.
const BUSY: i32 = 5;

/// Whether SQLite reported SQLITE_BUSY: another connection holds a lock.
pub(crate) fn is_busy(error: &sqlx::Error) -> bool {
    error.as_database_error().and_then(|error| error.code()).is_some_and(|code| primary(&code) == BUSY)
}

/// The primary result code, the low byte of an extended one.
fn primary(code: &str) -> i32 {
    code.parse::<i32>().unwrap_or(0) & 0xff
}

/// By result code: https://www.sqlite.org/rescode.html
fn classify_sqlite(code: &str) -> Class {
    const LOCKED: i32 = 6;
    const NOMEM: i32 = 7;
    const READONLY: i32 = 8;
    const IOERR: i32 = 10;
    const CORRUPT: i32 = 11;
    const FULL: i32 = 13;
    const CANTOPEN: i32 = 14;
    const PROTOCOL: i32 = 15;
    const NOTADB: i32 = 26;
    match primary(code) {
        CORRUPT | NOTADB => Class::Damaged,
        BUSY | LOCKED | NOMEM | READONLY | IOERR | FULL | CANTOPEN | PROTOCOL => Class::Unavailable,
        _ => Class::Other,
    }
}

/// A result of the store.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The limits that the store counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Queued and running jobs of one owner.
    ConcurrentJobs,
    /// Minutes of one key in this month.
    MonthlyMinutes,
    /// Credits that one key may spend in total.
    Spending,
    /// Transcriptions of one address today.
    AnonymousTranscriptions,
    /// Minutes of one address today.
    AnonymousMinutes,
    /// Anonymous use of one network prefix today.
    AnonymousNetwork,
    /// Accounts created from one address today.
    SignUps,
    /// Questions of one account today.
    DailyQuestions,
    /// Storage of one account's recordings, in bytes.
    StorageBytes,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Limit::ConcurrentJobs => "concurrent transcription",
            Limit::MonthlyMinutes => "monthly minutes",
            Limit::Spending => "spending",
            Limit::AnonymousTranscriptions => "daily transcription",
            Limit::AnonymousMinutes => "daily minutes",
            Limit::AnonymousNetwork => "daily network",
            Limit::SignUps => "daily sign-up",
            Limit::DailyQuestions => "daily question",
            Limit::StorageBytes => "storage",
        })
    }
}

impl Error {
    pub(crate) fn io(doing: &str, error: std::io::Error) -> Error {
        Error::Blob(format!("{doing}: {error}"))
    }

    /// The fault kind of a job that ends with this error.
    pub fn fault(&self) -> FaultKind {
        match self {
            Error::Blob(_)
            | Error::Database(_)
            | Error::Unavailable(_)
            | Error::Sealed(_)
            | Error::Setup(_)
            | Error::Newer { .. } => FaultKind::Unavailable,
            Error::LeaseLost => FaultKind::Cancelled,
            Error::NotFound(_)
            | Error::NotEnoughCredits { .. }
            | Error::Limit { .. }
            | Error::QueueFull { .. }
            | Error::Conflict(_)
            | Error::Changed
            | Error::KeyReused
            | Error::Invalid(_)
            | Error::Deleted
            | Error::Damaged(_) => FaultKind::Internal,
        }
    }

    /// Whether the database is unreachable or cannot write at the moment: a fault that affects every caller until it is resolved.
    pub fn is_unavailable(&self) -> bool {
        matches!(self, Error::Unavailable(_))
    }

    /// Whether the write violated a unique constraint.
    pub(crate) fn is_duplicate(&self) -> bool {
        matches!(self, Error::Database(sqlx::Error::Database(error)) if error.is_unique_violation())
    }
}
