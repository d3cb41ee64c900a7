//! The circuit breaker of an endpoint: while it does not answer, requests fail at once instead of waiting for it.

use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Faults in a row after which it opens.
const THRESHOLD: u32 = 5;
/// How long it is open at first, which doubles with each failed probe, and at most.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// Whether requests are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakerState {
    /// All are.
    Closed,
    /// One is, to see whether the endpoint answers again.
    HalfOpen,
    /// None is.
    Open,
}

/// A circuit breaker.
#[derive(Debug, Default)]
pub(super) struct Breaker(Mutex<Faults>);

#[derive(Debug, Default)]
struct Faults {
    in_a_row: u32,
    /// Set when it opens, until a request succeeds.
    open_until: Option<Instant>,
    /// A request that was let through after that has not ended.
    is_probing: bool,
    /// Times that it opened.
    opened: u64,
}

/// A request that may be sent. Dropped without a result it says nothing about the endpoint.
#[derive(Debug)]
pub(super) struct Permit<'a> {
    breaker: &'a Breaker,
    has_ended: bool,
}

impl Breaker {
    /// Lets a request through, or says how long none will be.
    pub(super) fn admit(&self) -> Result<Permit<'_>, Duration> {
        let mut faults = self.lock();
        if let Some(until) = faults.open_until {
            let wait = until.saturating_duration_since(Instant::now());
            if !wait.is_zero() || faults.is_probing {
                return Err(wait.max(FIRST_WAIT));
            }
            faults.is_probing = true;
        }
        Ok(Permit { breaker: self, has_ended: false })
    }

    pub(super) fn state(&self) -> BreakerState {
        match &*self.lock() {
            Faults { open_until: None, .. } => BreakerState::Closed,
            Faults { open_until: Some(until), .. } if *until > Instant::now() => BreakerState::Open,
            _ => BreakerState::HalfOpen,
        }
    }

    /// Times that it opened.
    pub(super) fn opened(&self) -> u64 {
        self.lock().opened
    }

    fn lock(&self) -> MutexGuard<'_, Faults> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Permit<'_> {
    /// The endpoint answered, whatever it said.
    pub(super) fn succeeded(mut self) {
        self.has_ended = true;
        let mut faults = self.breaker.lock();
        if faults.open_until.is_some() {
            tracing::info!("endpoint.recovered");
        }
        *faults = Faults { opened: faults.opened, ..Faults::default() };
    }

    /// It did not answer, or with a fault of its own.
    pub(super) fn failed(mut self, error: &str) {
        self.has_ended = true;
        let mut faults = self.breaker.lock();
        faults.in_a_row = faults.in_a_row.saturating_add(1);
        faults.is_probing = false;
        if faults.in_a_row < THRESHOLD {
            return;
        }
        let wait = FIRST_WAIT.saturating_mul(1 << (faults.in_a_row - THRESHOLD).min(8)).min(LONGEST_WAIT);
        if faults.open_until.is_none() {
            faults.opened += 1;
            tracing::error!(error, faults = faults.in_a_row, "endpoint.unavailable");
        }
        faults.open_until = Some(Instant::now() + wait);
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.breaker.lock().is_probing = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fail(breaker: &Breaker) {
        breaker.admit().expect("it is let through").failed("no connection");
    }

    /// As if the wait were over.
    fn let_time_pass(breaker: &Breaker) {
        breaker.lock().open_until = Some(Instant::now());
    }

    #[test]
    fn it_opens_after_faults_in_a_row_and_a_probe_that_succeeds_closes_it() {
        let breaker = Breaker::default();
        (1..THRESHOLD).for_each(|_| fail(&breaker));
        breaker.admit().unwrap().succeeded();
        (1..THRESHOLD).for_each(|_| fail(&breaker));
        assert_eq!(breaker.state(), BreakerState::Closed);
        fail(&breaker);
        assert_eq!((breaker.state(), breaker.opened()), (BreakerState::Open, 1));
        assert!(breaker.admit().is_err());

        let_time_pass(&breaker);
        assert_eq!(breaker.state(), BreakerState::HalfOpen);
        let probe = breaker.admit().unwrap();
        assert!(breaker.admit().is_err(), "one probe at a time");
        probe.failed("no connection");
        assert_eq!(breaker.state(), BreakerState::Open);
        let wait = breaker.admit().unwrap_err();
        assert!(wait > FIRST_WAIT && wait <= LONGEST_WAIT, "{wait:?}");

        let_time_pass(&breaker);
        drop(breaker.admit().unwrap());
        breaker.admit().expect("a probe that was given up makes room for the next").succeeded();
        assert_eq!((breaker.state(), breaker.opened()), (BreakerState::Closed, 1));
        assert!(breaker.admit().is_ok());
    }
}
