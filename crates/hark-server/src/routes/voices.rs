//! `GET /v1/voices`: what speaks.

use axum::Json;
use axum::extract::State;
use hark_api::{ErrorKind, VoiceGender, VoiceInfo, VoiceList};
use hark_voice::{Gender, PresetVoice};

use crate::app::App;
use crate::error::Failure;
use crate::routes::{AnyError, Unavailable};

/// The voices of speech synthesis
#[utoipa::path(get, path = "/v1/voices", tag = "reference", operation_id = "listVoices",
    responses((status = 200, body = VoiceList), Unavailable, AnyError))]
pub(crate) async fn list(State(app): State<App>) -> Result<Json<VoiceList>, Failure> {
    let engine = std::sync::Arc::clone(app.engines.speak(false)?);
    let voices = tokio::task::spawn_blocking(move || engine.preset_voices()).await;
    let voices = voices.map_err(|_| Failure::from(ErrorKind::Internal))??;
    Ok(Json(VoiceList { voices: voices.into_iter().map(info).collect() }))
}

fn info(voice: PresetVoice) -> VoiceInfo {
    VoiceInfo {
        aliases: hark_voice::aliases_of(&voice.name).map(str::to_owned).collect(),
        id: voice.name,
        language: voice.language.to_owned(),
        gender: match voice.gender {
            Gender::Female => VoiceGender::Female,
            Gender::Male => VoiceGender::Male,
        },
    }
}
