//! Tests that `docs/operators/events.md` lists exactly the events that are logged.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const DOCUMENT: &str = "docs/operators/events.md";
/// The crates whose events must be listed: all that are part of the program.
const LISTED: [&str; 18] = [
    "hark",
    "hark-api",
    "hark-compute",
    "hark-cuda",
    "hark-export",
    "hark-http",
    "hark-media",
    "hark-models",
    "hark-sandbox",
    "hark-say",
    "hark-server",
    "hark-speakers",
    "hark-speech",
    "hark-store",
    "hark-text",
    "hark-voice",
    "hark-weights",
    "hark-whisper",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("src/events.rs") {
            found.push(path);
        }
    }
}

/// The level and the message of every `tracing` macro in a source text: its last string literal.
fn events(source: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (at, _) in source.match_indices("tracing::") {
        let Some((level, rest)) = source[at + "tracing::".len()..].split_once("!(") else { continue };
        if !["error", "warn", "info", "debug"].contains(&level) {
            continue;
        }
        let (mut depth, mut in_text, mut text, mut last) = (1, false, String::new(), None);
        let mut characters = rest.chars();
        while let Some(character) = characters.next() {
            match character {
                '\\' if in_text => drop(characters.next()),
                '"' if in_text => {
                    in_text = false;
                    last = Some(std::mem::take(&mut text));
                }
                '"' => in_text = true,
                other if in_text => text.push(other),
                '(' => depth += 1,
                ')' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                break;
            }
        }
        found.extend(last.map(|message| (message, level.to_owned())));
    }
    found
}

fn is_event(message: &str) -> bool {
    let part = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    message.split_once('.').is_some_and(|(subject, what)| part(subject) && part(what))
}

/// Events and their levels; the highest where one has several.
fn logged() -> BTreeMap<String, Vec<String>> {
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for name in LISTED {
        let mut files = Vec::new();
        sources(&root().join("crates").join(name).join("src"), &mut files);
        for file in files {
            for (message, level) in events(&std::fs::read_to_string(&file).unwrap()) {
                assert!(is_event(&message), "{}: {message:?} is no name of an event", file.display());
                all.entry(message).or_default().push(level);
            }
        }
    }
    all
}

#[test]
fn the_table_of_events_says_what_is_logged() {
    let document = std::fs::read_to_string(root().join(DOCUMENT)).unwrap();
    let rows = document.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    let table: BTreeMap<&str, &str> =
        rows.filter_map(|(event, rest)| Some((event, rest.split_once(" | ")?.0))).collect();
    let ours = logged();
    assert!(ours.len() > 80 && table.len() > 80, "events were not found");
    for (event, levels) in &ours {
        let listed = table.get(event.as_str()).unwrap_or_else(|| panic!("{event} is missing in {DOCUMENT}"));
        assert!(
            levels.iter().any(|level| level == listed),
            "{event} is logged as {levels:?}, {DOCUMENT} says {listed}"
        );
    }
    let stale: Vec<_> = table.keys().filter(|&&event| !ours.contains_key(event)).collect();
    assert!(stale.is_empty(), "{DOCUMENT} lists what nobody logs: {stale:?}");
}

#[test]
fn events_are_found_behind_their_fields() {
    let source = "tracing::warn!(job, error = format!(\"a {}\", f(1)), \"job.failed\"); tracing::info_span!(\"x\");";
    assert_eq!(events(source), [("job.failed".to_owned(), "warn".to_owned())]);
    assert!(is_event("job.failed") && !is_event("it failed") && !is_event("a. b"));
}
