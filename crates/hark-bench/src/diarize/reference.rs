//! Recordings with references: WAV files and the RTTM files beside them.

use std::path::{Path, PathBuf};

use super::score::Span;
use crate::{BenchError, audio};

/// A recording and who really spoke when.
#[derive(Debug, Clone, PartialEq)]
pub struct Conversation {
    /// The WAV file.
    pub path: PathBuf,
    /// Its length.
    pub seconds: f64,
    /// Its folder and the first part of its name: `heldout/talk`.
    pub kind: String,
    /// The reference.
    pub turns: Vec<Span>,
}

/// The conversations among files and folders, in order; those without a reference are an error.
pub fn conversations(paths: &[PathBuf]) -> Result<Vec<Conversation>, BenchError> {
    if let Some(missing) = paths.iter().find(|path| !path.exists()) {
        return Err(BenchError::NoConversations { place: missing.clone() });
    }
    let recordings = audio::recordings(paths, None)?;
    recordings
        .into_iter()
        .map(|recording| {
            let file = recording.path.with_extension("rttm");
            let text =
                std::fs::read_to_string(&file).map_err(|source| BenchError::File { path: file.clone(), source })?;
            let turns = rttm(&file, &text)?;
            Ok(Conversation { kind: kind(&recording.path), path: recording.path, seconds: recording.seconds, turns })
        })
        .collect()
}

/// The turns of an RTTM file: `SPEAKER <file> <channel> <start> <length> <NA> <NA> <voice> …` a line.
fn rttm(path: &Path, text: &str) -> Result<Vec<Span>, BenchError> {
    text.lines()
        .filter(|line| line.starts_with("SPEAKER"))
        .map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let number = |place: usize| fields.get(place).and_then(|field| field.parse::<f64>().ok());
            match (number(3), number(4), fields.get(7)) {
                (Some(start), Some(length), Some(voice)) => {
                    Ok(Span { start, end: start + length, voice: (*voice).to_owned() })
                }
                _ => Err(BenchError::Rttm { path: path.to_owned(), line: line.to_owned() }),
            }
        })
        .collect()
}

fn kind(path: &Path) -> String {
    let folder = path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    match name.split_once('-') {
        Some((kind, _)) => format!("{folder}/{kind}"),
        None => folder.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_an_rttm_file_are_turns() {
        let text = ";; a remark\nSPEAKER talk 1 1.500 2.000 <NA> <NA> ann <NA> <NA>\n";
        let turns = rttm(Path::new("a.rttm"), text).unwrap();
        assert_eq!(turns, [Span { start: 1.5, end: 3.5, voice: "ann".into() }]);
    }

    #[test]
    fn a_line_without_a_time_is_an_error_that_shows_it() {
        let error = rttm(Path::new("a.rttm"), "SPEAKER talk 1 soon 2 <NA> <NA> ann").unwrap_err().to_string();
        assert!(error.contains("a.rttm") && error.contains("soon"), "{error}");
    }

    #[test]
    fn files_are_of_a_kind_by_folder_and_the_first_part_of_their_name() {
        assert_eq!(kind(Path::new("x/heldout/talk-07.wav")), "heldout/talk");
        assert_eq!(kind(Path::new("x/meetings/trn01.wav")), "meetings");
    }
}
