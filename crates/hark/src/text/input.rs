//! What a file holds: a transcript as JSON, subtitles, a plain text, or a recording, which is transcribed first.

use std::io::Read as _;
use std::path::Path;

use hark_api::Segment;
use hark_speech::Compute;
use hark_text::Source;
use serde::Deserialize;
use serde_json::Value;

use super::subtitles;
use crate::CliError;
use crate::config::Config;
use crate::transcribe::transcribe_file;

/// The longest text that is read.
const MAX_TEXT: u64 = 64 << 20;

/// A transcript as Hark writes it, or any other JSON with segments.
#[derive(Deserialize)]
struct Transcript {
    #[serde(default)]
    language: String,
    segments: Vec<TranscriptSegment>,
}

#[derive(Deserialize)]
struct TranscriptSegment {
    #[serde(default)]
    start: f64,
    #[serde(default)]
    end: f64,
    text: String,
    speaker: Option<String>,
}

impl From<TranscriptSegment> for Segment {
    fn from(segment: TranscriptSegment) -> Self {
        let TranscriptSegment { start, end, text, speaker } = segment;
        Segment { start, end, text, speaker, ..Segment::default() }
    }
}

/// What a file holds.
#[derive(Debug)]
pub(super) enum File {
    /// A plain text.
    Text(String),
    /// SubRip or WebVTT.
    Subtitles(String),
    /// A transcript, read from JSON or made of a recording.
    Transcript(Value),
}

/// The text of a file; `-` is stdin, which holds a text.
pub(super) fn read(path: &Path, config: &Config, compute: &Compute) -> Result<Source, CliError> {
    source(open(path, config, compute)?, path)
}

/// What a file holds; a recording is transcribed.
pub(super) fn open(path: &Path, config: &Config, compute: &Compute) -> Result<File, CliError> {
    let problem = |error: std::io::Error| CliError::Failed(format!("{}: {error}", path.display()));
    let mut bytes = Vec::new();
    if path == Path::new("-") {
        std::io::stdin().lock().take(MAX_TEXT + 1).read_to_end(&mut bytes).map_err(problem)?;
    } else {
        let file = std::fs::File::open(path).map_err(problem)?;
        file.take(MAX_TEXT + 1).read_to_end(&mut bytes).map_err(problem)?;
    }
    let is_recording = bytes.len() as u64 > MAX_TEXT || !is_text(&bytes);
    if is_recording && path != Path::new("-") {
        drop(bytes);
        let result = transcribe_file(path, config, compute)?;
        let value = serde_json::to_value(result).map_err(|error| CliError::Failed(error.to_string()))?;
        return Ok(File::Transcript(value));
    }
    let text = String::from_utf8(bytes)
        .map_err(|_| CliError::Failed("stdin is not UTF-8 text; give a recording as a file".to_owned()))?;
    parse(path, text.trim_start_matches('\u{feff}'))
}

/// UTF-8 without control characters that no text has.
fn is_text(bytes: &[u8]) -> bool {
    // The last character may be cut off by the limit.
    let valid = match std::str::from_utf8(bytes) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none() && bytes.len() as u64 > MAX_TEXT,
    };
    valid && !bytes.contains(&0)
}

fn parse(path: &Path, text: &str) -> Result<File, CliError> {
    if text.trim_start().starts_with('{') {
        if let Ok(value) = serde_json::from_str::<Value>(text)
            && Transcript::deserialize(&value).is_ok()
        {
            return Ok(File::Transcript(value));
        }
        if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json")) {
            let problem = "is JSON without the segments of a transcript";
            return Err(CliError::Failed(format!("{} {problem}", path.display())));
        }
    }
    let text = text.to_owned();
    Ok(if subtitles::segments(&text).is_some() { File::Subtitles(text) } else { File::Text(text) })
}

fn source(file: File, path: &Path) -> Result<Source, CliError> {
    match file {
        File::Text(text) => Ok(Source::from_text(&text)),
        File::Subtitles(text) => Ok(Source::from_segments(&subtitles::segments(&text).unwrap_or_default(), "")),
        File::Transcript(value) => {
            let problem = |error: serde_json::Error| CliError::Failed(format!("{}: {error}", path.display()));
            let transcript = Transcript::deserialize(value).map_err(problem)?;
            let segments: Vec<Segment> = transcript.segments.into_iter().map(Segment::from).collect();
            Ok(Source::from_segments(&segments, &transcript.language))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transcript_subtitles_and_a_plain_text_are_told_apart() {
        let read = |name: &str, text: &str| source(parse(Path::new(name), text)?, Path::new(name));
        let json =
            r#"{"language": "en", "segments": [{"start": 0.5, "end": 1.5, "text": "Hello there.", "speaker": "Ann"}]}"#;
        assert_eq!(read("a.json", json).unwrap().speakers(), ["Ann"]);
        let cues = read(
            "a.srt",
            "1
00:00:01,000 --> 00:00:02,500
Hello there.
",
        )
        .unwrap();
        assert_eq!(cues.units()[0].start, Some(1.0));
        let plain = read("a.txt", "Hello there. {not json}").unwrap();
        assert!(plain.units()[0].start.is_none());
        assert!(read("a.json", "{\"a\": 1}").is_err());
    }

    #[test]
    fn sound_is_no_text() {
        assert!(is_text("Grüße, 世界\n".as_bytes()));
        assert!(!is_text(b"RIFF\x24\x00\x00\x00WAVEfmt "));
        assert!(!is_text(&[0xff, 0xfb, 0x90, 0x64]));
    }
}
