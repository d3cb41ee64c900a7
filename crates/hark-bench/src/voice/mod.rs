//! `hark bench voice`: how well speech is understood and how fast it is made, what noise reduction takes away, and what the watermark survives.
//!
//! In: the texts of `bench/text`; real speech among the installed test sounds, or in folders that are named; the peers that `bench/peers_voice.sh`
//! installed. Out: tables and JSON. Audibility of the watermark is measured outside: `--pairs` writes clean and marked clips, which
//! `bench/audibility.py` compares.

mod changes;
mod clips;
mod contest;
mod driver;
mod enhance;
mod matching;
mod mixtures;
mod peers;
mod speak;
mod texts;
mod watermark;

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use serde::Serialize;

use crate::error::BenchError;
use crate::print;
pub use driver::{VoiceDriverArgs, run as run_driver};
use texts::Texts;

/// Arguments of `hark bench voice`.
#[derive(Debug, Args)]
pub(super) struct VoiceArgs {
    /// What to measure; several with commas [default: everything]
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Part>,
    /// Clips of 5 s that are marked
    #[arg(long, value_name = "N", default_value_t = 100)]
    clips: usize,
    /// Hours of unmarked speech in which marks are looked for; recordings come again at other speeds
    #[arg(long, value_name = "HOURS", default_value_t = 1.0)]
    hours: f64,
    /// Folders with unmarked speech in which marks are looked for, every recording once, instead of `--hours`
    #[arg(long, value_name = "DIR", value_delimiter = ',')]
    unmarked: Vec<PathBuf>,
    /// Folders with speech: audio files of which every part is speech, or with RTTM references [default: the installed test sounds]
    #[arg(long, value_name = "DIR", value_delimiter = ',')]
    sounds: Vec<PathBuf>,
    /// Changes by name, with commas [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    changes: Vec<String>,
    /// Write the clips, clean and marked, to the folders `clean` and `marked` of this folder
    #[arg(long, value_name = "DIR")]
    pairs: Option<PathBuf>,
    /// Sentences that are spoken and transcribed
    #[arg(long, value_name = "N", default_value_t = 100)]
    sentences: usize,
    /// The model that transcribes them
    #[arg(long, value_name = "MODEL", default_value = "whisper-base")]
    recognizer: String,
    /// Seconds for which a matching voice is searched
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    match_seconds: f64,
    /// Folder of recordings, `<voice>/1.wav` and `2.wav`, that voices are matched to [default: bench/out/voices]
    #[arg(long, value_name = "DIR")]
    references: Option<PathBuf>,
    /// Voices of it that are matched; bench/embedding_map.py leaves out the first 12
    #[arg(long, value_name = "N", default_value_t = 12)]
    voices: usize,
    /// Voices of it that noise is added to
    #[arg(long, value_name = "N", default_value_t = 8)]
    mixed_voices: usize,
    /// Minutes of the long recording whose memory is compared with that of a minute
    #[arg(long, value_name = "MINUTES", default_value_t = 60)]
    long_minutes: usize,
    /// Times that speed is measured, in turns with the peers
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: usize,
    /// Measure beside the peers that are installed
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
    with_peers: bool,
    /// Threads for everybody [default: all cores]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Write the figures as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Speech: `words`, `speech-speed`, `first-sound` and `matching`
    Speak,
    /// Word errors of sentences that are spoken and transcribed
    Words,
    /// Speed beside ONNX Runtime on the same weights
    SpeechSpeed,
    /// Time to the first sound of 200 characters
    FirstSound,
    /// How near matched voices come to their references
    Matching,
    /// Noise reduction: `denoising`, `denoised-words` and `denoising-memory`
    Enhance,
    /// SI-SDR, PESQ, STOI and speed beside DeepFilterNet's own library and RNNoise
    Denoising,
    /// Word errors of clips with noise, before and after
    DenoisedWords,
    /// Memory after a minute and after an hour
    DenoisingMemory,
    /// The watermark: payloads read after each change, false alarms, time
    Watermark,
}

impl Part {
    fn group(self) -> Option<Part> {
        match self {
            Part::Words | Part::SpeechSpeed | Part::FirstSound | Part::Matching => Some(Part::Speak),
            Part::Denoising | Part::DenoisedWords | Part::DenoisingMemory => Some(Part::Enhance),
            Part::Speak | Part::Enhance | Part::Watermark => None,
        }
    }
}

impl VoiceArgs {
    fn wants(&self, part: Part) -> bool {
        self.only.is_empty()
            || self.only.contains(&part)
            || part.group().is_some_and(|group| self.only.contains(&group))
    }

    fn threads(&self) -> usize {
        self.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
    }
}

/// What was measured; parts that were not asked for are none.
#[derive(Debug, Default, Serialize)]
struct Report {
    words: Option<speak::Words>,
    speech_speed: Option<speak::Speeds>,
    first_sound: Option<speak::FirstSound>,
    matching: Option<matching::Matching>,
    denoising: Option<enhance::Quality>,
    denoised_words: Option<enhance::Words>,
    denoising_memory: Option<enhance::Memory>,
    watermark: Option<watermark::Report>,
}

/// Runs the benchmark.
pub(super) fn run(args: &VoiceArgs) -> Result<(), BenchError> {
    let mut report = Report::default();
    let of_speech = [Part::Words, Part::SpeechSpeed, Part::FirstSound];
    if of_speech.into_iter().any(|part| args.wants(part)) {
        let bench = speak::bench_folder()?;
        let texts = Texts::read(&bench)?;
        if args.wants(Part::Words) {
            let words = speak::words(args, &texts, &bench)?;
            print(&words.table())?;
            report.words = Some(words);
        }
        if args.wants(Part::SpeechSpeed) {
            let speeds = speak::speeds(args, &texts, &bench)?;
            print(&speeds.table())?;
            report.speech_speed = Some(speeds);
        }
        if args.wants(Part::FirstSound) {
            let first_sound = speak::first_sound(args, &texts)?;
            print(&first_sound.table())?;
            report.first_sound = Some(first_sound);
        }
    }
    if args.wants(Part::Matching) {
        let matching = matching::run(args, &speak::bench_folder()?)?;
        print(&matching.table())?;
        report.matching = Some(matching);
    }
    if args.wants(Part::Denoising) {
        let quality = enhance::quality(args, &speak::bench_folder()?)?;
        print(&quality.table())?;
        report.denoising = Some(quality);
    }
    if args.wants(Part::DenoisedWords) {
        let words = enhance::words(args, &speak::bench_folder()?)?;
        print(&words.table())?;
        report.denoised_words = Some(words);
    }
    if args.wants(Part::DenoisingMemory) {
        let memory = enhance::memory(args, &speak::bench_folder()?)?;
        print(&memory.table())?;
        report.denoising_memory = Some(memory);
    }
    if args.wants(Part::Watermark) {
        report.watermark = Some(watermark::run(args)?);
    }
    if let Some(path) = &args.json {
        let text = serde_json::to_string_pretty(&report).map_err(BenchError::Json)?;
        std::fs::write(path, text).map_err(|source| BenchError::File { path: path.clone(), source })?;
    }
    Ok(())
}

/// A failure of something that the benchmark uses.
fn failed(what: &str, error: impl std::fmt::Display) -> BenchError {
    BenchError::System { system: what.to_owned(), error: error.to_string() }
}
