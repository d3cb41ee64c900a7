//! OpenAI's forms, parsed into the same request as `POST /v1/transcribe`.

use hark_api::{OpenAiFormat, OpenAiGranularity};

use super::layout::Layout;
use crate::config::Config;
use crate::error::Failure;
use crate::routes::transcribe::{Fields, Form, ParsedForm, boolean, put};
use crate::routes::upload::FormFields;

/// The default model name; an operator may map it to a model in `hark.toml`.
const DEFAULT_MODEL: &str = "whisper-1";

/// The fields received so far of a form of `POST /v1/audio/transcriptions`.
#[derive(Debug, Default)]
pub(crate) struct TranscriptionFields {
    /// Fields that are the same in both APIs.
    shared: Fields,
    has_model: bool,
    format: Option<OpenAiFormat>,
    temperature: Option<f32>,
    granularities: Vec<OpenAiGranularity>,
    stream: Option<bool>,
    keywords: Vec<String>,
    languages: Vec<String>,
}

impl FormFields for TranscriptionFields {
    fn longest(name: &str) -> Option<usize> {
        match list_name(name) {
            "model" | "language" | "prompt" | "channels" | "response_format" => Fields::longest(name),
            "temperature" | "timestamp_granularities" | "stream" | "languages" => Some(200),
            "keywords" => Fields::longest("hotwords"),
            _ => None,
        }
    }

    fn set(&mut self, name: &str, value: String, config: &Config) -> Result<(), Failure> {
        let text = value.trim();
        match list_name(name) {
            "response_format" => put(&mut self.format, name, format(text)?),
            "temperature" => put(&mut self.temperature, name, temperature(text)?),
            "stream" => put(&mut self.stream, name, boolean(name, text)?),
            "timestamp_granularities" => {
                self.granularities.push(granularity(text)?);
                Ok(())
            }
            "keywords" => {
                self.keywords.push(text.to_owned());
                Ok(())
            }
            "languages" => {
                self.languages.push(text.to_owned());
                Ok(())
            }
            "model" | "language" | "prompt" | "channels" => {
                self.has_model |= name == "model" && !text.is_empty();
                self.shared.set(name, value, config)
            }
            _ => Ok(()),
        }
    }
}

impl Form for TranscriptionFields {
    type Layout = Layout;
    const OPERATION: &'static str = "POST /v1/audio/transcriptions";

    fn parsed(mut self) -> Result<ParsedForm<Layout>, Failure> {
        let config = Config::default();
        if !self.keywords.is_empty() {
            self.shared.set("hotwords", self.keywords.join(", "), &config)?;
        }
        let form = self.shared.parsed()?;
        let mut work = form.work;
        if !self.has_model {
            work.model = DEFAULT_MODEL.to_owned();
        }
        // A single candidate is the language; among several it is detected.
        if let ([only], None) = (self.languages.as_slice(), &work.language) {
            let mut alone = Fields::default();
            alone.set("language", only.clone(), &config)?;
            work.language = alone.parsed()?.work.language;
        }
        work.temperature = self.temperature;
        let format = self.format.unwrap_or_default();
        // The other formats have no field for speakers.
        work.diarize = format == OpenAiFormat::DiarizedJson;
        let stream = self.stream.unwrap_or(false);
        if stream && !matches!(format, OpenAiFormat::Json | OpenAiFormat::Text) {
            return Err(Failure::invalid("`stream` goes with the response_format json or text"));
        }
        if !self.granularities.is_empty() && format != OpenAiFormat::VerboseJson {
            return Err(Failure::invalid("`timestamp_granularities[]` needs the response_format verbose_json"));
        }
        let has = |wanted: OpenAiGranularity| self.granularities.contains(&wanted);
        let layout = Layout {
            format,
            stream,
            translated: false,
            temperature: self.temperature.unwrap_or(0.0),
            words: has(OpenAiGranularity::Word),
            segments: has(OpenAiGranularity::Segment) || self.granularities.is_empty(),
        };
        Ok(ParsedForm { work, layout, webhook_url: None })
    }
}

/// The fields received so far of a form of `POST /v1/audio/translations`.
#[derive(Debug, Default)]
pub(crate) struct TranslationFields(TranscriptionFields);

impl FormFields for TranslationFields {
    fn longest(name: &str) -> Option<usize> {
        match name {
            "model" | "prompt" | "channels" | "response_format" | "temperature" => TranscriptionFields::longest(name),
            _ => None,
        }
    }

    fn set(&mut self, name: &str, value: String, config: &Config) -> Result<(), Failure> {
        self.0.set(name, value, config)
    }
}

impl Form for TranslationFields {
    type Layout = Layout;
    const OPERATION: &'static str = "POST /v1/audio/translations";

    fn parsed(self) -> Result<ParsedForm<Layout>, Failure> {
        let mut form = self.0.parsed()?;
        form.work.translate = true;
        form.layout.translated = true;
        Ok(form)
    }
}

/// Lists are sent as one field per value; some clients append brackets to the name.
fn list_name(name: &str) -> &str {
    name.strip_suffix("[]").unwrap_or(name)
}

fn format(text: &str) -> Result<OpenAiFormat, Failure> {
    match text {
        "json" => Ok(OpenAiFormat::Json),
        "text" => Ok(OpenAiFormat::Text),
        "srt" => Ok(OpenAiFormat::Srt),
        "verbose_json" => Ok(OpenAiFormat::VerboseJson),
        "vtt" => Ok(OpenAiFormat::Vtt),
        "diarized_json" => Ok(OpenAiFormat::DiarizedJson),
        _ => Err(Failure::invalid(format!(
            "`response_format` is {text:?}: give json, text, srt, verbose_json, vtt or diarized_json"
        ))),
    }
}

fn temperature(text: &str) -> Result<f32, Failure> {
    let number = text.parse().ok().filter(|number| (0.0..=1.0).contains(number));
    number.ok_or_else(|| Failure::invalid(format!("`temperature` is {text:?}: give a number from 0 to 1")))
}

fn granularity(text: &str) -> Result<OpenAiGranularity, Failure> {
    match text {
        "word" => Ok(OpenAiGranularity::Word),
        "segment" => Ok(OpenAiGranularity::Segment),
        _ => Err(Failure::invalid(format!("`timestamp_granularities[]` is {text:?}: give word or segment"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<F: Form<Layout = Layout>>(pairs: &[(&str, &str)]) -> Result<ParsedForm<Layout>, String> {
        let mut fields = F::default();
        for (name, value) in pairs {
            let is_read = F::longest(name).is_some();
            if is_read {
                let done = fields.set(name, (*value).to_owned(), &Config::default());
                done.map_err(|failure| failure.error.to_string())?;
            }
        }
        fields.parsed().map_err(|failure| failure.error.to_string())
    }

    #[test]
    fn lists_are_read_with_and_without_brackets() {
        for name in ["timestamp_granularities[]", "timestamp_granularities"] {
            let fields = [("response_format", "verbose_json"), (name, "word"), (name, "segment")];
            let layout = read::<TranscriptionFields>(&fields).unwrap().layout;
            assert!(layout.words && layout.segments, "{name}");
        }
        let only_words = [("response_format", "verbose_json"), ("timestamp_granularities[]", "word")];
        assert!(!read::<TranscriptionFields>(&only_words).unwrap().layout.segments);
        let fields = [("keywords[]", "Hark"), ("keywords[]", "Whisper"), ("languages[]", "de")];
        let work = read::<TranscriptionFields>(&fields).unwrap().work;
        assert_eq!((work.hotwords.as_deref(), work.language.as_deref()), (Some("Hark, Whisper"), Some("de")));
        assert_eq!(
            read::<TranscriptionFields>(&[("languages[]", "de"), ("languages[]", "en")]).unwrap().work.language,
            None
        );
    }

    #[test]
    fn a_translation_writes_english_whatever_else_the_form_says() {
        let form = read::<TranslationFields>(&[("stream", "true"), ("temperature", "0.2")]).unwrap();
        assert!(form.work.translate && form.layout.translated && !form.layout.stream);
        assert_eq!((form.work.temperature, form.work.model.as_str()), (Some(0.2), "whisper-1"));
    }

    #[test]
    fn values_that_make_no_sense_are_refused_by_name() {
        for (name, value) in [
            ("response_format", "txt"),
            ("temperature", "1.1"),
            ("temperature", "NaN"),
            ("stream", "maybe"),
            ("timestamp_granularities[]", "word"),
            ("timestamp_granularities[]", "letter"),
            ("languages[]", "klingon"),
            ("language", "klingon"),
        ] {
            let error = read::<TranscriptionFields>(&[(name, value)]).unwrap_err();
            let field = name.replace("languages[]", "language");
            assert!(error.starts_with(&format!("`{field}`")), "{error}");
        }
        assert!(read::<TranscriptionFields>(&[("stream", "true"), ("response_format", "srt")]).is_err());
    }
}
