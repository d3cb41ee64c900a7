//! What a run found, for people (a table) and for programs (JSON).

use std::fmt::Write;

use serde::Serialize;

use super::{measure::Load, spread::Spread, systems::NotRun, wer::WordErrors};

/// One system's figures.
#[derive(Debug, Clone, Serialize)]
pub struct Measured {
    /// Its name.
    pub name: String,
    /// What it was told.
    pub settings: String,
    /// What ran, as it names itself.
    pub version: String,
    /// True for Hark.
    pub is_hark: bool,
    /// True where only its words count: it ran once and its speed is no contest.
    pub reference_only: bool,
    /// Seconds of audio a second of wall time.
    pub speed: Spread,
    /// Processor seconds a round.
    pub cpu_seconds: Option<Spread>,
    /// Errors per word said.
    pub word_error_rate: Option<f64>,
    /// The errors by kind.
    pub word_errors: Option<WordErrors>,
    /// Words that came with times.
    pub timed_words: usize,
    /// False when two rounds gave different words.
    pub same_text_every_round: bool,
    /// High-water mark of resident memory.
    pub peak_memory_bytes: Option<u64>,
    /// Seconds to load the model, outside all other times.
    pub load_seconds: f64,
}

/// The machine it ran on.
#[derive(Debug, Clone, Serialize)]
pub struct Machine {
    /// The processor's name.
    pub processor: String,
    /// Cores that this process may use.
    pub cores: usize,
    /// Load by others.
    pub load: Load,
}

/// A whole run.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// `long` or `clips`.
    pub scenario: String,
    /// The model that everybody ran.
    pub model: String,
    /// How many files.
    pub files: usize,
    /// Their length together.
    pub audio_seconds: f64,
    /// Whether word times were asked for.
    pub words: bool,
    /// How many rounds.
    pub rounds: usize,
    /// Where.
    pub machine: Machine,
    /// The figures.
    pub systems: Vec<Measured>,
    /// What could not be run.
    pub not_run: Vec<NotRun>,
    /// The fastest peer by median.
    pub best_peer: Option<String>,
    /// Hark's speed over the best peer's, median of the rounds.
    pub ratio_to_best_peer: Option<f64>,
    /// The same ratio round by round, both taken in the same round.
    pub ratio_to_best_peer_spread: Option<Spread>,
}

impl Report {
    /// Finds the best peer and the ratio to it.
    pub fn compare(&mut self) {
        let hark = self.systems.iter().find(|system| system.is_hark);
        let contest = self.systems.iter().filter(|system| !system.is_hark && !system.reference_only);
        let best = contest.max_by(|a, b| a.speed.median.total_cmp(&b.speed.median));
        self.best_peer = best.map(|best| best.name.clone());
        let spread = hark.zip(best).and_then(|(hark, best)| {
            Spread::of(hark.speed.rounds.iter().zip(&best.speed.rounds).map(|(ours, theirs)| ours / theirs).collect())
        });
        self.ratio_to_best_peer = spread.as_ref().map(|spread| spread.median);
        self.ratio_to_best_peer_spread = spread;
    }

    /// The table for the terminal.
    pub fn table(&self) -> String {
        let mut rows = vec![
            ["system", "settings", "× real time", "cpu s", "WER %", "sub/ins/del", "memory", "load s"]
                .map(str::to_owned),
        ];
        for system in &self.systems {
            rows.push([
                system.name.clone(),
                system.settings.clone(),
                format!("{:.1}", system.speed),
                system.cpu_seconds.as_ref().map_or("-".to_owned(), |cpu| format!("{:.1}", cpu.median)),
                system.word_error_rate.map_or("-".to_owned(), |rate| format!("{:.2}", rate * 100.0)),
                system.word_errors.map_or("-".to_owned(), |errors| {
                    format!("{}/{}/{}", errors.substitutions, errors.insertions, errors.deletions)
                }),
                system.peak_memory_bytes.map_or("-".to_owned(), megabytes),
                format!("{:.2}", system.load_seconds),
            ]);
        }
        let mut out = String::new();
        let words = if self.words { "word times on" } else { "word times off" };
        let _ = writeln!(
            out,
            "{}: {}, {} file{}, {:.0} s of audio, {} round{}, {words}",
            self.scenario,
            self.model,
            self.files,
            plural(self.files),
            self.audio_seconds,
            self.rounds,
            plural(self.rounds)
        );
        let load =
            self.machine.load.before.map_or(String::new(), |load| format!(", load {load:.1} before the first round"));
        let _ = writeln!(
            out,
            "{}, {} core{}{load}\n",
            self.machine.processor,
            self.machine.cores,
            plural(self.machine.cores)
        );
        out.push_str(&aligned(&rows));
        for system in self.systems.iter().filter(|system| !system.same_text_every_round) {
            let _ = writeln!(out, "{} gave different words in different rounds", system.name);
        }
        for peer in &self.not_run {
            let _ = writeln!(out, "{} not run: {}", peer.name, peer.why);
        }
        if let Some((best, ratio)) = self.best_peer.as_ref().zip(self.ratio_to_best_peer_spread.as_ref()) {
            let _ = writeln!(out, "\nhark is {ratio:.2} × as fast as the best peer, {best}");
        }
        out
    }
}

/// Rows of cells as a table with columns as wide as they need: the first two to the left, figures to the right.
pub fn aligned<const COLUMNS: usize>(rows: &[[String; COLUMNS]]) -> String {
    let mut widths = [0; COLUMNS];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
            let padding = " ".repeat(width - cell.chars().count());
            let gap = if column > 0 { "  " } else { "" };
            let _ =
                if column < 2 { write!(line, "{gap}{cell}{padding}") } else { write!(line, "{gap}{padding}{cell}") };
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// Bytes as people read them.
pub fn megabytes(bytes: u64) -> String {
    format!("{:.0} MB", bytes as f64 / 1e6)
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// The processor's name and how many cores this process may use.
pub fn machine(load: Load) -> Machine {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = info
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':').map(|(_, name)| name.trim().to_owned()));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Machine { processor: name.unwrap_or_else(|| std::env::consts::ARCH.to_owned()), cores, load }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    fn measured(name: &str, is_hark: bool, reference_only: bool, rounds: &[f64]) -> Measured {
        Measured {
            name: name.into(),
            settings: "beam 1".into(),
            version: format!("{name} 1.0"),
            is_hark,
            reference_only,
            speed: Spread::of(rounds.to_vec()).unwrap(),
            cpu_seconds: None,
            word_error_rate: Some(0.125),
            word_errors: Some(WordErrors { substitutions: 5, insertions: 2, deletions: 1, reference_words: 64 }),
            timed_words: 0,
            same_text_every_round: true,
            peak_memory_bytes: Some(512_000_000),
            load_seconds: 0.5,
        }
    }

    pub fn sample() -> Report {
        let mut report = Report {
            scenario: "long".into(),
            model: "whisper-base".into(),
            files: 1,
            audio_seconds: 600.0,
            words: false,
            rounds: 3,
            machine: Machine { processor: "Test CPU".into(), cores: 2, load: Load { before: Some(0.25), after: None } },
            systems: vec![
                measured("hark", true, false, &[100.0, 80.0, 120.0]),
                measured("slow <peer>", false, false, &[5.0, 5.0, 5.0]),
                measured("fast peer", false, false, &[25.0, 10.0, 24.0]),
                measured("float32", false, true, &[50.0]),
            ],
            not_run: vec![NotRun { name: "other".into(), why: "not installed".into() }],
            best_peer: None,
            ratio_to_best_peer: None,
            ratio_to_best_peer_spread: None,
        };
        report.compare();
        report
    }

    #[test]
    fn the_ratio_is_taken_round_by_round_to_the_fastest_peer_in_the_contest() {
        let report = sample();
        assert_eq!(report.best_peer.as_deref(), Some("fast peer"));
        let spread = report.ratio_to_best_peer_spread.unwrap();
        assert_eq!((spread.rounds.as_slice(), report.ratio_to_best_peer), ([4.0, 8.0, 5.0].as_slice(), Some(5.0)));
    }

    #[test]
    fn the_table_shows_each_system_what_did_not_run_and_the_verdict() {
        let table = sample().table();
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines[0], "long: whisper-base, 1 file, 600 s of audio, 3 rounds, word times off");
        assert_eq!(lines[1], "Test CPU, 2 cores, load 0.2 before the first round");
        assert_eq!(lines[3], "system       settings          × real time  cpu s  WER %  sub/ins/del  memory  load s");
        assert_eq!(lines[4], "hark         beam 1    100.0 [80.0..120.0]      -  12.50        5/2/1  512 MB    0.50");
        assert!(table.contains("other not run: not installed"), "{table}");
        assert!(table.ends_with("hark is 5.00 [4.00..8.00] × as fast as the best peer, fast peer\n"), "{table}");
    }

    #[test]
    fn the_json_has_the_ratio_as_a_number_and_every_round() {
        let json = serde_json::to_value(sample()).unwrap();
        assert_eq!(json["ratio_to_best_peer"], 5.0);
        assert_eq!(json["systems"][0]["speed"]["rounds"], serde_json::json!([100.0, 80.0, 120.0]));
        assert_eq!(json["systems"][0]["word_errors"]["substitutions"], 5);
        assert_eq!(json["not_run"][0]["why"], "not installed");
    }

    #[test]
    fn without_peers_there_is_no_ratio_and_no_claim() {
        let mut report = sample();
        report.systems.truncate(1);
        report.compare();
        assert_eq!((report.ratio_to_best_peer, report.best_peer.as_deref()), (None, None));
        assert!(!report.table().contains("best peer"));
    }

    #[test]
    fn a_system_whose_words_change_between_rounds_is_named() {
        let mut report = sample();
        report.systems[2].same_text_every_round = false;
        assert!(report.table().contains("fast peer gave different words in different rounds"));
    }
}
