//! How long a recording is, before it is paid for.

use hark_api::ErrorKind;
use hark_media::{AudioStream, MediaError, Options, SAMPLE_RATE, Source};

use crate::error::Failure;

/// Seconds of audio: what the container says, else counted; blocks.
pub(crate) fn duration(source: Source) -> Result<f64, Failure> {
    let mut stream = AudioStream::open(source, &Options::default()).map_err(refused)?;
    if let Some(duration) = stream.info().duration.filter(|duration| duration.is_finite() && *duration > 0.0) {
        return Ok(duration);
    }
    // Recorders that write as they go leave the length out: the samples are counted.
    let (mut block, mut samples) = (Vec::new(), 0u64);
    loop {
        block.clear();
        match stream.read(&mut block).map_err(refused)? {
            0 => break,
            count => samples += count as u64,
        }
    }
    if samples == 0 {
        return Err(Failure::new(ErrorKind::UnreadableMedia, "the file holds no sound"));
    }
    Ok(samples as f64 / f64::from(SAMPLE_RATE))
}

/// Minutes that a recording costs: rounded up, one at least (contract: credits).
pub(crate) fn minutes(seconds: f64) -> i64 {
    // A container's rounding must not cost a minute: 60.01 s is a minute.
    (((seconds - 0.05) / 60.0).ceil() as i64).max(1)
}

fn refused(error: MediaError) -> Failure {
    match error {
        MediaError::Io(_) => {
            tracing::error!(%error, "an upload can't be read back");
            ErrorKind::Internal.into()
        }
        MediaError::FfmpegMissing { .. } => {
            tracing::error!(%error, "an upload can't be read");
            Failure::new(ErrorKind::ModelMissing, "this server can't read that format: ffmpeg is not installed on it")
        }
        other => Failure::new(ErrorKind::UnreadableMedia, other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_begun_minute_is_a_minute() {
        let all = [0.0, 0.3, 59.9, 60.0, 60.02, 61.0, 3600.0, 3601.0].map(minutes);
        assert_eq!(all, [1, 1, 1, 1, 1, 2, 60, 61]);
    }

    #[test]
    fn a_file_without_its_length_is_counted() {
        let mut wav = Vec::new();
        hark_media::write_wav(&mut wav, &vec![0.1; 24_000], SAMPLE_RATE).unwrap();
        let seconds = duration(Source::Reader(Box::new(std::io::Cursor::new(wav)))).ok().unwrap();
        assert!((seconds - 1.5).abs() < 0.01, "{seconds}");
    }

    #[test]
    fn what_is_no_recording_is_the_senders_fault() {
        for bytes in [&b""[..], b"just words", &[0u8; 4096]] {
            let failure = duration(Source::Reader(Box::new(std::io::Cursor::new(bytes)))).unwrap_err();
            assert_eq!(failure.error.status(), 400, "{}", failure.error);
        }
    }
}
