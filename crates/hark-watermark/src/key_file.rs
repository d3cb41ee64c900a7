//! The key in a file that only its owner can read.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use zeroize::Zeroizing;

use crate::{Key, WatermarkError};

/// The name of the key's file in the data folder of a service.
pub const KEY_FILE: &str = "watermark.key";

impl Key {
    /// Reads a key file: lines that begin with `#` are comments, the other is the key. None where there is no file.
    pub fn read_file(path: &Path) -> Result<Option<Self>, WatermarkError> {
        let wrong = |source| WatermarkError::KeyFile { path: path.to_owned(), source };
        let text = match std::fs::read_to_string(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            read => Zeroizing::new(read.map_err(wrong)?),
        };
        let line = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
        Key::from_hex(line.unwrap_or_default()).map(Some)
    }

    /// Reads a key file, or makes one with a new key and mode 0600 at first use.
    pub fn read_or_create_file(path: &Path) -> Result<Self, WatermarkError> {
        let wrong = |source| WatermarkError::KeyFile { path: path.to_owned(), source };
        if let Some(key) = Self::read_file(path)? {
            return Ok(key);
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(wrong)?;
        let key = Key::generate()?;
        let text = Zeroizing::new(format!(
            "# The watermark key of hark: without it no mark can be found.\n{}\n",
            key.to_hex()
        ));
        // Written beside and linked into place, so that the file is whole from the start and never replaces one.
        let beside = path.with_extension(format!("new-{}", std::process::id()));
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside).map_err(wrong)?;
        let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
        let linked = written.and_then(|()| std::fs::hard_link(&beside, path));
        let _ = std::fs::remove_file(&beside);
        match linked {
            // Another process was faster: its key is the key.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                Self::read_file(path)?.ok_or_else(|| wrong(ErrorKind::NotFound.into()))
            }
            linked => linked.map(|()| key).map_err(wrong),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_key_file_is_made_once_for_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data").join(KEY_FILE);
        assert!(Key::read_file(&path).unwrap().is_none());
        let key = Key::read_or_create_file(&path).unwrap();
        assert_eq!(Key::read_or_create_file(&path).unwrap(), key);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing is left beside it");
        std::fs::write(&path, "# nothing\n").unwrap();
        assert!(matches!(Key::read_or_create_file(&path), Err(WatermarkError::Key)));
    }
}
