//! People whose voices the account knows: learn, list, forget.

use axum::Json as Answer;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use hark_api::{ApiError, DateTime, Done, EnrollForm, ErrorKind, Speaker, SpeakerList};
use hark_store::VoiceprintId;

use crate::app::App;
use crate::audit;
use crate::error::Failure;
use crate::extract::Path;
use crate::middleware::{Caller, Identity};
use crate::multipart::Multipart;
use crate::options::too_many_at_once;
use crate::recording::{self, Unclaimed};
use crate::routes::audio::refuse_second;
use crate::routes::upload::{refuse_announced, store_file};
use crate::routes::{AnyError, Invalid, Limited, Missing, TooLarge, Unauthorized, Unavailable};

/// Characters of a name.
const MAX_NAME: usize = 200;

/// Everybody whose voice the account knows
#[utoipa::path(get, path = "/v1/speakers", tag = "speakers", operation_id = "listSpeakers",
    responses((status = 200, body = SpeakerList), Unauthorized, AnyError), security(("bearer" = [])))]
pub(crate) async fn list(State(app): State<App>, identity: Identity) -> Result<Answer<SpeakerList>, Failure> {
    let known = app.store.voiceprints().list(identity.account()).await?;
    Ok(Answer(SpeakerList { speakers: known.into_iter().map(speaker).collect() }))
}

/// Learn a voice
///
/// From a clip in which only that person speaks. The clip is not stored: what is stored is a print of the voice, which is biometric data. Ask
/// the person first.
#[utoipa::path(post, path = "/v1/speakers", tag = "speakers", operation_id = "enrollSpeaker",
    request_body(content = EnrollForm, content_type = "multipart/form-data"),
    responses((status = 201, body = Speaker), Invalid, Unauthorized, TooLarge, Limited, Unavailable, AnyError),
    security(("bearer" = [])))]
pub(crate) async fn enroll(
    State(app): State<App>,
    identity: Identity,
    caller: Caller,
    request: Request,
) -> Result<Response, Failure> {
    if app.is_draining() {
        return Err(ApiError::from(ErrorKind::ShuttingDown).retry_after(10).into());
    }
    app.engines.voices()?;
    // Enrolment counts as a concurrent transcription.
    let owner = caller.owner();
    let place = app.uploads.acquire(owner.clone());
    let live = app.store.jobs().live_count(&owner).await? + place.before as i64;
    if live >= caller.plan().concurrency() {
        return Err(too_many_at_once(&app, &caller, live));
    }
    let (name, clip) = receive(&app, &identity, request).await?;
    let engines = app.engines.clone();
    let print = recording::decode(&app, &caller, &clip.blob, move |source, cancel| {
        Ok(engines.voices()?.voiceprint(source, cancel)?)
    });
    let print = print.await;
    // The clip is deleted before the response, whatever the outcome.
    app.store.recordings().discard(&clip.claim().key).await?;
    let stored = app.store.voiceprints().add(identity.account(), &name, &print?.to_bytes()).await?;
    Ok((StatusCode::CREATED, Answer(speaker(stored))).into_response())
}

/// Reads the form and stores its clip.
async fn receive(app: &App, identity: &Identity, request: Request) -> Result<(String, Unclaimed), Failure> {
    let (head, body) = request.into_parts();
    let plan = identity.plan();
    let mut form = Multipart::open(&head.headers, body, app.config.idle_timeout.duration()).await?;
    refuse_announced(&head.headers, plan)?;
    let (mut given, mut file) = (None, None);
    while let Some(part) = form.next_part().await? {
        match part.name.as_str() {
            "name" => {
                refuse_second(given.is_some(), "name")?;
                // A character has at most four bytes.
                given = Some(name(&form.text("name", 4 * MAX_NAME + 100).await?)?);
            }
            "file" => {
                refuse_second(file.is_some(), "file")?;
                let mut upload = app.store.recordings().upload(identity.account()).await?.without_hash();
                store_file(app, &mut form, &mut upload, plan, None).await?;
                file = Some(upload);
            }
            _ => {}
        }
    }
    let name = given.ok_or_else(|| Failure::invalid("`name` is missing: say whose voice it is"))?;
    let upload = file.filter(|upload| upload.size() > 0);
    let upload = upload
        .ok_or_else(|| Failure::invalid("`file` is missing: send a clip of the voice as the form field `file`"))?;
    Ok((name, Unclaimed::new(&app.store, upload.finish().await?)))
}

fn name(text: &str) -> Result<String, Failure> {
    let name = text.trim();
    if name.is_empty() || name.chars().count() > MAX_NAME || name.chars().any(char::is_control) {
        return Err(Failure::invalid(format!("`name` must have 1 to {MAX_NAME} characters that can be seen")));
    }
    Ok(name.to_owned())
}

fn speaker(stored: hark_store::Voiceprint) -> Speaker {
    Speaker { id: stored.id.0, name: stored.name, created_at: DateTime(stored.created_at) }
}

/// Forget a voice
#[utoipa::path(delete, path = "/v1/speakers/{id}", tag = "speakers", operation_id = "forgetSpeaker",
    params(("id" = i64, Path, description = "the speaker's number")),
    responses((status = 200, body = Done), Unauthorized, Missing, AnyError), security(("bearer" = [])))]
pub(crate) async fn forget(
    State(app): State<App>,
    identity: Identity,
    Path(id): Path<i64>,
) -> Result<Answer<Done>, Failure> {
    let entry = audit::by(&identity, audit::SPEAKER_DELETED);
    app.store.voiceprints().audited(&entry).remove(identity.account(), VoiceprintId(id)).await?;
    Ok(Answer(Done { ok: true }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_something_that_people_can_read() {
        assert_eq!(name("  Ann Lee ").unwrap(), "Ann Lee");
        assert_eq!(name(&"é".repeat(200)).unwrap().chars().count(), 200);
        for wrong in ["", " \t", "a\u{1b}[31m", &"é".repeat(201)] {
            assert_eq!(name(wrong).unwrap_err().error.status(), 400, "{wrong:?}");
        }
    }
}
