//! Noise reduction: how much noise goes and what is left of speech, beside DeepFilterNet's own library and RNNoise on the same sounds.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use hark_models::Role;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::changes::resample;
use super::contest::{Contestant, Done, Speed, take_turns};
use super::mixtures::{self, Mixture, Noise, RATE, RATIOS, si_sdr};
use super::peers::{self, DEEPFILTERNET, QUALITY_JUDGE, RNNOISE};
use super::speak::Recognizer;
use super::{VoiceArgs, failed};
use crate::audio::{self, Scratch};
use crate::error::BenchError;
use crate::process::Process;
use crate::spread::Spread;
use crate::systems::{self, NotRun};
use crate::wer::WordErrors;

/// The name of sounds as they are.
const UNTOUCHED: &str = "noisy";
const OWN: &str = "hark";
/// The rate at which PESQ, STOI and the recognizer hear.
const NARROW: u32 = 16_000;
/// Clips whose words are compared.
const CLIPS_WITH_WORDS: usize = 20;

/// A file to enhance: 32-bit floats at 48 kHz, mono.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct EnhanceRequest {
    pub(super) audio: PathBuf,
    pub(super) output: PathBuf,
}

/// What it took, from the file to the file.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct EnhanceAnswer {
    pub(super) seconds: f64,
}

/// What a system made of sounds of one kind, on the mean.
#[derive(Debug, Clone, Default, Serialize)]
struct Scores {
    clips: usize,
    /// SI-SDR in dB above that of the untouched sound; of speech without noise its SI-SDR.
    gain: f64,
    lowest_gain: f64,
    pesq: f64,
    stoi: f64,
}

/// Sounds of one kind.
#[derive(Debug, Serialize)]
struct Line {
    noise: String,
    /// Speech to noise in dB; none without noise.
    ratio: Option<f32>,
    /// By system, the untouched sounds among them.
    scores: BTreeMap<String, Scores>,
}

/// Quality and speed of noise reduction.
#[derive(Debug, Serialize)]
pub(super) struct Quality {
    voices: usize,
    seconds: f64,
    /// The noise floor of the recordings in dB below their mean: lowest, median and highest.
    floor: Spread,
    lines: Vec<Line>,
    speeds: Vec<Speed>,
    /// Ours over each peer's, round by round.
    ratios: BTreeMap<String, Spread>,
    not_run: Vec<NotRun>,
}

/// Word errors of our own transcription.
#[derive(Debug, Serialize)]
pub(super) struct Words {
    clips: usize,
    recognizer: String,
    clean: WordErrors,
    lines: Vec<WordLine>,
}

#[derive(Debug, Serialize)]
struct WordLine {
    noise: String,
    ratio: f32,
    before: WordErrors,
    after: WordErrors,
}

/// The most memory after a minute and after a long recording, each in a process of its own.
#[derive(Debug, Serialize)]
pub(super) struct Memory {
    minute_bytes: u64,
    long_minutes: usize,
    long_bytes: u64,
    long_seconds: f64,
}

/// Hark's own driver.
fn own_driver(args: &VoiceArgs) -> Result<Command, BenchError> {
    let mut command = Command::new(crate::own_binary()?);
    command.args(["voice-driver", "--enhance", "--threads", &args.threads().to_string()]);
    Ok(command)
}

fn contestants(
    args: &VoiceArgs,
    bench: &Path,
    scratch: &Scratch,
) -> Result<(Vec<Contestant>, Vec<NotRun>), BenchError> {
    let mut contestants = vec![Contestant::start(OWN, own_driver(args)?, scratch)?];
    let mut not_run = Vec::new();
    if args.with_peers {
        let model = systems::installed_for(Role::Enhance)?;
        for (driver, system) in [(DEEPFILTERNET, "deepfilternet"), (RNNOISE, "rnnoise")] {
            match driver.command(Some(bench), 1) {
                Ok(mut command) => {
                    command.args(["--system", system, "--archives"]).arg(peers::archives(bench));
                    command.arg("--model").arg(&model);
                    contestants.push(Contestant::start(driver.name, command, scratch)?);
                }
                Err(why) => not_run.push(why),
            }
        }
    }
    Ok((contestants, not_run))
}

/// A sound of the run, with the files in which it lies.
struct Sound {
    noise: String,
    ratio: Option<f32>,
    clean: Vec<f32>,
    noisy: Vec<f32>,
    file: PathBuf,
}

/// Enhances every voice with every noise by every system, in turns.
pub(super) fn quality(args: &VoiceArgs, bench: &Path) -> Result<Quality, BenchError> {
    let folder = args.references.clone().unwrap_or_else(|| bench.join("out/voices"));
    let voices = mixtures::voices(&folder)?;
    let noises = mixtures::noises(&bench.join("out/noises"))?;
    let scratch = Scratch::new()?;
    let count = args.mixed_voices.min(voices.len());
    // Spread over all, since neighbours come from one package.
    let chosen: Vec<usize> = (0..count).map(|at| at * voices.len() / count).collect();
    let mut sounds = Vec::new();
    for &who in &chosen {
        let clean = mixtures::placed(&Noise::White, who, &voices);
        sounds.push(sound("none", None, Mixture { noisy: clean.clone(), clean }, &scratch, sounds.len())?);
        for kind in &noises {
            let clean = mixtures::placed(kind, who, &voices);
            for ratio in RATIOS {
                let mixture = mixtures::mix(kind, ratio, who, &voices, &clean);
                sounds.push(sound(kind.name(), Some(ratio), mixture, &scratch, sounds.len())?);
            }
        }
    }
    let (mut contestants, not_run) = contestants(args, bench, &scratch)?;
    let seconds = sounds.iter().map(|sound| sound.clean.len() as f64).sum::<f64>() / f64::from(RATE);
    for contestant in &mut contestants {
        enhance(contestant, &sounds[..1], &scratch)?;
    }
    take_turns(&mut contestants, args.rounds, |contestant| {
        Ok(Done { sound: seconds, took: enhance(contestant, &sounds, &scratch)? })
    })?;
    let names: Vec<&str> = contestants.iter().map(|one| one.name).collect();
    let lines = scores(&sounds, &names, bench, args, &scratch)?;
    let mut ratios = BTreeMap::new();
    if let Some((own, peers)) = contestants.split_first() {
        for peer in peers {
            ratios.extend(own.ratio_to(peer).map(|spread| (peer.name.to_owned(), spread)));
        }
    }
    let speeds = contestants.into_iter().map(Contestant::speed).collect::<Result<_, BenchError>>()?;
    let floors = chosen.iter().map(|&who| mixtures::floor(&voices[who].samples)).collect();
    let floor = Spread::of(floors).ok_or(BenchError::NoRounds)?;
    Ok(Quality { voices: count, seconds, floor, lines, speeds, ratios, not_run })
}

fn sound(
    noise: &str,
    ratio: Option<f32>,
    mixture: Mixture,
    scratch: &Scratch,
    number: usize,
) -> Result<Sound, BenchError> {
    let file = scratch.file(&format!("{number}.f32"));
    write(&file, &mixture.noisy)?;
    Ok(Sound { noise: noise.to_owned(), ratio, clean: mixture.clean, noisy: mixture.noisy, file })
}

fn write(path: &Path, samples: &[f32]) -> Result<(), BenchError> {
    let bytes: Vec<u8> = samples.iter().flat_map(|sample| sample.to_le_bytes()).collect();
    std::fs::write(path, bytes).map_err(|source| BenchError::File { path: path.to_owned(), source })
}

fn read(path: &Path) -> Result<Vec<f32>, BenchError> {
    let bytes = std::fs::read(path).map_err(|source| BenchError::File { path: path.to_owned(), source })?;
    Ok(bytes.as_chunks::<4>().0.iter().map(|four| f32::from_le_bytes(*four)).collect())
}

/// Where a system's result of a sound lies.
fn result_of(name: &str, number: usize, scratch: &Scratch) -> PathBuf {
    scratch.file(&format!("{number}-{name}.f32"))
}

fn enhance(contestant: &mut Contestant, sounds: &[Sound], scratch: &Scratch) -> Result<f64, BenchError> {
    let mut seconds = 0.0;
    for (number, sound) in sounds.iter().enumerate() {
        let output = result_of(contestant.name, number, scratch);
        let request = EnhanceRequest { audio: sound.file.clone(), output };
        let answer: EnhanceAnswer = contestant.process.call(&request)?;
        seconds += answer.seconds;
    }
    Ok(seconds)
}

#[derive(Deserialize)]
struct Judged {
    pesq: f64,
    stoi: f64,
}

fn scores(
    sounds: &[Sound],
    systems: &[&str],
    bench: &Path,
    args: &VoiceArgs,
    scratch: &Scratch,
) -> Result<Vec<Line>, BenchError> {
    let mut judge = match QUALITY_JUDGE.command(Some(bench), args.threads()) {
        Ok(command) => Process::start(QUALITY_JUDGE.name, command, scratch.file("quality.log"))?,
        Err(NotRun { name, why }) => return Err(BenchError::System { system: name, error: why }),
    };
    let mut lines: Vec<Line> = Vec::new();
    for (number, sound) in sounds.iter().enumerate() {
        let is_same = |line: &Line| line.noise == sound.noise && line.ratio == sound.ratio;
        let at = lines.iter().position(is_same).unwrap_or_else(|| {
            lines.push(Line { noise: sound.noise.clone(), ratio: sound.ratio, scores: BTreeMap::new() });
            lines.len() - 1
        });
        let reference = scratch.file("reference.f32");
        write(&reference, &resample(&sound.clean, RATE, NARROW))?;
        let before = si_sdr(&sound.clean, &sound.noisy);
        for name in [UNTOUCHED].iter().chain(systems) {
            let result =
                if *name == UNTOUCHED { sound.noisy.clone() } else { read(&result_of(name, number, scratch))? };
            if result.len() != sound.clean.len() {
                let lengths = format!("{} samples for {}", result.len(), sound.clean.len());
                return Err(failed(name, lengths));
            }
            let heard = scratch.file("heard.f32");
            write(&heard, &resample(&result, RATE, NARROW))?;
            let judged: Judged = judge.call(&json!({ "reference": reference, "heard": heard }))?;
            let after = si_sdr(&sound.clean, &result);
            let gain = if sound.ratio.is_some() { after - before } else { after };
            lines[at].scores.entry((*name).to_owned()).or_default().add(gain, &judged);
        }
    }
    lines.iter_mut().flat_map(|line| line.scores.values_mut()).for_each(Scores::divide);
    Ok(lines)
}

impl Scores {
    fn add(&mut self, gain: f64, judged: &Judged) {
        self.lowest_gain = if self.clips == 0 { gain } else { self.lowest_gain.min(gain) };
        self.clips += 1;
        self.gain += gain;
        self.pesq += judged.pesq;
        self.stoi += judged.stoi;
    }

    fn divide(&mut self) {
        let clips = self.clips.max(1) as f64;
        self.gain /= clips;
        self.pesq /= clips;
        self.stoi /= clips;
    }
}

/// Transcribes clips with known words, with noise and after it was reduced.
pub(super) fn words(args: &VoiceArgs, bench: &Path) -> Result<Words, BenchError> {
    let clips = audio::recordings(&[bench.join("out/prompts/clips")], None)?;
    let clips: Vec<_> = clips.into_iter().filter(|clip| clip.reference.is_some()).collect();
    let clips = super::texts::spread(&clips, CLIPS_WITH_WORDS);
    let voices = clips.iter().map(|clip| mixtures::read(&clip.path)).collect::<Result<Vec<_>, _>>()?;
    let noises = mixtures::noises(&bench.join("out/noises"))?;
    let scratch = Scratch::new()?;
    let mut own = Process::start(OWN, own_driver(args)?, scratch.file("hark.log"))?;
    let mut recognizer = Recognizer::start(args, bench, &scratch)?;
    let mut hear = |samples: &[f32], said: &str| -> Result<WordErrors, BenchError> {
        let file = scratch.file("heard.wav");
        let narrow = resample(samples, RATE, NARROW);
        hark_media::write_wav_file(&file, &narrow, NARROW)
            .map_err(|source| BenchError::File { path: file.clone(), source })?;
        Ok(WordErrors::between(said, &recognizer.hear(&file)?))
    };
    let said = |who: usize| clips[who].reference.as_deref().unwrap_or_default();
    let mut clean = WordErrors::default();
    for (who, voice) in voices.iter().enumerate() {
        clean += hear(&voice.samples, said(who))?;
    }
    let mut lines = Vec::new();
    for kind in &noises {
        for ratio in RATIOS {
            let mut line = WordLine {
                noise: kind.name().to_owned(),
                ratio,
                before: WordErrors::default(),
                after: WordErrors::default(),
            };
            for who in 0..voices.len() {
                let placed = mixtures::placed(kind, who, &voices);
                let mixture = mixtures::mix(kind, ratio, who, &voices, &placed);
                let request = EnhanceRequest { audio: scratch.file("noisy.f32"), output: scratch.file("clean.f32") };
                write(&request.audio, &mixture.noisy)?;
                let _: EnhanceAnswer = own.call(&request)?;
                line.before += hear(&mixture.noisy, said(who))?;
                line.after += hear(&read(&request.output)?, said(who))?;
            }
            eprintln!("{} {ratio} dB: {} to {}", line.noise, percent(&line.before), percent(&line.after));
            lines.push(line);
        }
    }
    Ok(Words { clips: clips.len(), recognizer: args.recognizer.clone(), clean, lines })
}

/// Enhances a minute and a long recording, an hour by default.
pub(super) fn memory(args: &VoiceArgs, bench: &Path) -> Result<Memory, BenchError> {
    let folder = args.references.clone().unwrap_or_else(|| bench.join("out/voices"));
    let voices = mixtures::voices(&folder)?;
    let scratch = Scratch::new()?;
    let run = |minutes: usize| -> Result<(u64, f64), BenchError> {
        let request = EnhanceRequest { audio: scratch.file("long.f32"), output: scratch.file("done.f32") };
        write_long(&request.audio, &voices, minutes)?;
        let mut process = Process::start(OWN, own_driver(args)?, scratch.file("hark.log"))?;
        let answer: EnhanceAnswer = process.call(&request)?;
        let peak =
            process.peak_memory().ok_or_else(|| failed(OWN, "this system does not tell how much memory it used"))?;
        Ok((peak, answer.seconds))
    };
    let (minute_bytes, _) = run(1)?;
    let (long_bytes, long_seconds) = run(args.long_minutes)?;
    Ok(Memory { minute_bytes, long_minutes: args.long_minutes, long_bytes, long_seconds })
}

/// All voices one after the other, with white noise at 10 dB, until the file is long enough.
fn write_long(path: &Path, voices: &[mixtures::Speech], minutes: usize) -> Result<(), BenchError> {
    use std::io::Write as _;
    let wrong = |source| BenchError::File { path: path.to_owned(), source };
    let mut out = std::io::BufWriter::new(std::fs::File::create(path).map_err(wrong)?);
    let mut left = minutes * 60 * RATE as usize;
    let mixed: Vec<Vec<u8>> = (0..voices.len())
        .map(|who| mixtures::mix(&Noise::White, 10.0, who, voices, &voices[who].samples).noisy)
        .map(|samples| samples.iter().flat_map(|sample| sample.to_le_bytes()).collect())
        .collect();
    for bytes in mixed.iter().cycle() {
        let take = (bytes.len() / 4).min(left);
        out.write_all(&bytes[..take * 4]).map_err(wrong)?;
        left -= take;
        if left == 0 {
            break;
        }
    }
    out.flush().map_err(wrong)
}

fn percent(errors: &WordErrors) -> String {
    errors.rate().map_or("–".to_owned(), |rate| format!("{:.1} %", 100.0 * rate))
}

impl Quality {
    pub(super) fn table(&self) -> String {
        let systems: Vec<&str> = self.speeds.iter().map(|speed| speed.name.as_str()).collect();
        let mut text = format!(
            "\n## Noise reduction\n\n{} voices, {:.0} s of sounds a round; noise floor of the recordings {:.0} dB below their mean\n\n| noise | dB |",
            self.voices, self.seconds, self.floor
        );
        systems.iter().for_each(|name| {
            let _ = write!(text, " gain dB: {name} |");
        });
        for kind in ["PESQ", "STOI"] {
            [UNTOUCHED].iter().chain(&systems).for_each(|name| {
                let _ = write!(text, " {kind}: {name} |");
            });
        }
        let columns = 2 + systems.len() + 2 * (systems.len() + 1);
        let _ = writeln!(text, "\n|{}", "---|".repeat(columns));
        for line in &self.lines {
            let ratio = line.ratio.map_or("–".to_owned(), |ratio| format!("{ratio:.0}"));
            let _ = write!(text, "| {} | {ratio} |", line.noise);
            let of = |name: &str| line.scores.get(name).cloned().unwrap_or_default();
            for name in &systems {
                let sign = if line.ratio.is_some() { "+" } else { "" };
                let gain = of(name).gain;
                let _ = if gain < 0.0 { write!(text, " {gain:.1} |") } else { write!(text, " {sign}{gain:.1} |") };
            }
            [UNTOUCHED].iter().chain(&systems).for_each(|name| {
                let _ = write!(text, " {:.2} |", of(name).pesq);
            });
            [UNTOUCHED].iter().chain(&systems).for_each(|name| {
                let _ = write!(text, " {:.3} |", of(name).stoi);
            });
            text.push('\n');
        }
        text.push_str(
            "\n| system | × real time | processor s a round | memory MB | ours is faster by |\n|---|---|---|---|---|\n",
        );
        for one in &self.speeds {
            let cpu = one.cpu_seconds.as_ref().map_or("–".to_owned(), |cpu| format!("{cpu:.1}"));
            let memory = one.peak_memory_bytes.map_or("–".to_owned(), |bytes| (bytes >> 20).to_string());
            let ratio = self.ratios.get(&one.name).map_or("–".to_owned(), |ratio| format!("{ratio:.1}"));
            let _ =
                writeln!(text, "| {} ({}) | {:.1} | {cpu} | {memory} | {ratio} |", one.name, one.version, one.speed);
        }
        for NotRun { name, why } in &self.not_run {
            let _ = writeln!(text, "\n{name}: not run: {why}");
        }
        text
    }
}

impl Words {
    pub(super) fn table(&self) -> String {
        let mut text = format!(
            "\n## Words before and after noise reduction\n\n{} clips, {} words, heard by {}; without noise {} word errors\n\n| noise | dB | before | after |\n|---|---|---|---|\n",
            self.clips,
            self.clean.reference_words,
            self.recognizer,
            percent(&self.clean)
        );
        for line in &self.lines {
            let _ = writeln!(
                text,
                "| {} | {:.0} | {} | {} |",
                line.noise,
                line.ratio,
                percent(&line.before),
                percent(&line.after)
            );
        }
        text
    }
}

impl Memory {
    pub(super) fn table(&self) -> String {
        format!(
            "\nmost memory: {} MB after a minute, {} MB after {} minutes, which took {:.0} s ({:.0} × real time)\n",
            self.minute_bytes >> 20,
            self.long_bytes >> 20,
            self.long_minutes,
            self.long_seconds,
            60.0 * self.long_minutes as f64 / self.long_seconds
        )
    }
}
