//! Dumps and restores of PostgreSQL by its own tools, `pg_dump` and `pg_restore`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::str::FromStr;

use sqlx::postgres::PgConnectOptions;

use crate::error::{Error, Result};
use crate::recordings::blocking;

/// One of PostgreSQL's tools and its connection parameters.
pub(super) struct Tool {
    name: &'static str,
    path: PathBuf,
    major: u32,
    environment: Vec<(&'static str, String)>,
}

impl Tool {
    /// Finds `pg_dump` or `pg_restore` on the path, else in Debian's folders.
    pub(super) async fn find(name: &'static str, database: &str) -> Result<Tool> {
        let path = find(name).ok_or_else(|| {
            Error::Setup(format!(
                "{name} is not installed: PostgreSQL's own tools copy its databases (Debian: apt install postgresql-client)"
            ))
        })?;
        let mut command = Command::new(&path);
        command.arg("--version");
        let output = output(command).await?;
        let version = String::from_utf8_lossy(&output.stdout).into_owned();
        let major = major_version(&version)
            .ok_or_else(|| Error::Setup(format!("{} does not tell its version: {version:?}", path.display())))?;
        Ok(Tool { name, path, major, environment: environment(database)? })
    }

    /// Rejects a tool that is older than the server: it could not dump all of it.
    pub(super) fn check_server(&self, server: i64) -> Result<()> {
        let server = server / 10_000;
        if i64::from(self.major) < server {
            return Err(Error::Setup(format!(
                "{} is of PostgreSQL {}, the server of {server}: install the client tools of version {server} or newer",
                self.path.display(),
                self.major
            )));
        }
        Ok(())
    }

    /// The name of the database.
    pub(super) fn database(&self) -> &str {
        self.environment.iter().find(|(name, _)| *name == "PGDATABASE").map_or("", |(_, value)| value)
    }

    /// Runs the tool and waits for it.
    pub(super) async fn run(&self, arguments: &[&str], file: Option<&Path>) -> Result<()> {
        let mut command = Command::new(&self.path);
        // Passwords go through the environment: arguments are visible to all users of the machine.
        command.args(arguments).args(file).envs(self.environment.iter().cloned());
        let output = output(command).await?;
        if output.status.success() {
            return Ok(());
        }
        let stderr = String::from_utf8_lossy(&output.stderr);
        let stderr: Vec<&str> = stderr.lines().filter(|line| !line.trim().is_empty()).take(5).collect();
        Err(Error::Setup(format!("{} failed: {}", self.name, stderr.join("; "))))
    }
}

/// Runs a program on a blocking thread and waits for it.
async fn output(mut command: Command) -> Result<Output> {
    blocking(move || {
        let program = command.get_program().to_owned();
        let done = command.stdin(Stdio::null()).output();
        done.map_err(|e| Error::Setup(format!("can't run {}: {e}", program.display())))
    })
    .await
}

fn find(name: &str) -> Option<PathBuf> {
    let on_path = std::env::var_os("PATH")?;
    if let Some(found) = std::env::split_paths(&on_path).map(|folder| folder.join(name)).find(|path| path.is_file()) {
        return Some(found);
    }
    let installed = std::fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
    let mut found: Vec<(u32, PathBuf)> = installed
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin").join(name))))
        .filter(|(_, path)| path.is_file())
        .collect();
    found.sort();
    found.pop().map(|(_, path)| path)
}

/// 15 for `pg_dump (PostgreSQL) 15.8 (Debian 15.8-0+deb12u1)`.
fn major_version(version: &str) -> Option<u32> {
    let number = version.split_whitespace().find(|word| word.starts_with(|first: char| first.is_ascii_digit()))?;
    number.split(|other: char| !other.is_ascii_digit()).next()?.parse().ok()
}

/// A database URL as the environment variables of PostgreSQL's tools.
fn environment(database: &str) -> Result<Vec<(&'static str, String)>> {
    let invalid = || Error::Setup("the address of the PostgreSQL database is not a valid URL".into());
    let options = PgConnectOptions::from_str(database).map_err(|_| invalid())?;
    let host = options.get_socket().map_or(options.get_host().to_owned(), |socket| socket.display().to_string());
    let mut out = vec![
        ("PGHOST", host),
        ("PGPORT", options.get_port().to_string()),
        ("PGUSER", options.get_username().to_owned()),
        ("PGDATABASE", options.get_database().unwrap_or(options.get_username()).to_owned()),
        ("PGAPPNAME", "hark backup".to_owned()),
    ];
    let rest = database.split_once("://").ok_or_else(invalid)?.1;
    let (address, query) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = address.split('/').next().unwrap_or_default();
    if let Some((user, _)) = authority.rsplit_once('@')
        && let Some((_, password)) = user.split_once(':')
    {
        out.push(("PGPASSWORD", percent_decode(password)));
    }
    for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
        let name = match name {
            "sslmode" | "ssl-mode" => "PGSSLMODE",
            "sslrootcert" | "ssl-root-cert" | "ssl-ca" => "PGSSLROOTCERT",
            "sslcert" | "ssl-cert" => "PGSSLCERT",
            "sslkey" | "ssl-key" => "PGSSLKEY",
            "password" => "PGPASSWORD",
            "options" => "PGOPTIONS",
            _ => continue,
        };
        out.push((name, percent_decode(value)));
    }
    Ok(out)
}

/// Decodes percent-encoding.
fn percent_decode(text: &str) -> String {
    let mut bytes = text.as_bytes().iter();
    let mut out = Vec::with_capacity(text.len());
    while let Some(&byte) = bytes.next() {
        let rest = bytes.as_slice();
        let digits = rest.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).filter(|_| byte == b'%') {
            Some(escaped) => {
                out.push(escaped);
                bytes.nth(1);
            }
            None => out.push(byte),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_becomes_the_variables_of_the_tools() {
        let found = environment(
            "postgres://me:p%40ss%2Fword@db.example.org:5433/hark?sslmode=verify-full&sslrootcert=%2Fetc%2Fca.pem",
        )
        .unwrap();
        let get = |wanted: &str| found.iter().find(|(name, _)| *name == wanted).map(|(_, value)| value.as_str());
        assert_eq!(get("PGHOST"), Some("db.example.org"));
        assert_eq!(get("PGPORT"), Some("5433"));
        assert_eq!((get("PGUSER"), get("PGPASSWORD")), (Some("me"), Some("p@ss/word")));
        assert_eq!(get("PGDATABASE"), Some("hark"));
        assert_eq!((get("PGSSLMODE"), get("PGSSLROOTCERT")), (Some("verify-full"), Some("/etc/ca.pem")));
        let local = environment("postgres://hark@localhost/hark_1?host=/tmp/socket").unwrap();
        assert!(local.contains(&("PGHOST", "/tmp/socket".to_owned())), "{local:?}");
        assert!(local.iter().all(|(name, _)| *name != "PGPASSWORD"));
    }

    #[test]
    fn versions_of_the_tools_are_read() {
        assert_eq!(major_version("pg_dump (PostgreSQL) 15.8 (Debian 15.8-0+deb12u1)\n"), Some(15));
        assert_eq!(major_version("pg_dump (PostgreSQL) 18beta1\n"), Some(18));
        assert_eq!(major_version("usage: something else"), None);
    }
}
