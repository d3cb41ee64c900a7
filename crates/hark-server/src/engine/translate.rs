//! Translation models of the engine, and language identification.

use std::collections::BTreeMap;
use std::sync::Arc;

use hark_models::Role as ModelRole;
use hark_speech::CancelToken;
use hark_translate::{LanguageDetector, TranslateError, TranslationModel, Translator};

use super::registry::{InUse, ModelSpec, Resident};
use super::{Dependency, EngineError, SpeechEngine, Translate};

/// The file of the language identification model in its folder.
const LID_FILE: &str = "lid.176.ftz";
/// The language between two others for which there is no model of their own.
const PIVOT: &str = "en";

/// Two languages that can be translated between.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TranslationPair {
    /// The language of the text.
    pub from: String,
    /// The language of its translation.
    pub to: String,
    /// The models: one, or two with English between them.
    pub models: Vec<String>,
}

/// Texts that were translated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TranslatedTexts {
    /// Each text with the language that it was in.
    pub texts: Vec<(String, String)>,
    /// The models that were used, with a plus between them; `none` where every text was in the target language.
    pub model: String,
}

struct LoadedTranslation {
    model: Arc<TranslationModel>,
}

impl Resident for LoadedTranslation {
    fn bytes(&self) -> u64 {
        self.model.bytes()
    }
}

struct LoadedDetector {
    detector: LanguageDetector,
    bytes: u64,
}

impl Resident for LoadedDetector {
    fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// The language of a code such as `pt-BR`: `pt`.
pub(crate) fn base_language(code: &str) -> String {
    let code = code.trim().to_lowercase();
    code.split(['-', '_']).next().unwrap_or_default().to_owned()
}

fn unavailable(error: impl std::fmt::Display) -> EngineError {
    EngineError::unavailable(Dependency::Engine, error)
}

impl SpeechEngine {
    fn translation_model(&self, name: &str) -> Result<InUse<LoadedTranslation>, EngineError> {
        let (folder, bytes) = self.folder(name)?;
        // Weights are unpacked to bf16.
        self.get(ModelSpec { name, bytes: 2 * bytes, is_counted: false }, || {
            let model = TranslationModel::load(&self.compute, &folder).map_err(unavailable)?;
            Ok(LoadedTranslation { model: Arc::new(model) })
        })
    }

    fn detector(&self) -> Result<InUse<LoadedDetector>, EngineError> {
        let name = self.name_for(ModelRole::LanguageIdentification)?;
        let (folder, bytes) = self.folder(name)?;
        self.get(ModelSpec { name, bytes, is_counted: false }, || {
            let detector = LanguageDetector::load(&folder.join(LID_FILE)).map_err(unavailable)?;
            Ok(LoadedDetector { detector, bytes })
        })
    }

    /// Translates texts that are all in one language.
    fn translate_pair(
        &self,
        texts: &[&str],
        pair: &TranslationPair,
        cancel: &CancelToken,
    ) -> Result<Vec<String>, EngineError> {
        let loaded = pair.models.iter().map(|name| self.translation_model(name)).collect::<Result<Vec<_>, _>>()?;
        let translator = match &loaded[..] {
            [one] => Translator::direct(Arc::clone(&one.model)),
            [first, second] => Translator::pivot(Arc::clone(&first.model), Arc::clone(&second.model)),
            _ => return Err(EngineError::Failed("a pair of languages without a model".to_owned())),
        };
        translator.translate(texts, &|| cancel.is_cancelled()).map_err(|error| match error {
            TranslateError::Cancelled => EngineError::Cancelled,
            other => EngineError::Failed(other.to_string()),
        })
    }

    /// The language of each text: `given`, or the most likely one. A text that is too short to tell has the language of all of them together.
    fn languages_of(&self, texts: &[String], given: Option<&str>) -> Result<Vec<String>, EngineError> {
        if let Some(given) = given {
            return Ok(vec![base_language(given); texts.len()]);
        }
        let detector = self.detector()?;
        let detector = &detector.detector;
        let together = detector.detect(&texts.join("\n"));
        let language = |text: &String| {
            let own = detector.detect(text);
            let reliable = own.as_ref().filter(|own| own.is_reliable());
            let found = reliable.or(together.as_ref()).or(own.as_ref());
            found.map(|found| base_language(&found.language)).ok_or(EngineError::NoLanguage)
        };
        texts.iter().map(language).collect()
    }
}

impl Translate for SpeechEngine {
    fn translation_pairs(&self) -> Vec<TranslationPair> {
        let installed = self.options.catalogue.models().iter().filter(|model| self.check_model(&model.name).is_ok());
        let mut pairs: Vec<TranslationPair> = installed
            .filter_map(|model| {
                let pair = model.translates.as_ref()?;
                Some(TranslationPair { from: pair.from.clone(), to: pair.to.clone(), models: vec![model.name.clone()] })
            })
            .collect();
        let direct = pairs.clone();
        for first in direct.iter().filter(|pair| pair.to == PIVOT) {
            for second in direct.iter().filter(|pair| pair.from == PIVOT && pair.to != first.from) {
                if !direct.iter().any(|pair| pair.from == first.from && pair.to == second.to) {
                    let models = [first.models.clone(), second.models.clone()].concat();
                    pairs.push(TranslationPair { from: first.from.clone(), to: second.to.clone(), models });
                }
            }
        }
        pairs.sort();
        pairs
    }

    fn detect_language(&self, text: &str) -> Result<String, EngineError> {
        let found = self.detector()?.detector.detect(text);
        found.map(|found| base_language(&found.language)).ok_or(EngineError::NoLanguage)
    }

    fn translate(
        &self,
        texts: &[String],
        source: Option<&str>,
        target: &str,
        cancel: &CancelToken,
    ) -> Result<TranslatedTexts, EngineError> {
        let pairs = self.translation_pairs();
        let target = base_language(target);
        let mut by_language: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (index, language) in self.languages_of(texts, source)?.into_iter().enumerate() {
            by_language.entry(language).or_default().push(index);
        }
        let mut translated: Vec<(String, String)> = vec![Default::default(); texts.len()];
        let mut models: Vec<String> = Vec::new();
        for (language, indices) in by_language {
            let of_language: Vec<&str> = indices.iter().map(|&index| texts[index].as_str()).collect();
            let done = if language == target {
                of_language.iter().map(|text| (*text).to_owned()).collect()
            } else {
                let pair = pairs.iter().find(|pair| pair.from == language && pair.to == target).ok_or_else(|| {
                    let there = pairs.iter().map(|pair| format!("{} to {}", pair.from, pair.to)).collect();
                    EngineError::NoTranslation { from: language.clone(), to: target.clone(), there }
                })?;
                models.extend(pair.models.iter().cloned());
                self.translate_pair(&of_language, pair, cancel)?
            };
            for (index, text) in indices.into_iter().zip(done) {
                translated[index] = (text, language.clone());
            }
        }
        models.sort();
        models.dedup();
        let model = if models.is_empty() { "none".to_owned() } else { models.join("+") };
        Ok(TranslatedTexts { texts: translated, model })
    }
}
