//! What a run of `hark bench diarize` found, for people (a table) and for programs (JSON).

use std::{collections::BTreeMap, fmt::Write};

use serde::Serialize;

use super::super::{
    report::{aligned, megabytes},
    systems::NotRun,
};
use super::score::{self, Errors, Span};

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
}
