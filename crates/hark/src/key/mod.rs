//! `hark key`: API keys of accounts on this machine.

use std::time::Duration;

use hark_api::DateTime;
use hark_store::{Key, KeyKind, NewAudit, NewKey, Scope};
use serde_json::{Value, json};

use crate::cli::{Common, KeyArgs, KeyCommand};
use crate::config::Config;
use crate::local_store::LocalStore;
use crate::table::{moment, table};
use crate::{CliError, output};

/// Runs the command.
pub(crate) fn run(args: KeyArgs, common: &Common) -> Result<(), CliError> {
    let local = LocalStore::open(args.data.data.as_deref(), Config::load(common)?, false)?;
    let done = dispatch(&local, args.command, args.data.json);
    local.close();
    done
}

fn dispatch(local: &LocalStore, command: KeyCommand, json: bool) -> Result<(), CliError> {
    match command {
        KeyCommand::Create { account, name, rate_limit, monthly_minutes, scopes, expires, allowed, spending_limit } => {
            let account = local.account(&account.account)?;
            let mut new = NewKey {
                rate_limit,
                monthly_limit_minutes: monthly_minutes,
                allowed_addresses: allowed.iter().map(ToString::to_string).collect(),
                spending_limit,
                ..NewKey::new(KeyKind::Service, name.trim())
            };
            if !scopes.is_empty() {
                new.scopes = Scope::ALL.into_iter().filter(|scope| scopes.contains(scope)).collect();
            }
            if let Some(expires) = expires {
                let left = u64::try_from(expires.0 - local.store.now()).ok().filter(|left| *left > 0);
                let left = left.ok_or_else(|| CliError::Usage("--expires is in the past".to_owned()))?;
                new.valid_for = Some(Duration::from_micros(left));
            }
            let entry = NewAudit::by_operator(account.id, "key.created");
            let (key, secret) = local.wait(local.store.keys().audited(&entry).create(account.id, &new))?;
            if json {
                let mut value = as_json(&key);
                value["key"] = json!(secret.reveal());
                return output::print(format!("{value:#}\n"));
            }
            eprintln!("made key {} of {}, shown only now:", key.id, account.email);
            output::print(format!("{}\n", secret.reveal()))
        }
        KeyCommand::List(account) => {
            let keys = local.wait(local.store.keys().list(local.account(&account.account)?.id, KeyKind::Service))?;
            if json {
                let list: Vec<Value> = keys.iter().map(as_json).collect();
                return output::print(format!("{:#}\n", json!({ "keys": list })));
            }
            output::print(as_table(&keys))
        }
        KeyCommand::Roll { key: name, grace } => {
            let account = local.account(&name.account.account)?;
            let keys = local.wait(local.store.keys().list(account.id, KeyKind::Service))?;
            let id = find(&keys, &name.key)?.id;
            let entry = NewAudit::by_operator(account.id, "key.rolled");
            let grace_period = Duration::from_secs(grace * 3600);
            let (key, secret) = local.wait(local.store.keys().audited(&entry).roll(account.id, id, grace_period))?;
            if json {
                let mut value = as_json(&key);
                value["key"] = json!(secret.reveal());
                return output::print(format!("{value:#}\n"));
            }
            eprintln!(
                "key {id} of {} has a new secret, shown only now; the one before ends after {grace} hours:",
                account.email
            );
            output::print(format!("{}\n", secret.reveal()))
        }
        KeyCommand::Revoke(name) => {
            let account = local.account(&name.account.account)?;
            let keys = local.wait(local.store.keys().list(account.id, KeyKind::Service))?;
            let key = find(&keys, &name.key)?;
            let entry = NewAudit::by_operator(account.id, "key.revoked");
            local.wait(local.store.keys().audited(&entry).revoke(account.id, key.id))?;
            if json {
                return output::print(format!("{:#}\n", json!({ "revoked": key.id.0 })));
            }
            output::print(format!("revoked {} ({}); running servers notice within a second\n", key.prefix, key.name))
        }
    }
}

/// The active key that a number, a prefix or the whole key names.
fn find<'a>(keys: &'a [Key], name: &str) -> Result<&'a Key, CliError> {
    let is_named = |key: &&Key| {
        key.is_active
            && (key.id.to_string() == name
                || (name.len() >= 8 && name.starts_with(&key.prefix))
                || (name.len() >= 8 && key.prefix.starts_with(name)))
    };
    let mut found = keys.iter().filter(is_named);
    match (found.next(), found.next()) {
        (Some(key), None) => Ok(key),
        (Some(_), Some(_)) => Err(CliError::Failed("several keys begin like that: give the number".to_owned())),
        (None, _) => Err(CliError::Failed("the account has no such key in use: `hark key list` shows all".to_owned())),
    }
}

pub(crate) fn as_table(keys: &[Key]) -> String {
    let rows: Vec<Vec<String>> = keys
        .iter()
        .map(|key| {
            vec![
                key.id.to_string(),
                format!("{}…", key.prefix),
                key.name.clone(),
                if key.is_active { "yes" } else { "revoked" }.to_owned(),
                key.rate_limit.to_string(),
                key.monthly_limit_minutes.to_string(),
                key.scopes.iter().map(|scope| scope.name()).collect::<Vec<_>>().join(" "),
                key.expires_at.map_or("never".to_owned(), |at| moment(DateTime(at))),
                key.last_used.map_or("never".to_owned(), |at| moment(DateTime(at))),
            ]
        })
        .collect();
    table(
        &["id", "key", "name", "active", "a minute", "minutes a month", "scopes", "ends (UTC)", "last used (UTC)"],
        &rows,
    )
}

pub(crate) fn as_json(key: &Key) -> Value {
    json!({
        "id": key.id.0,
        "name": key.name,
        "prefix": key.prefix,
        "is_active": key.is_active,
        "rate_limit": key.rate_limit,
        "monthly_limit_minutes": key.monthly_limit_minutes,
        "last_used": key.last_used.map(DateTime),
        "created_at": DateTime(key.created_at),
        "scopes": key.scopes.iter().map(|scope| scope.name()).collect::<Vec<_>>(),
        "expires_at": key.expires_at.map(DateTime),
        "allowed_addresses": key.allowed_addresses,
        "spending_limit": key.spending_limit,
        "previous_valid_until": key.previous_until.map(DateTime),
    })
}
