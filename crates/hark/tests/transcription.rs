//! Real speech through the real binary. Needs whisper-base, silero-vad, the models that tell voices apart, a recorded
//! conversation, and espeak-ng for a voice.

mod running;
mod voice;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use hark_api::TranscriptionResult;
use running::Running;
use voice::{SENTENCE, speak};

/// Words of [`SENTENCE`] that whisper-base must hear.
const WORDS: [&str; 5] = ["going", "market", "buy", "apples", "bread"];

/// Models where users have them; without them the tests fail, since they could show nothing.
fn models() -> PathBuf {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = set("HARK_MODELS").unwrap_or_else(|| {
        let cache = set("XDG_CACHE_HOME").or_else(|| Some(std::env::home_dir()?.join(".cache")));
        cache.expect("a home folder").join("hark").join("models")
    });
    for name in ["whisper-base", "silero-vad", "pyannote-segmentation-3", "campplus-zh-en", "test-sounds-meetings"] {
        let model = folder.join(name);
        assert!(model.is_dir(), "{} is not there: `./hark test` installs what tests need", model.display());
    }
    folder
}

fn hark(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hark"));
    command
        .current_dir(folder)
        .env("XDG_CONFIG_HOME", folder.join("config"))
        .env("HARK_MODELS", models())
        .stdin(Stdio::null());
    for name in ["HARK_MODEL", "HARK_LANGUAGE", "HARK_FORMAT", "HARK_CONFIG"] {
        command.env_remove(name);
    }
    command
}

/// A folder with `talk.wav` in it.
fn folder_with_talk() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    speak(SENTENCE, &folder.path().join("talk.wav"));
    folder
}

fn stdout(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).expect("stdout is UTF-8")
}

fn assert_heard(text: &str) {
    let heard = text.to_lowercase();
    let missing: Vec<_> = WORDS.iter().filter(|word| !heard.contains(*word)).collect();
    assert!(missing.is_empty(), "{missing:?} not heard in: {text}");
}

#[test]
#[ignore = "needs models and espeak-ng"]
fn a_file_becomes_text_on_stdout_and_nothing_else() {
    let folder = folder_with_talk();
    let output = hark(folder.path()).args(["transcribe", "talk.wav"]).output().unwrap();
    let text = stdout(&output);
    assert_heard(&text);
    assert_eq!(text.lines().count(), 1, "{text}");
    let summary = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(summary.starts_with("talk.wav: 0:0") && summary.trim_end().ends_with(", en, whisper-base"), "{summary}");

    let quiet = hark(folder.path()).args(["transcribe", "talk.wav", "--quiet"]).output().unwrap();
    assert_eq!(stdout(&quiet), text);
    assert_eq!(String::from_utf8_lossy(&quiet.stderr), "");
}

#[test]
#[ignore = "needs models and espeak-ng"]
fn stdin_becomes_json_with_word_times_that_run_forwards() {
    let folder = folder_with_talk();
    let wav = std::fs::File::open(folder.path().join("talk.wav")).unwrap();
    let output = hark(folder.path()).args(["transcribe", "-", "-f", "json", "-q"]).stdin(wav).output().unwrap();
    let result: TranscriptionResult = serde_json::from_str(&stdout(&output)).unwrap();
    assert_heard(&result.text);
    assert_eq!((result.language.as_str(), result.model.as_str()), ("en", "whisper-base"));
    let words: Vec<_> = result.segments.iter().flat_map(|segment| &segment.words).collect();
    assert!(words.len() >= 12, "{} words", words.len());
    assert!(words.iter().all(|word| word.start <= word.end && word.end <= result.duration + 0.1));
    assert!(words.windows(2).all(|pair| pair[0].start <= pair[1].start));
}

#[test]
#[ignore = "needs models and espeak-ng"]
fn a_recording_that_begins_with_speech_has_the_same_word_times_as_one_with_silence_before_it() {
    let folder = folder_with_talk();
    let cut = |filter: &str, name: &str| {
        let mut ffmpeg = Command::new("ffmpeg");
        let ffmpeg = ffmpeg.current_dir(folder.path()).args(["-v", "error", "-i", "talk.wav", "-af", filter, name]);
        assert!(ffmpeg.status().expect("ffmpeg is not there: `./hark test` installs what tests need").success());
    };
    // The first loud sample is the first sample.
    cut("silenceremove=start_periods=1:start_threshold=-30dB", "at-once.wav");
    cut("silenceremove=start_periods=1:start_threshold=-30dB,adelay=1000", "later.wav");
    let words = |name: &str| {
        let output = hark(folder.path()).args(["transcribe", name, "-f", "json", "-q"]).output().unwrap();
        let result: TranscriptionResult = serde_json::from_str(&stdout(&output)).unwrap();
        result.segments.into_iter().flat_map(|segment| segment.words).collect::<Vec<_>>()
    };
    let (at_once, later) = (words("at-once.wav"), words("later.wav"));
    for word in ["we", "are", "going", "market", "apples", "bread."] {
        let end = |words: &[hark_api::Word]| {
            words.iter().find(|one| one.word == word).unwrap_or_else(|| panic!("no {word} in {words:?}")).end
        };
        let moved = end(&later) - end(&at_once);
        assert!((moved - 1.0).abs() < 0.13, "{word} moved by {moved}");
    }
}

#[test]
#[ignore = "needs models and espeak-ng"]
fn several_files_are_written_to_a_folder_and_a_bad_one_fails_alone() {
    let folder = folder_with_talk();
    std::fs::copy(folder.path().join("talk.wav"), folder.path().join("again.wav")).unwrap();
    std::fs::write(folder.path().join("noise.mp3"), "this is no sound").unwrap();
    let output = hark(folder.path())
        .args(["transcribe", "talk.wav", "noise.mp3", "again.wav", "-f", "srt,vtt", "-o", "subs/", "-q"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(errors.starts_with("noise.mp3: ") && errors.lines().count() == 1, "{errors}");
    let mut written: Vec<_> = std::fs::read_dir(folder.path().join("subs"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    written.sort();
    assert_eq!(written, ["again.srt", "again.vtt", "talk.srt", "talk.vtt"]);
    let srt = std::fs::read_to_string(folder.path().join("subs/talk.srt")).unwrap();
    assert!(srt.starts_with("1\n00:00:0"), "{srt}");
    assert_heard(&srt.replace('\n', " "));
}

#[test]
#[ignore = "needs models and espeak-ng"]
fn several_texts_on_stdout_keep_the_order_of_the_files() {
    let folder = folder_with_talk();
    speak("One short line.", &folder.path().join("short.wav"));
    let output = hark(folder.path()).args(["transcribe", "talk.wav", "short.wav", "-q"]).output().unwrap();
    let text = stdout(&output);
    let headings: Vec<_> = text.lines().filter(|line| line.starts_with("==>")).collect();
    assert_eq!(headings, ["==> talk.wav <==", "==> short.wav <=="]);
}

#[test]
#[ignore = "needs models and espeak-ng"]
fn an_interrupt_leaves_no_half_written_file() {
    let folder = folder_with_talk();
    let long = folder.path().join("long.wav");
    // An hour of speech: far more than is done before the signal comes.
    let looped = Command::new("ffmpeg")
        .args(["-nostdin", "-loglevel", "error", "-stream_loop", "-1", "-i"])
        .arg(folder.path().join("talk.wav"))
        .args(["-t", "3600"])
        .arg(&long)
        .status()
        .expect("ffmpeg is not there: `./hark test` installs what tests need");
    assert!(looped.success());
    let mut command = hark(folder.path());
    let mut child = Running::start(command.args(["transcribe", "long.wav", "-o", "out/", "-q"]).stderr(Stdio::null()));
    // The folder is made when the work begins.
    while !folder.path().join("out").is_dir() {
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(child.try_wait().unwrap().is_none(), "ended before the signal");
    }
    std::thread::sleep(std::time::Duration::from_millis(1500));
    child.interrupt();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(std::fs::read_dir(folder.path().join("out")).unwrap().count(), 0);
}

/// The talk as bare samples, 16 kHz, 16 bits, one channel.
fn bare_talk(folder: &Path) -> Vec<u8> {
    let decoded = Command::new("ffmpeg")
        .args(["-nostdin", "-loglevel", "error", "-i"])
        .arg(folder.join("talk.wav"))
        .args(["-f", "s16le", "-ar", "16000", "-ac", "1", "-"])
        .output()
        .expect("ffmpeg is not there: `./hark test` installs what tests need");
    assert!(decoded.status.success());
    decoded.stdout
}

#[test]
#[ignore = "needs models and espeak-ng"]
fn live_sound_from_a_pipe_becomes_lines_and_a_file_at_the_end() {
    let folder = folder_with_talk();
    let mut child = Running::start(
        hark(folder.path())
            .args(["live", "-", "-l", "en", "-o", "talk.srt"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped()),
    );
    let sound = bare_talk(folder.path());
    let mut stdin = child.stdin.take().unwrap();
    let feeding = std::thread::spawn(move || stdin.write_all(&sound));
    let output = child.output();
    feeding.join().unwrap().unwrap();
    let text = stdout(&output);
    assert!(["market", "apples", "bread"].iter().all(|word| text.to_lowercase().contains(word)), "{text}");
    assert!(!text.contains('\x1b'), "a pipe gets no partials: {text:?}");
    let srt = std::fs::read_to_string(folder.path().join("talk.srt")).unwrap();
    assert!(srt.starts_with("1\n00:00:0") && srt.replace('\n', " ").to_lowercase().contains("apples"), "{srt}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("listening to stdin") && said.contains("en, whisper-base"), "{said}");
}

#[test]
#[ignore = "needs models and espeak-ng"]
fn live_words_come_before_the_pipe_ends_and_an_interrupt_keeps_what_was_said() {
    use std::io::BufRead as _;
    let folder = folder_with_talk();
    let mut child = Running::start(
        hark(folder.path())
            .args(["live", "-", "-l", "en", "-q", "-o", "talk.json"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped()),
    );
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(&bare_talk(folder.path())).unwrap();
    stdin.write_all(&[0; 64_000]).unwrap();
    // The pipe stays open: the line can only come while it does.
    let mut lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines();
    let mut heard = String::new();
    while !heard.contains("bread") {
        heard.push_str(&lines.next().unwrap().unwrap().to_lowercase());
    }
    child.interrupt();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    drop(stdin);
    let kept = std::fs::read_to_string(folder.path().join("talk.json")).unwrap();
    let result: TranscriptionResult = serde_json::from_str(&kept).unwrap();
    assert!(result.text.to_lowercase().contains("apples"), "{kept}");
}

#[test]
#[ignore = "needs models, espeak-ng and alsa-utils"]
fn a_microphone_is_heard_through_alsa_until_an_interrupt() {
    use std::io::BufRead as _;
    let folder = folder_with_talk();
    // A device of ALSA's that hears a file; behind its end it hears silence for long enough.
    let sound = [bare_talk(folder.path()), vec![0; 32_000 * 600]].concat();
    std::fs::write(folder.path().join("heard.raw"), sound).unwrap();
    let device = "</usr/share/alsa/alsa.conf>\npcm.desk { type file slave.pcm null file /dev/null infile heard.raw format raw }\n";
    std::fs::write(folder.path().join("asound.conf"), device).unwrap();
    let mut child = Running::start(
        hark(folder.path())
            .env("ALSA_CONFIG_PATH", folder.path().join("asound.conf"))
            .args(["live", "--device", "desk", "-l", "en", "-o", "talk.txt"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped()),
    );
    let mut lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines();
    let mut heard = String::new();
    while !heard.contains("bread") {
        let line = lines.next().expect("arecord is not there: `./hark test` installs what tests need");
        heard.push_str(&line.unwrap().to_lowercase());
    }
    child.interrupt();
    let output = child.output();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("listening to the microphone (arecord)"), "{said}");
    let kept = std::fs::read_to_string(folder.path().join("talk.txt")).unwrap();
    assert!(kept.to_lowercase().contains("apples"), "{kept}");
}

#[test]
#[ignore = "needs models and espeak-ng"]
fn a_live_file_of_any_format_is_heard_and_an_output_that_exists_is_refused_before_anything_is_said() {
    let folder = folder_with_talk();
    let output = hark(folder.path()).args(["live", "talk.wav", "-l", "en", "-q"]).output().unwrap();
    assert!(stdout(&output).to_lowercase().contains("market"));
    std::fs::write(folder.path().join("old.txt"), "old").unwrap();
    let refused = hark(folder.path()).args(["live", "talk.wav", "-o", "old.txt"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("old.txt exists"));
    assert_eq!(std::fs::read_to_string(folder.path().join("old.txt")).unwrap(), "old");
}

/// Two people on the telephone, with who speaks when.
fn telephone_call() -> (PathBuf, Vec<(f64, f64, String)>) {
    let folder = models().join("test-sounds-meetings");
    let reference = std::fs::read_to_string(folder.join("sample.rttm")).expect("the reference");
    let turn = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (start, length): (f64, f64) = (fields[3].parse().unwrap(), fields[4].parse().unwrap());
        (start, start + length, fields[7].to_owned())
    };
    (folder.join("sample.wav"), reference.lines().map(turn).collect())
}

/// Who speaks at a moment where one person does.
fn speaker_at(turns: &[(f64, f64, String)], moment: f64) -> Option<&str> {
    let mut there = turns.iter().filter(|(start, end, _)| (*start..*end).contains(&moment)).map(|turn| turn.2.as_str());
    there.next().filter(|_| there.next().is_none())
}

#[test]
#[ignore = "needs models"]
fn two_people_on_the_telephone_are_told_apart_word_by_word() {
    let folder = tempfile::tempdir().unwrap();
    let (call, turns) = telephone_call();
    let output = hark(folder.path()).args(["transcribe", "-q", "-f", "json"]).arg(&call).output().unwrap();
    let result: TranscriptionResult = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(result.speakers, ["SPEAKER_00", "SPEAKER_01"]);
    let (mut right, mut wrong) = (0, 0);
    for segment in &result.segments {
        let own = match segment.speaker.as_deref() {
            Some("SPEAKER_00") => "speaker90",
            Some("SPEAKER_01") => "speaker91",
            other => panic!("{other:?} says {:?}", segment.text),
        };
        for word in &segment.words {
            match speaker_at(&turns, (word.start + word.end) / 2.0) {
                Some(speaker) if speaker == own => right += 1,
                Some(_) => wrong += 1,
                None => {}
            }
        }
    }
    assert!(right >= 40 && right >= wrong * 12, "{right} words right, {wrong} wrong");
    assert!(
        result.segments.iter().any(|segment| !segment.overlapping_speakers.is_empty()),
        "they interrupt each other"
    );

    let text = stdout(&hark(folder.path()).args(["transcribe", "-q"]).arg(&call).output().unwrap());
    assert!(text.starts_with("SPEAKER_00: ") && text.contains("\n\nSPEAKER_01: "), "{text}");
}

#[test]
#[ignore = "needs models"]
fn a_live_call_has_a_label_before_each_line_and_both_speakers_in_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let (call, turns) = telephone_call();
    let options = ["live", "-q", "-l", "en", "--speakers", "-o", "call.json"];
    let output = hark(folder.path()).args(options).arg(&call).output().unwrap();
    let text = stdout(&output);
    assert!(text.lines().count() > 4 && text.lines().all(|line| line.starts_with("SPEAKER_0")), "{text}");
    assert!(text.contains("SPEAKER_00: ") && text.contains("SPEAKER_01: "), "{text}");
    let kept = std::fs::read_to_string(folder.path().join("call.json")).unwrap();
    let result: TranscriptionResult = serde_json::from_str(&kept).unwrap();
    assert_eq!(result.speakers.len(), 2, "{kept}");
    let words = result.segments.iter().flat_map(|segment| segment.words.iter().map(move |word| (segment, word)));
    let heard: Vec<(&str, &str)> = words
        .filter_map(|(segment, word)| {
            Some((segment.speaker.as_deref()?, speaker_at(&turns, (word.start + word.end) / 2.0)?))
        })
        .collect();
    // Which of the two labels is whose does not matter, but it must be the same all along.
    let first = result.speakers[0].as_str();
    let right = heard.iter().filter(|(label, person)| (*label == first) == (*person == "speaker90")).count();
    let right = right.max(heard.len() - right);
    assert!(heard.len() >= 40 && right * 10 >= heard.len() * 9, "{right} of {} words: {text}", heard.len());
}

#[test]
#[ignore = "needs models"]
fn speakers_can_be_given_or_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (call, _) = telephone_call();
    let with = |speakers: &str| {
        let options = ["transcribe", "-q", "-f", "json", "--speakers", speakers];
        let output = hark(folder.path()).args(options).arg(&call).output().unwrap();
        serde_json::from_str::<TranscriptionResult>(&stdout(&output)).unwrap()
    };
    let off = with("off");
    assert!(off.speakers.is_empty() && off.segments.iter().all(|segment| segment.speaker.is_none()));
    assert_eq!(with("1").speakers, ["SPEAKER_00"]);
    let wrong = hark(folder.path()).args(["transcribe", "--speakers", "many"]).arg(&call).output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("auto, off, or how many speak"));
}

#[test]
#[ignore = "needs models and espeak-ng"]
fn one_voice_gets_no_label_in_text() {
    let folder = folder_with_talk();
    let output = hark(folder.path()).args(["transcribe", "talk.wav", "--speakers", "auto", "-q"]).output().unwrap();
    let text = stdout(&output);
    assert_heard(&text);
    assert!(!text.contains("SPEAKER"), "{text}");
}
