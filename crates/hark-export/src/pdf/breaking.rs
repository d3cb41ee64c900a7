//! Lines: a paragraph broken where Unicode (UAX 14), the rules of Chinese and Japanese print and, for Thai and its
//! neighbours, dictionaries allow it.

use std::ops::Range;
use std::rc::Rc;

use icu_segmenter::options::LineBreakOptions;
use icu_segmenter::{GraphemeClusterSegmenter, LineSegmenter, LineSegmenterBorrowed};
use unicode_bidi::Level;

use super::fonts::FaceId;
use super::shaping::{Item, Shaped, Shaper};
use super::style::{LEADING, MOST_LEADING, Style, StyledText};
use crate::ExportError;

/// Bytes that are shaped in one go: 60 letters of a script with three bytes each.
const LONGEST_SHAPED: usize = 180;

/// Characters that are never torn apart when they count as one: the largest pictures of a family have eleven, but they
/// are no wider than one.
const LARGEST_PILE: usize = 8;

/// A shaped stretch on a line.
#[derive(Debug, Clone)]
pub(super) struct Piece {
    pub(super) face: FaceId,
    pub(super) style: Style,
    pub(super) level: Level,
    pub(super) shaped: Rc<Shaped>,
}

impl Piece {
    /// Points.
    pub(super) fn width(&self) -> f32 {
        self.shaped.width * self.style.size()
    }
}

/// A line of a paragraph.
#[derive(Debug, Clone, Default)]
pub(super) struct Line {
    /// From left to right.
    pub(super) pieces: Vec<Piece>,
    /// Points.
    pub(super) width: f32,
    /// Points from the top of the line to its baseline.
    pub(super) baseline: f32,
    /// Points from line to line.
    pub(super) height: f32,
}

/// What stays together: a word, or a character of an unspaced script, and the space after it.
struct Unit {
    range: Range<usize>,
    pieces: Vec<Piece>,
    width: f32,
    space: Option<Piece>,
}

/// Breaks paragraphs into lines of one width.
pub(super) struct Breaker<'a> {
    pub(super) shaper: Shaper<'a>,
    segmenter: LineSegmenterBorrowed<'static>,
    width: f32,
}

impl<'a> Breaker<'a> {
    pub(super) fn new(shaper: Shaper<'a>, width: f32) -> Self {
        // Strict: small kana and iteration marks never begin a line.
        Self { shaper, segmenter: LineSegmenter::new_dictionary(LineBreakOptions::default()), width }
    }

    /// The lines of a paragraph.
    pub(super) fn lines(&mut self, paragraph: &StyledText, is_rtl: bool) -> Result<Vec<Line>, ExportError> {
        let text = paragraph.text.as_str();
        let items = self.shaper.items(paragraph, is_rtl)?;
        let mut lines = Vec::new();
        let mut line: Vec<Piece> = Vec::new();
        let mut width = 0.0;
        let mut pending: Option<Piece> = None;
        let mut begin = 0;
        for end in self.segmenter.segment_str(text).filter(|end| *end > 0) {
            let unit = self.unit(text, begin..end, &items)?;
            begin = end;
            for unit in self.fitting(text, unit, &items)? {
                let space = pending.as_ref().map_or(0.0, Piece::width);
                if !line.is_empty() && width + space + unit.width > self.width {
                    lines.push(self.finish(std::mem::take(&mut line))?);
                    width = 0.0;
                    pending = None;
                }
                if let Some(space) = pending.take().filter(|_| !line.is_empty()) {
                    width += space.width();
                    line.push(space);
                }
                width += unit.width;
                line.extend(unit.pieces);
                pending = unit.space;
            }
        }
        if !line.is_empty() {
            lines.push(self.finish(line)?);
        }
        Ok(lines)
    }

    fn unit(&mut self, text: &str, range: Range<usize>, items: &[Item]) -> Result<Unit, ExportError> {
        let word_end = range.start + text[range.clone()].trim_end_matches(' ').len();
        let pieces = self.pieces(text, range.start..word_end, items)?;
        let space = self.pieces(text, word_end..range.end, items)?.into_iter().next();
        let width = pieces.iter().map(Piece::width).sum();
        Ok(Unit { range: range.start..word_end, pieces, width, space })
    }

    fn pieces(&mut self, text: &str, range: Range<usize>, items: &[Item]) -> Result<Vec<Piece>, ExportError> {
        let mut pieces = Vec::new();
        let first = items.partition_point(|item| item.range.end <= range.start);
        for item in items[first..].iter().take_while(|item| item.range.start < range.end) {
            let part = &text[item.range.start.max(range.start)..item.range.end.min(range.end)];
            for part in shapeable(part) {
                let shaped = self.shaper.shape(part, item)?;
                pieces.push(Piece { face: item.face, style: item.style, level: item.level, shaped });
            }
        }
        Ok(pieces)
    }

    /// A unit as it is, or cut between characters where it is wider than a line.
    fn fitting(&mut self, text: &str, unit: Unit, items: &[Item]) -> Result<Vec<Unit>, ExportError> {
        if unit.width <= self.width {
            return Ok(vec![unit]);
        }
        let ends = cuttable(text, unit.range.clone());
        let mut units: Vec<Unit> = Vec::new();
        let mut begin = 0;
        // How many characters the last line held: a good guess for the next, so that each is shaped a few times only.
        let mut guess = ((ends.len() as f32 * self.width / unit.width) as usize).max(1);
        let mut from = unit.range.start;
        while begin < ends.len() {
            let mut count = guess.min(ends.len() - begin);
            let mut cut = self.unit(text, from..ends[begin + count - 1], items)?;
            while cut.width > self.width && count > 1 {
                count = ((count as f32 * (self.width / cut.width).min(0.98)) as usize).clamp(1, count - 1);
                cut = self.unit(text, from..ends[begin + count - 1], items)?;
            }
            while begin + count < ends.len() && cut.width < 0.9 * self.width {
                let wider = (count + count / 16 + 1).min(ends.len() - begin);
                let next = self.unit(text, from..ends[begin + wider - 1], items)?;
                if next.width > self.width {
                    break;
                }
                (count, cut) = (wider, next);
            }
            from = ends[begin + count - 1];
            begin += count;
            guess = count;
            units.push(cut);
        }
        if let Some(last) = units.last_mut() {
            last.space = unit.space;
        }
        Ok(units)
    }

    fn finish(&mut self, pieces: Vec<Piece>) -> Result<Line, ExportError> {
        let (mut above, mut below, mut size) = (0.0_f32, 0.0_f32, 0.0_f32);
        for piece in &pieces {
            let face = self.shaper.face(piece.face)?;
            above = above.max(face.ascent * piece.style.size());
            below = below.max(face.descent * piece.style.size());
            size = size.max(piece.style.size());
        }
        let width = pieces.iter().map(Piece::width).sum();
        let squeeze = (size * MOST_LEADING / (above + below)).min(1.0);
        (above, below) = (above * squeeze, below * squeeze);
        let height = (above + below).max(size * LEADING);
        let baseline = above + (height - above - below) / 2.0;
        Ok(Line { pieces: reorder(pieces), width, baseline, height })
    }
}

/// Where a word that is wider than a line may be cut: after a character with its marks, and inside a pile of more marks
/// than any language has.
fn cuttable(text: &str, range: Range<usize>) -> Vec<usize> {
    let mut ends = Vec::new();
    let mut begin = range.start;
    for end in GraphemeClusterSegmenter::new().segment_str(&text[range.clone()]).skip(1) {
        let end = range.start + end;
        let pile = text[begin..end].char_indices().skip(LARGEST_PILE).step_by(LARGEST_PILE);
        ends.extend(pile.map(|(at, _)| begin + at));
        ends.push(end);
        begin = end;
    }
    ends
}

/// `text` in parts that the shaper can take: it counts the signs of one Indic syllable in a byte, and a "syllable" of
/// somebody who wants to break it may have thousands. No word of any language is cut by this.
fn shapeable(text: &str) -> Vec<&str> {
    if text.len() <= LONGEST_SHAPED {
        return if text.is_empty() { Vec::new() } else { vec![text] };
    }
    let mut parts = Vec::new();
    let mut begin = 0;
    let mut last = 0;
    for end in GraphemeClusterSegmenter::new().segment_str(text) {
        if end - begin > LONGEST_SHAPED && last > begin {
            parts.push(&text[begin..last]);
            begin = last;
        }
        while end - begin > LONGEST_SHAPED {
            let most = begin + LONGEST_SHAPED;
            let cut = (begin + 1..=most).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(most);
            parts.push(&text[begin..cut]);
            begin = cut;
        }
        last = end;
    }
    parts.push(&text[begin..]);
    parts.retain(|part| !part.is_empty());
    parts
}

/// Puts the pieces of a line into the order of sight (UAX 9, rule L2).
fn reorder(mut pieces: Vec<Piece>) -> Vec<Piece> {
    let highest = pieces.iter().map(|piece| piece.level.number()).max().unwrap_or(0);
    let lowest_odd = pieces.iter().map(|piece| piece.level.number()).filter(|level| level % 2 == 1).min();
    for level in (lowest_odd.unwrap_or(highest + 1)..=highest).rev() {
        let mut from = 0;
        while from < pieces.len() {
            let run = pieces[from..].iter().take_while(|piece| piece.level.number() >= level).count();
            pieces[from..from + run].reverse();
            from += run.max(1);
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Fonts;
    use crate::pdf::coverage::Region;

    /// The lines of `text`, each as its pieces from left to right, and their widths.
    fn lines(fonts: &Fonts, text: &str, width: f32) -> Vec<(String, f32)> {
        let shaper = Shaper::new(fonts.library(), Region::Japanese, "");
        let lines = Breaker::new(shaper, width).lines(&StyledText::new(text, Style::Body), false);
        let lines = lines.expect("`./hark test` installs the fonts");
        let shown = |line: &Line| line.pieces.iter().map(|piece| piece.shaped.text.as_str()).collect();
        lines.iter().map(|line| (shown(line), line.width)).collect()
    }

    #[test]
    fn japanese_lines_never_begin_or_end_with_what_must_not_stand_there() {
        let fonts = Fonts::system();
        let text = "「東京」へ行ったとき、キャットフードを買いました。ちょっと高かったですが、人々は「コンピューター」と言った。";
        for width in 40..120 {
            let lines = lines(&fonts, text, width as f32);
            assert_eq!(lines.iter().map(|(line, _)| line.as_str()).collect::<String>(), text);
            for (line, _) in &lines {
                assert!(
                    !line.starts_with(['、', '。', '」', 'っ', 'ッ', 'ャ', 'ュ', 'ょ', 'ー', '々']),
                    "{width}: {line}"
                );
                assert!(!line.ends_with('「'), "{width}: {line}");
            }
        }
    }

    #[test]
    fn thai_breaks_between_words() {
        let fonts = Fonts::system();
        let words = ["ภาษา", "ไทย", "กำลัง", "พัฒนา", "อย่าง", "รวดเร็ว"];
        let text = words.concat();
        for width in 40..160 {
            let mut at = 0;
            for (line, _) in lines(&fonts, &text, width as f32) {
                let is_between_words = (0..=words.len()).any(|n| words[..n].concat().len() == at);
                assert!(is_between_words, "{width}: {line}");
                at += line.len();
            }
        }
    }

    #[test]
    fn no_line_is_wider_than_the_page_and_no_letter_is_lost() {
        let fonts = Fonts::system();
        let vocabulary = [
            "a",
            "word",
            "internationalization",
            "WWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWW",
            "السلام",
            "ببببببببببببببببببببب",
            "שלום",
            "12",
            "(مصر)،",
            "漢字かな",
            "สวัสดีครับ",
            "विद्यार्थियों",
            "e\u{301}\u{302}",
            "한국어",
            "—",
            "\u{301}",
        ];
        let mut dice = 1_u64;
        for round in 0..200 {
            let mut text = String::new();
            for _ in 0..40 {
                dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                text.push_str(vocabulary[(dice >> 33) as usize % vocabulary.len()]);
                text.push_str(if dice >> 60 < 12 { " " } else { "" });
            }
            let text = text.trim();
            let width = 60.0 + (round % 7) as f32 * 40.0;
            let lines = lines(&fonts, text, width);
            assert!(lines.iter().all(|line| line.1 <= width + 0.01), "round {round}: {lines:?}");
            // Pieces are in the order of sight, so only the letters themselves are compared.
            let sorted = |text: &str| {
                let mut letters: Vec<char> = text.chars().filter(|c| *c != ' ').collect();
                letters.sort_unstable();
                letters
            };
            let shown: String = lines.into_iter().map(|(line, _)| line).collect();
            assert_eq!(sorted(&shown), sorted(text), "round {round}");
        }
    }

    #[test]
    fn long_text_is_shaped_in_parts_that_keep_letters_and_their_marks_together() {
        let accents = "e\u{301}".repeat(500);
        for text in [accents.as_str(), &"x".repeat(1000), &"क्".repeat(500), &"\u{301}".repeat(999), "short", ""] {
            let parts = shapeable(text);
            assert_eq!(parts.concat(), text);
            assert!(parts.iter().all(|part| !part.is_empty() && part.len() <= LONGEST_SHAPED));
        }
        assert!(shapeable(&accents).iter().all(|part| part.starts_with('e')));
    }

    #[test]
    fn nonsense_in_every_script_is_laid_out_without_a_crash() {
        let fonts = Fonts::system();
        let blocks: [u32; 14] = [
            0x0590, 0x0600, 0x0700, 0x0900, 0x0980, 0x0A00, 0x0B80, 0x0C00, 0x0D80, 0x0E00, 0x0F00, 0x1000, 0x1780,
            0x1100,
        ];
        let mut dice = 9_u64;
        let mut roll = |sides: u32| {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (dice >> 33) as u32 % sides
        };
        for round in 0..3000_usize {
            let block = blocks[round % blocks.len()];
            let joiners = ['\u{200C}', '\u{200D}', '\u{25CC}', ' '];
            let text: String = (0..1 + roll(200))
                .filter_map(|_| match roll(12) {
                    0 => Some(joiners[roll(4) as usize]),
                    _ => char::from_u32(block + roll(0x80)),
                })
                .collect();
            let text = crate::clean::clean(&text);
            assert!(lines(&fonts, &text, 200.0).iter().all(|line| line.1 <= 200.01), "round {round}: {text:?}");
        }
    }

    #[test]
    fn the_order_of_sight_turns_right_to_left_runs_round_and_keeps_numbers() {
        let fonts = Fonts::system();
        let shaper = Shaper::new(fonts.library(), Region::Japanese, "he");
        let text = StyledText::new("אב 12 גד", Style::Body);
        let line = Breaker::new(shaper, 400.0).lines(&text, true).unwrap().remove(0);
        let seen: Vec<&str> = line.pieces.iter().map(|piece| piece.shaped.text.as_str()).collect();
        assert_eq!(seen, ["גד", " ", "12", " ", "אב"]);
    }
}
