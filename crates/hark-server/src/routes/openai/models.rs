//! Models as OpenAI's clients read them: the `data` of `GET /v1/models`, and `GET /v1/models/{id}`.

use axum::extract::State;
use hark_api::{ErrorKind, Model, OpenAiModel};
use hark_models::foreign_names;

use super::{AnyError, Missing};
use crate::app::App;
use crate::error::Failure;
use crate::extract::Path;

/// The models of the service, followed by OpenAI's names that map to one of them.
pub(crate) fn data(models: &[Model]) -> Vec<OpenAiModel> {
    let ours = models.iter().map(|model| described(&model.id, &model.provider));
    ours.chain(foreign_names().map(|name| described(name, ""))).collect()
}

fn described(id: &str, provider: &str) -> OpenAiModel {
    let owned_by = if provider.is_empty() { "hark" } else { provider };
    OpenAiModel { id: id.to_owned(), object: "model".to_owned(), created: 0, owned_by: owned_by.to_owned() }
}

/// One model, as OpenAI's clients read it
#[utoipa::path(get, path = "/v1/models/{id}", tag = "openai", operation_id = "retrieveModel",
    params(("id" = String, Path, description = "the name that requests use")),
    responses((status = 200, body = OpenAiModel), Missing, AnyError))]
pub(crate) async fn show(State(app): State<App>, Path(id): Path<String>) -> Result<axum::Json<OpenAiModel>, Failure> {
    let found = data(&app.models().await).into_iter().find(|model| model.id == id);
    found.map(axum::Json).ok_or_else(|| {
        Failure::new(ErrorKind::NotFound, format!("there is no model {id:?}: GET /v1/models lists them"))
    })
}
