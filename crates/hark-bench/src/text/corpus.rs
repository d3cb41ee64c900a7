//! The transcripts of `bench/text` and their references.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use hark_transcript::{Segment, TranscriptionResult};
use serde::Deserialize;

use super::failed;
use super::pattern::Pattern;
use crate::error::BenchError;

/// Words spoken in a second: 150 a minute.
const WORDS_PER_SECOND: f64 = 2.5;
/// Silence between two turns, in seconds.
const PAUSE: f64 = 0.6;
/// Words of the longest segment, unless a single sentence has more.
const SEGMENT_WORDS: usize = 30;

/// A transcript with its reference.
#[derive(Debug)]
pub(super) struct Document {
    /// The file's name without its ending.
    pub(super) name: String,
    pub(super) transcript: TranscriptionResult,
    pub(super) reference: Reference,
}

/// What a good answer contains.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Reference {
    pub(super) language: String,
    pub(super) title: String,
    pub(super) topics: Vec<Pattern>,
    pub(super) facts: Vec<Pattern>,
    pub(super) actions: Vec<ActionItem>,
    /// Names by type.
    pub(super) entities: BTreeMap<String, Vec<String>>,
    pub(super) questions: Vec<Question>,
}

/// Something that somebody is to do.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ActionItem {
    pub(super) task: Pattern,
    /// Matches nothing where nobody in particular is to do it.
    pub(super) who: Pattern,
    /// Matches nothing where no time was said.
    pub(super) due: Pattern,
}

/// A question about a transcript.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Question {
    pub(super) ask: String,
    /// None: the transcript does not say it.
    pub(super) answer: Option<Pattern>,
    /// Quotes from where the answer is.
    #[serde(default)]
    pub(super) at: Vec<String>,
}

impl Document {
    fn load(path: &Path) -> Result<Self, BenchError> {
        let read = |path: &Path| {
            std::fs::read_to_string(path).map_err(|source| BenchError::File { path: path.to_owned(), source })
        };
        let reference_path = path.with_extension("toml");
        let reference: Reference = toml::from_str(&read(&reference_path)?)
            .map_err(|error| failed(format!("{}: {error}", reference_path.display())))?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let transcript = transcript(&read(path)?, &reference.language);
        Ok(Document { name, transcript, reference })
    }

    /// Words of the transcript.
    pub(super) fn words(&self) -> usize {
        self.transcript.text.split_whitespace().count()
    }

    /// The segments that have some of a quote; none where the transcript does not have it.
    pub(super) fn segments_of(&self, quote: &str) -> Option<Range<usize>> {
        let (mut text, mut ends) = (String::new(), Vec::new());
        for segment in &self.transcript.segments {
            text.push_str(&segment.text);
            ends.push(text.len());
            text.push(' ');
        }
        let start = text.find(quote)?;
        let first = ends.partition_point(|&end| end <= start);
        let last = ends.partition_point(|&end| end < start + quote.len());
        Some(first..last + 1)
    }
}

/// The documents of a folder with these names, or all of them, the shortest first, at most `limit`.
pub(super) fn load(folder: &Path, names: &[String], limit: Option<usize>) -> Result<Vec<Document>, BenchError> {
    let entries = std::fs::read_dir(folder).map_err(|source| BenchError::File { path: folder.to_owned(), source })?;
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
    let mut documents: Vec<Document> = paths.iter().map(|path| Document::load(path)).collect::<Result<_, _>>()?;
    if let Some(unknown) = names.iter().find(|name| documents.iter().all(|document| document.name != **name)) {
        return Err(failed(format!("{} has no transcript {unknown}", folder.display())));
    }
    documents.retain(|document| names.is_empty() || names.contains(&document.name));
    documents.sort_by_key(|document| (document.words(), document.name.clone()));
    documents.truncate(limit.unwrap_or(usize::MAX));
    if documents.is_empty() {
        return Err(failed(format!("{} has no transcripts", folder.display())));
    }
    Ok(documents)
}

/// Lines of `Speaker: text` as a transcript with segments and times.
fn transcript(lines: &str, language: &str) -> TranscriptionResult {
    let mut segments: Vec<Segment> = Vec::new();
    let mut clock = 0.0;
    for line in lines.lines().filter(|line| !line.trim().is_empty()) {
        let (speaker, text) = line.split_once(": ").unwrap_or(("", line));
        for text in pack(&sentences(text)) {
            let seconds = text.split_whitespace().count() as f64 / WORDS_PER_SECOND;
            segments.push(Segment {
                start: round(clock),
                end: round(clock + seconds),
                text,
                speaker: Some(speaker.to_owned()).filter(|speaker| !speaker.is_empty()),
                ..Segment::default()
            });
            clock += seconds;
        }
        clock += PAUSE;
    }
    let text = segments.iter().map(|segment| segment.text.as_str()).collect::<Vec<_>>().join(" ");
    TranscriptionResult {
        text,
        language: language.to_owned(),
        duration: segments.last().map_or(0.0, |segment| segment.end),
        segments,
        ..TranscriptionResult::default()
    }
}

fn round(seconds: f64) -> f64 {
    (seconds * 100.0).round() / 100.0
}

/// The sentences of a turn. "Dr." and "Mr." end none.
pub(super) fn sentences(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut sentence: Vec<&str> = Vec::new();
    for word in text.split_whitespace() {
        sentence.push(word);
        let bare = word.trim_end_matches(['"', '“', '”', '»', ')', '*']);
        let is_end = bare.ends_with(['.', '!', '?', '…']);
        let is_title = matches!(bare, "Dr." | "Mr." | "Mrs." | "Prof." | "St.");
        let is_ordinal = bare.strip_suffix('.').is_some_and(|number| number.parse::<u32>().is_ok_and(|day| day <= 31));
        if is_end && !is_title && !is_ordinal {
            found.push(sentence.join(" "));
            sentence.clear();
        }
    }
    if !sentence.is_empty() {
        found.push(sentence.join(" "));
    }
    found
}

/// Sentences joined to segments.
fn pack(sentences: &[String]) -> Vec<String> {
    let count = |text: &str| text.split_whitespace().count();
    let mut segments: Vec<String> = Vec::new();
    for sentence in sentences {
        match segments.last_mut() {
            Some(segment) if count(segment) + count(sentence) <= SEGMENT_WORDS => {
                segment.push(' ');
                segment.push_str(sentence);
            }
            _ => segments.push(sentence.clone()),
        }
    }
    segments
}

#[cfg(test)]
mod tests {
    use super::*;

    fn documents() -> Vec<Document> {
        load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/text"), &[], None).unwrap()
    }

    #[test]
    fn there_are_twelve_transcripts_two_of_them_about_an_hour() {
        let documents = documents();
        assert_eq!(documents.len(), 12);
        assert_eq!(documents.iter().filter(|document| document.transcript.duration > 3300.0).count(), 2);
        for language in ["pt", "de"] {
            assert!(documents.iter().any(|document| document.reference.language == language));
        }
    }

    #[test]
    fn there_are_sixty_questions_of_which_fifteen_have_no_answer() {
        let documents = documents();
        let questions: Vec<&Question> = documents.iter().flat_map(|document| &document.reference.questions).collect();
        assert_eq!(questions.len(), 60);
        assert_eq!(questions.iter().filter(|question| question.answer.is_none()).count(), 15);
        assert!(questions.iter().all(|question| question.answer.is_some() != question.at.is_empty()));
    }

    #[test]
    fn what_references_quote_stands_in_the_text_and_answers_are_where_they_say() {
        for document in documents() {
            let english = document.reference.language == "en";
            for question in &document.reference.questions {
                let segments: Vec<Range<usize>> = question
                    .at
                    .iter()
                    .map(|quote| document.segments_of(quote).unwrap_or_else(|| panic!("{}: {quote}", document.name)))
                    .collect();
                // What is around the quote counts: an answer may begin in one sentence and end in the next.
                let around = segments.iter().flat_map(|range| range.start.saturating_sub(2)..range.end + 2);
                let text: Vec<&str> = around
                    .filter_map(|at| document.transcript.segments.get(at))
                    .map(|segment| segment.text.as_str())
                    .collect();
                if let Some(answer) = &question.answer {
                    assert!(answer.matches(&text.join(" "), english), "{}: {}", document.name, question.ask);
                }
            }
            let labels: Vec<&str> =
                document.transcript.segments.iter().filter_map(|segment| segment.speaker.as_deref()).collect();
            for name in document.reference.entities.values().flatten() {
                let is_there = document.transcript.text.contains(name) || labels.contains(&name.as_str());
                assert!(is_there, "{}: {name}", document.name);
            }
            for fact in &document.reference.facts {
                assert!(fact.matches(&document.transcript.text, english), "{}: {fact}", document.name);
            }
            for action in &document.reference.actions {
                assert!(action.task.matches(&document.transcript.text, english), "{}: {}", document.name, action.task);
            }
        }
    }

    #[test]
    fn a_turn_becomes_segments_with_times_that_follow_each_other() {
        let text = "Dr. Who: One two three. Four five six!\nAnn: Seven.";
        let transcript = transcript(text, "en");
        let segments = &transcript.segments;
        assert_eq!(segments.len(), 2);
        assert_eq!((segments[0].start, segments[0].end), (0.0, 2.4));
        assert_eq!((segments[1].start, segments[1].speaker.as_deref()), (3.0, Some("Ann")));
        assert_eq!(transcript.text, "One two three. Four five six! Seven.");
    }

    #[test]
    fn a_quote_over_two_segments_is_in_both() {
        let long = "a ".repeat(29) + "end. Begin again.";
        let document = Document {
            name: String::new(),
            transcript: transcript(&format!("Ann: {long}"), "en"),
            reference: toml::from_str(
                "language='en'\ntitle=''\ntopics=[]\nfacts=[]\nactions=[]\nquestions=[]\n[entities]",
            )
            .unwrap(),
        };
        assert_eq!(document.segments_of("end. Begin"), Some(0..2));
        assert_eq!(document.segments_of("Begin again."), Some(1..2));
        assert_eq!(document.segments_of("nowhere"), None);
    }

    #[test]
    fn transcripts_are_chosen_by_name_and_an_unknown_name_is_an_error() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/text");
        let load = |name: &str| load(&folder, &[name.to_owned()], None);
        assert_eq!(load("lecture").unwrap()[0].name, "lecture");
        assert!(load("letcure").unwrap_err().to_string().contains("no transcript letcure"));
    }

    #[test]
    fn titles_and_german_dates_end_no_sentence() {
        assert_eq!(
            sentences("Dr. Obi came. Am 9. Dezember geht's los!"),
            ["Dr. Obi came.", "Am 9. Dezember geht's los!"]
        );
    }
}
