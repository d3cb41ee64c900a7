//! Live sound against the real server: the binary as a client of itself, a crowd that comes and goes, and what that leaves in
//! memory. Words are heard by whisper-base.

mod request;
mod server;
mod support;
mod voice;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use server::Server;
use support::{hark, models};
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use voice::{SENTENCE, speak};

/// A server that soon gives up those who are gone or say nothing, and keeps one model in memory.
fn start(folder: &Path, arguments: &[&str]) -> Server {
    let settings = "[server]\nloaded_models = 1\n[server.stream]\nresume = 0.2\nfirst_message = 2\n";
    std::fs::write(folder.join("hark.toml"), settings).unwrap();
    Server::start(folder, arguments)
}

impl Server {
    fn proc(&self, file: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{file}", self.child.id()))
    }

    fn open_files(&self) -> usize {
        std::fs::read_dir(self.proc("fd")).unwrap().count()
    }

    fn memory_megabytes(&self) -> u64 {
        let status = std::fs::read_to_string(self.proc("status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
    }

    /// Models in memory, whoever holds them: each computes on a thread of its own.
    fn models_in_memory(&self) -> usize {
        let tasks = std::fs::read_dir(self.proc("task")).unwrap().flatten();
        // A thread may end before its name is read.
        let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
        names.filter(|name| name.trim() == "hark-engine").count()
    }

    /// Waits until so many models are in memory, and makes sure that it stays at that.
    fn assert_models_in_memory(&self, wanted: usize, when: &str) {
        let begun = Instant::now();
        while self.models_in_memory() != wanted && begun.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(50));
        }
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(self.models_in_memory(), wanted, "models in memory {when}");
    }

    /// What the account's credits and holds are.
    fn credits(&self) -> Value {
        let (url, credential) = (format!("{}/v1/credits", self.url), format!("Bearer {}", self.key));
        let (status, _, body) = request::request("GET", &url, &[("authorization", &credential)], Vec::new());
        assert_eq!(status, 200);
        serde_json::from_slice(&body).unwrap()
    }

    async fn connect(
        &self,
        with_key: bool,
    ) -> tokio_tungstenite::WebSocketStream<tokio_tungstenite::MaybeTlsStream<tokio::net::TcpStream>> {
        let url = format!("{}/v1/stream", self.url.replace("http://", "ws://"));
        let mut request = url.into_client_request().unwrap();
        if with_key {
            request.headers_mut().insert("authorization", format!("Bearer {}", self.key).parse().unwrap());
        }
        connect_async(request).await.unwrap().0
    }
}

fn is_sentence(text: &str) -> bool {
    let heard = text.to_lowercase();
    ["weather", "today", "market", "apples", "bread", "going"].iter().filter(|word| heard.contains(*word)).count() >= 4
}

#[test]
#[ignore = "needs models and espeak-ng"]
fn live_sound_goes_to_a_server_from_a_file_and_from_a_pipe_and_a_wrong_key_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let server = start(folder, &[]);
    let recording = folder.join("talk.wav");
    speak(SENTENCE, &recording);
    let from_file = hark(folder)
        .args(["live", "talk.wav", "-l", "en", "-m", "base", "-o", "talk.json", "--server", &server.url])
        .env("HARK_KEY", &server.key)
        .output()
        .unwrap();
    let (words, problem) = (String::from_utf8_lossy(&from_file.stdout), String::from_utf8_lossy(&from_file.stderr));
    assert!(from_file.status.success(), "{problem}");
    assert!(is_sentence(&words), "{words} {problem}");
    let written: Value = serde_json::from_slice(&std::fs::read(folder.join("talk.json")).unwrap()).unwrap();
    assert!(is_sentence(written["text"].as_str().unwrap()), "{written}");
    assert!(written["segments"][0]["words"].as_array().unwrap().len() > 2, "{written}");

    let from_pipe = hark(folder)
        .args(["live", "-", "--quiet", "-l", "en", "-m", "base", "--server", &server.url, "--key", &server.key])
        .stdin(std::fs::File::open(&recording).unwrap())
        .output()
        .unwrap();
    assert!(is_sentence(&String::from_utf8_lossy(&from_pipe.stdout)));
    assert!(from_pipe.stderr.is_empty(), "{}", String::from_utf8_lossy(&from_pipe.stderr));

    let call = models().join("test-sounds-meetings/sample.wav");
    let with_speakers = hark(folder)
        .args(["live", "-q", "--speakers", "-l", "en", "-m", "base", "-o", "call.json", "--server", &server.url])
        .arg(call)
        .env("HARK_KEY", &server.key)
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&with_speakers.stdout);
    assert!(words.contains("SPEAKER_00: ") && words.contains("SPEAKER_01: "), "{words}");
    let written: Value = serde_json::from_slice(&std::fs::read(folder.join("call.json")).unwrap()).unwrap();
    assert_eq!(written["speakers"].as_array().map(Vec::len), Some(2), "{written}");
    let worded = written["segments"].as_array().unwrap().iter().all(|segment| segment["words"][0]["word"].is_string());
    assert!(worded, "every segment has its words: {written}");

    let refused =
        hark(folder).args(["live", "talk.wav", "--server", &server.url, "--key", "svc_wrong"]).output().unwrap();
    let problem = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && problem.contains("HARK_KEY"), "{problem}");
}

#[test]
fn a_thousand_connections_that_come_and_go_leave_no_memory_files_or_credits_behind() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), &[]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        // The first loads the model, which stays.
        one_of_each(&server, 0).await;
        for number in 1..100 {
            one_of_each(&server, number).await;
        }
    });
    let (files, memory) = (settled(&server, usize::MAX), server.memory_megabytes());
    let credits = server.credits();
    runtime.block_on(async {
        for number in 100..1100 {
            one_of_each(&server, number).await;
        }
    });
    let files_after = settled(&server, files);
    assert!(files_after <= files + 2, "{files} open files before, {files_after} after");
    let memory_after = server.memory_megabytes();
    assert!(memory_after <= memory + 60, "{memory} MB before, {memory_after} MB after");
    // Nobody sent sound: nothing is charged, and nothing stays held.
    assert_eq!(server.credits(), credits);
}

#[test]
#[ignore = "needs models and espeak-ng"]
fn a_live_session_and_files_share_one_model_in_memory_and_what_is_over_the_limit_goes_when_its_use_ends() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let own = folder.join("models");
    std::fs::create_dir(&own).unwrap();
    for (name, model) in [("first", "whisper-tiny"), ("second", "whisper-tiny"), ("silero-vad", "silero-vad")] {
        std::os::unix::fs::symlink(models().join(model), own.join(name)).unwrap();
    }
    let server = start(folder, &["--models-dir", own.to_str().unwrap(), "--threads", "1"]);
    speak(SENTENCE, &folder.join("talk.wav"));
    let transcribe = |model: &str| {
        let output = hark(folder)
            .args(["transcribe", "talk.wav", "-q", "-l", "en", "-m", model, "--server", &server.url])
            .env("HARK_KEY", &server.key)
            .output()
            .unwrap();
        let (words, problem) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success() && !words.trim().is_empty(), "{words} {problem}");
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let listen = |model: &str| {
        runtime.block_on(async {
            let mut socket = server.connect(true).await;
            let hello = json!({"language": "en", "model": model}).to_string();
            socket.send(Message::Text(hello.into())).await.unwrap();
            let ready = socket.next().await.unwrap().unwrap().into_text().unwrap();
            assert!(ready.contains("ready"), "{ready}");
            socket
        })
    };
    server.assert_models_in_memory(0, "before anybody asks");
    let session = listen("first");
    let another = listen("first");
    server.assert_models_in_memory(1, "with two sessions of one model");
    transcribe("first");
    server.assert_models_in_memory(1, "after a file of the sessions' model");
    transcribe("second");
    server.assert_models_in_memory(1, "after a file of another model: the sessions' one is in use, so that one goes");
    transcribe("first");
    server.assert_models_in_memory(1, "after a file of the sessions' model, which has not been loaded again");

    let other = listen("second");
    server.assert_models_in_memory(2, "with sessions of two models");
    drop(session);
    server.assert_models_in_memory(2, "while one session of each model is left");
    drop(another);
    server.assert_models_in_memory(1, "when only the second model is in use");
    transcribe("second");
    drop(other);
    server.assert_models_in_memory(1, "when nobody uses any: as many as may stay");
    transcribe("first");
    server.assert_models_in_memory(1, "after a file of the other model");
}

/// The number of open files once it does not fall any more, or is as low as it was.
fn settled(server: &Server, before: usize) -> usize {
    let begun = Instant::now();
    let mut last = server.open_files();
    loop {
        std::thread::sleep(Duration::from_secs(1));
        let now = server.open_files();
        let is_calm = now >= last && begun.elapsed() > Duration::from_secs(6);
        if now <= before && before != usize::MAX || is_calm || begun.elapsed() > Duration::from_secs(60) {
            return now;
        }
        last = now;
    }
}

/// A connection that is dropped at some point of its life: at once, half open, with a session, with nonsense said.
async fn one_of_each(server: &Server, number: usize) {
    let mut socket = server.connect(number % 4 != 3).await;
    match number % 4 {
        0 => {
            let hello = json!({"language": "en", "model": "base"}).to_string();
            socket.send(Message::Text(hello.into())).await.unwrap();
            let _ready = socket.next().await;
        }
        1 => socket.send(Message::Text("{\"language\": 7}".into())).await.unwrap(),
        2 => socket.send(Message::Ping(vec![0; 100].into())).await.unwrap(),
        _ => {}
    }
}
