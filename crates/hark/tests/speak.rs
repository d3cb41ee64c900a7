//! `hark speak` with the real model: files, pipes, formats, voices, the watermark, refusals. Needs kokoro-82m, misaki-en, lid-176,
//! whisper-base, a recorded conversation and ffmpeg.

mod support;

use std::io::Write as _;
use std::path::Path;
use std::process::{Output, Stdio};

use support::{hark, models};

fn run(folder: &Path, arguments: &[&str]) -> Output {
    let output = hark(folder).args(arguments).output().expect("hark runs");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

fn refused(folder: &Path, code: i32, arguments: &[&str]) -> String {
    let output = hark(folder).args(arguments).output().expect("hark runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{said}");
    said
}

/// The words of a file, as whisper-base hears them.
fn heard(folder: &Path, file: &str) -> String {
    let output = run(folder, &["transcribe", file, "--model", "whisper-base", "--quiet"]);
    String::from_utf8(output.stdout).unwrap().to_lowercase()
}

#[test]
#[ignore = "needs models"]
fn what_is_spoken_is_heard_and_its_watermark_is_found_with_the_key_of_the_data_folder() {
    let folder = tempfile::tempdir().unwrap();
    let text = "The weather is nice today. We are going to the market to buy some apples and bread.";
    let said = run(folder.path(), &["speak", text, "-o", "out.wav"]).stderr;
    let said = String::from_utf8_lossy(&said);
    assert!(said.contains("language en, voice preset; name=af_heart, watermark "), "{said}");
    let heard = heard(folder.path(), "out.wav");
    assert!(["weather", "market", "apples", "bread"].iter().all(|word| heard.contains(word)), "{heard}");
    let mark = said.trim().rsplit(' ').next().unwrap();
    let found = run(folder.path(), &["watermark", "detect", "out.wav"]).stdout;
    let found = String::from_utf8_lossy(&found);
    assert!(found.contains("watermark found") && found.contains(&format!("request {mark}")), "{found}");
    assert!(found.contains("metadata: synthetic speech"), "{found}");
    // A file that exists stays, unless told otherwise.
    assert!(refused(folder.path(), 1, &["speak", text, "-o", "out.wav"]).contains("--overwrite"));
    assert!(refused(folder.path(), 2, &["speak", text, "-o", "out.aac"]).contains("\"aac\" is no format"));
}

#[test]
#[ignore = "needs models"]
fn a_pipe_becomes_a_stream_and_formats_follow_the_name() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = hark(folder.path())
        .args(["speak", "-", "--voice", "fable", "--speed", "1.2", "--quiet"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("hark starts");
    child.stdin.take().unwrap().write_all(b"Good morning.").unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_eq!((&output.stdout[..4], &output.stdout[4..8]), (&b"RIFF"[..], &[0xff; 4][..]));
    assert!(output.stdout.len() > 24_000);
    std::fs::write(folder.path().join("text.txt"), "Good morning.").unwrap();
    for (name, magic) in [("a.flac", &b"fLaC"[..]), ("a.opus", b"OggS"), ("a.mp3", b"ID3"), ("a.pcm", b"")] {
        run(folder.path(), &["speak", "--file", "text.txt", "-o", name]);
        let made = std::fs::read(folder.path().join(name)).unwrap();
        assert!(made.starts_with(magic) && made.len() > 3_000, "{name} has {} bytes", made.len());
    }
}

#[test]
#[ignore = "needs models"]
fn voices_are_listed_and_what_can_not_be_spoken_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let listed = String::from_utf8(run(folder.path(), &["speak", "--list-voices"]).stdout).unwrap();
    assert_eq!(listed.lines().count(), 55);
    assert!(listed.lines().any(|line| line.split_whitespace().eq(["bm_fable", "en-gb", "male", "fable"])), "{listed}");
    let refuse =
        |code: i32, more: &[&str]| refused(folder.path(), code, &[&["speak", "-o", "x.wav"][..], more].concat());
    assert!(refuse(2, &[" "]).contains("nothing to say"));
    assert!(refuse(2, &["hello", "--voice", "nobody"]).contains("af_heart"));
    assert!(refuse(2, &["hello", "--speed", "3"]).contains("0.5 to 2"));
    assert!(refuse(1, &["你好世界,今天天气很好"]).contains("Chinese can't be pronounced"));
    assert!(refuse(2, &["hello", "--language", "tlh"]).contains("no language that can be spoken"));
    assert!(refuse(2, &[&"a ".repeat(15_000)]).contains("20000"));
    assert!(refuse(2, &["hello", "--like", "x.wav"]).contains("--consent"));
    assert!(!folder.path().join("x.wav").exists());
}

#[test]
#[ignore = "needs models"]
fn a_voice_is_matched_to_a_recording_and_never_called_cloned() {
    let folder = tempfile::tempdir().unwrap();
    let recording = models().join("test-sounds-meetings/sample.wav");
    let cut = |name: &str, from: &str, seconds: &str| {
        let path = folder.path().join(name);
        let made = std::process::Command::new("ffmpeg")
            .args(["-v", "error", "-ss", from, "-t", seconds, "-i"])
            .arg(&recording)
            .arg(&path)
            .status();
        assert!(made.expect("ffmpeg is not there: `./hark test` installs what tests need").success());
    };
    cut("me.wav", "21.8", "6");
    let speak = ["speak", "It was the best of times.", "--consent", "-o", "like.wav", "--like"];
    let said = run(folder.path(), &[&speak[..], &["me.wav"]].concat()).stderr;
    let said = String::from_utf8_lossy(&said);
    assert!(said.contains("voice matched; base=") && said.contains("similarity=0."), "{said}");
    assert!(!said.contains("cloned"));
    cut("short.wav", "21.8", "2");
    assert!(refused(folder.path(), 1, &[&speak[..], &["short.wav", "--overwrite"]].concat()).contains("3 to 10 s"));
    let silence = vec![0.0; 16_000 * 5];
    hark_media::write_wav_file(folder.path().join("silence.wav"), &silence, 16_000).unwrap();
    let again = [&speak[..], &["silence.wav", "--overwrite"]].concat();
    assert!(refused(folder.path(), 1, &again).contains("are speech"));
    // The one speaks for four seconds, then the other for three.
    cut("two.wav", "10.6", "7.3");
    assert!(
        refused(folder.path(), 1, &[&speak[..], &["two.wav", "--overwrite"]].concat()).contains("more than one voice")
    );
}
