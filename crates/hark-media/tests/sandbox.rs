//! A program in ffmpeg's place tries to get out of the sandbox.
#![cfg(target_os = "linux")]

use std::io::Write;
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use hark_media::{AudioStream, CancelToken, Limits, MediaError, Options, Source, decode_all};

/// What the intruder tries, in its order; the flag says whether a system may refuse it to every child (Yama). Files are
/// refused by Landlock alone.
const ATTEMPTS: [(&str, bool); 17] = [
    ("read the database", false),
    ("list the data folder", false),
    ("read /etc/passwd", false),
    ("read its parent's environment", true),
    ("open its parent's memory", true),
    ("write a file", false),
    ("make a folder", false),
    ("see the service's environment variables", false),
    ("use a descriptor of the service", false),
    ("connect over TCP", false),
    ("make a UDP socket", false),
    ("connect to a Unix socket", false),
    ("signal its parent", false),
    ("trace its parent", true),
    ("read its parent's memory", true),
    ("change its parent's limits", false),
    ("make a process", false),
];

const SECRET: &str = "svc_5ecre7";

fn intruder() -> PathBuf {
    env!("CARGO_BIN_EXE_hark-media-intruder").into()
}

/// A file that no rule knows, so that it goes to ffmpeg, with orders for the intruder.
fn orders(folder: &Path, more: &str) -> PathBuf {
    let path = folder.join("recording");
    let mut file = std::fs::File::create(&path).unwrap();
    file.write_all(&[0, 1, 2, 3, 0xfe, 0xfd, 0, 0, b'\n']).unwrap();
    write!(file, "secret={SECRET}\n{more}\n").unwrap();
    path
}

fn options() -> Options {
    Options { ffmpeg: Some(intruder()), ..Options::default() }
}

#[test]
fn a_decoder_reaches_nothing_of_the_service() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("hark.db"), SECRET).unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let _unix = UnixListener::bind(data.join("socket")).unwrap();
    // A descriptor that would pass through exec, as a library in C might leave one.
    let leaked = std::fs::File::open(data.join("hark.db")).unwrap();
    // SAFETY: a plain system call; what it makes stays open for as long as the test needs it.
    let leaked = unsafe { libc::dup(leaked.as_raw_fd()) };
    let memory = SECRET.as_bytes().as_ptr() as usize;
    let recording = orders(
        folder.path(),
        &format!(
            "database={0}/hark.db\nfolder={0}\nsocket={0}/socket\naddress={1}\nmemory={memory}",
            data.display(),
            tcp.local_addr().unwrap(),
        ),
    );

    // Free, it can do all of it: otherwise the attempts would show nothing.
    let free = Command::new(intruder()).stdin(std::fs::File::open(&recording).unwrap()).stderr(Stdio::null()).output();
    let free = free.unwrap().stdout;
    let done: Vec<bool> = free[44..].chunks(4).map(|sample| sample == 0.75f32.to_le_bytes()).collect();
    assert_eq!(done.len(), ATTEMPTS.len());
    let yama = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").is_ok_and(|scope| scope.trim() != "0");
    for ((attempt, may_fail), done) in ATTEMPTS.iter().zip(done) {
        assert!(done || (yama && *may_fail), "a free program could not {attempt}");
    }
    std::fs::remove_file(data.join("written")).unwrap();
    std::fs::remove_dir(data.join("made")).unwrap();

    let (samples, ..) = decode_all(Source::Path(recording), &options()).unwrap();
    assert_eq!(samples.len(), ATTEMPTS.len(), "the intruder did not finish");
    let has_landlock = hark_sandbox::layers().iter().any(|layer| layer.name == "landlock" && layer.is_active);
    let of_files = ["read the database", "list the data folder", "read /etc/passwd", "write a file", "make a folder"];
    for ((attempt, _), sample) in ATTEMPTS.iter().zip(samples) {
        if !has_landlock && of_files.contains(attempt) {
            continue;
        }
        assert!((sample - 0.25).abs() < 0.01, "a decoder could {attempt}");
    }
    assert_eq!(std::fs::metadata(data.join("written")).map_or(0, |written| written.len()), 0, "a decoder wrote a file");
    // SAFETY: the descriptor is this test's own.
    unsafe { libc::close(leaked) };
}

#[test]
fn what_a_decoder_writes_to_its_error_output_is_not_in_the_error() {
    let folder = tempfile::tempdir().unwrap();
    let error = decode_all(Source::Path(orders(folder.path(), "mode=fail")), &options()).unwrap_err();
    assert!(matches!(error, MediaError::Unrecognized(_)), "{error}");
    assert!(!error.to_string().contains(SECRET) && !format!("{error:?}").contains(SECRET), "{error:?}");
}

#[test]
fn a_decoder_that_hangs_or_hogs_is_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let hang = orders(folder.path(), "mode=hang");
    let limits = Limits { ffmpeg_wall: Duration::from_millis(600), ..Limits::default() };
    let hung = decode_all(Source::Path(hang), &Options { limits, ..options() });
    assert!(matches!(hung, Err(MediaError::Limit(_))), "{:?}", hung.map(|_| ()));
    let spin = orders(folder.path(), "mode=spin");
    let limits = Limits { ffmpeg_cpu_seconds: 1, ..Limits::default() };
    let busy = decode_all(Source::Path(spin), &Options { limits, ..options() });
    assert!(matches!(busy, Err(MediaError::Limit(_))), "{:?}", busy.map(|_| ()));
}

/// Children of this process that run the intruder with this file as their input.
fn children_with(input: &Path) -> usize {
    let all = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    all.filter(|entry| std::fs::read_link(entry.path().join("fd/0")).is_ok_and(|stdin| stdin == input)).count()
}

#[test]
fn a_decoder_ends_when_its_work_is_called_off_or_its_time_is_over() {
    let folder = tempfile::tempdir().unwrap();
    let hang = orders(folder.path(), "mode=hang");
    let cancel = CancelToken::default();
    let called_off = Options { cancel: cancel.clone(), ..options() };
    let source = Source::Path(hang.clone());
    let reading = std::thread::spawn(move || AudioStream::open(source, &called_off).err());
    let begun = Instant::now();
    while children_with(&hang) == 0 {
        assert!(begun.elapsed() < Duration::from_secs(30), "the decoder did not start");
        std::thread::sleep(Duration::from_millis(10));
    }
    cancel.cancel();
    let error = reading.join().unwrap();
    assert!(matches!(error, Some(MediaError::Cancelled)), "{error:?}");
    assert_eq!(children_with(&hang), 0, "the decoder outlived its work");

    let deadline = Some(Instant::now() + Duration::from_millis(300));
    let late = AudioStream::open(Source::Path(hang.clone()), &Options { deadline, ..options() }).err();
    assert!(matches!(late, Some(MediaError::Limit(_))), "{late:?}");
    assert_eq!(children_with(&hang), 0, "the decoder outlived its time");
}

#[test]
#[ignore = "needs ffmpeg"]
fn a_service_with_hundreds_of_open_files_still_starts_decoders() {
    let folder = tempfile::tempdir().unwrap();
    let _open: Vec<_> = (0..300).map(|_| std::fs::File::open("/dev/null").unwrap()).collect();
    let talk = folder.path().join("talk.opus");
    let made = Command::new("ffmpeg")
        .args(["-hide_banner", "-loglevel", "error", "-nostdin", "-f", "lavfi", "-i", "sine=r=48000:d=2"])
        .args(["-c:a", "libopus", "-f", "matroska"])
        .arg(&talk)
        .status();
    assert!(made.expect("ffmpeg is not there: `./hark test` installs what tests need").success());
    let (samples, ..) = decode_all(Source::Path(talk), &Options::default()).unwrap();
    assert!((samples.len() as f64 / 16_000.0 - 2.0).abs() < 0.1, "{} samples", samples.len());
}
