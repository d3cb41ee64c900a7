//! What a file holds: a transcript as JSON, subtitles, a plain text, or a recording, which is transcribed first.

use std::io::Read as _;
use std::path::Path;

use hark_api::Segment;
use hark_speech::Compute;
use hark_text::Source;
use serde::Deserialize;

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

/// The text of a file; `-` is stdin, which holds a text.
pub(super) fn read(path: &Path, config: &Config, compute: &Compute) -> Result<Source, CliError> {
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
        return Ok(Source::from_transcript(&result));
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

fn parse(path: &Path, text: &str) -> Result<Source, CliError> {
    if text.trim_start().starts_with('{') {
        if let Ok(transcript) = serde_json::from_str::<Transcript>(text) {
            let segments: Vec<Segment> = transcript.segments.into_iter().map(Segment::from).collect();
            return Ok(Source::from_segments(&segments, &transcript.language));
        }
        if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json")) {
            let problem = "is JSON without the segments of a transcript";
            return Err(CliError::Failed(format!("{} {problem}", path.display())));
        }
    }
    match subtitles::segments(text) {
        Some(segments) => Ok(Source::from_segments(&segments, "")),
        None => Ok(Source::from_text(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transcript_subtitles_and_a_plain_text_are_told_apart() {
        let json =
            r#"{"language": "en", "segments": [{"start": 0.5, "end": 1.5, "text": "Hello there.", "speaker": "Ann"}]}"#;
        let transcript = parse(Path::new("a.json"), json).unwrap();
        assert_eq!(transcript.speakers(), ["Ann"]);
        let cues = parse(Path::new("a.srt"), "1\n00:00:01,000 --> 00:00:02,500\nHello there.\n").unwrap();
        assert_eq!(cues.units()[0].start, Some(1.0));
        let plain = parse(Path::new("a.txt"), "Hello there. {not json}").unwrap();
        assert!(plain.units()[0].start.is_none());
        assert!(parse(Path::new("a.json"), "{\"a\": 1}").is_err());
    }

    #[test]
    fn sound_is_no_text() {
        assert!(is_text("Grüße, 世界\n".as_bytes()));
        assert!(!is_text(b"RIFF\x24\x00\x00\x00WAVEfmt "));
        assert!(!is_text(&[0xff, 0xfb, 0x90, 0x64]));
    }
}
