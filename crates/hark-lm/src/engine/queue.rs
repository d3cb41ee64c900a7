//! Requests that wait, in the order in which they are admitted: by lane, then the owner with the fewest tokens, those included that their
//! running requests still have to compute, then by age.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use hark_transcript::Lane;

use super::{Output, Request};

/// A bulk request that waited so long goes with the interactive ones.
const BULK_PATIENCE: Duration = Duration::from_secs(120);

/// A request that waits, and where its answer goes.
pub(super) struct Waiting {
    pub(super) request: Request,
    pub(super) output: Box<dyn Output>,
    arrived: Instant,
}

impl Waiting {
    pub(super) fn new(request: Request, output: Box<dyn Output>) -> Self {
        Waiting { request, output, arrived: Instant::now() }
    }

    fn lane(&self, now: Instant) -> Lane {
        let has_waited = now.saturating_duration_since(self.arrived) >= BULK_PATIENCE;
        if has_waited { self.request.lane.max(Lane::Interactive) } else { self.request.lane }
    }
}

/// The requests that wait and the tokens that each owner had (virtual token counters).
#[derive(Default)]
pub(super) struct Queue {
    waiting: Vec<Waiting>,
    /// Tokens that were computed for owners with requests.
    served: HashMap<u64, u64>,
}

impl Queue {
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Adds a request. An owner who comes back has no credit from the time when nothing was asked for; `is_running` says who has
    /// running requests.
    pub(super) fn push(&mut self, waiting: Waiting, is_running: impl Fn(u64) -> bool) {
        let owner = waiting.request.owner;
        let is_active = |owner: u64| is_running(owner) || self.waiting.iter().any(|other| other.request.owner == owner);
        if !is_active(owner) {
            self.served.retain(|owner, _| is_active(*owner));
            let least = self.served.values().copied().min().unwrap_or(0);
            self.served.insert(owner, least);
        }
        self.waiting.push(waiting);
    }

    /// Counts tokens that were computed for an owner. What is not computed yet does not count: whoever comes meanwhile would have to wait for it.
    pub(super) fn charge(&mut self, owner: u64, tokens: u64) {
        *self.served.entry(owner).or_default() += tokens;
    }

    /// Tokens that an owner had.
    pub(super) fn served(&self, owner: u64) -> u64 {
        self.served.get(&owner).copied().unwrap_or(0)
    }

    /// The request that is next among those that may be admitted. `pending` says how many tokens of prompts an owner's running requests
    /// still have to compute.
    pub(super) fn next(&self, may_admit: impl Fn(&Request) -> bool, pending: impl Fn(u64) -> u64) -> Option<usize> {
        let now = Instant::now();
        let admissible = self.waiting.iter().enumerate().filter(|(_, waiting)| may_admit(&waiting.request));
        let order = |(index, waiting): &(usize, &Waiting)| {
            let owner = waiting.request.owner;
            (std::cmp::Reverse(waiting.lane(now)), self.served(owner) + pending(owner), *index)
        };
        admissible.min_by_key(order).map(|(index, _)| index)
    }

    pub(super) fn get(&self, index: usize) -> &Request {
        &self.waiting[index].request
    }

    pub(super) fn remove(&mut self, index: usize) -> Waiting {
        self.waiting.remove(index)
    }

    /// Drops requests whose answers nobody wants.
    pub(super) fn drop_closed(&mut self) {
        self.waiting.retain(|waiting| !waiting.output.is_closed());
    }

    pub(super) fn drain(&mut self) -> impl Iterator<Item = Waiting> {
        self.waiting.drain(..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Finish, TokenUsage};
    use crate::{LmError, Sampling};

    struct Nowhere;

    impl Output for Nowhere {
        fn text(&mut self, _: String) {}
        fn end(&mut self, _: Result<(Finish, TokenUsage), LmError>) {}
        fn is_closed(&self) -> bool {
            false
        }
    }

    fn push(queue: &mut Queue, owner: u64, lane: Lane) {
        let request =
            Request { prompt: vec![1], sampling: Sampling::default(), grammar: None, max_tokens: 1, owner, lane };
        queue.push(Waiting::new(request, Box::new(Nowhere)), |_| false);
    }

    fn admit(queue: &mut Queue, tokens: u64) -> (u64, Lane) {
        let next = queue.next(|_| true, |_| 0).expect("one waits");
        let Request { owner, lane, .. } = queue.remove(next).request;
        queue.charge(owner, tokens);
        (owner, lane)
    }

    #[test]
    fn owners_take_turns_however_much_one_of_them_asks() {
        let mut queue = Queue::default();
        (0..6).for_each(|_| push(&mut queue, 1, Lane::Bulk));
        (0..2).for_each(|_| push(&mut queue, 2, Lane::Bulk));
        push(&mut queue, 3, Lane::Bulk);
        let order: Vec<u64> = (0..9).map(|_| admit(&mut queue, 100).0).collect();
        assert_eq!(order, [1, 2, 3, 1, 2, 1, 1, 1, 1]);
    }

    #[test]
    fn an_owner_of_small_requests_has_more_of_them() {
        let mut queue = Queue::default();
        (0..2).for_each(|_| push(&mut queue, 1, Lane::Bulk));
        (0..4).for_each(|_| push(&mut queue, 2, Lane::Bulk));
        let mut order = Vec::new();
        for _ in 0..6 {
            let next = queue.next(|_| true, |_| 0).expect("one waits");
            let owner = queue.remove(next).request.owner;
            queue.charge(owner, if owner == 1 { 300 } else { 100 });
            order.push(owner);
        }
        assert_eq!(order, [1, 2, 2, 2, 1, 2]);
    }

    #[test]
    fn urgent_lanes_go_first_and_the_next_may_be_passed_over() {
        let mut queue = Queue::default();
        push(&mut queue, 1, Lane::Bulk);
        push(&mut queue, 1, Lane::Interactive);
        push(&mut queue, 2, Lane::Live);
        let next = queue.next(|request| request.owner == 1, |_| 0).expect("one may be admitted");
        assert_eq!(queue.get(next).lane, Lane::Interactive);
        let order: Vec<Lane> = (0..3).map(|_| admit(&mut queue, 1).1).collect();
        assert_eq!(order, [Lane::Live, Lane::Interactive, Lane::Bulk]);
    }

    #[test]
    fn who_comes_late_has_no_credit_from_before() {
        let mut queue = Queue::default();
        (0..3).for_each(|_| push(&mut queue, 1, Lane::Bulk));
        (0..2).for_each(|_| _ = admit(&mut queue, 1000));
        (0..2).for_each(|_| push(&mut queue, 2, Lane::Bulk));
        assert_eq!(queue.served(2), 2000);
        let order: Vec<u64> = (0..3).map(|_| admit(&mut queue, 10).0).collect();
        assert_eq!(order, [1, 2, 2]);
    }

    #[test]
    fn what_running_requests_still_have_to_compute_counts_for_who_is_admitted_next() {
        let mut queue = Queue::default();
        (0..2).for_each(|_| push(&mut queue, 1, Lane::Bulk));
        (0..2).for_each(|_| push(&mut queue, 2, Lane::Bulk));
        let pending = |owner: u64| if owner == 1 { 1000 } else { 0 };
        let next = queue.next(|_| true, pending).expect("one waits");
        assert_eq!(queue.get(next).owner, 2);
        queue.charge(2, 1001);
        let next = queue.next(|_| true, pending).expect("one waits");
        assert_eq!(queue.get(next).owner, 1);
    }
}
