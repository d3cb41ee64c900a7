//! One engine, many recordings: who is decoded next.
//!
//! Windows wait in lanes, and inside a lane in one queue for each owner; owners take turns, so a long recording never
//! starves a short one. A step of the engine takes the windows of the highest lane only: a clip of three seconds does
//! not wait for the batch of a two-hour file. So that the lower lanes do not stand still under a steady stream of
//! clips, every few steps all lanes advance together.
//!
//! An engine that fails or panics is dropped and loaded again, and the windows it had go back to the front of the queue: twice
//! at most, the second time each by itself, so that a window that breaks the engine takes no other with it.

mod queue;
mod words;

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use hark_transcript::Lane;
use hark_whisper::backend::{Again, Backend, BackendError, MemoryUse};
use hark_whisper::decode::{DecodeOptions, Engine, Job, Outcome, Spent};

use crate::SpeechError;
use queue::{Queued, WindowQueue};
use words::WordTiming;

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

/// Called with the outcome of a window by its tag, on a thread that serves everybody: it must not block.
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

/// Steps that only the highest lane takes before all lanes take one.
const EXCLUSIVE_STEPS: u32 = 12;
/// How often a window goes back to the queue after the engine failed with it…
const MAX_RETRIES: u32 = 2;
/// …and from which time on it is decoded by itself.
const ISOLATED_FROM: u32 = 2;
/// An engine that had nothing to do for so long gives its memory back, and is asked whether it is well.
const IDLE: Duration = Duration::from_secs(15);

/// Hands windows to the engine's thread; clones share it.
#[derive(Clone)]
pub struct Scheduler {
    shared: Arc<Shared>,
    thread: Arc<EngineThread>,
}

struct Shared {
    queue: Mutex<WindowQueue>,
    arrived: Condvar,
    stopping: AtomicBool,
    owners: AtomicU64,
    spent: Mutex<Spent>,
    state: Mutex<EngineState>,
    /// How often the engine was loaded again; counted by whoever started it.
    restarts: Arc<AtomicU64>,
    memory: MemoryUse,
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
            queue: Mutex::default(),
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

/// The windows that an engine's thread claimed from the queue.
#[derive(Default)]
struct Claimed {
    /// Those that the engine has, by its numbers for them.
    pending: HashMap<u64, Queued>,
    /// One that the engine failed with before: it is decoded once no other is.
    isolated: Option<Queued>,
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
    fn lock(&self) -> MutexGuard<'_, WindowQueue> {
        lock(&self.queue)
    }

    /// Runs the engine until nobody wants it any more, and loads it again whenever it fails.
    fn supervise<B: Backend>(&self, engine: Engine<B>, mut reload: Reload<B>) {
        let timing = WordTiming::start(Arc::clone(engine.tokenizer()));
        let mut claimed = Claimed::default();
        let mut engine = Some(engine);
        while let Some(running) = engine.as_mut() {
            let ended = catch_unwind(AssertUnwindSafe(|| self.run(running, &mut claimed, &timing)));
            let error = match ended {
                Ok(Ended::Stopped) => return,
                Ok(Ended::Failed(error)) => error,
                Err(panic) => BackendError::Fault(format!("the engine panicked: {}", panic_message(&*panic))),
            };
            tracing::error!(%error, windows = claimed.pending.len(), "engine.failed");
            *lock(&self.state) = EngineState::Reloading;
            // First out of memory, then in again; what panicked once may do so when it is dropped.
            let failed = engine.take();
            let _ = catch_unwind(AssertUnwindSafe(|| drop(failed)));
            // The one that waited had no part in it.
            claimed.isolated.take().into_iter().for_each(|window| self.lock().push_front(window));
            self.requeue(claimed.pending.drain().map(|(_, window)| window).collect(), &error);
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
                Ok(Err(reason)) => self.abandon(&error, &reason.to_string()),
                Err(panic) => self.abandon(&error, panic_message(&*panic)),
            }
        }
    }

    /// Requeues windows at the front of the queue, in the order in which they came; those that were put back often enough
    /// get the error.
    fn requeue(&self, mut windows: Vec<Queued>, error: &BackendError) {
        windows.sort_by_key(|window| (window.request.owner, window.request.tag));
        for mut window in windows.into_iter().rev() {
            if window.retries >= MAX_RETRIES {
                let WindowRequest { reply, tag, .. } = window.request;
                reply(tag, Err(error.clone()));
            } else {
                window.retries += 1;
                window.request.meter.reset();
                self.lock().push_front(window);
            }
        }
    }

    /// The engine can't be loaded again: whoever waits gets the error.
    fn abandon(&self, error: &BackendError, reason: &str) {
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

    fn run<B: Backend>(&self, engine: &mut Engine<B>, claimed: &mut Claimed, timing: &WordTiming) -> Ended {
        match self.decode(engine, claimed, timing) {
            Ok(never) => match never {},
            Err(ended) => ended,
        }
    }

    fn decode<B: Backend>(
        &self,
        engine: &mut Engine<B>,
        claimed: &mut Claimed,
        timing: &WordTiming,
    ) -> Result<std::convert::Infallible, Ended> {
        let Claimed { pending, isolated } = claimed;
        let mut next_id = 0;
        let mut exclusive = 0;
        // With so many windows the device had no memory for another: it is asked again when it has fewer.
        let mut full_at = usize::MAX;
        loop {
            if self.stopping.load(Ordering::SeqCst) {
                return Err(Ended::Stopped);
            }
            if engine.live() == 0 && isolated.is_none() {
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
            let is_isolated = pending.values().any(|window| window.retries >= ISOLATED_FROM);
            let is_full = engine.live() >= full_at;
            full_at = if is_full { full_at } else { usize::MAX };
            let next = match isolated.take() {
                Some(window) if engine.live() == 0 => vec![window],
                Some(window) => {
                    *isolated = Some(window);
                    Vec::new()
                }
                None if is_isolated || is_full => Vec::new(),
                None => {
                    let next = self.next(engine, isolated);
                    if next.is_empty() && isolated.is_some() {
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

    /// The next windows, as many as are best encoded together; one that must be decoded by itself goes to `isolated`.
    fn next<B: Backend>(&self, engine: &Engine<B>, isolated: &mut Option<Queued>) -> Vec<Queued> {
        let mut waiting = self.lock();
        let (mut next, free) = (Vec::new(), engine.free());
        while next.len() < engine.batch().min(free) {
            let Some(window) = waiting.pop(free - next.len(), engine.live() + next.len() > 0) else { break };
            if window.retries >= ISOLATED_FROM {
                *isolated = Some(window);
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
        self.requeue(refused, &error);
        engine.trim()?;
        Ok(false)
    }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
