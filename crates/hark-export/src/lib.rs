//! A transcript as a file that people and players read: plain text, SubRip, WebVTT, JSON, CSV, a Word document or a PDF.
//!
//! In: a [`hark_transcript::TranscriptionResult`], what is known about it ([`Metadata`]), and for PDF the machine's fonts
//! ([`Fonts`]). Out: the content of the whole file, the same for the same input. None of its business: where the
//! transcript comes from, where the file goes, and which formats a caller is allowed to ask for.

mod atoms;
mod clean;
mod cues;
mod direction;
mod docx;
mod format;
mod headline;
mod lines;
mod paragraphs;
mod pdf;
mod script;
mod subtitles;
mod table;
mod text;

use std::collections::BTreeMap;

use hark_transcript::{DateTime, TranscriptionResult};

pub use format::Format;
pub use pdf::Fonts;

/// What a file says beside the words: documents show it at their head and in their properties.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metadata {
    /// The title; without one a document is called `Transcript`.
    pub title: String,
    /// When the recording was transcribed.
    pub created_at: Option<DateTime>,
    /// Names that people gave to speaker labels; every format uses them.
    pub speaker_names: BTreeMap<String, String>,
    /// The language as its readers write it; without it documents show the code.
    pub language_name: Option<String>,
}

/// How a transcript is laid out.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Subtitle rules; plain text and JSON ignore them.
    pub subtitles: SubtitleRules,
    /// JSON on many lines with indentation instead of on one.
    pub pretty_json: bool,
    /// What [`export`] calls speakers without a name, before a number that counts from 1: `Speaker` writes `Speaker 1`
    /// for the label `SPEAKER_00`. Without it they keep their labels.
    pub unnamed_speaker: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self { subtitles: SubtitleRules::default(), pretty_json: true, unnamed_speaker: None }
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
    /// A format that is bytes where text was asked for.
    #[error("{0} is not text: write it to a file")]
    NotText(Format),
    /// The archive of a Word document failed.
    #[error("the document can't be packed: {0}")]
    Archive(#[from] zip::result::ZipError),
    /// A font of the machine that can't be read or embedded.
    #[error("the font {font} can't be used: {reason}; reinstall it or remove it")]
    Font {
        /// The name of the font.
        font: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// Breaks the text of one cue into lines as subtitles have them: balanced, none wider than the rules allow. A text that does not fit gets more lines.
pub fn break_cue(text: &str, rules: &SubtitleRules) -> Vec<String> {
    lines::break_lines(&atoms::of_text(text), rules)
}

/// Writes `transcript` in `format`: the content of the whole file.
///
/// `fonts` are only looked for when a format needs them, once for each [`Fonts`].
pub fn export(
    transcript: &TranscriptionResult,
    metadata: &Metadata,
    format: Format,
    options: &Options,
    fonts: &Fonts,
) -> Result<Vec<u8>, ExportError> {
    let mut transcript = clean::with_names(transcript, metadata);
    // Turns leave the label of a voice that is alone out, which they must still know as a label.
    if let Some(word) = &options.unnamed_speaker
        && (matches!(format, Format::Csv | Format::Json) || !atoms::speaks_alone(&transcript))
    {
        clean::number_unnamed(&mut transcript, word);
    }
    match format {
        Format::Docx => docx::render(&clean::cleaned(&transcript), metadata),
        Format::Pdf => pdf::render(&clean::cleaned(&transcript), metadata, fonts),
        text => render(&transcript, text, options).map(String::into_bytes),
    }
}

/// Writes `transcript` in a `format` that is text, with its speaker labels as they are.
pub fn render(transcript: &TranscriptionResult, format: Format, options: &Options) -> Result<String, ExportError> {
    match format {
        Format::Txt => Ok(text::render(&clean::without_controls(transcript))),
        Format::Srt => Ok(subtitles::srt(&clean::without_controls(transcript), &options.subtitles)),
        Format::Vtt => Ok(subtitles::vtt(&clean::without_controls(transcript), &options.subtitles)),
        Format::Json => {
            let mut json = if options.pretty_json {
                serde_json::to_string_pretty(transcript)?
            } else {
                serde_json::to_string(transcript)?
            };
            json.push('\n');
            Ok(json)
        }
        Format::Csv => Ok(table::csv(&clean::cleaned(transcript))),
        Format::Docx | Format::Pdf => Err(ExportError::NotText(format)),
    }
}
