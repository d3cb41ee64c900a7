//! A circuit breaker around claiming: a fault that hits everything stops the claiming, not the jobs.
//!
//! Recordings that can't be read stop all claiming until a probe reads one. A model that can't be loaded is not offered for a while, so that jobs for other
//! models go on and other nodes may take those for this one.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use hark_store::{Capabilities, Need};

use super::Fault;
use crate::engine::Dependency;
use crate::metrics::Metrics;

/// The first wait before another try, which doubles with each, and the longest one.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(15);

/// What is stopped at the moment.
#[derive(Default)]
pub(crate) struct Breaker {
    is_paused: AtomicBool,
    models: Mutex<HashMap<Need, Pause>>,
}

#[derive(Clone, Copy)]
struct Pause {
    faults: u32,
    until: Instant,
}

/// The wait after so many faults in a row.
pub(crate) fn wait_after(faults: u32) -> Duration {
    FIRST_WAIT.saturating_mul(1 << faults.saturating_sub(1).min(8)).min(LONGEST_WAIT)
}

impl Breaker {
    /// Stops all claiming until [`Breaker::resume`].
    pub(crate) fn pause(&self, dependency: Dependency, error: &str, metrics: &Metrics) {
        if !self.is_paused.swap(true, Ordering::SeqCst) {
            metrics.claiming_paused.store(1, Ordering::Relaxed);
            tracing::error!(dependency = dependency.name(), error, "claiming.paused");
        }
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.is_paused.load(Ordering::SeqCst)
    }

    /// The dependency is reachable again.
    pub(crate) fn resume(&self, metrics: &Metrics) {
        if self.is_paused.swap(false, Ordering::SeqCst) {
            metrics.claiming_paused.store(0, Ordering::Relaxed);
            tracing::info!("claiming.resumed");
        }
    }

    /// Notes how a job that needs a model ended.
    pub(crate) fn observe(&self, model: &Need, fault: Option<&Fault>) {
        let mut models = self.lock();
        if fault.is_some_and(|fault| fault.dependency == Some(Dependency::Engine)) {
            let faults = models.get(model).map_or(1, |pause| pause.faults.saturating_add(1));
            let wait = wait_after(faults);
            models.insert(model.clone(), Pause { faults, until: Instant::now() + wait });
            tracing::warn!(need = %model, faults, retry_in = wait.as_secs_f64(), "model.paused");
        } else if models.remove(model).is_some() {
            tracing::info!(need = %model, "model.resumed");
        }
    }

    /// What a worker has, without the models that are not to be tried yet.
    pub(crate) fn admit(&self, mut all: Capabilities) -> Capabilities {
        let now = Instant::now();
        for (model, _) in self.lock().iter().filter(|(_, pause)| pause.until > now) {
            all = all.without(model);
        }
        all
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Need, Pause>> {
        self.models.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_that_fails_is_not_offered_for_a_while_and_others_are() {
        let (base, small) = (Need::Model("base".into()), Need::Model("small".into()));
        let all = Capabilities::only([base.clone(), small.clone()]);
        let breaker = Breaker::default();
        let fault = Fault { dependency: Some(Dependency::Engine), ..Fault::internal("it can't be loaded") };
        breaker.observe(&base, Some(&fault));
        assert_eq!(breaker.admit(all.clone()), Capabilities::only([small]));
        breaker.observe(&base, Some(&Fault::internal("the recording is odd")));
        assert_eq!(breaker.admit(all.clone()), all, "it was loaded");
    }

    #[test]
    fn waits_grow_up_to_a_limit() {
        assert_eq!([1, 2, 3, 4, 5, 60].map(|faults| wait_after(faults).as_secs()), [1, 2, 4, 8, 15, 15]);
    }
}
