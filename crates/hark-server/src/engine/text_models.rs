//! The models that work on text, and whether they can be used.

use hark_api::{ModelState, TextModel, TextModelTask};
use hark_models::{Model, Role as ModelRole};

use super::SpeechEngine;

/// The roles of models that work on text.
const ROLES: [(ModelRole, TextModelTask); 4] = [
    (ModelRole::Language, TextModelTask::Chat),
    (ModelRole::TextEmbedding, TextModelTask::Embedding),
    (ModelRole::Translation, TextModelTask::Translation),
    (ModelRole::LanguageIdentification, TextModelTask::LanguageIdentification),
];

impl SpeechEngine {
    /// The language model first. Of the rest of the catalogue those that are installed, pulled, or used by default.
    pub(super) fn list_text_models(&self) -> Vec<TextModel> {
        let language = self.language_name().ok();
        let mut models: Vec<TextModel> = language.map(|name| self.language_entry(name)).into_iter().collect();
        for (role, task) in ROLES {
            let of_role = self.options.catalogue.models().iter().filter(|model| model.role == role);
            for model in of_role.filter(|model| Some(model.name.as_str()) != language) {
                let found = self.text_model(&model.name, Some(model), task);
                // A default language model that another one replaces is not missed.
                let is_wanted = model.default && role != ModelRole::Language;
                if is_wanted || found.state != ModelState::Missing {
                    models.push(found);
                }
            }
        }
        models
    }

    fn language_entry(&self, name: &str) -> TextModel {
        let mut model = self.text_model(name, self.options.catalogue.get(name), TextModelTask::Chat);
        model.context = Some(self.options.language.context as u64);
        model
    }

    fn text_model(&self, name: &str, entry: Option<&Model>, task: TextModelTask) -> TextModel {
        let pull = self.options.pulls.get(name);
        let state = if self.registry.is_loaded(name) {
            ModelState::Loaded
        } else if self.check_model(name).is_ok() {
            ModelState::Installed
        } else if pull.is_some() {
            ModelState::Pulling
        } else {
            ModelState::Missing
        };
        let pull = pull.filter(|_| state == ModelState::Pulling);
        TextModel {
            id: name.to_owned(),
            name: entry.map(|entry| entry.title.as_str()).filter(|title| !title.is_empty()).unwrap_or(name).to_owned(),
            provider: entry.map_or_else(String::new, |entry| entry.provider.clone()),
            license: entry.map_or_else(|| "unknown".to_owned(), |entry| entry.licence.clone()),
            task,
            state,
            bytes_done: pull.map(|pull| pull.done),
            bytes_total: pull.and_then(|pull| pull.total),
            context: None,
        }
    }
}
