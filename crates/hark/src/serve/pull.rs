//! Pulls the default models that are missing, while the service runs.

use hark_models::PullOptions;
use hark_server::Pulls;

use crate::CliError;
use crate::models::ModelLibrary;

/// Starts to pull what is missing, one model after the other. It ends with the process; the next start goes on where it stopped.
pub(super) fn start(library: &ModelLibrary, pulls: &Pulls) -> Result<(), CliError> {
    let options = PullOptions::from_env().map_err(|error| CliError::Usage(error.to_string()))?;
    let is_missing = |name: &str| library.store.installed(name).is_none();
    let missing = library.catalogue.defaults().filter(|model| is_missing(&model.name)).cloned();
    let started = pulls.start(&library.store, missing, &options);
    started.map_err(|error| CliError::Failed(format!("no thread can be started: {error}")))
}
