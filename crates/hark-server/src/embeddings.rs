//! Embeds the texts of a request.

use std::sync::atomic::Ordering;

use hark_api::ErrorKind;
use hark_media::CancelToken;

use crate::app::App;
use crate::call_slots::CallSlots;
use crate::engine::EmbeddedTexts;
use crate::error::Failure;
use crate::metrics::text::{Outcome, TextTimer};
use crate::middleware::Caller;
use crate::panics;
use crate::probe::CancelOnDrop;

/// Texts of a call.
const MAX_TEXTS: usize = 2048;
/// Texts of a call without an account.
const MAX_ANONYMOUS_TEXTS: usize = 64;

/// What the metrics call it.
const TASK: &str = "embed";

/// Embeds the texts of a call on a blocking thread. It is cancelled when the caller disconnects.
pub(crate) async fn embed(app: &App, caller: &Caller, texts: Vec<String>) -> Result<EmbeddedTexts, Failure> {
    let limit = match caller {
        Caller::Account(_) => MAX_TEXTS,
        Caller::Anonymous(_) => MAX_ANONYMOUS_TEXTS,
    };
    if texts.len() > limit {
        return Err(Failure::invalid(format!("{} texts in one call: send at most {limit}", texts.len())));
    }
    timed(app, compute(app, &app.embed_slots, caller, texts)).await
}

/// Embeds the query of a search, which does not wait for calls with many texts.
pub(crate) async fn embed_query(app: &App, caller: &Caller, query: String) -> Result<EmbeddedTexts, Failure> {
    timed(app, compute(app, &app.query_slots, caller, vec![query])).await
}

async fn timed(
    app: &App,
    embedding: impl Future<Output = Result<EmbeddedTexts, Failure>>,
) -> Result<EmbeddedTexts, Failure> {
    let timer = TextTimer::start(&app.metrics, TASK);
    let embedded = embedding.await;
    timer.end(Outcome::of(&embedded));
    embedded
}

async fn compute(app: &App, slots: &CallSlots, caller: &Caller, texts: Vec<String>) -> Result<EmbeddedTexts, Failure> {
    app.engines.embed()?;
    let slot = slots.enter(caller.owner(), caller.plan().concurrency()).await?;
    let engines = app.engines.clone();
    let cancel = CancelOnDrop(CancelToken::default());
    let (token, span) = (cancel.0.clone(), tracing::Span::current());
    let embedding = tokio::task::spawn_blocking(move || {
        // The slot is released when the work has ended, not when nobody waits for it any more.
        let _slot = slot;
        span.in_scope(|| engines.embed()?.embed(&texts, &token))
    });
    match embedding.await {
        Ok(embedded) => {
            let embedded = embedded?;
            app.metrics.text.embedded.fetch_add(embedded.vectors.len() as u64, Ordering::Relaxed);
            app.metrics.text.embedded_tokens.fetch_add(embedded.tokens, Ordering::Relaxed);
            Ok(embedded)
        }
        Err(error) => {
            tracing::error!(error = panics::ending(&error), "embed.panicked");
            Err(ErrorKind::Internal.into())
        }
    }
}
