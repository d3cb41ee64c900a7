//! A team of threads that share short pieces of work.
//!
//! A decoding step is some fifty parallel regions of 20 to 200 µs each, so handing out work must cost about a
//! microsecond: the members spin for a moment between regions and sleep only when nothing comes. Work is claimed
//! piece by piece, so a member that the operating system holds up leaves its share to the others.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, Thread};

/// How many spins a member waits for the next region before it sleeps: about 50 µs.
const SPINS_BEFORE_SLEEP: u32 = 4_000;

/// A fixed set of threads; the caller of [`Team::each`] works as one of them.
pub struct Team {
    shared: Arc<Shared>,
    members: Vec<JoinHandle<()>>,
    /// One region at a time.
    region: Mutex<()>,
}

type Work<'a> = &'a (dyn Fn(usize) + Sync);

struct Shared {
    /// Counts regions; a member that sees it change has work.
    epoch: AtomicUsize,
    /// The region's closure, valid while `running` is above zero.
    work: Mutex<Option<Work<'static>>>,
    running: AtomicUsize,
    failed: AtomicBool,
    leaving: AtomicBool,
    asleep: Mutex<Vec<Thread>>,
    sleepers: AtomicUsize,
}

impl Team {
    /// A team of `threads` members, the caller included.
    pub fn new(threads: usize) -> Self {
        let shared = Arc::new(Shared {
            epoch: AtomicUsize::new(0),
            work: Mutex::new(None),
            running: AtomicUsize::new(0),
            failed: AtomicBool::new(false),
            leaving: AtomicBool::new(false),
            asleep: Mutex::new(Vec::new()),
            sleepers: AtomicUsize::new(0),
        });
        let members = (1..threads.max(1))
            .map(|index| {
                let shared = Arc::clone(&shared);
                std::thread::Builder::new()
                    .name(format!("hark-team-{index}"))
                    .spawn(move || shared.serve(index))
                    .expect("the operating system gives a thread")
            })
            .collect();
        Team { shared, members, region: Mutex::new(()) }
    }

    /// How many threads work on a region.
    pub fn members(&self) -> usize {
        self.members.len() + 1
    }

    /// Whether the caller works alone.
    pub fn is_alone(&self) -> bool {
        self.members.is_empty()
    }

    /// Calls `work(piece, member)` once for every piece in `0..pieces`, shared out among the members.
    pub fn each(&self, pieces: usize, work: impl Fn(usize, usize) + Sync) {
        if pieces == 0 {
            return;
        }
        if self.is_alone() || pieces == 1 {
            for piece in 0..pieces {
                work(piece, 0);
            }
            return;
        }
        let next = AtomicUsize::new(0);
        self.broadcast(&|member| {
            loop {
                let piece = next.fetch_add(1, Ordering::Relaxed);
                if piece >= pieces {
                    break;
                }
                work(piece, member);
            }
        });
    }

    /// Runs `work(member)` on every member and returns when all are done.
    fn broadcast(&self, work: Work<'_>) {
        let _one_region = self.region.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let shared = &*self.shared;
        // SAFETY: the borrow is used only by members counted in `running`, and this function does not return
        // or unwind before that count is zero again and the reference has been taken back.
        let lasting: Work<'static> = unsafe { std::mem::transmute::<Work<'_>, Work<'static>>(work) };
        *shared.work.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(lasting);
        shared.running.store(self.members.len(), Ordering::SeqCst);
        shared.epoch.fetch_add(1, Ordering::SeqCst);
        if shared.sleepers.load(Ordering::SeqCst) > 0 {
            for thread in shared.asleep.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).drain(..) {
                thread.unpark();
            }
        }
        let mine = catch_unwind(AssertUnwindSafe(|| work(0)));
        let mut spins = 0u32;
        while shared.running.load(Ordering::Acquire) > 0 {
            spins += 1;
            if spins < SPINS_BEFORE_SLEEP {
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
        *shared.work.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = None;
        // Taken back in any case: a member's panic must not reach the next region.
        let member_failed = shared.failed.swap(false, Ordering::SeqCst);
        if let Err(panic) = mine {
            resume_unwind(panic);
        }
        if member_failed {
            panic!("a member of the team panicked");
        }
    }
}

impl Shared {
    fn serve(&self, index: usize) {
        let mut seen = 0;
        loop {
            seen = self.wait_for_region(seen);
            if self.leaving.load(Ordering::SeqCst) {
                return;
            }
            let work = *self.work.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            if let Some(work) = work
                && catch_unwind(AssertUnwindSafe(|| work(index))).is_err()
            {
                self.failed.store(true, Ordering::SeqCst);
            }
            self.running.fetch_sub(1, Ordering::Release);
        }
    }

    /// Returns the number of the next region once there is one (or the team is leaving).
    fn wait_for_region(&self, seen: usize) -> usize {
        let mut spins = 0u32;
        loop {
            let epoch = self.epoch.load(Ordering::Acquire);
            if epoch != seen {
                return epoch;
            }
            spins += 1;
            if spins < SPINS_BEFORE_SLEEP {
                std::hint::spin_loop();
                continue;
            }
            {
                let mut asleep = self.asleep.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                self.sleepers.fetch_add(1, Ordering::SeqCst);
                asleep.push(std::thread::current());
            }
            // A region that began in between has either seen the sleeper or is seen here.
            if self.epoch.load(Ordering::SeqCst) == seen {
                std::thread::park();
            }
            self.sleepers.fetch_sub(1, Ordering::SeqCst);
            spins = 0;
        }
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.shared.leaving.store(true, Ordering::SeqCst);
        self.shared.epoch.fetch_add(1, Ordering::SeqCst);
        for member in self.members.drain(..) {
            member.thread().unpark();
            let _ = member.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_piece_is_done_exactly_once() {
        let team = Team::new(3);
        for pieces in [0, 1, 2, 7, 100] {
            let counts: Vec<AtomicUsize> = (0..pieces).map(|_| AtomicUsize::new(0)).collect();
            for _ in 0..200 {
                team.each(pieces, |piece, _| {
                    counts[piece].fetch_add(1, Ordering::Relaxed);
                });
            }
            assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 200));
        }
    }

    #[test]
    fn a_panic_in_a_piece_reaches_the_caller_and_the_team_lives_on() {
        let team = Team::new(2);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            team.each(8, |piece, _| assert!(piece != 5, "piece five fails"));
        }));
        assert!(outcome.is_err());
        let done = AtomicUsize::new(0);
        team.each(8, |_, _| {
            done.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(done.load(Ordering::Relaxed), 8);
    }

    #[test]
    fn a_panic_of_the_caller_and_of_a_member_ends_with_its_region() {
        let team = Team::new(2);
        let both = std::sync::Barrier::new(2);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            team.each(2, |_, _| {
                // Each of the two has a piece, and neither panics before the other has begun.
                both.wait();
                panic!("both pieces fail");
            });
        }));
        assert!(outcome.is_err());
        let done = AtomicUsize::new(0);
        team.each(8, |_, _| {
            done.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(done.load(Ordering::Relaxed), 8);
    }
}
