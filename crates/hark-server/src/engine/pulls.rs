//! Models that are being pulled while the service runs.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use hark_models::{Model, ModelStore, Progress, PullOptions, Step};

/// The progress of a pull is logged at every so many percent.
const LOG_STEP: u64 = 10;

/// The pulls of this process, one after the other; clones share them.
#[derive(Debug, Clone, Default)]
pub struct Pulls(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// Models that are being pulled, or wait for that.
    pulling: BTreeMap<String, PullProgress>,
    waiting: VecDeque<Pull>,
    /// Whether a thread pulls.
    is_working: bool,
    /// Why the last pull of a model failed.
    failed: BTreeMap<String, String>,
}

#[derive(Debug)]
struct Pull {
    model: Model,
    store: ModelStore,
    options: PullOptions,
}

/// How much of a model is there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct PullProgress {
    /// Bytes that are there.
    pub(super) done: u64,
    /// Bytes of all of it; `None` where that is not known.
    pub(super) total: Option<u64>,
}

impl PullProgress {
    /// In percent, where known.
    pub(super) fn percent(self) -> Option<u8> {
        let total = self.total?;
        Some((u128::from(self.done.min(total)) * 100 / u128::from(total)) as u8)
    }
}

/// Why a model is not pulled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PullRefusal {
    /// The catalogue has no model of that name.
    Unknown,
    /// It is installed.
    Installed,
    /// This server can't pull; why, for those who run it.
    Impossible(String),
}

impl Pulls {
    /// Pulls models in the background, after those that wait already. A model that is being pulled or waits is left alone. The thread ends with the process;
    /// the next pull goes on where it stopped.
    pub fn start(
        &self,
        store: &ModelStore,
        models: impl IntoIterator<Item = Model>,
        options: &PullOptions,
    ) -> Result<(), std::io::Error> {
        let mut state = self.lock();
        for model in models {
            if state.pulling.contains_key(&model.name) {
                continue;
            }
            state.failed.remove(&model.name);
            state.pulling.insert(model.name.clone(), PullProgress::default());
            state.waiting.push_back(Pull { model, store: store.clone(), options: options.clone() });
        }
        if state.is_working || state.waiting.is_empty() {
            return Ok(());
        }
        let pulls = self.clone();
        match std::thread::Builder::new().name("hark-pull".to_owned()).spawn(move || pulls.work()) {
            Ok(_) => {
                state.is_working = true;
                Ok(())
            }
            Err(error) => {
                for pull in std::mem::take(&mut state.waiting) {
                    state.pulling.remove(&pull.model.name);
                }
                Err(error)
            }
        }
    }

    /// Pulls until nothing waits.
    fn work(&self) {
        loop {
            let next = {
                let mut state = self.lock();
                let next = state.waiting.pop_front();
                state.is_working = next.is_some();
                next
            };
            let Some(pull) = next else { return };
            let pulled = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.pull(&pull)));
            let pulled = pulled.unwrap_or_else(|_| Err("the pull ended by a fault of the program".to_owned()));
            let mut state = self.lock();
            state.pulling.remove(&pull.model.name);
            if let Err(error) = pulled {
                state.failed.insert(pull.model.name, error);
            }
        }
    }

    fn pull(&self, pull: &Pull) -> Result<(), String> {
        let (model, name, begun) = (&pull.model, pull.model.name.as_str(), Instant::now());
        tracing::info!(model = name, bytes = model.size_bytes, "model.pull_started");
        let (mut downloaded, mut logged) = (Downloaded::default(), 0);
        let pulled = pull.store.pull(model, &pull.options, &mut |progress| {
            let done = downloaded.add(&progress).min(model.size_bytes);
            self.progress(name, done, model.size_bytes);
            let percent = done.saturating_mul(100).checked_div(model.size_bytes).unwrap_or(0);
            if percent >= logged + LOG_STEP {
                logged = percent - percent % LOG_STEP;
                tracing::info!(model = name, percent, "model.pulling");
            }
        });
        match pulled {
            Ok(_) => tracing::info!(model = name, seconds = begun.elapsed().as_secs_f64(), "model.pulled"),
            Err(error) => {
                tracing::error!(model = name, %error, "model.pull_failed");
                return Err(error.to_string());
            }
        }
        Ok(())
    }

    /// Notes how much of a model is there; `total` is 0 where it is not known.
    fn progress(&self, model: &str, done: u64, total: u64) {
        self.lock().pulling.insert(model.to_owned(), PullProgress { done, total: (total > 0).then_some(total) });
    }

    /// How much of a model is there; `None` if it is not being pulled.
    pub(super) fn get(&self, model: &str) -> Option<PullProgress> {
        self.lock().pulling.get(model).copied()
    }

    /// Why the last pull of a model failed, if it did.
    pub(super) fn failure(&self, model: &str) -> Option<String> {
        self.lock().failed.get(model).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Bytes of a model that were downloaded: a pull reports each file or archive by itself.
#[derive(Default)]
struct Downloaded {
    source: String,
    files: BTreeMap<String, u64>,
}

impl Downloaded {
    /// Adds a report; returns the bytes of all files of its source. What a source that failed gave does not count.
    fn add(&mut self, progress: &Progress) -> u64 {
        if self.source != progress.source {
            self.source.clone_from(&progress.source);
            self.files.clear();
        }
        if progress.step == Step::Downloading {
            let bytes = self.files.entry(progress.file.clone()).or_default();
            *bytes = progress.done.max(*bytes);
        }
        self.files.values().sum()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hark_models::Catalogue;
    use sha2::Digest;

    use super::*;

    #[test]
    fn how_much_is_there_is_known_in_percent() {
        let pulls = Pulls::default();
        assert_eq!(pulls.get("a"), None);
        pulls.progress("a", 0, 0);
        assert_eq!(pulls.get("a").unwrap().percent(), None);
        pulls.progress("a", 1 << 62, u64::MAX);
        assert_eq!(pulls.get("a").unwrap().percent(), Some(25));
        pulls.progress("a", 50, 200);
        assert_eq!(pulls.get("a"), Some(PullProgress { done: 50, total: Some(200) }));
    }

    #[test]
    fn models_are_pulled_one_after_the_other_and_a_failure_is_kept_until_the_next_try() {
        let folder = tempfile::tempdir().unwrap();
        let there = folder.path().join("there");
        std::fs::create_dir(&there).unwrap();
        std::fs::write(there.join("a.wav"), b"sound").unwrap();
        let entry = |name: &str, path: &std::path::Path, sha256: &str| {
            format!(
                "[[model]]\nname = \"{name}\"\nrole = \"sounds\"\nformat = \"wav\"\nlicence = \"none\"\nsize_bytes = 5\n[[model.source]]\nkind = \"folder\"\n\
                 path = \"{}\"\nfiles = [{{ name = \"a.wav\", size = 5, sha256 = \"{sha256}\" }}]\n",
                path.display()
            )
        };
        let file = folder.path().join("catalogue.toml");
        let good = entry("sounds-good", &there, &crate::mac::hex(&sha2::Sha256::digest(b"sound")));
        let bad = entry("sounds-bad", &there, &"0".repeat(64));
        std::fs::write(&file, format!("version = 1\n{good}{bad}")).unwrap();
        let catalogue = Catalogue::with_user_file(&file).unwrap();
        let (good, bad) = (catalogue.get("sounds-good").unwrap(), catalogue.get("sounds-bad").unwrap());
        let store = ModelStore::new(folder.path().join("models"));
        let pulls = Pulls::default();
        let wait = |name: &str| {
            let begun = Instant::now();
            while pulls.get(name).is_some() && begun.elapsed() < Duration::from_secs(60) {
                std::thread::sleep(Duration::from_millis(5));
            }
            assert_eq!(pulls.get(name), None);
        };
        pulls.start(&store, [bad.clone(), good.clone(), good.clone()], &PullOptions::default()).unwrap();
        wait("sounds-good");
        assert!(store.installed("sounds-good").is_some(), "{:?}", pulls.failure("sounds-good"));
        assert_eq!(pulls.failure("sounds-good"), None);
        wait("sounds-bad");
        assert!(store.installed("sounds-bad").is_none() && pulls.failure("sounds-bad").is_some());
        let none = PullOptions { sources: Some(Vec::new()), ..PullOptions::default() };
        pulls.start(&store, [bad.clone()], &none).unwrap();
        wait("sounds-bad");
        assert!(pulls.failure("sounds-bad").is_some());
    }

    #[test]
    fn the_archives_of_a_model_are_counted_together() {
        let report = |step, file: &str, done, source: &str| Progress {
            step,
            file: file.to_owned(),
            done,
            total: 100,
            source: source.to_owned(),
        };
        let mut downloaded = Downloaded::default();
        assert_eq!(downloaded.add(&report(Step::Downloading, "a", 100, "hub")), 100);
        assert_eq!(downloaded.add(&report(Step::Downloading, "a", 60, "pypi")), 60, "another source begins anew");
        assert_eq!(downloaded.add(&report(Step::Downloading, "b", 40, "pypi")), 100);
        assert_eq!(downloaded.add(&report(Step::Unpacking, "b", 99, "pypi")), 100);
    }
}
