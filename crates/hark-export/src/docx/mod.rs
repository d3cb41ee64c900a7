//! A Word document: Office Open XML (ECMA-376) in a ZIP archive, written by hand.
//!
//! The parts that never change are in [`parts`]; this file writes the document itself. Every turn has a heading with its
//! speaker and time, so that Word's and LibreOffice's navigation lists who spoke when.

mod language;
mod parts;

use std::fmt::Write as _;
use std::io::{Cursor, Write as _};

use hark_transcript::TranscriptionResult;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

use crate::direction::{is_rtl_language, is_rtl_paragraph, stretches};
use crate::headline::{about, clock, gap, title};
use crate::paragraphs::{Paragraph, paragraphs};
use crate::script::is_complex;
use crate::{ExportError, Metadata};

/// Writes a cleaned transcript as a document.
pub(crate) fn render(transcript: &TranscriptionResult, metadata: &Metadata) -> Result<Vec<u8>, ExportError> {
    let title = title(metadata);
    let language = &transcript.language;
    let files = [
        ("[Content_Types].xml", parts::CONTENT_TYPES.to_owned()),
        ("_rels/.rels", parts::PACKAGE_RELATIONS.to_owned()),
        ("docProps/app.xml", parts::APP_PROPERTIES.to_owned()),
        ("docProps/core.xml", parts::core_properties(&title, language, metadata.created_at)),
        ("word/_rels/document.xml.rels", parts::DOCUMENT_RELATIONS.to_owned()),
        ("word/document.xml", document(transcript, metadata, &title)),
        ("word/footer1.xml", parts::FOOTER.to_owned()),
        ("word/settings.xml", parts::settings(language)),
        ("word/styles.xml", parts::styles(language)),
    ];
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    // A fixed time: the same transcript gives the same bytes.
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Deflated)
        .last_modified_time(DateTime::default());
    for (name, content) in files {
        archive.start_file(name, options)?;
        archive.write_all(content.as_bytes()).map_err(zip::result::ZipError::from)?;
    }
    Ok(archive.finish()?.into_inner())
}

fn document(transcript: &TranscriptionResult, metadata: &Metadata, title: &str) -> String {
    let language = transcript.language.as_str();
    let mut out = String::from(parts::DOCUMENT_BEGIN);
    paragraph(&mut out, "Title", is_rtl_paragraph(title, language), &[Run::plain(title)], language);
    let about = about(transcript, metadata);
    if !about.is_empty() {
        paragraph(&mut out, "Subtitle", is_rtl_language(language), &[Run::plain(&about)], language);
    }
    let with_hours = transcript.duration >= 3600.0;
    for said in paragraphs(transcript) {
        let is_rtl = is_rtl_paragraph(&said.text, language);
        heading(&mut out, &said, with_hours, is_rtl, language);
        paragraph(&mut out, "BodyText", is_rtl, &[Run::plain(&said.text)], language);
    }
    let bidi = if is_rtl_language(language) { "<w:bidi/>" } else { "" };
    let _ = write!(out, "{}{bidi}</w:sectPr></w:body></w:document>", parts::SECTION_BEGIN);
    out
}

/// `Ann 1:05` where a turn begins, the time alone where it goes on.
fn heading(out: &mut String, said: &Paragraph, with_hours: bool, is_rtl: bool, language: &str) {
    let time = clock(said.start, with_hours);
    let time = Run { text: &time, style: Some("Time") };
    match &said.speaker {
        Some(speaker) if said.begins_turn => {
            let runs = [Run { text: speaker, style: Some("Speaker") }, Run::plain(gap(is_rtl)), time];
            paragraph(out, "Heading1", is_rtl, &runs, language);
        }
        Some(_) => paragraph(out, "Heading2", is_rtl, &[time], language),
        None => paragraph(out, "Heading1", is_rtl, &[time], language),
    }
}

/// Text with a character style of its own.
struct Run<'a> {
    text: &'a str,
    style: Option<&'static str>,
}

impl<'a> Run<'a> {
    fn plain(text: &'a str) -> Self {
        Self { text, style: None }
    }
}

fn paragraph(out: &mut String, style: &str, is_rtl: bool, runs: &[Run], language: &str) {
    let bidi = if is_rtl { "<w:bidi/>" } else { "" };
    let _ = write!(out, r#"<w:p><w:pPr><w:pStyle w:val="{style}"/>{bidi}</w:pPr>"#);
    for run in runs {
        for (range, rtl) in stretches(run.text, is_rtl) {
            for part in complex_parts(&run.text[range]) {
                text_run(out, part, run.style, rtl, language);
            }
        }
    }
    out.push_str("</w:p>");
}

/// Word takes fonts, sizes and languages of complex scripts from settings of their own, and only where a run says so.
fn text_run(out: &mut String, text: &str, style: Option<&str>, rtl: bool, language: &str) {
    out.push_str("<w:r>");
    let complex = text.chars().any(is_complex);
    if style.is_some() || rtl || complex {
        out.push_str("<w:rPr>");
        if let Some(style) = style {
            let _ = write!(out, r#"<w:rStyle w:val="{style}"/>"#);
        }
        if rtl {
            out.push_str("<w:rtl/>");
        } else if complex {
            out.push_str("<w:cs/>");
        }
        if rtl || complex {
            let _ = write!(out, r#"<w:lang w:bidi="{}"/>"#, escape(&language::of_complex_text(language)));
        }
        out.push_str("</w:rPr>");
    }
    let _ = write!(out, r#"<w:t xml:space="preserve">{}</w:t></w:r>"#, escape(text));
}

/// `text` cut where complex script begins or ends; spaces and signs stay with what stands before them.
fn complex_parts(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut begin = 0;
    let mut current = None;
    for (at, c) in text.char_indices().filter(|(_, c)| c.is_alphabetic()) {
        let complex = is_complex(c);
        if current.is_some_and(|current| current != complex) {
            parts.push(&text[begin..at]);
            begin = at;
        }
        current = Some(complex);
    }
    if begin < text.len() {
        parts.push(&text[begin..]);
    }
    parts
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clean::cleaned;
    use hark_transcript::Segment;

    fn body(text: &str, language: &str) -> String {
        let segments = vec![Segment { end: 1.0, text: text.into(), speaker: Some("Ann".into()), ..Default::default() }];
        let transcript =
            TranscriptionResult { segments, language: language.into(), duration: 1.0, ..Default::default() };
        document(&cleaned(&transcript), &Metadata::default(), "A title")
    }

    #[test]
    fn text_can_not_leave_its_element() {
        let xml = body("</w:t><w:p> & \u{0}\u{FFFF}\u{B}", "en");
        assert!(xml.contains("&lt;/w:t&gt;&lt;w:p&gt; &amp;</w:t>"), "{xml}");
        assert!(!xml.contains(['\u{0}', '\u{FFFF}', '\u{B}']));
    }

    #[test]
    fn arabic_is_a_right_to_left_paragraph_of_right_to_left_runs() {
        let xml = body("قال Google أمس", "ar");
        assert!(xml.contains(r#"<w:pStyle w:val="BodyText"/><w:bidi/>"#));
        let run = |text: &str| format!(r#"<w:rtl/><w:lang w:bidi="ar-SA"/></w:rPr><w:t xml:space="preserve">{text}"#);
        assert!(xml.contains(&run("قال ")) && xml.contains(&run(" أمس")), "{xml}");
        assert!(xml.contains(r#"<w:r><w:t xml:space="preserve">Google</w:t>"#));
        assert!(!body("Hello.", "en").contains("<w:bidi/>"));
    }

    #[test]
    fn hindi_takes_its_fonts_from_the_complex_scripts() {
        let xml = body("नमस्ते world", "hi");
        assert!(
            xml.contains(r#"<w:cs/><w:lang w:bidi="hi-IN"/></w:rPr><w:t xml:space="preserve">नमस्ते </w:t>"#),
            "{xml}"
        );
        assert!(xml.contains(r#"<w:r><w:t xml:space="preserve">world</w:t>"#));
    }

    #[test]
    fn a_turn_begins_with_a_heading_that_names_its_speaker() {
        let xml = body("Hello.", "en");
        let heading = xml.find(r#"<w:pStyle w:val="Heading1"/>"#).unwrap();
        let speaker = xml.find(r#"<w:rStyle w:val="Speaker"/></w:rPr><w:t xml:space="preserve">Ann</w:t>"#).unwrap();
        assert!(heading < speaker && speaker < xml.find("0:00</w:t>").unwrap());
    }
}
