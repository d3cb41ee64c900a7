//! One transcription: submits windows, handles their replies, assembles the transcript.

mod language;
mod looks;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};

use hark_media::{AudioStream, SAMPLE_RATE};
use hark_transcript::{Lane, Segment, TranscriptionResult, VoiceActivity};
use hark_whisper::backend::BackendError;
use hark_whisper::decode::{DecodeOptions, Decoded, Language, Outcome};

use crate::SpeechError;
use crate::diarization::{DiarizationThread, Speakers};
use crate::findings::Findings;
use crate::languages::{Prior, others_heard};
use crate::scheduler::{Meter, Reply, WindowRequest};
use crate::second_look::Check;
use crate::segments::{insert_in_order, segments_of, straighten};
use crate::speakers::{assign_in_order, speakers_of};
use crate::transcriber::{Progress, Request, Transcriber, Transcription};
use crate::unheard::{Unheard, is_certain};
use crate::vad::VadStream;
use crate::voiceprint;
use crate::windows::{Window, WindowCutter};
use looks::{Done, Gap, Look, Outstanding, Purpose, StepRate};

/// The logprob threshold of a second look: a text below it is discarded.
const SECOND_LOOK_LOGPROB_THRESHOLD: f32 = -1.0;

/// How many stretches that voice activity detection left out wait for the language; more detect theirs.
const MAX_UNHEARD: usize = 4;

/// How often the same sound is decoded again at most, each time as a smaller part: the text of a second look stops early, too, where
/// several people speak.
const MAX_LOOKS: usize = 3;

/// Windows of one recording that may be queued or decoded at a time: enough to fill the engine, and a bound on the memory
/// of a recording of any length.
const MAX_OUTSTANDING: usize = 40;
/// Windows that may wait until others say what the language of the recording is; a bound on memory.
const MAX_UNSURE: usize = 8;

/// The tag and outcome of a window.
type WindowReply = (usize, Result<Outcome, BackendError>);

/// The state of one transcription.
pub(crate) struct Recording<'a> {
    transcriber: &'a Transcriber,
    request: &'a Request,
    owner: u64,
    options: DecodeOptions,
    vad: VadStream,
    cutter: WindowCutter,
    /// Probabilities of speech that are handed on; kept for its memory.
    probabilities: Vec<f32>,
    findings: Findings,
    samples_read: u64,
    language: Option<(String, f32)>,
    /// Windows that wait for the language to be detected.
    awaiting_language: Vec<Window>,
    /// The sound between the windows, where it is looked at.
    outside: Option<Unheard>,
    /// Stretches that voice activity detection left out, which wait for the language, too.
    unheard: Vec<Window>,
    /// Windows of a multilingual recording whose language is not sure by their sound, with its probabilities.
    unsure: Vec<(Window, Vec<(String, f32)>)>,
    /// What is known of the languages besides the sound.
    prior: Prior,
    /// Summed probabilities of the languages, and how many windows voted.
    votes: BTreeMap<String, f32>,
    voters: usize,
    replies: Receiver<WindowReply>,
    reply: Reply,
    cancelled: Arc<AtomicBool>,
    diarization: Option<DiarizationThread>,
    /// Submitted windows, by tag.
    outstanding: BTreeMap<usize, Outstanding>,
    step_rate: StepRate,
    /// The end of the last window, in seconds.
    windowed_until: f64,
    /// The last reported progress, in seconds of audio.
    reported: f64,
    done: Vec<Done>,
    /// The segments of the decoded windows for [`Progress`], without words.
    draft: Vec<Segment>,
    windows: usize,
    second_looks: usize,
    seconds_read: f64,
    total: Option<f64>,
    at_end: bool,
}

impl<'a> Recording<'a> {
    pub(crate) fn new(
        transcriber: &'a Transcriber,
        request: &'a Request,
        speakers: Speakers,
        duration: Option<f64>,
    ) -> Result<Self, SpeechError> {
        let language = transcriber.language_of(request.language.as_deref(), request.task)?;
        let prompt = transcriber.prompt_of(request.hotwords.as_deref(), request.prompt.as_deref());
        let (sender, replies) = channel();
        // The transcription may have ended.
        let reply: Reply = Arc::new(move |tag, outcome| drop(sender.send((tag, outcome))));
        Ok(Recording {
            transcriber,
            request,
            owner: transcriber.scheduler.new_owner(),
            options: DecodeOptions {
                task: request.task,
                beam: request.beam.max(1),
                temperatures: request.temperatures.clone(),
                // Always: the alignment also shows what a text leaves out.
                words: true,
                timestamps: request.timestamps,
                prompt,
                ..DecodeOptions::default()
            },
            vad: VadStream::with_gain_control(&transcriber.vad),
            cutter: WindowCutter::new(&request.windows()),
            probabilities: Vec::new(),
            findings: Findings::default(),
            samples_read: 0,
            language: language.map(|code| (code, 1.0)),
            awaiting_language: Vec::new(),
            outside: (request.vad == VoiceActivity::Gentle).then(Unheard::default),
            unheard: Vec::new(),
            unsure: Vec::new(),
            prior: Prior { usual: request.usual_language.clone(), ..Prior::default() },
            votes: BTreeMap::new(),
            voters: 0,
            replies,
            reply,
            cancelled: Arc::new(AtomicBool::new(false)),
            diarization: DiarizationThread::start(transcriber.voices.as_ref(), speakers)?,
            outstanding: BTreeMap::new(),
            step_rate: StepRate::default(),
            windowed_until: 0.0,
            reported: 0.0,
            done: Vec::new(),
            draft: Vec::new(),
            windows: 0,
            second_looks: 0,
            seconds_read: 0.0,
            total: duration,
            at_end: false,
        })
    }

    /// Transcribes a stream of one channel to its end.
    pub(crate) fn run(
        &mut self,
        audio: &mut AudioStream,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Transcription, SpeechError> {
        let mut samples = Vec::new();
        while audio.read(&mut samples)? > 0 {
            self.push(&samples, progress)?;
            samples.clear();
        }
        self.end(progress)?;
        self.drain(progress)?;
        let mut done = self.finish(audio.warnings().to_vec());
        if done.result.segments.is_empty() {
            done.result.warnings.push(self.findings.why_no_words());
        }
        Ok(done)
    }

    /// Takes the next samples.
    pub(crate) fn push(&mut self, samples: &[f32], progress: &mut dyn FnMut(Progress<'_>)) -> Result<(), SpeechError> {
        self.check_cancelled()?;
        self.findings.hear(samples);
        self.samples_read += samples.len() as u64;
        self.seconds_read = self.samples_read as f64 / f64::from(SAMPLE_RATE);
        if let Some(diarization) = &self.diarization {
            diarization.push(samples);
        }
        self.probabilities.clear();
        self.vad.push(samples, &mut self.probabilities);
        let windows = self.cutter.push(samples, &self.probabilities);
        self.take_up(samples, windows, progress)
    }

    /// Ends the sound: what is left of it is submitted.
    pub(crate) fn end(&mut self, progress: &mut dyn FnMut(Progress<'_>)) -> Result<(), SpeechError> {
        self.at_end = true;
        self.total = Some(self.seconds_read);
        self.probabilities.clear();
        self.vad.finish(&mut self.probabilities);
        let mut windows = self.cutter.push(&[], &self.probabilities);
        windows.extend(self.cutter.finish());
        self.take_up(&[], windows, progress)?;
        self.detect_language()?;
        self.flush(progress)
    }

    /// Waits for all submitted windows.
    pub(crate) fn drain(&mut self, progress: &mut dyn FnMut(Progress<'_>)) -> Result<(), SpeechError> {
        loop {
            self.wait_for_all(progress)?;
            if !self.unsure.is_empty() {
                self.settle_languages();
            } else if !self.unheard.is_empty() {
                // Only now: the language may be that of the only window.
                self.start_unheard(progress)?;
            } else {
                return Ok(());
            }
        }
    }

    /// Handles new windows of the samples before them, and the replies that came meanwhile.
    fn take_up(
        &mut self,
        samples: &[f32],
        windows: Vec<Window>,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<(), SpeechError> {
        if let Some(outside) = &mut self.outside {
            outside.push(samples, &self.probabilities);
            self.unheard.extend(windows.iter().flat_map(|window| outside.before(window)));
            let settled = self.cutter.settled();
            self.unheard.extend(if self.at_end { outside.finish() } else { outside.settled(settled) });
        }
        for window in windows {
            self.findings.add_window();
            self.enqueue(window, progress)?;
        }
        if self.language.is_some() || self.request.multilingual {
            self.start_unheard(progress)?;
        } else if self.unheard.len() > MAX_UNHEARD {
            // Before the next window asks for the language: its replies must be those to its questions.
            self.start_unheard(progress)?;
            self.wait_for_all(progress)?;
        }
        while let Ok((tag, outcome)) = self.replies.try_recv() {
            self.handle_reply((tag, outcome?), progress);
        }
        self.report(progress);
        Ok(())
    }

    /// Submits a window, or queues it until the language is known.
    fn enqueue(&mut self, window: Window, progress: &mut dyn FnMut(Progress<'_>)) -> Result<(), SpeechError> {
        self.windowed_until = window.end() as f64 / f64::from(SAMPLE_RATE);
        self.awaiting_language.push(window);
        // The first window may be the only one: then it detects the language itself, without a second encoding.
        if self.language.is_none() && !self.request.multilingual && self.awaiting_language.len() > 1 {
            self.detect_language()?;
        }
        if self.language.is_some() || self.request.multilingual {
            self.flush(progress)?;
        }
        Ok(())
    }

    /// Submits the windows that waited for the language.
    fn flush(&mut self, progress: &mut dyn FnMut(Progress<'_>)) -> Result<(), SpeechError> {
        for window in std::mem::take(&mut self.awaiting_language) {
            self.start(window, self.window_language(), Purpose::FirstLook, self.request.condition_on_previous);
            self.wait_for_room(progress)?;
        }
        Ok(())
    }

    /// Submits the stretches that voice activity detection left out.
    fn start_unheard(&mut self, progress: &mut dyn FnMut(Progress<'_>)) -> Result<(), SpeechError> {
        for window in std::mem::take(&mut self.unheard) {
            let language = match &self.language {
                Some((code, _)) if !self.request.multilingual => Language::Known(code.clone()),
                _ => Language::Detect { sure_from: 0.0 },
            };
            self.start(window, language, Purpose::Unheard, false);
            self.wait_for_room(progress)?;
        }
        Ok(())
    }

    fn wait_for_all(&mut self, progress: &mut dyn FnMut(Progress<'_>)) -> Result<(), SpeechError> {
        while !self.outstanding.is_empty() {
            self.wait(progress)?;
        }
        Ok(())
    }

    fn wait_for_room(&mut self, progress: &mut dyn FnMut(Progress<'_>)) -> Result<(), SpeechError> {
        let max_outstanding = if self.request.condition_on_previous { 1 } else { MAX_OUTSTANDING };
        while self.outstanding.len() >= max_outstanding {
            self.wait(progress)?;
        }
        Ok(())
    }

    /// Submits one window, with the text before it as a prompt if it `is_conditioned`.
    fn start(&mut self, window: Window, language: Language, purpose: Purpose, is_conditioned: bool) {
        let mut options = DecodeOptions { language, prompt: self.prompt(is_conditioned), ..self.options.clone() };
        if matches!(purpose, Purpose::Unheard) {
            // A text that needs another temperature is not certain.
            options.temperatures.truncate(1);
        }
        let options = Arc::new(options);
        let tag = self.windows;
        self.windows += 1;
        let meter = Meter::default();
        self.submit(tag, &window, options, meter.clone());
        self.outstanding.insert(tag, Outstanding { window, purpose, is_conditioned, meter });
    }

    /// The prompt of a window, with the text before it if it is conditioned.
    fn prompt(&self, is_conditioned: bool) -> Vec<u32> {
        let mut prompt = self.options.prompt.clone();
        // A text decoded at a high temperature makes a bad prompt.
        if is_conditioned
            && let Some(Done { decoded, .. }) = self.done.iter().max_by_key(|done| done.samples.0)
            && decoded.temperature < 0.5
        {
            prompt.extend(decoded.tokens.iter().filter(|&&token| token < self.transcriber.tokenizer.eot));
        }
        prompt
    }

    fn submit(&self, tag: usize, window: &Window, options: Arc<DecodeOptions>, meter: Meter) {
        let lead = window.leading_silence(self.request.windows.speech_pad);
        let (mel, frames) = self.transcriber.spectrogram(lead, &window.samples);
        let lane = self.request.lane.unwrap_or(Lane::of_recording(self.seconds_read, self.at_end));
        self.transcriber.scheduler.submit(WindowRequest {
            owner: self.owner,
            lane,
            mel: mel.into(),
            frames,
            reencode: None,
            options,
            cancelled: Arc::clone(&self.cancelled),
            tag,
            reply: Arc::clone(&self.reply),
            meter,
        });
    }

    /// Cancels the windows in the engine and the diarization.
    pub(crate) fn cancel(&mut self) {
        self.cancelled.store(true, Ordering::SeqCst);
        self.diarization.take().into_iter().for_each(DiarizationThread::cancel);
    }

    fn check_cancelled(&self) -> Result<(), SpeechError> {
        if self.request.cancel.is_cancelled() { Err(SpeechError::Cancelled) } else { Ok(()) }
    }

    /// The next reply of the engine; `None` after 100 ms without one.
    fn receive(&self) -> Result<Option<(usize, Outcome)>, SpeechError> {
        use std::sync::mpsc::RecvTimeoutError;
        self.check_cancelled()?;
        match self.replies.recv_timeout(std::time::Duration::from_millis(100)) {
            Ok((tag, outcome)) => Ok(Some((tag, outcome?))),
            Err(RecvTimeoutError::Timeout) if self.transcriber.scheduler.is_running() => Ok(None),
            Err(_) => Err(SpeechError::EngineStopped),
        }
    }

    /// Waits for the next reply of the engine, and reports progress meanwhile.
    fn wait(&mut self, progress: &mut dyn FnMut(Progress<'_>)) -> Result<(), SpeechError> {
        loop {
            match self.receive()? {
                Some(reply) => {
                    self.handle_reply(reply, progress);
                    return Ok(());
                }
                None => self.report(progress),
            }
        }
    }

    /// Reports the progress if it has increased. Windows are decoded many at a time and end together: those
    /// being decoded count with the share of their work that is done.
    fn report(&mut self, progress: &mut dyn FnMut(Progress<'_>)) {
        let seconds = |window: &Window| window.samples.len() as f64 / f64::from(SAMPLE_RATE);
        let waiting: f64 = self.awaiting_language.iter().map(seconds).sum();
        let left = self.outstanding.values().map(|window| window.seconds() * (1.0 - self.step_rate.share_done(window)));
        let windowed_until = if self.at_end { self.seconds_read } else { self.windowed_until };
        let audio_done = windowed_until - waiting - left.sum::<f64>();
        if audio_done > self.reported {
            self.reported = audio_done;
            progress(Progress { audio_done, audio_total: self.total, segments: &self.draft });
        }
    }

    fn handle_reply(&mut self, (tag, outcome): (usize, Outcome), progress: &mut dyn FnMut(Progress<'_>)) {
        let Some(outstanding) = self.outstanding.remove(&tag) else {
            return;
        };
        self.step_rate.add(&outstanding);
        let Outstanding { window, purpose, is_conditioned, .. } = outstanding;
        if let Outcome::Languages(probabilities) = outcome {
            self.unsure.push((window, probabilities));
            if self.unsure.len() > MAX_UNSURE {
                self.settle_languages();
            }
        } else if let Outcome::Decoded(mut decoded) = outcome {
            let lead = window.leading_silence(self.request.windows.speech_pad) as f64 / f64::from(SAMPLE_RATE);
            for word in &mut decoded.words {
                let on_window = |(start, end): (f64, f64)| ((start - lead).max(0.0), (end - lead).max(0.0));
                (word.start, word.end) = on_window((word.start, word.end));
                word.holds = on_window(word.holds);
            }
            match purpose {
                Purpose::FirstLook => self.accept(window, *decoded, is_conditioned),
                Purpose::Unheard if is_certain(&decoded) => self.accept(window, *decoded, false),
                Purpose::Unheard => {}
                Purpose::SecondLook(gap) => self.accept_second_look(window, *decoded, gap),
                Purpose::Check(gap, mut look, check) => {
                    check.apply(&decoded.words, &mut look.done.decoded.words);
                    self.keep_second_look(*look, &gap);
                }
            }
        }
        self.report(progress);
    }

    /// Accepts a decoded window.
    fn accept(&mut self, window: Window, decoded: Decoded, is_conditioned: bool) {
        let look = Look::new(window, decoded, MAX_LOOKS);
        let (decoded, is_whole) = (&look.done.decoded, look.done.gaps.is_empty());
        if is_conditioned && (decoded.text.is_empty() || !is_whole) {
            // The text before a window can make the model end early, or give up the window as silent: without that text it does not.
            let language = Language::Known(decoded.language.clone());
            if let Some(window) = Arc::into_inner(look.window) {
                self.start(window, language, Purpose::FirstLook, false);
            }
            return;
        }
        if decoded.text.is_empty() {
            return;
        }
        if self.language.is_none() {
            self.language = Some((decoded.language.clone(), decoded.language_probability));
        }
        self.keep(look);
    }

    /// Accepts the text of a part that was left out, unless it is doubtful: the first pass had a reason to skip it. What it
    /// has in common with its neighbours is checked.
    fn accept_second_look(&mut self, window: Window, mut decoded: Decoded, gap: Gap) {
        if decoded.mean_logprob < SECOND_LOOK_LOGPROB_THRESHOLD {
            decoded.words.clear();
        }
        let offset = (window.start - gap.window.start) as f64 / f64::from(SAMPLE_RATE);
        let heard: Vec<_> = decoded.words.iter().map(|word| word.later_by(offset)).collect();
        let look = Look::new(window, decoded, gap.looks - 1);
        let standing = &self.done[gap.done].decoded;
        match Check::of(&standing.words, &heard, gap.part) {
            None => self.keep_second_look(look, &gap),
            Some(check) => {
                let part = gap.window.sub_window(check.part.0, check.part.1);
                let language = Language::Known(standing.language.clone());
                self.start(part, language, Purpose::Check(gap, Box::new(look), check), false);
            }
        }
    }

    /// Keeps the text of a second look; where there is none, the window's words have their part back.
    fn keep_second_look(&mut self, look: Look, gap: &Gap) {
        if look.done.decoded.words.is_empty() {
            self.done[gap.done].gaps.retain(|part| *part != gap.part);
        } else {
            self.keep(look);
        }
    }

    /// Adds a text to the draft and to the transcript, and submits the speech that it leaves out for another look.
    fn keep(&mut self, Look { window, done, looks }: Look) {
        let language = &done.decoded.language;
        *self.prior.seconds.entry(language.clone()).or_default() += f64::from(window.stats.speech_seconds);
        // What a text leaves out of a multilingual recording may be what is in another language.
        let left_out_in = match self.request.multilingual {
            true => Language::Detect { sure_from: 0.0 },
            false => Language::Known(language.clone()),
        };
        let segments = segments_of(done.samples, &done.decoded, &done.gaps).into_iter();
        insert_in_order(&mut self.draft, segments.map(|segment| Segment { words: Vec::new(), ..segment }));
        let gaps = done.gaps.clone();
        let index = self.done.len();
        self.done.push(done);
        for part in gaps {
            self.second_looks += 1;
            let gap = Gap { window: Arc::clone(&window), done: index, part, looks };
            self.start(window.sub_window(part.0, part.1), left_out_in.clone(), Purpose::SecondLook(gap), false);
        }
    }

    /// What was heard besides words.
    pub(crate) fn findings(&self) -> Findings {
        self.findings
    }

    /// The transcript of what was drained.
    pub(crate) fn finish(&mut self, mut warnings: Vec<String>) -> Transcription {
        let (language, language_probability) = self.main_language();
        if self.request.language.is_none() && !self.request.multilingual {
            warnings.extend(others_heard(self.languages_heard(), &language));
        }
        let mut segments: Vec<_> =
            self.done.iter().flat_map(|done| segments_of(done.samples, &done.decoded, &done.gaps)).collect();
        segments.sort_by(|a, b| a.start.total_cmp(&b.start));
        straighten(&mut segments);
        let mut names = BTreeMap::new();
        match self.diarization.take().map(DiarizationThread::finish) {
            None => {}
            Some(Some(diarization)) => {
                let (assigned, order) = assign_in_order(segments, &diarization);
                segments = assigned;
                names = voiceprint::names(&diarization.centroids, &order, &self.request.known);
            }
            Some(None) => warnings.push("speakers could not be told apart: hark failed to listen to the voices".into()),
        }
        if !self.request.words {
            segments.iter_mut().for_each(|segment| segment.words = Vec::new());
        }
        let text = segments.iter().map(|segment| segment.text.as_str()).collect::<Vec<_>>().join(" ");
        let result = TranscriptionResult {
            text,
            language,
            duration: (self.seconds_read * 1000.0).round() / 1000.0,
            speakers: speakers_of(&segments),
            segments,
            model: self.transcriber.model_name.to_string(),
            warnings,
        };
        let (windows, second_looks) = (self.windows, self.second_looks);
        Transcription { result, names, language_probability, windows, second_looks }
    }
}
