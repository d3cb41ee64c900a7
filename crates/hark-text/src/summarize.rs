//! Summaries: of a short text in one completion, of a long one from notes on its parts.

use serde::Serialize;
use serde_json::{Value, json};

use crate::analyze;
use crate::context::{self, Context};
use crate::error::TextError;
use crate::extract;
use crate::facts::{self, FactChecker};
use crate::parts::Part;
use crate::prompt::{self, Prompt};
use crate::salient::{self, Salient};
use crate::schema;
use crate::sentences;
use crate::shorten::{self, Shortened};
use crate::source::Source;
use crate::support::{Said, Support};
use crate::words::TextIndex;

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
const NOTES_TOKENS: usize = 280;

/// Tokens of the shortest part on which notes are taken: a small model overlooks less in a short one.
const NOTES_PART_TOKENS: usize = 1200;

/// The same for a detailed summary, which is the notes themselves.
const DETAILED_PART_TOKENS: usize = 600;

/// Sentences of a part that its notes are asked to tell.
const NOTED_SENTENCES: usize = 8;

/// How many of them are quoted where the notes do not tell them.
const MAX_UNTOLD: usize = 4;

/// Tokens that these may have.
const NOTED_TOKENS: usize = 400;

/// The share of notes that may be copied from the source; with more they are no notes.
const MAX_COPIED: f64 = 0.5;

/// Words of a sentence that counts as copied: shorter ones come about by chance.
const COPIED_WORDS: usize = 6;

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

/// A very short text in one completion; of others a paragraph for each part, since a small model copies or repeats itself when it writes much at
/// once, and writing the paragraphs once more would lose facts.
async fn detailed(context: &Context<'_>, source: &Source) -> Result<(String, usize), TextError> {
    let style = SummaryStyle::Detailed;
    let whole = context.parts(source, NOTES_TOKENS, usize::MAX)?;
    let parts = parts_of_notes(context, source, &whole, DETAILED_PART_TOKENS)?;
    if parts.len() == 1 {
        let condensed = condense(context, source, max_tokens(style)).await?;
        return Ok((write(context, source, &condensed, style).await?, 1));
    }
    context.expect(parts.len());
    let notes = notes_on(context, source, &FactChecker::new(source), &parts).await?;
    let mut said = Said::default();
    let mut new_paragraph = |notes: &Notes| {
        let prose = paragraph(&notes.prose);
        let new = sentences::split(&prose).into_iter().map(|sentence| prose[sentence].trim());
        let new = new.filter(|sentence| said.is_new(sentence)).collect::<Vec<_>>().join(" ");
        let quotes: Vec<String> =
            notes.untold.iter().filter(|untold| said.is_new(&untold.text)).map(Salient::quote).collect();
        [new, bullets(&quotes)].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n\n")
    };
    let paragraphs: Vec<String> =
        notes.iter().map(&mut new_paragraph).filter(|paragraph| !paragraph.is_empty()).collect();
    Ok((paragraphs.join("\n\n"), parts.len()))
}

async fn write(
    context: &Context<'_>,
    source: &Source,
    condensed: &Condensed,
    style: SummaryStyle,
) -> Result<String, TextError> {
    let checker = FactChecker::new(source);
    let summary = write_checked(context, source, condensed, &checker, task(style), max_tokens(style)).await?;
    Ok(summary.map(|summary| without_repetitions(&summary)).unwrap_or_else(|| fallback(style, source)))
}

/// A text without the sentences that say what was said before, and without headings whose section is gone with them.
fn without_repetitions(text: &str) -> String {
    let mut said = Said::default();
    let mut new = |line: &str| {
        if line.trim().is_empty() || line.starts_with('#') {
            return Some(line.to_owned());
        }
        let sentences = sentences::split(line).into_iter().map(|sentence| &line[sentence]);
        let new: String = sentences.filter(|sentence| said.is_new(sentence)).collect();
        Some(new.trim_end().to_owned()).filter(|new| !new.is_empty())
    };
    let lines: Vec<String> = text.lines().filter_map(&mut new).collect();
    facts::without_empty_sections(lines)
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
    let mut notes: Vec<String> = notes_on(context, source, &checker, &parts).await?.iter().map(Notes::render).collect();
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
            let Shortened { notes: kept, before, after } =
                shorten::shorten_notes(&merged, budget, &|text| context.count_tokens(text));
            if after < before {
                let left_out = merged.len() - kept.len();
                tracing::warn!(parts = parts.len(), tokens = before, kept = after, left_out, "text.notes_shortened");
            }
            notes = kept;
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
    parts_of_notes(context, source, &parts, NOTES_PART_TOKENS)
}

/// The parts on which notes are taken, of at least `shortest` tokens, longer where that would be more than [`MOST_NOTES`] of them.
fn parts_of_notes(
    context: &Context<'_>,
    source: &Source,
    whole: &[Part],
    shortest: usize,
) -> Result<Vec<Part>, TextError> {
    let total: usize = whole.iter().map(|part| part.tokens).sum();
    context.parts(source, NOTES_TOKENS + NOTED_TOKENS, (total / MOST_NOTES).max(shortest))
}

/// Notes on a part of a source.
struct Notes {
    /// In the model's words.
    prose: String,
    /// Important sentences that it does not tell.
    untold: Vec<Salient>,
}

impl Notes {
    fn render(&self) -> String {
        let quotes: Vec<String> = self.untold.iter().map(Salient::quote).collect();
        format!("{}\n{}", self.prose, bullets(&quotes)).trim().to_owned()
    }
}

/// Notes on each part, with nothing that the source does not have.
async fn notes_on(
    context: &Context<'_>,
    source: &Source,
    checker: &FactChecker,
    parts: &[Part],
) -> Result<Vec<Notes>, TextError> {
    let notes = parts.iter().enumerate().map(|(at, part)| {
        let task = prompt::notes_task(at + 1, parts.len());
        async move {
            let important = important_sentences(context, source, part);
            let mut text = source.render(part.units.clone(), part.span.clone());
            if !important.is_empty() {
                let lines: Vec<String> = important.iter().map(Salient::line).collect();
                text.push_str(&format!("\n\n{}\n{}", prompt::IMPORTANT, bullets(&lines)));
            }
            let notes = take_notes(context, source, checker, noun(source), text, task, NOTES_TOKENS).await?;
            if !important.is_empty() && copied_share(&notes, checker) > MAX_COPIED {
                // The model repeats what was said instead of summarizing it: then the important sentences are the better choice.
                return Ok(Notes { prose: String::new(), untold: important });
            }
            let supported = supported(&notes, &Support::new(source, part.units.clone()));
            // Better the model's own words than none.
            let prose = if supported.is_empty() { notes } else { supported };
            let told = TextIndex::new(&prose);
            let untold = important.into_iter().filter(|sentence| !sentence.is_told(&told)).collect();
            Ok(Notes { prose, untold: salient::most_salient(untold, MAX_UNTOLD) })
        }
    });
    context::all(notes.collect()).await
}

/// Notes without sentences that no run of their part supports.
fn supported(notes: &str, support: &Support) -> String {
    let lines = notes.lines().map(|line| {
        let sentences = sentences::split(line).into_iter().map(|sentence| &line[sentence]);
        sentences.filter(|sentence| support.has(sentence)).collect::<String>().trim().to_owned()
    });
    lines.filter(|line| line.chars().any(char::is_alphanumeric)).collect::<Vec<_>>().join("\n")
}

/// The sentences of a part that its notes should not leave out.
fn important_sentences(context: &Context<'_>, source: &Source, part: &Part) -> Vec<Salient> {
    let mut sentences = salient::sentences(source, part.units.clone(), NOTED_SENTENCES);
    let mut tokens = 0;
    sentences.retain(|sentence| {
        tokens += context.count_tokens(&sentence.line()) + 2;
        tokens <= NOTED_TOKENS
    });
    sentences
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

/// The share of a text that is copied from the source in whole sentences, 0 to 1.
fn copied_share(text: &str, checker: &FactChecker) -> f64 {
    let (mut copied, mut all) = (0, 0);
    for sentence in text.lines().flat_map(|line| sentences::split(line).into_iter().map(move |span| &line[span])) {
        let words = sentences::count_words(sentence);
        // A copied turn has its label.
        let said = sentence.split_once(": ").map_or(sentence, |(_, said)| said);
        copied += if words >= COPIED_WORDS && checker.index().has_phrase(said) { words } else { 0 };
        all += words;
    }
    if all == 0 { 0.0 } else { copied as f64 / all as f64 }
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
