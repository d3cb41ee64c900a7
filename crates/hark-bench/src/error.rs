//! Why a benchmark gave no figures, and what to do about it.

use std::path::{Path, PathBuf};

/// Why a benchmark gave no figures.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// A file could not be read or written.
    #[error("{path}: {source}", path = path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Something that is not the WAV file it should be.
    #[error("{path}: not usable as WAV: {why}; convert it with ffmpeg -i FILE -ac 1 -ar 16000 out.wav", path = path.display())]
    Wav {
        /// Which.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// A reference file with a line that names no words.
    #[error("{path}: expected <file name without .wav> TAB <words>, found \"{line}\"", path = path.display())]
    References {
        /// Which.
        path: PathBuf,
        /// The line.
        line: String,
    },
    /// The program that is measured is not there.
    #[error("{expected} does not exist; build it with: cargo build --release -p hark", expected = expected.display())]
    NoHark {
        /// Where it should be.
        expected: PathBuf,
    },
    /// Nothing to transcribe.
    #[error("no WAV files in {place}; build the benchmark's audio with bench/corpus.py, or name some with --audio", place = place.display())]
    NoAudio {
        /// Where it was looked for.
        place: PathBuf,
    },
    /// Nothing to tell apart.
    #[error("no conversations in {place}; build them with bench/conversations.py, or name WAV files with RTTM beside them with --audio", place = place.display())]
    NoConversations {
        /// Where they were looked for.
        place: PathBuf,
    },
    /// A reference of turns with a line that is none.
    #[error("{path}: expected SPEAKER <file> <channel> <start> <length> <NA> <NA> <voice>, found \"{line}\"", path = path.display())]
    Rttm {
        /// Which.
        path: PathBuf,
        /// The line.
        line: String,
    },
    /// The model is not on this machine.
    #[error("model {model} is not installed in {folder}; fetch it with: hark models pull {model}", folder = folder.display())]
    NoModel {
        /// Its name.
        model: String,
        /// Where it should be.
        folder: PathBuf,
    },
    /// `--peers` names something unknown.
    #[error("there is no peer {key}; known are auto, none, {known}")]
    NoSuchPeer {
        /// What was asked for.
        key: String,
        /// What there is.
        known: String,
    },
    /// A driver's process could not be started.
    #[error("could not start {system}: {source}")]
    Start {
        /// Which system.
        system: String,
        /// Why.
        source: std::io::Error,
    },
    /// A system said that it failed.
    #[error("{system} failed: {error}")]
    System {
        /// Which system.
        system: String,
        /// What it said.
        error: String,
    },
    /// A driver ended in the middle; the end of what it printed says why.
    #[error("{system} ended without an answer{}", last_lines(log))]
    Ended {
        /// Which system.
        system: String,
        /// Where its side output went.
        log: PathBuf,
    },
    /// A driver wrote something that is not the protocol.
    #[error("{system} broke the line protocol ({source}): {line}")]
    Protocol {
        /// Which system.
        system: String,
        /// The beginning of the line.
        line: String,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// A message could not be written as JSON.
    #[error("could not write JSON: {0}")]
    Json(serde_json::Error),
    /// Standard input or output broke.
    #[error("the pipe to the benchmark broke: {0}")]
    Pipe(std::io::Error),
    /// Nothing was measured.
    #[error("no round was measured; --rounds must be at least 1")]
    NoRounds,
}

/// The last lines of a driver's side output, for an error message; the log itself goes away with the run.
fn last_lines(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    match lines.get(lines.len().saturating_sub(3)..) {
        Some([]) | None => String::new(),
        Some(last) => format!(": {}", last.join(" | ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audio::Scratch;

    #[test]
    fn a_driver_that_died_is_quoted_from_its_log() {
        let scratch = Scratch::new().unwrap();
        std::fs::write(scratch.file("log"), "one\ntwo\nthree\n\nfour\n").unwrap();
        assert_eq!(last_lines(&scratch.file("log")), ": two | three | four");
        assert_eq!(last_lines(&scratch.file("none")), "");
    }
}
