//! One live session: sound in, events out.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};

use hark_media::SAMPLE_RATE;
use hark_speakers::Diarization;
use hark_transcript::{Lane, Segment, TranscriptionResult, Word};
use hark_whisper::backend::{Again, BackendError};
use hark_whisper::decode::{DecodeOptions, Decoded, Language, Outcome};

use super::circles::first_round;
use super::endpoint::Endpointer;
use super::speakers::{Answer, LiveSpeakers, relabel};
use super::{LiveEvent, LiveOptions, LivePolicy, LiveSegments, LiveText};
use crate::SpeechError;
use crate::scheduler::{Meter, Reply, WindowRequest};
use crate::segments::{ends_sentence, round, straighten};
use crate::speakers::{assign, label, speakers_of};
use crate::transcriber::Transcriber;
use crate::vad::VadStream;

/// Sound kept before speech: the network notices soft beginnings a little late.
const LEAD: u64 = SAMPLE_RATE as u64 * 2 / 5;
/// Sound behind the last speech that the last pass of an utterance must have heard.
const TAIL: u64 = SAMPLE_RATE as u64 / 5;
/// Samples of a position of the encoder: 20 ms.
const SAMPLES_A_FRAME: u64 = SAMPLE_RATE as u64 / 50;
/// The longest stretch of sound that a pass looks at.
const MOST_SOUND: u64 = SAMPLE_RATE as u64 * 28;
/// Seconds of speech behind the last word of an utterance's text that are taken for passed over…
const PASSED_OVER_AT_END: f64 = 1.2;
/// …and while the utterance goes on.
const PASSED_OVER: f64 = 2.5;
/// A language is settled by a pass that is this sure, or by the end of an utterance.
const SURE: f32 = 0.8;

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
    /// How many of them have been told.
    told_words: usize,
    /// Words behind the settled ones, as the last pass heard them.
    loose: Vec<TimedWord>,
    /// Tokens of the text before the sound.
    before: Vec<u32>,
    /// Whether the utterance must end now, whoever speaks.
    flushing: bool,
    finishing: bool,
    finished: bool,
    /// What was told, each with its text as decoded.
    told: Vec<(LiveText, String)>,
    speakers: Option<LiveSpeakers>,
    /// The speakers of told texts, as far as they are known.
    spoke: Vec<Option<usize>>,
    /// Events that wait for the speaker of a text: the first, and those behind it.
    held: VecDeque<LiveEvent>,
    /// Whether the speakers of the whole session have been asked for.
    summing_up: bool,
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
    /// Whether the sound was cut at [`MOST_SOUND`], not at its end.
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
            // A session that is gone does not listen any more.
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
            told_words: 0,
            loose: Vec::new(),
            before: Vec::new(),
            flushing: false,
            finishing: false,
            finished: false,
            told: Vec::new(),
            speakers,
            spoke: Vec::new(),
            held: VecDeque::new(),
            summing_up: false,
            events: VecDeque::new(),
            last_partial: String::new(),
            transcriber: transcriber.clone(),
        })
    }

    /// Takes the next samples.
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

    /// Whether [`LiveEvent::Final`] has been told.
    pub fn is_finished(&self) -> bool {
        self.finished && self.events.is_empty()
    }

    /// Whether the engine is looking at the sound, or a text waits for its speaker.
    pub fn is_busy(&self) -> bool {
        self.pass.is_some() || !self.held.is_empty() || self.summing_up && !self.finished
    }

    /// Seconds of sound that came.
    pub fn heard(&self) -> f64 {
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
            self.hear(answer);
        }
        Ok(self.events.drain(..).collect())
    }

    /// Takes what the listener to the voices says.
    fn hear(&mut self, answer: Answer) {
        match answer {
            Answer::Speaker(speaker) => self.tell_held(speaker),
            Answer::Whole(heard) => {
                self.speakers = None;
                self.end(Some(&heard));
            }
            Answer::Gone => {
                self.speakers = None;
                while !self.held.is_empty() {
                    self.tell_held(None);
                }
                if self.summing_up && !self.finished {
                    self.end(None);
                }
            }
        }
    }

    /// Tells the first text that waited for its speaker, and what waited behind it.
    fn tell_held(&mut self, speaker: Option<usize>) {
        let Some(LiveEvent::Text(mut text)) = self.held.pop_front() else { return };
        text.speaker = speaker.map(label);
        if let Some((told, _)) = self.told.get_mut(self.spoke.len()) {
            told.speaker.clone_from(&text.speaker);
        }
        self.spoke.push(speaker);
        self.events.push_back(LiveEvent::Text(text));
        let next = self.held.iter().position(|event| matches!(event, LiveEvent::Text(_)));
        self.events.extend(self.held.drain(..next.unwrap_or(self.held.len())));
    }

    /// Tells an event behind those before it.
    fn tell(&mut self, event: LiveEvent) {
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
                .told
                .iter()
                .zip(&self.spoke)
                .flat_map(|((text, _), speaker)| std::iter::repeat_n(*speaker, text.words.len()));
            let words: Vec<Option<usize>> = words.collect();
            result.segments = assign(result.segments, heard);
            relabel(&mut result.segments, &words);
            result.speakers = speakers_of(&result.segments);
        }
        self.finished = true;
        self.events.push_back(LiveEvent::Final(Box::new(result)));
    }

    /// The sample after the last that came.
    fn last(&self) -> u64 {
        self.first + self.sound.len() as u64
    }

    /// Drops sound in which nobody speaks.
    fn forget_silence(&mut self) {
        if self.ends.is_open() || self.pass.is_some() {
            return;
        }
        let keep_from = self.ends.began().min(self.last()).saturating_sub(LEAD);
        if self.settled.is_empty() {
            self.drop_until(keep_from);
        } else if self.ends.silence() >= samples(self.policy.longest_pause) {
            // What is said next has little to do with what was said.
            self.cut(keep_from, self.settled.len());
        }
    }

    fn drop_until(&mut self, sample: u64) {
        let count = (sample.saturating_sub(self.first) as usize).min(self.sound.len());
        self.sound.drain(..count);
        self.first += count as u64;
    }

    /// Starts a pass if one is due, or ends an utterance or the session that needs none.
    fn next_pass(&mut self) {
        let end = self.last();
        if !self.ends.is_open() {
            self.flushing = false;
            if self.finishing && !self.summing_up {
                self.tell_settled(true);
                self.summing_up = true;
                match &self.speakers {
                    Some(speakers) => speakers.finish(),
                    None => self.end(None),
                }
            }
            return;
        }
        let silence = self.ends.silence() >= samples(self.policy.end_silence);
        let over = silence || self.flushing || self.finishing;
        let spoken_until = (self.ends.ended() + TAIL).min(end);
        if over && self.looked_until >= spoken_until {
            if !self.look_behind_the_text() {
                self.end_utterance();
            }
            return self.next_pass();
        }
        let is_cut = end - self.first > MOST_SOUND;
        let until = if is_cut { self.first + MOST_SOUND } else { end };
        let interval = self.policy.interval.max(self.took);
        let fresh = until.saturating_sub(self.looked_until.max(self.ends.began()));
        if over || is_cut || fresh >= samples(interval) {
            self.start_pass(until, over && !is_cut, is_cut);
        }
    }

    /// Samples of silence before the sound: a session that begins with speech at once is given as much as there is before
    /// any other speech, as a file is.
    fn lead(&mut self) -> u64 {
        let lead = *self.lead.get_or_insert(LEAD.saturating_sub(self.ends.began()));
        if self.first == 0 { lead } else { 0 }
    }

    fn start_pass(&mut self, until: u64, is_last: bool, is_cut: bool) {
        let lead = self.lead();
        let (mel, frames) = self.transcriber.spectrogram(lead as usize, &self.sound[..(until - self.first) as usize]);
        let language = match &self.language {
            Some(code) => Language::Known(code.clone()),
            None => Language::Detect { sure_from: 0.0 },
        };
        let mut prompt = self.options.prompt.clone();
        prompt.extend(&self.before);
        let prefix = self.settled.iter().flat_map(|word| &word.tokens).copied().collect();
        let mut options = DecodeOptions { language, prompt, prefix, ..self.options.clone() };
        if is_last || is_cut {
            // Nothing comes after it that could put a doubtful text right.
            options.temperatures = DecodeOptions::default().temperatures;
        }
        let changed = self.changed(until, lead);
        self.transcriber.scheduler.submit(WindowRequest {
            owner: self.owner,
            lane: Lane::Live,
            mel: mel.into(),
            frames,
            again: Some(Again { key: self.owner, changed }),
            options: Arc::new(options),
            cancelled: Arc::clone(&self.unwanted),
            tag: 0,
            reply: Arc::clone(&self.reply_to),
            meter: Meter::default(),
        });
        self.pass = Some(Pass { samples: (self.first, until), lead, is_last, is_cut });
    }

    /// Frames that a pass over the sound up to `until` must encode again; none for all of them, where the sound begins
    /// elsewhere than that of the last pass.
    fn changed(&mut self, until: u64, lead: u64) -> Option<Range<usize>> {
        let frame = |sample: u64| ((sample + lead).saturating_sub(self.first) / SAMPLES_A_FRAME) as usize;
        let known = self.encoded.filter(|&(first, before)| first == self.first && before <= until);
        self.encoded = Some((self.first, until));
        known.map(|(_, before)| {
            let from = before.saturating_sub(samples(self.policy.encode_back));
            frame(from)..frame(until + samples(self.policy.encode_ahead)) + 1
        })
    }

    fn absorb(&mut self, outcome: Outcome) {
        let Some(pass) = self.pass.take() else { return };
        self.took = seconds(self.last() - pass.samples.1);
        self.looked_until = pass.samples.1;
        let Outcome::Decoded(decoded) = outcome else { return };
        if self.language.is_none() && (decoded.language_probability >= SURE || pass.is_last) && !decoded.text.is_empty()
        {
            self.language = Some(decoded.language.clone());
        }
        // A text that repeats itself says nothing; the next pass may do better.
        if decoded.compression <= self.options.most_compression || pass.is_last || pass.is_cut {
            self.settle(&pass, &decoded);
        }
        if self.leave_circle() {
            return;
        }
        if pass.is_cut {
            // The sound goes on before the word that may have been cut in two.
            let halved = if self.loose.len() > 1 { self.loose.pop() } else { None };
            self.settle_loose();
            let at = halved.map_or(pass.samples.1, |word| samples(word.start).min(pass.samples.1));
            self.tell_settled(true);
            self.cut(at, self.settled.len());
            self.looked_until = self.first;
        } else {
            self.tell_settled(false);
            self.trim();
        }
        self.tell_partial();
    }

    /// A text that goes round in a circle has lost the sound: what was said behind the first round is looked at by itself,
    /// without the text that led into it. Says whether it was so.
    fn leave_circle(&mut self) -> bool {
        let heard = || self.settled.iter().chain(&self.loose);
        let Some(round) = first_round(heard().map(|word| word.text.as_str())) else { return false };
        let end = heard().take(round.end).last().map_or(0, |word| samples(word.end));
        self.loose.truncate(round.end.saturating_sub(self.settled.len()));
        self.settle_loose();
        self.tell_settled(false);
        // Times of such words are little worth: some sound is left behind in any case.
        self.cut(end.max(self.first + LEAD), self.settled.len());
        self.before.clear();
        self.looked_until = self.first;
        self.tell_partial();
        true
    }

    /// Takes a pass's words: settles those that are far enough behind the end of its sound.
    fn settle(&mut self, pass: &Pass, decoded: &Decoded) {
        let words = self.new_words(pass, decoded);
        let end = seconds(pass.samples.1);
        self.loose = words;
        // A word waits for the pass that finds it far enough behind, and for the time that the pass takes.
        let policy = &self.policy;
        let waits = policy.interval.max(self.took) + self.took;
        let hold = (policy.tell_within - waits).clamp(policy.least_hold, policy.most_hold);
        let is_sure = |word: &TimedWord| end - word.end >= hold;
        let mut count = self.loose.iter().take_while(|word| is_sure(word)).count();
        if count == self.loose.len() && !pass.is_last {
            // What ends the text so far may yet be another word's beginning.
            count = count.saturating_sub(1);
        }
        self.settled.extend(self.loose.drain(..count));
    }

    /// The words behind the settled ones.
    fn new_words(&self, pass: &Pass, decoded: &Decoded) -> Vec<TimedWord> {
        let known: usize = self.settled.iter().map(|word| word.tokens.len()).sum();
        let at = |time: f64| (seconds(pass.samples.0) + time - seconds(pass.lead)).max(0.0);
        let mut words = Vec::new();
        for word in decoded.words.iter().filter(|word| word.tokens.end > known) {
            let tokens = word.tokens.start.max(known)..word.tokens.end;
            let tokens = decoded.tokens.get(tokens).unwrap_or_default().to_vec();
            // Of a word that began in the settled text only the rest is new: its punctuation.
            let is_rest = word.tokens.start < known;
            words.push(TimedWord {
                text: if is_rest { self.transcriber.tokenizer.decode(&tokens) } else { word.text.clone() },
                tokens,
                start: at(if is_rest { word.end } else { word.start }),
                end: at(word.end),
                confidence: word.probability,
            });
        }
        words
    }

    /// Settles everything that the last pass heard.
    fn settle_loose(&mut self) {
        self.settled.append(&mut self.loose);
    }

    /// At the end of an utterance, or long after the last word: is there speech that the text passes over? Then the sound
    /// behind the text is looked at by itself.
    fn look_behind_the_text(&mut self) -> bool {
        let over = self.ends.silence() >= samples(self.policy.end_silence) || self.flushing || self.finishing;
        let Some(last) = self.loose.last().or(self.settled.last()) else { return false };
        let unheard = self.ends.spoken_between(samples(last.end), self.looked_until);
        if unheard < samples(if over { PASSED_OVER_AT_END } else { PASSED_OVER }) {
            return false;
        }
        let cut = samples(last.end + 0.1).max(self.ends.began().saturating_sub(LEAD));
        self.settle_loose();
        self.tell_settled(true);
        self.cut(cut, self.settled.len());
        self.looked_until = self.first;
        true
    }

    /// The last pass of an utterance has heard all of it.
    fn end_utterance(&mut self) {
        self.settle_loose();
        self.tell_settled(true);
        self.tell_partial();
        if self.flushing || self.finishing {
            self.cut(self.last(), self.settled.len());
        }
        self.ends.close();
        self.flushing = false;
        self.forget_silence();
    }

    /// Drops the sound before `sample` with its `words` settled words, which become the text before.
    fn cut(&mut self, sample: u64, words: usize) {
        self.drop_until(sample);
        self.before.extend(self.settled.drain(..words).flat_map(|word| word.tokens));
        self.told_words = self.told_words.saturating_sub(words);
        self.before.drain(..self.before.len().saturating_sub(self.policy.most_prompt));
    }

    /// Cuts off the settled beginning of a long utterance.
    fn trim(&mut self) {
        if self.look_behind_the_text() {
            return;
        }
        let length = seconds(self.looked_until.saturating_sub(self.first));
        if length < self.policy.trim_from {
            return;
        }
        let next_start = |index: usize| {
            let next = self.settled.get(index + 1).or(self.loose.first());
            next.map_or(self.settled[index].end, |next| next.start)
        };
        let told = self.told_words;
        let keep_from = seconds(self.looked_until) - self.policy.keep_back;
        let ends = |index: &usize| ends_sentence(&self.settled[*index].text);
        let early = (0..told).rfind(|index| ends(index) && self.settled[*index].end <= keep_from);
        let sentence = early.or_else(|| (0..told).rfind(ends));
        // Without a sentence's end: at the longest pause of the later half.
        let anywhere = || {
            (told / 2..told).max_by(|&a, &b| {
                let pause = |index: usize| next_start(index) - self.settled[index].end;
                pause(a).total_cmp(&pause(b))
            })
        };
        let at = sentence.or_else(|| if length >= self.policy.trim_anywhere_from { anywhere() } else { None });
        if let Some(index) = at {
            let middle = (self.settled[index].end + next_start(index)) / 2.0;
            self.cut(samples(middle), index + 1);
        }
    }

    /// Tells the settled words, each sentence by itself; `ends_utterance` where the speaker paused behind them.
    fn tell_settled(&mut self, ends_utterance: bool) {
        while self.told_words < self.settled.len() {
            let rest = &self.settled[self.told_words..];
            let sentence = rest.iter().position(|word| ends_sentence(&word.text)).map_or(rest.len(), |last| last + 1);
            self.tell_words(sentence, ends_utterance && sentence == rest.len());
        }
    }

    /// Tells the next `count` settled words.
    fn tell_words(&mut self, count: usize, ends_utterance: bool) {
        let told = &self.settled[self.told_words..][..count];
        let (Some(first), Some(last)) = (told.first(), told.last()) else { return };
        let raw: String = told.iter().map(|word| word.text.as_str()).collect();
        let mut words: Vec<Word> = Vec::new();
        for word in told.iter().filter(|word| !word.text.trim().is_empty()) {
            let is_rest = !word.text.starts_with(' ') && word.text.chars().all(|c| c.is_ascii_punctuation());
            match words.last_mut().filter(|_| is_rest) {
                Some(before) => before.word.push_str(word.text.trim()),
                None => words.push(Word {
                    word: word.text.trim().to_owned(),
                    start: round(word.start),
                    end: round(word.end),
                    confidence: word.confidence,
                }),
            }
        }
        let text = LiveText {
            text: raw.trim().to_owned(),
            start: round(first.start),
            end: round(last.end),
            confidence: words.iter().map(|word| word.confidence).sum::<f32>() / words.len().max(1) as f32,
            words,
            language: self.language.clone().unwrap_or_default(),
            speaker: None,
            ends_utterance,
        };
        self.told_words += count;
        // Punctuation that comes after its word was told is too late.
        if text.text.chars().any(char::is_alphanumeric) {
            self.told.push((text.clone(), raw));
            self.tell(LiveEvent::Text(text));
        }
    }

    /// Tells the text behind what was told, if it changed.
    fn tell_partial(&mut self) {
        let words = || self.settled[self.told_words..].iter().chain(&self.loose);
        let text = words().map(|word| word.text.as_str()).collect::<String>().trim().to_owned();
        if text == self.last_partial {
            return;
        }
        let start = words().next().map_or(seconds(self.looked_until), |word| word.start);
        self.last_partial.clone_from(&text);
        self.tell(LiveEvent::Partial { text, start: round(start) });
    }

    /// Everything that was told so far, as a transcript: texts joined to segments that end where an utterance or a sentence
    /// does.
    pub fn so_far(&self) -> TranscriptionResult {
        let Joined { segments, .. } = join(&self.told, 0);
        TranscriptionResult {
            text: segments.iter().map(|segment| segment.text.as_str()).collect::<Vec<_>>().join(" "),
            language: self.language.clone().unwrap_or_default(),
            duration: round(self.heard()),
            speakers: speakers_of(&segments),
            segments,
            model: self.transcriber.model_name.to_string(),
        }
    }

    /// The segments of the texts told from number `from` on, which must be the first of a segment. Texts that wait for their
    /// speaker are not among them.
    pub fn settled_from(&self, from: usize) -> LiveSegments {
        let known = if self.held.is_empty() { self.told.len() } else { self.spoke.len() };
        let Joined { segments, begins, goes_on } = join(self.told.get(from..known).unwrap_or_default(), from);
        match begins.last() {
            Some(&open) if goes_on => LiveSegments { closed: segments.len() - 1, next: open, segments },
            _ => LiveSegments { closed: segments.len(), next: known.max(from), segments },
        }
    }

    /// The language that is spoken, once it is known.
    pub fn language(&self) -> Option<&str> {
        self.language.as_deref()
    }
}

/// Texts as segments.
struct Joined {
    segments: Vec<Segment>,
    /// The number of the first text of each.
    begins: Vec<usize>,
    /// Whether the next text may go on with the last one.
    goes_on: bool,
}

/// Joins texts, the first of which has this number, to segments that end where an utterance or a sentence does.
fn join(texts: &[(LiveText, String)], first: usize) -> Joined {
    let (mut segments, mut begins): (Vec<Segment>, Vec<usize>) = (Vec::new(), Vec::new());
    let mut goes_on = false;
    for (number, (text, raw)) in (first..).zip(texts) {
        match segments.last_mut().filter(|segment| goes_on && segment.speaker == text.speaker) {
            Some(segment) => {
                segment.text.push_str(raw);
                segment.end = text.end;
                segment.words.extend(text.words.iter().cloned());
            }
            None => {
                begins.push(number);
                segments.push(Segment {
                    start: text.start,
                    end: text.end,
                    text: raw.trim_start().to_owned(),
                    speaker: text.speaker.clone(),
                    words: text.words.clone(),
                    ..Segment::default()
                });
            }
        }
        goes_on = !(text.ends_utterance || ends_sentence(&text.text));
    }
    for segment in &mut segments {
        let words = segment.words.len().max(1) as f32;
        segment.confidence = segment.words.iter().map(|word| word.confidence).sum::<f32>() / words;
        segment.text.truncate(segment.text.trim_end().len());
    }
    straighten(&mut segments);
    Joined { segments, begins, goes_on }
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
