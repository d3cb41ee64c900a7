//! `/v1/admin/models`: the catalogue of models, and pulling one.

use std::sync::Arc;

use axum::Json as Answer;
use axum::extract::State;
use axum::http::StatusCode;
use hark_api::{CatalogueModel, CatalogueModels, ErrorKind};

use super::Admin;
use crate::app::App;
use crate::audit;
use crate::engine::{Models, PullRefusal};
use crate::error::Failure;
use crate::extract::Path;
use crate::routes::{AnyError, Contradicted, Forbidden, Missing, Unauthorized};

/// Every model of the catalogue
#[utoipa::path(get, path = "/v1/admin/models", tag = "administration", operation_id = "adminModels",
    responses((status = 200, body = CatalogueModels), Unauthorized, Forbidden, AnyError), security(("bearer" = []), ("session" = [])))]
pub(crate) async fn list(State(app): State<App>, _: Admin) -> Result<Answer<CatalogueModels>, Failure> {
    let models = with_models(&app, |models| models.catalogue()).await?;
    Ok(Answer(CatalogueModels { models }))
}

/// Pull a model
///
/// Answers at once: the model comes in the background, after those that are being pulled; the list says how far it is. A model that is being pulled already
/// is answered in the same way.
#[utoipa::path(post, path = "/v1/admin/models/{name}", tag = "administration", operation_id = "adminPullModel",
    params(("name" = String, Path, description = "the model's name in the catalogue")),
    responses((status = 202, description = "it is being pulled, or waits for that", body = CatalogueModel),
        Unauthorized, Forbidden, Missing, Contradicted, AnyError),
    security(("bearer" = []), ("session" = [])))]
pub(crate) async fn pull(
    State(app): State<App>,
    admin: Admin,
    Path(name): Path<String>,
) -> Result<(StatusCode, Answer<CatalogueModel>), Failure> {
    let find = |models: Vec<CatalogueModel>, name: &str| models.into_iter().find(|model| model.name == name);
    let missing = || Failure::new(ErrorKind::NotFound, "the catalogue has no model of that name: GET /v1/admin/models");
    let known = find(with_models(&app, |models| models.catalogue()).await?, &name).ok_or_else(missing)?;
    if known.installed {
        return Err(Failure::new(ErrorKind::Conflict, "this model is installed already"));
    }
    if !known.pulling {
        // A pull that can't be logged is not started.
        let entry = admin.audit(audit::MODEL_PULLED).with_subject(format!("model {name}"));
        app.store.audit().record(&entry).await?;
    }
    let wanted = name.clone();
    with_models(&app, move |models| models.pull(&wanted)).await?.map_err(|refusal| match refusal {
        PullRefusal::Unknown => missing(),
        PullRefusal::Installed => Failure::new(ErrorKind::Conflict, "this model is installed already"),
        PullRefusal::Impossible(why) => Failure::new(ErrorKind::Unavailable, why),
    })?;
    let model = find(with_models(&app, |models| models.catalogue()).await?, &name).ok_or_else(missing)?;
    Ok((StatusCode::ACCEPTED, Answer(model)))
}

/// Asks the engine on a thread that may block.
async fn with_models<T: Send + 'static>(
    app: &App,
    ask: impl FnOnce(&dyn Models) -> T + Send + 'static,
) -> Result<T, Failure> {
    let models = Arc::clone(&app.engines.models);
    tokio::task::spawn_blocking(move || ask(&*models)).await.map_err(|_| ErrorKind::Internal.into())
}
