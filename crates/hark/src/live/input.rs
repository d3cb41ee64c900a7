//! Audio input: a thread that reads a recording program (microphone), a pipe or a file.

use std::io::{self, Cursor, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError, sync_channel};

use hark_media::{AudioStream, SAMPLE_RATE, Source};

use crate::CliError;
use crate::cli::LiveArgs;

/// Blocks that are read ahead.
const AHEAD: usize = 16;
/// Bytes read at once, at most: a quarter of a second.
const BLOCK: usize = SAMPLE_RATE as usize / 2;

/// Programs that write what the microphone hears to stdout: ALSA's, then PipeWire's.
const RECORDERS: [(&str, &[&str], &str); 2] = [
    ("arecord", &["-q", "-t", "raw", "-f", "S16_LE", "-r", "16000", "-c", "1"], "-D"),
    ("pw-record", &["--rate", "16000", "--channels", "1", "--format", "s16", "-"], "--target"),
];

/// A source of audio.
pub(crate) struct AudioInput {
    name: String,
    sound: Receiver<Result<Vec<f32>, String>>,
    recorder: Option<Child>,
}

/// What the input has at the moment.
pub(crate) enum AudioBlock {
    Samples(Vec<f32>),
    Pending,
    End,
    Failed(String),
}

impl AudioInput {
    /// Starts reading; `wake` gets a message whenever there is a new block.
    pub(crate) fn open(args: &LiveArgs, wake: Sender<()>) -> Result<Self, CliError> {
        let (sender, sound) = sync_channel(AHEAD);
        let (name, reader, recorder): (String, Box<dyn Read + Send + Sync>, _) = match &args.source {
            None => {
                let (name, mut child) = record(args)?;
                let Some(stdout) = child.stdout.take() else {
                    return Err(CliError::Failed(format!("{name} has no output")));
                };
                (name, Box::new(stdout), Some(child))
            }
            Some(path) if path == Path::new("-") => ("stdin".to_owned(), Box::new(io::stdin()), None),
            Some(path) => {
                let file = std::fs::File::open(path)
                    .map_err(|error| CliError::Failed(format!("can't open {}: {error}", path.display())))?;
                (path.display().to_string(), Box::new(file), None)
            }
        };
        let rate = if recorder.is_some() { SAMPLE_RATE } else { args.rate };
        std::thread::spawn(move || {
            let ended = read(reader, rate, &sender, &wake);
            if let Err(problem) = ended {
                // The receiver may be gone.
                let _ = sender.send(Err(problem));
            }
            drop(sender);
            let _ = wake.send(());
        });
        Ok(AudioInput { name, sound, recorder })
    }

    /// What the user knows the source as.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The next block, without waiting for it.
    pub(crate) fn try_next(&self) -> AudioBlock {
        match self.sound.try_recv() {
            Ok(Ok(samples)) => AudioBlock::Samples(samples),
            Ok(Err(problem)) => AudioBlock::Failed(format!("{}: {problem}", self.name)),
            Err(TryRecvError::Empty) => AudioBlock::Pending,
            Err(TryRecvError::Disconnected) => AudioBlock::End,
        }
    }
}

impl Drop for AudioInput {
    fn drop(&mut self) {
        if let Some(recorder) = &mut self.recorder {
            let _ = recorder.kill();
            let _ = recorder.wait();
        }
    }
}

/// Starts the first recorder that there is.
fn record(args: &LiveArgs) -> Result<(String, Child), CliError> {
    for (program, options, device) in RECORDERS {
        let mut command = Command::new(program);
        if let Some(name) = &args.device {
            command.args([device, name]);
        }
        match command.args(options).stdin(Stdio::null()).stdout(Stdio::piped()).spawn() {
            Ok(child) => return Ok((format!("the microphone ({program})"), child)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(CliError::Failed(format!("can't start {program}: {error}"))),
        }
    }
    Err(CliError::Failed(
        "no program records from a microphone here: install arecord (alsa-utils) or pw-record (pipewire), or pipe sound into `hark live -`"
            .to_owned(),
    ))
}

/// Reads to the end: input with a known file header is decoded, everything else is raw samples.
fn read(
    mut reader: Box<dyn Read + Send + Sync>,
    rate: u32,
    sender: &SyncSender<Result<Vec<f32>, String>>,
    wake: &Sender<()>,
) -> Result<(), String> {
    let mut head = [0u8; 4];
    let mut length = 0;
    while length < head.len() {
        match reader.read(&mut head[length..]).map_err(|error| error.to_string())? {
            0 => break,
            count => length += count,
        }
    }
    let head = head[..length].to_vec();
    let is_recording =
        [&b"RIFF"[..], b"OggS", b"fLaC", b"ID3", b"\x1aE\xdf\xa3"].iter().any(|magic| head.starts_with(magic));
    let whole = Cursor::new(head).chain(reader);
    if is_recording {
        return decode(Box::new(whole), sender, wake);
    }
    if rate != SAMPLE_RATE {
        return decode(Box::new(Cursor::new(endless_wav(rate)).chain(whole)), sender, wake);
    }
    read_raw(whole, sender, wake)
}

fn read_raw(
    mut reader: impl Read,
    sender: &SyncSender<Result<Vec<f32>, String>>,
    wake: &Sender<()>,
) -> Result<(), String> {
    let mut block = [0u8; BLOCK];
    let mut kept = 0;
    loop {
        let count = match reader.read(&mut block[kept..]) {
            Ok(0) => return Ok(()),
            Ok(count) => kept + count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error.to_string()),
        };
        let samples = block[..count / 2 * 2].chunks_exact(2);
        let samples = samples.map(|pair| f32::from(i16::from_le_bytes([pair[0], pair[1]])) / 32_768.0).collect();
        // A read may end within a sample.
        kept = count % 2;
        block[0] = block[count - 1];
        if !pass(samples, sender, wake) {
            return Ok(());
        }
    }
}

fn decode(
    reader: Box<dyn Read + Send + Sync>,
    sender: &SyncSender<Result<Vec<f32>, String>>,
    wake: &Sender<()>,
) -> Result<(), String> {
    let options = hark_media::Options::default();
    let mut stream = AudioStream::open(Source::Reader(reader), &options).map_err(|error| error.to_string())?;
    loop {
        let mut samples = Vec::new();
        if stream.read(&mut samples).map_err(|error| error.to_string())? == 0 {
            return Ok(());
        }
        if !pass(samples, sender, wake) {
            return Ok(());
        }
    }
}

/// Passes samples on; false when the receiver is gone.
fn pass(samples: Vec<f32>, sender: &SyncSender<Result<Vec<f32>, String>>, wake: &Sender<()>) -> bool {
    sender.send(Ok(samples)).is_ok() && wake.send(()).is_ok()
}

/// The head of a WAV file of 16-bit samples, one channel, that does not know its length.
fn endless_wav(rate: u32) -> Vec<u8> {
    let mut head = Vec::with_capacity(44);
    head.extend(b"RIFF\xff\xff\xff\xffWAVEfmt \x10\0\0\0\x01\0\x01\0");
    head.extend(rate.to_le_bytes());
    head.extend((rate * 2).to_le_bytes());
    head.extend(b"\x02\0\x10\0data\xff\xff\xff\xff");
    head
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    /// Returns one byte at a time, as a slow pipe may.
    struct OneByteReads(Cursor<Vec<u8>>);

    impl Read for OneByteReads {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let most = buffer.len().min(1);
            self.0.read(&mut buffer[..most])
        }
    }

    fn samples_of(bytes: Vec<u8>, rate: u32, one_byte_reads: bool) -> Vec<f32> {
        let (sender, receiver) = sync_channel(100_000);
        let (wake, _wakeups) = channel();
        let cursor = Cursor::new(bytes);
        let reader: Box<dyn Read + Send + Sync> =
            if one_byte_reads { Box::new(OneByteReads(cursor)) } else { Box::new(cursor) };
        read(reader, rate, &sender, &wake).unwrap();
        drop(sender);
        receiver.into_iter().flat_map(|block| block.unwrap()).collect()
    }

    fn wave(rate: u32) -> Vec<u8> {
        let samples =
            (0..rate).map(|n| (f64::from(n) / f64::from(rate) * 440.0 * std::f64::consts::TAU).sin() * 9000.0);
        samples.flat_map(|sample| (sample as i16).to_le_bytes()).collect()
    }

    #[test]
    fn bare_samples_are_the_same_however_the_pipe_cuts_them() {
        let whole = samples_of(wave(16_000), 16_000, false);
        assert_eq!(whole.len(), 16_000);
        assert_eq!(samples_of(wave(16_000), 16_000, true), whole);
    }

    #[test]
    fn another_rate_and_a_header_are_understood() {
        for rate in [8_000, 44_100] {
            let bare = samples_of(wave(rate), rate, false);
            assert!((15_800..=16_200).contains(&bare.len()), "{} samples of a second at {rate} Hz", bare.len());
            let mut with_header = endless_wav(rate);
            with_header.extend(wave(rate));
            assert_eq!(samples_of(with_header, 16_000, false).len(), bare.len());
        }
    }
}
