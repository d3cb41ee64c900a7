//! Running a client program (pip, npm, cargo) and watching its folder grow, since they print no progress to a pipe.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::error::Error;

/// How often the child and its folder are looked at.
const LOOK: Duration = Duration::from_millis(100);

/// How long a child may go without writing anything before it is stopped: pip's own timeout with its retries is below.
const STALLED: Duration = Duration::from_secs(600);

/// How a child ended, with everything it printed.
pub(crate) struct Ended {
    pub status: ExitStatus,
    pub log: String,
}

/// Runs the command to its end; `log` receives its output, `watch` are the folders whose bytes are reported.
/// `None` when there is no such program.
pub(crate) fn run(
    tool: &'static str,
    mut command: Command,
    log: &Path,
    watch: &[PathBuf],
    on_bytes: &mut dyn FnMut(u64),
) -> Result<Option<Ended>, Error> {
    let output = File::create(log).map_err(Error::io("create", log))?;
    let errors = output.try_clone().map_err(Error::io("create", log))?;
    command.stdin(Stdio::null()).stdout(output).stderr(errors);
    die_with_parent(&mut command);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            return Err(Error::Tool { tool, why: error.to_string() });
        }
    };
    let (mut seen, mut since) = (0, Instant::now());
    let status = loop {
        if let Some(status) = child.try_wait().map_err(|error| Error::Tool { tool, why: error.to_string() })? {
            break status;
        }
        std::thread::sleep(LOOK);
        let now: u64 = watch.iter().map(|dir| bytes_below(dir)).sum();
        if now != seen {
            (seen, since) = (now, Instant::now());
            on_bytes(now);
        } else if since.elapsed() > STALLED {
            let _ = child.kill();
            let _ = child.wait();
            return Err(Error::Tool {
                tool,
                why: format!("it wrote nothing for {} s and was stopped", STALLED.as_secs()),
            });
        }
    };
    let log = String::from_utf8_lossy(&std::fs::read(log).unwrap_or_default()).into_owned();
    Ok(Some(Ended { status, log }))
}

/// Kills the child when this process dies, even by SIGKILL, so that no orphan writes into a later pull's folder.
#[cfg(target_os = "linux")]
fn die_with_parent(command: &mut Command) {
    use std::os::unix::process::CommandExt;
    // SAFETY: between fork and exec only prctl is called, which is async-signal-safe and touches no memory of ours.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            Ok(())
        });
    }
}

#[cfg(not(target_os = "linux"))]
fn die_with_parent(_command: &mut Command) {}

/// The lines that say why: those marked as errors, else the last ones.
pub(crate) fn reason(log: &str) -> String {
    let lines: Vec<&str> = log.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let marked: Vec<&str> = lines.iter().copied().filter(|line| line.to_ascii_lowercase().contains("error")).collect();
    let chosen = if marked.is_empty() { &lines } else { &marked };
    let mut text = chosen.iter().rev().take(3).rev().copied().collect::<Vec<_>>().join("; ");
    if text.is_empty() {
        text = "it printed nothing".into();
    }
    text.chars().take(600).collect()
}

/// The bytes of all files below a folder; files that vanish meanwhile count nothing.
pub(crate) fn bytes_below(dir: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return 0;
    };
    entries
        .flatten()
        .map(|entry| match entry.file_type() {
            Ok(kind) if kind.is_dir() => bytes_below(&entry.path()),
            Ok(kind) if kind.is_file() => entry.metadata().map_or(0, |data| data.len()),
            _ => 0,
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_watched_and_its_words_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let watched = dir.path().join("w");
        std::fs::create_dir(&watched).unwrap();
        let mut command = Command::new("sh");
        command
            .arg("-c")
            .arg("head -c 5000 /dev/zero > $0/x; sleep 0.4; echo ERROR: no luck >&2; exit 3")
            .arg(&watched);
        let mut most = 0;
        let ended = run("sh", command, &dir.path().join("log"), &[watched], &mut |bytes| most = most.max(bytes))
            .unwrap()
            .unwrap();
        assert_eq!((ended.status.code(), most), (Some(3), 5000));
        assert_eq!(reason(&ended.log), "ERROR: no luck");
    }

    #[test]
    fn a_program_that_is_not_there_is_no_error() {
        let dir = tempfile::tempdir().unwrap();
        let command = Command::new("no-such-program-anywhere");
        assert!(run("none", command, &dir.path().join("log"), &[], &mut |_| {}).unwrap().is_none());
    }
}
