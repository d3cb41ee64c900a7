//! Two databases behind one set of statements.
//!
//! Statements are written once, with `$1` placeholders and types that both support. The differences are here: pools, how a transaction begins, and
//! how a row is locked. SQLite has one writing connection, so a write transaction is exclusive from its first statement.

mod transaction;
mod value;

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use sqlx::postgres::{PgConnectOptions, PgPoolOptions, PgRow};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteRow, SqliteSynchronous};
use sqlx::{ConnectOptions as _, Connection as _, Decode, PgPool, Postgres, Row as _, Sqlite, SqlitePool, Type};

use crate::error::{Error, Result, is_busy};
use transaction::Guard;
pub(crate) use transaction::Tx;
pub(crate) use value::{Value, args};

/// SQLite's busy timeout: how long a writer waits for a writer of another process (the command line beside the server).
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a caller waits for the writing connection of SQLite.
const SQLITE_ACQUIRE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a caller waits for a connection to PostgreSQL, including to connect: requests fail within this time when the database is unreachable.
const POSTGRES_ACQUIRE_TIMEOUT: Duration = Duration::from_secs(4);
/// How long a starting process waits for PostgreSQL to become reachable.
const STARTUP_TIMEOUT: Duration = Duration::from_secs(30);

/// A boxed future, so that its code is compiled in this crate: async bodies are instantiated in the crate that polls them, and the driver's are large.
type Boxed<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// A pool of connections to either database.
pub(crate) enum Db {
    Sqlite { writer: SqlitePool, readers: SqlitePool, file: DatabaseFile },
    Postgres(PgPool),
}

/// A type that a column of either database is read as.
pub(crate) trait Column:
    for<'r> Decode<'r, Sqlite> + Type<Sqlite> + for<'r> Decode<'r, Postgres> + Type<Postgres>
{
}
impl<T> Column for T where T: for<'r> Decode<'r, Sqlite> + Type<Sqlite> + for<'r> Decode<'r, Postgres> + Type<Postgres> {}

/// A row of either database.
pub(crate) enum Row {
    Sqlite(SqliteRow),
    Postgres(PgRow),
}

impl Row {
    /// The column of that name.
    pub(crate) fn get<T: Column>(&self, name: &str) -> Result<T> {
        Ok(match self {
            Row::Sqlite(row) => row.try_get(name)?,
            Row::Postgres(row) => row.try_get(name)?,
        })
    }
}

/// How a value is encoded in JSON, see [`Db::json_rows`].
#[derive(Clone, Copy)]
pub(crate) enum JsonKind {
    /// An integer, a text, or null.
    Plain,
    /// Bytes, as hexadecimal digits.
    Bytes,
    /// A floating-point number, as a text that parses to the same number.
    Real,
}

impl Db {
    /// A SQL expression that aggregates ordered rows into one text: a JSON array of arrays, or null without rows.
    pub(crate) fn json_rows(&self, values: &[(&str, JsonKind)], order: &str) -> String {
        let values = values.iter().map(|&(value, kind)| match (self, kind) {
            (_, JsonKind::Plain) => value.to_owned(),
            (Db::Sqlite { .. }, JsonKind::Bytes) => format!("hex({value})"),
            (Db::Postgres(_), JsonKind::Bytes) => format!("encode({value}, 'hex')"),
            (Db::Sqlite { .. }, JsonKind::Real) => format!("printf('%!.17g', {value})"),
            (Db::Postgres(_), JsonKind::Real) => format!("CAST({value} AS text)"),
        });
        let values = values.collect::<Vec<_>>().join(", ");
        match self {
            Db::Sqlite { .. } => format!("json_group_array(json_array({values}) ORDER BY {order})"),
            Db::Postgres(_) => format!("CAST(json_agg(json_build_array({values}) ORDER BY {order}) AS text)"),
        }
    }

    /// Connects; a SQLite database is created when it does not exist.
    /// On PostgreSQL `name` is the `application_name` of the connections.
    pub(crate) fn connect<'a>(url: &'a str, connections: u32, name: &'a str) -> Boxed<'a, Db> {
        Box::pin(async move {
            if let Some(path) = sqlite_path(url) {
                return connect_sqlite(&path, connections).await;
            }
            if url.starts_with("postgres://") || url.starts_with("postgresql://") {
                // The parse error may quote the address and with it the password, so it is not passed on.
                let options = PgConnectOptions::from_str(url)
                    .map_err(|_| Error::Setup("the address of the PostgreSQL database is not a valid URL".into()))?
                    .application_name(name);
                return connect_postgres(options, connections).await.map(Db::Postgres);
            }
            Err(Error::Setup("the database must be sqlite:///path/to/file or postgres://…".into()))
        })
    }

    /// Begins a write transaction.
    pub(crate) fn begin(&self) -> Boxed<'_, Tx> {
        Box::pin(async move {
            Ok(match self {
                Db::Sqlite { writer, file, .. } => {
                    file.check_not_replaced()?;
                    // A deferred transaction would fail instead of waiting if another writer is active at its first write.
                    Tx::Sqlite(Guard::begin(writer, "BEGIN IMMEDIATE").await?)
                }
                Db::Postgres(pool) => Tx::Postgres(Guard::begin(pool, "BEGIN").await?),
            })
        })
    }

    /// Begins a read-only transaction with a consistent snapshot.
    pub(crate) fn snapshot(&self) -> Boxed<'_, Tx> {
        Box::pin(async move {
            Ok(match self {
                Db::Sqlite { readers, .. } => Tx::Sqlite(Guard::begin(readers, "BEGIN").await?),
                Db::Postgres(pool) => {
                    Tx::Postgres(Guard::begin(pool, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?)
                }
            })
        })
    }

    /// All rows of one read-only statement.
    pub(crate) fn all<'a>(&'a self, sql: &'a str, args: &'a [Value<'a>]) -> Boxed<'a, Vec<Row>> {
        Box::pin(async move {
            match self {
                Db::Sqlite { readers, .. } => Guard::acquire(readers).await?.all(sql, args).await,
                Db::Postgres(pool) => Guard::acquire(pool).await?.all(sql, args).await,
            }
        })
    }

    /// The first row of one read-only statement.
    pub(crate) fn optional<'a>(&'a self, sql: &'a str, args: &'a [Value<'a>]) -> Boxed<'a, Option<Row>> {
        Box::pin(async move {
            match self {
                Db::Sqlite { readers, .. } => Guard::acquire(readers).await?.optional(sql, args).await,
                Db::Postgres(pool) => Guard::acquire(pool).await?.optional(sql, args).await,
            }
        })
    }

    /// All rows of one read-only statement without a timeout.
    pub(crate) fn all_without_timeout<'a>(&'a self, sql: &'a str, args: &'a [Value<'a>]) -> Boxed<'a, Vec<Row>> {
        Box::pin(async move {
            match self {
                Db::Sqlite { readers, .. } => Guard::acquire(readers).await?.all(sql, args).await,
                Db::Postgres(pool) => Guard::acquire(pool).await?.all_without_timeout(sql, args).await,
            }
        })
    }

    /// The only row of one read-only statement.
    pub(crate) fn one<'a>(&'a self, sql: &'a str, args: &'a [Value<'a>]) -> Boxed<'a, Row> {
        Box::pin(async move { Ok(self.optional(sql, args).await?.ok_or(sqlx::Error::RowNotFound)?) })
    }

    /// Runs one writing statement in a transaction of its own; returns the number of rows affected.
    pub(crate) fn execute<'a>(&'a self, sql: &'a str, args: &'a [Value<'a>]) -> Boxed<'a, u64> {
        Box::pin(async move {
            let mut tx = self.begin().await?;
            let affected = tx.execute(sql, args).await?;
            tx.commit().await?;
            Ok(affected)
        })
    }

    /// Truncates the write-ahead log of SQLite, which holds replaced values; PostgreSQL recycles its own.
    pub(crate) fn truncate_wal(&self) -> Boxed<'_, ()> {
        Box::pin(async move {
            if let Db::Sqlite { writer, .. } = self {
                Guard::acquire(writer).await?.all("PRAGMA wal_checkpoint(TRUNCATE)", &[]).await?;
            }
            Ok(())
        })
    }

    /// Rewrites these tables, so that no replaced values remain in their files. Blocks other users meanwhile.
    pub(crate) fn vacuum<'a>(&'a self, tables: &'a [&'a str]) -> Boxed<'a, ()> {
        Box::pin(async move {
            match self {
                Db::Sqlite { writer, .. } => Guard::acquire(writer).await?.script("VACUUM").await?,
                Db::Postgres(pool) => {
                    for table in tables {
                        Guard::acquire(pool).await?.script(&format!("VACUUM (FULL) {table}")).await?;
                    }
                }
            }
            self.truncate_wal().await
        })
    }

    pub(crate) fn close(&self) -> Boxed<'_, ()> {
        Box::pin(async move {
            match self {
                Db::Sqlite { writer, readers, .. } => {
                    close(readers).await;
                    close(writer).await;
                }
                Db::Postgres(pool) => close(pool).await,
            }
            Ok(())
        })
    }
}

/// Closes all connections of a pool, repeatedly: sqlx misses one that is being returned to the pool at that moment.
async fn close<T: sqlx::Database>(pool: &sqlx::Pool<T>) {
    for _ in 0..200 {
        pool.close().await;
        if pool.size() == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Connects, and retries while the server starts up.
async fn connect_postgres(options: PgConnectOptions, connections: u32) -> Result<PgPool> {
    let pool = PgPoolOptions::new().max_connections(connections).acquire_timeout(POSTGRES_ACQUIRE_TIMEOUT);
    let started = Instant::now();
    loop {
        match pool.clone().connect_with(options.clone()).await {
            // The pool itself retries refused connections until its timeout.
            Err(sqlx::Error::PoolTimedOut) if started.elapsed() < STARTUP_TIMEOUT => {}
            connected => return Ok(connected?),
        }
    }
}

/// The file of a `sqlite:` address: `sqlite:///var/lib/hark.db` and `sqlite://hark.db`.
pub(crate) fn sqlite_path(url: &str) -> Option<PathBuf> {
    let path = url.strip_prefix("sqlite:")?;
    Some(PathBuf::from(path.strip_prefix("//").unwrap_or(path)))
}

async fn connect_sqlite(path: &Path, connections: u32) -> Result<Db> {
    private_file(path).map_err(|e| Error::Setup(format!("can't create the database {}: {e}", path.display())))?;
    let options = SqliteConnectOptions::new()
        .filename(path)
        .journal_mode(SqliteJournalMode::Wal)
        // NORMAL may lose the last commits on power loss; a confirmed charge must be durable.
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(BUSY_TIMEOUT)
        .foreign_keys(true)
        // Overwrite deleted text in the file.
        .pragma("secure_delete", "on")
        .pragma("trusted_schema", "off");
    enter_wal_mode(&options).await?;
    let pool =
        || SqlitePoolOptions::new().acquire_timeout(SQLITE_ACQUIRE_TIMEOUT).idle_timeout(None).max_lifetime(None);
    let writer = pool().max_connections(1).test_before_acquire(false).connect_with(options.clone()).await?;
    let readers = pool()
        .max_connections(connections)
        .test_before_acquire(false)
        .connect_with(options.pragma("query_only", "on"))
        .await?;
    let file = DatabaseFile::open(path).map_err(|e| Error::Setup(format!("can't read {}: {e}", path.display())))?;
    Ok(Db::Sqlite { writer, readers, file })
}

/// Switches a new database to WAL mode, which is persistent. SQLite's busy handler does not cover this change: of several processes that open a new
/// database at once all but one get SQLITE_BUSY immediately, so it is retried here.
async fn enter_wal_mode(options: &SqliteConnectOptions) -> Result<()> {
    let started = Instant::now();
    loop {
        let error = match options.connect().await {
            Ok(connection) => return Ok(connection.close().await?),
            Err(error) => error,
        };
        if !is_busy(&error) || started.elapsed() > BUSY_TIMEOUT {
            return Err(error.into());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// The identity of the file that SQLite's connections have open, whatever happens to its path.
pub(crate) struct DatabaseFile {
    path: PathBuf,
    /// Device and inode.
    identity: (u64, u64),
}

impl DatabaseFile {
    fn open(path: &Path) -> std::io::Result<Self> {
        Ok(DatabaseFile { path: path.to_owned(), identity: identity(path)? })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Fails when the path no longer names the open file: writes to an unlinked file would be lost when the process ends.
    pub(crate) fn check_not_replaced(&self) -> Result<()> {
        if identity(&self.path).is_ok_and(|now| now == self.identity) {
            return Ok(());
        }
        Err(Error::Unavailable(format!(
            "{} was removed or replaced while it was in use: stop every hark process before restoring a database, then start again",
            self.path.display()
        )))
    }
}

fn identity(path: &Path) -> std::io::Result<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    let metadata = std::fs::metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

/// Creates the file with mode 0600 and its folder with 0700; SQLite gives its WAL files the same mode.
///
/// A database that exists is not opened here: closing any descriptor of a file releases all POSIX locks that this process has on it, those of SQLite's
/// connections included (https://www.sqlite.org/howtocorrupt.html).
fn private_file(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
    /// Held until the descriptor of a new file is closed, so that this process opens no connection before.
    static CREATING: Mutex<()> = Mutex::new(());
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        private_folder(folder)?;
    }
    let _creating = CREATING.lock().unwrap_or_else(PoisonError::into_inner);
    match std::fs::OpenOptions::new().create_new(true).write(true).mode(0o600).open(path) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error),
        _ => std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)),
    }
}

/// Creates a folder with mode 0700; an existing one keeps its mode.
pub(crate) fn private_folder(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// POSIX locks of this process on a file, as the kernel lists them.
    fn locks(path: &Path) -> usize {
        let file = format!(":{} ", identity(path).unwrap().1);
        let process = format!(" {} ", std::process::id());
        let locks = std::fs::read_to_string("/proc/locks").unwrap();
        locks.lines().filter(|line| line.contains(&file) && line.contains(&process)).count()
    }

    #[tokio::test]
    async fn opening_a_database_again_leaves_the_locks_of_its_connections() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hark.db");
        let url = format!("sqlite://{}", path.display());
        let first = Db::connect(&url, 1, "test").await.unwrap();
        first.execute("CREATE TABLE notes (text TEXT)", &[]).await.unwrap();
        let held = locks(&path);
        assert!(held > 0, "a connection in WAL mode holds a shared lock for as long as it is open");
        let second = Db::connect(&url, 1, "test").await.unwrap();
        assert!(locks(&path) >= held);
        second.close().await.unwrap();
        first.close().await.unwrap();
    }

    /// SQLite (3.51) reads a bound LIMIT while it plans, and then prepares the statement again whenever a value is bound to it.
    #[test]
    fn no_statement_has_a_plain_bound_limit() {
        let mut folders = vec![std::path::PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/src"))];
        let (plain, mut read) = (["LIMIT ", "$"].concat(), 0);
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let text = std::fs::read_to_string(&path).unwrap();
                assert!(!text.contains(&plain), "{}: write LIMIT 0 + $n", path.display());
                read += 1;
            }
        }
        assert!(read > 30);
    }
}
