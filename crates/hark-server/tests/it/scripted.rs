//! Engines without models: a language model that says what a test writes, and embeddings and translations that wait until a test lets them go.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use hark_server::{
    Embed, EmbeddedTexts, EngineError, Engines, InstantEngine, Language, Translate, TranslatedTexts,
    TranslationLanguages,
};
use hark_speech::CancelToken;
use hark_text::model::Event;
use hark_text::{Completion, CompletionRequest, LanguageModel, ModelError};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// A completion that was asked for.
pub(crate) struct Asked {
    pub(crate) request: CompletionRequest,
    /// What the model says is sent here.
    pub(crate) events: UnboundedSender<Event>,
}

impl Asked {
    pub(crate) fn say(&self, text: &str) {
        let _ = self.events.send(Event::Text(text.to_owned()));
    }

    pub(crate) fn end(&self) {
        let _ = self.events.send(Event::End(hark_text::Finish::Stop, hark_text::model::Usage::default()));
    }
}

#[derive(Clone)]
struct Model(UnboundedSender<Arc<Asked>>);

impl LanguageModel for Model {
    fn name(&self) -> &str {
        "scripted"
    }

    fn context_length(&self) -> usize {
        8192
    }

    fn count_tokens(&self, text: &str) -> usize {
        text.len() / 4
    }

    fn complete(&self, request: CompletionRequest) -> Result<Completion, ModelError> {
        let (sender, events) = unbounded_channel();
        let asked = Arc::new(Asked { request, events: sender });
        self.0.send(asked).map_err(|_| ModelError::Busy)?;
        Ok(Completion::new(events))
    }
}

impl Language for Model {
    fn check_language(&self) -> Result<(), EngineError> {
        Ok(())
    }

    fn language_model_name(&self) -> Result<Option<String>, EngineError> {
        Ok(Some(self.name().to_owned()))
    }

    fn language(&self) -> Result<Arc<dyn LanguageModel>, EngineError> {
        Ok(Arc::new(self.clone()))
    }
}

/// An engine with a language model, and what is asked of it.
pub(crate) fn language() -> (Engines, UnboundedReceiver<Arc<Asked>>) {
    let (sender, asked) = unbounded_channel();
    (Engines::from(InstantEngine::default()).with_language(Arc::new(Model(sender))), asked)
}

/// Where calls wait until it is opened.
#[derive(Default)]
pub(crate) struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
    inside: AtomicUsize,
    /// The most calls that were in it at once.
    most: AtomicUsize,
}

impl Gate {
    pub(crate) fn open(&self) {
        *self.is_open.lock().unwrap() = true;
        self.opened.notify_all();
    }

    pub(crate) fn inside(&self) -> usize {
        self.inside.load(Ordering::SeqCst)
    }

    pub(crate) fn most(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }

    fn pass(&self) {
        let inside = self.inside.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(inside, Ordering::SeqCst);
        let is_open = self.is_open.lock().unwrap();
        drop(self.opened.wait_while(is_open, |is_open| !*is_open).unwrap());
        self.inside.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Embeddings of one number. A text that begins with `wait` waits at the gate, one that begins with `fail` fails.
pub(crate) struct Embeddings(pub(crate) Arc<Gate>);

impl Embed for Embeddings {
    fn check_embed(&self) -> Result<(), EngineError> {
        Ok(())
    }

    fn embed_model(&self) -> Result<String, EngineError> {
        Ok("scripted".to_owned())
    }

    fn embed(&self, texts: &[String], _: &CancelToken) -> Result<EmbeddedTexts, EngineError> {
        if texts.iter().any(|text| text.starts_with("wait")) {
            self.0.pass();
        }
        if texts.iter().any(|text| text.starts_with("fail")) {
            return Err(EngineError::Failed("it was told to".to_owned()));
        }
        let vectors = vec![vec![1.0]; texts.len()];
        Ok(EmbeddedTexts { model: "scripted".to_owned(), dimensions: 1, vectors, tokens: texts.len() as u64 })
    }
}

/// Translations into the same words. Whether the caller is still there is not asked.
pub(crate) struct Translations(pub(crate) Arc<Gate>);

impl Translate for Translations {
    fn check_translate(&self) -> Result<(), EngineError> {
        Ok(())
    }

    fn translation_languages(&self) -> TranslationLanguages {
        TranslationLanguages::default()
    }

    fn language_code(&self, code: &str) -> Result<String, EngineError> {
        Ok(code.to_owned())
    }

    fn detect_language(&self, _: &str) -> Result<String, EngineError> {
        Ok("en".to_owned())
    }

    fn translate(
        &self,
        texts: &[String],
        _: Option<&str>,
        _: &str,
        _: u64,
        _: &CancelToken,
    ) -> Result<TranslatedTexts, EngineError> {
        self.0.pass();
        let texts = texts.iter().map(|text| (text.clone(), "en".to_owned())).collect();
        Ok(TranslatedTexts { texts, model: "scripted".to_owned() })
    }
}
