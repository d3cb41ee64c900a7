//! The program espeak-ng: text to IPA, in a process of its own.
//!
//! Nothing of a text reaches a shell or an argument: it goes over stdin. Input and output are bounded, and the process is killed when it takes too long or
//! the caller cancels. The assumption is that a text can take the program over, as a file can ffmpeg: it runs in the same sandbox (`hark-sandbox`), and reads
//! its own data.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use hark_sandbox::Confinement;

use crate::SayError;

/// Longest time for one call; a text of 2000 characters takes 20 to 500 ms of CPU time, by language, and more on a busy machine.
const TIME_LIMIT: Duration = Duration::from_secs(30);
/// Address space of the process; it takes some 30 MB, and the C library may map all locales of the system.
const MEMORY_LIMIT: u64 = 1 << 30;
/// Most bytes that are read of an answer; IPA takes a few bytes for each character.
const OUTPUT_LIMIT: u64 = 1 << 20;
/// The variable that names the folder of espeak-ng's data where it is not the built-in one, and the name of that folder.
const DATA_PATH: &str = "ESPEAK_DATA_PATH";
const DATA_FOLDER: &str = "espeak-ng-data";
/// Where systems keep the data, beside the folders of shared libraries.
const SHARED: [&str; 2] = ["/usr/share", "/usr/local/share"];
/// How often cancellation is looked at.
const POLL: Duration = Duration::from_millis(10);

/// The installed program.
#[derive(Debug, Clone)]
pub(crate) struct Espeak {
    program: PathBuf,
}

impl Espeak {
    /// The program on the search path, if it is installed.
    pub(crate) fn find() -> Option<Self> {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path)
            .map(|folder| folder.join("espeak-ng"))
            .find(|file| file.is_file())
            .map(|program| Espeak { program })
    }

    /// The program at a path.
    pub(crate) fn at(program: &Path) -> Self {
        Espeak { program: program.to_owned() }
    }

    /// IPA of each chunk, with `^` between the letters of one sound. A chunk is a clause or a word without line breaks.
    pub(crate) fn phonemes(
        &self,
        voice: &str,
        chunks: &[&str],
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Vec<String>, SayError> {
        if chunks.is_empty() {
            return Ok(Vec::new());
        }
        let answer = match self.run(voice, &chunks.join("\n\n"), is_cancelled) {
            Err(SayError::EspeakCrash) if chunks.len() == 1 => {
                tracing::warn!(voice, characters = chunks[0].chars().count(), "espeak.crashed");
                String::new()
            }
            // Found in halves below.
            Err(SayError::EspeakCrash) => String::new(),
            answer => answer?,
        };
        let lines: Vec<&str> = answer.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        if lines.len() == chunks.len() {
            return Ok(lines.into_iter().map(remove_switches).collect());
        }
        if chunks.len() == 1 {
            return Ok(vec![remove_switches(&lines.join(" "))]);
        }
        // A chunk that is silent or that was read in several parts: ask in halves until it is alone.
        let (first, second) = chunks.split_at(chunks.len() / 2);
        let mut phonemes = self.phonemes(voice, first, is_cancelled)?;
        phonemes.extend(self.phonemes(voice, second, is_cancelled)?);
        Ok(phonemes)
    }

    /// Where its data may lie: in a folder that the environment names, beside the program, or in the system's. It looks into the home folder, too, but its
    /// environment does not name that.
    fn data_folders(&self) -> Vec<PathBuf> {
        let named = std::env::var_os(DATA_PATH).map(PathBuf::from).filter(|path| path.is_absolute());
        let named = named.map(|path| if path.ends_with(DATA_FOLDER) { path } else { path.join(DATA_FOLDER) });
        let real = self.program.canonicalize().ok();
        let beside = real.as_deref().and_then(Path::parent).and_then(Path::parent).map(|root| root.join("share"));
        let shared = SHARED.iter().map(PathBuf::from).chain(beside);
        named.into_iter().chain(shared.map(|folder| folder.join(DATA_FOLDER))).collect()
    }

    fn run(&self, voice: &str, input: &str, is_cancelled: &dyn Fn() -> bool) -> Result<String, SayError> {
        let failed = |error: std::io::Error| SayError::Espeak(error.to_string());
        let mut command = hark_sandbox::command(&self.program);
        command
            .args(["-q", "--ipa", "--tie=^", "-b", "1", "-v", voice, "--stdin"])
            .env("LC_ALL", "C.UTF-8")
            .envs(std::env::var_os(DATA_PATH).map(|path| (DATA_PATH, path)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let confinement = Confinement {
            program: &self.program,
            input: None,
            readable: &self.data_folders(),
            cpu_seconds: TIME_LIMIT.as_secs(),
            memory_bytes: MEMORY_LIMIT,
        };
        let mut child = hark_sandbox::spawn(command, &confinement).map_err(failed)?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let (sender, receiver) = channel();
        let answer = std::thread::scope(|scope| {
            scope.spawn(move || {
                // The program may end before it has read everything; its answer tells.
                if let Some(mut stdin) = stdin {
                    let _ = stdin.write_all(input.as_bytes());
                }
            });
            scope.spawn(move || {
                let mut bytes = Vec::new();
                let result = match stdout {
                    Some(stdout) => stdout.take(OUTPUT_LIMIT).read_to_end(&mut bytes),
                    None => Ok(0),
                };
                let _ = sender.send(result.map(|_| bytes));
            });
            let deadline = Instant::now() + TIME_LIMIT;
            let result = loop {
                match receiver.recv_timeout(POLL) {
                    Ok(bytes) => break bytes.map_err(failed),
                    Err(RecvTimeoutError::Disconnected) => break Err(SayError::Espeak("its output ended".to_owned())),
                    Err(RecvTimeoutError::Timeout) if is_cancelled() => break Err(SayError::Cancelled),
                    Err(RecvTimeoutError::Timeout) if Instant::now() > deadline => {
                        break Err(SayError::EspeakTimeout(TIME_LIMIT));
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                }
            };
            // Closes the pipes, so that both threads end. After a whole answer the program has ended or is about to.
            if result.is_err() {
                let _ = child.kill();
            }
            result
        });
        if answer.as_ref().is_ok_and(|bytes| bytes.len() as u64 == OUTPUT_LIMIT) {
            let _ = child.kill();
        }
        let status = child.wait().map_err(failed)?;
        let bytes = answer?;
        if status.code().is_none() {
            return Err(SayError::EspeakCrash);
        }
        if !status.success() {
            return Err(SayError::Espeak(format!("{status} with voice '{voice}'")));
        }
        String::from_utf8(bytes).map_err(|_| SayError::Espeak("its output is not UTF-8".to_owned()))
    }
}

/// Takes out the marks of a switch to another language's rules: "(en)" and "(^f^r)".
fn remove_switches(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut depth = 0_usize;
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ if depth == 0 => out.push(c),
            _ => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn espeak() -> Espeak {
        Espeak::find().expect("espeak-ng is installed where tests run")
    }

    #[test]
    fn each_chunk_has_one_answer_even_when_it_is_silent_or_long() {
        let long = "word ".repeat(300);
        let chunks = ["hello", "%%", long.trim(), "world"];
        let answers = espeak().phonemes("en-us", &chunks, &|| false).unwrap();
        assert_eq!(answers.len(), 4);
        assert_eq!((answers[0].as_str(), answers[3].as_str()), ("həlˈo^ʊ", "wˈɜːld"));
        assert!(answers[2].matches("wˈɜːd").count() > 250, "{}", answers[2]);
    }

    #[test]
    fn a_text_that_looks_like_a_command_is_read_as_text() {
        let answers = espeak().phonemes("en-us", &["$(touch /tmp/x); -v fr --help"], &|| false).unwrap();
        assert!(answers[0].contains("tˈʌ"), "{answers:?}");
    }

    #[test]
    fn a_program_that_is_missing_is_an_error() {
        assert!(matches!(
            Espeak::at(Path::new("/no/such")).phonemes("en-us", &["a"], &|| false),
            Err(SayError::Espeak(_))
        ));
    }
}
