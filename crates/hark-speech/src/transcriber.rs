//! One recording from its first sample to its transcript.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};

use hark_compute::Compute;
use hark_media::{AudioStream, CancelToken, SAMPLE_RATE, Source};
use hark_transcript::{Lane, TranscriptionResult};
use hark_whisper::backend::{Backend, BackendError, MemoryUse, TokenMap};
use hark_whisper::cpu::{CpuBackend, CpuOptions, Weights};
use hark_whisper::decode::{DecodeOptions, Decoded, Engine, Language, Outcome, Spent, Task};
use hark_whisper::mel::LogMel;
use hark_whisper::tokenizer::Tokenizer;
use hark_whisper::weights::Checkpoint;

use crate::SpeechError;
use crate::coverage::left_out;
use crate::scheduler::{EngineState, Meter, Reply, Scheduler, WindowRequest};
use crate::segments::{segments_of, straighten};
use crate::speakers::{assign_in_order, speakers_of};
use crate::vad::{SileroVad, VadStream};
use crate::voiceprint::{self, Voiceprint};
use crate::voices::{Listener, Speakers, Voices};
use crate::windows::{Window, WindowCutter, WindowOptions};

/// What a transcriber is made of.
#[derive(Clone)]
pub struct LoadOptions {
    /// Folder of the Whisper checkpoint.
    pub model_dir: PathBuf,
    /// Folder or file of the Silero voice-activity weights.
    pub vad: PathBuf,
    /// What tells voices apart; without it no request may ask for speakers.
    pub voices: Option<Voices>,
    /// Threads and kernels, which other models may share; all cores and the machine's best kernels when not given.
    pub compute: Option<Compute>,
    /// How the linear layers are kept; in bytes when not given.
    pub weights: Option<Weights>,
    /// Windows decoded at once; as many as the workspace holds when not given.
    pub slots: Option<usize>,
    /// Bytes for the windows that are decoded and remembered. They are touched only as far as windows come, and given back
    /// when none came for a while.
    pub workspace: u64,
    /// The widest beam that a request may ask for.
    pub widest_beam: usize,
    /// What loads the checkpoint on a device; the processor when not given.
    pub backend: Option<BackendLoader>,
    /// Counts how often the engine failed and was loaded again.
    pub restarts: Arc<AtomicU64>,
}

/// Loads a checkpoint on a device.
pub type BackendLoader =
    Arc<dyn Fn(&Checkpoint, TokenMap, &LoadOptions) -> Result<Box<dyn Backend>, SpeechError> + Send + Sync>;

/// With this much the smaller models decode as many windows at once as are of use, and large-v3 eight.
const DEFAULT_WORKSPACE: u64 = 3600 << 20;

impl LoadOptions {
    /// The defaults for a model and a voice-activity file.
    pub fn new(model_dir: impl Into<PathBuf>, vad: impl Into<PathBuf>) -> Self {
        LoadOptions {
            model_dir: model_dir.into(),
            vad: vad.into(),
            voices: None,
            compute: None,
            weights: None,
            slots: None,
            workspace: DEFAULT_WORKSPACE,
            widest_beam: 5,
            backend: None,
            restarts: Arc::default(),
        }
    }
}

/// What is wanted of a recording.
#[derive(Debug, Clone)]
pub struct Request {
    /// Language code; found out when not given.
    pub language: Option<String>,
    /// Transcribe, or translate into English.
    pub task: Task,
    /// Whether every word gets its time.
    pub words: bool,
    /// Whether to tell speakers apart.
    pub speakers: Speakers,
    /// Names and prints of people who may be among the speakers.
    pub known: Vec<(String, Voiceprint)>,
    /// Whether the model marks times between phrases as it writes: slower by a tenth, and it skips less.
    pub timestamps: bool,
    /// Hypotheses followed; 1 is greedy.
    pub beam: usize,
    /// Temperatures to try, the first being the normal one.
    pub temperatures: Vec<f32>,
    /// Text that could stand before the recording: names, spelling, style.
    pub prompt: Option<String>,
    /// Words to expect.
    pub hotwords: Option<String>,
    /// Whether each window is told the text before it; windows then wait for each other.
    pub condition_on_previous: bool,
    /// How soon; decided by the length of the recording when not given.
    pub lane: Option<Lane>,
    /// How the container is read.
    pub media: hark_media::Options,
    /// Where windows are cut.
    pub windows: WindowOptions,
    /// Calls the work off from another thread.
    pub cancel: CancelToken,
}

impl Default for Request {
    fn default() -> Self {
        let decode = DecodeOptions::default();
        Request {
            language: None,
            task: Task::Transcribe,
            words: true,
            speakers: Speakers::Off,
            known: Vec::new(),
            timestamps: false,
            beam: decode.beam,
            temperatures: decode.temperatures,
            prompt: None,
            hotwords: None,
            condition_on_previous: false,
            lane: None,
            media: hark_media::Options::default(),
            windows: WindowOptions::default(),
            cancel: CancelToken::default(),
        }
    }
}

/// How far a transcription is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Seconds of audio that are done: those whose words are known, and of those that the engine is at as much as it has
    /// done of them. It never falls.
    pub audio_done: f64,
    /// Seconds of audio in all, where the container tells or the end was read.
    pub audio_total: Option<f64>,
}

/// A finished transcription.
#[derive(Debug, Clone)]
pub struct Transcription {
    /// The transcript.
    pub result: TranscriptionResult,
    /// Names of the speakers that are known, by label; the transcript itself has the labels.
    pub names: BTreeMap<String, String>,
    /// What was odd about the recording, in sentences for its owner.
    pub warnings: Vec<String>,
    /// Probability of the language when it was found out, 1 when it was given.
    pub language_probability: f32,
    /// Windows that were decoded, second looks included.
    pub windows: usize,
    /// Stretches that a first text left out and that were decoded again.
    pub second_looks: usize,
}

/// A loaded model that transcribes any number of recordings at once; clones share it.
#[derive(Clone)]
pub struct Transcriber {
    pub(crate) scheduler: Scheduler,
    pub(crate) vad: Arc<SileroVad>,
    pub(crate) voices: Option<Voices>,
    mel: Arc<LogMel>,
    pub(crate) tokenizer: Arc<Tokenizer>,
    backend_name: Arc<str>,
    pub(crate) model_name: Arc<str>,
}

impl Transcriber {
    /// Loads a model and starts its engine.
    pub fn load(options: &LoadOptions) -> Result<Self, SpeechError> {
        let vad = Arc::new(SileroVad::load(&options.vad)?);
        Self::load_with(options, vad)
    }

    /// Loads a model that finds speech with the given network.
    pub fn load_with(options: &LoadOptions, vad: Arc<SileroVad>) -> Result<Self, SpeechError> {
        let checkpoint = open(options)?;
        let tokenizer = Arc::new(Tokenizer::new(&checkpoint.vocabulary));
        let n_mels = checkpoint.dims.n_mels;
        let engine = load_engine(options, &checkpoint, &tokenizer)?;
        drop(checkpoint);
        let backend_name = engine.backend().name().into();
        let model_name =
            options.model_dir.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let reload = {
            let (options, tokenizer) = (options.clone(), Arc::clone(&tokenizer));
            Box::new(move || load_engine(&options, &open(&options)?, &tokenizer))
        };
        Ok(Transcriber {
            mel: Arc::new(LogMel::new(n_mels)),
            scheduler: Scheduler::start(engine, reload, Arc::clone(&options.restarts)),
            vad,
            voices: options.voices.clone(),
            tokenizer,
            backend_name,
            model_name: model_name.into(),
        })
    }

    /// How the engine is doing.
    pub fn engine_state(&self) -> EngineState {
        self.scheduler.state()
    }

    /// The memory that the engine takes.
    pub fn memory(&self) -> MemoryUse {
        self.scheduler.memory()
    }

    /// What computes, such as `cpu (amx, 2 threads)`.
    pub fn backend_name(&self) -> &str {
        &self.backend_name
    }

    /// Whether a request may ask for speakers.
    pub fn tells_speakers_apart(&self) -> bool {
        self.voices.is_some()
    }

    /// Where the engine's time went so far.
    pub fn spent(&self) -> Spent {
        self.scheduler.spent()
    }

    /// The code of a language that was asked for, or none where it is to be found out.
    pub(crate) fn language_of(&self, given: Option<&str>, task: Task) -> Result<Option<String>, SpeechError> {
        let tokenizer = &self.tokenizer;
        if task == Task::Translate && !tokenizer.is_multilingual() {
            return Err(SpeechError::EnglishOnly("translation"));
        }
        match given.map(str::trim) {
            None | Some("" | "auto") if tokenizer.is_multilingual() => Ok(None),
            None | Some("" | "auto") => Ok(Some("en".to_owned())),
            Some(given) => known_language(tokenizer, given).map(Some),
        }
    }

    /// Words to expect and text that could stand before, as tokens.
    pub(crate) fn prompt_of(&self, hotwords: Option<&str>, prompt: Option<&str>) -> Vec<u32> {
        let texts = [hotwords, prompt].into_iter().flatten();
        texts.flat_map(|text| self.tokenizer.encode(&format!(" {}", text.trim()))).collect()
    }

    /// The log-mel values of a window with `lead` samples of silence before it, and how many positions of the encoder hold
    /// sound.
    pub(crate) fn spectrogram(&self, lead: usize, samples: &[f32]) -> (Vec<f32>, usize) {
        let led: Vec<f32>;
        let samples = match lead {
            0 => samples,
            _ => {
                led = [&vec![0.0; lead], samples].concat();
                &led
            }
        };
        let mut mel = vec![0.0; hark_whisper::mel::WINDOW_FRAMES * self.mel.n_mels()];
        self.mel.window(samples, &mut mel);
        (mel, samples.len().div_ceil(SAMPLES_A_FRAME).min(1500))
    }

    /// Transcribes one recording; blocks until it is done. `progress` hears how far it is.
    pub fn transcribe(
        &self,
        source: Source,
        request: &Request,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Transcription, SpeechError> {
        // The networks take 16 kHz mono whatever the caller reads elsewhere.
        let media = hark_media::Options {
            rate: hark_media::SAMPLE_RATE,
            channels: hark_media::OutputChannels::Mono,
            cancel: request.cancel.clone(),
            ..request.media.clone()
        };
        let audio = AudioStream::open(source, &media)?;
        let mut recording = Recording::new(self, request, audio.info().duration)?;
        let outcome = recording.run(audio, progress);
        if outcome.is_err() {
            recording.unwanted.store(true, Ordering::SeqCst);
            recording.listener.take().into_iter().for_each(Listener::give_up);
        }
        outcome
    }
}

fn open(options: &LoadOptions) -> Result<Checkpoint, SpeechError> {
    Checkpoint::open(&options.model_dir).map_err(|source| SpeechError::Model { dir: options.model_dir.clone(), source })
}

/// Loads the checkpoint on its device.
fn load_engine(
    options: &LoadOptions,
    checkpoint: &Checkpoint,
    tokenizer: &Arc<Tokenizer>,
) -> Result<Engine<Box<dyn Backend>>, SpeechError> {
    let tokens = token_map(tokenizer, checkpoint);
    let backend = match &options.backend {
        Some(load) => load(checkpoint, tokens, options)?,
        None => load_on_cpu(checkpoint, tokens, options)?,
    };
    Ok(Engine::new(backend, Arc::clone(tokenizer)))
}

/// Loads a checkpoint on the processor.
pub fn load_on_cpu(
    checkpoint: &Checkpoint,
    tokens: TokenMap,
    options: &LoadOptions,
) -> Result<Box<dyn Backend>, SpeechError> {
    let compute = options.compute.clone().unwrap_or_else(|| Compute::from_options(None, None));
    let (weights, rows) = (options.weights.unwrap_or_default(), options.widest_beam.max(1));
    let mut cpu = CpuOptions::within(&checkpoint.dims, weights, rows, options.workspace);
    if let Some(slots) = options.slots {
        cpu.slots = slots.max(FEWEST_SLOTS);
    }
    let loaded = CpuBackend::load(checkpoint, tokens, &compute, cpu);
    let backend = loaded.map_err(|source| SpeechError::Model { dir: options.model_dir.clone(), source })?;
    Ok(Box::new(backend))
}

/// Two slots that are kept free for clips, and one for everything else.
const FEWEST_SLOTS: usize = 3;

/// What the engine must know of a checkpoint's tokens.
fn token_map(tokenizer: &Tokenizer, checkpoint: &Checkpoint) -> TokenMap {
    let never = checkpoint.suppress_tokens.clone().unwrap_or_else(|| tokenizer.default_suppress_tokens());
    let never_first =
        checkpoint.begin_suppress_tokens.clone().unwrap_or_else(|| tokenizer.default_begin_suppress_tokens());
    let vocabulary = checkpoint.dims.n_vocab as u32;
    TokenMap {
        end: tokenizer.eot,
        no_speech: (tokenizer.no_speech < vocabulary).then_some(tokenizer.no_speech),
        first_time: tokenizer.timestamp_begin,
        never: never.into_iter().filter(|&token| token < vocabulary).collect(),
        never_first: never_first.into_iter().filter(|&token| token < vocabulary).collect(),
        languages: tokenizer.languages().iter().filter_map(|code| tokenizer.language_token(code)).collect(),
    }
}

/// Windows of one recording that may wait or be decoded at a time: enough to fill the engine, and a bound on the memory
/// of a recording of any length.
const MOST_OUTSTANDING: usize = 40;
/// A language is settled by its first window if that is this sure…
const SURE: f32 = 0.7;
/// …or else by this many windows together.
const VOTERS: usize = 5;

/// A window that the engine has.
struct Outstanding {
    window: Window,
    /// Set for a stretch that another window's text left out.
    is_second_look: bool,
    meter: Meter,
}

/// What share of a window's work its encoding is; the rest are the steps of its text.
const ENCODING_SHARE: f64 = 0.2;
/// Steps a second of sound that are expected until windows have shown theirs, counting for this many seconds.
const EXPECTED_STEPS: (f64, f64) = (4.0, 60.0);
/// What a window that is not done counts at most: a text that is longer than others are goes on beyond what was expected.
const MOST_OF_A_WINDOW: f64 = 0.95;

/// How many steps texts take, from the windows that are done.
#[derive(Default)]
struct Pace {
    steps: f64,
    seconds: f64,
}

impl Pace {
    fn add(&mut self, window: &Outstanding) {
        self.steps += f64::from(window.meter.steps());
        self.seconds += window.seconds();
    }

    /// The share of a window's work that is done.
    fn share_done(&self, window: &Outstanding) -> f64 {
        if !window.meter.is_encoded() {
            return 0.0;
        }
        let (steps, seconds) = EXPECTED_STEPS;
        let a_second = (steps * seconds + self.steps) / (seconds + self.seconds);
        let text = f64::from(window.meter.steps()) / (a_second * window.seconds()).max(1.0);
        (ENCODING_SHARE + (1.0 - ENCODING_SHARE) * text).min(MOST_OF_A_WINDOW)
    }
}

impl Outstanding {
    /// Seconds of sound that are not done before this window is; those of a second look are counted already.
    fn seconds(&self) -> f64 {
        if self.is_second_look { 0.0 } else { self.window.samples.len() as f64 / f64::from(SAMPLE_RATE) }
    }
}

/// A decoded window, without its samples.
struct Done {
    /// First sample and the one after the last.
    samples: (u64, u64),
    decoded: Decoded,
    /// Stretches decoded on their own, in seconds from the window's start.
    gaps: Vec<(f64, f64)>,
}

/// A window's number and what became of it.
type WindowReply = (usize, Result<Outcome, BackendError>);

/// The state of one transcription.
struct Recording<'a> {
    transcriber: &'a Transcriber,
    request: &'a Request,
    owner: u64,
    options: DecodeOptions,
    language: Option<(String, f32)>,
    /// Windows whose language is not settled yet.
    held: Vec<Window>,
    /// Summed probabilities of the languages, and how many windows were heard.
    votes: BTreeMap<String, f32>,
    voters: usize,
    replies: Receiver<WindowReply>,
    reply_to: Reply,
    unwanted: Arc<AtomicBool>,
    listener: Option<Listener>,
    /// Windows that are not decoded yet, by number.
    outstanding: BTreeMap<usize, Outstanding>,
    pace: Pace,
    /// Where the last window that was cut ends, in seconds.
    cut_until: f64,
    /// The seconds of audio that were told to be done last.
    told: f64,
    done: Vec<Done>,
    windows: usize,
    seconds_read: f64,
    total: Option<f64>,
    at_end: bool,
}

impl<'a> Recording<'a> {
    fn new(transcriber: &'a Transcriber, request: &'a Request, duration: Option<f64>) -> Result<Self, SpeechError> {
        let language = transcriber.language_of(request.language.as_deref(), request.task)?;
        let prompt = transcriber.prompt_of(request.hotwords.as_deref(), request.prompt.as_deref());
        let (sender, replies) = channel();
        // A receiver that is gone has stopped waiting.
        let reply_to: Reply = Arc::new(move |tag, outcome| drop(sender.send((tag, outcome))));
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
            language: language.map(|code| (code, 1.0)),
            held: Vec::new(),
            votes: BTreeMap::new(),
            voters: 0,
            replies,
            reply_to,
            unwanted: Arc::new(AtomicBool::new(false)),
            listener: Listener::start(transcriber.voices.as_ref(), request.speakers)?,
            outstanding: BTreeMap::new(),
            pace: Pace::default(),
            cut_until: 0.0,
            told: 0.0,
            done: Vec::new(),
            windows: 0,
            seconds_read: 0.0,
            total: duration,
            at_end: false,
        })
    }

    fn run(
        &mut self,
        mut audio: AudioStream,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Transcription, SpeechError> {
        let mut vad = VadStream::leveled(&self.transcriber.vad);
        let mut cutter = WindowCutter::new(&self.request.windows);
        let (mut samples, mut probabilities) = (Vec::new(), Vec::new());
        let mut samples_read = 0u64;
        while !self.at_end {
            self.check_cancelled()?;
            samples.clear();
            probabilities.clear();
            let count = audio.read(&mut samples)?;
            samples_read += count as u64;
            if let Some(listener) = &self.listener {
                listener.push(&samples);
            }
            self.seconds_read = samples_read as f64 / f64::from(SAMPLE_RATE);
            let windows = if count == 0 {
                self.at_end = true;
                self.total = Some(self.seconds_read);
                vad.finish(&mut probabilities);
                let mut windows = cutter.push(&[], &probabilities);
                windows.extend(cutter.finish());
                windows
            } else {
                vad.push(&samples, &mut probabilities);
                cutter.push(&samples, &probabilities)
            };
            for window in windows {
                self.take(window, progress)?;
            }
            while let Ok((tag, outcome)) = self.replies.try_recv() {
                self.absorb((tag, outcome?), progress);
            }
            self.report(progress);
        }
        self.settle_language()?;
        self.flush(progress)?;
        while !self.outstanding.is_empty() {
            self.wait(progress)?;
        }
        Ok(self.finish(audio.warnings().to_vec()))
    }

    /// A window came out of the cutter: decode it, or hold it until the language is known.
    fn take(&mut self, window: Window, progress: &mut dyn FnMut(Progress)) -> Result<(), SpeechError> {
        self.cut_until = window.end() as f64 / f64::from(SAMPLE_RATE);
        self.held.push(window);
        // The first window may be the only one: then it settles the language for itself, without a second encoding.
        if self.language.is_none() && self.held.len() > 1 {
            self.settle_language()?;
        }
        if self.language.is_some() {
            self.flush(progress)?;
        }
        Ok(())
    }

    /// Submits all held windows.
    fn flush(&mut self, progress: &mut dyn FnMut(Progress)) -> Result<(), SpeechError> {
        for window in std::mem::take(&mut self.held) {
            self.start(window, false);
            let most = if self.request.condition_on_previous { 1 } else { MOST_OUTSTANDING };
            while self.outstanding.len() >= most {
                self.wait(progress)?;
            }
        }
        Ok(())
    }

    /// Hands one window to the engine.
    fn start(&mut self, window: Window, is_second_look: bool) {
        let language = match &self.language {
            Some((code, _)) => Language::Known(code.clone()),
            None => Language::Detect { sure_from: 0.0 },
        };
        let options = Arc::new(DecodeOptions { language, prompt: self.prompt(), ..self.options.clone() });
        let tag = self.windows;
        self.windows += 1;
        let meter = Meter::default();
        self.submit(tag, &window, options, meter.clone());
        self.outstanding.insert(tag, Outstanding { window, is_second_look, meter });
    }

    /// What the next window is told of the text before it.
    fn prompt(&self) -> Vec<u32> {
        let mut prompt = self.options.prompt.clone();
        // A text that needed a high temperature is no example to follow.
        if self.request.condition_on_previous
            && let Some(Done { decoded, .. }) = self.done.last()
            && decoded.temperature < 0.5
        {
            prompt.extend(decoded.tokens.iter().filter(|&&token| token < self.transcriber.tokenizer.eot));
        }
        prompt
    }

    fn submit(&self, tag: usize, window: &Window, options: Arc<DecodeOptions>, meter: Meter) {
        let lead = window.lead(self.request.windows.speech_pad);
        let (mel, frames) = self.transcriber.spectrogram(lead, &window.samples);
        let lane = self.request.lane.unwrap_or(Lane::of_recording(self.seconds_read, self.at_end));
        self.transcriber.scheduler.submit(WindowRequest {
            owner: self.owner,
            lane,
            mel: mel.into(),
            frames,
            again: None,
            options,
            cancelled: Arc::clone(&self.unwanted),
            tag,
            reply: Arc::clone(&self.reply_to),
            meter,
        });
    }

    /// Finds the language from the held windows: the first alone if it is sure, else several together.
    fn settle_language(&mut self) -> Result<(), SpeechError> {
        if self.language.is_some() || self.held.len() < 2 {
            return Ok(());
        }
        let options =
            Arc::new(DecodeOptions { language: Language::Detect { sure_from: f32::INFINITY }, ..self.options.clone() });
        while self.voters < self.held.len().min(VOTERS) {
            self.submit(self.voters, &self.held[self.voters], Arc::clone(&options), Meter::default());
            let (_, outcome) = loop {
                if let Some(reply) = self.receive()? {
                    break reply;
                }
            };
            self.voters += 1;
            if let Outcome::Languages(probabilities) = outcome {
                for (code, probability) in probabilities {
                    *self.votes.entry(code).or_default() += probability;
                }
            }
            let Some((code, votes)) = self.votes.iter().max_by(|a, b| a.1.total_cmp(b.1)) else {
                continue;
            };
            let share = votes / self.voters as f32;
            let heard_all = self.voters == VOTERS || self.at_end && self.voters == self.held.len();
            if share >= SURE || heard_all {
                self.language = Some((code.clone(), share));
                break;
            }
        }
        Ok(())
    }

    fn check_cancelled(&self) -> Result<(), SpeechError> {
        if self.request.cancel.is_cancelled() { Err(SpeechError::Cancelled) } else { Ok(()) }
    }

    /// The next reply of the engine; none when a tenth of a second passes without one.
    fn receive(&self) -> Result<Option<(usize, Outcome)>, SpeechError> {
        use std::sync::mpsc::RecvTimeoutError;
        self.check_cancelled()?;
        match self.replies.recv_timeout(std::time::Duration::from_millis(100)) {
            Ok((tag, outcome)) => Ok(Some((tag, outcome?))),
            Err(RecvTimeoutError::Timeout) if self.transcriber.scheduler.is_running() => Ok(None),
            Err(_) => Err(SpeechError::EngineStopped),
        }
    }

    /// Waits for the next reply of the engine, and tells meanwhile what it does.
    fn wait(&mut self, progress: &mut dyn FnMut(Progress)) -> Result<(), SpeechError> {
        loop {
            match self.receive()? {
                Some(reply) => {
                    self.absorb(reply, progress);
                    return Ok(());
                }
                None => self.report(progress),
            }
        }
    }

    /// Tells how much sound is done, if that is more than before. Windows are decoded many at a time and end together: those
    /// that the engine is at count with the share of their work that is done.
    fn report(&mut self, progress: &mut dyn FnMut(Progress)) {
        let seconds = |window: &Window| window.samples.len() as f64 / f64::from(SAMPLE_RATE);
        let held: f64 = self.held.iter().map(seconds).sum();
        let left = self.outstanding.values().map(|window| window.seconds() * (1.0 - self.pace.share_done(window)));
        let cut_until = if self.at_end { self.seconds_read } else { self.cut_until };
        let audio_done = cut_until - held - left.sum::<f64>();
        if audio_done > self.told {
            self.told = audio_done;
            progress(Progress { audio_done, audio_total: self.total });
        }
    }

    fn absorb(&mut self, (tag, outcome): (usize, Outcome), progress: &mut dyn FnMut(Progress)) {
        let Some(outstanding) = self.outstanding.remove(&tag) else {
            return;
        };
        self.pace.add(&outstanding);
        let Outstanding { window, is_second_look, .. } = outstanding;
        if let Outcome::Decoded(mut decoded) = outcome {
            let lead = window.lead(self.request.windows.speech_pad) as f64 / f64::from(SAMPLE_RATE);
            for word in &mut decoded.words {
                (word.start, word.end) = ((word.start - lead).max(0.0), (word.end - lead).max(0.0));
            }
            self.keep(window, *decoded, is_second_look);
        }
        self.report(progress);
    }

    /// Keeps a decoded window, and has what its text leaves out decoded again.
    fn keep(&mut self, window: Window, decoded: Decoded, is_second_look: bool) {
        // On a second look only a confident text counts: the first look had a reason to pass over it.
        let doubtful = decoded.mean_log_prob < LEAST_LOG_PROB_OF_A_SECOND_LOOK;
        if decoded.text.is_empty() || is_second_look && doubtful {
            return;
        }
        if self.language.is_none() {
            self.language = Some((decoded.language.clone(), decoded.language_probability));
        }
        let seconds = |sample: u64| (sample - window.start) as f64 / f64::from(SAMPLE_RATE);
        let speech: Vec<(f64, f64)> = window.speech.iter().map(|span| (seconds(span.0), seconds(span.1))).collect();
        let gaps = if is_second_look { Vec::new() } else { left_out(&decoded.words, &speech) };
        for &(from, to) in &gaps {
            let second_look = window.part(from, to);
            self.start(second_look, true);
        }
        self.done.push(Done { samples: (window.start, window.end()), decoded, gaps });
    }

    fn finish(&mut self, mut warnings: Vec<String>) -> Transcription {
        let (language, language_probability) = self.language.take().unwrap_or_default();
        let mut segments: Vec<_> =
            self.done.iter().flat_map(|done| segments_of(done.samples, &done.decoded, &done.gaps)).collect();
        segments.sort_by(|a, b| a.start.total_cmp(&b.start));
        straighten(&mut segments);
        let mut names = BTreeMap::new();
        match self.listener.take().map(Listener::finish) {
            None => {}
            Some(Some(heard)) => {
                let (assigned, order) = assign_in_order(segments, &heard);
                segments = assigned;
                names = voiceprint::names(&heard.voices, &order, &self.request.known);
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
        };
        let second_looks = self.done.iter().map(|done| done.gaps.len()).sum();
        Transcription { result, names, warnings, language_probability, windows: self.windows, second_looks }
    }
}

/// A text found on a second look must be at least this likely, mean log-probability a token.
const LEAST_LOG_PROB_OF_A_SECOND_LOOK: f32 = -1.0;

/// Samples of an encoder frame.
const SAMPLES_A_FRAME: usize = 320;

/// The code of a language given by code or name.
fn known_language(tokenizer: &Tokenizer, given: &str) -> Result<String, SpeechError> {
    let code = hark_whisper::languages::find(given).map_or(given, |language| language.code);
    if !tokenizer.is_multilingual() {
        return if code == "en" {
            Ok("en".to_owned())
        } else {
            Err(SpeechError::EnglishOnly("a language other than English"))
        };
    }
    match tokenizer.language_token(code) {
        Some(_) => Ok(code.to_owned()),
        None => Err(SpeechError::Language(given.to_owned())),
    }
}
