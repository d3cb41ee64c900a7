//! When the draft of a transcript is written, and how much of it.
//!
//! A draft is written whole, so the wait between two writes grows with it: a job writes at most [`BYTES_PER_SECOND`], however long its recording is. An
//! hour of speech is about 80 kB without its words' times, which is why those are left out.

use std::time::{Duration, Instant};

use hark_api::Segment;

/// The shortest wait between two writes.
const MIN_INTERVAL: Duration = Duration::from_secs(1);
/// Bytes of drafts that a job writes in a second.
const BYTES_PER_SECOND: f64 = 65_536.0;
/// The longest draft, some twelve hours of speech; what follows is there when the transcript is completed.
const MAX_BYTES: usize = 1 << 20;
/// Bytes of a stored segment beside its text.
const SEGMENT_BYTES: usize = 40;

/// The draft as it was last given out.
pub(super) struct DraftWriter {
    segments: usize,
    bytes: usize,
    next: Instant,
}

impl DraftWriter {
    pub(super) fn new() -> Self {
        DraftWriter { segments: 0, bytes: 0, next: Instant::now() }
    }

    /// The segments to write now, which only grow; `None` if the draft was just written, or has not changed.
    pub(super) fn due(&mut self, segments: &[Segment], now: Instant) -> Option<Vec<Segment>> {
        // The same number are the same segments.
        if segments.len() == self.segments || now < self.next {
            return None;
        }
        self.segments = segments.len();
        let (mut bytes, mut fitting) = (0, 0);
        for segment in segments {
            let more = segment.text.len() + SEGMENT_BYTES;
            if bytes + more > MAX_BYTES {
                break;
            }
            (bytes, fitting) = (bytes + more, fitting + 1);
        }
        if bytes == self.bytes {
            return None;
        }
        self.bytes = bytes;
        self.next = now + MIN_INTERVAL.max(Duration::from_secs_f64(bytes as f64 / BYTES_PER_SECOND));
        Some(segments[..fitting].to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segments(count: usize, bytes: usize) -> Vec<Segment> {
        vec![Segment { text: "a".repeat(bytes - SEGMENT_BYTES), ..Segment::default() }; count]
    }

    #[test]
    fn a_draft_is_due_when_it_has_grown_and_at_most_once_a_second() {
        let mut writer = DraftWriter::new();
        let begun = writer.next;
        let at = |milliseconds| begun + Duration::from_millis(milliseconds);
        assert_eq!(writer.due(&[], at(0)), None);
        assert_eq!(writer.due(&segments(1, 100), at(0)).unwrap().len(), 1);
        assert_eq!(writer.due(&segments(2, 100), at(900)), None);
        assert_eq!(writer.due(&segments(2, 100), at(1000)).unwrap().len(), 2);
        assert_eq!(writer.due(&segments(2, 100), at(9000)), None);
    }

    #[test]
    fn a_long_recording_writes_no_more_a_second_than_a_short_one() {
        let mut writer = DraftWriter::new();
        let begun = writer.next;
        // Ten hours of speech that are decoded in ten minutes.
        let all = segments(6000, 150);
        let mut written = Vec::new();
        for tenth in 0..6000 {
            let so_far = &all[..tenth + 1];
            if let Some(draft) = writer.due(so_far, begun + Duration::from_millis(100 * tenth as u64)) {
                written.push(draft.len() * 150);
            }
        }
        let total: usize = written.iter().sum();
        assert!(total < 40 << 20, "{total} bytes in {} writes", written.len());
        assert!(*written.last().unwrap() > 800_000, "the draft goes on to the end");
    }

    #[test]
    fn a_draft_has_a_largest_size() {
        let mut writer = DraftWriter::new();
        let now = writer.next;
        let most = MAX_BYTES / 1000;
        assert_eq!(writer.due(&segments(most + 5, 1000), now).unwrap().len(), most);
        // Nothing that would be written has changed.
        assert_eq!(writer.due(&segments(most + 6, 1000), now + Duration::from_secs(60)), None);
    }
}
