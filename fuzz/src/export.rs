//! Transcripts of any shape into files: none panics, and subtitles keep what players rely on.

use arbitrary::{Arbitrary, Unstructured};
use hark_api::{Segment, TranscriptionResult, Word};
use hark_export::{Fonts, Format, Metadata, Options, SubtitleRules};

#[derive(Arbitrary, Debug)]
struct Said {
    start: Seconds,
    length: Seconds,
    text: String,
    speaker: Option<u8>,
    words: Vec<(String, Seconds, Seconds)>,
}

/// Times as engines give them, now and then as nobody should.
#[derive(Arbitrary, Debug, Clone, Copy)]
enum Seconds {
    Milliseconds(u16),
    Any(f64),
}

impl Seconds {
    fn value(self) -> f64 {
        match self {
            Seconds::Milliseconds(count) => f64::from(count) / 1000.0,
            Seconds::Any(value) => value,
        }
    }
}

#[derive(Arbitrary, Debug)]
struct Input {
    said: Vec<Said>,
    /// Whether what is said begins where the last ended, as an engine has it.
    in_order: bool,
    width: u8,
    lines: u8,
    title: String,
    language: String,
    name: String,
}

/// Writes a transcript in every format that needs no font.
pub fn export(data: &[u8]) {
    let Ok(input) = Input::arbitrary(&mut Unstructured::new(data)) else { return };
    let mut clock = 0.0;
    let segments = input.said.iter().map(|said| {
        let start = if input.in_order { clock } else { said.start.value() };
        let end = start + said.length.value();
        clock = if end.is_finite() { end.clamp(clock, 1e6) } else { clock };
        Segment {
            start,
            end,
            text: said.text.clone(),
            speaker: said.speaker.map(|number| format!("SPEAKER_{number:02}")),
            overlapping_speakers: said.speaker.map(|number| format!("SPEAKER_{:02}", number / 2)).into_iter().collect(),
            language: None,
            confidence: 0.5,
            words: said
                .words
                .iter()
                .map(|(word, from, to)| word_of(word, start + from.value(), start + to.value()))
                .collect(),
        }
    });
    let transcript = TranscriptionResult {
        segments: segments.collect(),
        language: input.language.clone(),
        duration: clock,
        ..TranscriptionResult::default()
    };
    let rules = SubtitleRules {
        max_line_width: usize::from(input.width).max(1),
        max_lines: usize::from(input.lines % 4).max(1),
        ..SubtitleRules::default()
    };
    let options = Options { subtitles: rules.clone(), ..Options::default() };
    let mut metadata = Metadata { title: input.title, ..Metadata::default() };
    metadata.speaker_names.insert("SPEAKER_00".to_owned(), input.name);
    let fonts = Fonts::default();
    for format in [Format::Txt, Format::Srt, Format::Vtt, Format::Csv, Format::Docx, Format::Json] {
        let file = hark_export::export(&transcript, &metadata, format, &options, &fonts);
        let file = match (file, format) {
            (Ok(file), _) => file,
            // A time that is no number has no place in JSON.
            (Err(_), Format::Json) => continue,
            (Err(error), _) => panic!("{format}: {error}"),
        };
        match format {
            Format::Srt => check_srt(std::str::from_utf8(&file).expect("SubRip is text"), &rules),
            Format::Vtt => assert!(file.starts_with(b"WEBVTT"), "a player needs the first line"),
            Format::Docx => assert!(file.starts_with(b"PK"), "a Word document is an archive"),
            _ => assert!(std::str::from_utf8(&file).is_ok(), "{format} is text"),
        }
    }
}

fn word_of(word: &str, start: f64, end: f64) -> Word {
    Word { word: word.to_owned(), start, end, confidence: 0.5 }
}

/// Reads SubRip as players do: a number, a time line, lines of text, an empty line.
fn check_srt(srt: &str, rules: &SubtitleRules) {
    let mut last = 0;
    for (number, block) in srt.trim_end_matches('\n').split("\n\n").filter(|block| !block.is_empty()).enumerate() {
        let mut lines = block.split('\n');
        assert_eq!(lines.next(), Some((number + 1).to_string().as_str()), "{srt:?}");
        let times = lines.next().and_then(|line| line.split_once(" --> "));
        let (start, end) = times.unwrap_or_else(|| panic!("no times in {block:?}"));
        let (start, end) = (milliseconds(start), milliseconds(end));
        assert!(last <= start, "cue {} begins at {start} before the last one's end {last}", number + 1);
        assert!(start < end && end - start <= 7000, "cue {} from {start} to {end}", number + 1);
        last = end;
        let text: Vec<&str> = lines.collect();
        assert!((1..=rules.max_lines).contains(&text.len()), "{} lines in {block:?}", text.len());
        assert!(text.iter().all(|line| !line.trim().is_empty()), "an empty line in {block:?}");
    }
}

fn milliseconds(text: &str) -> u64 {
    let parts: Option<Vec<u64>> = text.split([':', ',']).map(|part| part.parse().ok()).collect();
    match parts.as_deref() {
        Some([hours, minutes, seconds, rest]) => ((hours * 60 + minutes) * 60 + seconds) * 1000 + rest,
        _ => panic!("{text:?} is no time"),
    }
}
