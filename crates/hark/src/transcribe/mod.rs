//! `hark transcribe`: files to text, several at once, results in the order they were given.

mod engine;
mod interrupt;
mod plan;
mod progress;

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use hark_api::TranscriptionResult;
use hark_export::{Fonts, Format, Metadata, Options, SubtitleRules};

use crate::cli::{Common, TranscribeArgs, Words};
use crate::config::Config;
use crate::{CliError, output};
use engine::{Engine, Transcribed};
pub(crate) use engine::{installed, installed_for, speech_model, transcribe_file, voices};
pub(crate) use interrupt::{noticed, watch};
pub(crate) use plan::{Input, is_folder, is_same_file};
use plan::{Job, Target};
pub(crate) use progress::{FileProgress, Screen, clock, speed};

/// Files open at a time, whatever the machine, and at most: one for each core. The engine fills its batches from all of them; each is
/// read and listened to for speech on one core, so that a GPU is kept busy only by many, and memory stays bounded.
const FILES_AT_ONCE: std::ops::RangeInclusive<usize> = 4..=32;

fn files_at_once() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    cores.clamp(*FILES_AT_ONCE.start(), *FILES_AT_ONCE.end())
}

/// Runs the command.
pub(crate) fn run(args: TranscribeArgs, common: &Common) -> Result<(), CliError> {
    let config = Config::load(common)?;
    let jobs = plan::plan(&args, config.format.unwrap_or(Format::Txt))?;
    let mut refused = 0;
    let mut ready = Vec::new();
    for job in jobs {
        match precheck(&job, &args) {
            Ok(true) => ready.push(job),
            Ok(false) => {}
            Err(problem) => {
                refused += 1;
                eprintln!("{}: {problem}", job.input.name());
            }
        }
    }
    if !ready.is_empty() {
        create_folders(&ready)?;
        interrupt::watch();
        let engine = Engine::load(&args, &config, needs_words(&args, &ready))?;
        refused += transcribe_all(&engine, &ready, &args)?;
    }
    if refused > 0 { Err(CliError::Reported) } else { Ok(()) }
}

/// What can be known before any work: false leaves the job out, an error is the user's to read.
fn precheck(job: &Job, args: &TranscribeArgs) -> Result<bool, String> {
    if job.input == Input::Stdin && std::io::stdin().is_terminal() {
        return Err("is a terminal: pipe a recording into it, as in `hark transcribe - < call.wav`".to_owned());
    }
    if let Input::File(path) = &job.input {
        match std::fs::metadata(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err("no such file".to_owned());
            }
            Err(error) => return Err(error.to_string()),
            Ok(found) if found.is_dir() => {
                return Err("is a folder: give the files in it".to_owned());
            }
            Ok(_) => {}
        }
    }
    let files = || {
        job.outputs.iter().filter_map(|(_, target)| match target {
            Target::File(path) => Some(path),
            Target::Stdout => None,
        })
    };
    if args.skip_existing && files().next().is_some() && files().all(|path| path.exists()) {
        return Ok(false);
    }
    match files().find(|path| path.exists()) {
        Some(path) if !args.overwrite && !args.skip_existing => {
            Err(format!("{} exists: --overwrite replaces it, --skip-existing leaves it", path.display()))
        }
        _ => Ok(true),
    }
}

fn create_folders(jobs: &[Job]) -> Result<(), CliError> {
    for (_, target) in jobs.iter().flat_map(|job| &job.outputs) {
        if let Target::File(path) = target
            && let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty())
        {
            std::fs::create_dir_all(folder)
                .map_err(|error| CliError::Failed(format!("can't make the folder {}: {error}", folder.display())))?;
        }
    }
    Ok(())
}

fn needs_words(args: &TranscribeArgs, jobs: &[Job]) -> bool {
    match args.words {
        _ if args.no_words => false,
        Words::Yes => true,
        Words::No => false,
        Words::Auto => jobs.iter().flat_map(|job| &job.outputs).any(|(format, _)| *format != Format::Txt),
    }
}

/// What became of one job: what is still to be printed, or why there is nothing.
type Outcome = Result<Option<Vec<u8>>, String>;

/// Works through the jobs and returns how many failed.
fn transcribe_all(engine: &Engine, jobs: &[Job], args: &TranscribeArgs) -> Result<usize, CliError> {
    let screen = Screen::new(jobs.len(), args.quiet);
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel::<(usize, Outcome)>();
    std::thread::scope(|scope| {
        for _ in 0..jobs.len().min(files_at_once()) {
            let sender = sender.clone();
            let (screen, next) = (&screen, &next);
            scope.spawn(move || work(engine, jobs, args, screen, next, &sender));
        }
        drop(sender);

        let mut failed = 0;
        let mut waiting = BTreeMap::new();
        let mut printed = 0;
        let mut all_sent = false;
        // Results may stay missing only when a worker panicked, which `scope` passes on.
        while printed < jobs.len() && !(all_sent && waiting.is_empty()) {
            match receiver.recv_timeout(Duration::from_millis(50)) {
                Ok((number, outcome)) => {
                    waiting.insert(number, outcome);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) if all_sent => break,
                Err(RecvTimeoutError::Disconnected) => all_sent = true,
            }
            if let Some(signal) = interrupt::noticed() {
                engine.cancel();
                leave(&screen, signal);
            }
            while let Some(outcome) = waiting.remove(&printed) {
                let is_first = printed == 0;
                printed += 1;
                let written = screen.aside(|| match outcome {
                    Ok(None) => Ok(()),
                    Ok(Some(content)) if is_first || !is_headed(jobs, args) => output::print(content),
                    Ok(Some(content)) => output::print("\n").and_then(|()| output::print(content)),
                    Err(problem) => {
                        failed += 1;
                        eprintln!("{}: {problem}", jobs[printed - 1].input.name());
                        Ok(())
                    }
                });
                if let Err(error) = written {
                    // Nobody reads on: what workers still do is for nothing, and waiting for them too.
                    screen.clear();
                    engine.cancel();
                    let _files_are_whole = output::stop_writing();
                    if error.is_for_reading() {
                        eprintln!("hark: {error}");
                    }
                    std::process::exit(i32::from(error.exit_code()));
                }
            }
        }
        screen.clear();
        Ok(failed)
    })
}

/// Ends the process between two files: a file that is being written is finished, none is begun.
fn leave(screen: &Screen, signal: i32) -> ! {
    let _files_are_whole = output::stop_writing();
    screen.clear();
    let error = CliError::Interrupted(signal);
    eprintln!("hark: {error}");
    std::process::exit(i32::from(error.exit_code()))
}

fn work(
    engine: &Engine,
    jobs: &[Job],
    args: &TranscribeArgs,
    screen: &Screen,
    next: &AtomicUsize,
    sender: &Sender<(usize, Outcome)>,
) {
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let Some(job) = jobs.get(number) else { return };
        let outcome = transcribe_one(engine, job, args, screen, is_headed(jobs, args));
        if sender.send((number, outcome)).is_err() {
            return;
        }
    }
}

fn transcribe_one(engine: &Engine, job: &Job, args: &TranscribeArgs, screen: &Screen, headed: bool) -> Outcome {
    let name = job.input.name();
    let begun = Instant::now();
    let mut bar = screen.begin(&name);
    // A file that breaks a decoder must not take the other files with it.
    let done = catch_unwind(AssertUnwindSafe(|| engine.transcribe(&job.input, &mut bar)));
    drop(bar);
    let done = done.map_err(|_| "a defect in hark was met on this file; please report it".to_owned())?;
    let Transcribed { result, names } = done?;
    screen.aside(|| {
        for warning in &result.warnings {
            eprintln!("{name}: warning: {warning}");
        }
        if !args.quiet {
            eprintln!("{name}: {}", summary(&result, begun.elapsed()));
        }
    });
    let mut to_print = None;
    for (format, target) in &job.outputs {
        let content = render(&result, &names, *format, args, job, target)?;
        match target {
            Target::File(path) => save(path, &content, args)?,
            Target::Stdout if headed => to_print = Some([format!("==> {name} <==\n").into_bytes(), content].concat()),
            Target::Stdout => to_print = Some(content),
        }
    }
    Ok(to_print)
}

fn save(path: &Path, content: &[u8], args: &TranscribeArgs) -> Result<(), String> {
    if args.skip_existing && path.exists() {
        return Ok(());
    }
    output::write_file(path, content, args.overwrite)
}

fn render(
    result: &TranscriptionResult,
    names: &BTreeMap<String, String>,
    format: Format,
    args: &TranscribeArgs,
    job: &Job,
    target: &Target,
) -> Result<Vec<u8>, String> {
    // The machine's fonts are looked at once, and only for a format that needs them.
    static FONTS: LazyLock<Fonts> = LazyLock::new(Fonts::system);
    let options = Options {
        subtitles: SubtitleRules {
            max_line_width: args.max_line_width,
            max_lines: args.max_lines,
            ..SubtitleRules::default()
        },
        // Several transcripts on stdout are a line each, so that a reader can tell them apart.
        pretty_json: args.files.len() == 1 || *target != Target::Stdout,
        unnamed_speaker: None,
    };
    let language = hark_whisper::languages::find(&result.language).map(|language| language.native_name.to_owned());
    let metadata = Metadata {
        title: job.input.title(),
        language_name: language,
        speaker_names: names.clone(),
        ..Metadata::default()
    };
    hark_export::export(result, &metadata, format, &options, &FONTS).map_err(|error| error.to_string())
}

/// Several texts on stdout are told apart by their names, as `head` does it.
fn is_headed(jobs: &[Job], args: &TranscribeArgs) -> bool {
    args.files.len() > 1 && jobs.iter().any(|job| job.outputs.contains(&(Format::Txt, Target::Stdout)))
}

/// `1:04:05 in 0:42 (92 × real time), en, whisper-base`: the checkpoint that really ran is named.
fn summary(result: &TranscriptionResult, elapsed: Duration) -> String {
    let took = match elapsed.as_secs() {
        0..10 => format!("{:.1} s", elapsed.as_secs_f64()),
        _ => clock(elapsed.as_secs_f64()),
    };
    let mut line = format!("{} in {took} ({} × real time)", clock(result.duration), speed(result.duration, elapsed));
    for part in [&result.language, &result.model] {
        if !part.is_empty() {
            line.push_str(", ");
            line.push_str(part);
        }
    }
    line
}
