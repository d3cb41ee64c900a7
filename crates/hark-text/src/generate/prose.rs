//! Articles, posts, notes and letters in Markdown.

use crate::analyze;
use crate::context::Context;
use crate::error::TextError;
use crate::extract;
use crate::facts::FactChecker;
use crate::generate::GenerationType;
use crate::generate::chapters;
use crate::source::Source;
use crate::summarize::{bullets, condense, write_checked};

fn task(kind: GenerationType) -> &'static str {
    match kind {
        GenerationType::BlogPost => {
            "Write a blog post of 300 to 500 words about its subject for readers who were not there, in Markdown: a title line that begins with \"# \", an \
             introduction, 2 to 4 sections with \"## \" headings, and a short conclusion. Use only its facts."
        }
        GenerationType::SocialMedia => {
            "Write 3 social media posts about its most interesting points, each of at most 280 characters, separated by blank lines and numbered \"1. \" to \
             \"3. \". Each stands alone and ends with one or two hashtags. Write only the posts."
        }
        GenerationType::MeetingNotes => {
            "Write the notes of this meeting in Markdown with the headings \"## Summary\", \"## Discussion\" and \"## Decisions\". Under Summary write 2 \
             sentences, under the others lists of short points with the names of who said or decided it. Write only the notes."
        }
        GenerationType::StudyGuide => {
            "Write a study guide in Markdown with the headings \"## Overview\", \"## Key ideas\", \"## Terms\" and \"## Review questions\". Explain the key \
             ideas in short points, define the terms as the text does, and ask 4 questions that the text answers. Write only the guide."
        }
        GenerationType::ShowNotes => {
            "Write show notes for this episode in Markdown: a paragraph of 2 or 3 sentences that says what it is about and who speaks, then a list under \
             \"## In this episode\" with 4 to 8 points. Write only the notes."
        }
        _ => {
            "Write a newsletter in Markdown: a line \"**Subject:** …\", a greeting, 2 to 4 short sections with \"## \" headings about its most important \
             points, and a closing sentence. Write only the newsletter."
        }
    }
}

fn max_tokens(kind: GenerationType) -> usize {
    match kind {
        GenerationType::BlogPost | GenerationType::StudyGuide => 900,
        GenerationType::Newsletter | GenerationType::MeetingNotes => 700,
        _ => 420,
    }
}

/// The content, and over how many parts it was made. Meeting notes end with the checked tasks, show notes with chapters where there are
/// times: those come from their own tasks, which can't invent them.
pub(super) async fn write(
    context: &Context<'_>,
    source: &Source,
    kind: GenerationType,
) -> Result<(String, usize), TextError> {
    let condensed = condense(context, source, max_tokens(kind)).await?;
    let checker = FactChecker::new(source);
    let written = write_checked(context, source, &condensed, &checker, task(kind), max_tokens(kind)).await?;
    let mut content = written.unwrap_or_else(|| bullets(&extract::extract(source, 8, 300)));
    if kind == GenerationType::MeetingNotes {
        let (items, _) = analyze::action_items(context, source).await?;
        if !items.action_items.is_empty() {
            let lines: Vec<String> = items.action_items.iter().map(|item| format!("[ ] {}", item.to_line())).collect();
            content.push_str(&format!("\n\n## Action items\n\n{}", bullets(&lines)));
        }
    }
    if kind == GenerationType::ShowNotes && source.is_transcript() {
        let (chapters, _) = chapters::chapters(context, source).await?;
        content.push_str(&format!("\n\n## Chapters\n\n{}", chapters::to_markdown(&chapters)));
    }
    Ok((content, condensed.parts))
}
