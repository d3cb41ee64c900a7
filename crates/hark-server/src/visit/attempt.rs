//! A password try: which limits it counts for, and how long it is delayed.

use std::time::Duration;

use hark_api::{ApiError, ErrorKind};
use hark_store::AccountId;

use super::Visit;
use crate::app::App;
use crate::error::Failure;
use crate::limits::{networks, subnet};
use crate::mac::{hex, mac};
use crate::sign::{GuessLimit, device};

const SECOND: Duration = Duration::from_secs(1);
/// Tries for an account from one address, or with one known browser.
const PAIR_LIMIT: GuessLimit = GuessLimit { free: 10, first_wait: SECOND, max_wait: Duration::from_secs(900) };
/// Tries from an address without a known browser: an office may share one.
const ADDRESS_LIMIT: GuessLimit = GuessLimit { free: 50, first_wait: SECOND, max_wait: Duration::from_secs(60) };
/// Tries for an account from all addresses that never signed in to it, together.
const ACCOUNT_LIMIT: GuessLimit = GuessLimit { free: 100, first_wait: SECOND, max_wait: Duration::from_secs(30) };

const PAIR: &str = "address and account";
const NETWORK: &str = "network";
const ACCOUNT: &str = "account";
const DEVICE: &str = "device and account";

/// A try that was counted and is allowed.
pub(crate) struct Attempt<'a> {
    app: &'a App,
    /// The pair or known device that the try is counted for first.
    own: (&'static str, String),
    /// The other limits that it was counted for.
    others: Vec<(&'static str, String, GuessLimit)>,
    /// The keyed hash of the address.
    address: String,
}

impl<'a> Attempt<'a> {
    /// Counts a password try. `account` is `None` for an unknown email address, which takes as long.
    pub(crate) async fn begin(
        app: &'a App,
        visit: &Visit,
        account: Option<AccountId>,
        email: &str,
    ) -> Result<Self, Failure> {
        let id = account.unwrap_or(AccountId(0));
        let address = address_hash(app, visit).await?;
        let device = device::known(&app.store, visit.device.as_ref(), id).await?.filter(|_| account.is_some());
        let is_known = app.store.addresses().is_known(id, &address).await?;
        let own = match device {
            Some(device) => (DEVICE, format!("{device} {email}")),
            None => (PAIR, format!("{} {email}", subnet(visit.address))),
        };
        let mut others = Vec::new();
        if own.0 == PAIR && !is_known {
            for network in networks(visit.address) {
                let free = ADDRESS_LIMIT.free * network.multiple;
                others.push((NETWORK, network.name, GuessLimit { free, ..ADDRESS_LIMIT }));
            }
            others.push((ACCOUNT, email.to_owned(), ACCOUNT_LIMIT));
        }
        let attempt = Attempt { app, own, others, address };
        attempt.count().await?;
        Ok(attempt)
    }

    /// Counts a password try of a signed-in caller who must repeat the password.
    pub(crate) async fn of_credential(
        app: &'a App,
        visit: &Visit,
        credential: hark_store::KeyId,
    ) -> Result<Self, Failure> {
        let address = address_hash(app, visit).await?;
        let attempt = Attempt { app, own: (DEVICE, format!("credential {credential}")), others: Vec::new(), address };
        attempt.count().await?;
        Ok(attempt)
    }

    async fn count(&self) -> Result<(), Failure> {
        let (kind, name) = &self.own;
        let mut who = vec![(*kind, name.as_str(), PAIR_LIMIT)];
        who.extend(self.others.iter().map(|(kind, name, limit)| (*kind, name.as_str(), *limit)));
        match self.app.sign.guesses.begin(&who, self.app.clock.now()) {
            Ok(hold) if hold.is_zero() => Ok(()),
            Ok(hold) => {
                tokio::time::sleep(hold).await;
                Ok(())
            }
            Err(seconds) => {
                tracing::info!(retry_in = seconds, "sign_in.throttled");
                let message = format!("too many wrong passwords from here: wait {seconds} seconds");
                Err(ApiError::new(ErrorKind::RateLimited, message).retry_after(seconds).into())
            }
        }
    }

    /// The password was right: resets the owner's tries, and remembers the address.
    ///
    /// For the network only this try is uncounted: otherwise a guesser could reset it with an account of their own.
    pub(crate) async fn succeeded(self, account: AccountId) -> Result<(), Failure> {
        let guesses = &self.app.sign.guesses;
        guesses.reset(self.own.0, &self.own.1);
        for (kind, name, _) in &self.others {
            guesses.undo(kind, name);
        }
        Ok(self.app.store.addresses().remember(account, &self.address).await?)
    }
}

/// Remembers that the account signed in from this address, without a try.
pub(crate) async fn remember_address(app: &App, visit: &Visit, account: AccountId) -> Result<(), Failure> {
    Ok(app.store.addresses().remember(account, &address_hash(app, visit).await?).await?)
}

/// The keyed hash of the address for known addresses.
async fn address_hash(app: &App, visit: &Visit) -> Result<String, Failure> {
    let key = app.store.secret("known addresses", None).await?;
    Ok(hex(&mac(&*key, &[subnet(visit.address).to_string().as_bytes()])[..16]))
}
