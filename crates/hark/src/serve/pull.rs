//! Pulls the default models that are missing, while the service runs.

use std::time::Instant;

use hark_models::PullOptions;
use hark_server::Pulls;

use crate::CliError;
use crate::models::ModelLibrary;

/// The progress of a pull is logged at every so many percent.
const LOG_STEP: u64 = 10;

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
            let mut logged = 0;
            let pulled = library.store.pull(&model, &options, &mut |progress| {
                pulls.progress(name, progress.done, progress.total);
                let percent = progress.done.saturating_mul(100).checked_div(progress.total).unwrap_or(0);
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
