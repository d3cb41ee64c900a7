//! Speaks a text for a credit: into a whole file, or into one that is sent while it is made.

mod log;
mod running;
mod writer;

use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use hark_api::{ApiError, ErrorKind};
use hark_store::Owner;
use hark_voice::{FileFormat, Payload};
use serde::{Deserialize, Serialize};

use self::log::SpeechLog;
use self::running::Running;
use crate::app::App;
use crate::engine::{SpeechVoice, SpeechWork};
use crate::error::{Failure, until_tomorrow};
use crate::idempotent::{self, Canonical};
use crate::limits::Place;
use crate::metrics::text::{Outcome, TextTimer};
use crate::middleware::Identity;
use crate::paid_call::{PaidCall, Started};
use crate::text_work::{take_place, within};

/// What the ledger and the metrics call it.
const NOTE: &str = "speak";
/// The same in the voice of a reference; the entries of a day are counted against its limit.
const NOTE_MATCHED: &str = "speak matched";

/// What is to be spoken, before its watermark is known.
pub(crate) struct Speech {
    pub(crate) text: String,
    /// The language; detected when not given.
    pub(crate) language: Option<String>,
    pub(crate) voice: SpeechVoice,
    pub(crate) speed: f32,
    pub(crate) format: FileFormat,
    pub(crate) is_streamed: bool,
}

/// What is stored for repeats of a request: not the sound, but what its watermark says. A repeat is spoken again with the same mark, for nothing.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct SpokenBefore {
    payload: Payload,
}

/// Takes a place among the calls of the account, where this server can speak at all. Before a request's clip is read, so that the memory of clips is limited, too.
pub(crate) fn admit(
    app: &App,
    identity: &Identity,
    with_reference: bool,
    format: FileFormat,
) -> Result<Place<Owner>, Failure> {
    app.engines.speak(with_reference)?.check_format(format)?;
    take_place(app, identity)
}

/// Speaks a text and answers with the file. `canonical` describes the request for its idempotency key; `place` is that of [`admit`].
pub(crate) async fn respond(
    app: &App,
    identity: &Identity,
    headers: &HeaderMap,
    canonical: Canonical,
    speech: Speech,
    place: Place<Owner>,
) -> Result<Response, Failure> {
    let is_matched = matches!(speech.voice, SpeechVoice::Like(_));
    let (call, before) = match PaidCall::start(app, identity, headers, canonical).await? {
        Started::New(call) => (Some(call), None),
        Started::Answered(answer) => {
            let body = idempotent::open_answer(headers, &answer)?;
            let before: SpokenBefore = serde_json::from_slice(&body).map_err(|_| Failure::from(ErrorKind::Internal))?;
            (None, Some(before.payload))
        }
    };
    // A repeat was counted when it was new. Refused, the call is dropped, and its credit is returned.
    let counted = match call {
        Some(_) if is_matched => Some(check_matched(app, identity).await?),
        _ => None,
    };
    let marker = app.marker.get(&app.config)?;
    let payload = before.unwrap_or_else(|| {
        // The same text spoken twice is two requests: each has a hash of its own in the log.
        let request = format!("{}\n{}\n{}", crate::random::id(), identity.account().0, speech.text);
        marker.payload(request.as_bytes(), app.clock.now().unsigned_abs() / 1_000_000)
    });
    let (format, is_streamed) = (speech.format, speech.is_streamed);
    let charge =
        Charge { headers: headers.clone(), call, before: SpokenBefore { payload }, is_matched, _counted: counted };
    let characters = speech.text.chars().count();
    let Speech { text, language, voice, speed, .. } = speech;
    let work = SpeechWork { text, language, voice, speed, format, is_streamed, payload, marker };
    let timer = TextTimer::start(&app.metrics, NOTE);
    let answered = within(app.config.text.timeout.duration(), async {
        let owner = Owner::Account(identity.account());
        let slot = app.speech_slots.enter(owner, identity.plan().concurrency()).await?;
        let log = SpeechLog::new(app, identity, &work, characters);
        let running = Running::start(app, work, (place, slot));
        if is_streamed { running.stream(log, charge).await } else { running.whole(log, charge).await }
    });
    let answered = answered.await;
    timer.end(Outcome::of_status(answered.as_ref().map_or_else(|failure| failure.error.status(), |_| 200)));
    let mut response = answered?;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(format.media_type()));
    Ok(response)
}

/// Refuses what is beyond the day's matched voices of the plan, those under way included; the place is for one more.
async fn check_matched(app: &App, identity: &Identity) -> Result<Place<Owner>, Failure> {
    let account = identity.account();
    let place = app.matched_calls.acquire(Owner::Account(account));
    let Some(limit) = app.config.voice.matched_per_day.of(identity.plan()) else { return Ok(place) };
    let used = app.store.calls().charged_today(account, NOTE_MATCHED).await? + place.before as i64;
    if used < limit {
        return Ok(place);
    }
    let message = format!("{limit} speeches a day in the voice of a reference are in this plan");
    Err(ApiError::new(ErrorKind::SpeechLimit, message).retry_after(until_tomorrow(app.clock.now())).into())
}

/// The charge of a speech; none for a repeat.
struct Charge {
    headers: HeaderMap,
    call: Option<PaidCall>,
    before: SpokenBefore,
    is_matched: bool,
    /// Its place among those of the day that are not charged yet.
    _counted: Option<Place<Owner>>,
}

impl Charge {
    async fn post(self) -> Result<(), Failure> {
        let note = if self.is_matched { NOTE_MATCHED } else { NOTE };
        match self.call {
            Some(call) => call.charge(&self.headers, note, &self.before, None).await,
            None => Ok(()),
        }
    }
}
