//! Plain text: a paragraph for each turn, cut where the speaker paused long or the paragraph grew long.

use hark_transcript::TranscriptionResult;

use crate::paragraphs::paragraphs;

pub(crate) fn render(transcript: &TranscriptionResult) -> String {
    let written: Vec<String> = paragraphs(transcript)
        .into_iter()
        .map(|paragraph| match paragraph.speaker {
            Some(speaker) if paragraph.begins_turn => format!("{speaker}: {}\n", paragraph.text),
            _ => format!("{}\n", paragraph.text),
        })
        .collect();
    written.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use hark_transcript::Segment;

    fn segment(start: f64, end: f64, text: &str, speaker: Option<&str>) -> Segment {
        Segment { start, end, text: text.into(), speaker: speaker.map(Into::into), ..Default::default() }
    }

    fn rendered(segments: Vec<Segment>) -> String {
        render(&TranscriptionResult { segments, ..Default::default() })
    }

    #[test]
    fn segments_run_on_and_a_long_pause_begins_a_paragraph() {
        let text = rendered(vec![
            segment(0.0, 2.0, "First sentence.", None),
            segment(2.2, 4.0, "Second one.", None),
            segment(9.0, 11.0, "After a while.", None),
        ]);
        assert_eq!(text, "First sentence. Second one.\n\nAfter a while.\n");
    }

    #[test]
    fn a_lone_voice_without_a_name_gets_no_label() {
        let of = |speakers: [&str; 2]| {
            rendered(vec![segment(0.0, 1.0, "One.", Some(speakers[0])), segment(1.0, 2.0, "Two.", Some(speakers[1]))])
        };
        assert_eq!(of(["SPEAKER_00", "SPEAKER_00"]), "One. Two.\n");
        assert_eq!(of(["SPEAKER_00", "SPEAKER_01"]), "SPEAKER_00: One.\n\nSPEAKER_01: Two.\n");
        assert_eq!(of(["Ann", "Ann"]), "Ann: One. Two.\n");
    }

    #[test]
    fn each_turn_begins_a_paragraph_with_its_speaker() {
        let text = rendered(vec![
            segment(0.0, 2.0, "Hello there.", Some("Ann")),
            segment(2.0, 3.0, "How are you?", Some("Ann")),
            segment(3.0, 4.0, "Fine.", Some("Bob")),
        ]);
        assert_eq!(text, "Ann: Hello there. How are you?\n\nBob: Fine.\n");
    }

    #[test]
    fn chinese_segments_join_without_a_space() {
        let text = rendered(vec![segment(0.0, 1.0, "你好，", None), segment(1.0, 2.0, "世界。", None)]);
        assert_eq!(text, "你好，世界。\n");
    }

    #[test]
    fn a_speech_without_pauses_is_cut_after_a_sentence() {
        let sentences = (0..60).map(|n| segment(n as f64, n as f64 + 1.0, "A sentence of thirty columns.", None));
        let text = rendered(sentences.collect());
        assert!(text.split("\n\n").count() >= 2);
        assert!(text.split("\n\n").all(|p| p.trim_end().ends_with("columns.") && p.len() < 900));
    }

    #[test]
    fn silence_gives_an_empty_file() {
        assert_eq!(rendered(Vec::new()), "");
    }
}
