//! Recordings of real speech, and the stretches of them in which people speak.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hark_media::{Options, Source, decode_all};

use super::failed;
use crate::error::BenchError;
use crate::systems;

/// The rate of synthetic speech.
pub(super) const RATE: u32 = 24_000;
/// The length of a clip, and how far the next one of a recording begins after it.
pub(super) const CLIP_S: f64 = 5.0;
const STEP_S: f64 = 2.5;
/// The share of a clip in which someone speaks, where references tell.
const MIN_SPEECH: f64 = 0.8;
/// Sets of test sounds.
const SETS: [&str; 3] = ["test-sounds-meetings", "test-sounds-moonshine", "test-sounds-pocketsphinx"];

/// A recording.
pub(super) struct Recording {
    pub(super) name: String,
    pub(super) samples: Vec<f32>,
    /// Begins of clips, in seconds.
    pub(super) clips: Vec<f64>,
}

/// Turns by the name of their recording: begin and end.
type Turns = BTreeMap<String, Vec<(f64, f64)>>;

/// The recordings of folders, of the installed test sounds where none is named.
pub(super) fn recordings(folders: &[PathBuf]) -> Result<Vec<Recording>, BenchError> {
    let installed: Vec<PathBuf> = SETS.iter().filter_map(|set| systems::installed(set).ok()).collect();
    let folders = if folders.is_empty() { &installed } else { folders };
    let mut recordings = Vec::new();
    for folder in folders {
        let mut files = Vec::new();
        collect(folder, &mut files)?;
        files.sort();
        let mut turns = Turns::new();
        for file in files.iter().filter(|file| has_extension(file, &["rttm"])) {
            let text =
                std::fs::read_to_string(file).map_err(|source| BenchError::File { path: file.clone(), source })?;
            read_turns(&text, &mut turns);
        }
        for file in files.iter().filter(|file| is_sound(file)) {
            let options = Options { rate: RATE, ..Options::default() };
            let samples = decode_all(Source::Path(file.clone()), &options)
                .map_err(|error| failed(&file.display().to_string(), error))?
                .0;
            let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let spoken = if turns.is_empty() { None } else { Some(turns.get(&name).map_or(&[][..], Vec::as_slice)) };
            let clips = clips(samples.len() as f64 / f64::from(RATE), spoken);
            recordings.push(Recording { name, samples, clips });
        }
    }
    if recordings.iter().all(|recording| recording.clips.is_empty()) {
        let place = folders.first().cloned().unwrap_or_default();
        return Err(BenchError::NoAudio { place });
    }
    Ok(recordings)
}

/// All files of a folder and of those in it.
pub(super) fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), BenchError> {
    let wrong = |source| BenchError::File { path: folder.to_owned(), source };
    for entry in std::fs::read_dir(folder).map_err(wrong)? {
        let path = entry.map_err(wrong)?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

/// Whether a file is sound, by its name.
pub(super) fn is_sound(file: &Path) -> bool {
    has_extension(file, &["wav", "flac", "mp3", "ogg", "opus"])
}

fn has_extension(file: &Path, wanted: &[&str]) -> bool {
    file.extension().is_some_and(|extension| wanted.iter().any(|wanted| extension.eq_ignore_ascii_case(wanted)))
}

/// Lines of `SPEAKER <file> <channel> <start> <length> …`.
fn read_turns(text: &str, turns: &mut Turns) {
    for line in text.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok());
        if let (Some(&"SPEAKER"), Some(name), Some(start), Some(length)) =
            (fields.first(), fields.get(1), number(3), number(4))
        {
            turns.entry((*name).to_owned()).or_default().push((start, start + length));
        }
    }
}

/// Begins of clips in which someone speaks most of the time.
fn clips(seconds: f64, turns: Option<&[(f64, f64)]>) -> Vec<f64> {
    let count = ((seconds - CLIP_S) / STEP_S).floor();
    let begins = (0..).map(|at| f64::from(at) * STEP_S).take(if count < 0.0 { 0 } else { count as usize + 1 });
    let spoken = |begin: f64| {
        let moments = (0..100).map(|at| begin + CLIP_S * f64::from(at) / 100.0);
        let is_spoken =
            |moment: f64| turns.is_none_or(|turns| turns.iter().any(|&(from, to)| (from..to).contains(&moment)));
        moments.filter(|&moment| is_spoken(moment)).count() as f64 / 100.0
    };
    begins.filter(|&begin| spoken(begin) >= MIN_SPEECH).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clips_lie_where_references_say_that_someone_speaks() {
        let mut turns = Turns::new();
        read_turns("SPEAKER a 1 1.0 6.0 <NA> <NA> x <NA> <NA>\nSPEAKER a 1 6.5 9 <NA> <NA> y\nnothing\n", &mut turns);
        assert_eq!(turns["a"], [(1.0, 7.0), (6.5, 15.5)]);
        assert_eq!(clips(20.0, Some(&turns["a"])), [0.0, 2.5, 5.0, 7.5, 10.0]);
        assert_eq!(clips(10.0, None), [0.0, 2.5, 5.0]);
        assert!(clips(4.9, None).is_empty() && clips(20.0, Some(&[])).is_empty());
    }
}
