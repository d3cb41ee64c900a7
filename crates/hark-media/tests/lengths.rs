//! Files that lie about their length: what was decoded is what counts.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use hark_media::{AudioStream, Budget, LengthBudget, MediaError, Options, SAMPLE_RATE, Source};

/// Seconds of every test sound, and what its header is made to say.
const SECONDS: f64 = 60.0;
const CLAIMED: f64 = 1.0;

fn folder() -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("lengths");
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// A file of this name that no other test writes.
fn own_file(name: &str) -> PathBuf {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    folder().join(format!("{}-{name}", COUNT.fetch_add(1, Ordering::Relaxed)))
}

fn make(name: &str, args: &[&str]) -> PathBuf {
    let path = own_file(name);
    let sound = format!("sine=f=300:r=16000:d={SECONDS}");
    let made = Command::new("ffmpeg")
        .args(["-hide_banner", "-loglevel", "error", "-nostdin", "-y", "-f", "lavfi", "-i", &sound])
        .args(args)
        .arg(&path)
        .status()
        .expect("these tests need ffmpeg: install it with `apt install ffmpeg`");
    assert!(made.success(), "ffmpeg could not make {name}");
    path
}

/// Changes a file's bytes.
fn forge(path: PathBuf, change: impl FnOnce(&mut Vec<u8>)) -> PathBuf {
    let mut bytes = std::fs::read(&path).unwrap();
    change(&mut bytes);
    std::fs::write(&path, bytes).unwrap();
    path
}

fn find(bytes: &[u8], what: &[u8]) -> usize {
    bytes.windows(what.len()).position(|window| window == what).unwrap_or_else(|| panic!("no {what:?}"))
}

/// An MP3 whose Xing header counts the frames of one second.
fn mp3() -> PathBuf {
    forge(make("xing.mp3", &["-c:a", "libmp3lame", "-b:a", "16k"]), |bytes| {
        let tag = bytes.windows(4).position(|tag| tag == b"Xing" || tag == b"Info").expect("a Xing header");
        assert_eq!(bytes[tag + 7] & 3, 3, "counts of frames and bytes");
        let frames = (CLAIMED * 16_000.0 / 576.0) as u32;
        bytes[tag + 8..tag + 12].copy_from_slice(&frames.to_be_bytes());
        bytes[tag + 12..tag + 16].copy_from_slice(&2_000u32.to_be_bytes());
    })
}

/// A FLAC whose STREAMINFO counts the samples of one second.
fn flac() -> PathBuf {
    forge(make("total.flac", &["-c:a", "flac"]), |bytes| {
        // Behind `fLaC` and the block's header come sizes (10 bytes), then 20 bits of rate, 3 of channels, 5 of depth, 36 of samples.
        let at = 4 + 4 + 10;
        let packed = u64::from_be_bytes(bytes[at..at + 8].try_into().unwrap());
        let packed = packed & !((1 << 36) - 1) | (CLAIMED * 16_000.0) as u64;
        bytes[at..at + 8].copy_from_slice(&packed.to_be_bytes());
    })
}

/// A WAV whose data chunk says four gigabytes, as pipes write it.
fn wav() -> PathBuf {
    forge(make("data.wav", &["-c:a", "pcm_s16le"]), |bytes| {
        let at = find(bytes, b"data") + 4;
        bytes[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    })
}

/// An Ogg file whose last page says that it ends after one second.
fn ogg() -> PathBuf {
    forge(make("granule.opus", &["-c:a", "libopus", "-b:a", "8k"]), |bytes| {
        let last = bytes.windows(4).rposition(|page| page == b"OggS").unwrap();
        bytes[last + 6..last + 14].copy_from_slice(&((CLAIMED * 48_000.0) as u64).to_le_bytes());
        bytes[last + 22..last + 26].fill(0);
        let sum = bytes[last..].iter().fold(0u32, |sum, &byte| {
            (0..8).fold(sum ^ u32::from(byte) << 24, |sum, _| sum << 1 ^ if sum >> 31 == 1 { 0x04c1_1db7 } else { 0 })
        });
        bytes[last + 22..last + 26].copy_from_slice(&sum.to_le_bytes());
    })
}

/// A Matroska file of two seconds with ten hours between them, whose header says one second.
fn matroska() -> PathBuf {
    let gap = "atrim=0:2,asetnsamples=1600,asetpts='PTS+if(gte(T,1),36000/TB,0)'";
    forge(make("gaps.mkv", &["-af", gap, "-c:a", "libopus", "-b:a", "16k"]), |bytes| {
        assert!(bytes.len() < 20_000, "{} bytes", bytes.len());
        let at = find(bytes, &[0x44, 0x89, 0x88]) + 3;
        bytes[at..at + 8].copy_from_slice(&(CLAIMED * 1000.0).to_be_bytes());
        // The length of the track, as a tag of it says.
        let hours = find(bytes, b"10:00:0");
        bytes[hours..hours + 2].copy_from_slice(b"00");
    })
}

/// An MP4 whose edit list begins with ten hours of nothing.
fn mp4() -> PathBuf {
    let path = own_file("late.m4a");
    let plain = make("plain.m4a", &["-c:a", "aac", "-ar", "44100"]);
    let made = Command::new("ffmpeg")
        .args(["-hide_banner", "-loglevel", "error", "-nostdin", "-y", "-itsoffset", "36000", "-i"])
        .arg(plain)
        .args(["-c", "copy"])
        .arg(&path)
        .status();
    assert!(made.unwrap().success());
    path
}

/// Grants so many seconds and remembers what it was asked.
struct Fixed {
    granted: f64,
    asked: Mutex<Vec<f64>>,
}

impl LengthBudget for Fixed {
    fn grant(&self, seconds: f64) -> Option<f64> {
        self.asked.lock().unwrap().push(seconds);
        (seconds <= self.granted).then_some(self.granted)
    }
}

/// Reads all that a budget of `granted` seconds allows: what the container says, how much came, and how it ended.
fn read(path: &Path, granted: f64) -> (Option<f64>, f64, Result<(), MediaError>) {
    let fixed = Arc::new(Fixed { granted, asked: Mutex::default() });
    let options = Options { budget: Budget::new(fixed.clone()), ..Options::default() };
    let mut stream = AudioStream::open(Source::Path(path.to_owned()), &options).unwrap();
    let claimed = stream.info().duration;
    let (mut block, mut samples) = (Vec::new(), 0);
    let ended = loop {
        block.clear();
        match stream.read(&mut block) {
            Ok(0) => break Ok(()),
            Ok(count) => samples += count,
            Err(error) => break Err(error),
        }
    };
    assert!(fixed.asked.lock().unwrap().len() <= 2, "the budget is asked only when it is passed");
    (claimed, samples as f64 / f64::from(SAMPLE_RATE), ended)
}

#[test]
#[ignore = "needs ffmpeg"]
fn decoding_stops_where_the_budget_ends_whatever_the_header_says() {
    for path in [mp3(), flac(), wav(), matroska(), mp4()] {
        let (_, seconds, ended) = read(&path, 5.0);
        let Err(MediaError::OverBudget { seconds: decoded }) = ended else {
            panic!("{}: {seconds} s, {ended:?}", path.display())
        };
        // It is noticed within a block; a block is not given when it passes the budget.
        assert!(seconds <= 5.0, "{}: {seconds} s were given", path.display());
        assert!((5.0..=20.0).contains(&decoded), "{}: {decoded} s were decoded", path.display());
    }
}

#[test]
#[ignore = "needs ffmpeg"]
fn a_forged_header_hides_nothing_of_what_is_decoded() {
    for path in [mp3(), flac(), ogg()] {
        let (claimed, seconds, ended) = read(&path, f64::INFINITY);
        ended.unwrap();
        let claimed = claimed.unwrap_or(0.0);
        assert!(claimed < 2.0 * CLAIMED, "{}: the forgery says {claimed} s", path.display());
        // What is given is what the caller sees; an Ogg page that ends early may cut its own sound off.
        assert!(
            (seconds - SECONDS).abs() < 2.0 || path.extension().is_some_and(|e| e == "opus"),
            "{}: {seconds} s",
            path.display()
        );
    }
}

#[test]
#[ignore = "needs ffmpeg"]
fn silence_in_gaps_counts_as_sound() {
    let (claimed, seconds, ended) = read(&matroska(), 120.0);
    assert!(claimed.is_none_or(|claimed| claimed < 10.0), "{claimed:?}");
    assert!(matches!(ended, Err(MediaError::OverBudget { .. })), "{ended:?}");
    assert!((100.0..=120.0).contains(&seconds), "{seconds}");
}
