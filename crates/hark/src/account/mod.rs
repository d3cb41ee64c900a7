//! `hark account`: the accounts of a service on this machine, also while it runs.

pub(crate) mod prompt;
mod show;

use std::path::Path;

use hark_api::DateTime;
use hark_store::{Account, AccountChange, AccountId, KeyKind, NewAccount, NewAudit, Plan, Store};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::cli::{AccountArgs, AccountCommand, Common};
use crate::config::Config;
use crate::table::{moment, table};
use crate::{CliError, output, serve};

/// The store of a service on this machine.
pub(crate) struct Office {
    pub(crate) store: Store,
    pub(crate) config: Config,
    runtime: Runtime,
}

impl Office {
    /// Opens the store; `begin` makes one where there is none.
    pub(crate) fn open(data: Option<&Path>, config: Config, begin: bool) -> Result<Self, CliError> {
        let folder = serve::data_dir(data, &config)?;
        if !begin && config.server.database.is_none() && !folder.join("hark.db").exists() {
            return Err(CliError::Failed(format!(
                "{} holds no service: --data names its folder, `hark serve` or `hark account create` begins one",
                folder.display()
            )));
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| CliError::Failed(format!("cannot start: {error}")))?;
        let options = serve::store_options(data, &config)?;
        let store = runtime.block_on(Store::open(options)).map_err(failed)?;
        Ok(Office { store, config, runtime })
    }

    /// Waits for the store.
    pub(crate) fn wait<T>(&self, work: impl Future<Output = hark_store::Result<T>>) -> Result<T, CliError> {
        self.runtime.block_on(work).map_err(failed)
    }

    /// The account that an email address or a number names.
    pub(crate) fn account(&self, name: &str) -> Result<Account, CliError> {
        let found = match name.parse() {
            Ok(id) if id != self.store.anonymous_account().0 => {
                self.runtime.block_on(self.store.accounts().get(AccountId(id)))
            }
            Ok(_) => Err(hark_store::Error::NotFound("account")),
            Err(_) => self.runtime.block_on(self.store.accounts().by_email(name)),
        };
        found.map_err(|error| match error {
            hark_store::Error::NotFound(_) => {
                CliError::Failed(format!("no account is called {name}: `hark account list` shows all"))
            }
            hark_store::Error::Conflict(_) => {
                CliError::Usage(format!("{name:?} is neither an email address nor the number of an account"))
            }
            other => failed(other),
        })
    }

    /// Notes what was done with this command in the audit log.
    pub(crate) fn audit(&self, entry: NewAudit) -> Result<(), CliError> {
        self.wait(self.store.audit().record(&entry))
    }

    /// Closes the store so that nothing of it is left open.
    pub(crate) fn close(self) {
        self.runtime.block_on(self.store.close());
    }
}

fn failed(error: hark_store::Error) -> CliError {
    CliError::Failed(error.to_string())
}

/// Runs the command.
pub(crate) fn run(args: AccountArgs, common: &Common) -> Result<(), CliError> {
    let config = Config::load(common)?;
    let begins = matches!(args.command, AccountCommand::Create { .. });
    let office = Office::open(args.data.data.as_deref(), config, begins)?;
    let done = dispatch(&office, args.command, args.data.json);
    office.close();
    done
}

fn dispatch(office: &Office, command: AccountCommand, json: bool) -> Result<(), CliError> {
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
            let account = office.wait(office.store.accounts().create(&new))?;
            office.audit(NewAudit::by_operator(account.id, "account.created"))?;
            say(json, &account, || format!("made the account {} of {}\n", account.id, account.email))
        }
        AccountCommand::List => list(office, json),
        AccountCommand::Show { account } => show::show(office, &office.account(&account)?, json),
        AccountCommand::Credit { account, amount, note } => credit(office, &account, amount, &note, json),
        AccountCommand::Plan { account, plan, inactive } => {
            let change = AccountChange { plan: Some(plan), plan_active: Some(!inactive), ..AccountChange::default() };
            let account = office.wait(office.store.accounts().change(office.account(&account)?.id, &change))?;
            let entry = NewAudit::by_operator(account.id, "plan.changed");
            office.audit(entry.saying(format!("{}{}", account.plan, if inactive { ", not in force" } else { "" })))?;
            let force = if inactive { "noted, not in force" } else { "in force" };
            say(json, &account, || format!("{}: {} is {force}\n", account.email, account.plan))
        }
        AccountCommand::Password { account, stdin } => {
            let account = office.account(&account)?;
            let password = if stdin { prompt::from_stdin()? } else { prompt::new_password()? };
            let change =
                AccountChange { password_hash: Some(hash(&account.email, &password)?), ..AccountChange::default() };
            office.wait(office.store.accounts().change(account.id, &change))?;
            let mut ended = 0;
            for kind in [KeyKind::Session, KeyKind::User, KeyKind::Reset] {
                ended += office.wait(office.store.keys().revoke_all(account.id, kind))?;
            }
            office.audit(NewAudit::by_operator(account.id, "password.changed"))?;
            say(json, &account, || {
                format!("{} has a new password; {ended} sessions and user tokens were ended\n", account.email)
            })
        }
        AccountCommand::Delete { account, yes } => {
            let account = office.account(&account)?;
            let question = format!("delete {} with all its transcripts, recordings and keys?", account.email);
            if !yes && !prompt::confirm(&question)? {
                return Err(CliError::Failed("nothing was deleted".to_owned()));
            }
            let recordings = office.wait(office.store.accounts().delete(account.id))?.len();
            let entry = NewAudit::by_operator(account.id, "account.deleted");
            office.audit(entry.saying(format!("{recordings} recordings")))?;
            say(json, &account, || format!("deleted {} with {recordings} recordings\n", account.email))
        }
    }
}

fn hash(email: &str, password: &str) -> Result<String, CliError> {
    hark_server::hash_password(email, password).map_err(|error| CliError::Usage(error.to_string()))
}

fn credit(office: &Office, account: &str, amount: i64, note: &str, json: bool) -> Result<(), CliError> {
    let account = office.account(account)?;
    if amount == 0 {
        return Err(CliError::Usage("an amount of 0 changes nothing".to_owned()));
    }
    if amount > 0 {
        office.wait(office.store.ledger().grant(account.id, amount, note))?;
    } else {
        office.wait(office.store.ledger().adjust(account.id, amount, note))?;
    }
    office.audit(NewAudit::by_operator(account.id, "credits.changed").saying(format!("{amount:+}: {note}")))?;
    let account = office.wait(office.store.accounts().get(account.id))?;
    say(json, &account, || format!("{} has {} credits\n", account.email, account.credits))
}

fn list(office: &Office, json: bool) -> Result<(), CliError> {
    let accounts = office.wait(office.store.accounts().list())?;
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
fn say(json: bool, account: &Account, sentence: impl FnOnce() -> String) -> Result<(), CliError> {
    if json { output::print(format!("{:#}\n", as_json(account))) } else { output::print(sentence()) }
}
