//! Where results go: stdout that may be closed at any moment, and files that are whole or not there.

use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tempfile::NamedTempFile;

use crate::CliError;

/// Prints to stdout; a reader that has gone is an early end, not a failure.
pub(crate) fn print(content: impl AsRef<[u8]>) -> Result<(), CliError> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(content.as_ref()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(CliError::OutputClosed),
        Err(error) => Err(CliError::Failed(format!("stdout: {error}"))),
    }
}

/// Held while a temporary file exists, so that an interrupt can wait for the rename instead of leaving it behind.
static WRITING: Mutex<()> = Mutex::new(());

/// Waits until no file is being written and lets none begin while the guard lives.
pub(crate) fn stop_writing() -> MutexGuard<'static, ()> {
    WRITING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes the whole file or nothing: beside it first, then renamed over it.
pub(crate) fn write_file(path: &Path, content: impl AsRef<[u8]>, overwrite: bool) -> Result<(), String> {
    let _writing = stop_writing();
    let mut file = temporary_beside(path)?;
    file.write_all(content.as_ref()).map_err(|error| problem(path, &error))?;
    keep(file, path, overwrite)
}

/// A file in the folder of `path` that is gone when it is dropped, unless [`keep`] gives it its name.
pub(crate) fn temporary_beside(path: &Path) -> Result<NamedTempFile, String> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut builder = tempfile::Builder::new();
    builder.prefix(".hark-").suffix(".part");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // The umask takes away what the user takes away from other new files.
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    builder.tempfile_in(folder).map_err(|error| problem(path, &error))
}

/// Gives a temporary file its name.
pub(crate) fn keep(file: NamedTempFile, path: &Path, overwrite: bool) -> Result<(), String> {
    let renamed = if overwrite { file.persist(path) } else { file.persist_noclobber(path) };
    renamed.map(drop).map_err(|error| problem(path, &error.error))
}

fn problem(path: &Path, error: &io::Error) -> String {
    format!("can't write {}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_written_whole_and_nothing_else_stays_in_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("talk.srt");
        write_file(&path, "one", false).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one");
        let refused = write_file(&path, "two", false).unwrap_err();
        assert!(refused.contains("talk.srt"), "{refused}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one");
        write_file(&path, "two", true).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "two");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_folder_that_is_not_there_is_an_error_that_names_the_file() {
        let refused = write_file(Path::new("no/such/folder/talk.srt"), "x", true).unwrap_err();
        assert!(refused.starts_with("can't write no/such/folder/talk.srt: "), "{refused}");
    }
}
