//! Hark's side of the line protocol for `hark bench diarize`, in a process of its own as the peers are.

use std::{
    io::{BufRead, Write},
    path::Path,
    time::Instant,
};

use hark_media::Source;
use hark_speakers::{Compute, Diarization, Diarizer, Embedder, Isa, SAMPLE_RATE, Segmenter};
use hark_speech::{LoadOptions, Transcriber, Voices};

use super::live;
use crate::{
    BenchError, audio,
    protocol::{self, Answer, Done, Outcome, Ready, Request},
    systems,
};
use hark_models::Role;

/// What the driver is told on its command line.
#[derive(Debug, clap::Args)]
pub struct DiarizeDriverArgs {
    /// Threads to use; all cores without it
    #[arg(long)]
    threads: Option<usize>,
    /// Kernels to use; the machine's best without it
    #[arg(long)]
    isa: Option<Isa>,
    /// Also transcribe with this model and tell who said each word
    #[arg(long, value_name = "MODEL")]
    words: Option<String>,
    /// Also hear every recording in a live session of this model
    #[arg(long, value_name = "MODEL")]
    live: Option<String>,
}

/// What hears: the networks, and transcribers where words are asked for, of files and of live sessions.
struct Hark {
    networks: (Segmenter, Embedder),
    transcriber: Option<Transcriber>,
    live: Option<Transcriber>,
}

/// Loads the networks, then answers requests from standard input until it ends.
pub fn run(args: &DiarizeDriverArgs) -> Result<(), BenchError> {
    let started = Instant::now();
    let mut out = std::io::stdout();
    let mut write =
        |line: String| out.write_all((line + "\n").as_bytes()).and_then(|()| out.flush()).map_err(BenchError::Pipe);
    let isa = args.isa.unwrap_or_else(Isa::best);
    let mut hark = match load(args, isa) {
        Ok(hark) => hark,
        Err(error) => return write(json(&Ready::Failed { error: error.to_string() })?),
    };
    let version = format!("hark {}, {}", env!("CARGO_PKG_VERSION"), isa.name());
    write(json(&Ready::Loaded { load_seconds: started.elapsed().as_secs_f64(), version })?)?;
    for line in std::io::stdin().lock().lines() {
        let request: Request = protocol::parse("the benchmark", &line.map_err(BenchError::Pipe)?)?;
        let outcome = match diarize(&mut hark, &request) {
            Ok(done) => Outcome::Done(done),
            Err(error) => Outcome::Failed { error: error.to_string() },
        };
        write(json(&Answer { id: request.id, outcome })?)?;
    }
    Ok(())
}

fn load(args: &DiarizeDriverArgs, isa: Isa) -> Result<Hark, BenchError> {
    let failed = |error: hark_speakers::SpeakersError| BenchError::System {
        system: "hark".to_owned(),
        error: error.to_string(),
    };
    let compute = Compute::from_options(args.threads, Some(isa));
    let (segmentation, embedding) =
        (systems::installed_for(Role::Segmentation)?, systems::installed_for(Role::Embedding)?);
    let networks = (
        Segmenter::load(&segmentation, &compute).map_err(failed)?,
        Embedder::load(&embedding, &compute).map_err(failed)?,
    );
    let speech = |model: &str, voices: Option<Voices>| {
        let options = LoadOptions {
            compute: Some(compute.clone()),
            voices,
            ..LoadOptions::new(systems::installed(model)?, systems::installed_for(Role::Vad)?)
        };
        Transcriber::load(&options).map_err(|error| speech_failed(&error))
    };
    let transcriber = args.words.as_ref().map(|model| speech(model, None)).transpose()?;
    let live = match &args.live {
        Some(model) => {
            let voices = Voices::load(&segmentation, &embedding, &compute);
            Some(speech(model, Some(voices.map_err(|error| speech_failed(&error))?))?)
        }
        None => None,
    };
    Ok(Hark { networks, transcriber, live })
}

pub(super) fn speech_failed(error: &hark_speech::SpeechError) -> BenchError {
    BenchError::System { system: "hark".to_owned(), error: error.to_string() }
}

/// Each word of a recording with its speaker, by the rule of transcription.
fn spoken_words(
    transcriber: &Transcriber,
    audio: &str,
    told: &Diarization,
) -> Result<Vec<(f64, f64, String)>, BenchError> {
    let wanted = hark_speech::Request { words: true, ..hark_speech::Request::default() };
    let heard = transcriber
        .transcribe(Source::Path(audio.into()), &wanted, &mut |_| {})
        .map_err(|error| speech_failed(&error))?;
    let mut words = Vec::new();
    for segment in hark_speech::assign(heard.result.segments, told) {
        let Some(speaker) = segment.speaker else { continue };
        words.extend(segment.words.iter().map(|word| (word.start, word.end, speaker.clone())));
    }
    Ok(words)
}

fn diarize(hark: &mut Hark, request: &Request) -> Result<Done, BenchError> {
    let started = Instant::now();
    let samples = audio::samples_of(Path::new(&request.audio))?;
    let mut diarizer = Diarizer::new(&mut hark.networks);
    samples.chunks(SAMPLE_RATE).for_each(|samples| diarizer.push(samples));
    let told = diarizer.finish(request.speakers);
    let turns: Vec<(f64, f64, String)> =
        told.turns.iter().map(|turn| (turn.start, turn.end, turn.speaker.to_string())).collect();
    let seconds = started.elapsed().as_secs_f64();
    let spoken_words = match &hark.transcriber {
        Some(transcriber) => spoken_words(transcriber, &request.audio, &told)?,
        None => Vec::new(),
    };
    let live = hark.live.as_ref().map(|transcriber| live::replay(transcriber, &samples)).transpose()?;
    Ok(Done {
        text: String::new(),
        seconds,
        segments: turns.len(),
        words: 0,
        peak_rss: crate::process::memory_of(std::process::id(), "VmHWM:").unwrap_or(0),
        turns,
        spoken_words,
        live,
    })
}

fn json(message: &impl serde::Serialize) -> Result<String, BenchError> {
    serde_json::to_string(message).map_err(BenchError::Json)
}
