//! `hark audit`: who did what to the accounts of a service on this machine.

use hark_api::DateTime;
use hark_store::AuditEntry;
use serde_json::{Value, json};

use crate::cli::{AuditArgs, Common};
use crate::config::Config;
use crate::local_store::LocalStore;
use crate::table::{moment, table};
use crate::{CliError, output};

/// Runs the command.
pub(crate) fn run(args: AuditArgs, common: &Common) -> Result<(), CliError> {
    let local = LocalStore::open(args.data.data.as_deref(), Config::load(common)?, false)?;
    let done = show(&local, &args);
    local.close();
    done
}

fn show(local: &LocalStore, args: &AuditArgs) -> Result<(), CliError> {
    let account = args.account.as_deref().map(|name| local.account(name)).transpose()?.map(|account| account.id);
    let entries = local.wait(local.store.audit().page(account, 1, args.limit))?.entries;
    if args.data.json {
        let list: Vec<Value> = entries.iter().map(as_json).collect();
        return output::print(format!("{:#}\n", json!({ "events": list })));
    }
    let rows: Vec<Vec<String>> = entries
        .iter()
        .map(|entry| {
            vec![
                moment(DateTime(entry.at)),
                entry.account.map_or("-".to_owned(), |account| account.to_string()),
                entry.event.clone(),
                entry.actor.clone(),
                entry.address.clone().unwrap_or_default(),
                entry.subject.clone(),
                entry.detail.clone(),
            ]
        })
        .collect();
    output::print(table(&["at (UTC)", "account", "event", "by", "from", "subject", ""], &rows))
}

fn as_json(entry: &AuditEntry) -> Value {
    json!({
        "id": entry.id,
        "at": DateTime(entry.at),
        "account_id": entry.account.map(|account| account.0),
        "event": entry.event,
        "actor": entry.actor,
        "key_id": entry.key.map(|key| key.0),
        "address": entry.address,
        "subject": entry.subject,
        "detail": entry.detail,
    })
}
