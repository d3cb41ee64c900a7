//! A pool of threads that share short pieces of work, one for all models of a process.
//!
//! A decoding step is some fifty parallel regions of 20 to 200 µs each, so handing out work must cost about a
//! microsecond: workers spin for a moment between regions and sleep only when nothing comes. Work is claimed piece by
//! piece, so a thread that the operating system holds up leaves its share to the others.
//!
//! Several callers may have regions open at once. A caller always works on its own region, so it never waits for
//! another's; workers take a piece of each open region in turn. Each caller has its share of the workers as long as it
//! opens regions now and again: a decoder with a region every 100 µs would otherwise find all of them inside another
//! network's pieces of 10 ms. A panic reaches the caller whose piece it was, and nobody else.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, Thread};
use std::time::Instant;

/// How many spins a worker waits for the next region before it sleeps: about 50 µs.
const SPINS_BEFORE_SLEEP: u32 = 4_000;
/// Regions that workers help with at once; the callers of more work alone.
const MOST_REGIONS: usize = 16;
/// Milliseconds for which a caller keeps its share of the workers after its last region.
const SHARE_MS: u64 = 20;

/// Whether others should go first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Priority {
    /// Work that others give way to.
    #[default]
    Foreground,
    /// Work whose caller asks [`ThreadPool::is_foreground_active`] between regions and pauses.
    Background,
}

/// A fixed set of threads; the caller of [`ThreadPool::parallel_for`] works as one of them.
pub struct ThreadPool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

/// Runs a piece: `(index, thread)`.
type Work<'a> = &'a (dyn Fn(usize, usize) + Sync);

/// What workers know of a region; it lies on its caller's stack.
struct Region<'a> {
    work: Work<'a>,
    pieces: usize,
    next: AtomicUsize,
    failed: AtomicBool,
}

/// A place for an open region.
#[derive(Default)]
struct Slot {
    /// Whether a caller has it: until the last worker has left its region.
    is_taken: AtomicBool,
    /// Null while no region is open here.
    region: AtomicPtr<Region<'static>>,
    /// Workers that may be using the region.
    users: AtomicUsize,
    /// When a region was last opened here, in milliseconds since the pool began; 0 if never.
    used_at: AtomicU64,
}

struct Shared {
    workers: usize,
    began: Instant,
    slots: [Slot; MOST_REGIONS],
    /// Regions that are open.
    open: AtomicUsize,
    /// Counts regions; a worker that sees it change has work.
    epoch: AtomicUsize,
    leaving: AtomicBool,
    asleep: Mutex<Vec<Thread>>,
    sleepers: AtomicUsize,
    /// Foreground regions that run.
    foreground: AtomicUsize,
    /// When one last ended, in milliseconds since the pool began; 0 if never.
    foreground_ended: AtomicU64,
}

/// A foreground region that runs.
struct ForegroundRegion<'a>(&'a Shared);

impl Drop for ForegroundRegion<'_> {
    fn drop(&mut self) {
        self.0.foreground_ended.store(self.0.now(), Ordering::Relaxed);
        self.0.foreground.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Region<'_> {
    /// Runs one piece, if there is one left.
    fn run_piece(&self, thread: usize) -> bool {
        let piece = self.next.fetch_add(1, Ordering::Relaxed);
        if piece < self.pieces {
            (self.work)(piece, thread);
        }
        piece < self.pieces
    }
}

impl ThreadPool {
    /// A pool of `threads`, the caller of a region included.
    pub fn new(threads: usize) -> Self {
        let shared = Arc::new(Shared {
            workers: threads.max(1) - 1,
            began: Instant::now(),
            slots: Default::default(),
            open: AtomicUsize::new(0),
            epoch: AtomicUsize::new(0),
            leaving: AtomicBool::new(false),
            asleep: Mutex::new(Vec::new()),
            sleepers: AtomicUsize::new(0),
            foreground: AtomicUsize::new(0),
            foreground_ended: AtomicU64::new(0),
        });
        let workers = (1..threads.max(1))
            .map(|index| {
                let shared = Arc::clone(&shared);
                std::thread::Builder::new()
                    .name(format!("hark-worker-{index}"))
                    .spawn(move || shared.serve(index))
                    .expect("the operating system gives a thread")
            })
            .collect();
        ThreadPool { shared, workers }
    }

    /// Threads that work on a region, its caller included.
    pub fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Whether a foreground region runs or ended a moment ago.
    pub fn is_foreground_active(&self) -> bool {
        let ended = self.shared.foreground_ended.load(Ordering::Relaxed);
        let is_recent = ended > 0 && self.shared.now().saturating_sub(ended) < SHARE_MS;
        is_recent || self.shared.foreground.load(Ordering::Relaxed) > 0
    }

    /// As [`ThreadPool::parallel_for`], with a priority.
    pub(crate) fn parallel_for_as(&self, priority: Priority, count: usize, work: impl Fn(usize, usize) + Sync) {
        let _region = (priority == Priority::Foreground).then(|| {
            self.shared.foreground.fetch_add(1, Ordering::Relaxed);
            ForegroundRegion(&self.shared)
        });
        self.parallel_for(count, work);
    }

    /// Calls `work(index, thread)` once for every index below `count`; a thread is a number below
    /// [`ThreadPool::threads`] that no other thread of this call has.
    ///
    /// # Panics
    /// When a call of `work` panics, after all others that began have ended.
    pub fn parallel_for(&self, count: usize, work: impl Fn(usize, usize) + Sync) {
        if self.workers.is_empty() || count <= 1 {
            (0..count).for_each(|index| work(index, 0));
            return;
        }
        let region = Region { work: &work, pieces: count, next: AtomicUsize::new(0), failed: AtomicBool::new(false) };
        let place = (&raw const region).cast_mut().cast::<Region<'static>>();
        let shared = &*self.shared;
        let free = shared.slots.iter().find(|slot| !slot.is_taken.swap(true, Ordering::SeqCst));
        if let Some(slot) = free {
            slot.used_at.store(shared.now(), Ordering::Relaxed);
            slot.region.store(place, Ordering::SeqCst);
            shared.open.fetch_add(1, Ordering::SeqCst);
            shared.epoch.fetch_add(1, Ordering::SeqCst);
            if shared.sleepers.load(Ordering::SeqCst) > 0 {
                for thread in shared.asleep.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).drain(..) {
                    thread.unpark();
                }
            }
        }
        let mine = catch_unwind(AssertUnwindSafe(|| while region.run_piece(0) {}));
        if mine.is_err() {
            // Pieces that nobody has begun are left out.
            region.next.store(count, Ordering::Relaxed);
        }
        if let Some(slot) = free {
            // From here on no worker finds the region; those that found it are waited for, so that it outlives them.
            slot.region.store(null_mut(), Ordering::SeqCst);
            shared.open.fetch_sub(1, Ordering::SeqCst);
            let mut spins = 0u32;
            while slot.users.load(Ordering::SeqCst) > 0 {
                spins += 1;
                if spins < SPINS_BEFORE_SLEEP {
                    std::hint::spin_loop();
                } else {
                    std::thread::yield_now();
                }
            }
            slot.is_taken.store(false, Ordering::SeqCst);
        }
        if let Err(panic) = mine {
            resume_unwind(panic);
        }
        if region.failed.load(Ordering::SeqCst) {
            panic!("a worker of the thread pool panicked");
        }
    }
}

impl Shared {
    /// Milliseconds since the pool began, from 1 on.
    fn now(&self) -> u64 {
        self.began.elapsed().as_millis() as u64 + 1
    }

    /// How many workers one region may have: an even share of those who opened one a moment ago.
    fn share(&self) -> usize {
        let now = self.now();
        let is_active = |slot: &&Slot| {
            let used_at = slot.used_at.load(Ordering::Relaxed);
            slot.is_taken.load(Ordering::Relaxed) || used_at > 0 && now.saturating_sub(used_at) < SHARE_MS
        };
        self.workers.div_ceil(self.slots.iter().filter(is_active).count().max(1))
    }

    fn serve(&self, index: usize) {
        // Workers begin to look at different places.
        let mut first = index;
        loop {
            let seen = self.epoch.load(Ordering::SeqCst);
            if self.leaving.load(Ordering::SeqCst) {
                return;
            }
            let helped = (0..MOST_REGIONS).find(|turn| self.help(&self.slots[(first + turn) % MOST_REGIONS], index));
            match helped {
                // The next open region has its turn first.
                Some(turn) => first = (first + turn + 1) % MOST_REGIONS,
                None => self.wait_for_region(seen),
            }
        }
    }

    /// Runs pieces of the region in `slot`, if it has fewer workers than its share: all that are left while it is the only
    /// one, else one.
    fn help(&self, slot: &Slot, index: usize) -> bool {
        if slot.region.load(Ordering::Relaxed).is_null() {
            return false;
        }
        // Counted first, looked at again then: either the region's caller waits for this worker, or it is gone here.
        let is_shared_out = slot.users.fetch_add(1, Ordering::SeqCst) >= self.share();
        let place = slot.region.load(Ordering::SeqCst);
        let mut has_helped = false;
        if !place.is_null() && !is_shared_out {
            // SAFETY: the caller that put the region here keeps it until `users` is zero again after it took it away.
            let region = unsafe { &*place };
            let run = catch_unwind(AssertUnwindSafe(|| {
                while region.run_piece(index) {
                    has_helped = true;
                    let others = self.open.load(Ordering::Relaxed) > 1;
                    if others || slot.users.load(Ordering::Relaxed) > self.share() {
                        break;
                    }
                }
            }));
            if run.is_err() {
                region.failed.store(true, Ordering::SeqCst);
            }
        }
        slot.users.fetch_sub(1, Ordering::SeqCst);
        has_helped
    }

    /// Returns once a region began after the one numbered `seen`, or the pool is leaving.
    fn wait_for_region(&self, seen: usize) {
        let mut spins = 0u32;
        while self.epoch.load(Ordering::Acquire) == seen {
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

impl Drop for ThreadPool {
    fn drop(&mut self) {
        self.shared.leaving.store(true, Ordering::SeqCst);
        self.shared.epoch.fetch_add(1, Ordering::SeqCst);
        for worker in self.workers.drain(..) {
            worker.thread().unpark();
            let _ = worker.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn every_piece_is_done_exactly_once() {
        let pool = ThreadPool::new(3);
        for count in [0, 1, 2, 7, 100] {
            let counts: Vec<AtomicUsize> = (0..count).map(|_| AtomicUsize::new(0)).collect();
            for _ in 0..200 {
                pool.parallel_for(count, |index, thread| {
                    assert!(thread < 3);
                    counts[index].fetch_add(1, Ordering::Relaxed);
                });
            }
            assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 200));
        }
    }

    #[test]
    fn regions_of_several_callers_are_done_together_and_threads_are_their_own() {
        let pool = ThreadPool::new(3);
        // More callers than there are slots.
        std::thread::scope(|scope| {
            for _ in 0..MOST_REGIONS + 4 {
                scope.spawn(|| {
                    for round in 0..50 {
                        let busy = [const { AtomicBool::new(false) }; 3];
                        let done = AtomicUsize::new(0);
                        pool.parallel_for(round, |_, thread| {
                            assert!(!busy[thread].swap(true, Ordering::SeqCst), "one at a time on each thread");
                            done.fetch_add(1, Ordering::SeqCst);
                            busy[thread].store(false, Ordering::SeqCst);
                        });
                        assert_eq!(done.load(Ordering::SeqCst), round);
                    }
                });
            }
        });
    }

    #[test]
    fn callers_of_a_moment_ago_keep_their_share_of_the_workers() {
        let pool = ThreadPool::new(9);
        let shared = &pool.shared;
        assert_eq!(shared.share(), 8, "nobody else is there");
        let used_at = |slot: usize, at: u64| shared.slots[slot].used_at.store(at, Ordering::Relaxed);
        // Far ahead of the clock, so that it does not matter how long this test takes.
        used_at(0, u64::MAX);
        assert_eq!(shared.share(), 8, "one caller has all of them");
        used_at(1, u64::MAX);
        used_at(2, u64::MAX);
        assert_eq!(shared.share(), 3, "eight among three");
        shared.slots[3].is_taken.store(true, Ordering::Relaxed);
        assert_eq!(shared.share(), 2, "an open region counts, however long it lasts");
        (0..3).for_each(|slot| used_at(slot, 0));
        assert_eq!(shared.share(), 8, "who left gives their share back");
    }

    #[test]
    fn foreground_work_is_seen_while_it_runs_and_background_work_is_not() {
        let pool = ThreadPool::new(2);
        assert!(!pool.is_foreground_active());
        pool.parallel_for_as(Priority::Background, 4, |_, _| assert!(!pool.is_foreground_active()));
        pool.parallel_for_as(Priority::Foreground, 4, |_, _| assert!(pool.is_foreground_active()));
        let failed =
            catch_unwind(AssertUnwindSafe(|| pool.parallel_for_as(Priority::Foreground, 1, |_, _| panic!("one"))));
        assert!(failed.is_err());
        let began = Instant::now();
        while pool.is_foreground_active() {
            assert!(began.elapsed().as_secs() < 30, "work that ended counts as active");
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_caller_does_not_wait_for_the_region_of_another() {
        let pool = ThreadPool::new(2);
        let (begun, ended) = (Barrier::new(3), Barrier::new(3));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // Holds its own thread and the worker until the other caller's region has ended.
                pool.parallel_for(2, |_, _| {
                    begun.wait();
                    ended.wait();
                });
            });
            begun.wait();
            let done = AtomicUsize::new(0);
            pool.parallel_for(5, |_, _| {
                done.fetch_add(1, Ordering::SeqCst);
            });
            assert_eq!(done.load(Ordering::SeqCst), 5);
            ended.wait();
        });
    }

    #[test]
    fn a_panic_in_a_piece_reaches_its_caller_alone_and_the_pool_lives_on() {
        let pool = ThreadPool::new(2);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                let done = AtomicUsize::new(0);
                for _ in 0..200 {
                    pool.parallel_for(8, |_, _| {
                        done.fetch_add(1, Ordering::Relaxed);
                    });
                }
                done.load(Ordering::Relaxed)
            });
            for _ in 0..50 {
                let outcome = catch_unwind(AssertUnwindSafe(|| {
                    pool.parallel_for(8, |index, _| assert!(index != 5, "piece five fails"));
                }));
                assert!(outcome.is_err());
            }
            assert_eq!(other.join().expect("the other caller has no panic"), 200 * 8);
        });
    }

    #[test]
    fn a_panic_of_the_caller_and_of_a_worker_ends_with_its_region() {
        let pool = ThreadPool::new(2);
        let both = Barrier::new(2);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            pool.parallel_for(2, |_, _| {
                // Each of the two has a piece, and neither panics before the other has begun.
                both.wait();
                panic!("both pieces fail");
            });
        }));
        assert!(outcome.is_err());
        let done = AtomicUsize::new(0);
        pool.parallel_for(8, |_, _| {
            done.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(done.load(Ordering::Relaxed), 8);
    }
}
