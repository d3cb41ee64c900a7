//! What the tests of several formats share: transcripts by chance.

use hark_transcript::{Segment, TranscriptionResult, Word};

/// A small deterministic generator: the same transcripts on every machine.
pub struct Dice(pub u64);

impl Dice {
    /// A number below `sides`.
    pub fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// Words of a spaced script.
pub const LATIN: &[&str] =
    &["a", "the", "yes.", "however,", "understanding", "Why?", "internationalization", "of", "it", "that;", "end."];
/// Words of many scripts.
pub const MIXED: &[&str] =
    &["今日は", "天気が", "良い。", "用Rust写", "สวัสดี", "ครับ", "한국어", "word", "「東京」へ、", "é", "ok."];

/// A transcript with silences, words without length and slow ones.
pub fn random_transcript(dice: &mut Dice, vocabulary: &[&str], with_words: bool) -> TranscriptionResult {
    // Whole milliseconds, so that JSON gives back the very same numbers.
    let seconds = |milliseconds: u64| milliseconds as f64 / 1000.0;
    let mut clock = dice.roll(10_000);
    let mut segments = Vec::new();
    for _ in 0..1 + dice.roll(20) {
        let start = seconds(clock);
        let mut words = Vec::new();
        for _ in 0..1 + dice.roll(30) {
            let word = vocabulary[dice.roll(vocabulary.len() as u64) as usize];
            // Now and then a word without length, a slow one, or a long silence.
            let length = [0, 50, 200, 300, 400, 900, 4000][dice.roll(7) as usize];
            words.push(Word {
                word: word.into(),
                start: seconds(clock),
                end: seconds(clock + length),
                confidence: 0.9,
            });
            clock += length + [0, 0, 0, 100, 600, 3000][dice.roll(6) as usize];
        }
        let text = words.iter().map(|word| word.word.as_str()).collect::<Vec<_>>().join(" ");
        let end = words.last().unwrap().end;
        let words = if with_words { words } else { Vec::new() };
        segments.push(Segment {
            start,
            end,
            text,
            speaker: None,
            language: None,
            overlapping_speakers: Vec::new(),
            confidence: 0.9,
            words,
        });
    }
    TranscriptionResult { duration: seconds(clock) + 1.0, segments, ..Default::default() }
}

/// `text` without its spaces.
pub fn letters(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}
