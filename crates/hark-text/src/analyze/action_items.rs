//! What is to be done, by whom and until when.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::context::{self, Context};
use crate::error::TextError;
use crate::facts::FactChecker;
use crate::prompt::Prompt;
use crate::schema;
use crate::source::Source;
use crate::words::{self, StemIndex, Stems, TextIndex};

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ActionItems {
    /// In the order of the text.
    pub action_items: Vec<ActionItem>,
}

/// One thing to be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ActionItem {
    /// What.
    pub task: String,
    /// Who, where the text says so.
    pub assignee: Option<String>,
    /// Until when, in the text's own words.
    pub due: Option<String>,
}

/// Items of one part.
const MOST_OF_PART: usize = 12;

/// Tokens of an answer.
const MAX_TOKENS: usize = 600;

/// Tokens of a part: a small model names two or three tasks of a part, however long that is.
const PART_TOKENS: usize = 450;

/// Units around the one that a task is about in which its date must stand.
const NEAR: usize = 2;

pub(super) fn item_schema() -> Value {
    let optional = json!({"type": ["string", "null"]});
    schema::object(&[
        ("task", json!({"type": "string", "minLength": 1})),
        ("assignee", optional.clone()),
        ("due", optional),
    ])
}

#[derive(Debug, Deserialize)]
struct Found {
    action: String,
    by: Option<String>,
    due: Option<String>,
}

impl ActionItem {
    /// `Alice: send the report (Friday)`.
    pub fn to_line(&self) -> String {
        let assignee = self.assignee.as_ref().map(|name| format!("{name}: ")).unwrap_or_default();
        let due = self.due.as_ref().map(|due| format!(" ({due})")).unwrap_or_default();
        format!("{assignee}{}{due}", self.task)
    }
}

/// What is to be done, and over how many parts that was found.
pub(crate) async fn action_items(context: &Context<'_>, source: &Source) -> Result<(ActionItems, usize), TextError> {
    let parts = context.parts(source, MAX_TOKENS, PART_TOKENS)?;
    context.expect(parts.len());
    let found = parts.iter().map(|part| async {
        let text = source.render(part.units.clone(), part.span.clone());
        // Told that the list may be empty, a small model finds nothing.
        let task = "Go through it line by line. Write down each promise, assignment and request: what somebody will do later (\"I will …\", \"I can …\", \
                    \"please …\", \"you will get …\", \"we have to …\"). For each: action, a short sentence that begins with a verb; by, the name of the speaker who \
                    will do it, or null; due, the words that say when, or null. Answer in JSON: {\"items\": [{\"action\": …, \"by\": …, \"due\": …}]}.";
        let noun = if source.speakers().is_empty() { "text" } else { "conversation" };
        let prompt = Prompt { noun, text: &text, task: task.into(), language: source.language() };
        let item = schema::object(&[
            ("action", schema::string(200)),
            ("by", schema::optional_string(48)),
            ("due", schema::optional_string(48)),
        ]);
        context.items::<Found>(&prompt, item, MOST_OF_PART, MAX_TOKENS, 0).await
    });
    let found = context::all(found.collect()).await?;
    let text = Text::new(source);
    let mut action_items: Vec<(ActionItem, Stems)> = Vec::new();
    for item in found.into_iter().flatten().filter_map(|found| text.check(found)) {
        let stems = Stems::new(&item.task);
        match action_items.iter_mut().find(|(other, of_other)| is_same((other, of_other), (&item, &stems))) {
            Some((other, _)) => {
                other.assignee = other.assignee.take().or(item.assignee);
                other.due = other.due.take().or(item.due);
            }
            None => action_items.push((item, stems)),
        }
    }
    let action_items = action_items.into_iter().map(|(item, _)| item).collect();
    Ok((ActionItems { action_items }, parts.len()))
}

fn is_same(one: (&ActionItem, &Stems), other: (&ActionItem, &Stems)) -> bool {
    let is_alike = || one.1.similarity(other.1) >= 0.6;
    match (&one.0.assignee, &other.0.assignee) {
        (Some(a), Some(b)) => words::normalize(a) == words::normalize(b) && is_alike(),
        _ => is_alike(),
    }
}

/// A text, indexed once for all items.
struct Text<'a> {
    source: &'a Source,
    checker: FactChecker,
    units: StemIndex,
}

impl<'a> Text<'a> {
    fn new(source: &'a Source) -> Self {
        let units = StemIndex::new(source.units().iter().map(|unit| source.content(unit)));
        Text { source, checker: FactChecker::new(source), units }
    }

    /// An item whose task is in the text, without an assignee or a date that is not.
    fn check(&self, found: Found) -> Option<ActionItem> {
        let Text { source, checker, .. } = self;
        let task = found.action.trim().trim_start_matches("- ").to_owned();
        if task.is_empty() || checker.index().coverage(&task) < 0.5 || checker.unfounded(&task).is_some() {
            return None;
        }
        let assignee = found.by.as_deref().and_then(|name| person(name, source, checker));
        let due = found.due.map(|due| due.trim().to_owned()).filter(|due| self.near(&task).has_phrase(due));
        // A model that finds no date sometimes repeats the task or the name.
        let due =
            due.filter(|due| !task.eq_ignore_ascii_case(due) && assignee.as_ref() != Some(due) && !is_nothing(due));
        Some(ActionItem { task, assignee, due })
    }

    /// What is said around the unit that shares most words with a task: a date from elsewhere in the text belongs to something else.
    fn near(&self, task: &str) -> TextIndex {
        let (about, units) = (self.units.most_similar(task).unwrap_or(0), self.source.units());
        let units = &units[about.saturating_sub(NEAR)..(about + NEAR + 1).min(units.len())];
        let text: Vec<&str> = units.iter().map(|unit| self.source.content(unit)).collect();
        TextIndex::new(&text.join("\n"))
    }
}

/// The speaker of this name, or the name where it stands in the text.
pub(super) fn person(name: &str, source: &Source, checker: &FactChecker) -> Option<String> {
    let name = name.trim();
    let key = words::normalize(name);
    if let Some(speaker) = source.speakers().iter().find(|speaker| words::normalize(speaker) == key) {
        return Some(speaker.clone());
    }
    let is_capitalised = name.chars().next().is_some_and(|c| !c.is_lowercase());
    let is_pronoun = matches!(
        key.as_str(),
        "i" | "you" | "we" | "he" | "she" | "they" | "me" | "us" | "somebody" | "someone" | "speaker"
    );
    if key.is_empty() || is_pronoun || is_nothing(name) || !is_capitalised || !checker.index().has_phrase(name) {
        return None;
    }
    Some(name.to_owned())
}

/// Words that a model writes instead of null.
fn is_nothing(text: &str) -> bool {
    matches!(
        words::normalize(text).as_str(),
        "" | "null" | "none" | "n a" | "unknown" | "not specified" | "no" | "nobody" | "unspecified"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(action: &str, by: Option<&str>, due: Option<&str>) -> Option<ActionItem> {
        let source =
            Source::from_text("Ann: I will send the report by Friday.\nBob: Good. Carol books the room.\nAnn: Yes.");
        let found = Found { action: action.into(), by: by.map(str::to_owned), due: due.map(str::to_owned) };
        Text::new(&source).check(found)
    }

    #[test]
    fn assignees_and_dates_that_the_text_lacks_are_null() {
        let item = checked("Send the report", Some("ann"), Some("by Friday")).unwrap();
        assert_eq!(item.to_line(), "Ann: Send the report (by Friday)");
        let item = checked("Send the report", Some("Peter"), Some("Monday")).unwrap();
        assert_eq!(item, ActionItem { task: "Send the report".into(), assignee: None, due: None });
        let item = checked("Book the room", Some("Carol"), Some("null")).unwrap();
        assert_eq!((item.assignee.as_deref(), item.due), (Some("Carol"), None));
        assert_eq!(checked("Book the room", Some("I"), None).unwrap().assignee, None);
    }

    #[test]
    fn a_task_that_the_text_lacks_is_dropped() {
        assert_eq!(checked("Buy flowers for the garden", None, None), None);
        assert_eq!(checked("Send the report to Paris", None, None), None);
    }

    #[test]
    fn a_thousand_items_of_three_hours_are_checked_at_once() {
        let line =
            |n: usize| format!("Ann: Bob will send report number{n} about subject{} to the bank on Friday.\n", n % 97);
        let source = Source::from_text(&(0..3000).map(line).collect::<String>());
        let began = std::time::Instant::now();
        let text = Text::new(&source);
        for n in 0..1000 {
            let action = format!("Send report number{n} about subject{}", n % 97);
            let item = text.check(Found { action, by: Some("Bob".into()), due: Some("on Friday".into()) });
            assert_eq!(item.and_then(|item| item.due).as_deref(), Some("on Friday"));
        }
        // Comparing each item with each unit takes minutes here, where nothing is optimized.
        assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
    }
}
