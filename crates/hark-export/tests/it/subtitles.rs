//! What a player and a viewer may rely on, whatever the transcript looks like.

use crate::support::{Dice, LATIN, MIXED, letters, random_transcript};
use hark_export::{Format, Options, SubtitleRules, render};
use hark_transcript::{Segment, TranscriptionResult, Word};
use unicode_width::UnicodeWidthStr;

/// A cue as a player reads it back.
struct Shown {
    start: u64,
    end: u64,
    lines: Vec<String>,
}

fn time(text: &str) -> u64 {
    let digits: Vec<u64> = text.split([':', ',', '.']).map(|part| part.parse().unwrap()).collect();
    ((digits[0] * 60 + digits[1]) * 60 + digits[2]) * 1000 + digits[3]
}

/// Reads SubRip strictly: a number, a time line, at least one line of text, an empty line.
fn parse_srt(srt: &str) -> Vec<Shown> {
    let mut cues = Vec::new();
    for (n, block) in srt.trim_end().split("\n\n").filter(|block| !block.is_empty()).enumerate() {
        let mut lines = block.lines();
        assert_eq!(lines.next().unwrap(), (n + 1).to_string());
        let (start, end) = lines.next().unwrap().split_once(" --> ").unwrap();
        assert!(start.contains(',') && end.contains(','));
        let lines: Vec<String> = lines.map(str::to_owned).collect();
        assert!(!lines.is_empty() && lines.iter().all(|line| !line.trim().is_empty()));
        cues.push(Shown { start: time(start), end: time(end), lines });
    }
    cues
}

#[test]
fn times_that_no_recording_has_are_no_reason_to_panic() {
    for start in [f64::MAX, 1e300, 1e17, f64::INFINITY, f64::NAN, -1e300] {
        let segment = |text: &str, start: f64| Segment { start, end: start, text: text.into(), ..Segment::default() };
        let segments = vec![segment("one.", start), segment("two.", start), segment("three.", 1.0)];
        let transcript = TranscriptionResult { segments, duration: start, ..TranscriptionResult::default() };
        let cues = parse_srt(&render(&transcript, Format::Srt, &Options::default()).unwrap());
        assert!(!cues.is_empty() && cues.is_sorted_by(|one, next| one.end <= next.start), "{start}");
        assert!(cues.iter().all(|cue| cue.start < cue.end), "{start}");
    }
}

#[test]
fn whatever_is_said_the_cues_keep_every_word_their_order_and_the_limits() {
    let mut dice = Dice(7);
    for round in 0..400 {
        let vocabulary = if round % 2 == 0 { LATIN } else { MIXED };
        let transcript = random_transcript(&mut dice, vocabulary, round % 3 != 0);
        let rules = SubtitleRules {
            max_line_width: [42, 32, 12, 60][round % 4],
            max_lines: [2, 1, 3][round % 3],
            ..Default::default()
        };
        let options = Options { subtitles: rules.clone(), ..Default::default() };
        let cues = parse_srt(&render(&transcript, Format::Srt, &options).unwrap());

        let shown: String = cues.iter().flat_map(|cue| &cue.lines).map(|line| letters(line)).collect();
        let said: String = transcript.segments.iter().map(|segment| letters(&segment.text)).collect();
        assert_eq!(shown, said, "round {round}");

        for cue in &cues {
            assert!(cue.start < cue.end, "round {round}: a cue without time at {}", cue.start);
            assert!(cue.end - cue.start <= 7000, "round {round}: a cue of {} ms", cue.end - cue.start);
            assert!(cue.lines.len() <= rules.max_lines, "round {round}: {:?}", cue.lines);
            for line in &cue.lines {
                let one_word = !line.contains(' ') && line.is_ascii();
                assert!(line.width() <= rules.max_line_width || one_word, "round {round}: {line:?}");
            }
        }
        for pair in cues.windows(2) {
            assert!(pair[0].end <= pair[1].start, "round {round}: cues overlap at {}", pair[1].start);
        }
    }
}

#[test]
fn no_word_of_a_spaced_script_is_ever_split() {
    let mut dice = Dice(11);
    for _ in 0..100 {
        let transcript = random_transcript(&mut dice, LATIN, true);
        let options =
            Options { subtitles: SubtitleRules { max_line_width: 15, ..Default::default() }, ..Default::default() };
        for cue in parse_srt(&render(&transcript, Format::Srt, &options).unwrap()) {
            for word in cue.lines.iter().flat_map(|line| line.split(' ')) {
                assert!(LATIN.contains(&word), "{word:?}");
            }
        }
    }
}

fn spoken(text: &str, words_a_second: f64) -> TranscriptionResult {
    let words: Vec<Word> = text
        .split(' ')
        .enumerate()
        .map(|(n, word)| {
            let start = n as f64 / words_a_second;
            Word { word: word.into(), start, end: start + 0.9 / words_a_second, confidence: 1.0 }
        })
        .collect();
    let end = words.last().unwrap().end;
    let segment = Segment { end, text: text.into(), words, ..Default::default() };
    TranscriptionResult { duration: end + 5.0, segments: vec![segment], ..Default::default() }
}

fn cue_texts(transcript: &TranscriptionResult) -> Vec<String> {
    let srt = render(transcript, Format::Srt, &Options::default()).unwrap();
    parse_srt(&srt).into_iter().map(|cue| cue.lines.join(" / ")).collect()
}

#[test]
fn cues_end_with_the_sentence_and_inside_a_long_one_with_the_clause() {
    let transcript = spoken(
        "It was the best of times, it was the worst of times, it was the age of wisdom, it was the age of foolishness. \
         Nobody complained.",
        2.5,
    );
    assert_eq!(
        cue_texts(&transcript),
        [
            "It was the best of times, / it was the worst of times,",
            "it was the age of wisdom, / it was the age of foolishness.",
            "Nobody complained."
        ]
    );
}

#[test]
fn short_answers_share_a_cue_instead_of_flashing_by() {
    assert_eq!(cue_texts(&spoken("Yes. No. I see.", 4.0)), ["Yes. No. I see."]);
}

#[test]
fn a_cue_stays_long_enough_to_read_but_leaves_a_gap_before_the_next() {
    let mut transcript = spoken("Good morning everyone in the room.", 20.0);
    let later = Segment { start: 10.0, end: 12.0, text: "And welcome.".into(), ..Default::default() };
    transcript.segments.push(later);
    transcript.duration = 20.0;
    let cues = parse_srt(&render(&transcript, Format::Srt, &Options::default()).unwrap());
    assert_eq!((cues[0].start, cues[0].end), (0, 1700), "34 columns at 20 a second");

    let flowing = spoken("One two three four five six seven eight. Nine ten eleven twelve thirteen fourteen.", 3.0);
    let cues = parse_srt(&render(&flowing, Format::Srt, &Options::default()).unwrap());
    assert_eq!(cues.len(), 2);
    assert_eq!(cues[1].start - cues[0].end, 83);
}

#[test]
fn speakers_are_a_prefix_in_subrip_and_a_voice_in_webvtt() {
    let segment = |start: f64, text: &str, speaker: &str| Segment {
        start,
        end: start + 2.0,
        text: text.into(),
        speaker: Some(speaker.into()),
        ..Default::default()
    };
    let transcript = TranscriptionResult {
        duration: 6.0,
        segments: vec![segment(0.0, "Is 3 < 4 & 5 > 4?", "Ann"), segment(3.0, "a --> b", "Bob <b>")],
        speakers: vec!["Ann".into(), "Bob <b>".into()],
        ..Default::default()
    };
    let options = Options::default();
    assert_eq!(
        render(&transcript, Format::Srt, &options).unwrap(),
        "1\n00:00:00,000 --> 00:00:02,000\nAnn: Is 3 < 4 & 5 > 4?\n\n2\n00:00:03,000 --> 00:00:05,000\nBob <b>: a → b\n"
    );
    assert_eq!(
        render(&transcript, Format::Vtt, &options).unwrap(),
        "WEBVTT\n\n00:00:00.000 --> 00:00:02.000\n<v Ann>Is 3 &lt; 4 &amp; 5 &gt; 4?\n\n\
         00:00:03.000 --> 00:00:05.000\n<v Bob &lt;b&gt;>a --&gt; b\n"
    );
}

#[test]
fn json_is_the_transcript_itself_in_both_layouts() {
    let transcript = random_transcript(&mut Dice(3), MIXED, true);
    for pretty_json in [true, false] {
        let json = render(&transcript, Format::Json, &Options { pretty_json, ..Default::default() }).unwrap();
        assert_eq!(serde_json::from_str::<TranscriptionResult>(&json).unwrap(), transcript);
        assert_eq!(json.trim_end().lines().count() > 1, pretty_json);
    }
}

#[test]
fn nothing_said_gives_files_that_players_accept() {
    let empty = TranscriptionResult { duration: 10.0, ..Default::default() };
    assert_eq!(render(&empty, Format::Srt, &Options::default()).unwrap(), "");
    assert_eq!(render(&empty, Format::Vtt, &Options::default()).unwrap(), "WEBVTT\n");
}

#[test]
fn a_day_of_speech_is_cut_in_seconds() {
    let mut transcript = TranscriptionResult { duration: 86_400.0, ..Default::default() };
    for n in 0..17_280 {
        let start = n as f64 * 5.0;
        let text = "this is what people say in about five seconds, again and again and".to_owned();
        transcript.segments.push(Segment { start, end: start + 5.0, text, ..Default::default() });
    }
    let begun = std::time::Instant::now();
    let cues = parse_srt(&render(&transcript, Format::Srt, &Options::default()).unwrap());
    assert!(cues.len() > 10_000);
    assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
}
