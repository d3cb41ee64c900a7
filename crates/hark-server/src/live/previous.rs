//! The part of a resumed session that another process handled: times, speaker numbers and text continue from there.

use hark_api::{Segment, TranscriptionResult};
use hark_speech::live::{LiveEvent, LiveText};
use hark_store::ResumedLive;

/// The stored part of a session that another process handled; empty for a session that started here.
#[derive(Debug, Default)]
pub(crate) struct PreviousPart {
    /// Seconds of audio up to the end of the last stored text: later audio is processed again if the client still has it.
    pub(crate) seconds: f64,
    /// Number of speaker labels used.
    speakers: usize,
    segments: Vec<Segment>,
}

impl PreviousPart {
    pub(crate) fn new(resumed: ResumedLive) -> Self {
        let segments = resumed.segments;
        let labels = segments.iter().flat_map(|segment| segment.speaker.iter().chain(&segment.overlapping_speakers));
        PreviousPart {
            seconds: segments.last().map_or(0.0, |last| last.end),
            speakers: labels.filter_map(|label| label_number(label)).max().map_or(0, |last| last + 1),
            segments,
        }
    }

    /// Shifts an event to the time of the whole session.
    pub(crate) fn event(&self, event: LiveEvent) -> LiveEvent {
        match event {
            LiveEvent::Partial { text, start } => LiveEvent::Partial { text, start: start + self.seconds },
            LiveEvent::Text(mut text) => {
                self.text(&mut text);
                LiveEvent::Text(text)
            }
            LiveEvent::Final(result) => LiveEvent::Final(Box::new(self.whole(*result))),
        }
    }

    fn text(&self, text: &mut LiveText) {
        let LiveText { start, end, words, speaker, .. } = text;
        *start += self.seconds;
        *end += self.seconds;
        for word in words {
            word.start += self.seconds;
            word.end += self.seconds;
        }
        speaker.iter_mut().for_each(|label| self.label(label));
    }

    /// Shifts segments of this process to the time of the whole session.
    pub(crate) fn segments(&self, mut segments: Vec<Segment>) -> Vec<Segment> {
        if self.segments.is_empty() {
            return segments;
        }
        for segment in &mut segments {
            segment.start += self.seconds;
            segment.end += self.seconds;
            for word in &mut segment.words {
                word.start += self.seconds;
                word.end += self.seconds;
            }
            segment.speaker.iter_mut().chain(&mut segment.overlapping_speakers).for_each(|label| self.label(label));
        }
        segments
    }

    /// The result of the whole session, of which `result` is the part of this process.
    pub(crate) fn whole(&self, result: TranscriptionResult) -> TranscriptionResult {
        if self.segments.is_empty() {
            return result;
        }
        let segments = [self.segments.clone(), self.segments(result.segments)].concat();
        let mut speakers: Vec<String> = Vec::new();
        for label in segments.iter().filter_map(|segment| segment.speaker.as_ref()) {
            if !speakers.contains(label) {
                speakers.push(label.clone());
            }
        }
        TranscriptionResult {
            text: segments.iter().map(|segment| segment.text.as_str()).collect::<Vec<_>>().join(" "),
            duration: result.duration + self.seconds,
            speakers,
            segments,
            ..result
        }
    }

    /// Renumbers a speaker of this process after the previous ones: whether they are the same person is unknown.
    fn label(&self, label: &mut String) {
        if let Some(own) = label_number(label) {
            *label = format!("SPEAKER_{:02}", own + self.speakers);
        }
    }
}

/// The number of a speaker's label.
fn label_number(label: &str) -> Option<usize> {
    label.strip_prefix("SPEAKER_")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hark_api::Word;

    fn segment(start: f64, text: &str, speaker: &str) -> Segment {
        let words = vec![Word { word: text.into(), start, end: start + 1.0, confidence: 0.9 }];
        Segment {
            start,
            end: start + 1.0,
            text: text.into(),
            speaker: Some(speaker.into()),
            words,
            ..Segment::default()
        }
    }

    #[test]
    fn text_after_a_crash_follows_the_stored_text() {
        let previous = PreviousPart {
            seconds: 10.0,
            speakers: 2,
            segments: vec![segment(2.0, "Hello.", "SPEAKER_01"), segment(9.0, "Hi.", "SPEAKER_00")],
        };
        let result = TranscriptionResult {
            text: "Again.".into(),
            duration: 5.0,
            segments: vec![segment(1.0, "Again.", "SPEAKER_00")],
            speakers: vec!["SPEAKER_00".into()],
            ..TranscriptionResult::default()
        };
        let whole = previous.whole(result.clone());
        assert_eq!((whole.text.as_str(), whole.duration), ("Hello. Hi. Again.", 15.0));
        assert_eq!(whole.speakers, ["SPEAKER_01", "SPEAKER_00", "SPEAKER_02"]);
        assert_eq!((whole.segments[2].start, whole.segments[2].words[0].end), (11.0, 12.0));
        assert_eq!(PreviousPart::default().whole(result.clone()), result, "a session that started here is unchanged");
    }
}
