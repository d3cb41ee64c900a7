//! Encoding in a confined ffmpeg child.
//!
//! The child reads 32-bit floats from a pipe and writes the encoded file to another; it can open nothing (see `hark-sandbox`), and only
//! the `pipe` protocol and one encoder are named to it. A thread of this process passes its output on, so memory stays flat however
//! long the audio is. Rates that a format lacks are resampled here to 48 kHz.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use hark_sandbox::Confinement;

use crate::convert::ChannelResampler;
use crate::ffmpeg;
use crate::report::Reporter;
use crate::resample::RATES;
use crate::watch::Watch;
use crate::{AudioSpec, MediaError, Options, SampleWriter};

/// A file format that ffmpeg encodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputFormat {
    /// FLAC, 16 bits; up to 8 channels. Its header does not tell the length, which a pipe can't go back to write.
    Flac,
    /// MP3; up to 2 channels. The encoder's delay and padding stay in the audio: their place, too, is before the audio.
    Mp3 {
        /// Bits a second, in thousands.
        kbps: u32,
    },
    /// Opus in Ogg; up to 8 channels. Of seven the fourth is the low-frequency channel, which keeps its lowest octaves only.
    Opus {
        /// Bits a second, in thousands.
        kbps: u32,
    },
}

/// A rate that every format has.
const COMMON_RATE: u32 = 48_000;
/// A pipe that polls as writable takes this much without blocking (POSIX's `PIPE_BUF` on Linux).
const PIPE_CHUNK: usize = 4096;
/// How often a wait looks whether it was called off.
const GLANCE: Duration = Duration::from_millis(200);
/// How long ffmpeg's last words are waited for when its output has ended.
const LAST_WORDS: Duration = Duration::from_secs(5);

impl OutputFormat {
    fn has_rate(self, rate: u32) -> bool {
        match self {
            Self::Flac => (8_000..=192_000).contains(&rate) && (rate <= 65_535 || rate.is_multiple_of(10)),
            Self::Mp3 { .. } => [8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000].contains(&rate),
            Self::Opus { .. } => [8_000, 12_000, 16_000, 24_000, 48_000].contains(&rate),
        }
    }

    /// The most channels that the format has.
    pub fn max_channels(self) -> u16 {
        match self {
            Self::Flac | Self::Opus { .. } => 8,
            Self::Mp3 { .. } => 2,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Flac => "FLAC",
            Self::Mp3 { .. } => "MP3",
            Self::Opus { .. } => "Opus",
        }
    }

    /// What chooses the encoder and the container.
    fn arguments(self, channels: u16) -> Vec<String> {
        let bits = |kbps: u32| format!("{kbps}k");
        let list = |arguments: &[&str]| arguments.iter().map(|argument| (*argument).to_owned()).collect();
        match self {
            Self::Flac => list(&["-c:a", "flac", "-sample_fmt", "s16", "-f", "flac"]),
            Self::Mp3 { kbps } => list(&["-c:a", "libmp3lame", "-b:a", &bits(kbps), "-f", "mp3"]),
            Self::Opus { kbps } => {
                // By default ffmpeg (5.1, and its sources since 2012) puts five and seven channels into the file in a wrong order. With family 1 their order is right,
                // but the low-frequency channel keeps its lowest octaves only, so the others stay as they are.
                let family = if matches!(channels, 5 | 7) { "1" } else { "-1" };
                list(&["-c:a", "libopus", "-mapping_family", family, "-b:a", &bits(kbps), "-f", "ogg"])
            }
        }
    }
}

/// The speaker positions of so many channels: those of FLAC, WAV and Vorbis, which libopus demands. ffmpeg's own guess has a low-frequency channel among three,
/// and four in a cross.
fn layout(channels: u16) -> &'static str {
    match channels {
        1 => "mono",
        2 => "stereo",
        3 => "3.0",
        4 => "quad",
        5 => "5.0",
        6 => "5.1",
        7 => "6.1",
        _ => "7.1",
    }
}

/// Writes samples as a compressed file, block by block.
pub struct Encoder {
    child: Child,
    stdin: Option<ChildStdin>,
    /// What became of the output, once the child has closed it.
    output: Receiver<io::Result<()>>,
    /// True while the output waits for whoever takes it, when no progress is no fault of the child's.
    is_output_busy: Arc<AtomicBool>,
    reporter: Reporter,
    spec: AudioSpec,
    resampler: Option<ChannelResampler>,
    resampled: Vec<f32>,
    bytes: Vec<u8>,
    frames: u64,
    watch: Watch,
    stall: Duration,
    is_reaped: bool,
}

impl Encoder {
    /// Whether the program that encodes is there.
    pub fn is_available(options: &Options) -> bool {
        ffmpeg::find(options.ffmpeg.as_deref()).is_some()
    }

    /// Starts an encoder of samples of this rate and channels, whose file goes to `out`. Of the options it heeds the program, the
    /// limits of the child, the tags, the cancel token and the deadline.
    pub fn start(
        spec: AudioSpec,
        format: OutputFormat,
        out: impl Write + Send + 'static,
        options: &Options,
    ) -> Result<Self, MediaError> {
        let AudioSpec { rate, channels } = spec;
        if !RATES.contains(&rate) || channels == 0 || channels > format.max_channels() {
            let (name, most) = (format.name(), format.max_channels());
            let what = format!("{name} of {channels} channels at {rate} Hz; it has 1 to {most} channels");
            return Err(MediaError::Output(what));
        }
        let program = ffmpeg::find(options.ffmpeg.as_deref())
            .ok_or_else(|| MediaError::Output(format!("{} needs ffmpeg, which was not found", format.name())))?;
        let encoded_rate = if format.has_rate(rate) { rate } else { COMMON_RATE };
        let resampler = (encoded_rate != rate).then(|| {
            let to = AudioSpec { rate: encoded_rate, channels };
            ChannelResampler::new(rate, to)
        });
        let mut command = hark_sandbox::command(&program);
        command
            .args(["-hide_banner", "-nostats", "-nostdin", "-loglevel", "warning"])
            // Raw samples need no probing, which would hold the first second back.
            .args(["-protocol_whitelist", "pipe", "-probesize", "32", "-analyzeduration", "0", "-f", "f32le"])
            .args(["-ar", &encoded_rate.to_string(), "-channel_layout", layout(channels)])
            .args(["-threads", "1", "-i", "pipe:0", "-map_metadata", "-1", "-bitexact"])
            .args(format.arguments(channels))
            .args(options.tags.ffmpeg_arguments())
            .args(["-threads", "1", "pipe:1"])
            .env("LC_ALL", "C")
            .env("AV_LOG_FORCE_NOCOLOR", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let limits = &options.limits;
        let confinement = Confinement {
            program: &program,
            input: None,
            readable: &[],
            cpu_seconds: limits.ffmpeg_cpu_seconds,
            memory_bytes: limits.ffmpeg_memory_bytes,
        };
        let mut child = hark_sandbox::spawn(command, &confinement)
            .map_err(|error| io::Error::new(error.kind(), format!("starting {}: {error}", program.display())))?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (sender, output) = channel();
        let is_output_busy = Arc::new(AtomicBool::new(false));
        let mut this = Encoder {
            child,
            stdin,
            output,
            is_output_busy: is_output_busy.clone(),
            reporter: Reporter::default(),
            spec,
            resampler,
            resampled: Vec::new(),
            bytes: Vec::new(),
            frames: 0,
            watch: Watch::new(options),
            stall: limits.ffmpeg_wall,
            is_reaped: false,
        };
        // From here on dropping `this` ends the child.
        let (Some(stdout), Some(stderr)) = (stdout, stderr) else {
            return Err(io::Error::other("ffmpeg has no output").into());
        };
        this.reporter = Reporter::listen(stderr)?;
        std::thread::Builder::new().name("ffmpeg-output".into()).spawn(move || {
            // Whoever started the encoder may have dropped it.
            let _ = sender.send(pass_on(stdout, out, &is_output_busy));
        })?;
        Ok(this)
    }

    /// Hands samples to the child as fast as it takes them.
    fn feed(&mut self, samples: &[f32]) -> Result<(), MediaError> {
        for samples in samples.chunks(PIPE_CHUNK / 4) {
            self.bytes.clear();
            self.bytes.extend(samples.iter().flat_map(|sample| sample.to_le_bytes()));
            let mut since = Instant::now();
            while let Some(stdin) = &mut self.stdin {
                if writable(stdin, GLANCE)? {
                    match stdin.write_all(&self.bytes) {
                        Ok(()) => break,
                        // The child has ended, or its output has.
                        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                            self.stdin = None;
                            return Err(self.complete().err().unwrap_or_else(stopped));
                        }
                        Err(error) => return Err(error.into()),
                    }
                }
                self.check_progress(&mut since)?;
            }
        }
        Ok(())
    }

    fn check_progress(&self, since: &mut Instant) -> Result<(), MediaError> {
        self.watch.check()?;
        if self.is_output_busy.load(Ordering::Relaxed) {
            *since = Instant::now();
        }
        if since.elapsed() > self.stall {
            return Err(MediaError::Limit(format!("the encoder took nothing for {} s", self.stall.as_secs())));
        }
        Ok(())
    }

    /// Waits for the output, then for the child, whose input is closed.
    fn complete(&mut self) -> Result<(), MediaError> {
        let mut since = Instant::now();
        let output = loop {
            match self.output.recv_timeout(GLANCE) {
                Ok(output) => break output,
                Err(RecvTimeoutError::Timeout) => self.check_progress(&mut since)?,
                Err(RecvTimeoutError::Disconnected) => return Err(stopped()),
            }
        };
        output?;
        let status = self.child.wait()?;
        self.is_reaped = true;
        let report = self.reporter.ended(LAST_WORDS);
        report.log();
        if status.success() { Ok(()) } else { Err(stopped()) }
    }
}

fn stopped() -> MediaError {
    MediaError::Output("the encoder gave up".into())
}

impl SampleWriter for Encoder {
    fn write(&mut self, interleaved: &[f32]) -> Result<(), MediaError> {
        self.watch.check()?;
        let channels = usize::from(self.spec.channels);
        if self.stdin.is_none() || !interleaved.len().is_multiple_of(channels) {
            return Err(MediaError::Output("samples that are no whole frames, or come after the end".into()));
        }
        self.frames += (interleaved.len() / channels) as u64;
        match &mut self.resampler {
            None => self.feed(interleaved),
            Some(resampler) => {
                let mut resampled = std::mem::take(&mut self.resampled);
                resampled.clear();
                resampler.push(interleaved, &mut resampled);
                let fed = self.feed(&resampled);
                self.resampled = resampled;
                fed
            }
        }
    }

    fn finish(&mut self) -> Result<u64, MediaError> {
        if self.stdin.is_none() {
            return if self.is_reaped { Ok(self.frames) } else { Err(stopped()) };
        }
        self.watch.check()?;
        if let Some(mut resampler) = self.resampler.take() {
            let mut rest = Vec::new();
            resampler.finish(&mut rest);
            self.feed(&rest)?;
        }
        self.stdin = None;
        self.complete()?;
        Ok(self.frames)
    }
}

impl Drop for Encoder {
    fn drop(&mut self) {
        if !self.is_reaped {
            // SAFETY: a plain system call. The child has not been waited for, so its number is still its own, and it leads the
            // process group of that number.
            unsafe { libc::kill(-(self.child.id() as libc::pid_t), libc::SIGKILL) };
            let _ = self.child.wait();
        }
    }
}

/// Passes the child's output on until it ends.
fn pass_on(mut stdout: impl Read, mut out: impl Write, is_busy: &AtomicBool) -> io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let count = match stdout.read(&mut buffer) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        is_busy.store(true, Ordering::Relaxed);
        let passed = if count == 0 { out.flush() } else { out.write_all(&buffer[..count]) };
        is_busy.store(false, Ordering::Relaxed);
        passed?;
        if count == 0 {
            return Ok(());
        }
    }
}

/// Whether [`PIPE_CHUNK`] bytes can be written without blocking, or a write would fail at once.
fn writable(stream: &impl AsFd, patience: Duration) -> io::Result<bool> {
    let mut poll = libc::pollfd { fd: stream.as_fd().as_raw_fd(), events: libc::POLLOUT, revents: 0 };
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
