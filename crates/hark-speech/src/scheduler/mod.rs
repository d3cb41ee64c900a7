//! Schedules the windows of many recordings and live sessions on one engine, or on one for each device.
//!
//! Windows are queued by lane, and inside a lane by owner; owners take turns (round robin), so a long recording never
//! starves a short one. A step of the engine takes the windows of the highest lane only: a clip of three seconds does
//! not wait for the batch of a two-hour file. So that the lower lanes are not starved by a steady stream of
//! clips, every few steps all lanes advance together.
//!
//! A device that encodes several windows at once is not given one: while it decodes, those of long recordings wait until they fill a
//! batch, for [`MAX_HELD_STEPS`] at most.
//!
//! An engine that fails or panics is dropped and reloaded, and its windows are requeued at the front: twice
//! at most, the second time each is decoded alone, so that a window that breaks the engine fails no other.
//!
//! Several engines take from the same queue, each as many windows as it has room for. One that can't be reloaded leaves the queue to the
//! others; windows fail when none is left.

mod queue;
mod words;

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use hark_transcript::Lane;
use hark_whisper::backend::{Backend, BackendError, MemoryUse, Reencode};
use hark_whisper::decode::{DecodeOptions, Engine, EngineStats, Job, Outcome};

use crate::SpeechError;
use queue::{QueuedWindow, WindowQueue};
use words::WordTiming;

/// One window to decode.
pub struct WindowRequest {
    /// The recording or session it belongs to: owners of one lane take turns.
    pub owner: u64,
    /// Its priority.
    pub lane: Lane,
    /// Log-mel values, frame-major.
    pub mel: Arc<[f32]>,
    /// Frames of 20 ms with audio.
    pub frames: usize,
    /// Set for a window that is decoded repeatedly while it grows.
    pub reencode: Option<Reencode>,
    /// How to decode it.
    pub options: Arc<DecodeOptions>,
    /// Cancellation token, set by the owner.
    pub cancelled: Arc<AtomicBool>,
    /// The owner's number for the window, sent back with the outcome.
    pub tag: usize,
    /// Called with the outcome.
    pub reply: Reply,
    /// Counts the work done for the window.
    pub meter: Meter,
}

/// Counts the engine's work for a window: zero while it is queued, one for its encoding, then one for each decoding step.
/// Clones share the count.
#[derive(Debug, Clone, Default)]
pub struct Meter(Arc<AtomicU32>);

impl Meter {
    /// Whether the window is encoded.
    pub fn is_encoded(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }

    /// Decoding steps so far.
    pub fn steps(&self) -> u32 {
        self.0.load(Ordering::Relaxed).saturating_sub(1)
    }

    fn advance(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Resets the count: the window is requeued.
    fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// Called with the tag and outcome of a window, on a thread that all owners share: it must not block.
pub type Reply = Arc<dyn Fn(usize, Result<Outcome, BackendError>) + Send + Sync>;

/// Reloads the engine after it failed.
pub type Reload<B> = Box<dyn FnMut() -> Result<Engine<B>, SpeechError> + Send>;

/// The state of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EngineState {
    /// Decoding or idle.
    #[default]
    Running,
    /// It failed and is being reloaded; its windows are queued.
    Reloading,
    /// Some of several engines failed and could not be reloaded; the others decode.
    Reduced,
    /// It failed and could not be reloaded; all windows fail.
    Failed,
}

impl EngineState {
    /// Whether windows are decoded.
    pub fn decodes(self) -> bool {
        matches!(self, EngineState::Running | EngineState::Reduced)
    }
}

/// Steps of only the highest lane before one step of all lanes.
const EXCLUSIVE_STEPS: u32 = 12;
/// Steps for which windows of long recordings wait at most until the device can encode a whole batch.
const MAX_HELD_STEPS: u32 = 24;
/// How often a window is requeued after the engine failed with it…
const MAX_RETRIES: u32 = 2;
/// …and from which retry on it is decoded alone.
const ISOLATED_FROM: u32 = 2;
/// An engine that is idle for this long frees its memory, and its health is checked.
const IDLE_TIMEOUT: Duration = Duration::from_secs(15);

/// Submits windows to the engine's thread; clones share it.
#[derive(Clone)]
pub struct Scheduler {
    shared: Arc<Shared>,
    threads: Arc<EngineThreads>,
}

struct Shared {
    queue: Mutex<WindowQueue>,
    arrived: Condvar,
    stopping: AtomicBool,
    owners: AtomicU64,
    /// Of each engine.
    stats: Mutex<Vec<EngineStats>>,
    /// Of each engine: running, reloading or failed.
    states: Mutex<Vec<EngineState>>,
    /// Of each engine, the name of its backend.
    names: Mutex<Vec<String>>,
    /// Reloads of the engine; the counter belongs to the caller.
    restarts: Arc<AtomicU64>,
    memory: MemoryUse,
}

/// Stops the engines' threads when the last handle is dropped.
struct EngineThreads {
    shared: Arc<Shared>,
    handles: Mutex<Vec<JoinHandle<()>>>,
}

impl Drop for EngineThreads {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        self.shared.arrived.notify_all();
        for handle in lock(&self.handles).drain(..) {
            let _ = handle.join();
        }
    }
}

impl Scheduler {
    /// Starts a thread for each engine, which reloads it by its [`Reload`] when it fails; `restarts` counts the reloads.
    pub fn start<B: Backend + 'static>(engines: Vec<(Engine<B>, Reload<B>)>, restarts: Arc<AtomicU64>) -> Self {
        let memory = engines.iter().map(|(engine, _)| engine.backend().memory());
        let names = engines.iter().map(|(engine, _)| engine.backend().name()).collect();
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            arrived: Condvar::new(),
            stopping: AtomicBool::new(false),
            owners: AtomicU64::new(1),
            stats: Mutex::new(vec![EngineStats::default(); engines.len()]),
            states: Mutex::new(vec![EngineState::Running; engines.len()]),
            names: Mutex::new(names),
            restarts,
            memory: memory.fold(MemoryUse::default(), |all, one| MemoryUse {
                fixed: all.fixed + one.fixed,
                most: all.most + one.most,
            }),
        });
        let start = |(index, (engine, reload))| {
            let worker = Arc::clone(&shared);
            std::thread::Builder::new()
                .name(if index == 0 { "hark-engine".to_owned() } else { format!("hark-engine-{index}") })
                .spawn(move || worker.supervise(index, engine, reload))
                .expect("the operating system gives a thread")
        };
        let handles = Mutex::new(engines.into_iter().enumerate().map(start).collect());
        let threads = EngineThreads { shared: Arc::clone(&shared), handles };
        Scheduler { shared, threads: Arc::new(threads) }
    }

    /// A unique owner number.
    pub fn new_owner(&self) -> u64 {
        self.shared.owners.fetch_add(1, Ordering::Relaxed)
    }

    /// Counts and times of the engines' work.
    pub fn stats(&self) -> EngineStats {
        lock(&self.shared.stats).iter().fold(EngineStats::default(), |all, one| all + *one)
    }

    /// Whether a thread of an engine is alive.
    pub fn is_running(&self) -> bool {
        lock(&self.threads.handles).iter().any(|handle| !handle.is_finished())
    }

    /// The names of the backends that decode, with commas.
    pub fn backend_name(&self) -> String {
        let (states, names) = (lock(&self.shared.states), lock(&self.shared.names));
        let decode: Vec<&str> = names
            .iter()
            .zip(states.iter())
            .filter(|(_, state)| **state != EngineState::Failed)
            .map(|(name, _)| name.as_str())
            .collect();
        decode.join(", ")
    }

    /// The state of the engines together.
    pub fn state(&self) -> EngineState {
        let states = lock(&self.shared.states);
        let all = |state: EngineState| states.iter().all(|one| *one == state);
        let any = |state: EngineState| states.contains(&state);
        match () {
            () if all(EngineState::Failed) || !self.is_running() => EngineState::Failed,
            () if any(EngineState::Failed) => EngineState::Reduced,
            () if any(EngineState::Reloading) => EngineState::Reloading,
            () => EngineState::Running,
        }
    }

    /// How often an engine was reloaded.
    pub fn restarts(&self) -> u64 {
        self.shared.restarts.load(Ordering::Relaxed)
    }

    /// The memory that the engines use.
    pub fn memory(&self) -> MemoryUse {
        self.shared.memory
    }

    /// Queues a window; `request.reply` is called with its outcome.
    pub fn submit(&self, request: WindowRequest) {
        let mut queue = self.shared.lock();
        // Checked under the lock: if the engine is abandoned afterwards, the window is found in the queue.
        if self.shared.have_all_failed() {
            drop(queue);
            return (request.reply)(request.tag, Err(BackendError::DeviceLost("the engine has ended".to_owned())));
        }
        queue.push(QueuedWindow { request, retries: 0 });
        drop(queue);
        self.shared.arrived.notify_all();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The windows that the engine's thread has taken from the queue.
#[derive(Default)]
struct Claimed {
    /// Those in the engine, by id.
    pending: HashMap<u64, QueuedWindow>,
    /// One that the engine failed with before: it is decoded when no other is.
    isolated: Option<QueuedWindow>,
}

/// Why the engine's thread stopped running its engine.
enum Ended {
    /// The last handle was dropped.
    Stopped,
    /// The engine failed and must be reloaded.
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

    fn have_all_failed(&self) -> bool {
        lock(&self.states).iter().all(|state| *state == EngineState::Failed)
    }

    fn set_state(&self, index: usize, state: EngineState) {
        lock(&self.states)[index] = state;
    }

    /// Runs the engine with this number until the last handle is dropped, and reloads it whenever it fails.
    fn supervise<B: Backend>(&self, index: usize, engine: Engine<B>, mut reload: Reload<B>) {
        let timing = WordTiming::start(Arc::clone(engine.tokenizer()));
        let mut claimed = Claimed::default();
        let mut engine = Some(engine);
        while let Some(running) = engine.as_mut() {
            let ended = catch_unwind(AssertUnwindSafe(|| self.run(index, running, &mut claimed, &timing)));
            let error = match ended {
                Ok(Ended::Stopped) => return log_work(index, &running.stats()),
                Ok(Ended::Failed(error)) => error,
                Err(panic) => BackendError::Fault(format!("the engine panicked: {}", panic_message(&*panic))),
            };
            tracing::error!(%error, engine = index, windows = claimed.pending.len(), "engine.failed");
            self.set_state(index, EngineState::Reloading);
            // Free its memory before the reload. After a panic, dropping it may panic too.
            let failed = engine.take();
            let _ = catch_unwind(AssertUnwindSafe(|| drop(failed)));
            // The isolated window was not in the engine: it keeps its retries.
            claimed.isolated.take().into_iter().for_each(|window| self.lock().push_front(window));
            self.requeue(claimed.pending.drain().map(|(_, window)| window).collect(), &error);
            if self.stopping.load(Ordering::SeqCst) {
                return;
            }
            match catch_unwind(AssertUnwindSafe(&mut reload)) {
                Ok(Ok(loaded)) => {
                    lock(&self.names)[index] = loaded.backend().name();
                    engine = Some(loaded);
                    let restarts = self.restarts.fetch_add(1, Ordering::Relaxed) + 1;
                    self.set_state(index, EngineState::Running);
                    tracing::warn!(restarts, engine = index, "engine.reloaded");
                }
                Ok(Err(reason)) => self.abandon(index, &error, &reason.to_string()),
                Err(panic) => self.abandon(index, &error, panic_message(&*panic)),
            }
        }
    }

    /// Requeues windows at the front of the queue, in their order; those that have used up their retries
    /// get the error.
    fn requeue(&self, mut windows: Vec<QueuedWindow>, error: &BackendError) {
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
        // Other engines may take them.
        self.arrived.notify_all();
    }

    /// The engine can't be reloaded: if it was the last one, all queued windows get the error.
    fn abandon(&self, index: usize, error: &BackendError, reason: &str) {
        tracing::error!(%error, engine = index, reason, "engine.reload_failed");
        let queue = {
            let mut queue = self.lock();
            self.set_state(index, EngineState::Failed);
            if !self.have_all_failed() {
                return;
            }
            std::mem::take(&mut *queue)
        };
        let windows = queue.lanes.into_values().flat_map(|lane| lane.windows.into_values()).flatten();
        for QueuedWindow { request: WindowRequest { reply, tag, .. }, .. } in windows {
            reply(tag, Err(error.clone()));
        }
    }

    fn run<B: Backend>(
        &self,
        index: usize,
        engine: &mut Engine<B>,
        claimed: &mut Claimed,
        timing: &WordTiming,
    ) -> Ended {
        match self.decode(index, engine, claimed, timing) {
            Ok(never) => match never {},
            Err(ended) => ended,
        }
    }

    fn decode<B: Backend>(
        &self,
        index: usize,
        engine: &mut Engine<B>,
        claimed: &mut Claimed,
        timing: &WordTiming,
    ) -> Result<std::convert::Infallible, Ended> {
        let Claimed { pending, isolated } = claimed;
        let mut next_id = 0;
        let mut exclusive = 0;
        // The number of windows at which the device ran out of memory: no more are admitted until it has fewer.
        let mut full_at = usize::MAX;
        // Steps since windows were admitted.
        let mut held = 0;
        loop {
            if self.stopping.load(Ordering::SeqCst) {
                return Err(Ended::Stopped);
            }
            if engine.live() == 0 && isolated.is_none() {
                self.wait(engine)?;
            }
            engine.drop_windows(|id| {
                let is_cancelled = |window: &QueuedWindow| window.request.cancelled.load(Ordering::Relaxed);
                let cancelled = pending.get(&id).is_some_and(is_cancelled);
                if cancelled {
                    pending.remove(&id);
                }
                cancelled
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
                    let is_patient = engine.live() > 0 && held < MAX_HELD_STEPS;
                    let next = self.next(engine, isolated, is_patient);
                    if next.is_empty() && isolated.is_some() {
                        continue;
                    }
                    next
                }
            };
            if !next.is_empty() {
                held = 0;
                let admitted = self.admit(engine, pending, next, &mut next_id)?;
                if !admitted && engine.live() > 0 {
                    full_at = engine.live();
                }
                // Encode all queued windows first, so that decoding starts with a full batch; a window of a
                // higher lane that arrives meanwhile is popped next.
                continue;
            }
            let lanes = engine.lanes();
            exclusive = if lanes > 1 { exclusive + 1 } else { 0 };
            let min_lane = if exclusive > EXCLUSIVE_STEPS {
                exclusive = 0;
                0
            } else {
                engine.highest_lane().unwrap_or(0)
            };
            let done = engine.step(min_lane)?;
            held += 1;
            lock(&self.stats)[index] = engine.stats();
            let stepped = pending.values().filter(|window| window.request.lane as u8 >= min_lane);
            stepped.for_each(|window| window.request.meter.advance());
            for (id, outcome) in done {
                if let Some(QueuedWindow { request: WindowRequest { reply, tag, .. }, .. }) = pending.remove(&id) {
                    timing.reply(reply, tag, outcome);
                }
            }
        }
    }

    /// Waits until there is a window to decode. An engine that is idle for long frees its memory.
    fn wait<B: Backend>(&self, engine: &mut Engine<B>) -> Result<(), Ended> {
        let mut is_trimmed = false;
        loop {
            let mut queue = self.lock();
            while queue.is_empty() {
                if self.stopping.load(Ordering::SeqCst) {
                    return Err(Ended::Stopped);
                }
                let waited =
                    self.arrived.wait_timeout(queue, IDLE_TIMEOUT).unwrap_or_else(|poisoned| poisoned.into_inner());
                queue = waited.0;
                if waited.1.timed_out() && queue.is_empty() {
                    break;
                }
            }
            if !queue.is_empty() {
                break;
            }
            drop(queue);
            engine.health()?;
            if !std::mem::replace(&mut is_trimmed, true) {
                engine.trim()?;
            }
        }
        if engine.free() == 0 {
            // Capacity was reduced after an out of memory.
            engine.trim()?;
            if engine.free() == 0 {
                return Err(BackendError::Fault("the device takes no windows".to_owned()).into());
            }
        }
        Ok(())
    }

    /// Pops a batch of windows to encode together, or none if it `is_patient` and more may come; one that must be decoded alone goes to
    /// `isolated`.
    fn next<B: Backend>(
        &self,
        engine: &Engine<B>,
        isolated: &mut Option<QueuedWindow>,
        is_patient: bool,
    ) -> Vec<QueuedWindow> {
        let mut queue = self.lock();
        if is_patient && !queue.fills(engine.batch()) {
            return Vec::new();
        }
        let (mut next, free) = (Vec::new(), engine.free());
        while next.len() < engine.batch().min(free) {
            let Some(window) = queue.pop(free - next.len(), engine.live() + next.len() > 0) else { break };
            if window.retries >= ISOLATED_FROM {
                *isolated = Some(window);
                break;
            }
            next.push(window);
        }
        next
    }

    /// Encodes windows; returns false if the device is out of memory and they were requeued.
    fn admit<B: Backend>(
        &self,
        engine: &mut Engine<B>,
        pending: &mut HashMap<u64, QueuedWindow>,
        windows: Vec<QueuedWindow>,
        next_id: &mut u64,
    ) -> Result<bool, BackendError> {
        let mut ids = Vec::with_capacity(windows.len());
        let jobs = windows
            .into_iter()
            .map(|window| {
                *next_id += 1;
                let WindowRequest { mel, frames, options, lane, reencode, .. } = &window.request;
                let job = Job {
                    id: *next_id,
                    mel: Arc::clone(mel),
                    frames: *frames,
                    options: Arc::clone(options),
                    lane: *lane as u8,
                    reencode: reencode.clone(),
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
        let refused: Vec<QueuedWindow> = ids.iter().filter_map(|id| pending.remove(id)).collect();
        tracing::warn!(%error, windows = refused.len(), decoding = engine.live(), "engine.out_of_memory");
        if engine.live() > 0 {
            // There will be memory when others are done.
            refused.into_iter().rev().for_each(|window| self.lock().push_front(window));
            return Ok(false);
        }
        self.requeue(refused, &error);
        engine.trim()?;
        Ok(false)
    }
}

fn log_work(engine: usize, work: &EngineStats) {
    let EngineStats { encoded, prompted, stepped, aligned } = *work;
    tracing::debug!(engine, ?encoded, ?prompted, ?stepped, ?aligned, "engine.work");
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
