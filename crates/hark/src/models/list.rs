//! `hark models list`: a table for people, JSON for programs.

use std::fmt::Write;

use hark_models::{CONTEXT, Installed, LANGUAGE_MODELS, Model, Role};
use serde_json::json;

use super::ModelLibrary;
use crate::doctor::bytes;
use crate::{CliError, output};

/// One line of the list.
struct Row {
    name: String,
    role: Role,
    installed: Option<Installed>,
    size: u64,
    /// Bytes of memory with the default context; of language models only.
    memory: Option<u64>,
    licence: String,
    description: String,
    /// Where it came from, or would come from first.
    source: String,
    sources: Vec<String>,
}

pub(super) fn run(library: &ModelLibrary, json: bool) -> Result<(), CliError> {
    let rows = rows(library);
    output::print(if json { as_json(library, &rows) } else { as_table(library, &rows) })
}

/// The catalogue without test sounds, then what is installed and in no catalogue.
fn rows(library: &ModelLibrary) -> Vec<Row> {
    let mut rows: Vec<Row> =
        library.catalogue.listed().map(|model| row_of(model, library.store.installed(&model.name))).collect();
    for (name, installed) in library.store.all_installed() {
        if library.catalogue.get(&name).is_some() {
            continue;
        }
        let manifest = installed.manifest.as_ref();
        rows.push(Row {
            name,
            role: Role::Other,
            size: installed_size(&installed),
            memory: memory_of(None, Some(&installed)),
            licence: manifest.map(|manifest| manifest.licence.clone()).unwrap_or_default(),
            description: "not in the catalogue".to_owned(),
            source: manifest.map_or_else(|| "copied by hand".to_owned(), |manifest| manifest.source.clone()),
            sources: Vec::new(),
            installed: Some(installed),
        });
    }
    rows
}

fn row_of(model: &Model, installed: Option<Installed>) -> Row {
    let sources: Vec<String> = model.sources.iter().map(|source| source.describe()).collect();
    let source = match &installed {
        Some(installed) => match &installed.manifest {
            Some(manifest) => manifest.source.clone(),
            None => "copied by hand".to_owned(),
        },
        None => sources.first().cloned().unwrap_or_default(),
    };
    Row {
        name: model.name.clone(),
        role: model.role,
        size: installed.as_ref().map_or(model.size_bytes, installed_size),
        memory: memory_of(Some(model), installed.as_ref()),
        licence: model.licence.clone(),
        description: model.description.clone(),
        source,
        sources,
        installed,
    }
}

/// What a language model needs in memory: as its file says where it is installed, else as the table of known models does.
fn memory_of(model: Option<&Model>, installed: Option<&Installed>) -> Option<u64> {
    if let Some(installed) = installed {
        return hark_lm::memory_needed(&installed.dir.join("model.gguf"), CONTEXT as usize).ok();
    }
    let known = LANGUAGE_MODELS.iter().find(|known| model.is_some_and(|model| known.pull == model.name))?;
    Some(known.memory_bytes(CONTEXT))
}

/// Bytes of the files, whether a manifest lists them or not.
fn installed_size(installed: &Installed) -> u64 {
    match &installed.manifest {
        Some(manifest) => manifest.files.iter().map(|file| file.size).sum(),
        None => {
            let entries = std::fs::read_dir(&installed.dir).into_iter().flatten().flatten();
            entries.filter_map(|entry| entry.metadata().ok()).filter(|data| data.is_file()).map(|data| data.len()).sum()
        }
    }
}

fn as_table(library: &ModelLibrary, rows: &[Row]) -> String {
    let name_width = rows.iter().map(|row| row.name.len()).max().unwrap_or(0).max(4);
    let licence_width = rows.iter().map(|row| row.licence.len()).max().unwrap_or(0).max(7);
    let mut out =
        format!("{:name_width$}  installed      size    memory  {:licence_width$}  from\n", "name", "licence");
    for row in rows {
        let installed = if row.installed.is_some() { "yes" } else { "-" };
        let size = if row.size > 0 { bytes(row.size) } else { "?".to_owned() };
        let memory = row.memory.map_or_else(|| "-".to_owned(), bytes);
        let _ = writeln!(
            out,
            "{:name_width$}  {installed:9}  {size:>8}  {memory:>8}  {:licence_width$}  {}",
            row.name, row.licence, row.source
        );
    }
    let served: Vec<String> = library
        .aliases
        .names()
        .filter_map(|name| Some(format!("{name} → {}", library.resolve(name).ok()?.checkpoint)))
        .collect();
    let _ = writeln!(out, "\nmodels folder: {}", library.store.dir().display());
    if !served.is_empty() {
        let _ = writeln!(out, "names served here: {}", served.join(", "));
    }
    let _ = writeln!(
        out,
        "`hark models pull NAME` fetches one, `hark models pull hf:OWNER/REPO/FILE.gguf` another language model of the hub"
    );
    let _ = writeln!(out, "memory: of language models, with a context of {CONTEXT} tokens");
    out
}

fn as_json(library: &ModelLibrary, rows: &[Row]) -> String {
    let models: Vec<_> = rows
        .iter()
        .map(|row| {
            json!({
                "name": row.name,
                "role": row.role,
                "installed": row.installed.is_some(),
                "folder": row.installed.as_ref().map(|installed| &installed.dir),
                "format": row.installed.as_ref().map(|installed| &installed.format),
                "size_bytes": row.size,
                "memory_bytes": row.memory,
                "licence": row.licence,
                "description": row.description,
                "source": row.source,
                "sources": row.sources,
            })
        })
        .collect();
    let aliases: serde_json::Map<_, _> = library
        .aliases
        .names()
        .map(|name| (name.to_owned(), json!(library.resolve(name).ok().map(|found| found.checkpoint))))
        .collect();
    format!("{:#}\n", json!({ "folder": library.store.dir(), "models": models, "aliases": aliases }))
}
