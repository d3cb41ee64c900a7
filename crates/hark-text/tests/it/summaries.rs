//! Summaries: parts, merging, checks.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use hark_text::{ModelError, Progress, Source, SummaryStyle, TextError, summarize};

use crate::script::{Script, answer, data, prompt};

fn long_text(sentences: usize) -> String {
    (0..sentences).map(|n| format!("Point {n} was about the budget of the office. ")).collect()
}

#[tokio::test]
async fn a_short_text_takes_one_completion() {
    let model = Script::always("The budget is fine.");
    let summary =
        summarize(&model.task(), &Source::from_text("We said the budget is fine."), SummaryStyle::Brief).await.unwrap();
    assert_eq!((summary.summary.as_str(), summary.word_count, summary.parts), ("The budget is fine.", 4, 1));
    assert_eq!(model.requests().len(), 1);
    assert_eq!(model.requests()[0].owner, 7);
    assert_eq!(serde_json::to_value(&summary).unwrap()["style"], "brief");
}

#[tokio::test]
async fn a_long_text_is_read_in_parts_and_nothing_is_left_out() {
    let model = Script::new(|request| {
        let data = data(request);
        let point = data.split_whitespace().nth(1).unwrap_or_default();
        answer(format!("- The budget is fine.\n- The budget is fine.\n- Point {point} was a point."))
    });
    let progress = Mutex::new(Vec::new());
    let on_progress = |at: Progress| progress.lock().unwrap().push(at);
    let text = long_text(1200);
    let task = model.task().with_progress(&on_progress);
    let summary = summarize(&task, &Source::from_text(&text), SummaryStyle::Detailed).await.unwrap();
    let requests = model.requests();
    let parts: Vec<String> =
        requests.iter().filter(|request| prompt(request).contains("This is part")).map(data).collect();
    assert_eq!(summary.parts, parts.len());
    assert!(summary.parts > 3);
    for n in 0..1200 {
        assert!(parts.iter().any(|part| part.contains(&format!("Point {n} was"))), "point {n} was left out");
    }
    let last = progress.lock().unwrap().last().copied().unwrap();
    assert_eq!((last.done, last.total), (requests.len(), requests.len()));
    // A paragraph for each part, and nothing said twice.
    let (lists, paragraphs): (Vec<&str>, Vec<&str>) =
        summary.summary.split("\n\n").partition(|block| block.starts_with("- "));
    assert_eq!(paragraphs.len(), summary.parts);
    assert!(paragraphs.iter().all(|paragraph| paragraph.ends_with("was a point.")), "{paragraphs:?}");
    // What was not told is quoted as it was said.
    for quote in lists.iter().flat_map(|list| list.lines()) {
        let said = quote.trim_start_matches("- “").trim_end_matches('”');
        assert!(text.contains(said), "{quote}");
    }
    assert_eq!(summary.summary.matches("The budget is fine.").count(), 1, "{paragraphs:?}");
}

#[tokio::test]
async fn a_model_that_repeats_itself_is_not_repeated() {
    let section = "## Budget\n\n- The budget of the office is fine.\n- Point 3 was about the budget of the office.\n";
    let other = "## Roof\n\n- The roof is not the subject here.";
    let written = format!("{section}\n{section}\n{section}\n{other}\n");
    let model = Script::new(move |_| answer(written.clone()));
    for style in [SummaryStyle::Detailed, SummaryStyle::BulletPoints] {
        let summary = summarize(&model.task(), &Source::from_text(&long_text(8)), style).await.unwrap();
        assert_eq!(summary.summary, format!("{section}\n{other}"));
    }
}

/// A meeting of more than one part: small talk, and one sentence with an amount.
fn meeting() -> String {
    let mut text = String::new();
    for n in 0..400 {
        text.push_str(&format!("Ann: I really like how the coffee number{n} tastes down here these mornings.\n"));
        if n == 200 {
            text.push_str("Bob: We agreed that the repair of the roof costs forty thousand euros.\n");
        }
    }
    text
}

#[tokio::test]
async fn an_important_sentence_that_the_notes_do_not_tell_is_quoted() {
    let model = Script::always("They talked about coffee.");
    let summary = summarize(&model.task(), &Source::from_text(&meeting()), SummaryStyle::Detailed).await.unwrap();
    let quote = "- Bob: “We agreed that the repair of the roof costs forty thousand euros.”";
    assert!(summary.parts > 1);
    assert_eq!(summary.summary.lines().filter(|line| *line == quote).count(), 1, "{}", summary.summary);
    // The model was shown it at the end of its part.
    let shown = |request: &hark_text::CompletionRequest| {
        let data = data(request);
        let end = data.split("once more:").nth(1).unwrap_or_default();
        end.contains("- Bob: We agreed that the repair of the roof costs forty thousand euros.")
    };
    assert_eq!(model.requests().iter().filter(|request| shown(request)).count(), 1);
    let model = Script::always("The repair of the roof costs 40,000 euros.");
    let summary = summarize(&model.task(), &Source::from_text(&meeting()), SummaryStyle::Detailed).await.unwrap();
    assert!(!summary.summary.contains(quote), "{}", summary.summary);
}

#[tokio::test]
async fn notes_that_copy_the_transcript_give_way_to_its_important_sentences() {
    let model = Script::new(|request| {
        let data = data(request);
        answer(data.lines().take(12).collect::<Vec<_>>().join("\n"))
    });
    let summary = summarize(&model.task(), &Source::from_text(&meeting()), SummaryStyle::Detailed).await.unwrap();
    assert!(summary.summary.contains("- Bob: “We agreed that the repair of the roof costs forty thousand euros.”"));
    assert!(summary.summary.lines().all(|line| line.is_empty() || line.starts_with("- ")), "{}", summary.summary);
}

#[tokio::test]
async fn notes_that_do_not_fit_are_merged_in_levels() {
    let model = Script::new(|request| {
        let prompt = prompt(request);
        if prompt.contains("Merge them") {
            answer("- The office has a budget.\n- It was about points.")
        } else if prompt.contains("This is part") {
            answer("- Point of the budget of the office.\n".repeat(30))
        } else {
            answer("The office has a budget.")
        }
    })
    .with_context(1700);
    let text = long_text(1500);
    let summary = summarize(&model.task(), &Source::from_text(&text), SummaryStyle::Brief).await.unwrap();
    let merges = model.requests().iter().filter(|request| prompt(request).contains("Merge them")).count();
    assert!(merges >= 2, "{merges} merges");
    assert_eq!(summary.summary, "The office has a budget.");
}

#[tokio::test]
async fn a_model_that_does_not_shorten_its_notes_does_not_go_on_for_ever() {
    let model = Script::new(|_| answer("- Point of the budget of the office.\n".repeat(30))).with_context(1700);
    let summary = summarize(&model.task(), &Source::from_text(&long_text(1500)), SummaryStyle::Brief).await.unwrap();
    assert!(!summary.summary.is_empty());
}

#[tokio::test]
async fn no_part_disappears_when_a_model_does_not_shorten_its_notes() {
    // A subject for each part, in one long line of its notes, which the model never makes shorter.
    let subjects =
        ["roof", "garden", "school", "harbour", "library", "bridge", "museum", "station", "market", "theatre"];
    let said =
        |subject: &&str| format!("We talked about the {subject} and the budget of the office for a while. ").repeat(35);
    let model = Script::new(move |request| {
        let (data, prompt) = (data(request), prompt(request));
        if prompt.contains("Merge them") {
            return answer(data);
        }
        let told = subjects.iter().filter(|subject| data.contains(*subject));
        answer(
            told.map(|subject| format!("The {subject} and {}.\n", "the budget of the office ".repeat(60)))
                .collect::<String>(),
        )
    })
    .with_context(1900);
    let text: String = subjects.iter().map(said).collect();
    summarize(&model.task(), &Source::from_text(&text), SummaryStyle::Brief).await.unwrap();
    let requests = model.requests();
    let notes = data(requests.iter().find(|request| prompt(request).contains("2 to 4 plain sentences")).unwrap());
    for subject in subjects {
        assert!(notes.contains(&format!("The {subject} and the budget")), "{subject} is missing in {notes}");
    }
}

#[tokio::test]
async fn sentences_with_unfounded_facts_are_dropped() {
    let model = Script::always(
        "The budget is 500 euros. Anna approved the budget of the office. Peter left for Paris. It is fine.",
    );
    let source = Source::from_text("Anna: The budget of the office is fine, I approved it.\nBob: Good.\nAnna: Yes.");
    let summary = summarize(&model.task(), &source, SummaryStyle::Brief).await.unwrap();
    assert_eq!(summary.summary, "Anna approved the budget of the office. It is fine.");
}

#[tokio::test]
async fn a_summary_that_is_mostly_unfounded_is_written_again() {
    let model = Script::new(|request| {
        answer(if request.temperature == 0.0 { "Peter went to Paris with 20 people." } else { "The budget is fine." })
    });
    let source = Source::from_text("We think that the budget is fine.");
    let summary = summarize(&model.task(), &source, SummaryStyle::Brief).await.unwrap();
    assert_eq!(summary.summary, "The budget is fine.");
    assert!(prompt(&model.requests()[1]).contains("Do not mention 20"));
}

#[tokio::test]
async fn a_summary_is_never_empty() {
    for nonsense in ["", "Peter went to Paris.", " \n "] {
        let model = Script::always(nonsense);
        let source = Source::from_text("Hello. The budget of the office is too high. We cut the budget.");
        for style in [SummaryStyle::Brief, SummaryStyle::Detailed, SummaryStyle::Executive, SummaryStyle::BulletPoints]
        {
            let summary = summarize(&model.task(), &source, style).await.unwrap().summary;
            assert!(summary.contains("budget"), "{summary}");
        }
    }
}

#[tokio::test]
async fn an_empty_text_and_a_failing_model_are_errors() {
    let model = Script::new(|_| Err(ModelError::Unavailable("loading".into())));
    let empty = summarize(&model.task(), &Source::from_text(" \n"), SummaryStyle::Brief).await;
    assert_eq!(empty, Err(TextError::Empty));
    let failed = summarize(&model.task(), &Source::from_text("Text."), SummaryStyle::Brief).await;
    assert_eq!(failed, Err(TextError::Model(ModelError::Unavailable("loading".into()))));
    let small = Script::always("x").with_context(500);
    let failed = summarize(&small.task(), &Source::from_text("Text."), SummaryStyle::Brief).await;
    assert!(matches!(failed, Err(TextError::ContextTooSmall { context: 500, .. })), "{failed:?}");
}

#[tokio::test]
async fn a_task_that_has_begun_waits_while_the_model_is_busy() {
    let text = long_text(150);
    let summary = async |model: Script| {
        let model = model.with_context(1400);
        let summary = summarize(&model.task(), &Source::from_text(&text), SummaryStyle::Brief).await;
        (summary, model.requests().len())
    };
    let script = || Script::always("The budget is fine.");
    let (expected, requests) = summary(script()).await;
    assert!(requests > 4);
    // Nothing is lost yet: the caller hears it at once.
    assert_eq!(summary(script().refusing(0..1)).await, (Err(TextError::Model(ModelError::Busy)), 0));
    for refused in [1..9, requests - 1..requests + 2] {
        assert_eq!(summary(script().refusing(refused.clone())).await, (expected.clone(), requests), "{refused:?}");
    }
    // An endpoint says only in its answer that it has no room.
    let asked = AtomicUsize::new(0);
    let late = Script::new(move |_| match asked.fetch_add(1, Ordering::SeqCst) {
        2 | 3 => Err(ModelError::Busy),
        _ => answer("The budget is fine."),
    });
    assert_eq!(summary(late).await, (expected, requests + 2));
}

#[tokio::test]
async fn action_items_as_a_summary_are_a_checked_list() {
    let model = Script::always(
        r#"{"items":[{"action":"Send the report","by":"Ann","due":"Friday"},{"action":"Fly to Mars","by":null,"due":null}]}"#,
    );
    let source = Source::from_text("Ann: I send the report on Friday.\nBob: Thanks.\nAnn: Sure.");
    let summary = summarize(&model.task(), &source, SummaryStyle::ActionItems).await.unwrap();
    assert_eq!(summary.summary, "- Ann: Send the report (Friday)");
    let none = Script::always(r#"{"items":[]}"#);
    let summary = summarize(&none.task(), &source, SummaryStyle::ActionItems).await.unwrap();
    assert_eq!(summary.summary, "No action items are mentioned.");
}

#[tokio::test]
async fn the_answer_is_asked_for_in_the_language_of_the_text() {
    let model = Script::always("Das Budget ist zu hoch.");
    let source = Source::from_text("Wir haben gesagt, dass das Budget nicht hoch ist und wir es noch prüfen.");
    summarize(&model.task(), &source, SummaryStyle::Brief).await.unwrap();
    assert!(model.requests()[0].messages[1].content.ends_with("Write in German."));
}
