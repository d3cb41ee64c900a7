//! The passages of a long transcript that say something about a question.

use std::sync::Arc;

use hark_store::TranscriptId;
use hark_text::Source;
use hark_text::retrieve::{Ranked, Retriever};

use crate::app::App;
use crate::embeddings;
use crate::error::Failure;
use crate::middleware::{Caller, Identity};
use crate::retrievers::TextVersion;

/// Passages that are embedded in one call.
const BATCH: usize = 256;

/// The index of a transcript, and its passages by how much they say about `query`, best first: by words, and by meaning where an
/// embedding model is installed.
pub(super) async fn rank(
    app: &App,
    identity: &Identity,
    id: TranscriptId,
    source: &Arc<Source>,
    query: String,
) -> Result<(Arc<Retriever>, Vec<Ranked>), Failure> {
    let version = TextVersion::of(id, source);
    let retriever = match app.retrievers.get(&version) {
        Some(retriever) => retriever,
        None => {
            let source = Arc::clone(source);
            let indexed = tokio::task::spawn_blocking(move || {
                let retriever = Retriever::new(&source);
                let texts = retriever.texts(&source);
                (retriever, texts)
            });
            let (retriever, texts) = indexed.await.map_err(|_| super::internal())?;
            let vectors = embed(app, identity, texts).await;
            let is_complete = vectors.is_some() || app.engines.embed().is_err();
            let retriever = Arc::new(match vectors {
                Some(vectors) => retriever.with_vectors(vectors),
                None => retriever,
            });
            if is_complete {
                app.retrievers.insert(version, Arc::clone(&retriever));
            }
            retriever
        }
    };
    let vector = match retriever.has_vectors() {
        true => embed_query(app, identity, query.clone()).await,
        false => None,
    };
    let ranking = retriever.rank(&query, vector.as_deref());
    Ok((retriever, ranking))
}

/// The vector of a query; none when it can't be embedded: words are enough for an answer.
async fn embed_query(app: &App, identity: &Identity, query: String) -> Option<Vec<f32>> {
    match embeddings::embed_query(app, &Caller::Account(identity.clone()), query).await {
        Ok(embedded) => embedded.vectors.into_iter().next(),
        Err(failure) => {
            tracing::warn!(error = %failure.error.message, "chat.embed_failed");
            None
        }
    }
}

/// The vectors of texts; none without an embedding model, or when it fails: words are enough for an answer.
async fn embed(app: &App, identity: &Identity, texts: Vec<String>) -> Option<Vec<Vec<f32>>> {
    app.engines.embed().ok()?;
    let caller = Caller::Account(identity.clone());
    let mut vectors = Vec::with_capacity(texts.len());
    for batch in texts.chunks(BATCH) {
        match embeddings::embed(app, &caller, batch.to_vec()).await {
            Ok(embedded) => vectors.extend(embedded.vectors),
            Err(failure) => {
                tracing::warn!(error = %failure.error.message, "chat.embed_failed");
                return None;
            }
        }
    }
    Some(vectors)
}
