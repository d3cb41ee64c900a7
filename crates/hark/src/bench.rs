//! `hark bench`: starts `hark-bench`, the program beside this one that measures.

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use crate::CliError;

/// Becomes `hark-bench` with these arguments.
pub(crate) fn run(args: Vec<String>) -> Result<(), CliError> {
    let own =
        std::env::current_exe().map_err(|error| CliError::Failed(format!("cannot find this program: {error}")))?;
    let bench = own.with_file_name("hark-bench");
    if !bench.is_file() {
        return Err(CliError::Failed(format!(
            "{} is not installed: benches are a program of their own; `./hark bench` in the source tree builds and runs it",
            bench.display()
        )));
    }
    // Returns only if it could not start.
    let error = Command::new(&bench).args(args).exec();
    Err(CliError::Failed(format!("cannot start {}: {error}", bench.display())))
}
