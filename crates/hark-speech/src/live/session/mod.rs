//! One live session: audio in, events out.

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
    reply: Reply,
    cancelled: Arc<AtomicBool>,
    vad: VadStream,
    endpointer: Endpointer,
    /// Buffered audio, and the index of its first sample in the session.
    audio: Vec<f32>,
    audio_start: u64,
    /// Samples of silence inserted before the session's start.
    leading_silence: Option<u64>,
    pass: Option<Pass>,
    /// The audio encoded last: the first sample and the one after the last.
    encoded: Option<(u64, u64)>,
    /// The end of the audio of the last pass.
    decoded_until: u64,
    /// Seconds of audio that arrived during the last pass.
    pass_latency: f64,
    /// Final words of the buffered audio: their tokens are the prefix of the next pass.
    final_words: Vec<TimedWord>,
    /// How many of them were emitted.
    emitted_words: usize,
    /// Interim words after the final ones, from the last pass.
    interim_words: Vec<TimedWord>,
    /// Tokens of the text before the buffered audio, for the prompt.
    prompt_tokens: Vec<u32>,
    /// Whether the utterance must end now, even during speech.
    flushing: bool,
    finishing: bool,
    finished: bool,
    /// The emitted texts, each with its text as decoded.
    emitted: Vec<(LiveText, String)>,
    speakers: Option<LiveSpeakers>,
    /// The speakers of emitted texts, as far as known.
    speaker_of: Vec<Option<usize>>,
    /// Events from the first text whose speaker is not known yet on.
    awaiting_speaker: VecDeque<LiveEvent>,
    /// Whether the diarization of the whole session was requested.
    awaiting_speakers: bool,
    events: VecDeque<LiveEvent>,
    last_partial: String,
}

/// A decoding pass in progress.
struct Pass {
    /// First sample and the one after the last.
    samples: (u64, u64),
    /// Samples of silence inserted before them.
    lead: u64,
    /// Whether it is the last of its utterance.
    is_last: bool,
    /// Whether the audio was truncated to the maximum of a pass.
    is_truncated: bool,
}

/// A word with times from the start of the session.
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
    /// A session that calls `wake`, from any thread, when it should be polled.
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
        let reply: Reply = Arc::new(move |_, outcome| {
            // The session may have been dropped.
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
            reply,
            cancelled: Arc::new(AtomicBool::new(false)),
            vad: VadStream::with_gain_control(&transcriber.vad),
            endpointer: Endpointer::default(),
            audio: Vec::new(),
            audio_start: 0,
            leading_silence: None,
            pass: None,
            encoded: None,
            decoded_until: 0,
            pass_latency: 0.0,
            final_words: Vec::new(),
            emitted_words: 0,
            interim_words: Vec::new(),
            prompt_tokens: Vec::new(),
            flushing: false,
            finishing: false,
            finished: false,
            emitted: Vec::new(),
            speakers,
            speaker_of: Vec::new(),
            awaiting_speaker: VecDeque::new(),
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
        self.audio.extend_from_slice(samples);
        if let Some(speakers) = &self.speakers {
            speakers.push(samples);
        }
        self.endpointer.push(&probabilities);
        self.drop_silence();
    }

    /// Ends the current utterance, even during speech.
    pub fn flush(&mut self) {
        self.flushing = true;
    }

    /// Ends the audio: the last event will be [`LiveEvent::Final`].
    pub fn finish(&mut self) {
        self.finishing = true;
    }

    /// Whether [`LiveEvent::Final`] was emitted.
    pub fn is_finished(&self) -> bool {
        self.finished && self.events.is_empty()
    }

    /// Whether a pass is in progress, or a text waits for its speaker.
    pub fn is_busy(&self) -> bool {
        self.pass.is_some() || !self.awaiting_speaker.is_empty() || self.awaiting_speakers && !self.finished
    }

    /// Seconds of audio received.
    pub fn seconds_received(&self) -> f64 {
        seconds(self.audio_end())
    }

    /// Seconds of audio that no pass has decoded yet, for flow control.
    pub fn backlog(&self) -> f64 {
        if self.endpointer.is_open() {
            seconds(self.audio_end().saturating_sub(self.decoded_until.max(self.audio_start)))
        } else {
            0.0
        }
    }

    /// Returns new events and starts the next pass if one is due. Fails only if the engine failed.
    pub fn poll(&mut self) -> Result<Vec<LiveEvent>, SpeechError> {
        while let Ok(outcome) = self.replies.try_recv() {
            match outcome {
                Ok(outcome) => self.handle_outcome(outcome),
                Err(error) => {
                    // The audio is still buffered: the next poll starts another pass.
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
            Answer::Speaker(speaker) => self.release_text(speaker),
            Answer::Session(diarization) => {
                self.speakers = None;
                self.end(Some(&diarization));
            }
            Answer::Failed => {
                self.speakers = None;
                while !self.awaiting_speaker.is_empty() {
                    self.release_text(None);
                }
                if self.awaiting_speakers && !self.finished {
                    self.end(None);
                }
            }
        }
    }

    /// Emits the first text that waited for its speaker, and the events up to the next one.
    fn release_text(&mut self, speaker: Option<usize>) {
        let Some(LiveEvent::Text(mut text)) = self.awaiting_speaker.pop_front() else { return };
        text.speaker = speaker.map(label);
        if let Some((emitted, _)) = self.emitted.get_mut(self.speaker_of.len()) {
            emitted.speaker.clone_from(&text.speaker);
        }
        self.speaker_of.push(speaker);
        self.events.push_back(LiveEvent::Text(text));
        let next = self.awaiting_speaker.iter().position(|event| matches!(event, LiveEvent::Text(_)));
        self.events.extend(self.awaiting_speaker.drain(..next.unwrap_or(self.awaiting_speaker.len())));
    }

    /// Emits an event, after those that wait for a speaker.
    fn emit(&mut self, event: LiveEvent) {
        match (&self.speakers, &event) {
            (Some(speakers), LiveEvent::Text(text)) => {
                speakers.identify(samples(text.start)..samples(text.end));
                self.awaiting_speaker.push_back(event);
            }
            _ if self.awaiting_speaker.is_empty() => self.events.push_back(event),
            _ => self.awaiting_speaker.push_back(event),
        }
    }

    /// Ends the session with the whole transcript.
    fn end(&mut self, diarization: Option<&Diarization>) {
        let mut result = self.so_far();
        if let Some(diarization) = diarization.filter(|diarization| !diarization.turns.is_empty()) {
            let words = self
                .emitted
                .iter()
                .zip(&self.speaker_of)
                .flat_map(|((text, _), speaker)| std::iter::repeat_n(*speaker, text.words.len()));
            let words: Vec<Option<usize>> = words.collect();
            result.segments = assign(result.segments, diarization);
            relabel(&mut result.segments, &words);
            result.speakers = speakers_of(&result.segments);
        }
        self.finished = true;
        self.events.push_back(LiveEvent::Final(Box::new(result)));
    }

    /// The language, once it is known.
    pub fn language(&self) -> Option<&str> {
        self.language.as_deref()
    }
}

impl Drop for LiveSession {
    fn drop(&mut self) {
        self.cancelled.store(true, Ordering::SeqCst);
    }
}

fn seconds(sample: u64) -> f64 {
    sample as f64 / f64::from(SAMPLE_RATE)
}

fn samples(seconds: f64) -> u64 {
    (seconds * f64::from(SAMPLE_RATE)) as u64
}
