//! SubRip and WebVTT: cues as segments, and translated in place.

use hark_api::Segment;
use hark_export::{SubtitleRules, break_cue};
use hark_translate::{Cue, translate_cues};

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

/// A cue in a file.
struct FileCue {
    times: (f64, f64),
    /// A voice tag or a speaker label, which is copied.
    label: String,
    text: String,
}

/// The same subtitles with the texts of their cues translated; numbers, times and everything else stay as they are.
///
/// Sentences that span cues are translated as one. Lines are broken as in our own subtitles; a translation that does not fit gets more lines.
pub(super) fn translated<E>(
    text: &str,
    translate: impl FnOnce(&[&str]) -> Result<Vec<String>, E>,
) -> Result<String, E> {
    // Lines that stay, and cues by their index.
    let mut pieces: Vec<Result<&str, usize>> = Vec::new();
    let mut cues: Vec<FileCue> = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        pieces.push(Ok(line));
        let Some(times) = times(line.trim()) else { continue };
        let mut words = Vec::new();
        while let Some(line) = lines.next_if(|line| !line.trim().is_empty() && self::times(line.trim()).is_none()) {
            words.push(line.trim());
        }
        if !words.is_empty() {
            pieces.push(Err(cues.len()));
            // Lines of a dialogue stay lines.
            let is_dialogue = words.len() > 1 && words.iter().skip(1).all(|line| line.starts_with(['-', '–', '—']));
            let whole = words.join(if is_dialogue { "\n" } else { " " });
            let text = after_label(&whole);
            cues.push(FileCue { times, label: whole[..whole.len() - text.len()].to_owned(), text: text.to_owned() });
        }
    }
    let wanted: Vec<Cue<'_>> = cues
        .iter()
        .map(|cue| Cue {
            text: &cue.text,
            speaker: Some(cue.label.as_str()).filter(|label| !label.is_empty()),
            start: cue.times.0,
            end: cue.times.1,
        })
        .collect();
    let translated = translate_cues(&wanted, translate)?;
    let rules = SubtitleRules::default();
    let mut out = String::with_capacity(text.len());
    for piece in pieces {
        match piece {
            Ok(line) => out.push_str(line),
            Err(cue) => {
                let lines = translated[cue].lines().flat_map(|line| break_cue(line, &rules));
                out.push_str(&cues[cue].label);
                out.push_str(&lines.collect::<Vec<_>>().join("\n"));
            }
        }
        out.push('\n');
    }
    Ok(out)
}

/// What follows the voice tag (`<v Ann>`) or our own speaker label (`SPEAKER_00: `) that a cue begins with.
fn after_label(cue: &str) -> &str {
    let voice = || {
        let tag = cue.strip_prefix("<v").filter(|rest| rest.starts_with([' ', '.']))?;
        tag.split_once('>').map(|(_, text)| text)
    };
    let label = || {
        let (number, text) = cue.strip_prefix("SPEAKER_")?.split_once(": ")?;
        number.bytes().all(|byte| byte.is_ascii_digit()).then_some(text)
    };
    voice().or_else(label).filter(|text| !text.contains("</v>")).unwrap_or(cue)
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
    fn translated_cues_keep_their_numbers_and_times() {
        let srt = "1\n00:00:01,000 --> 00:00:02,500\nHello\nthere.\n\n2\n00:00:03,000 --> 00:00:04,000\nBye.\n";
        let upper = |cues: &[&str]| Ok::<_, ()>(cues.iter().map(|cue| cue.to_uppercase()).collect());
        let expected = "1\n00:00:01,000 --> 00:00:02,500\nHELLO THERE.\n\n2\n00:00:03,000 --> 00:00:04,000\nBYE.\n";
        assert_eq!(translated(srt, upper).unwrap(), expected);
    }

    #[test]
    fn long_translations_get_more_lines_and_labels_and_dialogues_stay() {
        let twice = |cues: &[&str]| Ok::<_, ()>(cues.iter().map(|cue| format!("{cue} {cue}")).collect());
        let srt = "1\n00:00:01,000 --> 00:00:02,500\nSPEAKER_00: a line of thirty characters no and another of thirty letters\n";
        let out = translated(srt, twice).unwrap();
        let lines: Vec<&str> = out.lines().skip(2).collect();
        assert!(lines.len() > 2 && lines[0].starts_with("SPEAKER_00: a line"), "{out}");
        assert!(lines.iter().skip(1).all(|line| line.len() <= 42), "{out}");
        assert_eq!(lines.join(" ").matches("thirty letters").count(), 2);
        let vtt = "WEBVTT\n\n00:01.000 --> 00:02.000\n<v Ann>It goes\n\n00:02.000 --> 00:03.000\n<v Ann>on and on.\n";
        let upper = |cues: &[&str]| {
            assert_eq!(cues, ["It goes on and on."]);
            Ok::<_, ()>(vec!["CONTINUA E CONTINUA.".to_owned()])
        };
        let expected =
            "WEBVTT\n\n00:01.000 --> 00:02.000\n<v Ann>CONTINUA\n\n00:02.000 --> 00:03.000\n<v Ann>E CONTINUA.\n";
        assert_eq!(translated(vtt, upper).unwrap(), expected);
        let dialogue = "00:01.000 --> 00:02.000\n- Yes.\n- No.\n";
        let same = |cues: &[&str]| Ok::<_, ()>(cues.iter().map(|cue| (*cue).to_owned()).collect());
        assert_eq!(translated(dialogue, same).unwrap(), dialogue);
    }

    #[test]
    fn what_is_no_subtitle_is_none() {
        for text in ["", "plain text", "a --> b", "00:00:01 -> 00:00:02\nx", "9:9:9:9 --> 1:2\nx", "1:nan --> 1:inf\nx"]
        {
            assert!(segments(text).is_none(), "{text}");
        }
    }
}
