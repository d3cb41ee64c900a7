//! `hark live`: words while somebody speaks, from the microphone or a pipe.

mod input;
mod remote;
mod screen;

use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use hark_api::TranscriptionResult;
use hark_export::{Fonts, Format, Metadata, Options};
use hark_models::Role;
use hark_speech::live::{LiveEvent, LiveOptions, LiveSession};
use hark_speech::{Compute, LoadOptions, Transcriber};

use crate::cli::{Common, LiveArgs};
use crate::config::Config;
use crate::models::ModelLibrary;
use crate::remote::Client;
use crate::transcribe::{installed_for, noticed, speech_model, voices, watch};
use crate::{CliError, output};
use input::{AudioBlock, AudioInput};
use screen::{FinalText, Screen};

/// Seconds of audio that may be buffered for the engine before the input must wait.
const MAX_BACKLOG: f64 = 30.0;
/// How often signals are polled while nothing else happens.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Where the audio is transcribed.
enum Place {
    Local(Box<LiveSession>),
    Server(Client),
}

/// Runs the command.
pub(crate) fn run(args: &LiveArgs, common: &Common) -> Result<(), CliError> {
    let config = Config::load(common)?;
    let target = match &args.output {
        Some(path) => Some((path.as_path(), format_of(path, args)?)),
        None => None,
    };
    let (wake_sender, wakeups) = channel();
    let mut place = match Client::from_args(&args.remote)? {
        Some(client) => Place::Server(client),
        None => {
            let transcriber = load(args, &config)?;
            Place::Local(Box::new(session(&transcriber, args, &config, wake_sender.clone())?))
        }
    };
    watch();
    let input = AudioInput::open(args, wake_sender)?;
    let mut screen = Screen::new();
    if !args.quiet {
        eprintln!("hark: listening to {}; Ctrl-C ends", input.name());
    }
    let (result, broken) = match &mut place {
        Place::Local(session) => listen(session, &input, &wakeups, &mut screen)?,
        Place::Server(client) => remote::listen(client, args, &config, &input, &mut screen)?,
    };
    drop(input);
    if !args.quiet {
        eprintln!("hark: {:.0} s of sound, {}, {}", result.duration, language(&result), result.model);
    }
    if let Some((path, format)) = target {
        let content = render(&result, path, format).map_err(CliError::Failed)?;
        output::write_file(path, content, args.overwrite).map_err(CliError::Failed)?;
    }
    // The transcript up to here is written all the same.
    broken.map_or(Ok(()), |problem| Err(CliError::Failed(problem)))
}

/// Feeds the session until the source or the user ends it; gives everything, and what was wrong with the source.
fn listen(
    session: &mut LiveSession,
    input: &AudioInput,
    wakeups: &Receiver<()>,
    screen: &mut Screen,
) -> Result<(TranscriptionResult, Option<String>), CliError> {
    let mut is_ending = false;
    let mut broken = None;
    loop {
        match wakeups.recv_timeout(POLL_INTERVAL) {
            Ok(()) | Err(RecvTimeoutError::Timeout) => while wakeups.try_recv().is_ok() {},
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(POLL_INTERVAL),
        }
        loop {
            let mut is_more = false;
            if !is_ending && noticed().is_some() {
                is_ending = true;
            } else if !is_ending && session.backlog() < MAX_BACKLOG {
                match input.try_next() {
                    AudioBlock::Samples(samples) => {
                        session.push(&samples);
                        is_more = true;
                    }
                    AudioBlock::Pending => {}
                    AudioBlock::End => is_ending = true,
                    AudioBlock::Failed(problem) => (is_ending, broken) = (true, Some(problem)),
                }
            }
            if is_ending {
                session.finish();
            }
            for event in session.poll().map_err(|error| CliError::Failed(error.to_string()))? {
                match event {
                    LiveEvent::Partial { text, .. } => screen.partial(&text)?,
                    LiveEvent::Text(text) => {
                        let final_text = FinalText {
                            text: &text.text,
                            times: (text.start, text.end),
                            speaker: text.speaker.as_deref(),
                        };
                        screen.text(&final_text)?;
                        if text.ends_utterance {
                            screen.end_line()?;
                        }
                    }
                    LiveEvent::Final(result) => {
                        screen.end_line()?;
                        return Ok((*result, broken));
                    }
                }
            }
            if !is_more {
                break;
            }
        }
    }
}

fn load(args: &LiveArgs, config: &Config) -> Result<Transcriber, CliError> {
    let library = ModelLibrary::open(config)?;
    let model = speech_model(&library, args.speech.model.as_deref(), config)?;
    let mut options = LoadOptions::new(model, installed_for(&library, Role::Vad)?);
    let compute = Compute::from_options(args.speech.threads.map(usize::from).or(config.threads), None);
    if args.speakers {
        options.voices = Some(voices(&library, &compute)?);
    }
    options.compute = Some(compute);
    options.devices = config.device.devices_in(library.store.dir(), config.gpu_precision);
    Transcriber::load(&options).map_err(|error| CliError::Failed(error.to_string()))
}

fn session(
    transcriber: &Transcriber,
    args: &LiveArgs,
    config: &Config,
    wake_sender: Sender<()>,
) -> Result<LiveSession, CliError> {
    let options = LiveOptions {
        language: args.speech.language.clone().or_else(|| config.language.clone()),
        task: args.speech.task.into(),
        prompt: args.speech.prompt.clone(),
        hotwords: args.speech.hotwords.clone(),
        speakers: args.speakers,
        ..LiveOptions::default()
    };
    let wake = move || {
        // The receiver is gone once the session is over.
        let _ = wake_sender.send(());
    };
    LiveSession::new(transcriber, &options, wake).map_err(|error| CliError::Usage(error.to_string()))
}

fn format_of(path: &Path, args: &LiveArgs) -> Result<Format, CliError> {
    if path.exists() && !args.overwrite {
        // Refused now, not after an hour of audio.
        return Err(CliError::Usage(format!("{} exists: choose another name or give --overwrite", path.display())));
    }
    if let Some(format) = args.format {
        return Ok(format);
    }
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    extension.parse().map_err(|_| {
        CliError::Usage(format!("{} has no extension that says a format: give one with -f", path.display()))
    })
}

fn render(result: &TranscriptionResult, path: &Path, format: Format) -> Result<Vec<u8>, String> {
    let title = path.file_stem().map_or_else(|| "Live".to_owned(), |stem| stem.to_string_lossy().into_owned());
    let native = hark_whisper::languages::find(&result.language).map(|found| found.native_name.to_owned());
    let metadata = Metadata { title, language_name: native, ..Metadata::default() };
    let options = Options { pretty_json: true, ..Options::default() };
    let fonts = Fonts::system();
    hark_export::export(result, &metadata, format, &options, &fonts).map_err(|error| error.to_string())
}

fn language(result: &TranscriptionResult) -> &str {
    if result.language.is_empty() { "no speech" } else { &result.language }
}
