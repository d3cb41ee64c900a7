//! Checks that can reject a request before its upload is read, and what is said when its job is refused.

use axum::http::HeaderMap;
use hark_api::{ApiError, ErrorKind};
use hark_store::{AddressUse, AnonymousLimit, Error, Limit, Owner, day_of};

use crate::app::App;
use crate::config::LimitUnit;
use crate::error::Failure;
use crate::idempotent;
use crate::limits::Place;
use crate::middleware::{Anonymous, Caller};
use crate::options::too_many_at_once;

/// `Retry-After` of an anonymous request while too many are in progress, in seconds.
const ANONYMOUS_RETRY_AFTER: u64 = 15;

/// A request that may send a recording now. It is held until the job is queued, where the store counts it.
pub(crate) struct Admission {
    /// The owner that limits are counted for.
    pub(crate) owner: Owner,
    /// The idempotency key of the request.
    pub(crate) name: Option<String>,
    _place: Place<Owner>,
    _named: Option<Place<(Owner, String)>>,
    _anonymous: Option<Place<()>>,
}

impl Admission {
    /// Checks whether this caller may send a recording now.
    pub(crate) async fn of(app: &App, caller: &Caller, headers: &HeaderMap, wait: bool) -> Result<Self, Failure> {
        let name = idempotent::key(headers)?;
        admit(app, caller, wait).await?;
        let owner = caller.owner();
        let place = app.uploads.acquire(owner.clone());
        let at_once = caller.plan().concurrency();
        let live = app.store.jobs().live_count(&owner).await? + place.before as i64;
        // A repeat is no new work: one repeat at a time is allowed while the first request occupies the last slot.
        let (is_repeat, named) = repeats(app, &owner, name.as_deref()).await?;
        if live >= at_once && !(is_repeat && (place.before as i64) <= at_once) {
            return Err(too_many_at_once(app, caller, live));
        }
        if !is_repeat {
            refuse_spent(app, caller).await?;
        }
        let anonymous = anonymous_place(app, caller).await?;
        Ok(Admission { owner, name, _place: place, _named: named, _anonymous: anonymous })
    }

    /// The answer for a recording of so many minutes whose job the store refused.
    pub(crate) fn refused(app: &App, caller: &Caller, error: Error, minutes: i64) -> Failure {
        match error {
            Error::Limit { what: Limit::ConcurrentJobs, used, .. } => too_many_at_once(app, caller, used),
            other => never_fits(&other, minutes).unwrap_or_else(|| Failure::of_store(other, app.clock.now())),
        }
    }
}

/// The error for a recording that exceeds the limit of a whole period: waiting for the next period would not help.
fn never_fits(error: &Error, minutes: i64) -> Option<Failure> {
    let Error::Limit { what, limit, .. } = error else { return None };
    let (of_limit, upgrade) = match what {
        Limit::AnonymousMinutes => {
            (format!("the {limit} a day that are free without an account: sign up, or send a shorter one"), true)
        }
        Limit::MonthlyMinutes => {
            (format!("the {limit} that this key may transcribe in a month: use another key, or raise its limit"), false)
        }
        _ => return None,
    };
    let message = format!("this recording has {minutes} minutes, more than {of_limit}");
    (minutes > *limit).then(|| ApiError::new(ErrorKind::FileTooLarge, message).upgrade(upgrade).into())
}

/// Whether a request with this idempotency key was accepted before or is in progress; the returned guard marks this one as in progress.
async fn repeats(
    app: &App,
    owner: &Owner,
    name: Option<&str>,
) -> Result<(bool, Option<Place<(Owner, String)>>), Failure> {
    let Some(name) = name else { return Ok((false, None)) };
    let named = app.named_uploads.acquire((owner.clone(), name.to_owned()));
    let is_repeat = named.before > 0 || app.store.idempotency().is_used(owner, name).await?;
    Ok((is_repeat, Some(named)))
}

/// Rejects requests that no caller may make now.
async fn admit(app: &App, caller: &Caller, wait: bool) -> Result<(), Failure> {
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
async fn refuse_spent(app: &App, caller: &Caller) -> Result<(), Failure> {
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
async fn anonymous_place(app: &App, caller: &Caller) -> Result<Option<Place<()>>, Failure> {
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
pub(crate) async fn count_networks(app: &App, owner: &Owner, caller: &Caller, minutes: i64) {
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
