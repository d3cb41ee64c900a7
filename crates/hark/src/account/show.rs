//! `hark account show`: one account, its keys, its last credits.

use hark_api::DateTime;
use hark_store::{Account, Entry, Key, KeyKind};
use serde_json::json;

use super::{as_json, notes, plan};
use crate::key;
use crate::local_store::LocalStore;
use crate::table::{moment, table};
use crate::{CliError, output};

/// Lines of the ledger that are shown.
const ENTRIES: i64 = 10;

pub(super) fn show(local: &LocalStore, account: &Account, json: bool) -> Result<(), CliError> {
    let keys = local.wait(local.store.keys().list(account.id, KeyKind::Service))?;
    let sessions = local.wait(local.store.keys().list(account.id, KeyKind::Session))?;
    let sessions = sessions.iter().filter(|session| session.is_active).count();
    let entries = local.wait(local.store.ledger().entries(account.id, ENTRIES))?;
    let usage = local.wait(local.store.accounts().usage(account.id, 30))?;
    let webhooks = match local.config.server.webhooks.enabled {
        true => Some(local.wait(hark_server::webhook_secret(&local.store, account.id))?),
        false => None,
    };
    if json {
        let mut value = as_json(account);
        value["sessions"] = json!(sessions);
        value["keys"] = keys.iter().map(key::as_json).collect();
        value["ledger"] = entries.iter().map(entry_json).collect();
        value["webhook_secret"] = json!(webhooks);
        value["last_30_days"] = json!({
            "transcripts": usage.total_transcripts,
            "duration_seconds": usage.total_duration_seconds,
            "words": usage.total_words,
        });
        return output::print(format!("{value:#}\n"));
    }
    let mut out = String::new();
    let mut line = |name: &str, value: String| {
        if !value.is_empty() {
            out.push_str(&format!("{name:13} {value}\n"));
        }
    };
    line("id", account.id.to_string());
    line("email", account.email.clone());
    line("plan", plan(account));
    line("credits", account.credits.to_string());
    line("language", account.lang.clone());
    line("made", format!("{} UTC", moment(DateTime(account.created_at))));
    line("notes", notes(account));
    line("sessions", sessions.to_string());
    line(
        "last 30 days",
        format!("{} transcripts, {:.0} minutes", usage.total_transcripts, usage.total_duration_seconds / 60.0),
    );
    line("webhook secret", webhooks.unwrap_or_default());
    out.push_str(&keys_and_entries(&keys, &entries));
    output::print(out)
}

fn keys_and_entries(keys: &[Key], entries: &[Entry]) -> String {
    let mut out = String::new();
    if !keys.is_empty() {
        out.push('\n');
        out.push_str(&key::as_table(keys));
    }
    if !entries.is_empty() {
        let rows: Vec<Vec<String>> = entries
            .iter()
            .map(|entry| {
                let about = entry.reference.clone().unwrap_or_default();
                vec![
                    moment(DateTime(entry.at)),
                    entry.kind.name().to_owned(),
                    entry.amount.to_string(),
                    format!("{about} {}", entry.note).trim().to_owned(),
                ]
            })
            .collect();
        out.push('\n');
        out.push_str(&table(&["when (UTC)", "what", "credits", "for"], &rows));
    }
    out
}

fn entry_json(entry: &Entry) -> serde_json::Value {
    json!({
        "at": DateTime(entry.at),
        "kind": entry.kind.name(),
        "amount": entry.amount,
        "reference": entry.reference,
        "note": entry.note,
    })
}
