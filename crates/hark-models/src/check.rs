//! What a catalogue must hold to: names that stay in the models folder, sources that give files, hashes that are hashes.

use std::collections::HashSet;

use crate::catalogue::{Model, Source};

/// A name that is safe as a folder: no separators, no leading dot.
pub(crate) fn is_safe_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 100
        && !name.starts_with('.')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

/// A relative path that stays below the folder it is joined to.
pub(crate) fn is_safe_path(path: &str) -> bool {
    !path.is_empty()
        && !path.contains(['\\', '\0', ':'])
        && path.split('/').all(|part| !part.is_empty() && part != "." && part != "..")
}

pub(crate) fn check_model(model: &Model) -> Result<(), String> {
    if !is_safe_name(&model.name) {
        return Err("a name has letters, digits, `-`, `_` and `.` only, and no dot in front".into());
    }
    if model.sources.is_empty() {
        return Err("it has no source".into());
    }
    model
        .sources
        .iter()
        .try_for_each(|source| check_source(source).map_err(|why| format!("{}: {why}", source.describe())))
}

fn check_source(source: &Source) -> Result<(), String> {
    let mut names = HashSet::new();
    if source.files.is_empty() {
        return Err("it gives no files".into());
    }
    for file in &source.files {
        if !is_safe_path(&file.name) || file.name == crate::manifest::MANIFEST_NAME {
            return Err(format!("{:?} is no name for a file in the model's folder", file.name));
        }
        if !names.insert(&file.name) {
            return Err(format!("{} stands in it twice", file.name));
        }
        if let Some(hash) = &file.sha256 {
            check_hex(hash, 64)?;
        }
        if let Some(hash) = &file.git_sha1 {
            check_hex(hash, 40)?;
        }
        let archives = source.archives().len();
        if archives == 0 && !file.parts.is_empty() {
            return Err(format!("{} has parts but the source has no archives", file.name));
        }
        if file.deflated.is_some() && (file.parts.is_empty() || file.size.is_none() || file.sha256.is_none()) {
            return Err(format!("{} is deflated and needs parts, size and sha256", file.name));
        }
        if let Some(part) = file.parts.iter().find(|part| part.archive >= archives) {
            return Err(format!("{} names archive {} of {archives}", file.name, part.archive));
        }
    }
    source.archives().iter().try_for_each(|archive| check_hex(&archive.sha256, 64))
}

pub(crate) fn check_hex(text: &str, length: usize) -> Result<(), String> {
    if text.len() == length && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)) {
        Ok(())
    } else {
        Err(format!("{text:?} is no hash of {length} lowercase hexadecimal digits"))
    }
}
