//! `hark bench transcribe`: from its options to a table, a plot and JSON.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use clap::ValueEnum;

use super::{
    BenchError,
    audio::{self, Recording},
    measure, plot,
    report::{self, Report},
    scenarios,
    systems::{self, Device, NotRun, Setup, System},
};

/// Options of `hark bench transcribe`.
#[derive(Debug, clap::Args)]
pub struct TranscribeArgs {
    /// WAV files, or folders of them [default: bench/out/corpus]
    #[arg(long, num_args = 1.., value_name = "PATH")]
    audio: Vec<PathBuf>,

    /// Lines of a file name without .wav, a tab, and its words [default: refs.tsv beside the audio]
    #[arg(long, value_name = "FILE")]
    refs: Option<PathBuf>,

    /// Model that everybody runs
    #[arg(long, default_value = "whisper-base", value_name = "NAME")]
    model: String,

    /// Language spoken; the word error rate knows English only
    #[arg(long, default_value = "en", value_name = "CODE")]
    language: String,

    /// auto, none, or a list of fw-seq, fw-batch8, fw-batch16, fw-f32, cpp, openvino
    #[arg(long, default_value = "auto", value_name = "LIST")]
    peers: String,

    /// Leave Hark out: long, clips and noise of the peers alone
    #[arg(long)]
    no_hark: bool,

    /// Give every word a time
    #[arg(long)]
    words: bool,

    /// Width of the beam for everybody [default: Hark's own default, 1 for the peers]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=32))]
    beam: Option<u32>,

    /// Times that everything is measured
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = parse_rounds)]
    rounds: usize,

    /// Threads for everybody [default: all cores]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,

    /// The best instructions that anybody may use: amx, avx512-bf16, avx512-vnni, avx512, avx-vnni, avx2, portable [default: the machine's]
    #[arg(long, value_name = "NAME")]
    isa: Option<hark_speech::Isa>,

    /// What to measure
    #[arg(long, value_enum, default_value_t = Scenario::Long)]
    scenario: Scenario,
    /// Where the systems run; on a GPU those that can use it, faster-whisper in float16
    #[arg(long, value_enum, default_value_t = Device::Cpu)]
    device: Device,

    /// Length of the long file in mixed (2) and ten-hours (10)
    #[arg(long, value_name = "H")]
    hours: Option<f64>,

    /// Length of each sound in noise
    #[arg(long, default_value_t = 10.0, value_name = "M")]
    minutes: f64,

    /// Write the figures as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Draw the speeds as SVG (long and clips)
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

/// What a run measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Scenario {
    /// One long file: the speed of bulk work
    Long,
    /// Clips one by one: the speed of short requests
    Clips,
    /// 20 files at once against one after the other (Hark only)
    Many,
    /// A 5 s clip during a long file (Hark only)
    Mixed,
    /// Silence, white and pink noise, hum, music: no words may come
    Noise,
    /// Memory over a very long file (Hark only)
    TenHours,
}

fn parse_rounds(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(rounds) if (1..=100).contains(&rounds) => Ok(rounds),
        _ => Err("rounds are 1 to 100".to_owned()),
    }
}

/// Runs one scenario, prints its table and writes what was asked for.
pub fn run(args: &TranscribeArgs) -> Result<(), BenchError> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let setup = Setup {
        model: args.model.clone(),
        model_folder: systems::installed(&args.model)?,
        words: args.words,
        beam: args.beam,
        threads: args.threads.unwrap_or(cores),
        isa: args.isa,
        device: args.device,
        bench_folder: systems::bench_folder(),
    };
    let found = || found_audio(args, &setup);
    let (text, json, plot) = match args.scenario {
        Scenario::Long | Scenario::Clips => {
            let report = contest(args, &setup, &found()?)?;
            (report.table(), to_json(&report)?, Some(plot::svg(&report)))
        }
        Scenario::Many => {
            let speech = first(found()?)?;
            let many =
                scenarios::many(systems::hark(&setup)?, &speech.path, speech.seconds, &args.language, args.rounds)?;
            (many.table(), to_json(&many)?, None)
        }
        Scenario::Mixed => {
            let speech = first(found()?)?;
            let mixed =
                scenarios::mixed(systems::hark(&setup)?, &speech.path, &args.language, args.hours.unwrap_or(2.0))?;
            (mixed.table(), to_json(&mixed)?, None)
        }
        Scenario::Noise => {
            let (systems, not_run) = contestants(args, &setup)?;
            let noise = scenarios::noise(systems, not_run, &args.language, args.minutes)?;
            (noise.table(), to_json(&noise)?, None)
        }
        Scenario::TenHours => {
            let speech = first(found()?)?;
            let memory = scenarios::long_memory(
                systems::hark(&setup)?,
                &speech.path,
                &args.language,
                args.hours.unwrap_or(10.0),
            )?;
            (memory.table(), to_json(&memory)?, None)
        }
    };
    std::io::stdout().write_all(text.as_bytes()).map_err(BenchError::Pipe)?;
    if let Some(path) = &args.json {
        write_file(path, &json)?;
    }
    match (&args.plot, plot) {
        (Some(path), Some(plot)) => write_file(path, &plot)?,
        (Some(_), None) => eprintln!("this scenario has no plot; the figures are in --json"),
        (None, _) => {}
    }
    Ok(())
}

fn contest(args: &TranscribeArgs, setup: &Setup, recordings: &[Recording]) -> Result<Report, BenchError> {
    let (systems, mut not_run) = contestants(args, setup)?;
    let measured = measure::alternate(systems, recordings, &args.language, args.rounds)?;
    not_run.extend(measured.not_run);
    let mut report = Report {
        scenario: if args.scenario == Scenario::Clips { "clips" } else { "long" }.to_owned(),
        model: setup.model.clone(),
        files: recordings.len(),
        audio_seconds: recordings.iter().map(|recording| recording.seconds).sum(),
        words: setup.words,
        rounds: args.rounds,
        machine: report::machine(measured.load),
        systems: measured.systems,
        not_run,
        best_peer: None,
        ratio_to_best_peer: None,
        ratio_to_best_peer_spread: None,
    };
    report.compare();
    Ok(report)
}

/// Hark, unless it is left out, and the peers that were asked for.
fn contestants(args: &TranscribeArgs, setup: &Setup) -> Result<(Vec<System>, Vec<NotRun>), BenchError> {
    let (mut systems, not_run) = systems::peers(&args.peers, setup)?;
    if !args.no_hark {
        systems.insert(0, systems::hark(setup)?);
    }
    Ok((systems, not_run))
}

/// The audio that was named, or the corpus that `bench/corpus.py` built. Of a corpus folder, `clips` takes its
/// clips and every other scenario its long file.
fn found_audio(args: &TranscribeArgs, setup: &Setup) -> Result<Vec<Recording>, BenchError> {
    let corpus = || setup.bench_folder.clone().unwrap_or_else(|| PathBuf::from("bench")).join("out/corpus");
    let named = if args.audio.is_empty() { vec![corpus()] } else { args.audio.clone() };
    let paths: Vec<PathBuf> = named
        .into_iter()
        .map(|path| {
            let part = path.join(if args.scenario == Scenario::Clips { "clips" } else { "long.wav" });
            if part.exists() { part } else { path }
        })
        .collect();
    if let Some(missing) = paths.iter().find(|path| !path.exists()) {
        return Err(BenchError::NoAudio { place: missing.clone() });
    }
    audio::recordings(&paths, args.refs.as_deref())
}

fn first(recordings: Vec<Recording>) -> Result<Recording, BenchError> {
    recordings.into_iter().next().ok_or(BenchError::NoAudio { place: PathBuf::new() })
}

fn to_json(figures: &impl serde::Serialize) -> Result<String, BenchError> {
    serde_json::to_string_pretty(figures).map(|json| json + "\n").map_err(BenchError::Json)
}

fn write_file(path: &Path, text: &str) -> Result<(), BenchError> {
    std::fs::write(path, text).map_err(|source| BenchError::File { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Options {
        #[command(flatten)]
        args: TranscribeArgs,
    }

    fn transcribe_args(args: &[&str]) -> TranscribeArgs {
        Options::parse_from(["transcribe"].iter().chain(args)).args
    }

    #[test]
    fn a_corpus_folder_gives_its_clips_or_its_long_file() {
        let scratch = audio::Scratch::new().unwrap();
        std::fs::create_dir(scratch.file("clips")).unwrap();
        for name in ["long.wav", "clips/a.wav", "clips/b.wav"] {
            audio::WavWriter::create(&scratch.file(name), 0).unwrap().finish().unwrap();
        }
        let setup = Setup {
            model: String::new(),
            model_folder: PathBuf::new(),
            words: false,
            beam: None,
            threads: 1,
            isa: None,
            device: Device::Cpu,
            bench_folder: None,
        };
        let folder = scratch.folder.to_string_lossy();
        let names = |scenario: &str| -> Vec<String> {
            let args = transcribe_args(&["--audio", &folder, "--scenario", scenario]);
            found_audio(&args, &setup)
                .unwrap()
                .iter()
                .map(|file| file.path.file_name().unwrap().to_string_lossy().into_owned())
                .collect()
        };
        assert_eq!(names("clips"), ["a.wav", "b.wav"]);
        assert_eq!(names("mixed"), ["long.wav"]);
    }

    #[test]
    fn audio_that_is_not_there_is_an_error_that_says_how_to_get_some() {
        let args = transcribe_args(&["--audio", "no/such/folder"]);
        let setup = Setup {
            model: String::new(),
            model_folder: PathBuf::new(),
            words: false,
            beam: None,
            threads: 1,
            isa: None,
            device: Device::Cpu,
            bench_folder: None,
        };
        let error = found_audio(&args, &setup).unwrap_err().to_string();
        assert!(error.contains("bench/corpus.py"), "{error}");
    }
}
