//! Summaries: of a short text in one completion, of a long one from notes on its parts.

use std::collections::HashSet;

use serde::Serialize;
use serde_json::{Value, json};

use crate::analyze;
use crate::context::{self, Context};
use crate::error::TextError;
use crate::extract;
use crate::facts::FactChecker;
use crate::parts::Part;
use crate::prompt::{self, Prompt};
use crate::schema;
use crate::sentences;
use crate::source::Source;

pub use hark_transcript::SummaryStyle;

/// A summary of a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Summary {
    /// Markdown; plain sentences for brief ones.
    pub summary: String,
    /// Words of the summary.
    pub word_count: usize,
    /// How it was written.
    pub style: SummaryStyle,
    /// Over how many parts of the text it was made.
    pub parts: usize,
    /// The model that wrote it.
    pub model: String,
}

/// Tokens of the notes on one part.
const NOTES_TOKENS: usize = 240;

/// Tokens of the shortest part on which notes are taken: a small model overlooks less in a short one.
const NOTES_PART_TOKENS: usize = 1200;

/// Parts of the shortest length; a longer source has longer parts.
const MOST_NOTES: usize = 12;

/// Tokens of notes that were merged.
const CONDENSED_TOKENS: usize = 480;

/// The JSON schema of a [`Summary`].
pub(crate) fn result_schema() -> Value {
    schema::object(&[
        ("summary", json!({"type": "string", "minLength": 1})),
        ("word_count", json!({"type": "integer", "minimum": 0})),
        ("style", schema::one_of(&["brief", "detailed", "executive", "action_items", "bullet_points"])),
        ("parts", json!({"type": "integer", "minimum": 1})),
        ("model", json!({"type": "string"})),
    ])
}

fn task(style: SummaryStyle) -> &'static str {
    match style {
        SummaryStyle::Brief => {
            "Write a summary of 2 to 4 plain sentences in one paragraph: what it is about, what was decided or found, and what comes next. No list, no heading, \
             no introduction."
        }
        SummaryStyle::Detailed => {
            "Write a detailed summary with a short paragraph for each subject, in the order of the text. Say who said, decided or asked what, and why, \
             with the names, numbers and dates of the text. Write only the summary."
        }
        SummaryStyle::Executive => {
            "Write an executive summary for somebody who has to decide: first one sentence with the outcome, then one short paragraph with the decisions \
             and their reasons, then one with risks and next steps. Write only the summary."
        }
        SummaryStyle::ActionItems => "List what has to be done, by whom and until when.",
        SummaryStyle::BulletPoints => {
            "Summarize it as 4 to 8 bullet points, each one short sentence on a line that begins with \"- \", the most important first. Write only the list."
        }
    }
}

fn max_tokens(style: SummaryStyle) -> usize {
    match style {
        SummaryStyle::Brief => 220,
        SummaryStyle::Detailed => 800,
        SummaryStyle::Executive => 420,
        SummaryStyle::ActionItems | SummaryStyle::BulletPoints => 400,
    }
}

/// Sentences of the text when the model's own words can't be used.
fn fallback(style: SummaryStyle, source: &Source) -> String {
    match style {
        SummaryStyle::Brief => extract::extract(source, 3, 300).join(" "),
        SummaryStyle::Executive => extract::extract(source, 5, 300).join(" "),
        SummaryStyle::Detailed => extract::extract(source, 10, 400).join(" "),
        SummaryStyle::ActionItems | SummaryStyle::BulletPoints => bullets(&extract::extract(source, 6, 200)),
    }
}

/// A summary in the language of the text. Sentences with names, numbers or dates that the text does not have are left out; it is
/// never empty.
pub async fn summarize(context: &Context<'_>, source: &Source, style: SummaryStyle) -> Result<Summary, TextError> {
    if source.is_empty() {
        return Err(TextError::Empty);
    }
    let (summary, parts) = match style {
        SummaryStyle::ActionItems => {
            let (items, parts) = analyze::action_items(context, source).await?;
            let lines: Vec<String> = items.action_items.iter().map(analyze::ActionItem::to_line).collect();
            (if lines.is_empty() { no_action_items(source).into() } else { bullets(&lines) }, parts)
        }
        SummaryStyle::Detailed => detailed(context, source).await?,
        _ => {
            let condensed = condense(context, source, max_tokens(style)).await?;
            (write(context, source, &condensed, style).await?, condensed.parts)
        }
    };
    let word_count = sentences::count_words(&summary);
    Ok(Summary { summary, word_count, style, parts, model: context.model_name().to_owned() })
}

/// A short text in one completion; of a long one a paragraph for each part, since writing those once more would lose facts.
async fn detailed(context: &Context<'_>, source: &Source) -> Result<(String, usize), TextError> {
    let style = SummaryStyle::Detailed;
    let parts = note_parts(context, source, max_tokens(style))?;
    if parts.len() == 1 {
        let condensed = condense(context, source, max_tokens(style)).await?;
        return Ok((write(context, source, &condensed, style).await?, 1));
    }
    context.expect(parts.len());
    let notes = notes_on(context, source, &parts).await?;
    let mut said = HashSet::new();
    let paragraphs = notes.iter().map(|notes| without_repeats(&paragraph(notes), &mut said));
    let paragraphs: Vec<String> = paragraphs.filter(|paragraph| !paragraph.is_empty()).collect();
    Ok((paragraphs.join("\n\n"), parts.len()))
}

/// A paragraph without sentences that were said before, here or in another paragraph: a small model repeats itself.
fn without_repeats(paragraph: &str, said: &mut HashSet<String>) -> String {
    let new = sentences::split(paragraph).into_iter().filter(|sentence| {
        let words = paragraph[sentence.clone()].split(|c: char| !c.is_alphanumeric());
        let key = words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ").to_lowercase();
        key.is_empty() || said.insert(key)
    });
    new.map(|sentence| paragraph[sentence].trim()).collect::<Vec<_>>().join(" ")
}

async fn write(
    context: &Context<'_>,
    source: &Source,
    condensed: &Condensed,
    style: SummaryStyle,
) -> Result<String, TextError> {
    let checker = FactChecker::new(source);
    let summary = write_checked(context, source, condensed, &checker, task(style), max_tokens(style)).await?;
    Ok(summary.unwrap_or_else(|| fallback(style, source)))
}

/// Lines, or points of a list, as one paragraph.
fn paragraph(lines: &str) -> String {
    let points = lines.lines().map(|line| line.trim().trim_start_matches(['-', '*', '•']).trim());
    points.filter(|point| !point.is_empty()).collect::<Vec<_>>().join(" ")
}

/// A source that fits one prompt: its own text, or notes on its parts.
pub(crate) struct Condensed {
    /// What it is, for the prompt.
    pub noun: &'static str,
    /// The text or the notes.
    pub text: String,
    /// Parts of the source.
    pub parts: usize,
}

/// What a source is called in a prompt.
pub(crate) fn noun(source: &Source) -> &'static str {
    if source.is_transcript() || !source.speakers().is_empty() { "transcript" } else { "text" }
}

/// Makes a source fit one prompt with an answer of `answer_tokens`: a long one is replaced by notes on its parts, which are merged
/// in levels until they fit.
pub(crate) async fn condense(
    context: &Context<'_>,
    source: &Source,
    answer_tokens: usize,
) -> Result<Condensed, TextError> {
    let parts = note_parts(context, source, answer_tokens)?;
    if let [part] = parts.as_slice() {
        context.expect(1);
        let text = source.render(part.units.clone(), part.span.clone());
        return Ok(Condensed { noun: noun(source), text, parts: 1 });
    }
    context.expect(parts.len() + 1);
    let checker = FactChecker::new(source);
    let mut notes = notes_on(context, source, &parts).await?;
    let budget = context.part_budget(answer_tokens.max(CONDENSED_TOKENS))?;
    loop {
        let groups = group(&notes, budget, &|text| context.count_tokens(text));
        if groups.len() == 1 {
            break;
        }
        context.expect(groups.len());
        let merges = groups.iter().map(|group| {
            take_notes(
                context,
                source,
                &checker,
                "notes",
                group.clone(),
                prompt::CONDENSE_TASK.into(),
                CONDENSED_TOKENS,
            )
        });
        let merged = context::all(merges.collect()).await?;
        // Each level must be shorter than the one before, or it would never end.
        let length = |notes: &[String]| notes.iter().map(String::len).sum::<usize>();
        if length(&merged) * 10 > length(&notes) * 9 {
            notes = shorten_notes(&merged, budget, &|text| context.count_tokens(text));
            break;
        }
        notes = merged;
    }
    Ok(Condensed { noun: "notes", text: notes.join("\n\n"), parts: parts.len() })
}

/// One part where the source fits one prompt with an answer of `answer_tokens`, else the parts on which notes are taken.
fn note_parts(context: &Context<'_>, source: &Source, answer_tokens: usize) -> Result<Vec<Part>, TextError> {
    let answer_tokens = answer_tokens.max(NOTES_TOKENS);
    let parts = context.parts(source, answer_tokens, usize::MAX)?;
    if parts.len() == 1 {
        return Ok(parts);
    }
    let total: usize = parts.iter().map(|part| part.tokens).sum();
    context.parts(source, answer_tokens, (total / MOST_NOTES).max(NOTES_PART_TOKENS))
}

/// Notes on each part, with nothing that the source does not have.
async fn notes_on(context: &Context<'_>, source: &Source, parts: &[Part]) -> Result<Vec<String>, TextError> {
    let checker = FactChecker::new(source);
    let notes = parts.iter().enumerate().map(|(at, part)| {
        let text = source.render(part.units.clone(), part.span.clone());
        let task = prompt::notes_task(at + 1, parts.len());
        take_notes(context, source, &checker, noun(source), text, task, NOTES_TOKENS)
    });
    context::all(notes.collect()).await
}

async fn take_notes(
    context: &Context<'_>,
    source: &Source,
    checker: &FactChecker,
    noun: &str,
    text: String,
    task: String,
    max_tokens: usize,
) -> Result<String, TextError> {
    let prompt = Prompt { noun, text: &text, task, language: source.language() };
    let notes = context.text(&prompt, max_tokens, 0).await?;
    let (founded, _) = checker.keep_founded(&notes);
    if founded.is_empty() {
        // Notes that have nothing of the text: the text speaks for itself.
        return Ok(bullets(&extract::extract(&Source::from_text(&text), 8, 200)));
    }
    Ok(founded)
}

/// Neighbouring notes joined as far as they fit `budget` tokens; each group has at least one.
fn group(notes: &[String], budget: usize, count_tokens: &dyn Fn(&str) -> usize) -> Vec<String> {
    let mut groups: Vec<(String, usize)> = Vec::new();
    for note in notes {
        let tokens = count_tokens(note) + 1;
        match groups.last_mut() {
            Some((text, sum)) if *sum + tokens <= budget => {
                text.push('\n');
                text.push_str(note);
                *sum += tokens;
            }
            _ => groups.push((note.clone(), tokens)),
        }
    }
    groups.into_iter().map(|(text, _)| text).collect()
}

/// The first points of each note, as many as fit: for a model that does not make notes shorter.
fn shorten_notes(notes: &[String], budget: usize, count_tokens: &dyn Fn(&str) -> usize) -> Vec<String> {
    let share = budget / notes.len().max(1);
    let shorten = |note: &String| {
        let mut sum = 0;
        let fits = |line: &&str| {
            sum += count_tokens(line) + 1;
            sum <= share
        };
        note.lines().take_while(fits).collect::<Vec<_>>().join("\n")
    };
    notes.iter().map(shorten).filter(|note| !note.is_empty()).collect()
}

/// Lets the model write and drops what is unfounded. Where that is a third or more it may try once more, and the better one is taken;
/// none when nothing is left.
pub(crate) async fn write_checked(
    context: &Context<'_>,
    source: &Source,
    condensed: &Condensed,
    checker: &FactChecker,
    task: &str,
    max_tokens: usize,
) -> Result<Option<String>, TextError> {
    let mut best = String::new();
    let mut avoid = Vec::new();
    for attempt in 0..2 {
        let mut task = task.to_owned();
        if !avoid.is_empty() {
            task.push_str(&format!(" Do not mention {}: it is not in the {}.", avoid.join(", "), condensed.noun));
        }
        let prompt = Prompt { noun: condensed.noun, text: &condensed.text, task, language: source.language() };
        let written = context.text(&prompt, max_tokens, attempt).await?;
        let (founded, unfounded) = checker.keep_founded(&written);
        let is_good = !founded.is_empty() && founded.len() * 3 > written.len() * 2;
        if founded.len() > best.len() {
            best = founded;
        }
        if is_good {
            break;
        }
        avoid = unfounded.into_iter().take(5).collect();
        avoid.dedup();
        context.expect(1);
    }
    Ok(Some(best).filter(|best| best.chars().any(char::is_alphanumeric)))
}

pub(crate) fn bullets(lines: &[String]) -> String {
    lines.iter().map(|line| format!("- {line}")).collect::<Vec<_>>().join("\n")
}

fn no_action_items(source: &Source) -> &'static str {
    match source.language().map_or("en", |language| language.code) {
        "de" => "Keine Aufgaben genannt.",
        "es" => "No se mencionan tareas.",
        "fr" => "Aucune tâche mentionnée.",
        "it" => "Nessuna attività menzionata.",
        "pt" => "Nenhuma tarefa mencionada.",
        _ => "No action items are mentioned.",
    }
}
