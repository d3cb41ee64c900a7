//! Pages: lines put below each other, with what a reader's outline and a screen reader need to find their way.

use pdf_writer::types::StructRole;
use pdf_writer::{Content, Name};

use super::breaking::{Breaker, Line};
use super::embedding::Embedded;
use super::painting::paint;
use super::style::{Style, StyledText};
use super::{COMPACT, compress};
use crate::ExportError;

/// A4, in points.
pub(super) const PAGE_WIDTH: f32 = 595.28;
pub(super) const PAGE_HEIGHT: f32 = 841.89;
/// 2.5 cm on every side.
pub(super) const MARGIN: f32 = 70.87;
pub(super) const TEXT_WIDTH: f32 = PAGE_WIDTH - 2.0 * MARGIN;

/// A finished page.
pub(super) struct Page {
    /// Its operators, compressed.
    pub(super) content: Vec<u8>,
    /// The element that each marked stretch belongs to.
    pub(super) marks: Vec<usize>,
}

/// A paragraph or a heading, as screen readers see it.
pub(super) struct Element {
    pub(super) role: StructRole,
    /// Pages, and stretches of them.
    pub(super) marks: Vec<(usize, usize)>,
}

/// A line of the outline.
pub(super) struct Bookmark {
    pub(super) title: String,
    pub(super) page: usize,
    pub(super) top: f32,
}

/// The pages of one file.
pub(super) struct Pages<'a> {
    pub(super) breaker: Breaker<'a>,
    pub(super) fonts: Embedded<'a>,
    pub(super) finished: Vec<Page>,
    pub(super) elements: Vec<Element>,
    pub(super) bookmarks: Vec<Bookmark>,
    content: Content,
    marks: Vec<usize>,
    /// Points from the top of the page to the end of what stands on it.
    used: f32,
}

impl<'a> Pages<'a> {
    pub(super) fn new(breaker: Breaker<'a>) -> Self {
        Self {
            breaker,
            fonts: Embedded::default(),
            finished: Vec::new(),
            elements: Vec::new(),
            bookmarks: Vec::new(),
            content: Content::with_settings(COMPACT),
            marks: Vec::new(),
            used: MARGIN,
        }
    }

    /// Puts a paragraph on the page `space` points below the last one.
    pub(super) fn paragraph(
        &mut self,
        text: &StyledText,
        is_rtl: bool,
        role: StructRole,
        space: f32,
    ) -> Result<(), ExportError> {
        let lines = self.breaker.lines(text, is_rtl)?;
        self.space(space);
        self.place(&lines, is_rtl, role)
    }

    /// Puts a heading and the paragraph it belongs to on the page: the heading never stands alone at its foot.
    pub(super) fn headed_paragraph(
        &mut self,
        heading: (&StyledText, StructRole),
        text: &StyledText,
        is_rtl: bool,
        space: f32,
        bookmark: Option<String>,
    ) -> Result<(), ExportError> {
        let (heading, role) = heading;
        let heading = self.breaker.lines(heading, is_rtl)?;
        let lines = self.breaker.lines(text, is_rtl)?;
        self.space(space);
        let kept = heading.iter().chain(lines.iter().take(2)).map(|line| line.height).sum::<f32>();
        if !self.has_room(kept) {
            self.finish_page()?;
        }
        if let Some(title) = bookmark {
            self.bookmarks.push(Bookmark { title, page: self.finished.len(), top: PAGE_HEIGHT - self.used });
        }
        self.place(&heading, is_rtl, role)?;
        self.place(&lines, is_rtl, StructRole::P)
    }

    /// The last page is finished; nothing more may be put on it.
    pub(super) fn finish(&mut self) -> Result<(), ExportError> {
        self.finish_page()
    }

    fn space(&mut self, space: f32) {
        if self.used > MARGIN {
            self.used += space;
        }
    }

    fn has_room(&self, height: f32) -> bool {
        // What is higher than a page would never find room: it goes on an empty one.
        self.used <= MARGIN || self.used + height <= PAGE_HEIGHT - MARGIN
    }

    fn place(&mut self, lines: &[Line], is_rtl: bool, role: StructRole) -> Result<(), ExportError> {
        let element = self.elements.len();
        self.elements.push(Element { role, marks: Vec::new() });
        let mut is_open = false;
        for (n, line) in lines.iter().enumerate() {
            // Neither the first nor the last line of a paragraph stands alone on a page.
            let with_next = n + 2 == lines.len() || n == 0;
            let next = lines.get(n + 1).filter(|_| with_next).map_or(0.0, |next| next.height);
            if !self.has_room(line.height + next) {
                if std::mem::take(&mut is_open) {
                    self.content.end_marked_content();
                }
                self.finish_page()?;
            }
            if !std::mem::replace(&mut is_open, true) {
                self.open_mark(element, role);
            }
            let x = if is_rtl { PAGE_WIDTH - MARGIN - line.width } else { MARGIN };
            let y = PAGE_HEIGHT - self.used - line.baseline;
            paint(&mut self.content, line, x, y, &mut self.breaker.shaper, &mut self.fonts)?;
            self.used += line.height;
        }
        if is_open {
            self.content.end_marked_content();
        }
        Ok(())
    }

    fn open_mark(&mut self, element: usize, role: StructRole) {
        let mark = self.marks.len();
        self.marks.push(element);
        self.elements[element].marks.push((self.finished.len(), mark));
        self.content
            .begin_marked_content_with_properties(role.to_name())
            .properties()
            .identify(i32::try_from(mark).unwrap_or(i32::MAX));
    }

    fn finish_page(&mut self) -> Result<(), ExportError> {
        let number = StyledText::new(&(self.finished.len() + 1).to_string(), Style::PageNumber);
        self.content.begin_marked_content(Name(b"Artifact"));
        for line in self.breaker.lines(&number, false)? {
            let x = (PAGE_WIDTH - line.width) / 2.0;
            paint(&mut self.content, &line, x, MARGIN / 2.0, &mut self.breaker.shaper, &mut self.fonts)?;
        }
        self.content.end_marked_content();
        let content = std::mem::replace(&mut self.content, Content::with_settings(COMPACT)).finish();
        let marks = std::mem::take(&mut self.marks);
        self.finished.push(Page { content: compress(&content), marks });
        self.used = MARGIN;
        Ok(())
    }
}
