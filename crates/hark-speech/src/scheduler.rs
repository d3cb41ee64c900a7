//! One engine, many recordings: who is decoded next.
//!
//! Windows wait in lanes, and inside a lane in one queue for each owner; owners take turns, so a long recording never
//! starves a short one. A step of the engine takes the windows of the highest lane only: a clip of three seconds does
//! not wait for the batch of a two-hour file. So that the lower lanes do not stand still under a steady stream of
//! clips, every few steps all lanes advance together.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;

use hark_transcript::Lane;
use hark_whisper::backend::{Again, Backend};
use hark_whisper::decode::{DecodeOptions, Engine, Job, Outcome, Spent};

/// One window to decode.
pub struct WindowRequest {
    /// Whose it is: owners of one lane take turns.
    pub owner: u64,
    /// How soon.
    pub lane: Lane,
    /// Log-mel values, frame-major.
    pub mel: Vec<f32>,
    /// Frames of 20 ms that hold sound.
    pub frames: usize,
    /// Set for a window that is looked at more than once.
    pub again: Option<Again>,
    /// How to decode.
    pub options: Arc<DecodeOptions>,
    /// Set by the owner when nobody wants the answer any more.
    pub cancelled: Arc<AtomicBool>,
    /// The owner's number for the window, sent back with the outcome.
    pub tag: usize,
    /// Where the outcome goes.
    pub reply: Reply,
    /// Counts what was done for the window so far.
    pub meter: Meter,
}

/// Counts what the engine did for a window: nothing while it waits, one for its encoding, then one for each step of its text.
/// Clones share the count.
#[derive(Debug, Clone, Default)]
pub struct Meter(Arc<AtomicU32>);

impl Meter {
    /// Whether the window is encoded.
    pub fn is_encoded(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }

    /// Steps that its text took so far.
    pub fn steps(&self) -> u32 {
        self.0.load(Ordering::Relaxed).saturating_sub(1)
    }

    fn advance(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Hears the outcome of a window by its tag, on the engine's thread: it must be quick.
pub type Reply = Arc<dyn Fn(usize, Outcome) + Send + Sync>;

/// Slots that the lanes below must leave free for this one and higher: a clip or a live window never waits for a
/// slot that a long file holds.
const RESERVED: usize = 2;
/// Steps that only the highest lane takes before all lanes take one.
const EXCLUSIVE_STEPS: u32 = 12;

/// Hands windows to the engine's thread; clones share it.
#[derive(Clone)]
pub struct Scheduler {
    shared: Arc<Shared>,
    thread: Arc<EngineThread>,
}

struct Shared {
    waiting: Mutex<Waiting>,
    arrived: Condvar,
    stopping: AtomicBool,
    owners: AtomicU64,
    spent: Mutex<Spent>,
}

/// The windows that wait, by lane; in a lane the owners in the order of their turns.
#[derive(Default)]
struct Waiting {
    lanes: BTreeMap<Lane, LaneQueue>,
}

#[derive(Default)]
struct LaneQueue {
    turns: VecDeque<u64>,
    windows: HashMap<u64, VecDeque<WindowRequest>>,
}

impl LaneQueue {
    fn push(&mut self, request: WindowRequest) {
        let queue = self.windows.entry(request.owner).or_default();
        if queue.is_empty() {
            self.turns.push_back(request.owner);
        }
        queue.push_back(request);
    }

    fn pop(&mut self) -> Option<WindowRequest> {
        let owner = self.turns.pop_front()?;
        let queue = self.windows.get_mut(&owner)?;
        let request = queue.pop_front();
        if queue.is_empty() {
            self.windows.remove(&owner);
        } else {
            self.turns.push_back(owner);
        }
        request
    }
}

impl Waiting {
    fn is_empty(&self) -> bool {
        self.lanes.values().all(|lane| lane.turns.is_empty())
    }

    /// The next window of a lane that may use one of `free` slots.
    fn pop(&mut self, free: usize) -> Option<WindowRequest> {
        for (&lane, queue) in self.lanes.iter_mut().rev() {
            let must_leave = if lane == Lane::Bulk { RESERVED } else { 0 };
            if free <= must_leave {
                continue;
            }
            while let Some(request) = queue.pop() {
                if !request.cancelled.load(Ordering::Relaxed) {
                    return Some(request);
                }
            }
        }
        None
    }
}

/// Ends the engine's thread when the last handle is gone.
struct EngineThread {
    shared: Arc<Shared>,
    handle: Mutex<Option<JoinHandle<()>>>,
}

impl Drop for EngineThread {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        self.shared.arrived.notify_all();
        let handle = self.handle.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        if let Some(handle) = handle {
            let _ = handle.join();
        }
    }
}

impl Scheduler {
    /// Starts a thread that runs `engine`.
    pub fn start<B: Backend + 'static>(engine: Engine<B>) -> Self {
        let shared = Arc::new(Shared {
            waiting: Mutex::new(Waiting::default()),
            arrived: Condvar::new(),
            stopping: AtomicBool::new(false),
            owners: AtomicU64::new(1),
            spent: Mutex::new(Spent::default()),
        });
        let forthread = Arc::clone(&shared);
        let handle = std::thread::Builder::new()
            .name("hark-engine".to_owned())
            .spawn(move || forthread.run(engine))
            .expect("the operating system gives a thread");
        let thread = EngineThread { shared: Arc::clone(&shared), handle: Mutex::new(Some(handle)) };
        Scheduler { shared, thread: Arc::new(thread) }
    }

    /// A number that no other owner has.
    pub fn new_owner(&self) -> u64 {
        self.shared.owners.fetch_add(1, Ordering::Relaxed)
    }

    /// Where the engine's time went so far.
    pub fn spent(&self) -> Spent {
        *self.shared.spent.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Whether the engine's thread is alive.
    pub fn is_running(&self) -> bool {
        let handle = self.thread.handle.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        handle.as_ref().is_some_and(|handle| !handle.is_finished())
    }

    /// Queues a window; its outcome comes through `request.reply`, which is dropped without a word if the engine stops.
    pub fn submit(&self, request: WindowRequest) {
        let mut waiting = self.shared.lock();
        waiting.lanes.entry(request.lane).or_default().push(request);
        drop(waiting);
        self.shared.arrived.notify_all();
    }
}

/// A window that the engine decodes, and where its outcome goes.
struct Pending {
    tag: usize,
    reply: Reply,
    cancelled: Arc<AtomicBool>,
    lane: u8,
    meter: Meter,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn run<B: Backend>(&self, mut engine: Engine<B>) {
        let mut pending: HashMap<u64, Pending> = HashMap::new();
        let mut next_id = 0;
        let mut exclusive = 0;
        loop {
            if self.stopping.load(Ordering::SeqCst) {
                return;
            }
            let next = {
                let mut waiting = self.lock();
                while waiting.is_empty() && engine.live() == 0 {
                    if self.stopping.load(Ordering::SeqCst) {
                        return;
                    }
                    waiting = self.arrived.wait(waiting).unwrap_or_else(|poisoned| poisoned.into_inner());
                }
                waiting.pop(engine.free())
            };
            engine.drop_windows(|id| {
                let unwanted = pending.get(&id).is_some_and(|window| window.cancelled.load(Ordering::Relaxed));
                if unwanted {
                    pending.remove(&id);
                }
                unwanted
            });
            if let Some(request) = next {
                next_id += 1;
                let WindowRequest { tag, reply, cancelled, mel, frames, options, lane, again, meter, .. } = request;
                pending.insert(next_id, Pending { tag, reply, cancelled, lane: lane as u8, meter: meter.clone() });
                engine.admit(Job { id: next_id, mel, frames, options, lane: lane as u8, again });
                meter.advance();
                // Whoever else waits is encoded first, so that decoding starts with a full batch; a window of a
                // higher lane that arrives meanwhile is the next one popped.
                continue;
            }
            let lanes = engine.lanes();
            exclusive = if lanes > 1 { exclusive + 1 } else { 0 };
            let least_lane = if exclusive > EXCLUSIVE_STEPS {
                exclusive = 0;
                0
            } else {
                engine.highest_lane().unwrap_or(0)
            };
            let done = engine.step(least_lane);
            *self.spent.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = engine.spent();
            pending.values().filter(|window| window.lane >= least_lane).for_each(|window| window.meter.advance());
            for (id, outcome) in done {
                if let Some(window) = pending.remove(&id) {
                    (window.reply)(window.tag, outcome);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(owner: u64, lane: Lane, tag: usize) -> WindowRequest {
        WindowRequest {
            owner,
            lane,
            mel: Vec::new(),
            frames: 0,
            again: None,
            options: Arc::new(DecodeOptions::default()),
            cancelled: Arc::new(AtomicBool::new(false)),
            tag,
            reply: Arc::new(|_, _| {}),
            meter: Meter::default(),
        }
    }

    fn queue(requests: impl IntoIterator<Item = WindowRequest>) -> Waiting {
        let mut waiting = Waiting::default();
        for request in requests {
            waiting.lanes.entry(request.lane).or_default().push(request);
        }
        waiting
    }

    fn order(waiting: &mut Waiting, free: usize) -> Vec<(u64, usize)> {
        std::iter::from_fn(|| waiting.pop(free)).map(|request| (request.owner, request.tag)).collect()
    }

    #[test]
    fn owners_of_a_lane_take_turns() {
        let many = (0..5).map(|tag| request(1, Lane::Bulk, tag));
        let few = (0..2).map(|tag| request(2, Lane::Bulk, tag));
        let mut waiting = queue(many.chain(few));
        let expected = [(1, 0), (2, 0), (1, 1), (2, 1), (1, 2), (1, 3), (1, 4)];
        assert_eq!(order(&mut waiting, 9), expected);
        assert!(waiting.is_empty());
    }

    #[test]
    fn higher_lanes_go_first_and_bulk_leaves_slots_for_them() {
        let mut waiting =
            queue([request(1, Lane::Bulk, 0), request(2, Lane::Interactive, 1), request(3, Lane::Live, 2)]);
        assert_eq!(order(&mut waiting, RESERVED), [(3, 2), (2, 1)]);
        assert_eq!(order(&mut waiting, RESERVED + 1), [(1, 0)]);
    }

    #[test]
    fn a_window_nobody_wants_is_passed_over() {
        let mut waiting = queue([request(1, Lane::Bulk, 0), request(1, Lane::Bulk, 1)]);
        let first = &waiting.lanes[&Lane::Bulk].windows[&1][0];
        first.cancelled.store(true, Ordering::Relaxed);
        assert_eq!(order(&mut waiting, 9), [(1, 1)]);
    }
}
