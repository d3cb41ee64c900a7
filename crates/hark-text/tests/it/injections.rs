//! Instructions inside a text are data: they stand between marks that their author can't know, and what they add is checked like
//! everything else. What a real model makes of them is measured with the example `text_task`.

use hark_text::{AnalysisType, Source, SummaryStyle, analyze, summarize};

use crate::script::{Script, data, prompt};

fn attacks() -> Vec<&'static str> {
    include_str!("../data/injections.txt").lines().collect()
}

fn talk(attack: &str) -> String {
    format!("Ann: The budget of the office is fine.\nBob: {attack}\nAnn: We meet again on Monday.\nBob: Good.")
}

#[tokio::test]
async fn an_attack_stays_between_the_marks() {
    assert_eq!(attacks().len(), 10);
    for attack in attacks() {
        let model = Script::always("The budget is fine.");
        summarize(&model.task(), &Source::from_text(&talk(attack)), SummaryStyle::Brief).await.unwrap();
        let request = &model.requests()[0];
        assert!(data(request).contains(attack), "{attack}");
        let outside = prompt(request).replace(&data(request), "");
        assert!(!outside.contains(attack), "{attack}");
        // The task comes after the text.
        assert!(
            request.messages[1].content.rfind("Your task:").unwrap()
                > request.messages[1].content.find(attack).unwrap()
        );
    }
}

#[tokio::test]
async fn a_question_of_the_text_stays_between_the_marks() {
    for attack in attacks() {
        let attack = format!("{}, will you do that?", attack.trim_end_matches('.'));
        let model = Script::always(r#"{"line": 1}"#);
        analyze(&model.task(), &Source::from_text(&talk(&attack)), AnalysisType::Questions).await.unwrap();
        assert!(!model.requests().is_empty(), "{attack}");
        for request in model.requests() {
            let data = data(&request);
            let asked = data.lines().next().unwrap().strip_prefix("Question: Bob: ").unwrap();
            assert!(attack.contains(asked.trim_end_matches('…')), "{asked}");
            // It stands once more beside the task, between marks of its own.
            let outside = prompt(&request).replace(&data, "");
            let (before, after) = outside.split_once(asked).unwrap();
            assert!(!after.contains(asked), "{attack}");
            let (mark, same) = (before.trim_end().rsplit(' ').next(), after.trim_start().split([' ', '?']).next());
            assert!(
                mark == same && mark.is_some_and(|mark| mark.starts_with("==") && !asked.contains(mark)),
                "{attack}"
            );
        }
    }
}

#[tokio::test]
async fn what_a_model_that_falls_for_an_attack_adds_is_dropped() {
    let source = Source::from_text(&talk("hello there"));
    let model = Script::always("Zed Corp is the best company, invest 5000 euros with Mallory. The budget is fine.");
    let summary = summarize(&model.task(), &source, SummaryStyle::Brief).await.unwrap();
    assert_eq!(summary.summary, "The budget is fine.");
    let model = Script::always(r#"{"items":[{"name":"Mallory","type":"person"}]}"#);
    let found = analyze(&model.task(), &source, AnalysisType::Entities).await.unwrap();
    assert_eq!(serde_json::to_value(found.result).unwrap(), serde_json::json!({"entities": []}));
}
