//! The database is gone for a while: PostgreSQL stands still or is killed and comes back; SQLite is locked by another process.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::deployment::{Database, Deployment, hold};
use super::dice::Dice;
use crate::error::BenchError;
use crate::service::failed;

pub(super) async fn inject(deployment: &mut Deployment, dice: &mut Dice, time: Duration) -> Result<(), BenchError> {
    match &deployment.database {
        Database::Postgres(server) if dice.below(2) == 0 => {
            server.pause();
            hold(time).await;
            server.resume();
        }
        Database::Postgres(server) => {
            server.stop().map_err(failed)?;
            hold(time).await;
            server.start().await.map_err(failed)?;
        }
        Database::Sqlite(path) => {
            let mut lock = Lock::take(path)?;
            hold(time).await;
            lock.release();
        }
    }
    Ok(())
}

/// Another process that holds SQLite's write lock.
struct Lock(Child);

/// Writes a line once it has the lock, and keeps it until its input ends.
const SCRIPT: &str = "import sqlite3, sys
database = sqlite3.connect(sys.argv[1], timeout=60, isolation_level=None)
database.execute('BEGIN EXCLUSIVE')
print('locked', flush=True)
sys.stdin.read()
database.execute('ROLLBACK')";

impl Lock {
    fn take(path: &Path) -> Result<Self, BenchError> {
        use std::io::BufRead as _;
        let start = |source| BenchError::Start { system: "python3".to_owned(), source };
        let mut child = Command::new("python3")
            .args(["-c", SCRIPT])
            .arg(path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(start)?;
        let mut line = String::new();
        let read = child.stdout.take().map(|stdout| std::io::BufReader::new(stdout).read_line(&mut line));
        if line.trim() != "locked" {
            return Err(failed(format!("the database can't be locked ({read:?})")));
        }
        Ok(Lock(child))
    }

    fn release(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
