//! A small disk of our own: the bench starts itself again in a mount namespace with a tmpfs, which nobody else sees and which is gone with it.
//!
//! Root needs no more than that. Others get a user namespace in which they may mount, and inside it a second one in which they are themselves
//! again: PostgreSQL refuses to run as root.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use crate::error::BenchError;
use crate::service::failed;

/// Tells the inner process where its disk is.
const DISK: &str = "HARK_BENCH_DISK";

/// Mounts and goes on with the command after the first two arguments.
const MOUNT: &str = r#"mount -t tmpfs -o "size=$1m,mode=0755" tmpfs "$2" && shift 2 && exec "$@""#;

/// The disk, where this process is the inner one.
pub(in crate::service) fn disk() -> Option<PathBuf> {
    std::env::var_os(DISK).map(PathBuf::from)
}

/// Runs this program again, with the same arguments, over a disk of so many megabytes at `folder`.
pub(in crate::service) fn run_inside(folder: &Path, megabytes: u64) -> Result<ExitStatus, BenchError> {
    // SAFETY: both take nothing and can't fail.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    let mut command = Command::new("unshare");
    let map = [format!("--map-user={user}"), format!("--map-group={group}")];
    match user {
        0 => command.args(["--mount", "--propagation", "private"]),
        _ => command.args(["--user", "--map-root-user", "--mount"]),
    };
    command.args(["sh", "-c", MOUNT, "sh", &megabytes.to_string()]).arg(folder);
    if user != 0 {
        command.args(["unshare", "--user"]).args(map);
    }
    command.arg(crate::own_binary()?).args(std::env::args_os().skip(1)).env(DISK, folder);
    command.envs(super::s3::environment()?);
    command.status().map_err(|error| failed(format!("unshare (of the package util-linux) does not start: {error}")))
}
