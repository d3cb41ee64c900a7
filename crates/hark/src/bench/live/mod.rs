//! `hark bench live`: real speech at the pace of speech through N sessions at once.
//!
//! Each session replays clips joined in an order of its own, in frames of 2730 bytes, as a caller's microphone would.
//! What a session shows is kept with its time; words are then held against the times that the same model finds in the
//! whole recording. Offline and live see the same sound, so their word error rates compare.

mod figures;

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use clap::Args;
use hark_media::Source;
use hark_speech::live::{LiveEvent, LiveOptions, LiveSession};
use hark_speech::{LoadOptions, Transcriber};
use serde::Serialize;

use super::BenchError;
use super::audio::{RATE, Recording, Scratch, WavWriter, recordings, samples_of};
use super::report::aligned;
use super::systems;
use super::wer::WordErrors;
use crate::models::VAD_MODEL;
use figures::{Figures, Shown, TimedWord};

/// Bytes of a frame, as the contract recommends.
const FRAME_BYTES: usize = 2730;
/// Silence between two clips, in seconds.
const PAUSE: f64 = 0.8;

/// Arguments of `hark bench live`.
#[derive(Debug, Args)]
pub(super) struct LiveArgs {
    /// Folder of WAV clips with their references
    #[arg(long, value_name = "PATH", default_value = "bench/out/corpus/clips")]
    audio: PathBuf,
    /// Lines of a file name without .wav, a tab, and its words [default: refs.tsv beside the clips]
    #[arg(long, value_name = "FILE")]
    refs: Option<PathBuf>,
    /// Model of all sessions
    #[arg(long, value_name = "NAME", default_value = "whisper-base")]
    model: String,
    /// Sessions at once; several numbers are measured one after the other
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1,8")]
    streams: Vec<usize>,
    /// Seconds of speech for each session
    #[arg(long, value_name = "S", default_value_t = 120.0)]
    seconds: f64,
    /// Language spoken; the word error rate knows English only
    #[arg(long, value_name = "CODE", default_value = "en")]
    language: String,
    /// Threads that compute [default: all cores]
    #[arg(long)]
    threads: Option<usize>,
    /// Write the figures as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// What one session hears: its sound, and what is said in it.
struct Script {
    samples: Vec<f32>,
    reference: String,
    /// The words that the model finds in the whole, with their times.
    offline: Vec<TimedWord>,
    offline_text: String,
}

/// One line of the table.
#[derive(Debug, Serialize)]
struct Row {
    streams: usize,
    #[serde(flatten)]
    figures: Figures,
    /// Word error rate of the texts that stay.
    live_wer: Option<f64>,
    /// Word error rate of the same recordings transcribed as files.
    offline_wer: Option<f64>,
}

fn failed(error: impl std::fmt::Display) -> BenchError {
    BenchError::System { system: "hark".to_owned(), error: error.to_string() }
}

pub(super) fn run(args: &LiveArgs) -> Result<(), BenchError> {
    let clips: Vec<Recording> = recordings(std::slice::from_ref(&args.audio), args.refs.as_deref())?
        .into_iter()
        .filter(|clip| clip.reference.is_some())
        .collect();
    if clips.is_empty() {
        return Err(BenchError::NoAudio { place: args.audio.clone() });
    }
    let options = LoadOptions {
        threads: args.threads,
        ..LoadOptions::new(systems::installed(&args.model)?, systems::installed(VAD_MODEL)?)
    };
    let transcriber = Transcriber::load(&options).map_err(failed)?;
    let most = args.streams.iter().copied().max().unwrap_or(1);
    let scratch = Scratch::new()?;
    let scripts: Vec<Script> = (0..most)
        .map(|stream| {
            eprintln!("transcribing recording {} of {most} as a file", stream + 1);
            script(&transcriber, args, &clips, stream * clips.len() / most, &scratch)
        })
        .collect::<Result<_, _>>()?;

    let mut rows = Vec::new();
    for &streams in &args.streams {
        eprintln!("{streams} sessions at once, {:.0} s", args.seconds);
        rows.push(measure(&transcriber, args, &scripts[..streams.min(most)])?);
    }
    crate::output::print(table(args, &transcriber, &rows)).map_err(failed)?;
    if let Some(path) = &args.json {
        let text = serde_json::to_string_pretty(&rows).map_err(BenchError::Json)?;
        std::fs::write(path, text).map_err(|source| BenchError::File { path: path.clone(), source })?;
    }
    Ok(())
}

/// Clips from `first` on, joined with pauses until they last long enough, and what the model makes of them as a file.
fn script(
    transcriber: &Transcriber,
    args: &LiveArgs,
    clips: &[Recording],
    first: usize,
    scratch: &Scratch,
) -> Result<Script, BenchError> {
    let (mut samples, mut words) = (Vec::new(), Vec::new());
    let wanted = (args.seconds * f64::from(RATE)) as usize;
    for clip in clips.iter().cycle().skip(first) {
        if samples.len() >= wanted {
            break;
        }
        samples.extend(samples_of(&clip.path)?);
        samples.extend(vec![0.0; (PAUSE * f64::from(RATE)) as usize]);
        words.extend(clip.reference.clone());
    }
    let path = scratch.file("recording.wav");
    let mut file = WavWriter::create(&path, samples.len() as u64)?;
    file.write(&samples)?;
    file.finish()?;
    let request = hark_speech::Request { language: Some(args.language.clone()), ..hark_speech::Request::default() };
    let heard = transcriber.transcribe(Source::Path(path), &request, &mut |_| {}).map_err(failed)?.result;
    let timed = heard.segments.iter().flat_map(|segment| &segment.words);
    let offline = timed.map(|word| TimedWord { text: word.word.clone(), end: word.end }).collect();
    Ok(Script { samples, reference: words.join(" "), offline, offline_text: heard.text })
}

/// Runs one session for each script and adds up what they showed.
fn measure(transcriber: &Transcriber, args: &LiveArgs, scripts: &[Script]) -> Result<Row, BenchError> {
    let shown: Vec<Result<Shown, BenchError>> = std::thread::scope(|scope| {
        let sessions: Vec<_> = scripts
            .iter()
            .enumerate()
            .map(|(index, script)| {
                // Callers do not begin at the same moment.
                let delay = Duration::from_secs_f64(index as f64 * 0.37 % 2.0);
                scope.spawn(move || {
                    std::thread::sleep(delay);
                    replay(transcriber, args, &script.samples)
                })
            })
            .collect();
        sessions.into_iter().map(|session| session.join().unwrap_or_else(|_| Err(failed("a session died")))).collect()
    });
    let mut figures = figures::Gathered::default();
    let (mut live, mut offline) = (WordErrors::default(), WordErrors::default());
    for (shown, script) in shown.into_iter().zip(scripts) {
        let shown = shown?;
        live += WordErrors::between(&script.reference, &shown.text());
        offline += WordErrors::between(&script.reference, &script.offline_text);
        figures.add(&shown, &script.offline);
    }
    let rate = |errors: WordErrors| errors.rate().map(|rate| rate * 100.0);
    Ok(Row { streams: scripts.len(), figures: figures.figures(), live_wer: rate(live), offline_wer: rate(offline) })
}

/// Sends a recording at the pace of speech and keeps what is shown, with its times.
fn replay(transcriber: &Transcriber, args: &LiveArgs, samples: &[f32]) -> Result<Shown, BenchError> {
    let (wake, woken) = channel();
    let wake = Mutex::new(wake);
    let options = LiveOptions { language: Some(args.language.clone()), ..LiveOptions::default() };
    let mut session = LiveSession::new(transcriber, &options, move || {
        // A session that is over does not listen any more.
        let _ = wake.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).send(());
    })
    .map_err(failed)?;
    let mut shown = Shown::default();
    let begun = Instant::now();
    let mut frames = samples.chunks(FRAME_BYTES / 2);
    let mut sent = 0;
    while !session.is_finished() {
        let due = Duration::from_secs_f64(sent as f64 / f64::from(RATE));
        match woken.recv_timeout(due.saturating_sub(begun.elapsed())) {
            Err(RecvTimeoutError::Timeout) => match frames.next() {
                Some(frame) => {
                    sent += frame.len();
                    session.push(frame);
                }
                None => {
                    session.finish();
                    // From here on only answers are waited for.
                    sent += 3600 * RATE as usize;
                }
            },
            Ok(()) | Err(RecvTimeoutError::Disconnected) => {}
        }
        for event in session.poll().map_err(failed)? {
            let now = begun.elapsed().as_secs_f64();
            match event {
                LiveEvent::Partial { text, .. } => shown.partial(now, &text),
                LiveEvent::Text(text) => shown.text_that_stays(now, &text.text),
                LiveEvent::Final(_) => {}
            }
        }
    }
    Ok(shown)
}

fn table(args: &LiveArgs, transcriber: &Transcriber, rows: &[Row]) -> String {
    let head = ["sessions", "first seen p50", "p95", "stays p50", "p95", "rewrites/word", "WER live", "WER file"];
    let mut lines = vec![head.map(str::to_owned)];
    for row in rows {
        let rate = |rate: Option<f64>| rate.map_or("–".to_owned(), |rate| format!("{rate:.1} %"));
        let Figures { seen_p50, seen_p95, stays_p50, stays_p95, rewrites, .. } = row.figures;
        lines.push([
            row.streams.to_string(),
            format!("{seen_p50:.2} s"),
            format!("{seen_p95:.2} s"),
            format!("{stays_p50:.2} s"),
            format!("{stays_p95:.2} s"),
            format!("{rewrites:.2}"),
            rate(row.live_wer),
            rate(row.offline_wer),
        ]);
    }
    format!(
        "{}, {}, {:.0} s of speech for each session\nseconds from the end of a word until it is seen for good, and until it is told as text that stays\n\n{}",
        args.model,
        transcriber.backend_name(),
        args.seconds,
        aligned(&lines)
    )
}
