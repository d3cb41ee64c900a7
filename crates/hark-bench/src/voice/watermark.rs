//! The watermark: payloads read after each change, false alarms, time.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

use hark_media::{Options, Source, decode_all};
use hark_watermark::{Detection, Detector, Key, Payload, detect, embed};
use serde::Serialize;

use super::changes::{CHANGES, Change, Changer, resample};
use super::clips::{CLIP_S, RATE, Recording, collect, is_sound, recordings};
use super::{VoiceArgs, failed};
use crate::error::BenchError;
use crate::parallel::on_all_cores;
use crate::print;

/// Speeds at which recordings come again among unmarked speech, in percent.
const SPEEDS: [u32; 9] = [100, 92, 108, 85, 115, 96, 104, 89, 111];

/// Files that are decoded and searched together.
const FILES_OF_A_BATCH: usize = 40;

/// A marked clip.
struct Clip {
    /// The recording and the second at which it begins.
    name: String,
    samples: Vec<f32>,
    payload: Payload,
}

/// What was written, what was found, in how many seconds, and the clip where it was missed.
type Trial = (Payload, Detection, f64, Option<String>);

/// A line of the table.
#[derive(Debug, Serialize)]
struct Line {
    change: &'static str,
    clips: usize,
    /// Payloads that were read as they were written.
    read: usize,
    /// Marks that were found, with or without their payload.
    present: usize,
    /// Payloads that were read as something else.
    wrong: usize,
    /// The mean share of coded bits that the error correction turned, in clips whose payload was read.
    corrected: f64,
    lowest_score: f64,
    mean_ms: f64,
    /// Clips whose payload was not read.
    missed: Vec<String>,
}

/// Marks looked for where there are none.
#[derive(Debug, Serialize)]
struct FalseAlarms {
    hours: f64,
    different_minutes: f64,
    files: usize,
    present: usize,
    payloads: usize,
    highest_score: f64,
    lowest_log10_bound: f64,
    seconds: f64,
}

/// What became of the watermark.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    recordings: usize,
    lines: Vec<Line>,
    not_run: Vec<&'static str>,
    /// Times real time at which sounds are marked.
    embed_speed: f64,
    false_alarms: Option<FalseAlarms>,
}

pub(super) fn run(args: &VoiceArgs) -> Result<Report, BenchError> {
    let recordings = recordings(&args.sounds)?;
    let key = Key::new([0x5a; 32]);
    let begun = Instant::now();
    let clips = mark(&recordings, args, &key)?;
    let seconds: f64 = recordings.iter().map(|recording| recording.samples.len() as f64 / f64::from(RATE)).sum();
    let embed_speed = seconds / begun.elapsed().as_secs_f64();
    let changer = Changer::new();
    let mut report = Report {
        recordings: recordings.len(),
        lines: Vec::new(),
        not_run: Vec::new(),
        embed_speed,
        false_alarms: None,
    };
    print(&format!(
        "{} clips of {CLIP_S} s from {} recordings ({:.0} min), marked at {RATE} Hz, {embed_speed:.0} × real time\n\n\
         | change | payloads read | marks found | wrong | coded bits corrected | lowest score | ms a clip |\n|---|---|---|---|---|---|---|\n",
        clips.len(),
        recordings.len(),
        seconds / 60.0
    ))?;
    let mut missed = Vec::new();
    for (name, change) in CHANGES {
        if !args.changes.is_empty() && !args.changes.iter().any(|wanted| wanted == name) {
            continue;
        }
        let Some(line) = measure(name, change, &clips, &changer, &key)? else {
            report.not_run.push(name);
            print(&format!("| {name} | not run: what it needs is not installed | | | | | |\n"))?;
            continue;
        };
        print(&format!(
            "| {name} | {}/{} | {} | {} | {:.1} % | {:.1} | {:.0} |\n",
            line.read,
            line.clips,
            line.present,
            line.wrong,
            100.0 * line.corrected,
            line.lowest_score,
            line.mean_ms
        ))?;
        missed.extend(line.missed.iter().map(|clip| format!("{name}: {clip}\n")));
        report.lines.push(line);
    }
    if !missed.is_empty() {
        print(&format!("\nmissed:\n{}", missed.concat()))?;
    }
    let alarms = if !args.unmarked.is_empty() {
        Some(unmarked(&args.unmarked, &key)?)
    } else if args.hours > 0.0 {
        Some(false_alarms(&recordings, args.hours, &key)?)
    } else {
        None
    };
    if let Some(alarms) = alarms {
        let mut text = String::new();
        let _ = writeln!(
            text,
            "\nunmarked: {:.2} h ({:.1} min of different speech, what is more at other speeds) in {} files: {} marks, {} payloads; highest score {:.1}, lowest bound 1e{:.1}; {:.0} × real time",
            alarms.hours,
            alarms.different_minutes,
            alarms.files,
            alarms.present,
            alarms.payloads,
            alarms.highest_score,
            alarms.lowest_log10_bound,
            alarms.hours * 3600.0 / alarms.seconds
        );
        print(&text)?;
        report.false_alarms = Some(alarms);
    }
    Ok(report)
}

/// Marks whole recordings, each with a payload of its own, and cuts clips from anywhere in them.
fn mark(recordings: &[Recording], args: &VoiceArgs, key: &Key) -> Result<Vec<Clip>, BenchError> {
    let length = (CLIP_S * f64::from(RATE)) as usize;
    let all: usize = recordings.iter().map(|recording| recording.clips.len()).sum();
    let wanted = args.clips.min(all);
    let mut clips = Vec::with_capacity(wanted);
    let mut seen = 0;
    for (number, recording) in recordings.iter().enumerate() {
        if recording.clips.is_empty() {
            continue;
        }
        let payload =
            Payload::new(number as u16 * 257, 20_000 + number as u16, key.request_hash(recording.name.as_bytes()));
        let marked =
            embed(&recording.samples, RATE, 1, &payload, key).map_err(|error| failed("hark-watermark", error))?;
        for &begin in &recording.clips {
            // As many as are wanted, spread over all there are.
            let is_chosen = seen * wanted / all != (seen + 1) * wanted / all;
            seen += 1;
            if !is_chosen {
                continue;
            }
            // An odd place, so that clips begin anywhere in the period.
            let from = ((begin * f64::from(RATE)) as usize + seen * 7_919 % 12_000).min(marked.len() - length);
            if let Some(folder) = &args.pairs {
                let name = format!("{}-{from}.wav", recording.name);
                write_pair(folder, &name, &recording.samples[from..from + length], &marked[from..from + length])?;
            }
            let name = format!("{} at {:.1} s", recording.name, from as f64 / f64::from(RATE));
            clips.push(Clip { name, samples: marked[from..from + length].to_vec(), payload });
        }
    }
    Ok(clips)
}

/// Written at 16 kHz, the rate of wideband PESQ.
fn write_pair(folder: &Path, name: &str, clean: &[f32], marked: &[f32]) -> Result<(), BenchError> {
    for (kind, samples) in [("clean", clean), ("marked", marked)] {
        let path = folder.join(kind).join(name);
        let wrong = |source| BenchError::File { path: path.clone(), source };
        std::fs::create_dir_all(folder.join(kind)).map_err(wrong)?;
        hark_media::write_wav_file(&path, &resample(samples, RATE, 16_000), 16_000).map_err(wrong)?;
    }
    Ok(())
}

fn measure(
    name: &'static str,
    change: Change,
    clips: &[Clip],
    changer: &Changer,
    key: &Key,
) -> Result<Option<Line>, BenchError> {
    let results = on_all_cores(clips, |number, clip| {
        let Some(changed) = changer.apply(change, &clip.samples, number as u64 + 1)? else { return Ok(None) };
        let begun = Instant::now();
        let found = detect(&changed, RATE, key).map_err(|error| failed("hark-watermark", error))?;
        let seconds = begun.elapsed().as_secs_f64();
        let missed = (found.payload != Some(clip.payload)).then(|| format!("{} (score {:.1})", clip.name, found.score));
        Ok(Some((clip.payload, found, seconds, missed)))
    })?;
    let found: Vec<Trial> = results.into_iter().flatten().collect();
    if found.is_empty() {
        return Ok(None);
    }
    let read = |line: &&Trial| line.1.payload == Some(line.0);
    let count = |is: &dyn Fn(&&Trial) -> bool| found.iter().filter(|line| is(line)).count();
    let corrected: Vec<f64> = found.iter().filter(read).filter_map(|line| line.1.corrected).collect();
    Ok(Some(Line {
        change: name,
        clips: found.len(),
        read: count(&|line| read(line)),
        present: count(&|line| line.1.present),
        wrong: count(&|line| line.1.payload.is_some_and(|payload| payload != line.0)),
        corrected: corrected.iter().sum::<f64>() / corrected.len().max(1) as f64,
        lowest_score: found.iter().map(|line| line.1.score).fold(f64::INFINITY, f64::min),
        mean_ms: 1e3 * found.iter().map(|line| line.2).sum::<f64>() / found.len() as f64,
        missed: found.iter().filter_map(|line| line.3.clone()).collect(),
    }))
}

/// Looks for marks in all files of folders, each recording once.
fn unmarked(folders: &[PathBuf], key: &Key) -> Result<FalseAlarms, BenchError> {
    let mut files = Vec::new();
    for folder in folders {
        collect(folder, &mut files)?;
    }
    files.retain(|file| is_sound(file));
    files.sort();
    // The same recording may lie in several folders.
    let mut known = BTreeSet::new();
    let mut different = Vec::new();
    for file in files {
        let bytes = std::fs::read(&file).map_err(|source| BenchError::File { path: file.clone(), source })?;
        let mut hasher = DefaultHasher::new();
        bytes.hash(&mut hasher);
        if known.insert((bytes.len(), hasher.finish())) {
            different.push(file);
        }
    }
    let begun = Instant::now();
    // Prompts are short: many of them after one another are a recording.
    let batches: Vec<&[PathBuf]> = different.chunks(FILES_OF_A_BATCH).collect();
    let found = on_all_cores(&batches, |_, batch| {
        let mut samples = Vec::new();
        for file in *batch {
            let options = Options { rate: RATE, ..Options::default() };
            let decoded = decode_all(Source::Path(file.clone()), &options);
            samples.extend(decoded.map_err(|error| failed(&file.display().to_string(), error))?.0);
        }
        let mut found = Vec::new();
        for piece in samples.chunks(RATE as usize * 60) {
            match detect(piece, RATE, key) {
                Ok(one) => found.push(one),
                Err(hark_watermark::WatermarkError::Silent) => {}
                Err(error) => return Err(failed("hark-watermark", error)),
            }
        }
        Ok((samples.len(), found))
    })?;
    let seconds = found.iter().map(|(samples, _)| *samples as f64).sum::<f64>() / f64::from(RATE);
    let found: Vec<Detection> = found.into_iter().flat_map(|(_, found)| found).collect();
    Ok(FalseAlarms::of(&found, seconds, seconds, different.len(), begun.elapsed().as_secs_f64()))
}

/// Looks for marks in recordings that have none, at other speeds when they come again.
fn false_alarms(recordings: &[Recording], hours: f64, key: &Key) -> Result<FalseAlarms, BenchError> {
    let wanted = hours * 3600.0;
    let seconds = |samples: usize| samples as f64 / f64::from(RATE);
    let different: f64 = recordings.iter().map(|recording| seconds(recording.samples.len())).sum();
    let mut rounds = Vec::new();
    let mut total = 0.0;
    'rounds: for round in 0.. {
        for recording in recordings.iter().filter(|recording| seconds(recording.samples.len()) > 1.5) {
            let speed = SPEEDS[round % SPEEDS.len()];
            rounds.push((recording, speed, round / SPEEDS.len()));
            total += seconds(recording.samples.len()) * 100.0 / f64::from(speed);
            if total >= wanted {
                break 'rounds;
            }
        }
        if rounds.is_empty() {
            break;
        }
    }
    let begun = Instant::now();
    let found = on_all_cores(&rounds, |_, &(recording, speed, turn)| {
        // After all speeds, the same sound once more with another key is another trial.
        let other = Key::new([0x80 + turn as u8; 32]);
        let key = if turn == 0 { key } else { &other };
        let wrong = |error| failed("hark-watermark", error);
        let mut detector = Detector::new(RATE, 1, key).map_err(wrong)?;
        detector.push(&resample(&recording.samples, RATE * speed / 100, RATE), &|| false).map_err(wrong)?;
        match detector.finish(&|| false) {
            Ok(found) => Ok(Some(found)),
            Err(hark_watermark::WatermarkError::Silent) => Ok(None),
            Err(error) => Err(wrong(error)),
        }
    })?;
    let found: Vec<Detection> = found.into_iter().flatten().collect();
    Ok(FalseAlarms::of(&found, total, different, rounds.len(), begun.elapsed().as_secs_f64()))
}

impl FalseAlarms {
    fn of(found: &[Detection], seconds: f64, different: f64, files: usize, took: f64) -> Self {
        FalseAlarms {
            hours: seconds / 3600.0,
            different_minutes: different.min(seconds) / 60.0,
            files,
            present: found.iter().filter(|found| found.present).count(),
            payloads: found.iter().filter(|found| found.payload.is_some()).count(),
            highest_score: found.iter().map(|found| found.score).fold(0.0, f64::max),
            lowest_log10_bound: found.iter().map(|found| found.log10_false_alarm).fold(0.0, f64::min),
            seconds: took,
        }
    }
}
