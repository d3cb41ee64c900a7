//! The binary as tests run it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where users have their models.
pub fn models() -> PathBuf {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("HARK_MODELS").unwrap_or_else(|| {
        let cache = set("XDG_CACHE_HOME").or_else(|| Some(std::env::home_dir()?.join(".cache")));
        cache.expect("a home folder").join("hark").join("models")
    })
}

/// A command in a folder that sees nothing of the user's own settings, only their models.
pub fn hark(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hark"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("HARK_") {
            command.env_remove(name);
        }
    }
    command
        .current_dir(folder)
        .env("XDG_CONFIG_HOME", folder.join("config"))
        .env("XDG_DATA_HOME", folder.join("share"))
        .env("HARK_DATA", folder.join("data"))
        .env("HARK_MODELS", models())
        .stdin(Stdio::null());
    command
}
