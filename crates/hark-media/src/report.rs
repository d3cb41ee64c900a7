//! What ffmpeg says on its error output: the streams it found, and its complaints. Read as it comes, kept within bounds.
//!
//! The child reads what strangers send, so nothing it says is passed on: names are taken from lists of ours, complaints become a
//! [`Complaint`]. Its own words go to the log.

use std::fmt;
use std::io::{BufRead, BufReader, Read};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::ffmpeg::DEMUXERS;

/// Lines kept for the log; the rest is only counted.
const KEPT_LINES: usize = 8;
const LONGEST_LINE: u64 = 2000;
/// The longest name of a codec.
const LONGEST_NAME: usize = 24;

/// What is wrong with a file, as far as ffmpeg's words tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Complaint {
    /// No demuxer that may be used knows it.
    UnknownFormat,
    /// It ends before its content does.
    Truncated,
    /// There is no decoder for its audio.
    UnsupportedCodec,
    /// Its content is locked.
    Encrypted,
    /// The child asked for more memory than it may have.
    OutOfMemory,
    /// Something else in it is broken.
    Damaged,
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Complaint::UnknownFormat => "its content is of no known format",
            Complaint::Truncated => "it is cut off: its end or its index is missing",
            Complaint::UnsupportedCodec => "its audio codec is not supported",
            Complaint::Encrypted => "it is encrypted",
            Complaint::OutOfMemory => "decoding it takes more memory than allowed",
            Complaint::Damaged => "its content is damaged",
        })
    }
}

impl Complaint {
    /// What a line complains about, if it does.
    fn of(line: &str) -> Option<Self> {
        let line = line.to_ascii_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| line.contains(word));
        if has(&["cannot allocate"]) {
            return Some(Complaint::OutOfMemory);
        }
        if has(&["moov atom not found", "partial file", "truncat", "end of file", "ended prematurely"]) {
            return Some(Complaint::Truncated);
        }
        if has(&["no decoder found", "unknown decoder", "unsupported codec", "decoder not found", "codec not found"]) {
            return Some(Complaint::UnsupportedCodec);
        }
        if has(&["encrypt", "drm"]) {
            return Some(Complaint::Encrypted);
        }
        if has(&["whitelist", "unknown format", "could not find tag"]) {
            return Some(Complaint::UnknownFormat);
        }
        has(&["error", "invalid", "fail", "corrupt", "not found", "matches no streams"]).then_some(Complaint::Damaged)
    }
}

/// What has been said so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    pub(crate) container: Option<&'static str>,
    pub(crate) duration: Option<f64>,
    /// The codec of each audio stream.
    pub(crate) audio: Vec<String>,
    /// The length of each audio stream, where its own tags give one.
    audio_seconds: Vec<Option<f64>>,
    /// Whether the stream that is being described is audio.
    is_in_audio: bool,
    pub(crate) streams: usize,
    pub(crate) complaint_count: usize,
    first_complaint: Option<Complaint>,
    out_of_memory: bool,
    /// Complaints in ffmpeg's words, for the log alone.
    lines: Vec<String>,
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
        let writer = reporter.clone();
        std::thread::Builder::new().name("ffmpeg-report".into()).spawn(move || {
            let mut reader = BufReader::new(stderr);
            let mut line = Vec::new();
            loop {
                line.clear();
                match (&mut reader).take(LONGEST_LINE).read_until(b'\n', &mut line) {
                    Ok(0) | Err(_) => break,
                    Ok(_) => writer.update(|report| report.parse_line(&String::from_utf8_lossy(&line))),
                }
            }
            writer.update(|report| report.ended = true);
        })?;
        Ok(reporter)
    }

    fn update(&self, change: impl FnOnce(&mut Report)) {
        change(&mut self.0.0.lock().unwrap_or_else(PoisonError::into_inner));
        self.0.1.notify_all();
    }

    /// The report once the input is described, or as it stands after `timeout`.
    pub(crate) fn described(&self, timeout: Duration) -> Report {
        self.wait(timeout, |report| report.described || report.ended)
    }

    /// The report once ffmpeg has said its last, or as it stands after `timeout`.
    pub(crate) fn ended(&self, timeout: Duration) -> Report {
        self.wait(timeout, |report| report.ended)
    }

    fn wait(&self, timeout: Duration, done: impl Fn(&Report) -> bool) -> Report {
        let report = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (report, _) = self
            .0
            .1
            .wait_timeout_while(report, timeout, |report| !done(report))
            .unwrap_or_else(PoisonError::into_inner);
        report.clone()
    }
}

impl Report {
    fn parse_line(&mut self, line: &str) {
        let line = line.trim_end();
        let text = line.trim_start();
        if !self.described {
            if let Some(names) = line.strip_prefix("Input #0, ") {
                self.container = names.split(", from").next().and_then(container_name);
                return;
            }
            if let Some(rest) = text.strip_prefix("Duration: ") {
                self.duration = self.duration.or_else(|| seconds(rest.split(',').next()?));
                return;
            }
            if text.starts_with("Stream #0:") {
                self.streams += 1;
                let audio = text.split_once(": Audio: ");
                self.is_in_audio = audio.is_some();
                if let Some((_, audio)) = audio {
                    let codec = audio.split([' ', ',']).next().unwrap_or_default();
                    self.audio.push(codec_name(codec));
                    self.audio_seconds.push(None);
                }
                return;
            }
            if let Some(("DURATION", clock)) = text.split_once(':').map(|(name, value)| (name.trim(), value)) {
                if let Some(last) = self.audio_seconds.last_mut().filter(|_| self.is_in_audio) {
                    *last = seconds(clock);
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
        if let Some(complaint) = Complaint::of(text) {
            self.complaint_count += 1;
            self.out_of_memory |= complaint == Complaint::OutOfMemory;
            self.first_complaint.get_or_insert(complaint);
            if self.lines.len() < KEPT_LINES {
                self.lines.push(without_address(text).to_owned());
            }
        }
    }

    /// The length the container gives; None when ffmpeg only guessed it.
    pub(crate) fn known_duration(&self) -> Option<f64> {
        self.duration.filter(|duration| duration.is_finite())
    }

    /// The length of an audio stream: its own where its tags give one, else that of the container if it holds nothing else. The
    /// length of a film is that of its picture, which the sound need not reach.
    pub(crate) fn known_track_duration(&self, track: usize) -> Option<f64> {
        let own = self.audio_seconds.get(track).copied().flatten();
        own.or_else(|| self.known_duration().filter(|_| self.streams == 1))
    }

    /// What was wrong first: later complaints often follow from it.
    pub(crate) fn complaint(&self) -> Option<Complaint> {
        if self.out_of_memory { Some(Complaint::OutOfMemory) } else { self.first_complaint }
    }

    /// Writes ffmpeg's own words to the log, beside the request or job that the caller's span names.
    pub(crate) fn log(&self) {
        if !self.lines.is_empty() {
            tracing::debug!(complaints = self.complaint_count, lines = ?self.lines, "ffmpeg.stderr");
        }
    }
}

/// `[aac @ 0x55d0c8a0] reserved bit set` without its address, which means nothing to a reader.
fn without_address(text: &str) -> &str {
    text.strip_prefix('[').and_then(|rest| rest.split_once("] ")).map_or(text, |(_, message)| message)
}

/// The container by our name for it; none that is not in the list of demuxers.
fn container_name(names: &str) -> Option<&'static str> {
    match names {
        names if names.starts_with("mov,mp4") => Some("mp4"),
        names if names.starts_with("matroska") => Some("matroska"),
        names => {
            let first = names.split(',').next()?;
            DEMUXERS.split(',').find(|&known| known == first)
        }
    }
}

/// A codec's name as far as it looks like one.
fn codec_name(said: &str) -> String {
    said.chars().take_while(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || *c == '_').take(LONGEST_NAME).collect()
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
            report.parse_line(line);
        }
        assert_eq!(report.container, Some("matroska"));
        assert_eq!(report.known_duration(), Some(3723.5));
        assert_eq!(report.audio, ["opus", "aac"]);
        assert_eq!(report.streams, 3);
        assert_eq!(report.lines, ["Error parsing the packet header."]);
        assert_eq!(report.complaint(), Some(Complaint::Damaged));
    }

    #[test]
    fn the_length_of_a_track_is_its_own_and_not_that_of_the_picture() {
        let described = |lines: &[&str]| {
            let mut report = Report::default();
            lines.iter().for_each(|line| report.parse_line(line));
            report
        };
        let film = [
            "  Duration: 00:01:00.01, start: -0.002000, bitrate: 15 kb/s",
            "  Stream #0:0: Audio: opus, 48000 Hz, mono, fltp",
            "      DURATION        : 00:00:09.083000000",
            "  Stream #0:1: Video: h264 (High), yuv420p(tv, progressive), 64x64, 10 fps, 10 tbr, 1k tbn",
            "      DURATION        : 00:01:00.007000000",
        ];
        assert_eq!(described(&film).known_track_duration(0), Some(9.083));
        assert_eq!(described(&film).known_duration(), Some(60.01));
        let untagged: Vec<&str> = film.into_iter().filter(|line| !line.contains("DURATION")).collect();
        assert_eq!(described(&untagged).known_track_duration(0), None);
        assert_eq!(described(&untagged[..2]).known_track_duration(0), Some(60.01));
    }

    #[test]
    fn what_ffmpeg_says_becomes_words_of_ours() {
        let kinds = [
            ("[hls @ 0x1] Format not on whitelist 'aac'", Some(Complaint::UnknownFormat)),
            ("[mov,mp4,m4a @ 0x1] moov atom not found", Some(Complaint::Truncated)),
            ("file:/dev/fd/0: Invalid data found when processing input", Some(Complaint::Damaged)),
            ("Decoding requested, but no decoder found for: none", Some(Complaint::UnsupportedCodec)),
            ("[out @ 0x1] Cannot allocate memory", Some(Complaint::OutOfMemory)),
            ("size=    1kB time=00:00:01.00 bitrate=", None),
        ];
        for (line, kind) in kinds {
            let mut report = Report::default();
            report.parse_line(line);
            assert_eq!(report.complaint(), kind, "{line}");
        }
        let mut report = Report::default();
        report.parse_line("Input #0, root:x:0:0:/etc/passwd, from 'file:/dev/fd/0':");
        report.parse_line("  Stream #0:0: Audio: HARK_MASTER_KEY=secret, 1 Hz");
        assert_eq!((report.container, report.audio.as_slice()), (None, &[String::new()][..]), "a name is no message");
    }
}
