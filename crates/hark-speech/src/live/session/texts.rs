//! Final words as events and as segments of a transcript.

use hark_transcript::{Segment, TranscriptionResult, Word};

use super::{LiveSession, seconds};
use crate::live::{LiveEvent, LiveSegments, LiveText};
use crate::segments::{ends_sentence, round, straighten};
use crate::speakers::speakers_of;

impl LiveSession {
    /// Emits the final words, each sentence by itself; `ends_utterance` if the utterance ends with them.
    pub(super) fn emit_final_words(&mut self, ends_utterance: bool) {
        while self.emitted_words < self.final_words.len() {
            let rest = &self.final_words[self.emitted_words..];
            let sentence = rest.iter().position(|word| ends_sentence(&word.text)).map_or(rest.len(), |last| last + 1);
            self.emit_words(sentence, ends_utterance && sentence == rest.len());
        }
    }

    /// Emits the next `count` final words.
    pub(super) fn emit_words(&mut self, count: usize, ends_utterance: bool) {
        let emitted = &self.final_words[self.emitted_words..][..count];
        let (Some(first), Some(last)) = (emitted.first(), emitted.last()) else { return };
        let raw: String = emitted.iter().map(|word| word.text.as_str()).collect();
        let mut words: Vec<Word> = Vec::new();
        for word in emitted.iter().filter(|word| !word.text.trim().is_empty()) {
            let is_rest = !word.text.starts_with(' ') && word.text.chars().all(|c| c.is_ascii_punctuation());
            match words.last_mut().filter(|_| is_rest) {
                Some(before) => before.word.push_str(word.text.trim()),
                None => words.push(Word {
                    word: word.text.trim().to_owned(),
                    start: round(word.start),
                    end: round(word.end),
                    confidence: word.confidence,
                }),
            }
        }
        let text = LiveText {
            text: raw.trim().to_owned(),
            start: round(first.start),
            end: round(last.end),
            confidence: words.iter().map(|word| word.confidence).sum::<f32>() / words.len().max(1) as f32,
            words,
            language: self.language.clone().unwrap_or_default(),
            speaker: None,
            ends_utterance,
        };
        self.emitted_words += count;
        // Punctuation that arrives after its word was emitted is dropped.
        if text.text.chars().any(char::is_alphanumeric) {
            self.emitted.push((text.clone(), raw));
            self.emit(LiveEvent::Text(text));
        }
    }

    /// Emits the interim text, if it changed.
    pub(super) fn emit_partial(&mut self) {
        let words = || self.final_words[self.emitted_words..].iter().chain(&self.interim_words);
        let text = words().map(|word| word.text.as_str()).collect::<String>().trim().to_owned();
        if text == self.last_partial {
            return;
        }
        let start = words().next().map_or(seconds(self.decoded_until), |word| word.start);
        self.last_partial.clone_from(&text);
        self.emit(LiveEvent::Partial { text, start: round(start) });
    }

    /// The transcript of everything emitted so far: texts joined to segments that end where an utterance or a sentence
    /// does.
    pub fn so_far(&self) -> TranscriptionResult {
        let Joined { segments, .. } = join(&self.emitted, 0);
        TranscriptionResult {
            text: segments.iter().map(|segment| segment.text.as_str()).collect::<Vec<_>>().join(" "),
            language: self.language.clone().unwrap_or_default(),
            duration: round(self.seconds_received()),
            speakers: speakers_of(&segments),
            segments,
            model: self.transcriber.model_name.to_string(),
            warnings: Vec::new(),
        }
    }

    /// The segments of the texts emitted from number `from` on, which must be the first of a segment. Texts that wait for their
    /// speaker are not among them.
    pub fn final_segments_from(&self, from: usize) -> LiveSegments {
        let known = if self.awaiting_speaker.is_empty() { self.emitted.len() } else { self.speaker_of.len() };
        let Joined { segments, first_texts, is_open } = join(self.emitted.get(from..known).unwrap_or_default(), from);
        match first_texts.last() {
            Some(&open) if is_open => LiveSegments { closed: segments.len() - 1, next: open, segments },
            _ => LiveSegments { closed: segments.len(), next: known.max(from), segments },
        }
    }
}

/// Texts as segments.
struct Joined {
    segments: Vec<Segment>,
    /// The number of the first text of each segment.
    first_texts: Vec<usize>,
    /// Whether the next text may extend the last segment.
    is_open: bool,
}

/// Joins texts, the first of which has this number, to segments that end where an utterance or a sentence does.
fn join(texts: &[(LiveText, String)], first: usize) -> Joined {
    let (mut segments, mut first_texts): (Vec<Segment>, Vec<usize>) = (Vec::new(), Vec::new());
    let mut is_open = false;
    for (number, (text, raw)) in (first..).zip(texts) {
        match segments.last_mut().filter(|segment| is_open && segment.speaker == text.speaker) {
            Some(segment) => {
                segment.text.push_str(raw);
                segment.end = text.end;
                segment.words.extend(text.words.iter().cloned());
            }
            None => {
                first_texts.push(number);
                segments.push(Segment {
                    start: text.start,
                    end: text.end,
                    text: raw.trim_start().to_owned(),
                    speaker: text.speaker.clone(),
                    words: text.words.clone(),
                    ..Segment::default()
                });
            }
        }
        is_open = !(text.ends_utterance || ends_sentence(&text.text));
    }
    for segment in &mut segments {
        let words = segment.words.len().max(1) as f32;
        segment.confidence = segment.words.iter().map(|word| word.confidence).sum::<f32>() / words;
        segment.text.truncate(segment.text.trim_end().len());
    }
    straighten(&mut segments);
    Joined { segments, first_texts, is_open }
}
