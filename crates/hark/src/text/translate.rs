//! `hark translate`: a text, subtitles, a transcript or a recording in another language, on this machine or on a server.

use hark_api::TranslateAnswer;
use hark_server::{SpeechEngine, Translate as _};
use hark_speech::{CancelToken, Compute};
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
    let translate = Translator::new(args, &config)?;
    let file = input::open(&args.file, &config, &Compute::from_options(config.threads, None))?;
    let translated = match file {
        input::File::Text(text) => translate.all(&[&text])?.concat(),
        input::File::Subtitles(text) => subtitles::translated(&text, |cues| translate.all(cues))?,
        input::File::Transcript(transcript) => transcript_in(transcript, &args.to, &translate)?,
    };
    output::print(format!("{}\n", translated.trim_end()).into_bytes())
}

/// What translates: a server, or the models on this machine.
struct Translator<'a> {
    args: &'a TranslateArgs,
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
        Ok(Translator { args, client, engine })
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
            let source = self.args.from.as_deref();
            let done = engine.translate(&texts, source, &self.args.to, &CancelToken::default());
            let done = done.map_err(|error| CliError::Failed(error.to_string()))?;
            return Ok(done.texts.into_iter().map(|(text, _)| text).collect());
        }
        let client =
            self.client.as_ref().ok_or_else(|| CliError::Failed("there is nothing to translate with".to_owned()))?;
        let body = json!({"texts": texts, "target_language": self.args.to, "source_language": self.args.from});
        match client.post_json("/v1/translate", &body)? {
            TranslateAnswer::Several { translations, .. } => {
                Ok(translations.into_iter().map(|one| one.translated_text).collect())
            }
            TranslateAnswer::One { translated_text, .. } => Ok(vec![translated_text]),
        }
    }
}

/// A transcript with its segments translated. Words are left out: their times are those of the spoken language.
fn transcript_in(mut transcript: Value, to: &str, translate: &Translator<'_>) -> Result<String, CliError> {
    let segments = transcript["segments"].as_array_mut().map(std::mem::take).unwrap_or_default();
    let texts: Vec<String> =
        segments.iter().map(|segment| segment["text"].as_str().unwrap_or_default().to_owned()).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let translated = translate.all(&texts)?;
    transcript["text"] = Value::String(translated.iter().map(|text| text.trim()).collect::<Vec<_>>().join(" "));
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
