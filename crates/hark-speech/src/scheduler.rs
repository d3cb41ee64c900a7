//! One engine, many recordings: who is decoded next.
//!
//! Windows wait in lanes, and inside a lane in one queue for each owner; owners take turns, so a long recording never
//! starves a short one. A step of the engine takes the windows of the highest lane only: a clip of three seconds does
//! not wait for the batch of a two-hour file. So that the lower lanes do not stand still under a steady stream of
//! clips, every few steps all lanes advance together.
//!
//! An engine that fails or panics is dropped and loaded again, and the windows it had go back to the front of the queue: twice
//! at most, the second time each by itself, so that a window that breaks the engine takes no other with it.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use hark_transcript::Lane;
use hark_whisper::backend::{Again, Backend, BackendError, MemoryUse};
use hark_whisper::decode::{DecodeOptions, Engine, Job, Outcome, Spent};
use hark_whisper::tokenizer::Tokenizer;

use crate::SpeechError;

/// One window to decode.
pub struct WindowRequest {
    /// Whose it is: owners of one lane take turns.
    pub owner: u64,
    /// How soon.
    pub lane: Lane,
    /// Log-mel values, frame-major.
    pub mel: Arc<[f32]>,
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

    /// The window is decoded from its beginning again.
    fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// Hears the outcome of a window by its tag, on a thread that serves everybody: it must be quick.
pub type Reply = Arc<dyn Fn(usize, Result<Outcome, BackendError>) + Send + Sync>;

/// Loads the engine again after it failed.
pub type Reload<B> = Box<dyn FnMut() -> Result<Engine<B>, SpeechError> + Send>;

/// How an engine is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EngineState {
    /// It decodes, or waits for something to decode.
    #[default]
    Running,
    /// It failed and is being loaded again; its windows wait.
    Reloading,
    /// It failed and could not be loaded again; nothing is decoded any more.
    Failed,
}

/// Slots that the lanes below must leave free for this one and higher: a clip or a live window never waits for a
/// slot that a long file holds.
const RESERVED: usize = 2;
/// Steps that only the highest lane takes before all lanes take one.
const EXCLUSIVE_STEPS: u32 = 12;
/// How often a window goes back to the queue after the engine failed with it…
const MOST_RETRIES: u32 = 2;
/// …and from which time on it is decoded by itself.
const ALONE_FROM: u32 = 2;
/// An engine that had nothing to do for so long gives its memory back, and is asked whether it is well.
const IDLE: Duration = Duration::from_secs(15);
/// Texts that may wait for the times of their words; the engine waits when they are more.
const MOST_UNTIMED: usize = 32;

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
    state: Mutex<EngineState>,
    /// How often the engine was loaded again; counted by whoever started it.
    restarts: Arc<AtomicU64>,
    memory: MemoryUse,
}

/// A window in the queue or in the engine.
struct Queued {
    request: WindowRequest,
    /// How often it went back to the queue.
    retries: u32,
}

/// The windows that wait, by lane; in a lane the owners in the order of their turns.
#[derive(Default)]
struct Waiting {
    lanes: BTreeMap<Lane, LaneQueue>,
}

#[derive(Default)]
struct LaneQueue {
    turns: VecDeque<u64>,
    windows: HashMap<u64, VecDeque<Queued>>,
}

impl LaneQueue {
    fn push(&mut self, window: Queued) {
        let owner = window.request.owner;
        let queue = self.windows.entry(owner).or_default();
        if queue.is_empty() {
            self.turns.push_back(owner);
        }
        queue.push_back(window);
    }

    /// Puts back a window that was popped: it is its owner's next, and the owner's turn comes first.
    fn push_front(&mut self, window: Queued) {
        let owner = window.request.owner;
        let queue = self.windows.entry(owner).or_default();
        queue.push_front(window);
        self.turns.retain(|other| *other != owner);
        self.turns.push_front(owner);
    }

    fn pop(&mut self) -> Option<Queued> {
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

    /// The next window of a lane that may use one of `free` slots; others are in use, or none is.
    fn pop(&mut self, free: usize, others: bool) -> Option<Queued> {
        for (&lane, queue) in self.lanes.iter_mut().rev() {
            let must_leave = if lane == Lane::Bulk && others { RESERVED } else { 0 };
            if free <= must_leave {
                continue;
            }
            while let Some(window) = queue.pop() {
                if !window.request.cancelled.load(Ordering::Relaxed) {
                    return Some(window);
                }
            }
        }
        None
    }

    fn push(&mut self, window: Queued) {
        self.lanes.entry(window.request.lane).or_default().push(window);
    }

    fn push_front(&mut self, window: Queued) {
        self.lanes.entry(window.request.lane).or_default().push_front(window);
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
    /// Starts a thread that runs `engine`, and loads it again with `reload` when it fails; `restarts` counts that.
    pub fn start<B: Backend + 'static>(engine: Engine<B>, reload: Reload<B>, restarts: Arc<AtomicU64>) -> Self {
        let shared = Arc::new(Shared {
            waiting: Mutex::new(Waiting::default()),
            arrived: Condvar::new(),
            stopping: AtomicBool::new(false),
            owners: AtomicU64::new(1),
            spent: Mutex::new(Spent::default()),
            state: Mutex::default(),
            restarts,
            memory: engine.backend().memory(),
        });
        let forthread = Arc::clone(&shared);
        let handle = std::thread::Builder::new()
            .name("hark-engine".to_owned())
            .spawn(move || forthread.supervise(engine, reload))
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
        *lock(&self.shared.spent)
    }

    /// Whether the engine's thread is alive.
    pub fn is_running(&self) -> bool {
        let handle = self.thread.handle.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        handle.as_ref().is_some_and(|handle| !handle.is_finished())
    }

    /// How the engine is doing.
    pub fn state(&self) -> EngineState {
        if self.is_running() { *lock(&self.shared.state) } else { EngineState::Failed }
    }

    /// How often the engine was loaded again.
    pub fn restarts(&self) -> u64 {
        self.shared.restarts.load(Ordering::Relaxed)
    }

    /// The memory that the engine takes.
    pub fn memory(&self) -> MemoryUse {
        self.shared.memory
    }

    /// Queues a window; its outcome comes through `request.reply`.
    pub fn submit(&self, request: WindowRequest) {
        let mut waiting = self.shared.lock();
        // Asked under the lock: whoever gives the engine up afterwards finds the window in the queue.
        if *lock(&self.shared.state) == EngineState::Failed {
            drop(waiting);
            return (request.reply)(request.tag, Err(BackendError::DeviceLost("the engine has ended".to_owned())));
        }
        waiting.push(Queued { request, retries: 0 });
        drop(waiting);
        self.shared.arrived.notify_all();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The windows that an engine's thread took from the queue.
#[derive(Default)]
struct Taken {
    /// Those that the engine has, by its numbers for them.
    pending: HashMap<u64, Queued>,
    /// One that the engine failed with before, which waits until it is the only one.
    alone: Option<Queued>,
}

/// Why an engine's thread stopped running its engine.
enum Ended {
    /// Nobody wants it any more.
    Stopped,
    /// The engine is to be loaded again.
    Failed(BackendError),
}

impl From<BackendError> for Ended {
    fn from(error: BackendError) -> Self {
        Ended::Failed(error)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        lock(&self.waiting)
    }

    /// Runs the engine until nobody wants it any more, and loads it again whenever it fails.
    fn supervise<B: Backend>(&self, engine: Engine<B>, mut reload: Reload<B>) {
        let timing = Timing::start(Arc::clone(engine.tokenizer()));
        let mut taken = Taken::default();
        let mut engine = Some(engine);
        while let Some(running) = engine.as_mut() {
            let ended = catch_unwind(AssertUnwindSafe(|| self.run(running, &mut taken, &timing)));
            let error = match ended {
                Ok(Ended::Stopped) => return,
                Ok(Ended::Failed(error)) => error,
                Err(panic) => BackendError::Fault(format!("the engine panicked: {}", panic_message(&*panic))),
            };
            tracing::error!(%error, windows = taken.pending.len(), "engine.failed");
            *lock(&self.state) = EngineState::Reloading;
            // First out of memory, then in again; what panicked once may do so when it is dropped.
            let failed = engine.take();
            let _ = catch_unwind(AssertUnwindSafe(|| drop(failed)));
            // The one that waited had no part in it.
            taken.alone.take().into_iter().for_each(|window| self.lock().push_front(window));
            self.put_back(taken.pending.drain().map(|(_, window)| window).collect(), &error);
            if self.stopping.load(Ordering::SeqCst) {
                return;
            }
            match catch_unwind(AssertUnwindSafe(&mut reload)) {
                Ok(Ok(loaded)) => {
                    engine = Some(loaded);
                    let restarts = self.restarts.fetch_add(1, Ordering::Relaxed) + 1;
                    *lock(&self.state) = EngineState::Running;
                    tracing::warn!(restarts, "engine.reloaded");
                }
                Ok(Err(reason)) => self.give_up(&error, &reason.to_string()),
                Err(panic) => self.give_up(&error, panic_message(&*panic)),
            }
        }
    }

    /// Puts windows back to the front of the queue, in the order in which they came; those that were put back often enough
    /// are told of the error.
    fn put_back(&self, mut windows: Vec<Queued>, error: &BackendError) {
        windows.sort_by_key(|window| (window.request.owner, window.request.tag));
        for mut window in windows.into_iter().rev() {
            if window.retries >= MOST_RETRIES {
                let WindowRequest { reply, tag, .. } = window.request;
                reply(tag, Err(error.clone()));
            } else {
                window.retries += 1;
                window.request.meter.reset();
                self.lock().push_front(window);
            }
        }
    }

    /// The engine can't be loaded again: whoever waits hears of it.
    fn give_up(&self, error: &BackendError, reason: &str) {
        tracing::error!(%error, reason, "engine.reload_failed");
        let waiting = {
            let mut waiting = self.lock();
            *lock(&self.state) = EngineState::Failed;
            std::mem::take(&mut *waiting)
        };
        let windows = waiting.lanes.into_values().flat_map(|lane| lane.windows.into_values()).flatten();
        for Queued { request: WindowRequest { reply, tag, .. }, .. } in windows {
            reply(tag, Err(error.clone()));
        }
    }

    fn run<B: Backend>(&self, engine: &mut Engine<B>, taken: &mut Taken, timing: &Timing) -> Ended {
        match self.decode(engine, taken, timing) {
            Ok(never) => match never {},
            Err(ended) => ended,
        }
    }

    fn decode<B: Backend>(
        &self,
        engine: &mut Engine<B>,
        taken: &mut Taken,
        timing: &Timing,
    ) -> Result<std::convert::Infallible, Ended> {
        let Taken { pending, alone } = taken;
        let mut next_id = 0;
        let mut exclusive = 0;
        // With so many windows the device had no memory for another: it is asked again when it has fewer.
        let mut full_at = usize::MAX;
        loop {
            if self.stopping.load(Ordering::SeqCst) {
                return Err(Ended::Stopped);
            }
            if engine.live() == 0 && alone.is_none() {
                self.wait(engine)?;
            }
            engine.drop_windows(|id| {
                let is_cancelled = |window: &Queued| window.request.cancelled.load(Ordering::Relaxed);
                let unwanted = pending.get(&id).is_some_and(is_cancelled);
                if unwanted {
                    pending.remove(&id);
                }
                unwanted
            })?;
            let is_alone = pending.values().any(|window| window.retries >= ALONE_FROM);
            let is_full = engine.live() >= full_at;
            full_at = if is_full { full_at } else { usize::MAX };
            let next = match alone.take() {
                Some(window) if engine.live() == 0 => vec![window],
                Some(window) => {
                    *alone = Some(window);
                    Vec::new()
                }
                None if is_alone || is_full => Vec::new(),
                None => {
                    let next = self.next(engine, alone);
                    if next.is_empty() && alone.is_some() {
                        continue;
                    }
                    next
                }
            };
            if !next.is_empty() {
                let admitted = self.admit(engine, pending, next, &mut next_id)?;
                if !admitted && engine.live() > 0 {
                    full_at = engine.live();
                }
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
            let done = engine.step(least_lane)?;
            *lock(&self.spent) = engine.spent();
            let stepped = pending.values().filter(|window| window.request.lane as u8 >= least_lane);
            stepped.for_each(|window| window.request.meter.advance());
            for (id, outcome) in done {
                if let Some(Queued { request: WindowRequest { reply, tag, .. }, .. }) = pending.remove(&id) {
                    timing.reply(reply, tag, outcome);
                }
            }
        }
    }

    /// Waits until there is a window to decode. An engine that has nothing to do for long gives its memory back.
    fn wait<B: Backend>(&self, engine: &mut Engine<B>) -> Result<(), Ended> {
        let mut is_trimmed = false;
        loop {
            let mut waiting = self.lock();
            while waiting.is_empty() {
                if self.stopping.load(Ordering::SeqCst) {
                    return Err(Ended::Stopped);
                }
                let waited = self.arrived.wait_timeout(waiting, IDLE).unwrap_or_else(|poisoned| poisoned.into_inner());
                waiting = waited.0;
                if waited.1.timed_out() && waiting.is_empty() {
                    break;
                }
            }
            if !waiting.is_empty() {
                break;
            }
            drop(waiting);
            engine.health()?;
            if !std::mem::replace(&mut is_trimmed, true) {
                engine.trim()?;
            }
        }
        if engine.free() == 0 {
            // Memory was short while others had it.
            engine.trim()?;
            if engine.free() == 0 {
                return Err(BackendError::Fault("the device takes no windows".to_owned()).into());
            }
        }
        Ok(())
    }

    /// The next windows, as many as are best encoded together; one that must be decoded by itself goes to `alone`.
    fn next<B: Backend>(&self, engine: &Engine<B>, alone: &mut Option<Queued>) -> Vec<Queued> {
        let mut waiting = self.lock();
        let (mut next, free) = (Vec::new(), engine.free());
        while next.len() < engine.batch().min(free) {
            let Some(window) = waiting.pop(free - next.len(), engine.live() + next.len() > 0) else { break };
            if window.retries >= ALONE_FROM {
                *alone = Some(window);
                break;
            }
            next.push(window);
        }
        next
    }

    /// Has windows encoded; false where the device has no memory for them, and they wait again.
    fn admit<B: Backend>(
        &self,
        engine: &mut Engine<B>,
        pending: &mut HashMap<u64, Queued>,
        windows: Vec<Queued>,
        next_id: &mut u64,
    ) -> Result<bool, BackendError> {
        let mut ids = Vec::with_capacity(windows.len());
        let jobs = windows
            .into_iter()
            .map(|window| {
                *next_id += 1;
                let WindowRequest { mel, frames, options, lane, again, .. } = &window.request;
                let job = Job {
                    id: *next_id,
                    mel: Arc::clone(mel),
                    frames: *frames,
                    options: Arc::clone(options),
                    lane: *lane as u8,
                    again: again.clone(),
                };
                ids.push(*next_id);
                pending.insert(*next_id, window);
                job
            })
            .collect();
        let Err(error) = engine.admit(jobs) else {
            ids.iter().filter_map(|id| pending.get(id)).for_each(|window| window.request.meter.advance());
            return Ok(true);
        };
        if !error.keeps_windows() {
            return Err(error);
        }
        let refused: Vec<Queued> = ids.iter().filter_map(|id| pending.remove(id)).collect();
        tracing::warn!(%error, windows = refused.len(), decoding = engine.live(), "engine.out_of_memory");
        if engine.live() > 0 {
            // There will be room when others are done.
            refused.into_iter().rev().for_each(|window| self.lock().push_front(window));
            return Ok(false);
        }
        self.put_back(refused, &error);
        engine.trim()?;
        Ok(false)
    }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

/// A thread that computes the times of words: the engine decodes on meanwhile.
struct Timing {
    texts: Option<SyncSender<(Reply, usize, Outcome)>>,
    thread: Option<JoinHandle<()>>,
}

impl Timing {
    fn start(tokenizer: Arc<Tokenizer>) -> Self {
        let (texts, receiver) = sync_channel(MOST_UNTIMED);
        let thread = std::thread::Builder::new().name("hark-words".to_owned());
        // Where there is no thread to be had, the engine's own does it.
        match thread.spawn(move || time_words(receiver, &tokenizer)) {
            Ok(thread) => Timing { texts: Some(texts), thread: Some(thread) },
            Err(_) => Timing { texts: None, thread: None },
        }
    }

    fn reply(&self, reply: Reply, tag: usize, outcome: Outcome) {
        match (&self.texts, outcome) {
            (Some(texts), outcome @ Outcome::Untimed(_)) => {
                if let Err(lost) = texts.send((reply, tag, outcome)) {
                    let (reply, tag, _) = lost.0;
                    reply(tag, Err(BackendError::Fault("the times of words can't be computed".to_owned())));
                }
            }
            (_, outcome) => reply(tag, Ok(outcome)),
        }
    }
}

impl Drop for Timing {
    fn drop(&mut self) {
        self.texts = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn time_words(texts: Receiver<(Reply, usize, Outcome)>, tokenizer: &Tokenizer) {
    for (reply, tag, outcome) in texts {
        let timed = catch_unwind(AssertUnwindSafe(|| outcome.timed(tokenizer)));
        reply(
            tag,
            timed.map_err(|panic| BackendError::Fault(format!("timing words panicked: {}", panic_message(&*panic)))),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(owner: u64, lane: Lane, tag: usize) -> WindowRequest {
        WindowRequest {
            owner,
            lane,
            mel: Arc::new([]),
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
            waiting.push(Queued { request, retries: 0 });
        }
        waiting
    }

    fn order(waiting: &mut Waiting, free: usize) -> Vec<(u64, usize)> {
        let windows = std::iter::from_fn(|| waiting.pop(free, true));
        windows.map(|window| (window.request.owner, window.request.tag)).collect()
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
    fn a_device_that_takes_little_still_decodes_long_files() {
        let mut waiting = queue([request(1, Lane::Bulk, 0)]);
        assert!(waiting.pop(1, true).is_none());
        assert!(waiting.pop(1, false).is_some(), "nobody else is there to leave a slot for");
    }

    #[test]
    fn a_window_that_is_put_back_is_its_owners_next() {
        let mut waiting = queue([request(1, Lane::Bulk, 0), request(1, Lane::Bulk, 1), request(2, Lane::Bulk, 0)]);
        let first = waiting.pop(9, true).expect("it waits");
        waiting.push_front(first);
        assert_eq!(order(&mut waiting, 9), [(1, 0), (2, 0), (1, 1)]);
    }

    #[test]
    fn a_window_nobody_wants_is_passed_over() {
        let mut waiting = queue([request(1, Lane::Bulk, 0), request(1, Lane::Bulk, 1)]);
        let first = &waiting.lanes[&Lane::Bulk].windows[&1][0];
        first.request.cancelled.store(true, Ordering::Relaxed);
        assert_eq!(order(&mut waiting, 9), [(1, 1)]);
    }
}
