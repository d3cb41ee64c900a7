//! One system under test as a child process: started, asked, watched.

use std::{
    io::{BufRead, BufReader, Write},
    path::PathBuf,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{
    BenchError,
    protocol::{self, Answer, Done, Outcome, Ready, Request},
};

/// Linux shows processor times to programs in hundredths of a second on every architecture Hark runs on.
const TICKS_PER_SECOND: f64 = 100.0;

/// The answer to a request of a driver's own.
#[derive(Deserialize)]
#[serde(untagged)]
enum Called<A> {
    Failed { error: String },
    Done(A),
}

/// A loaded system that answers requests.
pub struct Process {
    name: String,
    child: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    log: PathBuf,
    /// Seconds it took to load its model.
    pub load_seconds: f64,
    /// What runs, with its version.
    pub version: String,
}

impl Process {
    /// Starts a driver and waits until its model is loaded; what it prints on the side goes to `log`.
    pub fn start(name: &str, mut command: Command, log: PathBuf) -> Result<Self, BenchError> {
        let log_file = std::fs::File::create(&log).map_err(|source| BenchError::File { path: log.clone(), source })?;
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log_file)
            .spawn()
            .map_err(|source| BenchError::Start { system: name.to_owned(), source })?;
        let requests = child.stdin.take();
        let Some(stdout) = child.stdout.take() else {
            return Err(BenchError::Ended { system: name.to_owned(), log });
        };
        let mut process = Self {
            name: name.to_owned(),
            child,
            requests,
            answers: BufReader::new(stdout),
            log,
            load_seconds: 0.0,
            version: String::new(),
        };
        let line = process.line()?;
        match protocol::parse(name, &line)? {
            Ready::Loaded { load_seconds, version } => {
                process.load_seconds = load_seconds;
                process.version = version;
                Ok(process)
            }
            Ready::Failed { error } => Err(BenchError::System { system: name.to_owned(), error }),
        }
    }

    /// Sends a request without waiting for its answer.
    pub fn ask(&mut self, request: &Request) -> Result<(), BenchError> {
        self.send(request)
    }

    fn send(&mut self, request: &impl Serialize) -> Result<(), BenchError> {
        let mut line = serde_json::to_string(request).map_err(BenchError::Json)?;
        line.push('\n');
        let sent = self
            .requests
            .as_mut()
            .is_some_and(|requests| requests.write_all(line.as_bytes()).and_then(|()| requests.flush()).is_ok());
        if sent { Ok(()) } else { Err(self.ended()) }
    }

    /// Waits for the next answer, whichever request it belongs to.
    pub fn answer(&mut self) -> Result<(u64, Done), BenchError> {
        let line = self.line()?;
        let Answer { id, outcome } = protocol::parse(&self.name, &line)?;
        match outcome {
            Outcome::Done(done) => Ok((id, done)),
            Outcome::Failed { error } => Err(BenchError::System { system: self.name.clone(), error }),
        }
    }

    /// Sends one request and waits for its answer.
    pub fn transcribe(&mut self, request: &Request) -> Result<Done, BenchError> {
        self.ask(request)?;
        Ok(self.answer()?.1)
    }

    /// Sends a request of a driver with requests of its own and waits for the answer, `{"error": …}` being a failure.
    pub fn call<A: DeserializeOwned>(&mut self, request: &impl Serialize) -> Result<A, BenchError> {
        self.send(request)?;
        let line = self.line()?;
        match protocol::parse(&self.name, &line)? {
            Called::Failed { error } => Err(BenchError::System { system: self.name.clone(), error }),
            Called::Done(answer) => Ok(answer),
        }
    }

    /// The child's process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The high-water mark of the child's resident memory in bytes, where the system tells it.
    pub fn peak_memory(&self) -> Option<u64> {
        memory_of(self.pid(), "VmHWM:")
    }

    /// Processor seconds that the child has spent so far, all threads; tells a busy machine from a slow system.
    pub fn cpu_seconds(&self) -> Option<f64> {
        cpu_seconds_of(self.pid())
    }

    fn line(&mut self) -> Result<String, BenchError> {
        let mut line = String::new();
        match self.answers.read_line(&mut line) {
            Ok(length) if length > 0 => Ok(line),
            _ => Err(self.ended()),
        }
    }

    fn ended(&self) -> BenchError {
        BenchError::Ended { system: self.name.clone(), log: self.log.clone() }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // End of input asks it to leave; a driver in the middle of a file would not read that for minutes.
        self.requests = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One line of `/proc/<pid>/status` in bytes, such as `VmRSS:` or `VmHWM:`.
pub fn memory_of(pid: u32, line: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    kilobytes(&status, line).map(|kilobytes| kilobytes * 1024)
}

/// Processor seconds that a process has spent so far, all threads.
pub fn cpu_seconds_of(pid: u32) -> Option<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    ticks(&stat).map(|ticks| ticks as f64 / TICKS_PER_SECOND)
}

/// User and system time, fields 14 and 15; the name before them may hold spaces and brackets.
fn ticks(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

fn kilobytes(status: &str, line: &str) -> Option<u64> {
    let rest = status.lines().find_map(|candidate| candidate.strip_prefix(line))?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Result<Process, BenchError> {
        let mut command = Command::new("sh");
        command.arg("-c").arg(script);
        let log = std::env::temp_dir().join(format!("hark-bench-test-{}-{:p}.log", std::process::id(), script));
        let process = Process::start("fake", command, log.clone());
        let _ = std::fs::remove_file(log);
        process
    }

    fn request(id: u64) -> Request {
        Request { id, audio: "a.wav".into(), language: "en".into(), interactive: false, speakers: None }
    }

    #[test]
    fn a_driver_is_started_asked_and_measured() {
        let mut process = shell(
            r#"echo '{"load_seconds": 0.25, "version": "fake 1"}'; read line; echo '{"id": 5, "text": "hi", "seconds": 2.0}'; read line"#,
        )
        .unwrap();
        assert_eq!((process.load_seconds, process.version.as_str()), (0.25, "fake 1"));
        process.ask(&request(5)).unwrap();
        let (id, done) = process.answer().unwrap();
        assert_eq!((id, done.text.as_str(), done.seconds), (5, "hi", 2.0));
        #[cfg(target_os = "linux")]
        assert!(process.peak_memory().unwrap() > 0);
    }

    #[test]
    fn a_driver_answers_in_its_own_terms_or_says_what_failed() {
        let mut process =
            shell(r#"echo '{"load_seconds": 0, "version": "fake"}'; read line; echo '[1, 2]'; read line; echo '{"error": "no"}'"#)
                .unwrap();
        assert_eq!(process.call::<Vec<u32>>(&"first").unwrap(), [1, 2]);
        assert!(process.call::<Vec<u32>>(&"second").unwrap_err().to_string().contains("no"));
    }

    #[test]
    fn a_driver_that_dies_is_an_error_that_names_it() {
        let mut process = shell(r#"echo '{"load_seconds": 0, "version": "fake"}'; read line"#).unwrap();
        let error = process.transcribe(&request(1)).unwrap_err().to_string();
        assert!(error.contains("fake"), "{error}");
    }

    #[test]
    fn a_driver_that_cannot_load_is_an_error_with_its_reason() {
        let error = shell(r#"echo '{"error": "no model here"}'"#).err().unwrap().to_string();
        assert!(error.contains("no model here"), "{error}");
    }

    #[test]
    fn processor_time_is_user_and_system_together() {
        let stat = "42 (a (b) c) S 1 2 3 4 5 6 7 8 9 10 150 25 0 0 20";
        assert_eq!(ticks(stat), Some(175));
    }

    #[test]
    fn memory_is_read_from_the_line_asked_for() {
        let status = "Name:\thark\nVmHWM:\t  2048 kB\nVmRSS:\t  1024 kB\n";
        assert_eq!(
            (kilobytes(status, "VmRSS:"), kilobytes(status, "VmHWM:"), kilobytes(status, "VmSwap:")),
            (Some(1024), Some(2048), None)
        );
    }
}
