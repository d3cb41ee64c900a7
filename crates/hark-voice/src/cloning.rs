//! Voices cloned from a reference: Chatterbox's.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use hark_clone::{ClonedVoice, Cloner, Settings};
use hark_media::CancelToken;
use hark_onnx::{LIBRARY, Runtime};
use hark_say::{Passage, passages};
use hark_speech::Compute;
use hark_tts::{VoiceKind, trimmed};

use crate::error::VoiceError;
use crate::matching::SharedMatching;
use crate::narrator::NarratorOptions;
use crate::reference::Reference;
use crate::script::{Line, Script, SpeechRequest, VoiceChoice, Words};
use crate::voice_model::{Sounds, VoiceModel};
use crate::voices::PresetVoice;

/// Characters of a sentence at most, some 20 s of speech: the model loses its way in longer ones.
const LONGEST_SENTENCE: usize = 280;
/// The same where a character is a syllable or a word.
const LONGEST_OF_SYLLABLES: usize = 80;
/// A first sentence of a stream has at most this share of them, so that it is heard sooner.
const FIRST_SHARE: usize = 3;
/// Voices that are remembered.
const REMEMBERED: usize = 16;

/// Chatterbox: speaks text in the voice of a reference, and has no voices of its own.
pub(crate) struct ClonedVoices {
    cloner: Cloner,
    /// The name of the model's folder, for the label of its voices.
    name: String,
    matching: Arc<SharedMatching>,
    heard: Mutex<VecDeque<([u8; 32], Arc<ClonedVoice>)>>,
}

impl ClonedVoices {
    pub(crate) fn load(
        compute: &Compute,
        options: &NarratorOptions,
        matching: Arc<SharedMatching>,
    ) -> Result<Self, VoiceError> {
        let folder = options.runtime.as_ref().ok_or(VoiceError::NoRuntime)?;
        let runtime = Runtime::load(&folder.join(LIBRARY)).map_err(hark_clone::CloneError::from)?;
        let cloner = Cloner::load(&runtime, &options.model, compute.threads())?;
        let name = options.model.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        // The label becomes a header.
        let name = name.chars().filter(|character| character.is_ascii_graphic() && *character != ';').collect();
        Ok(ClonedVoices { cloner, name, matching, heard: Mutex::default() })
    }

    /// The voice of a clip, after the checks that every clip must pass.
    fn voice(&self, reference: &Reference, cancel: &CancelToken) -> Result<Arc<ClonedVoice>, VoiceError> {
        let heard = || self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, voice)) = heard().iter().find(|(hash, _)| *hash == reference.hash) {
            return Ok(Arc::clone(voice));
        }
        self.matching.get()?.check(&reference.samples)?;
        let voice = Arc::new(self.cloner.listen(&reference.wide, &|| cancel.is_cancelled())?);
        let mut all = heard();
        all.push_back((reference.hash, Arc::clone(&voice)));
        if all.len() > REMEMBERED {
            all.pop_front();
        }
        Ok(voice)
    }

    fn language(&self, code: Option<&str>) -> Result<&'static str, VoiceError> {
        let code = code.unwrap_or("en");
        let base = code.split(['-', '_']).next().unwrap_or_default().to_lowercase();
        let base = if matches!(base.as_str(), "nb" | "nn") { "no" } else { base.as_str() };
        if !crate::LANGUAGES.contains(&base) {
            return Err(VoiceError::UnknownLanguage { language: code.chars().take(40).collect() });
        }
        let spoken = self.cloner.languages();
        spoken.iter().find(|one| **one == base).copied().ok_or_else(|| VoiceError::NoPronunciation {
            language: base.to_owned(),
            why: ": the cloning model does not have it",
            spoken: spoken.join(", "),
        })
    }
}

impl VoiceModel for ClonedVoices {
    fn memory(&self) -> u64 {
        self.cloner.memory()
    }

    fn sample_rate(&self) -> u32 {
        hark_clone::SAMPLE_RATE
    }

    fn presets(&self) -> Vec<PresetVoice> {
        Vec::new()
    }

    fn languages(&self) -> Vec<&'static str> {
        self.cloner.languages().to_vec()
    }

    fn prepare(&self, request: &SpeechRequest<'_>, cancel: &CancelToken) -> Result<Script, VoiceError> {
        let VoiceChoice::Like(reference) = request.voice else {
            return Err(VoiceError::OnlyReferences { model: self.name.clone() });
        };
        if (request.speed - 1.0).abs() > 1e-3 {
            return Err(VoiceError::OwnPace);
        }
        let language = self.language(request.language)?;
        let mut parts = passages(request.text, language, longest_sentence(language))?;
        if request.is_streamed {
            cut_first(&mut parts, language)?;
        }
        for part in &parts {
            self.cloner.check(&part.spoken, language)?;
        }
        let voice = self.voice(reference, cancel)?;
        let seed = u64::from_le_bytes(*reference.hash.first_chunk().unwrap_or(&[0; 8]));
        let lines = parts.into_iter().enumerate().map(|(at, part)| Line {
            text: part.spoken,
            pause: part.pause.as_secs_f32(),
            seed: seed.wrapping_add((at as u64) << 32),
        });
        let words = Words::Text { lines: lines.collect(), voice };
        let label = format!("; model={}", self.name);
        Ok(Script { words, speed: 1.0, language, kind: VoiceKind::Cloned, label })
    }

    fn sounds<'a>(&'a self, script: &'a Script, is_cancelled: &'a (dyn Fn() -> bool + Sync)) -> Sounds<'a> {
        let Words::Text { lines, voice } = &script.words else {
            return Box::new(std::iter::once(Err(VoiceError::ForeignScript)));
        };
        let (settings, last) = (Settings::default(), lines.len().saturating_sub(1));
        let sound = move |(at, line): (usize, &Line)| {
            let samples = self.cloner.speak(&line.text, script.language, voice, &settings, line.seed, is_cancelled)?;
            let mut samples = trimmed(&samples, self.sample_rate());
            if at < last {
                samples.resize(samples.len() + (line.pause * self.sample_rate() as f32) as usize, 0.0);
            }
            Ok(samples)
        };
        Box::new(lines.iter().enumerate().map(sound))
    }
}

fn longest_sentence(language: &str) -> usize {
    if matches!(language, "ja" | "ko" | "zh") { LONGEST_OF_SYLLABLES } else { LONGEST_SENTENCE }
}

/// Cuts a long first sentence, so that its begin is heard while the rest is made.
fn cut_first(parts: &mut Vec<Passage>, language: &str) -> Result<(), VoiceError> {
    let most = longest_sentence(language) / FIRST_SHARE;
    if let Some(first) = parts.first().filter(|first| first.spoken.chars().count() > most) {
        // Words that are read already are read the same again.
        let mut heads = passages(&first.spoken, language, most)?;
        if let Some(last) = heads.last_mut() {
            last.pause = first.pause;
        }
        parts.splice(..1, heads);
    }
    Ok(())
}
