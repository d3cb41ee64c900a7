//! `GET /v1/models` and `GET /v1/languages`.

use std::collections::BTreeSet;

use axum::Json;
use axum::extract::State;
use hark_api::{ErrorKind, Language, LanguageList, LanguagePair, ModelList, MultilingualModel};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use crate::app::App;
use crate::engine::{EngineError, MultilingualTranslation, TranslationLanguages, TranslationPair};
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
    let spoken = || -> BTreeSet<String> {
        hark_whisper::languages::LANGUAGES.iter().map(|language| language.code.to_owned()).collect()
    };
    let (codes, translated) = match query.r#for {
        LanguageUse::Transcription => (spoken(), None),
        LanguageUse::Translation => {
            let engines = app.engines.clone();
            engines.translate()?;
            // The tokenizer of a large model takes a moment to read: not on a Tokio worker.
            let found = tokio::task::spawn_blocking(move || Ok(engines.translate()?.translation_languages())).await;
            let found: TranslationLanguages = found
                .map_err(|_| Failure::from(ErrorKind::Internal))?
                .map_err(|error: EngineError| Failure::from(error))?;
            (found.targets(), Some(found))
        }
    };
    let mut languages: Vec<Language> = codes.into_iter().map(language).collect();
    languages.sort_by(|a, b| a.name.cmp(&b.name));
    let (pairs, multilingual) = match translated {
        Some(TranslationLanguages { pairs, multilingual }) => {
            let pair =
                |pair: TranslationPair| LanguagePair { from: pair.from, to: pair.to, model: pair.models.join("+") };
            let model =
                |many: MultilingualTranslation| MultilingualModel { model: many.model, languages: many.languages };
            (Some(pairs.into_iter().map(pair).collect()), Some(multilingual.into_iter().map(model).collect()))
        }
        None => (None, None),
    };
    Ok(Json(LanguageList { languages, pairs, multilingual }))
}

/// A language with its names; its code where they are not known.
fn language(code: String) -> Language {
    if let Some(known) = hark_whisper::languages::LANGUAGES.iter().find(|known| known.code == code) {
        return Language { code, name: title_case(known.name), native_name: known.native_name.to_owned() };
    }
    match hark_translate::languages::find(&code) {
        Some(known) => Language { code, name: known.name.to_owned(), native_name: known.native_name.to_owned() },
        None => Language { name: code.clone(), native_name: code.clone(), code },
    }
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
