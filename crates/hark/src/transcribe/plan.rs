//! What is read and what is written: decided, and refused where it makes no sense, before any work begins.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use hark_export::Format;

use crate::CliError;
use crate::cli::TranscribeArgs;

/// Where the audio comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Input {
    Stdin,
    File(PathBuf),
}

impl Input {
    /// A path on the command line; `-` is stdin.
    pub(crate) fn of(path: &Path) -> Self {
        if path.as_os_str() == "-" { Self::Stdin } else { Self::File(path.to_owned()) }
    }

    /// What messages call it.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Stdin => "stdin".to_owned(),
            Self::File(path) => path.display().to_string(),
        }
    }

    /// What a document about it is called.
    pub(crate) fn title(&self) -> String {
        match self {
            Self::Stdin => String::new(),
            Self::File(_) => self.stem().to_string_lossy().into_owned(),
        }
    }

    /// Its file name without the extension.
    pub(crate) fn stem(&self) -> OsString {
        Path::new(self.file_name()).file_stem().unwrap_or(self.file_name()).to_owned()
    }

    fn file_name(&self) -> &OsStr {
        match self {
            Self::Stdin => OsStr::new("stdin"),
            Self::File(path) => path.file_name().unwrap_or(path.as_os_str()),
        }
    }
}

/// Where one transcript goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    Stdout,
    File(PathBuf),
}

/// One recording and everything to write of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) input: Input,
    pub(crate) outputs: Vec<(Format, Target)>,
}

/// Pairs every input with its outputs. `default_format` holds where neither `-f` nor the name of the output says.
pub(crate) fn plan(args: &TranscribeArgs, default_format: Format) -> Result<Vec<Job>, CliError> {
    let inputs: Vec<Input> = args.files.iter().map(|path| Input::of(path)).collect();
    if inputs.iter().filter(|input| **input == Input::Stdin).count() > 1 {
        return Err(CliError::Usage("`-` (stdin) can be read only once".to_owned()));
    }
    let output = args.output.as_deref().filter(|path| path.as_os_str() != "-");
    let is_folder = output.is_some_and(|path| is_folder(path, inputs.len()));
    let formats = formats(args, output.filter(|_| !is_folder), default_format);
    match output {
        None => to_stdout(inputs, &formats),
        Some(folder) if is_folder => to_folder(inputs, &formats, folder),
        Some(file) => to_file(inputs, &formats, file),
    }
}

/// `-o subs/`, `-o subs`, an existing folder, or several inputs; `-o talk.srt` with one input is a file.
pub(crate) fn is_folder(path: &Path, inputs: usize) -> bool {
    let ends_with_slash = path.as_os_str().as_encoded_bytes().last().is_some_and(|&b| b == b'/');
    inputs > 1 || ends_with_slash || path.is_dir() || path.extension().is_none()
}

fn formats(args: &TranscribeArgs, file: Option<&Path>, default_format: Format) -> Vec<Format> {
    let mut formats: Vec<Format> = Vec::new();
    for format in &args.format {
        if !formats.contains(format) {
            formats.push(*format);
        }
    }
    if formats.is_empty() {
        let by_name = file.and_then(Path::extension).and_then(OsStr::to_str).and_then(|name| name.parse().ok());
        formats.push(by_name.unwrap_or(default_format));
    }
    formats
}

fn to_stdout(inputs: Vec<Input>, formats: &[Format]) -> Result<Vec<Job>, CliError> {
    let &[format] = formats else {
        return Err(CliError::Usage("several formats need a folder to go to: add -o DIR".to_owned()));
    };
    if !format.is_text() && std::io::stdout().is_terminal() {
        return Err(CliError::Usage(format!("{format} is not for a terminal: add -o FILE, or pipe it on")));
    }
    if inputs.len() > 1 && !matches!(format, Format::Txt | Format::Json) {
        return Err(CliError::Usage(format!("several files as {format} need a folder to go to: add -o DIR")));
    }
    let outputs = vec![(format, Target::Stdout)];
    Ok(inputs.into_iter().map(|input| Job { input, outputs: outputs.clone() }).collect())
}

fn to_file(mut inputs: Vec<Input>, formats: &[Format], file: &Path) -> Result<Vec<Job>, CliError> {
    let &[format] = formats else {
        return Err(CliError::Usage(format!(
            "{} is one file, but several formats were asked for: give a folder",
            file.display()
        )));
    };
    let input = inputs.remove(0);
    if let Input::File(path) = &input
        && is_same_file(path, file)
    {
        return Err(CliError::Usage(format!("{} would be written over itself", path.display())));
    }
    Ok(vec![Job { input, outputs: vec![(format, Target::File(file.to_owned()))] }])
}

/// `talk.mp3` becomes `talk.srt`. Where two recordings share that name, both keep their extension: `talk.mp3.srt` and
/// `talk.wav.srt`. Where even that is shared, no guess of ours would be found again, so it is an error.
fn to_folder(inputs: Vec<Input>, formats: &[Format], folder: &Path) -> Result<Vec<Job>, CliError> {
    let mut shared: HashMap<OsString, usize> = HashMap::new();
    for input in &inputs {
        *shared.entry(input.stem()).or_default() += 1;
    }
    let mut taken: HashMap<PathBuf, String> = HashMap::new();
    let mut jobs = Vec::new();
    for input in inputs {
        let stem = input.stem();
        let base = if shared[&stem] > 1 { input.file_name().to_owned() } else { stem };
        let mut outputs = Vec::new();
        for &format in formats {
            let mut name = base.clone();
            name.push(".");
            name.push(format.extension());
            let path = folder.join(name);
            if let Some(other) = taken.insert(path.clone(), input.name()) {
                return Err(CliError::Usage(format!(
                    "{other} and {} would both be written to {}: give them folders of their own",
                    input.name(),
                    path.display()
                )));
            }
            if let Input::File(source) = &input
                && is_same_file(source, &path)
            {
                return Err(CliError::Usage(format!("{} would be written over itself", source.display())));
            }
            outputs.push((format, Target::File(path)));
        }
        jobs.push(Job { input, outputs });
    }
    Ok(jobs)
}

pub(crate) fn is_same_file(a: &Path, b: &Path) -> bool {
    match (a.canonicalize(), b.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use clap::Parser;

    fn planned(arguments: &[&str]) -> Result<Vec<Job>, String> {
        let line = ["hark", "transcribe"].iter().chain(arguments);
        let Command::Transcribe(args) = Cli::parse_from(line).command else { panic!("not transcribe") };
        plan(&args, Format::Txt).map_err(|error| error.to_string())
    }

    fn files(jobs: &[Job]) -> Vec<String> {
        let outputs = jobs.iter().flat_map(|job| &job.outputs);
        outputs
            .map(|(_, target)| match target {
                Target::Stdout => "stdout".to_owned(),
                Target::File(path) => path.display().to_string(),
            })
            .collect()
    }

    #[test]
    fn a_folder_gets_one_file_for_each_input_and_format() {
        let jobs = planned(&["a/talk.mp4", "b/call.wav", "-f", "srt,txt", "-o", "subs"]).unwrap();
        assert_eq!(files(&jobs), ["subs/talk.srt", "subs/talk.txt", "subs/call.srt", "subs/call.txt"]);
    }

    #[test]
    fn the_name_of_the_output_says_its_format() {
        let jobs = planned(&["talk.mp4", "-o", "out/talk.vtt"]).unwrap();
        assert_eq!(jobs[0].outputs, [(Format::Vtt, Target::File("out/talk.vtt".into()))]);
    }

    #[test]
    fn recordings_that_differ_in_their_extension_keep_it() {
        let jobs = planned(&["talk.mp3", "talk.wav", "other.wav", "-o", "subs/"]).unwrap();
        assert_eq!(files(&jobs), ["subs/talk.mp3.txt", "subs/talk.wav.txt", "subs/other.txt"]);
    }

    #[test]
    fn recordings_with_the_same_name_in_two_folders_are_refused() {
        let refused = planned(&["a/talk.mp3", "b/talk.mp3", "-o", "subs/"]).unwrap_err();
        assert_eq!(
            refused,
            "a/talk.mp3 and b/talk.mp3 would both be written to subs/talk.mp3.txt: give them folders of their own"
        );
    }

    #[test]
    fn stdout_takes_one_format_and_subtitles_of_one_file_only() {
        assert!(planned(&["a.mp3", "-f", "srt,txt"]).unwrap_err().contains("-o DIR"));
        for format in ["srt", "pdf"] {
            assert!(planned(&["a.mp3", "b.mp3", "-f", format]).is_err(), "several files as {format} on stdout");
        }
        assert_eq!(files(&planned(&["a.mp3", "b.mp3", "-f", "json"]).unwrap()), ["stdout", "stdout"]);
    }

    #[test]
    fn stdin_is_read_once_and_has_a_name_in_a_folder() {
        assert!(planned(&["-", "-"]).unwrap_err().contains("only once"));
        assert_eq!(files(&planned(&["-", "-o", "subs/", "-f", "srt"]).unwrap()), ["subs/stdin.srt"]);
    }

    #[test]
    fn an_input_is_never_written_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("talk.txt");
        std::fs::write(&path, "not audio").unwrap();
        let path = path.to_str().unwrap();
        assert!(planned(&[path, "-o", path]).unwrap_err().contains("over itself"));
        assert!(planned(&[path, "-o", folder.path().to_str().unwrap()]).unwrap_err().contains("over itself"));
    }
}
