//! Putting a window's words on the recording's clock, and joining them to sentences.

use hark_api::{Segment, Word};
use hark_whisper::decode::Decoded;

use crate::windows::Window;

/// A pause from which a sentence is cut even without a full stop.
const LONG_PAUSE: f64 = 1.2;
/// From this length on a segment ends at the next comma or short pause…
const LONG_SEGMENT: f64 = 12.0;
/// …and from this one on at the next word.
const LONGEST_SEGMENT: f64 = 24.0;
/// A pause that counts as a breath.
const BREATH: f64 = 0.35;

const SAMPLE_RATE: f64 = hark_media::SAMPLE_RATE as f64;

/// Where a window stands in its recording, without its samples.
#[derive(Debug, Clone)]
pub struct Place {
    /// Seconds from the start of the recording.
    pub start: f64,
    /// Seconds from the start of the recording.
    pub end: f64,
    /// First and last second of speech inside.
    speech: (f64, f64),
}

impl Place {
    /// The place of `window`.
    pub fn of(window: &Window) -> Self {
        let seconds = |sample: u64| sample as f64 / SAMPLE_RATE;
        let first = window.speech.first().map_or(window.start, |span| span.0);
        let last = window.speech.last().map_or(window.end(), |span| span.1);
        Place {
            start: seconds(window.start),
            end: seconds(window.end()),
            speech: (seconds(first), seconds(last)),
        }
    }
}

/// The segments of one decoded window.
pub fn segments_of(place: &Place, decoded: &Decoded) -> Vec<Segment> {
    if decoded.text.is_empty() {
        return Vec::new();
    }
    if decoded.words.is_empty() {
        return vec![Segment {
            start: round(place.speech.0),
            end: round(place.speech.1.max(place.speech.0)),
            text: decoded.text.clone(),
            speaker: None,
            confidence: mean_probability(&decoded.log_probs),
            words: Vec::new(),
        }];
    }
    let on_clock = |seconds: f64| round((place.start + seconds).clamp(place.start, place.end));
    let mut segments = Vec::new();
    let mut current: Vec<(Word, String)> = Vec::new();
    for word in &decoded.words {
        let timed = Word {
            word: word.text.trim().to_owned(),
            start: on_clock(word.start),
            end: on_clock(word.end),
            confidence: word.probability,
        };
        if timed.word.is_empty() {
            continue;
        }
        if let (Some((first, _)), Some((last, _))) = (current.first(), current.last())
            && ends_before(first, last, &timed)
        {
            segments.push(join(std::mem::take(&mut current)));
        }
        current.push((timed, word.text.clone()));
    }
    if !current.is_empty() {
        segments.push(join(current));
    }
    segments
}

/// Whether a segment from `first` to `last` ends before `next`.
fn ends_before(first: &Word, last: &Word, next: &Word) -> bool {
    let pause = next.start - last.end;
    let length = last.end - first.start;
    let stop = last.word.ends_with(['.', '?', '!', '。', '？', '！', '…', '।', '؟', '۔']) && !is_abbreviation(&last.word);
    let comma = last.word.ends_with([',', ';', ':', '，', '、', '；', '：', '،', '-', '—']);
    stop || pause >= LONG_PAUSE
        || (length >= LONG_SEGMENT && (comma || pause >= BREATH))
        || length >= LONGEST_SEGMENT
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
        speaker: None,
        confidence,
        words,
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

/// Mean of the tokens' probabilities, 0 to 1.
fn mean_probability(log_probs: &[f32]) -> f32 {
    if log_probs.is_empty() {
        return 0.0;
    }
    log_probs.iter().map(|log_prob| log_prob.exp()).sum::<f32>() / log_probs.len() as f32
}

/// Times are told to the millisecond.
fn round(seconds: f64) -> f64 {
    (seconds * 1000.0).round() / 1000.0
}
