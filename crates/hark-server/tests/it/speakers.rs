//! Known voices: learned from clips that are not kept, named only where that is asked for, and only by their own account.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use hark_api::{Segment, TranscriptionResult};
use hark_media::{AudioStream, Options, Source};
use hark_models::ModelStore;
use hark_server::{EngineError, Engines, InstantEngine, Transcribe, Transcribed, Work};
use hark_speech::CancelToken;
use hark_store::Plan;
use reqwest::multipart::{Form, Part};
use reqwest::{Method, Response};

use crate::like_instant::models_like_instant;
use crate::log;
use crate::server::{Client, Server, config, hum, json, real_engine, refusal, talk};
use crate::speech::walk;

async fn enroll(client: &Client, name: &str, clip: Vec<u8>) -> Response {
    let form = Form::new().text("name", name.to_owned()).part("file", Part::bytes(clip).file_name("voice.wav"));
    client.request(Method::POST, "/v1/speakers").multipart(form).send().await.unwrap()
}

#[tokio::test]
async fn a_voice_is_learned_listed_and_forgotten_and_its_clip_is_not_kept() {
    let server = Server::start().await;
    let client = server.account(Plan::Free).await;
    let made = json(enroll(&client, "  Ann Lee ", hum(5.0)).await, 201).await;
    assert_eq!(made["name"], "Ann Lee");
    let keys: Vec<&String> = made.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["created_at", "id", "name"], "the print itself is shown nowhere");
    let blobs = walk(&server.folder.path().join("blobs"));
    assert!(blobs.is_empty(), "the clip is still there: {blobs:?}");
    assert_eq!(json(client.get("/v1/speakers").await, 200).await["speakers"], serde_json::json!([made]));
    let again = refusal(enroll(&client, "ann lee", hum(5.0)).await, 409).await;
    assert!(again.contains("name"), "{again}");
    let path = format!("/v1/speakers/{}", made["id"]);
    let forget = async || client.request(Method::DELETE, &path).send().await.unwrap();
    assert_eq!(json(forget().await, 200).await["ok"], true);
    refusal(forget().await, 404).await;
    assert_eq!(json(client.get("/v1/speakers").await, 200).await["speakers"], serde_json::json!([]));
    assert_eq!(client.credits(&server).await, 600, "learning a voice costs nothing");
    assert!(!log::so_far().contains("Ann Lee"), "a name is in the log");
}

#[tokio::test]
async fn a_form_that_shows_no_voice_is_refused_and_leaves_nothing() {
    let server = Server::start().await;
    let client = server.account(Plan::Free).await;
    let send = async |form: Form| client.request(Method::POST, "/v1/speakers").multipart(form).send().await.unwrap();
    let clip = || Part::bytes(hum(5.0)).file_name("voice.wav");
    for (form, word) in [
        (Form::new().part("file", clip()), "`name`"),
        (Form::new().text("name", " \n").part("file", clip()), "`name`"),
        (Form::new().text("name", "x".repeat(201)).part("file", clip()), "`name`"),
        (Form::new().text("name", "Ann"), "`file`"),
        (Form::new().text("name", "Ann").part("file", Part::bytes(Vec::new())), "`file`"),
        (Form::new().text("name", "Ann").part("file", Part::bytes(b"just words".to_vec())), ""),
        (Form::new().text("name", "Ann").text("name", "Bob").part("file", clip()), "twice"),
        (Form::new().text("name", "Ann").part("file", clip()).part("file", clip()), "twice"),
    ] {
        let message = refusal(send(form).await, 400).await;
        assert!(message.contains(word), "{message}");
    }
    refusal(enroll(&server.anonymous(), "Ann", hum(5.0)).await, 401).await;
    assert_eq!(json(client.get("/v1/speakers").await, 200).await["speakers"], serde_json::json!([]));
    let blobs = server.folder.path().join("blobs");
    crate::server::eventually("the clips are gone", async || walk(&blobs).is_empty().then_some(())).await;
}

/// An engine in whose recordings one person speaks: the first whose voice is known.
#[derive(Clone, Default)]
struct OneSpeaker {
    /// Names that were known in each recording.
    told: Arc<Mutex<Vec<Vec<String>>>>,
}

models_like_instant!(OneSpeaker);

impl Transcribe for OneSpeaker {
    fn transcribe(
        &self,
        _: Source,
        work: &Work,
        _: &mut dyn FnMut(hark_speech::Progress<'_>),
        _: &CancelToken,
    ) -> Result<Transcribed, EngineError> {
        self.told.lock().unwrap().push(work.known.iter().map(|(name, _)| name.clone()).collect());
        let speaker = Some("SPEAKER_00".to_owned());
        let segment = Segment { end: 1.0, text: "It is me.".into(), speaker, ..Segment::default() };
        let result = TranscriptionResult { duration: 1.0, segments: vec![segment], ..TranscriptionResult::default() };
        let names = work.known.first().map(|(name, _)| ("SPEAKER_00".to_owned(), name.clone()));
        Ok(Transcribed { result, names: BTreeMap::from_iter(names) })
    }
}

impl From<OneSpeaker> for Engines {
    fn from(engine: OneSpeaker) -> Self {
        Engines::new(Arc::new(engine)).with_voices(Arc::new(InstantEngine::default()))
    }
}

#[tokio::test]
async fn speakers_are_named_where_it_is_asked_for_and_by_the_voices_of_their_own_account() {
    let engine = OneSpeaker::default();
    let server = Server::with(config(), engine.clone()).await;
    let (ours, theirs) = (server.account(Plan::Pro).await, server.account(Plan::Pro).await);
    json(enroll(&ours, "Ann", hum(5.0)).await, 201).await;
    json(enroll(&theirs, "Bob", hum(5.0)).await, 201).await;
    let transcribe = async |client: &Client, fields: &[(&str, &str)]| {
        let sent = client.transcribe("/v1/transcribe", hum(1.0), fields).send().await.unwrap();
        let id = sent.headers().get("x-transcript-id").map(|id| id.to_str().unwrap().to_owned());
        (json(sent, 200).await["speakers"].clone(), id.unwrap())
    };
    let (speakers, id) = transcribe(&ours, &[("identify", "true")]).await;
    assert_eq!(speakers, serde_json::json!(["Ann"]));
    assert_eq!(transcribe(&theirs, &[("identify", "1"), ("diarize", "false")]).await.0, serde_json::json!(["Bob"]));
    assert_eq!(transcribe(&ours, &[]).await.0, serde_json::json!(["SPEAKER_00"]), "off unless asked for");
    assert_eq!(*engine.told.lock().unwrap(), [vec!["Ann"], vec!["Bob"], vec![]]);

    // A name that was found is as good as one that was given: it can be changed.
    let change = serde_json::json!({"speaker_names": {"Ann": "Anna"}});
    let path = format!("/v1/transcripts/{id}");
    let changed = ours.request(Method::PATCH, &path).json(&change).send().await.unwrap();
    assert_eq!(json(changed, 200).await["segments"][0]["speaker"], "Anna");
    for wrong in [" ", "\t", "An\nna", "An\u{0}na"] {
        let change = serde_json::json!({"speaker_names": {"Anna": wrong}});
        refusal(ours.request(Method::PATCH, &path).json(&change).send().await.unwrap(), 400).await;
    }
    assert_eq!(json(ours.get(&path).await, 200).await["segments"][0]["speaker"], "Anna");

    let anonymous = server.anonymous().transcribe("/v1/transcribe", hum(1.0), &[("identify", "true")]);
    let message = refusal(anonymous.send().await.unwrap(), 401).await;
    assert!(message.contains("`identify`"), "{message}");
}

/// A stretch of one of the real meetings, in seconds.
fn meeting(name: &str, from: f64, to: f64) -> Vec<u8> {
    let path = ModelStore::default_dir().join("test-sounds-meetings").join(name);
    let mut stream = AudioStream::open(Source::Path(path.clone()), &Options::default())
        .unwrap_or_else(|error| panic!("{}: {error}: `./hark test` installs what tests need", path.display()));
    let mut samples = Vec::new();
    while stream.read(&mut samples).unwrap() > 0 {}
    let sample = |seconds: f64| ((seconds * 16_000.0) as usize).min(samples.len());
    let mut wav = Vec::new();
    hark_media::write_wav(&mut wav, &samples[sample(from)..sample(to)], 16_000).unwrap();
    wav
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs models"]
async fn a_voice_from_one_meeting_is_known_in_another_and_bad_clips_are_refused() {
    let server = Server::with(config(), real_engine()).await;
    let client = server.account(Plan::Pro).await;
    // By the reference MEE009 speaks alone up to 13.15 s; FEE078 is in neither recording.
    json(enroll(&client, "Ann", meeting("dev00.wav", 1.44, 13.1)).await, 201).await;
    json(enroll(&client, "Stranger", meeting("trn05.wav", 0.0, 30.0)).await, 201).await;
    for (clip, words) in [
        (hum(5.0), "no speech"),
        (meeting("dev00.wav", 1.44, 3.6), "s of speech"),
        (meeting("tst00.wav", 0.0, 30.0), "voices were heard"),
    ] {
        let message = refusal(enroll(&client, "Nobody", clip).await, 400).await;
        assert!(message.contains(words), "{message}");
    }
    let fields = [("model", "base"), ("language", "en"), ("identify", "true")];
    let sent = client.transcribe("/v1/transcribe", meeting("dev01.wav", 0.0, 30.0), &fields).send().await.unwrap();
    let result = json(sent, 200).await;
    let speakers: Vec<&str> = result["speakers"].as_array().unwrap().iter().filter_map(|name| name.as_str()).collect();
    assert!(speakers.contains(&"Ann") && speakers.len() >= 2, "{speakers:?}");
    assert!(!speakers.contains(&"Stranger"), "{speakers:?}");
    // What Ann says lies where the reference has MEE009.
    let reference = [(7.024, 11.776), (15.133, 19.648), (21.312, 22.592)];
    let (mut right, mut all) = (0.0, 0.0);
    for segment in result["segments"].as_array().unwrap().iter().filter(|segment| segment["speaker"] == "Ann") {
        let (start, end) = (segment["start"].as_f64().unwrap(), segment["end"].as_f64().unwrap());
        right += reference.iter().map(|(from, to)| (end.min(*to) - start.max(*from)).max(0.0)).sum::<f64>();
        all += end - start;
    }
    assert!(all > 4.0 && right / all > 0.7, "{right} of {all} s are hers: {result}");
    // A voice that nobody knows keeps its label.
    let sent = client.transcribe("/v1/transcribe", talk(), &fields).send().await.unwrap();
    assert_eq!(json(sent, 200).await["speakers"], serde_json::json!(["SPEAKER_00"]));
    server.stop().await;
}
