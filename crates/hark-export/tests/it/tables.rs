//! What a spreadsheet may rely on, whatever the transcript looks like.

use std::collections::BTreeMap;

use crate::support::{Dice, LATIN, MIXED, random_transcript};
use hark_export::{Fonts, Format, Metadata, Options, export, render};
use hark_transcript::{Segment, TranscriptionResult};

/// Reads RFC 4180 strictly: rows end with CR LF, quotes only around whole fields, and doubled inside them.
fn parse_csv(csv: &str) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    let mut rest = csv.strip_prefix('\u{FEFF}').expect("a byte order mark, for Excel");
    while !rest.is_empty() {
        let mut row = Vec::new();
        loop {
            let mut field = String::new();
            if let Some(quoted) = rest.strip_prefix('"') {
                rest = quoted;
                loop {
                    let end = rest.find('"').expect("a closing quote");
                    field.push_str(&rest[..end]);
                    rest = &rest[end + 1..];
                    match rest.strip_prefix('"') {
                        Some(after) => {
                            field.push('"');
                            rest = after;
                        }
                        None => break,
                    }
                }
            } else {
                let end = rest.find([',', '\r']).expect("the end of a field");
                assert!(!rest[..end].contains(['"', '\n']), "{:?}", &rest[..end]);
                field.push_str(&rest[..end]);
                rest = &rest[end..];
            }
            row.push(field);
            match rest.strip_prefix(',') {
                Some(after) => rest = after,
                None => break,
            }
        }
        rest = rest.strip_prefix("\r\n").expect("CR LF after a row");
        rows.push(row);
    }
    rows
}

#[test]
fn whatever_is_said_each_segment_is_a_row_with_all_its_words_and_its_times() {
    let mut dice = Dice(5);
    for round in 0..400 {
        let vocabulary = if round % 2 == 0 { LATIN } else { MIXED };
        let mut transcript = random_transcript(&mut dice, vocabulary, round % 3 != 0);
        for segment in &mut transcript.segments {
            let nasty = ["", "\"", ", ", "\n", "=1", "\u{0}", "a \"b\", c", ";"][dice.roll(8) as usize];
            segment.text = format!("{nasty}{}{nasty}", segment.text);
        }
        let rows = parse_csv(&render(&transcript, Format::Csv, &Options::default()).unwrap());
        assert_eq!(rows[0], ["start", "end", "speaker", "text", "confidence"]);
        assert_eq!(rows.len(), transcript.segments.len() + 1, "round {round}");
        for (row, segment) in rows[1..].iter().zip(&transcript.segments) {
            assert_eq!(row.len(), 5, "round {round}");
            assert_eq!(row[0].parse::<f64>().unwrap(), segment.start, "round {round}");
            assert_eq!(row[1].parse::<f64>().unwrap(), segment.end, "round {round}");
            assert!(!row[3].starts_with(['=', '+', '-', '@']), "round {round}: {}", row[3]);
            let said = segment.text.replace('\u{0}', "").split_whitespace().collect::<Vec<_>>().join(" ");
            assert_eq!(row[3].trim_start_matches('\''), said, "round {round}");
        }
    }
}

#[test]
fn names_that_people_gave_to_speakers_are_in_every_format_that_is_text() {
    let segment = Segment { end: 2.0, text: "Hello.".into(), speaker: Some("SPEAKER_00".into()), ..Default::default() };
    let transcript = TranscriptionResult {
        duration: 2.0,
        segments: vec![segment],
        speakers: vec!["SPEAKER_00".into()],
        ..Default::default()
    };
    let speaker_names = BTreeMap::from([("SPEAKER_00".to_owned(), "Ann Lee".to_owned())]);
    let metadata = Metadata { speaker_names, ..Default::default() };
    for format in Format::ALL.into_iter().filter(|format| format.is_text()) {
        let file = export(&transcript, &metadata, format, &Options::default(), &Fonts::system()).unwrap();
        let text = String::from_utf8(file).unwrap();
        assert!(text.contains("Ann Lee") && !text.contains("SPEAKER_00"), "{format}: {text}");
    }
}

#[test]
fn speakers_without_a_name_are_numbered_in_the_words_of_who_asks() {
    let said = |label: &str, start: f64| Segment {
        start,
        end: start + 2.0,
        text: "Hello there.".into(),
        speaker: Some(label.into()),
        ..Default::default()
    };
    let called = |segments: Vec<Segment>, format: Format| {
        let transcript = TranscriptionResult { duration: 20.0, segments, ..Default::default() };
        let options = Options { unnamed_speaker: Some("Sprecherin".into()), ..Default::default() };
        let speaker_names = BTreeMap::from([("SPEAKER_01".to_owned(), "Ann Lee".to_owned())]);
        let metadata = Metadata { speaker_names, ..Default::default() };
        String::from_utf8(export(&transcript, &metadata, format, &options, &Fonts::system()).unwrap()).unwrap()
    };
    for format in Format::ALL.into_iter().filter(|format| format.is_text()) {
        let text = called(vec![said("SPEAKER_00", 0.0), said("SPEAKER_01", 3.0), said("SPEAKER_11", 6.0)], format);
        let told = ["Sprecherin 1", "Ann Lee", "Sprecherin 12"].iter().all(|name| text.contains(name));
        assert!(told && !text.contains("SPEAKER_"), "{format}: {text}");
    }
    // A voice that is alone has no label in what people read, and one in tables.
    for (format, shows) in [(Format::Txt, false), (Format::Srt, false), (Format::Vtt, false), (Format::Csv, true)] {
        let text = called(vec![said("SPEAKER_00", 0.0), said("SPEAKER_00", 3.0)], format);
        assert_eq!(text.contains("Sprecherin 1"), shows, "{format}: {text}");
        assert!(!text.contains("SPEAKER_"), "{format}: {text}");
    }
}

#[test]
fn a_document_where_text_was_asked_for_is_an_error() {
    let transcript = TranscriptionResult::default();
    let error = render(&transcript, Format::Pdf, &Options::default()).unwrap_err();
    assert_eq!(error.to_string(), "pdf is not text: write it to a file");
}
