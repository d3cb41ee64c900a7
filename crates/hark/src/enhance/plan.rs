//! What is read and what is written: decided, and refused where it makes no sense, before any work begins.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use crate::CliError;
use crate::cli::{EnhanceArgs, SoundFormat};
use crate::transcribe::{Input, is_folder, is_same_file};

/// Where a recording goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    Stdout,
    File(PathBuf),
}

/// One recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) input: Input,
    pub(super) target: Target,
    pub(super) format: SoundFormat,
}

/// Pairs every input with its output.
pub(super) fn plan(args: &EnhanceArgs) -> Result<Vec<Job>, CliError> {
    let inputs: Vec<Input> = args.files.iter().map(|path| Input::of(path)).collect();
    if inputs.iter().filter(|input| **input == Input::Stdin).count() > 1 {
        return Err(CliError::Usage("`-` (stdin) can be read only once".to_owned()));
    }
    let is_stdout = |path: &Path| path.as_os_str() == "-";
    if args.output.as_deref().is_some_and(is_stdout) && inputs.len() > 1 {
        return Err(CliError::Usage("several recordings need a folder to go to: add -o DIR".to_owned()));
    }
    let mut jobs = Vec::new();
    let mut taken: HashMap<PathBuf, String> = HashMap::new();
    for input in inputs {
        let job = pair(input, args)?;
        match &job.target {
            Target::Stdout if std::io::stdout().is_terminal() => {
                let what = "sound is not for a terminal: add -o FILE, or pipe it on";
                return Err(CliError::Usage(what.to_owned()));
            }
            Target::Stdout => {}
            Target::File(path) => {
                if let Input::File(source) = &job.input
                    && is_same_file(source, path)
                {
                    return Err(CliError::Usage(format!("{} would be written over itself", source.display())));
                }
                if let Some(other) = taken.insert(path.clone(), job.input.name()) {
                    return Err(CliError::Usage(format!(
                        "{other} and {} would both be written to {}: give them folders of their own",
                        job.input.name(),
                        path.display()
                    )));
                }
            }
        }
        jobs.push(job);
    }
    Ok(jobs)
}

fn pair(input: Input, args: &EnhanceArgs) -> Result<Job, CliError> {
    let default = args.format.unwrap_or(SoundFormat::Wav);
    let (target, format) = match (args.output.as_deref(), &input) {
        (None, Input::Stdin) => (Target::Stdout, default),
        (Some(path), _) if path.as_os_str() == "-" => (Target::Stdout, default),
        (None, Input::File(path)) => (Target::File(path.with_file_name(named(&input, "enhanced.", default))), default),
        (Some(folder), _) if is_folder(folder, args.files.len()) => {
            (Target::File(folder.join(named(&input, "", default))), default)
        }
        (Some(file), _) => {
            let extension = file.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
            let format = args.format.or_else(|| SoundFormat::of_extension(extension)).ok_or_else(|| {
                CliError::Usage(format!(
                    "{extension:?} is no format of sound that can be written: give wav, flac, mp3 or opus, or -f"
                ))
            })?;
            (Target::File(file.to_owned()), format)
        }
    };
    Ok(Job { input, target, format })
}

/// `talk.enhanced.wav` for `talk.mp3`.
fn named(input: &Input, mark: &str, format: SoundFormat) -> OsString {
    let mut name = input.stem();
    name.push(".");
    name.push(mark);
    name.push(format.extension());
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use clap::Parser;

    fn planned(arguments: &[&str]) -> Result<Vec<String>, String> {
        let Command::Enhance(args) = Cli::parse_from(["hark", "enhance"].iter().chain(arguments)).command else {
            panic!("not enhance")
        };
        let jobs = plan(&args).map_err(|error| error.to_string())?;
        let written = jobs.iter().map(|job| match &job.target {
            Target::Stdout => format!("stdout as {:?}", job.format),
            Target::File(path) => format!("{} as {:?}", path.display(), job.format),
        });
        Ok(written.collect())
    }

    #[test]
    fn a_recording_goes_beside_itself_unless_told_otherwise() {
        assert_eq!(planned(&["a/talk.mp3"]).unwrap(), ["a/talk.enhanced.wav as Wav"]);
        assert_eq!(planned(&["a/talk.mp3", "-f", "flac"]).unwrap(), ["a/talk.enhanced.flac as Flac"]);
        assert_eq!(planned(&["a.mp3", "b.wav", "-o", "clean"]).unwrap(), ["clean/a.wav as Wav", "clean/b.wav as Wav"]);
    }

    #[test]
    fn the_name_of_the_output_says_its_format() {
        for (name, format) in [("x.wav", "Wav"), ("x.FLAC", "Flac"), ("x.mp3", "Mp3"), ("x.ogg", "Opus")] {
            assert_eq!(planned(&["talk.mp4", "-o", name]).unwrap(), [format!("{name} as {format}")]);
        }
        assert_eq!(planned(&["talk.mp4", "-o", "x.raw", "-f", "wav"]).unwrap(), ["x.raw as Wav"]);
        assert!(planned(&["talk.mp4", "-o", "x.txt"]).unwrap_err().contains("\"txt\" is no format"));
    }

    #[test]
    fn what_would_be_lost_is_refused() {
        assert!(planned(&["-", "-"]).unwrap_err().contains("only once"));
        assert!(planned(&["a.mp3", "b.mp3", "-o", "-"]).unwrap_err().contains("-o DIR"));
        assert!(planned(&["a/x.mp3", "b/x.mp3", "-o", "clean/"]).unwrap_err().contains("both be written"));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("talk.wav");
        std::fs::write(&path, "sound").unwrap();
        let path = path.to_str().unwrap();
        assert!(planned(&[path, "-o", path]).unwrap_err().contains("over itself"));
        assert!(planned(&[path, "-o", folder.path().to_str().unwrap()]).unwrap_err().contains("over itself"));
    }
}
