//! A transcript as a file that people and players read: plain text, SubRip, WebVTT or JSON.
//!
//! In: a [`hark_api::TranscriptionResult`]. Out: the whole file as a string, with a final newline. None of its
//! business: where the transcript comes from, where the file goes, and which formats a caller is allowed to ask for.

mod atoms;
mod cues;
mod format;
mod lines;
mod script;
mod subtitles;
mod text;

use hark_api::TranscriptionResult;

pub use format::Format;

/// How a transcript is laid out.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Subtitle rules; plain text and JSON ignore them.
    pub subtitles: SubtitleRules,
    /// JSON on many lines with indentation instead of on one.
    pub pretty_json: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { subtitles: SubtitleRules::default(), pretty_json: true }
    }
}

/// What a cue may look like and how long it stays. The defaults are the common ground of the broadcasters' and
/// streaming services' public style guides: 42 columns, two lines, one to seven seconds, 20 characters a second.
#[derive(Debug, Clone, PartialEq)]
pub struct SubtitleRules {
    /// Columns in a line; a wide character (Chinese, Japanese, Korean) takes two. A single longer word stays whole.
    pub max_line_width: usize,
    /// Lines in a cue.
    pub max_lines: usize,
    /// Seconds a cue stays at least, where the next cue leaves room for it.
    pub min_seconds: f64,
    /// Seconds a cue stays at most.
    pub max_seconds: f64,
    /// Seconds of empty screen between two cues, where there is room: the eye notices that the text changed.
    pub min_gap: f64,
    /// Columns a viewer reads in a second; cues stay longer for it where there is room.
    pub max_columns_per_second: f64,
}

impl Default for SubtitleRules {
    fn default() -> Self {
        Self {
            max_line_width: 42,
            max_lines: 2,
            min_seconds: 1.0,
            max_seconds: 7.0,
            // Two frames at 24 frames a second.
            min_gap: 0.083,
            max_columns_per_second: 20.0,
        }
    }
}

/// Why a transcript can't be written.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The named format is none of ours.
    #[error("unknown format {0:?}: choose one of {list}", list = format::names())]
    UnknownFormat(String),
    /// A number in the transcript that JSON can't hold.
    #[error("the transcript can't be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

/// Writes `transcript` in `format`: the content of the whole file.
pub fn render(transcript: &TranscriptionResult, format: Format, options: &Options) -> Result<String, ExportError> {
    match format {
        Format::Txt => Ok(text::render(transcript)),
        Format::Srt => Ok(subtitles::srt(transcript, &options.subtitles)),
        Format::Vtt => Ok(subtitles::vtt(transcript, &options.subtitles)),
        Format::Json => {
            let mut json = if options.pretty_json {
                serde_json::to_string_pretty(transcript)?
            } else {
                serde_json::to_string(transcript)?
            };
            json.push('\n');
            Ok(json)
        }
    }
}
