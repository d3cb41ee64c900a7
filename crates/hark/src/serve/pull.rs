//! Pulls the default models that are missing, while the service runs.

use std::collections::BTreeMap;
use std::time::Instant;

use hark_models::{Progress, PullOptions, Step};
use hark_server::Pulls;

use crate::CliError;
use crate::models::ModelLibrary;

/// The progress of a pull is logged at every so many percent.
const LOG_STEP: u64 = 10;

/// Bytes of a model that were downloaded: a pull reports each file or archive by itself.
#[derive(Default)]
struct Downloaded {
    source: String,
    files: BTreeMap<String, u64>,
}

impl Downloaded {
    /// Adds a report; returns the bytes of all files of its source. What a source that failed gave does not count.
    fn add(&mut self, progress: &Progress) -> u64 {
        if self.source != progress.source {
            self.source.clone_from(&progress.source);
            self.files.clear();
        }
        if progress.step == Step::Downloading {
            let bytes = self.files.entry(progress.file.clone()).or_default();
            *bytes = progress.done.max(*bytes);
        }
        self.files.values().sum()
    }
}

/// Starts a thread that pulls what is missing, one model after the other. It ends with the process; the next start goes on
/// where it stopped.
pub(super) fn start(library: ModelLibrary, pulls: Pulls) -> Result<(), CliError> {
    let options = PullOptions::from_env().map_err(|error| CliError::Usage(error.to_string()))?;
    let is_missing = |name: &str| library.store.installed(name).is_none();
    let missing: Vec<_> = library.catalogue.defaults().filter(|model| is_missing(&model.name)).cloned().collect();
    missing.iter().for_each(|model| pulls.expect(&model.name));
    let work = move || {
        for model in missing {
            let (name, begun) = (model.name.as_str(), Instant::now());
            tracing::info!(model = name, bytes = model.size_bytes, "model.pull_started");
            let (mut downloaded, mut logged) = (Downloaded::default(), 0);
            let pulled = library.store.pull(&model, &options, &mut |progress| {
                let done = downloaded.add(&progress).min(model.size_bytes);
                pulls.progress(name, done, model.size_bytes);
                let percent = done.saturating_mul(100).checked_div(model.size_bytes).unwrap_or(0);
                if percent >= logged + LOG_STEP {
                    logged = percent - percent % LOG_STEP;
                    tracing::info!(model = name, percent, "model.pulling");
                }
            });
            match pulled {
                Ok(_) => tracing::info!(model = name, seconds = begun.elapsed().as_secs_f64(), "model.pulled"),
                Err(error) => tracing::error!(model = name, %error, "model.pull_failed"),
            }
            pulls.end(name);
        }
    };
    let started = std::thread::Builder::new().name("hark-pull".to_owned()).spawn(work);
    started.map(drop).map_err(|error| CliError::Failed(format!("no thread can be started: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_archives_of_a_model_are_counted_together() {
        let report = |step, file: &str, done, source: &str| Progress {
            step,
            file: file.to_owned(),
            done,
            total: 100,
            source: source.to_owned(),
        };
        let mut downloaded = Downloaded::default();
        assert_eq!(downloaded.add(&report(Step::Downloading, "a", 100, "hub")), 100);
        assert_eq!(downloaded.add(&report(Step::Downloading, "a", 60, "pypi")), 60, "another source begins anew");
        assert_eq!(downloaded.add(&report(Step::Downloading, "b", 40, "pypi")), 100);
        assert_eq!(downloaded.add(&report(Step::Unpacking, "b", 99, "pypi")), 100);
    }
}
