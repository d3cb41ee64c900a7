//! The installed models, cached in memory.
//!
//! Requests read the list on Tokio workers; a slow or missing disk must not block them. A thread of its own scans
//! the models folder every few seconds.

use std::sync::{Arc, RwLock};
use std::time::Duration;

use hark_models::ModelStore;

/// How often the models folder is scanned: a pulled model is available after at most this time.
const REFRESH: Duration = Duration::from_secs(2);

/// The names of the installed models.
pub(super) struct InstalledModels(Arc<RwLock<Arc<Vec<String>>>>);

impl InstalledModels {
    /// Scans the folder now, and periodically from now on.
    pub(super) fn watch(models: ModelStore) -> Self {
        let names = Arc::new(RwLock::new(Arc::new(read(&models))));
        let watched = Arc::downgrade(&names);
        let watch = move || {
            loop {
                std::thread::sleep(REFRESH);
                let Some(names) = watched.upgrade() else { return };
                let now = Arc::new(read(&models));
                *names.write().unwrap_or_else(|poisoned| poisoned.into_inner()) = now;
            }
        };
        if let Err(error) = std::thread::Builder::new().name("hark-installed".to_owned()).spawn(watch) {
            tracing::error!(%error, "models.watch_failed");
        }
        InstalledModels(names)
    }

    /// The names, in alphabetical order.
    pub(super) fn names(&self) -> Arc<Vec<String>> {
        Arc::clone(&self.0.read().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }

    /// Whether a model is installed.
    pub(super) fn has(&self, name: &str) -> bool {
        self.names().iter().any(|one| one == name)
    }
}

fn read(models: &ModelStore) -> Vec<String> {
    models.all_installed().into_iter().map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_that_comes_or_goes_is_noticed_without_asking_the_disk() {
        let folder = tempfile::tempdir().unwrap();
        let installed = InstalledModels::watch(ModelStore::new(folder.path()));
        assert!(!installed.has("mine"));
        let model = folder.path().join("mine");
        std::fs::create_dir(&model).unwrap();
        std::fs::write(model.join("ggml-x.bin"), b"x").unwrap();
        let wait_for = |wanted: bool| {
            let begun = std::time::Instant::now();
            while installed.has("mine") != wanted && begun.elapsed() < Duration::from_secs(60) {
                std::thread::sleep(Duration::from_millis(20));
            }
            assert_eq!(installed.has("mine"), wanted);
        };
        wait_for(true);
        std::fs::remove_dir_all(&model).unwrap();
        wait_for(false);
    }
}
