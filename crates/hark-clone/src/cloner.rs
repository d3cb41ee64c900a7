//! The model from its folder: clips to voices, sentences to samples.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::Duration;

use hark_onnx::{Runtime, Tensor};

use crate::CloneError;
use crate::generate::{Generated, MAX_TOKENS, Settings, generate, most_tokens};
use crate::networks::{BANDS, Networks, SPEAKER};
use crate::sample::CODES;
use crate::text::{Cangjie, LANGUAGES, prepare};
use crate::tokenizer::Tokenizer;

/// Samples of a second, of clips and of speech.
pub const SAMPLE_RATE: u32 = 24_000;
/// Least seconds of a clip that the model can listen to; contracts may ask for more.
pub const SHORTEST_CLIP: f64 = 1.0;
/// Most seconds of a clip that the model hears.
const LONGEST_CLIP: usize = 10;
/// Speech tokens of a second.
const TOKEN_RATE: f64 = 25.0;
/// How often a sentence is begun again where no end of it was found.
const ATTEMPTS: u64 = 3;

/// How often a wait for the networks looks whether it was called off.
const GLANCE: Duration = Duration::from_millis(20);

const TOKENIZER: &str = "tokenizer.json";
const CANGJIE: &str = "Cangjie5_TC.json";

/// A voice that the model listened to. It identifies a person: it is for memory only, and says nothing of itself in logs.
pub struct ClonedVoice {
    /// Embeddings that go before the text.
    conditioning: Vec<f32>,
    /// The speech of the clip.
    tokens: Vec<i64>,
    speaker: Vec<f32>,
    /// Mel features of the clip, rows of [`BANDS`].
    features: Vec<f32>,
}

impl std::fmt::Debug for ClonedVoice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ClonedVoice")
    }
}

/// Chatterbox multilingual; one for a process. Its networks run one sentence at a time.
pub struct Cloner {
    networks: Mutex<Networks>,
    tokenizer: Tokenizer,
    cangjie: Option<Cangjie>,
    languages: Vec<&'static str>,
    memory: u64,
}

impl Cloner {
    /// Loads the ONNX files and the tokenizer of a folder, to run on this many threads.
    pub fn load(runtime: &Runtime, folder: &Path, threads: usize) -> Result<Self, CloneError> {
        let path = folder.join(TOKENIZER);
        let tokenizer = Tokenizer::load(&path)?;
        let codes = folder.join(CANGJIE);
        let cangjie = if codes.is_file() { Some(Cangjie::load(&codes)?) } else { None };
        // Without the codes of its characters nothing of Chinese has tokens.
        let can_speak =
            |language: &&str| tokenizer.has(&format!("[{language}]")) && (*language != "zh" || cangjie.is_some());
        let languages: Vec<&'static str> = LANGUAGES.into_iter().filter(can_speak).collect();
        if languages.is_empty() {
            return Err(CloneError::Malformed { path, what: "it has no tokens of languages".to_owned() });
        }
        let networks = Mutex::new(Networks::load(runtime, folder, threads)?);
        Ok(Cloner { networks, tokenizer, cangjie, languages, memory: size_of(folder) })
    }

    /// The codes of the languages that it speaks.
    pub fn languages(&self) -> &[&'static str] {
        &self.languages
    }

    /// Bytes of its files, which are about those that it takes.
    pub fn memory(&self) -> u64 {
        self.memory
    }

    /// Listens to a clip at [`SAMPLE_RATE`], of which ten seconds are heard.
    pub fn listen(&self, clip: &[f32], is_cancelled: &(dyn Fn() -> bool + Sync)) -> Result<ClonedVoice, CloneError> {
        let refused = |what: &str| CloneError::Reference { what: what.to_owned() };
        if (clip.len() as f64) < SHORTEST_CLIP * f64::from(SAMPLE_RATE) {
            return Err(refused(&format!("it is shorter than {SHORTEST_CLIP:.0} s")));
        }
        if !clip.iter().all(|sample| sample.is_finite()) {
            return Err(refused("it holds samples that are no numbers"));
        }
        let heard = &clip[..clip.len().min(LONGEST_CLIP * SAMPLE_RATE as usize)];
        let mut networks = self.networks(is_cancelled)?;
        let samples = Tensor::f32(&[1, heard.len()], heard.to_vec())?;
        let mut outputs = networks.encoder.run(&[("audio_values", &samples)], is_cancelled)?;
        let mut floats = |name: &str, width: usize| {
            let tensor = outputs.take(name)?;
            let (shape, numbers) = (tensor.shape(), tensor.as_f32()?);
            if shape.first() != Some(&1) || shape.last() != Some(&width) || numbers.is_empty() {
                return Err(networks.encoder.unlike(format!("it returned {name} of shape {shape:?}")).into());
            }
            if numbers.iter().all(|number| number.is_finite()) {
                Ok(numbers.to_vec())
            } else {
                Err(CloneError::NotFinite)
            }
        };
        let conditioning = floats("audio_features", networks.width)?;
        let speaker = floats("speaker_embeddings", SPEAKER)?;
        let features = floats("speaker_features", BANDS)?;
        let tokens = outputs.take("audio_tokens")?.as_i64()?.to_vec();
        if tokens.is_empty() {
            return Err(refused("the model hears no speech in it"));
        }
        if !tokens.iter().all(is_code) {
            return Err(networks.encoder.unlike("it returned speech tokens that are none").into());
        }
        Ok(ClonedVoice { conditioning, tokens, speaker, features })
    }

    /// The samples of a sentence in a voice. The seed decides over what is left to chance in its speech tokens; the decoder draws noise of its own, so that samples differ a little each time.
    pub fn speak(
        &self,
        sentence: &str,
        language: &str,
        voice: &ClonedVoice,
        settings: &Settings,
        seed: u64,
        is_cancelled: &(dyn Fn() -> bool + Sync),
    ) -> Result<Vec<f32>, CloneError> {
        let ids = self.encode(sentence, language)?;
        let text_tokens = self.tokenizer.text_tokens(&ids);
        let mut networks = self.networks(is_cancelled)?;
        for attempt in 0..ATTEMPTS {
            let seed = seed.wrapping_add(attempt);
            let made = generate(&mut networks, &ids, text_tokens, &voice.conditioning, settings, seed, is_cancelled)?;
            match made {
                Generated::Whole(tokens) => return decode(&mut networks, &tokens, voice, is_cancelled),
                Generated::Endless => tracing::warn!(attempt, text_tokens, "clone.endless"),
            }
        }
        Err(CloneError::Endless { seconds: most_tokens(text_tokens) as f64 / TOKEN_RATE })
    }

    /// The tokens of a sentence; an error where it can't be spoken. Nothing is spoken yet.
    pub fn check(&self, sentence: &str, language: &str) -> Result<(), CloneError> {
        self.encode(sentence, language).map(drop)
    }

    /// Waits for the networks, which another sentence may have for a minute, unless it is called off.
    fn networks(&self, is_cancelled: &dyn Fn() -> bool) -> Result<MutexGuard<'_, Networks>, CloneError> {
        loop {
            match self.networks.try_lock() {
                Ok(networks) => return Ok(networks),
                Err(TryLockError::Poisoned(poisoned)) => return Ok(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) if is_cancelled() => return Err(CloneError::Cancelled),
                Err(TryLockError::WouldBlock) => std::thread::sleep(GLANCE),
            }
        }
    }

    fn encode(&self, sentence: &str, language: &str) -> Result<Vec<i64>, CloneError> {
        if !self.languages.contains(&language) {
            return Err(CloneError::UnknownLanguage { language: language.chars().take(40).collect() });
        }
        let none = Cangjie::default();
        let text = prepare(sentence, language, self.cangjie.as_ref().unwrap_or(&none))?;
        let ids = self.tokenizer.encode(&text);
        if ids.len() > MAX_TOKENS {
            return Err(CloneError::TooLong { found: ids.len(), limit: MAX_TOKENS });
        }
        Ok(ids)
    }
}

fn is_code(token: &i64) -> bool {
    (0..CODES as i64).contains(token)
}

/// Speech tokens to samples: those of the clip go before, and the decoder leaves their sound out.
fn decode(
    networks: &mut Networks,
    tokens: &[i64],
    voice: &ClonedVoice,
    is_cancelled: &(dyn Fn() -> bool + Sync),
) -> Result<Vec<f32>, CloneError> {
    let all = [voice.tokens.as_slice(), tokens].concat();
    let tokens = Tensor::i64(&[1, all.len()], all)?;
    let speaker = Tensor::f32(&[1, SPEAKER], voice.speaker.clone())?;
    let features = Tensor::f32(&[1, voice.features.len() / BANDS, BANDS], voice.features.clone())?;
    let inputs = [("speech_tokens", &tokens), ("speaker_embeddings", &speaker), ("speaker_features", &features)];
    let samples = networks.decoder.run(&inputs, is_cancelled)?.take("waveform")?;
    let samples = samples.as_f32()?;
    if !samples.iter().all(|sample| sample.is_finite()) {
        return Err(CloneError::NotFinite);
    }
    Ok(samples.iter().map(|sample| sample.clamp(-1.0, 1.0)).collect())
}

fn size_of(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| std::fs::metadata(entry.path()).ok())
        .filter(|data| data.is_file())
        .map(|data| data.len())
        .sum()
}
