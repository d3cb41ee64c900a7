//! What the voices of a model sound like, remembered beside the model, so that they are listened to once and not in every process.
//!
//! The file goes with the folder of the model, and its name with everything that its numbers depend on: models that were replaced are listened to again. Where the
//! folder can't be written, nothing is remembered.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use hark_tts::{LISTENING_SENTENCE, Voice};
use sha2::{Digest, Sha256};

/// Part of the name: a change of what is kept, or of how voices are compared, makes older files strangers.
const VERSION: u32 = 1;
/// Numbers of an embedding, at most.
const MAX_WIDTH: usize = 4096;

/// The file for these voices of the model in `folder`, compared by the network in `embedding`.
pub(crate) fn path(folder: &Path, embedding: &Path, voices: &[Voice]) -> PathBuf {
    let mut hash = Sha256::new();
    hash.update(VERSION.to_le_bytes());
    hash.update(LISTENING_SENTENCE);
    for voice in voices {
        hash.update(voice.name());
        hash.update([0]);
        voice.numbers().iter().for_each(|number| hash.update(number.to_le_bytes()));
    }
    for folder in [folder, embedding] {
        // Hashes of the files for models that were pulled; sizes and times of those copied by hand.
        match std::fs::read(folder.join("hark-model.json")) {
            Ok(manifest) => hash.update(&manifest),
            Err(_) => hash.update(files_of(folder)),
        }
    }
    let name = hash.finalize()[..8].iter().fold(String::new(), |mut name, byte| {
        let _ = write!(name, "{byte:02x}");
        name
    });
    folder.join(format!("listened-{name}.bin"))
}

/// The files of a folder with their sizes and times, those of this module left out.
fn files_of(folder: &Path) -> String {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<String> = entries
        .filter(|entry| !entry.file_name().to_string_lossy().starts_with("listened-"))
        .filter_map(|entry| {
            let about = entry.metadata().ok()?;
            Some(format!("{:?} {} {:?}\n", entry.file_name(), about.len(), about.modified().ok()))
        })
        .collect();
    files.sort();
    files.concat()
}

/// The embeddings of so many voices; none where the file is absent, cut off or no such file.
pub(crate) fn read(path: &Path, voices: usize) -> Option<Vec<Vec<f32>>> {
    let bytes = std::fs::read(path).ok()?;
    let (width, rest) = bytes.split_first_chunk::<4>()?;
    let width = usize::try_from(u32::from_le_bytes(*width)).ok()?;
    if !(1..=MAX_WIDTH).contains(&width) || rest.len() != width * voices * 4 {
        return None;
    }
    let numbers: Vec<f32> =
        rest.chunks_exact(4).map(|number| f32::from_le_bytes(number.try_into().unwrap_or_default())).collect();
    let is_unit = |one: &[f32]| (one.iter().map(|x| x * x).sum::<f32>() - 1.0).abs() < 1e-3;
    let embeddings: Vec<Vec<f32>> = numbers.chunks_exact(width).map(<[f32]>::to_vec).collect();
    embeddings.iter().all(|one| is_unit(one)).then_some(embeddings)
}

/// Writes them in one step, so that no reader sees half of a file.
pub(crate) fn write(path: &Path, embeddings: &[Vec<f32>]) -> std::io::Result<()> {
    let width = embeddings.first().map_or(0, Vec::len);
    let mut bytes = u32::try_from(width).unwrap_or_default().to_le_bytes().to_vec();
    bytes.extend(embeddings.iter().flatten().flat_map(|number| number.to_le_bytes()));
    let begun = path.with_extension(format!("{}.new", std::process::id()));
    let written = std::fs::File::create(&begun)
        .and_then(|mut file| file.write_all(&bytes).and_then(|()| file.sync_all()))
        .and_then(|()| std::fs::rename(&begun, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&begun);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_what_is_broken_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("listened-1.bin");
        let embeddings = vec![vec![0.6, 0.8, 0.0], vec![0.0, -1.0, 0.0]];
        assert_eq!(read(&file, 2), None);
        write(&file, &embeddings).unwrap();
        assert_eq!(read(&file, 2), Some(embeddings));
        assert_eq!(read(&file, 3), None, "other voices");
        let bytes = std::fs::read(&file).unwrap();
        for broken in [&bytes[..bytes.len() - 1], &bytes[..3], &[0; 28][..], &[255; 28][..]] {
            std::fs::write(&file, broken).unwrap();
            assert_eq!(read(&file, 2), None, "{broken:?}");
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(write(&folder.path().join("absent/listened-1.bin"), &[vec![1.0]]).is_err());
    }

    #[test]
    fn a_model_that_was_replaced_has_another_file() {
        let (model, embedding) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let now = || path(model.path(), embedding.path(), &[]);
        let first = now();
        std::fs::write(&first, b"not counted").unwrap();
        assert_eq!(now(), first);
        std::fs::write(model.path().join("hark-model.json"), b"{}").unwrap();
        let pulled = now();
        assert_ne!(pulled, first);
        std::fs::write(embedding.path().join("weights"), b"1").unwrap();
        assert_ne!(now(), pulled);
    }
}
