//! Places, charges and the log of speech, with a speaker that needs no models: what is refused before it is read, what runs at once, and what a stream leaves behind.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use hark_media::CancelToken;
use hark_server::{
    Config, Consent, EngineError, Engines, InstantEngine, MatchedPerDay, Speak, SpeechStage, SpeechWork, VoiceSettings,
};
use hark_store::Plan;
use hark_voice::{FileFormat, KEY_FILE, PresetVoice, Spoken};
use reqwest::multipart::{Form, Part};
use reqwest::{Body, Method, RequestBuilder, Response};
use serde_json::json as value;
use tokio::time::timeout;

use crate::server::{Client, Server, config, eventually, hum, refusal};

const TTS: &str = "/v1/tts";
const SPEECH: &str = "/v1/audio/speech";
/// A text whose sound never ends.
const ENDLESS: &str = "endless";

/// Answers a text with a block of zeros after a moment.
struct ToySpeaker {
    at_once: usize,
    /// Whether it writes compressed files.
    has_encoder: bool,
    running: AtomicUsize,
    /// The most that ran at once.
    most: AtomicUsize,
}

impl ToySpeaker {
    fn new(at_once: usize) -> Self {
        ToySpeaker { at_once, has_encoder: true, running: AtomicUsize::new(0), most: AtomicUsize::new(0) }
    }
}

impl Speak for ToySpeaker {
    fn at_once(&self) -> usize {
        self.at_once
    }

    fn check_speak(&self, _: bool) -> Result<(), EngineError> {
        Ok(())
    }

    fn check_format(&self, _: FileFormat) -> Result<(), EngineError> {
        if self.has_encoder { Ok(()) } else { Err(EngineError::CannotSpeak("there is no encoder".to_owned())) }
    }

    fn preset_voices(&self) -> Result<Vec<PresetVoice>, EngineError> {
        Ok(Vec::new())
    }

    fn speak(
        &self,
        work: &SpeechWork,
        mut out: Box<dyn Write + Send>,
        stage: &mut dyn FnMut(SpeechStage),
        cancel: &CancelToken,
    ) -> Result<Spoken, EngineError> {
        self.most.fetch_max(self.running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        stage(SpeechStage::Prepared { language: "en", voice: "preset; name=toy".to_owned(), speed: 1.0 });
        std::thread::sleep(Duration::from_millis(50));
        stage(SpeechStage::Sounding);
        let written = loop {
            let written = out.write_all(&[0; 4096]);
            if work.text != ENDLESS || cancel.is_cancelled() || written.is_err() {
                break written;
            }
        };
        self.running.fetch_sub(1, Ordering::SeqCst);
        written.map_err(|error| EngineError::Failed(error.to_string()))?;
        Ok(Spoken { seconds: 1.5, first_sound: 0.1, took: 0.2 })
    }
}

async fn server_with(voice: VoiceSettings, speaker: Arc<ToySpeaker>) -> (Server, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let watermark_key_file = Some(folder.path().join(KEY_FILE));
    let engines = Engines::from(InstantEngine::default()).with_speak(speaker);
    (Server::with(Config { voice, watermark_key_file, ..config() }, engines).await, folder)
}

fn named(client: &Client, text: &str) -> RequestBuilder {
    let body = value!({"input": text, "voice": "alloy", "response_format": "wav"});
    client.request(Method::POST, SPEECH).json(&body)
}

fn matched(client: &Client, path: &str, text: &str) -> RequestBuilder {
    let form = Form::new().text("text", text.to_owned()).part("reference", Part::bytes(hum(4.0)).file_name("me.wav"));
    client.request(Method::POST, path).multipart(form)
}

async fn spoken(request: RequestBuilder) -> Response {
    let answer = request.send().await.unwrap();
    assert_eq!(answer.status(), 200, "{}", answer.text().await.unwrap());
    answer
}

/// The line of the log with an event about a request.
fn line(event: &str, answer: &Response) -> Option<String> {
    let request = answer.headers()["x-request-id"].to_str().unwrap();
    let log = crate::log::so_far();
    log.lines().find(|line| line.contains(event) && line.contains(request)).map(str::to_owned)
}

fn mark(line: &str) -> &str {
    line.split_once("mark=").unwrap().1.split_once(' ').unwrap().0
}

#[tokio::test(flavor = "multi_thread")]
async fn a_speech_is_in_the_log_before_any_of_it_is_sent_and_so_is_how_it_ended() {
    let (server, _folder) = server_with(VoiceSettings::default(), Arc::new(ToySpeaker::new(4))).await;
    let client = server.account(Plan::Pro).await;
    let whole = spoken(named(&client, "hello")).await;
    let made = line("speech.made", &whole).expect("it was made when the answer came");
    assert!(made.contains("key=") && made.contains("account=") && made.contains("matched=false"), "{made}");
    let find = async || line("speech.ended", &whole);
    let request = eventually("a line about the end", find).await;
    assert!(request.contains("complete=true") && request.contains("seconds=1.5"), "{request}");
    assert!(request.contains("bytes=4096") && mark(&request) == mark(&made), "{request}");

    let cut = spoken(named(&client, ENDLESS)).await;
    let made = line("speech.made", &cut).expect("it was made when the answer came");
    let id = cut.headers()["x-request-id"].to_str().unwrap().to_owned();
    let mut stream = cut.bytes_stream();
    stream.next().await.unwrap().unwrap();
    drop(stream);
    let ended = eventually("a line about the end", async || {
        let log = crate::log::so_far();
        log.lines().find(|line| line.contains("speech.ended") && line.contains(&id)).map(str::to_owned)
    });
    let ended = ended.await;
    assert!(ended.contains("complete=false") && !ended.contains("seconds="), "{ended}");
    assert_eq!(mark(&ended), mark(&made));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clip_is_not_read_where_nobody_would_speak_for_it() {
    let clip_without_end = |client: &Client| {
        let head = "--x\r\ncontent-disposition: form-data; name=\"reference\"; filename=\"a\"\r\n\r\n";
        let part = futures_util::stream::iter([Ok::<_, std::io::Error>(head.as_bytes().to_vec())]);
        let request = client.request(Method::POST, TTS).header("content-type", "multipart/form-data; boundary=x");
        request.body(Body::wrap_stream(part.chain(futures_util::stream::pending()))).send()
    };
    let soon = Duration::from_secs(20);
    let without = Server::start().await;
    let client = without.account(Plan::Free).await;
    let answer = timeout(soon, clip_without_end(&client)).await.expect("the clip was read").unwrap();
    assert!(refusal(answer, 503).await.contains("no speech model"));

    let (server, _folder) = server_with(VoiceSettings::default(), Arc::new(ToySpeaker::new(4))).await;
    let client = server.account(Plan::Free).await;
    let streams = [spoken(named(&client, ENDLESS)).await, spoken(named(&client, ENDLESS)).await];
    let answer = timeout(soon, clip_without_end(&client)).await.expect("the clip was read").unwrap();
    assert!(refusal(answer, 429).await.contains("2 texts are being worked on"));
    drop(streams);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_format_that_can_not_be_written_is_refused_before_anything_is_spoken_or_charged() {
    let speaker = Arc::new(ToySpeaker { has_encoder: false, ..ToySpeaker::new(4) });
    let (server, _folder) = server_with(VoiceSettings::default(), Arc::clone(&speaker)).await;
    let client = server.account(Plan::Pro).await;
    let before = client.credits(&server).await;
    for request in [named(&client, "hello"), matched(&client, TTS, "hello")] {
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), 503);
        assert!(answer.text().await.unwrap().contains("there is no encoder"));
    }
    assert_eq!((speaker.most.load(Ordering::SeqCst), client.credits(&server).await), (0, before));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_speeches_run_at_once_than_the_engine_has_memory_for_whoever_asks() {
    let speaker = Arc::new(ToySpeaker::new(1));
    let (server, _folder) = server_with(VoiceSettings::default(), Arc::clone(&speaker)).await;
    let clients = [server.account(Plan::Pro).await, server.account(Plan::Pro).await, server.account(Plan::Pro).await];
    let answers = clients.each_ref().map(|client| spoken(named(client, "hello")));
    for answer in futures_util::future::join_all(answers).await {
        assert_eq!(answer.bytes().await.unwrap().len(), 4096);
    }
    assert_eq!(speaker.most.load(Ordering::SeqCst), 1);
    // One that nobody reads makes way when its client has left.
    let stream = spoken(named(&clients[0], ENDLESS)).await;
    let mut next = Box::pin(spoken(named(&clients[1], "hello")));
    assert!(timeout(Duration::from_millis(300), &mut next).await.is_err(), "it did not wait");
    drop(stream);
    assert_eq!(next.await.bytes().await.unwrap().len(), 4096);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_is_spoken_when_the_day_is_used_up_and_what_is_refused_costs_nothing() {
    let limits = MatchedPerDay { free: 2, ..MatchedPerDay::default() };
    let voice = VoiceSettings { consent: Consent::Assumed, matched_per_day: limits, ..VoiceSettings::default() };
    let (server, _folder) = server_with(voice, Arc::new(ToySpeaker::new(4))).await;
    let client = server.account(Plan::Free).await;
    let before = client.credits(&server).await;
    // Charged, a speech under way counts once.
    let stream = spoken(matched(&client, "/v1/tts?stream=true", ENDLESS)).await;
    let once = |name: &'static str| matched(&client, TTS, "hello").header("idempotency-key", name);
    let first = spoken(once("one")).await;
    drop(stream);
    let refused = once("two").send().await.unwrap();
    assert!(refused.headers().contains_key("retry-after"));
    assert!(refusal(refused, 429).await.contains("2 speeches a day"));
    let again = spoken(once("one")).await;
    let [first, again] = [first, again].map(|answer| line("speech.made", &answer).unwrap());
    assert_eq!(mark(&first), mark(&again));
    eventually("the credit comes back", async || (client.credits(&server).await == before - 2).then_some(())).await;
    // The key of what was refused is free again.
    let later = eventually("the key is free", async || {
        let answer = once("two").send().await.unwrap();
        (answer.status() != 409).then_some(answer)
    });
    refusal(later.await, 429).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_who_denies_consent_is_refused_where_it_is_assumed() {
    let voice = VoiceSettings { consent: Consent::Assumed, ..VoiceSettings::default() };
    let (server, _folder) = server_with(voice, Arc::new(ToySpeaker::new(4))).await;
    let client = server.account(Plan::Pro).await;
    let form = |consent: Option<&'static str>| {
        let form = consent.map_or(Form::new(), |consent| Form::new().text("consent", consent));
        let form = form.text("text", "hello").part("reference", Part::bytes(hum(4.0)).file_name("me.wav"));
        client.request(Method::POST, TTS).multipart(form).send()
    };
    for denied in ["false", "0"] {
        assert!(refusal(form(Some(denied)).await.unwrap(), 400).await.contains("`consent` is false"));
    }
    for accepted in [None, Some("true")] {
        assert_eq!(form(accepted).await.unwrap().status(), 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clips_and_texts_that_are_too_large_are_refused() {
    let (server, _folder) = server_with(VoiceSettings::default(), Arc::new(ToySpeaker::new(4))).await;
    let client = server.account(Plan::Pro).await;
    let send = |text: String, clip: Vec<u8>| {
        let form = Form::new().text("text", text).text("consent", "true");
        client.request(Method::POST, TTS).multipart(form.part("reference", Part::bytes(clip).file_name("a"))).send()
    };
    let large = send("hello".to_owned(), vec![1; (16 << 20) + 1]).await.unwrap();
    assert!(refusal(large, 413).await.contains("larger than 16 MB"));
    let long = send("ä".repeat(2001), hum(4.0)).await.unwrap();
    assert!(refusal(long, 400).await.contains("2000 characters"));
}
