//! What a service keeps, from the command line: backup and restore beside a running server, refused strangers, and sealed sound that never comes to disk in
//! the clear. Real binaries, real HTTP.

mod server;
mod support;
mod voice;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;
use server::Server;
use support::hark;
use voice::{SENTENCE, speak};

fn run(folder: &Path, arguments: &[&str]) -> Output {
    hark(folder).args(arguments).output().expect("the binary starts")
}

fn ok(folder: &Path, arguments: &[&str]) -> String {
    let output = run(folder, arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn json(folder: &Path, arguments: &[&str]) -> Value {
    let text = ok(folder, &[arguments, &["--json"]].concat());
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn fails(folder: &Path, arguments: &[&str]) -> String {
    let output = run(folder, arguments);
    let problem = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {problem}");
    problem
}

fn listed(folder: &Path, server: &Server, key: &str) -> Vec<Value> {
    let list = json(folder, &["transcripts", "list", "--server", &server.url, "--key", key]);
    list["transcripts"].as_array().unwrap().clone()
}

#[test]
#[ignore = "needs models and espeak-ng"]
fn a_running_service_is_backed_up_and_comes_back_elsewhere() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path();
    std::fs::write(folder.join("hark.toml"), "[aliases]\nlarge-v3-turbo = \"whisper-tiny\"\n").unwrap();
    speak(SENTENCE, &folder.join("a.wav"));
    let server = Server::start(folder, &[]);
    let key = server.key.clone();
    let transcribe = || ok(folder, &["transcribe", "a.wav", "--server", &server.url, "--key", &key]);
    let text = transcribe();
    let report = json(folder, &["backup", "backup"]);
    assert_eq!((&report["recordings"], &report["copied"]), (&1.into(), &1.into()), "{report}");
    transcribe();
    let report = json(folder, &["backup", "backup"]);
    assert_eq!((&report["recordings"], &report["copied"]), (&2.into(), &1.into()), "{report}");
    assert!(ok(folder, &["backup", "--verify", "backup"]).contains("is whole"));
    transcribe();
    assert_eq!(listed(folder, &server, &key).len(), 3);
    // Over the service that is there: refused, and it goes on.
    assert!(fails(folder, &["restore", "backup"]).contains("--force"));
    assert_eq!(listed(folder, &server, &key).len(), 3);

    let said = ok(folder, &["restore", "backup", "--data", "elsewhere"]);
    assert!(said.contains("checked: every account's ledger adds up"), "{said}");
    let second = Server::start(folder, &["--data", "elsewhere"]);
    assert_eq!(second.key, "", "it has its accounts already");
    let restored = listed(folder, &second, &key);
    assert_eq!(restored.len(), 2, "what existed when the backup was made");
    let id = restored[0]["id"].to_string();
    assert_eq!(ok(folder, &["transcripts", "export", &id, "--server", &second.url, "--key", &key]).trim(), text.trim());

    // A damaged copy is named.
    let store = json(folder, &["store", "show"])["store"].clone();
    assert_eq!(store, report["store"]);
    let list = std::fs::read_dir(folder.join("backup/recordings")).unwrap().flatten();
    let recording = std::fs::read_dir(list.last().unwrap().path()).unwrap().flatten().last().unwrap().path();
    std::fs::write(&recording, "something else").unwrap();
    assert!(fails(folder, &["backup", "--verify", "backup"]).contains(&*recording.to_string_lossy()));

    // The wrong database on these recordings does not start, and says whose they are.
    let wrong = "sqlite://wrong.db";
    let refused = hark(folder).env("HARK_DATABASE", wrong).args(["serve", "--listen", "127.0.0.1:0"]).output().unwrap();
    let why = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1), "{why}");
    assert!(why.contains(store.as_str().unwrap()) && why.contains("hark store adopt"), "{why}");
    assert_eq!(ok(folder, &["recordings", "quarantine", "list"]).lines().count(), 1, "only the heading");
}

/// A server with a master key and a folder for temporary files of its own.
fn sealed_server(folder: &Path) -> Server {
    let temporary = folder.join("tmp");
    std::fs::create_dir_all(&temporary).unwrap();
    Server::start_with(folder, &[], &[("TMPDIR", &temporary), ("HARK_MASTER_KEY_FILE", &folder.join("master"))])
}

/// Files in a folder that a process holds open, deleted ones included: a file without a name is still on the disk.
fn open_files(process: u32, folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    entries.filter_map(|entry| std::fs::read_link(entry.path()).ok()).filter(|path| path.starts_with(folder)).collect()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut out = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.path() {
            path if path.is_dir() => out.extend(files(&path)),
            path => out.push(path),
        }
    }
    out
}

#[test]
#[ignore = "needs ffmpeg"]
fn with_a_master_key_sound_never_comes_to_disk_in_the_clear() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = &temporary.path().canonicalize().unwrap();
    std::fs::write(folder.join("hark.toml"), "[aliases]\nlarge-v3-turbo = \"whisper-tiny\"\n").unwrap();
    ok(folder, &["seal", "init", "--key-file", "master"]);
    // Its index is at the end and no decoder of ours reads its codec: ffmpeg has to seek.
    let sound = "anoisesrc=d=90:a=0.01:seed=7:r=44100,aformat=channel_layouts=stereo";
    let made = Command::new("ffmpeg")
        .current_dir(folder)
        .args(["-v", "error", "-f", "lavfi", "-i", sound, "-c:a", "alac", "noise.m4a"])
        .status();
    assert!(made.expect("ffmpeg is not there: `./hark test` installs what tests need").success());
    let bytes = std::fs::read(folder.join("noise.m4a")).unwrap();
    let marker = &bytes[bytes.len() / 2..bytes.len() / 2 + 32];
    let server = sealed_server(folder);
    let (tmp, done) = (folder.join("tmp"), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let watching = scope.spawn(|| {
            let (mut seen, mut looks) = (Vec::new(), 0u64);
            while !done.load(Ordering::Relaxed) {
                seen.extend(open_files(server.child.id(), &tmp));
                looks += 1;
                std::thread::sleep(Duration::from_millis(1));
            }
            (seen, looks)
        });
        ok(folder, &["transcribe", "noise.m4a", "--server", &server.url, "--key", &server.key]);
        done.store(true, Ordering::Relaxed);
        let (seen, looks) = watching.join().unwrap();
        assert!(looks > 20, "{looks} looks say nothing");
        assert_eq!(seen, [] as [PathBuf; 0], "sound was written to the temporary folder");
    });
    let kept = [files(&folder.join("data")), files(&tmp)].concat();
    assert!(kept.iter().any(|file| std::fs::metadata(file).is_ok_and(|about| about.len() > bytes.len() as u64)));
    for file in kept {
        let stored = std::fs::read(&file).unwrap();
        assert!(!stored.windows(marker.len()).any(|part| part == marker), "{} holds the sound", file.display());
    }
}
