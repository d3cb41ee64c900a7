//! The line protocol that every system of the benchmark speaks, Hark's own driver included.
//!
//! A driver loads its model and writes one [`Ready`] line; then it answers each [`Request`] line with one [`Answer`]
//! line, and ends when its input does. Standard output holds nothing else. `bench/protocol.py` is the peers' side.

use serde::{Deserialize, Serialize};

use super::BenchError;

/// The first line of a driver: its model is loaded, or why it is not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Ready {
    /// The model is loaded.
    Loaded {
        /// Seconds from start of loading to ready.
        load_seconds: f64,
        /// What runs, with its version.
        version: String,
    },
    /// The model could not be loaded.
    Failed {
        /// Why.
        error: String,
    },
}

/// One file to transcribe.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// Chosen by the asker, returned in the answer; answers may come in another order.
    pub id: u64,
    /// Path of the audio.
    pub audio: String,
    /// Language code; drivers must not spend time on detecting it.
    pub language: String,
    /// True for a short clip that someone waits for, false for bulk work. The peers know no such thing.
    #[serde(default)]
    pub interactive: bool,
    /// How many people speak, where a system that tells them apart is to know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speakers: Option<usize>,
}

/// What became of one request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The request's.
    #[serde(default)]
    pub id: u64,
    /// The outcome.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// A transcript with its cost, or why there is none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Outcome {
    /// It was transcribed.
    Done(Done),
    /// It was not.
    Failed {
        /// Why.
        error: String,
    },
}

/// A transcript and what it cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// All that was heard.
    pub text: String,
    /// Wall time from path to last word; decoding of the file and voice activity included.
    pub seconds: f64,
    /// How many segments.
    #[serde(default)]
    pub segments: usize,
    /// How many words have times; 0 when they were not asked for.
    #[serde(default)]
    pub words: usize,
    /// The driver's own high-water mark in bytes; used where the parent can't read it.
    #[serde(default)]
    pub peak_rss: u64,
    /// Start, end and speaker of each turn, where it was asked who spoke when.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub turns: Vec<(f64, f64, String)>,
    /// Start, end and speaker of each word, where that was asked too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spoken_words: Vec<(f64, f64, String)>,
    /// The same of a live session, where that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<LiveWords>,
}

/// Start, end and speaker of the words of a live session; the speaker is empty where none was told.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LiveWords {
    /// As they were told while people spoke.
    pub told: Vec<(f64, f64, String)>,
    /// As the result at the end has them.
    pub finally: Vec<(f64, f64, String)>,
}

/// Reads one line of the protocol, naming the system that broke it.
pub fn parse<'line, T: Deserialize<'line>>(system: &str, line: &'line str) -> Result<T, BenchError> {
    serde_json::from_str(line).map_err(|source| BenchError::Protocol {
        system: system.to_owned(),
        line: line.chars().take(200).collect(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ready_line_of_a_peer_is_understood() {
        let line = r#"{"ready": true, "load_seconds": 0.5, "version": "faster-whisper 1.2.1", "peak_rss": 1}"#;
        let ready: Ready = parse("peer", line).unwrap();
        assert_eq!(ready, Ready::Loaded { load_seconds: 0.5, version: "faster-whisper 1.2.1".into() });
    }

    #[test]
    fn a_driver_that_could_not_load_says_why() {
        let ready: Ready = parse("peer", r#"{"error": "no such file"}"#).unwrap();
        assert_eq!(ready, Ready::Failed { error: "no such file".into() });
    }

    #[test]
    fn an_answer_keeps_its_request_and_its_cost() {
        let line = r#"{"id": 3, "text": "hello", "seconds": 1.5, "segments": 1, "words": 0, "peak_rss": 1024}"#;
        let answer: Answer = parse("peer", line).unwrap();
        assert_eq!(answer.id, 3);
        let Outcome::Done(done) = answer.outcome else { panic!("an answer was read as a failure") };
        assert_eq!((done.text.as_str(), done.seconds, done.peak_rss), ("hello", 1.5, 1024));
    }

    #[test]
    fn a_failed_answer_is_a_failure_not_an_empty_text() {
        let answer: Answer = parse("peer", r#"{"id": 1, "error": "bad file"}"#).unwrap();
        assert_eq!(answer.outcome, Outcome::Failed { error: "bad file".into() });
    }

    #[test]
    fn what_is_written_can_be_read_back() {
        let request =
            Request { id: 9, audio: "a \"b\".wav".into(), language: "en".into(), interactive: true, speakers: Some(3) };
        assert_eq!(parse::<Request>("self", &serde_json::to_string(&request).unwrap()).unwrap(), request);
        let answer = Answer { id: 9, outcome: Outcome::Failed { error: "x".into() } };
        assert_eq!(parse::<Answer>("self", &serde_json::to_string(&answer).unwrap()).unwrap(), answer);
    }

    #[test]
    fn a_line_that_is_not_json_names_the_system_and_shows_the_line() {
        let error = parse::<Answer>("whisper.cpp", "Segmentation fault").unwrap_err().to_string();
        assert!(error.contains("whisper.cpp") && error.contains("Segmentation fault"), "{error}");
    }
}
