//! The registry of loaded models: each is loaded once, and all kinds share one memory budget.
//!
//! A model in use is never evicted. Of the others, the most recently used ones stay as far as the budget and the limit of their
//! number allow; the least recently used is evicted first. A model that was loaded beyond the limit is evicted when its last use
//! ends. A model that does not fit waits for others to be released. What nobody has used for a while is unloaded.

use std::any::{Any, TypeId};
use std::ops::Deref;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

/// A model of any kind that the registry can hold.
pub(super) trait Resident: Any + Send + Sync {
    /// The maximum memory that it uses, in bytes.
    fn bytes(&self) -> u64;

    /// The backend that computes it, where there is a choice.
    fn backend(&self) -> Option<String> {
        None
    }

    /// Whether it can be used; if not it is reloaded for the next request.
    fn is_usable(&self) -> bool {
        true
    }
}

/// A model to load.
#[derive(Clone, Copy)]
pub(super) struct ModelSpec<'a> {
    /// Its name; models of different kinds may have the same.
    pub name: &'a str,
    /// The estimate of its memory before it is loaded, in bytes.
    pub bytes: u64,
    /// Whether it counts for the limit of the number of models.
    pub is_counted: bool,
}

/// Why there is no model.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum GetError<E> {
    /// It does not fit beside the models in use.
    NoMemory {
        /// Bytes that it needs.
        needed: u64,
        /// The memory budget of all models, in bytes.
        budget: u64,
    },
    /// It could not be loaded.
    Load(E),
}

/// Models by kind and name, loaded on first use.
pub(super) struct ModelRegistry {
    /// The limit of the number of counted models.
    limit: usize,
    /// The memory budget of all models, in bytes.
    budget: u64,
    /// How long a model that does not fit waits for memory.
    timeout: Duration,
    /// Most recently used last.
    entries: Mutex<Vec<Entry>>,
    /// Notified when a model is no longer in use.
    released: Condvar,
}

/// A model that is loaded or being loaded.
struct Entry {
    key: Key,
    /// How many [`InUse`] there are.
    users: usize,
    /// When its last use began or ended.
    last_used: Instant,
    /// Its memory in bytes: the estimate, then the actual value.
    bytes: u64,
    is_counted: bool,
    /// A lock for each model, so that loading one does not block the use of another.
    model: ModelSlot,
}

type ModelSlot = Arc<Mutex<Option<Arc<dyn Resident>>>>;

#[derive(Clone, PartialEq, Eq)]
struct Key {
    kind: TypeId,
    name: String,
}

/// A model in use: it stays in memory at least as long as this.
pub(super) struct InUse<T> {
    // Dropped before the lease, so that the registry has the last reference.
    model: Arc<T>,
    _lease: Lease,
}

/// One of the users of an entry.
struct Lease {
    key: Key,
    /// Weak, since a model may itself use others: it must not keep the registry alive.
    registry: Weak<ModelRegistry>,
}

impl ModelRegistry {
    /// An empty registry; up to `limit` counted models (at least one) stay while unused, all within `budget` bytes.
    pub(super) fn new(limit: usize, budget: u64, timeout: Duration) -> Arc<Self> {
        let (entries, released) = (Mutex::default(), Condvar::new());
        Arc::new(ModelRegistry { limit: limit.max(1), budget, timeout, entries, released })
    }

    /// The model of that kind and name; loads it if necessary, and concurrent callers wait for it.
    pub(super) fn get<T: Resident, E>(
        self: &Arc<Self>,
        wanted: ModelSpec<'_>,
        load: impl FnOnce() -> Result<T, E>,
    ) -> Result<InUse<T>, GetError<E>> {
        let key = Key { kind: TypeId::of::<T>(), name: wanted.name.to_owned() };
        let acquired = self.acquire(&key, wanted);
        let (lease, slot) = acquired.map_err(|needed| GetError::NoMemory { needed, budget: self.budget })?;
        let mut slot = lock(&slot);
        if let Some(model) = slot.take_if(|model| !model.is_usable()) {
            tracing::warn!(model = wanted.name, "model.discarded");
            drop(model);
        }
        let model = match slot.as_ref().and_then(typed) {
            Some(model) => model,
            None => {
                let begun = Instant::now();
                let model = Arc::new(load().map_err(GetError::Load)?);
                tracing::info!(
                    checkpoint = wanted.name,
                    seconds = begun.elapsed().as_secs_f64(),
                    backend = model.backend(),
                    max_bytes = model.bytes(),
                    "model.loaded"
                );
                *slot = Some(Arc::clone(&model) as Arc<dyn Resident>);
                self.set_bytes(&key, model.bytes());
                model
            }
        };
        Ok(InUse { model, _lease: lease })
    }

    /// The memory of all models that are loaded or being loaded, in bytes.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> u64 {
        lock(&self.entries).iter().map(|entry| entry.bytes).sum()
    }

    /// The loaded models of a kind, by name.
    pub(super) fn loaded<T: Resident>(&self) -> Vec<(String, Arc<T>)> {
        let entries = lock(&self.entries);
        let loaded = entries.iter().filter_map(|entry| {
            let model = typed(entry.model.try_lock().ok()?.as_ref()?)?;
            Some((entry.key.name.clone(), model))
        });
        loaded.collect()
    }

    /// Whether a model is in memory.
    pub(super) fn is_loaded(&self, name: &str) -> bool {
        let is_there = |slot: &ModelSlot| slot.try_lock().is_ok_and(|model| model.is_some());
        lock(&self.entries).iter().any(|entry| entry.key.name == name && is_there(&entry.model))
    }

    /// Unloads models that nobody has used for so long; returns how many. Blocks while their memory is freed.
    pub(super) fn unload_idle(&self, after: Duration) -> usize {
        // A machine that was started more recently than that has nothing idle.
        Instant::now().checked_sub(after).map_or(0, |moment| self.unload_unused_since(moment))
    }

    fn unload_unused_since(&self, moment: Instant) -> usize {
        let mut entries = lock(&self.entries);
        let is_idle = |entry: &mut Entry| entry.users == 0 && entry.last_used < moment;
        let idle: Vec<Entry> = entries.extract_if(.., is_idle).collect();
        drop(entries);
        self.released.notify_all();
        unload(idle, "idle")
    }

    /// Counts one more user, and evicts models before another is loaded; returns how many bytes are missing if there
    /// are not enough.
    fn acquire(self: &Arc<Self>, key: &Key, wanted: ModelSpec<'_>) -> Result<(Lease, ModelSlot), u64> {
        let begun = Instant::now();
        let mut entries = lock(&self.entries);
        loop {
            let known = entries.iter().position(|entry| entry.key == *key);
            let needed = if known.is_some() { 0 } else { wanted.bytes };
            let evicted = self.evict(&mut entries, needed, known.is_none() && wanted.is_counted, Some(key));
            if !evicted.is_empty() {
                // Free its memory before another model is loaded.
                drop(entries);
                unload(evicted, "memory");
                entries = lock(&self.entries);
                continue;
            }
            let taken: u64 = entries.iter().map(|entry| entry.bytes).sum();
            if known.is_some() || taken + needed <= self.budget {
                let mut entry = match known {
                    Some(index) => entries.remove(index),
                    None => Entry {
                        key: key.clone(),
                        users: 0,
                        last_used: Instant::now(),
                        bytes: wanted.bytes,
                        is_counted: wanted.is_counted,
                        model: Arc::default(),
                    },
                };
                entry.users += 1;
                entry.last_used = Instant::now();
                let slot = Arc::clone(&entry.model);
                entries.push(entry);
                return Ok((Lease { key: key.clone(), registry: Arc::downgrade(self) }, slot));
            }
            let left = self.timeout.saturating_sub(begun.elapsed());
            if left.is_zero() || needed > self.budget {
                tracing::warn!(model = wanted.name, needed, taken, budget = self.budget, "model.no_memory");
                return Err(needed);
            }
            entries = self.released.wait_timeout(entries, left).unwrap_or_else(|poisoned| poisoned.into_inner()).0;
        }
    }

    /// Records the actual memory of a loaded model.
    fn set_bytes(&self, key: &Key, bytes: u64) {
        let mut entries = lock(&self.entries);
        if let Some(entry) = entries.iter_mut().find(|entry| entry.key == *key) {
            entry.bytes = bytes;
        }
        let evicted = self.evict(&mut entries, 0, false, Some(key));
        drop(entries);
        unload(evicted, "memory");
    }

    /// Evicts unused models until `needed` bytes fit, the least recently used first, and
    /// those that could not be loaded. `spared` is about to be used.
    fn evict(&self, entries: &mut Vec<Entry>, needed: u64, one_more: bool, spared: Option<&Key>) -> Vec<Entry> {
        let counted = entries.iter().filter(|entry| entry.is_counted).count() + usize::from(one_more);
        let mut excess = counted.saturating_sub(self.limit);
        let mut bytes = (entries.iter().map(|entry| entry.bytes).sum::<u64>() + needed).saturating_sub(self.budget);
        let goes = |entry: &mut Entry| {
            if entry.users > 0 || spared == Some(&entry.key) {
                return false;
            }
            let goes = bytes > 0 || entry.is_counted && excess > 0 || lock(&entry.model).is_none();
            if goes {
                bytes = bytes.saturating_sub(entry.bytes);
                excess = excess.saturating_sub(usize::from(entry.is_counted));
            }
            goes
        };
        entries.extract_if(.., goes).collect()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let Some(registry) = self.registry.upgrade() else { return };
        let mut entries = lock(&registry.entries);
        let Some(index) = entries.iter().position(|entry| entry.key == self.key) else { return };
        let mut entry = entries.remove(index);
        entry.users -= 1;
        entry.last_used = Instant::now();
        entries.push(entry);
        let evicted = registry.evict(&mut entries, 0, false, None);
        drop(entries);
        registry.released.notify_all();
        if !evicted.is_empty() {
            // Dropping a model joins its engine's thread, and the last reference may be dropped on a Tokio worker. If
            // no thread can be started, it is dropped here.
            let _ = std::thread::Builder::new().name("hark-unload".to_owned()).spawn(move || unload(evicted, "memory"));
        }
    }
}

impl<T> Deref for InUse<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.model
    }
}

/// Frees the memory of models that were taken out of a registry; returns how many were loaded.
fn unload(entries: Vec<Entry>, reason: &'static str) -> usize {
    let mut unloaded = 0;
    for Entry { key, bytes, last_used, model, .. } in entries {
        // One that could not be loaded.
        let Some(model) = lock(&model).take() else { continue };
        drop(model);
        let idle_seconds = last_used.elapsed().as_secs();
        tracing::info!(model = key.name, reason, bytes, idle_seconds, "model.unloaded");
        unloaded += 1;
    }
    unloaded
}

/// Downcasts a model to its type.
fn typed<T: Resident>(model: &Arc<dyn Resident>) -> Option<Arc<T>> {
    let any: Arc<dyn Any + Send + Sync> = Arc::clone(model) as _;
    any.downcast().ok()
}

/// Locks, ignoring poison: no state is left inconsistent by a panic.
fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::*;

    /// A model that takes as many bytes as its name has letters.
    struct Named(Arc<str>);

    impl Resident for Named {
        fn bytes(&self) -> u64 {
            self.0.len() as u64
        }

        fn is_usable(&self) -> bool {
            !self.0.contains('!') || !BROKEN.load(Ordering::SeqCst)
        }
    }

    /// A model of another kind.
    struct Other(u64);

    impl Resident for Other {
        fn bytes(&self) -> u64 {
            self.0
        }
    }

    /// Whether models whose names have an exclamation mark have failed.
    static BROKEN: AtomicBool = AtomicBool::new(false);

    fn wanted(name: &str) -> ModelSpec<'_> {
        ModelSpec { name, bytes: name.len() as u64, is_counted: true }
    }

    fn loaded(most: usize) -> Arc<ModelRegistry> {
        ModelRegistry::new(most, 1000, Duration::from_secs(60))
    }

    fn within(budget: u64, timeout: Duration) -> Arc<ModelRegistry> {
        ModelRegistry::new(100, budget, timeout)
    }

    /// Loads models, which are their names, and knows which of them are still in memory.
    #[derive(Default)]
    struct Disk {
        all: Mutex<Vec<Weak<str>>>,
    }

    impl Disk {
        fn load(&self, name: &str) -> Result<Named, Infallible> {
            let model = Arc::from(name);
            lock(&self.all).push(Arc::downgrade(&model));
            Ok(Named(model))
        }

        fn loads(&self) -> usize {
            lock(&self.all).len()
        }

        fn in_memory(&self) -> Vec<String> {
            let all = lock(&self.all);
            let mut names: Vec<String> = all.iter().filter_map(|model| Some(model.upgrade()?.to_string())).collect();
            names.sort();
            names
        }

        /// Unloading has a thread of its own.
        fn assert_in_memory(&self, wanted: &[&str]) {
            let begun = Instant::now();
            while self.in_memory() != wanted && begun.elapsed() < Duration::from_secs(60) {
                std::thread::sleep(Duration::from_millis(1));
            }
            assert_eq!(self.in_memory(), wanted);
        }
    }

    #[test]
    fn a_model_is_loaded_once_for_everybody_and_stays_for_the_next() {
        let (disk, loaded) = (Disk::default(), loaded(1));
        let get = |name: &'static str| loaded.get(wanted(name), || disk.load(name)).unwrap();
        let (one, other) = (get("a"), get("a"));
        assert!(Arc::ptr_eq(&one.0, &other.0));
        drop((one, other));
        drop(get("a"));
        assert_eq!(disk.loads(), 1);
    }

    #[test]
    fn what_is_in_use_is_neither_dropped_nor_loaded_again_and_what_is_too_much_goes_when_its_use_ends() {
        let (disk, loaded) = (Disk::default(), loaded(1));
        let get = |name: &'static str| loaded.get(wanted(name), || disk.load(name)).unwrap();
        let session = get("a");
        let file = get("b");
        disk.assert_in_memory(&["a", "b"]);
        drop(file);
        disk.assert_in_memory(&["a"]);
        drop(get("a"));
        assert_eq!(disk.loads(), 2, "the session's model serves files, too");
        let file = get("b");
        drop(session);
        disk.assert_in_memory(&["b"]);
        drop(file);
        disk.assert_in_memory(&["b"]);
    }

    #[test]
    fn of_what_nobody_uses_the_last_used_stay() {
        let (disk, loaded) = (Disk::default(), loaded(2));
        let get = |name: &'static str| loaded.get(wanted(name), || disk.load(name)).unwrap();
        let long = get("a");
        drop(get("b"));
        // It ends after the other one: that counts, not when it began.
        drop(long);
        drop(get("c"));
        disk.assert_in_memory(&["a", "c"]);
    }

    #[test]
    fn room_is_made_before_a_model_is_loaded() {
        let (disk, loaded) = (Disk::default(), loaded(1));
        drop(loaded.get(wanted("a"), || disk.load("a")).unwrap());
        let load = || {
            assert_eq!(disk.in_memory(), [""; 0]);
            disk.load("b")
        };
        drop(loaded.get(wanted("b"), load).unwrap());
        assert_eq!(disk.in_memory(), ["b"]);
    }

    #[test]
    fn a_model_that_can_not_be_loaded_takes_no_place_and_is_tried_again() {
        let (disk, loaded) = (Disk::default(), loaded(2));
        let get = |name: &'static str| loaded.get(wanted(name), || disk.load(name)).unwrap();
        drop(get("a"));
        assert!(loaded.get::<Named, _>(wanted("b"), || Err("not there")).is_err());
        drop(get("c"));
        disk.assert_in_memory(&["a", "c"]);
        drop(get("b"));
        disk.assert_in_memory(&["b", "c"]);
    }

    #[test]
    fn who_comes_while_a_model_is_loaded_waits_for_it_and_who_wants_another_does_not() {
        let (disk, loaded, loads) = (Disk::default(), loaded(2), AtomicUsize::new(0));
        let slow = || {
            loads.fetch_add(1, Ordering::SeqCst);
            // Somebody else gets another model meanwhile; were that to wait for this one, neither would ever be there.
            std::thread::scope(|scope| {
                scope.spawn(|| drop(loaded.get(wanted("b"), || disk.load("b")).unwrap())).join()
            })
            .unwrap();
            std::thread::sleep(Duration::from_millis(20));
            disk.load("a")
        };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| drop(loaded.get(wanted("a"), slow).unwrap()));
            }
        });
        assert_eq!(loads.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn models_stay_within_their_bytes_and_the_least_recently_used_goes_first() {
        let (disk, loaded) = (Disk::default(), within(10, Duration::from_secs(60)));
        let get = |name: &'static str| loaded.get(wanted(name), || disk.load(name)).unwrap();
        drop(get("aaaa"));
        drop(get("bbbb"));
        drop(get("aaaa"));
        disk.assert_in_memory(&["aaaa", "bbbb"]);
        drop(get("cccc"));
        disk.assert_in_memory(&["aaaa", "cccc"]);
        drop(get("dddddddddd"));
        disk.assert_in_memory(&["dddddddddd"]);
        assert_eq!(loaded.bytes(), 10);
    }

    #[test]
    fn what_is_in_use_is_never_dropped_for_another_which_waits_for_it() {
        let (disk, loaded) = (Disk::default(), within(10, Duration::from_secs(60)));
        let get = |name: &'static str| loaded.get(wanted(name), || disk.load(name)).unwrap();
        let session = get("aaaaaa");
        std::thread::scope(|scope| {
            let file = scope.spawn(|| drop(get("bbbbbb")));
            // Somebody else uses what is there meanwhile.
            drop(get("aaaaaa"));
            assert_eq!(disk.in_memory(), ["aaaaaa"]);
            drop(session);
            file.join().unwrap();
        });
        disk.assert_in_memory(&["bbbbbb"]);
    }

    #[test]
    fn who_waited_in_vain_or_asks_for_more_than_there_is_is_told_so() {
        let (disk, loaded) = (Disk::default(), within(10, Duration::from_millis(1)));
        let get = |name: &'static str| loaded.get(wanted(name), || disk.load(name));
        let _session = get("aaaaaa").unwrap();
        assert_eq!(get("bbbbbb").err(), Some(GetError::NoMemory { needed: 6, budget: 10 }));
        assert_eq!(get("ccccccccccccc").err(), Some(GetError::NoMemory { needed: 13, budget: 10 }));
        assert!(get("dddd").is_ok());
        assert_eq!(disk.loads(), 2, "what does not fit is not loaded");
    }

    #[test]
    fn a_model_that_takes_more_than_expected_pushes_out_what_nobody_uses() {
        let (disk, loaded) = (Disk::default(), within(10, Duration::from_secs(60)));
        drop(loaded.get(wanted("aaaa"), || disk.load("aaaa")).unwrap());
        let small = ModelSpec { name: "bbbbbbbb", bytes: 2, is_counted: true };
        let large = loaded.get(small, || disk.load("bbbbbbbb")).unwrap();
        disk.assert_in_memory(&["bbbbbbbb"]);
        assert_eq!(loaded.bytes(), 8);
        drop(large);
    }

    #[test]
    fn a_model_that_failed_is_loaded_again_for_the_next_who_asks() {
        let (disk, loaded) = (Disk::default(), loaded(2));
        let get = |name: &'static str| loaded.get(wanted(name), || disk.load(name)).unwrap();
        let before = get("a!");
        BROKEN.store(true, Ordering::SeqCst);
        let after = get("a!");
        assert!(!Arc::ptr_eq(&before.0, &after.0));
        assert_eq!(disk.loads(), 2);
        BROKEN.store(false, Ordering::SeqCst);
        drop((before, after));
        drop(get("a!"));
        assert_eq!(disk.loads(), 2, "the new one serves from now on");
    }

    #[test]
    fn what_nobody_has_used_for_a_while_is_unloaded_and_what_is_in_use_or_was_used_since_stays() {
        let (disk, loaded) = (Disk::default(), loaded(3));
        let get = |name: &'static str| loaded.get(wanted(name), || disk.load(name)).unwrap();
        let moment = || {
            // Clocks may be coarse.
            let pause = || std::thread::sleep(Duration::from_millis(2));
            pause();
            let now = Instant::now();
            pause();
            now
        };
        let session = get("a");
        drop(get("b"));
        let before = moment();
        drop(get("c"));
        assert_eq!(loaded.unload_idle(Duration::from_secs(3600)), 0);
        assert_eq!((loaded.unload_unused_since(before), disk.in_memory()), (1, vec!["a".to_owned(), "c".to_owned()]));
        // The time counts from the end of a use.
        drop(session);
        assert_eq!((loaded.unload_unused_since(before), loaded.bytes()), (0, 2));
        drop(get("b"));
        assert_eq!(disk.loads(), 4, "it is loaded again when it is asked for");
        assert_eq!((loaded.unload_unused_since(moment()), loaded.bytes()), (3, 0));
    }

    #[test]
    fn models_of_all_kinds_share_one_budget_and_may_have_the_same_name() {
        let (disk, registry) = (Disk::default(), within(10, Duration::from_secs(60)));
        drop(registry.get(wanted("aaaa"), || disk.load("aaaa")).unwrap());
        let spec = ModelSpec { name: "aaaa", bytes: 5, is_counted: false };
        let other = registry.get(spec, || Ok::<_, Infallible>(Other(5))).unwrap();
        assert_eq!((other.0, registry.bytes()), (5, 9));
        assert_eq!((registry.loaded::<Named>().len(), registry.loaded::<Other>().len()), (1, 1));
        // The one of the first kind is not in use: it makes room for another of the same kind, the one in use stays.
        drop(registry.get(wanted("bbbbb"), || disk.load("bbbbb")).unwrap());
        disk.assert_in_memory(&["bbbbb"]);
        assert_eq!(registry.loaded::<Other>()[0].1.0, 5);
    }
}
