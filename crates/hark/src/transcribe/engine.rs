//! The one place where the command line meets the speech engine: the one on this machine, or a server's.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hark_api::TranscriptionResult;
use hark_media::Source;
use hark_models::{Model, Role};
use hark_speech::{Compute, LoadOptions, MULTI, Request, Speakers, Transcriber, Voices};

use super::plan::Input;
use super::progress::FileProgress;
use crate::CliError;
use crate::cli::TranscribeArgs;
use crate::config::Config;
use crate::models::ModelLibrary;
use crate::remote::Remote;

/// What hears the words of this run.
pub(crate) enum Engine {
    /// A model that is loaded here.
    Here(Box<Local>),
    /// A server.
    There(Box<Remote>),
}

/// The loaded model with the options of this run.
pub(crate) struct Local {
    transcriber: Transcriber,
    request: Request,
}

/// One recording, done.
pub(crate) struct Transcribed {
    pub(crate) result: TranscriptionResult,
    /// Names of speakers by label; a server has put them into the transcript already.
    pub(crate) names: BTreeMap<String, String>,
}

impl Engine {
    /// The server that the arguments name, or the installed models that they and the configuration name, loaded.
    pub(crate) fn load(args: &TranscribeArgs, config: &Config, words: bool) -> Result<Self, CliError> {
        if args.identify && args.speakers == Some(Speakers::Off) {
            let problem = "--identify names speakers, and --speakers off tells none apart: leave one of them out";
            return Err(CliError::Usage(problem.to_owned()));
        }
        match Remote::of(args, config, words)? {
            Some(remote) => Ok(Engine::There(Box::new(remote))),
            None => Ok(Engine::Here(Box::new(Local::load(args, config, words)?))),
        }
    }

    /// Blocks until the recording is done.
    pub(crate) fn transcribe(&self, input: &Input, bar: &mut FileProgress<'_>) -> Result<Transcribed, String> {
        match self {
            Engine::Here(local) => local.transcribe(input, &mut |done, total| bar.update(done, total)),
            Engine::There(remote) => {
                let result = remote.transcribe(input, &mut |stage| bar.far_away(stage))?;
                Ok(Transcribed { result, names: BTreeMap::new() })
            }
        }
    }

    /// The user wants to leave: what others still do for this run is called off.
    pub(crate) fn cancel(&self) {
        if let Engine::There(remote) = self {
            remote.cancel();
        }
    }
}

impl Local {
    fn load(args: &TranscribeArgs, config: &Config, words: bool) -> Result<Self, CliError> {
        let mut request = request(args, config, words)?;
        let library = ModelLibrary::open(config)?;
        let model = speech_model(&library, args.speech.model.as_deref(), config)?;
        let vad = installed_for(&library, Role::Vad)?;
        let mut options = LoadOptions::new(model, vad);
        let compute = Compute::from_options(args.speech.threads.map(usize::from).or(config.threads), args.isa);
        options.widest_beam = request.beam;
        request.speakers = args.speakers.unwrap_or_else(|| default_speakers(&library));
        if args.identify {
            request.known = crate::speakers::known_locally()?;
            request.speakers = args.speakers.unwrap_or(Speakers::Auto);
        }
        if request.speakers != Speakers::Off {
            options.voices = Some(voices(&library, &compute)?);
        }
        options.compute = Some(compute);
        let device = args.device.as_ref().unwrap_or(&config.device);
        options.devices = device.devices_in(library.store.dir(), config.gpu_precision);
        let transcriber = Transcriber::load(&options).map_err(|error| CliError::Failed(error.to_string()))?;
        tracing::info!(backend = transcriber.backend_name(), "engine.loaded");
        Ok(Self { transcriber, request })
    }

    /// Blocks until the recording is done; `progress` hears seconds of audio done and, where known, in all.
    fn transcribe(&self, input: &Input, progress: &mut dyn FnMut(f64, Option<f64>)) -> Result<Transcribed, String> {
        let source = match input {
            Input::Stdin => Source::Reader(Box::new(std::io::stdin())),
            Input::File(path) => Source::Path(path.clone()),
        };
        let done = self
            .transcriber
            .transcribe(source, &self.request, &mut |so_far| progress(so_far.audio_done, so_far.audio_total))
            .map_err(|error| error.to_string())?;
        Ok(Transcribed { result: done.result, names: done.names })
    }
}

/// What tells voices apart, loaded.
pub(crate) fn voices(library: &ModelLibrary, compute: &Compute) -> Result<Voices, CliError> {
    let [segmentation, embedding] = [Role::Segmentation, Role::Embedding].map(|role| installed_for(library, role));
    Voices::load(&segmentation?, &embedding?, compute).map_err(|error| CliError::Failed(error.to_string()))
}

/// Speakers are told apart where the models for it are installed.
fn default_speakers(library: &ModelLibrary) -> Speakers {
    let is_installed =
        |role| library.catalogue.default_for(role).is_ok_and(|model| library.store.installed(&model.name).is_some());
    let can = [Role::Segmentation, Role::Embedding].into_iter().all(is_installed);
    if can { Speakers::Auto } else { Speakers::Off }
}

/// What is wanted of every recording of this run.
fn request(args: &TranscribeArgs, config: &Config, words: bool) -> Result<Request, CliError> {
    let mut request = Request { words, ..Request::default() };
    let language = args.speech.language.as_deref().or(config.language.as_deref());
    request.multilingual = language.is_some_and(|given| given.trim() == MULTI);
    request.usual_language = language_of_locale();
    if let Some(given) = language.map(str::trim).filter(|given| !["auto", MULTI].contains(given)) {
        let known = hark_whisper::languages::find(given).ok_or_else(|| {
            CliError::Usage(format!("unknown language {given:?}: give a code such as en, es or zh, auto or multi"))
        })?;
        request.language = Some(known.code.to_owned());
    }
    request.task = args.speech.task.into();
    if let Some(beam) = args.beam {
        request.beam = usize::from(beam);
    }
    if !args.temperature.is_empty() {
        request.temperatures = args.temperature.clone();
    }
    request.prompt = args.speech.prompt.clone();
    request.hotwords = args.speech.hotwords.clone();
    request.vad = args.vad.unwrap_or_default();
    request.condition_on_previous = args.condition;
    request.media.track = args.track.map(usize::from);
    request.channels = args.channels;
    Ok(request)
}

/// The language that the user's system speaks, which is preferred where a short sound does not say what it is in.
fn language_of_locale() -> Option<String> {
    let names = ["LC_ALL", "LC_MESSAGES", "LANG"];
    let locale = names.iter().filter_map(|name| std::env::var(name).ok()).find(|value| !value.is_empty())?;
    let code = locale.split(['_', '.', '@']).next().filter(|code| code.len() == 2)?;
    hark_whisper::languages::find(code).map(|language| language.code.to_owned())
}

/// The folder of the checkpoint that serves the asked name; a stand-in is announced.
pub(crate) fn speech_model(library: &ModelLibrary, asked: Option<&str>, config: &Config) -> Result<PathBuf, CliError> {
    let name = match asked.or(config.model.as_deref()) {
        Some(name) => name,
        None => &default_for(library, Role::Transcription)?.name,
    };
    let Ok(found) = library.resolve(name) else {
        let wanted = library.entry(name)?;
        return installed(library, &wanted.name);
    };
    if found.substituted {
        eprintln!("hark: {name} is not installed, {} stands in for it", found.checkpoint);
    }
    installed(library, &found.checkpoint)
}

/// The model that plays a role when no other is asked for.
fn default_for(library: &ModelLibrary, role: Role) -> Result<&Model, CliError> {
    library.catalogue.default_for(role).map_err(|error| CliError::Failed(error.to_string()))
}

/// The folder of the installed model that plays a role.
pub(crate) fn installed_for(library: &ModelLibrary, role: Role) -> Result<PathBuf, CliError> {
    installed(library, &default_for(library, role)?.name)
}

/// Transcribes a recording with the configured model, for a command that works on its text.
pub(crate) fn transcribe_file(
    path: &Path,
    config: &Config,
    compute: &Compute,
) -> Result<TranscriptionResult, CliError> {
    let library = ModelLibrary::open(config)?;
    let mut request = Request {
        multilingual: config.language.as_deref() == Some(MULTI),
        language: config.language.clone().filter(|language| language != MULTI),
        ..Request::default()
    };
    let mut options = LoadOptions::new(speech_model(&library, None, config)?, installed_for(&library, Role::Vad)?);
    options.widest_beam = request.beam;
    request.speakers = default_speakers(&library);
    if request.speakers != Speakers::Off {
        options.voices = Some(voices(&library, compute)?);
    }
    options.compute = Some(compute.clone());
    let problem = |error: hark_speech::SpeechError| CliError::Failed(format!("{}: {error}", path.display()));
    let transcriber = Transcriber::load(&options).map_err(problem)?;
    let done = transcriber.transcribe(Source::Path(path.to_owned()), &request, &mut |_| {}).map_err(problem)?;
    for warning in &done.result.warnings {
        eprintln!("hark: {}: {warning}", path.display());
    }
    Ok(done.result)
}

/// The folder of an installed model whose files are those that were installed.
pub(crate) fn installed(library: &ModelLibrary, name: &str) -> Result<PathBuf, CliError> {
    match library.store.installed(name) {
        Some(model) => {
            let checked = library.store.check_integrity(name, &library.catalogue);
            checked.map(|()| model.dir).map_err(|error| CliError::Failed(error.to_string()))
        }
        None => Err(CliError::Failed(format!(
            "{name} is not installed in {}; `hark models pull {name}` installs it",
            library.store.dir().display()
        ))),
    }
}
