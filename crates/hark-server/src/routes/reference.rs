//! `GET /v1/models` and `GET /v1/languages`.

use axum::Json;
use axum::extract::State;
use hark_api::{Language, LanguageList, LanguagePair, ModelList};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use crate::app::App;
use crate::engine::TranslationPair;
use crate::error::Failure;
use crate::extract::Query;
use crate::routes::{AnyError, openai};

/// The models that requests may name
#[utoipa::path(get, path = "/v1/models", tag = "reference", operation_id = "listModels",
    responses((status = 200, body = ModelList), AnyError))]
pub(crate) async fn models(State(app): State<App>) -> Json<ModelList> {
    let (models, text) = (app.models().await, app.text_models().await);
    Json(ModelList { object: "list".to_owned(), data: openai::models::data(&models, &text), models, text })
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct LanguagesQuery {
    /// What the languages are for; transcription when not given.
    #[serde(default)]
    #[param(inline)]
    r#for: LanguageUse,
}

/// What languages are listed for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LanguageUse {
    #[default]
    Transcription,
    Translation,
}

/// The languages that can be spoken, or translated into
#[utoipa::path(get, path = "/v1/languages", tag = "reference", operation_id = "listLanguages", params(LanguagesQuery),
    responses((status = 200, body = LanguageList), AnyError))]
pub(crate) async fn languages(
    State(app): State<App>,
    Query(query): Query<LanguagesQuery>,
) -> Result<Json<LanguageList>, Failure> {
    let pairs = match query.r#for {
        LanguageUse::Transcription => None,
        LanguageUse::Translation => Some(app.engines.translate()?.translation_pairs()),
    };
    let is_listed = |code: &str| pairs.as_ref().is_none_or(|pairs| pairs.iter().any(|pair| pair.to == code));
    let mut languages: Vec<Language> = hark_whisper::languages::LANGUAGES
        .iter()
        .filter(|language| is_listed(language.code))
        .map(|language| Language {
            code: language.code.to_owned(),
            name: title_case(language.name),
            native_name: language.native_name.to_owned(),
        })
        .collect();
    languages.sort_by(|a, b| a.name.cmp(&b.name));
    let pairs = pairs.map(|pairs| {
        let wire = |pair: TranslationPair| LanguagePair { from: pair.from, to: pair.to, model: pair.models.join("+") };
        pairs.into_iter().map(wire).collect()
    });
    Ok(Json(LanguageList { languages, pairs }))
}

/// "haitian creole" as "Haitian Creole".
fn title_case(name: &str) -> String {
    let mut titled = String::with_capacity(name.len());
    let mut at_start = true;
    for character in name.chars() {
        if at_start {
            titled.extend(character.to_uppercase());
        } else {
            titled.push(character);
        }
        at_start = character == ' ';
    }
    titled
}
