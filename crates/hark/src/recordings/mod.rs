//! `hark recordings quarantine`: files among the recordings that the database does not know.

use hark_api::DateTime;
use hark_store::{BlobKey, DAY, QuarantinedFile};
use serde_json::{Value, json};

use crate::account::prompt;
use crate::cli::{Common, QuarantineCommand, RecordingsArgs, RecordingsCommand};
use crate::config::Config;
use crate::local_store::LocalStore;
use crate::table::{moment, table};
use crate::{CliError, output};

/// Runs the command.
pub(crate) fn run(args: RecordingsArgs, common: &Common) -> Result<(), CliError> {
    let local = LocalStore::open(args.data.data.as_deref(), Config::load(common)?, false)?;
    let RecordingsCommand::Quarantine(command) = args.command;
    let done = dispatch(&local, command, args.data.json);
    local.close();
    done
}

fn dispatch(local: &LocalStore, command: QuarantineCommand, json: bool) -> Result<(), CliError> {
    let all = local.wait(local.store.recordings().quarantined())?;
    let days = i64::from(local.config.server.recordings.quarantine_days);
    let removed_at = |one: &QuarantinedFile| DateTime(one.first_seen + days * DAY);
    match command {
        QuarantineCommand::List if json => {
            let list: Vec<Value> = all
                .iter()
                .map(|one| {
                    json!({
                        "name": one.key.as_str(), "bytes": one.size, "first_seen": DateTime(one.first_seen),
                        "last_seen": DateTime(one.last_seen), "removed_at": removed_at(one)
                    })
                })
                .collect();
            output::print(format!("{:#}\n", json!({ "quarantine": list })))
        }
        QuarantineCommand::List => {
            let row = |one: &QuarantinedFile| {
                let (first, last) = (moment(DateTime(one.first_seen)), moment(removed_at(one)));
                vec![one.key.to_string(), one.size.to_string(), first, last]
            };
            let rows: Vec<Vec<String>> = all.iter().map(row).collect();
            output::print(table(&["name", "bytes", "first seen", "removed after"], &rows))
        }
        QuarantineCommand::Restore { names } => {
            let restored = local.wait(local.store.recordings().restore_quarantined(&choose(&all, &names)?))?;
            report("restored", restored, json)
        }
        QuarantineCommand::Delete { names, yes } => {
            let chosen = choose(&all, &names)?;
            let question = format!("remove {} files for good?", chosen.len());
            if !yes && !prompt::confirm(&question)? {
                return Err(CliError::Failed("nothing was removed".to_owned()));
            }
            let removed = local.wait(local.store.recordings().delete_quarantined(&chosen))?;
            report("removed", removed.len() as u64, json)
        }
    }
}

fn report(what: &str, count: u64, json: bool) -> Result<(), CliError> {
    match json {
        true => output::print(format!("{:#}\n", json!({ what: count }))),
        false => output::print(format!("{what} {count} files\n")),
    }
}

/// The files that names stand for.
fn choose(all: &[QuarantinedFile], names: &[String]) -> Result<Vec<BlobKey>, CliError> {
    if names.iter().any(|name| name == "all") {
        return Ok(all.iter().map(|one| one.key.clone()).collect());
    }
    let find = |name: &String| {
        let found = all.iter().find(|one| one.key.as_str() == name).map(|one| one.key.clone());
        found.ok_or_else(|| CliError::Failed(format!("{name} is not in quarantine: `hark recordings quarantine list`")))
    };
    names.iter().map(find).collect()
}
