//! The modules of this crate form layers: none uses one above it. Settings and errors lie at the bottom, then limits, the
//! shared state ([`crate::app`]), background work, routes, and the service at the top.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// For each module the modules that it uses, each with a file that does.
type Uses = BTreeMap<String, BTreeMap<String, String>>;

/// The names behind `crate::` in a source text: the one that follows, or those at the top of a group in braces.
fn used_names(source: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (at, _) in source.match_indices("crate::") {
        if source[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$') {
            continue;
        }
        let rest = &source[at + "crate::".len()..];
        let is_name = |c: char| c.is_alphanumeric() || c == '_';
        let Some(group) = rest.strip_prefix('{') else {
            names.insert(rest.split(|c| !is_name(c)).next().unwrap_or_default().to_owned());
            continue;
        };
        let (mut depth, mut name, mut is_first) = (0, String::new(), true);
        for c in group.chars() {
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    names.insert(std::mem::take(&mut name));
                    is_first = true;
                }
                c if depth == 0 && is_first && is_name(c) => name.push(c),
                c if c.is_whitespace() => {}
                _ => is_first = false,
            }
        }
        names.insert(name);
    }
    names.remove("");
    names
}

/// A source text without comments and without its tests, which may look at anything.
fn code_of(source: &str) -> String {
    let code = source.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    code.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

fn read(folder: &Path, module: Option<&str>, uses: &mut Uses) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        let stem = path.file_stem().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            read(&path, Some(module.unwrap_or(&stem)), uses);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let module = module.unwrap_or(&stem).to_owned();
            if module == "lib" || module == "layers" {
                continue;
            }
            let used = uses.entry(module.clone()).or_default();
            for name in used_names(&code_of(&std::fs::read_to_string(&path).unwrap())) {
                if name != module {
                    used.entry(name).or_insert_with(|| path.display().to_string());
                }
            }
        }
    }
}

#[test]
fn no_module_uses_one_that_uses_it() {
    let mut uses = Uses::new();
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), None, &mut uses);
    assert!(uses.len() > 25, "the modules were not found: {:?}", uses.keys());
    for (module, used) in &uses {
        for (name, file) in used {
            assert!(uses.contains_key(name), "{file} ({module}) uses crate::{name}: name the module that it is in");
        }
    }
    // Take away what uses nothing that is left; modules that remain use each other in a circle.
    while let Some(lowest) = uses.iter().find(|(_, used)| used.is_empty()).map(|(module, _)| module.clone()) {
        uses.remove(&lowest);
        uses.values_mut().for_each(|used| drop(used.remove(&lowest)));
    }
    let left: Vec<String> = uses
        .iter()
        .flat_map(|(module, used)| used.iter().map(move |(name, file)| format!("{module} uses {name} in {file}")))
        .collect();
    assert!(left.is_empty(), "these modules use each other, or are above such:\n{}", left.join("\n"));
}

#[test]
fn uses_are_found_in_groups_and_in_paths() {
    let source = "use crate::{app::App, jobs::{self, Kind}, random};\nlet x = crate::mac::hex(1);\nhark_crate::no()";
    let names: Vec<String> = used_names(&code_of(source)).into_iter().collect();
    assert_eq!(names, ["app", "jobs", "mac", "random"]);
    assert!(used_names(&code_of("// crate::app\n#[cfg(test)]\nmod tests { use crate::app; }")).is_empty());
}
