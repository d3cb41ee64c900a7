//! Voice matching: a voice of the model that resembles a reference recording.
//!
//! This is no cloning. The reference is compared with the model's own voices by speaker embeddings; the nearest is then moved
//! as long as a spoken sentence comes nearer to the reference: to where an [`EmbeddingMap`] guesses that it will, and when that has nothing more to
//! say along differences between voices. What comes out is [`VoiceKind::Matched`]. The reference is not kept.

use std::time::{Duration, Instant};

use hark_numeric::SplitMix64;

use crate::TtsError;
use crate::embedding_map::EmbeddingMap;
use crate::model::{SpeechModel, Voice, VoiceKind};
use crate::network::STYLE_WIDTH;
use crate::pace::{syllables_per_second, to_16_khz};
use crate::search::Search;
use crate::style_space::StyleSpace;

/// What voices speak to be compared: some two seconds with many different sounds.
pub const LISTENING_SENTENCE: &str = "ðə kwˈɪk bɹˈaʊn fˈɑːks dʒˈʌmps ˌoʊvɚ ðə lˈeɪzi dˈɑːɡ.";
/// Samples of a piece that is embedded, and from one to the next.
const PIECE: usize = 24_000;
const HOP: usize = 12_000;
/// Least seconds of a reference.
const SHORTEST: usize = 2;
/// Samples of a second of a reference.
const REFERENCE_RATE: usize = 16_000;
/// How far a step may go along a difference of two voices.
const STEP: f32 = 0.6;
/// Pace is changed by no more than this factor.
const MOST_PACE: f32 = 1.25;

/// A speaker embedding for each piece of speech (16 kHz mono, 1.5 s or less), all of one length: near those of the same voice.
pub type EmbedSpeech = Box<dyn FnMut(&[&[f32]]) -> Vec<Vec<f32>> + Send>;

/// How long a search may go on: it ends with the first of both.
#[derive(Debug, Clone, Copy)]
pub struct SearchBudget {
    /// By the clock.
    pub time: Duration,
    /// Voices that are tried.
    pub tries: usize,
}

/// What matching found.
#[derive(Debug, Clone)]
pub struct MatchReport {
    /// The preset voice that the search began with.
    pub nearest: String,
    /// Cosine similarity of that voice to the reference.
    pub nearest_similarity: f32,
    /// Cosine similarity of the matched voice to the reference.
    pub similarity: f32,
    /// Voices that were tried.
    pub tried: usize,
    /// The speed at which the matched voice talks as quickly as the reference.
    pub speed: f32,
}

/// Compares voices with references; it knows what each voice sounds like.
pub struct VoiceMatcher {
    embed: EmbedSpeech,
    presets: Vec<Voice>,
    /// An embedding of each preset.
    embeddings: Vec<Vec<f32>>,
}

impl VoiceMatcher {
    /// Listens to each of these voices of the model once, which takes about a quarter of a second each on two cores.
    pub fn new(
        model: &dyn SpeechModel,
        presets: Vec<Voice>,
        mut embed: EmbedSpeech,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Self, TtsError> {
        let mut embeddings = Vec::with_capacity(presets.len());
        for voice in &presets {
            let spoken = model.speak(LISTENING_SENTENCE, voice, 1.0, is_cancelled)?;
            embeddings.push(mean_embedding(&mut embed, &to_16_khz(&spoken)));
        }
        Ok(VoiceMatcher { embed, presets, embeddings })
    }

    /// With the embeddings that [`VoiceMatcher::embeddings`] gave for these voices before.
    pub fn with_embeddings(presets: Vec<Voice>, embeddings: Vec<Vec<f32>>, embed: EmbedSpeech) -> Self {
        VoiceMatcher { embed, presets, embeddings }
    }

    /// What each voice sounds like, in the order of the voices: an embedding of length 1.
    pub fn embeddings(&self) -> &[Vec<f32>] {
        &self.embeddings
    }

    /// A voice that resembles the speaker of `reference` (16 kHz mono, two seconds or more), searched for as long as `budget`.
    ///
    /// The search draws from a generator that begins with `seed`: what it tries is always the same, how far it comes
    /// depends on the machine.
    pub fn match_voice(
        &mut self,
        model: &dyn SpeechModel,
        reference: &[f32],
        budget: SearchBudget,
        seed: u64,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<(Voice, MatchReport), TtsError> {
        let begun = Instant::now();
        let problem = |what: &str| TtsError::Reference { what: what.to_owned() };
        if reference.len() < SHORTEST * REFERENCE_RATE {
            return Err(problem("it is shorter than two seconds"));
        }
        let power = reference.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / reference.len() as f64;
        if !(power > 1e-8 && power.is_finite()) {
            return Err(problem("it is silent, or not sound at all"));
        }
        let wanted = mean_embedding(&mut self.embed, reference);
        let similarities = self.embeddings.iter().map(|voice| cosine(voice, &wanted));
        let nearest = similarities.enumerate().max_by(|one, other| one.1.total_cmp(&other.1));
        let (index, nearest_similarity) = nearest.ok_or_else(|| problem("there are no voices to match it with"))?;
        let (preset, presets) = (&self.presets[index], &self.presets);
        let space = StyleSpace::of(&model.voices().iter().map(heard_style).collect::<Vec<_>>());
        let coordinates: Vec<_> = presets.iter().map(|voice| space.coordinates(heard_style(voice))).collect();
        let map = EmbeddingMap::new();
        let mut search = Search::new(&map, &wanted, coordinates[index].clone(), &self.embeddings[index]);
        let (mut best, mut spoken) = (matched(preset, heard_style(preset)), None);
        let (mut random, mut tried) = (SplitMix64::new(seed), 0);
        while begun.elapsed() < budget.time && tried < budget.tries && !is_cancelled() {
            let proposal = search.proposal();
            let is_proposal = proposal.is_some();
            let place = proposal.unwrap_or_else(|| random_move(&mut random, search.best(), &coordinates));
            let candidate = matched(preset, &space.style(&place));
            let sound = model.speak(LISTENING_SENTENCE, &candidate, 1.0, is_cancelled)?;
            tried += 1;
            if search.learn(place, &mean_embedding(&mut self.embed, &to_16_khz(&sound)), is_proposal) {
                (best, spoken) = (candidate, Some(sound));
            }
        }
        if is_cancelled() {
            return Err(TtsError::Cancelled);
        }
        let similarity = search.similarity();
        let spoken = match spoken {
            Some(spoken) => spoken,
            None => model.speak(LISTENING_SENTENCE, preset, 1.0, is_cancelled)?,
        };
        let (theirs, ours) = (syllables_per_second(reference), syllables_per_second(&to_16_khz(&spoken)));
        let speed = match (theirs, ours) {
            (Some(theirs), Some(ours)) => (theirs / ours).clamp(1.0 / MOST_PACE, MOST_PACE),
            _ => 1.0,
        };
        let nearest = preset.name().to_owned();
        Ok((best, MatchReport { nearest, nearest_similarity, similarity, tried, speed }))
    }

    /// Cosine similarity of what the model spoke (24 kHz) to a recording (16 kHz mono).
    pub fn similarity_of_speech(&mut self, spoken: &[f32], recording: &[f32]) -> f32 {
        self.similarity(&to_16_khz(spoken), recording)
    }

    /// Cosine similarity of a recording (16 kHz mono) to another by the embedding that matching uses.
    pub fn similarity(&mut self, one: &[f32], other: &[f32]) -> f32 {
        cosine(&mean_embedding(&mut self.embed, one), &mean_embedding(&mut self.embed, other))
    }
}

/// The style of a voice for the sentence in which voices are compared.
fn heard_style(voice: &Voice) -> &[f32] {
    // A voice has a style for each length of a sentence.
    let styles = voice.numbers.len() / STYLE_WIDTH;
    let row = (LISTENING_SENTENCE.chars().count() - 1).min(styles.saturating_sub(1));
    &voice.numbers[row * STYLE_WIDTH..][..STYLE_WIDTH]
}

/// A preset whose styles for all lengths are moved alike, so that the one that was heard is `style`.
fn matched(preset: &Voice, style: &[f32]) -> Voice {
    let moves: Vec<f32> = style.iter().zip(heard_style(preset)).map(|(new, old)| new - old).collect();
    let numbers = preset.numbers.iter().zip(moves.iter().cycle()).map(|(old, by)| old + by).collect();
    Voice { name: format!("matched-{}", preset.name).into(), kind: VoiceKind::Matched, numbers }
}

/// A step along the difference of two voices from a place, given the coordinates of all.
fn random_move(random: &mut SplitMix64, from: &[f32], voices: &[Vec<f32>]) -> Vec<f32> {
    let (one, other) = (&voices[below(random, voices.len())], &voices[below(random, voices.len())]);
    let step = (random.unit() - 0.5) * 2.0 * STEP;
    // The first half of a style is the sound, the second the melody; both, or one of them.
    let halves = [[true, true], [true, false], [false, true]][below(random, 3)];
    let share = |at: usize| if halves[at * 2 / STYLE_WIDTH] { step } else { 0.0 };
    (0..STYLE_WIDTH).map(|at| from[at] + share(at) * (one[at] - other[at])).collect()
}

/// The mean embedding of overlapping pieces, of length 1.
fn mean_embedding(embed: &mut EmbedSpeech, samples: &[f32]) -> Vec<f32> {
    let last = samples.len().saturating_sub(PIECE);
    let piece = |start: usize| &samples[start..samples.len().min(start + PIECE)];
    let pieces: Vec<&[f32]> = (0..=last / HOP).map(|index| piece(index * HOP)).collect();
    let mut sum: Vec<f32> = Vec::new();
    for embedding in embed(&pieces) {
        sum.resize(embedding.len(), 0.0);
        sum.iter_mut().zip(embedding).for_each(|(sum, x)| *sum += x);
    }
    let length = sum.iter().map(|x| x * x).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
    sum.iter().map(|x| x / length).collect()
}

fn cosine(one: &[f32], other: &[f32]) -> f32 {
    one.iter().zip(other).map(|(one, other)| one * other).sum()
}

/// A number below `count`.
fn below(random: &mut SplitMix64, count: usize) -> usize {
    (random.bits() % count as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    const TONES: [f32; 4] = [300.0, 700.0, 1_300.0, 2_100.0];

    /// Speaks four tones for two seconds, as loud as the first numbers of a voice say.
    struct Tones(Vec<Voice>);

    fn voice(name: &str, loudness: [f32; 4]) -> Voice {
        let mut numbers = vec![0.0; STYLE_WIDTH];
        numbers[..4].copy_from_slice(&loudness);
        Voice { name: name.into(), kind: VoiceKind::Preset, numbers: numbers.into() }
    }

    impl SpeechModel for Tones {
        fn sample_rate(&self) -> u32 {
            24_000
        }
        fn voices(&self) -> &[Voice] {
            &self.0
        }
        fn max_phonemes(&self) -> usize {
            510
        }
        fn speak(&self, _: &str, voice: &Voice, _: f32, cancelled: &dyn Fn() -> bool) -> Result<Vec<f32>, TtsError> {
            if cancelled() {
                return Err(TtsError::Cancelled);
            }
            let tone = |n: usize, hertz: f32| (n as f32 * hertz * std::f32::consts::TAU / 24_000.0).sin();
            let sample =
                |n: usize| TONES.iter().zip(&voice.numbers[..]).map(|(hertz, loud)| loud * tone(n, *hertz)).sum();
            Ok((0..48_000).map(sample).collect())
        }
    }

    /// How loud each tone is.
    fn embed() -> EmbedSpeech {
        Box::new(|pieces| {
            let loudness = |piece: &[f32], hertz: f32| {
                let part = |phase: f32| {
                    let wave = |n: usize| (n as f32 * hertz * std::f32::consts::TAU / 16_000.0 + phase).sin();
                    piece.iter().enumerate().map(|(n, x)| x * wave(n)).sum::<f32>() / piece.len() as f32
                };
                part(0.0).hypot(part(std::f32::consts::FRAC_PI_2))
            };
            pieces.iter().map(|piece| TONES.map(|hertz| loudness(piece, hertz)).to_vec()).collect()
        })
    }

    fn model() -> Tones {
        Tones(vec![
            voice("low", [0.8, 0.3, 0.1, 0.1]),
            voice("middle", [0.2, 0.8, 0.3, 0.1]),
            voice("high", [0.1, 0.1, 0.6, 0.7]),
        ])
    }

    #[test]
    fn the_nearest_voice_is_found_and_moved_towards_the_reference() {
        let model = model();
        let mut matcher = VoiceMatcher::new(&model, model.0.clone(), embed(), &|| false).unwrap();
        let reference = to_16_khz(&model.speak("", &voice("", [0.2, 0.5, 0.5, 0.4]), 1.0, &|| false).unwrap());
        let mut find = |tries: usize| {
            let budget = SearchBudget { time: Duration::from_secs(3600), tries };
            matcher.match_voice(&model, &reference, budget, 1, &|| false).unwrap()
        };
        let (unmoved, before) = find(0);
        assert_eq!((unmoved.kind(), unmoved.name(), before.tried), (VoiceKind::Matched, "matched-middle", 0));
        assert_eq!(unmoved.numbers, model.0[1].numbers);
        let (moved, after) = find(60);
        assert_eq!((after.tried, after.nearest.as_str()), (60, "middle"));
        assert_eq!(before.nearest_similarity, after.nearest_similarity);
        assert!(after.similarity > 0.99 && before.similarity < 0.95, "{before:?} {after:?}");
        let spoken = model.speak("", &moved, 1.0, &|| false).unwrap();
        assert!((matcher.similarity_of_speech(&spoken, &reference) - after.similarity).abs() < 1e-4);
    }

    #[test]
    fn bad_references_are_refused_and_a_search_can_be_cancelled() {
        let model = model();
        let mut matcher = VoiceMatcher::new(&model, model.0.clone(), embed(), &|| false).unwrap();
        let budget = SearchBudget { time: Duration::from_secs(3600), tries: 1000 };
        let reference = to_16_khz(&model.speak("", &model.0[0], 1.0, &|| false).unwrap());
        let short = &reference[..20_000];
        for bad in [short, &[0.0; 40_000], &[f32::NAN; 40_000]] {
            let found = matcher.match_voice(&model, bad, budget, 1, &|| false).map(|_| ()).unwrap_err();
            assert!(found.is_callers_fault() && matches!(found, TtsError::Reference { .. }), "{found}");
        }
        let asked = std::sync::atomic::AtomicUsize::new(0);
        let is_cancelled = || asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) > 20;
        let found = matcher.match_voice(&model, &reference, budget, 1, &is_cancelled);
        assert!(matches!(found, Err(TtsError::Cancelled)));
        assert!(asked.into_inner() < 30, "it stops soon");
        assert!(matches!(VoiceMatcher::new(&model, model.0.clone(), embed(), &|| true), Err(TtsError::Cancelled)));
    }
}
