//! `hark translate`: a text, subtitles, a transcript or a recording in another language, on this machine or on a server.

use hark_api::TranslateAnswer;
use hark_server::{SpeechEngine, Translate as _};
use hark_speech::{CancelToken, Compute};
use hark_translate::{Cue, translate_cues};
use serde_json::{Value, json};

use super::{input, subtitles};
use crate::cli::{Common, TranslateArgs};
use crate::config::Config;
use crate::remote::Client;
use crate::{CliError, output, serve};

/// Texts of a call of a server.
const BATCH: usize = 512;

/// Runs the command.
pub(crate) fn run(args: &TranslateArgs, common: &Common) -> Result<(), CliError> {
    let config = Config::load(common)?;
    // A language model that is asked to translate answers on it.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|error| CliError::Failed(format!("no thread can be started: {error}")))?;
    let _context = runtime.enter();
    let mut translate = Translator::new(args, &config)?;
    let file = input::open(&args.file, &config, &Compute::from_options(config.threads, None))?;
    let translated = match file {
        input::File::Text(text) => translate.all(&[&text])?.concat(),
        input::File::Subtitles(text) => {
            let spoken = subtitles::segments(&text).unwrap_or_default();
            translate.set_source(&join(spoken.iter().map(|cue| cue.text.as_str())))?;
            subtitles::translated(&text, |cues| translate.all(cues))?
        }
        input::File::Transcript(transcript) => transcript_in(transcript, &args.to, &mut translate)?,
    };
    output::print(format!("{}\n", translated.trim_end()).into_bytes())
}

/// What translates: a server, or the models on this machine.
struct Translator<'a> {
    args: &'a TranslateArgs,
    /// The language of all texts; without one it is found out for each.
    source: Option<String>,
    client: Option<Client>,
    engine: Option<SpeechEngine>,
}

impl<'a> Translator<'a> {
    fn new(args: &'a TranslateArgs, config: &Config) -> Result<Self, CliError> {
        let client = Client::from_args(&args.remote)?;
        let engine = match client {
            Some(_) => None,
            None => Some(SpeechEngine::new(serve::engine_options(config)?)),
        };
        Ok(Translator { args, source: args.from.clone(), client, engine })
    }

    /// Finds out the language of `text` for all texts that follow, unless it was given. Single cues are too short for that; a server takes the language of a
    /// batch for those.
    fn set_source(&mut self, text: &str) -> Result<(), CliError> {
        if let (None, Some(engine)) = (&self.source, &self.engine) {
            let found = engine.detect_language(text).map_err(|error| CliError::Failed(error.to_string()))?;
            self.source = Some(found);
        }
        Ok(())
    }

    /// The translations of texts, in their order; blank ones stay as they are.
    fn all(&self, texts: &[&str]) -> Result<Vec<String>, CliError> {
        let mut translated: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        let asked: Vec<usize> = (0..texts.len()).filter(|&index| !texts[index].trim().is_empty()).collect();
        for batch in asked.chunks(BATCH) {
            let wanted: Vec<String> = batch.iter().map(|&index| texts[index].to_owned()).collect();
            for (&index, text) in batch.iter().zip(self.batch(wanted)?) {
                translated[index] = text;
            }
        }
        Ok(translated)
    }

    fn batch(&self, texts: Vec<String>) -> Result<Vec<String>, CliError> {
        if let Some(engine) = &self.engine {
            let done = engine.translate(&texts, self.source.as_deref(), &self.args.to, 0, &CancelToken::default());
            let done = done.map_err(|error| CliError::Failed(error.to_string()))?;
            return Ok(done.texts.into_iter().map(|(text, _)| text).collect());
        }
        let client =
            self.client.as_ref().ok_or_else(|| CliError::Failed("there is nothing to translate with".to_owned()))?;
        let body = json!({"texts": texts, "target_language": self.args.to, "source_language": self.source});
        match client.post_json("/v1/translate", &body)? {
            TranslateAnswer::Several { translations, .. } => {
                Ok(translations.into_iter().map(|one| one.translated_text).collect())
            }
            TranslateAnswer::One { translated_text, .. } => Ok(vec![translated_text]),
        }
    }
}

fn join<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    texts.map(str::trim).filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" ")
}

/// A transcript with its segments translated. Words are left out: their times are those of the spoken language.
fn transcript_in(mut transcript: Value, to: &str, translate: &mut Translator<'_>) -> Result<String, CliError> {
    let segments = transcript["segments"].as_array_mut().map(std::mem::take).unwrap_or_default();
    let cues: Vec<Cue<'_>> = segments
        .iter()
        .map(|segment| Cue {
            text: segment["text"].as_str().unwrap_or_default(),
            speaker: segment["speaker"].as_str(),
            start: segment["start"].as_f64().unwrap_or_default(),
            end: segment["end"].as_f64().unwrap_or_default(),
        })
        .collect();
    let language = transcript["language"].as_str().filter(|language| !language.is_empty());
    translate.source = translate.source.take().or(language.map(str::to_owned));
    translate.set_source(&join(cues.iter().map(|cue| cue.text)))?;
    let translated = translate_cues(&cues, |texts| translate.all(texts))?;
    transcript["text"] = Value::String(join(translated.iter().map(String::as_str)));
    transcript["language"] = Value::String(to.to_owned());
    let segments = segments.into_iter().zip(translated).map(|(mut segment, text)| {
        if let Some(fields) = segment.as_object_mut() {
            fields.remove("words");
            fields.insert("text".to_owned(), Value::String(text));
        }
        segment
    });
    transcript["segments"] = Value::Array(segments.collect());
    serde_json::to_string_pretty(&transcript).map_err(|error| CliError::Failed(error.to_string()))
}
