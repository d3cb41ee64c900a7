//! Documents say what is so: the table of dependencies names what the workspace depends on, and every setting has its line.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn the_table_of_dependencies_names_exactly_what_the_workspace_depends_on() {
    let manifest: toml::Table = read("Cargo.toml").parse().unwrap();
    let declared = manifest["workspace"]["dependencies"].as_table().unwrap().keys();
    let declared: BTreeSet<String> = declared.filter(|name| !name.starts_with("hark-")).cloned().collect();
    assert_named(&declared, "| crate |");
}

#[test]
fn the_table_of_packages_names_exactly_what_the_web_app_depends_on() {
    let manifest: serde_json::Value = serde_json::from_str(&read("web/package.json")).unwrap();
    let declared = ["dependencies", "devDependencies"].into_iter().flat_map(|kind| manifest[kind].as_object().unwrap());
    assert_named(&declared.map(|(name, _)| name.clone()).collect(), "| package |");
}

/// Compares names with the first column of the table in `docs/dependencies.md` that begins so.
fn assert_named(declared: &BTreeSet<String>, table: &str) {
    let document = read("docs/dependencies.md");
    let rows = document.lines().skip_while(|line| !line.starts_with(table)).skip(2);
    let cells = rows.map_while(|line| line.strip_prefix("| ")?.split_once(" | ")).map(|(names, _)| names);
    let named: BTreeSet<String> = cells.flat_map(|names| names.split(", ")).map(str::to_owned).collect();
    assert!(named.len() > 5, "the table was not found");
    let missing: Vec<_> = declared.difference(&named).collect();
    let stale: Vec<_> = named.difference(declared).collect();
    assert!(missing.is_empty() && stale.is_empty(), "without a line: {missing:?}; no longer there: {stale:?}");
}

#[test]
fn the_openapi_document_of_the_web_app_is_that_of_the_program() {
    let done = std::process::Command::new(env!("CARGO_BIN_EXE_hark")).arg("openapi").output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let now = String::from_utf8(done.stdout).unwrap();
    assert!(now.contains("\"/v1/transcribe\""), "no document: {now}");
    let line = read("web/openapi.json").lines().zip(now.lines()).position(|(then, now)| then != now);
    assert!(
        read("web/openapi.json") == now,
        "web/openapi.json is not up to date (line {}): renew it with `hark openapi > web/openapi.json`",
        line.map_or("missing".to_owned(), |line| (line + 1).to_string())
    );
}

/// The documents of the repository, as paths from its root.
fn documents() -> Vec<PathBuf> {
    fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(root().join(folder)).unwrap().map(Result::unwrap) {
            let path = folder.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                collect(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    let mut found = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"].map(PathBuf::from).to_vec();
    collect(Path::new("docs"), &mut found);
    found
}

/// The anchor that a heading gets: lowercase, without punctuation, blanks as hyphens.
fn anchor(heading: &str) -> String {
    let letters = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = letters.chars().filter(|letter| letter.is_alphanumeric() || [' ', '-', '_'].contains(letter));
    kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
}

#[test]
fn every_link_between_documents_leads_somewhere() {
    let mut dead = Vec::new();
    let mut followed = 0;
    for document in documents() {
        let text = read(document.to_str().unwrap());
        for (at, _) in text.match_indices("](") {
            let Some((target, _)) = text[at + 2..].split_once(')') else { continue };
            if target.contains("://") || target.contains(char::is_whitespace) || target.starts_with("mailto:") {
                continue;
            }
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let path = match file {
                "" => document.clone(),
                file => document.parent().unwrap().join(file),
            };
            followed += 1;
            let leads = root().join(&path).exists()
                && (heading.is_empty()
                    || read(path.to_str().unwrap())
                        .lines()
                        .any(|line| line.starts_with('#') && anchor(line) == heading));
            if !leads {
                dead.push(format!("{}: {target}", document.display()));
            }
        }
    }
    assert!(followed > 50, "only {followed} links were found");
    assert!(dead.is_empty(), "dead links: {dead:#?}");
}

/// Keys that a table of the settings has, as the program lists them when it meets one that it does not know; none where there is no such table.
fn keys_of(table: &str) -> Option<BTreeSet<String>> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hark.toml");
    let prefix = if table.is_empty() { String::new() } else { format!("{table}.") };
    std::fs::write(&file, format!("{prefix}no_such_key = 1\n")).unwrap();
    let done = std::process::Command::new(env!("CARGO_BIN_EXE_hark")).arg("--config").arg(&file).arg("models").output();
    let said = String::from_utf8(done.unwrap().stderr).unwrap();
    let listed = match table {
        "" => said.split_once("the keys are ")?.1.trim().split(", ").map(str::to_owned).collect(),
        _ => said
            .split_once("unknown field `no_such_key`, expected ")?
            .1
            .split('`')
            .skip(1)
            .step_by(2)
            .map(str::to_owned)
            .collect(),
    };
    Some(listed)
}

/// Keys of a table and of the tables in it, as `server.limits.body_rate`.
fn all_keys(table: &str, found: &mut BTreeSet<String>) {
    for key in keys_of(table).unwrap_or_default() {
        let key = if table.is_empty() { key } else { format!("{table}.{key}") };
        // Names of models are the user's own.
        if key != "aliases" {
            all_keys(&key, found);
        }
        found.insert(key);
    }
}

#[test]
fn the_configuration_reference_has_every_key_and_no_other() {
    let mut known = BTreeSet::new();
    all_keys("", &mut known);
    assert!(known.contains("server.recordings.quota.free"), "tables in tables were not found: {known:?}");
    let document = read("docs/operators/configuration.md");
    let (mut documented, mut prefix) = (BTreeSet::new(), None);
    for line in document.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            prefix = match heading.trim_matches(['[', ']']) {
                "Top level" => Some(String::new()),
                table if heading.starts_with('[') => Some(format!("{table}.")),
                _ => None,
            };
        } else if let (Some(prefix), Some(row)) = (&prefix, line.strip_prefix("| `")) {
            documented.insert(format!("{prefix}{}", row.split('`').next().unwrap()));
        }
    }
    let missing: Vec<_> = known.difference(&documented).collect();
    let stale: Vec<_> = documented.difference(&known).collect();
    assert!(missing.is_empty() && stale.is_empty(), "without a row: {missing:?}; no longer there: {stale:?}");
}
