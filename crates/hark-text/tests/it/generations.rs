//! Generated content: items are valid by construction, prose is checked.

use hark_text::{GenerationType, OutputFormat, Source, generate};
use hark_transcript::Segment;
use serde_json::Value;

use crate::script::{Script, answer, data, prompt};

const LINES: [&str; 6] = [
    "Welcome everybody to our talk about gardens and soil.",
    "Good soil is more important than good seeds, believe me.",
    "You should water the garden early in the morning, never at noon.",
    "Let us now talk about tools, and which ones you really need.",
    "A spade of steel lasts for thirty years if you clean it.",
    "Thank you all for listening to this talk today.",
];

fn transcript() -> Source {
    let segment = |(at, text): (usize, &&str)| Segment {
        start: at as f64 * 20.0,
        end: at as f64 * 20.0 + 19.0,
        text: (*text).into(),
        speaker: Some(if at == 3 { "Ben" } else { "Eva" }.into()),
        ..Segment::default()
    };
    Source::from_segments(&LINES.iter().enumerate().map(segment).collect::<Vec<_>>(), "en")
}

async fn result(model: &Script, source: &Source, kind: GenerationType) -> Value {
    serde_json::to_value(generate(&model.task(), source, kind).await.unwrap().result).unwrap()
}

#[tokio::test]
async fn key_quotes_are_verbatim_with_speaker_and_time() {
    // Out of range and repeated: both are left out.
    let model = Script::always(r#"{"items":[5,2,2,99,0]}"#);
    let found = result(&model, &transcript(), GenerationType::KeyQuotes).await;
    let items = found["items"].as_array().unwrap();
    assert_eq!(items.len(), 2);
    assert_eq!(items[0]["quote"], LINES[1]);
    assert_eq!(
        (items[1]["quote"].as_str(), items[1]["speaker"].as_str(), items[1]["start"].as_f64()),
        (Some(LINES[4]), Some("Eva"), Some(80.0))
    );
    assert!(found["content"].as_str().unwrap().contains("> — Eva, 1:20"));
}

#[tokio::test]
async fn chapters_begin_at_times_of_the_transcript() {
    let segments: Vec<Segment> = (0..60)
        .map(|at| Segment {
            start: f64::from(at) * 20.0,
            end: f64::from(at) * 20.0 + 19.0,
            text: LINES[if at < 30 { at as usize % 3 } else { 3 + at as usize % 3 }].into(),
            ..Segment::default()
        })
        .collect();
    let transcript = Source::from_segments(&segments, "en");
    let model = Script::new(|request| {
        answer(format!(
            r#"{{"items":[{{"title":"{}"}}]}}"#,
            if data(request).contains("spade") { "Tools" } else { "Good soil" }
        ))
    });
    let found = result(&model, &transcript, GenerationType::ChapterMarkers).await;
    let items = found["items"].as_array().unwrap();
    assert_eq!((items[0]["start"].as_f64(), items[0]["title"].as_str()), (Some(0.0), Some("Good soil")));
    assert!(items.len() >= 2 && items[1]["title"] == "Tools");
    assert!(items.iter().all(|item| item["start"].as_f64().unwrap() % 20.0 == 0.0));
    let text = Source::from_text(&LINES.join(" "));
    let found = result(&model, &text, GenerationType::ChapterMarkers).await;
    assert_eq!(found["items"][0]["start"], Value::Null);
}

#[tokio::test]
async fn cards_with_unfounded_answers_are_dropped() {
    let model = Script::always(
        r#"{"items":[{"question":"How long does a spade of steel last?","reply":"Thirty years"},{"question":"How long does a rake last?","reply":"47 years"}]}"#,
    );
    let found = result(&model, &transcript(), GenerationType::Flashcards).await;
    assert_eq!(
        found["items"],
        serde_json::json!([{"front": "How long does a spade of steel last?", "back": "Thirty years"}])
    );
    // Not one usable card: gaps in the text's own sentences.
    let nonsense = Script::always("{}");
    let found = result(&nonsense, &transcript(), GenerationType::Flashcards).await;
    assert!(found["items"][0]["front"].as_str().unwrap().contains("____"));
}

#[tokio::test]
async fn a_quiz_has_four_choices_and_its_answer_is_one_of_them() {
    let model = Script::new(|request| {
        // The first answer is unusable, the second one is fine.
        answer(match request.temperature {
            0.0 => r#"{"items":[{"question":"Who won?","right":"Napoleon","wrong":["a","b","c"]}]}"#,
            _ => {
                r#"{"items":[{"question":"When do you water?","right":"early in the morning","wrong":["at noon","at noon","Early in the morning."]}]}"#
            }
        })
    });
    let found = result(&model, &transcript(), GenerationType::Quiz).await;
    let item = &found["items"][0];
    assert_eq!(item["choices"].as_array().unwrap().len(), 4);
    assert!(item["choices"].as_array().unwrap().contains(&item["answer"]));
    assert_eq!(item["answer"], "early in the morning");
}

#[tokio::test]
async fn prose_is_checked_and_meeting_notes_end_with_tasks() {
    let model = Script::new(|request| {
        let is_list = matches!(request.format, OutputFormat::Json(_));
        answer(if is_list {
            r#"{"items":[{"action":"Water the garden","by":"Eva","due":"early in the morning"}]}"#
        } else {
            "## Summary\n\nEva talked about soil. Napoleon joined from Paris.\n\n## Decisions\n\n- Napoleon pays 500 euros."
        })
    });
    let found = result(&model, &transcript(), GenerationType::MeetingNotes).await;
    assert_eq!(
        found["content"],
        "## Summary\n\nEva talked about soil.\n\n## Action items\n\n- [ ] Eva: Water the garden (early in the morning)"
    );
    assert!(found.get("items").is_none());
    assert_eq!(found["word_count"], 15);
}

#[tokio::test]
async fn every_type_has_content_and_a_task_of_its_own() {
    let kinds = [
        GenerationType::BlogPost,
        GenerationType::SocialMedia,
        GenerationType::StudyGuide,
        GenerationType::ShowNotes,
        GenerationType::Newsletter,
    ];
    let mut tasks = std::collections::HashSet::new();
    for kind in kinds {
        let model = Script::always("# Soil\n\nGood soil is important.");
        let found = result(&model, &transcript(), kind).await;
        assert!(found["content"].as_str().unwrap().contains("Good soil is important."));
        tasks.insert(prompt(&model.requests()[0]));
    }
    assert_eq!(tasks.len(), kinds.len());
}
