//! Glyphs as the operators of a page.

use pdf_writer::{Content, Name, Str, TextStr};

use super::breaking::{Line, Piece};
use super::embedding::{Embedded, EmbeddedFont, resource_name};
use super::shaping::{Glyph, Shaper};
use crate::ExportError;

/// Positions nearer than this many thousandths of the size are the same to the eye and to the reader.
const CLOSE: f32 = 0.5;

/// Draws a line with its left end at `x` and its baseline at `y`.
pub(super) fn paint<'a>(
    content: &mut Content,
    line: &Line,
    x: f32,
    y: f32,
    shaper: &mut Shaper<'a>,
    fonts: &mut Embedded<'a>,
) -> Result<(), ExportError> {
    content.begin_text();
    content.set_text_matrix([1.0, 0.0, 0.0, 1.0, x, y]);
    let mut pen = Pen { content, at: x, now: x, rise: 0.0, font: None, grey: None, row: Vec::new() };
    for piece in &line.pieces {
        let font = fonts.font(piece.face, shaper.face(piece.face)?);
        pen.set_look(font, piece.style.size(), piece.style.grey());
        paint_piece(&mut pen, piece, font, fonts);
    }
    pen.flush();
    pen.set_rise(0.0);
    content.end_text();
    Ok(())
}

fn paint_piece(pen: &mut Pen, piece: &Piece, font: usize, fonts: &mut Embedded) {
    let font = fonts.get_mut(font);
    let shaped = &piece.shaped;
    for cluster in &shaped.clusters {
        let text = &shaped.text[cluster.text.clone()];
        let glyphs = &shaped.glyphs[cluster.glyphs.clone()];
        // Readers turn right-to-left text round letter by letter, and with it the letters of a joined lam and alef. So
        // the glyph tells the last letter, and empty glyphs after it the others, in the order of sight.
        let mut letters = text.chars().rev();
        match font.empty_glyph().filter(|_| piece.level.is_rtl() && text.chars().count() > 1) {
            Some(empty) => {
                let mut utf8 = [0; 4];
                paint_cluster(pen, font, glyphs, letters.next().map_or("", |c| c.encode_utf8(&mut utf8)));
                for letter in letters {
                    let nothing = Glyph { id: empty, advance: 0.0, dx: 0.0, dy: 0.0 };
                    paint_cluster(pen, font, &[nothing], letter.encode_utf8(&mut utf8));
                }
            }
            None => paint_cluster(pen, font, glyphs, text),
        }
    }
}

/// Draws glyphs that together stand for `text`.
fn paint_cluster(pen: &mut Pen, font: &mut EmbeddedFont, glyphs: &[Glyph], text: &str) {
    let first = font.glyph(glyphs[0].id);
    // Only a glyph that always stands for one and the same text can tell it by itself.
    let tells_itself = font.stands_for(first, text) && glyphs.len() == 1;
    if !tells_itself {
        pen.flush();
        pen.content.begin_marked_content_with_properties(Name(b"Span")).properties().actual_text(TextStr(text));
    }
    for glyph in glyphs {
        let number = font.glyph(glyph.id);
        pen.show(*glyph, number, font.width(glyph.id));
    }
    if !tells_itself {
        pen.flush();
        pen.content.end_marked_content();
    }
}

enum Part {
    Glyphs(Vec<u8>),
    Move(f32),
}

/// Where the next glyph goes, and what the reader knows of it.
struct Pen<'c> {
    content: &'c mut Content,
    /// Where the next glyph's own place is.
    at: f32,
    /// Where the reader is after what was shown.
    now: f32,
    rise: f32,
    font: Option<(usize, f32)>,
    grey: Option<f32>,
    row: Vec<Part>,
}

impl Pen<'_> {
    fn set_look(&mut self, font: usize, size: f32, grey: f32) {
        if self.font != Some((font, size)) {
            self.flush();
            self.font = Some((font, size));
            self.content.set_font(Name(resource_name(font).as_bytes()), size);
        }
        if self.grey != Some(grey) {
            self.flush();
            self.grey = Some(grey);
            self.content.set_fill_gray(grey);
        }
    }

    fn set_rise(&mut self, rise: f32) {
        if (self.rise - rise).abs() > 0.001 {
            self.flush();
            self.rise = rise;
            self.content.set_rise(rise);
        }
    }

    fn show(&mut self, glyph: Glyph, number: u16, width: f32) {
        let size = self.font.map_or(1.0, |(_, size)| size);
        self.set_rise(glyph.dy * size);
        let target = self.at + glyph.dx * size;
        let off = (target - self.now) * 1000.0 / size;
        if off.abs() > CLOSE {
            // A whole number is short, and what it leaves is made good with the next glyph.
            let rounded = off.round();
            self.row.push(Part::Move(-rounded));
            self.now += rounded * size / 1000.0;
        }
        match self.row.last_mut() {
            Some(Part::Glyphs(glyphs)) => glyphs.extend(number.to_be_bytes()),
            _ => self.row.push(Part::Glyphs(number.to_be_bytes().to_vec())),
        }
        self.now += width * size / 1000.0;
        self.at += glyph.advance * size;
    }

    fn flush(&mut self) {
        if self.row.is_empty() {
            return;
        }
        let mut show = self.content.show_positioned();
        let mut items = show.items();
        for part in self.row.drain(..) {
            match part {
                Part::Glyphs(glyphs) => items.show(Str(&glyphs)),
                Part::Move(by) => items.adjust(by),
            };
        }
    }
}
