//! One live session: sound in, events out.

mod passes;
mod texts;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};

use hark_media::SAMPLE_RATE;
use hark_speakers::Diarization;
use hark_whisper::backend::BackendError;
use hark_whisper::decode::{DecodeOptions, Outcome};

use super::endpoint::Endpointer;
use super::speakers::{Answer, LiveSpeakers, relabel};
use super::{LiveEvent, LiveOptions, LivePolicy, LiveText};
use crate::SpeechError;
use crate::scheduler::Reply;
use crate::speakers::{assign, label, speakers_of};
use crate::transcriber::Transcriber;
use crate::vad::VadStream;

/// A live session; see [`crate::live`].
pub struct LiveSession {
    transcriber: Transcriber,
    policy: LivePolicy,
    options: DecodeOptions,
    language: Option<String>,
    owner: u64,
    replies: Receiver<Result<Outcome, BackendError>>,
    reply_to: Reply,
    unwanted: Arc<AtomicBool>,
    vad: VadStream,
    ends: Endpointer,
    /// The sound that is not done with, and the session's number of its first sample.
    sound: Vec<f32>,
    first: u64,
    /// Samples of silence that the engine hears before the session's beginning.
    lead: Option<u64>,
    pass: Option<Pass>,
    /// What the engine has encoded last: the first sample and the one after the last.
    encoded: Option<(u64, u64)>,
    /// Where the sound of the last pass ended.
    looked_until: u64,
    /// Seconds of sound that came while the last pass was under way.
    took: f64,
    /// Words of the sound that are settled: their tokens are the beginning of the next pass's text.
    settled: Vec<TimedWord>,
    /// How many of them have been emitted.
    emitted_words: usize,
    /// Words behind the settled ones, as the last pass decoded them.
    loose: Vec<TimedWord>,
    /// Tokens of the text before the sound.
    before: Vec<u32>,
    /// Whether the utterance must end now, whoever speaks.
    flushing: bool,
    finishing: bool,
    finished: bool,
    /// Texts that were emitted, each with its text as decoded.
    emitted: Vec<(LiveText, String)>,
    speakers: Option<LiveSpeakers>,
    /// The speakers of emitted texts, as far as they are known.
    speaker_of: Vec<Option<usize>>,
    /// Events that wait for the speaker of a text: the first, and those behind it.
    held: VecDeque<LiveEvent>,
    /// Whether the speakers of the whole session have been asked for.
    awaiting_speakers: bool,
    events: VecDeque<LiveEvent>,
    last_partial: String,
}

/// A look at the sound that the engine is busy with.
struct Pass {
    /// First sample and the one after the last.
    samples: (u64, u64),
    /// Samples of silence before them.
    lead: u64,
    /// Whether the utterance ends with it.
    is_last: bool,
    /// Whether the sound was cut at [`MAX_SOUND`], not at its end.
    is_cut: bool,
}

/// A word on the session's clock.
#[derive(Debug, Clone)]
struct TimedWord {
    /// As decoded, with its leading space.
    text: String,
    tokens: Vec<u32>,
    start: f64,
    end: f64,
    confidence: f32,
}

impl LiveSession {
    /// A session that calls `wake`, from any thread, when there is something to poll for.
    pub fn new(
        transcriber: &Transcriber,
        options: &LiveOptions,
        wake: impl Fn() + Send + Sync + 'static,
    ) -> Result<Self, SpeechError> {
        let language = transcriber.language_of(options.language.as_deref(), options.task)?;
        let prompt = transcriber.prompt_of(options.hotwords.as_deref(), options.prompt.as_deref());
        let (sender, replies) = channel();
        let sender = Mutex::new(sender);
        let wake: Arc<dyn Fn() + Send + Sync> = Arc::new(wake);
        let speakers = match &transcriber.voices {
            _ if !options.speakers => None,
            Some(voices) => Some(LiveSpeakers::start(voices, Arc::clone(&wake))?),
            None => return Err(SpeechError::NoVoices),
        };
        let reply_to: Reply = Arc::new(move |_, outcome| {
            // The session may be gone.
            let _ = sender.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).send(outcome);
            wake();
        });
        Ok(LiveSession {
            policy: options.policy.clone(),
            options: DecodeOptions {
                task: options.task,
                beam: options.policy.beam,
                temperatures: vec![0.0],
                words: true,
                prompt,
                ..DecodeOptions::default()
            },
            language,
            owner: transcriber.scheduler.new_owner(),
            replies,
            reply_to,
            unwanted: Arc::new(AtomicBool::new(false)),
            vad: VadStream::leveled(&transcriber.vad),
            ends: Endpointer::default(),
            sound: Vec::new(),
            first: 0,
            lead: None,
            pass: None,
            encoded: None,
            looked_until: 0,
            took: 0.0,
            settled: Vec::new(),
            emitted_words: 0,
            loose: Vec::new(),
            before: Vec::new(),
            flushing: false,
            finishing: false,
            finished: false,
            emitted: Vec::new(),
            speakers,
            speaker_of: Vec::new(),
            held: VecDeque::new(),
            awaiting_speakers: false,
            events: VecDeque::new(),
            last_partial: String::new(),
            transcriber: transcriber.clone(),
        })
    }

    /// Appends the next samples.
    pub fn push(&mut self, samples: &[f32]) {
        let mut probabilities = Vec::new();
        self.vad.push(samples, &mut probabilities);
        self.sound.extend_from_slice(samples);
        if let Some(speakers) = &self.speakers {
            speakers.push(samples);
        }
        self.ends.push(&probabilities);
        self.forget_silence();
    }

    /// Ends what is being said, whoever speaks on.
    pub fn flush(&mut self) {
        self.flushing = true;
    }

    /// No more sound will come: the last event will be [`LiveEvent::Final`].
    pub fn finish(&mut self) {
        self.finishing = true;
    }

    /// Whether [`LiveEvent::Final`] has been emitted.
    pub fn is_finished(&self) -> bool {
        self.finished && self.events.is_empty()
    }

    /// Whether the engine is looking at the sound, or a text waits for its speaker.
    pub fn is_busy(&self) -> bool {
        self.pass.is_some() || !self.held.is_empty() || self.awaiting_speakers && !self.finished
    }

    /// Seconds of sound that came.
    pub fn seconds_received(&self) -> f64 {
        seconds(self.last())
    }

    /// Seconds of sound that wait to be looked at for the first time: a sender may be asked to wait when they are many.
    pub fn backlog(&self) -> f64 {
        if self.ends.is_open() { seconds(self.last().saturating_sub(self.looked_until.max(self.first))) } else { 0.0 }
    }

    /// What is new; starts the next look at the sound where one is due. Fails only if the engine is gone.
    pub fn poll(&mut self) -> Result<Vec<LiveEvent>, SpeechError> {
        while let Ok(outcome) = self.replies.try_recv() {
            match outcome {
                Ok(outcome) => self.absorb(outcome),
                Err(error) => {
                    // The sound is still there: whoever polls again looks at it again.
                    self.pass = None;
                    return Err(error.into());
                }
            }
        }
        if !self.transcriber.scheduler.is_running() {
            return Err(SpeechError::EngineStopped);
        }
        if self.pass.is_none() && !self.finished {
            self.next_pass();
        }
        while let Some(answer) = self.speakers.as_ref().and_then(LiveSpeakers::answer) {
            self.on_speaker_answer(answer);
        }
        Ok(self.events.drain(..).collect())
    }

    /// Handles an answer of the speaker thread.
    fn on_speaker_answer(&mut self, answer: Answer) {
        match answer {
            Answer::Speaker(speaker) => self.release_held(speaker),
            Answer::Whole(heard) => {
                self.speakers = None;
                self.end(Some(&heard));
            }
            Answer::Gone => {
                self.speakers = None;
                while !self.held.is_empty() {
                    self.release_held(None);
                }
                if self.awaiting_speakers && !self.finished {
                    self.end(None);
                }
            }
        }
    }

    /// Emits the first text that waited for its speaker, and what waited behind it.
    fn release_held(&mut self, speaker: Option<usize>) {
        let Some(LiveEvent::Text(mut text)) = self.held.pop_front() else { return };
        text.speaker = speaker.map(label);
        if let Some((told, _)) = self.emitted.get_mut(self.speaker_of.len()) {
            told.speaker.clone_from(&text.speaker);
        }
        self.speaker_of.push(speaker);
        self.events.push_back(LiveEvent::Text(text));
        let next = self.held.iter().position(|event| matches!(event, LiveEvent::Text(_)));
        self.events.extend(self.held.drain(..next.unwrap_or(self.held.len())));
    }

    /// Emits an event after those before it.
    fn emit(&mut self, event: LiveEvent) {
        match (&self.speakers, &event) {
            (Some(speakers), LiveEvent::Text(text)) => {
                speakers.ask(samples(text.start), samples(text.end));
                self.held.push_back(event);
            }
            _ if self.held.is_empty() => self.events.push_back(event),
            _ => self.held.push_back(event),
        }
    }

    /// The session is over.
    fn end(&mut self, heard: Option<&Diarization>) {
        let mut result = self.so_far();
        if let Some(heard) = heard.filter(|heard| !heard.turns.is_empty()) {
            let words = self
                .emitted
                .iter()
                .zip(&self.speaker_of)
                .flat_map(|((text, _), speaker)| std::iter::repeat_n(*speaker, text.words.len()));
            let words: Vec<Option<usize>> = words.collect();
            result.segments = assign(result.segments, heard);
            relabel(&mut result.segments, &words);
            result.speakers = speakers_of(&result.segments);
        }
        self.finished = true;
        self.events.push_back(LiveEvent::Final(Box::new(result)));
    }

    /// The language that is spoken, once it is known.
    pub fn language(&self) -> Option<&str> {
        self.language.as_deref()
    }
}

impl Drop for LiveSession {
    fn drop(&mut self) {
        self.unwanted.store(true, Ordering::SeqCst);
    }
}

fn seconds(sample: u64) -> f64 {
    sample as f64 / f64::from(SAMPLE_RATE)
}

fn samples(seconds: f64) -> u64 {
    (seconds * f64::from(SAMPLE_RATE)) as u64
}
