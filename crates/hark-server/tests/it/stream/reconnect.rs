//! Connections that break in the middle of a word, heard by an engine that says where it was flushed.

use std::sync::Arc;
use std::time::Duration;

use hark_api::{Segment, TranscriptionResult};
use hark_server::{Config, EngineError, Engines, InstantEngine, Live, LiveHandle, LiveRecognizer, Seconds};
use hark_server::{StreamLimits, Wake, Work};
use hark_speech::SpeechError;
use hark_speech::live::{LiveEvent, LiveSegments, LiveText};
use hark_store::Plan;
use serde_json::{Value, json as value};

use super::base;
use super::talker::{Talker, silence, texts};
use crate::server::{Client, Server, config};

/// Says after each flush how many samples it heard since the one before.
struct Counter {
    pending: usize,
    samples: usize,
    texts: Vec<LiveText>,
    polled: usize,
    /// Whether the audio has ended, until that was polled.
    is_ending: bool,
    wake: Wake,
}

struct Counting;

impl Live for Counting {
    fn start_session(&self, _: &Work, wake: Wake) -> Result<LiveHandle, EngineError> {
        let counter = Counter { pending: 0, samples: 0, texts: Vec::new(), polled: 0, is_ending: false, wake };
        Ok(LiveHandle::new(counter, ()))
    }
}

impl LiveRecognizer for Counter {
    fn push(&mut self, samples: &[f32]) {
        self.pending += samples.len();
        self.samples += samples.len();
    }

    fn flush(&mut self) {
        if self.pending == 0 {
            return;
        }
        let second = |samples: usize| samples as f64 / 16_000.0;
        self.texts.push(LiveText {
            text: std::mem::take(&mut self.pending).to_string(),
            start: self.texts.last().map_or(0.0, |last| last.end),
            end: second(self.samples),
            words: Vec::new(),
            language: "en".into(),
            confidence: 1.0,
            speaker: None,
            ends_utterance: true,
        });
        (self.wake)();
    }

    fn finish(&mut self) {
        self.flush();
        self.is_ending = true;
        (self.wake)();
    }

    fn backlog(&self) -> f64 {
        0.0
    }

    fn poll(&mut self) -> Result<Vec<LiveEvent>, SpeechError> {
        let mut events: Vec<LiveEvent> = self.texts[self.polled..].iter().cloned().map(LiveEvent::Text).collect();
        self.polled = self.texts.len();
        if std::mem::take(&mut self.is_ending) {
            events.push(LiveEvent::Final(Box::new(self.so_far())));
        }
        Ok(events)
    }

    fn so_far(&self) -> TranscriptionResult {
        let segments = self.final_segments_from(0).segments;
        TranscriptionResult {
            text: segments.iter().map(|segment| segment.text.as_str()).collect::<Vec<_>>().join(" "),
            language: "en".into(),
            duration: self.samples as f64 / 16_000.0,
            segments,
            model: "counting".into(),
            ..TranscriptionResult::default()
        }
    }

    fn final_segments_from(&self, from: usize) -> LiveSegments {
        let texts = self.texts.get(from..self.polled).unwrap_or_default().iter();
        let segments: Vec<Segment> = texts
            .map(|text| Segment { start: text.start, end: text.end, text: text.text.clone(), ..Segment::default() })
            .collect();
        LiveSegments { closed: segments.len(), next: self.polled.max(from), segments }
    }

    fn language(&self) -> Option<&str> {
        Some("en")
    }
}

/// A server that finalizes the last words so many seconds after a connection broke.
async fn server(reconnect: f64) -> (Server, Client) {
    let stream = StreamLimits { reconnect: Seconds(reconnect), ..StreamLimits::default() };
    let engines = Engines::new(Arc::new(InstantEngine::default())).with_live(Arc::new(Counting));
    let server = Server::with(Config { stream, ..config() }, engines).await;
    let client = server.account(Plan::Free).await;
    (server, client)
}

/// Sends part of a sample more than 0.4 s of sound, is away for so long, goes on where the server says, and stops; the messages after it came back.
async fn with_a_break(client: &Client, away: Duration) -> (Value, Vec<Value>) {
    let (mut talker, ready) = Talker::ready(client, base()).await;
    let sound = silence(0.8);
    talker.sound(&sound[..12_801], 2730).await;
    // Without a close frame, as when a network is lost.
    drop(talker);
    tokio::time::sleep(away).await;
    let mut hello = base();
    hello["session_id"] = ready["session_id"].clone();
    let (mut talker, ready) = Talker::ready(client, hello).await;
    let received = (ready["received"].as_f64().unwrap() * 32_000.0).round() as usize;
    talker.sound(&sound[received..], 2730).await;
    talker.say(value!({"action": "stop"})).await;
    let (messages, code) = talker.rest().await;
    assert_eq!(code, 1000, "{messages:?}");
    (ready, messages)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_is_back_soon_goes_on_in_the_middle_of_a_word() {
    let (server, client) = server(20.0).await;
    let (ready, messages) = with_a_break(&client, Duration::from_millis(1500)).await;
    assert_eq!((&ready["resumed"], &ready["received"]), (&value!(true), &value!(0.4)), "{ready}");
    assert_eq!(texts(&messages), "12800", "nothing was finalized at the break: {messages:?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_words_of_a_client_that_stays_away_are_finalized_and_wait_for_it() {
    let (server, client) = server(0.3).await;
    let (ready, messages) = with_a_break(&client, Duration::from_millis(1500)).await;
    assert_eq!(ready["resumed"], true, "{ready}");
    assert_eq!(texts(&messages), "6400 6400", "{messages:?}");
    server.stop().await;
}
