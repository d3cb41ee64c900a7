//! Models in memory: each once, whoever uses it, all together within a budget of bytes.
//!
//! What is in use stays, by however many and however long. Of the rest, the last used ones stay as far as the budget and the
//! limit of their number leave room: a model that was loaded beyond the limit goes when its last use ends, not when somebody
//! asks for another. A model that does not fit waits for others to be done.

use std::ops::Deref;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

/// What can be kept in memory.
pub(super) trait Resident: Clone + Send + 'static {
    /// Bytes that it takes at most.
    fn bytes(&self) -> u64;

    /// Whether it can be used; if not it is loaded again for the next who asks.
    fn is_usable(&self) -> bool;
}

/// What is to be loaded.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    /// Its name.
    pub name: &'a str,
    /// Bytes that it will take, as far as that is known before it is loaded.
    pub bytes: u64,
    /// Whether it is one of those whose number is limited.
    pub is_counted: bool,
}

/// Why there is no model.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum GetError<E> {
    /// It does not fit beside what is in use.
    NoMemory {
        /// Bytes that it needs.
        needed: u64,
        /// Bytes that all models may take.
        budget: u64,
    },
    /// It could not be loaded.
    Load(E),
}

/// Models by name, loaded when first asked for.
pub(super) struct Loaded<T> {
    /// How many of those that are counted may stay.
    most: usize,
    /// Bytes that all may take.
    budget: u64,
    /// How long one that does not fit waits.
    patience: Duration,
    /// Most recently used last.
    places: Mutex<Vec<Place<T>>>,
    /// Told when something is not in use any more.
    freed: Condvar,
}

struct Place<T> {
    name: String,
    /// How many [`InUse`] there are.
    users: usize,
    /// What it takes: expected, and then known.
    bytes: u64,
    is_counted: bool,
    /// Its own lock, so that loading one model keeps nobody waiting who wants another.
    model: Arc<Mutex<Option<T>>>,
}

/// A model that stays in memory at least as long as this.
pub(super) struct InUse<T: Send + 'static> {
    // Goes before the place is left, so that the place has the last of it.
    model: T,
    _stay: Stay<T>,
}

/// One of the users of a place.
struct Stay<T: Send + 'static> {
    name: String,
    /// A model may itself use others, so this must not keep the registry alive.
    loaded: Weak<Loaded<T>>,
}

impl<T: Resident> Loaded<T> {
    /// Nothing yet; `most` counted models may stay when nobody uses them, at least one, and all within `budget` bytes.
    pub(super) fn new(most: usize, budget: u64, patience: Duration) -> Arc<Self> {
        Arc::new(Loaded { most: most.max(1), budget, patience, places: Mutex::default(), freed: Condvar::new() })
    }

    /// The model of that name; loads it if it is not there, and who else wants it meanwhile waits for that.
    pub(super) fn get<E>(
        self: &Arc<Self>,
        wanted: Wanted<'_>,
        load: impl FnOnce() -> Result<T, E>,
    ) -> Result<InUse<T>, GetError<E>> {
        let (stay, place) = self.enter(wanted).map_err(|needed| GetError::NoMemory { needed, budget: self.budget })?;
        let mut place = lock(&place);
        if let Some(model) = place.take_if(|model| !model.is_usable()) {
            tracing::warn!(model = wanted.name, "model.discarded");
            drop(model);
        }
        let model = match &*place {
            Some(model) => model.clone(),
            None => {
                let model = place.insert(load().map_err(GetError::Load)?).clone();
                self.settle(wanted.name, model.bytes());
                model
            }
        };
        Ok(InUse { model, _stay: stay })
    }

    /// Bytes that everything takes which is in memory.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> u64 {
        lock(&self.places).iter().map(|place| place.bytes).sum()
    }

    /// What is in memory and not being loaded just now, by name.
    pub(super) fn all(&self) -> Vec<(String, T)> {
        let places = lock(&self.places);
        let there = places.iter().filter_map(|place| {
            let model = place.model.try_lock().ok()?.clone()?;
            Some((place.name.clone(), model))
        });
        there.collect()
    }

    /// Counts one more user, and makes room before anything is loaded; says how many bytes are needed where there is none.
    #[allow(clippy::type_complexity)]
    fn enter(self: &Arc<Self>, wanted: Wanted<'_>) -> Result<(Stay<T>, Arc<Mutex<Option<T>>>), u64> {
        let begun = Instant::now();
        let mut places = lock(&self.places);
        loop {
            let known = places.iter().position(|place| place.name == wanted.name);
            let needed = if known.is_some() { 0 } else { wanted.bytes };
            let gone = self.take_excess(&mut places, needed, known.is_none() && wanted.is_counted, Some(wanted.name));
            if !gone.is_empty() {
                // Out of memory before anything else comes in.
                drop(places);
                drop(gone);
                places = lock(&self.places);
                continue;
            }
            let taken: u64 = places.iter().map(|place| place.bytes).sum();
            if known.is_some() || taken + needed <= self.budget {
                let mut place = match known {
                    Some(index) => places.remove(index),
                    None => Place {
                        name: wanted.name.to_owned(),
                        users: 0,
                        bytes: wanted.bytes,
                        is_counted: wanted.is_counted,
                        model: Arc::default(),
                    },
                };
                place.users += 1;
                let model = Arc::clone(&place.model);
                places.push(place);
                let stay = Stay { name: wanted.name.to_owned(), loaded: Arc::downgrade(self) };
                return Ok((stay, model));
            }
            let left = self.patience.saturating_sub(begun.elapsed());
            if left.is_zero() || needed > self.budget {
                tracing::warn!(model = wanted.name, needed, taken, budget = self.budget, "model.no_memory");
                return Err(needed);
            }
            places = self.freed.wait_timeout(places, left).unwrap_or_else(|poisoned| poisoned.into_inner()).0;
        }
    }

    /// A model is loaded: what it takes is known.
    fn settle(&self, name: &str, bytes: u64) {
        let mut places = lock(&self.places);
        if let Some(place) = places.iter_mut().find(|place| place.name == name) {
            place.bytes = bytes;
        }
        let gone = self.take_excess(&mut places, 0, false, Some(name));
        drop(places);
        drop(gone);
    }
}

impl<T> Loaded<T> {
    /// What nobody uses and there is no room for when `needed` bytes more come, the least recently used first, and what could
    /// not be loaded. `spared` is about to be used.
    fn take_excess(
        &self,
        places: &mut Vec<Place<T>>,
        needed: u64,
        one_more: bool,
        spared: Option<&str>,
    ) -> Vec<Place<T>> {
        let counted = places.iter().filter(|place| place.is_counted).count() + usize::from(one_more);
        let mut excess = counted.saturating_sub(self.most);
        let mut bytes = (places.iter().map(|place| place.bytes).sum::<u64>() + needed).saturating_sub(self.budget);
        let goes = |place: &mut Place<T>| {
            if place.users > 0 || spared == Some(place.name.as_str()) {
                return false;
            }
            let goes = bytes > 0 || place.is_counted && excess > 0 || lock(&place.model).is_none();
            if goes {
                bytes = bytes.saturating_sub(place.bytes);
                excess = excess.saturating_sub(usize::from(place.is_counted));
            }
            goes
        };
        places.extract_if(.., goes).collect()
    }
}

impl<T: Send + 'static> Drop for Stay<T> {
    fn drop(&mut self) {
        let Some(loaded) = self.loaded.upgrade() else { return };
        let mut places = lock(&loaded.places);
        let Some(index) = places.iter().position(|place| place.name == self.name) else { return };
        let mut place = places.remove(index);
        place.users -= 1;
        places.push(place);
        let gone = loaded.take_excess(&mut places, 0, false, None);
        drop(places);
        loaded.freed.notify_all();
        if !gone.is_empty() {
            // A model ends when its thread does, after what it computes just now: the last reference may be dropped on a
            // thread of the runtime. Where there is no thread to be had it is dropped here.
            let _ = std::thread::Builder::new().name("hark-unload".to_owned()).spawn(move || drop(gone));
        }
    }
}

impl<T: Send + 'static> Deref for InUse<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.model
    }
}

/// Nothing here is left half done by a panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::*;

    /// A model takes as many bytes as its name has letters.
    impl Resident for Arc<str> {
        fn bytes(&self) -> u64 {
            self.len() as u64
        }

        fn is_usable(&self) -> bool {
            !self.contains('!') || !BROKEN.load(Ordering::SeqCst)
        }
    }

    /// Whether models whose names have an exclamation mark have failed.
    static BROKEN: AtomicBool = AtomicBool::new(false);

    fn wanted(name: &str) -> Wanted<'_> {
        Wanted { name, bytes: name.len() as u64, is_counted: true }
    }

    fn loaded(most: usize) -> Arc<Loaded<Arc<str>>> {
        Loaded::new(most, 1000, Duration::from_secs(60))
    }

    fn within(budget: u64, patience: Duration) -> Arc<Loaded<Arc<str>>> {
        Loaded::new(100, budget, patience)
    }

    /// Loads models, which are their names, and knows which of them are still in memory.
    #[derive(Default)]
    struct Disk {
        all: Mutex<Vec<Weak<str>>>,
    }

    impl Disk {
        fn load(&self, name: &str) -> Result<Arc<str>, Infallible> {
            let model = Arc::from(name);
            lock(&self.all).push(Arc::downgrade(&model));
            Ok(model)
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
        assert!(Arc::ptr_eq(&one, &other));
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
        assert!(loaded.get(wanted("b"), || Err("not there")).is_err());
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
        let small = Wanted { name: "bbbbbbbb", bytes: 2, is_counted: true };
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
        assert!(!Arc::ptr_eq(&before, &after));
        assert_eq!(disk.loads(), 2);
        BROKEN.store(false, Ordering::SeqCst);
        drop((before, after));
        drop(get("a!"));
        assert_eq!(disk.loads(), 2, "the new one serves from now on");
    }
}
