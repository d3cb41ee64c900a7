//! The models folder: one folder a model.

use std::path::{Path, PathBuf};

use crate::catalogue::Catalogue;
use crate::check::is_safe_name;
use crate::digest::{self, Pin};
use crate::error::Error;
use crate::layout::format_of;
use crate::manifest::Manifest;
use crate::pull::{INCOMING, lock};

/// The folder in which models are installed.
#[derive(Debug, Clone)]
pub struct ModelStore {
    dir: PathBuf,
}

/// A model that is there.
#[derive(Debug, Clone)]
pub struct Installed {
    /// Its folder.
    pub dir: PathBuf,
    /// The format of its files.
    pub format: String,
    /// What the pull wrote about it; `None` when the files were copied by hand.
    pub manifest: Option<Manifest>,
}

/// What hashing an installed model found.
#[derive(Debug, Clone)]
pub struct Verification {
    /// Each file and its state.
    pub files: Vec<FileCheck>,
}

/// One file of an installed model.
#[derive(Debug, Clone)]
pub struct FileCheck {
    /// Its name in the folder.
    pub name: String,
    /// What was found.
    pub state: FileState,
}

/// The state of an installed file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileState {
    /// Its hash is the expected one.
    Sound,
    /// It is not there.
    Missing,
    /// Its hash is another one, given here.
    Changed(String),
    /// It is there, and nothing says what its hash should be.
    Unknown,
}

impl Verification {
    /// Whether every file has its expected hash.
    pub fn is_sound(&self) -> bool {
        !self.files.is_empty() && self.files.iter().all(|file| file.state == FileState::Sound)
    }
}

impl ModelStore {
    /// The store in that folder, which need not exist yet.
    pub fn new(dir: impl Into<PathBuf>) -> ModelStore {
        ModelStore { dir: dir.into() }
    }

    /// The folder users expect: `$HARK_MODELS`, else `$XDG_CACHE_HOME/hark/models`, else `~/.cache/hark/models`.
    pub fn default_dir() -> PathBuf {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        set("HARK_MODELS").unwrap_or_else(|| {
            let cache = set("XDG_CACHE_HOME").or_else(|| std::env::home_dir().map(|home| home.join(".cache")));
            cache.unwrap_or_else(|| PathBuf::from(".cache")).join("hark").join("models")
        })
    }

    /// The models folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The model of that name if all files it needs are there, whether pulled or copied by hand.
    pub fn installed(&self, name: &str) -> Option<Installed> {
        if !is_safe_name(name) {
            return None;
        }
        let dir = self.dir.join(name);
        match Manifest::read(&dir) {
            Some(manifest) if manifest.is_complete(&dir) => {
                Some(Installed { format: manifest.format.clone(), manifest: Some(manifest), dir })
            }
            Some(_) => None,
            None => format_of(&dir).map(|format| Installed { format: format.to_owned(), manifest: None, dir }),
        }
    }

    /// Every installed model by name, in alphabetical order.
    pub fn all_installed(&self) -> Vec<(String, Installed)> {
        let entries = std::fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let mut all: Vec<(String, Installed)> = entries
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter_map(|name| self.installed(&name).map(|installed| (name, installed)))
            .collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    }

    /// Hashes the model's files again and compares them with the manifest, or for files copied by hand with the
    /// catalogue's source that has the same file names.
    pub fn verify(&self, name: &str, catalogue: &Catalogue) -> Result<Verification, Error> {
        let (dir, expected) = self.expected_files(name, catalogue)?;
        let mut files = Vec::new();
        for (file, pin) in expected {
            let path = dir.join(&file);
            let state = match pin {
                _ if !path.is_file() => FileState::Missing,
                None => FileState::Unknown,
                Some(pin) => {
                    digest::check(&path, &pin, &mut |_| {})?.map_or_else(FileState::Changed, |()| FileState::Sound)
                }
            };
            files.push(FileCheck { name: file, state });
        }
        Ok(Verification { files })
    }

    /// A model's folder and the files it must hold, with their hashes where something says what they are.
    pub(crate) fn expected_files(&self, name: &str, catalogue: &Catalogue) -> Result<(PathBuf, ExpectedFiles), Error> {
        let dir = self.dir.join(name);
        if !is_safe_name(name) || !dir.is_dir() {
            return Err(Error::NotInstalled { name: name.to_owned(), dir: self.dir.clone() });
        }
        let expected: ExpectedFiles = match Manifest::read(&dir) {
            Some(manifest) => {
                manifest.files.into_iter().map(|file| (file.name, Some(Pin::Sha256(file.sha256)))).collect()
            }
            None => expected_by_hand(&dir, name, catalogue),
        };
        if expected.is_empty() {
            return Err(Error::NotInstalled { name: name.to_owned(), dir: self.dir.clone() });
        }
        Ok((dir, expected))
    }

    /// Removes the model; false when there was none.
    pub fn remove(&self, name: &str) -> Result<bool, Error> {
        if !is_safe_name(name) {
            return Err(Error::UnknownModel { name: name.to_owned() });
        }
        let dir = self.dir.join(name);
        if !dir.is_dir() {
            return Ok(false);
        }
        let incoming = self.dir.join(INCOMING);
        std::fs::create_dir_all(&incoming).map_err(Error::io("create", &incoming))?;
        let _lock = lock(&incoming, name, &mut |_| {})?;
        // Gone in one step: a kill in the middle of deleting leaves no half model behind.
        let gone = incoming.join(format!("{name}.{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&gone);
        std::fs::create_dir_all(&gone).map_err(Error::io("create", &gone))?;
        std::fs::rename(&dir, gone.join("removed")).map_err(Error::io("remove", &dir))?;
        std::fs::remove_dir_all(&gone).map_err(Error::io("remove", &gone))?;
        Ok(true)
    }

    /// Bytes free for this user on the disk of the models folder, or `None` where the system does not say.
    #[cfg(unix)]
    pub fn disk_free(&self) -> Option<u64> {
        use std::os::unix::ffi::OsStrExt;
        let existing = self.dir.ancestors().find(|dir| dir.exists()).unwrap_or(Path::new("."));
        let existing = if existing.as_os_str().is_empty() { Path::new(".") } else { existing };
        let path = std::ffi::CString::new(existing.as_os_str().as_bytes()).ok()?;
        let mut stats = std::mem::MaybeUninit::<libc::statvfs>::uninit();
        // SAFETY: the path is NUL-terminated and the buffer has the size statvfs writes; it is read only on success.
        let stats = unsafe {
            if libc::statvfs(path.as_ptr(), stats.as_mut_ptr()) != 0 {
                return None;
            }
            stats.assume_init()
        };
        // The field types differ between systems.
        #[allow(clippy::unnecessary_cast)]
        Some(stats.f_bavail as u64 * stats.f_frsize as u64)
    }

    /// Bytes free for this user on the disk of the models folder, or `None` where the system does not say.
    #[cfg(not(unix))]
    pub fn disk_free(&self) -> Option<u64> {
        None
    }
}

/// File names with the hashes they must have, where known.
pub(crate) type ExpectedFiles = Vec<(String, Option<Pin>)>;

/// The files of the catalogue source whose names are all in the folder, or else the folder's own files with no hash.
fn expected_by_hand(dir: &Path, name: &str, catalogue: &Catalogue) -> ExpectedFiles {
    let sources = catalogue.get(name).map_or(&[][..], |model| &model.sources);
    let present = |source: &&crate::catalogue::Source| source.files.iter().all(|file| dir.join(&file.name).is_file());
    let Some(source) = sources.iter().find(present) else {
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        return entries
            .filter(|entry| entry.path().is_file())
            .filter_map(|entry| Some((entry.file_name().into_string().ok()?, None)))
            .collect();
    };
    let pin = |file: &crate::catalogue::FileSpec| {
        file.sha256.clone().map(Pin::Sha256).or_else(|| file.git_sha1.clone().map(Pin::GitBlob))
    };
    source.files.iter().map(|file| (file.name.clone(), pin(file))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_copied_by_hand_counts_once_its_files_are_there() {
        let dir = tempfile::tempdir().unwrap();
        let store = ModelStore::new(dir.path());
        std::fs::create_dir(dir.path().join("mine")).unwrap();
        std::fs::write(dir.path().join("mine/model.bin"), b"x").unwrap();
        std::fs::write(dir.path().join("mine/config.json"), b"{}").unwrap();
        assert!(store.installed("mine").is_none());
        std::fs::write(dir.path().join("mine/tokenizer.json"), b"{}").unwrap();
        let installed = store.installed("mine").unwrap();
        assert_eq!((installed.format.as_str(), installed.manifest.is_none()), ("ct2", true));
        assert_eq!(store.all_installed().len(), 1);
        let verification = store.verify("mine", &Catalogue::builtin()).unwrap();
        assert!(!verification.is_sound() && verification.files.iter().all(|file| file.state == FileState::Unknown));
    }

    #[test]
    fn names_with_a_way_out_of_the_folder_are_never_followed() {
        let dir = tempfile::tempdir().unwrap();
        let store = ModelStore::new(dir.path().join("models"));
        std::fs::create_dir_all(dir.path().join("models")).unwrap();
        std::fs::create_dir_all(dir.path().join("outside")).unwrap();
        std::fs::write(dir.path().join("outside/ggml-x.bin"), b"x").unwrap();
        assert!(store.installed("../outside").is_none());
        assert!(store.remove("../outside").is_err());
        assert!(store.verify("../outside", &Catalogue::builtin()).is_err());
        assert!(dir.path().join("outside/ggml-x.bin").exists());
    }

    #[test]
    fn free_space_is_known_even_before_the_folder_exists() {
        let dir = tempfile::tempdir().unwrap();
        let here = ModelStore::new(dir.path()).disk_free();
        let below = ModelStore::new(dir.path().join("not/yet")).disk_free();
        assert!(here.is_some_and(|free| free > 0));
        assert_eq!(here.is_some(), below.is_some());
    }
}
