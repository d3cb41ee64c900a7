//! What ffmpeg says on its error output: the streams it found, and its complaints. Read as it comes, kept within bounds.

use std::io::{BufRead, BufReader, Read};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Lines kept of complaints; the rest is only counted.
const KEPT_COMPLAINTS: usize = 8;
const LONGEST_LINE: u64 = 2000;

/// What has been said so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    pub(crate) container: Option<String>,
    pub(crate) duration: Option<f64>,
    /// The codec of each audio stream.
    pub(crate) audio: Vec<String>,
    pub(crate) streams: usize,
    pub(crate) complaints: Vec<String>,
    pub(crate) complaint_count: usize,
    /// The description of the input is complete.
    described: bool,
    ended: bool,
}

/// A report that a thread fills while others look.
#[derive(Clone, Default)]
pub(crate) struct Reporter(Arc<(Mutex<Report>, Condvar)>);

impl Reporter {
    /// Reads all of ffmpeg's error output on a thread of its own.
    pub(crate) fn listen(stderr: impl Read + Send + 'static) -> std::io::Result<Self> {
        let reporter = Reporter::default();
        let ears = reporter.clone();
        std::thread::Builder::new().name("ffmpeg-report".into()).spawn(move || {
            let mut reader = BufReader::new(stderr);
            let mut line = Vec::new();
            loop {
                line.clear();
                match (&mut reader).take(LONGEST_LINE).read_until(b'\n', &mut line) {
                    Ok(0) | Err(_) => break,
                    Ok(_) => ears.tell(|report| report.hear(&String::from_utf8_lossy(&line))),
                }
            }
            ears.tell(|report| report.ended = true);
        })?;
        Ok(reporter)
    }

    fn tell(&self, change: impl FnOnce(&mut Report)) {
        change(&mut self.0.0.lock().unwrap_or_else(PoisonError::into_inner));
        self.0.1.notify_all();
    }

    /// The report once the input is described, or as it stands after `patience`.
    pub(crate) fn described(&self, patience: Duration) -> Report {
        self.wait(patience, |report| report.described || report.ended)
    }

    /// The report once ffmpeg has said its last, or as it stands after `patience`.
    pub(crate) fn ended(&self, patience: Duration) -> Report {
        self.wait(patience, |report| report.ended)
    }

    fn wait(&self, patience: Duration, done: impl Fn(&Report) -> bool) -> Report {
        let report = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (report, _) = self
            .0
            .1
            .wait_timeout_while(report, patience, |report| !done(report))
            .unwrap_or_else(PoisonError::into_inner);
        report.clone()
    }
}

impl Report {
    fn hear(&mut self, line: &str) {
        let line = line.trim_end();
        let text = line.trim_start();
        if !self.described {
            if let Some(names) = line.strip_prefix("Input #0, ") {
                self.container = names.split(", from").next().map(container_name);
                return;
            }
            if let Some(rest) = text.strip_prefix("Duration: ") {
                self.duration = self.duration.or_else(|| seconds(rest.split(',').next()?));
                return;
            }
            if text.starts_with("Stream #0:") {
                self.streams += 1;
                if let Some((_, audio)) = text.split_once(": Audio: ") {
                    let codec = audio.split([' ', ',']).next().unwrap_or_default();
                    self.audio.push(codec.to_owned());
                }
                return;
            }
            if line.starts_with("Stream mapping:") || line.starts_with("Output #0") {
                self.described = true;
                return;
            }
        }
        if text.contains("Estimating duration from bitrate") {
            self.duration = Some(f64::NAN);
            return;
        }
        let small = text.to_ascii_lowercase();
        let complains =
            ["error", "invalid", "fail", "truncat", "corrupt", "not found", "matches no streams", "whitelist"];
        let complains = complains.iter().any(|word| small.contains(word));
        if complains || small.contains("cannot allocate") || small.contains("partial file") {
            self.complaint_count += 1;
            if self.complaints.len() < KEPT_COMPLAINTS {
                self.complaints.push(without_address(text).to_owned());
            }
        }
    }

    /// The length the container gives; None when ffmpeg only guessed it.
    pub(crate) fn known_duration(&self) -> Option<f64> {
        self.duration.filter(|duration| duration.is_finite())
    }

    /// The most telling complaint: the last of those kept says why nothing came, the first ones what was wrong inside.
    pub(crate) fn complaint(&self) -> String {
        self.complaints.first().cloned().unwrap_or_else(|| "no reason given".into())
    }
}

/// `[aac @ 0x55d0c8a0] reserved bit set` without its address, which means nothing to a reader.
fn without_address(text: &str) -> &str {
    text.strip_prefix('[').and_then(|rest| rest.split_once("] ")).map_or(text, |(_, message)| message)
}

fn container_name(names: &str) -> String {
    match names {
        names if names.starts_with("mov,mp4") => "mp4".into(),
        names if names.starts_with("matroska") => "matroska".into(),
        names => names.split(',').next().unwrap_or(names).to_owned(),
    }
}

fn seconds(clock: &str) -> Option<f64> {
    let mut seconds = 0.0;
    for part in clock.trim().split(':') {
        seconds = seconds * 60.0 + part.parse::<f64>().ok()?;
    }
    Some(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_and_duration_are_read_from_the_description() {
        let mut report = Report::default();
        for line in [
            "Input #0, matroska,webm, from 'file:/dev/fd/0':",
            "  Duration: 01:02:03.50, start: -0.007000, bitrate: 253 kb/s",
            "  Stream #0:0(eng): Video: vp8, yuv420p(progressive), 160x120, 25 fps (default)",
            "  Stream #0:1(eng): Audio: opus, 48000 Hz, stereo, fltp (default)",
            "  Stream #0:2[0x2](fra): Audio: aac (LC) (mp4a / 0x6134706D), 44100 Hz, stereo, fltp",
            "Stream mapping:",
            "  Stream #0:1 -> #0:0 (opus (native) -> pcm_f32le (native))",
            "  Stream #0:0: Audio: pcm_f32le, 48000 Hz, stereo, flt, 3072 kb/s",
            "[opus @ 0x5581] Error parsing the packet header.",
        ] {
            report.hear(line);
        }
        assert_eq!(report.container.as_deref(), Some("matroska"));
        assert_eq!(report.known_duration(), Some(3723.5));
        assert_eq!(report.audio, ["opus", "aac"]);
        assert_eq!(report.streams, 3);
        assert_eq!(report.complaints, ["Error parsing the packet header."]);
    }
}
