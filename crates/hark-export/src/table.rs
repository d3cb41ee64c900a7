//! Comma-separated values: a row for each segment, for spreadsheets.

use std::fmt::Write;

use hark_transcript::TranscriptionResult;

/// RFC 4180 with a byte order mark: without it Excel reads UTF-8 as the machine's old code page and ruins every
/// accent. LibreOffice, Numbers, R and pandas drop the mark by themselves; programs that don't should read JSON.
pub(crate) fn csv(transcript: &TranscriptionResult) -> String {
    let mut out = String::from("\u{FEFF}start,end,speaker,text,confidence\r\n");
    for segment in &transcript.segments {
        let (start, end) = (seconds(segment.start), seconds(segment.end));
        let speaker = field(segment.speaker.as_deref().unwrap_or_default());
        let confidence = if segment.confidence.is_finite() { segment.confidence } else { 0.0 };
        let _ = write!(out, "{start:.3},{end:.3},{speaker},{},{confidence:.3}\r\n", field(&segment.text));
    }
    out
}

fn seconds(seconds: f64) -> f64 {
    if seconds.is_finite() { seconds } else { 0.0 }
}

/// A field of text, quoted where it must be, that no spreadsheet takes for a formula.
fn field(text: &str) -> String {
    let text = if begins_formula(text) { format!("'{text}") } else { text.to_owned() };
    if text.contains([',', '"', '\r', '\n', ';']) || text.starts_with(' ') || text.ends_with(' ') {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}

/// What spreadsheets evaluate: a cell of `=HYPERLINK(…)` said by a speaker or put into a name must stay text. An
/// apostrophe before it is the usual mark for that. Full-width signs count too, since input methods make them equal.
fn begins_formula(text: &str) -> bool {
    text.trim_start().starts_with(['=', '+', '-', '@', '\t', '\r', '＝', '＋', '－', '＠'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use hark_transcript::Segment;

    fn table(segments: Vec<Segment>) -> String {
        csv(&TranscriptionResult { segments, ..Default::default() })
    }

    #[test]
    fn each_segment_is_a_row_below_a_header() {
        let segment = Segment {
            start: 1.5,
            end: 2.25,
            text: "Yes, \"really\".".into(),
            speaker: Some("Ann".into()),
            confidence: 0.875,
            ..Default::default()
        };
        let silent = Segment { start: f64::NAN, text: "plain".into(), ..Default::default() };
        assert_eq!(
            table(vec![segment, silent]),
            "\u{FEFF}start,end,speaker,text,confidence\r\n1.500,2.250,Ann,\"Yes, \"\"really\"\".\",0.875\r\n\
             0.000,0.000,,plain,0.000\r\n"
        );
    }

    #[test]
    fn nothing_a_speaker_says_is_a_formula() {
        for text in ["=1+1", "+49 30", "-5", "@SUM(A1)", " =1+1", "＝1+1"] {
            assert!(field(text).trim_start_matches('"').starts_with('\''), "{text}");
        }
        assert_eq!(field("=HYPERLINK(\"x\",\"y\")"), "\"'=HYPERLINK(\"\"x\"\",\"\"y\"\")\"");
        assert_eq!(field("a=b"), "a=b");
    }
}
