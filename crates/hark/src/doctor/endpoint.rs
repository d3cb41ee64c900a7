//! Whether the server with the language model answers, where the configuration names one.

use hark_text::{Endpoint, LanguageModel as _};

use super::Finding;
use crate::config::Config;
use crate::serve;

const NAME: &str = "text endpoint";

/// Asks the endpoint for its model; nothing without one.
pub(super) fn finding(config: &Config) -> Option<Finding> {
    let url = config.server.text.endpoint.clone()?;
    let fix = "check `endpoint` and its key under [text] of hark.toml, and that the server there runs";
    Some(match ask(config) {
        Ok(detail) => Finding::ok(NAME, format!("{url}: {detail}")),
        Err(problem) => Finding::optional(NAME, format!("{url}: {problem}"), fix),
    })
}

fn ask(config: &Config) -> Result<String, String> {
    let options = serve::language_options(config).map_err(|error| error.to_string())?;
    let settings = options.endpoint.ok_or("it is not set")?;
    let endpoint = Endpoint::new(settings)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("no thread can be started: {error}"))?;
    let model = runtime.block_on(endpoint.model()).map_err(|error| error.to_string())?;
    Ok(format!("{}, context of {} tokens", model.name(), model.context_length()))
}
