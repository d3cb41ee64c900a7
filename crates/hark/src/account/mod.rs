//! `hark account`: the accounts of a service on this machine, also while it runs.

pub(crate) mod prompt;
mod show;

use hark_api::DateTime;
use hark_store::{Account, AccountChange, KeyKind, NewAccount, NewAudit, Plan};
use serde_json::{Value, json};

use crate::cli::{AccountArgs, AccountCommand, Common};
use crate::config::Config;
use crate::local_store::LocalStore;
use crate::table::{moment, table};
use crate::{CliError, output};

/// Runs the command.
pub(crate) fn run(args: AccountArgs, common: &Common) -> Result<(), CliError> {
    let config = Config::load(common)?;
    let begins = matches!(args.command, AccountCommand::Create { .. });
    let local = LocalStore::open(args.data.data.as_deref(), config, begins)?;
    let done = dispatch(&local, args.command, args.data.json);
    local.close();
    done
}

fn dispatch(local: &LocalStore, command: AccountCommand, json: bool) -> Result<(), CliError> {
    match command {
        AccountCommand::Create { email, plan, credits, lang, admin, password, password_stdin } => {
            let password = match (password, password_stdin) {
                (true, _) => Some(prompt::new_password()?),
                (_, true) => Some(prompt::from_stdin()?),
                _ => None,
            };
            let password_hash = password.map(|password| hash(&email, &password)).transpose()?;
            let mut new = NewAccount { password_hash, lang, is_admin: admin, ..NewAccount::new(email, plan) };
            new.credits = credits.unwrap_or(new.credits);
            let entry = NewAudit::operator("account.created");
            let account = local.wait(local.store.accounts().audited(&entry).create(&new))?;
            print_result(json, &account, || format!("made the account {} of {}\n", account.id, account.email))
        }
        AccountCommand::List => list(local, json),
        AccountCommand::Show(name) => show::show(local, &local.account(&name.account)?, json),
        AccountCommand::Credit { account, amount, note } => credit(local, &account.account, amount, &note, json),
        AccountCommand::Plan { account, plan, inactive } => {
            let change = AccountChange { plan: Some(plan), plan_active: Some(!inactive), ..AccountChange::default() };
            let id = local.account(&account.account)?.id;
            let entry = NewAudit::by_operator(id, "plan.changed");
            let entry = entry.with_detail(format!("{plan}{}", if inactive { ", not in force" } else { "" }));
            let account = local.wait(local.store.accounts().audited(&entry).change(id, &change))?;
            let force = if inactive { "noted, not in force" } else { "in force" };
            print_result(json, &account, || format!("{}: {} is {force}\n", account.email, account.plan))
        }
        AccountCommand::Password { account, stdin } => {
            let account = local.account(&account.account)?;
            let password = if stdin { prompt::from_stdin()? } else { prompt::new_password()? };
            let change =
                AccountChange { password_hash: Some(hash(&account.email, &password)?), ..AccountChange::default() };
            let entry = NewAudit::by_operator(account.id, "password.changed");
            local.wait(local.store.accounts().audited(&entry).change(account.id, &change))?;
            let mut ended = 0;
            for kind in [KeyKind::Session, KeyKind::User, KeyKind::Reset] {
                ended += local.wait(local.store.keys().revoke_all(account.id, kind))?;
            }
            print_result(json, &account, || {
                format!("{} has a new password; {ended} sessions and user tokens were ended\n", account.email)
            })
        }
        AccountCommand::Delete { account, yes } => {
            let account = local.account(&account.account)?;
            let question = format!("delete {} with all its transcripts, recordings and keys?", account.email);
            if !yes && !prompt::confirm(&question)? {
                return Err(CliError::Failed("nothing was deleted".to_owned()));
            }
            let entry = NewAudit::by_operator(account.id, "account.deleted");
            let recordings = local.wait(local.store.accounts().audited(&entry).delete(account.id))?.len();
            print_result(json, &account, || format!("deleted {} with {recordings} recordings\n", account.email))
        }
    }
}

fn hash(email: &str, password: &str) -> Result<String, CliError> {
    hark_server::hash_password(email, password).map_err(|error| CliError::Usage(error.to_string()))
}

fn credit(local: &LocalStore, account: &str, amount: i64, note: &str, json: bool) -> Result<(), CliError> {
    let account = local.account(account)?;
    if amount == 0 {
        return Err(CliError::Usage("an amount of 0 changes nothing".to_owned()));
    }
    let entry = NewAudit::by_operator(account.id, "credits.changed").with_detail(format!("{amount:+}: {note}"));
    let ledger = local.store.ledger().audited(&entry);
    if amount > 0 {
        local.wait(ledger.grant(account.id, amount, note))?;
    } else {
        local.wait(ledger.adjust(account.id, amount, note))?;
    }
    let account = local.wait(local.store.accounts().get(account.id))?;
    print_result(json, &account, || format!("{} has {} credits\n", account.email, account.credits))
}

fn list(local: &LocalStore, json: bool) -> Result<(), CliError> {
    let accounts = local.wait(local.store.accounts().list())?;
    if json {
        let list: Vec<Value> = accounts.iter().map(as_json).collect();
        return output::print(format!("{:#}\n", json!({ "accounts": list })));
    }
    let rows: Vec<Vec<String>> = accounts
        .iter()
        .map(|account| {
            vec![
                account.id.to_string(),
                account.email.clone(),
                plan(account),
                account.credits.to_string(),
                moment(DateTime(account.created_at)),
                notes(account),
            ]
        })
        .collect();
    output::print(table(&["id", "email", "plan", "credits", "made (UTC)", ""], &rows))
}

fn plan(account: &Account) -> String {
    let is_off = account.plan.is_paid() && account.plan != Plan::Free && !account.plan_active;
    if is_off { format!("{} (not in force)", account.plan) } else { account.plan.to_string() }
}

fn notes(account: &Account) -> String {
    let notes = [(account.is_admin, "admin"), (!account.is_confirmed, "not confirmed")];
    notes.iter().filter(|(holds, _)| *holds).map(|(_, note)| *note).collect::<Vec<_>>().join(", ")
}

fn as_json(account: &Account) -> Value {
    json!({
        "id": account.id.0,
        "email": account.email,
        "plan": account.plan.name(),
        "is_plan_active": account.is_paid(),
        "credits": account.credits,
        "next_billing_date": account.next_billing_at.map(DateTime),
        "lang": account.lang,
        "is_confirmed": account.is_confirmed,
        "is_admin": account.is_admin,
        "created_at": DateTime(account.created_at),
    })
}

/// The outcome: a sentence for people, the account for programs.
fn print_result(json: bool, account: &Account, sentence: impl FnOnce() -> String) -> Result<(), CliError> {
    if json { output::print(format!("{:#}\n", as_json(account))) } else { output::print(sentence()) }
}
