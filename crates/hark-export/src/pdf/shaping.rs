//! From text to glyphs: stretches of one font, script, direction and style, shaped by HarfBuzz's rules.

use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;
use std::str::FromStr;

use icu_segmenter::GraphemeClusterSegmenter;
use rustybuzz::ttf_parser::Tag;
use rustybuzz::{BufferClusterLevel, BufferFlags, Direction, Language, ShapePlan, UnicodeBuffer};
use unicode_bidi::Level;
use unicode_script::{Script, UnicodeScript};

use super::boxes;
use super::coverage::{Region, is_invisible};
use super::fonts::{BOXES, Face, FaceId, Library};
use super::style::{Style, StyledText};
use crate::ExportError;
use crate::direction::levels;

/// Words kept shaped: speech repeats its words, and shaping is most of the work. The bound is for its memory.
const KEPT_WORDS: usize = 20_000;
/// Words longer than this are seldom said twice.
const KEPT_LENGTH: usize = 64;

/// A stretch of a paragraph that is shaped in one go.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Item {
    pub(super) range: Range<usize>,
    pub(super) face: FaceId,
    pub(super) script: Script,
    pub(super) level: Level,
    pub(super) style: Style,
}

/// Glyphs of a stretch, from left to right. Lengths are in ems.
#[derive(Debug, Clone, Default)]
pub(super) struct Shaped {
    pub(super) text: String,
    pub(super) glyphs: Vec<Glyph>,
    /// Runs of glyphs and the text each run stands for, from left to right.
    pub(super) clusters: Vec<Cluster>,
    pub(super) width: f32,
}

/// A glyph and where it stands: `dx` and `dy` from the pen, which then moves by `advance`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Glyph {
    pub(super) id: u16,
    pub(super) advance: f32,
    pub(super) dx: f32,
    pub(super) dy: f32,
}

/// The smallest part of a text whose glyphs can be told.
#[derive(Debug, Clone)]
pub(super) struct Cluster {
    pub(super) glyphs: Range<usize>,
    pub(super) text: Range<usize>,
}

/// Shapes the text of one document.
pub(super) struct Shaper<'a> {
    library: &'a Library,
    region: Region,
    language: Option<Language>,
    faces: HashMap<FaceId, OpenFace<'a>>,
    words: HashMap<(FaceId, Script, bool), HashMap<String, Rc<Shaped>>>,
    kept: usize,
}

struct OpenFace<'a> {
    face: &'a Face,
    shaper: rustybuzz::Face<'a>,
    plans: HashMap<(Script, bool), ShapePlan>,
}

impl<'a> Shaper<'a> {
    pub(super) fn new(library: &'a Library, region: Region, language: &str) -> Self {
        let language = Language::from_str(language).ok();
        Self { library, region, language, faces: HashMap::new(), words: HashMap::new(), kept: 0 }
    }

    /// The face as it was read.
    pub(super) fn face(&mut self, id: FaceId) -> Result<&'a Face, ExportError> {
        Ok(self.open(id)?.face)
    }

    fn open(&mut self, id: FaceId) -> Result<&mut OpenFace<'a>, ExportError> {
        if !self.faces.contains_key(&id) {
            let face = self.library.face(id)?;
            let shaper = rustybuzz::Face::from_face(face.parsed());
            self.faces.insert(id, OpenFace { face, shaper, plans: HashMap::new() });
        }
        Ok(self.faces.get_mut(&id).expect("it was put there"))
    }

    fn has(&mut self, id: FaceId, c: char) -> Result<bool, ExportError> {
        Ok(is_invisible(c) || self.open(id)?.shaper.glyph_index(c).is_some())
    }

    /// Cuts a paragraph into items.
    pub(super) fn items(&mut self, paragraph: &StyledText, is_rtl: bool) -> Result<Vec<Item>, ExportError> {
        let text = paragraph.text.as_str();
        let levels = levels(text, is_rtl);
        let scripts = scripts(text);
        let mut items: Vec<Item> = Vec::new();
        let mut begin = 0;
        for end in GraphemeClusterSegmenter::new().segment_str(text).skip(1) {
            let cluster = &text[begin..end];
            let style = paragraph.style_at(begin);
            let script = scripts[begin];
            let last = items.last().filter(|last| last.style == style).map(|last| (last.face, last.script));
            for (range, face) in self.faces_of(cluster, script, style.is_bold(), last)? {
                let range = begin + range.start..begin + range.end;
                let level = levels[begin];
                match items.last_mut() {
                    Some(last)
                        if last.face == face && last.script == script && last.level == level && last.style == style =>
                    {
                        last.range.end = range.end;
                    }
                    _ => items.push(Item { range, face, script, level, style }),
                }
            }
            begin = end;
        }
        Ok(items)
    }

    /// The face of a character with its marks; several where no face has them all.
    fn faces_of(
        &mut self,
        cluster: &str,
        script: Script,
        bold: bool,
        last: Option<(FaceId, Script)>,
    ) -> Result<Vec<(Range<usize>, FaceId)>, ExportError> {
        let mut candidates = Vec::new();
        // Signs stay in the font of the word before them.
        if let Some((face, last_script)) = last
            && last_script == script
            && face != BOXES
        {
            candidates.push(face);
        }
        for c in cluster.chars().filter(|c| !is_invisible(*c)) {
            candidates.push(self.library.choose(c, script, self.region, bold));
        }
        if candidates.is_empty() {
            candidates.push(self.library.choose(' ', script, self.region, bold));
        }
        for &face in candidates.iter().filter(|face| **face != BOXES) {
            let mut has_all = true;
            for c in cluster.chars() {
                has_all &= self.has(face, c)?;
            }
            if has_all {
                return Ok(vec![(0..cluster.len(), face)]);
            }
        }
        let Some(&shown) = candidates.iter().find(|face| **face != BOXES) else {
            return Ok(vec![(0..cluster.len(), BOXES)]);
        };
        let mut parts = Vec::new();
        for (at, c) in cluster.char_indices() {
            let face = if is_invisible(c) { shown } else { self.library.choose(c, script, self.region, bold) };
            parts.push((at..at + c.len_utf8(), face));
        }
        Ok(parts)
    }

    /// Shapes a part of an item.
    pub(super) fn shape(&mut self, text: &str, item: &Item) -> Result<Rc<Shaped>, ExportError> {
        let key = (item.face, item.script, item.level.is_rtl());
        if let Some(shaped) = self.words.get(&key).and_then(|words| words.get(text)) {
            return Ok(shaped.clone());
        }
        let shaped = Rc::new(self.shape_anew(text, item)?);
        if text.len() <= KEPT_LENGTH {
            if self.kept >= KEPT_WORDS {
                self.words.clear();
                self.kept = 0;
            }
            self.kept += 1;
            self.words.entry(key).or_default().insert(text.to_owned(), shaped.clone());
        }
        Ok(shaped)
    }

    fn shape_anew(&mut self, text: &str, item: &Item) -> Result<Shaped, ExportError> {
        if item.face == BOXES {
            return Ok(boxed(text, item.level.is_rtl()));
        }
        let language = self.language.clone();
        let open = self.open(item.face)?;
        let is_rtl = item.level.is_rtl();
        let direction = if is_rtl { Direction::RightToLeft } else { Direction::LeftToRight };
        let script = Tag::from_bytes_lossy(item.script.short_name().as_bytes());
        let script = rustybuzz::Script::from_iso15924_tag(script).unwrap_or(rustybuzz::script::COMMON);
        let plan = open
            .plans
            .entry((item.script, is_rtl))
            .or_insert_with(|| ShapePlan::new(&open.shaper, direction, Some(script), language.as_ref(), &[]));
        let mut buffer = UnicodeBuffer::new();
        buffer.push_str(text);
        buffer.set_direction(direction);
        buffer.set_script(script);
        if let Some(language) = language {
            buffer.set_language(language);
        }
        buffer.set_flags(BufferFlags::REMOVE_DEFAULT_IGNORABLES);
        // Readers take glyphs from left to right and turn the order of right-to-left text round afterwards: there each
        // mark must tell its own text. Elsewhere a letter tells the text of its marks too, since readers put a raised
        // mark on a line of its own.
        let level = if is_rtl { BufferClusterLevel::MonotoneCharacters } else { BufferClusterLevel::MonotoneGraphemes };
        buffer.set_cluster_level(level);
        let output = rustybuzz::shape_with_plan(&open.shaper, plan, buffer);

        let em = open.face.units_per_em;
        let mut shaped = Shaped { text: text.to_owned(), ..Default::default() };
        let mut starts: Vec<usize> = output.glyph_infos().iter().map(|info| info.cluster as usize).collect();
        for (info, position) in output.glyph_infos().iter().zip(output.glyph_positions()) {
            let n = shaped.glyphs.len();
            shaped.glyphs.push(Glyph {
                id: info.glyph_id as u16,
                advance: position.x_advance as f32 / em,
                dx: position.x_offset as f32 / em,
                dy: position.y_offset as f32 / em,
            });
            shaped.width += position.x_advance as f32 / em;
            let start = info.cluster as usize;
            match shaped.clusters.last_mut() {
                Some(last) if last.text.start == start => last.glyphs.end = n + 1,
                _ => shaped.clusters.push(Cluster { glyphs: n..n + 1, text: start..text.len() }),
            }
        }
        starts.sort_unstable();
        starts.dedup();
        for cluster in &mut shaped.clusters {
            let next = starts.partition_point(|&start| start <= cluster.text.start);
            cluster.text.end = starts.get(next).copied().unwrap_or(text.len());
        }
        Ok(shaped)
    }
}

/// A box for each character with its marks, and a gap for each space.
fn boxed(text: &str, is_rtl: bool) -> Shaped {
    let mut shaped = Shaped { text: text.to_owned(), ..Default::default() };
    let mut begin = 0;
    for end in GraphemeClusterSegmenter::new().segment_str(text).skip(1) {
        let character = &text[begin..end];
        if !character.chars().all(is_invisible) {
            let is_space = character.chars().all(char::is_whitespace);
            let (id, advance) =
                if is_space { (boxes::SPACE, boxes::SPACE_ADVANCE) } else { (boxes::BOX, boxes::BOX_ADVANCE) };
            let n = shaped.glyphs.len();
            shaped.glyphs.push(Glyph { id, advance, dx: 0.0, dy: 0.0 });
            shaped.clusters.push(Cluster { glyphs: n..n + 1, text: begin..end });
            shaped.width += advance;
        }
        begin = end;
    }
    if is_rtl {
        // Glyphs stand from left to right, and so do their clusters; all boxes are alike.
        let texts: Vec<Range<usize>> = shaped.clusters.iter().rev().map(|cluster| cluster.text.clone()).collect();
        shaped.glyphs.reverse();
        for (cluster, text) in shaped.clusters.iter_mut().zip(texts) {
            cluster.text = text;
        }
    }
    shaped
}

/// The script of every byte: signs and marks take that of the letter before them, at the start that of the first one.
fn scripts(text: &str) -> Vec<Script> {
    let is_real = |script: Script| !matches!(script, Script::Common | Script::Inherited | Script::Unknown);
    let mut current = text.chars().map(|c| c.script()).find(|script| is_real(*script)).unwrap_or(Script::Common);
    let mut scripts = Vec::with_capacity(text.len());
    for c in text.chars() {
        if is_real(c.script()) {
            current = c.script();
        }
        scripts.extend(std::iter::repeat_n(current, c.len_utf8()));
    }
    scripts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_belong_to_the_script_of_their_neighbours() {
        let text = "“你好” ok, да";
        let scripts: Vec<Script> = text.char_indices().map(|(at, _)| super::scripts(text)[at]).collect();
        assert_eq!(scripts[0], Script::Han);
        assert_eq!(scripts[3], Script::Han);
        assert_eq!(scripts[5], Script::Latin);
        assert_eq!(scripts[7], Script::Latin);
        assert_eq!(scripts[10], Script::Cyrillic);
    }

    /// The glyphs of `text` shaped as one paragraph, from left to right.
    fn glyphs(text: &str, is_rtl: bool) -> Vec<u16> {
        let fonts = crate::Fonts::system();
        let mut shaper = Shaper::new(fonts.library(), Region::Japanese, "");
        let items =
            shaper.items(&StyledText::new(text, Style::Body), is_rtl).expect("`./hark test` installs the fonts");
        assert_eq!(items.len(), 1, "{items:?}");
        shaper.shape(text, &items[0]).unwrap().glyphs.iter().map(|glyph| glyph.id).collect()
    }

    #[test]
    #[ignore = "needs fonts"]
    fn arabic_letters_take_the_forms_that_join() {
        let joined = glyphs("سبب", true);
        let alone: Vec<u16> = ["ب", "ب", "س"].iter().flat_map(|letter| glyphs(letter, true)).collect();
        assert_eq!(joined.len(), 3);
        assert!(joined.iter().zip(&alone).all(|(joined, alone)| joined != alone), "{joined:?} {alone:?}");
        assert_ne!(joined[0], joined[1], "the last of two equal letters has a form of its own");
        assert_eq!(glyphs("لا", true).len(), 1, "lam and alef are one sign");
    }

    #[test]
    #[ignore = "needs fonts"]
    fn hindi_vowels_move_and_consonants_join() {
        let (ka, ki) = (glyphs("क", false), glyphs("कि", false));
        assert_eq!(ki.len(), 2);
        assert_eq!(ki[1], ka[0], "the vowel is written before its consonant");
        assert_eq!(glyphs("क्ष", false).len(), 1);
    }

    #[test]
    fn what_no_font_has_is_one_box_a_character_in_the_order_of_sight() {
        let boxed = boxed("अ\u{93F}ब\u{200B} क", true);
        let texts: Vec<&str> = boxed.clusters.iter().map(|cluster| &boxed.text[cluster.text.clone()]).collect();
        assert_eq!(texts, ["क", " ", "ब", "अ\u{93F}"]);
        let glyphs: Vec<u16> = boxed.glyphs.iter().map(|glyph| glyph.id).collect();
        assert_eq!(glyphs, [boxes::BOX, boxes::SPACE, boxes::BOX, boxes::BOX]);
        assert!((boxed.width - 3.0 * boxes::BOX_ADVANCE - boxes::SPACE_ADVANCE).abs() < 1e-5);
    }

    #[test]
    #[ignore = "needs fonts"]
    fn text_after_a_box_is_shown_in_its_own_font_again() {
        let fonts = crate::Fonts::system();
        let mut shaper = Shaper::new(fonts.library(), Region::Japanese, "en");
        // Unicode gave this picture its meaning after the last monochrome font of Debian.
        let items = shaper.items(&StyledText::new("see \u{1FAE8} and hear", Style::Body), false).unwrap();
        let faces: Vec<FaceId> = items.iter().map(|item| item.face).collect();
        assert_eq!((faces.len(), faces[1], faces[0] == faces[2]), (3, BOXES, true), "{items:?}");
    }

    #[test]
    #[ignore = "needs fonts"]
    fn a_character_with_marks_that_no_font_has_together_is_still_shown() {
        let fonts = crate::Fonts::system();
        let mut shaper = Shaper::new(fonts.library(), Region::Japanese, "");
        let text = StyledText::new("漢\u{64B}x", Style::Body);
        let items = shaper.items(&text, false).unwrap();
        for item in &items {
            let shaped = shaper.shape(&text.text[item.range.clone()], item).unwrap();
            assert!(shaped.glyphs.iter().all(|glyph| glyph.id != 0), "{item:?}");
        }
        assert!(items.len() >= 2);
    }
}
