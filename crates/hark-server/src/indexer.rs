//! The indexer: keeps the search index up to date with the transcripts.
//!
//! A completed or edited transcript is due; one process claims it by a lease, cuts it into passages, embeds them where the model is installed, and writes the
//! index. What fails is tried again with backoff. A transcription never waits for it.

use std::time::{Duration, Instant};

use hark_api::TranscriptionResult;
use hark_media::CancelToken;
use hark_store::{IndexTask, NewIndex, NewPassage};
use hark_text::Source;
use hark_text::retrieve::{passages, terms};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::app::App;
use crate::engine::EngineError;
use crate::probe::CancelOnDrop;

/// The version of passages and terms: raise it when [`passages`] or [`terms`] change, and everything is indexed again.
const VERSION: i64 = 1;
/// How long a claim holds without a renewal.
const LEASE: Duration = Duration::from_secs(120);
/// A claim is renewed when it is this old.
const RENEW_AFTER: Duration = Duration::from_secs(30);
/// How often it is looked for what is due. Changes of this and of other processes are announced, so this is for what was missed and for retries.
const POLL: Duration = Duration::from_secs(10);
/// How often the whole index is compared with the transcripts.
const RECONCILE: Duration = Duration::from_secs(600);
/// Passages of one call of the embedding model: few, so that requests come in between.
const BATCH: usize = 16;
/// The first wait after a failure, and the longest.
const BACKOFF: Duration = Duration::from_secs(5);
const MAX_BACKOFF: Duration = Duration::from_secs(3600);

/// Why a transcript was not indexed.
#[derive(Debug, thiserror::Error)]
enum IndexError {
    #[error(transparent)]
    Store(#[from] hark_store::Error),
    #[error("indexing panicked")]
    Panicked,
}

/// Indexes what is due until the service ends.
pub(crate) fn start(app: &App, mut stop: watch::Receiver<bool>) -> JoinHandle<()> {
    let app = app.clone();
    tokio::spawn(async move {
        let mut reconciled = None;
        loop {
            tokio::select! {
                () = run(&app, &mut reconciled) => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
            tokio::select! {
                () = app.index_due.notified() => {}
                () = tokio::time::sleep(POLL) => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
        }
    })
}

/// When the index was last compared with the transcripts, and with which model.
type Reconciled = Option<(Instant, Option<String>)>;

/// Indexes everything that is due.
async fn run(app: &App, reconciled: &mut Reconciled) {
    let model = app.engines.embed().and_then(|engine| engine.embed_model()).ok();
    let is_current = |(at, with): &(Instant, Option<String>)| at.elapsed() < RECONCILE && *with == model;
    if !reconciled.as_ref().is_some_and(is_current) {
        match app.store.search().reconcile(VERSION, model.as_deref()).await {
            Ok(0) => {}
            Ok(due) => tracing::info!(due, "search.reconciled"),
            Err(error) => return tracing::warn!(%error, "search.reconcile_failed"),
        }
        *reconciled = Some((Instant::now(), model));
    }
    loop {
        let task = match app.store.search().claim(LEASE).await {
            Ok(Some(task)) => task,
            Ok(None) => return,
            Err(error) => return tracing::warn!(%error, "search.claim_failed"),
        };
        index(app, &task).await;
    }
}

/// Indexes one transcript; a failure is logged and tried again.
async fn index(app: &App, task: &IndexTask) {
    let begun = Instant::now();
    let transcript = task.transcript;
    let error = match index_text(app, task).await {
        Ok(passages) => {
            let milliseconds = begun.elapsed().as_millis();
            return tracing::debug!(%transcript, passages, milliseconds, "search.indexed");
        }
        // It was deleted or edited meanwhile: then it is gone, or due again.
        Err(IndexError::Store(hark_store::Error::LeaseLost | hark_store::Error::NotFound(_))) => return,
        Err(error) => error,
    };
    let wait = MAX_BACKOFF.min(BACKOFF * 2_u32.saturating_pow(task.attempts.min(16)));
    let (attempt, retry_in) = (task.attempts + 1, wait.as_secs());
    tracing::warn!(%transcript, attempt, retry_in, %error, "search.index_failed");
    match app.store.search().retry(task, wait).await {
        Ok(()) | Err(hark_store::Error::LeaseLost) => {}
        // The claim expires by itself.
        Err(error) => tracing::warn!(%transcript, %error, "search.claim_failed"),
    }
}

/// Writes the index of a transcript; returns the number of its passages.
async fn index_text(app: &App, task: &IndexTask) -> Result<usize, IndexError> {
    let (_, text) = app.store.transcripts().text(task.account, task.transcript).await?;
    let cut = tokio::task::spawn_blocking(move || cut(&text)).await;
    let (mut index, texts) = cut.map_err(|_| IndexError::Panicked)?;
    match embed(app, task, texts).await? {
        Ok((model, vectors)) => (index.model, index.vectors) = (Some(model), vectors),
        Err(EngineError::NoEmbeddings | EngineError::ModelMissing(_) | EngineError::ModelComing { .. }) => {}
        // Found by its words meanwhile; the next comparison makes it due for its vectors.
        Err(error) => tracing::warn!(transcript = %task.transcript, %error, "search.embed_failed"),
    }
    app.store.search().index(task, &index).await?;
    Ok(index.passages.len())
}

/// Cuts a transcript into passages, with the text of each.
fn cut(text: &TranscriptionResult) -> (NewIndex, Vec<String>) {
    let source = Source::from_transcript(text);
    // Units of a source are the segments with words.
    let positions: Vec<i64> =
        (0..).zip(&text.segments).filter(|(_, segment)| !segment.text.trim().is_empty()).map(|(at, _)| at).collect();
    let position = |unit: usize| positions.get(unit).copied().unwrap_or_default();
    let mut index = NewIndex { version: VERSION, ..NewIndex::default() };
    let mut texts = Vec::new();
    for passage in passages(&source) {
        let content = &source.text()[passage.span.clone()];
        let offset = passage.span.start - source.units()[passage.units.start].span.start;
        index.passages.push(NewPassage {
            first_segment: position(passage.units.start),
            last_segment: position(passage.units.end - 1),
            text_offset: offset as i64,
            text_length: content.trim_end().len() as i64,
            terms: terms(content),
        });
        texts.push(content.trim().to_owned());
    }
    (index, texts)
}

/// The vectors of texts and their model; the inner error is the engine's.
async fn embed(
    app: &App,
    task: &IndexTask,
    texts: Vec<String>,
) -> Result<Result<(String, Vec<Vec<f32>>), EngineError>, IndexError> {
    let mut model = match app.engines.embed().and_then(|engine| engine.embed_model()) {
        Ok(model) => model,
        Err(error) => return Ok(Err(error)),
    };
    let mut vectors = Vec::with_capacity(texts.len());
    let mut renewed = Instant::now();
    for batch in texts.chunks(BATCH) {
        if renewed.elapsed() > RENEW_AFTER {
            app.store.search().renew(task, LEASE).await?;
            renewed = Instant::now();
        }
        let (engines, batch) = (app.engines.clone(), batch.to_vec());
        let cancel = CancelOnDrop(CancelToken::default());
        let token = cancel.0.clone();
        let embedded = tokio::task::spawn_blocking(move || engines.embed()?.embed(&batch, &token)).await;
        match embedded.map_err(|_| IndexError::Panicked)? {
            Ok(embedded) => {
                model = embedded.model;
                vectors.extend(embedded.vectors);
            }
            Err(error) => return Ok(Err(error)),
        }
    }
    Ok(Ok((model, vectors)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hark_api::Segment;

    #[test]
    fn passages_name_the_segments_that_they_are_of() {
        let segment = |text: &str| Segment { text: text.into(), ..Segment::default() };
        let long = "word ".repeat(300);
        let text = TranscriptionResult {
            segments: vec![segment(" "), segment(" Hello there. "), segment(""), segment(&long), segment("The end.")],
            ..TranscriptionResult::default()
        };
        let (index, texts) = cut(&text);
        let words: usize = index.passages.iter().map(|passage| passage.terms.len()).sum();
        assert_eq!(words, 304);
        assert_eq!((index.passages[0].first_segment, index.passages[0].text_offset), (1, 0));
        assert_eq!(index.passages.last().unwrap().last_segment, 4);
        assert!(index.passages.len() > 2 && texts.len() == index.passages.len());
        // Texts can be read again by place and length.
        let joined = |passage: &NewPassage| {
            let segments = &text.segments[passage.first_segment as usize..=passage.last_segment as usize];
            let texts = segments.iter().map(|segment| segment.text.trim()).filter(|text| !text.is_empty());
            texts.collect::<Vec<_>>().join(" ")
        };
        for (passage, text) in index.passages.iter().zip(&texts) {
            let (start, length) = (passage.text_offset as usize, passage.text_length as usize);
            assert_eq!(joined(passage)[start..start + length].trim(), text);
        }
    }
}
