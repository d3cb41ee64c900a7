//! Analyses: merging over parts, and checks against the text.

use hark_text::{AnalysisType, OutputFormat, Source, Task, analyze};
use serde_json::{Value, json};

use crate::script::{Script, answer, data};

const TALK: &str = "Ann: Good morning. When does Acme Corp ship the new printer?\nBob: They ship it on Friday, Maria told me.\n\
    Ann: Great, I love it! Who calls the bank?\nBob: I have no idea. This is a terrible mess.\nAnn: I will call Acme Corp by Monday.";

async fn result(model: &Script, text: &str, kind: AnalysisType) -> Value {
    let analysis = analyze(&model.task(), &Source::from_text(text), kind).await.unwrap();
    serde_json::to_value(analysis.result).unwrap()
}

/// The properties of an object are those of its schema, and all that it requires are there.
fn check_shape(value: &Value, schema: &Value) {
    let properties = schema["properties"].as_object().unwrap();
    for name in schema["required"].as_array().unwrap() {
        assert!(value.get(name.as_str().unwrap()).is_some(), "{name} is missing in {value}");
    }
    for (name, value) in value.as_object().unwrap() {
        let schema = properties.get(name).unwrap_or_else(|| panic!("{name} is not in the schema"));
        if let (Some(items), Some(item)) = (value.as_array(), schema.get("items")) {
            items.iter().for_each(|value| check_shape(value, item));
        }
        if let Some(values) = schema.get("enum").and_then(Value::as_array) {
            assert!(values.contains(value), "{value} is not in {schema}");
        }
    }
}

#[tokio::test]
async fn entities_that_the_text_lacks_are_dropped_and_the_others_counted_in_it() {
    let model = Script::always(
        r#"{"items":[{"name":"acme corp","type":"organization"},{"name":"Maria","type":"person"},{"name":"Paris","type":"location"},
        {"name":"Friday","type":"date"},{"name":"Acme Corp.","type":"organization"},{"name":"the","type":"other"}]}"#,
    );
    let found = result(&model, TALK, AnalysisType::Entities).await;
    assert_eq!(
        found,
        json!({"entities": [
            {"text": "Acme Corp", "type": "organization", "count": 2},
            {"text": "Friday", "type": "date", "count": 1},
            {"text": "Maria", "type": "person", "count": 1},
        ]})
    );
    check_shape(&found, &Task::Analyze(AnalysisType::Entities).result_schema());
}

#[tokio::test]
async fn entities_of_all_parts_are_merged() {
    let text: String = (0..400).map(|n| format!("Then Maria spoke for the {n}th time about Berlin. ")).collect();
    let model = Script::new(|request| {
        let has_first = data(request).contains("the 0th");
        answer(if has_first {
            r#"{"items":[{"name":"Maria","type":"person"}]}"#
        } else {
            r#"{"items":[{"name":"Berlin","type":"location"},{"name":"Maria","type":"person"}]}"#
        })
    });
    let found = result(&model, &text, AnalysisType::Entities).await;
    assert!(model.requests().len() > 3);
    assert_eq!(found["entities"].as_array().unwrap().len(), 2);
    assert_eq!(found["entities"][0]["count"], 400);
}

#[tokio::test]
async fn action_items_lose_what_the_text_does_not_say() {
    let model = Script::always(
        r#"{"items":[{"action":"Call Acme Corp","by":"Ann","due":"by Monday"},{"action":"Call Acme Corp.","by":null,"due":null},
        {"action":"Call the bank","by":"Peter","due":"tomorrow"},{"action":"Paint the fence green","by":"Bob","due":null}]}"#,
    );
    let found = result(&model, TALK, AnalysisType::ActionItems).await;
    assert_eq!(
        found,
        json!({"action_items": [
            {"task": "Call Acme Corp", "assignee": "Ann", "due": "by Monday"},
            {"task": "Call the bank", "assignee": null, "due": null},
        ]})
    );
    check_shape(&found, &Task::Analyze(AnalysisType::ActionItems).result_schema());
}

#[tokio::test]
async fn questions_and_answers_are_sentences_of_the_text() {
    let model = Script::new(|request| {
        answer(if data(request).contains("printer") { r#"{"line": 1}"# } else { r#"{"line": 0}"# })
    });
    let found = result(&model, TALK, AnalysisType::Questions).await;
    assert_eq!(
        found,
        json!({"questions": [
            {"question": "When does Acme Corp ship the new printer?", "asked_by": "Ann", "answered": true,
             "answer": "They ship it on Friday, Maria told me."},
            {"question": "Who calls the bank?", "asked_by": "Ann", "answered": false, "answer": null},
        ]})
    );
    check_shape(&found, &Task::Analyze(AnalysisType::Questions).result_schema());
}

#[tokio::test]
async fn topics_of_all_parts_are_merged_and_those_that_the_text_lacks_dropped() {
    let model = Script::always(
        r#"{"items":[{"subject":"Ann"},{"subject":"Printer shipping"},{"subject":"Quantum gravity"},{"subject":"Bank call"}]}"#,
    );
    let found = result(&model, TALK, AnalysisType::Topics).await;
    assert_eq!(
        found,
        json!({"topics": [{"name": "Printer shipping", "relevance": 1.0}, {"name": "Bank call", "relevance": 0.66}]})
    );
    check_shape(&found, &Task::Analyze(AnalysisType::Topics).result_schema());
    let nonsense = Script::always(r#"{"items":[{"subject":"Quantum gravity"}]}"#);
    let found = result(&nonsense, TALK, AnalysisType::Topics).await;
    assert!(found["topics"].as_array().unwrap().iter().any(|topic| topic["name"] == "acme"), "{found}");
}

#[tokio::test]
async fn sentiment_is_a_mean_by_length_for_all_and_for_each_speaker() {
    let model = Script::new(|request| {
        let data = data(request);
        let OutputFormat::Json(schema) = &request.format else { panic!("sentiment is JSON") };
        let labels: serde_json::Map<String, Value> = schema["properties"]
            .as_object()
            .unwrap()
            .keys()
            .map(|number| {
                let line = data.lines().find(|line| line.starts_with(&format!("{number}. "))).unwrap();
                let label = if line.contains("love") {
                    "very positive"
                } else if line.contains("terrible") {
                    "very negative"
                } else {
                    "neutral"
                };
                (number.clone(), Value::from(label))
            })
            .collect();
        answer(Value::Object(labels).to_string())
    });
    let found = result(&model, TALK, AnalysisType::Sentiment).await;
    check_shape(&found, &Task::Analyze(AnalysisType::Sentiment).result_schema());
    let speakers = found["by_speaker"].as_array().unwrap();
    assert_eq!((speakers[0]["speaker"].as_str(), speakers[0]["label"].as_str()), (Some("Ann"), Some("positive")));
    assert_eq!((speakers[1]["speaker"].as_str(), speakers[1]["label"].as_str()), (Some("Bob"), Some("negative")));
    let score = found["score"].as_f64().unwrap();
    assert!((-1.0..=1.0).contains(&score));
    let plain = result(&model, "It is fine.", AnalysisType::Sentiment).await;
    assert_eq!(plain, json!({"label": "neutral", "score": 0.0}));
}

#[tokio::test]
async fn personal_data_is_redacted_with_the_names_that_the_model_found() {
    let model = Script::always(
        r#"{"items":[{"name":"Zorbulax Quen","type":"person"},{"name":"Nobody Here","type":"person"}]}"#,
    );
    let found = result(&model, "Yesterday Zorbulax Quen wrote from z@example.com.", AnalysisType::PiiRedact).await;
    assert_eq!(
        found,
        json!({"redacted_text": "Yesterday [PERSON] wrote from [EMAIL].",
               "entities": [{"type": "person", "start": 10, "end": 23}, {"type": "email", "start": 35, "end": 48}]})
    );
    check_shape(&found, &Task::Analyze(AnalysisType::PiiRedact).result_schema());
}

#[tokio::test]
async fn answers_that_are_no_json_give_nothing_that_is_not_in_the_text() {
    let model = Script::always("I am sorry, but {\"items\": [");
    assert_eq!(result(&model, TALK, AnalysisType::Entities).await, json!({"entities": []}));
    assert_eq!(result(&model, TALK, AnalysisType::ActionItems).await, json!({"action_items": []}));
    assert!(analyze(&model.task(), &Source::from_text(TALK), AnalysisType::Sentiment).await.is_err());
}
