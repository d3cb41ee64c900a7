//! `hark integrity`: checks what a service on this machine keeps, also while it runs.

use serde_json::json;

use crate::cli::{Common, IntegrityArgs};
use crate::config::Config;
use crate::{CliError, output, serve};

/// Runs the command; fails when something is wrong or can't be checked.
pub(crate) fn run(args: &IntegrityArgs, common: &Common) -> Result<(), CliError> {
    let config = Config::load(common)?;
    let data = args.data.data.as_deref();
    let folder = serve::data_dir(data, &config)?;
    if config.server.database.is_none() && !folder.join("hark.db").exists() {
        return Err(CliError::Failed(format!("{} holds no service: --data names its folder", folder.display())));
    }
    let mut options = serve::store_options(data, &config)?;
    // The check below says more.
    options.check_at_open = false;
    let failed = |error: &dyn std::fmt::Display| CliError::Failed(error.to_string());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| failed(&error))?;
    let store = runtime.block_on(hark_store::Store::open(options)).map_err(|error| failed(&error))?;
    let sample = args.recordings.unwrap_or(config.server.integrity.recordings);
    let ended = runtime.block_on(hark_server::check_integrity(&store, sample));
    runtime.block_on(store.close());
    let mut wrong = 0;
    let mut answer = serde_json::Map::new();
    let mut text = String::new();
    for (check, result) in ended {
        let problems = match result {
            Ok(findings) => findings.into_iter().map(|finding| finding.problem).collect(),
            Err(error) => vec![format!("can't be checked: {error}")],
        };
        let word = if problems.is_empty() { "ok" } else { "FAILED" };
        text.push_str(&format!("{check:<12} {word}\n"));
        for problem in &problems {
            text.push_str(&format!("    {problem}\n"));
        }
        wrong += usize::from(!problems.is_empty());
        answer.insert(check.to_owned(), json!(problems));
    }
    output::print(if args.data.json { format!("{:#}\n", json!(answer)) } else { text })?;
    match wrong {
        0 => Ok(()),
        _ => Err(CliError::Failed(format!(
            "{wrong} of 3 checks failed: docs/operators/operate.md, Integrity, says what to do"
        ))),
    }
}
