//! Which installed files were hashed and found sound, so that loading a model does not hash it every time.
//!
//! A small file in the models folder keeps, for each model, the expected hash of each file and the size, modification
//! time and inode that the file had when its hash was checked. Any difference means that the file is hashed again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::catalogue::Catalogue;
use crate::digest::{self, Pin};
use crate::error::Error;
use crate::store::ModelStore;

/// The name of the file in the models folder.
const STATE_NAME: &str = ".verified.json";

/// What was verified, by model and file name.
#[derive(Debug, Default, Serialize, Deserialize)]
struct State {
    models: BTreeMap<String, BTreeMap<String, Checked>>,
}

/// A file whose hash was checked, and what identifies it since.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Checked {
    hash: String,
    identity: Identity,
}

/// What tells a file that was replaced or written to from the one that was hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Identity {
    size: u64,
    modified_seconds: i64,
    modified_nanos: i64,
    device: u64,
    inode: u64,
}

impl Identity {
    #[cfg(unix)]
    fn of(path: &Path) -> std::io::Result<Self> {
        use std::os::unix::fs::MetadataExt;
        let data = std::fs::metadata(path)?;
        Ok(Identity {
            size: data.len(),
            modified_seconds: data.mtime(),
            modified_nanos: data.mtime_nsec(),
            device: data.dev(),
            inode: data.ino(),
        })
    }

    #[cfg(not(unix))]
    fn of(path: &Path) -> std::io::Result<Self> {
        let data = std::fs::metadata(path)?;
        let modified = data.modified()?.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Ok(Identity {
            size: data.len(),
            modified_seconds: modified.as_secs() as i64,
            modified_nanos: i64::from(modified.subsec_nanos()),
            device: 0,
            inode: 0,
        })
    }
}

impl ModelStore {
    /// Checks the hashes of a model's files before they are loaded: those of files that have not changed since the last
    /// check are remembered. Files that nothing is known about, copied by hand, are accepted.
    pub fn check_integrity(&self, name: &str, catalogue: &Catalogue) -> Result<(), Error> {
        let (dir, expected) = self.expected_files(name, catalogue)?;
        let state_path = self.dir().join(STATE_NAME);
        let known = read(&state_path).models.remove(name).unwrap_or_default();
        let mut checked = BTreeMap::new();
        for (file, pin) in expected {
            let path = dir.join(&file);
            let identity = match Identity::of(&path) {
                Ok(identity) => identity,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    return Err(Error::Corrupt { name: name.to_owned(), file, what: "is missing".to_owned() });
                }
                Err(error) => return Err(Error::io("read", &path)(error)),
            };
            let Some(pin) = pin else { continue };
            let found = Checked { hash: pin.text().to_owned(), identity };
            if known.get(&file) != Some(&found) {
                hash(name, &file, &path, &pin)?;
                // A file that was written to meanwhile is hashed again the next time.
                if Identity::of(&path).ok() != Some(identity) {
                    continue;
                }
            }
            checked.insert(file, found);
        }
        if checked != known {
            // Without the record the next load hashes again: slower, not wrong.
            if let Err(error) = remember(&state_path, name, checked) {
                tracing::debug!(model = name, %error, "models.verified_not_recorded");
            }
        }
        Ok(())
    }
}

fn hash(name: &str, file: &str, path: &Path, pin: &Pin) -> Result<(), Error> {
    digest::check(path, pin, &mut |_| {})?.map_err(|found| Error::Corrupt {
        name: name.to_owned(),
        file: file.to_owned(),
        what: format!("has the hash {found} where {} is expected", pin.text()),
    })
}

fn read(path: &Path) -> State {
    std::fs::read(path).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
}

/// Writes the record in one step; of two processes that write at once, one hashes again later.
fn remember(path: &Path, name: &str, checked: BTreeMap<String, Checked>) -> std::io::Result<()> {
    let mut state = read(path);
    state.models.insert(name.to_owned(), checked);
    let mut new: PathBuf = path.to_owned();
    new.set_extension(format!("json.{}", std::process::id()));
    std::fs::write(&new, serde_json::to_vec_pretty(&state)?)?;
    std::fs::rename(&new, path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::{Manifest, ManifestFile};

    fn install(dir: &Path, name: &str, content: &[u8]) {
        use sha2::{Digest, Sha256};
        let folder = dir.join(name);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("model.bin"), content).unwrap();
        let file = ManifestFile {
            name: "model.bin".into(),
            size: content.len() as u64,
            sha256: digest::hex(&Sha256::digest(content)),
        };
        let manifest = Manifest {
            name: name.into(),
            format: "ct2".into(),
            licence: "MIT".into(),
            licence_note: String::new(),
            source: "test".into(),
            installed_at: "2026-01-01T00:00:00Z".into(),
            files: vec![file],
        };
        manifest.write(&folder).unwrap();
    }

    /// Changes a byte and sets the modification time back, as no program does by accident.
    fn corrupt(path: &Path, keep_time: bool) {
        let modified = std::fs::metadata(path).unwrap().modified().unwrap();
        let mut content = std::fs::read(path).unwrap();
        content[0] ^= 1;
        std::fs::write(path, content).unwrap();
        if keep_time {
            std::fs::File::options().write(true).open(path).unwrap().set_modified(modified).unwrap();
        }
    }

    #[test]
    fn a_changed_file_is_refused_with_what_to_do_and_a_repaired_one_accepted() {
        let dir = tempfile::tempdir().unwrap();
        let (store, catalogue) = (ModelStore::new(dir.path()), Catalogue::builtin());
        install(dir.path(), "whisper-x", b"weights");
        store.check_integrity("whisper-x", &catalogue).unwrap();
        let path = dir.path().join("whisper-x/model.bin");
        corrupt(&path, false);
        let error = store.check_integrity("whisper-x", &catalogue).unwrap_err().to_string();
        assert!(error.contains("model.bin") && error.contains("hark models pull --force whisper-x"), "{error}");
        // It stays refused: a failed check is never remembered as a passed one.
        assert!(store.check_integrity("whisper-x", &catalogue).is_err());
        corrupt(&path, false);
        store.check_integrity("whisper-x", &catalogue).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(store.check_integrity("whisper-x", &catalogue).is_err());
    }

    #[test]
    fn an_unchanged_file_is_hashed_once_and_models_are_remembered_side_by_side() {
        let dir = tempfile::tempdir().unwrap();
        let (store, catalogue) = (ModelStore::new(dir.path()), Catalogue::builtin());
        install(dir.path(), "a", b"one");
        install(dir.path(), "b", b"two");
        store.check_integrity("a", &catalogue).unwrap();
        store.check_integrity("b", &catalogue).unwrap();
        // The content differs and everything that is remembered does not: only hashing would notice.
        corrupt(&dir.path().join("a/model.bin"), true);
        store.check_integrity("a", &catalogue).expect("what is remembered is not hashed");
        std::fs::remove_file(dir.path().join(STATE_NAME)).unwrap();
        assert!(store.check_integrity("a", &catalogue).is_err());
        // What the record says of a file counts for the expected hash only.
        store.check_integrity("b", &catalogue).unwrap();
        let manifest = Manifest::read(&dir.path().join("b")).unwrap();
        let file = ManifestFile { sha256: "00".repeat(32), ..manifest.files[0].clone() };
        Manifest { files: vec![file], ..manifest }.write(&dir.path().join("b")).unwrap();
        assert!(store.check_integrity("b", &catalogue).is_err());
        assert!(store.all_installed().len() == 2, "the record is no model");
    }

    #[test]
    fn a_folder_that_can_not_be_written_costs_only_time() {
        let dir = tempfile::tempdir().unwrap();
        let (store, catalogue) = (ModelStore::new(dir.path()), Catalogue::builtin());
        install(dir.path(), "a", b"one");
        // A folder in its place can't be replaced by a file, whoever runs the test.
        std::fs::create_dir_all(dir.path().join(STATE_NAME).join("x")).unwrap();
        store.check_integrity("a", &catalogue).unwrap();
        corrupt(&dir.path().join("a/model.bin"), true);
        assert!(store.check_integrity("a", &catalogue).is_err());
    }
}
