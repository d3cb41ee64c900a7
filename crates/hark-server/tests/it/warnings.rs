//! What is said about a recording besides its words, and the options of channels and languages on their way to the engine.

use std::sync::{Arc, Mutex};

use hark_api::{Segment, TranscriptionResult};
use hark_media::Source;
use hark_server::{EngineError, Engines, InstantEngine, Transcribe, Transcribed, Work};
use hark_speech::{CancelToken, Channels};
use hark_store::Plan;

use crate::like_instant::models_like_instant;
use crate::server::{Server, config, hum, json, refusal};

/// What the engine says of every recording.
const WARNING: &str = "no words: the sound is silent from beginning to end";

/// Language, usual language and channels of a recording's work.
type Asked = (Option<String>, Option<String>, Channels);

/// An engine that finds recordings silent, and remembers how it was asked.
#[derive(Clone, Default)]
struct Silence {
    told: Arc<Mutex<Vec<Asked>>>,
    language: Arc<Mutex<String>>,
    words: usize,
}

models_like_instant!(Silence);

impl Transcribe for Silence {
    fn transcribe(
        &self,
        _: Source,
        work: &Work,
        _: &mut dyn FnMut(hark_speech::Progress<'_>),
        _: &CancelToken,
    ) -> Result<Transcribed, EngineError> {
        self.told.lock().unwrap().push((work.language.clone(), work.usual_language.clone(), work.channels));
        let language = self.language.lock().unwrap().clone();
        let text = "so ".repeat(self.words);
        let segment = Segment { text, language: Some(language.clone()), ..Segment::default() };
        let segments = if self.words > 0 { vec![segment] } else { Vec::new() };
        let result = TranscriptionResult {
            language,
            segments,
            warnings: vec![WARNING.into()],
            ..TranscriptionResult::default()
        };
        Ok(Transcribed { result, ..Transcribed::default() })
    }
}

impl From<Silence> for Engines {
    fn from(engine: Silence) -> Self {
        Engines::new(Arc::new(engine)).with_voices(Arc::new(InstantEngine::default()))
    }
}

#[tokio::test]
async fn a_transcript_without_words_says_why_in_every_answer() {
    let server = Server::with(config(), Silence::default()).await;
    let client = server.account(Plan::Pro).await;
    for (path, fields) in [
        ("/v1/transcribe", &[][..]),
        ("/v1/audio/transcriptions", &[("response_format", "json")]),
        ("/v1/audio/transcriptions", &[("response_format", "verbose_json")]),
        ("/v1/audio/transcriptions", &[("response_format", "diarized_json")]),
    ] {
        let answer = json(client.transcribe(path, hum(1.0), fields).send().await.unwrap(), 200).await;
        assert_eq!(answer["warnings"], serde_json::json!([WARNING]), "{path} {fields:?}");
        assert_eq!(answer["text"], "");
    }
    let sent = client.transcribe("/v1/transcribe", hum(1.0), &[("response_format", "srt")]).send().await.unwrap();
    assert_eq!(sent.headers()["x-warnings"], WARNING);
    let id = sent.headers()["x-transcript-id"].to_str().unwrap().to_owned();
    let detail = json(client.get(&format!("/v1/transcripts/{id}")).await, 200).await;
    assert_eq!(detail["warnings"], serde_json::json!([WARNING]));
    let export = json(client.get(&format!("/v1/transcripts/{id}/export/json")).await, 200).await;
    assert_eq!(export["warnings"], serde_json::json!([WARNING]));
}

#[tokio::test]
async fn channels_and_languages_reach_the_engine_and_the_usual_language_is_the_accounts_own() {
    let engine = Silence { words: 30, ..Silence::default() };
    "de".clone_into(&mut engine.language.lock().unwrap());
    let server = Server::with(config(), engine.clone()).await;
    let (ours, theirs) = (server.account(Plan::Pro).await, server.account(Plan::Pro).await);
    for (client, path, fields) in [
        (&ours, "/v1/transcribe", &[("channels", "separate")][..]),
        (&ours, "/v1/transcribe", &[]),
        (&ours, "/v1/audio/transcriptions", &[("language", "multi"), ("channels", "mono")]),
        (&theirs, "/v1/transcribe", &[]),
        (&server.anonymous(), "/v1/transcribe", &[]),
    ] {
        json(client.transcribe(path, hum(1.0), fields).send().await.unwrap(), 200).await;
    }
    let (none, german) = (None, Some("de".to_owned()));
    let expected = [
        (none.clone(), none.clone(), Channels::Separate),
        (none.clone(), german, Channels::Auto),
        (Some("multi".to_owned()), none.clone(), Channels::Mono),
        (none.clone(), none.clone(), Channels::Auto),
        (none.clone(), none, Channels::Auto),
    ];
    assert_eq!(*engine.told.lock().unwrap(), expected);
    let refused = ours.transcribe("/v1/transcribe", hum(1.0), &[("channels", "stereo")]).send().await.unwrap();
    assert!(refusal(refused, 400).await.contains("`channels`"));
}
