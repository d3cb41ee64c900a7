//! The kind of job that takes the noise out of a recording.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use hark_store::{ENHANCE, EnhancedRecording, FaultKind, Lease, Need, Upload};
use tokio::sync::mpsc;

use super::budget::JobBudget;
use super::kind::{JobKind, JobResult, Run};
use crate::app::App;
use crate::engine::{self, EnhanceWork, Enhanced};
use crate::probe;
use crate::queue::Fault;
use crate::recording::Unclaimed;

/// Bytes of a block on its way to storage.
const BLOCK: usize = 256 << 10;
/// Blocks on their way to storage.
const BLOCKS: usize = 4;

/// What a worker needs to enhance.
pub(crate) const NEEDS: [Need; 1] = [Need::Capability(engine::ENHANCE)];

/// Takes the noise out of a recording.
pub(crate) struct Enhancement;

impl JobKind for Enhancement {
    fn name(&self) -> &'static str {
        ENHANCE
    }

    fn run(&self, app: App, run: Arc<Run>) -> BoxFuture<'static, Result<Box<dyn JobResult>, Fault>> {
        Box::pin(async move { Ok(Box::new(enhance(&app, &run).await?) as Box<dyn JobResult>) })
    }
}

async fn enhance(app: &App, run: &Arc<Run>) -> Result<Finished, Fault> {
    let mut work: EnhanceWork = serde_json::from_str(&run.job.payload).map_err(Fault::internal)?;
    let budget = JobBudget::new(app, &run.job);
    work.budget = budget.of_decoder();
    let sent = run.job.blob.as_ref().ok_or_else(|| Fault::internal("the job has no recording"))?;
    let recordings = app.store.recordings();
    let max_bytes = match work.max_storage {
        // What was sent goes when the result is there.
        Some(limit) => limit.saturating_sub(recordings.bytes_used(run.job.account).await?.saturating_sub(sent.size)),
        None => u64::MAX,
    };
    let source = crate::recording::open(app, sent).await?;
    let mut upload = recordings.upload(run.job.account).await?;
    if upload.is_sealed() {
        // Its chunks are authenticated.
        upload = upload.without_hash();
    }
    let (sender, blocks) = mpsc::channel(BLOCKS);
    let storing = tokio::spawn(store(upload, blocks, max_bytes));
    let (engines, attempt) = (app.engines.clone(), Arc::clone(run));
    let enhancing = tokio::task::spawn_blocking(move || {
        let mut progress = |done: f64, total: Option<f64>| {
            let total = total.unwrap_or(attempt.job.seconds).max(done).max(0.001);
            attempt.set_progress((done / total * 100.0) as i64);
        };
        let out = Box::new(BlockWriter { sender, block: Vec::with_capacity(BLOCK) });
        let done = engines.enhance()?.enhance(source, &work, out, &mut progress, &attempt.cancel);
        done.map_err(|error| budget.refusal().unwrap_or(error))
    });
    let done = enhancing.await.map_err(Fault::internal)?.map_err(Fault::from);
    let stored = storing.await.map_err(Fault::internal)?;
    if stored.is_ok() {
        app.breaker.observe(&NEEDS[0], done.as_ref().err());
    }
    // The engine fails when its output does, so the fault of the output comes first.
    let (upload, enhanced) = (stored?, done?);
    let result = Unclaimed::new(&app.store, upload.finish().await?);
    Ok(Finished { enhanced, result })
}

/// Writes blocks to storage until the engine has ended.
async fn store(mut upload: Upload, mut blocks: mpsc::Receiver<Bytes>, max_bytes: u64) -> Result<Upload, Fault> {
    while let Some(block) = blocks.recv().await {
        if upload.size() + block.len() as u64 > max_bytes {
            let detail = "the enhanced recording does not fit into the storage of this account: ask for audio/flac or audio/mpeg, or delete recordings";
            return Err(Fault { kind: FaultKind::Input, dependency: None, detail: detail.to_owned() });
        }
        upload.write(block).await?;
    }
    Ok(upload)
}

/// Passes bytes on in blocks; waits while storage is behind, so that memory stays flat.
struct BlockWriter {
    sender: mpsc::Sender<Bytes>,
    block: Vec<u8>,
}

impl BlockWriter {
    fn pass_on(&mut self) -> io::Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        let block = std::mem::replace(&mut self.block, Vec::with_capacity(BLOCK));
        self.sender.blocking_send(block.into()).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

impl Write for BlockWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = bytes.len().min(BLOCK - self.block.len());
        self.block.extend_from_slice(&bytes[..count]);
        if self.block.len() == BLOCK {
            self.pass_on()?;
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.pass_on()
    }
}

/// A completed enhancement.
struct Finished {
    enhanced: Enhanced,
    /// Discarded unless it was committed.
    result: Unclaimed,
}

impl JobResult for Finished {
    fn commit<'a>(&'a self, app: &'a App, lease: &'a Lease) -> BoxFuture<'a, hark_store::Result<()>> {
        Box::pin(async move {
            let seconds = self.enhanced.seconds();
            let result = EnhancedRecording {
                blob: self.result.blob.clone(),
                frames: self.enhanced.frames,
                channels: self.enhanced.channels,
                seconds,
                model: self.enhanced.model.clone(),
            };
            app.store.jobs().complete_enhancement(lease, &result, probe::minutes(seconds)).await.map(drop)
        })
    }

    fn committed(&self, app: &App, lease: &Lease, took: Duration) {
        let Enhanced { model, .. } = &self.enhanced;
        let seconds = self.enhanced.seconds();
        app.metrics.audio_milliseconds.fetch_add((seconds * 1000.0) as u64, Ordering::Relaxed);
        let enhancement = lease.product().map(|product| product.number());
        tracing::info!(enhancement, seconds, took = took.as_secs_f64(), model, "job.completed");
    }
}
