//! Hark's side of the line protocol: `hark bench driver`, which the benchmark starts as it starts the peers.
//!
//! Requests run at the same time, as a service's do; the engine's own scheduler decides whose turn it is.

use std::{
    io::{BufRead, Write},
    path::PathBuf,
    sync::Mutex,
    time::Instant,
};

use hark_media::Source;
use hark_speech::{Compute, DeviceChoice, Isa, Lane, LoadOptions, Precision, Transcriber};

use super::{
    BenchError,
    protocol::{self, Answer, Done, Outcome, Ready, Request},
    systems,
};
use hark_models::{ModelStore, Role};

/// What the driver is told on its command line.
#[derive(Debug, clap::Args)]
pub struct DriverArgs {
    /// Model's name in the models folder
    #[arg(long, default_value = "whisper-base")]
    pub model: String,
    /// Width of the beam; Hark's default without it
    #[arg(long)]
    pub beam: Option<u32>,
    /// Give every word a time
    #[arg(long)]
    pub words: bool,
    /// Threads to use; all cores without it
    #[arg(long)]
    pub threads: Option<usize>,
    /// Kernels to use: amx, avx512-bf16, avx512-vnni, avx512, avx-vnni, avx2 or portable; the machine's best without it
    #[arg(long)]
    pub isa: Option<Isa>,
    /// Where the model runs: cpu, cuda or cuda:N
    #[arg(long, default_value = "cpu")]
    pub device: DeviceChoice,
    /// Numbers on a GPU: bf16, fp8-windows or fp8
    #[arg(long, env = "HARK_GPU_PRECISION", default_value = "fp8-windows")]
    pub gpu_precision: Precision,
}

/// The text and the counts of one transcript.
struct Heard {
    text: String,
    segments: usize,
    words: usize,
}

/// Something that transcribes files, several at a time.
trait Engine: Sync {
    fn transcribe(&self, request: &Request) -> Result<Heard, String>;
}

/// Loads the model, then answers requests from standard input until it ends.
pub fn run(args: &DriverArgs) -> Result<(), BenchError> {
    let started = Instant::now();
    let mut out = std::io::stdout();
    match load(args) {
        Ok(engine) => {
            let version = format!("hark {}, {}", env!("CARGO_PKG_VERSION"), engine.transcriber.backend_name());
            write_line(&mut out, &Ready::Loaded { load_seconds: started.elapsed().as_secs_f64(), version })?;
            serve(&engine, std::io::stdin().lock(), out)
        }
        Err(error) => write_line(&mut out, &Ready::Failed { error: error.to_string() }),
    }
}

/// The speech pipeline with what every request of this run has in common: the one place that calls it.
struct Hark {
    transcriber: Transcriber,
    words: bool,
    beam: usize,
}

fn load(args: &DriverArgs) -> Result<Hark, BenchError> {
    let failed =
        |error: hark_speech::SpeechError| BenchError::System { system: "hark".to_owned(), error: error.to_string() };
    let vad = systems::installed_for(Role::Vad)?;
    let beam = args.beam.map_or(hark_speech::Request::default().beam, |beam| beam as usize);
    let options = LoadOptions {
        compute: Some(Compute::from_options(args.threads, args.isa)),
        // Caches are made for the widest beam: no wider than this run needs.
        widest_beam: beam,
        devices: args.device.devices_in(&ModelStore::default_dir(), args.gpu_precision),
        ..LoadOptions::new(systems::installed(&args.model)?, vad)
    };
    let transcriber = Transcriber::load(&options).map_err(failed)?;
    Ok(Hark { transcriber, words: args.words, beam })
}

impl Engine for Hark {
    fn transcribe(&self, request: &Request) -> Result<Heard, String> {
        let wanted = hark_speech::Request {
            language: Some(request.language.clone()),
            words: self.words,
            beam: self.beam,
            // A whole file says by its length who waits for it; the benchmark says so where that is the question.
            lane: request.interactive.then_some(Lane::Interactive),
            ..hark_speech::Request::default()
        };
        let source = Source::Path(PathBuf::from(&request.audio));
        let result =
            self.transcriber.transcribe(source, &wanted, &mut |_| {}).map_err(|error| error.to_string())?.result;
        Ok(Heard {
            segments: result.segments.len(),
            words: result.segments.iter().map(|segment| segment.words.len()).sum(),
            text: result.text,
        })
    }
}

fn serve(engine: &dyn Engine, requests: impl BufRead, answers: impl Write + Send) -> Result<(), BenchError> {
    let answers = Mutex::new(answers);
    std::thread::scope(|scope| {
        for line in requests.lines() {
            let line = line.map_err(BenchError::Pipe)?;
            if line.trim().is_empty() {
                continue;
            }
            let request: Request = protocol::parse("the benchmark", &line)?;
            let answers = &answers;
            scope.spawn(move || {
                let started = Instant::now();
                let outcome = match engine.transcribe(&request) {
                    Ok(heard) => Outcome::Done(Done {
                        text: heard.text,
                        seconds: started.elapsed().as_secs_f64(),
                        segments: heard.segments,
                        words: heard.words,
                        peak_rss: super::process::memory_of(std::process::id(), "VmHWM:").unwrap_or(0),
                        turns: Vec::new(),
                        spoken_words: Vec::new(),
                        live: None,
                    }),
                    Err(error) => Outcome::Failed { error },
                };
                let mut answers = answers.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                // A parent that has gone reads nothing; the end of our input tells us the same.
                let _ = write_line(&mut *answers, &Answer { id: request.id, outcome });
            });
        }
        Ok(())
    })
}

fn write_line(out: &mut impl Write, message: &impl serde::Serialize) -> Result<(), BenchError> {
    let mut line = serde_json::to_vec(message).map_err(BenchError::Json)?;
    line.push(b'\n');
    out.write_all(&line).and_then(|()| out.flush()).map_err(BenchError::Pipe)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    struct Echo;

    impl Engine for Echo {
        fn transcribe(&self, request: &Request) -> Result<Heard, String> {
            match request.audio.as_str() {
                "missing.wav" => Err("no such file".to_owned()),
                audio => Ok(Heard { text: audio.to_owned(), segments: 1, words: 2 }),
            }
        }
    }

    /// Answers only when two requests are in it at once: a driver that takes them in turn would never end.
    struct Pair(Barrier);

    impl Engine for Pair {
        fn transcribe(&self, _: &Request) -> Result<Heard, String> {
            self.0.wait();
            Ok(Heard { text: String::new(), segments: 0, words: 0 })
        }
    }

    fn answers(engine: &dyn Engine, requests: &str) -> Vec<Answer> {
        let mut out = Vec::new();
        serve(engine, requests.as_bytes(), &mut out).unwrap();
        let mut answers: Vec<Answer> =
            String::from_utf8(out).unwrap().lines().map(|line| protocol::parse("test", line).unwrap()).collect();
        answers.sort_by_key(|answer| answer.id);
        answers
    }

    #[test]
    fn every_request_gets_its_own_answer() {
        let lines = "{\"id\":1,\"audio\":\"a.wav\",\"language\":\"en\"}\n\n{\"id\":2,\"audio\":\"missing.wav\",\"language\":\"en\"}\n";
        let answers = answers(&Echo, lines);
        assert_eq!(answers.len(), 2);
        assert!(matches!(&answers[0].outcome, Outcome::Done(done) if done.text == "a.wav" && done.words == 2));
        assert_eq!(answers[1].outcome, Outcome::Failed { error: "no such file".into() });
    }

    #[test]
    fn requests_run_at_the_same_time() {
        let lines = "{\"id\":1,\"audio\":\"a\",\"language\":\"en\"}\n{\"id\":2,\"audio\":\"b\",\"language\":\"en\"}\n";
        assert_eq!(answers(&Pair(Barrier::new(2)), lines).len(), 2);
    }

    #[test]
    fn a_line_that_is_no_request_ends_the_driver_with_an_error() {
        assert!(serve(&Echo, "hello\n".as_bytes(), Vec::new()).is_err());
    }
}
