//! `hark speak`: text to a sound file that says it is synthetic.

use std::io::{IsTerminal as _, Read as _, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use hark_media::{CancelToken, Source};
use hark_models::Role;
use hark_speech::Compute;
use hark_translate::LanguageDetector;
use hark_voice::{
    Fault, FileFormat, Gender, Marker, Narrator, NarratorOptions, RUNTIME_MODEL, Reference, Script, SpeechRequest,
    Spoken, VoiceChoice, VoiceError,
};

use crate::cli::{Common, SpeakArgs};
use crate::config::Config;
use crate::models::ModelLibrary;
use crate::transcribe::{clock, installed, installed_for, noticed, speed, watch};
use crate::{CliError, output, table, watermark};

/// Most characters of a text: some 25 minutes of speech.
const MAX_CHARACTERS: usize = 20_000;
/// The file of the language identification model in its folder.
const LID_FILE: &str = "lid.176.ftz";
/// How often a signal is looked for.
const GLANCE: Duration = Duration::from_millis(50);

/// Where the sound goes.
enum Target {
    Stdout,
    File(PathBuf),
}

/// Runs the command.
pub(crate) fn run(args: &SpeakArgs, common: &Common) -> Result<(), CliError> {
    let config = Config::load(common)?;
    let library = ModelLibrary::open(&config)?;
    if args.list_voices {
        return list_voices(&library, &config);
    }
    let (target, format) = target(args)?;
    format.check(None).map_err(problem)?;
    let text = text(args)?;
    watch();
    let cancel = cancelled_by_signals();
    let reference = args.like.as_deref().map(|path| read_reference(path, &cancel)).transpose()?;
    let key = watermark::marking_key(args.data.as_deref(), &config)?;
    let marker = Marker::new(key, config.server.voice.issuer);
    let language = language(args, &library, &text)?;
    let compute = Compute::from_options(args.threads.map(usize::from).or(config.threads), None);
    let narrator = load(&library, &config, &compute, reference.is_some())?;
    let request = SpeechRequest {
        text: &text,
        max_characters: MAX_CHARACTERS,
        language: language.as_deref(),
        voice: match (&reference, &args.voice) {
            (Some(reference), _) => VoiceChoice::Like(reference),
            (None, Some(name)) => VoiceChoice::Named(name),
            (None, None) => VoiceChoice::Default,
        },
        speed: args.speed,
        is_streamed: matches!(target, Target::Stdout),
    };
    let begun = Instant::now();
    let script = narrator.prepare(&request, &cancel).map_err(problem)?;
    let payload = marker.payload(&nonce_and(&text)?, unix_seconds());
    let speak = |is_streamed: bool, out: Box<dyn Write + Send>| {
        narrator.speak(&script, format, is_streamed, &marker, &payload, out, &mut || {}, &cancel).map_err(problem)
    };
    let spoken = match &target {
        Target::Stdout => speak(true, Box::new(std::io::stdout()))?,
        Target::File(path) => {
            let part = output::temporary_beside(path).map_err(CliError::Failed)?;
            let file = part.as_file().try_clone();
            let file = file.map_err(|error| CliError::Failed(format!("can't write {}: {error}", path.display())))?;
            let spoken = speak(false, Box::new(file))?;
            output::keep(part, path, args.overwrite).map_err(CliError::Failed)?;
            spoken
        }
    };
    if !args.quiet {
        report(&target, &script, &spoken, begun.elapsed(), payload.request);
    }
    Ok(())
}

fn report(target: &Target, script: &Script, spoken: &Spoken, took: Duration, mark: u32) {
    let name = match target {
        Target::Stdout => "stdout".to_owned(),
        Target::File(path) => path.display().to_string(),
    };
    eprintln!(
        "{name}: {} in {:.1} s ({} × real time), language {}, voice {}, watermark {mark:08x}",
        clock(spoken.seconds),
        took.as_secs_f64(),
        speed(spoken.seconds, took),
        script.language(),
        script.voice(),
    );
}

/// Where the sound goes, and its format; refused before any work where it would be lost.
fn target(args: &SpeakArgs) -> Result<(Target, FileFormat), CliError> {
    let default = args.format.unwrap_or(FileFormat::Wav);
    let path = match args.output.as_deref() {
        Some(path) if path.as_os_str() != "-" => path,
        named => {
            return if std::io::stdout().is_terminal() {
                let what = if named.is_some() { "" } else { ", or pipe it on" };
                Err(CliError::Usage(format!("sound is not for a terminal: add -o FILE{what}")))
            } else {
                Ok((Target::Stdout, default))
            };
        }
    };
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default().to_ascii_lowercase();
    let of_extension = match extension.as_str() {
        "wave" => Some(FileFormat::Wav),
        "ogg" => Some(FileFormat::Opus),
        other => FileFormat::of_name(other),
    };
    let format = args.format.or(of_extension).ok_or_else(|| {
        CliError::Usage(format!(
            "{extension:?} is no format of sound that can be written: give wav, flac, mp3, opus or pcm, or -f"
        ))
    })?;
    if path.exists() && !args.overwrite {
        return Err(CliError::Failed(format!("{} exists: --overwrite replaces it", path.display())));
    }
    Ok((Target::File(path.to_owned()), format))
}

/// What is to be said.
fn text(args: &SpeakArgs) -> Result<String, CliError> {
    // A character has at most four bytes; one byte more shows that there are too many.
    let limit = 4 * MAX_CHARACTERS as u64 + 1;
    let read = |source: &mut dyn std::io::Read, name: &str| {
        let problem = |what: &dyn std::fmt::Display| CliError::Failed(format!("{name}: {what}"));
        let mut bytes = Vec::new();
        let read = source.take(limit).read_to_end(&mut bytes).map_err(|error| problem(&error))?;
        if read as u64 == limit {
            return Err(problem(&format!("has more than the {MAX_CHARACTERS} characters that are spoken at once")));
        }
        String::from_utf8(bytes).map_err(|_| problem(&"is not text in UTF-8"))
    };
    let text = match (&args.file, args.text.as_deref()) {
        (Some(path), _) => {
            let file = std::fs::File::open(path);
            let mut file = file.map_err(|error| CliError::Failed(format!("{}: {error}", path.display())))?;
            read(&mut file, &path.display().to_string())?
        }
        (None, Some("-")) => read(&mut std::io::stdin(), "stdin")?,
        (None, text) => text.unwrap_or_default().to_owned(),
    };
    if text.trim().is_empty() {
        return Err(CliError::Usage("there is nothing to say: the text is empty".to_owned()));
    }
    Ok(text)
}

fn read_reference(path: &Path, cancel: &CancelToken) -> Result<Reference, CliError> {
    let media = hark_media::Options { cancel: cancel.clone(), ..hark_media::Options::default() };
    Reference::read(Source::Path(path.to_owned()), &media).map_err(|error| match error.fault() {
        Fault::Cancelled => problem(error),
        _ => CliError::Failed(format!("{}: {error}", path.display())),
    })
}

/// The code that was given, or the most likely language; none where it can't be told: then the voice decides.
fn language(args: &SpeakArgs, library: &ModelLibrary, text: &str) -> Result<Option<String>, CliError> {
    if let Some(code) = args.language.as_deref().filter(|code| *code != "auto") {
        return Ok(Some(code.to_owned()));
    }
    let Ok(folder) = installed_for(library, Role::LanguageIdentification) else { return Ok(None) };
    let detector = LanguageDetector::load(&folder.join(LID_FILE));
    let detector = detector.map_err(|error| CliError::Failed(error.to_string()))?;
    let found = detector.detect(text).filter(|found| found.is_reliable()).map(|found| found.language);
    let is_spoken = |code: &String| hark_voice::Language::find(code).is_some() || code == "zh";
    Ok(found.filter(|code| args.voice.is_none() || is_spoken(code)))
}

fn load(library: &ModelLibrary, config: &Config, compute: &Compute, with_matching: bool) -> Result<Narrator, CliError> {
    let matching = match with_matching {
        true => Some((installed_for(library, Role::Vad)?, installed_for(library, Role::Embedding)?)),
        false => None,
    };
    let model = model(library, config, with_matching)?;
    let runtime = if Narrator::clones(&model) { Some(installed(library, RUNTIME_MODEL)?) } else { None };
    let options = NarratorOptions {
        dictionary: installed_for(library, Role::Pronunciation).ok(),
        matching,
        runtime,
        ..NarratorOptions::new(model)
    };
    Narrator::load(compute, options).map_err(problem)
}

/// The folder of the speech model: the configured one, or the default. Beside a model that only clones, the default one speaks in voices by name.
fn model(library: &ModelLibrary, config: &Config, with_reference: bool) -> Result<PathBuf, CliError> {
    if let Some(name) = &config.server.voice.model {
        let folder = installed(library, name)?;
        if with_reference || !Narrator::clones(&folder) {
            return Ok(folder);
        }
    }
    installed_for(library, Role::Voice)
}

fn list_voices(library: &ModelLibrary, config: &Config) -> Result<(), CliError> {
    let rows = Narrator::voices_in(&model(library, config, false)?).into_iter().map(|voice| {
        let gender = match voice.gender {
            Gender::Female => "female",
            Gender::Male => "male",
        };
        let aliases = hark_voice::aliases_of(&voice.name).collect::<Vec<_>>().join(", ");
        vec![voice.name.clone(), voice.language.to_owned(), gender.to_owned(), aliases]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    output::print(table::table(&["voice", "language", "gender", "also"], &rows))
}

/// A token that SIGINT and SIGTERM cancel; the thread that sees to it ends with the process.
fn cancelled_by_signals() -> CancelToken {
    let token = CancelToken::default();
    let cancel = token.clone();
    std::thread::spawn(move || {
        while noticed().is_none() {
            std::thread::sleep(GLANCE);
        }
        cancel.cancel();
    });
    token
}

fn problem(error: VoiceError) -> CliError {
    match (error.fault(), &error) {
        (Fault::Cancelled, _) => CliError::Interrupted(noticed().unwrap_or(libc::SIGINT)),
        (_, VoiceError::Media(hark_media::MediaError::Io(io))) if io.kind() == std::io::ErrorKind::BrokenPipe => {
            CliError::OutputClosed
        }
        (Fault::Request, _) => CliError::Usage(error.to_string()),
        _ => CliError::Failed(error.to_string()),
    }
}

/// The text behind random bytes: two requests with the same text have different hashes.
fn nonce_and(text: &str) -> Result<Vec<u8>, CliError> {
    let mut bytes = vec![0; 16];
    getrandom::fill(&mut bytes).map_err(|error| CliError::Failed(format!("no random bytes: {error}")))?;
    bytes.extend_from_slice(text.as_bytes());
    Ok(bytes)
}

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
