//! The fonts of one file: which glyphs it shows, which text each glyph stands for, and the subset that is embedded.

use std::collections::BTreeMap;

use pdf_writer::types::{CidFontType, FontFlags, SystemInfo, UnicodeCmap};
use pdf_writer::{Chunk, Filter, Finish, Name, Rect, Ref, Str};
use rustybuzz::ttf_parser::{self, GlyphId, Tag};
use subsetter::GlyphRemapper;

use super::compress;
use super::fonts::{Face, FaceId};
use crate::ExportError;

const IDENTITY: SystemInfo<'static> = SystemInfo { registry: Str(b"Adobe"), ordering: Str(b"Identity"), supplement: 0 };

/// The fonts that a file uses, by the order in which they were met.
#[derive(Default)]
pub(super) struct Embedded<'a> {
    fonts: Vec<EmbeddedFont<'a>>,
    by_face: BTreeMap<FaceId, usize>,
}

/// One font of a file.
pub(super) struct EmbeddedFont<'a> {
    face: &'a Face,
    parsed: ttf_parser::Face<'a>,
    glyphs: GlyphRemapper,
    /// The text of each glyph that stands for the same text wherever it is shown, by its new number.
    texts: BTreeMap<u16, String>,
}

impl<'a> Embedded<'a> {
    /// The number of a face's font in this file.
    pub(super) fn font(&mut self, id: FaceId, face: &'a Face) -> usize {
        *self.by_face.entry(id).or_insert_with(|| {
            let font =
                EmbeddedFont { face, parsed: face.parsed(), glyphs: GlyphRemapper::new(), texts: BTreeMap::new() };
            self.fonts.push(font);
            self.fonts.len() - 1
        })
    }

    pub(super) fn get_mut(&mut self, font: usize) -> &mut EmbeddedFont<'a> {
        &mut self.fonts[font]
    }

    /// Writes every font; the answer has the object of each.
    pub(super) fn write(&self, chunk: &mut Chunk, next: &mut Ref) -> Result<Vec<Ref>, ExportError> {
        self.fonts.iter().enumerate().map(|(n, font)| font.write(n, chunk, next)).collect()
    }
}

/// The name of a font in the resources of pages.
pub(super) fn resource_name(font: usize) -> String {
    format!("F{font}")
}

impl EmbeddedFont<'_> {
    /// The number of a glyph in the subset.
    pub(super) fn glyph(&mut self, id: u16) -> u16 {
        self.glyphs.remap(id)
    }

    /// Notes that `glyph` (its new number) stands for `text`; false when it already stands for something else.
    pub(super) fn stands_for(&mut self, glyph: u16, text: &str) -> bool {
        self.texts.entry(glyph).or_insert_with(|| text.to_owned()) == text
    }

    /// A glyph (its number in the font) that draws nothing and takes no room.
    pub(super) fn empty_glyph(&self) -> Option<u16> {
        let is_empty = |glyph: &GlyphId| {
            self.parsed.glyph_hor_advance(*glyph) == Some(0) && self.parsed.glyph_bounding_box(*glyph).is_none()
        };
        let candidates = ['\u{200B}', '\u{34F}', '\u{200C}', '\u{200D}'];
        candidates.into_iter().filter_map(|c| self.parsed.glyph_index(c)).find(is_empty).map(|glyph| glyph.0)
    }

    /// The width that readers take for a glyph (its number in the font), in thousandths of the size.
    pub(super) fn width(&self, id: u16) -> f32 {
        let advance = self.parsed.glyph_hor_advance(GlyphId(id)).unwrap_or(0);
        f32::from(advance) * 1000.0 / self.face.units_per_em
    }

    fn write(&self, number: usize, chunk: &mut Chunk, next: &mut Ref) -> Result<Ref, ExportError> {
        let unusable = |reason: String| ExportError::Font { font: self.face.name.clone(), reason };
        let subset = subsetter::subset(&self.face.data, self.face.index, &self.glyphs)
            .map_err(|error| unusable(error.to_string()))?;
        // Of a CFF font only the outlines go into the file.
        let program = if self.face.is_cff {
            ttf_parser::RawFace::parse(&subset, 0)
                .ok()
                .and_then(|face| face.table(Tag::from_bytes(b"CFF ")))
                .ok_or_else(|| unusable("its outlines can't be taken out".to_owned()))?
                .to_vec()
        } else {
            subset
        };
        let [font, cid_font, descriptor, to_unicode, file] = [(); 5].map(|()| next.bump());
        // Six letters before the name tell that this is a part of the font (ISO 32000, 9.6.4).
        let tag: String = (0..6).map(|n| char::from(b'A' + (number / 26_usize.pow(n) % 26) as u8)).collect();
        let name = format!("{tag}+{}", self.face.name);

        chunk
            .type0_font(font)
            .base_font(Name(name.as_bytes()))
            .encoding_predefined(Name(b"Identity-H"))
            .descendant_font(cid_font)
            .to_unicode(to_unicode);

        let mut cid = chunk.cid_font(cid_font);
        cid.subtype(if self.face.is_cff { CidFontType::Type0 } else { CidFontType::Type2 });
        cid.base_font(Name(name.as_bytes())).system_info(IDENTITY).font_descriptor(descriptor).default_width(0.0);
        if !self.face.is_cff {
            cid.cid_to_gid_map_predefined(Name(b"Identity"));
        }
        cid.widths().consecutive(0, self.glyphs.remapped_gids().map(|id| self.width(id)));
        cid.finish();

        let [left, bottom, right, top] = self.face.bounds.map(|em| em * 1000.0);
        let mut about = chunk.font_descriptor(descriptor);
        about
            .name(Name(name.as_bytes()))
            .flags(FontFlags::SYMBOLIC)
            .bbox(Rect::new(left, bottom, right, top))
            .italic_angle(0.0)
            .ascent(self.face.ascent * 1000.0)
            .descent(-self.face.descent * 1000.0)
            .cap_height(self.face.cap_height * 1000.0)
            // No font tells the thickness of its stems; readers use it only when they draw a substitute.
            .stem_v(if self.face.is_bold { 140.0 } else { 80.0 });
        if self.face.is_cff {
            about.font_file3(file);
        } else {
            about.font_file2(file);
        }
        about.finish();

        let mut texts = UnicodeCmap::new(Name(b"Hark"), IDENTITY);
        for (glyph, text) in &self.texts {
            texts.pair_with_multiple(*glyph, text.chars());
        }
        chunk.cmap(to_unicode, &compress(&texts.finish())).filter(Filter::FlateDecode);

        let compressed = compress(&program);
        let mut stream = chunk.stream(file, &compressed);
        stream.filter(Filter::FlateDecode);
        if self.face.is_cff {
            stream.pair(Name(b"Subtype"), Name(b"CIDFontType0C"));
        } else {
            stream.pair(Name(b"Length1"), i32::try_from(program.len()).unwrap_or(i32::MAX));
        }
        stream.finish();
        Ok(font)
    }
}
