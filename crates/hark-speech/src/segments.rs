//! Converts a window's words to the recording's times, and joins them to segments.

use hark_transcript::{Segment, Word};
use hark_whisper::decode::Decoded;

/// A pause that ends a segment even without a full stop.
const LONG_PAUSE: f64 = 1.2;
/// From this length on a segment ends at the next comma or short pause…
const LONG_SEGMENT: f64 = 12.0;
/// …and from this one on at the next word.
const LONGEST_SEGMENT: f64 = 24.0;
/// A short pause.
const BREATH: f64 = 0.35;

const SAMPLE_RATE: f64 = hark_media::SAMPLE_RATE as f64;

/// The segments of a decoded window at `samples` (first, and one after the last) of its recording.
///
/// `gaps` are parts of the window that were decoded on their own: no segment spans one.
pub fn segments_of(samples: (u64, u64), decoded: &Decoded, gaps: &[(f64, f64)]) -> Vec<Segment> {
    let (start, end) = (samples.0 as f64 / SAMPLE_RATE, samples.1 as f64 / SAMPLE_RATE);
    let on_clock = |seconds: f64| round((start + seconds).clamp(start, end));
    let gap_between = |left: f64, right: f64| gaps.iter().any(|gap| left <= gap.0 + 0.01 && right >= gap.1 - 0.01);
    let mut segments = Vec::new();
    let mut current: Vec<(Word, String)> = Vec::new();
    for word in &decoded.words {
        let (from, to) = outside(gaps, word.start, word.end);
        let timed = Word {
            word: word.text.trim().to_owned(),
            start: on_clock(from),
            end: on_clock(to),
            confidence: word.probability,
        };
        if timed.word.is_empty() {
            continue;
        }
        if let (Some((first, _)), Some((last, _))) = (current.first(), current.last())
            && (ends_before(first, last, &timed) || gap_between(last.end - start, from))
        {
            segments.push(join(std::mem::take(&mut current)));
        }
        current.push((timed, word.text.clone()));
    }
    if !current.is_empty() {
        segments.push(join(current));
    }
    let language = Some(&decoded.language).filter(|code| !code.is_empty());
    segments.iter_mut().for_each(|segment| segment.language = language.cloned());
    segments
}

/// A word's times with what lies inside a gap cut off.
fn outside(gaps: &[(f64, f64)], mut start: f64, mut end: f64) -> (f64, f64) {
    for gap in gaps {
        if start < gap.0 && end > gap.0 {
            end = gap.0;
        } else if start >= gap.0 && start < gap.1 {
            start = gap.1.min(end.max(gap.1));
            end = end.max(start);
        }
    }
    (start, end)
}

/// Whether a segment from `first` to `last` ends before `next`.
fn ends_before(first: &Word, last: &Word, next: &Word) -> bool {
    let pause = next.start - last.end;
    let length = last.end - first.start;
    let stop = ends_sentence(&last.word);
    let comma = last.word.ends_with([',', ';', ':', '，', '、', '；', '：', '،', '-', '—']);
    stop || pause >= LONG_PAUSE || (length >= LONG_SEGMENT && (comma || pause >= BREATH)) || length >= LONGEST_SEGMENT
}

/// Whether a text ends a sentence.
pub fn ends_sentence(text: &str) -> bool {
    let last_word = text.trim_end().rsplit(' ').next().unwrap_or_default();
    last_word.ends_with(['.', '?', '!', '。', '？', '！', '…', '।', '؟', '۔']) && !is_abbreviation(last_word)
}

/// Titles and initials end in a full stop without ending a sentence.
fn is_abbreviation(word: &str) -> bool {
    let bare = word.trim_start_matches(['"', '\'', '(', '“', '‘']);
    matches!(bare, "Mr." | "Mrs." | "Ms." | "Dr." | "St." | "Prof." | "Jr." | "Sr." | "vs." | "e.g." | "i.e.")
        || (bare.chars().count() == 2 && bare.starts_with(char::is_uppercase))
}

/// One segment of words that follow each other; the text keeps the spacing of the tokens.
fn join(words: Vec<(Word, String)>) -> Segment {
    let text: String = words.iter().map(|(_, raw)| raw.as_str()).collect();
    let words: Vec<Word> = words.into_iter().map(|(word, _)| word).collect();
    let confidence = words.iter().map(|word| word.confidence).sum::<f32>() / words.len().max(1) as f32;
    Segment {
        start: words.first().map_or(0.0, |word| word.start),
        end: words.last().map_or(0.0, |word| word.end),
        text: text.trim().to_owned(),
        confidence,
        words,
        ..Segment::default()
    }
}

/// Makes times run forward over the borders of windows.
pub fn straighten(segments: &mut [Segment]) {
    let mut latest = 0f64;
    for segment in segments {
        for word in &mut segment.words {
            word.start = word.start.max(latest);
            word.end = word.end.max(word.start);
            latest = word.end;
        }
        segment.start = segment.words.first().map_or(segment.start.max(latest), |word| word.start);
        segment.end = segment.words.last().map_or(segment.end.max(segment.start), |word| word.end);
        latest = latest.max(segment.end);
    }
}

/// Inserts segments, which are in order, where they belong among others, so that times still run forward.
pub fn insert_in_order(segments: &mut Vec<Segment>, new: impl IntoIterator<Item = Segment>) {
    let mut first = segments.len();
    for segment in new {
        let at = segments.partition_point(|other| other.start <= segment.start);
        segments.insert(at, segment);
        first = first.min(at);
    }
    straighten(&mut segments[first.saturating_sub(1)..]);
}

/// Times are told to the millisecond.
pub fn round(seconds: f64) -> f64 {
    (seconds * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(start: f64, end: f64) -> Segment {
        Segment { start, end, text: start.to_string(), ..Segment::default() }
    }

    #[test]
    fn windows_that_are_decoded_out_of_order_are_put_in_order_and_times_run_forward() {
        let mut all = Vec::new();
        insert_in_order(&mut all, [segment(60.0, 70.0), segment(71.0, 80.0)]);
        insert_in_order(&mut all, [segment(0.0, 10.0), segment(10.0, 20.0)]);
        insert_in_order(&mut all, [segment(30.0, 60.5)]);
        // A part that was left out, heard again.
        insert_in_order(&mut all, [segment(20.0, 31.0)]);
        insert_in_order(&mut all, []);
        let texts: Vec<&str> = all.iter().map(|segment| segment.text.as_str()).collect();
        assert_eq!(texts, ["0", "10", "20", "30", "60", "71"]);
        let times: Vec<(f64, f64)> = all.iter().map(|segment| (segment.start, segment.end)).collect();
        let expected = [(0.0, 10.0), (10.0, 20.0), (20.0, 31.0), (31.0, 60.5), (60.5, 70.0), (71.0, 80.0)];
        assert_eq!(times, expected);
    }
}
