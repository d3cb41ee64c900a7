//! Transactions, and connections that are never reused after an error that leaves their state in doubt.
//!
//! sqlx's own transaction is not used. SQLite ends a transaction by itself after some errors (a full disk, a failed write); the `ROLLBACK` that sqlx sends then
//! fails, and the connection goes back to the pool counted as still inside a transaction, where every later `BEGIN` is refused.

use std::pin::Pin;
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::{AssertSqlSafe, Executor as _, Pool, Postgres, Sqlite};

use super::value::{for_postgres, for_sqlite};
use super::{Boxed, Row, Value};
use crate::error::{Error, Result};

/// Statement timeout on PostgreSQL. On a network that drops packets the kernel would wait for minutes.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(10);

/// A boxed future of a driver.
type DriverFuture<'c> = Pin<Box<dyn Future<Output = Result<(), sqlx::Error>> + Send + 'c>>;

/// The common interface of the two drivers.
pub(crate) trait Driver: sqlx::Database {
    /// Statement timeout; SQLite waits no longer than its busy timeout anyway.
    const TIMEOUT: Option<Duration>;

    /// Runs statements without placeholders.
    fn run<'c>(connection: &'c mut Self::Connection, sql: &'c str) -> DriverFuture<'c>;
}

impl Driver for Sqlite {
    const TIMEOUT: Option<Duration> = None;

    fn run<'c>(connection: &'c mut Self::Connection, sql: &'c str) -> DriverFuture<'c> {
        Box::pin(async move { connection.execute(sqlx::raw_sql(AssertSqlSafe(sql))).await.map(drop) })
    }
}

impl Driver for Postgres {
    const TIMEOUT: Option<Duration> = Some(STATEMENT_TIMEOUT);

    fn run<'c>(connection: &'c mut Self::Connection, sql: &'c str) -> DriverFuture<'c> {
        Box::pin(async move { connection.execute(sqlx::raw_sql(AssertSqlSafe(sql))).await.map(drop) })
    }
}

/// The transaction state of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TransactionState {
    /// No transaction is open.
    Idle,
    /// A transaction may be open.
    Open,
    /// Unknown after an error: the connection is closed, not reused.
    Unknown,
}

/// A pooled connection that is returned to the pool only in a known state.
pub(crate) struct Guard<DB: Driver> {
    /// `Some` until the guard is dropped.
    connection: Option<PoolConnection<DB>>,
    state: TransactionState,
}

impl<DB: Driver> Guard<DB> {
    /// A connection without a transaction.
    pub(super) async fn acquire(pool: &Pool<DB>) -> Result<Self> {
        Ok(Guard { connection: Some(pool.acquire().await?), state: TransactionState::Idle })
    }

    /// A connection inside a transaction that `begin` opened.
    pub(super) async fn begin(pool: &Pool<DB>, begin: &'static str) -> Result<Self> {
        let mut guard = Guard::acquire(pool).await?;
        // Set first: a guard that is dropped during `BEGIN` must roll back.
        guard.state = TransactionState::Open;
        let result = with_timeout::<DB, _>(DB::run(guard.connection()?, begin)).await;
        guard.check(result)?;
        Ok(guard)
    }

    pub(super) fn connection(&mut self) -> Result<&mut DB::Connection> {
        match (&mut self.connection, self.state) {
            (Some(connection), TransactionState::Idle | TransactionState::Open) => Ok(connection),
            // SQLite may have rolled back by itself: a further statement would be a transaction of its own.
            _ => Err(Error::Unavailable("the transaction was aborted by an earlier error".into())),
        }
    }

    /// Returns the result, and marks the connection as unusable after an error that leaves its state unknown.
    pub(super) fn check<T>(&mut self, result: Result<T, sqlx::Error>) -> Result<T> {
        result.map_err(|error| {
            if !is_row_error(&error) {
                self.state = TransactionState::Unknown;
            }
            error.into()
        })
    }

    /// Runs statements without placeholders and without a timeout.
    pub(super) async fn script(&mut self, sql: &str) -> Result<()> {
        let result = DB::run(self.connection()?, sql).await;
        self.check(result)
    }

    async fn commit(mut self) -> Result<()> {
        let result = with_timeout::<DB, _>(DB::run(self.connection()?, "COMMIT")).await;
        if result.is_ok() {
            self.state = TransactionState::Idle;
        }
        self.check(result)
    }
}

impl<DB: Driver> Drop for Guard<DB> {
    fn drop(&mut self) {
        let Some(mut connection) = self.connection.take() else { return };
        match self.state {
            TransactionState::Idle => {}
            TransactionState::Unknown => connection.close_on_drop(),
            TransactionState::Open => match tokio::runtime::Handle::try_current() {
                Ok(runtime) => drop(runtime.spawn(roll_back(connection))),
                Err(_) => connection.close_on_drop(),
            },
        }
    }
}

/// Rolls back, and closes the connection unless that succeeded.
async fn roll_back<DB: Driver>(mut connection: PoolConnection<DB>) {
    if let Err(error) = with_timeout::<DB, _>(DB::run(&mut connection, "ROLLBACK")).await {
        tracing::debug!(%error, "database.rollback_failed");
        connection.close_on_drop();
    }
}

/// Whether the error is about rows (a constraint violation, a missing row): the state of the connection is known, a transaction awaits its `ROLLBACK`.
fn is_row_error(error: &sqlx::Error) -> bool {
    use sqlx::Error as E;
    match error {
        E::Database(error) => {
            error.is_unique_violation()
                || error.is_foreign_key_violation()
                || error.is_check_violation()
                || matches!(error.kind(), sqlx::error::ErrorKind::NotNullViolation)
        }
        E::RowNotFound
        | E::ColumnNotFound(_)
        | E::ColumnIndexOutOfBounds { .. }
        | E::ColumnDecode { .. }
        | E::Decode(_)
        | E::Encode(_)
        | E::TypeNotFound { .. } => true,
        _ => false,
    }
}

/// Applies the driver's statement timeout.
async fn with_timeout<DB: Driver, T>(
    statement: impl Future<Output = Result<T, sqlx::Error>>,
) -> Result<T, sqlx::Error> {
    let Some(limit) = DB::TIMEOUT else { return statement.await };
    let timed_out = |_| sqlx::Error::Io(std::io::Error::new(std::io::ErrorKind::TimedOut, "no answer to a statement"));
    tokio::time::timeout(limit, statement).await.map_err(timed_out)?
}

/// A transaction in either database; rolled back unless committed.
pub(crate) enum Tx {
    Sqlite(Guard<Sqlite>),
    Postgres(Guard<Postgres>),
}

impl Tx {
    /// Runs a statement; returns the number of rows it touched.
    pub(crate) fn execute<'a>(&'a mut self, sql: &'a str, args: &'a [Value<'a>]) -> Boxed<'a, u64> {
        Box::pin(async move {
            Ok(match self {
                Tx::Sqlite(tx) => {
                    let query = sqlx::query_with(AssertSqlSafe(sql), for_sqlite(args)?);
                    let result = query.execute(tx.connection()?).await;
                    tx.check(result)?.rows_affected()
                }
                Tx::Postgres(tx) => {
                    let query = sqlx::query_with(AssertSqlSafe(sql), for_postgres(args)?);
                    let result = with_timeout::<Postgres, _>(query.execute(tx.connection()?)).await;
                    tx.check(result)?.rows_affected()
                }
            })
        })
    }

    /// All rows of a statement.
    pub(crate) fn all<'a>(&'a mut self, sql: &'a str, args: &'a [Value<'a>]) -> Boxed<'a, Vec<Row>> {
        Box::pin(async move {
            match self {
                Tx::Sqlite(tx) => tx.all(sql, args).await,
                Tx::Postgres(tx) => tx.all(sql, args).await,
            }
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

    /// Runs statements without placeholders and without a timeout.
    pub(crate) fn script<'a>(&'a mut self, sql: &'a str) -> Boxed<'a, ()> {
        Box::pin(async move {
            match self {
                Tx::Sqlite(tx) => tx.script(sql).await,
                Tx::Postgres(tx) => tx.script(sql).await,
            }
        })
    }

    pub(crate) fn is_postgres(&self) -> bool {
        matches!(self, Tx::Postgres(_))
    }

    /// The suffix of a `SELECT` that locks its rows. SQLite needs none: it has one write transaction at a time.
    pub(crate) fn for_update(&self) -> &'static str {
        // "no key" still lets other transactions insert rows that reference this one.
        if self.is_postgres() { " FOR NO KEY UPDATE" } else { "" }
    }

    pub(crate) fn commit(self) -> Boxed<'static, ()> {
        Box::pin(async move {
            match self {
                Tx::Sqlite(tx) => tx.commit().await,
                Tx::Postgres(tx) => tx.commit().await,
            }
        })
    }
}

impl Guard<Sqlite> {
    pub(super) async fn all(&mut self, sql: &str, args: &[Value<'_>]) -> Result<Vec<Row>> {
        let query = sqlx::query_with(AssertSqlSafe(sql), for_sqlite(args)?);
        let rows = query.fetch_all(self.connection()?).await;
        Ok(self.check(rows)?.into_iter().map(Row::Sqlite).collect())
    }

    pub(super) async fn optional(&mut self, sql: &str, args: &[Value<'_>]) -> Result<Option<Row>> {
        let query = sqlx::query_with(AssertSqlSafe(sql), for_sqlite(args)?);
        let row = query.fetch_optional(self.connection()?).await;
        Ok(self.check(row)?.map(Row::Sqlite))
    }
}

impl Guard<Postgres> {
    /// [`Guard::all`] without a timeout.
    pub(super) async fn all_without_timeout(&mut self, sql: &str, args: &[Value<'_>]) -> Result<Vec<Row>> {
        let query = sqlx::query_with(AssertSqlSafe(sql), for_postgres(args)?);
        let rows = query.fetch_all(self.connection()?).await;
        Ok(self.check(rows)?.into_iter().map(Row::Postgres).collect())
    }

    pub(super) async fn all(&mut self, sql: &str, args: &[Value<'_>]) -> Result<Vec<Row>> {
        let query = sqlx::query_with(AssertSqlSafe(sql), for_postgres(args)?);
        let rows = with_timeout::<Postgres, _>(query.fetch_all(self.connection()?)).await;
        Ok(self.check(rows)?.into_iter().map(Row::Postgres).collect())
    }

    pub(super) async fn optional(&mut self, sql: &str, args: &[Value<'_>]) -> Result<Option<Row>> {
        let query = sqlx::query_with(AssertSqlSafe(sql), for_postgres(args)?);
        let row = with_timeout::<Postgres, _>(query.fetch_optional(self.connection()?)).await;
        Ok(self.check(row)?.map(Row::Postgres))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::{Db, args};

    async fn database(folder: &tempfile::TempDir) -> Db {
        let db = Db::connect(&format!("sqlite://{}/hark.db", folder.path().display()), 2, "test").await.unwrap();
        db.execute("CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE)", &[]).await.unwrap();
        db
    }

    const INSERT: &str = "INSERT INTO notes (text) VALUES ($1)";

    #[tokio::test]
    async fn a_writer_whose_transaction_sqlite_rolled_back_is_not_used_again() {
        let folder = tempfile::tempdir().unwrap();
        let db = database(&folder).await;
        let Db::Sqlite { writer, .. } = &db else { panic!("not SQLite") };
        // The limit applies to this connection only: the next one has none.
        Guard::acquire(writer).await.unwrap().script("PRAGMA max_page_count = 20").await.unwrap();
        let mut tx = db.begin().await.unwrap();
        let full = loop {
            let text = "x".repeat(4000) + &crate::random::token::<16>().unwrap();
            if let Err(error) = tx.execute(INSERT, args![&text]).await {
                break error;
            }
        };
        assert!(full.is_unavailable(), "{full}");
        // SQLite rolled back the transaction by itself: this statement would autocommit.
        let later = tx.execute(INSERT, args!["later"]).await;
        assert!(later.is_err_and(|error| error.is_unavailable()));
        assert!(tx.commit().await.is_err());
        db.execute(INSERT, args!["after"]).await.unwrap();
        let row = db.one("SELECT count(*) AS n, max(text) AS text FROM notes", &[]).await.unwrap();
        assert_eq!((row.get::<i64>("n").unwrap(), row.get::<String>("text").unwrap()), (1, "after".to_owned()));
    }

    #[tokio::test]
    async fn a_constraint_violation_leaves_the_transaction_open() {
        let folder = tempfile::tempdir().unwrap();
        let db = database(&folder).await;
        let mut tx = db.begin().await.unwrap();
        tx.execute(INSERT, args!["once"]).await.unwrap();
        assert!(tx.execute(INSERT, args!["once"]).await.is_err_and(|error| error.is_duplicate()));
        tx.execute(INSERT, args!["twice"]).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(db.one("SELECT count(*) AS n FROM notes", &[]).await.unwrap().get::<i64>("n").unwrap(), 2);
    }

    #[tokio::test]
    async fn a_transaction_dropped_without_commit_is_rolled_back() {
        let folder = tempfile::tempdir().unwrap();
        let db = database(&folder).await;
        let mut tx = db.begin().await.unwrap();
        tx.execute(INSERT, args!["lost"]).await.unwrap();
        drop(tx);
        db.execute(INSERT, args!["kept"]).await.unwrap();
        assert_eq!(db.one("SELECT count(*) AS n FROM notes", &[]).await.unwrap().get::<i64>("n").unwrap(), 1);
    }

    #[tokio::test]
    async fn sqlite_has_the_fix_for_the_wal_reset_corruption() {
        let folder = tempfile::tempdir().unwrap();
        let db = database(&folder).await;
        let version: String = db.one("SELECT sqlite_version() AS v", &[]).await.unwrap().get("v").unwrap();
        let parts: Vec<u32> = version.split('.').map(|part| part.parse().unwrap()).collect();
        assert!(
            parts >= vec![3, 51, 3],
            "{version} may corrupt databases: https://www.sqlite.org/wal.html#walresetbug"
        );
    }
}
