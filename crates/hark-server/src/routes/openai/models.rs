//! Models as OpenAI's clients read them: the `data` of `GET /v1/models`, and `GET /v1/models/{id}`.

use axum::extract::State;
use hark_api::{ErrorKind, Model, OpenAiModel, TextModel, TextModelTask};
use hark_models::foreign_names;

use super::{AnyError, Missing};
use crate::app::App;
use crate::error::Failure;
use crate::extract::Path;

/// The models of the service, followed by OpenAI's names that map to one of them and by what works on text for OpenAI's clients.
pub(crate) fn data(models: &[Model], text: &[TextModel]) -> Vec<OpenAiModel> {
    let ours = models.iter().map(|model| described(&model.id, &model.provider, None));
    let foreign = foreign_names().map(|name| described(name, "", None));
    let language = text.iter().filter(|model| model.task == TextModelTask::Chat).take(1);
    let embedding = text.iter().filter(|model| model.task == TextModelTask::Embedding).take(1);
    let text = language.chain(embedding).map(|model| described(&model.id, &model.provider, model.context));
    ours.chain(foreign).chain(text).collect()
}

fn described(id: &str, provider: &str, max_model_len: Option<u64>) -> OpenAiModel {
    let owned_by = if provider.is_empty() { "hark" } else { provider };
    OpenAiModel {
        id: id.to_owned(),
        object: "model".to_owned(),
        created: 0,
        owned_by: owned_by.to_owned(),
        max_model_len,
    }
}

/// One model, as OpenAI's clients read it
#[utoipa::path(get, path = "/v1/models/{id}", tag = "openai", operation_id = "retrieveModel",
    params(("id" = String, Path, description = "the name that requests use")),
    responses((status = 200, body = OpenAiModel), Missing, AnyError))]
pub(crate) async fn show(State(app): State<App>, Path(id): Path<String>) -> Result<axum::Json<OpenAiModel>, Failure> {
    let found = data(&app.models().await, &app.text_models().await).into_iter().find(|model| model.id == id);
    found.map(axum::Json).ok_or_else(|| {
        Failure::new(ErrorKind::NotFound, format!("there is no model {id:?}: GET /v1/models lists them"))
    })
}
