//! Translations, for a credit.

use axum::http::HeaderMap;
use axum::response::Response;
use hark_api::{ErrorKind, TranslateAnswer, TranslatedText, Translation};
use hark_media::CancelToken;
use hark_store::Owner;

use crate::app::App;
use crate::engine::{EngineError, Translate};
use crate::error::Failure;
use crate::idempotent::Canonical;
use crate::metrics::text::{Outcome, TextTimer};
use crate::middleware::Identity;
use crate::paid_call::{Opened, PaidCall};
use crate::panics;
use crate::probe::CancelOnDrop;
use crate::text_work::{self, check_length, take_place, within};

/// Texts of a call.
const MAX_TEXTS: usize = 2048;

/// Translates texts and answers with their translations.
pub(crate) async fn translate(
    app: &App,
    identity: &Identity,
    headers: &HeaderMap,
    canonical: Canonical,
    wanted: Translation,
) -> Result<Response, Failure> {
    if wanted.texts.len() > MAX_TEXTS {
        return Err(Failure::invalid(format!("{} texts in one call: send at most {MAX_TEXTS}", wanted.texts.len())));
    }
    let characters = wanted.texts.iter().map(|text| text.chars().count()).sum();
    let Translation { texts, is_batch, target, source } = wanted;
    let target_language = target.clone();
    let owner = text_work::owner(identity);
    let work = move |engine: &dyn Translate, cancel: &CancelToken| {
        engine.translate(&texts, source.as_deref(), &target, owner, cancel)
    };
    let (call, done) = match run(app, identity, headers, canonical, characters, work).await? {
        Finished::New(call, done) => (call, done),
        Finished::Repeated(response) => return Ok(response),
    };
    app.metrics.text.translated.fetch_add(done.texts.len() as u64, std::sync::atomic::Ordering::Relaxed);
    let model = done.model;
    let mut translations: Vec<TranslatedText> = done
        .texts
        .into_iter()
        .map(|(translated_text, source_language)| TranslatedText { translated_text, source_language })
        .collect();
    let answer = match translations.pop() {
        Some(TranslatedText { translated_text, source_language }) if !is_batch => {
            TranslateAnswer::One { translated_text, source_language, target_language, model }
        }
        last => {
            translations.extend(last);
            TranslateAnswer::Several { translations, target_language, model }
        }
    };
    call.complete(headers, NOTE, &answer, None).await
}

/// What became of a translation.
pub(crate) enum Finished<T> {
    /// It was made, and is to be charged with its answer.
    New(PaidCall, T),
    /// The same request was answered before.
    Repeated(Response),
}

/// What the ledger and the metrics call a translation.
pub(crate) const NOTE: &str = "translate";

/// Runs `work`, on so many characters, on a blocking thread within the limits of a call. It is cancelled, and costs nothing, when the caller disconnects.
pub(crate) async fn run<T: Send + 'static>(
    app: &App,
    identity: &Identity,
    headers: &HeaderMap,
    canonical: Canonical,
    characters: usize,
    work: impl FnOnce(&dyn Translate, &CancelToken) -> Result<T, EngineError> + Send + 'static,
) -> Result<Finished<T>, Failure> {
    app.engines.translate()?;
    check_length(app, characters)?;
    let place = take_place(app, identity)?;
    let timeout = app.config.text.timeout.duration();
    let call = match PaidCall::begin(app, identity, headers, canonical, timeout).await? {
        Opened::New(call) => call,
        Opened::Repeated(response) => return Ok(Finished::Repeated(response)),
    };
    let timer = TextTimer::start(&app.metrics, NOTE);
    let done = within(timeout, async {
        let slot = app.translate_slots.enter(Owner::Account(identity.account()), identity.plan().concurrency()).await?;
        let engines = app.engines.clone();
        let cancel = CancelOnDrop(CancelToken::default());
        let (token, span) = (cancel.0.clone(), tracing::Span::current());
        let task = tokio::task::spawn_blocking(move || {
            // Both are released when the work has ended, not when nobody waits for it any more.
            let _taken = (place, slot);
            span.in_scope(|| work(engines.translate()?, &token))
        });
        let done = task.await.map_err(|error| {
            tracing::error!(error = panics::ending(&error), "translate.panicked");
            Failure::from(ErrorKind::Internal)
        })?;
        Ok(done?)
    })
    .await;
    timer.end(Outcome::of(&done));
    Ok(Finished::New(call, done?))
}
