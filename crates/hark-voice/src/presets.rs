//! Voices that come with a model, and those made of them to resemble a reference: Kokoro's.

use std::sync::Arc;
use std::time::Duration;

use hark_media::CancelToken;
use hark_say::{Language, SayError, TextReader};
use hark_speech::Compute;
use hark_tts::{Sentence, SpeechModel, SpeechStream, Synthesizer, Voice};

use crate::error::VoiceError;
use crate::matching::{MatchedVoice, SharedMatching};
use crate::narrator::NarratorOptions;
use crate::reference::Reference;
use crate::script::{Script, SpeechRequest, VoiceChoice, Words, cut_first};
use crate::voice_model::{Sounds, VoiceModel};
use crate::voices::{LANGUAGES, PresetVoice, SPEEDS, default_for, preset_of_alias, public_code};

/// Kokoro: speaks phonemes.
pub(crate) struct PresetVoices {
    model: Synthesizer,
    reader: TextReader,
    matching: Arc<SharedMatching>,
    match_time: Duration,
}

impl PresetVoices {
    pub(crate) fn load(
        compute: &Compute,
        options: &NarratorOptions,
        matching: Arc<SharedMatching>,
    ) -> Result<Self, VoiceError> {
        let reader = TextReader::new(hark_say::Options {
            dictionary: options.dictionary.clone(),
            espeak: options.espeak.clone(),
            max_characters: usize::MAX,
            ..hark_say::Options::default()
        });
        let model = Synthesizer::load(compute, &options.model)?;
        Ok(PresetVoices { model, reader, matching, match_time: options.match_time })
    }

    /// The voice of a name.
    fn named(&self, name: &str) -> Result<&Voice, VoiceError> {
        let preset = preset_of_alias(name).unwrap_or(name);
        self.model.voice(preset).map_err(|_| VoiceError::UnknownVoice {
            name: name.chars().take(40).collect(),
            known: self.model.voices().iter().map(Voice::name).collect::<Vec<_>>().join(", "),
        })
    }

    /// The language of a request: that of its code, in the variety of the voice; else the voice's own where it can be spoken, else English.
    fn language(&self, request: &SpeechRequest<'_>, voice: Option<&Voice>) -> Result<&'static Language, VoiceError> {
        let own = voice.and_then(|voice| PresetVoice::of_name(voice.name())).map(|voice| voice.language);
        let can_speak = |code: &str| Language::find(code).is_some_and(|language| self.reader.can_speak(language));
        let code = match (request.language, own) {
            // An English voice reads English in its own way.
            (Some("en"), Some(own)) if own.starts_with("en") => own,
            (Some(code), _) => code,
            (None, Some(own)) if can_speak(own) || !is_latin(request.text) => own,
            (None, _) => "en-us",
        };
        let unknown = || VoiceError::UnknownLanguage { language: code.chars().take(40).collect() };
        let base = code.split(['-', '_']).next().unwrap_or_default().to_lowercase();
        if base == "zh" {
            return Err(self.unpronounced("Chinese", NO_READING));
        }
        let language = Language::find(code).ok_or_else(unknown)?;
        if !self.reader.can_speak(language) {
            return Err(self.unpronounced(language.name, NO_ESPEAK));
        }
        Ok(language)
    }

    fn unpronounced(&self, language: &str, why: &'static str) -> VoiceError {
        VoiceError::NoPronunciation { language: language.to_owned(), why, spoken: self.languages().join(", ") }
    }

    fn matched(
        &self,
        reference: &Reference,
        language: &'static Language,
        cancel: &CancelToken,
    ) -> Result<Arc<MatchedVoice>, VoiceError> {
        let matching = self.matching.get()?;
        // Languages without voices of their own share the English ones.
        let has_own = self.presets().iter().any(|voice| voice.language == language.code);
        let own = if has_own && public_code(language) != "en" { language.code } else { "en" };
        matching.find(&self.model, reference, own, self.match_time, cancel)
    }
}

impl VoiceModel for PresetVoices {
    fn memory(&self) -> u64 {
        self.model.memory()
    }

    fn sample_rate(&self) -> u32 {
        self.model.sample_rate()
    }

    fn presets(&self) -> Vec<PresetVoice> {
        self.model.voices().iter().filter_map(|voice| PresetVoice::of_name(voice.name())).collect()
    }

    fn languages(&self) -> Vec<&'static str> {
        let can_speak = |code: &&str| Language::find(code).is_some_and(|language| self.reader.can_speak(language));
        LANGUAGES.into_iter().filter(can_speak).collect()
    }

    fn prepare(&self, request: &SpeechRequest<'_>, cancel: &CancelToken) -> Result<Script, VoiceError> {
        let named = match request.voice {
            VoiceChoice::Named(name) => Some(self.named(name)?),
            VoiceChoice::Default | VoiceChoice::Like(_) => None,
        };
        let language = self.language(request, named)?;
        let is_cancelled = || cancel.is_cancelled();
        let planned = match self.reader.plan(request.text, language.code, &is_cancelled) {
            Err(SayError::EspeakMissing { .. }) => return Err(self.unpronounced(language.name, NO_ESPEAK)),
            planned => planned?,
        };
        let sentence = |one: hark_say::Sentence| Sentence { phonemes: one.phonemes, pause: one.pause.as_secs_f32() };
        let mut sentences: Vec<Sentence> = planned.into_iter().map(sentence).collect();
        if request.is_streamed {
            cut_first(&mut sentences);
        }
        let (voice, pace, label) = match (request.voice, named) {
            (VoiceChoice::Like(reference), _) => {
                let found = self.matched(reference, language, cancel)?;
                let report = &found.report;
                (
                    found.voice.clone(),
                    report.speed,
                    format!("; base={}; similarity={:.2}", report.nearest, report.similarity),
                )
            }
            (_, Some(voice)) => (voice.clone(), 1.0, format!("; name={}", voice.name())),
            (_, None) => {
                let voice = self.model.voice(default_for(language))?;
                (voice.clone(), 1.0, format!("; name={}", voice.name()))
            }
        };
        let speed = (request.speed * pace).clamp(*SPEEDS.start(), *SPEEDS.end());
        let kind = voice.kind();
        let words = Words::Phonemes { sentences, voice };
        Ok(Script { words, speed, language: public_code(language), kind, label })
    }

    fn sounds<'a>(&'a self, script: &'a Script, is_cancelled: &'a (dyn Fn() -> bool + Sync)) -> Sounds<'a> {
        match &script.words {
            Words::Phonemes { sentences, voice } => {
                let sentences = sentences.iter().cloned();
                let stream = SpeechStream::new(&self.model, voice, script.speed, sentences, is_cancelled);
                Box::new(stream.map(|sound| sound.map_err(VoiceError::from)))
            }
            Words::Text { .. } => Box::new(std::iter::once(Err(VoiceError::ForeignScript))),
        }
    }
}

/// Whether all letters of a text are such as English is written in; those of other scripts would be left out.
fn is_latin(text: &str) -> bool {
    text.chars().filter(|character| character.is_alphabetic()).all(|letter| letter < LATIN_END)
}

/// Behind the last letter of Latin Extended-B.
const LATIN_END: char = '\u{250}';

/// Why a language can't be pronounced.
const NO_ESPEAK: &str = ": it needs the program espeak-ng, which was not found";
const NO_READING: &str = ": nothing here knows the readings of its characters";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_latin_without_letters_of_other_scripts() {
        for (text, expected) in
            [("Hi.", true), ("¡Olé, señor! 42", true), ("3.14", true), ("你好", false), ("Hi, मित्र", false)]
        {
            assert_eq!(is_latin(text), expected, "{text}");
        }
    }
}
