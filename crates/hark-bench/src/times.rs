//! `hark bench times`: how near the times of words are to where people begin and end to speak.
//!
//! Clips are joined with pauses of known lengths, over a soft noise, so that it is known where each utterance begins and ends: by the level
//! of its own sound before anything was added. Its first and its last word are held against that.

use std::path::{Path, PathBuf};

use clap::Args;
use hark_media::Source;
use hark_numeric::SplitMix64;
use hark_speech::{Compute, LoadOptions, Request, Transcriber};
use serde::Serialize;

use super::BenchError;
use super::audio::{RATE, Scratch, WavWriter, recordings, samples_of};
use super::english;
use super::report::aligned;
use super::systems;
use hark_models::Role;

/// Samples of a frame whose level is measured.
const FRAME: usize = RATE as usize / 100;
/// How far below its loud parts, in decibels, sound still is speech.
const SPEECH_RANGE: f64 = 35.0;
/// Frames of speech that follow each other where an utterance begins: one alone is a click.
const SPEECH_FRAMES: usize = 3;
/// Sound that is kept around an utterance, in samples.
const KEPT: usize = RATE as usize / 20;
/// Words that last longer than this.
const LONG_WORD: f64 = 2.0;

/// Arguments of `hark bench times`.
#[derive(Debug, Args)]
pub struct TimesArgs {
    /// Folder of WAV clips, each an utterance
    #[arg(long, default_value = "bench/out/prompts/clips", value_name = "PATH")]
    audio: PathBuf,
    /// Clips that are joined
    #[arg(long, default_value_t = 60, value_name = "N")]
    clips: usize,
    /// Pauses between them, the shortest and the longest, in seconds
    #[arg(long, value_delimiter = ',', default_values_t = [0.3, 5.0], value_name = "S")]
    pauses: Vec<f64>,
    /// How far below the speech the noise is, in decibels; several are measured one after the other
    #[arg(long, value_delimiter = ',', default_values_t = [50.0, 20.0], value_name = "DB")]
    noise: Vec<f64>,
    /// Model
    #[arg(long, default_value = "whisper-base", value_name = "NAME")]
    model: String,
    /// Language spoken
    #[arg(long, default_value = "en", value_name = "CODE")]
    language: String,
    /// Width of the beam
    #[arg(long, default_value_t = 1, value_name = "N")]
    beam: usize,
    /// Threads that compute [default: all cores]
    #[arg(long)]
    threads: Option<usize>,
    /// Print the utterances whose times are furthest off
    #[arg(long)]
    worst: bool,
    /// Write the figures as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// An utterance and where it is in the recording, in seconds.
struct Utterance {
    samples: Vec<f32>,
    words: Vec<String>,
    start: f64,
    end: f64,
}

/// How far times are off, in seconds.
#[derive(Debug, Serialize)]
struct Errors {
    /// Utterances whose word was found.
    count: usize,
    /// With its sign: below zero is too early.
    median_signed: f64,
    median: f64,
    p90: f64,
    worst: f64,
}

#[derive(Debug, Serialize)]
struct Row {
    noise: f64,
    starts: Errors,
    ends: Errors,
    /// Words that last longer than two seconds.
    long_words: usize,
}

fn failed(error: impl std::fmt::Display) -> BenchError {
    BenchError::System { system: "times".to_owned(), error: error.to_string() }
}

pub(super) fn run(args: &TimesArgs) -> Result<(), BenchError> {
    let files = recordings(std::slice::from_ref(&args.audio), None)?;
    if files.is_empty() {
        return Err(BenchError::NoAudio { place: args.audio.clone() });
    }
    let options = LoadOptions {
        compute: Some(Compute::from_options(args.threads, None)),
        widest_beam: args.beam,
        ..LoadOptions::new(systems::installed(&args.model)?, systems::installed_for(Role::Vad)?)
    };
    let transcriber = Transcriber::load(&options).map_err(failed)?;
    let scratch = Scratch::new()?;
    let mut utterances = Vec::new();
    let step = (files.len() / args.clips.max(1)).max(1);
    for file in files.iter().step_by(step).take(args.clips) {
        let samples = samples_of(&file.path)?;
        let heard = hear(&transcriber, args, &file.path)?;
        let words: Vec<String> = heard.into_iter().map(|word| word.text).collect();
        if let Some((first, last)) = spoken(&samples)
            && !words.is_empty()
        {
            let (from, to) = (first.saturating_sub(KEPT), (last + KEPT).min(samples.len()));
            let of_clip = |sample: usize| (sample - from) as f64 / f64::from(RATE);
            let samples = faded(&samples[from..to]);
            utterances.push(Utterance { samples, words, start: of_clip(first), end: of_clip(last) });
        }
    }
    let joined = join(&mut utterances, &args.pauses);
    let mut rows = Vec::new();
    for &noise in &args.noise {
        let path = scratch.file("joined.wav");
        let samples = with_noise(&joined, noise);
        let mut file = WavWriter::create(&path, samples.len() as u64)?;
        file.write(&samples)?;
        file.finish()?;
        rows.push(row(args, noise, &utterances, &hear(&transcriber, args, &path)?));
    }
    crate::print(&table(args, utterances.len(), &rows))?;
    if let Some(path) = &args.json {
        let text = serde_json::to_string_pretty(&rows).map_err(BenchError::Json)?;
        std::fs::write(path, text).map_err(|source| BenchError::File { path: path.clone(), source })?;
    }
    Ok(())
}

/// A word with its times.
struct Heard {
    text: String,
    start: f64,
    end: f64,
}

/// The words of a file in plain English. What is several words in plain English ("25") has one time.
fn hear(transcriber: &Transcriber, args: &TimesArgs, path: &Path) -> Result<Vec<Heard>, BenchError> {
    let request = Request { language: Some(args.language.clone()), beam: args.beam, words: true, ..Request::default() };
    let done = transcriber.transcribe(Source::Path(path.to_owned()), &request, &mut |_| {}).map_err(failed)?;
    let words = done.result.segments.into_iter().flat_map(|segment| segment.words);
    let plain = |word: hark_transcript::Word| {
        let words = english::words(&word.word);
        words.into_iter().map(move |text| Heard { text, start: word.start, end: word.end })
    };
    Ok(words.flat_map(plain).collect())
}

/// The first sample of speech and the one after the last, by the level of frames.
fn spoken(samples: &[f32]) -> Option<(usize, usize)> {
    let level = |frame: &[f32]| {
        10.0 * (frame.iter().map(|x| f64::from(x * x)).sum::<f64>() / frame.len() as f64 + 1e-12).log10()
    };
    let levels: Vec<f64> = samples.chunks_exact(FRAME).map(level).collect();
    let mut sorted = levels.clone();
    sorted.sort_by(f64::total_cmp);
    let loud = *sorted.get(sorted.len() * 19 / 20)?;
    let is_speech = |frames: &[f64]| frames.iter().all(|level| *level > loud - SPEECH_RANGE);
    let first = levels.windows(SPEECH_FRAMES).position(is_speech)?;
    let last = levels.windows(SPEECH_FRAMES).rposition(is_speech)? + SPEECH_FRAMES;
    Some((first * FRAME, (last * FRAME).min(samples.len())))
}

/// The same samples, with soft edges.
fn faded(samples: &[f32]) -> Vec<f32> {
    let edge = KEPT.min(samples.len() / 2);
    let gain = |at: usize| (at.min(samples.len() - 1 - at) as f32 / edge.max(1) as f32).min(1.0);
    samples.iter().enumerate().map(|(at, sample)| sample * gain(at)).collect()
}

/// Joins the utterances with pauses between where one ends and the next begins, and sets their times.
fn join(utterances: &mut [Utterance], pauses: &[f64]) -> Vec<f32> {
    let (shortest, longest) = (pauses.first().copied().unwrap_or(0.3), pauses.last().copied().unwrap_or(5.0));
    let mut random = SplitMix64::new(7);
    let mut joined = vec![0.0; RATE as usize / 2];
    let mut end = joined.len() as f64 / f64::from(RATE);
    for utterance in utterances {
        // As many short ones as long ones, by their logarithm.
        let pause = shortest * (longest / shortest).powf(f64::from(random.unit()));
        let begins = end + pause - utterance.start;
        let at = ((begins * f64::from(RATE)) as usize).max(joined.len());
        joined.resize(at, 0.0);
        joined.extend(&utterance.samples);
        let offset = at as f64 / f64::from(RATE);
        (utterance.start, utterance.end) = (offset + utterance.start, offset + utterance.end);
        end = utterance.end;
    }
    joined.resize(joined.len() + RATE as usize, 0.0);
    joined
}

/// White noise `below` decibels under the speech.
fn with_noise(samples: &[f32], below: f64) -> Vec<f32> {
    let spoken: Vec<f32> = samples.iter().copied().filter(|sample| sample.abs() > 1e-4).collect();
    let power = spoken.iter().map(|x| f64::from(x * x)).sum::<f64>() / spoken.len().max(1) as f64;
    // Uniform noise of amplitude a has the power a² / 3.
    let amplitude = (3.0 * power).sqrt() * 10f64.powf(-below / 20.0);
    let mut random = SplitMix64::new(11);
    samples.iter().map(|sample| sample + (random.unit() * 2.0 - 1.0) * amplitude as f32).collect()
}

/// Which heard word each expected one is, by the alignment with the fewest errors.
fn matched(expected: &[&str], heard: &[Heard]) -> Vec<Option<usize>> {
    let (rows, columns) = (expected.len() + 1, heard.len() + 1);
    let mut cost = vec![0u32; rows * columns];
    for row in 0..rows {
        for column in 0..columns {
            cost[row * columns + column] = match (row, column) {
                (0, n) | (n, 0) => n as u32,
                _ => {
                    let same = expected[row - 1] == heard[column - 1].text;
                    let diagonal = cost[(row - 1) * columns + column - 1] + u32::from(!same);
                    let (above, left) = (cost[(row - 1) * columns + column], cost[row * columns + column - 1]);
                    diagonal.min(above + 1).min(left + 1)
                }
            };
        }
    }
    let mut found = vec![None; expected.len()];
    let (mut row, mut column) = (expected.len(), heard.len());
    while row > 0 && column > 0 {
        let here = cost[row * columns + column];
        let same = expected[row - 1] == heard[column - 1].text;
        if here == cost[(row - 1) * columns + column - 1] + u32::from(!same) {
            found[row - 1] = same.then_some(column - 1);
            (row, column) = (row - 1, column - 1);
        } else if here == cost[(row - 1) * columns + column] + 1 {
            row -= 1;
        } else {
            column -= 1;
        }
    }
    found
}

fn row(args: &TimesArgs, noise: f64, utterances: &[Utterance], heard: &[Heard]) -> Row {
    let expected: Vec<&str> = utterances.iter().flat_map(|utterance| &utterance.words).map(String::as_str).collect();
    let found = matched(&expected, heard);
    let (mut starts, mut ends, mut at) = (Vec::new(), Vec::new(), 0);
    for utterance in utterances {
        let (first, last) = (found[at], found[at + utterance.words.len() - 1]);
        at += utterance.words.len();
        let start = first.map(|word| heard[word].start - utterance.start);
        let end = last.map(|word| heard[word].end - utterance.end);
        let is_off = |error: Option<f64>| error.is_some_and(|error| error.abs() > 0.3);
        if args.worst && (is_off(start) || is_off(end)) {
            let words = utterance.words.join(" ");
            eprintln!("  {:.2} to {:.2}: start {start:.2?}, end {end:.2?}: {words}", utterance.start, utterance.end);
        }
        starts.extend(start);
        ends.extend(end);
    }
    let long_words = heard.iter().filter(|word| word.end - word.start > LONG_WORD).count();
    Row { noise, starts: errors(starts), ends: errors(ends), long_words }
}

fn errors(mut signed: Vec<f64>) -> Errors {
    let at = |sorted: &[f64], share: f64| -> f64 {
        sorted.get(((sorted.len() as f64 * share) as usize).min(sorted.len().saturating_sub(1))).copied().unwrap_or(0.0)
    };
    signed.sort_by(f64::total_cmp);
    let median_signed = at(&signed, 0.5);
    let mut sizes: Vec<f64> = signed.iter().map(|error| error.abs()).collect();
    sizes.sort_by(f64::total_cmp);
    Errors { count: sizes.len(), median_signed, median: at(&sizes, 0.5), p90: at(&sizes, 0.9), worst: at(&sizes, 1.0) }
}

fn table(args: &TimesArgs, utterances: usize, rows: &[Row]) -> String {
    let head = ["", "noise", "words", "median", "early or late", "p90", "worst"].map(str::to_owned);
    let mut lines = vec![head];
    for row in rows {
        for (what, errors) in [("first word begins", &row.starts), ("last word ends", &row.ends)] {
            let seconds = |value: f64| format!("{value:.3} s");
            lines.push([
                what.to_owned(),
                format!("-{:.0} dB", row.noise),
                errors.count.to_string(),
                seconds(errors.median),
                format!("{:+.3} s", errors.median_signed),
                seconds(errors.p90),
                seconds(errors.worst),
            ]);
        }
    }
    let long: usize = rows.iter().map(|row| row.long_words).sum();
    format!(
        "{}, {utterances} utterances with pauses of {:?} s, beam {}\n\n{}\nwords longer than {LONG_WORD} s: {long}\n",
        args.model,
        args.pauses,
        args.beam,
        aligned(&lines)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utterances_begin_and_end_where_they_are_loud() {
        let mut samples = vec![0.0001f32; 8000];
        samples.extend((0..16_000).map(|at| (at as f32 * 0.3).sin() * 0.5));
        samples.extend(vec![0.0001f32; 4000]);
        // A click before it.
        samples[1000] = 0.9;
        assert_eq!(spoken(&samples), Some((8000, 24_000)));
        assert_eq!(spoken(&[]), None);
    }

    #[test]
    fn pauses_lie_between_the_end_of_one_and_the_beginning_of_the_next() {
        let utterance = || Utterance { samples: vec![0.5; 16_000], words: Vec::new(), start: 0.05, end: 0.95 };
        let mut utterances = [utterance(), utterance(), utterance()];
        let joined = join(&mut utterances, &[1.0, 1.0]);
        for pair in utterances.windows(2) {
            assert!((pair[1].start - pair[0].end - 1.0).abs() < 0.001);
        }
        assert!((utterances[0].start - 1.5).abs() < 0.001);
        assert!(joined[(utterances[1].start * 16_000.0) as usize + 10] > 0.4);
    }

    #[test]
    fn words_are_matched_around_those_that_are_wrong() {
        let heard = |text: &str| Heard { text: text.to_owned(), start: 0.0, end: 0.0 };
        let words = ["press", "won", "now", "please", "hold"].map(heard);
        let found = matched(&["press", "one", "please", "hold", "on"], &words);
        assert_eq!(found, [Some(0), None, Some(3), Some(4), None]);
    }

    #[test]
    fn errors_keep_their_sign_in_the_median() {
        let errors = errors(vec![-0.4, -0.2, -0.1, 0.1, -0.3]);
        assert_eq!((errors.median_signed, errors.median, errors.worst), (-0.2, 0.2, 0.4));
    }
}
