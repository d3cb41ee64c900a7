//! Typeset pages.
//!
//! A paragraph becomes items of one font, script and direction ([`shaping`], [`fonts`]), items become lines
//! ([`breaking`]), lines become operators of a page ([`painting`], [`pages`]), and pages become a file ([`file`]) with
//! its fonts inside ([`embedding`]). A character that no font has is shown as a box
//! ([`boxes`]) that copies as the character: a document always comes.

mod boxes;
mod breaking;
mod coverage;
mod embedding;
mod file;
mod fonts;
mod pages;
mod painting;
mod shaping;
mod style;

use std::io::Write;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use hark_transcript::TranscriptionResult;
use pdf_writer::Settings;
use pdf_writer::types::StructRole;

use crate::direction::{is_rtl_language, is_rtl_paragraph};
use crate::headline::{about, clock, gap, title};
use crate::paragraphs::{Paragraph, paragraphs};
use crate::{ExportError, Metadata};
use breaking::Breaker;
use coverage::Region;
use pages::{Pages, TEXT_WIDTH};
use shaping::Shaper;
use style::{Style, StyledText};

pub use fonts::Fonts;

/// Space above a turn, above a further paragraph of it, and between the head and the text, in points.
const ABOVE_TURN: f32 = 12.0;
const ABOVE_PARAGRAPH: f32 = 6.0;
const BELOW_HEAD: f32 = 10.0;

/// Without the line breaks and indentation that only help people who read PDF by eye.
const COMPACT: Settings = Settings { pretty: false };

/// Writes a cleaned transcript as pages.
pub(crate) fn render(
    transcript: &TranscriptionResult,
    metadata: &Metadata,
    fonts: &Fonts,
) -> Result<Vec<u8>, ExportError> {
    let language = transcript.language.as_str();
    let title = showable(&title(metadata));
    let said = paragraphs(transcript);
    let sample = said.first().map_or("", |paragraph| paragraph.text.as_str());
    let shaper = Shaper::new(fonts.library(), Region::of(language, sample), language);
    let mut pages = Pages::new(Breaker::new(shaper, TEXT_WIDTH));

    let is_rtl = is_rtl_paragraph(&title, language);
    pages.paragraph(&StyledText::new(&title, Style::Title), is_rtl, StructRole::H1, 0.0)?;
    let about = showable(&about(transcript, metadata));
    if !about.is_empty() {
        pages.paragraph(&StyledText::new(&about, Style::About), is_rtl_language(language), StructRole::P, 2.0)?;
    }
    for (n, paragraph) in said.iter().enumerate() {
        let text = showable(&paragraph.text);
        let is_rtl = is_rtl_paragraph(&text, language);
        let (heading, role) = heading(paragraph, transcript.duration >= 3600.0, is_rtl);
        let space = if paragraph.begins_turn { ABOVE_TURN } else { ABOVE_PARAGRAPH };
        let space = if n == 0 { BELOW_HEAD + space } else { space };
        let bookmark = (role == StructRole::H2).then(|| heading.text.clone());
        pages.headed_paragraph((&heading, role), &StyledText::new(&text, Style::Body), is_rtl, space, bookmark)?;
    }
    pages.finish()?;
    let about =
        file::About { title: &title, language, is_rtl: is_rtl_language(language), created_at: metadata.created_at };
    file::write(&pages, &about)
}

/// `Ann 1:05` where a turn begins, the time alone where it goes on.
fn heading(paragraph: &Paragraph, with_hours: bool, is_rtl: bool) -> (StyledText, StructRole) {
    let time = clock(paragraph.start, with_hours);
    let mut heading = StyledText::default();
    let role = match &paragraph.speaker {
        Some(speaker) if paragraph.begins_turn => {
            heading.push(&showable(speaker), Style::Speaker);
            heading.push(gap(is_rtl), Style::Time);
            StructRole::H2
        }
        Some(_) => StructRole::H3,
        None => StructRole::H2,
    };
    heading.push(&time, Style::Time);
    (heading, role)
}

/// `text` with a replacement character for each one that means nothing outside the place it comes from.
fn showable(text: &str) -> String {
    text.chars().map(|c| if coverage::is_unknown(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

fn compress(data: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(data).and_then(|()| encoder.finish()).expect("memory takes every byte")
}
