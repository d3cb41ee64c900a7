//! Decoding in a confined ffmpeg child.
//!
//! The child gets the source as its standard input, re-opened through `/dev/fd/0` so that files seek, or as a pipe. It may open
//! nothing else: only the `file` (or `pipe`) protocol is allowed, and only demuxers that never open other files. It decodes one
//! track at its own rate and channels to a WAV stream of 32-bit floats; downmix and rate are ours, so that both decoders sound alike.
//! Gaps in the timeline of 0.1 s or more, a late start included, become silence, so that times stay those of the film.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hark_sandbox::Confinement;

use crate::input::{Input, Stream};
use crate::report::{Complaint, Report, Reporter};
use crate::sniff::Container;
use crate::watch::Watch;
use crate::{Block, Decoder, Info, MediaError, Options};

/// Demuxers of single self-contained files. Playlists and scripts (hls, concat, dash, sdp, image sequences…) are not among them.
pub(crate) const DEMUXERS: &str = "aac,ac3,aiff,amr,amrnb,amrwb,ape,asf,asf_o,au,avi,caf,dts,dtshd,dv,eac3,flac,flv,gsm,gxf,live_flv,loas,\
    matroska,mov,mp3,mpc,mpc8,mpeg,mpegts,mpegvideo,mxf,nut,oga,ogg,oma,rm,shn,spx,tak,truehd,tta,voc,w64,wav,webm,wtv,wv,xwma";

/// Bytes taken from the child at once, at most.
const CHUNK: usize = 256 * 1024;
/// How long ffmpeg's last words are waited for when its output has ended.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// A running ffmpeg and what it has given so far.
pub(crate) struct Ffmpeg {
    child: Child,
    stdout: ChildStdout,
    reporter: Reporter,
    /// True while the child waits for a slow source, when no progress is no fault of its.
    starved: Arc<AtomicBool>,
    stall: Duration,
    info: Info,
    mask: Option<u64>,
    /// Bytes of a frame that is not complete yet.
    rest: Vec<u8>,
    buffer: Vec<u8>,
    known_duration: bool,
    watch: Watch,
    ended: Option<Ending>,
}

/// How the child ended.
#[derive(Clone, Default)]
pub(crate) struct Ending {
    /// Set when it did not end well.
    pub(crate) trouble: Option<String>,
    pub(crate) complaint_count: usize,
    pub(crate) complaint: Option<Complaint>,
}

/// The ffmpeg program: the one asked for, or the first on the path.
pub(crate) fn find(asked: Option<&Path>) -> Option<PathBuf> {
    if let Some(path) = asked {
        return path.is_file().then(|| path.to_owned());
    }
    std::env::split_paths(&std::env::var_os("PATH")?).map(|folder| folder.join("ffmpeg")).find(|path| path.is_file())
}

impl Ffmpeg {
    /// Starts `program` on `input` and reads until it says what comes.
    pub(crate) fn open(
        program: &Path,
        input: Input,
        container: Container,
        options: &Options,
    ) -> Result<Self, MediaError> {
        let limits = &options.limits;
        let wanted = options.track.unwrap_or(0);
        let (protocol, url) = match input {
            Input::File(_) => ("file", "file:/dev/fd/0"),
            Input::Stream(_) | Input::Seekable(_) => ("pipe", "pipe:0"),
        };
        let mut command = hark_sandbox::command(program);
        command
            .args(["-hide_banner", "-nostats", "-nostdin", "-loglevel", "info"])
            .args(["-protocol_whitelist", protocol, "-format_whitelist", DEMUXERS])
            .args(["-threads", "1", "-i", url])
            .args(["-map", &format!("0:a:{wanted}"), "-vn", "-sn", "-dn", "-map_metadata", "-1"])
            .args(["-af", "aresample=async=1:min_comp=0.1:first_pts=0"])
            .args(["-c:a", "pcm_f32le", "-threads", "1", "-f", "wav", "pipe:1"])
            .env("LC_ALL", "C")
            .env("AV_LOG_FORCE_NOCOLOR", "1")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let (mut feed, mut readable) = (None, None);
        match input {
            Input::File(file) => {
                let file = rewound(openable_again(file, limits.spool_bytes)?)?;
                readable = Some(file.try_clone()?);
                command.stdin(file);
            }
            Input::Stream(stream) => {
                feed = Some(stream);
                command.stdin(Stdio::piped());
            }
            Input::Seekable(_) => return Err(io::Error::other("a child process reads a file or a pipe").into()),
        }
        let confinement = Confinement {
            program,
            input: readable.as_ref(),
            readable: &[],
            cpu_seconds: limits.ffmpeg_cpu_seconds,
            memory_bytes: limits.ffmpeg_memory_bytes,
        };
        let mut child = hark_sandbox::spawn(command, &confinement)
            .map_err(|error| io::Error::new(error.kind(), format!("starting {}: {error}", program.display())))?;
        let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
            return Err(io::Error::other("ffmpeg has no output").into());
        };
        let stdin = child.stdin.take();
        let starved = Arc::new(AtomicBool::new(false));
        let mut this = Ffmpeg {
            child,
            stdout,
            reporter: Reporter::default(),
            starved: starved.clone(),
            stall: limits.ffmpeg_wall,
            info: Info {
                container: container.name().into(),
                codec: String::new(),
                sample_rate: 0,
                channels: 0,
                duration: None,
                audio_tracks: 0,
                decoder: Decoder::Ffmpeg,
            },
            mask: None,
            rest: Vec::new(),
            buffer: vec![0; CHUNK],
            known_duration: false,
            watch: Watch::new(options),
            ended: None,
        };
        // From here on dropping `this` ends the child.
        this.reporter = Reporter::listen(stderr)?;
        if let (Some(stream), Some(stdin)) = (feed, stdin) {
            stream.accept();
            std::thread::Builder::new()
                .name("ffmpeg-feed".into())
                .spawn(move || feed_child(stream, stdin, &starved))?;
        }
        match this.read_header() {
            Ok(true) => {}
            Ok(false) => return Err(this.why_nothing(container, wanted)),
            Err(error) => return Err(error),
        }
        let report = this.reporter.described(LAST_WORDS);
        if let Some(name) = report.container.filter(|_| container == Container::Unknown) {
            this.info.container = name.into();
        }
        this.info.codec = report.audio.get(wanted).cloned().unwrap_or_default();
        this.info.audio_tracks = report.audio.len();
        let own = report.known_track_duration(wanted);
        this.known_duration = own.is_some();
        this.info.duration = own.or(report.known_duration());
        Ok(this)
    }

    pub(crate) fn info(&self) -> &Info {
        &self.info
    }

    pub(crate) fn knows_duration(&self) -> bool {
        self.known_duration
    }

    /// Sets the length of the track, which its container's index gives.
    pub(crate) fn set_duration(&mut self, seconds: f64) {
        (self.info.duration, self.known_duration) = (Some(seconds), true);
    }

    /// How the child ended, once `next` has said that it has.
    pub(crate) fn ending(&self) -> Ending {
        self.ended.clone().unwrap_or_default()
    }

    /// Replaces `block` with the next one; false at the end.
    pub(crate) fn next(&mut self, block: &mut Block) -> Result<bool, MediaError> {
        let frame = 4 * usize::from(self.info.channels);
        while self.rest.len() < frame {
            if !self.fill()? {
                self.end();
                return Ok(false);
            }
        }
        let whole = self.rest.len() / frame * frame;
        block.rate = self.info.sample_rate;
        block.channels = usize::from(self.info.channels);
        block.mask = self.mask;
        block.samples.clear();
        block.samples.extend(
            self.rest[..whole]
                .chunks_exact(4)
                .map(|bytes| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])),
        );
        self.rest.drain(..whole);
        Ok(true)
    }

    /// Reads the WAV header up to the start of the samples; false when the output ends before that.
    fn read_header(&mut self) -> Result<bool, MediaError> {
        const LONGEST_HEADER: usize = 64 * 1024;
        loop {
            if let Some((format, start)) = parse_header(&self.rest) {
                (self.info.sample_rate, self.info.channels, self.mask) = format;
                self.rest.drain(..start);
                return Ok(true);
            }
            if self.rest.len() > LONGEST_HEADER || !self.fill()? {
                return Ok(false);
            }
        }
    }

    /// Waits for output and takes it in; false at its end.
    fn fill(&mut self) -> Result<bool, MediaError> {
        const GLANCE: Duration = Duration::from_millis(200);
        let mut since = Instant::now();
        while !readable(&self.stdout, GLANCE)? {
            self.watch.check()?;
            if self.starved.load(Ordering::Relaxed) {
                since = Instant::now();
            }
            if since.elapsed() > self.stall {
                return Err(MediaError::Limit(format!("no audio came for {} s", self.stall.as_secs())));
            }
        }
        let count = loop {
            match self.stdout.read(&mut self.buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => break result?,
            }
        };
        self.rest.extend_from_slice(&self.buffer[..count]);
        Ok(count > 0)
    }

    /// Waits for the child, whose output has ended, and notes how it went.
    fn end(&mut self) -> Report {
        let report = self.reporter.ended(LAST_WORDS);
        let trouble = match self.child.wait() {
            Err(error) => Some(error.to_string()),
            Ok(status) if status.success() => None,
            Ok(status) => Some(match status.signal() {
                Some(libc::SIGXCPU | libc::SIGKILL) => "its processor time was used up".into(),
                Some(signal) => format!("signal {signal}"),
                None => {
                    report.complaint().map_or_else(|| "the decoder gave up".into(), |complaint| complaint.to_string())
                }
            }),
        };
        report.log();
        self.ended = Some(Ending { trouble, complaint_count: report.complaint_count, complaint: report.complaint() });
        report
    }

    /// Why the child ended without a single sample.
    fn why_nothing(&mut self, container: Container, track: usize) -> MediaError {
        let report = self.end();
        let name = match (container, report.container) {
            (Container::Unknown, Some(name)) => name,
            (container, _) => container.name(),
        };
        let complaint = report.complaint();
        if complaint == Some(Complaint::OutOfMemory) {
            return MediaError::Limit("it asked for more memory than allowed".into());
        }
        if self.child.wait().is_ok_and(|status| status.signal() == Some(libc::SIGXCPU)) {
            return MediaError::Limit("its processor time was used up".into());
        }
        let container_name = name.to_owned();
        let reason = complaint.unwrap_or(Complaint::Damaged).to_string();
        match (report.streams, report.audio.len()) {
            (0, _) if container == Container::Unknown => MediaError::Unrecognized(Complaint::UnknownFormat.to_string()),
            (0, _) => MediaError::Decode { container: container_name, reason },
            (_, 0) => MediaError::NoAudio { container: container_name },
            (_, tracks) if track >= tracks => MediaError::NoSuchTrack { track, tracks },
            _ => MediaError::Decode { container: container_name, reason },
        }
    }
}

impl Drop for Ffmpeg {
    fn drop(&mut self) {
        if self.ended.is_none() {
            // SAFETY: a plain system call. The child has not been waited for, so its number is still its own, and it leads the
            // process group of that number.
            unsafe { libc::kill(-(self.child.id() as libc::pid_t), libc::SIGKILL) };
            let _ = self.child.wait();
        }
    }
}

fn rewound(mut file: File) -> io::Result<File> {
    io::Seek::rewind(&mut file)?;
    Ok(file)
}

/// The file, or a copy of it where the child could not open it again: a child of root has none of root's rights over files of
/// other users.
fn openable_again(mut file: File, limit: u64) -> Result<File, MediaError> {
    let metadata = file.metadata()?;
    let is_open_to_all = metadata.mode() & 0o004 != 0;
    // SAFETY: a plain system call that can't fail.
    let user = unsafe { libc::geteuid() };
    if !cfg!(target_os = "linux") || user != 0 || metadata.uid() == user || is_open_to_all {
        return Ok(file);
    }
    if metadata.len() > limit {
        return Err(MediaError::Limit(format!("the file is longer than the {limit} bytes that may be spooled")));
    }
    let mut copy = tempfile::tempfile()?;
    io::Seek::rewind(&mut file)?;
    io::copy(&mut file, &mut copy)?;
    Ok(copy)
}

/// Hands the stream to the child until either ends.
fn feed_child(mut stream: Stream, mut stdin: impl Write, starved: &AtomicBool) {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        starved.store(true, Ordering::Relaxed);
        let count = match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => {
                tracing::warn!(%error, "media.source_failed");
                break;
            }
        };
        starved.store(false, Ordering::Relaxed);
        if stdin.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    starved.store(false, Ordering::Relaxed);
}

/// Whether a read will not block, waiting for at most `patience`.
fn readable(stream: &impl AsFd, patience: Duration) -> io::Result<bool> {
    let mut poll = libc::pollfd { fd: stream.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one live pollfd is passed, with its count of one.
    match unsafe { libc::poll(&mut poll, 1, patience.as_millis() as libc::c_int) } {
        0 => Ok(false),
        count if count > 0 => Ok(true),
        _ => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => Ok(false),
            error => Err(error),
        },
    }
}

type Format = (u32, u16, Option<u64>);

/// Rate, channels and speaker mask from a WAV header, with where its samples start; None while it is incomplete.
fn parse_header(bytes: &[u8]) -> Option<(Format, usize)> {
    let mut at = 12;
    let mut format = None;
    loop {
        let header = bytes.get(at..at + 8)?;
        let size = u32::from_le_bytes(header[4..].try_into().ok()?) as usize;
        at += 8;
        match &header[..4] {
            b"data" => return format.map(|format| (format, at)),
            b"fmt " => {
                let body = bytes.get(at..at.checked_add(size)?)?;
                let channels = u16::from_le_bytes(body.get(2..4)?.try_into().ok()?);
                let rate = u32::from_le_bytes(body.get(4..8)?.try_into().ok()?);
                let mask = body
                    .get(20..24)
                    .and_then(|mask| Some(u64::from(u32::from_le_bytes(mask.try_into().ok()?))))
                    .filter(|&mask| mask != 0);
                format = (channels > 0).then_some((rate, channels, mask));
            }
            _ => {}
        }
        at = at.checked_add(size + size % 2)?;
    }
}
