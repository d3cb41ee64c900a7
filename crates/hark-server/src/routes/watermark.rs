//! Whether a sound carries the watermark of this server.

use std::fs::File;
use std::io::{BufReader, Seek as _, SeekFrom};
use std::time::{Duration, Instant};

use axum::Json as Answer;
use axum::extract::{Request, State};
use hark_api::{DateTime, ErrorKind, WatermarkForm, WatermarkPayload, WatermarkReport, WatermarkSpan};
use hark_media::{AudioStream, CancelToken, Limits, Options, OutputChannels, Source, Tags};
use hark_watermark::{Detection, Detector, Key, WatermarkError, discloses};

use crate::app::App;
use crate::error::Failure;
use crate::middleware::{Caller, Identity};
use crate::multipart::Multipart;
use crate::options::too_many_at_once;
use crate::panics;
use crate::probe::{self, CancelOnDrop};
use crate::recording::{self, Unclaimed};
use crate::routes::audio::refuse_second;
use crate::routes::{AnyError, Invalid, Limited, TimedOut, TooLarge, Unauthorized, Unavailable};

/// Bytes of a file; no plan allows less.
const MAX_BYTES: u64 = 100_000_000;
/// Beyond the file itself a form may have this much.
const FORM_OVERHEAD: u64 = 64 << 10;
/// Compressed silence has any length: this much sound is examined, which takes a quiet core about a minute.
const MAX_SECONDS: f64 = 1200.0;
/// The longest search.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Searches of an owner at once, whatever the plan: they cost nothing, and others must find a slot.
const AT_ONCE_BY_OWNER: i64 = 1;
/// The rate at which marks are looked for: they lie below 3.6 kHz at every speed that is searched.
const RATE: u32 = 16_000;
/// Characters of a comment that are passed on.
const MAX_COMMENT: usize = 500;
/// Dates are counted in microseconds.
const MICROSECONDS_A_DAY: i64 = 86_400_000_000;

/// Find the watermark of a sound
///
/// Whether the sound was made by this server, and what its mark says. Marks of other servers have other keys and are not found. The recording is not
/// kept. It costs no credits.
#[utoipa::path(post, path = "/v1/watermark/detect", tag = "audio", operation_id = "detectWatermark",
    request_body(content = WatermarkForm, content_type = "multipart/form-data"),
    responses((status = 200, body = WatermarkReport), Invalid, Unauthorized, TooLarge, Limited, Unavailable, TimedOut, AnyError),
    security(("bearer" = [])))]
pub(crate) async fn detect(
    State(app): State<App>,
    identity: Identity,
    caller: Caller,
    request: Request,
) -> Result<Answer<WatermarkReport>, Failure> {
    let place = app.uploads.acquire(caller.owner());
    let limit = caller.plan().concurrency();
    if place.before as i64 >= limit {
        return Err(too_many_at_once(&app, &caller, place.before as i64));
    }
    let recording = receive(&app, &identity, request).await?;
    let slot = app.watermark_slots.enter(caller.owner(), AT_ONCE_BY_OWNER).await?;
    let source = recording::open(&app, &recording.blob).await?;
    let cancel = CancelOnDrop(CancelToken::default());
    let (token, span, task_app) = (cancel.0.clone(), tracing::Span::current(), app.clone());
    let searching = tokio::task::spawn_blocking(move || {
        // The slot is released when the search has ended, not when nobody waits for it any more.
        let _slot = slot;
        span.in_scope(|| search(source, task_app.marker.get(&task_app.config)?.key(), token, TIMEOUT))
    });
    let found = searching.await.map_err(|error| {
        tracing::error!(error = panics::ending(&error), "watermark.search_panicked");
        Failure::from(ErrorKind::Internal)
    });
    // The recording is deleted before the response, whatever the outcome.
    app.store.recordings().discard(&recording.claim().key).await?;
    Ok(Answer(found??))
}

/// Reads the form and stores its recording.
async fn receive(app: &App, identity: &Identity, request: Request) -> Result<Unclaimed, Failure> {
    let (head, body) = request.into_parts();
    let mut form = Multipart::open(&head.headers, body, app.config.idle_timeout.duration()).await?;
    let announced =
        head.headers.get(axum::http::header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    if announced.is_some_and(|bytes: u64| bytes > MAX_BYTES + FORM_OVERHEAD) {
        return Err(too_large());
    }
    let mut file = None;
    while let Some(part) = form.next_part().await? {
        if part.name != "file" {
            continue;
        }
        refuse_second(file.is_some(), "file")?;
        let mut upload = app.store.recordings().upload(identity.account()).await?.without_hash();
        while let Some(block) = form.chunk().await? {
            if upload.size() + block.len() as u64 > MAX_BYTES {
                return Err(too_large());
            }
            app.metrics.upload_bytes.fetch_add(block.len() as u64, std::sync::atomic::Ordering::Relaxed);
            upload.write(block).await?;
        }
        file = Some(upload);
    }
    let upload = file.filter(|upload| upload.size() > 0);
    let upload =
        upload.ok_or_else(|| Failure::invalid("`file` is missing: send the recording as the form field `file`"))?;
    Ok(Unclaimed::new(&app.store, upload.finish().await?))
}

fn too_large() -> Failure {
    let message = format!(
        "the file is larger than the {} MB in which marks are looked for: send a part of it",
        MAX_BYTES / 1_000_000
    );
    Failure::new(ErrorKind::FileTooLarge, message)
}

/// Looks for the mark in a recording, in flat memory; blocks.
fn search(source: Source, key: &Key, cancel: CancelToken, timeout: Duration) -> Result<WatermarkReport, Failure> {
    let (source, disclosure) = read_disclosure(source);
    let deadline = Instant::now() + timeout;
    let limits = Limits { max_seconds: Some(MAX_SECONDS), ..Limits::default() };
    let options = Options {
        rate: RATE,
        channels: OutputChannels::Mono,
        limits,
        cancel: cancel.clone(),
        deadline: Some(deadline),
        ..Options::default()
    };
    let late = || {
        Failure::new(
            ErrorKind::Timeout,
            format!("the search takes longer than {} s: send a shorter recording", timeout.as_secs()),
        )
    };
    let unreadable = |error| if Instant::now() >= deadline { late() } else { probe::refused(error) };
    let examined = |error: WatermarkError| match error {
        WatermarkError::Cancelled if Instant::now() >= deadline => late(),
        error if error.is_input_fault() => Failure::new(ErrorKind::UnreadableMedia, error.to_string()),
        // Nobody waits for the answer of a cancelled search.
        _ => ErrorKind::Internal.into(),
    };
    let is_over = || cancel.is_cancelled() || Instant::now() >= deadline;
    let mut audio = AudioStream::open(source, &options).map_err(unreadable)?;
    let mut detector = Detector::new(RATE, 1, key).map_err(examined)?;
    let mut block = Vec::new();
    while audio.read(&mut block).map_err(unreadable)? > 0 {
        detector.push(&block, &is_over).map_err(examined)?;
        block.clear();
    }
    Ok(report(detector.finish(&is_over).map_err(examined)?, disclosure))
}

/// What the metadata says of synthetic speech, and the source from its begin. A file that can't be read is refused by the decoder.
fn read_disclosure(source: Source) -> (Source, Option<String>) {
    let (source, tags) = match source {
        Source::Path(path) => {
            let tags = File::open(&path).and_then(|file| Tags::read(BufReader::new(file)));
            (Source::Path(path), tags.ok())
        }
        Source::Seekable(mut reader) => {
            let tags = Tags::read(&mut reader).ok();
            let tags = tags.filter(|_| reader.seek(SeekFrom::Start(0)).is_ok());
            (Source::Seekable(reader), tags)
        }
        source @ Source::Reader(_) => (source, None),
    };
    let comment = tags.and_then(|tags| tags.comment).filter(|comment| discloses(comment));
    (source, comment.map(|comment| comment.chars().take(MAX_COMMENT).collect()))
}

fn report(found: Detection, disclosure: Option<String>) -> WatermarkReport {
    let payload = found.payload.map(|payload| WatermarkPayload {
        version: payload.version,
        issuer: payload.issuer,
        day: DateTime(i64::from(payload.day) * MICROSECONDS_A_DAY).date(),
        request_hash: format!("{:08x}", payload.request),
    });
    let span = |span: &hark_watermark::Span| WatermarkSpan { start: span.start, end: span.end, speed: span.speed };
    WatermarkReport {
        present: found.present,
        payload,
        confidence: found.confidence,
        log10_false_alarm: found.log10_false_alarm,
        spans: found.spans.iter().map(span).collect(),
        disclosure,
    }
}

#[cfg(test)]
mod tests {
    use hark_media::{AudioSpec, SampleWriter as _, WavFormat, WavWriter};

    use super::*;

    fn hum(seconds: usize) -> Source {
        let samples: Vec<f32> = (0..seconds * 8_000).map(|at| (at as f32 * 0.3).sin() * 0.1).collect();
        let spec = AudioSpec { rate: 8_000, channels: 1 };
        let mut wav = WavWriter::new(std::io::Cursor::new(Vec::new()), spec, WavFormat::S16).unwrap();
        wav.write(&samples).unwrap();
        wav.finish().unwrap();
        Source::Seekable(Box::new(wav.into_inner()))
    }

    fn refused(seconds: usize, timeout: Duration) -> (u16, String) {
        let error = search(hum(seconds), &Key::new([7; 32]), CancelToken::default(), timeout).unwrap_err().error;
        (error.status(), error.to_string())
    }

    #[test]
    fn a_search_is_bounded_in_sound_and_in_time() {
        let (status, message) = refused(1300, TIMEOUT);
        assert!(status == 400 && message.contains("1200 s"), "{status} {message}");
        let begun = Instant::now();
        let (status, message) = refused(600, Duration::from_secs(1));
        assert!(status == 504 && message.contains("1 s"), "{status} {message}");
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    }
}
