//! Media probes: the duration of a recording, before credits are held for it.
//!
//! A probe reads untrusted data, so it is limited: in time, in number for each caller and in total, and it ends with the
//! request. The result is that of the container, which may be wrong; the hold of a job grows with what is really decoded
//! (`jobs/budget.rs`).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hark_api::{ApiError, ErrorKind};
use hark_media::{AudioStream, CancelToken, Limits, MediaError, Options, SAMPLE_RATE, Source};
use hark_store::Owner;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::Failure;
use crate::limits::{AtOnce, Place};
use crate::metrics::Metrics;

/// The maximum duration of a probe.
const PROBE_TIMEOUT: Duration = Duration::from_secs(60);
/// The maximum time to count the samples of a file without a duration; what is not counted by then is held when it is decoded.
const COUNT_TIMEOUT: Duration = Duration::from_secs(20);
/// The maximum wait for a slot, and the `Retry-After` when there is none.
const PLACE_TIMEOUT: Duration = Duration::from_secs(30);
const RETRY_AFTER: u64 = 15;

/// The probe slots of this process.
pub(crate) struct Probes {
    all: Arc<Semaphore>,
    by_owner: AtOnce<Owner>,
}

/// An occupied probe slot, until the probe has ended.
pub(crate) struct ProbePlace {
    metrics: Arc<Metrics>,
    _of_owner: Place<Owner>,
    _of_all: OwnedSemaphorePermit,
}

impl Probes {
    /// This many concurrent probes.
    pub(crate) fn new(at_once: usize) -> Self {
        Probes { all: Arc::new(Semaphore::new(at_once)), by_owner: AtOnce::new() }
    }

    /// Takes a slot for an owner who may have `most` concurrent probes; waits for others to end.
    pub(crate) async fn enter(&self, owner: Owner, most: i64, metrics: &Arc<Metrics>) -> Result<ProbePlace, Failure> {
        let of_owner = self.by_owner.acquire(owner);
        if i64::try_from(of_owner.before).unwrap_or(i64::MAX) >= most.max(1) {
            let message = "too many recordings are being checked for you at once: wait for one to end";
            return Err(ApiError::new(ErrorKind::TooManyAtOnce, message).retry_after(RETRY_AFTER).into());
        }
        let permit = tokio::time::timeout(PLACE_TIMEOUT, Arc::clone(&self.all).acquire_owned()).await;
        let Ok(Ok(of_all)) = permit else {
            let message = "too many recordings are being checked at the moment: try again soon";
            return Err(ApiError::new(ErrorKind::QueueFull, message).retry_after(RETRY_AFTER).into());
        };
        metrics.probes_running.fetch_add(1, Ordering::Relaxed);
        Ok(ProbePlace { metrics: Arc::clone(metrics), _of_owner: of_owner, _of_all: of_all })
    }
}

impl Drop for ProbePlace {
    fn drop(&mut self) {
        self.metrics.probes_running.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Cancels the work when the request is dropped.
pub(crate) struct CancelOnDrop(pub(crate) CancelToken);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Seconds of audio: from the container, else counted, up to a little more than `longest`; blocks.
pub(crate) fn duration(source: Source, longest: f64, cancel: CancelToken) -> Result<f64, Failure> {
    let begun = Instant::now();
    let limits = Limits { ffmpeg_cpu_seconds: PROBE_TIMEOUT.as_secs(), ..Limits::default() };
    let options = Options { limits, cancel, deadline: Some(begun + PROBE_TIMEOUT), ..Options::default() };
    let mut stream = AudioStream::open(source, &options).map_err(refused)?;
    if let Some(duration) = stream.info().duration.filter(|duration| duration.is_finite() && *duration > 0.0) {
        return Ok(duration);
    }
    // Recorders that stream leave the duration out: count the samples.
    let (mut block, mut seconds) = (Vec::new(), 0.0);
    while seconds <= longest && begun.elapsed() < COUNT_TIMEOUT {
        block.clear();
        match stream.read(&mut block).map_err(refused)? {
            0 => break,
            count => seconds += count as f64 / f64::from(SAMPLE_RATE),
        }
    }
    if seconds == 0.0 {
        return Err(Failure::new(ErrorKind::UnreadableMedia, "the file holds no sound"));
    }
    Ok(seconds)
}

/// The minutes charged for a recording: rounded up, at least one (contract: credits).
pub(crate) fn minutes(seconds: f64) -> i64 {
    // Rounding by the container must not cost a minute: 60.01 s is one minute.
    (((seconds - ROUNDING) / 60.0).ceil() as i64).max(1)
}

/// Tolerance of a recording beyond its minutes, in seconds.
pub(crate) const ROUNDING: f64 = 0.05;

/// The response for a recording that can't be read.
pub(crate) fn refused(error: MediaError) -> Failure {
    match error {
        MediaError::Io(_) => {
            tracing::error!(%error, "upload.read_failed");
            ErrorKind::Internal.into()
        }
        MediaError::FfmpegMissing { .. } => {
            tracing::error!(%error, "upload.read_failed");
            Failure::new(ErrorKind::ModelMissing, "this server can't read that format: ffmpeg is not installed on it")
        }
        other => Failure::new(ErrorKind::UnreadableMedia, other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn of(bytes: Vec<u8>, longest: f64) -> Result<f64, Failure> {
        duration(Source::Reader(Box::new(std::io::Cursor::new(bytes))), longest, CancelToken::default())
    }

    /// A WAV as a pipe writes it, without its length.
    fn endless(seconds: usize) -> Vec<u8> {
        let mut wav = Vec::new();
        hark_media::write_wav(&mut wav, &vec![0.1; seconds * SAMPLE_RATE as usize], SAMPLE_RATE).unwrap();
        wav[4..8].fill(0xff);
        wav[40..44].fill(0xff);
        wav
    }

    #[test]
    fn a_begun_minute_is_a_minute() {
        let all = [0.0, 0.3, 59.9, 60.0, 60.02, 61.0, 3600.0, 3601.0].map(minutes);
        assert_eq!(all, [1, 1, 1, 1, 1, 2, 60, 61]);
    }

    #[test]
    fn a_file_without_its_length_is_counted_up_to_what_its_sender_may_use() {
        let seconds = of(endless(90), f64::INFINITY).unwrap();
        assert!((seconds - 90.0).abs() < 0.1, "{seconds}");
        let seconds = of(endless(90), 30.0).unwrap();
        assert!((30.0..40.0).contains(&seconds), "{seconds}");
    }

    #[test]
    #[ignore = "needs ffmpeg"]
    fn what_is_no_recording_is_the_senders_fault() {
        for bytes in [&b""[..], b"just words", &[0u8; 4096]] {
            let failure = of(bytes.to_vec(), 60.0).unwrap_err();
            assert_eq!(failure.error.status(), 400, "{}", failure.error);
        }
    }

    #[tokio::test]
    async fn places_are_counted_by_owner_and_in_all_and_given_back() {
        let (probes, metrics) = (Probes::new(2), Arc::new(Metrics::default()));
        let owner = |name: &str| Owner::Anonymous(name.to_owned());
        let first = probes.enter(owner("a"), 1, &metrics).await.unwrap();
        let refused = probes.enter(owner("a"), 1, &metrics).await.err().unwrap();
        assert_eq!((refused.error.status(), refused.error.retry_after), (429, Some(RETRY_AFTER)));
        let second = probes.enter(owner("b"), 1, &metrics).await.unwrap();
        assert_eq!(metrics.probes_running.load(Ordering::Relaxed), 2);
        let mut third = Box::pin(probes.enter(owner("c"), 1, &metrics));
        assert!((&mut third).now_or_never().is_none(), "a third found a place");
        drop(first);
        let third = third.await.unwrap();
        drop((second, third));
        assert_eq!(metrics.probes_running.load(Ordering::Relaxed), 0);
    }
}
