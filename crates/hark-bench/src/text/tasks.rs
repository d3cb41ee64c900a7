//! Summaries, analyses and generated content of each transcript, against their schemas and references.

use hark_text::{AnalysisType, GenerationType, SummaryStyle, Task};
use serde::Serialize;
use serde_json::{Value, json};

use super::corpus::{ActionItem, Document, Reference};
use super::http::Client;
use super::pattern::{contains, words};
use super::{Share, corpus, schema};

const STYLES: [SummaryStyle; 5] = [
    SummaryStyle::Detailed,
    SummaryStyle::Brief,
    SummaryStyle::Executive,
    SummaryStyle::ActionItems,
    SummaryStyle::BulletPoints,
];
pub(super) const ANALYSES: [AnalysisType; 6] = [
    AnalysisType::Entities,
    AnalysisType::ActionItems,
    AnalysisType::Topics,
    AnalysisType::Questions,
    AnalysisType::Sentiment,
    AnalysisType::PiiRedact,
];
pub(super) const GENERATIONS: [GenerationType; 10] = [
    GenerationType::KeyQuotes,
    GenerationType::ChapterMarkers,
    GenerationType::Flashcards,
    GenerationType::Quiz,
    GenerationType::BlogPost,
    GenerationType::SocialMedia,
    GenerationType::MeetingNotes,
    GenerationType::StudyGuide,
    GenerationType::ShowNotes,
    GenerationType::Newsletter,
];

/// Types of names that references list completely, so that others are wrong.
const LISTED_TYPES: [&str; 3] = ["person", "organization", "location"];

/// What the tasks gave on one transcript.
#[derive(Debug, Default, Serialize)]
pub(super) struct Figures {
    pub(super) transcript: String,
    /// Answers that are valid against their schema.
    pub(super) valid: Share,
    /// Facts that the detailed summary names.
    pub(super) facts: Share,
    /// Names and numbers of the detailed summary that the transcript does not have.
    pub(super) unfounded: Vec<String>,
    /// Names of the reference that were found.
    pub(super) entities_found: Share,
    /// Names of persons, organizations and places that are in the reference.
    pub(super) entities_right: Share,
    pub(super) actions_found: Share,
    /// Of the action items found that have a due date, those with the right one.
    pub(super) due_right: Share,
    pub(super) topics_found: Share,
    /// Quotes that stand in the transcript word by word, under their speaker and at their time.
    pub(super) quotes_verbatim: Share,
    pub(super) seconds: f64,
    /// What was missed or wrong, to be checked by a reader.
    pub(super) misses: Vec<String>,
}

/// Runs all tasks on a transcript, or the few that references judge; others are only checked for their shape.
pub(super) fn run(client: &Client, id: i64, document: &Document, few: bool) -> Figures {
    let mut figures = Figures { transcript: document.name.clone(), ..Figures::default() };
    let start = std::time::Instant::now();
    for style in STYLES.into_iter().take(if few { 1 } else { STYLES.len() }) {
        let answer = ask(client, id, "summarize", &json!({ "style": style }), &mut figures);
        check(&mut figures, Task::Summarize(style), without_cached(&answer));
        if style == SummaryStyle::Detailed {
            summary(&mut figures, document, answer["summary"].as_str().unwrap_or_default());
        }
    }
    for kind in ANALYSES.into_iter().take(if few { 3 } else { ANALYSES.len() }) {
        let answer = ask(client, id, "analyze", &json!({ "type": kind }), &mut figures);
        check(&mut figures, Task::Analyze(kind), answer["result"].clone());
        let list = |name: &str| answer["result"][name].as_array().cloned().unwrap_or_default();
        match kind {
            AnalysisType::Entities => entities(&mut figures, document, &list("entities")),
            AnalysisType::ActionItems => actions(&mut figures, document, &list("action_items")),
            AnalysisType::Topics => topics(&mut figures, document, &list("topics")),
            _ => {}
        }
    }
    for kind in GENERATIONS.into_iter().take(if few { 1 } else { GENERATIONS.len() }) {
        let answer = ask(client, id, "generate", &json!({ "type": kind }), &mut figures);
        check(&mut figures, Task::Generate(kind), answer["result"].clone());
        if kind == GenerationType::KeyQuotes {
            quotes(&mut figures, document, answer["result"]["items"].as_array().map_or(&[], Vec::as_slice));
        }
    }
    figures.seconds = start.elapsed().as_secs_f64();
    // Of a run that is broken off, the transcripts that are through are not lost.
    eprintln!("  {}", serde_json::to_string(&figures).unwrap_or_default());
    figures
}

/// An answer; one that is refused counts as invalid, since nobody got what they asked for.
fn ask(client: &Client, id: i64, task: &str, body: &Value, figures: &mut Figures) -> Value {
    let start = std::time::Instant::now();
    let answer = client.post(&format!("/v1/transcripts/{id}/{task}"), body).unwrap_or_else(|error| {
        figures.misses.push(format!("failed: {task} {body}: {error}"));
        Value::Null
    });
    eprintln!("  {}: {task} {body} {:.1} s", figures.transcript, start.elapsed().as_secs_f64());
    answer
}

/// A summary as its schema describes it: transcripts add whether it was stored.
fn without_cached(answer: &Value) -> Value {
    let mut answer = answer.clone();
    if let Some(fields) = answer.as_object_mut() {
        fields.remove("cached");
    }
    answer
}

fn check(figures: &mut Figures, task: Task, result: Value) {
    let violation = schema::violation(&result, &task.result_schema());
    figures.valid.count(violation.is_none());
    if let Some(violation) = violation {
        eprintln!("  {}: invalid: {task:?}: {violation}", figures.transcript);
        figures.misses.push(format!("invalid: {task:?}: {violation}"));
    }
}

fn summary(figures: &mut Figures, document: &Document, summary: &str) {
    let english = document.reference.language == "en";
    let sentences: Vec<String> = summary.lines().flat_map(corpus::sentences).collect();
    // A fact may be told in two sentences: "The release was moved. It is now on March 21."
    let windows: Vec<Vec<String>> =
        (0..sentences.len()).map(|at| words(&sentences[at..sentences.len().min(at + 2)].join(" "), english)).collect();
    for fact in &document.reference.facts {
        let is_named = windows.iter().any(|window| fact.matches_words(window, english));
        figures.facts.count(is_named);
        if !is_named {
            figures.misses.push(format!("fact not named: {fact}"));
        }
    }
    figures.unfounded = unfounded(document, &sentences);
    for found in &figures.unfounded {
        figures.misses.push(format!("summary has {found}, the transcript has not"));
    }
}

/// Capitalised words inside sentences and numbers in digits that the transcript does not have. This is not the check of `hark-text`,
/// which removes such sentences: what that overlooks should be seen here.
fn unfounded(document: &Document, sentences: &[String]) -> Vec<String> {
    let Reference { language, .. } = &document.reference;
    let english = language == "en";
    let speakers = document.transcript.segments.iter().filter_map(|segment| segment.speaker.as_deref());
    let mut text: Vec<String> = vec![document.transcript.text.clone()];
    text.extend(speakers.map(str::to_owned));
    let text = words(&text.join(" \n "), english);
    let mut found = Vec::new();
    for sentence in sentences {
        let sentence = sentence.trim_start_matches(['-', '*', '•', '#', ' ']);
        for (at, word) in sentence.split_whitespace().enumerate() {
            let bare = word.trim_matches(|letter: char| !letter.is_alphanumeric());
            let bare = bare.strip_suffix("'s").or_else(|| bare.strip_suffix("’s")).unwrap_or(bare);
            let is_number = bare.chars().any(|letter| letter.is_ascii_digit());
            let is_name = language != "de"
                && bare.chars().next().is_some_and(char::is_uppercase)
                && !word.contains("**")
                && (at > 0 || english && !begins_sentences(bare));
            let is_there = || contains(&text, &words(bare, english));
            if (is_number || is_name) && bare.chars().count() > 1 && !is_there() {
                found.push(bare.to_owned());
            }
        }
    }
    found
}

/// Words that summaries begin sentences with and that are nobody's name.
fn begins_sentences(word: &str) -> bool {
    const STARTERS: &str = "additional additionally after all although among an another as at before both by concerns despite discussion during each every \
        finally following further furthermore however in instead it its key lastly later meanwhile moreover most next no once other others overall \
        participants several she some speaker speakers summary that the their then there these they this those though through throughout \
        topics two under until upon various when where while who with without";
    let lower = word.to_lowercase();
    lower.ends_with("ly") || STARTERS.split_whitespace().any(|starter| starter == lower)
}

fn entities(figures: &mut Figures, document: &Document, answers: &[Value]) {
    let name = |answer: &Value| name_words(answer["text"].as_str().unwrap_or_default());
    let found: Vec<Vec<String>> = answers.iter().map(name).collect();
    let expected =
        || document.reference.entities.iter().flat_map(|(kind, names)| names.iter().map(move |name| (kind, name)));
    for (kind, expected) in expected() {
        let is_found = found.iter().any(|found| is_same_name(found, &name_words(expected)));
        figures.entities_found.count(is_found);
        if !is_found {
            figures.misses.push(format!("{kind} not found: {expected}"));
        }
    }
    for (answer, name) in answers.iter().zip(&found) {
        let kind = answer["type"].as_str().unwrap_or_default();
        if LISTED_TYPES.contains(&kind) {
            let is_right = expected().any(|(_, expected)| is_same_name(name, &name_words(expected)));
            figures.entities_right.count(is_right);
            if !is_right {
                figures.misses.push(format!("not in the reference: {kind} {}", answer["text"]));
            }
        }
    }
}

/// The words of a name without titles.
fn name_words(name: &str) -> Vec<String> {
    const TITLES: [&str; 10] = ["mr", "mrs", "ms", "dr", "prof", "professor", "captain", "councillor", "frau", "herr"];
    let mut words = words(name, false);
    words.retain(|word| !TITLES.contains(&word.as_str()));
    words
}

/// "Ruth" and "Ruth Adeyemi from the council" are Ruth Adeyemi.
fn is_same_name(one: &[String], other: &[String]) -> bool {
    contains(one, other) || contains(other, one)
}

fn actions(figures: &mut Figures, document: &Document, answers: &[Value]) {
    let english = document.reference.language == "en";
    let text = |answer: &Value, fields: &[&str]| {
        fields.iter().filter_map(|field| answer[*field].as_str()).collect::<Vec<_>>().join(" ")
    };
    let is_found = |expected: &ActionItem, answer: &Value| {
        let whole = text(answer, &["task", "assignee", "due"]);
        expected.task.matches(&whole, english) && (expected.who.is_empty() || expected.who.matches(&whole, english))
    };
    for expected in &document.reference.actions {
        let found: Vec<&Value> = answers.iter().filter(|answer| is_found(expected, answer)).collect();
        figures.actions_found.count(!found.is_empty());
        if found.is_empty() {
            figures.misses.push(format!("action item not found: {} ({})", expected.task, expected.who));
        } else if !expected.due.is_empty() {
            let is_due = |answer: &&Value| expected.due.matches(&text(answer, &["due", "task"]), english);
            let is_right = found.iter().any(is_due);
            figures.due_right.count(is_right);
            if !is_right {
                figures.misses.push(format!("due date not found: {} ({})", expected.task, expected.due));
            }
        }
    }
}

fn topics(figures: &mut Figures, document: &Document, answers: &[Value]) {
    let english = document.reference.language == "en";
    for expected in &document.reference.topics {
        let is_found =
            answers.iter().any(|answer| expected.matches(answer["name"].as_str().unwrap_or_default(), english));
        figures.topics_found.count(is_found);
        if !is_found {
            figures.misses.push(format!("topic not found: {expected}"));
        }
    }
}

fn quotes(figures: &mut Figures, document: &Document, answers: &[Value]) {
    for answer in answers {
        let quote = answer["quote"].as_str().unwrap_or_default();
        let segments = document.segments_of(quote).unwrap_or_default();
        let is_verbatim = document.transcript.segments[segments].first().is_some_and(|segment| {
            segment.speaker.as_deref() == answer["speaker"].as_str()
                && answer["start"].as_f64().is_some_and(|start| (segment.start..=segment.end).contains(&start))
        });
        figures.quotes_verbatim.count(is_verbatim);
        if !is_verbatim {
            figures.misses.push(format!("quote not as in the transcript: {answer}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn document(name: &str) -> Document {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/text");
        corpus::load(&folder, &[], None).unwrap().into_iter().find(|document| document.name == name).unwrap()
    }

    #[test]
    fn a_summary_is_judged_by_its_facts_and_by_what_the_text_does_not_have() {
        let document = document("product-meeting");
        let mut figures = Figures::default();
        summary(
            &mut figures,
            &document,
            "Helena moved the release to March 21. The import from Trello fails.\n\n- Bob pays 77,000 euros.",
        );
        assert_eq!((figures.facts.hits, figures.facts.total), (2, document.reference.facts.len()));
        assert_eq!(figures.unfounded, ["Bob", "77,000"]);
    }

    #[test]
    fn a_part_of_a_name_is_the_name_and_a_stranger_is_wrong() {
        let document = document("support-call");
        let mut figures = Figures::default();
        let answer = json!([{"text": "Mr. Whitfield", "type": "person"}, {"text": "Priya", "type": "person"}, {"text": "Bob", "type": "person"},
            {"text": "Thursday", "type": "date"}]);
        entities(&mut figures, &document, answer.as_array().unwrap());
        assert_eq!((figures.entities_right.hits, figures.entities_right.total), (2, 3));
        assert_eq!(figures.entities_found.hits, 2);
    }

    #[test]
    fn a_quote_is_checked_with_its_speaker_and_time() {
        let document = document("support-call");
        let segment = &document.transcript.segments[0];
        let quote = |speaker: &str, start: f64, text: &str| json!({"quote": text, "speaker": speaker, "start": start});
        let mut figures = Figures::default();
        quotes(&mut figures, &document, &[quote("Agent", segment.start, &segment.text)]);
        assert_eq!((figures.quotes_verbatim.hits, figures.quotes_verbatim.total), (1, 1));
        quotes(
            &mut figures,
            &document,
            &[quote("Customer", segment.start, &segment.text), quote("Agent", 0.0, "Never said.")],
        );
        assert_eq!((figures.quotes_verbatim.hits, figures.quotes_verbatim.total), (1, 3));
    }

    #[test]
    fn an_action_item_needs_its_task_and_who_does_it() {
        let document = document("product-meeting");
        let mut figures = Figures::default();
        let answer = json!([{"task": "Renew the certificate", "assignee": "Tomas", "due": "Monday"},
            {"task": "Send a job description", "assignee": "Samuel", "due": null}]);
        actions(&mut figures, &document, answer.as_array().unwrap());
        assert_eq!((figures.actions_found.hits, figures.due_right.hits), (1, 1));
    }
}
