//! `hark-model.json`: what an installed folder holds and where it came from.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::error::Error;

/// The manifest's name in a model's folder.
pub const MANIFEST_NAME: &str = "hark-model.json";

/// What was installed, written last into a model's folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The model's name.
    pub name: String,
    /// The format of its files.
    pub format: String,
    /// The licence of the weights.
    pub licence: String,
    /// The attribution or note the licence asks for.
    pub licence_note: String,
    /// The source that served, in words.
    pub source: String,
    /// When, in UTC, as `2026-01-31T12:00:00Z`.
    pub installed_at: String,
    /// Every file with its length and hash.
    pub files: Vec<ManifestFile>,
}

/// One installed file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestFile {
    /// Its path in the folder.
    pub name: String,
    /// Its length.
    pub size: u64,
    /// Its SHA-256.
    pub sha256: String,
}

impl Manifest {
    /// The manifest in `dir`, or `None` when there is none that can be read.
    pub fn read(dir: &Path) -> Option<Manifest> {
        serde_json::from_slice(&std::fs::read(dir.join(MANIFEST_NAME)).ok()?).ok()
    }

    pub(crate) fn write(&self, dir: &Path) -> Result<(), Error> {
        let path = dir.join(MANIFEST_NAME);
        let text = serde_json::to_string_pretty(self).expect("a manifest of strings and numbers serializes");
        std::fs::write(&path, text + "\n").map_err(Error::io("write", &path))
    }

    /// Whether every file it lists is there with its length; `verify` also hashes them.
    pub(crate) fn is_complete(&self, dir: &Path) -> bool {
        !self.files.is_empty()
            && self
                .files
                .iter()
                .all(|file| std::fs::metadata(dir.join(&file.name)).is_ok_and(|data| data.len() == file.size))
    }
}

/// The present moment in UTC, to the second.
pub(crate) fn now_utc() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    utc(seconds)
}

fn utc(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days as i64);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60)
}

/// The Gregorian date of a day counted from 1970-01-01: years start in March, so that the leap day ends one.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day_of_year - (153 * march_month + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_become_the_date_that_the_date_command_prints() {
        // Taken from `date -u -d @N`.
        assert_eq!(utc(0), "1970-01-01T00:00:00Z");
        assert_eq!(utc(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(utc(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(utc(1_709_251_199), "2024-02-29T23:59:59Z");
        assert_eq!(utc(4_102_444_800), "2100-01-01T00:00:00Z");
    }

    #[test]
    fn a_manifest_with_a_file_cut_short_is_not_complete() {
        let dir = tempfile::tempdir().unwrap();
        let manifest = Manifest {
            name: "m".into(),
            format: "ct2".into(),
            licence: "MIT".into(),
            licence_note: String::new(),
            source: "test".into(),
            installed_at: now_utc(),
            files: vec![ManifestFile { name: "a".into(), size: 3, sha256: "00".into() }],
        };
        manifest.write(dir.path()).unwrap();
        std::fs::write(dir.path().join("a"), b"abc").unwrap();
        let read = Manifest::read(dir.path()).unwrap();
        assert_eq!(read, manifest);
        assert!(read.is_complete(dir.path()));
        std::fs::write(dir.path().join("a"), b"ab").unwrap();
        assert!(!read.is_complete(dir.path()));
    }
}
