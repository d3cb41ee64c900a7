//! The models that work on text, and whether they can be used.

use hark_api::{ModelState, TextModel, TextModelTask};
use hark_models::{Model, Role as ModelRole};
use hark_text::Endpoint;
use hark_text::model::BreakerState;

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
        let mut models = Vec::new();
        let language = match &self.endpoint {
            Some(endpoint) => {
                models.extend(remote_entry(endpoint));
                None
            }
            None => self.language_name().ok(),
        };
        models.extend(language.map(|name| self.language_entry(name)));
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

    /// The language model of this server.
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

/// The model behind an endpoint, where its name is known.
fn remote_entry(endpoint: &Endpoint) -> Option<TextModel> {
    let name = endpoint.model_name()?;
    Some(TextModel {
        id: name.clone(),
        name,
        provider: String::new(),
        license: "unknown".to_owned(),
        task: TextModelTask::Chat,
        state: match endpoint.status().breaker {
            BreakerState::Closed => ModelState::Remote,
            BreakerState::HalfOpen | BreakerState::Open => ModelState::Unreachable,
        },
        bytes_done: None,
        bytes_total: None,
        context: endpoint.context().map(|context| context as u64),
    })
}
