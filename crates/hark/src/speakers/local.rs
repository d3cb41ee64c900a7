//! Voiceprints stored on this machine: one file with mode 0600.

use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use hark_api::DateTime;
use hark_speech::Voiceprint;
use serde::{Deserialize, Serialize};

use super::same;
use crate::serve::default_data_dir;
use crate::{CliError, output};

/// A voice with its name.
pub(super) struct KnownVoice {
    pub(super) name: String,
    pub(super) created_at: DateTime,
    pub(super) print: Voiceprint,
}

/// All of them, in the order in which they were learned.
#[derive(Default)]
pub(super) struct LocalVoices {
    pub(super) voices: Vec<KnownVoice>,
}

#[derive(Serialize, Deserialize)]
struct File {
    voiceprints: Vec<Entry>,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    name: String,
    created_at: DateTime,
    /// Bytes of the print in hexadecimal.
    print: String,
}

/// Where they are.
pub(super) fn file() -> PathBuf {
    default_data_dir().join("voiceprints.json")
}

impl LocalVoices {
    /// What the file holds; nothing where there is none.
    pub(super) fn read(file: &Path) -> Result<Self, CliError> {
        let wrong = |why: &dyn std::fmt::Display| CliError::Failed(format!("{}: {why}", file.display()));
        let text = match std::fs::read_to_string(file) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(LocalVoices::default()),
            read => read.map_err(|error| wrong(&error))?,
        };
        let stored: File = serde_json::from_str(&text).map_err(|error| wrong(&error))?;
        let voices = stored.voiceprints.into_iter().map(|entry| {
            let print = from_hex(&entry.print).and_then(|bytes| Voiceprint::from_bytes(&bytes));
            let print = print.ok_or_else(|| {
                wrong(&format!(
                    "the voice of {} can't be read: remove it from the file and enroll it again",
                    entry.name
                ))
            })?;
            Ok(KnownVoice { name: entry.name, created_at: entry.created_at, print })
        });
        Ok(LocalVoices { voices: voices.collect::<Result<_, CliError>>()? })
    }

    /// Writes the file anew, whole or not at all, for its user alone.
    pub(super) fn write(&self, file: &Path) -> Result<(), CliError> {
        let wrong = |error: std::io::Error| CliError::Failed(format!("can't write {}: {error}", file.display()));
        let folder = file.parent().unwrap_or(Path::new("."));
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(wrong)?;
        let entry = |known: &KnownVoice| Entry {
            name: known.name.clone(),
            created_at: known.created_at,
            print: to_hex(&known.print.to_bytes()),
        };
        let stored = File { voiceprints: self.voices.iter().map(entry).collect() };
        let text = serde_json::to_string_pretty(&stored).map_err(|error| wrong(error.into()))?;
        let _writing = output::stop_writing();
        // Such a file has mode 0600 from its first byte.
        let mut beside =
            tempfile::Builder::new().prefix(".hark-").suffix(".part").tempfile_in(folder).map_err(wrong)?;
        beside.write_all(text.as_bytes()).map_err(wrong)?;
        beside.as_file().sync_all().map_err(wrong)?;
        beside.persist(file).map(drop).map_err(|error| wrong(error.error))
    }

    /// The place of a name.
    pub(super) fn find(&self, name: &str) -> Option<usize> {
        self.voices.iter().position(|known| same(&known.name, name))
    }
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
    pairs.iter().map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hark_speech::EMBEDDING_WIDTH;
    use std::os::unix::fs::PermissionsExt;

    fn known(name: &str) -> KnownVoice {
        let mut vector = [0.1; EMBEDDING_WIDTH];
        vector[name.len()] = 0.7;
        KnownVoice { name: name.to_owned(), created_at: DateTime(1), print: Voiceprint::new(&vector).unwrap() }
    }

    #[test]
    fn voices_are_read_back_from_a_file_that_only_its_user_reads() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("data").join("voiceprints.json");
        assert!(LocalVoices::read(&file).unwrap().voices.is_empty());
        let voices = LocalVoices { voices: vec![known("Ann"), known("Élodie")] };
        voices.write(&file).unwrap();
        let read = LocalVoices::read(&file).unwrap();
        assert_eq!((read.find("ÉLODIE"), read.find("Bob")), (Some(1), None));
        assert!(read.voices[1].print == voices.voices[1].print);
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(file.parent().unwrap()).unwrap().count(), 1, "nothing else stays there");
    }

    #[test]
    fn a_damaged_print_is_told_by_its_name_and_taken_for_nobodys() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("voiceprints.json");
        LocalVoices { voices: vec![known("Ann")] }.write(&file).unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, text.replacen("\"print\": \"01", "\"print\": \"09", 1)).unwrap();
        let Err(error) = LocalVoices::read(&file) else { panic!("another network's print was taken") };
        assert!(error.to_string().contains("the voice of Ann"), "{error}");
    }
}
