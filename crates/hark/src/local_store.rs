//! The store of a service on this machine, for commands that work beside or without the server.

use std::path::Path;

use hark_store::{Account, AccountId, Store};
use tokio::runtime::Runtime;

use crate::config::Config;
use crate::{CliError, serve};

/// The store of a service on this machine.
pub(crate) struct LocalStore {
    pub(crate) store: Store,
    pub(crate) config: Config,
    runtime: Runtime,
}

impl LocalStore {
    /// Opens the store; `create` makes one where there is none.
    pub(crate) fn open(data: Option<&Path>, config: Config, create: bool) -> Result<Self, CliError> {
        let folder = serve::data_dir(data, &config)?;
        if !create && config.server.database.is_none() && !folder.join("hark.db").exists() {
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
        Ok(LocalStore { store, config, runtime })
    }

    /// Runs an operation of the store to its end.
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

    /// Closes the store.
    pub(crate) fn close(self) {
        self.runtime.block_on(self.store.close());
    }
}

fn failed(error: hark_store::Error) -> CliError {
    CliError::Failed(error.to_string())
}
