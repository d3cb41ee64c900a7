//! `hark enhance` with the real model: files, pipes, formats, refusals. Needs deepfilternet3, a recorded conversation and ffmpeg.

mod support;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use support::{hark, models};

fn sample() -> PathBuf {
    let sample = models().join("test-sounds-meetings/sample.wav");
    assert!(sample.is_file(), "{} is not there: `./hark test` installs what tests need", sample.display());
    sample
}

/// Three seconds of a conversation with noise, as ffmpeg writes them.
fn noisy(folder: &Path, name: &str, more: &[&str]) -> PathBuf {
    let path = folder.join(name);
    let made = Command::new("ffmpeg")
        .args(["-v", "error", "-y", "-ss", "7", "-i"])
        .arg(sample())
        .args(["-f", "lavfi", "-i", "anoisesrc=r=16000:a=0.04:seed=7:d=30"])
        .args(["-filter_complex", "[0:a][1:a]amix=2:normalize=0", "-t", "3.1234"])
        .args(more)
        .arg(&path)
        .status();
    assert!(made.expect("ffmpeg is not there: `./hark test` installs what tests need").success());
    path
}

fn run(command: &mut Command) -> Output {
    let output = command.output().expect("hark runs");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

/// Rate, channels and frames of a WAV file of 16 bits, and its level in dB.
fn wav(bytes: &[u8]) -> (u32, u16, usize, f64) {
    assert_eq!((&bytes[..4], &bytes[8..12]), (&b"RIFF"[..], &b"WAVE"[..]));
    let chunk = |name: &[u8]| bytes.windows(4).position(|four| four == name).expect("the chunk is there") + 8;
    let (format, data) = (chunk(b"fmt "), chunk(b"data"));
    let channels = u16::from_le_bytes(bytes[format + 2..][..2].try_into().unwrap());
    let rate = u32::from_le_bytes(bytes[format + 4..][..4].try_into().unwrap());
    let length = u32::from_le_bytes(bytes[data - 4..][..4].try_into().unwrap()) as usize;
    assert_eq!(length, bytes.len() - data, "the header has the length of what follows");
    let samples = bytes[data..].as_chunks::<2>().0.iter().map(|two| f64::from(i16::from_le_bytes(*two)) / 32768.0);
    let (mut energy, mut count) = (0.0, 0);
    samples.for_each(|sample| (energy, count) = (energy + sample * sample, count + 1));
    (rate, channels, count / usize::from(channels), 10.0 * (energy / count as f64).log10())
}

#[test]
#[ignore = "needs models"]
fn a_file_becomes_a_file_beside_it_of_the_same_length_with_less_noise() {
    let folder = tempfile::tempdir().unwrap();
    let path = noisy(folder.path(), "talk.wav", &["-ar", "48000", "-ac", "2"]);
    let output = run(hark(folder.path()).args(["enhance", "talk.wav"]));
    assert!(output.stdout.is_empty());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("talk.wav: 0:03 in ") && said.contains("talk.enhanced.wav"), "{said}");
    let before = wav(&std::fs::read(path).unwrap());
    let after = wav(&std::fs::read(folder.path().join("talk.enhanced.wav")).unwrap());
    assert_eq!((after.0, after.1, after.2), (48_000, 2, before.2));
    // The noise is about a third of the energy.
    assert!((1.0..4.0).contains(&(before.3 - after.3)), "from {:.1} to {:.1} dB", before.3, after.3);
    let weak = run(hark(folder.path()).args(["enhance", "talk.wav", "--strength", "0", "-q", "-o", "same.wav"]));
    assert!(weak.stderr.is_empty(), "{}", String::from_utf8_lossy(&weak.stderr));
    let same = wav(&std::fs::read(folder.path().join("same.wav")).unwrap());
    assert!((same.3 - before.3).abs() < 0.01, "a strength of 0 dB takes nothing away");
}

#[test]
#[ignore = "needs models"]
fn stdin_becomes_stdout_and_formats_follow_the_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = noisy(folder.path(), "talk.mp3", &[]);
    let mut child = hark(folder.path())
        .args(["enhance", "-", "--quiet"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("hark starts");
    let bytes = std::fs::read(&path).unwrap();
    child.stdin.take().unwrap().write_all(&bytes).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let (rate, channels, frames, _) = wav(&output.stdout);
    assert_eq!((rate, channels), (48_000, 1));
    assert!((frames as f64 / 48_000.0 - 3.12).abs() < 0.1, "{frames} frames");
    for (name, magic) in [("a.flac", &b"fLaC"[..]), ("a.opus", b"OggS")] {
        run(hark(folder.path()).args(["enhance", "talk.mp3", "-o", name]));
        let made = std::fs::read(folder.path().join(name)).unwrap();
        assert!(made.starts_with(magic) && made.len() > 10_000, "{name} has {} bytes", made.len());
    }
    for (bits, bytes) in [("16", 2), ("24", 3), ("32", 4)] {
        run(hark(folder.path()).args(["enhance", "talk.mp3", "--overwrite", "--bits", bits, "-o", "b.wav"]));
        let length = std::fs::metadata(folder.path().join("b.wav")).unwrap().len();
        assert!(length.abs_diff(frames as u64 * bytes) < 200, "{bits} bits: {length} bytes");
    }
}

#[test]
#[ignore = "needs models"]
fn what_fails_is_told_leaves_no_file_and_the_others_go_on() {
    let folder = tempfile::tempdir().unwrap();
    noisy(folder.path(), "talk.wav", &[]);
    std::fs::write(folder.path().join("broken.mp3"), "this is no sound at all").unwrap();
    let arguments = ["enhance", "broken.mp3", "missing.wav", "talk.wav", "-o", "clean/"];
    let output = hark(folder.path()).args(arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("broken.mp3: ") && said.contains("missing.wav: no such file"), "{said}");
    let names: Vec<_> =
        std::fs::read_dir(folder.path().join("clean")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["talk.wav"]);
    let again = hark(folder.path()).args(["enhance", "talk.wav", "-o", "clean/"]).output().unwrap();
    assert_eq!(again.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&again.stderr).contains("--overwrite"));
    run(hark(folder.path()).args(["enhance", "talk.wav", "-o", "clean/", "--skip-existing"]));
    let wrong = hark(folder.path()).args(["enhance", "talk.wav", "--strength", "200"]).output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
}
