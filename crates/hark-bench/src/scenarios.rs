//! What a service meets beyond one file on an idle machine: many at once, a clip behind a long file, sounds without
//! words, a whole working day in one file.

use std::{
    collections::HashMap,
    path::Path,
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use serde::Serialize;

use super::{
    BenchError,
    audio::{Scratch, cut},
    english,
    noise::SOUNDS,
    process::{Process, memory_of},
    protocol::Request,
    report::{aligned, megabytes},
    spread::Spread,
    systems::{NotRun, System},
};

const MANY_FILES: usize = 20;
const CLIP_SECONDS: f64 = 5.0;
/// Clips that are timed, idle and during the long file each: enough for a median that one hiccup can't move.
const CLIP_ASKS: usize = 9;

/// Twenty files at once against the same twenty one after the other.
#[derive(Debug, Serialize)]
pub struct Many {
    /// How many files.
    pub files: usize,
    /// Their length together.
    pub audio_seconds: f64,
    /// Wall seconds with the next sent when the last was answered.
    pub one_after_the_other: Spread,
    /// Wall seconds with all sent at once.
    pub at_once: Spread,
    /// The first over the second; 1 or more is what is asked for.
    pub gain: f64,
}

/// A short clip that someone waits for, on an idle machine and behind a long file.
#[derive(Debug, Serialize)]
pub struct Mixed {
    /// Length of the long file.
    pub long_seconds: f64,
    /// Seconds to the answer on an idle machine.
    pub idle: Spread,
    /// Seconds to the answer during the long file.
    pub during: Spread,
    /// The second over the first; 2 or less is what is asked for.
    pub ratio: f64,
    /// False when the long file ended before the last clip was asked, so that the figure is too good.
    pub long_file_lasted: bool,
}

/// Words heard where nothing was said.
#[derive(Debug, Serialize)]
pub struct Noise {
    /// Length of each sound.
    pub seconds_each: f64,
    /// Per system, in the order of the sounds.
    pub systems: Vec<NoiseWords>,
    /// What could not be run.
    pub not_run: Vec<NotRun>,
}

/// One system's words from sounds without words.
#[derive(Debug, Serialize)]
pub struct NoiseWords {
    /// The system.
    pub name: String,
    /// Each sound's name, how many words it gave and the first of them.
    pub sounds: Vec<(String, usize, String)>,
}

/// A very long file in flat memory.
#[derive(Debug, Serialize)]
pub struct LongMemory {
    /// Length of the file.
    pub hours: f64,
    /// Seconds of audio a second.
    pub speed: f64,
    /// Resident memory when the model was loaded.
    pub loaded_bytes: u64,
    /// High-water mark after the corpus's long file alone.
    pub peak_after_minutes_bytes: u64,
    /// Median resident memory in each tenth of the time that the very long file took.
    pub tenths_bytes: Vec<u64>,
    /// High-water mark at the end.
    pub peak_bytes: u64,
}

/// Runs `many` on one system.
pub fn many(
    system: System,
    speech: &Path,
    speech_seconds: f64,
    language: &str,
    rounds: usize,
) -> Result<Many, BenchError> {
    let scratch = Scratch::new()?;
    let each = speech_seconds / MANY_FILES as f64;
    let mut requests = Vec::new();
    for index in 0..MANY_FILES {
        let path = scratch.file(&format!("part-{index}.wav"));
        cut(speech, each * index as f64, each, &path)?;
        requests.push(request(index as u64, &path, language, false));
    }
    let mut process = start(system, &scratch)?;
    process.transcribe(&requests[0])?;
    let (mut apart, mut together) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        // Each round begins with the other way, so that neither always follows a warmer machine.
        for way in 0..2 {
            let started = Instant::now();
            if (round + way) % 2 == 0 {
                for request in &requests {
                    process.transcribe(request)?;
                }
                apart.push(started.elapsed().as_secs_f64());
            } else {
                for request in &requests {
                    process.ask(request)?;
                }
                for _ in &requests {
                    process.answer()?;
                }
                together.push(started.elapsed().as_secs_f64());
            }
        }
        eprintln!("round {} of {rounds} done", round + 1);
    }
    let (one_after_the_other, at_once) = (spread(apart)?, spread(together)?);
    let gain = one_after_the_other.median / at_once.median;
    Ok(Many { files: MANY_FILES, audio_seconds: speech_seconds, one_after_the_other, at_once, gain })
}

/// Runs `mixed` on one system with a file of `hours`.
pub fn mixed(system: System, speech: &Path, language: &str, hours: f64) -> Result<Mixed, BenchError> {
    let scratch = Scratch::new()?;
    let (clip, long) = (scratch.file("clip.wav"), scratch.file("long.wav"));
    cut(speech, 0.0, CLIP_SECONDS, &clip)?;
    cut(speech, 0.0, hours * 3600.0, &long)?;
    let mut process = start(system, &scratch)?;
    process.transcribe(&request(0, &clip, language, true))?;
    let mut idle = Vec::new();
    for id in 0..CLIP_ASKS {
        let started = Instant::now();
        process.transcribe(&request(id as u64, &clip, language, true))?;
        idle.push(started.elapsed().as_secs_f64());
    }
    const LONG: u64 = u64::MAX;
    process.ask(&request(LONG, &long, language, false))?;
    // Let the long file get into its stride before the first clip comes.
    std::thread::sleep(Duration::from_secs(3));
    let mut during = Vec::new();
    let mut long_file_lasted = true;
    'clips: for id in 0..CLIP_ASKS {
        let started = Instant::now();
        process.ask(&request(id as u64, &clip, language, true))?;
        loop {
            let (answered, _) = process.answer()?;
            if answered != LONG {
                break;
            }
            long_file_lasted = false;
            if during.is_empty() {
                continue;
            }
            break 'clips;
        }
        during.push(started.elapsed().as_secs_f64());
        std::thread::sleep(Duration::from_millis(500));
    }
    let (idle, during) = (spread(idle)?, spread(during)?);
    let ratio = during.median / idle.median;
    Ok(Mixed { long_seconds: hours * 3600.0, idle, during, ratio, long_file_lasted })
}

/// Runs `noise` on every system, `minutes` of each sound.
pub fn noise(systems: Vec<System>, not_run: Vec<NotRun>, language: &str, minutes: f64) -> Result<Noise, BenchError> {
    let scratch = Scratch::new()?;
    for sound in SOUNDS {
        sound.write(&scratch.file(&format!("{}.wav", sound.name())), minutes * 60.0)?;
    }
    let mut heard = Noise { seconds_each: minutes * 60.0, systems: Vec::new(), not_run };
    for system in systems {
        let (name, is_hark) = (system.name.clone(), system.is_hark);
        match noise_words(system, &scratch, language) {
            Ok(sounds) => heard.systems.push(NoiseWords { name, sounds }),
            Err(error) if is_hark => return Err(error),
            Err(error) => heard.not_run.push(NotRun { name, why: error.to_string() }),
        }
    }
    Ok(heard)
}

fn noise_words(system: System, scratch: &Scratch, language: &str) -> Result<Vec<(String, usize, String)>, BenchError> {
    let mut process = start(system, scratch)?;
    SOUNDS
        .into_iter()
        .map(|sound| {
            let path = scratch.file(&format!("{}.wav", sound.name()));
            let text = process.transcribe(&request(0, &path, language, false))?.text;
            Ok((sound.name().to_owned(), english::words(&text).len(), text.chars().take(80).collect()))
        })
        .collect()
}

/// Runs a file of `hours` made of `speech` over and over, and watches the memory.
pub fn long_memory(system: System, speech: &Path, language: &str, hours: f64) -> Result<LongMemory, BenchError> {
    let scratch = Scratch::new()?;
    let long = scratch.file("hours.wav");
    cut(speech, 0.0, hours * 3600.0, &long)?;
    let mut process = start(system, &scratch)?;
    let pid = process.pid();
    let unknown = || BenchError::System {
        system: "hark".to_owned(),
        error: "memory can only be watched where /proc is".to_owned(),
    };
    let loaded_bytes = memory_of(pid, "VmRSS:").ok_or_else(unknown)?;
    process.transcribe(&request(0, speech, language, false))?;
    let peak_after_minutes_bytes = process.peak_memory().ok_or_else(unknown)?;
    let started = Instant::now();
    let finished = AtomicBool::new(false);
    let (answer, samples) = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut samples = Vec::new();
            while !finished.load(Ordering::Relaxed) {
                samples.extend(memory_of(pid, "VmRSS:"));
                std::thread::sleep(Duration::from_millis(200));
            }
            samples
        });
        let answer = process.transcribe(&request(1, &long, language, false));
        finished.store(true, Ordering::Relaxed);
        (answer, watcher.join().unwrap_or_default())
    });
    answer?;
    Ok(LongMemory {
        hours,
        speed: hours * 3600.0 / started.elapsed().as_secs_f64(),
        loaded_bytes,
        peak_after_minutes_bytes,
        tenths_bytes: tenths(&samples),
        peak_bytes: process.peak_memory().ok_or_else(unknown)?,
    })
}

/// The median of each tenth of a row of samples; fewer than ten samples are given as they are.
fn tenths(samples: &[u64]) -> Vec<u64> {
    let count = samples.len().min(10);
    (0..count)
        .map(|tenth| {
            let mut part = samples[samples.len() * tenth / count..samples.len() * (tenth + 1) / count].to_vec();
            part.sort_unstable();
            part[part.len() / 2]
        })
        .collect()
}

impl Many {
    /// For the terminal.
    pub fn table(&self) -> String {
        format!(
            "{} files, {:.0} s of audio\none after the other  {:.2} s\nall at once          {:.2} s\nat once is {:.2} × as fast\n",
            self.files, self.audio_seconds, self.one_after_the_other, self.at_once, self.gain
        )
    }
}

impl Mixed {
    /// For the terminal.
    pub fn table(&self) -> String {
        let warning = if self.long_file_lasted {
            ""
        } else {
            "the long file ended before the last clip: make it longer with --hours\n"
        };
        format!(
            "a clip of {CLIP_SECONDS:.0} s, seconds to its answer\nidle machine            {:.3}\nduring a file of {:.1} h  {:.3}\nratio {:.2}\n{warning}",
            self.idle,
            self.long_seconds / 3600.0,
            self.during,
            self.ratio
        )
    }
}

impl Noise {
    /// For the terminal.
    pub fn table(&self) -> String {
        let mut rows = vec![["system", "", "silence", "white", "pink", "hum", "music"].map(str::to_owned)];
        let mut examples = String::new();
        for system in &self.systems {
            let words: HashMap<&str, usize> =
                system.sounds.iter().map(|(sound, words, _)| (sound.as_str(), *words)).collect();
            let cell = |sound: &str| words.get(sound).map_or("-".to_owned(), ToString::to_string);
            rows.push([
                system.name.clone(),
                String::new(),
                cell("silence"),
                cell("white"),
                cell("pink"),
                cell("hum"),
                cell("music"),
            ]);
            for (sound, _, text) in system.sounds.iter().filter(|(_, words, _)| *words > 0) {
                examples.push_str(&format!("{} heard in {sound}: {}\n", system.name, text.trim()));
            }
        }
        for peer in &self.not_run {
            examples.push_str(&format!("{} not run: {}\n", peer.name, peer.why));
        }
        format!(
            "words heard in {:.0} s of each sound, where none are said\n\n{}{examples}",
            self.seconds_each,
            aligned(&rows)
        )
    }
}

impl LongMemory {
    /// For the terminal.
    pub fn table(&self) -> String {
        let tenths: Vec<String> = self.tenths_bytes.iter().map(|bytes| format!("{:.0}", *bytes as f64 / 1e6)).collect();
        format!(
            "{:.1} h in one file: {:.1} × real time\nmemory when loaded              {}\npeak after the short file       {}\npeak after the long file        {}\nMB in each tenth of its time    {}\n",
            self.hours,
            self.speed,
            megabytes(self.loaded_bytes),
            megabytes(self.peak_after_minutes_bytes),
            megabytes(self.peak_bytes),
            tenths.join(" ")
        )
    }
}

fn start(mut system: System, scratch: &Scratch) -> Result<Process, BenchError> {
    eprintln!("loading {}", system.name);
    let command = std::mem::replace(&mut system.command, Command::new("true"));
    Process::start(&system.name, command, scratch.file("driver.log"))
}

fn request(id: u64, audio: &Path, language: &str, interactive: bool) -> Request {
    Request {
        id,
        audio: audio.to_string_lossy().into_owned(),
        language: language.to_owned(),
        interactive,
        speakers: None,
    }
}

fn spread(rounds: Vec<f64>) -> Result<Spread, BenchError> {
    Spread::of(rounds).ok_or(BenchError::NoRounds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audio::WavWriter;

    /// A driver in shell: every answer takes `delay` seconds and all requests run at the same time.
    fn concurrent(delay: &str, text: &str) -> System {
        let script = format!(
            r#"echo '{{"load_seconds": 0, "version": "fake"}}'
            while read line; do
              id=$(echo "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')
              (sleep {delay}; echo "{{\"id\": $id, \"text\": \"{text}\", \"seconds\": {delay}}}") &
            done; wait"#
        );
        let mut command = Command::new("sh");
        command.arg("-c").arg(script);
        System { name: "fake".into(), settings: String::new(), is_hark: true, reference_only: false, command }
    }

    fn speech(scratch: &Scratch) -> std::path::PathBuf {
        let path = scratch.file("speech.wav");
        let mut writer = WavWriter::create(&path, 32_000).unwrap();
        writer.write(&[0.1; 32_000]).unwrap();
        writer.finish().unwrap();
        path
    }

    #[test]
    fn files_at_once_are_timed_together_and_one_by_one_apart() {
        let scratch = Scratch::new().unwrap();
        let many = many(concurrent("0.05", "x"), &speech(&scratch), 2.0, "en", 1).unwrap();
        assert!(many.one_after_the_other.median >= 1.0, "{many:?}");
        assert!(many.gain > 2.0, "{many:?}");
    }

    #[test]
    fn a_long_file_that_ends_too_early_is_owned_up_to() {
        let scratch = Scratch::new().unwrap();
        let mixed = mixed(concurrent("0.01", "x"), &speech(&scratch), "en", 0.001).unwrap();
        assert!(!mixed.long_file_lasted);
        assert!(mixed.table().contains("--hours"));
    }

    #[test]
    fn words_from_noise_are_counted_and_quoted() {
        let heard = noise(vec![concurrent("0", "Thank you.")], Vec::new(), "en", 0.001).unwrap();
        assert!(heard.systems[0].sounds.iter().all(|(_, words, _)| *words == 2));
        let table = heard.table();
        assert!(table.contains("fake heard in pink: Thank you."), "{table}");
        let quiet = noise(vec![concurrent("0", "")], Vec::new(), "en", 0.001).unwrap();
        assert!(!quiet.table().contains("heard in pink"));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn memory_is_watched_while_the_long_file_runs() {
        let scratch = Scratch::new().unwrap();
        let long = long_memory(concurrent("0.5", "x"), &speech(&scratch), "en", 0.001).unwrap();
        assert!(
            long.loaded_bytes > 0 && long.peak_bytes >= long.loaded_bytes && !long.tenths_bytes.is_empty(),
            "{long:?}"
        );
    }

    #[test]
    fn tenths_are_medians_in_order() {
        let samples: Vec<u64> = (0..100).collect();
        assert_eq!(tenths(&samples), [5, 15, 25, 35, 45, 55, 65, 75, 85, 95]);
        assert_eq!(tenths(&[7, 9]), [7, 9]);
        assert!(tenths(&[]).is_empty());
    }
}
