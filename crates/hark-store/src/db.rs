//! Two databases behind one set of statements.
//!
//! Statements are written once, with `$1` placeholders and types both know. What differs is here: pools, how a transaction begins, and
//! how a row is locked. SQLite has one connection that writes, so a write transaction is alone from its first statement.

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::str::FromStr;
use std::time::Duration;

use sqlx::postgres::{PgArguments, PgConnectOptions, PgPoolOptions, PgRow};
use sqlx::sqlite::{
    SqliteArguments, SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteRow, SqliteSynchronous,
};
use sqlx::{Arguments, Decode, Executor as _, PgPool, Postgres, Row as _, Sqlite, SqlitePool, Type};

use crate::error::{Error, Result};

/// How long a writer waits for a writer of another process (the command line beside the server).
const BUSY: Duration = Duration::from_secs(10);
/// How long a caller waits for a connection before the database counts as overloaded.
const ACQUIRE: Duration = Duration::from_secs(30);

/// A future whose code is compiled here. Bodies of async functions are compiled by whoever polls them, and the driver's are large: without the box every crate
/// above would compile all of it again.
type Boxed<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// A pool of connections to either database.
pub(crate) enum Db {
    Sqlite { writer: SqlitePool, readers: SqlitePool },
    Postgres(PgPool),
}

/// A transaction in either database; rolled back unless committed.
pub(crate) enum Tx {
    Sqlite(sqlx::Transaction<'static, Sqlite>),
    Postgres(sqlx::Transaction<'static, Postgres>),
}

/// A value for a placeholder.
#[derive(Clone, Copy)]
pub(crate) enum Value<'a> {
    Int(Option<i64>),
    Real(f64),
    Text(Option<&'a str>),
    Bytes(Option<&'a [u8]>),
    Bool(bool),
}

/// The values of a statement, in the order of its placeholders.
macro_rules! args {
    ($($value:expr),* $(,)?) => { &[$($crate::db::Value::from($value)),*] };
}
pub(crate) use args;

macro_rules! value_from {
    ($($from:ty => $make:expr),+ $(,)?) => {$(
        impl<'a> From<$from> for Value<'a> {
            fn from(value: $from) -> Self {
                let make: fn($from) -> Value<'a> = $make;
                make(value)
            }
        }
    )+};
}

value_from! {
    i64 => |v| Value::Int(Some(v)),
    Option<i64> => Value::Int,
    f64 => Value::Real,
    bool => Value::Bool,
    &'a str => |v| Value::Text(Some(v)),
    &'a String => |v| Value::Text(Some(v)),
    Option<&'a str> => Value::Text,
    &'a [u8] => |v| Value::Bytes(Some(v)),
    &'a Vec<u8> => |v| Value::Bytes(Some(v)),
    Option<&'a [u8]> => Value::Bytes,
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

/// What a value that is bundled with others is, see [`Db::bundle`].
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// A whole number, a text, or nothing.
    Plain,
    /// Bytes, which arrive as hexadecimal digits.
    Bytes,
    /// A number with a fraction, which arrives as a text that reads as the same number.
    Real,
}

impl Db {
    /// An expression that gathers values of many rows, in an order, into one text: a JSON array of arrays, or nothing where there are no rows.
    pub(crate) fn bundle(&self, values: &[(&str, Kind)], order: &str) -> String {
        let values = values.iter().map(|&(value, kind)| match (self, kind) {
            (_, Kind::Plain) => value.to_owned(),
            (Db::Sqlite { .. }, Kind::Bytes) => format!("hex({value})"),
            (Db::Postgres(_), Kind::Bytes) => format!("encode({value}, 'hex')"),
            (Db::Sqlite { .. }, Kind::Real) => format!("printf('%!.17g', {value})"),
            (Db::Postgres(_), Kind::Real) => format!("CAST({value} AS text)"),
        });
        let values = values.collect::<Vec<_>>().join(", ");
        match self {
            Db::Sqlite { .. } => format!("json_group_array(json_array({values}) ORDER BY {order})"),
            Db::Postgres(_) => format!("CAST(json_agg(json_build_array({values}) ORDER BY {order}) AS text)"),
        }
    }

    /// Connects; a SQLite database is created when it does not exist.
    /// On PostgreSQL others see who is connected by `name`.
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
                let pool = PgPoolOptions::new().max_connections(connections).acquire_timeout(ACQUIRE);
                return Ok(Db::Postgres(pool.connect_with(options).await?));
            }
            Err(Error::Setup("the database must be sqlite:///path/to/file or postgres://…".into()))
        })
    }

    /// Begins a transaction that writes.
    pub(crate) fn begin(&self) -> Boxed<'_, Tx> {
        Box::pin(async move {
            Ok(match self {
                Db::Sqlite { writer, .. } => {
                    let writer = writer.clone();
                    // A deferred transaction that finds another writer when it first writes would fail instead of waiting.
                    Tx::Sqlite(to_the_end(async move { writer.begin_with("BEGIN IMMEDIATE").await }).await?)
                }
                Db::Postgres(pool) => {
                    let pool = pool.clone();
                    Tx::Postgres(to_the_end(async move { pool.begin().await }).await?)
                }
            })
        })
    }

    /// Begins a transaction that sees one moment of the database and writes nothing.
    pub(crate) fn snapshot(&self) -> Boxed<'_, Tx> {
        Box::pin(async move {
            Ok(match self {
                Db::Sqlite { readers, .. } => {
                    let readers = readers.clone();
                    Tx::Sqlite(to_the_end(async move { readers.begin().await }).await?)
                }
                Db::Postgres(pool) => {
                    let pool = pool.clone();
                    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
                    Tx::Postgres(to_the_end(async move { pool.begin_with(begin).await }).await?)
                }
            })
        })
    }

    /// All rows of one statement that only reads.
    pub(crate) fn all<'a>(&'a self, sql: &'a str, args: &'a [Value<'a>]) -> Boxed<'a, Vec<Row>> {
        Box::pin(async move {
            Ok(match self {
                Db::Sqlite { readers, .. } => {
                    let rows = sqlx::query_with(sql, for_sqlite(args)?).fetch_all(readers).await?;
                    rows.into_iter().map(Row::Sqlite).collect()
                }
                Db::Postgres(pool) => {
                    let rows = sqlx::query_with(sql, for_postgres(args)?).fetch_all(pool).await?;
                    rows.into_iter().map(Row::Postgres).collect()
                }
            })
        })
    }

    /// The first row of one statement that only reads.
    pub(crate) fn optional<'a>(&'a self, sql: &'a str, args: &'a [Value<'a>]) -> Boxed<'a, Option<Row>> {
        Box::pin(async move {
            Ok(match self {
                Db::Sqlite { readers, .. } => {
                    sqlx::query_with(sql, for_sqlite(args)?).fetch_optional(readers).await?.map(Row::Sqlite)
                }
                Db::Postgres(pool) => {
                    sqlx::query_with(sql, for_postgres(args)?).fetch_optional(pool).await?.map(Row::Postgres)
                }
            })
        })
    }

    /// The only row of one statement that only reads.
    pub(crate) fn one<'a>(&'a self, sql: &'a str, args: &'a [Value<'a>]) -> Boxed<'a, Row> {
        Box::pin(async move { Ok(self.optional(sql, args).await?.ok_or(sqlx::Error::RowNotFound)?) })
    }

    /// One statement that writes, as a transaction of its own; gives the number of rows it touched.
    pub(crate) fn execute<'a>(&'a self, sql: &'a str, args: &'a [Value<'a>]) -> Boxed<'a, u64> {
        Box::pin(async move {
            let mut tx = self.begin().await?;
            let touched = tx.execute(sql, args).await?;
            tx.commit().await?;
            Ok(touched)
        })
    }

    /// Brings what was replaced out of the database's files, as far as that goes while others use it: the journal of SQLite is emptied.
    pub(crate) fn empty_journal(&self) -> Boxed<'_, ()> {
        Box::pin(async move {
            if let Db::Sqlite { writer, .. } = self {
                sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").fetch_all(writer).await?;
            }
            Ok(())
        })
    }

    /// Writes these tables anew, so that nothing of what was replaced is left in their files. Others wait meanwhile.
    pub(crate) fn rewrite<'a>(&'a self, tables: &'a [&'a str]) -> Boxed<'a, ()> {
        Box::pin(async move {
            match self {
                Db::Sqlite { writer, .. } => {
                    sqlx::query("VACUUM").execute(writer).await?;
                }
                Db::Postgres(pool) => {
                    for table in tables {
                        sqlx::query(&format!("VACUUM (FULL) {table}")).execute(pool).await?;
                    }
                }
            }
            self.empty_journal().await
        })
    }

    pub(crate) fn close(&self) -> Boxed<'_, ()> {
        Box::pin(async move {
            match self {
                Db::Sqlite { writer, readers } => {
                    close(readers).await;
                    close(writer).await;
                }
                Db::Postgres(pool) => close(pool).await,
            }
            Ok(())
        })
    }
}

impl Tx {
    /// Runs a statement; gives the number of rows it touched.
    pub(crate) fn execute<'a>(&'a mut self, sql: &'a str, args: &'a [Value<'a>]) -> Boxed<'a, u64> {
        Box::pin(async move {
            Ok(match self {
                Tx::Sqlite(tx) => sqlx::query_with(sql, for_sqlite(args)?).execute(&mut **tx).await?.rows_affected(),
                Tx::Postgres(tx) => {
                    sqlx::query_with(sql, for_postgres(args)?).execute(&mut **tx).await?.rows_affected()
                }
            })
        })
    }

    /// All rows of a statement.
    pub(crate) fn all<'a>(&'a mut self, sql: &'a str, args: &'a [Value<'a>]) -> Boxed<'a, Vec<Row>> {
        Box::pin(async move {
            Ok(match self {
                Tx::Sqlite(tx) => {
                    let rows = sqlx::query_with(sql, for_sqlite(args)?).fetch_all(&mut **tx).await?;
                    rows.into_iter().map(Row::Sqlite).collect()
                }
                Tx::Postgres(tx) => {
                    let rows = sqlx::query_with(sql, for_postgres(args)?).fetch_all(&mut **tx).await?;
                    rows.into_iter().map(Row::Postgres).collect()
                }
            })
        })
    }

    /// The first row of a statement. All rows are read: SQLite finishes a `RETURNING` statement only then.
    pub(crate) fn optional<'a>(&'a mut self, sql: &'a str, args: &'a [Value<'a>]) -> Boxed<'a, Option<Row>> {
        Box::pin(async move { Ok(self.all(sql, args).await?.into_iter().next()) })
    }

    /// The only row of a statement.
    pub(crate) fn one<'a>(&'a mut self, sql: &'a str, args: &'a [Value<'a>]) -> Boxed<'a, Row> {
        Box::pin(async move { Ok(self.optional(sql, args).await?.ok_or(sqlx::Error::RowNotFound)?) })
    }

    /// Several statements without placeholders.
    pub(crate) fn script<'a>(&'a mut self, sql: &'a str) -> Boxed<'a, ()> {
        Box::pin(async move {
            match self {
                Tx::Sqlite(tx) => (&mut **tx).execute(sqlx::raw_sql(sql)).await.map(drop)?,
                Tx::Postgres(tx) => (&mut **tx).execute(sqlx::raw_sql(sql)).await.map(drop)?,
            }
            Ok(())
        })
    }

    pub(crate) fn is_postgres(&self) -> bool {
        matches!(self, Tx::Postgres(_))
    }

    /// What a `SELECT` ends with so that its rows wait for other writers. In SQLite a write transaction is alone anyway.
    pub(crate) fn for_update(&self) -> &'static str {
        // "no key" lets others insert rows that refer to this one meanwhile.
        if self.is_postgres() { " FOR NO KEY UPDATE" } else { "" }
    }

    pub(crate) fn commit(self) -> Boxed<'static, ()> {
        Box::pin(async move {
            match self {
                Tx::Sqlite(tx) => tx.commit().await?,
                Tx::Postgres(tx) => tx.commit().await?,
            }
            Ok(())
        })
    }
}

/// Closes all connections of a pool. sqlx 0.8 forgets one that is on its way back to the pool at that moment: it stays open for as long as the pool lives.
async fn close<T: sqlx::Database>(pool: &sqlx::Pool<T>) {
    for _ in 0..200 {
        pool.close().await;
        if pool.size() == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Runs the beginning of a transaction to its end even when whoever waits for it goes away. sqlx 0.8 forgets a transaction whose beginning is dropped midway: its
/// connection goes back to the pool with the transaction open, and the next caller is inside it. A transaction that has begun is rolled back when dropped.
async fn to_the_end<T: Send + 'static>(
    begin: impl Future<Output = Result<T, sqlx::Error>> + Send + 'static,
) -> Result<T> {
    Ok(tokio::spawn(begin).await.map_err(|_| sqlx::Error::WorkerCrashed)??)
}

fn for_sqlite<'a>(args: &[Value<'a>]) -> Result<SqliteArguments<'a>> {
    let mut out = SqliteArguments::default();
    for arg in args {
        match *arg {
            Value::Int(v) => out.add(v),
            Value::Real(v) => out.add(v),
            Value::Text(v) => out.add(v),
            Value::Bytes(v) => out.add(v),
            Value::Bool(v) => out.add(v),
        }
        .map_err(sqlx::Error::Encode)?;
    }
    Ok(out)
}

fn for_postgres(args: &[Value<'_>]) -> Result<PgArguments> {
    let mut out = PgArguments::default();
    for arg in args {
        match *arg {
            Value::Int(v) => out.add(v),
            Value::Real(v) => out.add(v),
            Value::Text(v) => out.add(v),
            Value::Bytes(v) => out.add(v),
            Value::Bool(v) => out.add(v),
        }
        .map_err(sqlx::Error::Encode)?;
    }
    Ok(out)
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
        // NORMAL may lose the last commits when power fails; a charge that was answered must stay.
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(BUSY)
        .foreign_keys(true)
        // Deleted text must not stay in the file.
        .pragma("secure_delete", "on")
        .pragma("trusted_schema", "off");
    let pool = || SqlitePoolOptions::new().acquire_timeout(ACQUIRE).idle_timeout(None).max_lifetime(None);
    let writer = pool().max_connections(1).test_before_acquire(false).connect_with(options.clone()).await?;
    let readers = pool()
        .max_connections(connections)
        .test_before_acquire(false)
        .connect_with(options.pragma("query_only", "on"))
        .await?;
    Ok(Db::Sqlite { writer, readers })
}

/// Creates the file that only its owner may read, and its folder likewise; SQLite gives its side files the same mode.
fn private_file(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        private_folder(folder)?;
    }
    let file = std::fs::OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
    file.set_permissions(std::fs::Permissions::from_mode(0o600))
}

/// Creates a folder that only its owner may enter; one that exists keeps its mode.
pub(crate) fn private_folder(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}
