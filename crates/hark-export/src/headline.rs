//! What stands at the head of a document: its title and one line about the recording.

use hark_transcript::{DateTime, TranscriptionResult};

use crate::Metadata;
use crate::clean::clean;
use crate::direction::is_rtl_language;

/// What a document is called when nobody gave it a title.
const UNTITLED: &str = "Transcript";

/// The title on one line.
pub(crate) fn title(metadata: &Metadata) -> String {
    let title = clean(&metadata.title);
    if title.is_empty() { UNTITLED.to_owned() } else { title }
}

/// `2026-03-09 14:05 UTC · 1:02:03 · English`: what is known of when, how long and in which language.
pub(crate) fn about(transcript: &TranscriptionResult, metadata: &Metadata) -> String {
    let mut parts = Vec::new();
    if let Some(moment) = metadata.created_at {
        parts.push(day_and_minute(moment));
    }
    if transcript.duration > 0.0 {
        parts.push(clock(transcript.duration, false));
    }
    let language = clean(metadata.language_name.as_deref().unwrap_or(&transcript.language));
    if !language.is_empty() {
        parts.push(language);
    }
    // A mark of direction keeps the parts apart where the line runs from right to left; Latin letters in two of them
    // would otherwise pull them together.
    parts.join(if is_rtl_language(&transcript.language) { " \u{200F}·\u{200F} " } else { " · " })
}

/// What stands between a speaker and a time.
pub(crate) fn gap(is_rtl: bool) -> &'static str {
    if is_rtl { "\u{200F}  " } else { "  " }
}

fn day_and_minute(moment: DateTime) -> String {
    let text = moment.to_string();
    let (day, time) = text.split_once('T').unwrap_or((&text, ""));
    format!("{day} {} UTC", time.get(..5).unwrap_or_default())
}

/// `1:02:03`, or `2:03` when `with_hours` is not asked for and there are none.
pub(crate) fn clock(seconds: f64, with_hours: bool) -> String {
    let seconds = if seconds.is_finite() { seconds.max(0.0) as u64 } else { 0 };
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 || with_hours {
        format!("{hours}:{minutes:02}:{seconds:02}")
    } else {
        format!("{minutes}:{seconds:02}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_says_when_how_long_and_in_which_language() {
        let transcript = TranscriptionResult { duration: 3723.9, language: "en".into(), ..Default::default() };
        let mut metadata = Metadata { created_at: Some(DateTime(1_700_000_000_123_456)), ..Default::default() };
        assert_eq!(about(&transcript, &metadata), "2023-11-14 22:13 UTC · 1:02:03 · en");
        metadata = Metadata { language_name: Some("English".into()), ..Default::default() };
        assert_eq!(about(&transcript, &metadata), "1:02:03 · English");
    }

    #[test]
    fn a_title_is_one_line_and_never_empty() {
        let titled = |title: &str| super::title(&Metadata { title: title.into(), ..Default::default() });
        assert_eq!(titled("two\nlines\r\n"), "two lines");
        assert_eq!(titled("\u{0}\n"), "Transcript");
    }

    #[test]
    fn a_clock_shows_hours_where_there_are_some() {
        assert_eq!(clock(59.9, false), "0:59");
        assert_eq!(clock(59.9, true), "0:00:59");
        assert_eq!(clock(360_000.0, false), "100:00:00");
        assert_eq!(clock(f64::INFINITY, false), "0:00");
    }
}
