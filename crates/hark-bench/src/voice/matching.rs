//! Voice matching: how near a matched voice comes to its reference, by speaker embeddings that the search does not use.
//!
//! For each voice of `bench/out/voices` one recording is the reference and another one of the same person the upper bound. The matched voice, the
//! preset that the search began with and other presets speak the same text; other people's recordings are the lower bound. Both are transcribed,
//! too: a voice must not come nearer at the cost of its words.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use hark_media::{Options, Source};
use hark_voice::{Narrator, Reference, VoiceChoice};
use serde::Serialize;
use serde_json::json;

use super::peers::SPEAKER_JUDGE;
use super::speak::{Recognizer, narrator, speak};
use super::{VoiceArgs, failed};
use crate::audio::Scratch;
use crate::error::BenchError;
use crate::process::Process;
use crate::systems::NotRun;
use crate::wer::WordErrors;

/// What every voice says: some ten seconds of sounds that no reference has to contain.
const TEXT: &str = "Tomorrow morning the council will look at both proposals again. Whoever wants to speak should put down their name \
                    before half past nine, and bring the drawings with them.";
/// Presets of which each voice hears some as random ones.
const PRESETS: [&str; 8] =
    ["af_bella", "af_nicole", "af_sky", "am_adam", "am_michael", "bf_emma", "bm_george", "bm_lewis"];

/// Vectors of length 1 by the name of the network.
type Embeddings = BTreeMap<String, Vec<f64>>;

/// Mean cosine similarities to the reference by one network.
#[derive(Debug, Default, Serialize)]
pub(super) struct Similarities {
    /// Another recording of the same person.
    same_speaker: f64,
    /// Recordings of other people.
    other_speakers: f64,
    /// Presets, the mean of all that were heard.
    random_preset: f64,
    /// The preset that the search began with.
    nearest_preset: f64,
    matched: f64,
    /// How much of the distance between a random preset and the same speaker the matched voice covers.
    covered: f64,
    /// The same for the nearest preset.
    covered_by_nearest: f64,
    /// References that are nearer to the matched voice than to the preset that the search began with.
    improved: usize,
}

/// How near matched voices come.
#[derive(Debug, Serialize)]
pub(super) struct Matching {
    references: usize,
    search_seconds: f64,
    /// Mean similarity by the embedding that the search uses, as it reports it.
    own_similarity: f64,
    judges: BTreeMap<String, Similarities>,
    recognizer: String,
    matched_words: WordErrors,
    nearest_words: WordErrors,
    refused: Vec<NotRun>,
}

/// A voice with a reference and another recording.
struct Speaker {
    name: String,
    reference: PathBuf,
    other: PathBuf,
}

/// What was measured of one reference.
struct Trial {
    name: String,
    reference: Embeddings,
    other: Embeddings,
    matched: Embeddings,
    nearest: Embeddings,
}

pub(super) fn run(args: &VoiceArgs, bench: &Path) -> Result<Matching, BenchError> {
    let folder = args.references.clone().unwrap_or_else(|| bench.join("out/voices"));
    let speakers = speakers(&folder, args.voices)?;
    let mut command = SPEAKER_JUDGE
        .command(Some(bench), args.threads())
        .map_err(|NotRun { name, why }| BenchError::System { system: name, error: why })?;
    command.arg("--archives").arg(super::peers::archives(bench));
    let scratch = Scratch::new()?;
    let mut judge = Process::start(SPEAKER_JUDGE.name, command, scratch.file("judge.log"))?;
    let narrator = narrator(args, true)?;
    let mut presets = Vec::new();
    for preset in PRESETS {
        presets.push(spoken(&narrator, &mut judge, VoiceChoice::Named(preset), &scratch.file("preset.wav"))?.0);
    }
    let (mut trials, mut refused, mut own) = (Vec::new(), Vec::new(), 0.0);
    let mut files = Vec::new();
    for speaker in speakers {
        let [matched_file, nearest_file] = ["matched", "nearest"].map(|kind| {
            let name = format!("{kind}-{}.wav", files.len());
            scratch.file(&name)
        });
        let source = Source::Path(speaker.reference.clone());
        let found = Reference::read(source, &Options::default())
            .map_err(|error| failed("hark-voice", error))
            .and_then(|reference| spoken(&narrator, &mut judge, VoiceChoice::Like(&reference), &matched_file));
        let (matched, label) = match found {
            Ok(found) => found,
            Err(error) => {
                refused.push(NotRun { name: speaker.name, why: error.to_string() });
                continue;
            }
        };
        let (base, similarity) =
            parse_label(&label).ok_or_else(|| failed("hark-voice", format!("unexpected {label:?}")))?;
        own += similarity;
        let nearest = spoken(&narrator, &mut judge, VoiceChoice::Named(base), &nearest_file)?.0;
        files.push([matched_file, nearest_file]);
        eprintln!("{}: {label}", speaker.name);
        trials.push(Trial {
            reference: embed(&mut judge, &speaker.reference)?,
            other: embed(&mut judge, &speaker.other)?,
            name: speaker.name,
            matched,
            nearest,
        });
    }
    if trials.len() < 2 {
        return Err(failed("hark bench voice", "voice matching needs references of at least two people"));
    }
    drop(narrator);
    let mut recognizer = Recognizer::start(args, bench, &scratch)?;
    let [mut matched_words, mut nearest_words] = [WordErrors::default(); 2];
    for [matched, nearest] in &files {
        matched_words += WordErrors::between(TEXT, &recognizer.hear(matched)?);
        nearest_words += WordErrors::between(TEXT, &recognizer.hear(nearest)?);
    }
    let names: Vec<String> = trials[0].reference.keys().cloned().collect();
    let judges = names.into_iter().map(|name| (name.clone(), similarities(&trials, &presets, &name))).collect();
    Ok(Matching {
        references: trials.len(),
        search_seconds: args.match_seconds,
        own_similarity: own / trials.len() as f64,
        judges,
        recognizer: args.recognizer.clone(),
        matched_words,
        nearest_words,
        refused,
    })
}

/// The voices of a folder that have two recordings, `most` of them.
fn speakers(folder: &Path, most: usize) -> Result<Vec<Speaker>, BenchError> {
    let wrong = |source| BenchError::File { path: folder.to_owned(), source };
    let mut speakers = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(wrong)? {
        let path = entry.map_err(wrong)?.path();
        let (reference, other) = (path.join("1.wav"), path.join("2.wav"));
        if reference.is_file() && other.is_file() {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            speakers.push(Speaker { name, reference, other });
        }
    }
    speakers.sort_by(|one, other| one.name.cmp(&other.name));
    speakers.truncate(most);
    if speakers.is_empty() {
        return Err(failed("hark bench voice", "no recordings of voices; build them with bench/voices.py"));
    }
    Ok(speakers)
}

fn spoken(
    narrator: &Narrator,
    judge: &mut Process,
    voice: VoiceChoice<'_>,
    path: &Path,
) -> Result<(Embeddings, String), BenchError> {
    let (_, label) = speak(narrator, TEXT, voice, path)?;
    Ok((embed(judge, path)?, label))
}

fn embed(judge: &mut Process, path: &Path) -> Result<Embeddings, BenchError> {
    let mut answer: serde_json::Map<String, serde_json::Value> = judge.call(&json!({ "audio": path }))?;
    answer.retain(|_, value| value.is_array());
    serde_json::from_value(answer.into()).map_err(BenchError::Json)
}

/// The preset and the similarity of `matched; base=af_heart; similarity=0.46`.
fn parse_label(label: &str) -> Option<(&str, f64)> {
    let field = |name: &str| label.split("; ").find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
    Some((field("base")?, field("similarity")?.parse().ok()?))
}

fn similarities(trials: &[Trial], presets: &[Embeddings], judge: &str) -> Similarities {
    let cosine = |one: &Embeddings, other: &Embeddings| -> f64 {
        one[judge].iter().zip(&other[judge]).map(|(one, other)| one * other).sum()
    };
    let mean = |values: &mut dyn Iterator<Item = f64>| {
        let (sum, count) = values.fold((0.0, 0), |(sum, count), value| (sum + value, count + 1));
        sum / f64::from(count.max(1))
    };
    let of = |value: &dyn Fn(&Trial) -> f64| mean(&mut trials.iter().map(value));
    let other_speakers = of(&|trial| {
        let others = trials.iter().filter(|other| other.name != trial.name);
        mean(&mut others.map(|other| cosine(&trial.reference, &other.other)))
    });
    let same_speaker = of(&|trial| cosine(&trial.reference, &trial.other));
    let random_preset = of(&|trial| mean(&mut presets.iter().map(|preset| cosine(&trial.reference, preset))));
    let nearest_preset = of(&|trial| cosine(&trial.reference, &trial.nearest));
    let matched = of(&|trial| cosine(&trial.reference, &trial.matched));
    let share = |value: f64| (value - random_preset) / (same_speaker - random_preset);
    let is_improved =
        |trial: &&Trial| cosine(&trial.reference, &trial.matched) > cosine(&trial.reference, &trial.nearest);
    Similarities {
        same_speaker,
        other_speakers,
        random_preset,
        nearest_preset,
        matched,
        covered: share(matched),
        covered_by_nearest: share(nearest_preset),
        improved: trials.iter().filter(is_improved).count(),
    }
}

impl Matching {
    pub(super) fn table(&self) -> String {
        let mut text = format!(
            "\n## Voice matching\n\n{} references, {} s of search each; similarity by the search's own embedding {:.2}\n\n| cosine similarity to the reference by | same speaker | other speakers | random preset | nearest preset | matched | covered (nearest) | nearer than the nearest preset |\n|---|---|---|---|---|---|---|---|\n",
            self.references, self.search_seconds, self.own_similarity
        );
        for (name, one) in &self.judges {
            let _ = writeln!(
                text,
                "| {name} | {:.3} | {:.3} | {:.3} | {:.3} | {:.3} | {:.0} % ({:.0} %) | {}/{} |",
                one.same_speaker,
                one.other_speakers,
                one.random_preset,
                one.nearest_preset,
                one.matched,
                100.0 * one.covered,
                100.0 * one.covered_by_nearest,
                one.improved,
                self.references
            );
        }
        let percent = |words: &WordErrors| 100.0 * words.rate().unwrap_or_default();
        let _ = writeln!(
            text,
            "\nWord errors, heard by {}: {:.1} % of {} words in matched voices, {:.1} % in the nearest presets",
            self.recognizer,
            percent(&self.matched_words),
            self.matched_words.reference_words,
            percent(&self.nearest_words)
        );
        for NotRun { name, why } in &self.refused {
            let _ = writeln!(text, "\n{name}: refused: {why}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_voice_is_is_read_back() {
        assert_eq!(parse_label("matched; base=af_heart; similarity=0.46"), Some(("af_heart", 0.46)));
        assert_eq!(parse_label("preset; name=af_heart"), None);
    }

    #[test]
    fn a_voice_halfway_between_a_random_one_and_the_speaker_covers_half() {
        let at = |cosine: f64| Embeddings::from([("judge".to_owned(), vec![cosine, (1.0 - cosine * cosine).sqrt()])]);
        let trial = |name: &str| Trial {
            name: name.to_owned(),
            reference: at(1.0),
            other: at(0.8),
            matched: at(0.5),
            nearest: at(0.35),
        };
        let found = similarities(&[trial("a"), trial("b")], &[at(0.1), at(0.3)], "judge");
        assert!((found.covered - 0.5).abs() < 1e-9 && (found.covered_by_nearest - 0.25).abs() < 1e-9, "{found:?}");
        assert_eq!(found.improved, 2);
    }
}
