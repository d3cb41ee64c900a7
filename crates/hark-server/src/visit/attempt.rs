//! One try of a password: for whom it is counted, and how long it waits.

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
/// Tries for an account from one address, or with one browser that is known.
const OF_PAIR: GuessLimit = GuessLimit { free: 10, first: SECOND, longest: Duration::from_secs(900) };
/// Tries from an address that no known browser vouches for: an office may share one.
const OF_ADDRESS: GuessLimit = GuessLimit { free: 50, first: SECOND, longest: Duration::from_secs(60) };
/// Tries for an account from all addresses that never signed in to it, together.
const OF_ACCOUNT: GuessLimit = GuessLimit { free: 100, first: SECOND, longest: Duration::from_secs(30) };

const PAIR: &str = "address and account";
const NETWORK: &str = "network";
const ACCOUNT: &str = "account";
const DEVICE: &str = "device and account";

/// A try that was counted and may go on.
pub(crate) struct Attempt<'a> {
    app: &'a App,
    /// Where somebody signed in before; tries count by themselves there.
    own: (&'static str, String),
    /// Who else it was counted for.
    others: Vec<(&'static str, String, GuessLimit)>,
    /// The address as it is remembered for this account.
    address: String,
}

impl<'a> Attempt<'a> {
    /// Counts a try of somebody's password. `account` is none where nobody has that email address, which takes as long.
    pub(crate) async fn begin(
        app: &'a App,
        visit: &Visit,
        account: Option<AccountId>,
        email: &str,
    ) -> Result<Self, Failure> {
        let id = account.unwrap_or(AccountId(0));
        let address = remembered(app, visit).await?;
        let device = device::known(&app.store, visit.device.as_ref(), id).await?.filter(|_| account.is_some());
        let is_known = app.store.addresses().is_known(id, &address).await?;
        let own = match device {
            Some(device) => (DEVICE, format!("{device} {email}")),
            None => (PAIR, format!("{} {email}", subnet(visit.address))),
        };
        let mut others = Vec::new();
        if own.0 == PAIR && !is_known {
            for network in networks(visit.address) {
                let free = OF_ADDRESS.free * network.multiple;
                others.push((NETWORK, network.name, GuessLimit { free, ..OF_ADDRESS }));
            }
            others.push((ACCOUNT, email.to_owned(), OF_ACCOUNT));
        }
        let attempt = Attempt { app, own, others, address };
        attempt.count().await?;
        Ok(attempt)
    }

    /// Counts a try of whoever is let in already and must say the password again.
    pub(crate) async fn of_credential(
        app: &'a App,
        visit: &Visit,
        credential: hark_store::KeyId,
    ) -> Result<Self, Failure> {
        let address = remembered(app, visit).await?;
        let attempt = Attempt { app, own: (DEVICE, format!("credential {credential}")), others: Vec::new(), address };
        attempt.count().await?;
        Ok(attempt)
    }

    async fn count(&self) -> Result<(), Failure> {
        let (kind, name) = &self.own;
        let mut who = vec![(*kind, name.as_str(), OF_PAIR)];
        who.extend(self.others.iter().map(|(kind, name, patience)| (*kind, name.as_str(), *patience)));
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

    /// The password was right: its owner's tries are forgiven, and the place is known from now on.
    ///
    /// Of the network only this try is taken back: an account of one's own would clear the way to others.
    pub(crate) async fn succeeded(self, account: AccountId) -> Result<(), Failure> {
        let guesses = &self.app.sign.guesses;
        guesses.forget(self.own.0, &self.own.1);
        for (kind, name, _) in &self.others {
            guesses.undo(kind, name);
        }
        Ok(self.app.store.addresses().remember(account, &self.address).await?)
    }
}

/// Notes that the account signed in from here, without a try.
pub(crate) async fn note(app: &App, visit: &Visit, account: AccountId) -> Result<(), Failure> {
    Ok(app.store.addresses().remember(account, &remembered(app, visit).await?).await?)
}

/// The address as it is remembered: a keyed hash.
async fn remembered(app: &App, visit: &Visit) -> Result<String, Failure> {
    let key = app.store.secret("known addresses", None).await?;
    Ok(hex(&mac(&*key, &[subnet(visit.address).to_string().as_bytes()])[..16]))
}
