//! Jobs whose attempts give no result: who runs them, what is tried again, and what the owner is told.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hark_api::Segment;
use hark_models::{Aliases, Catalogue, ModelStore};
use hark_server::{
    Config, Dependency, EngineError, Engines, InstantEngine, JobSettings, Role, Seconds, Service, SpeechEngine,
    SpeechOptions, Transcribe, Transcribed, Work,
};
use hark_speech::{CancelToken, Progress};
use hark_store::{Clock, FaultKind, JobFilter, JobSummary, Plan};
use reqwest::Method;

use crate::like_instant::models_like_instant;
use crate::server::{Client, Server, config, eventually, hum, json, refusal};

/// An engine whose first attempts end as it was told; later ones succeed.
struct Scripted(Mutex<VecDeque<fn() -> EngineError>>);

impl Scripted {
    fn new(script: &[fn() -> EngineError]) -> Self {
        Scripted(Mutex::new(script.iter().copied().collect()))
    }
}

models_like_instant!(Scripted);

impl Transcribe for Scripted {
    fn transcribe(
        &self,
        source: hark_media::Source,
        work: &Work,
        progress: &mut dyn FnMut(Progress<'_>),
        cancel: &CancelToken,
    ) -> Result<Transcribed, EngineError> {
        let next = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).pop_front();
        match next {
            Some(error) => Err(error()),
            None => InstantEngine::default().transcribe(source, work, progress, cancel),
        }
    }
}

impl From<Scripted> for Engines {
    fn from(engine: Scripted) -> Self {
        Engines::new(Arc::new(engine))
    }
}

fn broken() -> EngineError {
    EngineError::Failed("it broke".into())
}

fn panics() -> EngineError {
    panic!("a defect that the test wants")
}

fn unusable() -> EngineError {
    EngineError::Unusable("the recording is silent".into())
}

fn model_unreachable() -> EngineError {
    EngineError::unavailable(Dependency::Engine, "the model can't be loaded")
}

/// Retries come at once.
fn eager() -> Config {
    Config { jobs: JobSettings { backoff_base: Seconds(0.001), ..JobSettings::default() }, ..config() }
}

async fn send(client: &Client) -> i64 {
    let response = client.transcribe("/v1/transcribe?async=true", hum(1.0), &[]).send().await.unwrap();
    json(response, 202).await["id"].as_i64().unwrap()
}

async fn status(client: &Client, id: i64) -> serde_json::Value {
    json(client.get(&format!("/v1/transcripts/{id}/status")).await, 200).await
}

async fn wait_for(client: &Client, id: i64, wanted: &str) {
    let mut last = serde_json::Value::Null;
    for _ in 0..1200 {
        last = status(client, id).await;
        if last["status"] == wanted {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("transcript {id} is never {wanted}: {last}");
}

async fn jobs(server: &Server) -> Vec<JobSummary> {
    server.store.jobs().list(&JobFilter::default()).await.unwrap()
}

async fn retry(client: &Client, id: i64) -> reqwest::Response {
    client.request(Method::POST, &format!("/v1/transcripts/{id}/retry")).send().await.unwrap()
}

/// The real engine over a folder without models.
pub(crate) fn engine_without_models(folder: &Path) -> SpeechEngine {
    SpeechEngine::new(SpeechOptions {
        models: ModelStore::new(folder.to_owned()),
        catalogue: Catalogue::builtin(),
        aliases: Aliases::starter(),
        threads: Some(1),
        isa: None,
        loaded: 1,
        memory_budget: hark_server::default_memory_budget(),
        devices: hark_speech::Devices::default(),
        language: hark_server::LanguageOptions::default(),
        voice_model: None,
        pulls: hark_server::Pulls::default(),
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_models_beside_a_healthy_one_fails_no_job() {
    // This process takes requests only; two others over the same store work on them.
    let server = Server::with_role(Role::Account).await;
    let client = server.account(Plan::Enterprise).await;
    let empty = tempfile::tempdir().unwrap();
    let bare = engine_without_models(empty.path());
    let bare = Service::start(server.store.clone(), bare, config(), Role::Gpu, Clock::system()).await.unwrap();
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(send(&client).await);
    }
    // Longer than it took to use up three attempts.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let waiting = jobs(&server).await;
    assert_eq!(waiting.len(), 5);
    assert!(waiting.iter().all(|job| job.state == "queued" && job.attempts == 0), "{waiting:?}");
    let healthy = InstantEngine::default();
    let healthy = Service::start(server.store.clone(), healthy, config(), Role::Gpu, Clock::system()).await.unwrap();
    for id in ids {
        wait_for(&client, id, "completed").await;
    }
    assert_eq!(jobs(&server).await, []);
    assert_eq!(client.credits(&server).await, 595);
    bare.stop().await;
    healthy.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn recordings_that_are_unreachable_when_workers_start_are_waited_for() {
    let server = Server::with_role(Role::Account).await;
    let client = server.account(Plan::Enterprise).await;
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(send(&client).await);
    }
    let (here, elsewhere) = (server.folder.path().join("blobs"), server.folder.path().join("elsewhere"));
    std::fs::rename(&here, &elsewhere).unwrap();
    // An empty folder in its place is what a mount that went away leaves.
    std::fs::create_dir(&here).unwrap();
    let metrics = Config { metrics_listen: Some("127.0.0.1:0".parse().unwrap()), ..config() };
    let engine = InstantEngine::default();
    let worker = Service::start(server.store.clone(), engine, metrics, Role::Gpu, Clock::system()).await.unwrap();
    let address = worker.metrics_address().unwrap();
    let paused = async |wanted: &str| {
        let text = reqwest::get(format!("http://{address}/metrics")).await.unwrap().text().await.unwrap();
        text.contains(&format!("hark_claiming_paused {wanted}\n")).then_some(())
    };
    eventually("claiming to pause", async || paused("1").await).await;
    eventually("the jobs to wait", async || {
        let waiting = jobs(&server).await;
        assert_eq!(waiting.len(), 5);
        waiting.iter().all(|job| job.state == "queued" && job.attempts == 0).then_some(())
    })
    .await;
    std::fs::remove_dir_all(&here).unwrap();
    std::fs::rename(&elsewhere, &here).unwrap();
    for id in ids {
        wait_for(&client, id, "completed").await;
    }
    eventually("claiming to resume", async || paused("0").await).await;
    assert_eq!(client.credits(&server).await, 595);
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_and_a_passing_fault_are_retried_until_it_works() {
    let server = Server::with(
        eager(),
        Scripted::new(&[panics, model_unreachable, model_unreachable, model_unreachable, broken]),
    )
    .await;
    let client = server.account(Plan::Free).await;
    let id = send(&client).await;
    wait_for(&client, id, "completed").await;
    assert_eq!(client.credits(&server).await, 599);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_of_ours_keeps_the_recording_and_its_owner_may_try_again() {
    let server = Server::with(eager(), Scripted::new(&[panics, broken, panics])).await;
    let client = server.account(Plan::Free).await;
    let stranger = server.account(Plan::Free).await;
    let response = client.transcribe("/v1/transcribe", hum(1.0), &[]).send().await.unwrap();
    let id: i64 = response.headers()["x-transcript-id"].to_str().unwrap().parse().unwrap();
    let message = refusal(response, 500).await;
    assert!(message.contains("nothing was charged") && !message.contains("broke"), "{message}");
    assert_eq!(status(&client, id).await["error"].as_str().unwrap(), message);
    assert_eq!(client.credits(&server).await, 600);
    let failed = jobs(&server).await;
    assert_eq!((failed.len(), failed[0].state.as_str(), failed[0].attempts), (1, "failed", 3));
    assert_eq!(failed[0].error_kind, Some(FaultKind::Internal));
    assert!(
        failed[0].error.as_ref().unwrap().contains("panic"),
        "the operator is told what the owner is not: {failed:?}"
    );

    refusal(retry(&stranger, id).await, 404).await;
    refusal(retry(&server.anonymous(), id).await, 401).await;
    server.store.ledger().adjust(client.account.unwrap(), -600, "spent elsewhere").await.unwrap();
    refusal(retry(&client, id).await, 402).await;
    server.store.ledger().adjust(client.account.unwrap(), 600, "given back").await.unwrap();
    let accepted = json(retry(&client, id).await, 202).await;
    assert_eq!(accepted["id"], id);
    wait_for(&client, id, "completed").await;
    assert_eq!(client.credits(&server).await, 599);
    let message = refusal(retry(&client, id).await, 409).await;
    assert!(message.contains("failed"), "{message}");
    assert!(server.store.ledger().check().await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn whose_fault_it_was_is_told_by_its_kind_and_not_by_its_words() {
    let sentence = || EngineError::Unusable("the recording could not be transcribed: it is silent".into());
    let server = Server::with(eager(), Scripted::new(&[sentence, unusable])).await;
    let client = server.account(Plan::Free).await;
    for _ in 0..2 {
        let response = client.transcribe("/v1/transcribe", hum(1.0), &[]).send().await.unwrap();
        let id: i64 = response.headers()["x-transcript-id"].to_str().unwrap().parse().unwrap();
        let message = refusal(response, 400).await;
        assert!(message.ends_with("silent"), "{message}");
        let message = refusal(retry(&client, id).await, 409).await;
        assert!(message.contains("send it again"), "{message}");
    }
    assert_eq!(client.credits(&server).await, 600);

    let short = JobSettings { unavailable_for: Seconds(0.001), ..eager().jobs };
    let server =
        Server::with(Config { jobs: short, ..eager() }, Scripted::new(&[model_unreachable, model_unreachable])).await;
    let client = server.account(Plan::Free).await;
    let response = client.transcribe("/v1/transcribe", hum(1.0), &[]).send().await.unwrap();
    refusal(response, 503).await;
}

/// An engine that has decoded what a test says, and goes on until it is told to end.
#[derive(Clone, Default)]
struct Dictated(Arc<Mutex<Dictation>>);

#[derive(Default)]
struct Dictation {
    segments: Vec<Segment>,
    end: Option<fn() -> Option<EngineError>>,
}

impl Dictated {
    fn say(&self, text: &str) {
        let mut dictation = self.0.lock().unwrap();
        let start = dictation.segments.len() as f64;
        let segment = Segment { start, end: start + 0.5, text: text.to_owned(), confidence: 0.5, ..Segment::default() };
        dictation.segments.push(segment);
    }

    /// Ends every attempt, with an error or without.
    fn end(&self, how: fn() -> Option<EngineError>) {
        self.0.lock().unwrap().end = Some(how);
    }
}

models_like_instant!(Dictated);

impl Transcribe for Dictated {
    fn transcribe(
        &self,
        source: hark_media::Source,
        work: &Work,
        progress: &mut dyn FnMut(Progress<'_>),
        cancel: &CancelToken,
    ) -> Result<Transcribed, EngineError> {
        loop {
            let dictation = self.0.lock().unwrap();
            progress(Progress { audio_done: 0.5, audio_total: Some(1.0), segments: &dictation.segments });
            match dictation.end.map(|how| how()) {
                Some(Some(error)) => return Err(error),
                Some(None) => break,
                None if cancel.is_cancelled() => return Err(EngineError::Cancelled),
                None => {}
            }
            drop(dictation);
            std::thread::sleep(Duration::from_millis(10));
        }
        InstantEngine::default().transcribe(source, work, progress, cancel)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_decoded_so_far_is_seen_in_another_process_until_the_transcript_is_there() {
    let server = Server::with_role(Role::Account).await;
    let (client, stranger) = (server.account(Plan::Free).await, server.account(Plan::Free).await);
    let dictated = Dictated::default();
    let engines = Engines::new(Arc::new(dictated.clone()));
    let worker = Service::start(server.store.clone(), engines, eager(), Role::Gpu, Clock::system()).await.unwrap();
    let id = send(&client).await;
    let path = format!("/v1/transcripts/{id}");
    wait_for(&client, id, "processing").await;
    let shown = json(client.get(&path).await, 200).await;
    assert_eq!((&shown["text"], &shown["segments"]), (&"".into(), &serde_json::json!([])));
    let drafted = async |text: &str| {
        eventually(text, async || {
            let shown = json(client.get(&path).await, 200).await;
            assert_eq!(shown["status"], "processing");
            (shown["text"] == text).then_some(shown)
        })
        .await
    };
    dictated.say("one");
    drafted("one").await;
    dictated.say("two");
    let shown = drafted("one two").await;
    let second =
        serde_json::json!({"start": 1.0, "end": 1.5, "text": "two", "speaker": null, "confidence": 0.5, "words": []});
    assert_eq!((&shown["segments"][1], &shown["word_count"]), (&second, &0.into()));
    // An answer to a change is what the page shows next.
    let change = client.request(Method::PATCH, &path).json(&serde_json::json!({"title": "Mine", "shared": true}));
    let changed = json(change.send().await.unwrap(), 200).await;
    assert_eq!((&changed["title"], &changed["text"]), (&"Mine".into(), &"one two".into()));

    // Nowhere else, and for nobody else.
    refusal(stranger.get(&path).await, 404).await;
    let elsewhere = [
        path.clone() + "/export/txt",
        path.clone() + "/status",
        "/v1/transcripts".to_owned(),
        "/v1/search?q=two&mode=text".to_owned(),
        "/v1/account/export".to_owned(),
        format!("/v1/shared/{}", changed["share_token"].as_str().unwrap()),
        format!("/s/{}", changed["share_token"].as_str().unwrap()),
    ];
    for path in elsewhere {
        let text = client.get(&path).await.text().await.unwrap();
        assert!(!text.contains("one two"), "{path}: {text}");
    }

    // An attempt that fails takes its draft along.
    dictated.end(|| Some(broken()));
    wait_for(&client, id, "failed").await;
    assert_eq!(json(client.get(&path).await, 200).await["text"], "");
    dictated.end(|| None);
    json(retry(&client, id).await, 202).await;
    wait_for(&client, id, "completed").await;
    assert_eq!(json(client.get(&path).await, 200).await["text"], "nothing was heard");
    worker.stop().await;
}
