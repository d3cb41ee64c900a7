//! What tables and documents are made from: names instead of labels, and text without what no reader should meet.

use std::borrow::Cow;

use hark_transcript::{Segment, TranscriptionResult, Word};

use crate::Metadata;
use crate::atoms::label_number;

/// The transcript with its speakers under the names that people gave them.
pub(crate) fn with_names(transcript: &TranscriptionResult, metadata: &Metadata) -> TranscriptionResult {
    let named = |label: &str| metadata.speaker_names.get(label).map_or(label, String::as_str).to_owned();
    let mut transcript = transcript.clone();
    for segment in &mut transcript.segments {
        for speaker in segment.speaker.iter_mut().chain(&mut segment.overlapping_speakers) {
            *speaker = named(speaker);
        }
    }
    // Two labels of one person become one name.
    let mut speakers: Vec<String> = Vec::new();
    for name in transcript.speakers.iter().map(|label| named(label)) {
        if !speakers.contains(&name) {
            speakers.push(name);
        }
    }
    transcript.speakers = speakers;
    transcript
}

/// Puts `word` and a number from 1 in place of the labels of speakers without a name: `Speaker 1` for `SPEAKER_00`.
pub(crate) fn number_unnamed(transcript: &mut TranscriptionResult, word: &str) {
    let of_segments = transcript
        .segments
        .iter_mut()
        .flat_map(|segment| segment.speaker.iter_mut().chain(&mut segment.overlapping_speakers));
    for speaker in of_segments.chain(&mut transcript.speakers) {
        if let Some(number) = label_number(speaker) {
            *speaker = format!("{word} {}", u64::from(number) + 1).trim_start().to_owned();
        }
    }
}

/// The transcript with every text cleaned by [`clean`]; a speaker without a visible name is no speaker.
pub(crate) fn cleaned(transcript: &TranscriptionResult) -> TranscriptionResult {
    let word = |word: &Word| Word { word: clean(&word.word), ..word.clone() };
    let segment = |segment: &Segment| Segment {
        text: clean(&segment.text),
        speaker: segment.speaker.as_deref().map(clean).filter(|speaker| !speaker.is_empty()),
        overlapping_speakers: segment.overlapping_speakers.iter().map(|speaker| clean(speaker)).collect(),
        words: segment.words.iter().map(word).collect(),
        language: segment.language.clone(),
        ..*segment
    };
    TranscriptionResult {
        segments: transcript.segments.iter().map(segment).collect(),
        language: clean(&transcript.language),
        ..TranscriptionResult { duration: transcript.duration, ..Default::default() }
    }
}

/// The transcript without the control characters that players and editors stumble over, such as NUL; line breaks and tabs
/// stay, since layout takes them for white space.
pub(crate) fn without_controls(transcript: &TranscriptionResult) -> Cow<'_, TranscriptionResult> {
    let is_control = |c: char| c.is_control() && !c.is_whitespace();
    let segments = &transcript.segments;
    let texts = segments.iter().flat_map(|segment| {
        let words = segment.words.iter().map(|word| &word.word);
        words.chain(&segment.speaker).chain(&segment.overlapping_speakers).chain([&segment.text])
    });
    if !texts.chain([&transcript.text]).any(|text| text.contains(is_control)) {
        return Cow::Borrowed(transcript);
    }
    let mut transcript = transcript.clone();
    let strip = |text: &mut String| text.retain(|c| !is_control(c));
    strip(&mut transcript.text);
    for segment in &mut transcript.segments {
        strip(&mut segment.text);
        segment.words.iter_mut().for_each(|word| strip(&mut word.word));
        segment.speaker.iter_mut().chain(&mut segment.overlapping_speakers).for_each(strip);
    }
    Cow::Owned(transcript)
}

/// `text` on one line, without control characters, code points that XML forbids, and characters that reorder or hide
/// what stands around them. Speech has none of these; they come from file names and edits, or from somebody who wants
/// to break a document.
pub(crate) fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut pending_space = false;
    for c in text.chars() {
        if c.is_whitespace() && !is_no_break_space(c) {
            pending_space = !out.is_empty();
        } else if !is_unwanted(c) {
            if std::mem::take(&mut pending_space) {
                out.push(' ');
            }
            out.push(c);
        }
    }
    out
}

fn is_no_break_space(c: char) -> bool {
    matches!(c, '\u{A0}' | '\u{202F}')
}

fn is_unwanted(c: char) -> bool {
    let is_noncharacter = matches!(c, '\u{FDD0}'..='\u{FDEF}') || (c as u32) & 0xFFFE == 0xFFFE;
    c.is_control()
        || is_noncharacter
        || matches!(c,
            '\u{202A}'..='\u{202E}'     // embeddings and overrides of direction
            | '\u{2060}'..='\u{206F}'   // isolates, invisible operators, deprecated format characters
            | '\u{FEFF}'                // a byte order mark inside a text
            | '\u{FFF9}'..='\u{FFFC}'   // interlinear annotation, embedded objects
            | '\u{E0000}'..='\u{E007F}' // tags
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn what_breaks_documents_is_dropped_and_what_scripts_need_is_kept() {
        assert_eq!(clean("  a\u{0}b\r\n\tc\u{2028}d\u{85}e  "), "ab c d e");
        assert_eq!(clean("\u{202E}gpj.exe\u{FFFE}\u{FFFF}\u{1FFFE}\u{FEFF}"), "gpj.exe");
        let needed = "می\u{200C}خواهم क्\u{200D}ष n\u{303} 10\u{A0}km \u{200F}x";
        assert_eq!(clean(needed), needed);
    }

    #[test]
    fn control_characters_reach_no_text_format() {
        let words = vec![Word { word: "o\u{0}ne".into(), ..Default::default() }];
        let (text, speaker) = ("o\u{0}ne\u{1B}[2J\ttwo".to_owned(), Some("An\u{7}n".to_owned()));
        let segment = Segment { text, speaker, words, end: 1.0, ..Default::default() };
        let transcript = TranscriptionResult { segments: vec![segment.clone()], ..Default::default() };
        for format in [crate::Format::Txt, crate::Format::Srt, crate::Format::Vtt] {
            let file = crate::render(&transcript, format, &crate::Options::default()).unwrap();
            assert!(!file.contains(|c: char| c.is_control() && c != '\n'), "{file:?}");
            assert!(file.contains("Ann") && file.contains("one"), "{file:?}");
        }
    }

    #[test]
    fn names_stand_for_labels_everywhere() {
        let transcript = TranscriptionResult {
            segments: ["S1", "S2", "S3"]
                .map(|label| Segment { speaker: Some(label.into()), ..Default::default() })
                .to_vec(),
            speakers: vec!["S1".into(), "S2".into(), "S3".into()],
            ..Default::default()
        };
        let speaker_names = BTreeMap::from([("S1".into(), "Ann".into()), ("S3".into(), "Ann".into())]);
        let named = with_names(&transcript, &Metadata { speaker_names, ..Default::default() });
        assert_eq!(named.speakers, ["Ann", "S2"]);
        let speakers: Vec<_> = named.segments.iter().flat_map(|segment| segment.speaker.as_deref()).collect();
        assert_eq!(speakers, ["Ann", "S2", "Ann"]);
    }
}
