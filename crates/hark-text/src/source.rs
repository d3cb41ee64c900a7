//! The input of every task: a text or a transcript as a list of units.

use std::ops::Range;

use hark_transcript::{Segment, TranscriptionResult};

use crate::language::{self, Language};
use crate::sentences;

/// A text or a transcript, cut into units that cover it without gaps.
#[derive(Debug, Clone, PartialEq)]
pub struct Source {
    text: String,
    units: Vec<Unit>,
    speakers: Vec<String>,
    language: Option<Language>,
    is_transcript: bool,
}

/// A sentence of a text or a segment of a transcript.
#[derive(Debug, Clone, PartialEq)]
pub struct Unit {
    /// Its place in the source, counted from 0.
    pub index: usize,
    /// Who speaks, where that is known.
    pub speaker: Option<String>,
    /// Seconds from the start of the recording; none in a text.
    pub start: Option<f64>,
    /// Seconds from the start of the recording; none in a text.
    pub end: Option<f64>,
    /// Whether somebody else spoke before it, or nobody.
    pub starts_turn: bool,
    /// Whether a paragraph or a turn begins with it.
    pub starts_paragraph: bool,
    /// Bytes of the source's text that belong to it: spans of all units follow each other without gaps.
    pub span: Range<usize>,
    /// The part of the span without speaker label and surrounding white space.
    pub content: Range<usize>,
}

impl Source {
    /// A plain text. Lines such as `Alice: Good morning.` become turns of speakers where most lines begin that way.
    pub fn from_text(text: &str) -> Self {
        let mut units = Vec::new();
        let labels = Labels::find(text);
        for block in blocks(text, &labels) {
            let label = labels.at(&text[block.clone()]);
            let body = block.start + label.as_ref().map_or(0, |label| label.length);
            let speaker = match &label {
                Some(label) => Some(label.name.clone()),
                // A paragraph without a label goes on with the speaker before it.
                None => units.last().and_then(|unit: &Unit| unit.speaker.clone()),
            };
            let before = units.len();
            for sentence in sentences::split(&text[body..block.end]) {
                let span = body + sentence.start..body + sentence.end;
                let content = trim(text, &span);
                let is_first = units.len() == before;
                units.push(Unit {
                    index: units.len(),
                    starts_turn: is_first && (label.is_some() || units.is_empty()),
                    starts_paragraph: is_first,
                    speaker: speaker.clone(),
                    start: None,
                    end: None,
                    span: if is_first { block.start..span.end } else { span },
                    content,
                });
            }
            if units.len() == before && !block.is_empty() {
                match units.last_mut() {
                    Some(unit) => unit.span.end = block.end,
                    None => units.push(Unit::blank(block)),
                }
            }
        }
        let speakers = distinct(units.iter().filter_map(|unit| unit.speaker.as_deref()));
        let language = language::detect(text);
        Source { text: text.to_owned(), units, speakers, language, is_transcript: false }
    }

    /// A transcript with its times and speakers.
    pub fn from_transcript(transcript: &TranscriptionResult) -> Self {
        Self::from_segments(&transcript.segments, &transcript.language)
    }

    /// The segments of a transcript; `language` is an ISO 639-1 code or empty.
    pub fn from_segments(segments: &[Segment], language: &str) -> Self {
        let mut text = String::new();
        let mut units: Vec<Unit> = Vec::with_capacity(segments.len());
        for segment in segments.iter().filter(|segment| !segment.text.trim().is_empty()) {
            let starts_turn = units.last().is_none_or(|unit| unit.speaker != segment.speaker);
            if let Some(unit) = units.last_mut() {
                text.push(if starts_turn { '\n' } else { ' ' });
                unit.span.end = text.len();
            }
            let start = text.len();
            text.push_str(segment.text.trim());
            units.push(Unit {
                index: units.len(),
                speaker: segment.speaker.clone(),
                start: Some(segment.start),
                end: Some(segment.end),
                starts_turn,
                starts_paragraph: starts_turn,
                span: start..text.len(),
                content: start..text.len(),
            });
        }
        let speakers = distinct(units.iter().filter_map(|unit| unit.speaker.as_deref()));
        let language = language::by_code(language).or_else(|| language::detect(&text));
        Source { text, units, speakers, language, is_transcript: true }
    }

    /// The whole text; a transcript's segments are joined by a space, its turns by a line break.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The units in order.
    pub fn units(&self) -> &[Unit] {
        &self.units
    }

    /// Speaker labels in order of first appearance.
    pub fn speakers(&self) -> &[String] {
        &self.speakers
    }

    /// The language of the text, where it is known.
    pub fn language(&self) -> Option<Language> {
        self.language
    }

    /// Whether units have times.
    pub fn is_transcript(&self) -> bool {
        self.is_transcript
    }

    /// Whether there is nothing but white space.
    pub fn is_empty(&self) -> bool {
        self.units.iter().all(|unit| unit.content.is_empty())
    }

    /// The words of a unit, without its speaker label.
    pub fn content(&self, unit: &Unit) -> &str {
        &self.text[unit.content.clone()]
    }

    /// The units as a model reads them: a line for each turn, which begins with the speaker's label.
    pub fn render(&self, units: Range<usize>, span: Range<usize>) -> String {
        self.rendered(units, span, true)
    }

    /// The same without the names of the speakers.
    pub fn render_without_speakers(&self, units: Range<usize>, span: Range<usize>) -> String {
        self.rendered(units, span, false)
    }

    fn rendered(&self, units: Range<usize>, span: Range<usize>, speakers: bool) -> String {
        let mut rendered = String::with_capacity(span.len() + 64);
        for unit in &self.units[units] {
            let content = unit.content.start.max(span.start)..unit.content.end.min(span.end);
            if content.is_empty() {
                continue;
            }
            let begins = rendered.is_empty();
            if !begins {
                rendered.push(if unit.starts_turn || unit.starts_paragraph { '\n' } else { ' ' });
            }
            if speakers
                && (begins || unit.starts_turn)
                && let Some(speaker) = &unit.speaker
            {
                rendered.push_str(speaker);
                rendered.push_str(": ");
            }
            rendered.push_str(&self.text[content]);
        }
        rendered
    }

    /// The units as numbered lines, `[7] Alice: Good morning.`: a model then names a line by its number.
    pub fn render_numbered(&self, units: Range<usize>) -> String {
        let mut rendered = String::new();
        for unit in self.units[units].iter().filter(|unit| !unit.content.is_empty()) {
            let content = self.content(unit).replace(['\n', '\r'], " ");
            let speaker = unit.speaker.as_ref().map(|speaker| format!("{speaker}: ")).unwrap_or_default();
            rendered.push_str(&format!("[{}] {speaker}{content}\n", unit.index));
        }
        rendered
    }
}

impl Unit {
    fn blank(span: Range<usize>) -> Self {
        let content = span.end..span.end;
        Unit {
            index: 0,
            speaker: None,
            start: None,
            end: None,
            starts_turn: true,
            starts_paragraph: true,
            span,
            content,
        }
    }
}

/// Speaker labels at the beginnings of lines.
struct Labels {
    are_used: bool,
}

struct Label {
    name: String,
    /// Bytes of the label with its colon and the space behind it.
    length: usize,
}

impl Labels {
    /// Labels count when half of the lines have one and some speaker has two lines: a form of `Name: value` lines has no turns.
    fn find(text: &str) -> Self {
        let (mut lines, mut names) = (0, Vec::new());
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            lines += 1;
            names.extend(parse_label(line).map(|label| label.name));
        }
        let labelled = names.len();
        let distinct = distinct(names.iter().map(String::as_str)).len();
        Labels { are_used: labelled >= 2 && labelled * 2 >= lines && distinct < labelled }
    }

    fn at(&self, line: &str) -> Option<Label> {
        if self.are_used { parse_label(line) } else { None }
    }
}

/// One to four words of which each begins with a capital letter or a digit, and a colon followed by a space.
fn parse_label(line: &str) -> Option<Label> {
    let indent = line.len() - line.trim_start().len();
    let head: String = line[indent..].chars().take(48).collect();
    let colon = head.find(':')?;
    let name = &head[..colon];
    let is_word = |word: &str| {
        let word = word.trim_start_matches(['(', '[', '#']);
        word.chars().next().is_some_and(|c| c.is_alphanumeric() && !c.is_lowercase())
    };
    let words = name.split_whitespace().count();
    let behind = line[indent + colon + 1..].chars().next()?;
    if !(1..=4).contains(&words) || !behind.is_whitespace() || !name.split_whitespace().all(is_word) {
        return None;
    }
    if name.chars().all(|c| c.is_ascii_digit() || c.is_whitespace()) {
        return None;
    }
    Some(Label { name: name.trim().to_owned(), length: indent + colon + 1 + behind.len_utf8() })
}

/// Paragraphs: they end at blank lines, before labelled lines and before lines of a list. They cover the text without gaps.
fn blocks(text: &str, labels: &Labels) -> Vec<Range<usize>> {
    let mut blocks: Vec<Range<usize>> = Vec::new();
    let (mut at, mut was_blank) = (0, true);
    for line in text.split_inclusive('\n') {
        let is_blank = line.trim().is_empty();
        let starts = !is_blank && (was_blank || labels.at(line).is_some() || is_list_item(line));
        let range = at..at + line.len();
        at = range.end;
        match blocks.last_mut() {
            Some(block) if !starts => block.end = range.end,
            // White space at the very beginning belongs to the first paragraph.
            Some(block) if blocks_is_blank(text, block) => block.end = range.end,
            _ => blocks.push(range),
        }
        was_blank = is_blank;
    }
    blocks
}

fn blocks_is_blank(text: &str, block: &Range<usize>) -> bool {
    text[block.clone()].trim().is_empty()
}

fn is_list_item(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with(['-', '*', '•', '#']) || {
        let digits = line.chars().take_while(char::is_ascii_digit).count();
        (1..=3).contains(&digits) && line[digits..].starts_with(['.', ')'])
    }
}

fn trim(text: &str, span: &Range<usize>) -> Range<usize> {
    let part = &text[span.clone()];
    let start = span.start + (part.len() - part.trim_start().len());
    start..(span.start + part.trim_end().len()).max(start)
}

fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut seen = std::collections::HashSet::new();
    names.filter(|name| seen.insert(*name)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covers(source: &Source) {
        let mut at = 0;
        for unit in source.units() {
            assert_eq!(unit.span.start, at, "gap before unit {}", unit.index);
            assert!(unit.span.start <= unit.content.start && unit.content.end <= unit.span.end);
            at = unit.span.end;
        }
        assert_eq!(at, source.text().len());
    }

    #[test]
    fn units_cover_a_text_without_gaps() {
        for text in [
            "",
            " \n ",
            "One. Two.\n\nThree",
            "\n\n  Dr. Smith came at 3.30 p.m. He left.\r\n\r\n- a\n- b\n",
            "今天我们讨论预算。明天继续！好的？",
            "word",
        ] {
            covers(&Source::from_text(text));
        }
    }

    #[test]
    fn hard_wrapped_lines_are_one_paragraph() {
        let source = Source::from_text("The plan is\nto ship on Monday. We\nagreed.\n\nNext subject.");
        let contents: Vec<_> = source.units().iter().map(|unit| source.content(unit)).collect();
        assert_eq!(contents, ["The plan is\nto ship on Monday.", "We\nagreed.", "Next subject."]);
        let starts: Vec<_> = source.units().iter().map(|unit| unit.starts_paragraph).collect();
        assert_eq!(starts, [true, false, true]);
    }

    #[test]
    fn labelled_lines_are_turns_of_speakers() {
        let source = Source::from_text("Alice: Good morning. Shall we?\nBob: Yes.\nAlice: Fine.\n");
        covers(&source);
        assert_eq!(source.speakers(), ["Alice", "Bob"]);
        assert_eq!(source.content(&source.units()[1]), "Shall we?");
        assert_eq!(source.units()[1].speaker.as_deref(), Some("Alice"));
        let all = source.render(0..source.units().len(), 0..source.text().len());
        assert_eq!(all, "Alice: Good morning. Shall we?\nBob: Yes.\nAlice: Fine.");
    }

    #[test]
    fn fields_of_a_form_are_not_speakers() {
        let source = Source::from_text("Name: Smith\nCity: Berlin\nAge: 40\n");
        assert!(source.speakers().is_empty());
    }

    #[test]
    fn a_transcript_keeps_its_times_and_turns() {
        let segment = |speaker: &str, start: f64, text: &str| Segment {
            speaker: Some(speaker.into()),
            start,
            end: start + 1.0,
            text: text.into(),
            ..Segment::default()
        };
        let segments = [segment("A", 0.0, "Hello."), segment("A", 1.0, "So."), segment("B", 2.0, "Hi.")];
        let source = Source::from_segments(&segments, "en");
        covers(&source);
        assert_eq!(source.text(), "Hello. So.\nHi.");
        assert_eq!(source.render(0..3, 0..source.text().len()), "A: Hello. So.\nB: Hi.");
        assert_eq!(source.render_numbered(1..3), "[1] A: So.\n[2] B: Hi.\n");
        assert_eq!(source.units()[2].start, Some(2.0));
    }
}
