//! Translation models of the engine, and language identification.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use hark_models::{Model, Role as ModelRole};
use hark_speech::CancelToken;
use hark_text::{Context, LanguageModel, ModelError, TextError};
use hark_transcript::Lane;
use hark_translate::{
    LanguageDetector, MultilingualModel, SentenceModel, TranslateError, TranslationModel, Translator, languages,
};

use super::registry::{InUse, ModelSpec, Resident};
use super::turns::Turns;
use super::{Dependency, EngineError, Language as _, SpeechEngine, Translate};

/// The file of the language identification model in its folder.
const LID_FILE: &str = "lid.176.ftz";
/// The format of Firefox's models.
const STUDENTS: &str = "marian";
/// The language between two others for which there is no model of their own.
const PIVOT: &str = "en";
/// Languages that a language model of which nothing is known is asked to translate between.
const COMMON_LANGUAGES: [&str; 10] = ["de", "en", "es", "fr", "it", "ja", "nl", "pt", "ru", "zh"];
/// The name of a language model behind an endpoint that was not asked for it yet.
const ENDPOINT: &str = "endpoint";
/// Most tokens of a sentence that a language model is asked to translate.
const ASKED_TOKENS: usize = 160;
/// Calls that translate at once: the workspaces of so many are counted.
pub(crate) const TRANSLATIONS_AT_ONCE: usize = 4;
/// What a call takes beside the weights of a model of one pair: Firefox's (its whole process was measured at 65 MB), and OPUS-MT's with its caches of beams.
const STUDENT_WORKSPACE: u64 = 32 << 20;
const PAIR_WORKSPACE: u64 = 128 << 20;
/// The same for a model of many languages: keys and values of a batch of 512 tokens and of its translation, 256 KiB each at three billion parameters.
const MULTILINGUAL_WORKSPACE: u64 = 384 << 20;
/// Sentences that a model of many languages translates before another call has its turn.
const TURN_SENTENCES: usize = 64;
/// How often a caller who left is looked for while a language model answers.
const CANCEL_INTERVAL: Duration = Duration::from_millis(100);

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

/// A model between any two of its languages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MultilingualTranslation {
    /// The model.
    pub model: String,
    /// Whether it is the language model, which is asked to translate.
    pub is_language_model: bool,
    /// The codes of its languages.
    pub languages: Vec<String>,
}

/// What an engine translates.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TranslationLanguages {
    /// By models of one pair, or two of them with English between.
    pub pairs: Vec<TranslationPair>,
    /// By models of many languages, which serve what no pair does; the language model last.
    pub multilingual: Vec<MultilingualTranslation>,
}

/// The models that translate from one language into another.
enum Route<'a> {
    Pair(&'a TranslationPair),
    Multilingual { model: &'a str, target: &'a str },
    LanguageModel { model: &'a str },
}

/// Texts that were translated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TranslatedTexts {
    /// Each text with the language that it was in.
    pub texts: Vec<(String, String)>,
    /// The models that were used, with a plus between them; `none` where every text was in the target language.
    pub model: String,
}

impl TranslationLanguages {
    /// The codes of all target languages.
    pub fn targets(&self) -> BTreeSet<String> {
        let many = self.multilingual.iter().flat_map(|model| &model.languages);
        self.pairs.iter().map(|pair| &pair.to).chain(many).cloned().collect()
    }

    /// A code as the models spell it: `zh-hant` as `zh_Hant` where one knows that, else the language alone.
    fn code(&self, code: &str) -> Result<String, EngineError> {
        let code = code.trim();
        let spelled = code.replace('-', "_");
        let mut known = self.multilingual.iter().flat_map(|model| &model.languages);
        if let Some(known) = known.find(|known| known.eq_ignore_ascii_case(&spelled)) {
            return Ok(known.clone());
        }
        let base = base_language(code);
        let is_known =
            languages::find(&base).is_some() || self.pairs.iter().any(|pair| pair.from == base || pair.to == base);
        match hark_whisper::languages::find(&base) {
            Some(spoken) => Ok(spoken.code.to_owned()),
            None if is_known => Ok(base),
            None => Err(EngineError::UnknownLanguage(code.to_owned())),
        }
    }

    fn route(&self, from: &str, to: &str) -> Option<Route<'_>> {
        // Models of one pair know nothing of scripts and regions.
        let pair = self.pairs.iter().find(|pair| pair.from == base_language(from) && pair.to == to);
        let many = || {
            self.multilingual.iter().find_map(|model| {
                let target = model.languages.iter().find(|language| *language == to)?;
                let source = base_language(from);
                let knows_source = model.languages.iter().any(|language| base_language(language) == source);
                knows_source.then_some(match model.is_language_model {
                    true => Route::LanguageModel { model: &model.model },
                    false => Route::Multilingual { model: &model.model, target },
                })
            })
        };
        pair.map(Route::Pair).or_else(many)
    }

    /// What is translated, in words.
    fn describe(&self) -> Vec<String> {
        let pairs = self.pairs.iter().map(|pair| format!("{} to {}", pair.from, pair.to));
        let many = self.multilingual.iter();
        pairs
            .chain(many.map(|model| format!("between {} languages by {}", model.languages.len(), model.model)))
            .collect()
    }
}

struct LoadedTranslation {
    model: Arc<TranslationModel>,
    /// Of all calls.
    workspace: u64,
}

impl Resident for LoadedTranslation {
    fn bytes(&self) -> u64 {
        self.model.bytes() + self.workspace
    }
}

struct LoadedMultilingual {
    model: Arc<MultilingualModel>,
    /// One call computes at a time: its workspace is as large as a small model.
    turns: Arc<Turns>,
}

impl Resident for LoadedMultilingual {
    fn bytes(&self) -> u64 {
        self.model.bytes() + MULTILINGUAL_WORKSPACE
    }
}

/// A model whose calls take turns.
struct InTurns<M> {
    model: M,
    turns: Arc<Turns>,
}

impl<M: SentenceModel> SentenceModel for InTurns<M> {
    fn max_tokens(&self) -> usize {
        self.model.max_tokens()
    }

    fn count_tokens(&self, text: &str) -> usize {
        self.model.count_tokens(text)
    }

    fn knows(&self, character: char) -> bool {
        self.model.knows(character)
    }

    fn translate_sentences(
        &self,
        sentences: &[&str],
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Vec<String>, TranslateError> {
        let mut translated = Vec::with_capacity(sentences.len());
        for some in sentences.chunks(TURN_SENTENCES) {
            let _turn = self.turns.take(is_cancelled).ok_or(TranslateError::Cancelled)?;
            translated.extend(self.model.translate_sentences(some, is_cancelled)?);
        }
        Ok(translated)
    }
}

pub(super) struct LoadedDetector {
    pub(super) detector: LanguageDetector,
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
    /// The translation models that are installed; reads no files.
    fn translation_models(&self) -> impl Iterator<Item = &Model> {
        let models = self.options.catalogue.models().iter();
        models.filter(|model| model.role == ModelRole::Translation && self.check_model(&model.name).is_ok())
    }

    fn translation_model(&self, name: &str) -> Result<InUse<LoadedTranslation>, EngineError> {
        let (folder, bytes) = self.folder(name)?;
        // int8 weights of Firefox's models are unpacked to bf16, floats of others packed as that.
        let is_int8 = self.options.models.installed(name).is_some_and(|model| model.format == STUDENTS);
        let (weights, of_call) = if is_int8 { (2 * bytes, STUDENT_WORKSPACE) } else { (bytes, PAIR_WORKSPACE) };
        let workspace = of_call * TRANSLATIONS_AT_ONCE as u64;
        self.get(ModelSpec { name, bytes: weights + workspace, is_counted: false }, || {
            let model = TranslationModel::load(&self.compute, &folder).map_err(unavailable)?;
            Ok(LoadedTranslation { model: Arc::new(model), workspace })
        })
    }

    fn multilingual_model(&self, name: &str) -> Result<InUse<LoadedMultilingual>, EngineError> {
        let (folder, bytes) = self.folder(name)?;
        // Quantized weights stay as they are, floats become bf16.
        self.get(ModelSpec { name, bytes: bytes + MULTILINGUAL_WORKSPACE, is_counted: false }, || {
            let model = MultilingualModel::load(&self.compute, &folder).map_err(unavailable)?;
            Ok(LoadedMultilingual { model: Arc::new(model), turns: Arc::default() })
        })
    }

    /// The languages of a multilingual model, by its tokenizer, which is read once.
    fn languages_of_model(&self, name: &str) -> Result<Vec<String>, EngineError> {
        let mut known = self.translation_codes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(languages) = known.get(name) {
            return Ok(languages.clone());
        }
        let (folder, _) = self.folder(name)?;
        let languages = MultilingualModel::languages_in(&folder).map_err(unavailable)?;
        known.insert(name.to_owned(), languages.clone());
        Ok(languages)
    }

    /// The model of language identification.
    pub(super) fn detector(&self) -> Result<InUse<LoadedDetector>, EngineError> {
        let name = self.name_for(ModelRole::LanguageIdentification)?;
        let (folder, bytes) = self.folder(name)?;
        self.get(ModelSpec { name, bytes, is_counted: false }, || {
            let detector = LanguageDetector::load(&folder.join(LID_FILE)).map_err(unavailable)?;
            Ok(LoadedDetector { detector, bytes })
        })
    }

    /// What the language model translates between; `None` where it is not installed or not used for that.
    fn language_model_translation(&self) -> Option<MultilingualTranslation> {
        self.check_language().ok()?;
        let name = self.language_model_name().ok()?;
        let in_catalogue = name.as_deref().and_then(|name| self.options.catalogue.get(name));
        let known = in_catalogue.filter(|_| self.options.language.endpoint.is_none());
        let languages = match (&self.options.language.translation_languages, known) {
            (Some(languages), _) => languages.clone(),
            (None, Some(model)) => model.translation_languages.clone(),
            (None, None) => COMMON_LANGUAGES.map(str::to_owned).to_vec(),
        };
        let model = name.unwrap_or_else(|| ENDPOINT.to_owned());
        (!languages.is_empty()).then_some(MultilingualTranslation { model, is_language_model: true, languages })
    }

    /// Translates texts that are all in one language; the models stay loaded meanwhile.
    fn translate_by(
        &self,
        texts: &[&str],
        (route, from, to): (&Route<'_>, &str, &str),
        owner: u64,
        cancel: &CancelToken,
    ) -> Result<Vec<String>, EngineError> {
        let (mut pair, mut many) = (Vec::new(), None);
        let models: Vec<Arc<dyn SentenceModel>> = match route {
            Route::Pair(wanted) => {
                for name in &wanted.models {
                    pair.push(self.translation_model(name)?);
                }
                pair.iter().map(|loaded| Arc::clone(&loaded.model) as Arc<dyn SentenceModel>).collect()
            }
            Route::Multilingual { model, target } => {
                let loaded = many.insert(self.multilingual_model(model)?);
                let into = loaded.model.into_language(target);
                let into = into.ok_or_else(|| EngineError::Failed(format!("{model} does not know {target}")))?;
                vec![Arc::new(InTurns { model: into, turns: Arc::clone(&loaded.turns) })]
            }
            Route::LanguageModel { .. } => vec![Arc::new(AskedModel::new(self.language()?, from, to, owner)?)],
        };
        Translator::chain(models).translate(texts, &|| cancel.is_cancelled()).map_err(|error| match error {
            TranslateError::Cancelled => EngineError::Cancelled,
            TranslateError::Model(error) => match error.downcast::<TextError>() {
                Ok(error) => text_failure(*error),
                Err(error) => EngineError::Failed(error.to_string()),
            },
            other => EngineError::Failed(other.to_string()),
        })
    }

    /// The language of each text: `given`, or the most likely one. A text that is too short to tell has the language of all of them together.
    fn languages_of(&self, texts: &[String], given: Option<String>) -> Result<Vec<String>, EngineError> {
        if let Some(given) = given {
            return Ok(vec![given; texts.len()]);
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

/// The language model, asked to translate from one language into another.
struct AskedModel {
    model: Arc<dyn LanguageModel>,
    from: String,
    to: String,
    owner: u64,
    /// Answers are awaited here.
    runtime: tokio::runtime::Handle,
}

impl AskedModel {
    fn new(model: Arc<dyn LanguageModel>, from: &str, to: &str, owner: u64) -> Result<Self, EngineError> {
        let name = |code: &str| match languages::find(code) {
            Some(language) => Ok(language.name.to_owned()),
            None => Err(EngineError::UnknownLanguage(code.to_owned())),
        };
        let runtime = tokio::runtime::Handle::try_current()
            .map_err(|error| EngineError::Failed(format!("a language model needs the runtime: {error}")))?;
        Ok(AskedModel { model, from: name(from)?, to: name(to)?, owner, runtime })
    }
}

impl SentenceModel for AskedModel {
    fn max_tokens(&self) -> usize {
        ASKED_TOKENS
    }

    fn count_tokens(&self, text: &str) -> usize {
        self.model.count_tokens(text)
    }

    fn knows(&self, _: char) -> bool {
        true
    }

    fn translate_sentences(
        &self,
        sentences: &[&str],
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Vec<String>, TranslateError> {
        let context = Context::new(&*self.model, self.owner, Lane::Interactive);
        self.runtime.block_on(async {
            let cancelled = async {
                while !is_cancelled() {
                    tokio::time::sleep(CANCEL_INTERVAL).await;
                }
            };
            tokio::select! {
                translated = hark_text::translate(&context, sentences, &self.from, &self.to) => {
                    translated.map_err(|error| TranslateError::Model(Box::new(error)))
                }
                () = cancelled => Err(TranslateError::Cancelled),
            }
        })
    }
}

fn text_failure(error: TextError) -> EngineError {
    match error {
        TextError::Model(ModelError::Busy | ModelError::Unavailable(_)) | TextError::ContextTooSmall { .. } => {
            unavailable(error)
        }
        other => EngineError::Failed(other.to_string()),
    }
}

impl Translate for SpeechEngine {
    fn check_translate(&self) -> Result<(), EngineError> {
        let is_there = self.translation_models().next().is_some() || self.language_model_translation().is_some();
        if is_there { Ok(()) } else { Err(EngineError::NoTranslationModel) }
    }

    fn translation_languages(&self) -> TranslationLanguages {
        let mut pairs: Vec<TranslationPair> = self
            .translation_models()
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
        let many = self.translation_models().filter(|model| model.multilingual);
        let multilingual = many.filter_map(|model| match self.languages_of_model(&model.name) {
            Ok(languages) => {
                Some(MultilingualTranslation { model: model.name.clone(), is_language_model: false, languages })
            }
            Err(error) => {
                tracing::error!(%error, model = model.name, "translate.tokenizer_unreadable");
                None
            }
        });
        TranslationLanguages { pairs, multilingual: multilingual.chain(self.language_model_translation()).collect() }
    }

    fn language_code(&self, code: &str) -> Result<String, EngineError> {
        self.translation_languages().code(code)
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
        owner: u64,
        cancel: &CancelToken,
    ) -> Result<TranslatedTexts, EngineError> {
        let known = self.translation_languages();
        let target = known.code(target)?;
        let source = source.map(|source| known.code(source)).transpose()?;
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
                let route = known.route(&language, &target).ok_or_else(|| EngineError::NoTranslation {
                    from: language.clone(),
                    to: target.clone(),
                    there: known.describe(),
                })?;
                match &route {
                    Route::Pair(pair) => models.extend(pair.models.iter().cloned()),
                    Route::Multilingual { model, .. } | Route::LanguageModel { model } => {
                        models.push((*model).to_owned());
                    }
                }
                self.translate_by(&of_language, (&route, &language, &target), owner, cancel)?
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

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> TranslationLanguages {
        let pair = |from: &str, to: &str, models: &[&str]| TranslationPair {
            from: from.to_owned(),
            to: to.to_owned(),
            models: models.iter().map(|model| (*model).to_owned()).collect(),
        };
        let languages = ["de", "en", "fr_CA", "pt", "zh", "zh_Hant"].map(str::to_owned).to_vec();
        TranslationLanguages {
            pairs: vec![pair("en", "pt", &["en-pt"])],
            multilingual: vec![
                MultilingualTranslation { model: "many".to_owned(), is_language_model: false, languages },
                MultilingualTranslation {
                    model: "asked".to_owned(),
                    is_language_model: true,
                    languages: ["de", "en", "ko"].map(str::to_owned).to_vec(),
                },
            ],
        }
    }

    fn model(from: &str, to: &str) -> Option<String> {
        known().route(from, to).map(|route| match route {
            Route::Pair(pair) => pair.models.join("+"),
            Route::Multilingual { model, target } => format!("{model} into {target}"),
            Route::LanguageModel { model } => model.to_owned(),
        })
    }

    #[test]
    fn a_pair_comes_before_a_model_of_many_languages() {
        assert_eq!(model("en", "pt").as_deref(), Some("en-pt"));
        assert_eq!(model("pt", "en").as_deref(), Some("many into en"));
        assert_eq!(model("fr", "zh_Hant").as_deref(), Some("many into zh_Hant"));
        assert_eq!(model("en", "ja"), None);
        assert_eq!(model("ja", "en"), None);
        assert_eq!(model("de", "ko").as_deref(), Some("asked"), "the language model comes last");
        assert_eq!(model("en", "de").as_deref(), Some("many into de"));
        assert_eq!(model("fr", "ko"), None);
    }

    #[test]
    fn codes_are_spelled_as_the_models_do_and_unknown_ones_refused() {
        let known = known();
        let code = |code: &str| known.code(code).map_err(|error| error.to_string());
        assert_eq!(code("zh-hant").as_deref(), Ok("zh_Hant"));
        assert_eq!(code("PT-br").as_deref(), Ok("pt"));
        assert_eq!(code("ja").as_deref(), Ok("ja"));
        assert_eq!(code("English").as_deref(), Ok("en"));
        assert_eq!(code("haw").as_deref(), Ok("haw"));
        assert!(code("xx").unwrap_err().contains("\"xx\" is the code of no language"));
        assert!(code("").is_err() && code("klingon").is_err());
    }
}
