//! Embeds the texts of a request.

use std::sync::atomic::Ordering;

use hark_api::ErrorKind;
use hark_media::CancelToken;

use crate::app::App;
use crate::engine::EmbeddedTexts;
use crate::error::Failure;
use crate::middleware::Caller;
use crate::probe::CancelOnDrop;

/// Texts of a call.
const MAX_TEXTS: usize = 2048;
/// Texts of a call without an account.
const MAX_ANONYMOUS_TEXTS: usize = 64;

/// Embeds texts on a blocking thread. It is cancelled when the caller disconnects.
pub(crate) async fn embed(app: &App, caller: &Caller, texts: Vec<String>) -> Result<EmbeddedTexts, Failure> {
    let limit = match caller {
        Caller::Account(_) => MAX_TEXTS,
        Caller::Anonymous(_) => MAX_ANONYMOUS_TEXTS,
    };
    if texts.len() > limit {
        return Err(Failure::invalid(format!("{} texts in one call: send at most {limit}", texts.len())));
    }
    app.engines.embed()?;
    let slot = app.embed_slots.enter(caller.owner(), caller.plan().concurrency()).await?;
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
            tracing::error!(%error, "embed.panicked");
            Err(ErrorKind::Internal.into())
        }
    }
}
