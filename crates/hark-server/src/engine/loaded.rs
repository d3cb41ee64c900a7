//! Models in memory: each once, whoever uses it.
//!
//! What is in use stays, by however many and however long. Of the rest, the last used ones stay as far as the limit
//! leaves room: a model that was loaded beyond it goes when its last use ends, not when somebody asks for another.

use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard};

/// Models by name, loaded when first asked for.
pub(super) struct Loaded<T> {
    /// How many may stay.
    most: usize,
    /// Most recently used last.
    places: Mutex<Vec<Place<T>>>,
}

struct Place<T> {
    name: String,
    /// How many [`InUse`] there are.
    users: usize,
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
    loaded: Arc<Loaded<T>>,
}

impl<T: Clone + Send + 'static> Loaded<T> {
    /// Nothing yet; `most` models may stay when nobody uses them, at least one.
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Loaded { most: most.max(1), places: Mutex::default() })
    }

    /// The model of that name; loads it if it is not there, and who else wants it meanwhile waits for that.
    pub(super) fn get<E>(self: &Arc<Self>, name: &str, load: impl FnOnce() -> Result<T, E>) -> Result<InUse<T>, E> {
        let (stay, place) = self.enter(name);
        let mut place = lock(&place);
        let model = match &*place {
            Some(model) => model.clone(),
            None => place.insert(load()?).clone(),
        };
        Ok(InUse { model, _stay: stay })
    }

    /// Counts one more user, and makes room before anything is loaded.
    fn enter(self: &Arc<Self>, name: &str) -> (Stay<T>, Arc<Mutex<Option<T>>>) {
        let mut places = lock(&self.places);
        let mut place = match places.iter().position(|place| place.name == name) {
            Some(index) => places.remove(index),
            None => Place { name: name.to_owned(), users: 0, model: Arc::default() },
        };
        place.users += 1;
        let model = Arc::clone(&place.model);
        places.push(place);
        let gone = self.take_excess(&mut places);
        drop(places);
        drop(gone);
        (Stay { name: name.to_owned(), loaded: Arc::clone(self) }, model)
    }
}

impl<T> Loaded<T> {
    /// What nobody uses and there is no room for, the least recently used first, and what could not be loaded.
    fn take_excess(&self, places: &mut Vec<Place<T>>) -> Vec<Place<T>> {
        let mut excess = places.len().saturating_sub(self.most);
        let goes = |place: &mut Place<T>| {
            let goes = place.users == 0 && (excess > 0 || lock(&place.model).is_none());
            excess = excess.saturating_sub(usize::from(goes));
            goes
        };
        places.extract_if(.., goes).collect()
    }
}

impl<T: Send + 'static> Drop for Stay<T> {
    fn drop(&mut self) {
        let mut places = lock(&self.loaded.places);
        let Some(index) = places.iter().position(|place| place.name == self.name) else { return };
        let mut place = places.remove(index);
        place.users -= 1;
        places.push(place);
        let gone = self.loaded.take_excess(&mut places);
        drop(places);
        if !gone.is_empty() {
            // A model ends when its thread does, after what it computes just now: who lets go of it may be a task of the
            // runtime, on a thread that serves everybody. Where there is no thread to be had it is dropped here.
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
    use std::sync::Weak;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::{Duration, Instant};

    use super::*;

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
            while self.in_memory() != wanted && begun.elapsed() < Duration::from_secs(5) {
                std::thread::sleep(Duration::from_millis(1));
            }
            assert_eq!(self.in_memory(), wanted);
        }
    }

    #[test]
    fn a_model_is_loaded_once_for_everybody_and_stays_for_the_next() {
        let (disk, loaded) = (Disk::default(), Loaded::new(1));
        let get = |name: &'static str| loaded.get(name, || disk.load(name)).unwrap();
        let (one, other) = (get("a"), get("a"));
        assert!(Arc::ptr_eq(&one, &other));
        drop((one, other));
        drop(get("a"));
        assert_eq!(disk.loads(), 1);
    }

    #[test]
    fn what_is_in_use_is_neither_dropped_nor_loaded_again_and_what_is_too_much_goes_when_its_use_ends() {
        let (disk, loaded) = (Disk::default(), Loaded::new(1));
        let get = |name: &'static str| loaded.get(name, || disk.load(name)).unwrap();
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
        let (disk, loaded) = (Disk::default(), Loaded::new(2));
        let get = |name: &'static str| loaded.get(name, || disk.load(name)).unwrap();
        let long = get("a");
        drop(get("b"));
        // It ends after the other one: that counts, not when it began.
        drop(long);
        drop(get("c"));
        disk.assert_in_memory(&["a", "c"]);
    }

    #[test]
    fn room_is_made_before_a_model_is_loaded() {
        let (disk, loaded) = (Disk::default(), Loaded::new(1));
        drop(loaded.get("a", || disk.load("a")).unwrap());
        let load = || {
            assert_eq!(disk.in_memory(), [""; 0]);
            disk.load("b")
        };
        drop(loaded.get("b", load).unwrap());
        assert_eq!(disk.in_memory(), ["b"]);
    }

    #[test]
    fn a_model_that_can_not_be_loaded_takes_no_place_and_is_tried_again() {
        let (disk, loaded) = (Disk::default(), Loaded::new(2));
        let get = |name: &'static str| loaded.get(name, || disk.load(name)).unwrap();
        drop(get("a"));
        assert!(loaded.get("b", || Err("not there")).is_err());
        drop(get("c"));
        disk.assert_in_memory(&["a", "c"]);
        drop(get("b"));
        disk.assert_in_memory(&["b", "c"]);
    }

    #[test]
    fn who_comes_while_a_model_is_loaded_waits_for_it_and_who_wants_another_does_not() {
        let (disk, loaded, loads) = (Disk::default(), Loaded::new(2), AtomicUsize::new(0));
        let slow = || {
            loads.fetch_add(1, Ordering::SeqCst);
            // Somebody else gets another model meanwhile; were that to wait for this one, neither would ever be there.
            std::thread::scope(|scope| scope.spawn(|| drop(loaded.get("b", || disk.load("b")).unwrap())).join())
                .unwrap();
            std::thread::sleep(Duration::from_millis(20));
            disk.load("a")
        };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| drop(loaded.get("a", slow).unwrap()));
            }
        });
        assert_eq!(loads.load(Ordering::SeqCst), 1);
    }
}
