//! Writes the list of the files of the web app, with their bytes, for `src/lib.rs` to include.

#![allow(clippy::print_stdout, reason = "the lines are for Cargo")]

mod files;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-env-changed=HARK_WEB_DIST");
    println!("cargo::rerun-if-changed=build");
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    let dist = dist()?;
    println!("cargo::rerun-if-changed={}", dist.display());
    fs::write(out.join("files.rs"), files::source(&files::read(&dist)?, &out)?)?;
    Ok(())
}

/// The folder that the app is built into.
fn dist() -> Result<PathBuf, Box<dyn Error>> {
    if let Some(dist) = env::var_os("HARK_WEB_DIST").filter(|dist| !dist.is_empty()) {
        let dist = PathBuf::from(dist);
        if !dist.join(files::PAGE).is_file() {
            return Err(format!("HARK_WEB_DIST: {} has no {}", dist.display(), files::PAGE).into());
        }
        return Ok(dist);
    }
    let manifest = env::var_os("CARGO_MANIFEST_DIR").ok_or("CARGO_MANIFEST_DIR is not set")?;
    let dist = Path::new(&manifest).join("../../web/dist");
    // Cargo can watch an empty folder; for one that is not there it would build this crate, and all above it, each time.
    // The folder must be older than this build, or the next one would do so once more.
    if !dist.exists() && fs::create_dir_all(&dist).is_ok() {
        let _ = fs::File::open(&dist).and_then(|folder| folder.set_modified(SystemTime::UNIX_EPOCH));
    }
    Ok(dist)
}
