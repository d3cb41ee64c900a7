//! The real binary as a user and a script meet it.

mod support;

use std::path::Path;
use std::process::{Command, Output};

/// A command on a machine without models.
fn hark(folder: &Path) -> Command {
    let mut command = support::hark(folder);
    command.env("HARK_MODELS", folder.join("models"));
    command
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    hark(folder).args(arguments).output().expect("the binary starts")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("stdout is UTF-8")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("stderr is UTF-8")
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

#[test]
fn wrong_usage_exits_with_2_and_says_why() {
    let folder = folder();
    for (arguments, reason) in [
        (&["transcribe"][..], "required"),
        (&["transcribe", "a.mp3", "-f", "doc"], "choose one of txt, srt, vtt, json"),
        (&["transcribe", "a.mp3", "--beam", "0"], "1..=32"),
        (&["transcribe", "a.mp3", "--temperature", "9"], "from 0 to 2"),
        (&["transcribe", "a.mp3", "--max-line-width", "3"], "10 to 1000"),
        (&["transcribe", "a.mp3", "--overwrite", "--skip-existing"], "cannot be used with"),
        (&["transcribe", "a.mp3", "b.mp3", "-f", "srt"], "-o DIR"),
        (&["transcribe", "x/a.mp3", "y/a.mp3", "-o", "out/"], "would both be written to out/a.mp3.txt"),
        (&["transcribe", "-", "-"], "only once"),
        (&["models", "pull"], "required"),
        (&["nonsense"], "unrecognized subcommand"),
    ] {
        let output = run(folder.path(), arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains(reason), "{arguments:?}: {}", stderr(&output));
        assert_eq!(stdout(&output), "", "{arguments:?}");
    }
}

#[test]
fn each_file_that_fails_has_its_line_and_the_exit_code_is_1() {
    let folder = folder();
    std::fs::create_dir(folder.path().join("talks")).unwrap();
    std::fs::write(folder.path().join("done.mp3"), "not read").unwrap();
    std::fs::create_dir(folder.path().join("out")).unwrap();
    std::fs::write(folder.path().join("out/done.txt"), "kept").unwrap();
    let output = run(folder.path(), &["transcribe", "missing.mp3", "talks", "done.mp3", "-o", "out"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        stderr(&output),
        "missing.mp3: no such file\n\
         talks: is a folder: give the files in it\n\
         done.mp3: out/done.txt exists: --overwrite replaces it, --skip-existing leaves it\n"
    );
    assert_eq!(stdout(&output), "");
    assert_eq!(std::fs::read_to_string(folder.path().join("out/done.txt")).unwrap(), "kept");
}

#[test]
fn what_exists_can_be_skipped_without_loading_anything() {
    let folder = folder();
    std::fs::write(folder.path().join("done.mp3"), "not read").unwrap();
    std::fs::write(folder.path().join("done.srt"), "kept").unwrap();
    let output = run(folder.path(), &["transcribe", "done.mp3", "-o", "done.srt", "--skip-existing"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(std::fs::read_to_string(folder.path().join("done.srt")).unwrap(), "kept");
}

#[test]
fn a_model_that_is_not_installed_is_named_with_the_command_that_installs_it() {
    let folder = folder();
    std::fs::write(folder.path().join("a.wav"), "RIFF").unwrap();
    let output = run(folder.path(), &["transcribe", "a.wav", "--model", "whisper-base"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("hark models pull whisper-base"), "{}", stderr(&output));
}

#[test]
fn the_list_of_models_names_every_model_with_its_licence_and_source() {
    let folder = folder();
    let output = run(folder.path(), &["models"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let table = stdout(&output);
    for name in ["whisper-tiny", "whisper-base", "whisper-small", "whisper-medium", "whisper-large-v3", "silero-vad"] {
        let line = table.lines().find(|line| line.split_whitespace().next() == Some(name));
        let line = line.unwrap_or_else(|| panic!("{name} is not in the list:\n{table}"));
        assert!(line.contains(" - ") && line.contains("MIT"), "{line}");
    }

    let json: serde_json::Value = serde_json::from_str(&stdout(&run(folder.path(), &["models", "--json"]))).unwrap();
    let base = json["models"].as_array().unwrap().iter().find(|model| model["name"] == "whisper-base").unwrap();
    assert_eq!(base["installed"], false);
    assert!(base["sources"].as_array().unwrap().len() > 1);
    assert_eq!(json["aliases"]["large-v3-turbo"], serde_json::Value::Null);
    // What a language model needs in memory, installed or not; other models do not say.
    let language = json["models"].as_array().unwrap().iter().find(|model| model["role"] == "language").unwrap();
    let memory = language["memory_bytes"].as_u64().unwrap();
    assert!(memory > language["size_bytes"].as_u64().unwrap() && base["memory_bytes"].is_null(), "{language}");
}

#[test]
fn an_unknown_model_is_not_pulled_and_an_absent_one_not_removed() {
    let folder = folder();
    let output = run(folder.path(), &["models", "pull", "whisper-huge"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("\"whisper-huge\""), "{}", stderr(&output));

    let output = run(folder.path(), &["models", "pull", "hf:owner/repo"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("write hf:owner/repo/file.gguf"), "{}", stderr(&output));

    let output = run(folder.path(), &["models", "remove", "base"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stderr(&output), "whisper-base: is not installed\n");

    let output = run(folder.path(), &["models", "verify"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("no models in"), "{}", stderr(&output));
}

#[test]
fn doctor_says_what_is_missing_and_how_to_fix_it() {
    let folder = folder();
    let output = run(folder.path(), &["doctor"]);
    assert_eq!(output.status.code(), Some(1), "a machine without models is not ready");
    let report = stdout(&output);
    assert!(report.contains("→ hark models pull whisper-base"), "{report}");
    assert!(report.contains("→ hark models pull silero-vad"), "{report}");

    let json: serde_json::Value = serde_json::from_str(&stdout(&run(folder.path(), &["doctor", "--json"]))).unwrap();
    assert_eq!(json["ready"], false);
    let findings = json["findings"].as_array().unwrap();
    let finding = |name: &str| {
        let found = findings.iter().find(|finding| finding["name"] == name);
        found.unwrap_or_else(|| panic!("{name} is not examined: {json:#}"))
    };
    assert_eq!(finding("speech model")["status"], "missing");
    assert_eq!(finding("language model")["status"], "optional");
    assert!(finding("recommended")["fix"].as_str().unwrap().starts_with("hark models pull "), "{json:#}");
    assert_eq!(finding("temporary folder")["status"], "ok");
    for name in ["cpu", "cores", "memory", "gpu", "ffmpeg", "configuration", "models folder", "disk"] {
        assert!(!finding(name)["detail"].as_str().unwrap().is_empty());
    }
}

#[test]
fn a_wrong_configuration_is_an_error_for_commands_and_a_finding_for_doctor() {
    let folder = folder();
    std::fs::write(folder.path().join("hark.toml"), "modle = \"x\"\n").unwrap();
    let output = run(folder.path(), &["models"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(stderr(&output), "hark: hark.toml: unknown key `modle`: did you mean `model`?\n");

    let report = stdout(&run(folder.path(), &["doctor"]));
    assert!(report.contains("did you mean `model`?"), "{report}");
}

#[test]
fn flags_win_over_the_environment_and_the_environment_over_the_file() {
    let folder = folder();
    std::fs::create_dir_all(folder.path().join("config/hark")).unwrap();
    std::fs::write(folder.path().join("config/hark/hark.toml"), "models_dir = \"from-file\"\n").unwrap();
    let shown = |command: &mut Command| {
        let output = command.args(["models", "--json"]).output().unwrap();
        let json: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
        json["folder"].as_str().unwrap().to_owned()
    };
    let from_file = shown(hark(folder.path()).env_remove("HARK_MODELS"));
    assert_eq!(Path::new(&from_file), folder.path().join("config/hark/from-file"));
    assert_eq!(shown(hark(folder.path()).env("HARK_MODELS", "from-env")), "from-env");
    let flagged = shown(hark(folder.path()).env("HARK_MODELS", "from-env").args(["--models-dir", "from-flag"]));
    assert_eq!(flagged, "from-flag");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let folder = folder();
    // `true` never reads, so the pipe is closed when the list is written.
    let script = format!("{} models --json | true; echo \"${{PIPESTATUS[0]}}\"", env!("CARGO_BIN_EXE_hark"));
    for _ in 0..5 {
        let output = Command::new("bash").args(["-c", &script]).current_dir(folder.path()).output().unwrap();
        assert_eq!(stdout(&output), "0\n");
        assert_eq!(stderr(&output), "");
    }
}

/// A server that answers one request with this JSON; what it was sent comes out.
fn answer_once(answer: &'static str) -> (String, std::thread::JoinHandle<String>) {
    use std::io::{Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let served = std::thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        let (mut request, mut bytes) = (String::new(), [0; 4096]);
        // A JSON object ends with a brace; requests of these tests are ASCII.
        while !request.ends_with('}') {
            let count = connection.read(&mut bytes).unwrap();
            assert!(count > 0, "the request ended: {request}");
            request.push_str(std::str::from_utf8(&bytes[..count]).unwrap());
        }
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length:";
        write!(connection, "{head} {}\r\n\r\n{answer}", answer.len()).unwrap();
        request
    });
    (url, served)
}

#[test]
fn a_server_is_told_who_speaks() {
    let folder = folder();
    let segments = r#"{"language": "en", "segments": [
        {"start": 0, "end": 1, "text": "Can you call them?", "speaker": "Ann"},
        {"start": 1, "end": 2, "text": "I will.", "speaker": "Bob"},
        {"start": 2, "end": 3, "text": "Tomorrow.", "speaker": "Bob"},
        {"start": 3, "end": 4, "text": "Thank you.", "speaker": "Ann"}]}"#;
    std::fs::write(folder.path().join("talk.json"), segments).unwrap();
    std::fs::write(folder.path().join("plain.txt"), "Nobody speaks here.").unwrap();
    for (file, sent) in [
        ("talk.json", r#""text":"Ann: Can you call them?\nBob: I will. Tomorrow.\nAnn: Thank you.""#),
        ("plain.txt", r#""text":"Nobody speaks here.""#),
    ] {
        let (url, served) =
            answer_once(r#"{"summary": "They call.", "style": "brief", "word_count": 2, "model": "m", "parts": 1}"#);
        let output = run(folder.path(), &["summarize", file, "--server", &url]);
        let request = served.join().unwrap();
        assert!(request.contains(sent), "{request}");
        assert_eq!(stdout(&output), "They call.\n", "{}", stderr(&output));
    }
}
