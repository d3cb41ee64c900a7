//! The catalogue of models as those who run the server see it, and the recording to try the service with.

use std::path::PathBuf;

use hark_api::CatalogueModel;
use hark_models::{Model, PullOptions};

use super::SpeechEngine;
use super::pulls::PullRefusal;

/// The package with the recording to try the service with, which `hark up` installs, and its file there.
const SAMPLE: (&str, &str) = ("test-sounds-moonshine", "beckett.wav");

impl SpeechEngine {
    pub(super) fn list_catalogue(&self) -> Vec<CatalogueModel> {
        self.options.catalogue.models().iter().map(|model| self.catalogue_model(model)).collect()
    }

    fn catalogue_model(&self, model: &Model) -> CatalogueModel {
        let installed = self.options.models.installed(&model.name).is_some();
        let pull = self.options.pulls.get(&model.name).filter(|_| !installed);
        CatalogueModel {
            name: model.name.clone(),
            title: if model.title.is_empty() { model.name.clone() } else { model.title.clone() },
            role: serde_json::to_value(model.role)
                .ok()
                .and_then(|role| role.as_str().map(str::to_owned))
                .unwrap_or_default(),
            description: model.description.clone(),
            bytes: model.size_bytes,
            license: model.licence.clone(),
            license_note: model.licence_note.clone(),
            is_default: model.default,
            installed,
            pulling: pull.is_some(),
            bytes_done: pull.map(|pull| pull.done),
            bytes_total: pull.and_then(|pull| pull.total),
            error: self.options.pulls.failure(&model.name).filter(|_| !installed),
        }
    }

    pub(super) fn start_pull(&self, name: &str) -> Result<(), PullRefusal> {
        let model = self.options.catalogue.get(name).ok_or(PullRefusal::Unknown)?;
        if self.options.models.installed(name).is_some() {
            return Err(PullRefusal::Installed);
        }
        let options = PullOptions::from_env().map_err(|error| PullRefusal::Impossible(error.to_string()))?;
        let started = self.options.pulls.start(&self.options.models, [model.clone()], &options);
        started.map_err(|error| PullRefusal::Impossible(format!("no thread can be started: {error}")))
    }

    pub(super) fn find_sample(&self) -> Option<PathBuf> {
        let (package, file) = SAMPLE;
        Some(self.options.models.installed(package)?.dir.join(file))
    }
}
