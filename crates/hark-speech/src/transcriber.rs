//! A loaded model that transcribes recordings.

use std::collections::BTreeMap;
use std::sync::Arc;

use hark_media::{CancelToken, Source};
use hark_transcript::{Channels, Lane, Segment, TranscriptionResult, VoiceActivity};
use hark_whisper::backend::MemoryUse;
use hark_whisper::decode::{DecodeOptions, EngineStats, Task};
use hark_whisper::mel::LogMel;
use hark_whisper::tokenizer::Tokenizer;

use crate::SpeechError;
use crate::channels;
use crate::diarization::{Speakers, Voices};
use crate::load::{LoadOptions, load_engines, open};
use crate::recording::Recording;
use crate::scheduler::{EngineState, Scheduler};
use crate::tracks;
use crate::vad::SileroVad;
use crate::voiceprint::Voiceprint;
use crate::windows::WindowOptions;

/// The options of a transcription.
#[derive(Debug, Clone)]
pub struct Request {
    /// Language code; detected when not given.
    pub language: Option<String>,
    /// Whether each window is in a language of its own; `language` is then not given.
    pub multilingual: bool,
    /// The language that the caller usually speaks: preferred where the sound does not say for sure.
    pub usual_language: Option<String>,
    /// Transcribe, or translate into English.
    pub task: Task,
    /// Whether words have times.
    pub words: bool,
    /// Whether to diarize.
    pub speakers: Speakers,
    /// What becomes of the channels of the recording.
    pub channels: Channels,
    /// Known speakers: names and voiceprints.
    pub known: Vec<(String, Voiceprint)>,
    /// Whether the model generates timestamp tokens: slower by a tenth, and it skips less.
    pub timestamps: bool,
    /// Beam width; 1 is greedy.
    pub beam: usize,
    /// Temperatures to try, the first being the normal one.
    pub temperatures: Vec<f32>,
    /// Text to condition on: names, spelling, style.
    pub prompt: Option<String>,
    /// Words to expect.
    pub hotwords: Option<String>,
    /// Whether each window is prompted with the text before it; windows are then decoded one after the other.
    pub condition_on_previous: bool,
    /// Its priority; by the length of the recording when not given.
    pub lane: Option<Lane>,
    /// How the container is read.
    pub media: hark_media::Options,
    /// Which sound is decoded.
    pub vad: VoiceActivity,
    /// Where windows are cut.
    pub windows: WindowOptions,
    /// Cancellation token.
    pub cancel: CancelToken,
}

impl Default for Request {
    fn default() -> Self {
        let decode = DecodeOptions::default();
        Request {
            language: None,
            multilingual: false,
            usual_language: None,
            task: Task::Transcribe,
            words: true,
            speakers: Speakers::Off,
            channels: Channels::default(),
            known: Vec::new(),
            timestamps: false,
            beam: decode.beam,
            temperatures: decode.temperatures,
            prompt: None,
            hotwords: None,
            condition_on_previous: false,
            lane: None,
            media: hark_media::Options::default(),
            vad: VoiceActivity::default(),
            windows: WindowOptions::default(),
            cancel: CancelToken::default(),
        }
    }
}

impl Request {
    /// Where windows are cut: of a multilingual recording they are short, since a window is in one language; without voice activity
    /// detection they have all sound.
    pub(crate) fn windows(&self) -> WindowOptions {
        let only_speech = self.windows.only_speech && self.vad != VoiceActivity::Off;
        let windows = WindowOptions { only_speech, ..self.windows.clone() };
        match self.multilingual {
            true => WindowOptions { max_gap: 0.8, full_from: 4.0, full_gap: 0.3, max_window: 15.0, ..windows },
            false => windows,
        }
    }
}

/// The progress of a transcription.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress<'a> {
    /// Seconds of audio that are done: those of decoded windows, and a share of those being decoded. It never decreases.
    pub audio_done: f64,
    /// Total seconds of audio, if known from the container or the end was read.
    pub audio_total: Option<f64>,
    /// What was decoded so far, in order of time, without words and speakers. It only grows. Windows are decoded many at a time, so parts may be missing in between.
    pub segments: &'a [Segment],
}

/// A finished transcription.
#[derive(Debug, Clone, Default)]
pub struct Transcription {
    /// The transcript.
    pub result: TranscriptionResult,
    /// Names of known speakers, by label; the transcript itself has the labels.
    pub names: BTreeMap<String, String>,
    /// Probability of the detected language; 1 when it was given.
    pub language_probability: f32,
    /// Windows that were decoded, second looks included.
    pub windows: usize,
    /// Parts that a first text left out and that were decoded again.
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
    pub(crate) model_name: Arc<str>,
}

impl Transcriber {
    /// Loads a model and starts its engine.
    pub fn load(options: &LoadOptions) -> Result<Self, SpeechError> {
        let vad = Arc::new(SileroVad::load(&options.vad)?);
        Self::load_with(options, vad)
    }

    /// Loads a model with the given voice-activity network.
    pub fn load_with(options: &LoadOptions, vad: Arc<SileroVad>) -> Result<Self, SpeechError> {
        let checkpoint = open(options)?;
        let tokenizer = Arc::new(Tokenizer::new(&checkpoint.vocabulary));
        let n_mels = checkpoint.dims.n_mels;
        let engines = load_engines(options, &checkpoint, &tokenizer)?;
        drop(checkpoint);
        let model_name =
            options.model_dir.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        Ok(Transcriber {
            mel: Arc::new(LogMel::new(n_mels)),
            scheduler: Scheduler::start(engines, Arc::clone(&options.restarts)),
            vad,
            voices: options.voices.clone(),
            tokenizer,
            model_name: model_name.into(),
        })
    }

    /// The state of the engine.
    pub fn engine_state(&self) -> EngineState {
        self.scheduler.state()
    }

    /// The memory that the engine uses.
    pub fn memory(&self) -> MemoryUse {
        self.scheduler.memory()
    }

    /// The name of the backend, such as `cpu (amx, 2 threads)`.
    pub fn backend_name(&self) -> String {
        self.scheduler.backend_name()
    }

    /// Whether diarization is available.
    pub fn tells_speakers_apart(&self) -> bool {
        self.voices.is_some()
    }

    /// Counts and times of the engine's work.
    pub fn stats(&self) -> EngineStats {
        self.scheduler.stats()
    }

    /// The code of the requested language; `None` to detect it.
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

    /// Hotwords and prompt as tokens.
    pub(crate) fn prompt_of(&self, hotwords: Option<&str>, prompt: Option<&str>) -> Vec<u32> {
        let texts = [hotwords, prompt].into_iter().flatten();
        texts.flat_map(|text| self.tokenizer.encode(&format!(" {}", text.trim()))).collect()
    }

    /// The log-mel values of a window with `lead` samples of silence before it, and the number of encoder frames with
    /// audio.
    pub(crate) fn spectrogram(&self, lead: usize, samples: &[f32]) -> (Vec<f32>, usize) {
        let padded: Vec<f32>;
        let samples = match lead {
            0 => samples,
            _ => {
                padded = [&vec![0.0; lead], samples].concat();
                &padded
            }
        };
        let mut mel = vec![0.0; hark_whisper::mel::WINDOW_FRAMES * self.mel.n_mels()];
        self.mel.window(samples, &mut mel);
        (mel, samples.len().div_ceil(SAMPLES_PER_FRAME).min(1500))
    }

    /// Transcribes one recording; blocks until it is done, and reports its progress.
    pub fn transcribe(
        &self,
        source: Source,
        request: &Request,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Transcription, SpeechError> {
        tracks::transcribe(self, source, request, progress)
    }

    /// Transcribes one track, and says how many there are.
    pub(crate) fn transcribe_track(
        &self,
        source: Source,
        request: &Request,
        track: Option<usize>,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<(Transcription, usize), SpeechError> {
        // The networks take 16 kHz mono.
        let media = hark_media::Options {
            rate: hark_media::SAMPLE_RATE,
            channels: hark_media::OutputChannels::Mono,
            cancel: request.cancel.clone(),
            track,
            ..request.media.clone()
        };
        let (mut audio, were_found_apart) = channels::open(source, request.channels, &media)?;
        let mut done = if audio.spec().channels > 1 {
            channels::transcribe(self, &mut audio, request, progress)?
        } else {
            let mut recording = Recording::new(self, request, request.speakers, audio.info().duration)?;
            let outcome = recording.run(&mut audio, progress);
            if outcome.is_err() {
                recording.cancel();
            }
            outcome?
        };
        if were_found_apart {
            channels::tell(&mut done, request);
        }
        Ok((done, audio.info().audio_tracks))
    }
}

/// Samples of an encoder frame.
const SAMPLES_PER_FRAME: usize = 320;

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
