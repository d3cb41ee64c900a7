//! A program in espeak-ng's place tries to get out of the sandbox, or does not answer.
#![cfg(target_os = "linux")]

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use hark_say::{Options, SayError, TextReader};

/// What the impostor tries, in its order; the flag says whether only Landlock refuses it.
const ATTEMPTS: [(&str, bool); 8] = [
    ("see the service's environment variables", false),
    ("read /etc/passwd", true),
    ("list a folder", true),
    ("make a file", true),
    ("read its parent's environment", false),
    ("start a program", false),
    ("make a UDP socket", false),
    ("take 2 GiB of memory", false),
];

fn impostor() -> PathBuf {
    env!("CARGO_BIN_EXE_hark-say-impostor").into()
}

fn reader() -> TextReader {
    TextReader::new(Options { espeak: Some(impostor()), ..Options::default() })
}

#[test]
fn the_program_that_reads_a_text_reaches_nothing_of_the_service() {
    // Free, it can do all of it: otherwise the attempts would show nothing.
    let free = Command::new(impostor()).stdin(Stdio::null()).output().unwrap();
    let yama = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").is_ok_and(|scope| scope.trim() != "0");
    for ((attempt, _), sound) in ATTEMPTS.iter().zip(String::from_utf8(free.stdout).unwrap().split_whitespace()) {
        let is_parents = attempt.contains("parent");
        assert!(sound == "i" || yama && is_parents, "a free program could not {attempt}");
    }

    let planned = reader().plan("hola", "es", &|| false).unwrap();
    let sounds: Vec<&str> = planned[0].phonemes.split_whitespace().collect();
    assert_eq!(sounds.len(), ATTEMPTS.len(), "{sounds:?}");
    let has_landlock = hark_sandbox::layers().iter().any(|layer| layer.name == "landlock" && layer.is_active);
    for ((attempt, only_landlock), sound) in ATTEMPTS.iter().zip(sounds) {
        assert!(sound == "u" || *only_landlock && !has_landlock, "the program could {attempt}");
    }
}

#[test]
fn a_program_that_hangs_is_killed_when_its_caller_cancels() {
    let begun = Instant::now();
    let is_cancelled = || begun.elapsed() > Duration::from_millis(300);
    assert!(matches!(reader().plan("hang", "es", &is_cancelled), Err(SayError::Cancelled)));
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}
