//! Paying for what a recording really holds.
//!
//! A job begins with a hold for the length that its container tells. As its decoding passes that, the hold grows, in credits, in
//! the key's month and in the address's day alike. Where it can't grow, decoding stops a little later, the job fails, and
//! nothing is charged: what was decoded by then is not enough for a transcript.

use std::sync::{Arc, Mutex, PoisonError};

use hark_media::{Budget, LengthBudget};
use hark_store::{AnonymousLimit, Error as StoreError, Job, Lease, Limit, Owner, Store};
use tokio::runtime::Handle;

use crate::app::App;
use crate::engine::EngineError;
use crate::probe;

/// How much longer than its hold a recording may be where the hold can't grow: a container's length is often a little short.
const GRACE_SECONDS: f64 = 5.0;
const GRACE_SHARE: f64 = 0.02;
/// A hold grows by this share of itself at least, so that ten hours don't take six hundred transactions.
const GROWTH: i64 = 4;
/// Minutes that an anonymous recording may turn out to have where minutes are not limited, unless its container tells of more.
const ANONYMOUS_MINUTES: i64 = 60;

/// The budget of one attempt.
pub(crate) struct JobBudget {
    store: Store,
    runtime: Handle,
    lease: Lease,
    anonymous_limit: Option<AnonymousLimit>,
    /// Minutes that the hold may grow to, whoever pays.
    most: i64,
    state: Mutex<State>,
}

struct State {
    /// Minutes that are held for sure; an earlier attempt may have raised them.
    held: i64,
    /// Why the hold can't grow.
    refusal: Option<EngineError>,
}

impl JobBudget {
    /// The budget of an attempt at this job; decoding must not run on the runtime's own threads.
    pub(crate) fn new(app: &App, job: &Job) -> Arc<Self> {
        let is_anonymous = matches!(job.owner, Owner::Anonymous(_));
        let limit: AnonymousLimit = app.config.anonymous.limit.into();
        let most = match limit {
            AnonymousLimit::Transcriptions(_) if is_anonymous => {
                ANONYMOUS_MINUTES.max(probe::minutes(2.0 * job.seconds))
            }
            _ => i64::MAX,
        };
        Arc::new(JobBudget {
            store: app.store.clone(),
            runtime: Handle::current(),
            lease: job.lease.clone(),
            anonymous_limit: is_anonymous.then_some(limit),
            most,
            state: Mutex::new(State { held: probe::minutes(job.seconds), refusal: None }),
        })
    }

    /// The same as a decoder asks it.
    pub(crate) fn of_decoder(self: &Arc<Self>) -> Budget {
        Budget::new(Arc::clone(self) as Arc<dyn LengthBudget>)
    }

    /// Why decoding was stopped, if it was.
    pub(crate) fn refusal(&self) -> Option<EngineError> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).refusal.take()
    }

    fn raise(&self, minutes: i64) -> hark_store::Result<i64> {
        self.runtime.block_on(self.store.jobs().raise_hold(&self.lease, minutes, self.anonymous_limit))
    }

    /// Holds at least `need` minutes, or says why not.
    fn hold(&self, held: i64, need: i64) -> Result<i64, EngineError> {
        if need > self.most {
            return Err(too_long(format!("more than the {} minutes that it may have without an account", self.most)));
        }
        let step = need.max(held.saturating_add(held / GROWTH)).min(self.most);
        let raised = match self.raise(step) {
            // There may be enough for what is needed now.
            Err(StoreError::NotEnoughCredits { .. } | StoreError::Limit { .. }) if step > need => self.raise(need),
            other => other,
        };
        raised.map_err(|error| match error {
            StoreError::NotEnoughCredits { have, .. } => EngineError::NotCovered(format!(
                "the recording is longer than its file says, and {} credits don't cover it: nothing was charged, add credits and send it again",
                held.saturating_add(have)
            )),
            StoreError::Limit { what: Limit::AnonymousMinutes, limit, .. } => {
                too_long(format!("more than what is left of the {limit} minutes a day without an account"))
            }
            StoreError::Limit { limit, .. } => {
                too_long(format!("more than what is left of the {limit} minutes that its key may use"))
            }
            StoreError::LeaseLost => EngineError::Cancelled,
            other => EngineError::Failed(other.to_string()),
        })
    }
}

fn too_long(of_limit: String) -> EngineError {
    EngineError::Unusable(format!("the recording is longer than its file says, {of_limit}: nothing was charged"))
}

impl LengthBudget for JobBudget {
    fn grant(&self, seconds: f64) -> Option<f64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let need = probe::minutes(seconds);
        if need > state.held && state.refusal.is_none() {
            match self.hold(state.held, need) {
                Ok(held) => state.held = held,
                Err(refusal) => state.refusal = Some(refusal),
            }
        }
        let held = state.held as f64 * 60.0;
        let granted = match &state.refusal {
            None => held + probe::ROUNDING,
            Some(EngineError::Unusable(_) | EngineError::NotCovered(_)) => held + GRACE_SECONDS.max(GRACE_SHARE * held),
            // A store that is away, or that gave the job to another, grants nothing more.
            Some(_) => return None,
        };
        (seconds <= granted).then_some(granted)
    }
}
