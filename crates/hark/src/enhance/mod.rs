//! `hark enhance`: recordings without their noise.

mod plan;

use std::fs::File;
use std::io::{BufWriter, IsTerminal, Seek, Write};
use std::path::Path;
use std::time::Instant;

use hark_enhance::{Enhancer, Options, Summary};
use hark_media::{
    AudioSpec, AudioStream, Encoder, MediaError, OutputFormat, SampleWriter, Source, WavFormat, WavWriter,
};
use hark_models::Role;
use hark_speech::Compute;

use crate::cli::{Common, EnhanceArgs, SoundFormat};
use crate::config::Config;
use crate::models::ModelLibrary;
use crate::transcribe::{FileProgress, Input, Screen, clock, installed_for, noticed, speed, watch};
use crate::{CliError, output};
use plan::{Job, Target};

/// Runs the command.
pub(crate) fn run(args: &EnhanceArgs, common: &Common) -> Result<(), CliError> {
    let config = Config::load(common)?;
    let jobs = plan::plan(args)?;
    let mut failed = 0;
    let mut ready = Vec::new();
    for job in &jobs {
        match precheck(job, args) {
            Ok(true) => ready.push(job),
            Ok(false) => {}
            Err(problem) => {
                failed += 1;
                eprintln!("{}: {problem}", job.input.name());
            }
        }
    }
    if !ready.is_empty() {
        watch();
        let library = ModelLibrary::open(&config)?;
        let folder = installed_for(&library, Role::Enhance)?;
        let compute = Compute::from_options(args.threads.map(usize::from).or(config.threads), None);
        let enhancer = Enhancer::load(&compute, &folder).map_err(|error| CliError::Failed(error.to_string()))?;
        let screen = Screen::new(ready.len(), args.quiet);
        // One after the other: each uses all threads.
        for job in ready {
            match enhance(&enhancer, job, args, &screen) {
                Ok(()) => {}
                Err(Failure::Command(error)) => {
                    screen.clear();
                    return Err(error);
                }
                Err(Failure::Recording(problem)) => {
                    failed += 1;
                    screen.aside(|| eprintln!("{}: {problem}", job.input.name()));
                }
            }
        }
        screen.clear();
    }
    if failed > 0 { Err(CliError::Reported) } else { Ok(()) }
}

/// Why a recording was not enhanced.
enum Failure {
    /// Its own fault: the others go on.
    Recording(String),
    /// The command ends.
    Command(CliError),
}

impl From<String> for Failure {
    fn from(problem: String) -> Self {
        Self::Recording(problem)
    }
}

/// What can be known before any work: false leaves the job out, an error is the user's to read.
fn precheck(job: &Job, args: &EnhanceArgs) -> Result<bool, String> {
    match &job.input {
        Input::Stdin if std::io::stdin().is_terminal() => {
            return Err(
                "is a terminal: pipe a recording into it, as in `hark enhance - < call.wav > clean.wav`".to_owned()
            );
        }
        Input::Stdin => {}
        Input::File(path) => match std::fs::metadata(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err("no such file".to_owned()),
            Err(error) => return Err(error.to_string()),
            Ok(found) if found.is_dir() => return Err("is a folder: give the files in it".to_owned()),
            Ok(_) => {}
        },
    }
    match &job.target {
        Target::File(path) if path.exists() && args.skip_existing => Ok(false),
        Target::File(path) if path.exists() && !args.overwrite => {
            Err(format!("{} exists: --overwrite replaces it, --skip-existing leaves it", path.display()))
        }
        _ => Ok(true),
    }
}

fn enhance(enhancer: &Enhancer, job: &Job, args: &EnhanceArgs, screen: &Screen) -> Result<(), Failure> {
    let begun = Instant::now();
    let name = job.input.name();
    let source = match &job.input {
        Input::Stdin => Source::Reader(Box::new(std::io::stdin())),
        Input::File(path) => Source::Path(path.clone()),
    };
    let media = hark_media::Options { track: args.track.map(usize::from), ..hark_media::Options::default() };
    let mut bar = screen.begin(&name);
    let mut audio = AudioStream::open(source, &Enhancer::input_options(media.clone())).map_err(|e| e.to_string())?;
    let mut recording = Recording { enhancer, audio: &mut audio, options: Options { strength: args.strength } };
    let written = match &job.target {
        Target::File(path) => to_file(path, job, args, &media, &mut recording, &mut bar),
        Target::Stdout => to_stdout(job, args, &media, &mut recording, &mut bar),
    };
    drop(bar);
    if let Some(signal) = noticed() {
        return Err(Failure::Command(CliError::Interrupted(signal)));
    }
    let summary = written?;
    screen.aside(|| {
        for warning in audio.warnings() {
            eprintln!("{name}: warning: {warning}");
        }
        if !args.quiet {
            let (seconds, elapsed) = (summary.seconds(), begun.elapsed());
            let took = format!("{:.1} s", elapsed.as_secs_f64());
            let to = match &job.target {
                Target::File(path) => format!(", {}", path.display()),
                Target::Stdout => String::new(),
            };
            eprintln!("{name}: {} in {took} ({} × real time){to}", clock(seconds), speed(seconds, elapsed));
        }
    });
    Ok(())
}

/// A recording that is being read.
struct Recording<'a> {
    enhancer: &'a Enhancer,
    audio: &'a mut AudioStream,
    options: Options,
}

impl Recording<'_> {
    fn spec(&self) -> AudioSpec {
        self.audio.spec()
    }

    /// Enhances it from start to end, unless a signal comes.
    fn enhance(&mut self, writer: &mut dyn SampleWriter, bar: &mut FileProgress<'_>) -> Result<Summary, String> {
        let cancelled = || noticed().is_some();
        let mut progress = |so_far: hark_enhance::Progress| bar.update(so_far.done, so_far.total);
        let done = self.enhancer.enhance(self.audio, writer, &self.options, &cancelled, &mut progress);
        let summary = done.map_err(|error| error.to_string())?;
        writer.finish().map_err(|error| error.to_string())?;
        Ok(summary)
    }
}

/// Writes beside the file first, then renames: it appears whole or not at all.
fn to_file(
    path: &Path,
    job: &Job,
    args: &EnhanceArgs,
    media: &hark_media::Options,
    recording: &mut Recording<'_>,
    bar: &mut FileProgress<'_>,
) -> Result<Summary, Failure> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder)
            .map_err(|error| format!("can't make the folder {}: {error}", folder.display()))?;
    }
    let part = output::temporary_beside(path)?;
    let problem = |error: std::io::Error| format!("can't write {}: {error}", path.display());
    let summary = match encoded(job.format) {
        None => to_wav(part.as_file().try_clone().map_err(problem)?, args.bits, recording, bar)?,
        Some(format) => {
            let file = part.as_file().try_clone().map_err(problem)?;
            let mut encoder = encoder(recording.spec(), format, file, media)?;
            recording.enhance(&mut encoder, bar)?
        }
    };
    output::keep(part, path, args.overwrite)?;
    Ok(summary)
}

/// A WAV header has the length, so a WAV file goes to a temporary file first; the others go out as they are made.
fn to_stdout(
    job: &Job,
    args: &EnhanceArgs,
    media: &hark_media::Options,
    recording: &mut Recording<'_>,
    bar: &mut FileProgress<'_>,
) -> Result<Summary, Failure> {
    let problem = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::BrokenPipe => Failure::Command(CliError::OutputClosed),
        _ => Failure::Command(CliError::Failed(format!("stdout: {error}"))),
    };
    match encoded(job.format) {
        None => {
            let mut spool = tempfile::tempfile().map_err(|error| format!("can't make a temporary file: {error}"))?;
            let file = spool.try_clone().map_err(|error| error.to_string())?;
            let summary = to_wav(file, args.bits, recording, bar)?;
            spool.rewind().map_err(|error| error.to_string())?;
            let mut stdout = std::io::stdout().lock();
            std::io::copy(&mut spool, &mut stdout).and_then(|_| stdout.flush()).map_err(problem)?;
            Ok(summary)
        }
        Some(format) => {
            let mut encoder = encoder(recording.spec(), format, std::io::stdout(), media)?;
            Ok(recording.enhance(&mut encoder, bar)?)
        }
    }
}

fn to_wav(file: File, bits: u8, recording: &mut Recording<'_>, bar: &mut FileProgress<'_>) -> Result<Summary, String> {
    let format = match bits {
        16 => WavFormat::S16,
        24 => WavFormat::S24,
        _ => WavFormat::F32,
    };
    let text = |error: MediaError| error.to_string();
    let mut writer = WavWriter::new(BufWriter::new(file), recording.spec(), format).map_err(text)?;
    let summary = recording.enhance(&mut writer, bar)?;
    writer.into_inner().flush().map_err(|error| error.to_string())?;
    Ok(summary)
}

/// The encoder of a format; none for WAV, which needs none.
fn encoded(format: SoundFormat) -> Option<OutputFormat> {
    match format {
        SoundFormat::Wav => None,
        SoundFormat::Flac => Some(OutputFormat::Flac),
        SoundFormat::Mp3 => Some(OutputFormat::Mp3 { kbps: 192 }),
        SoundFormat::Opus => Some(OutputFormat::Opus { kbps: 96 }),
    }
}

fn encoder(
    spec: AudioSpec,
    format: OutputFormat,
    out: impl Write + Send + 'static,
    media: &hark_media::Options,
) -> Result<Encoder, String> {
    Encoder::start(spec, format, out, media).map_err(|error| error.to_string())
}
