//! Checks that can reject a request before its upload is read.

use hark_api::{ApiError, ErrorKind};
use hark_store::{AddressUse, AnonymousLimit, Error, Limit, Owner, day_of};

use crate::app::App;
use crate::config::LimitUnit;
use crate::error::Failure;
use crate::limits::Place;
use crate::middleware::{Anonymous, Caller};

/// `Retry-After` of an anonymous request while too many are in progress, in seconds.
const ANONYMOUS_RETRY_AFTER: u64 = 15;

/// Rejects requests that no caller may make now.
pub(super) async fn admit(app: &App, caller: &Caller, wait: bool) -> Result<(), Failure> {
    if app.is_draining() {
        return Err(ApiError::from(ErrorKind::ShuttingDown).retry_after(10).into());
    }
    if caller.identity().is_none() {
        if !app.config.anonymous.enabled {
            return Err(ErrorKind::Unauthorized.into());
        }
        if !wait {
            let message = "an asynchronous transcription needs an account to be found again: send an API key";
            return Err(Failure::new(ErrorKind::Unauthorized, message));
        }
    }
    let length = app.store.jobs().queue_length().await?;
    if length >= i64::try_from(app.config.max_queue).unwrap_or(i64::MAX) {
        return Err(Failure::of_store(Error::QueueFull { length }, app.clock.now()));
    }
    Ok(())
}

/// Rejects a caller without quota for even the shortest recording. Not for repeated requests, which cost nothing.
pub(super) async fn refuse_spent(app: &App, caller: &Caller) -> Result<(), Failure> {
    let refused = |error| Failure::of_store(error, app.clock.now());
    match caller {
        Caller::Account(identity) => {
            let have = app.store.accounts().get(identity.account()).await?.credits;
            if have < 1 {
                return Err(refused(Error::NotEnoughCredits { have, need: 1 }));
            }
            app.store.keys().check_minutes(identity.key(), 1).await.map_err(refused)
        }
        Caller::Anonymous(address) => {
            let used = app.store.addresses().anonymous_use(address, day_of(app.clock.now())).await?;
            let (what, limit, used) = match app.config.anonymous.limit.into() {
                AnonymousLimit::Transcriptions(limit) => (Limit::AnonymousTranscriptions, limit, used.transcriptions),
                AnonymousLimit::Minutes(limit) => (Limit::AnonymousMinutes, limit, used.minutes),
            };
            if used >= limit {
                return Err(refused(Error::Limit { what, limit, used }));
            }
            app.store.addresses().check(AddressUse::Anonymous, &wider(app, address)).await.map_err(refused)
        }
    }
}

/// Takes a slot of the concurrency limit of all anonymous work.
pub(super) async fn anonymous_place(app: &App, caller: &Caller) -> Result<Option<Place<()>>, Failure> {
    if caller.identity().is_some() {
        return Ok(None);
    }
    let place = app.anonymous_uploads.acquire(());
    let live = app.store.addresses().anonymous_jobs().await? + place.before as i64;
    if live >= i64::from(app.config.limits.anonymous_at_once) {
        let message = "too many transcriptions without an account at the moment: try again soon, or sign up";
        return Err(ApiError::new(ErrorKind::QueueFull, message).retry_after(ANONYMOUS_RETRY_AFTER).into());
    }
    Ok(Some(place))
}

/// Counts an accepted anonymous transcription for the networks around its address.
pub(super) async fn count_networks(app: &App, owner: &Owner, caller: &Caller, minutes: i64) {
    let (Owner::Anonymous(_), Caller::Anonymous(address)) = (owner, caller) else { return };
    let amount = match app.config.anonymous.limit.unit {
        LimitUnit::Transcriptions => 1,
        LimitUnit::Minutes => minutes,
    };
    let unbounded: Vec<(String, i64)> = wider(app, address).into_iter().map(|(name, _)| (name, i64::MAX)).collect();
    if let Err(error) = app.store.addresses().count(AddressUse::Anonymous, &unbounded, amount).await {
        tracing::error!(%error, "limits.count_failed");
    }
}

/// The networks around an address and the daily quota of each.
fn wider(app: &App, address: &Anonymous) -> Vec<(String, i64)> {
    let amount = i64::try_from(app.config.anonymous.limit.amount).unwrap_or(i64::MAX);
    address.wider().iter().map(|(name, multiple)| (name.clone(), amount.saturating_mul(*multiple))).collect()
}
