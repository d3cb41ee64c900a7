//! Reads SubRip and WebVTT: cues as segments.

use hark_api::Segment;

/// The cues of subtitles; `None` for a text that is none.
pub(super) fn segments(text: &str) -> Option<Vec<Segment>> {
    let mut segments: Vec<Segment> = Vec::new();
    let mut lines = text.lines().map(str::trim).peekable();
    while let Some(line) = lines.next() {
        let Some((start, end)) = times(line) else { continue };
        let mut words = Vec::new();
        while let Some(line) = lines.next_if(|line| !line.is_empty() && times(line).is_none()) {
            words.push(line);
        }
        let (speaker, text) = spoken(&words.join(" "));
        if !text.is_empty() {
            segments.push(Segment { start, end: end.max(start), text, speaker, ..Segment::default() });
        }
    }
    (!segments.is_empty()).then_some(segments)
}

/// The times of a line such as `00:01:02,500 --> 00:01:04,000`.
fn times(line: &str) -> Option<(f64, f64)> {
    let (start, end) = line.split_once("-->")?;
    Some((seconds(start.trim())?, seconds(end.split_whitespace().next()?)?))
}

/// Seconds of `01:02:03,500` or `02:03.500`.
fn seconds(text: &str) -> Option<f64> {
    let text = text.replace(',', ".");
    let parts: Vec<&str> = text.split(':').collect();
    if !(2..=3).contains(&parts.len()) {
        return None;
    }
    parts.iter().try_fold(0.0, |sum, part| {
        let value: f64 = part.parse().ok()?;
        (value.is_finite() && (0.0..1e6).contains(&value)).then_some(sum * 60.0 + value)
    })
}

/// The text of a cue without its markup, and the speaker of a voice tag.
fn spoken(cue: &str) -> (Option<String>, String) {
    let mut speaker = None;
    let mut text = String::with_capacity(cue.len());
    let mut rest = cue;
    while let Some(open) = rest.find('<') {
        text.push_str(&rest[..open]);
        let Some(close) = rest[open..].find('>') else {
            rest = &rest[open..];
            break;
        };
        let tag = &rest[open + 1..open + close];
        if let Some(name) =
            tag.strip_prefix("v ").or_else(|| tag.strip_prefix("v.").and_then(|tag| Some(tag.split_once(' ')?.1)))
        {
            speaker.get_or_insert_with(|| name.trim().to_owned());
        }
        rest = &rest[open + close + 1..];
    }
    text.push_str(rest);
    (speaker, text.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cues_of_both_formats_are_read_with_times_and_voices() {
        let srt = "1\r\n00:00:01,000 --> 00:00:02,500\r\n<i>Hello</i>\r\nthere.\r\n\r\n2\r\n01:00:00,000 --> 01:00:01,000\r\nBye.\r\n";
        let cues = segments(srt).unwrap();
        assert_eq!((cues.len(), cues[0].text.as_str(), cues[0].start, cues[0].end), (2, "Hello there.", 1.0, 2.5));
        assert_eq!(cues[1].start, 3600.0);
        let vtt = "WEBVTT\n\nNOTE x\n\n00:01.500 --> 00:02.000 align:start\n<v Ann>Hi &amp; bye</v>\n";
        let cues = segments(vtt).unwrap();
        assert_eq!((cues[0].speaker.as_deref(), cues[0].text.as_str()), (Some("Ann"), "Hi &amp; bye"));
    }

    #[test]
    fn what_is_no_subtitle_is_none() {
        for text in ["", "plain text", "a --> b", "00:00:01 -> 00:00:02\nx", "9:9:9:9 --> 1:2\nx", "1:nan --> 1:inf\nx"]
        {
            assert!(segments(text).is_none(), "{text}");
        }
    }
}
