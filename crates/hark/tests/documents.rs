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
    let document = read(DEPENDENCIES);
    let rows = document.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | "));
    let named = rows.map(|(crates, _)| crates).filter(|crates| !crates.starts_with("crate"));
    let named: BTreeSet<String> = named.flat_map(|crates| crates.split(", ")).map(str::to_owned).collect();
    assert!(named.len() > 10, "the table was not found");
    let missing: Vec<_> = declared.difference(&named).collect();
    let stale: Vec<_> = named.difference(&declared).collect();
    assert!(missing.is_empty() && stale.is_empty(), "without a line: {missing:?}; no longer there: {stale:?}");
}

const DEPENDENCIES: &str = "docs/dependencies.md";
