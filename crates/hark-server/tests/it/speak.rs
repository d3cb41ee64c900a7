//! `POST /v1/tts`, `POST /v1/audio/speech` and `GET /v1/voices` with the real models: what is spoken is heard again, the mark is found, and what can't be spoken is refused
//! and costs nothing.

use std::path::Path;
use std::time::Instant;

use futures_util::StreamExt as _;
use hark_media::{Options, Source, Tags, decode_all};
use hark_server::{Config, Consent, LanguageOptions, MatchedPerDay, Seconds, TextSettings, VoiceSettings};
use hark_store::Plan;
use hark_voice::{KEY_FILE, Key};
use reqwest::multipart::{Form, Part};
use reqwest::{Method, Response};
use serde_json::json as value;

use crate::server::{
    CLONING_MODEL, Client, SENTENCE, Server, cloning_engine, config, eventually, json, real_engine_with, refusal, talk,
    telephone_call,
};

const TTS: &str = "/v1/tts";
const SPEECH: &str = "/v1/audio/speech";

/// A server that speaks, and the folder of its watermark key.
async fn server(voice: VoiceSettings) -> (Server, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let watermark_key_file = Some(folder.path().join(KEY_FILE));
    let engine = real_engine_with(LanguageOptions::default(), &["kokoro-82m", "misaki-en", "lid-176"]);
    // The first voice that is matched takes minutes of a busy machine without AMX.
    let text = TextSettings { timeout: Seconds(900.0), ..TextSettings::default() };
    (Server::with(Config { voice, watermark_key_file, text, ..config() }, engine).await, folder)
}

/// A form of `POST /v1/tts` with consent.
async fn tts(client: &Client, path: &str, text: &str, clip: Vec<u8>, accept: &str, more: &[(&str, &str)]) -> Response {
    let mut form = Form::new().text("text", text.to_owned()).part("reference", Part::bytes(clip).file_name("me.wav"));
    for (name, value) in more {
        form = form.text((*name).to_owned(), (*value).to_owned());
    }
    client.request(Method::POST, path).header("accept", accept).multipart(form).send().await.unwrap()
}

/// What is spoken in a file, and its metadata; checks that it carries the mark of the key.
fn check_marked(bytes: &[u8], folder: &Path) -> Vec<f32> {
    let key = Key::read_file(&folder.join(KEY_FILE)).unwrap().expect("the key was made at first use");
    let source = || Source::Reader(Box::new(std::io::Cursor::new(bytes.to_vec())));
    let samples = decode_all(source(), &Options::default()).unwrap().0;
    let found = hark_watermark::detect(&samples, hark_media::SAMPLE_RATE, &key).unwrap();
    assert!(found.present, "no watermark: {found:?}");
    let tags = Tags::read(std::io::Cursor::new(bytes)).unwrap();
    assert!(hark_watermark::discloses(&tags.comment.expect("the metadata has a comment")));
    samples
}

/// The words of a recording as the server's own model hears them.
async fn heard(client: &Client, recording: Vec<u8>) -> String {
    let answer = client.transcribe("/v1/transcribe", recording, &[("model", "whisper-base"), ("language", "en")]);
    json(answer.send().await.unwrap(), 200).await["text"].as_str().unwrap().to_lowercase()
}

fn assert_heard(text: &str, words: &[&str]) {
    assert!(words.iter().all(|word| text.contains(word)), "{words:?} in {text}");
}

/// Six seconds of one of two people on the telephone.
fn clip() -> Vec<u8> {
    clip_of(21.8, 27.8)
}

fn clip_of(from: f64, to: f64) -> Vec<u8> {
    let source = Source::Reader(Box::new(std::io::Cursor::new(telephone_call())));
    let samples = decode_all(source, &Options::default()).unwrap().0;
    let at = |seconds: f64| (seconds * 16_000.0) as usize;
    let mut wav = Vec::new();
    hark_media::write_wav(&mut wav, &samples[at(from)..at(to)], 16_000).unwrap();
    wav
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs models"]
async fn a_text_is_spoken_in_a_matched_voice_heard_again_and_marked() {
    let (server, folder) = server(VoiceSettings::default()).await;
    let client = server.account(Plan::Pro).await;
    let before = client.credits(&server).await;
    let consent = [("consent", "true")];
    let answer = tts(&client, TTS, SENTENCE, talk(), "*/*", &consent).await;
    assert_eq!(answer.status(), 200, "{}", answer.text().await.unwrap());
    let header = |answer: &Response, name: &str| answer.headers()[name].to_str().unwrap().to_owned();
    assert_eq!((header(&answer, "content-type").as_str(), header(&answer, "x-language").as_str()), ("audio/wav", "en"));
    let voice = header(&answer, "x-voice");
    assert!(
        voice.starts_with("matched; base=") && voice.contains("; similarity=") && !voice.contains("cloned"),
        "{voice}"
    );
    let duration: f64 = header(&answer, "x-duration").parse().unwrap();
    assert!(header(&answer, "x-generation-time").parse::<f64>().unwrap() > 0.0);
    let wav = answer.bytes().await.unwrap().to_vec();
    let samples = check_marked(&wav, folder.path());
    assert!((samples.len() as f64 / 16_000.0 - duration).abs() < 0.01 && (3.0..12.0).contains(&duration), "{duration}");
    assert_eq!(client.credits(&server).await, before - 1);
    assert_heard(&heard(&client, wav).await, &["weather", "market", "apples", "bread"]);

    // The same voice in another format and as a stream: the search is remembered.
    let begun = Instant::now();
    let answer = tts(&client, "/v1/tts?stream=true", SENTENCE, talk(), "audio/flac", &consent).await;
    assert_eq!((answer.status().as_u16(), header(&answer, "x-voice")), (200, voice));
    assert_eq!(header(&answer, "content-type"), "audio/flac");
    assert!(!answer.headers().contains_key("x-duration") && !answer.headers().contains_key("content-length"));
    let flac = answer.bytes().await.unwrap().to_vec();
    check_marked(&flac, folder.path());
    assert!(begun.elapsed().as_secs() < 60);
    let found = json(client.get("/v1/usage").await, 200).await;
    assert!(found["summary"]["credits_remaining"].is_number());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs models"]
async fn a_model_that_clones_speaks_for_references_marked_and_with_consent_and_the_default_one_in_voices_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let watermark_key_file = Some(folder.path().join(KEY_FILE));
    let models = [
        "whisper-base",
        "silero-vad",
        "campplus-zh-en",
        "kokoro-82m",
        "misaki-en",
        "lid-176",
        hark_voice::RUNTIME_MODEL,
    ];
    let (engine, installed) = cloning_engine(&models);
    let server = Server::with(Config { watermark_key_file, ..config() }, engine).await;
    let client = server.account(Plan::Pro).await;
    let before = client.credits(&server).await;
    let text = "Good morning. ".repeat(12);
    let message = refusal(tts(&client, TTS, &text, clip(), "*/*", &[]).await, 400).await;
    assert!(message.contains("`consent=true`"), "{message}");
    let (consent, danish) = (("consent", "true"), ("language", "da"));
    let answer = tts(&client, TTS, &text, clip(), "*/*", &[consent, danish]).await;
    assert_eq!(answer.status(), 200, "{}", answer.text().await.unwrap());
    let header = |name: &str| answer.headers()[name].to_str().unwrap();
    let label = format!("cloned; model={CLONING_MODEL}");
    assert_eq!((header("x-voice"), header("x-language"), header("x-speed")), (label.as_str(), "da", "1.00"));
    check_marked(&answer.bytes().await.unwrap(), folder.path());
    assert_eq!(client.credits(&server).await, before - 1);
    let kanji = tts(&client, TTS, "日本語", clip(), "*/*", &[consent, ("language", "ja")]).await;
    assert!(refusal(kanji, 400).await.contains("kana"));
    let two = tts(&client, TTS, &text, clip_of(10.6, 17.9), "*/*", &[consent, danish]).await;
    assert!(refusal(two, 400).await.contains("more than one voice"));

    // A mark is read from about five seconds of speech: less than that may not carry it.
    let input = format!("{SENTENCE} {SENTENCE}");
    let named = client.post(SPEECH, value!({"input": input, "voice": "alloy", "response_format": "wav"})).await;
    assert_eq!(
        (named.status().as_u16(), &named.headers()["x-voice"]),
        (200, &"preset; name=af_alloy".parse().unwrap())
    );
    check_marked(&named.bytes().await.unwrap(), folder.path());
    let voices = json(server.anonymous().get("/v1/voices").await, 200).await;
    assert_eq!(voices["voices"].as_array().unwrap().len(), 54);

    // Without its library the model can't speak, and says what is missing.
    std::fs::remove_file(installed.path().join(hark_voice::RUNTIME_MODEL)).unwrap();
    let message = eventually("the library is missed", async || {
        let answer = tts(&client, TTS, &text, clip(), "*/*", &[consent, danish]).await;
        if answer.status() == 503 { Some(refusal(answer, 503).await) } else { None }
    });
    let message = message.await;
    assert!(message.contains(hark_voice::RUNTIME_MODEL), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs models"]
async fn openais_route_streams_the_named_voices_and_the_first_sound_comes_before_the_last() {
    let (server, folder) = server(VoiceSettings::default()).await;
    let client = server.account(Plan::Pro).await;
    let text = format!("{SENTENCE} {SENTENCE} {SENTENCE} {SENTENCE}");
    let body = value!({"model": "tts-1", "input": text, "voice": "alloy", "response_format": "wav"});
    let begun = Instant::now();
    let answer = client.post(SPEECH, body).await;
    assert_eq!(
        (answer.status().as_u16(), &answer.headers()["x-voice"]),
        (200, &"preset; name=af_alloy".parse().unwrap())
    );
    assert_eq!(answer.headers()["content-type"], "audio/wav");
    let (mut stream, mut wav, mut first) = (answer.bytes_stream(), Vec::new(), None);
    while let Some(block) = stream.next().await {
        wav.extend_from_slice(&block.unwrap());
        // Behind the header.
        if wav.len() > 2_000 {
            first.get_or_insert(begun.elapsed());
        }
    }
    let (first, all) = (first.unwrap(), begun.elapsed());
    assert!(first < all * 2 / 3, "the first sound came after {first:?} of {all:?}");
    assert_eq!(&wav[4..8], [0xff; 4], "its length was not known");
    check_marked(&wav, folder.path());
    assert_heard(&heard(&client, wav).await, &["weather", "market", "apples", "bread"]);
    for (format, magic, kind) in
        [("mp3", &b"ID3"[..], "audio/mpeg"), ("opus", b"OggS", "audio/ogg"), ("flac", b"fLaC", "audio/flac")]
    {
        let input = format!("{SENTENCE} {SENTENCE}");
        let body = value!({"model": "tts-1", "input": input, "voice": "bm_george", "response_format": format});
        let answer = client.post(SPEECH, body).await;
        assert_eq!((answer.status().as_u16(), answer.headers()["content-type"].to_str().unwrap()), (200, kind));
        let bytes = answer.bytes().await.unwrap();
        assert!(bytes.starts_with(magic), "{format}");
        check_marked(&bytes, folder.path());
    }
    // A speed beyond what the voices can is the nearest that they can.
    let body = value!({"input": "Good morning.", "voice": "nova", "response_format": "pcm", "speed": 4});
    let answer = client.post(SPEECH, body).await;
    assert_eq!((answer.status().as_u16(), answer.headers()["x-speed"].to_str().unwrap()), (200, "2.00"));
    assert_eq!(answer.bytes().await.unwrap().len() % 2, 0);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs models"]
async fn what_can_not_be_spoken_is_refused_with_the_reason_and_costs_nothing() {
    let (server, _folder) = server(VoiceSettings::default()).await;
    let client = server.account(Plan::Pro).await;
    let before = client.credits(&server).await;
    let consent = ("consent", "true");
    let message = refusal(tts(&client, TTS, "hello", clip(), "*/*", &[]).await, 400).await;
    assert!(message.contains("`consent=true`") && message.contains("agrees"), "{message}");
    refusal(tts(&client, TTS, "hello", clip(), "*/*", &[("consent", "false")]).await, 400).await;
    refusal(tts(&client, TTS, "hello", clip(), "text/html", &[consent]).await, 406).await;
    let silence = {
        let mut wav = Vec::new();
        hark_media::write_wav(&mut wav, &vec![0.0; 16_000 * 5], 16_000).unwrap();
        wav
    };
    for (bad, said) in [
        (clip_of(21.8, 23.8), "3 to 10 s"),
        (clip_of(7.0, 20.0), "3 to 10 s"),
        // The one speaks for four seconds, then the other for three.
        (clip_of(10.6, 17.9), "more than one voice"),
        (silence, "are speech"),
        (b"no sound at all".to_vec(), "can't be read"),
    ] {
        let message = refusal(tts(&client, TTS, "hello", bad, "*/*", &[consent]).await, 400).await;
        assert!(message.contains(said), "{message}");
    }
    let empty = tts(&client, TTS, "hello", Vec::new(), "*/*", &[consent]).await;
    assert!(refusal(empty, 400).await.contains("`reference_audio` is missing"));
    let message = refusal(tts(&client, TTS, "hello", clip(), "*/*", &[consent, ("language", "xx")]).await, 400).await;
    assert!(message.contains("choose ar, da"), "{message}");
    let message = refusal(tts(&client, TTS, "你好", clip(), "*/*", &[consent, ("language", "zh")]).await, 503).await;
    assert!(message.contains("Chinese can't be pronounced") && message.contains("en"), "{message}");
    let message = refusal(tts(&client, TTS, "😀", clip(), "*/*", &[consent, ("language", "en")]).await, 400).await;
    assert!(message.contains("no words"), "{message}");
    let refuse = async |body: serde_json::Value, said: &str| {
        let answer = client.post(SPEECH, body).await;
        let status = answer.status().as_u16();
        let body = json(answer, status).await;
        let message = body["error"]["message"].as_str().unwrap().to_owned();
        assert!(status == 400 && message.contains(said), "{status} {message}");
        body["error"]["param"].clone()
    };
    let speech = |name: &str, wrong: serde_json::Value| {
        let mut body = value!({"model": "tts-1", "input": "hello", "voice": "alloy"});
        body[name] = wrong;
        body
    };
    assert_eq!(
        refuse(speech("response_format", value!("aac")), "mp3, opus, flac, wav and pcm").await,
        "response_format"
    );
    assert_eq!(refuse(speech("speed", value!(5)), "0.25 to 4").await, "speed");
    assert_eq!(refuse(speech("input", value!("ä".repeat(2001))), "2000").await, "input");
    refuse(speech("stream_format", value!("sse")), "audio").await;
    refuse(speech("voice", value!("nobody")), "af_heart").await;
    assert_eq!(server.anonymous().post(SPEECH, speech("speed", value!(1))).await.status(), 401);
    eventually("the credits come back", async || (client.credits(&server).await == before).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs models"]
async fn a_repeat_is_the_same_file_and_free_and_the_days_matched_voices_are_limited() {
    let limits = MatchedPerDay { free: 1, ..MatchedPerDay::default() };
    let settings = VoiceSettings { consent: Consent::Assumed, matched_per_day: limits, ..VoiceSettings::default() };
    let (server, _folder) = server(settings).await;
    let client = server.account(Plan::Free).await;
    let before = client.credits(&server).await;
    let body = value!({"input": "Good morning.", "voice": "echo", "response_format": "wav"});
    let named = async |body: &serde_json::Value| {
        let request = client.request(Method::POST, SPEECH).header("idempotency-key", "one").json(body);
        request.send().await.unwrap()
    };
    let first = named(&body).await;
    assert_eq!(first.status(), 200);
    let first = first.bytes().await.unwrap();
    let again = named(&body).await.bytes().await.unwrap();
    assert!(first == again, "{} and {} bytes", first.len(), again.len());
    assert_eq!(client.credits(&server).await, before - 1);
    assert_eq!(named(&value!({"input": "Good night.", "voice": "echo"})).await.status(), 422);

    // Consent is assumed here.
    let spoken = tts(&client, TTS, "Good morning.", talk(), "audio/wav", &[]).await;
    assert_eq!(spoken.status(), 200, "{}", spoken.text().await.unwrap());
    drop(spoken.bytes().await.unwrap());
    let refused = tts(&client, TTS, "Good morning.", talk(), "audio/wav", &[]).await;
    let wait: u64 = refused.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=86_400).contains(&wait));
    let message = refusal(refused, 429).await;
    assert!(message.contains("1 speeches a day"), "{message}");
    // Voices by name are not limited by the day.
    assert_eq!(client.post(SPEECH, body).await.status(), 200);
}

/// The line of the log with an event about the speech of a request.
fn logged(event: &str, request: &str) -> Option<String> {
    let log = crate::log::so_far();
    log.lines().find(|line| line.contains(event) && line.contains(request)).map(str::to_owned)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs models"]
async fn the_log_names_key_and_mark_and_never_the_text_and_a_client_that_leaves_stops_the_work() {
    let (server, _folder) = server(VoiceSettings::default()).await;
    let client = server.account(Plan::Pro).await;
    let body = value!({"input": "Zanzibar is an island.", "voice": "af_heart", "response_format": "wav"});
    let answer = client.post(SPEECH, body).await;
    let id = answer.headers()["x-request-id"].to_str().unwrap().to_owned();
    drop(answer.bytes().await.unwrap());
    let line = logged("speech.made", &id).expect("it is in the log before it is sent");
    assert!(line.contains("mark=") && line.contains("key=") && line.contains("matched=false"), "{line}");
    assert!(!crate::log::so_far().contains("Zanzibar"));
    // A long text whose client leaves after the first block.
    let text = SENTENCE.repeat(20);
    let body = value!({"input": text, "voice": "af_heart", "response_format": "wav"});
    let answer = client.post(SPEECH, body).await;
    let id = answer.headers()["x-request-id"].to_str().unwrap().to_owned();
    let mut stream = answer.bytes_stream();
    stream.next().await.unwrap().unwrap();
    drop(stream);
    let begun = Instant::now();
    let next = client.post(SPEECH, value!({"input": "Good.", "voice": "af_heart", "response_format": "pcm"})).await;
    assert_eq!(next.status(), 200);
    drop(next.bytes().await.unwrap());
    assert!(begun.elapsed().as_secs() < 60, "the work went on");
    // What was sent of it can be traced.
    let made = logged("speech.made", &id).expect("it is in the log before it is sent");
    let ended = eventually("a line about its end", async || logged("speech.ended", &id)).await;
    let mark = made.split(' ').find(|field| field.starts_with("mark=")).unwrap();
    assert!(ended.contains(mark) && ended.contains("complete=false"), "{ended}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs models"]
async fn the_voices_are_listed_for_everybody_and_a_server_without_the_model_says_so() {
    let (server, _folder) = server(VoiceSettings::default()).await;
    let voices = json(server.anonymous().get("/v1/voices").await, 200).await;
    let voices = voices["voices"].as_array().unwrap();
    assert_eq!(voices.len(), 54);
    let alloy = value!({"id": "af_alloy", "language": "en-us", "gender": "female", "aliases": ["alloy"]});
    assert!(voices.contains(&alloy));
    let without = Server::start().await;
    let message = refusal(without.anonymous().get("/v1/voices").await, 503).await;
    assert!(message.contains("no speech model"), "{message}");
}
