//! Hark's side of the voice benchmark's line protocol: a process of its own, so that its memory is counted as the peers' is.

use std::fs::File;
use std::io::{BufRead as _, BufWriter, Read as _, Write as _};
use std::path::Path;
use std::time::Instant;

use clap::Args;
use hark_compute::Compute;
use hark_enhance::Enhancer;
use hark_models::Role;
use hark_tts::{SpeechModel as _, Synthesizer};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::enhance::{EnhanceAnswer, EnhanceRequest};
use super::failed;
use crate::error::BenchError;
use crate::protocol::{self, Ready};
use crate::systems;

/// What the driver is told on its command line.
#[derive(Debug, Args)]
pub struct VoiceDriverArgs {
    /// Threads to use; all cores without it
    #[arg(long)]
    threads: Option<usize>,
    /// Enhance files instead of speaking sentences
    #[arg(long)]
    enhance: bool,
}

/// A sentence to speak.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SpeakRequest {
    /// The phonemes as characters.
    pub(super) phonemes: String,
    /// The same by number, padded.
    pub(super) ids: Vec<u32>,
    pub(super) voice: String,
}

/// What it took.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SpeakAnswer {
    pub(super) seconds: f64,
    /// Samples that were made.
    pub(super) samples: usize,
}

/// Loads a model, then answers requests from standard input until it ends.
pub fn run(args: &VoiceDriverArgs) -> Result<(), BenchError> {
    let compute = Compute::from_options(args.threads, None);
    let begun = Instant::now();
    if args.enhance {
        let load = |folder: std::path::PathBuf| Enhancer::load(&compute, &folder).map_err(of_enhance);
        let model = systems::installed_for(Role::Enhance).and_then(load);
        serve(model, begun, &compute, |model: &Enhancer, request: &EnhanceRequest| {
            let begun = Instant::now();
            enhance(model, request)?;
            Ok(EnhanceAnswer { seconds: begun.elapsed().as_secs_f64() })
        })
    } else {
        let load = |folder: std::path::PathBuf| Synthesizer::load(&compute, &folder).map_err(of_speech);
        let model = systems::installed_for(Role::Voice).and_then(load);
        serve(model, begun, &compute, |model: &Synthesizer, request: &SpeakRequest| {
            let begun = Instant::now();
            let voice = model.voice(&request.voice).map_err(of_speech)?;
            let samples = model.speak(&request.phonemes, voice, 1.0, &|| false).map_err(of_speech)?.len();
            Ok(SpeakAnswer { seconds: begun.elapsed().as_secs_f64(), samples })
        })
    }
}

fn of_speech(error: hark_tts::TtsError) -> BenchError {
    failed("hark-tts", error)
}

fn of_enhance(error: hark_enhance::EnhanceError) -> BenchError {
    failed("hark-enhance", error)
}

/// Says that the model is loaded, or why it is not, and answers each request.
fn serve<M, Q: DeserializeOwned, A: Serialize>(
    loaded: Result<M, BenchError>,
    begun: Instant,
    compute: &Compute,
    answer: impl Fn(&M, &Q) -> Result<A, BenchError>,
) -> Result<(), BenchError> {
    let model = match loaded {
        Ok(model) => model,
        Err(error) => return write_line(&Ready::Failed { error: error.to_string() }),
    };
    let version = format!("hark {}, {}", env!("CARGO_PKG_VERSION"), compute.isa().name());
    write_line(&Ready::Loaded { load_seconds: begun.elapsed().as_secs_f64(), version })?;
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(BenchError::Pipe)?;
        let request = protocol::parse("the benchmark", &line)?;
        match answer(&model, &request) {
            Ok(answer) => write_line(&answer)?,
            Err(error) => write_line(&Ready::Failed { error: error.to_string() })?,
        }
    }
    Ok(())
}

/// From file to file, a second at a time.
fn enhance(model: &Enhancer, request: &EnhanceRequest) -> Result<(), BenchError> {
    let wrong = |path: &Path| {
        let path = path.to_owned();
        move |source| BenchError::File { path, source }
    };
    let mut input = File::open(&request.audio).map_err(wrong(&request.audio))?;
    let mut output = BufWriter::new(File::create(&request.output).map_err(wrong(&request.output))?);
    let mut stream = model.stream(1, &hark_enhance::Options::default()).map_err(of_enhance)?;
    let mut bytes = Vec::new();
    let (mut noisy, mut clean) = (Vec::new(), Vec::new());
    loop {
        bytes.clear();
        let second = u64::from(hark_enhance::SAMPLE_RATE) * 4;
        (&mut input).take(second).read_to_end(&mut bytes).map_err(wrong(&request.audio))?;
        noisy.clear();
        noisy.extend(bytes.as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four)));
        if noisy.is_empty() {
            stream.finish(&mut clean, &|| false).map_err(of_enhance)?;
        } else {
            stream.push(&noisy, &mut clean, &|| false).map_err(of_enhance)?;
        }
        for sample in clean.drain(..) {
            output.write_all(&sample.to_le_bytes()).map_err(wrong(&request.output))?;
        }
        if noisy.is_empty() {
            return output.flush().map_err(wrong(&request.output));
        }
    }
}

fn write_line(message: &impl Serialize) -> Result<(), BenchError> {
    let mut line = serde_json::to_vec(message).map_err(BenchError::Json)?;
    line.push(b'\n');
    let mut out = std::io::stdout().lock();
    out.write_all(&line).and_then(|()| out.flush()).map_err(BenchError::Pipe)
}
