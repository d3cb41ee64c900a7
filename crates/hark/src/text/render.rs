//! Answers as a person reads them on a terminal.

use serde_json::Value;

/// An answer as text.
pub(super) fn text(answer: &Value) -> String {
    if let Some(summary) = answer["summary"].as_str() {
        return summary.to_owned();
    }
    let result = &answer["result"];
    if let Some(content) = result["content"].as_str() {
        return content.to_owned();
    }
    if let Some(text) = result["redacted_text"].as_str() {
        return text.to_owned();
    }
    if let Some(label) = result["label"].as_str() {
        let mut lines = vec![format!("{label} ({})", number(&result["score"]))];
        for speaker in list(&result["by_speaker"]) {
            let (name, label) = (word(&speaker["speaker"]), word(&speaker["label"]));
            lines.push(format!("  {name}: {label} ({})", number(&speaker["score"])));
        }
        return lines.join("\n");
    }
    let lines: Vec<String> = [
        ("topics", topic as fn(&Value) -> String),
        ("entities", entity),
        ("action_items", action_item),
        ("questions", question),
    ]
    .into_iter()
    .flat_map(|(key, line)| list(&result[key]).iter().map(line).collect::<Vec<_>>())
    .collect();
    if lines.is_empty() { "nothing found".to_owned() } else { lines.join("\n") }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn number(value: &Value) -> String {
    format!("{:+.2}", value.as_f64().unwrap_or_default())
}

fn topic(value: &Value) -> String {
    format!("{:.2}  {}", value["relevance"].as_f64().unwrap_or_default(), word(&value["name"]))
}

fn entity(value: &Value) -> String {
    format!("{:>3}  {}  ({})", value["count"].as_u64().unwrap_or_default(), word(&value["text"]), word(&value["type"]))
}

fn action_item(value: &Value) -> String {
    let details: Vec<&str> = [&value["assignee"], &value["due"]].into_iter().filter_map(Value::as_str).collect();
    match details.is_empty() {
        true => format!("- {}", word(&value["task"])),
        false => format!("- {} ({})", word(&value["task"]), details.join(", ")),
    }
}

fn question(value: &Value) -> String {
    let asked_by = value["asked_by"].as_str().map(|name| format!("{name}: ")).unwrap_or_default();
    let answer = value["answer"].as_str().unwrap_or("not answered");
    format!("- {asked_by}{}\n  {answer}", word(&value["question"]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_kind_of_answer_has_lines_for_people() {
        assert_eq!(text(&json!({"summary": "Short."})), "Short.");
        assert_eq!(text(&json!({"result": {"content": "# Title", "word_count": 1}})), "# Title");
        let sentiment = json!({"result": {"label": "mixed", "score": -0.25,
            "by_speaker": [{"speaker": "Ann", "label": "negative", "score": -0.5}]}});
        assert_eq!(text(&sentiment), "mixed (-0.25)\n  Ann: negative (-0.50)");
        let items = json!({"result": {"action_items": [{"task": "Send it", "assignee": "Bob", "due": null}]}});
        assert_eq!(text(&items), "- Send it (Bob)");
        let questions = json!({"result": {"questions": [{"question": "When?", "asked_by": null, "answered": false}]}});
        assert_eq!(text(&questions), "- When?\n  not answered");
        assert_eq!(text(&json!({"result": {"entities": []}})), "nothing found");
    }
}
