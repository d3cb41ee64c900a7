//! What a run of `hark bench diarize` found, for people (a table) and for programs (JSON).

use std::{collections::BTreeMap, fmt::Write};

use serde::Serialize;

use super::score::{self, Errors, Span};
use crate::{
    report::{aligned, megabytes},
    systems::NotRun,
};

/// The figures of one system on one kind of file.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Figures {
    /// How many files.
    pub files: usize,
    /// Their length together.
    pub seconds: f64,
    /// Errors with every edge counted.
    pub errors: Errors,
    /// Errors without 0.25 s around the edges of the reference.
    pub errors_with_collar: Errors,
    /// The sum of the files' Jaccard errors.
    pub jaccard_sum: f64,
    /// Files whose number of speakers is right.
    pub counts_right: usize,
    /// Words under the right speaker.
    pub words_right: usize,
    /// Words in whose middle one voice of the reference speaks.
    pub words: usize,
    /// The same in live sessions.
    pub live: LiveFigures,
}

impl Figures {
    /// Adds one file.
    pub fn count(&mut self, reference: &[Span], answer: &[Span], seconds: f64) {
        self.files += 1;
        self.seconds += seconds;
        self.errors += score::diarization_errors(reference, answer, 0.0);
        self.errors_with_collar += score::diarization_errors(reference, answer, 0.25);
        self.jaccard_sum += score::jaccard_error(reference, answer);
        self.counts_right += usize::from(score::count(reference) == score::count(answer));
    }

    /// Adds the words of one file.
    pub fn count_words(&mut self, reference: &[Span], words: &[Span]) {
        let (right, counted) = score::words_right(reference, words);
        self.words_right += right;
        self.words += counted;
    }
}

/// Up to this second a session counts as just begun.
const BEGINNING: f64 = 30.0;

/// Words under the right speaker in live sessions; only those in whose middle one voice of the reference speaks.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct LiveFigures {
    /// How many sessions.
    pub files: usize,
    /// Words that were told.
    pub words: usize,
    /// Those under the right speaker when they were told, names paired once for the whole session.
    pub told_right: usize,
    /// Words told that were said in the first 30 s.
    pub first_words: usize,
    /// Those of them under another speaker, or none.
    pub first_wrong: usize,
    /// Words of the result at the end.
    pub final_words: usize,
    /// Those under the right speaker.
    pub final_right: usize,
    /// People of the references.
    pub voices: usize,
    /// Labels told.
    pub told_labels: usize,
    /// Labels of the results at the end.
    pub final_labels: usize,
}

impl LiveFigures {
    /// Adds one session: its words as told, and at the end.
    pub fn count(&mut self, reference: &[Span], told: &[Span], finally: &[Span]) {
        let labels = |words: &[Span]| score::count(words) - usize::from(words.iter().any(|word| word.voice.is_empty()));
        let judged = score::judged_words(reference, told);
        self.files += 1;
        self.words += judged.len();
        self.told_right += judged.iter().filter(|(_, right)| *right).count();
        self.first_words += judged.iter().filter(|(middle, _)| *middle < BEGINNING).count();
        self.first_wrong += judged.iter().filter(|(middle, right)| *middle < BEGINNING && !right).count();
        let (right, counted) = score::words_right(reference, finally);
        self.final_words += counted;
        self.final_right += right;
        self.voices += score::count(reference);
        self.told_labels += labels(told);
        self.final_labels += labels(finally);
    }
}

/// One system.
#[derive(Debug, Clone, Serialize)]
pub struct Measured {
    /// Its name.
    pub name: String,
    /// What ran, as it names itself.
    pub version: String,
    /// True for Hark.
    pub is_hark: bool,
    /// Seconds of audio a second of wall time, each round.
    pub speeds: Vec<f64>,
    /// High-water mark of resident memory.
    pub peak_memory_bytes: Option<u64>,
    /// The figures of each kind of file.
    pub kinds: BTreeMap<String, Figures>,
}

/// A whole run.
#[derive(Debug, Clone, Serialize)]
pub struct DiarizeReport {
    /// Threads for everybody.
    pub threads: usize,
    /// How many rounds.
    pub rounds: u32,
    /// The figures.
    pub systems: Vec<Measured>,
    /// What could not be run.
    pub not_run: Vec<NotRun>,
}

impl DiarizeReport {
    /// The table for the terminal.
    pub fn table(&self) -> String {
        let head = [
            "files",
            "system",
            "DER %",
            "missed/false/confused",
            "DER % at 0.25 s",
            "JER %",
            "count right",
            "words right %",
        ];
        let mut rows = vec![head.map(str::to_owned)];
        let mut kinds: Vec<&String> = self.systems.iter().flat_map(|system| system.kinds.keys()).collect();
        kinds.sort();
        kinds.dedup();
        for kind in kinds {
            for system in &self.systems {
                let Some(figures) = system.kinds.get(kind) else { continue };
                let percent = |part: f64| 100.0 * part / figures.errors.speech.max(f64::MIN_POSITIVE);
                let errors = &figures.errors;
                rows.push([
                    format!("{kind} ({})", figures.files),
                    system.name.clone(),
                    format!("{:.2}", errors.rate() * 100.0),
                    format!(
                        "{:.1}/{:.1}/{:.1}",
                        percent(errors.missed),
                        percent(errors.false_alarm),
                        percent(errors.confused)
                    ),
                    format!("{:.2}", figures.errors_with_collar.rate() * 100.0),
                    format!("{:.1}", 100.0 * figures.jaccard_sum / figures.files as f64),
                    format!("{} of {}", figures.counts_right, figures.files),
                    match figures.words {
                        0 => "-".to_owned(),
                        words => format!("{:.1} of {words}", 100.0 * figures.words_right as f64 / words as f64),
                    },
                ]);
            }
        }
        let mut out = aligned(&rows);
        out.push('\n');
        out.push_str(&self.live_table());
        for system in &self.systems {
            let best = system.speeds.iter().copied().fold(0.0, f64::max);
            let memory = system.peak_memory_bytes.map_or(String::new(), |bytes| format!(", {}", megabytes(bytes)));
            let _ = writeln!(
                out,
                "{}: {best:.0} × real time on {} threads{memory} ({})",
                system.name, self.threads, system.version
            );
        }
        for peer in &self.not_run {
            let _ = writeln!(out, "{} not run: {}", peer.name, peer.why);
        }
        out
    }

    /// What live sessions told; empty where there were none.
    fn live_table(&self) -> String {
        let head = [
            "live",
            "system",
            "words",
            "right as told %",
            "at the end %",
            "wrong in the first 30 s",
            "voices",
            "labels told",
            "at the end",
        ];
        let mut rows = vec![head.map(str::to_owned)];
        for system in &self.systems {
            for (kind, figures) in &system.kinds {
                let live = &figures.live;
                let percent = |right: usize, of: usize| format!("{:.1}", 100.0 * right as f64 / of.max(1) as f64);
                if live.files > 0 {
                    rows.push([
                        format!("{kind} ({})", live.files),
                        system.name.clone(),
                        live.words.to_string(),
                        percent(live.told_right, live.words),
                        percent(live.final_right, live.final_words),
                        format!("{} of {}", live.first_wrong, live.first_words),
                        live.voices.to_string(),
                        live.told_labels.to_string(),
                        live.final_labels.to_string(),
                    ]);
                }
            }
        }
        if rows.len() > 1 { aligned(&rows) + "\n" } else { String::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_a_row_for_each_kind_and_system_and_says_what_did_not_run() {
        let span = |start, end, voice: &str| Span { start, end, voice: voice.to_owned() };
        let mut figures = Figures::default();
        figures.count(&[span(0.0, 8.0, "ann"), span(8.0, 10.0, "bob")], &[span(0.0, 10.0, "x")], 12.0);
        figures.count(&[span(0.0, 10.0, "ann")], &[span(0.0, 10.0, "x")], 12.0);
        figures.count_words(&[span(0.0, 8.0, "ann")], &[span(1.0, 2.0, "x"), span(9.0, 9.5, "x")]);
        assert_eq!((figures.files, figures.counts_right, figures.seconds), (2, 1, 24.0));
        let report = DiarizeReport {
            threads: 2,
            rounds: 2,
            systems: vec![Measured {
                name: "hark".into(),
                version: "hark 1".into(),
                is_hark: true,
                speeds: vec![300.0, 310.4],
                peak_memory_bytes: Some(50_000_000),
                kinds: [("heldout/talk".to_owned(), figures)].into(),
            }],
            not_run: vec![NotRun { name: "senko".into(), why: "not installed".into() }],
        };
        let table = report.table();
        let lines: Vec<&str> = table.lines().collect();
        assert!(lines[1].starts_with("heldout/talk (2)  hark"), "{table}");
        assert!(
            lines[1].contains("10.00")
                && lines[1].contains("0.0/0.0/10.0")
                && lines[1].contains("1 of 2")
                && lines[1].ends_with("100.0 of 1"),
            "{table}"
        );
        assert_eq!(lines[3], "hark: 310 × real time on 2 threads, 50 MB (hark 1)");
        assert_eq!(lines[4], "senko not run: not installed");
    }

    #[test]
    fn live_words_are_counted_as_told_at_the_end_and_in_the_beginning() {
        let span = |start, end, voice: &str| Span { start, end, voice: voice.to_owned() };
        let reference = [span(0.0, 40.0, "ann"), span(40.0, 60.0, "bob")];
        // Ann's first word goes to a third label, and one of bob's has none.
        let told = [
            span(1.0, 2.0, "c"),
            span(3.0, 9.0, "a"),
            span(35.0, 36.0, "a"),
            span(45.0, 46.0, "b"),
            span(50.0, 51.0, ""),
        ];
        let finally = [
            span(1.0, 2.0, "a"),
            span(3.0, 9.0, "a"),
            span(35.0, 36.0, "a"),
            span(45.0, 46.0, "b"),
            span(50.0, 51.0, "b"),
        ];
        let mut figures = Figures::default();
        figures.live.count(&reference, &told, &finally);
        let live = &figures.live;
        assert_eq!((live.told_right, live.words, live.first_wrong, live.first_words), (3, 5, 1, 2));
        assert_eq!((live.final_right, live.final_words), (5, 5));
        assert_eq!((live.voices, live.told_labels, live.final_labels), (2, 3, 2));
        let measured = Measured {
            name: "hark".into(),
            version: "hark 1".into(),
            is_hark: true,
            speeds: vec![300.0],
            peak_memory_bytes: None,
            kinds: [("heldout/talk".to_owned(), figures)].into(),
        };
        let table = DiarizeReport { threads: 2, rounds: 1, systems: vec![measured], not_run: vec![] }.table();
        let row = table.lines().find(|line| line.contains("1 of 2")).expect("a row of live figures");
        assert!(row.contains("60.0") && row.contains("100.0"), "{table}");
    }
}
