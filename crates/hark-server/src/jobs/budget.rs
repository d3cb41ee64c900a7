//! The hold of a job grows with the decoded length of its recording.
//!
//! A job starts with a hold for the length that its container declares. When decoding exceeds it, the hold is raised: in
//! credits, in the key's monthly minutes and in the address's daily minutes. If it cannot be raised, decoding stops a little
//! later, the job fails, and nothing is charged.

use std::sync::{Arc, Mutex, PoisonError};

use hark_media::{Budget, LengthBudget};
use hark_store::{AnonymousLimit, Error as StoreError, Job, Lease, Limit, Owner, Store};
use tokio::runtime::Handle;

use crate::app::App;
use crate::engine::EngineError;
use crate::probe;

/// How much longer than its hold a recording may be if the hold can't be raised: the declared length is often a little short.
const GRACE_SECONDS: f64 = 5.0;
const GRACE_SHARE: f64 = 0.02;
/// A hold is raised by at least this fraction (one fourth), so that ten hours don't take six hundred transactions.
const GROWTH: i64 = 4;
/// Maximum minutes of an anonymous recording where minutes are not limited, unless its container declares more.
const ANONYMOUS_MINUTES: i64 = 60;

/// The budget of one attempt.
pub(crate) struct JobBudget {
    store: Store,
    runtime: Handle,
    lease: Lease,
    anonymous_limit: Option<AnonymousLimit>,
    /// Maximum minutes of the hold, regardless of credits.
    max_minutes: i64,
    state: Mutex<State>,
}

struct State {
    /// Minutes held; an earlier attempt may have raised them.
    held: i64,
    /// Why the hold can't be raised.
    refusal: Option<EngineError>,
}

impl JobBudget {
    /// The budget of an attempt at this job; decoding must not run on the runtime's own threads.
    pub(crate) fn new(app: &App, job: &Job) -> Arc<Self> {
        let is_anonymous = matches!(job.owner, Owner::Anonymous(_));
        let limit: AnonymousLimit = app.config.anonymous.limit.into();
        let max_minutes = match limit {
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
            max_minutes,
            state: Mutex::new(State { held: probe::minutes(job.seconds), refusal: None }),
        })
    }

    /// The budget in the form that the decoder takes.
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

    /// Raises the hold to at least `need` minutes.
    fn hold(&self, held: i64, need: i64) -> Result<i64, EngineError> {
        if need > self.max_minutes {
            return Err(too_long(format!(
                "more than the {} minutes that it may have without an account",
                self.max_minutes
            )));
        }
        let step = need.max(held.saturating_add(held / GROWTH)).min(self.max_minutes);
        let raised = match self.raise(step) {
            // Without the margin there may be enough.
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
            // With a failed store or a lost lease nothing more is granted.
            Some(_) => return None,
        };
        (seconds <= granted).then_some(granted)
    }
}
