//! A font of two glyphs, made here: a box for each character that no font of the machine has, and a space.
//!
//! A font rather than a drawn rectangle, because then the box flows, breaks, and copies as the character it stands for like
//! any other glyph.

/// The glyph of a character that no font shows.
pub(super) const BOX: u16 = 0;
/// The glyph of white space, which needs no box.
pub(super) const SPACE: u16 = 1;
/// What each of them takes, in ems.
pub(super) const BOX_ADVANCE: f32 = 0.6;
pub(super) const SPACE_ADVANCE: f32 = 0.3;
/// The name of the font in a file.
pub(super) const NAME: &str = "HarkBoxes";

const UNITS_PER_EM: u16 = 1000;
const ASCENT: i16 = 900;
const DESCENT: i16 = -200;
/// The box: left, bottom, right, top, and how thick its line is.
const BOUNDS: [i16; 4] = [60, 0, 540, 700];
const LINE: i16 = 50;

/// The font as a TrueType file (OpenType 1.9, "Required tables" as far as PDF wants them).
pub(super) fn font() -> Vec<u8> {
    let glyph = outline();
    let end = (glyph.len() / 2) as u16;
    let tables: [(&[u8; 4], Vec<u8>); 6] = [
        (b"glyf", glyph),
        (b"head", head()),
        (b"hhea", hhea()),
        (b"hmtx", words(&[600, BOUNDS[0] as u16, 300, 0])),
        // Halves of the offsets: the box, and a space without an outline.
        (b"loca", words(&[0, end, end])),
        // Version 1.0, two glyphs, of at most 8 points in 2 contours, one zone, and no programs.
        (b"maxp", words(&[1, 0, 2, 8, 2, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0])),
    ];
    let mut file = words(&[1, 0, tables.len() as u16, 64, 2, 32]);
    let mut offset = file.len() + 16 * tables.len();
    for (tag, table) in &tables {
        file.extend(*tag);
        file.extend(checksum(table).to_be_bytes());
        file.extend((offset as u32).to_be_bytes());
        file.extend((table.len() as u32).to_be_bytes());
        offset += table.len().next_multiple_of(4);
    }
    for (_, table) in &tables {
        file.extend(table);
        file.resize(file.len().next_multiple_of(4), 0);
    }
    file
}

fn words(values: &[u16]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_be_bytes()).collect()
}

fn checksum(table: &[u8]) -> u32 {
    let word = |bytes: &[u8]| bytes.iter().enumerate().fold(0, |sum, (n, byte)| sum | u32::from(*byte) << (24 - 8 * n));
    table.chunks(4).map(word).fold(0, u32::wrapping_add)
}

fn head() -> Vec<u8> {
    // Version, revision, adjustment, magic number, flags, units.
    let mut table = words(&[1, 0, 1, 0, 0, 0, 0x5F0F, 0x3CF5, 0, UNITS_PER_EM]);
    // Created and modified: never, so that the same transcript gives the same file.
    table.extend([0; 16]);
    table.extend(words(&BOUNDS.map(|bound| bound as u16)));
    // Style, smallest size, direction, short offsets, format of glyphs.
    table.extend(words(&[0, 8, 2, 0, 0]));
    table
}

fn hhea() -> Vec<u8> {
    let [left, _, right, _] = BOUNDS.map(|bound| bound as u16);
    let mut table = words(&[1, 0, ASCENT as u16, DESCENT as u16, 0, 600, left, left, right, 1, 0, 0]);
    // Reserved, format, and how many advances there are.
    table.extend(words(&[0, 0, 0, 0, 0, 2]));
    table
}

/// Two rectangles, the inner one the other way round, so that it is a hole.
fn outline() -> Vec<u8> {
    let [left, bottom, right, top] = BOUNDS;
    let points = [
        (left, bottom),
        (left, top),
        (right, top),
        (right, bottom),
        (left + LINE, bottom + LINE),
        (right - LINE, bottom + LINE),
        (right - LINE, top - LINE),
        (left + LINE, top - LINE),
    ];
    // Two contours, bounds, the last point of each contour, no instructions.
    let mut glyph = words(&[2, left as u16, bottom as u16, right as u16, top as u16, 3, 7, 0]);
    // Each point is on the curve, with two bytes for each coordinate.
    glyph.extend([1; 8]);
    for axis in [|point: &(i16, i16)| point.0, |point: &(i16, i16)| point.1] {
        let mut last = 0;
        for point in &points {
            glyph.extend((axis(point) - last).to_be_bytes());
            last = axis(point);
        }
    }
    glyph
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustybuzz::ttf_parser::{Face, GlyphId};

    #[test]
    fn the_font_can_be_parsed_and_its_box_has_an_outline() {
        let font = font();
        let face = Face::parse(&font, 0).unwrap();
        assert_eq!((face.units_per_em(), face.number_of_glyphs()), (UNITS_PER_EM, 2));
        let bounds = face.glyph_bounding_box(GlyphId(BOX)).unwrap();
        assert_eq!([bounds.x_min, bounds.y_min, bounds.x_max, bounds.y_max], BOUNDS);
        assert_eq!(face.glyph_bounding_box(GlyphId(SPACE)), None);
        let advance = |glyph| f32::from(face.glyph_hor_advance(GlyphId(glyph)).unwrap()) / f32::from(UNITS_PER_EM);
        assert_eq!((advance(BOX), advance(SPACE)), (BOX_ADVANCE, SPACE_ADVANCE));
    }
}
