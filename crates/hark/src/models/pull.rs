//! `hark models pull`: one model after the other, with a bar for what comes.

use std::io::IsTerminal;
use std::time::Duration;

use hark_models::{HubReference, Model, Progress, PullOptions, Role, Step};
use indicatif::{ProgressBar, ProgressStyle};

use super::ModelLibrary;
use crate::CliError;

pub(super) fn run(
    library: &ModelLibrary,
    defaults: Vec<&Model>,
    names: &[String],
    force: bool,
    quiet: bool,
) -> Result<(), CliError> {
    let environment = PullOptions::from_env().map_err(|error| CliError::Usage(error.to_string()))?;
    let options = PullOptions { force, ..environment };
    let mut wanted: Vec<Model> = defaults.into_iter().cloned().collect();
    for name in names {
        let model = match HubReference::parse(name) {
            None => library.entry(name)?.clone(),
            Some(reference) => {
                let reference = reference.map_err(|error| CliError::Usage(error.to_string()))?;
                if !force && library.store.installed(&reference.name()).is_some() {
                    if !quiet {
                        eprintln!("{}: is installed", reference.name());
                    }
                    continue;
                }
                let model = reference.resolve(&library.store, &options);
                let model = model.map_err(|error| CliError::Failed(format!("{name}: {error}")))?;
                if library.catalogue.get(&model.name).is_some() {
                    let what = format!("{} is a model of the catalogue: `hark models pull {}`", model.name, model.name);
                    return Err(CliError::Failed(what));
                }
                if !quiet {
                    eprintln!("{}: licence {}; {}", model.name, model.licence, model.licence_note);
                }
                model
            }
        };
        if !wanted.iter().any(|other| other.name == model.name) {
            wanted.push(model);
        }
    }
    let mut all_there = true;
    for model in &wanted {
        if let Err(error) = pull_one(library, model, &options, quiet) {
            all_there = false;
            eprintln!("{}: {error}", model.name);
        }
    }
    if all_there { Ok(()) } else { Err(CliError::Reported) }
}

fn pull_one(
    library: &ModelLibrary,
    model: &Model,
    options: &PullOptions,
    quiet: bool,
) -> Result<(), hark_models::Error> {
    if !options.force && library.store.installed(&model.name).is_some() {
        if !quiet {
            eprintln!("{}: is installed", model.name);
        }
        return Ok(());
    }
    let bar = Bar::new(&model.name, quiet);
    let installed = library.store.pull(model, options, &mut |progress| bar.show(&progress));
    bar.bar.finish_and_clear();
    let installed = installed?;
    if !quiet {
        let source = installed.manifest.as_ref().map_or("", |manifest| manifest.source.as_str());
        eprintln!("{}: installed from {source}; licence {}", model.name, model.licence);
        if !model.licence_note.is_empty() {
            eprintln!("{}: {}", model.name, model.licence_note);
        }
        if model.role == Role::Language && library.catalogue.get(&model.name).is_none() {
            eprintln!("{}: `model = \"{}\"` in [text] of hark.toml uses it", model.name, model.name);
        }
    }
    Ok(())
}

/// Hidden unless stderr is a terminal.
struct Bar {
    bar: ProgressBar,
    counting: ProgressStyle,
    waiting: ProgressStyle,
}

impl Bar {
    fn new(name: &str, quiet: bool) -> Self {
        let style =
            |template: &str| ProgressStyle::with_template(template).expect("a template of ours").progress_chars("━╸─");
        let visible = !quiet && std::io::stderr().is_terminal();
        let bar = if visible { ProgressBar::new(0) } else { ProgressBar::hidden() };
        bar.set_prefix(name.to_owned());
        if visible {
            bar.enable_steady_tick(Duration::from_millis(200));
        }
        let counting = style("{prefix} {bar:24} {bytes} / {total_bytes}  {bytes_per_sec}  {eta} left  {msg}");
        let waiting = style("{prefix} {spinner} {bytes}  {msg}");
        Self { bar, counting, waiting }
    }

    fn show(&self, progress: &Progress) {
        let doing = match progress.step {
            Step::Waiting => "waiting for another pull of it",
            Step::Downloading => "downloading",
            Step::Unpacking => "unpacking",
            Step::Verifying => "checking",
        };
        self.bar.set_style(if progress.total > 0 { self.counting.clone() } else { self.waiting.clone() });
        self.bar.set_length(progress.total);
        self.bar.set_position(progress.done);
        self.bar.set_message(format!("{doing} {} from {}", progress.file, progress.source));
    }
}
