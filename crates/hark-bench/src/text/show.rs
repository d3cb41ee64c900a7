//! The report for people: Markdown tables and every miss.

use std::fmt::Write as _;

use super::completions::Workload;
use super::{Report, Share};
use crate::spread::Spread;

/// The report as Markdown.
pub(super) fn markdown(report: &Report) -> String {
    let mut out = format!("# hark bench text\n\nLanguage model {}, {} threads.\n", report.model, report.threads);
    quality(&mut out, report);
    speed(&mut out, report);
    misses(&mut out, report);
    out
}

fn quality(out: &mut String, report: &Report) {
    let (tasks, questions) = (&report.tasks, &report.questions);
    if !tasks.is_empty() {
        out.push_str("\n| transcript | valid | facts named | unfounded | entities: recall | precision | action items | due dates | topics | quotes verbatim | seconds |\n|---|---|---|---|---|---|---|---|---|---|---|\n");
        for figures in tasks {
            let _ = writeln!(
                out,
                "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {:.0} |",
                figures.transcript,
                figures.valid,
                figures.facts,
                figures.unfounded.len(),
                figures.entities_found,
                figures.entities_right,
                figures.actions_found,
                figures.due_right,
                figures.topics_found,
                figures.quotes_verbatim,
                figures.seconds
            );
        }
        let total = |pick: fn(&super::tasks::Figures) -> &Share| Share::sum(tasks.iter().map(pick)).percent();
        let _ = writeln!(
            out,
            "| **all** | {} | {} | {} | {} | {} | {} | {} | {} | {} | {:.0} |",
            total(|figures| &figures.valid),
            total(|figures| &figures.facts),
            tasks.iter().map(|figures| figures.unfounded.len()).sum::<usize>(),
            total(|figures| &figures.entities_found),
            total(|figures| &figures.entities_right),
            total(|figures| &figures.actions_found),
            total(|figures| &figures.due_right),
            total(|figures| &figures.topics_found),
            total(|figures| &figures.quotes_verbatim),
            tasks.iter().map(|figures| figures.seconds).sum::<f64>()
        );
    }
    if !questions.is_empty() {
        out.push_str("\n| transcript | recall@5 | by words alone | answered right | source at the place | refused | seconds |\n|---|---|---|---|---|---|---|\n");
        for figures in questions {
            let super::questions::Figures { transcript, recall, recall_by_words, answered, sourced, refused, .. } =
                figures;
            let seconds = figures.seconds;
            let _ = writeln!(
                out,
                "| {transcript} | {recall} | {recall_by_words} | {answered} | {sourced} | {refused} | {seconds:.0} |"
            );
        }
        let total = |pick: fn(&super::questions::Figures) -> &Share| {
            let sum = Share::sum(questions.iter().map(pick));
            format!("{sum} ({})", sum.percent())
        };
        let _ = writeln!(
            out,
            "| **all** | {} | {} | {} | {} | {} | {:.0} |",
            total(|figures| &figures.recall),
            total(|figures| &figures.recall_by_words),
            total(|figures| &figures.answered),
            total(|figures| &figures.sourced),
            total(|figures| &figures.refused),
            questions.iter().map(|figures| figures.seconds).sum::<f64>()
        );
    }
    if let Some(sentences) = &report.sentences {
        out.push_str("\n| sentences | |\n|---|---|\n");
        for (pair, chrf) in &sentences.chrf {
            let _ = writeln!(out, "| translation {pair}, chrF2 | {chrf:.1} |");
        }
        for (what, recall) in [("patterns", &sentences.pii_patterns), ("names", &sentences.pii_names)] {
            let (found, right) = (&recall.found, &recall.right);
            let _ = writeln!(out, "| personal data, {what}: recall | {found} ({}) |", found.percent());
            let _ = writeln!(out, "| personal data, {what}: precision | {right} ({}) |", right.percent());
        }
        let share = &sentences.sentiment;
        let _ = writeln!(out, "| sentiment right | {share} ({}), {} opposite |", share.percent(), sentences.opposite);
    }
}

fn speed(out: &mut String, report: &Report) {
    let or_dash = |spread: &Option<Spread>, places: usize| {
        spread.as_ref().map_or("-".to_owned(), |spread| format!("{spread:.places$}"))
    };
    if !report.completions.is_empty() {
        out.push_str("\n| tokens a second | clients | Hark | llama-server | ratio |\n|---|---|---|---|---|\n");
        for line in &report.completions {
            let what = match line.workload {
                Workload::Prompt => "prompt",
                Workload::Generation => "generated",
            };
            let (peer, ratio) = (or_dash(&line.peer, 1), or_dash(&line.ratio, 2));
            let _ = writeln!(out, "| {what} | {} | {:.1} | {peer} | {ratio} |", line.clients, line.hark);
        }
    }
    if let Some(figures) = &report.embeddings {
        let (peer, ratio) = (or_dash(&figures.peer, 0), or_dash(&figures.ratio, 2));
        let _ = write!(
            out,
            "\n| embeddings a second | Hark | sentence-transformers | ratio |\n|---|---|---|---|\n| batch of {} | {:.0} | {peer} | {ratio} |\n\nPeer: {}\n",
            figures.texts, figures.hark, figures.peer_note
        );
    }
    if let Some(figures) = &report.second_question {
        let _ = write!(
            out,
            "\n| first text of an answer | seconds |\n|---|---|\n| first question | {:.2} |\n| second question | {:.2} |\n| ratio | {:.2} |\n",
            figures.first, figures.second, figures.ratio
        );
    }
    if let Some(figures) = &report.clip {
        let ratio = figures.beside_summaries.median / figures.idle.median;
        let _ = write!(
            out,
            "\n| clip of 5 s | seconds |\n|---|---|\n| idle | {:.2} |\n| beside 2 summaries ({} written) | {:.2} |\n| ratio of medians | {ratio:.2} |\n",
            figures.idle, figures.summaries, figures.beside_summaries
        );
    }
    if !report.not_run.is_empty() {
        out.push_str("\nNot run:\n\n");
        for line in &report.not_run {
            let _ = writeln!(out, "- {line}");
        }
    }
}

/// Key phrases misjudge: everything that counts as missed is shown, so that a reader can check it.
fn misses(out: &mut String, report: &Report) {
    let tasks = report.tasks.iter().map(|figures| (figures.transcript.as_str(), &figures.misses));
    let questions = report.questions.iter().map(|figures| (figures.transcript.as_str(), &figures.misses));
    let sentences = report.sentences.iter().map(|figures| ("sentences", &figures.misses));
    let all: Vec<_> = tasks.chain(questions).chain(sentences).filter(|(_, misses)| !misses.is_empty()).collect();
    if all.is_empty() {
        return;
    }
    out.push_str("\n## What was missed\n");
    for (name, misses) in all {
        let _ = writeln!(out, "\n{name}:\n");
        for miss in misses {
            let _ = writeln!(out, "- {}", miss.replace('\n', " "));
        }
    }
}
