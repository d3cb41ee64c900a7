//! The formats and their names.

use std::fmt;
use std::str::FromStr;

use crate::ExportError;

/// A file format a transcript can be written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// Plain text in paragraphs.
    Txt,
    /// SubRip subtitles.
    Srt,
    /// WebVTT subtitles.
    Vtt,
    /// The contract's `TranscriptionResult`.
    Json,
    /// A table for spreadsheets, a row for each segment.
    Csv,
    /// A Word document.
    Docx,
    /// Typeset pages.
    Pdf,
}

impl Format {
    /// Every format, in the order help texts show them.
    pub const ALL: [Self; 7] = [Self::Txt, Self::Srt, Self::Vtt, Self::Json, Self::Csv, Self::Docx, Self::Pdf];

    /// The name on the command line and the extension of the file, without a dot.
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Txt => "txt",
            Self::Srt => "srt",
            Self::Vtt => "vtt",
            Self::Json => "json",
            Self::Csv => "csv",
            Self::Docx => "docx",
            Self::Pdf => "pdf",
        }
    }

    /// The `Content-Type` of the file.
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Txt => "text/plain; charset=utf-8",
            Self::Srt => "application/x-subrip; charset=utf-8",
            Self::Vtt => "text/vtt; charset=utf-8",
            Self::Json => "application/json",
            Self::Csv => "text/csv; charset=utf-8",
            Self::Docx => "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
            Self::Pdf => "application/pdf",
        }
    }

    /// Whether the file is text, which a terminal may show; the others are bytes.
    pub const fn is_text(self) -> bool {
        !matches!(self, Self::Docx | Self::Pdf)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.extension())
    }
}

impl FromStr for Format {
    type Err = ExportError;

    fn from_str(name: &str) -> Result<Self, ExportError> {
        Self::ALL
            .into_iter()
            .find(|format| format.extension().eq_ignore_ascii_case(name.trim()))
            .ok_or_else(|| ExportError::UnknownFormat(name.to_owned()))
    }
}

pub(crate) fn names() -> String {
    Format::ALL.map(Format::extension).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_is_found_by_its_own_name_in_any_case() {
        for format in Format::ALL {
            assert_eq!(format.extension().parse::<Format>().unwrap(), format);
            assert_eq!(format.extension().to_uppercase().parse::<Format>().unwrap(), format);
        }
    }

    #[test]
    fn an_unknown_name_is_an_error_that_lists_the_choices() {
        let message = "doc".parse::<Format>().unwrap_err().to_string();
        assert_eq!(message, "unknown format \"doc\": choose one of txt, srt, vtt, json, csv, docx, pdf");
    }
}
