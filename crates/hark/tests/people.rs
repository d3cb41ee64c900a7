//! Accounts and keys on the command line beside a running server, and a server used from afar. Real binaries, real HTTP;
//! words are heard by whisper-base.

mod request;
mod running;
mod server;
mod support;
mod voice;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use running::Running;
use serde_json::Value;
use server::Server;
use support::{hark, models};
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

fn fails(folder: &Path, arguments: &[&str], code: i32) -> String {
    let output = run(folder, arguments);
    let problem = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {problem}");
    problem
}

fn with_stdin(folder: &Path, arguments: &[&str], input: &str) -> Output {
    let mut command = hark(folder);
    let mut child =
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

/// What a URL answers to a key: the status and the body.
fn ask(url: &str, key: &str, body: Option<Value>) -> (u16, Value) {
    let credential = format!("Bearer {key}");
    let (status, _, answer) = match body {
        None => request::request("GET", url, &[("authorization", &credential)], Vec::new()),
        Some(body) => {
            request::request("POST", url, &[("content-type", "application/json")], body.to_string().into_bytes())
        }
    };
    (status, serde_json::from_slice(&answer).unwrap())
}

/// Where and as who a command works.
fn at<'a>(server: &'a Server, key: &'a str) -> [&'a str; 4] {
    ["--server", &server.url, "--key", key]
}

/// What a server shows of a transcript.
fn shown(folder: &Path, server: &Server, key: &str, id: &str) -> String {
    ok(folder, &[&["transcripts", "show", id], &at(server, key)[..]].concat())
}

/// Has a server hear a few words of the folder's `talk.wav`, its first recording: the transcript's id, and what is shown of it.
fn heard(folder: &Path, server: &Server) -> (String, String) {
    speak("Apples and bread.", &folder.join("talk.wav"));
    let here = at(server, &server.key);
    ok(folder, &[&["transcribe", "talk.wav", "-m", "whisper-base", "-q"], &here[..]].concat());
    let list = json(folder, &[&["transcripts", "list"], &here[..]].concat());
    let id = list["transcripts"][0]["id"].to_string();
    let text = shown(folder, server, &server.key, &id);
    assert!(text.contains("bread"), "{text}");
    (id, text)
}

#[test]
fn an_account_is_made_shown_credited_and_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    assert!(fails(folder, &["account", "list"], 1).contains("holds no service"));
    assert_eq!(ok(folder, &["account", "create", "ann@example.com"]), "made the account 2 of ann@example.com\n");
    assert!(fails(folder, &["account", "create", "ANN@example.com"], 1).contains("has an account"));
    let bob = json(folder, &["account", "create", "bob@example.com", "--plan", "pro", "--credits", "5", "--admin"]);
    assert_eq!((&bob["plan"], &bob["credits"], &bob["is_admin"]), (&"pro".into(), &5.into(), &true.into()));
    let list = ok(folder, &["account", "list"]);
    let lines: Vec<&str> = list.lines().collect();
    assert_eq!(lines.len(), 3, "{list}");
    assert!(lines[0].starts_with("id  email") && lines[1].contains("ann@example.com  free      600"), "{list}");
    assert!(lines[2].ends_with("admin"), "{list}");

    assert_eq!(
        ok(folder, &["account", "credit", "ann@example.com", "40", "--note", "a gift"]),
        "ann@example.com has 640 credits\n"
    );
    assert_eq!(json(folder, &["account", "credit", "ann@example.com", "-600"])["credits"], 40);
    assert!(fails(folder, &["account", "credit", "ann@example.com", "-41"], 1).contains("not enough credits"));
    ok(folder, &["account", "plan", "ann@example.com", "business"]);
    let shown = json(folder, &["account", "show", "2"]);
    assert_eq!(
        (&shown["plan"], &shown["is_plan_active"], &shown["credits"]),
        (&"business".into(), &true.into(), &40.into())
    );
    let amounts: Vec<i64> =
        shown["ledger"].as_array().unwrap().iter().map(|entry| entry["amount"].as_i64().unwrap()).collect();
    assert_eq!(amounts.iter().sum::<i64>(), 40, "{shown}");
    assert!(ok(folder, &["account", "show", "ann@example.com"]).contains("a gift"));
    assert!(
        fails(folder, &["account", "plan", "ann@example.com", "gold"], 2).contains("free, pro, business, enterprise")
    );

    assert!(fails(folder, &["account", "delete", "ann@example.com"], 2).contains("--yes"));
    ok(folder, &["account", "delete", "ann@example.com", "--yes"]);
    assert!(fails(folder, &["account", "show", "ann@example.com"], 1).contains("no account is called"));
    // The account of anonymous callers is nobody's to touch.
    assert!(fails(folder, &["account", "delete", "1", "--yes"], 1).contains("no account is called"));
}

#[test]
fn accounts_keys_and_passwords_made_beside_a_running_server_work_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let server = Server::start(folder, &["--role", "account"]);
    let account = format!("{}/v1/account", server.url);
    assert_eq!(ask(&account, &server.key, None).0, 200);
    ok(folder, &["account", "create", "ann@example.com"]);
    let key = ok(folder, &["key", "create", "ann@example.com", "--name", "laptop", "--rate-limit", "7"]);
    let key = key.trim();
    assert!(key.starts_with("svc_") && key.len() == 68, "{key}");
    let (status, body) = ask(&account, key, None);
    assert_eq!((status, &body["email"]), (200, &"ann@example.com".into()));
    let listed = ok(folder, &["key", "list", "ann@example.com"]);
    assert!(listed.contains("laptop") && listed.contains(&key[..12]) && !listed.contains(&key[..20]), "{listed}");
    let keys = json(folder, &["key", "list", "ann@example.com"]);
    assert_eq!(keys["keys"][0]["rate_limit"], 7);

    let set = with_stdin(folder, &["account", "password", "ann@example.com", "--stdin"], "correct horse battery\n");
    assert!(set.status.success(), "{}", String::from_utf8_lossy(&set.stderr));
    let short = with_stdin(folder, &["account", "password", "ann@example.com", "--stdin"], "short\n");
    assert_eq!(short.status.code(), Some(2));
    let sign_in = |password: &str| {
        let body = serde_json::json!({"email": "ann@example.com", "password": password, "token": true});
        ask(&format!("{}/v1/auth/signin", server.url), "", Some(body))
    };
    let (status, body) = sign_in("correct horse battery");
    assert_eq!(status, 200, "{body}");
    assert_eq!(sign_in("short").0, 401);
    let token = body["token"].as_str().unwrap().to_owned();
    assert_eq!(ask(&account, &token, None).0, 200);

    let bound = ["--scope", "read", "--expires", "2099-01-31", "--allow", "127.0.0.1", "--spending-limit", "5"];
    let reader = ok(folder, &[&["key", "create", "ann@example.com"], &bound[..]].concat());
    assert_eq!(ask(&account, reader.trim(), None).0, 200);
    assert_eq!(ask(&format!("{}/v1/audit", server.url), reader.trim(), None).0, 403, "it may only read");
    let rolled = ok(folder, &["key", "roll", "ann@example.com", &reader[..12], "--grace", "1"]);
    assert_eq!((ask(&account, reader.trim(), None).0, ask(&account, rolled.trim(), None).0), (200, 200));
    assert!(
        fails(folder, &["key", "create", "ann@example.com", "--scope", "all"], 2)
            .contains("transcribe, read or manage")
    );
    let elsewhere = ok(folder, &["key", "create", "ann@example.com", "--allow", "192.0.2.7"]);
    assert_eq!(ask(&account, elsewhere.trim(), None).0, 403);

    let revoked = ok(folder, &["key", "revoke", "ann@example.com", &key[..12]]);
    assert!(revoked.contains("within a second"), "{revoked}");
    assert!(fails(folder, &["key", "revoke", "ann@example.com", &key[..12]], 1).contains("no such key in use"));
    let changed = with_stdin(folder, &["account", "password", "ann@example.com", "--stdin"], "another horse battery\n");
    assert!(String::from_utf8(changed.stdout).unwrap().contains("1 sessions and user tokens were ended"));
    // Another process may remember a credential for a second.
    std::thread::sleep(Duration::from_millis(1200));
    assert_eq!(ask(&account, key, None).0, 401);
    assert_eq!(ask(&account, &token, None).0, 401);
    assert_eq!(sign_in("correct horse battery").0, 401);
    assert_eq!(sign_in("another horse battery").0, 200);

    let log = json(folder, &["audit", "--account", "ann@example.com"]);
    let events: Vec<(&str, &str)> = log["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| (event["event"].as_str().unwrap(), event["actor"].as_str().unwrap()))
        .collect();
    for expected in ["account.created", "key.created", "key.rolled", "key.revoked", "password.changed"] {
        assert!(events.contains(&(expected, "operator")), "{expected} is not in {events:?}");
    }
    assert!(events.contains(&("session.created", "visitor")) && events.contains(&("session.refused", "visitor")));
    assert!(ok(folder, &["audit", "--limit", "3"]).contains("session.created"));
}

#[test]
#[ignore = "needs the web app"]
fn the_web_app_is_at_the_root_of_the_server_unless_it_is_switched_off() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let root = |server: &Server| {
        let (status, headers, body) = request::request("GET", &server.url, &[("accept", "text/html")], Vec::new());
        (status, headers["content-type"].to_str().unwrap().to_owned(), String::from_utf8(body).unwrap())
    };
    let (status, kind, page) = root(&Server::start(folder, &[]));
    assert_eq!(status, 200, "this program has no web app: `./hark test` builds it before the program ({page})");
    assert_eq!(kind, "text/html; charset=utf-8");
    let script = page.split("src=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a script");
    let server = Server::start(folder, &[]);
    let (status, headers, _) = request::request("GET", &format!("{}{script}", server.url), &[], Vec::new());
    assert_eq!(
        (status, headers["content-type"].to_str().unwrap()),
        (200, "text/javascript; charset=utf-8"),
        "{script}"
    );
    drop(server);
    assert_eq!(root(&Server::start(folder, &["--no-web"])).0, 404);
    std::fs::write(folder.join("hark.toml"), "[server]\nweb = false\n").unwrap();
    let (status, kind, _) = root(&Server::start(folder, &[]));
    assert_eq!((status, kind.as_str()), (404, "application/json"));
}

#[test]
#[ignore = "needs models and espeak-ng"]
fn what_was_stored_before_there_was_a_master_key_is_sealed_beside_a_server_that_has_it() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let server = Server::start(folder, &[]);
    let key = server.key.clone();
    let (id, before) = heard(folder, &server);
    ok(folder, &["seal", "init", "--key-file", "master"]);
    // The server has no key: it could no longer read what it stored.
    let refused = fails(folder, &["seal", "all", "--key-file", "master"], 1);
    assert!(refused.contains("master_key_file"), "{refused}");
    assert_eq!(shown(folder, &server, &key, &id), before);
    drop(server);

    std::fs::write(folder.join("hark.toml"), "[server]\nmaster_key_file = \"master\"\n").unwrap();
    let server = Server::start(folder, &[]);
    let open = json(folder, &["seal", "status"]);
    assert!(open["open"]["values"].as_i64().unwrap() >= 2, "{open}");
    let sealed = json(folder, &["seal", "all"]);
    assert_eq!((&sealed["sealed"], sealed["left"]["values"].as_i64()), (&open["open"], Some(0)), "{sealed}");
    assert_eq!(ok(folder, &["seal", "status"]), "nothing is stored that is not sealed\n");
    assert_eq!(shown(folder, &server, &key, &id), before);
    let whole = json(folder, &[&["transcripts", "show", &id], &at(&server, &key)[..]].concat());
    assert_eq!(whole["is_encrypted"], true, "{whole}");
    // Nothing is left to seal, and the tables can be written anew beside the server.
    assert!(ok(folder, &["seal", "all", "--rewrite"]).starts_with("0 texts and 0 recordings"));
    assert_eq!(shown(folder, &server, &key, &id), before);
}

#[test]
#[ignore = "needs models and espeak-ng"]
fn the_master_key_is_changed_and_what_was_sealed_is_still_read() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    assert!(fails(folder, &["seal", "init"], 2).contains("--key-file"));
    ok(folder, &["seal", "init", "--key-file", "master"]);
    assert!(fails(folder, &["seal", "init", "--key-file", "master"], 1).contains("exists"));
    std::fs::write(folder.join("hark.toml"), "[server]\nmaster_key_file = \"master\"\n").unwrap();
    let server = Server::start(folder, &[]);
    let key = server.key.clone();
    let (id, before) = heard(folder, &server);
    drop(server);

    let old = std::fs::read_to_string(folder.join("master")).unwrap();
    let rotated = json(folder, &["seal", "rotate"]);
    assert!(rotated["accounts"].as_i64().unwrap() >= 1, "{rotated}");
    assert_eq!(rotated["keys"], 2);
    let server = Server::start(folder, &[]);
    assert_eq!(shown(folder, &server, &key, &id), before);
    drop(server);
    let forgotten = json(folder, &["seal", "rotate", "--no-new-key", "--forget-old"]);
    assert_eq!(
        (&forgotten["accounts"], &forgotten["forgotten"], &forgotten["keys"]),
        (&0.into(), &1.into(), &1.into())
    );
    let server = Server::start(folder, &[]);
    assert_eq!(shown(folder, &server, &key, &id), before);
    drop(server);
    // With the old key alone nothing opens.
    std::fs::write(folder.join("master"), old).unwrap();
    let server = Server::start(folder, &[]);
    fails(folder, &[&["transcripts", "show", &id], &at(&server, &key)[..]].concat(), 1);
}

#[test]
#[ignore = "needs models and espeak-ng"]
fn a_server_hears_the_same_as_this_machine_and_keeps_what_it_heard() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for (name, text) in
        [("talk.wav", SENTENCE), ("two.wav", "Apples and bread."), ("three.wav", "The weather is nice.")]
    {
        speak(text, &folder.join(name));
    }
    let server = Server::start(folder, &[]);
    ok(folder, &["account", "create", "ann@example.com"]);
    let key = ok(folder, &["key", "create", "ann@example.com"]).trim().to_owned();
    let far = |arguments: &[&str]| {
        let mut command = hark(folder);
        command.args(arguments).env("HARK_SERVER", &server.url).env("HARK_KEY", &key);
        command.output().unwrap()
    };
    let text = |output: Output| {
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    for format in ["txt", "srt", "json"] {
        let arguments = ["transcribe", "talk.wav", "-m", "whisper-base", "-f", format];
        assert_eq!(text(far(&arguments)), ok(folder, &arguments), "{format}");
    }
    // A free account may have two at once: the others wait their turn.
    let several =
        far(&["transcribe", "talk.wav", "two.wav", "three.wav", "-m", "whisper-base", "-o", "out/", "-f", "txt,vtt"]);
    text(several);
    for name in ["talk", "two", "three"] {
        assert!(!std::fs::read_to_string(folder.join(format!("out/{name}.txt"))).unwrap().trim().is_empty());
        assert!(std::fs::read_to_string(folder.join(format!("out/{name}.vtt"))).unwrap().starts_with("WEBVTT"));
    }
    let piped = {
        let mut command = hark(folder);
        command
            .args(["transcribe", "-", "-m", "whisper-base", "-q"])
            .env("HARK_SERVER", &server.url)
            .env("HARK_KEY", &key);
        command.stdin(std::fs::File::open(folder.join("two.wav")).unwrap());
        text(command.output().unwrap())
    };
    assert!(piped.to_lowercase().contains("bread"), "{piped}");

    let list: Value = serde_json::from_str(&text(far(&["transcripts", "list", "--json"]))).unwrap();
    assert_eq!(list["total"], 7);
    let shown = text(far(&["transcripts", "list", "--status", "completed", "--per-page", "2"]));
    assert!(shown.contains("page 1 of 4, 7 transcripts in all"), "{shown}");
    let id = list["transcripts"][6]["id"].to_string();
    let shown = text(far(&["transcripts", "show", &id]));
    assert!(shown.to_lowercase().contains("apples"), "{shown} {list:#}");
    text(far(&["transcripts", "export", &id, "-o", "talk.docx"]));
    assert!(std::fs::read(folder.join("talk.docx")).unwrap().starts_with(b"PK"));
    let again = far(&["transcripts", "export", &id, "-o", "talk.docx"]);
    assert_eq!(again.status.code(), Some(1), "a file that exists is not replaced");
    assert!(text(far(&["transcripts", "export", &id, "-f", "srt"])).starts_with("1\n00:00:0"));
    text(far(&["transcripts", "delete", &id, "--yes"]));
    let gone = far(&["transcripts", "show", &id]);
    assert_eq!(gone.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&gone.stderr).contains("no such transcript"));
}

#[test]
#[ignore = "needs models and espeak-ng"]
fn what_goes_wrong_with_a_server_is_said_and_costs_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    speak("Apples and bread.", &folder.join("talk.wav"));
    std::fs::write(folder.join("noise.mp3"), vec![7u8; 5000]).unwrap();
    let server = Server::start(folder, &[]);
    let key = server.key.clone();
    let here = |arguments: &[&str], key: &str, code: i32| {
        fails(folder, &[arguments, &["--server", &server.url, "--key", key]].concat(), code)
    };
    assert!(here(&["transcribe", "talk.wav"], "svc_wrong", 1).contains("this key is not valid"));
    assert!(here(&["transcribe", "noise.mp3"], &key, 1).starts_with("noise.mp3: "));
    assert!(here(&["transcribe", "talk.wav", "-m", "nonsense"], &key, 1).contains("nonsense"));
    assert!(here(&["transcribe", "talk.wav", "--beam", "5"], &key, 2).contains("--beam"));
    assert!(here(&["transcripts", "show", "5"], &key, 1).contains("no such transcript"));
    assert!(fails(folder, &["transcripts", "list"], 2).contains("--server"));
    assert!(fails(folder, &["transcripts", "list", "--server", &server.url], 2).contains("--key"));
    assert!(fails(folder, &["transcribe", "talk.wav", "--server", "127.0.0.1:9"], 2).contains("https://"));
    let nobody = fails(folder, &["transcribe", "talk.wav", "--server", "http://127.0.0.1:9", "--key", &key], 1);
    assert!(nobody.contains("can't be reached"), "{nobody}");
    // Without a key the anonymous limits hold, and nothing is kept.
    let anonymous = ok(folder, &["transcribe", "talk.wav", "-m", "whisper-base", "-q", "--server", &server.url]);
    assert!(anonymous.to_lowercase().contains("bread"), "{anonymous}");
    let list = json(folder, &["transcripts", "list", "--server", &server.url, "--key", &key]);
    let completed = list["transcripts"].as_array().unwrap().iter().filter(|one| one["status"] == "completed").count();
    assert_eq!(completed, 0, "{list}");
    assert_eq!(json(folder, &["account", "show", "admin@localhost"])["credits"], 1_000_000);
}

#[test]
#[ignore = "needs models and espeak-ng"]
fn ctrl_c_calls_off_what_the_server_works_on() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // Long enough to be still under way: ten minutes of it.
    speak(SENTENCE, &folder.join("talk.wav"));
    let loops = Command::new("ffmpeg")
        .args(["-v", "error", "-stream_loop", "120", "-i", "talk.wav", "-c", "copy", "long.wav"])
        .current_dir(folder)
        .status();
    assert!(loops.expect("ffmpeg is not there: `./hark test` installs what tests need").success());
    let server = Server::start(folder, &["--threads", "1"]);
    let key = server.key.clone();
    let mut command = hark(folder);
    command.args(["transcribe", "long.wav", "-m", "whisper-base", "--server", &server.url, "--key", &key]);
    let child = Running::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    let listed = || json(folder, &["transcripts", "list", "--server", &server.url, "--key", &key]);
    let begun = Instant::now();
    while listed()["transcripts"][0]["status"] != "processing" {
        assert!(begun.elapsed() < Duration::from_secs(60), "the server did not begin: {}", listed());
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(
        json(folder, &["account", "show", "admin@localhost"])["credits"].as_i64().unwrap() < 1_000_000,
        "credits are held"
    );
    child.interrupt();
    let ended = child.output();
    assert_eq!(ended.status.code(), Some(130), "{}", String::from_utf8_lossy(&ended.stderr));
    assert_eq!(listed()["total"], 0);
    assert_eq!(json(folder, &["account", "show", "admin@localhost"])["credits"], 1_000_000);
}

/// A stretch of one of the real meetings as a WAV file.
fn cut_meeting(name: &str, from: f64, to: f64, path: &Path) {
    use hark_media::{AudioStream, Options, Source};
    let meeting = models().join("test-sounds-meetings").join(name);
    let mut stream = AudioStream::open(Source::Path(meeting.clone()), &Options::default())
        .unwrap_or_else(|error| panic!("{}: {error}: `./hark test` installs what tests need", meeting.display()));
    let mut samples = Vec::new();
    while stream.read(&mut samples).unwrap() > 0 {}
    let sample = |seconds: f64| ((seconds * 16_000.0) as usize).min(samples.len());
    let mut wav = Vec::new();
    hark_media::write_wav(&mut wav, &samples[sample(from)..sample(to)], 16_000).unwrap();
    std::fs::write(path, wav).unwrap();
}

#[test]
#[ignore = "needs models"]
fn a_voice_taught_here_or_to_a_server_is_named_where_that_is_asked_for() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    // By the reference MEE009 speaks alone in the first three, and in the last with one other.
    cut_meeting("dev00.wav", 1.44, 9.0, &here.join("one.wav"));
    cut_meeting("dev00.wav", 7.0, 13.1, &here.join("two.wav"));
    cut_meeting("dev00.wav", 1.44, 13.1, &here.join("both.wav"));
    cut_meeting("dev01.wav", 0.0, 30.0, &here.join("meeting.wav"));
    cut_meeting("trn05.wav", 0.0, 30.0, &here.join("stranger.wav"));
    let transcribe = ["transcribe", "meeting.wav", "-q", "-l", "en", "-f", "vtt", "--identify"];

    let problem = fails(here, &transcribe, 1);
    assert!(problem.contains("hark speakers enroll"), "{problem}");
    let problem = fails(here, &[&transcribe[..], &["--speakers", "off"]].concat(), 2);
    assert!(problem.contains("--speakers off"), "{problem}");
    let problem = fails(here, &["speakers", "enroll", "Ann", "one.wav", "stranger.wav"], 1);
    assert!(problem.contains("stranger.wav: is not the voice of one.wav"), "{problem}");
    ok(here, &["speakers", "enroll", "Ann Lee", "one.wav", "two.wav"]);
    fails(here, &["speakers", "enroll", "ann lee", "both.wav"], 1);
    let kept = here.join("share/hark/voiceprints.json");
    assert_eq!(std::fs::metadata(&kept).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(json(here, &["speakers", "list"])["speakers"][0]["name"], "Ann Lee");
    let named = ok(here, &transcribe);
    assert!(named.contains("<v Ann Lee>") && named.contains("<v SPEAKER_0"), "{named}");
    let unasked = ok(here, &transcribe[..transcribe.len() - 1]);
    assert!(unasked.contains("<v SPEAKER_00>") && !unasked.contains("Ann Lee"), "{unasked}");
    ok(here, &["speakers", "remove", "ANN LEE"]);
    assert_eq!(json(here, &["speakers", "list"])["speakers"], serde_json::json!([]));
    assert!(!std::fs::read_to_string(kept).unwrap().contains("Ann"), "what was removed is gone");

    let server = Server::start(here, &[]);
    let remote = at(&server, &server.key);
    let there = |arguments: &[&str]| ok(here, &[arguments, &remote].concat());
    there(&["speakers", "enroll", "Ann Lee", "both.wav"]);
    assert!(there(&["speakers", "list"]).contains("Ann Lee"));
    assert_eq!(
        json(here, &["speakers", "list"])["speakers"],
        serde_json::json!([]),
        "the account's are not this machine's"
    );
    let named = there(&[&transcribe[..], &["-m", "base"]].concat());
    assert!(named.contains("<v Ann Lee>"), "{named}");
    there(&["speakers", "remove", "ann lee"]);
    assert!(!there(&["speakers", "list"]).contains("Ann Lee"));
    let problem = fails(here, &["speakers", "list", "--server", &server.url], 2);
    assert!(problem.contains("--key"), "{problem}");
}
