//! Cues written as SubRip and as WebVTT.

use std::fmt::Write;

use hark_transcript::TranscriptionResult;

use crate::SubtitleRules;
use crate::cues::{SpeakerStyle, cues};

/// SubRip: numbered cues, a comma before the milliseconds. It has no voices, so a speaker is named in the text.
pub(crate) fn srt(transcript: &TranscriptionResult, rules: &SubtitleRules) -> String {
    let mut out = String::new();
    for (n, cue) in cues(transcript, rules, SpeakerStyle::Prefix).iter().enumerate() {
        if n > 0 {
            out.push('\n');
        }
        // SubRip knows no escapes: an arrow in the text would be read as a time line.
        let text = cue.lines.join("\n").replace("-->", "→");
        let (start, end) = (timestamp(cue.start, ','), timestamp(cue.end, ','));
        let _ = writeln!(out, "{}\n{start} --> {end}\n{text}", n + 1);
    }
    out
}

/// WebVTT: a header, a point before the milliseconds, speakers as voice spans.
pub(crate) fn vtt(transcript: &TranscriptionResult, rules: &SubtitleRules) -> String {
    let mut out = String::from("WEBVTT\n");
    for cue in cues(transcript, rules, SpeakerStyle::Apart) {
        let text = escape(&cue.lines.join("\n"));
        let (start, end) = (timestamp(cue.start, '.'), timestamp(cue.end, '.'));
        let voice = cue.speaker.map(|speaker| format!("<v {}>", escape(&one_line(&speaker)))).unwrap_or_default();
        let _ = writeln!(out, "\n{start} --> {end}\n{voice}{text}");
    }
    out
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// `>` is escaped too, so that no `-->` is left.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Hours have two digits or as many as they need.
fn timestamp(milliseconds: u64, point: char) -> String {
    let (seconds, rest) = (milliseconds / 1000, milliseconds % 1000);
    format!("{:02}:{:02}:{:02}{point}{rest:03}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_carries_into_hours_beyond_two_digits() {
        assert_eq!(timestamp(0, ','), "00:00:00,000");
        assert_eq!(timestamp(59_999, '.'), "00:00:59.999");
        assert_eq!(timestamp(100 * 3_600_000 + 61_001, ','), "100:01:01,001");
    }

    #[test]
    fn nothing_in_a_webvtt_text_reads_as_markup_or_a_time_line() {
        assert_eq!(escape("a --> <b> & c"), "a --&gt; &lt;b&gt; &amp; c");
    }
}
